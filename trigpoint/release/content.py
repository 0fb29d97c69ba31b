"""What goes into a release, and how its text files are written. Not here: the folder's files themselves (`trigpoint.release.writer`)."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from trigpoint.categories import Taxonomy
from trigpoint.records.language import LanguageItem, LanguageTarget
from trigpoint.records.stage import Drop
from trigpoint.rules import Rules


class ReleaseContent(NamedTuple):
    """Everything that goes into a release.

    Attributes:
        identity: name, version, title, description.
        config_sha256: Digest of the configuration.
        rules: The measuring rules.
        scenes: Table by `SCENE_SCHEMA`. instances: `INSTANCE_SCHEMA`. relations: `EDGE_SCHEMA`.
        queries: Dicts with the keys of queries.jsonl.
        splits: Protocol → split document. protocols_left_out: Protocol → why the scenes cannot support it.
        rasters: Path in the release (`scenes/<id>.tif`) → file to copy.
        taxonomy: The taxonomy, and its file. licences_file: What licences ask.
        prompts: Prompt files used.
        sources: Rows of the manifest: every file that the build was made from, sorted.
        licences: Rows of the manifest. declared_licences: Layer → the licence it is released under as a whole.
        review: Policies, changes and agreement. reviews: Lines of reviews.jsonl: what people decided.
        proposers: Machines that proposed masks. proposals: Lines of proposals.jsonl.
        unknown_is_other: Axis → reason.
        certificate: The manifest's block on how stable the answers are.
        drops: Everything that was dropped on the way.
        targets, language_items: What free language was written about and what was written; language: The manifest's block on it, or None.
        notes: Further lines for the card (shortfalls).
    """

    identity: dict[str, str]
    config_sha256: str
    rules: Rules
    scenes: pa.Table
    instances: pa.Table
    relations: pa.Table
    queries: list[dict[str, Any]]
    splits: dict[str, dict[str, Any]]
    protocols_left_out: dict[str, str]
    rasters: dict[str, Path]
    taxonomy: Taxonomy
    taxonomy_file: Path
    licences_file: Path
    prompts: list[Path]
    sources: list[dict[str, str | None]]
    licences: list[dict[str, str | None]]
    declared_licences: dict[str, str]
    review: dict[str, Any]
    reviews: list[dict[str, Any]]
    proposers: list[dict[str, Any]]
    proposals: list[dict[str, Any]]
    unknown_is_other: dict[str, str]
    certificate: dict[str, Any]
    targets: list[LanguageTarget]
    language_items: list[LanguageItem]
    language: dict[str, Any] | None
    drops: list[Drop]
    notes: list[str]


def write_json(path: Path, value: Any) -> None:
    """Write JSON with sorted keys, two spaces, and a final newline."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object with sorted keys per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
