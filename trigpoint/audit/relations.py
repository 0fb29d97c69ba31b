"""The scene graph measured again: every relation of every ordered pair, its value and margin, and the algebra of the stored edges.

The auditor's measure differs from the builder's by fractions of a pixel, so each pair gets the *set* of verdicts that two
honest measurements may give (semantics, section 7): a decided edge more than 2 px inside the margin is objected to, and an
undecided one more than 2 px outside it as well. Not here: programs and answers.
"""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy import ndimage

from trigpoint.audit.boxes import BAND_PX
from trigpoint.audit.findings import Notebook
from trigpoint.audit.georeferencing import Frame
from trigpoint.audit.outline import measuring_outline
from trigpoint.audit.ownership import Masks
from trigpoint.audit.reading import Edges, Instance, Release

FILE = "relations.parquet"
FALSE, UNDECIDED, TRUE = 0, 1, 2
WORDS = ("FALSE", "UNDECIDED", "TRUE")
CARDINAL = {"north_of": 0.0, "east_of": 90.0, "south_of": 180.0, "west_of": 270.0}
DIRECTIONS = CARDINAL | {"northeast_of": 45.0, "southeast_of": 135.0, "southwest_of": 225.0, "northwest_of": 315.0}
"""Relation → true azimuth of the middle of its sector, degrees."""

INVERSES = {
    one: other for one, middle in DIRECTIONS.items() for other, opposite in DIRECTIONS.items() if abs(middle - opposite) == 180
}  # fmt: skip
WITHIN = re.compile(r"within_(\d+(?:\.\d+)?)m")
"""The name of `within(d)`: d in metres."""

SYMMETRIC = ("touches", "overlaps")
"""Relations of both or of neither; distances besides."""

TOPOLOGY = ("inside", "contains", "outside", "overlaps")
UNITS = dict.fromkeys(DIRECTIONS, "deg") | {"near": "m", "far": "m", "touches": "m"} | dict.fromkeys(TOPOLOGY, "share")
DISJOINT = (("touches", "far"), ("inside", "outside"), ("outside", "overlaps"))
"""Pairs of relations that are never both TRUE of one subject and anchor; directions and distances besides (`are_disjoint`)."""

SHARE_FLOOR = 1e-6
"""Shares below this are 0 (semantics, section 4)."""

EXACT = 1e-9
"""Rounding of numbers counted on the same masks."""

Matrix = NDArray[Any]
"""(n, n) array, [subject, anchor], rows and columns in the order of the scene's instances."""

Places = tuple[NDArray[np.int64], ...]
"""Positions in such an array, one index array per axis."""


def within_m(name: str) -> float:
    """Return the distance d of `within_<d>m`, metres; NaN for every other name.

    >>> within_m("within_7.5m"), within_m("within")
    (7.5, nan)
    """
    found = WITHIN.fullmatch(name)
    return float(found[1]) if found else math.nan


def is_distance(name: str) -> bool:
    """Say whether a relation is a comparison of a distance: `near`, `far` or `within_<d>m`."""
    return name in ("near", "far") or WITHIN.fullmatch(name) is not None


def unit_of(name: str) -> str:
    """Return the unit of a relation's value."""
    return UNITS.get(name, "m")


@dataclass(frozen=True)
class Limits:
    """The rules of one scene's graph, in ground units.

    Attributes:
        gsd_m: Ground size of a pixel.
        two_tau_m: Twice the outline tolerance, metres.
        outline_px: Tolerance that measuring outlines are simplified with, pixels.
        tau_px: The outline tolerance τ, pixels.
        near_m: Threshold of `near`; `near_margin_m` half the width of its undecided zone. `far_m`, `far_margin_m` likewise.
    """

    gsd_m: float
    outline_px: float
    tau_px: float
    two_tau_m: float
    near_m: float
    near_margin_m: float
    far_m: float
    far_margin_m: float
    half_angle_deg: float
    direction_margin_deg: float
    wind_half_angle_deg: float
    wind_margin_deg: float
    inside_share: float
    inside_undecided: float
    outside_undecided: float
    direction_shared: float
    distance_margin_share: float
    band_m: float

    def sector(self, name: str) -> tuple[float, float]:
        """Return the half angle of a direction's sector and its smallest margin, degrees."""
        return (self.half_angle_deg, self.direction_margin_deg) if name in CARDINAL else (self.wind_half_angle_deg, self.wind_margin_deg)

    def threshold(self, name: str) -> tuple[float, float]:
        """Return the threshold of `near`, `far` or `within_<d>m` and half the width of its undecided zone, metres."""
        if name in ("near", "far"):
            return (self.near_m, self.near_margin_m) if name == "near" else (self.far_m, self.far_margin_m)
        reach = within_m(name)
        return reach, max(self.distance_margin_share * reach, self.two_tau_m)

    @classmethod
    def of(cls, release: Release, frame: Frame, shorter_side_m: float) -> "Limits":
        """Derive the limits of a scene from the manifest's rules."""
        rule, gsd = release.rule, frame.gsd_m
        tau = rule("outline_tolerance_px", 3.0)
        near = min(rule("near_share", 0.10) * shorter_side_m, rule("near_max_px", 128.0) * gsd)
        far = rule("far_share", 0.50) * shorter_side_m
        share = rule("near_margin_share", 0.05)
        return cls(
            gsd_m=gsd,
            outline_px=release.outline_tolerance_px,
            tau_px=tau,
            two_tau_m=2 * tau * gsd,
            near_m=near,
            near_margin_m=max(share * near, 2 * tau * gsd),
            far_m=far,
            far_margin_m=max(share * far, 2 * tau * gsd),
            half_angle_deg=rule("direction_half_angle_deg", 45.0),
            direction_margin_deg=rule("direction_margin_deg", 10.0),
            wind_half_angle_deg=rule("wind_half_angle_deg", 22.5),
            wind_margin_deg=rule("wind_margin_deg", 5.0),
            distance_margin_share=share,
            inside_share=rule("inside_share", 0.95),
            inside_undecided=rule("inside_undecided_share", 0.80),
            outside_undecided=rule("outside_undecided_share", 0.20),
            direction_shared=rule("direction_shared_share", 0.20),
            band_m=BAND_PX * gsd,
        )


@dataclass(frozen=True)
class Measures:
    """What one scene's instances measure; arrays are in the order of `instances`."""

    instances: list[Instance]
    outlines: NDArray[Any]
    centroids: NDArray[np.float64]
    perimeters: NDArray[np.float64]
    lengths: NDArray[np.float64]
    areas_m2: NDArray[np.float64]
    distances: Matrix
    countable: NDArray[np.bool_]
    cut: NDArray[np.bool_]
    frame: Frame
    limits: Limits
    row: dict[str, int]


def measure(present: list[Instance], masks: Masks, frame: Frame, limits: Limits) -> Measures:
    """Make measuring outlines and measure them in the local ground frame: all that relations and programs need."""
    outlines = np.array([measuring_outline(masks.parts[i.instance_id], limits.outline_px) for i in present], dtype=object)
    outlines = shapely.transform(outlines, frame.to_ground)
    n = len(present)
    first, second = np.triu_indices(n, 1)
    distances = np.zeros((n, n))
    distances[first, second] = shapely.distance(outlines[first], outlines[second])
    return Measures(
        instances=present,
        outlines=outlines,
        centroids=shapely.get_coordinates(shapely.centroid(outlines)).reshape(n, 2),
        perimeters=shapely.length(outlines),
        lengths=np.array([i.length_m for i in present]),
        areas_m2=np.array([masks.window_of(i).sum() for i in present]) * frame.pixel_area_m2,
        distances=distances + distances.T,
        countable=np.array([i.countable for i in present], dtype=bool),
        cut=np.array([i.cut for i in present], dtype=bool),
        frame=frame,
        limits=limits,
        row={i.instance_id: number for number, i in enumerate(present)},
    )


@dataclass
class Expected:
    """One relation over all pairs (or some): the auditor's own verdict, the verdicts it accepts, and its value and margin.

    Attributes:
        own: Verdict codes by the auditor's measure, no band.
        accepts: Code → pairs for which a stored verdict of that code is accepted.
        value: Value in the relation's unit; NaN where there is none.
        value_slack: Difference from `value` that is accepted.
        other_value: A second reading of the document that is accepted too, or None.
        margin_low: Smallest margin accepted; `margin_high` the largest.
        shared: Of directions: share of the smaller that both cover.
    """

    own: Matrix
    accepts: dict[int, Matrix]
    value: Matrix
    value_slack: Matrix
    margin_low: Matrix
    margin_high: Matrix
    other_value: Matrix | None = field(default=None)
    shared: Matrix | None = field(default=None)

    def is_accepted(self, code: Matrix) -> Matrix:
        """Say which stored verdicts are accepted; codes of all pairs."""
        return np.choose(code, [self.accepts[FALSE], self.accepts[UNDECIDED], self.accepts[TRUE]])

    def is_value_off(self, name: str, found: NDArray[np.float64], at: Places) -> NDArray[np.bool_]:
        """Say which values, stored of the pairs at `at` for relation `name`, are neither reading of the document."""
        off = _is_off(name, found, self.value[at], self.value_slack[at])
        return off if self.other_value is None else off & _is_off(name, found, self.other_value[at], self.value_slack[at])

    def is_margin_off(self, found: NDArray[np.float64], at: Places) -> NDArray[np.bool_]:
        """Say which margins, stored of the pairs at `at`, are too small, too large or no number."""
        return ~((found >= self.margin_low[at]) & (found <= self.margin_high[at]))

    def replaced(self, s: NDArray[np.int64], a: NDArray[np.int64], other: "Expected", at: NDArray[np.int64]) -> "Expected":
        """Return this with the numbers of pairs (s, a) taken from `other`, there at positions `at`."""

        def put(mine: Matrix, others: Matrix) -> Matrix:
            mine = mine.copy()
            mine[s, a] = others[at]
            return mine

        return replace(
            self,
            own=put(self.own, other.own),
            accepts={code: put(mine, other.accepts[code]) for code, mine in self.accepts.items()},
            value=put(self.value, other.value),
            value_slack=put(self.value_slack, other.value_slack),
            margin_low=put(self.margin_low, other.margin_low),
            margin_high=put(self.margin_high, other.margin_high),
        )


def _is_off(name: str, found: NDArray[np.float64], value: Matrix, slack: Matrix) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # whatever is stored: infinite values are off, too
        gap = np.abs((found - value + 180) % 360 - 180) if unit_of(name) == "deg" else np.abs(found - value)
    near_nothing = (unit_of(name) == "deg") & (slack >= 180)  # a ray of no length: null or any azimuth
    return ~((gap <= slack) | near_nothing)


def expect_relations(m: Measures, masks: Masks, names: Sequence[str]) -> dict[str, Expected]:
    """Measure every named relation of every ordered pair.

    Args:
        m: The scene's measures.
        masks: Its masks, for shares.
        names: Relation names of `rules.relations`; unknown ones are passed over.
    """
    raw, filled = _shared_pixels(m, masks)
    pixels = np.array([masks.window_of(i).sum() for i in m.instances], dtype=np.float64)
    smaller = np.minimum(pixels[:, None], pixels[None, :])
    of_smaller = _floored(raw / smaller)
    result: dict[str, Expected] = {}
    for kind in (CARDINAL, DIRECTIONS.keys() - CARDINAL):
        wanted = [name for name in DIRECTIONS if name in kind and name in names]
        if wanted:
            result |= _directions(m, of_smaller, wanted)
    for name in names:
        if is_distance(name):
            result[name] = _distance(m, name, of_smaller)
    if "touches" in names:
        result["touches"] = _touches(m, of_smaller)
    inside = _inside(m, masks, _floored(filled / pixels[:, None])) if {"inside", "contains"} & set(names) else None
    if inside is not None and "inside" in names:
        result["inside"] = inside
    if inside is not None and "contains" in names:
        result["contains"] = Expected(
            inside.own.T, {code: ok.T for code, ok in inside.accepts.items()}, inside.value.T, inside.value_slack.T, inside.margin_low.T,
            inside.margin_high.T,
        )  # fmt: skip
    if "outside" in names:
        result["outside"] = _outside(m, _floored(filled / pixels[:, None]))
    if "overlaps" in names:
        result["overlaps"] = _overlaps(m, of_smaller, _floored(np.minimum(filled / smaller, 1)))
    return result


def _floored(share: Matrix) -> Matrix:
    return np.where(share < SHARE_FLOOR, 0.0, share)


def _shared_pixels(m: Measures, masks: Masks) -> tuple[Matrix, Matrix]:
    """Count shared pixels: [s, a] of both masks, and of the subject's mask with the anchor's filled mask (regions only)."""
    n = len(m.instances)
    raw, filled = np.zeros((n, n)), np.zeros((n, n))
    labels = np.array([int(i.label or 0) if i.countable else 0 for i in m.instances])
    regions = np.flatnonzero(~m.countable)
    top = int(max(labels.max(initial=0), int(masks.index.max())))
    for a in regions:
        plane = masks.planes[int(m.instances[a].plane or 0)]
        whole = masks.filled(int(m.instances[a].plane or 0))
        for target, mask in ((raw, plane), (filled, whole)):
            counts = np.bincount(masks.index[mask], minlength=top + 1)
            target[m.countable, a] = counts[labels[m.countable]]
            for s in regions:
                target[s, a] = np.count_nonzero(masks.planes[int(m.instances[s].plane or 0)] & mask)
        raw[a, m.countable] = raw[m.countable, a]
    return raw, filled


def _directions(m: Measures, shared: Matrix, names: list[str]) -> dict[str, Expected]:
    """Every pair's directions of one kind, by the anchor's point that comes out as nearest to the subject's centroid."""
    subject, anchor = np.meshgrid(*(np.arange(len(m.instances)),) * 2, indexing="ij")
    return _directions_from(m, subject, anchor, _nearest_points(m, subject, anchor), shared, names)


def _nearest_points(m: Measures, subject: NDArray[np.int64], anchor: NDArray[np.int64]) -> Matrix:
    """Return the (..., 2) points of anchors that are nearest to the subjects' centroids; a centroid in its anchor is its own."""
    targets: NDArray[Any] = np.asarray(shapely.points(m.centroids), dtype=object)
    lines = shapely.shortest_line(m.outlines[anchor], targets[subject])
    return shapely.get_coordinates(lines.ravel()).reshape(*subject.shape, 2, 2)[..., 0, :]


def _directions_from(
    m: Measures, subject: NDArray[np.int64], anchor: NDArray[np.int64], starts: Matrix, shared: Matrix, names: list[str]
) -> dict[str, Expected]:
    """Both rays (one for region anchors) against each sector of one kind; shared pixels overrule them.

    Args:
        m: The scene's measures.
        subject: Rows of the subjects, in any shape; `anchor` of the anchors, in the same.
        anchor: See `subject`.
        starts: (..., 2) where the second rays start: places of the anchors that are nearest to the subjects' centroids.
        shared: (...) share of the smaller that both cover.
        names: Directions of one kind (cardinal or not).

    Returns:
        For every name the expectations in the shape of `subject`.

    Source: semantics, section 4, "Directions": ray 1 from the anchor's centroid, ray 2 from the anchor's point nearest to the
        subject's centroid (length 0 when that centroid is in the anchor), azimuth = grid azimuth + convergence at the anchor.
    """
    limits = m.limits
    half_deg, margin_deg = limits.sector(names[0])
    region = ~m.countable[anchor]
    turn = m.frame.convergence_at(m.centroids)[anchor]
    rays = [_Ray.of(m.centroids[subject] - start, turn, limits, half_deg, margin_deg) for start in (m.centroids[anchor], starts)]
    disjoint, drowned = shared == 0, shared >= limits.direction_shared
    on_edge = np.isclose(shared, limits.direction_shared, rtol=0, atol=EXACT)
    deciding = [np.where(region, two, one) for one, two in zip(rays[0].columns(), rays[1].columns(), strict=True)]
    azimuth, slack, low, high = deciding
    result: dict[str, Expected] = {}
    for name in names:
        zones = [ray.zones(DIRECTIONS[name], half_deg) for ray in rays]
        combined: dict[str, Matrix] = {}
        for key in ("in", "out", "may_in", "may_out", "surely_in", "surely_out"):
            combined[key] = zones[1][key] & (region | zones[0][key])
        own = np.where(combined["in"], TRUE, np.where(combined["out"], FALSE, UNDECIDED))
        own = np.where(disjoint, own, np.where(drowned, FALSE, UNDECIDED))
        accepts = {
            TRUE: disjoint & combined["may_in"],
            UNDECIDED: (disjoint & ~combined["surely_in"] & ~combined["surely_out"]) | (~disjoint & (~drowned | on_edge)),
            FALSE: (disjoint & combined["may_out"]) | drowned | on_edge,
        }
        result[name] = Expected(own, accepts, azimuth, slack, low, high, shared=shared)
    return result


def near_places(outline: Any, point: NDArray[np.float64], within_m: float) -> NDArray[np.float64]:
    """Return the places of an outline that are nearer to a point than the outline to both sides of them: who may be the nearest.

    Args:
        outline: Polygon or MultiPolygon, metres.
        point: (2,) in the same frame.
        within_m: Largest distance from the point.

    Returns:
        (k, 2) places at most `within_m` away, the nearest first.

    >>> near_places(shapely.box(0, -9, 20, 2), np.array([5.0, 4.0]), 6.0).tolist()
    [[5.0, 2.0]]
    """
    places: list[NDArray[np.float64]] = []
    for ring in shapely.get_rings(shapely.get_parts(outline)):
        corners = shapely.get_coordinates(ring)[:-1]
        sides = np.roll(corners, -1, axis=0) - corners
        along = ((point - corners) * sides).sum(axis=1) / (sides**2).sum(axis=1)
        is_on_side, is_corner = (along > 0) & (along < 1), (along <= 0) & (np.roll(along, 1) >= 1)
        places += [corners[is_corner], (corners + along[:, None] * sides)[is_on_side]]
    found = np.vstack(places)
    far = np.hypot(*(found - point).T)
    order = np.argsort(far, kind="stable")
    return found[order[far[order] <= within_m]]


def settle_ties(expected: dict[str, Expected], codes: dict[str, NDArray[np.int8]], edges: Edges, m: Measures) -> dict[str, Expected]:
    """Measure pairs whose directions are disputed again, from every place of the anchor that may be the nearest.

    An anchor of several parts or of a concave shape can be as near at one place as at another, so that two honest measurements start
    the second ray at different places. Of those at most 2 px farther than the nearest, the one whose ray fits all stored directions of
    the pair best (verdicts, values and margins, with the same tolerances) takes the place of the nearest; of equals the nearest.

    Args:
        expected: From `expect_relations`.
        codes: Stored verdicts.
        edges: Stored edges.
        m: The scene's measures.

    Returns:
        `expected`, with other numbers where a pair was disputed and another place fits better.
    """
    names = [name for name in DIRECTIONS if name in expected]
    rows = {name: _row_of_pair(edges, name, len(m.instances)) for name in names}
    disputed = sum((_objections(name, expected[name], codes[name], rows[name], edges) for name in names), np.zeros_like(m.distances)) > 0
    np.fill_diagonal(disputed, val=False)
    s, a = np.nonzero(disputed)
    if not len(s):
        return expected
    nearest = _nearest_points(m, s, a)
    reach = np.hypot(*(m.centroids[s] - nearest).T) + m.limits.band_m
    places = [
        np.vstack([start, near_places(m.outlines[anchor], m.centroids[subject], within_m)])
        for start, anchor, subject, within_m in zip(nearest, a, s, reach, strict=True)
    ]
    pair = np.repeat(np.arange(len(s)), [len(each) for each in places])
    subject, anchor = s[pair], a[pair]
    again: dict[str, Expected] = {}
    for kind in (CARDINAL, DIRECTIONS.keys() - CARDINAL):
        wanted = [name for name in names if name in kind]
        if wanted:
            shared = np.asarray(expected[wanted[0]].shared)[subject, anchor]
            again |= _directions_from(m, subject, anchor, np.vstack(places), shared, wanted)
    against = sum(
        (_objections(name, again[name], codes[name][subject, anchor], rows[name][subject, anchor], edges) for name in names),
        np.zeros(len(pair)),
    )
    order = np.lexsort((against, pair))  # stable: of equals the nearest
    best = order[np.unique(pair[order], return_index=True)[1]]
    return expected | {name: expected[name].replaced(s, a, right, best) for name, right in again.items()}


def _row_of_pair(edges: Edges, name: str, n: int) -> Matrix:
    """Return the (n, n) rows of `edges` that hold one relation of each pair, -1 where none does."""
    rows = np.flatnonzero(edges.relation == name)
    found = np.full((n, n), -1)
    found[edges.subject[rows], edges.anchor[rows]] = rows
    return found


def _objections(name: str, right: Expected, code: Matrix, row: Matrix, edges: Edges) -> Matrix:
    """Count what is wrong with stored verdicts and their rows of `edges` (-1: none), in the shape of `right`: verdict, value, margin."""
    against = (~right.is_accepted(code)).astype(np.int64)
    at = np.nonzero(row >= 0)
    against[at] += right.is_value_off(name, edges.value[row[at]], at)
    against[at] += right.is_margin_off(edges.margin[row[at]], at)
    return against


@dataclass(frozen=True)
class _Ray:
    """The rays of pairs from one kind of start: azimuth (deg), length (m), margin (deg), and what 2 px make of both."""

    azimuth: Matrix
    length: Matrix
    margin: Matrix
    slack: Matrix
    margin_low: Matrix
    margin_high: Matrix
    point: Matrix
    blind_true: Matrix

    @classmethod
    def of(cls, ray: Matrix, turn: Matrix, limits: Limits, half_deg: float, margin_deg: float) -> "_Ray":
        """Measure (..., 2) ray vectors in grid metres; `turn` is the convergence at the anchor, the rest the kind of sector."""
        length = np.hypot(ray[..., 0], ray[..., 1])
        azimuth = (np.degrees(np.arctan2(ray[..., 0], ray[..., 1])) + turn) % 360

        def margin_at(metres: Matrix) -> Matrix:
            return np.maximum(margin_deg, np.degrees(np.arctan2(limits.two_tau_m, np.maximum(metres, 0))))

        shortest = margin_at(length + limits.band_m)
        return cls(
            azimuth=np.where(length > 0, azimuth, np.nan),
            length=length,
            margin=margin_at(length),
            slack=np.where(length > limits.band_m, np.degrees(np.arctan2(limits.band_m, length)), 180.0),
            margin_low=shortest - 1e-6,
            margin_high=margin_at(length - limits.band_m) + 1e-6,
            point=length <= limits.band_m,
            blind_true=shortest <= half_deg,
        )

    def columns(self) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """Return value, value slack and the two ends of the margin."""
        return self.azimuth, self.slack, self.margin_low, self.margin_high

    def zones(self, middle_deg: float, half_deg: float) -> dict[str, Matrix]:
        """Classify against one sector: in/out by margin; `may_` within the band; `surely_` beyond it.

        A ray no longer than the band points anywhere: it may be out; it may be in only where a margin that small exists.
        """
        with np.errstate(invalid="ignore"):
            depth = half_deg - np.abs((self.azimuth - middle_deg + 180) % 360 - 180)
            depth = np.where(np.isnan(depth), 0.0, depth)
        return {
            "in": depth >= self.margin,
            "out": depth <= -self.margin,
            "may_in": np.where(self.point, self.blind_true, depth >= self.margin - self.slack),
            "may_out": np.where(self.point, True, -depth >= self.margin - self.slack),
            "surely_in": ~self.point & (depth > self.margin + self.slack),
            "surely_out": ~self.point & (-depth > self.margin + self.slack),
        }


def _scalar(depth: Matrix, margin: float, band: float) -> tuple[Matrix, dict[int, Matrix]]:
    """Classify a signed depth behind a threshold: own verdict and accepted ones."""
    own = np.where(depth >= margin, TRUE, np.where(depth <= -margin, FALSE, UNDECIDED))
    accepts = {TRUE: depth >= margin - band, UNDECIDED: np.abs(depth) <= margin + band, FALSE: -depth >= margin - band}
    return own, accepts


def _constant(shape: tuple[int, ...], value: float, slack: float) -> tuple[Matrix, Matrix]:
    return np.full(shape, value - slack), np.full(shape, value + slack)


def _distance(m: Measures, name: str, shared: Matrix) -> Expected:
    """`far`: distance at least the threshold; `within`: at most; `near`: at most, and never of things that share pixels."""
    limits = m.limits
    threshold, margin = limits.threshold(name)
    own, accepts = _scalar((threshold - m.distances) * (-1 if name == "far" else 1), margin, limits.band_m)
    if name == "near":
        disjoint, drowned = shared == 0, shared >= limits.direction_shared
        on_edge = np.isclose(shared, limits.direction_shared, rtol=0, atol=EXACT)
        own = np.where(disjoint, own, np.where(drowned, FALSE, UNDECIDED))
        accepts = {
            TRUE: disjoint & accepts[TRUE],
            UNDECIDED: (disjoint & accepts[UNDECIDED]) | (~disjoint & (~drowned | on_edge)),
            FALSE: (disjoint & accepts[FALSE]) | drowned | on_edge,
        }
    low, high = _constant(own.shape, margin, max(1e-3 * margin, 0.05 * limits.band_m))
    return Expected(own, accepts, m.distances, np.full(own.shape, limits.band_m), low, high)


def _touches(m: Measures, shared: Matrix) -> Expected:
    """`touches`: no shared pixel and outlines at most 1 pixel apart; undecided from there up to 2τ."""
    limits = m.limits
    disjoint, gap = shared == 0, m.distances
    own = np.where(disjoint & (gap <= limits.gsd_m), TRUE, np.where(disjoint & (gap <= limits.two_tau_m), UNDECIDED, FALSE))
    accepts = {
        TRUE: disjoint & (gap <= limits.gsd_m + limits.band_m),
        UNDECIDED: disjoint & (gap <= limits.two_tau_m + limits.band_m) & (gap >= limits.gsd_m - limits.band_m),
        FALSE: ~disjoint | (gap >= limits.two_tau_m - limits.band_m),
    }
    low, high = _constant(own.shape, limits.two_tau_m, max(1e-3 * limits.two_tau_m, 0.05 * limits.band_m))
    return Expected(own, accepts, gap, np.full(own.shape, limits.band_m), low, high)


def _with_regions(m: Measures, own: Matrix, accepts: dict[int, Matrix], *, either: bool = False) -> tuple[Matrix, dict[int, Matrix]]:
    """Topology is stored with region anchors alone (`either`: or region subjects): everything else is FALSE and nothing but FALSE."""
    asked = np.broadcast_to(~m.countable[None, :], own.shape)
    if either:
        asked = asked | ~m.countable[:, None]
    accepts = {code: (ok & asked) if code != FALSE else (ok | ~asked) for code, ok in accepts.items()}
    return np.where(asked, own, FALSE), accepts


def _inside(m: Measures, masks: Masks, share: Matrix) -> Expected:
    """`inside`: share in the anchor's filled mask; thin subjects are undecided unless they lie deep (2τ) in the anchor."""
    limits = m.limits
    thin_own, thin_may, thick_may = (np.zeros(share.shape[0], dtype=bool) for _ in range(3))
    deep_own, deep_may, shallow_may = (np.zeros(share.shape, dtype=bool) for _ in range(3))
    for s in np.flatnonzero((share >= limits.inside_share - EXACT).any(axis=1)):
        left = _eroded_shares(m.instances[s], masks, limits.tau_px)
        thin_own[s], thin_may[s], thick_may[s] = left[0] < 0.5, min(left) < 0.5 + EXACT, max(left) >= 0.5 - EXACT
    deep = 2 * limits.tau_px
    for s, a in np.argwhere(~m.countable[None, :] & (share >= limits.inside_share - EXACT) & thin_may[:, None]):
        if share[s, a] < 1 - EXACT:
            shallow_may[s, a] = True
            continue
        depths = _depths(m.instances[s], m.instances[a], masks, deep + BAND_PX)
        deep_own[s, a] = depths[0] >= deep
        deep_may[s, a] = max(depths) >= deep - BAND_PX
        shallow_may[s, a] = min(depths) <= deep + BAND_PX
    high, low = share >= limits.inside_share, share < limits.inside_undecided
    own = np.where(high & (deep_own | ~thin_own[:, None]), TRUE, np.where(low, FALSE, UNDECIDED))
    at_high = share >= limits.inside_share - EXACT
    accepts = {
        TRUE: at_high & (deep_may | thick_may[:, None]),
        UNDECIDED: (~low & (share <= limits.inside_share + EXACT)) | (at_high & thin_may[:, None] & shallow_may),
        FALSE: share <= limits.inside_undecided + EXACT,
    }
    own, accepts = _with_regions(m, own, accepts)
    margin = _constant(own.shape, limits.inside_share - limits.inside_undecided, 1e-6)
    return Expected(own, accepts, share, np.full(own.shape, 1e-6), *margin)


def _to_outside(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return every pixel's distance (pixel centres) to the nearest pixel outside the mask; infinite when there is none."""
    return np.asarray(ndimage.distance_transform_edt(mask), dtype=np.float64) if not mask.all() else np.full(mask.shape, np.inf)


def _eroded_shares(instance: Instance, masks: Masks, tau_px: float) -> tuple[float, float]:
    """Return what is left of a mask once eroded by τ: the scene's border as outside, and not as outside."""
    mask, (rows, columns) = masks.window_of(instance), masks.windows[instance.instance_id]
    height, width = masks.index.shape
    area = float(mask.sum())
    left = float((_to_outside(np.pad(mask, 1))[1:-1, 1:-1][mask] > tau_px).sum()) / area
    sides = ((int(rows.start > 0), int(rows.stop < height)), (int(columns.start > 0), int(columns.stop < width)))
    if all(map(all, sides)):
        return left, left
    padded = np.pad(mask, sides)
    return left, float((_to_outside(padded)[padded] > tau_px).sum()) / area


def _depths(subject: Instance, anchor: Instance, masks: Masks, far_px: float) -> tuple[float, float]:
    """Return how deep (pixels) a subject lies in the filled anchor: the scene's border as its edge, and not as its edge.

    Only the neighbourhood of the subject is looked at: depths beyond `far_px` come out too large, never too small.
    """
    reach = int(far_px) + 2
    (rows, columns), (height, width) = masks.windows[subject.instance_id], masks.index.shape
    around = (
        slice(max(0, rows.start - reach), min(height, rows.stop + reach)),
        slice(max(0, columns.start - reach), min(width, columns.stop + reach)),
    )
    mask = masks.window_of(subject)
    place = (
        slice(rows.start - around[0].start, rows.stop - around[0].start),
        slice(columns.start - around[1].start, columns.stop - around[1].start),
    )
    whole = masks.filled(int(anchor.plane or 0))[around]
    border = ((int(around[0].start == 0), int(around[0].stop == height)), (int(around[1].start == 0), int(around[1].stop == width)))
    padded = _to_outside(np.pad(whole, border))
    closed = padded[border[0][0] : border[0][0] + whole.shape[0], border[1][0] : border[1][0] + whole.shape[1]]
    open_ = _to_outside(whole) if any(map(any, border)) else closed
    return float(closed[place][mask].min()), float(open_[place][mask].min())


def _outside(m: Measures, share: Matrix) -> Expected:
    """`outside`: no shared pixel and more than 2τ away; undecided up to 20 % or within 2τ."""
    limits = m.limits
    none = share == 0
    gap = m.distances - limits.two_tau_m
    own = np.where(none & (gap > 0), TRUE, np.where(share <= limits.outside_undecided, UNDECIDED, FALSE))
    accepts = {
        TRUE: none & (gap >= -limits.band_m),
        UNDECIDED: (none & (gap <= limits.band_m)) | (~none & (share <= limits.outside_undecided + EXACT)),
        FALSE: share >= limits.outside_undecided - EXACT,
    }
    own, accepts = _with_regions(m, own, accepts)
    return Expected(own, accepts, share, np.full(own.shape, 1e-6), *_constant(own.shape, limits.outside_undecided, 1e-6))


def _overlaps(m: Measures, share: Matrix, share_filled: Matrix) -> Expected:
    """`overlaps`: 20–80 % of the smaller; undecided above 0 and up to 95 %.

    The documents do not say whether a region's holes count here: both readings are accepted, the own verdict is without holes.
    """
    limits = m.limits
    verdicts: list[Matrix] = []
    accepts = {code: np.zeros(share.shape, dtype=bool) for code in (FALSE, UNDECIDED, TRUE)}
    low, high, top = limits.outside_undecided, limits.inside_undecided, limits.inside_share
    # overlaps is symmetric: with a countable anchor the region's filling counts, not the anchor's
    share_filled = np.where(m.countable[None, :], share_filled.T, share_filled)
    for value in (share, share_filled):
        middle = (value > low) & (value < high)
        verdicts.append(np.where(middle, TRUE, np.where((value > 0) & (value < top), UNDECIDED, FALSE)))
        accepts[TRUE] |= (value >= low - EXACT) & (value <= high + EXACT)
        accepts[UNDECIDED] |= (value > 0) & (value <= top + EXACT) & ((value <= low + EXACT) | (value >= high - EXACT))
        accepts[FALSE] |= (value == 0) | (value >= top - EXACT)
    own, accepts = _with_regions(m, verdicts[0], accepts, either=True)
    margin = _constant(own.shape, low, 1e-6)
    return Expected(own, accepts, share, np.full(own.shape, 1e-6), *margin, other_value=share_filled)


def stored_verdicts(edges: Edges, m: Measures, scene_id: str, names: Sequence[str], notes: Notebook) -> dict[str, NDArray[np.int8]]:
    """Return relation → (n, n) stored codes; unknown relations, self edges and doubles are findings."""
    n = len(m.instances)
    codes: dict[str, NDArray[np.int8]] = {name: np.zeros((n, n), dtype=np.int8) for name in names}
    for name in sorted(set(edges.relation.tolist())):
        rows = edges.relation == name
        if name not in codes:
            notes.add("relation_unknown", FILE, f"{scene_id} {name}", f"one of {', '.join(names)}", name)
            continue
        subject, anchor = edges.subject[rows], edges.anchor[rows]
        flat, counts = np.unique(subject * n + anchor, return_counts=True)
        for pair in flat[counts > 1]:
            notes.add("edge_twice", FILE, _pair(m, int(pair) // n, int(pair) % n, name), "one row", "several")
        codes[name][subject, anchor] = edges.code[rows]
    for name, code in codes.items():
        for s in np.flatnonzero(np.diagonal(code)):
            notes.add("edge_to_itself", FILE, _pair(m, int(s), int(s), name), "no edge", WORDS[int(code[s, s])])
        np.fill_diagonal(code, 0)
    return codes


def _pair(m: Measures, s: int, a: int, name: str) -> str:
    return f"{m.instances[s].instance_id} {name} {m.instances[a].instance_id}"


def check_relations(expected: dict[str, Expected], codes: dict[str, NDArray[np.int8]], edges: Edges, m: Measures, notes: Notebook) -> None:
    """Hold every stored (and every missing) edge against the auditor's own measure: verdict, value, unit and margin."""
    n = len(m.instances)
    off_diagonal = ~np.eye(n, dtype=bool)
    for name, right in settle_ties(expected, codes, edges, m).items():
        code = codes[name]
        notes.count("relation_verdicts", n * (n - 1))
        for s, a in np.argwhere(~right.is_accepted(code) & off_diagonal):
            stored, own = int(code[s, a]), int(right.own[s, a])
            if {stored, own} == {FALSE, TRUE}:
                kind = "edge_opposite"
            elif stored == FALSE:
                kind = "edge_missing"
            else:
                kind = "edge_extra" if own == FALSE else "edge_verdict"
            what = f"{WORDS[own]} ({right.value[s, a]:.6g} {unit_of(name)})"
            notes.add(kind, FILE, _pair(m, int(s), int(a), name), what, WORDS[stored])
        _check_values(name, right, edges, m, notes)


def _check_values(name: str, right: Expected, edges: Edges, m: Measures, notes: Notebook) -> None:
    """Compare value, unit and margin of the stored edges of one relation."""
    rows = np.flatnonzero((edges.relation == name) & (edges.subject != edges.anchor))
    s, a = edges.subject[rows], edges.anchor[rows]
    found, value = edges.value[rows], right.value[s, a]
    notes.count("relation_values", len(rows))
    off = right.is_value_off(name, found, (s, a))
    for k in np.flatnonzero(off):
        notes.add("edge_value", FILE, _pair(m, int(s[k]), int(a[k]), name), f"{value[k]:.6g} {unit_of(name)}", f"{found[k]:.6g}")
    for k in np.flatnonzero(edges.unit[rows] != unit_of(name)):
        notes.add("edge_unit", FILE, _pair(m, int(s[k]), int(a[k]), name), unit_of(name), str(edges.unit[rows][k]))
    margin, low, high = edges.margin[rows], right.margin_low[s, a], right.margin_high[s, a]
    for k in np.flatnonzero(right.is_margin_off(margin, (s, a))):
        notes.add(
            "edge_margin", FILE, _pair(m, int(s[k]), int(a[k]), name), f"{low[k]:.6g} to {high[k]:.6g} {unit_of(name)}", f"{margin[k]:.6g}"
        )


def check_algebra(codes: dict[str, NDArray[np.int8]], m: Measures, notes: Notebook) -> None:
    """Check inverses, symmetry and disjointness on the stored edges themselves, no measuring involved."""
    both = m.countable[:, None] & m.countable[None, :]
    for name, inverse in INVERSES.items():
        if name in codes and inverse in codes:
            _note_pairs(
                "algebra_inverse", (codes[name] == TRUE) & (codes[inverse].T == FALSE) & both, name, f"{inverse} of the reverse", m, notes
            )
    if "inside" in codes and "contains" in codes:
        _note_pairs("algebra_inverse", codes["inside"] != codes["contains"].T, "inside", "contains of the reverse, same verdict", m, notes)
    for name in codes:
        if name in SYMMETRIC or is_distance(name):
            differs = codes[name] != codes[name].T
            _note_pairs("algebra_symmetry", differs & (codes[name] > 0), name, "the same verdict of the reverse", m, notes)
    for one, other in itertools.combinations(codes, 2):
        if are_disjoint(one, other, m.limits):
            _note_pairs("algebra_disjoint", (codes[one] == TRUE) & (codes[other] == TRUE), one, f"not {other} as well", m, notes)
    notes.count("algebra", sum(int(np.count_nonzero(code)) for code in codes.values()))


def are_disjoint(one: str, other: str, limits: Limits) -> bool:
    """Say whether two relations can never both be TRUE of one subject and anchor."""
    if one in DIRECTIONS and other in DIRECTIONS:
        turn = abs((DIRECTIONS[one] - DIRECTIONS[other] + 180) % 360 - 180)
        return turn >= limits.sector(one)[0] + limits.sector(other)[0]
    if "far" in (one, other) and (is_distance(one) and is_distance(other)):
        return limits.threshold(other if one == "far" else one)[0] <= limits.far_m
    return (one, other) in DISJOINT or (other, one) in DISJOINT


def _note_pairs(code: str, bad: Matrix, name: str, expected: str, m: Measures, notes: Notebook) -> None:
    for s, a in np.argwhere(bad):
        notes.add(code, FILE, _pair(m, int(s), int(a), name), expected, "broken by the stored edges")
