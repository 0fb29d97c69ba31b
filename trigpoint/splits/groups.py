"""Which scenes belong together, and how groups are divided: leakage control by construction.

Two scenes are one group when their windows in one source share a native pixel, or their footprints on the ground come
closer than a buffer. Groups never straddle a split.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import shapely
from pyproj import Geod
from shapely.geometry.base import BaseGeometry

from trigpoint.errors import LeakageError
from trigpoint.geometry.frames import transformer
from trigpoint.identity import digest_json, make_id
from trigpoint.imagery.tiling import shared_pixels
from trigpoint.records.scene import Window

SPLITS: tuple[str, ...] = ("train", "val", "test")

CLOSE_M = 100_000.0
"""Footprints whose circumscribed circles are farther apart than this are measured between centroids along the great circle."""

_GEOD = Geod(ellps="WGS84")


class SplitScene(NamedTuple):
    """What splitting needs of a scene: id, source digest, native window, footprint (lon/lat polygon), number of queries."""

    scene_id: str
    source_sha256: str
    window: Window
    footprint: BaseGeometry
    n_queries: int


class Group(NamedTuple):
    """Scenes that must stay together, and why."""

    group_id: str
    scenes: tuple[str, ...]
    reasons: tuple[str, ...]


def footprint_distance_m(a: BaseGeometry, b: BaseGeometry) -> float:
    """Ground distance between two lon/lat footprints in metres; footprints may be split at the antimeridian.

    Close ones in an azimuthal equidistant frame between them; those whose circumscribed circles are more than 100 km apart: the geodesic
    between centroids.
    """
    a, b = _unwrapped(a), _unwrapped(b)
    ca, cb = a.centroid, b.centroid
    apart = float(_GEOD.inv(ca.x, ca.y, cb.x, cb.y)[2])
    if apart - _radius_m(a) - _radius_m(b) > CLOSE_M:
        return apart
    lon, lat = ca.x + ((cb.x - ca.x + 180) % 360 - 180) / 2, (ca.y + cb.y) / 2
    to_local = transformer("OGC:CRS84", f"+proj=aeqd +lat_0={lat!r} +lon_0={lon!r} +datum=WGS84 +units=m")

    def project(points: np.ndarray) -> np.ndarray:
        return np.column_stack(to_local.transform(points[:, 0], points[:, 1]))

    return float(shapely.distance(shapely.transform(a, project), shapely.transform(b, project)))


def _unwrapped(footprint: BaseGeometry) -> Any:
    """Move longitudes to within 180° of the first vertex, so that a footprint across the antimeridian is one piece."""
    first = shapely.get_coordinates(footprint)[0, 0]
    return shapely.transform(footprint, lambda points: np.column_stack([(points[:, 0] - first + 180) % 360 - 180 + first, points[:, 1]]))


def _radius_m(footprint: Any) -> float:
    """Distance from the centroid to the farthest vertex."""
    points, centre = shapely.get_coordinates(footprint), footprint.centroid
    n = len(points)
    return float(np.max(_GEOD.inv(np.full(n, centre.x), np.full(n, centre.y), points[:, 0], points[:, 1])[2]))


def group_scenes(scenes: Sequence[SplitScene], buffer_m_same_source: float, buffer_m_other_source: float) -> list[Group]:
    """Group scenes by union-find over shared pixels and footprints; independent of their order."""
    ordered = sorted(scenes, key=lambda scene: scene.scene_id)
    parent = list(range(len(ordered)))
    reasons: dict[int, list[str]] = defaultdict(list)

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    found: list[tuple[int, int, str]] = []
    for i, a in enumerate(ordered):
        for j in range(i + 1, len(ordered)):
            reason = _reason(a, ordered[j], buffer_m_same_source, buffer_m_other_source)
            if reason:
                found.append((i, j, reason))
                parent[root(j)] = root(i)
    members: dict[int, list[str]] = defaultdict(list)
    for k, scene in enumerate(ordered):
        members[root(k)].append(scene.scene_id)
    for i, j, reason in found:
        reasons[root(i)].append(f"{ordered[i].scene_id} {ordered[j].scene_id}: {reason}")
    groups = [Group(make_id("g", *ids), tuple(ids), tuple(reasons[k])) for k, ids in members.items()]
    return sorted(groups, key=lambda group: group.group_id)


def _reason(a: SplitScene, b: SplitScene, buffer_same: float, buffer_other: float) -> str | None:
    if a.source_sha256 == b.source_sha256:
        pixels = shared_pixels(a.window, b.window)
        if pixels:
            return f"{pixels} shared native pixels"
        buffer_m = buffer_same
    else:
        buffer_m = buffer_other
    if buffer_m <= 0:
        return None
    distance = footprint_distance_m(a.footprint, b.footprint)
    return f"footprints {distance:.1f} m apart, closer than {buffer_m:g} m" if distance < buffer_m else None


def assign_groups(groups: Sequence[Group], scenes: Sequence[SplitScene], shares: dict[str, float], seed: int) -> dict[str, list[str]]:
    """Divide groups over splits so that the queries come close to the shares; no split with a share stays empty while groups last.

    Groups come largest first (ties by a digest of seed and id); each goes to the split that is farthest below its share.
    """
    n_queries = {scene.scene_id: scene.n_queries for scene in scenes}
    weight = {group.group_id: sum(n_queries[s] for s in group.scenes) for group in groups}
    order = sorted(groups, key=lambda g: (-weight[g.group_id], digest_json([seed, g.group_id])))
    total = sum(weight.values()) or 1
    filled: dict[str, int] = dict.fromkeys(SPLITS, 0)
    assigned: dict[str, list[str]] = {name: [] for name in SPLITS}
    wanted = [name for name in SPLITS if shares.get(name, 0) > 0]
    for position, group in enumerate(order):
        left = len(order) - position
        empty = [name for name in wanted if not assigned[name]]
        pool = empty if len(empty) >= left else wanted
        target = max(pool, key=lambda name: (shares[name] - filled[name] / total, -SPLITS.index(name)))
        assigned[target] += group.scenes
        filled[target] += weight[group.group_id]
    return {name: sorted(ids) for name, ids in assigned.items()}


def split_document(
    protocol: str,
    scenes: Sequence[SplitScene],
    groups: Sequence[Group],
    assignment: dict[str, list[str]],
    seed: int,
    shares: dict[str, float],
    buffers: tuple[float, float],
) -> dict[str, Any]:
    """Return the split file with its proof; every number is recomputed from scenes and assignment.

    Raises:
        LeakageError: scenes of different splits share a native pixel.
    """
    by_id = {scene.scene_id: scene for scene in scenes}
    shared, smallest = 0, {}
    pairs: list[tuple[str, str]] = []
    for i, one in enumerate(SPLITS):
        for other in SPLITS[i + 1 :]:
            distances: list[float] = []
            for a in (by_id[s] for s in assignment[one]):
                for b in (by_id[s] for s in assignment[other]):
                    pixels = shared_pixels(a.window, b.window) if a.source_sha256 == b.source_sha256 else 0
                    if pixels:
                        pairs.append((a.scene_id, b.scene_id))
                    shared += pixels
                    distances.append(footprint_distance_m(a.footprint, b.footprint))
            smallest[f"{one}-{other}"] = round(min(distances), 3) if distances else None
    if pairs:
        raise LeakageError(f"{len(pairs)} pairs of scenes in different splits share {shared} native pixels", pairs)
    return {
        "protocol": protocol,
        "version": 1,
        "seed": seed,
        "assignment": assignment,
        "groups": [{"group_id": g.group_id, "scenes": list(g.scenes), "reasons": list(g.reasons)} for g in groups],
        "proof": {
            "shared_pixels_between_splits": shared,
            "smallest_distance_m": smallest,
            "scenes": {name: len(assignment[name]) for name in SPLITS},
            "queries": {name: sum(by_id[s].n_queries for s in assignment[name]) for name in SPLITS},
            "target_share": {name: shares.get(name, 0.0) for name in SPLITS},
            "buffer_m": {"same_source": buffers[0], "other_source": buffers[1]},
        },
    }
