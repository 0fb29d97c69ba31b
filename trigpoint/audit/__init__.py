"""The auditor: reads a release as a stranger would and says what does not hold.

It imports the standard library and third-party packages alone, never the code that builds releases (a test enforces it): its
outlines, calipers, relations, program resolver and sentence parser are its own, written from the documents. That duplication is
deliberate: a fault in one implementation does not hide in the other.
"""

from trigpoint.audit.auditing import audit_release
from trigpoint.audit.findings import AUDIT_VERSION, AuditError, AuditReport, Finding

__all__ = ["AUDIT_VERSION", "AuditError", "AuditReport", "Finding", "audit_release"]
