"""Where a release comes from: the files it was made from, series of one place, and licences with what they ask.

Not here: cutting windows again from the originals (`trigpoint.audit.sources`).
"""

import itertools
import re
from pathlib import PurePosixPath
from typing import Any, cast

import shapely
import yaml

from trigpoint.audit.findings import Notebook
from trigpoint.audit.forms import DIGEST, is_date
from trigpoint.audit.reading import Release, find_file

MANIFEST = "manifest.json"
ROW_KEYS = ("date", "kind", "origin", "sha256", "source")
LAYER_OF = {"imagery": "pixels", "clouds": None, "pois": "annotations", "footprints": "annotations", "annotations": "annotations"}
"""Kind of a source file → the layer of the release that it goes into."""

LAYERS = ("pixels", "annotations")
ORIGIN = re.compile(r"https?://[^\s?@\\]+|[^/\\?]+")
LICENCES = re.compile(r"licences\.v\d+\.yaml")
SAME_PLACE = 0.5
"""Scenes of one series share at least this of the smaller footprint."""


def check_origins(release: Release, notes: Notebook) -> None:
    """Check the manifest's source files, series and licences."""
    with notes.guard("source_file_wrong", MANIFEST, "sources"):
        _check_source_files(release, notes)
    with notes.guard("series_wrong", "scenes.parquet"):
        _check_series(release, notes)
    with notes.guard("licence_incompatible", MANIFEST, "declared_licences"):
        _check_terms(release, notes)


def _check_source_files(release: Release, notes: Notebook) -> None:
    """Every row is well formed, licensed, there once, and every scene was cut from the imagery of its source."""
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(release.manifest["sources"]):
        with notes.guard("source_file_wrong", MANIFEST, f"sources[{number}]"):
            notes.count("source_files")
            fault = _fault_of(row)
            if fault is not None:
                notes.add("source_file_wrong", MANIFEST, f"sources[{number}]", *fault)
            else:
                rows.append(row)
    keys = [tuple(str(row[key] or "") for key in ("source", "kind", "origin", "date", "sha256")) for row in rows]
    if any(one >= other for one, other in itertools.pairwise(keys)):
        notes.add("source_file_wrong", MANIFEST, "sources", "sorted, each once", "another order, or one twice")
    licensed = {(str(entry["source"]), str(entry["layer"])) for entry in release.manifest["licences"]}
    for row in rows:
        layer = LAYER_OF[row["kind"]]
        if layer is not None and (row["source"], layer) not in licensed:
            notes.add("licence_missing", MANIFEST, f"{row['source']} {row['kind']}", f"a licence of its {layer}", "none")
    imagery = {row["source"]: row for row in rows if row["kind"] == "imagery"}
    if len(imagery) < sum(row["kind"] == "imagery" for row in rows):
        notes.add("source_file_wrong", MANIFEST, "sources", "one imagery file per source", "several of one")
    for scene in release.scenes.values():
        notes.count("pinned_scenes")
        row = imagery.get(scene.source)
        if row is None or row["sha256"] != scene.source_sha256:
            notes.add("scene_unpinned", "scenes.parquet", scene.scene_id, "the imagery of its source in manifest.json", scene.source_sha256)
        elif row["date"] != scene.acquired:
            notes.add("scene_value", "scenes.parquet", f"{scene.scene_id} acquired", row["date"], scene.acquired)


def _fault_of(row: dict[str, Any]) -> tuple[str, Any] | None:
    """Return what was expected and found where a row of `sources` is not well formed."""
    if tuple(sorted(row)) != ROW_KEYS:
        return ", ".join(ROW_KEYS), sorted(row)
    if row["kind"] not in LAYER_OF:
        return " or ".join(LAYER_OF), row["kind"]
    if not isinstance(row["source"], str) or not row["source"]:
        return "the name of a source", row["source"]
    if not ORIGIN.fullmatch(str(row["origin"])) or PurePosixPath(str(row["origin"])).name in ("", ".", ".."):
        return "the name of a file, or a URL without query", row["origin"]
    if row["date"] is not None and not is_date(str(row["date"])):
        return "a day, month or year, or null", row["date"]
    if not DIGEST.fullmatch(str(row["sha256"])):
        return "64 hex digits", row["sha256"]
    return None


def _check_series(release: Release, notes: Notebook) -> None:
    """Scenes of a series are of several sources and show one place."""
    series: dict[str, list[str]] = {}
    for scene in release.scenes.values():
        if scene.series_id is not None:
            series.setdefault(scene.series_id, []).append(scene.scene_id)
    for series_id, members in series.items():
        for one, other in itertools.combinations(members, 2):
            notes.count("series")
            a, b = release.scenes[one], release.scenes[other]
            if a.source == b.source:
                notes.add("series_wrong", "scenes.parquet", f"{series_id} {one} {other}", "of two sources", a.source)
            first, second = (shapely.from_wkb(scene.geometry) for scene in (a, b))
            share = first.intersection(second).area / min(first.area, second.area)
            if not share >= SAME_PLACE:
                what = f"{SAME_PLACE:.0%} of the smaller footprint shared"
                notes.add("series_wrong", "scenes.parquet", f"{series_id} {one} {other}", what, share)


# licences


def _read_terms(release: Release) -> dict[str, dict[str, Any]]:
    """Read `taxonomy/licences.v<N>.yaml`: licence id in lower case → its entry.

    Raises:
        ValueError: there is not exactly one such file.
    """
    found = [path.name for path in sorted((release.folder / "taxonomy").glob("*")) if LICENCES.fullmatch(path.name)]
    if len(found) != 1:
        raise ValueError(f"one file taxonomy/licences.v<N>.yaml, found {found or 'none'}")
    content: Any = yaml.safe_load(find_file(release.folder, f"taxonomy/{found[0]}").read_bytes())
    return {str(entry["id"]).casefold(): entry for entry in content["licences"]}


def _asks(entry: dict[str, Any], layer: str, what: str) -> bool:
    """Whether a licence asks something of a layer; only `redistribution` holds unless it is denied."""
    own = cast("dict[str, Any]", entry.get(layer) or {})
    return bool(own.get(what, entry.get(what, what == "redistribution")))


def why_not(source: dict[str, Any], declared: dict[str, Any], layer: str) -> str | None:
    """Say which term of docs/release-format.md, "Licences", forbids a layer under one licence in a release under another."""
    if not _asks(source, layer, "redistribution"):
        return "no redistribution"
    if layer == "annotations" and _asks(source, layer, "no_derivatives"):
        return "no derivatives"
    if source["id"] == declared["id"]:
        return None
    if _asks(source, layer, "no_derivatives"):
        return "no derivatives"
    if _asks(source, layer, "share_alike"):
        return None if declared["id"] in (source.get("also_as") or ()) else "share-alike"
    for what in ("non_commercial", "attribution"):
        if _asks(source, layer, what) and not _asks(declared, layer, what):
            return what.replace("_", "-")
    return None


def _check_terms(release: Release, notes: Notebook) -> None:
    """Every licence is known and allows what the release declares; undeclared layers have one that fits all."""
    known = _read_terms(release)
    stored: Any = release.manifest["declared_licences"]
    if not isinstance(stored, dict):
        notes.add("manifest_value", MANIFEST, "declared_licences", "{layer: licence}", stored)
        return
    declared = cast("dict[str, Any]", stored)
    for layer in sorted(set(declared) - set(LAYERS)):
        notes.add("manifest_value", MANIFEST, f"declared_licences.{layer}", " or ".join(LAYERS), layer)
    for layer in LAYERS:
        found: list[tuple[str, dict[str, Any]]] = []
        for row in release.manifest["licences"]:
            if row["layer"] != layer:
                continue
            notes.count("licence_terms")
            entry = known.get(str(row["licence"]).casefold())
            if entry is None:
                notes.add("licence_unknown", MANIFEST, f"{row['source']} ({layer})", "a licence of taxonomy/licences", row["licence"])
            else:
                found.append((f"{row['source']} ({layer})", entry))
        if layer in declared:
            entry = known.get(str(declared[layer]).casefold())
            if entry is None:
                notes.add("licence_unknown", MANIFEST, f"declared_licences.{layer}", "a licence of taxonomy/licences", declared[layer])
                continue
            if not _asks(entry, layer, "redistribution"):
                notes.add("licence_incompatible", MANIFEST, f"declared_licences.{layer}", "redistribution", declared[layer])
            _compare(found, entry, layer, notes)
            continue
        for item, entry in found:
            _compare([(item, entry)], entry, layer, notes)
        if found and not any(all(why_not(entry, one, layer) is None for _, entry in found) for _, one in found):
            names = sorted({entry["id"] for _, entry in found})
            notes.add("licence_incompatible", MANIFEST, f"licences ({layer})", "one licence that all of them allow", names)


def _compare(found: list[tuple[str, dict[str, Any]]], declared: dict[str, Any], layer: str, notes: Notebook) -> None:
    for item, entry in found:
        reason = why_not(entry, declared, layer)
        if reason is not None:
            notes.add("licence_incompatible", MANIFEST, item, f"what {entry['id']} allows", f"{declared['id']}: {reason}")
