"""docs/audit.md explains every code that the auditor can say, and no other."""

import ast
import re
from pathlib import Path

import trigpoint.audit

FOLDER = Path(trigpoint.audit.__file__).parent
DOCUMENT = Path(__file__).parents[3] / "docs" / "audit.md"
NAMED_INDIRECTLY = re.compile(
    r"^(edge_(opposite|missing|extra|verdict)|obb_\w+|gsd_(nominal|wrong)|(rectangle|orientation|pixel_area|scale|convergence|image_up)_wrong|"
    r"(annotation|item)_unreadable)$"
)
"""Codes that a variable holds when they are noted."""


def codes_said():
    codes = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                first = node.args[0] if node.args else None
                if (
                    name in ("add", "guard", "note", "_note_pairs")
                    and isinstance(first, ast.Constant)
                    and re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", str(first.value))
                ):
                    codes.add(first.value)
            if isinstance(node, ast.Constant) and NAMED_INDIRECTLY.match(str(node.value)) and node.value != "obb_px":
                codes.add(node.value)
    return codes


def test_every_code_is_documented_and_no_other():
    text = DOCUMENT.read_text(encoding="utf-8").partition("## Codes")[2]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]

    assert sorted(code for row in rows for code in re.findall(r"`(\w+)`", row)) == sorted(codes_said())
