"""The documents name what there is, and nothing else: commands, deployments, files, columns, rules."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command

from trigpoint.cli import app
from trigpoint.records.tables import INSTANCE_SCHEMA, SCENE_SCHEMA
from trigpoint.rules import RELATIONS, Rules
from trigpoint.scene_graph.graph import EDGE_SCHEMA

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FORMAT = (ROOT / "docs" / "release-format.md").read_text(encoding="utf-8")
FOR_PEOPLE = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in (group or get_command(app)).commands.items():
        yield (*path, name)
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))


COMMANDS = sorted(set(commands()))
GROUPS = {path[:-1] for path in COMMANDS if len(path) > 1}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text))


def section(title: str) -> str:
    """The part of the format document under a heading."""
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", FORMAT, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/release-format.md has no section {title!r}"
    return found.group(1)


def code_in(text: str) -> list[str]:
    """Lines of indented and fenced blocks, and inline code."""
    fenced = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in fenced for line in block.splitlines()]
    lines += [line.strip() for line in text.splitlines() if line.startswith("    ")]
    return lines + re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in GROUPS], ids=" ".join)
def test_every_command_is_in_the_readme_or_in_operations(path: tuple[str, ...]) -> None:
    assert f"trigpoint {' '.join(path)}" in FOR_PEOPLE


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_command_in_a_document_exists(path: Path) -> None:
    for line in code_in(path.read_text(encoding="utf-8")):
        for called in re.findall(r"(?:^|[\s/;|])trigpoint ([a-z][a-z-]*(?: [a-z][a-z-]*)?)", line):
            first, *rest = called.split()
            assert (first,) in COMMANDS, f"{name_of(path)}: trigpoint {first} in {line!r}"
            if (first,) in GROUPS:
                assert rest
                assert (first, rest[0]) in COMMANDS, f"{name_of(path)}: trigpoint {called} in {line!r}"


def test_every_deployment_is_in_operations_and_those_named_exist() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    prefect = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
    deployments = {f"{d['entrypoint'].partition(':')[2].replace('_', '-')}/{d['name']}" for d in prefect["deployments"]}

    called = set(re.findall(r"deployment run (\S+)", FOR_PEOPLE))

    assert {name for name in deployments if name not in text} == set()
    assert {name.rstrip("`") for name in called} <= deployments


def test_every_make_target_in_a_document_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        target for path in DOCUMENTS for line in code_in(path.read_text(encoding="utf-8")) for target in re.findall(r"^make ([a-z]+)", line)
    }

    assert named
    assert named <= targets


def test_every_extra_is_in_a_document() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    text = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)

    assert {extra for extra in ("pipeline", "dask") if extra in extras and extra not in text} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_link_and_path_in_a_document_leads_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tops = "docs|examples|flows|tasks|storage|trigpoint|tests|taxonomy|prompts|benchmarks|docker"
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    paths = [p for p in re.findall(r"`([^`\s]+)`", text) if re.fullmatch(rf"(?:{tops})/[\w./-]*", p)]

    missing = [link for link in links if link and not (path.parent / link).exists()]
    # taxonomy/ and prompts/ are folders of a release as well: only whole file names are looked up there
    missing += [p for p in paths if not (ROOT / p).exists()]

    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_module_named_in_a_document_exists(path: Path) -> None:
    for module in re.findall(r"`((?:trigpoint|storage|tasks|flows)(?:\.[a-z_]+)+)`", path.read_text(encoding="utf-8")):
        # the last part may be a function or a constant of the module
        places = [ROOT / Path(*module.split(".")[:n]) for n in (len(module.split(".")), len(module.split(".")) - 1)]
        assert any(place.with_suffix(".py").is_file() or place.is_dir() for place in places), module


def test_the_format_names_every_top_level_file_that_a_release_is_made_of() -> None:
    top = FORMAT[: FORMAT.index("## ")]

    for name in (
        "manifest.json", "audit.json", "README.md", "sample.png", "scenes.parquet", "instances.parquet", "relations.parquet",
        "queries.jsonl", "scenes/", "masks/", "regions/", "splits/", "inputs/", "exports/", "taxonomy/", "prompts/", "stac/",
    ):  # fmt: skip
        assert name in top


@pytest.mark.demo
def test_the_format_names_every_top_level_file_of_the_demo_release() -> None:
    release = ROOT / "build" / "demo" / "release"
    if not (release / "manifest.json").is_file():
        pytest.skip("no demo release; run `make demo`")
    top = FORMAT[: FORMAT.index("## ")]

    assert [p.name for p in release.iterdir() if (p.name + "/" if p.is_dir() else p.name) not in top] == []


@pytest.mark.parametrize(
    ("title", "schema"),
    [("scenes.parquet", SCENE_SCHEMA), ("instances.parquet", INSTANCE_SCHEMA), ("relations.parquet", EDGE_SCHEMA)],
    ids=["scenes", "instances", "relations"],
)
def test_the_format_explains_every_column(title: str, schema: Any) -> None:
    explained = set(re.findall(r"`([a-z0-9_]+)`", section(title)))

    assert [name for name in schema.names if name not in explained] == []


def test_the_format_explains_every_relation() -> None:
    assert set(RELATIONS) - words(section("relations.parquet")) == set()


def test_the_format_names_every_rule_and_every_part_of_one() -> None:
    rules = re.search(r"^`rules`: `\{.*?\}`", section("manifest.json"), re.MULTILINE | re.DOTALL)
    assert rules is not None
    named = words(rules.group(0))

    assert set(Rules.model_fields) - named == set()
    assert set(Rules().outline.model_dump()) - named == set()


def test_the_format_names_no_rule_that_is_not_there() -> None:
    rules = re.search(r"^`rules`: `\{(.*?)\}`", section("manifest.json"), re.MULTILINE | re.DOTALL)
    assert rules is not None
    text = re.sub(r"\{[^}]*\}?|\[[^\]]*\]", "", rules.group(1))

    assert words(text) - set(Rules.model_fields) == set()
