"""Measure every relation of every pair of a scene. Definitions: docs/release-format.md and the rules of the release.

All lengths are true ground metres in the scene's local frame; azimuths are degrees clockwise from true north.
"""

from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.categories import FALSE, TRUE, UNDECIDED
from trigpoint.geometry.frames import SceneFrame, azimuth_deg
from trigpoint.rules import AZIMUTH_DEG, DIRECTIONS, Rules, relation_unit, within_limit_m
from trigpoint.scene_graph.graph import Nodes, SceneGraph

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
VerdictArray = NDArray[np.int8]


class SceneMasks(NamedTuple):
    """The masks of a scene, by node index.

    Attributes:
        labels: (height, width) uint16 index map.
        label_of_node: (n,) value in the map, 0 for regions.
        planes: node index of a region → (height, width) bool.
    """

    labels: NDArray[np.uint16]
    label_of_node: NDArray[np.int64]
    planes: dict[int, BoolArray]


class Shares(NamedTuple):
    """Shared pixels of pairs, as matrices (n, m) [subject, anchor].

    Attributes:
        of_smaller: Share of the smaller of the two that both cover; 0 between countable instances.
        in_filled: Share of the subject inside the anchor's mask with holes filled; NaN unless the anchor is a region.
        filled_by: Share of the anchor inside the subject's mask with holes filled; NaN unless the subject is a region.
        inside: The verdict of `inside`, 0 unless the anchor is a region.
        contains: The verdict of `contains`, 0 unless the subject is a region.
    """

    of_smaller: FloatArray
    in_filled: FloatArray
    filled_by: FloatArray
    inside: VerdictArray
    contains: VerdictArray


class _Measured(NamedTuple):
    """One relation, as matrices (n, m) [subject, anchor]."""

    verdict: VerdictArray
    value: FloatArray
    margin: FloatArray


def build_graph(
    scene_id: str,
    nodes: Nodes,
    outlines: NDArray[np.object_],
    masks: SceneMasks,
    frame: SceneFrame,
    shorter_side_m: float,
    valid_px: int,
    rules: Rules,
    anchors: NDArray[np.int64] | None = None,
    is_sharp: bool = False,
) -> SceneGraph:
    """Build the scene graph.

    Args:
        scene_id: The scene.
        nodes: Its instances.
        outlines: (n,) measuring outlines in local ground metres.
        masks: Their masks.
        frame: The scene's frame.
        shorter_side_m: Ground length of the shorter side of the valid area.
        valid_px: Number of valid pixels.
        rules: Thresholds and margins.
        anchors: (m,) positions of the only anchors to measure, sorted; all when None.
        is_sharp: Whether nothing is left undecided: every relation is decided at the middle of its undecided zone, directions by the
            deciding ray alone, `inside` by the share alone, and a ray of length 0 is FALSE. For measuring jittered copies of a scene.
    """
    n = len(nodes)
    columns = np.arange(n) if anchors is None else np.asarray(anchors, dtype=np.int64)
    shape = (n, len(columns))
    gsd_m = frame.record.gsd_m
    two_tau_m = 2 * rules.outline_tolerance_px * gsd_m
    distance_m = anchor_distances(outlines, columns)
    is_solid = (shapely.get_type_id(outlines) == shapely.GeometryType.POLYGON) & (shapely.get_num_interior_rings(outlines) == 0)
    shares = measure_shares(nodes, masks, is_solid, rules, columns, is_sharp)

    def measured(verdict: NDArray[Any], value: FloatArray, margin: float) -> _Measured:
        return _Measured(verdict.astype(np.int8), value, np.broadcast_to(np.float64(0.0 if is_sharp else margin), shape))

    def threshold(surplus: FloatArray, margin: float) -> VerdictArray:
        return _decided(surplus, 0.0 if is_sharp else margin)

    near_m = rules.near_m(shorter_side_m, gsd_m)
    far_m = rules.far_share * shorter_side_m
    near_margin, far_margin = (max(rules.near_margin_share * limit, two_tau_m) for limit in (near_m, far_m))
    found = {
        "near": measured(_unless_shared(threshold(near_m - distance_m, near_margin), shares, rules, is_sharp), distance_m, near_margin),
        "far": measured(threshold(distance_m - far_m, far_margin), distance_m, far_margin),
        "touches": measured(_touching(distance_m, shares, gsd_m, two_tau_m, rules, is_sharp), distance_m, two_tau_m),
    }
    for limit_m, name in zip(rules.within_m, rules.relation_names[len(rules.relations) :], strict=True):
        margin = max(rules.near_margin_share * limit_m, two_tau_m)
        found[name] = measured(threshold(limit_m - distance_m, margin), distance_m, margin)
    for name, direction in _directions(nodes, outlines, frame, two_tau_m, rules, columns, is_sharp).items():
        found[name] = direction._replace(verdict=_unless_shared(direction.verdict, shares, rules, is_sharp))
    share_margin, inside_margin = rules.outside_undecided_share, rules.inside_share - rules.inside_undecided_share
    outside, overlaps = _outside_and_overlaps(shares, distance_m, two_tau_m, nodes.countable, columns, rules, is_sharp)
    found["inside"] = measured(shares.inside, shares.in_filled, inside_margin)
    found["contains"] = measured(shares.contains, shares.filled_by, inside_margin)
    found["outside"] = measured(outside, shares.in_filled, share_margin)
    found["overlaps"] = measured(overlaps, shares.of_smaller, share_margin)

    kept = {name: found[name] for name in rules.relation_names}
    for each in kept.values():
        each.verdict[columns, np.arange(len(columns))] = FALSE
    return SceneGraph(
        scene_id=scene_id,
        nodes=nodes,
        gsd_m=gsd_m,
        convergence_deg=frame.record.convergence_deg,
        valid_px=valid_px,
        verdicts={name: each.verdict for name, each in kept.items()},
        distance_m=distance_m,
        values={name: each.value for name, each in kept.items()},
        margins={name: each.margin for name, each in kept.items()},
        units={name: relation_unit(name) for name in kept},
        anchors=None if anchors is None else columns,
        limits_m={"near": near_m, "far": far_m} | {name: float(limit) for name in kept if (limit := within_limit_m(name)) is not None},
    )


def anchor_distances(outlines: NDArray[np.object_], columns: NDArray[np.int64]) -> FloatArray:
    """Distances between all outlines and those at `columns`, (n, m), 0 where they share any point.

    Every pair is measured once, the earlier outline first, so that a column does not depend on which others are asked for.
    """
    n, m = len(outlines), len(columns)
    rank = np.full(n, -1)
    rank[columns] = np.arange(m)
    subject, column = np.nonzero(rank[:, None] < np.arange(m))
    anchor = columns[column]
    shapely.prepare(outlines)
    distance = np.zeros((n, m))
    distance[subject, column] = shapely.distance(outlines[np.minimum(subject, anchor)], outlines[np.maximum(subject, anchor)])
    square = distance[columns]
    distance[columns] = square + square.T
    return distance


def _decided(surplus: FloatArray, margin: float) -> VerdictArray:
    """TRUE when the surplus over the threshold is at least the margin, UNDECIDED within it, else FALSE."""
    return np.where(np.abs(surplus) < margin, UNDECIDED, np.where(surplus >= margin, TRUE, FALSE)).astype(np.int8)


def _unless_shared(verdict: VerdictArray, shares: Shares, rules: Rules, is_sharp: bool) -> VerdictArray:
    """The verdict of a direction or `near` after the share rule: FALSE of what shares much, UNDECIDED of what shares little."""
    if is_sharp:
        return np.where(shares.of_smaller >= rules.direction_shared_share / 2, FALSE, verdict).astype(np.int8)
    little = np.where(shares.of_smaller > rules.share_floor, UNDECIDED, verdict)
    return np.where(shares.of_smaller >= rules.direction_shared_share, FALSE, little).astype(np.int8)


def _touching(distance_m: FloatArray, shares: Shares, gsd_m: float, two_tau_m: float, rules: Rules, is_sharp: bool) -> VerdictArray:
    sure_m, possible_m = ((gsd_m + two_tau_m) / 2,) * 2 if is_sharp else (gsd_m, two_tau_m)
    verdict = np.where(distance_m <= sure_m, TRUE, np.where(distance_m <= possible_m, UNDECIDED, FALSE))
    return np.where(shares.of_smaller <= rules.share_floor, verdict, FALSE).astype(np.int8)


def _directions(
    nodes: Nodes,
    outlines: NDArray[np.object_],
    frame: SceneFrame,
    two_tau_m: float,
    rules: Rules,
    columns: NDArray[np.int64],
    is_sharp: bool,
) -> dict[str, _Measured]:
    """The wanted directions before the share rule, with azimuth and margin of the deciding ray."""
    wanted = [name for name in rules.relations if name in AZIMUTH_DEG]
    if not wanted:
        return {}
    centroid, countable = nodes.centroid_m, nodes.countable[columns]
    convergence = frame.convergence_at(centroid[columns])
    from_centroid = centroid[:, None] - centroid[columns]
    from_nearest = from_centroid.copy()
    asked = np.flatnonzero(~countable) if is_sharp else np.arange(len(columns))
    from_nearest[:, asked] = _rays_from_nearest(outlines[columns[asked]], centroid)
    azimuths, blurs = [], []
    for ray in (from_centroid, from_nearest):
        azimuths.append((azimuth_deg(ray.reshape(-1, 2)).reshape(ray.shape[:2]) + convergence) % 360.0)
        blurs.append(np.degrees(np.arctan2(two_tau_m, np.hypot(ray[..., 0], ray[..., 1]))))
    value, blur = (np.where(countable, *pair) for pair in (azimuths, blurs))
    out: dict[str, _Measured] = {}
    for name in wanted:
        half, least = (
            (rules.direction_half_angle_deg, rules.direction_margin_deg)
            if name in DIRECTIONS
            else (rules.wind_half_angle_deg, rules.wind_margin_deg)
        )
        offs = [_off_deg(azimuth, AZIMUTH_DEG[name]) for azimuth in azimuths]
        if is_sharp:
            sharp = np.where(countable, *offs) <= half
            out[name] = _Measured(sharp.astype(np.int8), value, np.zeros_like(blur))
            continue
        from_middle, from_edge = (_sector(off, half, np.maximum(least, one)) for off, one in zip(offs, blurs, strict=True))
        agreed = np.where(from_middle == from_edge, from_middle, UNDECIDED)
        out[name] = _Measured(np.where(countable, agreed, from_edge).astype(np.int8), value, np.maximum(least, blur))
    return out


def _rays_from_nearest(outlines: NDArray[np.object_], points: FloatArray) -> FloatArray:
    """Vectors from the point of each outline (m,) that is nearest to each point (n, 2), (n, m, 2); 0 for points in the outline."""
    geometries = np.asarray(shapely.points(points), dtype=object)
    lines = shapely.shortest_line(outlines[None, :], geometries[:, None])
    ends = shapely.get_coordinates(lines).reshape(len(points), len(outlines), 2, 2)
    return ends[:, :, 1] - ends[:, :, 0]


def _off_deg(azimuth: FloatArray, centre_deg: float) -> FloatArray:
    """Angles between azimuths and a direction, [0, 180]; NaN stays NaN."""
    return np.abs((azimuth - centre_deg + 180.0) % 360.0 - 180.0)


def _sector(off_deg: FloatArray, half_angle_deg: float, margin_deg: FloatArray) -> VerdictArray:
    """Verdict of rays by their angle from the middle of a sector; a ray of length 0 (NaN) is UNDECIDED."""
    is_sure, is_out = off_deg <= half_angle_deg - margin_deg, off_deg >= half_angle_deg + margin_deg
    return np.where(is_sure, TRUE, np.where(is_out, FALSE, UNDECIDED)).astype(np.int8)


def _outside_and_overlaps(
    shares: Shares,
    distance_m: FloatArray,
    two_tau_m: float,
    countable: NDArray[np.bool_],
    columns: NDArray[np.int64],
    rules: Rules,
    is_sharp: bool,
) -> tuple[VerdictArray, VerdictArray]:
    """Verdicts of `outside` (region anchors alone) and `overlaps` (where either is a region)."""
    in_filled, s = np.nan_to_num(shares.in_filled), shares.of_smaller
    low, high, full = rules.outside_undecided_share, rules.inside_undecided_share, rules.inside_share
    if is_sharp:
        outside = np.where(in_filled <= low / 2, TRUE, FALSE)
        overlaps = np.where((s >= low / 2) & (s <= (high + full) / 2), TRUE, FALSE)
    else:
        none = in_filled < rules.share_floor
        outside = np.where(none & (distance_m > two_tau_m), TRUE, np.where(none | (in_filled <= low), UNDECIDED, FALSE))
        is_blurred = ((s > rules.share_floor) & (s < low)) | ((s > high) & (s < full))
        overlaps = np.where((s >= low) & (s <= high), TRUE, np.where(is_blurred, UNDECIDED, FALSE))
    region_anchor = ~countable[columns]
    return (
        np.where(region_anchor, outside, FALSE).astype(np.int8),
        np.where(region_anchor | ~countable[:, None], overlaps, FALSE).astype(np.int8),
    )


def measure_shares(
    nodes: Nodes, masks: SceneMasks, is_solid: BoolArray, rules: Rules, columns: NDArray[np.int64], is_sharp: bool
) -> Shares:
    """Count shared pixels of every pair with a region in it, and decide `inside`.

    Args:
        nodes: The instances.
        masks: Their masks.
        is_solid: (n,) whether a mask has one part and no hole, so that there is nothing to fill.
        rules: Thresholds.
        columns: (m,) positions of the anchors asked for.
        is_sharp: See `build_graph`.
    """
    n, regions = len(nodes), np.array(list(masks.planes), dtype=np.int64)
    shared, within = np.zeros((n, len(regions))), np.zeros((n, len(regions)))
    inside = np.zeros((n, len(regions)), dtype=np.int8)
    n_labels = int(masks.label_of_node.max(initial=0)) + 1
    is_countable = np.flatnonzero(nodes.countable)
    labels = masks.label_of_node[is_countable]
    for k, (anchor, plane) in enumerate(masks.planes.items()):
        box = _bounding_slices(plane)
        filled = plane[box] if is_solid[anchor] else fill_holes(plane[box])
        for target, mask in ((shared, plane[box]), (within, filled)):
            target[is_countable, k] = np.bincount(masks.labels[box][mask], minlength=n_labels)[labels]
            for other, other_plane in masks.planes.items():
                if other != anchor:
                    target[other, k] = np.count_nonzero(other_plane[box] & mask)
        share = within[:, k] / nodes.area_px
        if is_sharp:
            inside[:, k] = share >= (rules.inside_share + rules.inside_undecided_share) / 2
        else:
            inside[:, k] = _inside(share, anchor, filled, box, masks, rules)
    in_filled = within / nodes.area_px[:, None]
    of_smaller = shared / np.minimum(nodes.area_px[:, None], nodes.area_px[regions])
    itself = (regions, np.arange(len(regions)))
    of_smaller[itself], in_filled[itself], inside[itself] = 0.0, np.nan, FALSE
    return _spread(of_smaller, in_filled, inside, regions, columns)


def _spread(
    of_smaller: FloatArray, in_filled: FloatArray, inside: VerdictArray, regions: NDArray[np.int64], columns: NDArray[np.int64]
) -> Shares:
    """Lay the measured columns (n, number of regions) out over all asked anchors."""
    n, m = len(in_filled), len(columns)
    which = np.full(n, -1)
    which[regions] = np.arange(len(regions))
    of_region = which[columns]
    is_region = of_region >= 0
    shares = Shares(
        np.zeros((n, m)), np.full((n, m), np.nan), np.full((n, m), np.nan), np.zeros((n, m), dtype=np.int8), np.zeros((n, m), dtype=np.int8)
    )
    shares.of_smaller[regions] = of_smaller[columns].T
    shares.of_smaller[:, is_region] = of_smaller[:, of_region[is_region]]
    shares.in_filled[:, is_region] = in_filled[:, of_region[is_region]]
    shares.inside[:, is_region] = inside[:, of_region[is_region]]
    shares.filled_by[regions] = in_filled[columns].T
    shares.contains[regions] = inside[columns].T
    return shares


def _bounding_slices(mask: BoolArray) -> tuple[slice, slice]:
    """Rows and columns of a mask (height, width) with one pixel around it where the scene has one; empty for an empty mask."""
    rows, cols = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return slice(0, 0), slice(0, 0)
    return slice(max(int(rows[0]) - 1, 0), int(rows[-1]) + 2), slice(max(int(cols[0]) - 1, 0), int(cols[-1]) + 2)


def fill_holes(mask: BoolArray) -> BoolArray:
    """Fill what is cut off from the outside of a mask (height, width), by 4-connection.

    >>> fill_holes(np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=bool)).all()
    np.True_
    """
    from scipy import ndimage  # 0.2 s to import, and planning needs none of it

    background = np.pad(~mask, 1, constant_values=True)
    parts = np.asarray(ndimage.label(background)[0])  # pyright: ignore[reportIndexIssue]
    return parts[1:-1, 1:-1] != parts[0, 0]


def _inside(share: FloatArray, region: int, filled: BoolArray, box: tuple[slice, slice], masks: SceneMasks, rules: Rules) -> VerdictArray:
    """Verdicts of `inside` one region by every subject's share (n,) in its filled mask, given within `box`."""
    from scipy import ndimage

    verdict = np.where(share >= rules.inside_undecided_share, UNDECIDED, FALSE).astype(np.int8)
    asked = [int(subject) for subject in np.flatnonzero(share >= rules.inside_share) if subject != region]
    if not asked:
        return verdict
    # a subject that lies wholly in the region lies in its box; the few others are looked for in the whole scene
    here = ndimage.find_objects(masks.labels[box].astype(np.int32))
    deep: NDArray[np.float64] | None = None
    for subject in asked:
        label = int(masks.label_of_node[subject])
        is_whole = share[subject] == 1.0
        if label == 0:
            mask = masks.planes[subject][box] if is_whole else masks.planes[subject]
        else:
            mask = masks.labels[box][here[label - 1]] == label if is_whole else masks.labels == label
        is_inside = _core_share(mask, rules.outline_tolerance_px) >= 0.5
        if not is_inside and is_whole:
            if deep is None:
                has_edge = not filled.all()  # a region may fill the whole scene
                deep = np.asarray(ndimage.distance_transform_edt(filled)) if has_edge else np.full(filled.shape, np.inf)
            depth = deep if label == 0 else deep[here[label - 1]]
            is_inside = bool(depth[mask].min() >= 2 * rules.outline_tolerance_px)
        if is_inside:
            verdict[subject] = TRUE
    return verdict


def _core_share(mask: BoolArray, tolerance_px: float) -> float:
    """Share of a mask's pixels farther than the tolerance from its outside, in [0, 1]; the border of the array is outside."""
    from scipy import ndimage

    crop = mask[_bounding_slices(mask)]
    depth = np.asarray(ndimage.distance_transform_edt(np.pad(crop, 1)))
    return float(np.count_nonzero(depth > tolerance_px) / np.count_nonzero(crop))


def outlines_to_ground(outlines: NDArray[np.object_], frame: SceneFrame) -> NDArray[np.object_]:
    """Map outlines from image coordinates to local ground metres, all vertices at once."""
    return shapely.transform(outlines, frame.ground_from_image) if len(outlines) else outlines
