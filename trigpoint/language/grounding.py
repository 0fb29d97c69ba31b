"""The grounded check: every sentence held against the measured scene before any person sees it.

A sentence must denote exactly its target, all of its instances. It is read by the grammar where the grammar can, else claim by claim
(`trigpoint.language.claims`); each claim is judged by what was measured (`trigpoint.language.judging`). Contradicted directions and
numbers are put right. Not here: reading sentences, and what a provider thought of them.
"""

import unicodedata
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.errors import ProgramError
from trigpoint.language.absence import judge_absence
from trigpoint.language.claims import ClaimReader, ParsedClaim, tokens_of
from trigpoint.language.judging import ClaimJudge, GroundScene, settled_verdict
from trigpoint.language.parser import SentenceParser
from trigpoint.language.wording import WINDS
from trigpoint.names import contains_name, visible
from trigpoint.programs.language import Cat, Node, is_category
from trigpoint.programs.resolver import Members
from trigpoint.records.language import Claim, LanguageForm, LanguageTarget, Verdict
from trigpoint.scene_graph.graph import SceneGraph

MAX_VOCABULARY_WORDS, MAX_SENTENCE_WORDS = 6, 40
"""Longest phrases and sentences; the paper's have 1 to 3 words and 9 to 12 on average."""

MAX_CHARACTERS = 400
"""Longest text of any form."""

_PUNCTUATION = frozenset(" .,;:'’‘\"“”()/!?%°²&+–—-")
"""What may stand in a sentence beside letters, marks and digits."""

_OF_THE_THING = ("attribute", "category", "negation", "count", "partial", "size", "trait")
"""Kinds of claims that a reasoning query may make of a thing whose category it does not name."""

_PLURAL_VERBS = {"is": "are", "lies": "lie", "sits": "sit", "stands": "stand", "has": "have"}


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
        self._judge = ClaimJudge(scene, target)
        self.bits = self._judge.bits
        self._parser = SentenceParser(scene.taxonomy, scene.is_north_up)
        self._reader = ClaimReader(self._parser, scene.taxonomy, self.names)

    def check(self, form: LanguageForm, text: str) -> Checked:
        """Check a positive sentence of a form."""
        if form == "vocabulary":
            return self._vocabulary(text)
        malformed = _malformed(text, MAX_SENTENCE_WORDS)
        if malformed is not None:
            return _settled([malformed])
        return self._referring(text) if form == "referring" else self._reasoning(text)

    def check_negative(self, text: str) -> Checked:
        """Check that what a phrase names is absent: by instances, by the taxonomy, and by the tags of the scene's POIs."""
        malformed = _malformed(text, MAX_VOCABULARY_WORDS)
        if malformed is not None:
            return _settled([malformed])
        return _settled(judge_absence(self.scene, text))

    # the three forms

    def _vocabulary(self, text: str) -> Checked:
        malformed = _malformed(text, MAX_VOCABULARY_WORDS)
        if malformed is not None:
            return _settled([malformed])
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
        spatial = [claim for claim in self._reader.read(text) if claim.kind not in _OF_THE_THING]
        claims += [self._judge.judge(claim) for claim in spatial if claim.anchor is not None or claim.kind in ("position", "screen")]
        return _settled(claims or [Claim(kind="naming", text=text, verdict="supported", measured="does not name its category")])

    def _referring(self, text: str) -> Checked:
        parsed = self._reader.read(text)
        subject = next((claim for claim in parsed if claim.kind == "category"), None)
        said = [claim for claim in parsed if claim.kind != "category" or claim is subject]
        claims = [self._judge.judge(claim) for claim in said]
        if subject is None:
            claims.append(Claim(kind="category", text=text, verdict="contradicted", measured=f"does not say {self.target.name!r}"))
        program = self._program(text)
        found = self._members(program) if program is not None else None
        if found is not None:
            about = [claim for claim in claims if claim.kind == "category"]
            checked = _settled([*about, self._denoted(text, found)])
        else:
            checked = _settled(self._word_by_word(text, claims))
        return checked._replace(correction=self._corrected(text, said, claims)) if checked.verdict == "contradicted" else checked

    def _word_by_word(self, text: str, claims: list[Claim]) -> list[Claim]:
        """The claims of a sentence that is no program: what is denied is not held against anything, and something must be said."""
        if any(claim.kind == "negation" for claim in claims):
            return [claim if claim.kind == "category" else claim.model_copy(update={"verdict": "undecidable"}) for claim in claims]
        if all(claim.kind == "category" for claim in claims):
            return [*claims, Claim(kind="denotation", text=text, verdict="undecidable", measured="says nothing of where it is")]
        return claims

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

    def _denoted(self, text: str, found: Members) -> Claim:
        """Hold the set that a sentence denotes against the target."""
        if found.is_decided:
            verdict: Verdict = "supported" if found.sure == self.bits else "contradicted"
        else:
            is_ruled_out = bool(found.sure & ~self.bits) or bool(self.bits & ~found.possible)
            verdict = "contradicted" if is_ruled_out else "undecidable"
        measured = f"denotes {found.sure.bit_count()} instances, {(found.possible & ~found.sure).bit_count()} undecided; the target has"
        return Claim(kind="denotation", text=text, verdict=verdict, measured=f"{measured} {self.bits.bit_count()}")

    # putting right

    def _corrected(self, text: str, parsed: list[ParsedClaim], claims: list[Claim]) -> str | None:
        """Turn contradicted directions and numbers into the measured ones; None when something else is wrong, or nothing holds instead."""
        wrong = {(claim.kind, claim.text) for claim in claims if claim.verdict == "contradicted"}
        changes: list[_Change] = []
        for claim in parsed:
            if (claim.kind, claim.text) not in wrong:
                continue
            right = self._pluralised(text, claim) if claim.kind == "category" else self._redirected(text, claim)
            if not right:
                return None
            changes += right
        if not changes:
            return None
        for start, end, right in sorted(changes, reverse=True):
            text = text[:start] + right + text[end:]
        return text if self.check("referring", text).verdict == "supported" else None

    def _redirected(self, text: str, claim: ParsedClaim) -> list["_Change"]:
        """The direction that holds instead, in the form of the word that does not; empty when there is none."""
        right = self._right_wind(claim)
        if right is None or claim.swap is None:
            return []
        first, last = tokens_of(text)[claim.swap[0]], tokens_of(text)[claim.swap[1] - 1]
        return [(first.start, last.end, f"{right}ern" if last.word.endswith("ern") else right)]

    def _pluralised(self, text: str, claim: ParsedClaim) -> list["_Change"]:
        """A noun of the category, and the verb after it, in the plural; empty where it is said by another name or as "a …"."""
        category = self.scene.taxonomy.get(self.target.category[0])
        if claim.swap is None or category.plural is None or claim.text.casefold() != (category.noun or "").casefold():
            return []
        tokens = tokens_of(text)
        start, end = claim.swap
        if any(token.word in ("a", "an", "this", "that", "one") for token in tokens[:start]):
            return []
        changes: list[_Change] = [(tokens[start].start, tokens[end - 1].end, category.plural)]
        verb = end + 1 if end < len(tokens) and tokens[end].word == "that" else end
        if verb < len(tokens) and tokens[verb].word in _PLURAL_VERBS:
            changes.append((tokens[verb].start, tokens[verb].end, _PLURAL_VERBS[tokens[verb].word]))
        return changes

    def _right_wind(self, claim: ParsedClaim) -> str | None:
        """The wind that holds instead."""
        if claim.kind not in ("relation", "screen", "position") or not claim.relation:
            return None
        is_edge = claim.relation.endswith("_of")
        for wind in WINDS:
            relation = f"{wind}_of" if is_edge else wind
            tried = claim._replace(relation=relation, kind="relation" if is_edge else "position")
            is_corner = claim.part != "corner" or wind not in ("north", "east", "south", "west")
            if relation != claim.relation and is_corner and self._judge.judge(tried).verdict == "supported":
                return wind
        return None


_Change = tuple[int, int, str]
"""Where in a text something else is to stand: start, end, and what."""


def _settled(claims: list[Claim]) -> Checked:
    return Checked(settled_verdict(claims), tuple(claims))


def _malformed(text: str, most: int) -> Claim | None:
    """What is no plain sentence or phrase: too long, or with characters that a page, plot or prompt could take for more than words."""
    n = len(tokens_of(text)) if len(text) <= MAX_CHARACTERS else most + 1
    if 1 <= n <= most and all(c in _PUNCTUATION or unicodedata.category(c)[0] in "LMN" for c in text):
        return None
    measured = f"{len(text)} characters, expected 1 to {most} words of letters, digits and plain punctuation"
    return Claim(kind="form", text=visible(text), verdict="contradicted", measured=measured)
