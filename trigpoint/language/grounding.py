"""The grounded check: every sentence held against the measured scene before any person sees it.

A sentence must denote exactly its target, all of its instances. It is read by the grammar where the grammar can, else claim by claim
(`trigpoint.language.claims`); each claim is supported, contradicted or undecidable by the same three-valued graph that answers programs.
Contradicted directions are put right from the graph. Not here: reading sentences, and what a provider thought of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.categories import Taxonomy
from trigpoint.errors import ProgramError
from trigpoint.language.claims import WINDS, ClaimReader, ParsedClaim, tokens_of
from trigpoint.language.parser import SentenceParser
from trigpoint.names import contains_name
from trigpoint.programs.language import Attr, Cat, Node, category_node, is_category
from trigpoint.programs.resolver import Members, Resolver, positions_of
from trigpoint.records.language import Claim, LanguageForm, LanguageTarget, Verdict
from trigpoint.rules import AZIMUTH_DEG
from trigpoint.scene_graph.graph import SceneGraph

ADJACENT_SHARE = 0.5
"""Adjacent is surely so within this share of the distance of `near`, and surely not beyond `near`."""

NEAR_SLACK = 2.0
"""What is farther than this times the distance of `near` is surely not near."""

POSITION_MARGIN = 0.05
"""Share of the scene's side within which "in the northern part" is undecided."""

MIDDLE, NOT_MIDDLE = 0.25, 0.40
"""Shares of the side: within the first from the centre is surely the middle, beyond the second surely not."""

MAX_VOCABULARY_WORDS, MAX_SENTENCE_WORDS = 6, 40
"""Longest phrases and sentences; the paper's have 1 to 3 words and 9 to 12 on average."""


class Checked(NamedTuple):
    """What the check makes of a sentence.

    Attributes:
        verdict: Contradicted if one claim is, supported if all are, else undecidable.
        claims: One by one.
        correction: The sentence put right, itself checked; None when there is nothing to put right or no way to.
    """

    verdict: Verdict
    claims: tuple[Claim, ...]
    correction: str | None = None


class GroundScene(NamedTuple):
    """What sentences are held against.

    Attributes:
        resolver: On the scene's graph.
        centroid_share: (n, 2) centroids as shares of the scene from its centre: east and north, -0.5 to 0.5.
        is_north_up: Whether left, right, top and bottom may be said.
        near_m: Distance of `near`, metres.
        poi_categories: Categories that the scene's POI tags name.
    """

    resolver: Resolver
    centroid_share: NDArray[np.float64]
    is_north_up: bool
    near_m: float
    poi_categories: frozenset[str]

    @property
    def taxonomy(self) -> Taxonomy:
        """The taxonomy of the release."""
        return self.resolver.taxonomy


def centroid_shares(graph: SceneGraph, corners_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where the instances of a scene are: (n, 2) shares of its extent to the true east and north, from its centre.

    Args:
        graph: The scene's graph; its centroids are in local ground metres from the scene's centre.
        corners_m: (4, 2) corners of the scene in the same frame.
    """
    turn = np.radians(graph.convergence_deg)
    east = corners_m[:, 0] * np.cos(turn) + corners_m[:, 1] * np.sin(turn)
    north = corners_m[:, 1] * np.cos(turn) - corners_m[:, 0] * np.sin(turn)
    return np.column_stack([graph.position_m("east") / np.ptp(east), graph.position_m("north") / np.ptp(north)])


class GroundedCheck:
    """Checks sentences about one target of a scene."""

    def __init__(self, scene: GroundScene, target: LanguageTarget) -> None:
        self.scene, self.target = scene, target
        categories = [scene.taxonomy.get(name) for name in target.category]
        self.names = tuple(dict.fromkeys(name for c in categories for name in (*c.names, *c.other_names)))
        index = scene.resolver.graph.index
        self.bits = sum(1 << index[instance_id] for instance_id in target.instance_ids)
        self._parser = SentenceParser(scene.taxonomy, scene.is_north_up)
        self._reader = ClaimReader(self._parser, self.names)

    def check(self, form: LanguageForm, text: str) -> Checked:
        """Check a positive sentence of a form."""
        if form == "vocabulary":
            return self._vocabulary(text)
        too_long = _too_long(text, MAX_SENTENCE_WORDS)
        if too_long is not None:
            return _settled([too_long])
        return self._referring(text) if form == "referring" else self._reasoning(text)

    def check_negative(self, text: str) -> Checked:
        """Check that what a phrase names is absent: by instances, by the taxonomy, and by the tags of the scene's POIs."""
        long = _too_long(text, MAX_VOCABULARY_WORDS)
        if long is not None:
            return _settled([long])
        taxonomy, resolver = self.scene.taxonomy, self.scene.resolver
        first = taxonomy.axes[0].id
        claims: list[Claim] = []
        for category in (c for c in taxonomy.categories if c.axis == first):
            has_instance = bool(resolver.execute(Cat(category.id)).possible)
            if has_instance or any(taxonomy.is_within(named, category.id) for named in self.scene.poi_categories):
                relation = taxonomy.name_relation(text, category.id)
                if relation in ("same", "synonym", "broader", "narrower", "part"):
                    where = "instances" if has_instance else "a POI's tags"
                    claims.append(
                        Claim(kind="absence", text=text, verdict="contradicted", measured=f"{relation} of {category.id}: {where}")
                    )
        if not claims and not taxonomy.categories_named(text):
            claims.append(
                Claim(kind="absence", text=text, verdict="undecidable", measured="no name of the taxonomy: absence cannot be shown")
            )
        return _settled(claims or [Claim(kind="absence", text=text, verdict="supported", measured="no instance and no tag of it")])

    # the three forms

    def _vocabulary(self, text: str) -> Checked:
        long = _too_long(text, MAX_VOCABULARY_WORDS)
        if long is not None:
            return _settled([long])
        taxonomy = self.scene.taxonomy
        relations = {taxonomy.name_relation(text, category) for category in self.target.category}
        if relations & {"same", "synonym"}:
            return _settled([Claim(kind="category", text=text, verdict="supported", measured="a name of the category")])
        named = taxonomy.categories_named(text)
        if not named:
            return _settled([Claim(kind="category", text=text, verdict="undecidable", measured="no name of the taxonomy")])
        members = [self.scene.resolver.execute(Cat(category)) for category in named]
        same = all(found.is_decided and found.sure == self.bits for found in members)
        verdict: Verdict = "supported" if same else "contradicted"
        return _settled([Claim(kind="category", text=text, verdict=verdict, measured=f"names {', '.join(sorted(named))}")])

    def _reasoning(self, text: str) -> Checked:
        claims = [
            Claim(kind="naming", text=name, verdict="contradicted", measured="names its category")
            for name in sorted(set(self.names))
            if contains_name(text, name)
        ]
        spatial = [claim for claim in self._reader.read(text) if claim.kind not in ("attribute", "category", "negation", "count")]
        claims += [self._judge(claim) for claim in spatial if claim.anchor is not None or claim.kind in ("position", "screen")]
        return _settled(claims or [Claim(kind="naming", text=text, verdict="supported", measured="does not name its category")])

    def _referring(self, text: str) -> Checked:
        program = self._program(text)
        if program is not None:
            found = self._members(program)
            if found is not None:
                return self._denotes(text, found)
        parsed = self._reader.read(text)
        claims = [self._judge(claim) for claim in parsed if claim.kind != "category"]
        if any(claim.kind == "negation" for claim in parsed):
            # what is denied is not asserted: nothing here can be held against it
            claims = [claim.model_copy(update={"verdict": "undecidable"}) for claim in claims]
        if not any(claim.kind == "category" for claim in parsed):
            claims.append(Claim(kind="category", text=text, verdict="contradicted", measured=f"does not say {self.target.name!r}"))
        if not claims:
            claims.append(Claim(kind="denotation", text=text, verdict="undecidable", measured="says nothing of where it is"))
        checked = _settled(claims)
        if checked.verdict != "contradicted":
            return checked
        return checked._replace(correction=self._corrected(text, parsed, claims))

    def _program(self, text: str) -> Node | None:
        """The one program that a sentence means, said of all or of the one; None when the grammar does not read it."""
        for readings in (self._parser.readings(text), self._parser.descriptions(text)):
            if len(readings) == 1 and not is_category(readings[0]):
                return readings[0]
        return None

    def _members(self, program: Node) -> Members | None:
        """What a program denotes; None when an anchor of it denotes none or several, so that its words are read one by one."""
        try:
            return self.scene.resolver.execute(program)
        except ProgramError:
            return None

    def _denotes(self, text: str, found: Members) -> Checked:
        """Hold the set that a sentence denotes against the target."""
        if found.is_decided:
            verdict: Verdict = "supported" if found.sure == self.bits else "contradicted"
        else:
            is_ruled_out = bool(found.sure & ~self.bits) or bool(self.bits & ~found.possible)
            verdict = "contradicted" if is_ruled_out else "undecidable"
        measured = f"denotes {found.sure.bit_count()} instances, {(found.possible & ~found.sure).bit_count()} undecided; the target has"
        claim = Claim(kind="denotation", text=text, verdict=verdict, measured=f"{measured} {self.bits.bit_count()}")
        checked = _settled([claim])
        if verdict != "contradicted":
            return checked
        parsed = self._reader.read(text)
        judged = [self._judge(one) for one in parsed if one.kind != "category"]
        return checked._replace(correction=self._corrected(text, parsed, judged))

    # one claim

    def _judge(self, claim: ParsedClaim) -> Claim:
        judges: dict[str, Callable[[ParsedClaim], tuple[Verdict, str]]] = {
            "relation": self._related,
            "nearness": self._near,
            "adjacency": self._adjacent,
            "position": self._placed,
            "screen": self._on_screen,
            "count": self._counted,
            "superlative": self._superlative,
        }
        judge = judges.get(claim.kind)
        verdict, measured = judge(claim) if judge else ("undecidable", "nothing measured decides it")
        return Claim(kind=claim.kind, text=claim.text, verdict=verdict, measured=measured)

    def _counted(self, claim: ParsedClaim) -> tuple[Verdict, str]:
        n = self.bits.bit_count()
        return ("supported" if claim.number == n else "contradicted"), f"{n} in the scene"

    def _superlative(self, claim: ParsedClaim) -> tuple[Verdict, str]:
        extreme, key = claim.relation.split()
        category = category_node(self.target.category)
        found = self.scene.resolver.execute(Attr(category, key, extreme))  # pyright: ignore[reportArgumentType]  words of the claim table
        if not found.is_decided:
            return "undecidable", "two are nearly equal"
        return ("supported" if found.sure == self.bits else "contradicted"), "one of several" if self.bits.bit_count() > 1 else "measured"

    def _placed(self, claim: ParsedClaim) -> tuple[Verdict, str]:
        """A part of the image, by compass."""
        places = self.scene.centroid_share[positions_of(self.bits)]
        east, north = places.mean(axis=0)
        measured = f"{100 * east:+.0f} % east, {100 * north:+.0f} % north of the centre"
        if claim.relation == "center":
            off = np.abs(places).max()
            return ("supported" if off <= MIDDLE else "contradicted" if off > NOT_MIDDLE else "undecidable"), measured
        wanted = [part for part in ("north", "south", "east", "west") if part in claim.relation]
        along = np.stack([places[:, 1] if part in ("north", "south") else places[:, 0] for part in wanted])
        along *= np.array([1.0 if part in ("north", "east") else -1.0 for part in wanted])[:, None]
        if (along >= POSITION_MARGIN).all():
            return "supported", measured
        return ("contradicted" if (along <= -POSITION_MARGIN).any() else "undecidable"), measured

    def _on_screen(self, claim: ParsedClaim) -> tuple[Verdict, str]:
        if not self.scene.is_north_up:
            return "contradicted", "words of the screen on an image that is not north-up"
        return self._related(claim) if claim.relation.endswith("_of") else self._placed(claim)

    def _related(self, claim: ParsedClaim) -> tuple[Verdict, str]:
        return self._against_anchors(claim, lambda anchor: self._edge(claim.relation, anchor))

    def _near(self, claim: ParsedClaim) -> tuple[Verdict, str]:
        if claim.relation != "near":
            return self._related(claim)

        def verdict(anchor: int) -> tuple[Verdict, str]:
            own, measured = self._edge("near", anchor)
            farthest = self._distance(anchor)
            return ("undecidable" if own == "contradicted" and farthest <= NEAR_SLACK * self.scene.near_m else own), measured

        return self._against_anchors(claim, verdict)

    def _adjacent(self, claim: ParsedClaim) -> tuple[Verdict, str]:
        def verdict(anchor: int) -> tuple[Verdict, str]:
            own, measured = self._edge("near", anchor)
            if own == "contradicted":
                return own, measured
            return ("supported" if self._distance(anchor) <= ADJACENT_SHARE * self.scene.near_m else "undecidable"), measured

        return self._against_anchors(claim, verdict)

    def _distance(self, anchor: int) -> float:
        """Distance of the target's farthest instance from an anchor, metres."""
        return float(self.scene.resolver.graph.distance_column(anchor)[positions_of(self.bits)].max())

    def _edge(self, relation: str, anchor: int) -> tuple[Verdict, str]:
        """Whether all instances of the target stand in a relation to one instance."""
        graph = self.scene.resolver.graph
        found = self._edges(relation, anchor)
        if found is None:
            return "undecidable", f"{relation} is not measured in this release"
        measured = f"{self._distance(anchor):.0f} m from {graph.nodes.instance_ids[anchor]}"
        if self.bits & ~found.possible:
            return "contradicted", measured
        return ("supported" if not self.bits & ~found.sure else "undecidable"), measured

    def _edges(self, relation: str, anchor: int) -> Members | None:
        """What stands in a relation to an anchor; where only the main winds are measured, those between them are never sure."""
        resolver = self.scene.resolver
        if relation in resolver.graph.verdicts:
            return resolver.edges_to(relation, anchor)
        if relation in AZIMUTH_DEG:
            # "northeast of" where only main winds are measured: not if surely neither north nor east of it; never surely so
            parts = [f"{part}_of" for part in ("north", "south", "east", "west") if part in relation]
            known = [resolver.edges_to(part, anchor) for part in parts if part in resolver.graph.verdicts]
            if len(known) == 2:
                return Members(0, known[0].possible | known[1].possible)
        return None

    def _against_anchors(self, claim: ParsedClaim, judge: Callable[[int], tuple[Verdict, str]]) -> tuple[Verdict, str]:
        """Judge a claim by every thing that its words can mean: "the road" one thing, "a road" any."""
        if claim.anchor is None:
            return "undecidable", "about something that is not annotated"
        try:
            members = self.scene.resolver.execute(claim.anchor)
        except ProgramError as error:
            return "undecidable", str(error)
        others = members.possible & ~self.bits
        if not others:
            return "undecidable", f"no {claim.anchor.canonical()} is annotated"
        judged = [judge(position) for position in positions_of(others)]
        verdicts = {verdict for verdict, _ in judged}
        if verdicts == {"contradicted"}:
            return "contradicted", judged[0][1]
        is_one = members.is_decided and others.bit_count() == 1
        if is_one or not claim.is_definite:
            best = next((one for one in judged if one[0] == "supported"), None)
            return best or ("undecidable", judged[0][1])
        return "undecidable", f"{claim.anchor.canonical()} can mean {others.bit_count()} things"

    # putting right

    def _corrected(self, text: str, parsed: list[ParsedClaim], claims: list[Claim]) -> str | None:
        """Turn contradicted directions into the measured ones; None when something else is wrong, or nothing holds instead."""
        wrong = {claim.text for claim in claims if claim.verdict == "contradicted"}
        tokens = tokens_of(text)
        changes: list[tuple[int, int, str]] = []
        for claim in parsed:
            if claim.text not in wrong or claim.kind == "category":
                continue
            right = self._right_wind(claim)
            if right is None or claim.swap is None:
                return None
            if tokens[claim.swap[1] - 1].word.endswith("ern"):
                right += "ern"
            changes.append((tokens[claim.swap[0]].start, tokens[claim.swap[1] - 1].end, right))
        if not changes:
            return None
        for start, end, right in sorted(changes, reverse=True):
            text = text[:start] + right + text[end:]
        return text if self.check("referring", text).verdict == "supported" else None

    def _right_wind(self, claim: ParsedClaim) -> str | None:
        """The wind that holds instead."""
        if claim.kind not in ("relation", "screen", "position") or claim.relation == "center":
            return None
        is_edge = claim.relation.endswith("_of")
        for wind in WINDS:
            relation = f"{wind}_of" if is_edge else wind
            tried = claim._replace(relation=relation, kind="relation" if is_edge else "position")
            if relation != claim.relation and self._judge(tried).verdict == "supported":
                return wind
        return None


def _settled(claims: list[Claim]) -> Checked:
    verdicts = {claim.verdict for claim in claims}
    verdict: Verdict = "contradicted" if "contradicted" in verdicts else "undecidable" if "undecidable" in verdicts else "supported"
    return Checked(verdict, tuple(claims))


def _too_long(text: str, most: int) -> Claim | None:
    n = len(tokens_of(text))
    if 1 <= n <= most and text.isprintable():
        return None
    return Claim(kind="form", text=text, verdict="contradicted", measured=f"{n} words, expected 1 to {most}, printable")
