"""The grounded check on planted spatial errors: free sentences about real scenes, true ones and false ones.

The sentences are written from the measured graph of the sample release: every template is filled once with what surely holds and once
with what surely does not. Caught: false sentences that are called contradicted. Wronged: true ones that are. Peer: a check of the words
alone, which can catch none, so the figures are absolute.

    python benchmarks/grounded_check.py [--config examples/banepa/release.yaml] [--seed 1]      (after `make demo`)
"""

import argparse
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.engine import plan_step
from tasks.language import ground_scene
from tasks.scenes import scene_items
from tasks.stages import STEPS
from tasks.workspace import Workspace
from trigpoint.language.grounding import GroundedCheck
from trigpoint.language.referring import anchors_of_target
from trigpoint.language.sentences import describe
from trigpoint.language.targets import targets_of
from trigpoint.programs.language import Cat, Node
from trigpoint.programs.resolver import positions_of
from trigpoint.rules import COUNTERPART, DIRECTIONS

ROOT = Path(__file__).parents[1]
RELATED = (
    "the {target} located to the {wind} of {anchor}",
    "The {target} situated on the {wind}ern side of {anchor}.",
    "{target} found directly {wind} of {anchor}",
    "The {target}, which can be seen to the {wind} of {anchor}",
)
PLACED = (
    "the {target} in the {wind}ern part of the image",
    "{target} on the {wind} side of the scene",
    "the {target} at the {edge} of the picture",
)
EDGES = {"north": "top", "south": "bottom", "east": "right", "west": "left"}
CENTRAL = ("near the centre of the image", "in the central part of the scene", "in the middle of the image")
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
UNMEASURED = ("red", "red-roofed", "old", "wooden", "winding", "busy", "tall")
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}


class Planted(NamedTuple):
    """A sentence, whether it is true (None where nothing measured can say so), and what kind of claim it makes."""

    text: str
    is_true: bool | None
    kind: str


def done_of(workspace: Workspace) -> dict[str, Any]:
    """Results of a finished build, step by step."""
    done: dict[str, Any] = {}
    for name in ("collect", "annotate", "boxes", "graph"):
        planned = plan_step(workspace, STEPS[name], done)
        if planned.todo:
            raise SystemExit(f"{name} is not built: run `make demo` first")
        done[name] = [planned.known[item.key] for item in planned.items]
    return done


def sentences_of(check: GroundedCheck, random: np.random.Generator) -> Iterator[Planted]:
    """Sentences about one target: for what surely holds of all of it, one that says so and one that says the opposite."""
    writer = _Writer(check, random)
    yield from writer.directions_and_distances()
    yield from writer.places()
    yield from writer.numbers()
    yield from writer.between()
    yield from writer.surrounded()
    yield from writer.sizes()
    yield from writer.traits()
    yield from writer.unmeasured()


class _Writer:
    """Fills templates about one target; what holds is measured here from the centroids and areas, not by the check."""

    def __init__(self, check: GroundedCheck, random: np.random.Generator) -> None:
        self.resolver, self.bits, self.random = check.scene.resolver, check.bits, random
        self.taxonomy, self.nodes = self.resolver.taxonomy, self.resolver.graph.nodes
        self.n = len(check.target.instance_ids)
        self.category = self.taxonomy.get(check.target.category[0])
        self.name = (self.category.noun if self.n == 1 else self.category.plural) or check.target.name
        self.own = np.array([self.resolver.graph.index[instance_id] for instance_id in check.target.instance_ids])
        self.places_of_own = check.scene.centroid_share[self.own]
        self.near_m = check.scene.near_m
        self.anchors = [(self.resolver.denoted(node), node) for node in anchors_of_target(self.resolver, self.bits)]

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.random.integers(len(options)))]

    def said(self, anchor: Node) -> str:
        return describe(anchor, self.taxonomy, int(self.random.integers(3)))

    def both(self, kind: str, true: str, false: str) -> Iterator[Planted]:
        yield Planted(f"the {self.name} {true}", True, kind)
        yield Planted(f"the {self.name} {false}", False, kind)

    def directions_and_distances(self) -> Iterator[Planted]:
        for position, anchor in self.anchors:
            said = self.said(anchor)
            for relation in DIRECTIONS:
                wind, wrong = relation.removesuffix("_of"), COUNTERPART[relation].removesuffix("_of")
                if not self.bits & ~self.resolver.edges_to(relation, position).sure:
                    template = self.pick(RELATED)
                    yield Planted(template.format(target=self.name, wind=wind, anchor=said), True, "direction")
                    yield Planted(template.format(target=self.name, wind=wrong, anchor=said), False, "direction")
            for relation, phrase in (("near", "close to"), ("far", "far away from")):
                if not self.bits & ~self.resolver.edges_to(relation, position).sure:
                    other = "far away from" if relation == "near" else "adjacent to"
                    yield from self.both("distance", f"{phrase} {said}", f"{other} {said}")

    def places(self) -> Iterator[Planted]:
        places = self.places_of_own
        for axis, winds in ((1, ("north", "south")), (0, ("east", "west"))):
            if (np.abs(places[:, axis]) > 0.08).all() and len(set(np.sign(places[:, axis]))) == 1:
                wind = winds[0] if places[0, axis] > 0 else winds[1]
                template = self.pick(PLACED)
                for said_wind, is_true in ((wind, True), (OPPOSITE[wind], False)):
                    text = template.format(target=self.name, wind=said_wind, edge=EDGES[said_wind])
                    yield Planted(text, is_true, "place in the image")
        if (places[:, 0].min() > 0) != (places[:, 0].max() > 0) or (places[:, 1].min() > 0) != (places[:, 1].max() > 0):
            return
        north, east = "north" if places[0, 1] > 0 else "south", "east" if places[0, 0] > 0 else "west"
        if (np.abs(places) > 0.28).all():
            corner, wrong = f"{north}{east}ern", f"{OPPOSITE[north]}{OPPOSITE[east]}ern"
            yield from self.both("corner", f"in the {corner} corner of the image", f"in the {wrong} corner of the image")
            yield from self.both("centre", "in a corner of the scene", self.pick(CENTRAL))
        for axis, wind in ((1, north), (0, east)):
            if (np.abs(places[:, axis]) > 0.38).all():
                yield from self.both("edge", f"at the {wind}ern edge of the image", f"along the {OPPOSITE[wind]}ern edge of the image")
        if (np.abs(places) < 0.09).all() and self.nodes.length_m[self.own].max() < self.near_m:
            yield from self.both("centre", self.pick(CENTRAL), "in a corner of the scene")

    def numbers(self) -> Iterator[Planted]:
        if not self.category.countable:
            return
        if 2 <= self.n <= 11:
            yield from (Planted(f"the {WORDS[k]} {self.category.plural} of the scene", k == self.n, "count") for k in (self.n, self.n + 1))
            yield Planted(f"a pair of {self.category.plural} in the scene", self.n == 2, "count")
        anchor = next((node for position, node in self.anchors if not self.bits & ~self.resolver.edges_to("far", position).sure), None)
        if anchor is not None and self.n > 1:
            said = self.said(anchor)
            yield Planted(f"all {self.category.plural} far from {said}", True, "number")
            yield Planted(f"the {self.category.noun} far from {said}", False, "number")
            yield Planted(f"one of the {self.category.plural} far from {said}", False, "number")

    def between(self) -> Iterator[Planted]:
        at = self.nodes.centroid_m
        countable = [(k, node) for k, node in self.anchors if self.nodes.countable[k]]
        if not self.nodes.countable[self.own].all():
            return
        for (first, one), (second, other) in itertools.combinations(countable, 2):
            seen = [seen_deg(at[first] - at[own], at[second] - at[own]) for own in self.own]
            if first != second and (min(seen) > 145 or max(seen) < 70):
                yield Planted(f"the {self.name} between {self.said(one)} and {self.said(other)}", min(seen) > 145, "between")

    def surrounded(self) -> Iterator[Planted]:
        first = self.taxonomy.axes[0].id
        for category in (c for c in self.taxonomy.categories if c.axis == first and c.countable):
            others = [k for k in positions_of(self.resolver.execute(Cat(category.id)).sure) if not self.bits >> k & 1]
            distance = [min(float(self.resolver.graph.distance_column(k)[own]) for own in self.own) for k in others]
            if others and min(distance) > 2.2 * self.near_m and self.nodes.countable[self.own].all():
                yield Planted(f"the {self.name} surrounded by {category.plural}", False, "surrounded")
            sectors = [self.sectors(own, others, 0.9 * self.near_m) for own in self.own]
            if others and min(sectors) == 6:
                yield Planted(f"the {self.name} surrounded by {category.plural}", True, "surrounded")

    def sectors(self, own: int, others: Sequence[int], within_m: float) -> int:
        """In how many of six sectors round an instance something else is near."""
        near = [k for k in others if self.resolver.graph.distance_column(k)[own] <= within_m]
        rays = self.nodes.centroid_m[near] - self.nodes.centroid_m[own]
        return len(set(np.floor(np.degrees(np.arctan2(rays[:, 1], rays[:, 0])) / 60).astype(int).tolist()))

    def sizes(self) -> Iterator[Planted]:
        area, own = self.nodes.area_m2, self.own
        others = np.setdiff1d(np.flatnonzero(self.nodes.countable), own)
        if not self.nodes.countable[own].all() or self.nodes.cut[own].any():
            return
        if len(others) >= 5:
            rank = [float((area[others] < area[k]).mean()) for k in own]
            if min(rank) > 0.8 or max(rank) < 0.2:
                said, wrong = ("large", "small") if min(rank) > 0.8 else ("small", "large")
                yield Planted(f"the {said} {self.name} of the scene", True, "size")
                yield Planted(f"the {wrong} {self.name} of the scene", False, "size")
        stretch = self.nodes.length_m[own] ** 2 / area[own]
        if stretch.min() > 3.2 or stretch.max() < 1.4:
            yield Planted(f"the elongated {self.name} of the scene", bool(stretch.min() > 3.2), "shape")
        for position, anchor in self.anchors:
            if not self.nodes.countable[position] or self.nodes.cut[position]:
                continue
            ratio = area[own] / area[position]
            if ratio.min() > 2 or ratio.max() < 0.5:
                said, wrong = ("larger", "smaller") if ratio.min() > 2 else ("smaller", "larger")
                yield from self.both("comparison", f"{said} than {self.said(anchor)}", f"{wrong} than {self.said(anchor)}")

    def traits(self) -> Iterator[Planted]:
        """Values of further axes: those that all of the target has, and those that one of it surely has not."""
        for category in (c for c in self.taxonomy.categories if c.phrase and c.axis != self.taxonomy.axes[0].id):
            values = [set(self.nodes.categories[k]) for k in self.own]
            own_axis = [{v for v in found if self.taxonomy.get(v).axis == category.axis} for found in values]
            if all(category.id in found for found in values):
                yield Planted(f"the {self.name} {category.phrase} in the scene", True, "trait")
            elif any(found and category.id not in found for found in own_axis):
                yield Planted(f"the {self.name} {category.phrase} in the scene", False, "trait")

    def unmeasured(self) -> Iterator[Planted]:
        """A word that nothing measures: neither true nor false, so it must go to a person."""
        yield Planted(f"the {self.pick(UNMEASURED)} {self.name} of the scene", None, "not measured")


def seen_deg(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Angle between two rays."""
    turn = np.arctan2(one[0], one[1]) - np.arctan2(other[0], other[1])
    return float(np.degrees(np.abs((turn + np.pi) % (2 * np.pi) - np.pi)))


def main() -> None:
    """Print how many planted errors are caught and how many true sentences are wronged, by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "examples" / "banepa" / "release.yaml")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every sentence that is not called what it is")
    arguments = parser.parse_args()
    workspace = Workspace(arguments.config)
    done = done_of(workspace)
    random = np.random.default_rng(arguments.seed)
    counts: Counter[tuple[str, bool | None, str]] = Counter()
    n_corrected = n_wrong_direction = 0
    for item in scene_items(workspace, done, ("boxes", "graph")):
        ground, boxable = ground_scene(workspace, item, frozenset())
        if ground is None:
            continue
        for target in targets_of(ground.resolver, boxable):
            check = GroundedCheck(ground, target)
            for planted in sentences_of(check, random):
                checked = check.check("referring", planted.text)
                counts[planted.kind, planted.is_true, checked.verdict] += 1
                if (
                    arguments.show
                    and planted.is_true is not None
                    and checked.verdict != ("supported" if planted.is_true else "contradicted")
                ):
                    print(f"{planted.is_true!s:<6}{checked.verdict:<13}{planted.text}  {[c.measured for c in checked.claims]}")
                if planted.is_true is False and planted.kind == "direction":
                    n_wrong_direction += 1
                    n_corrected += checked.correction is not None
    print_report(counts, f"{sum(counts.values())} sentences about {arguments.config}")
    print(f"wrong directions put right: {n_corrected} of {n_wrong_direction}")


def print_report(counts: Counter[tuple[str, bool | None, str]], title: str) -> None:
    """Print verdicts by kind of claim, with precision and recall of `contradicted`."""

    def number(kind: str | None, is_true: bool | None, verdict: str | None = None) -> int:
        return sum(n for (k, t, v), n in counts.items() if kind in (None, k) and t is is_true and verdict in (None, v))

    def shares(kind: str | None) -> tuple[str, str]:
        caught, wronged, n_false = number(kind, False, "contradicted"), number(kind, True, "contradicted"), number(kind, False)
        recall = f"{caught / n_false:.3f}" if n_false else "-"
        return recall, f"{caught / (caught + wronged):.3f}" if caught + wronged else "-"

    print(title)
    print(f"{'claim':<20}{'false':>7}{'caught':>8}{'recall':>8}   {'true':>6}{'wronged':>9}{'supported':>11}{'precision':>11}")
    for kind in (*sorted({kind for kind, is_true, _ in counts if is_true is not None}), None):
        recall, precision = shares(kind)
        print(
            f"{kind or 'all':<20}{number(kind, False):>7}{number(kind, False, 'contradicted'):>8}{recall:>8}   {number(kind, True):>6}"
            f"{number(kind, True, 'contradicted'):>9}{number(kind, True, 'supported'):>11}{precision:>11}"
        )
    print(f"not measured, left to a person: {number(None, None, 'undecidable')} of {number(None, None)}")


if __name__ == "__main__":
    main()
