"""The measuring rules of a release: every threshold of docs/release-format.md, with its default.

A release records the rules it was built with; the auditor and the scorer read them from the manifest.
Source: the project's semantics page; `near` at 10 % and `far` at 50 % of the scene side and the 0.5 IoU of EQS follow
GeoRefer-Bench (arXiv 2609.29541).
"""

import re

from pydantic import Field, field_validator

from trigpoint.records.base import Record

DIRECTIONS = ("north_of", "east_of", "south_of", "west_of")
"""Clockwise from north; index × 90° is the direction's azimuth."""

DISTANCES = ("near", "far")
TOPOLOGY = ("inside", "contains", "outside", "overlaps")

RELATIONS = (*DIRECTIONS, *DISTANCES, *TOPOLOGY)
"""All relation names that a graph stores by default, in storage order."""

DIAGONALS = ("northeast_of", "southeast_of", "southwest_of", "northwest_of")
"""The directions of the 8-wind rose between those of `DIRECTIONS`, clockwise; off by default."""

AZIMUTH_DEG = {name: 90.0 * k for k, name in enumerate(DIRECTIONS)} | {name: 90.0 * k + 45.0 for k, name in enumerate(DIAGONALS)}
"""Direction → azimuth of the middle of its sector, clockwise from true north."""

KNOWN_RELATIONS = (*RELATIONS, "touches", *DIAGONALS)
"""All relation names that `Rules.relations` can list; `touches` and `DIAGONALS` are off by default."""

_WITHIN = re.compile(r"within_([1-9][0-9]*)m")


def within_limit_m(name: str) -> int | None:
    """The distance of a relation `within_<d>m` in metres; None for every other name.

    >>> within_limit_m("within_25m"), within_limit_m("within_025m"), within_limit_m("near")
    (25, None, None)
    """
    found = _WITHIN.fullmatch(name)
    return int(found[1]) if found else None


def is_relation(name: str) -> bool:
    """Whether a name is that of a relation: one of `KNOWN_RELATIONS`, or `within_<d>m` of whole metres.

    >>> is_relation("within_25m"), is_relation("within_025m")
    (True, False)
    """
    return name in KNOWN_RELATIONS or within_limit_m(name) is not None


def is_distance(name: str) -> bool:
    """Whether a relation is one of distance: near, far, within some metres.

    >>> is_distance("near"), is_distance("within_25m"), is_distance("inside")
    (True, True, False)
    """
    return name in DISTANCES or within_limit_m(name) is not None


def relation_unit(name: str) -> str:
    """The unit of a relation's value and margin.

    >>> relation_unit("northeast_of"), relation_unit("within_25m"), relation_unit("inside")
    ('deg', 'm', 'share')
    """
    if name in AZIMUTH_DEG:
        return "deg"
    return "m" if is_distance(name) or name == "touches" else "share"


def inverse_of(name: str) -> str | None:
    """The relation of the reverse pair; None where there is none (`outside`).

    >>> inverse_of("northeast_of"), inverse_of("within_25m"), inverse_of("outside")
    ('southwest_of', 'within_25m', None)
    """
    return name if within_limit_m(name) is not None else INVERSE.get(name)


INVERSE = {
    "north_of": "south_of",
    "south_of": "north_of",
    "east_of": "west_of",
    "west_of": "east_of",
    "northeast_of": "southwest_of",
    "southwest_of": "northeast_of",
    "southeast_of": "northwest_of",
    "northwest_of": "southeast_of",
    "inside": "contains",
    "contains": "inside",
    "near": "near",
    "far": "far",
    "touches": "touches",
    "overlaps": "overlaps",
}
"""Relation → the relation of the reverse pair (symmetric relations map to themselves); `inverse_of` knows `within_<d>m` too."""

COUNTERPART = {
    "north_of": "south_of",
    "south_of": "north_of",
    "east_of": "west_of",
    "west_of": "east_of",
    "northeast_of": "southwest_of",
    "southwest_of": "northeast_of",
    "southeast_of": "northwest_of",
    "northwest_of": "southeast_of",
    "near": "far",
    "far": "near",
    "inside": "outside",
    "outside": "inside",
}
"""Relation → the one that a counterfactual puts in its place; both are never TRUE of one pair."""


class OutlineRule(Record):
    """How the measuring outline is made of the pixel-edge outline."""

    algorithm: str = "douglas-peucker, ring split at start vertex and first farthest vertex, distance to segment, whole numbers"
    tolerance_px: float = 1.0
    start_vertex: str = "smallest y, then smallest x"
    library: str = "trigpoint.geometry.outlines 1"


class DifficultyRule(Record):
    """Points for candidates, level, answer size and cardinality; the sum decides the tier.

    One point each: more than `candidates` members of the category, level at or above `level`, answer area share below
    `area_share` of the scene (or no answer), more than `cardinality` answers (or none). `medium_from` and `hard_from` points.
    """

    candidates: int = 20
    level: int = 3
    area_share: float = 0.0033
    cardinality: int = 2
    medium_from: int = 2
    hard_from: int = 3


class Rules(Record):
    """Every threshold of the measured part of a release."""

    outline_tolerance_px: float = Field(default=3.0, ge=0)
    near_share: float = 0.10
    near_max_px: float = 128.0
    far_share: float = 0.50
    direction_half_angle_deg: float = Field(default=45.0, gt=0, le=90)
    direction_margin_deg: float = 10.0
    wind_half_angle_deg: float = Field(default=22.5, gt=0, le=45)
    wind_margin_deg: float = 5.0
    near_margin_share: float = 0.05
    inside_share: float = 0.95
    inside_undecided_share: float = 0.80
    outside_undecided_share: float = 0.20
    direction_shared_share: float = 0.20
    share_floor: float = 1e-6
    area_margin_share: float = 0.05
    nearest_margin_share: float = 0.10
    farthest_margin_share: float = 0.03
    position_margin_px: float = 5.0
    anchor_max_scene_share: float = 0.40
    min_instance_px: int = 100
    min_drawn_instance_px: int = 1
    answer_max_share: float = 0.80
    unanswerable_share: float = Field(default=0.24, ge=0, lt=1)
    sector_min_share: float = 0.05
    max_scale_spread: float = 0.001
    eqs_iou: float = 0.5
    coverage_share: float = 0.5
    outline: OutlineRule = OutlineRule()
    difficulty: DifficultyRule = DifficultyRule()
    relations: tuple[str, ...] = RELATIONS
    within_m: tuple[int, ...] = ()

    def near_m(self, shorter_side_m: float, gsd_m: float) -> float:
        """The distance of `near` in a scene, metres."""
        return min(self.near_share * shorter_side_m, self.near_max_px * gsd_m)

    @field_validator("relations")
    @classmethod
    def _known_relations(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = sorted(set(value) - set(KNOWN_RELATIONS))
        if unknown or len(set(value)) != len(value):
            raise ValueError(f"relations are {list(value)}, expected some of {list(KNOWN_RELATIONS)}, each once")
        halves = sorted(name for name in value if INVERSE.get(name, name) not in value)
        if halves:
            raise ValueError(f"relations have {halves} without their inverses {[INVERSE[name] for name in halves]}")
        return value

    @field_validator("within_m")
    @classmethod
    def _sorted_limits(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(limit <= 0 for limit in value) or list(value) != sorted(set(value)):
            raise ValueError(f"within_m is {list(value)}, expected whole metres above 0, each once, sorted")
        return value

    @property
    def relation_names(self) -> tuple[str, ...]:
        """Every relation that a graph under these rules stores: `relations`, then one `within_<d>m` for each of `within_m`."""
        return (*self.relations, *(f"within_{limit}m" for limit in self.within_m))
