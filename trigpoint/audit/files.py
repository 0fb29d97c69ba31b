"""The folder against its manifest: every file listed, present, unchanged; counts, licences and review states add up.

Not here: what the files mean. Only bytes, names and numbers that need no measuring.
"""

import hashlib
import json
import os
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any, cast

from trigpoint.audit.findings import AuditError, Notebook
from trigpoint.audit.queries import counterfactual_pairs
from trigpoint.audit.reading import Release, find_file, read_json

MANIFEST = "manifest.json"
UNLISTED_BY_DESIGN = (MANIFEST, "audit.json")
"""The two files that the manifest does not list (docs/release-format.md)."""

REQUIRED_KEYS = (
    "name", "version", "title", "description", "format_version", "rules", "config_sha256", "versions", "counts", "files", "sources",
    "licences", "declared_licences", "proposers", "review", "unknown_is_other", "protocols_left_out", "language",
)  # fmt: skip
REQUIRED_RULES = (
    "outline_tolerance_px", "near_share", "near_max_px", "far_share", "direction_half_angle_deg", "direction_margin_deg",
    "near_margin_share", "inside_share", "inside_undecided_share", "outside_undecided_share", "direction_shared_share",
    "area_margin_share", "nearest_margin_share", "farthest_margin_share", "position_margin_px", "anchor_max_scene_share",
    "min_instance_px", "unanswerable_share", "outline", "relations", "difficulty", "eqs_iou", "coverage_share", "share_floor",
    "answer_max_share", "sector_min_share", "max_scale_spread", "min_drawn_instance_px", "wind_half_angle_deg", "wind_margin_deg",
    "within_m",
)  # fmt: skip
ALWAYS_PRESENT = (
    "README.md", "sample.png", "scenes.parquet", "instances.parquet", "relations.parquet", "queries.jsonl", "exports/coco.json",
    "stac/catalog.json", "schemas/program.v1.schema.json",
)  # fmt: skip


def read_manifest(folder: Path) -> tuple[dict[str, Any], str]:
    """Read manifest.json and its SHA-256.

    Raises:
        AuditError: it is missing, no regular file, or no JSON object. Nothing else stops an audit.
    """
    path = folder / MANIFEST
    try:
        if path.exists() and not path.is_file():
            raise AuditError(f"{MANIFEST} is no regular file")
        data = path.read_bytes()
        manifest = json.loads(data)
    except OSError as problem:
        raise AuditError(f"cannot read {MANIFEST} in the release folder: {problem.strerror or type(problem).__name__}") from problem
    except ValueError as problem:
        raise AuditError(f"{MANIFEST} is not JSON: {problem}") from problem
    if not isinstance(manifest, dict):
        raise AuditError(f"{MANIFEST} must hold a JSON object, found {type(manifest).__name__}")
    return cast("dict[str, Any]", manifest), hashlib.sha256(data).hexdigest()


def digest(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_inside(path: str) -> bool:
    """Say whether a listed path stays in the release folder: relative, `/` separated, no `..`, no `.`, no drive.

    >>> [is_inside(p) for p in ("a/b ä.txt", "../a", "/etc/passwd", "a/../../b", "c:/x", "")]
    [True, False, False, False, False, False]
    """
    parts = path.split("/")
    return bool(path) and "\\" not in path and "\0" not in path and ":" not in parts[0] and not any(p in ("", ".", "..") for p in parts)


def check_files(folder: Path, manifest: dict[str, Any], manifest_sha256: str, notes: Notebook) -> None:
    """Compare every file of the folder with the manifest's list: size and SHA-256, missing, unlisted, links, escapes."""
    listed: dict[str, dict[str, Any]] = {}
    entries = manifest.get("files")
    if not isinstance(entries, list):
        notes.add("manifest_key", MANIFEST, "files", "a list of {path, bytes, sha256}", type(entries).__name__)
        entries = []
    for number, entry in enumerate(cast("list[Any]", entries)):
        with notes.guard("manifest_key", MANIFEST, f"files[{number}]", "{path, bytes, sha256}"):
            path = str(entry["path"])
            _ = (entry["bytes"], entry["sha256"])
            if path in listed:
                notes.add("file_listed_twice", MANIFEST, path, "once", "more than once")
            listed[path] = entry
    if list(listed) != sorted(listed):
        notes.add("order_wrong", MANIFEST, "files", "sorted by path", "another order", "warning")
    found = _walk(folder, notes)
    for path, entry in listed.items():
        notes.count("files")
        if not is_inside(path):
            notes.add("path_escapes", MANIFEST, path, "a relative path inside the release", path)
            continue
        if path in UNLISTED_BY_DESIGN:
            notes.add("file_listed_wrongly", MANIFEST, path, "not listed", "listed")
            continue
        if path not in found:
            notes.add("file_missing", path, path, f"{entry['bytes']} bytes", "no such file")
            continue
        with notes.guard("file_unreadable", path, path):
            target = find_file(folder, path)
            size, sha256 = target.stat().st_size, digest(target)
            if (size, sha256) != (entry["bytes"], entry["sha256"]):
                notes.add("file_altered", path, path, f"{entry['bytes']} bytes, {entry['sha256']}", f"{size} bytes, {sha256}")
    for path in sorted(found - set(listed) - set(UNLISTED_BY_DESIGN)):
        notes.add("file_unlisted", path, path, "listed in manifest.json", "not listed")
    if "audit.json" in found:
        with notes.guard("audit_stale", "audit.json"):
            named = read_json(folder, "audit.json")["manifest_sha256"]
            if named != manifest_sha256:
                notes.add("audit_stale", "audit.json", "manifest_sha256", manifest_sha256, named)


def _walk(folder: Path, notes: Notebook) -> set[str]:
    """Return the regular files under `folder` as release paths; links and special files are findings and not followed."""
    found: set[str] = set()
    for root, folders, names in os.walk(folder, followlinks=False):
        for name in sorted([*folders, *names]):
            path = Path(root) / name
            relative = PurePosixPath(path.relative_to(folder)).as_posix()
            if path.is_symlink():
                notes.add("symlink", relative, relative, "a regular file", "a symbolic link")
                found.add(relative)
            elif name in names:
                if not path.is_file():
                    notes.add("symlink", relative, relative, "a regular file", "a special file")
                found.add(relative)
    return found


def check_manifest(release: Release, notes: Notebook) -> None:
    """Check the manifest's keys, its counts against the tables, review states, and that every part of a release is there."""
    manifest = release.manifest
    for key in REQUIRED_KEYS:
        notes.count("manifest")
        if key not in manifest:
            notes.add("manifest_key", MANIFEST, key, "present", "missing")
    if manifest.get("format_version", 1) != 1:
        notes.add("format_version", MANIFEST, "format_version", 1, manifest["format_version"])
    rules = cast("dict[str, Any]", manifest["rules"]) if isinstance(manifest.get("rules"), dict) else {}
    for key in REQUIRED_RULES:
        if rules and key not in rules:
            notes.add("manifest_key", MANIFEST, f"rules.{key}", "present", "missing")
    for path in ALWAYS_PRESENT:
        notes.count("parts")
        if not (release.folder / path).is_file():
            notes.add("part_missing", path, path, "a file of every release", "no such file")
    for name in ("taxonomy", "splits", "prompts"):
        if name != "prompts" and not any((release.folder / name).glob("*")):
            notes.add("part_missing", name, name, "at least one file", "none")
    for scene in release.scenes.values():
        path = f"stac/{scene.scene_id}.json"
        notes.count("parts")
        with notes.guard("stac_unreadable", path, scene.scene_id):
            if not (release.folder / path).is_file():
                notes.add("part_missing", path, scene.scene_id, "a STAC item", "no such file")
            elif read_json(release.folder, path).get("id") != scene.scene_id:
                notes.add("stac_unreadable", path, scene.scene_id, f"id {scene.scene_id}", "another id")
    with notes.guard("count_wrong", MANIFEST, "counts"):
        _check_counts(release, notes)
    with notes.guard("licence_missing", MANIFEST, "licences"):
        _check_licences(release, notes)
    with notes.guard("review_wrong", MANIFEST, "review"):
        states = Counter(instance.review_state for instance in release.instances.values())
        stored = manifest.get("review", {}).get("states", {})
        if stored != dict(states):
            notes.add("review_wrong", MANIFEST, "review.states", dict(states), stored)


def _check_counts(release: Release, notes: Notebook) -> None:
    counts = release.manifest.get("counts", {})
    countable = sum(instance.countable for instance in release.instances.values())
    regions = len(release.instances) - countable
    answerable = sum(query.answerable for query in release.queries.values())
    levels = Counter(str(query.level) for query in release.queries.values())
    right: dict[str, set[int]] = {
        "scenes": {len(release.scenes)},
        "instances": {countable, countable + regions},  # the format does not say whether regions are counted twice
        "regions": {regions},
        "relations": {release.n_relations},
        "queries": {len(release.queries)},
        "answerable": {answerable},
        "unanswerable": {len(release.queries) - answerable},
        "counterfactual_pairs": {len(counterfactual_pairs(release.queries.values()))},
    }
    for name, allowed in right.items():
        notes.count("counts")
        if counts.get(name) not in allowed:
            notes.add("count_wrong", MANIFEST, f"counts.{name}", " or ".join(str(n) for n in sorted(allowed)), counts.get(name))
    stored = {str(key).lstrip("L"): value for key, value in counts.get("levels", {}).items() if value}
    if stored != dict(levels):
        notes.add("count_wrong", MANIFEST, "counts.levels", dict(levels), stored)
    if "drops" not in counts:
        notes.add("manifest_key", MANIFEST, "counts.drops", "drops by reason", "missing")


def _check_licences(release: Release, notes: Notebook) -> None:
    """Every source of pixels and of annotations has a licence and an attribution, and scenes name one of their source's."""
    entries: dict[tuple[str, str], set[str]] = {}
    for entry in release.manifest.get("licences", []):
        entries.setdefault((str(entry["source"]), str(entry["layer"])), set()).add(str(entry.get("licence")))
        for key in ("licence", "attribution"):
            if not entry.get(key):
                notes.add("licence_missing", MANIFEST, f"{entry['source']} ({entry['layer']})", f"a {key}", entry.get(key))
    for scene in release.scenes.values():
        notes.count("licences")
        licences = entries.get((scene.source, "pixels"), set[str]())
        if not licences:
            notes.add("licence_missing", MANIFEST, scene.source, f"a licence for the pixels of {scene.scene_id}", "none")
        elif not scene.licence or scene.licence not in licences:
            notes.add("licence_differs", "scenes.parquet", scene.scene_id, " or ".join(sorted(licences)), scene.licence)
    known = [source for source, layer in entries if layer == "annotations"]
    for instance in release.instances.values():
        notes.count("licences")
        scene = release.scenes.get(instance.scene_id)
        if scene is not None and scene.source in known:
            continue
        for source_id in instance.source_ids:
            if not any(source_id == source or source_id.startswith(f"{source}/") for source in known):
                notes.add("licence_missing", MANIFEST, source_id, "a licence for the annotations of this source", "none")
