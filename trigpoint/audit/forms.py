"""The small print of the format: which files there may be, how JSON is written, what plain columns and rules may hold, STAC.

Not here: anything that must be measured.
"""

import itertools
import json
import math
import os
import re
from datetime import date
from pathlib import PurePosixPath
from typing import Any, cast

import pyarrow.parquet as pq
import shapely

from trigpoint.audit.findings import Notebook
from trigpoint.audit.reading import Instance, Release, Scene, compute, find_file, read_json, read_lines
from trigpoint.audit.relations import DIRECTIONS, TOPOLOGY

MANIFEST = "manifest.json"
SCHEMA = "schemas/program.v1.schema.json"
KNOWN_PATHS = re.compile(
    r"README\.md|sample\.png|figures/(images|annotations|language|regions)\.png|audit\.json|manifest\.json|(scenes|instances|relations)\.parquet|"
    r"(queries|annotations|language|proposals|reviews)\.jsonl|"
    r"(scenes|masks|regions)/[^/]+\.tif|splits/[^/]+\.json|inputs/[^/]+-(train|val|test)\.jsonl|exports/coco\.json|"
    r"exports/dota/[^/]+\.txt|(taxonomy|prompts)/[^/]+|schemas/[^/]+\.json|stac/[^/]+\.json"
)
"""Paths that docs/release-format.md names."""

SHARES = (
    "near_share", "far_share", "near_margin_share", "inside_share", "inside_undecided_share", "outside_undecided_share",
    "direction_shared_share", "share_floor", "area_margin_share", "nearest_margin_share", "farthest_margin_share",
    "anchor_max_scene_share", "answer_max_share", "sector_min_share", "unanswerable_share", "eqs_iou", "coverage_share",
)  # fmt: skip
NUMBERS = (
    "outline_tolerance_px", "near_max_px", "direction_half_angle_deg", "direction_margin_deg", "wind_half_angle_deg", "wind_margin_deg",
    "position_margin_px", "min_instance_px", "min_drawn_instance_px", "max_scale_spread",
)  # fmt: skip
STORED = (*DIRECTIONS, "near", "far", "touches", *TOPOLOGY)
OUTLINE_KEYS = ("algorithm", "library", "start_vertex", "tolerance_px")
PROPOSALS = ("annotator", "vector", "sam2", "classical")
HOW = ("grid", "window", "poi")
ISO_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
SERIES = re.compile(r"series-[0-9a-f]+")
DIGEST = re.compile(r"[0-9a-f]{64}")
CLOSE_DEG = 1e-6
"""Longitudes and latitudes of STAC are those of the footprint within this."""


def check_forms(release: Release, notes: Notebook) -> None:
    """Check everything that is fixed by the format and needs no measuring."""
    for path in sorted(p for p in release.folder.rglob("*") if p.is_file() and not p.is_symlink()):
        name = PurePosixPath(path.relative_to(release.folder)).as_posix()
        notes.count("paths")
        if not KNOWN_PATHS.fullmatch(name):
            notes.add("file_unknown", name, name, "a file of the format", "no part of it")
    _check_json(release, notes)
    for check in (_check_rules, _check_manifest_values, _check_schema, _check_edges, _check_stac):
        with notes.guard("manifest_value", MANIFEST, check.__name__.removeprefix("_check_")):
            check(release, notes)
    for table in ("scenes.parquet", "instances.parquet"):
        with notes.guard("geoparquet_wrong", table):
            _check_geoparquet(release, table, notes)
    for scene in release.scenes.values():
        with notes.guard("scene_value", "scenes.parquet", scene.scene_id):
            _check_scene_values(release, scene, notes)
    for instance in release.instances.values():
        with notes.guard("instance_value", "instances.parquet", instance.instance_id):
            _check_instance_values(release, instance, notes)


def _sorted_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if any(one >= other for one, other in itertools.pairwise(keys)):
        raise ValueError(f"keys {keys} are not sorted, each once")
    return dict(pairs)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _check_json(release: Release, notes: Notebook) -> None:
    """JSON has sorted keys, each once, and no NaN; JSON Lines hold one object a line."""
    parts = ("splits/*.json", "stac/*.json", "exports/coco.json", "*.jsonl", "inputs/*.jsonl")
    paths = [MANIFEST, *sorted(path.relative_to(release.folder).as_posix() for part in parts for path in release.folder.glob(part))]
    for name in paths:
        notes.count("json_files")
        with notes.guard("json_form", name, name, "sorted keys, each once; numbers"):
            lines = read_lines(release.folder, name) if name.endswith(".jsonl") else [find_file(release.folder, name).read_bytes()]
            for line in lines:
                content: Any = json.loads(line, object_pairs_hook=_sorted_object, parse_constant=_no_constant)
                if not isinstance(content, dict):
                    raise ValueError(f"{type(content).__name__} where an object should be")


def _check_rules(release: Release, notes: Notebook) -> None:
    """Rules are numbers of the right size; relations and distances are known."""
    stored: Any = release.manifest.get("rules")
    if not isinstance(stored, dict):
        return
    rules = cast("dict[str, Any]", stored)
    for name in (*SHARES, *NUMBERS):
        notes.count("rules")
        value = rules.get(name)
        if value is None:
            continue  # named by check_manifest
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or value < 0 or (name in SHARES and value > 1):
            notes.add("manifest_value", MANIFEST, f"rules.{name}", "0 to 1" if name in SHARES else "a number from 0 on", value)
    names = rules.get("relations", [])
    if not isinstance(names, list) or set(cast("list[str]", names)) - set(STORED) or len(set(cast("list[str]", names))) != len(names):
        notes.add("manifest_value", MANIFEST, "rules.relations", f"of {', '.join(STORED)}, each once", names)
    reaches = rules.get("within_m", [])
    if not isinstance(reaches, list) or any(type(d) is not int or d < 1 for d in reaches) or reaches != sorted(set(reaches)):
        notes.add("manifest_value", MANIFEST, "rules.within_m", "whole metres, sorted, each once", reaches)
    outline = rules.get("outline", {})
    if not isinstance(outline, dict) or sorted(outline) != sorted(OUTLINE_KEYS):
        notes.add("manifest_value", MANIFEST, "rules.outline", list(OUTLINE_KEYS), outline)


def _check_manifest_values(release: Release, notes: Notebook) -> None:
    """Digest, declared axes and drops are what they should be."""
    manifest = release.manifest
    if not DIGEST.fullmatch(str(manifest.get("config_sha256"))):
        notes.add("manifest_value", MANIFEST, "config_sha256", "64 hex digits", manifest.get("config_sha256"))
    declared = cast("dict[str, Any]", manifest.get("unknown_is_other") or {})
    for axis, reason in declared.items():
        if axis not in release.taxonomy.axes or not isinstance(reason, str) or not reason:
            notes.add("manifest_value", MANIFEST, f"unknown_is_other.{axis}", "an axis of the taxonomy and its reason", reason)
    for reason, number in cast("dict[str, Any]", manifest.get("counts", {}).get("drops", {})).items():
        if type(number) is not int or number < 1:
            notes.add("manifest_value", MANIFEST, f"counts.drops.{reason}", "a whole number from 1 on", number)
    for entry in manifest.get("licences", []):
        if entry["layer"] not in ("pixels", "annotations"):
            notes.add("manifest_value", MANIFEST, f"licences {entry['source']}", "pixels or annotations", entry["layer"])


def _check_schema(release: Release, notes: Notebook) -> None:
    """The JSON Schema of programs is there and defines every operator."""
    with notes.guard("schema_wrong", SCHEMA, SCHEMA, "a JSON Schema of programs"):
        defined = set(read_json(release.folder, SCHEMA)["$defs"])
        missing = {"cat", "and", "attr", "rel", "nearest", "farthest"} - defined
        if missing:
            notes.add("schema_wrong", SCHEMA, "$defs", "a definition of every operator", f"none of {sorted(missing)}")


def _check_edges(release: Release, notes: Notebook) -> None:
    """Edges are of known scenes, and sorted by scene, subject, anchor and relation."""
    table = release.relations
    if table is None or not table.num_rows:
        return
    for scene in compute.unique(table["scene_id"]).to_pylist():
        if scene not in release.scenes:
            notes.add("scene_unknown", "relations.parquet", scene, "a scene of scenes.parquet", scene)
    before, after = table.slice(0, table.num_rows - 1), table.slice(1)
    behind: Any = None
    for name in ("relation", "anchor_id", "subject_id", "scene_id"):
        smaller = compute.less(before[name], after[name])
        equal = compute.equal(before[name], after[name])
        behind = smaller if behind is None else compute.or_(smaller, compute.and_(equal, behind))
    notes.count("orders")
    if not compute.all(compute.fill_null(behind, False)).as_py():
        row = int(compute.index(compute.fill_null(behind, False), False).as_py())
        what = " ".join(str(after[name][row]) for name in ("subject_id", "anchor_id", "relation"))
        notes.add("order_wrong", "relations.parquet", what, "sorted as docs/release-format.md says, each edge once", "another order")


def _check_geoparquet(release: Release, table: str, notes: Notebook) -> None:
    """The table says in its metadata that `geometry` is WKB in WGS 84."""
    notes.count("geoparquet")
    metadata = pq.read_schema(find_file(release.folder, table)).metadata or {}
    if b"geo" not in metadata:
        notes.add("geoparquet_wrong", table, "geo", "GeoParquet metadata", "none")
        return
    geo = json.loads(metadata[b"geo"])
    column = geo["columns"]["geometry"]
    crs = column.get("crs", "default")
    identity = cast("dict[str, Any]", crs).get("id", {}) if isinstance(crs, dict) else {}
    known = crs == "default" or (identity.get("authority"), str(identity.get("code"))) in (("OGC", "CRS84"), ("EPSG", "4326"))
    if geo.get("primary_column") != "geometry" or column.get("encoding") != "WKB" or not known:
        notes.add(
            "geoparquet_wrong", table, "geo", "geometry as WKB in WGS 84", {"encoding": column.get("encoding"), "crs": identity or crs}
        )


def _check_scene_values(release: Release, scene: Scene, notes: Notebook) -> None:
    """Plain columns of scenes.parquet: names of files, window, date, origin, attribution."""

    def expect(item: str, right: Any, found: Any) -> None:
        notes.count("scene_values")
        if right != found:
            notes.add("scene_value", "scenes.parquet", f"{scene.scene_id} {item}", right, found)

    expect("path", f"scenes/{scene.scene_id}.tif", scene.path)
    expect("mask_path", f"masks/{scene.scene_id}.tif", scene.mask_path)
    if scene.region_path is not None:
        expect("region_path", f"regions/{scene.scene_id}.tif", scene.region_path)
    expect("window", [scene.width, scene.height], list(scene.window[2:]))
    expect("source_sha256", True, DIGEST.fullmatch(scene.source_sha256) is not None)
    expect("how", True, scene.how in HOW)
    expect("series_id", True, scene.series_id is None or SERIES.fullmatch(scene.series_id) is not None)
    expect("poi_id is null", scene.how != "poi", scene.poi_id is None)
    if scene.acquired is not None:
        expect("acquired", True, is_date(scene.acquired))
    attributions = {
        str(entry.get("attribution")) for entry in release.manifest.get("licences", [])
        if (entry["source"], entry["layer"], entry.get("licence")) == (scene.source, "pixels", scene.licence)
    }  # fmt: skip
    if attributions:
        expect("attribution is that of its licence", True, scene.attribution in attributions)


def is_date(text: str) -> bool:
    """Say whether a text is an ISO 8601 date: a day, a month or a year.

    >>> [is_date(text) for text in ("2025-06-01", "2025-06", "2018", "2025-02-30", "20250601", "June")]
    [True, True, True, False, False, False]
    """
    if not ISO_DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text + "-01-01"[len(text) - 4 :])
    except ValueError:
        return False
    return True


def _check_instance_values(release: Release, instance: Instance, notes: Notebook) -> None:
    """Plain columns of instances.parquet: categories, kind, size, sources."""
    item, known = instance.instance_id, release.taxonomy.categories
    notes.count("instance_values")
    axes = [known[name].axis for name in instance.category if name in known]
    if len(axes) != len(instance.category) or len(set(axes)) != len(axes) or not axes:
        notes.add("instance_value", "instances.parquet", f"{item} category", "known, one per axis", list(instance.category))
    first = next(iter(release.taxonomy.axes), None)
    kinds = [known[name] for name in instance.category if name in known and known[name].axis == first]
    if kinds and kinds[0].countable != instance.countable:
        notes.add("instance_value", "instances.parquet", f"{item} countable", kinds[0].countable, instance.countable)
    if instance.boxable and not (instance.countable and all(kind.instanceable for kind in kinds)):
        notes.add("instance_value", "instances.parquet", f"{item} boxable", "of a countable, instanceable category alone", "boxable")
    scene = release.scenes.get(instance.scene_id)
    most = scene.width * scene.height if scene is not None else 0
    if type(instance.moved_px) is not int or not 0 <= instance.moved_px <= most:
        notes.add("instance_value", "instances.parquet", f"{item} moved_px", f"a whole number from 0 to {most}", instance.moved_px)
    if instance.proposal not in PROPOSALS:
        notes.add("instance_value", "instances.parquet", f"{item} proposal", " or ".join(PROPOSALS), instance.proposal)
    if not instance.source_ids or not instance.review_state:
        notes.add("instance_value", "instances.parquet", item, "source_ids and review_state", "one is empty")
    is_drawn = instance.proposal == "annotator" or instance.review_state == "edited"
    least = release.rule("min_drawn_instance_px" if is_drawn else "min_instance_px", 0)
    if instance.countable and not instance.cut and instance.area_px + instance.moved_px < least:
        notes.add("instance_too_small", "instances.parquet", item, f"at least {least:g} px of a thing seen whole", instance.area_px)


def _check_stac(release: Release, notes: Notebook) -> None:
    """Every item shows its scene's footprint and files that exist; the catalogue names every item."""
    with notes.guard("stac_wrong", "stac/catalog.json"):
        links = {str(PurePosixPath(link["href"])) for link in read_json(release.folder, "stac/catalog.json")["links"]}
        for scene in sorted(release.scenes):
            if f"{scene}.json" not in links:
                notes.add("stac_wrong", "stac/catalog.json", scene, "a link to its item", "none")
    for scene in release.scenes.values():
        file = f"stac/{scene.scene_id}.json"
        if not (release.folder / file).is_file():
            continue  # named by check_manifest
        with notes.guard("stac_wrong", file, scene.scene_id):
            notes.count("stac")
            item = read_json(release.folder, file)
            shown = shapely.geometry.shape(item["geometry"])
            footprint = shapely.from_wkb(scene.geometry)
            if shapely.hausdorff_distance(shown, footprint) > CLOSE_DEG:
                notes.add("stac_wrong", file, f"{scene.scene_id} geometry", "the footprint of scenes.parquet", "another one")
            if footprint.geom_type == "Polygon" and any(
                abs(one - other) > CLOSE_DEG for one, other in zip(item["bbox"], footprint.bounds, strict=True)
            ):
                notes.add("stac_wrong", file, f"{scene.scene_id} bbox", list(footprint.bounds), item["bbox"])
            for name, asset in item["assets"].items():
                path = os.path.normpath(f"stac/{asset['href']}")
                find_file(release.folder, path)
                if path not in (scene.path, scene.mask_path, scene.region_path):
                    notes.add("stac_wrong", file, f"{scene.scene_id} {name}", f"a raster of {scene.scene_id}", path)
