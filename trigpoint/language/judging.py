"""What the measured scene says of one claim: supported, contradicted, or nothing either way.

Relations come from the three-valued graph that answers programs; places, sizes, shapes and counts from the attributes of the instances,
each with a margin inside which nothing is said. Not here: reading sentences (`trigpoint.language.claims`), and whether a whole sentence
may be released (`trigpoint.language.grounding`).
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.categories import Taxonomy
from trigpoint.errors import ProgramError
from trigpoint.language.claims import ParsedClaim
from trigpoint.language.wording import why_unmeasured
from trigpoint.programs.language import Attr, Cat, Node, category_node
from trigpoint.programs.resolver import Members, Resolver, positions_of
from trigpoint.records.language import Claim, LanguageTarget, Verdict
from trigpoint.rules import AZIMUTH_DEG, COUNTERPART, DIRECTIONS

ADJACENT_SHARE = 0.5
"""Adjacent is surely so within this share of the distance of `near`, and surely not beyond `near`."""

NEAR_SLACK = 2.0
"""What is farther than this times the distance of `near` is surely not near."""

POSITION_MARGIN = 0.05
"""Share of the scene's side within which "in the northern part" is undecided."""

MIDDLE, NOT_MIDDLE = 0.25, 0.40
"""Shares of the side: within the first from the centre is surely the middle, beyond the second surely not."""

CORNER, NOT_CORNER = 0.25, 0.10
"""Shares of the side from the centre, on both axes: beyond the first is surely a corner, within the second on one of them surely none."""

EDGE, NOT_EDGE = 0.35, 0.20
"""The same for edges, on one axis."""

BETWEEN_DEG, NOT_BETWEEN_DEG = 135.0, 80.0
"""Angle between two things as seen from a third: from the first on it is surely between them, up to the second surely not."""

SURROUNDED_GAP_DEG, OPEN_GAP_DEG = 120.0, 180.0
"""Widest gap between neighbours all round: up to the first a thing is surely surrounded, from the second on surely not."""

ELONGATED, NOT_ELONGATED = 3.0, 1.5
"""Squared length by area, which is length by width for a rectangle."""

ROUND, NOT_ROUND = 0.88, 0.72
"""4 π area by squared perimeter: 1 for a circle, 0.79 for a square."""

COMPARED_WITH = 5
"""Fewest other countable things of a scene that large and small can compare with."""

SEVERAL, MANY, NOT_MANY = 3, 10, 3
"""From how many on something is surely several and many; up to how many surely not many."""

_Judged = tuple[Verdict, str]


class GroundScene(NamedTuple):
    """What sentences are held against.

    Attributes:
        resolver: On the scene's graph.
        centroid_share: (n, 2) centroids as shares of the scene from its centre: east and north, -0.5 to 0.5.
        is_north_up: Whether left, right, top and bottom may be said.
        near_m: Distance of `near`, metres.
        poi_categories: Categories that the scene's POI tags name.
        mapped_tags: Tags of what is mapped in the scene, whatever its category.
        is_map_complete: Whether the map holds everything that OpenStreetMap has there: only then does what it lacks say anything.
        vocabularies: Further taxonomies, which know words that the release's does not.
    """

    resolver: Resolver
    centroid_share: NDArray[np.float64]
    is_north_up: bool
    near_m: float
    poi_categories: frozenset[str]
    mapped_tags: Sequence[Mapping[str, str]] = ()
    is_map_complete: bool = False
    vocabularies: tuple[Taxonomy, ...] = ()

    @property
    def taxonomy(self) -> Taxonomy:
        """The taxonomy of the release."""
        return self.resolver.taxonomy


class ClaimJudge:
    """Holds claims about one target against its scene."""

    def __init__(self, scene: GroundScene, target: LanguageTarget) -> None:
        self._scene, self._category = scene, target.category
        self._graph, self._nodes = scene.resolver.graph, scene.resolver.graph.nodes
        index = self._graph.index
        self.bits = sum(1 << index[instance_id] for instance_id in target.instance_ids)
        self._own = positions_of(self.bits)
        self._countable = bool(self._nodes.countable[self._own].all())
        self._judges: dict[str, Callable[[ParsedClaim], _Judged]] = {
            "relation": self._related,
            "nearness": self._near,
            "adjacency": self._adjacent,
            "between": self._between,
            "surrounded": self._surrounded,
            "position": self._placed,
            "screen": self._on_screen,
            "count": self._counted,
            "partial": self._partial,
            "superlative": self._superlative,
            "size": self._sized,
            "comparison": self._compared,
            "trait": self._trait,
            "category": self._numbered,
        }

    def judge(self, claim: ParsedClaim) -> Claim:
        """Return what the scene says of a claim, with what was measured."""
        judge = self._judges.get(claim.kind)
        verdict, measured = judge(claim) if judge else ("undecidable", why_unmeasured(claim.text.casefold()))
        if verdict == "supported" and claim.unread:
            verdict, measured = "undecidable", "; ".join(f"{word!r} is {why_unmeasured(word)}" for word in claim.unread)
        return Claim(kind=claim.kind, text=claim.text, verdict=verdict, measured=measured)

    # how many

    def _numbered(self, claim: ParsedClaim) -> _Judged:
        """A singular names one; a plural says nothing of how many."""
        category = self._scene.taxonomy.get(self._category[0])
        n = len(self._own)
        is_mass = category.noun == category.plural or not category.countable
        if claim.number == 1 and n > 1 and not is_mass:
            return "contradicted", f"names one, the target has {n}"
        return "supported", "a name of the category"

    def _counted(self, claim: ParsedClaim) -> _Judged:
        n = len(self._own)
        said = f"{n} in the scene"
        match claim.relation:
            case "exactly":
                return ("supported" if claim.number == n else "contradicted"), said
            case "several":
                return ("supported" if n >= SEVERAL else "contradicted" if n == 1 else "undecidable"), said
            case "many":
                return ("supported" if n >= MANY else "contradicted" if n <= NOT_MANY else "undecidable"), said
            case _:
                return "supported", said

    def _partial(self, claim: ParsedClaim) -> _Judged:
        if claim.relation == "part":
            return "contradicted", "names a part of the target only"
        return "undecidable", "may name a part of the target only"

    # what it is like

    def _superlative(self, claim: ParsedClaim) -> _Judged:
        if len(self._own) > 1:
            return "undecidable", "said of several, where only the first of them is measured"
        extreme, key = claim.relation.split()
        category = category_node(self._category)
        found = self._scene.resolver.execute(Attr(category, key, extreme))  # pyright: ignore[reportArgumentType]  words of the claim table
        if not found.is_decided:
            return "undecidable", "two are nearly equal"
        return ("supported" if found.sure == self.bits else "contradicted"), "measured"

    def _sized(self, claim: ParsedClaim) -> _Judged:
        if not self._countable:
            return "undecidable", "a region, whose outline says little of its size"
        area, length, around = self._nodes.area_m2, self._nodes.length_m, self._nodes.perimeter_m
        own = self._own
        if claim.relation == "elongated":
            return _beyond(length[own] ** 2 / area[own], ELONGATED, NOT_ELONGATED, "times as long as wide")
        if claim.relation == "round":
            return _beyond(4 * np.pi * area[own] / around[own] ** 2, ROUND, NOT_ROUND, "round (a circle has 1)")
        others = np.setdiff1d(np.flatnonzero(self._nodes.countable), own)
        if len(others) < COMPARED_WITH:
            return "undecidable", f"{len(others)} other countable things to compare with, expected {COMPARED_WITH}"
        low, high = np.quantile(area[others], (0.25, 0.75))
        least, most = float(area[own].min()), float(area[own].max())
        measured = f"{least:.0f} to {most:.0f} m²; a quarter of the others has up to {low:.0f}, a quarter {high:.0f} and more"
        is_large = claim.relation == "large"
        is_whole = not self._nodes.cut[own].any()
        if (least >= high) if is_large else (most <= low and is_whole):
            return "supported", measured
        return ("contradicted" if ((most <= low and is_whole) if is_large else least >= high) else "undecidable"), measured

    def _compared(self, claim: ParsedClaim) -> _Judged:
        direction, key = claim.relation.split()
        value = self._nodes.area_m2 if key == "area" else self._nodes.length_m
        tau_m = self._scene.resolver.rules.outline_tolerance_px * self._graph.gsd_m

        def verdict(anchor: int) -> _Judged:
            own = self._own
            around = self._nodes.perimeter_m[own] + self._nodes.perimeter_m[anchor]
            blur = tau_m * around if key == "area" else np.full(len(own), 2 * tau_m)
            margin = np.maximum(self._scene.resolver.rules.area_margin_share * value[anchor], blur)
            more = (value[own] - value[anchor]) * (1 if direction == "more" else -1)
            measured = f"{value[own].min():.0f} to {value[own].max():.0f} against {value[anchor]:.0f} {'m²' if key == 'area' else 'm'}"
            if self._nodes.cut[own].any() or self._nodes.cut[anchor]:
                return "undecidable", f"{measured}, not seen whole"
            return ("supported" if (more >= margin).all() else "contradicted" if (more <= -margin).any() else "undecidable"), measured

        return self._against_anchors(claim, verdict)

    def _trait(self, claim: ParsedClaim) -> _Judged:
        found = self._scene.resolver.execute(Cat(claim.relation))
        measured = f"{(self.bits & found.sure).bit_count()} of {len(self._own)} are known to be"
        if self.bits & ~found.possible:
            return "contradicted", measured
        return ("supported" if not self.bits & ~found.sure else "undecidable"), measured

    # where it is in the image

    def _placed(self, claim: ParsedClaim) -> _Judged:
        """A part of the image, by compass."""
        places = self._scene.centroid_share[self._own]
        east, north = places.mean(axis=0)
        measured = f"{100 * east:+.0f} % east, {100 * north:+.0f} % north of the centre"
        if claim.part == "middle":
            off = np.abs(places).max()
            return ("supported" if off <= MIDDLE else "contradicted" if off > NOT_MIDDLE else "undecidable"), measured
        wanted = [part for part in ("north", "south", "east", "west") if part in claim.relation]
        along = np.stack([places[:, 1] if part in ("north", "south") else places[:, 0] for part in wanted], axis=1) if wanted else None
        if along is not None:
            along = along * np.array([1.0 if part in ("north", "east") else -1.0 for part in wanted])
        if claim.part == "half":
            assert along is not None  # the reader gives no half without a wind
            if (along >= POSITION_MARGIN).all():
                return "supported", measured
            return ("contradicted" if (along <= -POSITION_MARGIN).any() else "undecidable"), measured
        return self._at_the_rim(claim.part == "corner", np.abs(places) if along is None else along, along is None), measured

    def _at_the_rim(self, is_corner: bool, along: NDArray[np.float64], is_any: bool) -> Verdict:
        """A corner or edge: by how far from the centre the middle of every instance is, as shares (n, 1 or 2) of the side."""
        sure, never = (CORNER, NOT_CORNER) if is_corner else (EDGE, NOT_EDGE)
        out = along.max(axis=1) if is_any and not is_corner else along.min(axis=1)
        if (out >= sure).all():
            return "supported"
        side_m = float(np.sqrt(self._graph.valid_px)) * self._graph.gsd_m
        reach = out + self._nodes.length_m[self._own] / 2 / side_m
        return "contradicted" if (reach <= never).any() or (not is_any and (out <= -POSITION_MARGIN).any()) else "undecidable"

    def _on_screen(self, claim: ParsedClaim) -> _Judged:
        if not self._scene.is_north_up:
            return "contradicted", "words of the screen on an image that is not north-up"
        return self._related(claim) if claim.relation.endswith("_of") else self._placed(claim)

    # where it is from something else

    def _related(self, claim: ParsedClaim) -> _Judged:
        return self._against_anchors(claim, lambda anchor: self._edge(claim.relation, anchor))

    def _near(self, claim: ParsedClaim) -> _Judged:
        if claim.relation != "near":
            return self._related(claim)

        def verdict(anchor: int) -> _Judged:
            own, measured = self._edge("near", anchor)
            is_close = self._distance(anchor) <= NEAR_SLACK * self._scene.near_m
            return ("undecidable" if own == "contradicted" and is_close else own), measured

        return self._against_anchors(claim, verdict)

    def _adjacent(self, claim: ParsedClaim) -> _Judged:
        def verdict(anchor: int) -> _Judged:
            own, measured = self._edge("near", anchor)
            if own == "contradicted":
                return own, measured
            return ("supported" if self._distance(anchor) <= ADJACENT_SHARE * self._scene.near_m else "undecidable"), measured

        return self._against_anchors(claim, verdict)

    def _between(self, claim: ParsedClaim) -> _Judged:
        if claim.anchor is None or claim.other is None:
            return "undecidable", "between things that are not named one by one"
        both: list[tuple[list[int], bool]] = []
        for anchor in (claim.anchor, claim.other):
            meant = self._meant(anchor)
            if isinstance(meant, str):
                return "undecidable", meant
            both.append(meant)
        (firsts, is_first_one), (seconds, is_second_one) = both
        judged = [self._between_two(a, b) for a, b in itertools.product(firsts, seconds) if a != b]
        return _any_or_one(judged, is_first_one and is_second_one, claim.is_definite, "the two")

    def _between_two(self, first: int, second: int) -> _Judged:
        if self._countable and self._nodes.countable[[first, second]].all():
            at = self._nodes.centroid_m
            seen = min(_angle_deg(at[first] - at[own], at[second] - at[own]) for own in self._own)
            verdict: Verdict = "supported" if seen >= BETWEEN_DEG else "contradicted" if seen <= NOT_BETWEEN_DEG else "undecidable"
            return verdict, f"{seen:.0f}° between the two as seen from it"
        for wind in DIRECTIONS:
            here, there = self._edges(wind, first), self._edges(wind, second)
            opposite = self._edges(COUNTERPART[wind], second)
            if here is not None and there is not None and self.bits & here.sure & there.sure:
                return "contradicted", f"{wind} both of them"
            if here is not None and opposite is not None and not self.bits & ~(here.sure & opposite.sure):
                return "supported", f"{wind} one and {COUNTERPART[wind]} the other"
        return "undecidable", "neither surely on one side of both nor between them"

    def _surrounded(self, claim: ParsedClaim) -> _Judged:
        """By a region: inside it. By countable things: no wide gap between those near it, all round."""
        if claim.anchor is None:
            return "undecidable", "about something that is not annotated"
        meant = self._meant(claim.anchor)
        if isinstance(meant, str):
            return "undecidable", meant
        others, _ = meant
        if not self._nodes.countable[others].all():
            return self._related(claim)
        gap = max(self._gap_deg(own, others, self._scene.near_m) for own in self._own)
        measured = f"a gap of {gap:.0f}° between those that are near"
        if gap <= SURROUNDED_GAP_DEG:
            return "supported", measured
        if any(min(self._graph.distance_column(k)[own] for k in others) > NEAR_SLACK * self._scene.near_m for own in self._own):
            return "contradicted", "none of them is near"
        widest = max(self._gap_deg(own, others, NEAR_SLACK * self._scene.near_m) for own in self._own)
        is_compact = (self._nodes.length_m[self._own] ** 2 <= NOT_ELONGATED * 2 * self._nodes.area_m2[self._own]).all()
        return ("contradicted" if widest >= OPEN_GAP_DEG and is_compact else "undecidable"), measured

    def _gap_deg(self, own: int, others: Sequence[int], within_m: float) -> float:
        """Widest gap in azimuth between things within a distance, as seen from the middle of an instance; 360 with fewer than two."""
        near = [k for k in others if self._graph.distance_column(k)[own] <= within_m]
        if len(near) < 2:
            return 360.0
        rays = self._nodes.centroid_m[near] - self._nodes.centroid_m[own]
        azimuth = np.sort(np.degrees(np.arctan2(rays[:, 0], rays[:, 1])))
        return float(np.diff(azimuth, append=azimuth[0] + 360.0).max())

    def _distance(self, anchor: int) -> float:
        """Distance of the target's farthest instance from an anchor, metres."""
        return float(self._graph.distance_column(anchor)[self._own].max())

    def _edge(self, relation: str, anchor: int) -> _Judged:
        """Whether all instances of the target stand in a relation to one instance."""
        found = self._edges(relation, anchor)
        if found is None:
            return "undecidable", f"{relation} is not measured in this release"
        measured = f"{self._distance(anchor):.0f} m from {self._nodes.instance_ids[anchor]}"
        if self.bits & ~found.possible:
            return "contradicted", measured
        return ("supported" if not self.bits & ~found.sure else "undecidable"), measured

    def _edges(self, relation: str, anchor: int) -> Members | None:
        """What stands in a relation to an anchor; where only the main winds are measured, those between them are never sure."""
        resolver = self._scene.resolver
        if relation in resolver.graph.verdicts:
            return resolver.edges_to(relation, anchor)
        if relation in AZIMUTH_DEG:
            # "northeast of" where only main winds are measured: not if surely neither north nor east of it; never surely so
            parts = [f"{part}_of" for part in ("north", "south", "east", "west") if part in relation]
            known = [resolver.edges_to(part, anchor) for part in parts if part in resolver.graph.verdicts]
            if len(known) == 2:
                return Members(0, known[0].possible | known[1].possible)
        return None

    def _meant(self, anchor: Node) -> tuple[list[int], bool] | str:
        """Everything outside the target that an anchor can mean, and whether that is surely one thing; else why there is none."""
        try:
            members = self._scene.resolver.execute(anchor)
        except ProgramError as error:
            return str(error)
        others = members.possible & ~self.bits
        if not others:
            return f"no {anchor.canonical()} is annotated"
        return positions_of(others), members.is_decided and others.bit_count() == 1

    def _against_anchors(self, claim: ParsedClaim, judge: Callable[[int], _Judged]) -> _Judged:
        """Judge a claim by every thing that its words can mean: "the road" one thing, "a road" any."""
        if claim.anchor is None:
            return "undecidable", "about something that is not annotated"
        meant = self._meant(claim.anchor)
        if isinstance(meant, str):
            return "undecidable", meant
        others, is_one = meant
        return _any_or_one([judge(position) for position in others], is_one, claim.is_definite, claim.anchor.canonical())


def _any_or_one(judged: Sequence[_Judged], is_one: bool, is_definite: bool, said: str) -> _Judged:
    """The verdict on a claim about one of several things: contradicted when it is false of all, supported when any will do and one does."""
    if not judged:
        return "undecidable", f"{said} is the target itself"
    if {verdict for verdict, _ in judged} == {"contradicted"}:
        return "contradicted", judged[0][1]
    if is_one or not is_definite:
        best = next((one for one in judged if one[0] == "supported"), None)
        return best or ("undecidable", judged[0][1])
    return "undecidable", f"{said} can mean {len(judged)} things"


def _beyond(values: NDArray[np.float64], sure: float, never: float, unit: str) -> _Judged:
    """Supported when all values reach the first limit, contradicted when one does not exceed the second."""
    verdict: Verdict = "supported" if (values >= sure).all() else "contradicted" if (values <= never).any() else "undecidable"
    return verdict, f"{values.min():.2f} to {values.max():.2f} {unit}"


def _angle_deg(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    lengths = float(np.hypot(*one) * np.hypot(*other))
    return float(np.degrees(np.arccos(np.clip(float(one @ other) / lengths, -1, 1)))) if lengths else 180.0


def settled_verdict(claims: Iterable[Claim]) -> Verdict:
    """Contradicted if one claim is, supported if all are, else undecidable."""
    verdicts = {claim.verdict for claim in claims}
    return "contradicted" if "contradicted" in verdicts else "undecidable" if "undecidable" in verdicts else "supported"
