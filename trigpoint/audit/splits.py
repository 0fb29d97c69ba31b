"""Splits without leaks: every scene once, groups found anew, nothing straddling, the proof recomputed, inputs that give nothing away.

Not here: queries themselves.
"""

import itertools
import json
import math
from collections import Counter, defaultdict
from typing import Any, cast

import numpy as np
import pyproj
import shapely

from trigpoint.audit.findings import Notebook
from trigpoint.audit.georeferencing import WGS84
from trigpoint.audit.reading import Release, Scene, read_json, read_lines

INPUT_KEYS = ("crs", "gsd_m", "image", "north", "query_id", "sentence")
CLOSE_M = 100_000.0
"""Footprints closer than this are measured in an azimuthal equidistant frame, others between their centroids."""

GEODESIC = pyproj.Geod(ellps="WGS84")


def shared_pixels(one: Scene, other: Scene) -> int:
    """Return how many native pixels two windows of one source share.

    Source pixels are compared only when both scenes name the same source digest.
    """
    if one.source_sha256 != other.source_sha256:
        return 0
    (x, y, w, h), (u, v, p, q) = one.window, other.window
    return max(0, min(x + w, u + p) - max(x, u)) * max(0, min(y + h, v + q) - max(y, v))


def _counted_from(start: float) -> Any:
    """Return a map of (n, 2) lon/lat that puts longitudes within 180° of `start`."""
    return lambda xy: np.column_stack([(xy[:, 0] - start + 180) % 360 - 180 + start, xy[:, 1]])


def ground_distance(one: Any, other: Any) -> float:
    """Return the metres between two WGS 84 footprints: 0 when they meet.

    Source: docs/release-format.md: azimuthal equidistant when the circles around them are closer than 100 km, else great circle between
        the centroids. Longitudes are counted from the first vertex, so that the antimeridian cuts nothing.
    """
    one, other = (shapely.transform(shape, _counted_from(shapely.get_coordinates(shape)[0, 0])) for shape in (one, other))
    a, b = shapely.centroid(one), shapely.centroid(other)
    _, _, between = GEODESIC.inv(a.x, a.y, b.x, b.y)
    reach = 0.0
    for shape, centre in ((one, a), (other, b)):
        x, y = shapely.get_coordinates(shape).T
        reach += float(max(GEODESIC.inv(np.full(len(x), centre.x), np.full(len(x), centre.y), x, y)[2]))
    if between - reach >= CLOSE_M:
        return float(between)
    lon = a.x + ((b.x - a.x + 180) % 360 - 180) / 2
    local = pyproj.CRS.from_proj4(f"+proj=aeqd +lat_0={(a.y + b.y) / 2} +lon_0={lon} +datum=WGS84 +units=m")
    move = pyproj.Transformer.from_crs(WGS84, local, always_xy=True)
    flat = [shapely.transform(shape, lambda xy: np.column_stack(move.transform(xy[:, 0], xy[:, 1]))) for shape in (one, other)]
    return float(shapely.distance(flat[0], flat[1]))


class _Pairs:
    """Distances and shared pixels of all pairs of scenes, each measured once."""

    def __init__(self, release: Release, notes: Notebook) -> None:
        self.distance: dict[tuple[str, str], float] = {}
        self.shared: dict[tuple[str, str], int] = {}
        footprints: dict[str, Any] = {}
        for scene in release.scenes.values():
            with notes.guard("footprint_wrong", "scenes.parquet", scene.scene_id):
                footprints[scene.scene_id] = shapely.from_wkb(scene.geometry)
        for one, other in itertools.combinations(sorted(release.scenes), 2):
            self.shared[one, other] = shared_pixels(release.scenes[one], release.scenes[other])
            if one in footprints and other in footprints:
                with notes.guard("footprint_wrong", "scenes.parquet", f"{one} {other}"):
                    self.distance[one, other] = ground_distance(footprints[one], footprints[other])


def check_splits(release: Release, notes: Notebook) -> None:
    """Check every protocol in splits/, its groups, its proof and its input files."""
    paths = sorted((release.folder / "splits").glob("*.json"))
    pairs = _Pairs(release, notes)
    inputs: set[str] = set()
    for path in paths:
        file = f"splits/{path.name}"
        with notes.guard("split_unreadable", file):
            split = cast("dict[str, Any]", read_json(release.folder, file))
            assignment = {str(name): [str(s) for s in scenes] for name, scenes in split["assignment"].items()}
            if split.get("protocol") != path.stem:
                notes.add("split_unreadable", file, "protocol", path.stem, split.get("protocol"))
            with notes.guard("split_assignment", file):
                place = _check_assignment(release, file, assignment, notes)
                _check_groups(release, file, split, place, pairs, notes)
                _check_proof(release, file, split, place, pairs, notes)
            for name in assignment:
                inputs.add(f"inputs/{path.stem}-{name}.jsonl")
                with notes.guard("input_unreadable", f"inputs/{path.stem}-{name}.jsonl"):
                    _check_inputs(release, f"inputs/{path.stem}-{name}.jsonl", set(assignment[name]), notes)
    for path in sorted((release.folder / "inputs").glob("*")):
        if f"inputs/{path.name}" not in inputs:
            notes.add("input_unknown", f"inputs/{path.name}", path.name, "inputs of a protocol and split that exist", "neither")


def _check_assignment(release: Release, file: str, assignment: dict[str, list[str]], notes: Notebook) -> dict[str, str]:
    """Every scene in exactly one split, and no scene that does not exist; returns scene → split (the first one)."""
    place: dict[str, str] = {}
    times = Counter(scene for scenes in assignment.values() for scene in scenes)
    for name, scenes in assignment.items():
        for scene in scenes:
            place.setdefault(scene, name)
    for scene in sorted(set(release.scenes) | set(times)):
        notes.count("split_assignments")
        if scene not in release.scenes:
            notes.add("scene_unknown", file, scene, "a scene of scenes.parquet", scene)
        elif times[scene] != 1:
            where = [name for name, scenes in assignment.items() if scene in scenes]
            notes.add("scene_in_splits", file, scene, "exactly one split", where)
    return place


def _check_groups(release: Release, file: str, split: dict[str, Any], place: dict[str, str], pairs: _Pairs, notes: Notebook) -> None:
    """Find groups by own union-find (shared native pixels, or closer than the buffer): none may straddle, none may be parted."""
    buffers = split.get("proof", {}).get("buffer_m", {})
    root = {scene: scene for scene in release.scenes}

    def find(scene: str) -> str:
        while root[scene] != scene:
            scene = root[scene]
        return scene

    for one, other in itertools.combinations(sorted(release.scenes), 2):
        same = release.scenes[one].source_sha256 == release.scenes[other].source_sha256
        buffer = float(buffers.get("same_source", 0.0) if same else buffers.get("other_source", 100.0))
        distance = pairs.distance.get((one, other), math.inf)
        if pairs.shared[one, other] or distance < buffer:
            root[find(one)] = find(other)
            if place.get(one) != place.get(other):
                why = f"{pairs.shared[one, other]} shared pixels, {distance:.3f} m apart (buffer {buffer} m)"
                notes.add("group_straddles", file, f"{one} {other}", "one split", f"{place.get(one)} and {place.get(other)}: {why}")
    stored: dict[str, list[str]] = defaultdict(list)
    for group in split.get("groups", []):
        splits = {place.get(str(scene)) for scene in group["scenes"]}
        if len(splits) > 1:
            notes.add("group_straddles", file, group["group_id"], "one split", sorted(str(s) for s in splits))
        for scene in group["scenes"]:
            stored[str(scene)].append(str(group["group_id"]))
    own: dict[str, list[str]] = defaultdict(list)
    for scene in release.scenes:
        own[find(scene)].append(scene)
        if len(stored[scene]) != 1:
            notes.add("group_wrong", file, scene, "exactly one group", stored[scene])
    for scenes in own.values():
        notes.count("split_groups")
        if len({tuple(stored[scene]) for scene in scenes}) > 1:
            notes.add("group_wrong", file, " ".join(scenes), "one group", sorted({g for scene in scenes for g in stored[scene]}))


def _check_proof(release: Release, file: str, split: dict[str, Any], place: dict[str, str], pairs: _Pairs, notes: Notebook) -> None:
    """Recompute the numbers of the proof from the release."""
    proof = split["proof"]
    notes.count("split_proofs")
    across = [pair for pair in pairs.shared if place.get(pair[0]) != place.get(pair[1])]
    shared = sum(pairs.shared[pair] for pair in across)
    if proof.get("shared_pixels_between_splits") != shared:
        notes.add("proof_wrong", file, "shared_pixels_between_splits", shared, proof.get("shared_pixels_between_splits"))
    smallest: dict[frozenset[str], float] = {}
    for pair in across:
        if pair in pairs.distance and all(scene in place for scene in pair):
            between = frozenset(place[scene] for scene in pair)
            smallest[between] = min(smallest.get(between, math.inf), pairs.distance[pair])
    stored = {frozenset(str(key).split("-")): value for key, value in proof.get("smallest_distance_m", {}).items() if value is not None}
    for between in sorted(set(smallest) | set(stored), key=sorted):
        right, found = smallest.get(between), stored.get(between)
        slack = 0.0 if right is None else max(0.5, (0.001 if right < CLOSE_M else 0.01) * right)
        if right is None or found is None or not abs(right - found) <= slack:
            notes.add(
                "proof_wrong",
                file,
                f"smallest_distance_m {'-'.join(sorted(between))}",
                "none" if right is None else f"{right:.6g} m",
                found,
            )
    scenes = Counter(place[scene] for scene in release.scenes if scene in place)
    queries = Counter(place[q.scene_id] for q in release.queries.values() if q.scene_id in place)
    for key, right in (("scenes", scenes), ("queries", queries)):
        found = {name: number for name, number in proof.get(key, {}).items() if number}
        if found != dict(right):
            notes.add("proof_wrong", file, key, dict(right), found)


def _check_inputs(release: Release, file: str, scenes: set[str], notes: Notebook) -> None:
    """An input file holds exactly the queries of its split, in order, and of each exactly what a model may see."""
    wanted = sorted(q.query_id for q in release.queries.values() if q.scene_id in scenes)
    if not (release.folder / file).is_file():
        if wanted:
            notes.add("part_missing", file, file, f"{len(wanted)} queries", "no such file")
        return
    found: list[str] = []
    for number, line in enumerate(read_lines(release.folder, file), start=1):
        with notes.guard("input_unreadable", file, f"line {number}"):
            row = cast("dict[str, Any]", json.loads(line))
            notes.count("inputs")
            if sorted(row) != list(INPUT_KEYS):
                notes.add("input_keys", file, row.get("query_id"), list(INPUT_KEYS), sorted(row))
            found.append(str(row["query_id"]))
            query = release.queries.get(found[-1])
            scene = release.scenes.get(query.scene_id) if query else None
            if query is None or scene is None:
                continue
            right = {
                "sentence": query.sentences[0] if query.sentences else None,
                "image": scene.path,
                "gsd_m": scene.gsd_m,
                "crs": scene.crs,
                "north": scene.image_up_deg,
            }
            for key, value in right.items():
                same = math.isclose(value, row[key], rel_tol=1e-9, abs_tol=1e-9) if isinstance(value, float) else value == row.get(key)
                if not same:
                    notes.add("input_differs", file, f"{found[-1]} {key}", value, row.get(key))
    if found != sorted(found):
        notes.add("order_wrong", file, "", "sorted by query_id", "another order")
    for query_id in sorted(set(wanted) - set(found)):
        notes.add("input_missing", file, query_id, "a line", "none")
    for query_id, times in sorted(Counter(found).items()):
        if query_id not in wanted:
            notes.add("input_foreign", file, query_id, "only queries of this split", "a query of another split, or of none")
        elif times > 1:
            notes.add("input_twice", file, query_id, "one line", times)
