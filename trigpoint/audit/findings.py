"""What the auditor says: findings, the report, and the notebook that checks write into.

Not here: any check. A check asks a question of the release and notes what differs; nothing else decides what is an error.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

AUDIT_VERSION = 6
"""Version of the report's shape and of the set of checks."""

Severity = Literal["error", "warning"]


class AuditError(Exception):
    """The folder cannot be audited at all: its manifest.json is missing or unreadable."""


@dataclass(frozen=True, order=True)
class Finding:
    """One difference between what a release says and what its files give.

    Attributes:
        code: Short snake_case name of the fault; docs/audit.md explains each.
        file: Path in the release, `/` separated; the file that holds the wrong statement.
        item: Id of the scene, instance, pair, query or key concerned; empty when it is the whole file.
        expected: What the auditor derived (with unit).
        found: What the release says.
        severity: `error`, or `warning` for what a reader should know but which makes no answer wrong.
    """

    code: str
    file: str
    item: str
    expected: str
    found: str
    severity: Severity = "error"

    def to_json(self) -> dict[str, str]:
        """Return the finding as a JSON object."""
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            "item": self.item,
            "expected": self.expected,
            "found": self.found,
        }


@dataclass(frozen=True)
class AuditReport:
    """Everything one audit found, and what it looked at.

    Attributes:
        manifest_sha256: Digest of the manifest.json that was audited.
        findings: All of them, sorted by code, file and item.
        checks: Check name → number of items that were looked at.
        not_certified: Sentences on what no machine check covers.
    """

    manifest_sha256: str
    findings: tuple[Finding, ...]
    checks: dict[str, int]
    not_certified: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the content of audit.json: no time, no path outside the release, fixed order."""
        return {
            "audit_version": AUDIT_VERSION,
            "manifest_sha256": self.manifest_sha256,
            "findings": [finding.to_json() for finding in self.findings],
            "checks": [{"check": name, "items": self.checks[name]} for name in sorted(self.checks)],
            "not_certified": list(self.not_certified),
        }

    def to_text(self) -> str:
        """Return audit.json as text: sorted keys, two spaces, one line feed at the end."""
        return json.dumps(self.to_json(), sort_keys=True, indent=2, ensure_ascii=False) + "\n"


@dataclass
class Notebook:
    """Collects findings and counts while the checks run.

    Attributes:
        hidden: Text (the release's and the sources' own paths) that must not appear in a finding.
    """

    hidden: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list[Finding])
    checks: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, code: str, file: str, item: object, expected: object, found: object, severity: Severity = "error") -> None:
        """Note one finding."""
        self.findings.append(Finding(code, file, self.write(item), self.write(expected), self.write(found), severity))

    def count(self, check: str, items: int = 1) -> None:
        """Say that `items` more things were looked at by `check`."""
        self.checks[check] = self.checks.get(check, 0) + int(items)

    @contextmanager
    def guard(self, code: str, file: str, item: object = "", expected: str = "readable and well formed") -> Generator[None]:
        """Turn whatever goes wrong inside into one finding: a damaged item never stops the audit."""
        try:
            yield
        except Exception as problem:  # any exception: the file is not ours, so neither are its faults
            self.add(code, file, item, expected, f"{type(problem).__name__}: {problem}")

    def write(self, value: object) -> str:
        """Write a value for people: floats with nine digits, paths of this machine taken out, at most 500 characters."""
        if isinstance(value, str):
            text = value
        elif isinstance(value, float):
            text = f"{value:.9g}"
        elif isinstance(value, dict | list | tuple):
            text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
        else:
            text = str(value)
        for path in self.hidden:
            text = text.replace(path, "<release>")
        text = text.encode("utf-8", "backslashreplace").decode()
        return text if len(text) <= 500 else text[:497] + "..."

    def report(self, manifest_sha256: str, not_certified: tuple[str, ...]) -> AuditReport:
        """Close the notebook: the findings sorted and each once."""
        return AuditReport(manifest_sha256, tuple(sorted(set(self.findings))), dict(sorted(self.checks.items())), not_certified)
