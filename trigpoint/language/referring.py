"""Referring expressions written from the measured scene: where all of a target is, in words that a careful person would use.

Candidates only, best first; the grounded check says which of them hold. Wording is drawn from the annotation's id, so that releases vary
and rebuilds do not. Not here: checking (`trigpoint.language.grounding`), the wording of query programs (`trigpoint.language.sentences`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from trigpoint.errors import ProgramError
from trigpoint.identity import digest_json
from trigpoint.language.judging import GroundScene
from trigpoint.language.wording import WINDS
from trigpoint.programs.generate import SUPERLATIVES
from trigpoint.programs.language import Attr, Cat, Node
from trigpoint.programs.resolver import Resolver
from trigpoint.records.language import LanguageTarget
from trigpoint.rules import AZIMUTH_DEG, TOPOLOGY, within_limit_m

_NUMBERS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_MAX_SURROUNDING = 40
"""Categories with more members than this surround everything and nothing."""

_FIRST = {"north": "northernmost", "south": "southernmost", "east": "easternmost", "west": "westernmost"}

STRONG, GOOD, WEAK = 0, 1, 2
"""How well a kind of sentence says where a thing is: by one thing that stands alone, by one of several or the image, by being elsewhere."""


class Candidate(NamedTuple):
    """A sentence, how well its kind says where a thing is, and of what kind it is; the best two of different kinds are used."""

    rank: int
    kind: str
    text: str


class _Anchor(NamedTuple):
    """Something to refer to: its program, its position, its words, and whether it stands alone in its category."""

    position: int
    words: str
    is_alone: bool
    is_region: bool


def referring_candidates(scene: GroundScene, target: LanguageTarget, bits: int) -> list[Candidate]:
    """Return what may be said of where a target is, the best first, in an order drawn from its id.

    Args:
        scene: The scene.
        target: What the sentences are about.
        bits: Its instances as a bitset.
    """
    writer = _Writer(scene, target, bits)
    found = [*writer.places(), *writer.relations(), *writer.between(), *writer.surrounded()]
    return sorted(found, key=lambda one: (one.rank, digest_json([target.annotation_id, one.text])))


class _Writer:
    def __init__(self, scene: GroundScene, target: LanguageTarget, bits: int) -> None:
        self._scene, self._target, self._bits = scene, target, bits
        self._graph = scene.resolver.graph
        category = scene.taxonomy.get(target.category[0])
        n = len(target.instance_ids)
        noun, plural = category.noun or target.name, category.plural or target.name
        numbered = (f"the {_NUMBERS[n]} {plural}",) if 1 < n < len(_NUMBERS) and category.countable and noun != plural else ()
        self._subjects = (f"the {noun}",) if n == 1 else (f"the {plural}", f"all {plural}", *numbered)
        self._anchors = [anchor for node in anchors_of_target(scene.resolver, bits) if (anchor := self._anchor(node)) is not None]

    def _anchor(self, node: Node) -> _Anchor | None:
        """What can be said of an anchor; None for the longest of countable things, which nobody would call so."""
        position = self._scene.resolver.denoted(node)
        is_countable = bool(self._graph.nodes.countable[position])
        if is_countable and isinstance(node, Attr) and node.key == "length":
            return None
        return _Anchor(position, _words_of(node, self._scene), isinstance(node, Cat), not is_countable)

    def _say(self, rank: int, kind: str, options: tuple[str, ...], key: str) -> Candidate:
        """One of several wordings after one of several subjects, drawn from the annotation and the key."""
        drawn = int(digest_json([self._target.annotation_id, kind, key])[:8], 16)
        subject = self._subjects[drawn % len(self._subjects)]
        return Candidate(rank, kind, f"{subject} {options[drawn // 7 % len(options)]}")

    def places(self) -> Iterator[Candidate]:
        """By the image; the check leaves those that hold."""
        yield self._say(GOOD, "place", ("near the centre of the image", "in the central part of the image"), "centre")
        for wind in WINDS:
            if len(wind) > 5:
                corner = (f"in the {wind}ern corner of the image", f"in the {wind} corner of the scene")
                yield self._say(GOOD, "place", corner, wind)
                continue
            yield self._say(
                GOOD, "place", (f"at the {wind}ern edge of the image", f"along the {wind}ern edge of the scene"), f"{wind} edge"
            )
            half = (f"in the {wind}ern half of the image", f"in the {wind}ern part of the scene", f"in the {wind} of the image")
            yield self._say(GOOD, "place", half, wind)

    def relations(self) -> Iterator[Candidate]:
        """By one other thing, where the graph is sure of it for all of the target."""
        for anchor in self._anchors:
            rank = STRONG if anchor.is_alone else GOOD
            for relation in self._graph.verdicts:
                if relation in ("contains", "overlaps") or (relation in TOPOLOGY and not anchor.is_region):
                    continue
                if not self._bits & ~self._scene.resolver.edges_to(relation, anchor.position).sure:
                    is_weak = relation in ("far", "outside")
                    yield self._say(WEAK if is_weak else rank, relation, self._wordings(relation, anchor.words), anchor.words)

    def _wordings(self, relation: str, anchor: str) -> tuple[str, ...]:
        limit_m = within_limit_m(relation)
        if limit_m is not None:
            return (f"within {limit_m} metres of {anchor}",)
        if relation in AZIMUTH_DEG:
            wind = relation.removesuffix("_of")
            return (f"{wind} of {anchor}", f"to the {wind} of {anchor}", f"on the {wind}ern side of {anchor}")
        return {
            "near": (f"close to {anchor}", f"near {anchor}"),
            "far": (f"far from {anchor}", f"a long way from {anchor}"),
            "touches": (f"in contact with {anchor}",),
            "inside": (f"inside {anchor}", f"within {anchor}"),
            "outside": (f"outside {anchor}",),
        }[relation]

    def between(self) -> Iterator[Candidate]:
        """Between two things that stand alone."""
        alone = [anchor for anchor in self._anchors if anchor.is_alone]
        for k, first in enumerate(alone):
            for second in alone[k + 1 :]:
                yield self._say(STRONG, "between", (f"between {first.words} and {second.words}",), first.words)

    def surrounded(self) -> Iterator[Candidate]:
        """By the many of another category."""
        taxonomy = self._scene.taxonomy
        for category in (c for c in taxonomy.categories if c.axis == taxonomy.axes[0].id and c.countable and c.plural):
            members = self._scene.resolver.execute(Cat(category.id)).sure
            if members & self._bits or not 3 <= members.bit_count() <= _MAX_SURROUNDING:
                continue
            yield self._say(STRONG, "surrounded", (f"surrounded by {category.plural}", f"in the midst of {category.plural}"), category.id)


def anchors_of_target(resolver: Resolver, target: int) -> Iterator[Node]:
    """Yield what can be named and is not of the target (a bitset): the one of its category, or a superlative of it."""
    taxonomy = resolver.taxonomy
    first = taxonomy.axes[0].id
    categories: list[Node] = [Cat(c.id) for c in taxonomy.categories if c.axis == first]
    for category in categories:
        for node in (category, *(Attr(category, key, extreme) for key, extreme in SUPERLATIVES)):
            try:
                position = resolver.denoted(node)
            except ProgramError:
                continue
            if resolver.is_admissible_anchor(position) and not target >> position & 1:
                yield node
                if node is category:
                    break


def _words_of(node: Node, scene: GroundScene) -> str:
    match node:
        case Attr(Cat(category), key, extreme):
            noun = scene.taxonomy.singular_noun((category,))
            superlative = {"area": "largest", "length": "longest"}.get(key) or _FIRST[_wind_of(key, extreme)]
            return f"the {superlative} {noun}"
        case Cat(category):
            return f"the {scene.taxonomy.singular_noun((category,))}"
        case _:
            raise ProgramError(f"{node.canonical()}: expected a category or the extreme one of it")


def _wind_of(key: str, extreme: str) -> str:
    return {("north", "most"): "north", ("north", "least"): "south", ("east", "most"): "east", ("east", "least"): "west"}[key, extreme]
