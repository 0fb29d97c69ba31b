"""The house rules that no type checker sees."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FLOW_FILES = [p for p in sorted((ROOT / "flows").glob("*.py")) if p.stem != "__init__"]
ENTRYPOINTS = sorted({d["entrypoint"] for d in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]})
PYTHON_FILES = [p for folder in ("trigpoint", "storage", "tasks", "flows") for p in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("name", ["trigpoint", "storage", "tasks", "flows"])
def test_package_is_ours_and_not_one_from_site_packages(name: str) -> None:
    spec = importlib.util.find_spec(name)

    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).is_relative_to(ROOT)


@pytest.mark.parametrize("path", FLOW_FILES, ids=lambda p: p.stem)
def test_flow_file_takes_no_other_modules_name(path: Path) -> None:
    # Prefect registers flows/x.py as top-level module x and leaves flows/ first on sys.path
    assert path.stem not in sys.stdlib_module_names
    spec = importlib.util.find_spec(path.stem)
    assert spec is None or spec.origin == str(path)


def test_flow_file_and_flow_function_share_a_name() -> None:
    for entrypoint in ENTRYPOINTS:
        file, function = entrypoint.split(":")
        assert Path(file).stem == function


@pytest.mark.parametrize("path", FLOW_FILES, ids=lambda p: p.stem)
def test_flows_define_no_record_exception_or_task(path: Path) -> None:
    # the deployed flow is another object than the imported one: what it defines is, too
    if path.stem == "cli":
        return
    classes = [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]

    assert classes == []


@pytest.mark.parametrize("folder", ["docker", "prompts", "taxonomy"])
def test_data_folders_hold_no_python(folder: str) -> None:
    assert list((ROOT / folder).rglob("*.py")) == []


def test_only_the_doors_and_the_flows_import_prefect() -> None:
    found = [p.relative_to(ROOT).as_posix() for p in PYTHON_FILES if "prefect" in _imported_roots(p)]

    assert set(found) <= {"tasks/doors.py", "flows/build_release.py", "flows/run_stage.py", "flows/score_submission.py", "flows/cli.py"}


def test_only_storage_imports_duckdb() -> None:
    assert {p.relative_to(ROOT).parts[0] for p in PYTHON_FILES if "duckdb" in _imported_roots(p)} == {"storage"}


def test_the_auditor_imports_nothing_of_ours() -> None:
    for path in sorted((ROOT / "trigpoint" / "audit").glob("*.py")):
        ours = [name for name in _imported_modules(path) if name.split(".")[0] == "trigpoint" and not name.startswith("trigpoint.audit")]
        assert ours == [], path.name


def test_nothing_names_a_machine_path() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    needles = ["/" + "work/", "/" + "root/", "../" + "shared"]
    texts = [
        name
        for name in tracked
        if Path(name).suffix in {".py", ".md", ".yaml", ".toml", ".sql", ".j2", ".lock"} or name in ("Makefile", ".ci/run")
    ]

    found = [name for name in texts if any(needle in (ROOT / name).read_text(encoding="utf-8") for needle in needles)]

    assert found == []


def _imported_modules(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.append(node.module)
    return found


def _imported_roots(path: Path) -> set[str]:
    return {name.split(".")[0] for name in _imported_modules(path)}
