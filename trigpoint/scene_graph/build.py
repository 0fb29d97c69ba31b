"""Measure every relation of every pair of a scene. Definitions: docs/release-format.md and the rules of the release.

All lengths are true ground metres in the scene's local frame; azimuths are degrees clockwise from true north.
"""

from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.categories import TRUE, UNDECIDED
from trigpoint.geometry.frames import SceneFrame, azimuth_deg
from trigpoint.rules import DIRECTIONS, DISTANCES, Rules
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
    """Shared pixels of pairs, as matrices (n, n) [subject, anchor].

    Attributes:
        of_smaller: Share of the smaller of the two that both cover; 0 between countable instances.
        in_filled: Share of the subject inside the anchor's mask with holes filled; NaN unless the anchor is a region.
        in_filled_verdict: The verdict of `inside` (`rel` semantics), 0 unless the anchor is a region.
    """

    of_smaller: FloatArray
    in_filled: FloatArray
    in_filled_verdict: VerdictArray


def build_graph(
    scene_id: str,
    nodes: Nodes,
    outlines: NDArray[np.object_],
    masks: SceneMasks,
    frame: SceneFrame,
    shorter_side_m: float,
    valid_px: int,
    rules: Rules,
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
    """
    n = len(nodes)
    gsd_m = frame.record.gsd_m
    two_tau_m = 2 * rules.outline_tolerance_px * gsd_m
    distance_m = pair_distances(outlines)
    shares = measure_shares(nodes, masks, rules)
    apart = ~np.eye(n, dtype=bool)
    verdicts: dict[str, VerdictArray] = {}
    values: dict[str, FloatArray] = {}
    margins: dict[str, FloatArray] = {}

    near_m = min(rules.near_share * shorter_side_m, rules.near_max_px * gsd_m)
    far_m = rules.far_share * shorter_side_m
    overlap_verdict = np.where(
        shares.of_smaller >= rules.direction_shared_share, 0, np.where(shares.of_smaller > rules.share_floor, UNDECIDED, -1)
    )
    near_margin, far_margin = (max(rules.near_margin_share * threshold, two_tau_m) for threshold in (near_m, far_m))
    near = _threshold(near_m - distance_m, near_margin)
    verdicts["near"] = np.where(overlap_verdict >= 0, overlap_verdict, near).astype(np.int8)
    verdicts["far"] = _threshold(distance_m - far_m, far_margin)
    apart_px = shares.of_smaller <= rules.share_floor
    verdicts["touches"] = np.where(
        apart_px & (distance_m <= gsd_m), TRUE, np.where(apart_px & (distance_m <= two_tau_m), UNDECIDED, 0)
    ).astype(np.int8)
    for name, margin in (("near", near_margin), ("far", far_margin), ("touches", two_tau_m)):
        values[name], margins[name] = distance_m, np.full((n, n), margin)

    verdicts.update(_directions(nodes, outlines, frame, two_tau_m, rules, values, margins))
    for name in DIRECTIONS:
        verdicts[name] = np.where(overlap_verdict >= 0, overlap_verdict, verdicts[name]).astype(np.int8)

    _topology(shares, distance_m, two_tau_m, nodes, rules, verdicts, values, margins)
    for name in verdicts:
        verdicts[name] = np.where(apart, verdicts[name], 0).astype(np.int8)
    units = {name: "deg" if name in DIRECTIONS else "m" if name in (*DISTANCES, "touches") else "share" for name in verdicts}
    kept = [name for name in rules.relations if name in verdicts]
    return SceneGraph(
        scene_id=scene_id,
        nodes=nodes,
        gsd_m=gsd_m,
        convergence_deg=frame.record.convergence_deg,
        valid_px=valid_px,
        verdicts={name: verdicts[name] for name in kept},
        distance_m=distance_m,
        values={name: values[name] for name in kept},
        margins={name: margins[name] for name in kept},
        units=units,
    )


def pair_distances(outlines: NDArray[np.object_]) -> FloatArray:
    """Distances between outlines, (n, n) symmetric, 0 where they share any point."""
    n = len(outlines)
    upper = np.triu_indices(n, 1)
    distance = np.zeros((n, n))
    shapely.prepare(outlines)
    distance[upper] = shapely.distance(outlines[upper[0]], outlines[upper[1]])
    return distance + distance.T


def _threshold(surplus: FloatArray, margin: float) -> VerdictArray:
    """TRUE when the surplus over the threshold is at least the margin, UNDECIDED within it, else FALSE."""
    return np.where(np.abs(surplus) < margin, UNDECIDED, np.where(surplus >= margin, TRUE, 0)).astype(np.int8)


def _directions(
    nodes: Nodes,
    outlines: NDArray[np.object_],
    frame: SceneFrame,
    two_tau_m: float,
    rules: Rules,
    values: dict[str, FloatArray],
    margins: dict[str, FloatArray],
) -> dict[str, VerdictArray]:
    """Verdicts of the four directions before the share rule; fills values and margins of the deciding ray."""
    n = len(nodes)
    centroid = nodes.centroid_m
    convergence = frame.convergence_at(centroid) if n else np.zeros(0)
    subject, anchor = np.nonzero(~np.eye(n, dtype=bool))
    points = np.asarray(shapely.points(centroid), dtype=object)
    nearest = shapely.get_coordinates(shapely.shortest_line(outlines[anchor], points[subject])).reshape(-1, 2, 2)
    from_centroid = centroid[subject] - centroid[anchor]
    from_nearest = nearest[:, 1] - nearest[:, 0]
    rays = []
    for ray in (from_centroid, from_nearest):
        length = np.hypot(ray[:, 0], ray[:, 1])
        azimuth = (azimuth_deg(ray) + convergence[anchor]) % 360.0
        rays.append((azimuth, np.maximum(rules.direction_margin_deg, np.degrees(np.arctan2(two_tau_m, length)))))
    countable_anchor = nodes.countable[anchor]
    value, margin = (np.where(countable_anchor, rays[0][k], rays[1][k]) for k in (0, 1))
    matrices = [np.full((n, n), np.nan), np.full((n, n), np.nan)]
    matrices[0][subject, anchor], matrices[1][subject, anchor] = value, margin

    out: dict[str, VerdictArray] = {}
    for quarter, name in enumerate(DIRECTIONS):
        ray_verdicts = [_sector(azimuth, 90.0 * quarter, rules.direction_half_angle_deg, half) for azimuth, half in rays]
        agree = np.where(ray_verdicts[0] == ray_verdicts[1], ray_verdicts[0], UNDECIDED)
        verdict = np.zeros((n, n), dtype=np.int8)
        verdict[subject, anchor] = np.where(countable_anchor, agree, ray_verdicts[1])
        out[name], values[name], margins[name] = verdict, matrices[0], matrices[1]
    return out


def _sector(azimuth: FloatArray, centre_deg: float, half_angle_deg: float, margin_deg: FloatArray) -> VerdictArray:
    """Verdict of rays against one sector; a ray of length 0 (NaN azimuth) is UNDECIDED."""
    off = np.abs((azimuth - centre_deg + 180.0) % 360.0 - 180.0)
    verdict = np.where(off <= half_angle_deg - margin_deg, TRUE, np.where(off >= half_angle_deg + margin_deg, 0, UNDECIDED))
    return np.where(np.isnan(azimuth), UNDECIDED, verdict).astype(np.int8)


def _topology(
    shares: Shares,
    distance_m: FloatArray,
    two_tau_m: float,
    nodes: Nodes,
    rules: Rules,
    verdicts: dict[str, VerdictArray],
    values: dict[str, FloatArray],
    margins: dict[str, FloatArray],
) -> None:
    """Add inside, contains, outside and overlaps; topology is stored with region anchors alone."""
    n = len(nodes)
    region_anchor = np.broadcast_to(~nodes.countable, (n, n))
    share = np.nan_to_num(shares.in_filled)
    verdicts["inside"] = shares.in_filled_verdict
    values["inside"] = shares.in_filled
    verdicts["contains"] = shares.in_filled_verdict.T.copy()
    values["contains"] = shares.in_filled.T.copy()
    none = share < rules.share_floor
    outside = np.where(none & (distance_m > two_tau_m), TRUE, np.where(none | (share <= rules.outside_undecided_share), UNDECIDED, 0))
    verdicts["outside"] = np.where(region_anchor, outside, 0).astype(np.int8)
    values["outside"] = shares.in_filled
    s = shares.of_smaller
    low, high, full = rules.outside_undecided_share, rules.inside_undecided_share, rules.inside_share
    overlaps = np.where(
        (s >= low) & (s <= high), TRUE, np.where(((s > rules.share_floor) & (s < low)) | ((s > high) & (s < full)), UNDECIDED, 0)
    )
    either_region = region_anchor | region_anchor.T
    verdicts["overlaps"] = np.where(either_region, overlaps, 0).astype(np.int8)
    values["overlaps"] = s
    for name in ("inside", "contains"):
        margins[name] = np.full((n, n), full - high)
    for name in ("outside", "overlaps"):
        margins[name] = np.full((n, n), low)


def measure_shares(nodes: Nodes, masks: SceneMasks, rules: Rules) -> Shares:
    """Count shared pixels of every pair with a region in it, and decide `inside`."""
    n = len(nodes)
    of_smaller, in_filled = np.zeros((n, n)), np.full((n, n), np.nan)
    verdict = np.zeros((n, n), dtype=np.int8)
    n_labels = int(masks.label_of_node.max(initial=0)) + 1
    is_countable = np.flatnonzero(nodes.countable)
    labels = masks.label_of_node[is_countable]
    areas = nodes.area_px
    from scipy import ndimage  # 0.2 s to import, and planning needs none of it

    core_share = _CoreShares(masks, nodes, rules)
    for anchor, plane in masks.planes.items():
        shared = np.zeros(n)
        shared[is_countable] = np.bincount(masks.labels[plane], minlength=n_labels)[labels]
        filled = np.asarray(ndimage.binary_fill_holes(plane), dtype=bool)
        within = np.zeros(n)
        within[is_countable] = np.bincount(masks.labels[filled], minlength=n_labels)[labels]
        for other, other_plane in masks.planes.items():
            if other != anchor:
                shared[other] = np.count_nonzero(other_plane & plane)
                within[other] = np.count_nonzero(other_plane & filled)
        smaller = np.minimum(areas, areas[anchor])
        of_smaller[:, anchor] = of_smaller[anchor, :] = shared / smaller
        in_filled[:, anchor] = within / areas
        deep: NDArray[np.float64] | None = None
        for subject in np.flatnonzero(in_filled[:, anchor] >= rules.inside_undecided_share):
            if subject == anchor:
                continue
            share = in_filled[subject, anchor]
            if share < rules.inside_share:
                verdict[subject, anchor] = UNDECIDED
                continue
            if core_share.of(int(subject)) >= 0.5:
                verdict[subject, anchor] = TRUE
                continue
            if deep is None:
                deep = np.asarray(ndimage.distance_transform_edt(filled))
            is_deep = share == 1.0 and deep[core_share.mask(int(subject))].min() >= 2 * rules.outline_tolerance_px
            verdict[subject, anchor] = TRUE if is_deep else UNDECIDED
    np.fill_diagonal(of_smaller, 0.0)
    np.fill_diagonal(in_filled, np.nan)
    return Shares(of_smaller, in_filled, verdict)


class _CoreShares:
    """How much of a mask is left once eroded by the outline tolerance; computed when first asked."""

    def __init__(self, masks: SceneMasks, nodes: Nodes, rules: Rules) -> None:
        self._masks = masks
        from scipy import ndimage

        self._distance = ndimage.distance_transform_edt
        self._tolerance_px = rules.outline_tolerance_px
        self._boxes = ndimage.find_objects(masks.labels.astype(np.int32)) if masks.labels.any() else []
        self._known: dict[int, float] = {}

    def mask(self, node: int) -> BoolArray:
        """The full (height, width) mask of a node."""
        if node in self._masks.planes:
            return self._masks.planes[node]
        return self._masks.labels == self._masks.label_of_node[node]

    def of(self, node: int) -> float:
        """Share of a node's pixels farther than the tolerance from its outside, in [0, 1]."""
        if node not in self._known:
            if node in self._masks.planes:
                crop = self._masks.planes[node]
            else:
                label = int(self._masks.label_of_node[node])
                crop = self._masks.labels[self._boxes[label - 1]] == label
            depth = np.asarray(self._distance(np.pad(crop, 1)))
            self._known[node] = float(np.count_nonzero(depth > self._tolerance_px) / np.count_nonzero(crop))
        return self._known[node]


def outlines_to_ground(outlines: NDArray[np.object_], frame: SceneFrame) -> NDArray[np.object_]:
    """Map outlines from image coordinates to local ground metres, all vertices at once."""
    return shapely.transform(outlines, frame.ground_from_image) if len(outlines) else outlines
