"""Which scenes must not be parted: shared pixels, one place, closeness and near duplicates, each found anew from the release.

Not here: splits (`splits.py`). A group is a connected component of scenes under the reasons that the split file gives; every reason must
hold, and none that surely holds may be missing.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import pyproj
import shapely

from trigpoint.audit.findings import Notebook
from trigpoint.audit.georeferencing import WGS84
from trigpoint.audit.hashing import Grid, differing_bits, variants
from trigpoint.audit.reading import Release, Scene

CLOSE_M = 100_000.0
"""Footprints closer than this are measured in an azimuthal equidistant frame, others between their centroids."""

GEODESIC = pyproj.Geod(ellps="WGS84")
OPEN_BITS, OPEN_CORRELATION, OPEN_SD, OPEN_M, OPEN_FACTOR = 2, 0.01, 0.01, 0.5, 2.0
"""What lies this close to a limit may go either way (docs/release-format.md)."""

Pair = tuple[str, str]
"""Ids of two scenes, sorted."""


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


class Nearness(NamedTuple):
    """How two footprints lie to each other: metres between them, and the share of the smaller one that the other covers."""

    distance_m: float
    share: float


def nearness(one: Any, other: Any) -> Nearness:
    """Return distance and overlap of two WGS 84 footprints.

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
        return Nearness(float(between), 0.0)
    lon = a.x + ((b.x - a.x + 180) % 360 - 180) / 2
    local = pyproj.CRS.from_proj4(f"+proj=aeqd +lat_0={(a.y + b.y) / 2} +lon_0={lon} +datum=WGS84 +units=m")
    move = pyproj.Transformer.from_crs(WGS84, local, always_xy=True)
    flat = [shapely.transform(shape, lambda xy: np.column_stack(move.transform(xy[:, 0], xy[:, 1]))) for shape in (one, other)]
    distance = float(shapely.distance(flat[0], flat[1]))
    common = float(shapely.intersection(flat[0], flat[1]).area) if distance == 0 else 0.0
    return Nearness(distance, common / min(shape.area for shape in flat))


class Look(NamedTuple):
    """How alike two scenes look in one turn or mirroring: differing bits of their hashes, correlation of their grids."""

    bits: int
    correlation: float


@dataclass
class Pairs:
    """What holds of every pair of scenes, measured once for all protocols.

    Attributes:
        shared: Shared native pixels.
        near: Distance and overlap of the footprints; missing where a footprint cannot be read.
        looks: One look per variant of the second scene; empty where a scene's pixels cannot be read.
        bits: The fewest bits by which the first scene's hash differs from any of the second's (as stored).
    """

    release: Release
    shared: dict[Pair, int] = field(default_factory=dict[Pair, int])
    near: dict[Pair, Nearness] = field(default_factory=dict[Pair, Nearness])
    looks: dict[Pair, list[Look]] = field(default_factory=dict[Pair, "list[Look]"])
    bits: dict[Pair, int] = field(default_factory=dict[Pair, int])

    @classmethod
    def of(cls, release: Release, grids: dict[str, Grid], notes: Notebook) -> "Pairs":
        """Measure all pairs."""
        pairs = cls(release)
        footprints: dict[str, Any] = {}
        for scene in release.scenes.values():
            with notes.guard("footprint_wrong", "scenes.parquet", scene.scene_id):
                footprints[scene.scene_id] = shapely.from_wkb(scene.geometry)
        turned = {name: [_normalised(variant) for variant in variants(grid)] for name, grid in grids.items()}
        for one, other in itertools.combinations(sorted(release.scenes), 2):
            first, second = release.scenes[one], release.scenes[other]
            pairs.shared[one, other] = shared_pixels(first, second)
            bits = [differing_bits(first.phash[0], found) for found in second.phash]
            pairs.bits[one, other] = min(bits)
            if one in turned and other in turned:
                correlations = [float((turned[one][0] * variant).sum()) for variant in turned[other]]
                pairs.looks[one, other] = [Look(*look) for look in zip(bits, correlations, strict=True)]
            if one in footprints and other in footprints:
                with notes.guard("footprint_wrong", "scenes.parquet", f"{one} {other}"):
                    pairs.near[one, other] = nearness(footprints[one], footprints[other])
        return pairs


def _normalised(grid: Grid) -> Grid:
    """Return a grid of mean 0 and length 1 (all 0 when it is flat): the product of two is their correlation."""
    centred = grid - grid.mean()
    length = float(np.sqrt((centred**2).sum()))
    return centred / length if length > 0 else np.zeros_like(grid)


@dataclass(frozen=True)
class Grouping:
    """The limits of a split file's `grouping`."""

    same_source_m: float
    other_source_m: float
    same_place_share: float
    max_bits: int
    min_correlation: float
    low_information_sd: float

    @classmethod
    def of(cls, split: dict[str, Any]) -> "Grouping":
        """Read `grouping`; raises when a limit is missing or no number."""
        stored = split["grouping"]
        buffers, alike = stored["buffer_m"], stored["near_duplicate"]
        return cls(
            same_source_m=float(buffers["same_source"]),
            other_source_m=float(buffers["other_source"]),
            same_place_share=float(stored["same_place_share"]),
            max_bits=int(alike["max_bits"]),
            min_correlation=float(alike["min_correlation"]),
            low_information_sd=float(alike["low_information_sd"]),
        )


class Verdict(NamedTuple):
    """What one reason says of a pair: whether it may be given, must be, and its value with the difference allowed."""

    may: bool
    must: bool
    value: float
    slack: float


def reasons_of(pair: Pair, pairs: Pairs, limits: Grouping) -> dict[str, Verdict]:
    """Judge every reason for joining two scenes; what lies close to a limit may be given and need not be."""
    one, other = (pairs.release.scenes[name] for name in pair)
    same = one.source_sha256 == other.source_sha256
    near = pairs.near.get(pair, Nearness(math.nan, math.nan))
    found: dict[str, Verdict] = {}
    shared = pairs.shared[pair]
    found["shared_pixels"] = Verdict(shared > 0, shared > 0, shared, 0.0)
    place = limits.same_place_share
    may_be_one = not same and near.share > place / OPEN_FACTOR
    is_one = not same and near.share > place * OPEN_FACTOR
    found["same_place"] = Verdict(may_be_one, is_one, near.share, max(1e-5, 0.01 * near.share))
    buffer = limits.same_source_m if same else limits.other_source_m
    found["buffer"] = Verdict(
        buffer > 0 and not shared and not is_one and near.distance_m < buffer + OPEN_M,
        buffer > 0 and not shared and not may_be_one and near.distance_m < buffer - OPEN_M,
        near.distance_m,
        OPEN_M,
    )
    informed = min(one.grey_sd, other.grey_sd) - limits.low_information_sd
    looks = pairs.looks.get(pair, [])
    may = [k for k in looks if k.bits <= limits.max_bits + OPEN_BITS and k.correlation >= limits.min_correlation - OPEN_CORRELATION]
    must = [k for k in looks if k.bits <= limits.max_bits - OPEN_BITS and k.correlation >= limits.min_correlation + OPEN_CORRELATION]
    fewest = min((look.bits for look in may), default=0)
    found["near_duplicate"] = Verdict(bool(may) and informed >= -OPEN_SD, bool(must) and informed >= OPEN_SD, fewest, OPEN_BITS)
    return found


def check_groups(release: Release, file: str, split: dict[str, Any], place: dict[str, str], pairs: Pairs, notes: Notebook) -> None:
    """Groups are the components of the reasons given; every reason holds, none is missing; no group is in two splits.

    Args:
        release: The release.
        file: The split file.
        split: Its content.
        place: Scene → split, or `left_out`.
        pairs: What holds of every pair.
        notes: Where findings go.
    """
    limits = Grouping.of(split)
    given: dict[Pair, dict[str, float]] = defaultdict(dict)
    stored: dict[str, list[str]] = defaultdict(list)
    groups = cast("list[dict[str, Any]]", split["groups"])
    for group in groups:
        notes.count("split_groups")
        item, scenes = str(group["group_id"]), [str(scene) for scene in group["scenes"]]
        splits = {place.get(scene) for scene in scenes}
        if len(splits) > 1:
            notes.add("group_straddles", file, item, "one split", sorted(str(name) for name in splits))
        for scene in scenes:
            stored[scene].append(item)
        rows = [(*(str(scene) for scene in reason["scenes"]), str(reason["why"])) for reason in group["reasons"]]
        if rows != sorted(rows) or scenes != sorted(scenes):
            notes.add("order_wrong", file, item, "scenes sorted, reasons sorted by scenes and why", "another order")
        for reason in group["reasons"]:
            with notes.guard("group_reason_wrong", file, item):
                one, other = (str(scene) for scene in reason["scenes"])
                given[one, other][str(reason["why"])] = float(reason["value"])
    names = [str(group["group_id"]) for group in groups]
    if names != sorted(set(names)):
        notes.add("order_wrong", file, "groups", "sorted by group_id, each once", names)
    for scene in sorted(set(stored) | set(release.scenes)):
        if scene not in release.scenes or len(stored[scene]) != 1:
            notes.add("group_wrong", file, scene, "a scene of the release in exactly one group", stored[scene])
    _check_components(release, file, stored, given, notes)
    _check_reasons(file, given, place, pairs, limits, notes)


def _check_components(release: Release, file: str, stored: dict[str, list[str]], given: dict[Pair, Any], notes: Notebook) -> None:
    """The groups are exactly what the reasons join."""
    component = components(release.scenes, given)
    members: dict[str, list[str]] = defaultdict(list)
    for scene in sorted(release.scenes):
        members[component[scene]].append(scene)
    for scenes in members.values():
        groups = sorted({group for scene in scenes for group in stored[scene]})
        together = {scene for scene, own in stored.items() if set(own) & set(groups)}
        if len(groups) > 1 or together - set(scenes):
            notes.add(
                "group_wrong", file, " ".join(scenes), "exactly what the reasons join in one group", {g: sorted(together) for g in groups}
            )


def components(scenes: Any, joined: Any) -> dict[str, str]:
    """Return scene → the first scene of its connected component; pairs of unknown scenes are passed over.

    >>> components(["a", "b", "c"], [("a", "c")])
    {'a': 'a', 'b': 'b', 'c': 'a'}
    """
    root = {scene: scene for scene in sorted(scenes)}

    def find(scene: str) -> str:
        while root[scene] != scene:
            scene = root[scene]
        return scene

    for one, other in joined:
        if one in root and other in root:
            low, high = sorted((find(one), find(other)))
            root[high] = low
    return {scene: find(scene) for scene in root}


def _check_reasons(
    file: str, given: dict[Pair, dict[str, float]], place: dict[str, str], pairs: Pairs, limits: Grouping, notes: Notebook
) -> None:
    """Every reason given holds with its value; none that surely holds is missing, least of all across splits."""
    for pair in sorted(set(given) - set(pairs.shared)):
        notes.add("group_reason_wrong", file, " ".join(pair), "two scenes of the release, sorted", sorted(given[pair]))
    for pair in pairs.shared:
        reasons, stored = reasons_of(pair, pairs, limits), given.get(pair, {})
        notes.count("split_pairs")
        for why, value in stored.items():
            right = reasons.get(why)
            if right is None or not right.may:
                what = "a reason of the format" if right is None else f"{right.value:.6g}: no reason to join them"
                notes.add("group_reason_wrong", file, f"{' '.join(pair)} {why}", what, value)
            elif not abs(value - right.value) <= right.slack:
                notes.add("group_reason_wrong", file, f"{' '.join(pair)} {why}", f"{right.value:.6g}", value)
        for why, right in reasons.items():
            if not right.must:
                continue
            if why not in stored:
                notes.add("group_reason_missing", file, f"{' '.join(pair)} {why}", f"{right.value:.6g}: joined", sorted(stored))
            if place.get(pair[0]) != place.get(pair[1]):
                where = f"{place.get(pair[0])} and {place.get(pair[1])}: {why} {right.value:.6g}"
                notes.add("group_straddles", file, " ".join(pair), "one split", where)
