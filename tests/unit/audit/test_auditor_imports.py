"""The auditor stands alone: nothing of the code that builds releases is imported, by any of its modules."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import trigpoint.audit

FOLDER = Path(trigpoint.audit.__file__).parent
THIRD_PARTY = {"numpy", "scipy", "rasterio", "shapely", "pyproj", "pyarrow", "pycocotools", "yaml"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_a_module_of_the_auditor_imports_only_itself_and_third_parties(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module)

    for name in names:
        top = name.split(".")[0]
        assert name.startswith("trigpoint.audit") or top in THIRD_PARTY or top in sys.stdlib_module_names, name


def test_importing_the_auditor_loads_nothing_else_of_trigpoint():
    code = "import sys, trigpoint.audit; print(*sorted(m for m in sys.modules if m.startswith('trigpoint')))"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert [name for name in loaded if name != "trigpoint" and not name.startswith("trigpoint.audit")] == []
