"""What a free sentence claims about its target: relations to other things, places in the image, counts, sizes, superlatives, negations.

Not a language model: it finds the phrases of `trigpoint.language.wording`. What it cannot read is a claim, too, of kind `attribute` or
`negation`, which nothing here can decide. Not here: what the ground says of a claim (`trigpoint.language.judging`).
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from trigpoint.categories import Taxonomy
from trigpoint.language.parser import SentenceParser, Words, normal_word
from trigpoint.language.wording import (
    ADJACENT,
    BETWEEN,
    COMPARATIVES,
    CORNERS,
    EDGES,
    FAR,
    HALVES,
    IMAGE,
    INSIDE,
    MIDDLE,
    NEAR,
    NEGATIONS,
    NUMBERS,
    OUTSIDE,
    PARTIAL,
    PLAIN,
    QUANTITIES,
    SCREEN,
    SHAPES,
    SIZES,
    SUPERLATIVES,
    SURROUNDED,
    WIND_FORMS,
    WINDS,
    trait_forms,
)
from trigpoint.names import key_of, singular
from trigpoint.programs.language import Attr, Cat, Node

ClaimKind = Literal[
    "relation",
    "screen",
    "adjacency",
    "nearness",
    "between",
    "surrounded",
    "position",
    "count",
    "partial",
    "superlative",
    "size",
    "comparison",
    "trait",
    "negation",
    "attribute",
    "category",
]

Part = Literal["half", "corner", "edge", "middle"]
"""How much of the image a place is."""

_TOKEN = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*|\d+(?:\.\d+)?", re.UNICODE)
_LEADS: tuple[Words, ...] = (
    *(
        (*preposition.split(), article)
        for preposition in ("in", "at", "on", "along", "near", "by", "toward", "towards", "to", "close to")
        for article in ("the", "a", "an", "one")
    ),
    ("the",),
)
_STOPS = ("of", "and", "that", "in", "to", "on", "with")
_MAX_NOUN_WORDS = 4


class Token(NamedTuple):
    """A word as the grammar reads it, and where it stands in the sentence."""

    word: str
    start: int
    end: int


class ParsedClaim(NamedTuple):
    """One thing that a sentence says.

    Attributes:
        kind: What kind of thing.
        text: Its words, as written.
        relation: Relation of the graph that it asserts, the wind of a place in the image ("" for any), or what else its kind compares.
        anchor: What the claim is to; None where no known thing is named. other: The second thing that something is between.
        is_definite: Whether the anchor is one particular thing ("the road", not "a road").
        unread: Words about the anchor that nothing here decides ("the busy road").
        number: A count; of a category claim 1 for a singular, 2 for a plural noun.
        part: How much of the image a place is.
        swap: The words that a correction replaces: first and last token.
    """

    kind: ClaimKind
    text: str
    relation: str = ""
    anchor: Node | None = None
    other: Node | None = None
    is_definite: bool = True
    unread: Words = ()
    number: int = 0
    part: Part = "half"
    swap: tuple[int, int] | None = None


_Found = Iterator[tuple[ParsedClaim, int]]
"""Claims, each with the position of the word after it."""


def tokens_of(text: str) -> list[Token]:
    """Split a sentence into words with their places."""
    return [Token(normal_word(found.group()), found.start(), found.end()) for found in _TOKEN.finditer(text)]


class ClaimReader:
    """Reads the claims of sentences about one category of a taxonomy.

    Args:
        parser: Knows the nouns, and reads descriptions of other things.
        taxonomy: Knows other names of things, and what their further axes are called.
        names: How the target may be called, singular and plural.
    """

    def __init__(self, parser: SentenceParser, taxonomy: Taxonomy, names: tuple[str, ...]) -> None:
        self._parser, self._taxonomy = parser, taxonomy
        self._names = {key_of(name) for name in names}
        self._longest_name = max((len(tokens_of(name)) for name in names), default=0)
        self._traits = {form: c.id for c in taxonomy.categories if c.phrase for form in trait_forms(c.phrase)}

    def read(self, text: str) -> list[ParsedClaim]:
        """Return every claim of a sentence, in its order."""
        tokens = tokens_of(text)
        words = tuple(token.word for token in tokens)
        claims: list[ParsedClaim] = []
        at = 0
        has_name = False
        while at < len(words):
            found = next(self._at(words, at, has_name), None)
            if found is not None:
                claim, end = found
                claims.append(claim._replace(text=_said(text, tokens, at, end)))
                at = end
                continue
            n = self._name_at(words, at)
            if n:
                has_name = True
                claims.append(self._category(words, at, at + n)._replace(text=_said(text, tokens, at, at + n)))
            elif words[at] not in PLAIN:
                claims.append(ParsedClaim("attribute", _said(text, tokens, at, at + 1)))
            at += max(n, 1)
        return claims

    def _name_at(self, words: Words, at: int) -> int:
        """Number of words of the target's name that stands here, in either number; 0 for none."""
        for n in range(min(self._longest_name + 1, len(words) - at), 0, -1):
            if words[at] not in ("a", "an", "the") and key_of(" ".join(words[at : at + n])) in self._names:
                return n
        return 0

    def _category(self, words: Words, at: int, end: int) -> ParsedClaim:
        is_plural = singular(words[end - 1]) != words[end - 1]
        is_each = any(word in ("every", "each", "any", "all") for word in words[:at])
        return ParsedClaim("category", "", number=2 if is_plural else 0 if is_each else 1, swap=(at, end))

    def _at(self, words: Words, at: int, has_name: bool) -> _Found:
        """Claims that begin here, the longest phrases first."""
        yield from self._in_the_image(words, at)
        yield from self._between(words, at)
        yield from self._to_something(words, at)
        for form, trait in self._traits.items():
            if words[at : at + len(form)] == form:
                yield ParsedClaim("trait", "", trait), at + len(form)
        yield from self._of_itself(words, at)
        if not has_name:
            yield from self._how_many(words, at)

    def _of_itself(self, words: Words, at: int) -> _Found:
        word = words[at]
        if word in NEGATIONS:
            yield ParsedClaim("negation", ""), at + 1
        if word in SUPERLATIVES:
            key, extreme = SUPERLATIVES[word]
            yield ParsedClaim("superlative", "", f"{extreme} {key}"), at + 1
        for than in _phrase(words, at + 1, "than"):
            if word in COMPARATIVES:
                yield from self._anchored(words, than, ParsedClaim("comparison", "", COMPARATIVES[word]))
        if word in SIZES or word in SHAPES:
            yield ParsedClaim("size", "", SIZES.get(word) or SHAPES[word]), at + 1

    def _how_many(self, words: Words, at: int) -> _Found:
        """How many there are, said before the name."""
        word = words[at]
        if word in PARTIAL:
            is_of = words[at + 1 : at + 2] == ("of",)
            yield ParsedClaim("partial", "", "part" if is_of else ""), at + 1 + is_of
        elif word in QUANTITIES:
            yield ParsedClaim("count", "", QUANTITIES[word]), at + 1
        elif word in NUMBERS or (word.isascii() and word.isdigit()):
            is_about_all = word != "only" or not any(singular(later) != later for later in words[at + 1 : at + 3])
            yield ParsedClaim("count", "", "exactly" if is_about_all else "any", number=_number(word)), at + 1

    def _in_the_image(self, words: Words, at: int) -> _Found:
        """Places such as "in the upper left corner (of the image)", "at the edge of the scene", "in the middle"."""
        lead = next((lead for lead in _LEADS if words[at : at + len(lead)] == lead), None)
        if lead is None:
            return
        start = at + len(lead)
        wind, end, is_screen = _wind_at(words, start)
        is_middle = not wind and words[start : start + 1] and words[start] in MIDDLE
        if is_middle:
            end = start + 1
        part, after = _part_at(words, end)
        if is_middle:
            part = "middle"
        is_of_image = False
        for tail in ("of the", "of this"):
            for stop in _phrase(words, after, tail):
                if stop < len(words) and words[stop] in IMAGE:
                    after, is_of_image = stop + 1, True
        if not wind and not is_middle and not (is_of_image and part in ("corner", "edge")):
            return
        is_of_other = not is_of_image and words[after : after + 1] == ("of",)
        has_part = after > end or is_of_image
        if is_of_other or not (has_part or is_screen or lead[0] in ("in", "at", "on") or is_middle):
            return  # "to the north of the road" is a relation
        swap = (start, end) if wind else None
        yield ParsedClaim("screen" if is_screen else "position", "", wind, part=part or "half", swap=swap), after

    def _between(self, words: Words, at: int) -> _Found:
        for phrase in BETWEEN:
            for start in _phrase(words, at, phrase):
                for first, middle in self._anchored(words, start, ParsedClaim("between", ""), is_needed=True):
                    for second_at in _phrase(words, middle, "and"):
                        for second, end in self._anchored(words, second_at, ParsedClaim("between", ""), is_needed=True):
                            both = first.is_definite and second.is_definite
                            yield (
                                first._replace(other=second.anchor, is_definite=both, unread=(*first.unread, *second.unread)),
                                end,
                            )
                yield ParsedClaim("between", ""), start

    def _to_something(self, words: Words, at: int) -> _Found:
        """Relations to another thing."""
        for lead in ("to the", "on the", "at the", "along the", ""):
            for start in _phrase(words, at, lead):
                wind, end, is_screen = _wind_at(words, start)
                if wind and wind in WINDS:
                    after = end + 1 if words[end : end + 1] and words[end] in ("side", "edge", "end") else end
                    for stop in _phrase(words, after, "of"):
                        claim = ParsedClaim("screen" if is_screen else "relation", "", f"{wind}_of", swap=(start, end))
                        yield from self._anchored(words, stop, claim)
        for word, wind in (("above", "north"), ("below", "south")):
            for end in _phrase(words, at, word):
                yield from self._anchored(words, end, ParsedClaim("screen", "", f"{wind}_of", swap=(at, end)))
        for end in _phrase(words, at, "within"):
            if end + 2 < len(words) and words[end].isdigit() and words[end + 1] == "metres" and words[end + 2] in ("of", "from"):
                yield from self._anchored(words, end + 3, ParsedClaim("nearness", "", f"within_{int(words[end])}m"))
        kinds: tuple[tuple[ClaimKind, str, tuple[str, ...]], ...] = (
            ("surrounded", "inside", SURROUNDED),
            ("adjacency", "near", ADJACENT),
            ("nearness", "near", NEAR),
            ("nearness", "far", FAR),
            ("relation", "outside", OUTSIDE),
            ("relation", "inside", INSIDE),
        )
        for kind, relation, phrases in kinds:
            for phrase in sorted(phrases, key=len, reverse=True):
                for end in _phrase(words, at, phrase):
                    is_needed = kind == "relation" and relation == "inside"
                    yield from self._anchored(words, end, ParsedClaim(kind, "", relation), is_needed=is_needed)

    def _anchored(self, words: Words, at: int, claim: ParsedClaim, is_needed: bool = False) -> _Found:
        """Complete a claim with the thing it is about; an unknown thing leaves it without anchor, unless one `is_needed`."""
        described = sorted(self._parser.described(words, at), key=lambda reading: -reading[1])
        if described:
            node, end = described[0]
            yield claim._replace(anchor=node), end
            return
        is_definite = words[at : at + 1] in (("the",), ("this",))
        start = at + 1 if words[at : at + 1] and words[at] in ("the", "a", "an", "this", "some", "its", "another", "other") else at
        for skip in range(4):
            if start + skip >= len(words) or words[start + skip] in _STOPS:
                break
            for node, end in self._things_at(words, start + skip):
                adjectives = words[start : start + skip]
                superlative = next((SUPERLATIVES[word] for word in adjectives if word in SUPERLATIVES), None)
                anchor = Attr(node, *superlative) if superlative else node  # pyright: ignore[reportArgumentType]  keys of the table
                unread = tuple(word for word in adjectives if word not in SUPERLATIVES and word not in PLAIN)
                yield claim._replace(anchor=anchor, is_definite=is_definite and not unread, unread=unread), end
                return
        if not is_needed:
            yield claim, at

    def _things_at(self, words: Words, at: int) -> Iterator[tuple[Node, int]]:
        """Things that are named here: by noun, else by another name of exactly one category."""
        yield from self._parser.named(words, at)
        first = self._taxonomy.axes[0].id
        for n in range(min(_MAX_NOUN_WORDS, len(words) - at), 0, -1):
            named = [c for c in self._taxonomy.categories_named(" ".join(words[at : at + n])) if self._taxonomy.get(c).axis == first]
            if len(named) == 1:
                yield Cat(named[0]), at + n


def _part_at(words: Words, at: int) -> tuple[Part | None, int]:
    """Which part of the image the word here means, and the position after it; None for none."""
    kinds: tuple[tuple[Part, tuple[str, ...]], ...] = (("corner", CORNERS), ("edge", EDGES), ("half", HALVES))
    for part, known in kinds:
        if at < len(words) and singular(words[at]) in known:
            return part, at + 1
    return None, at


def _wind_at(words: Words, at: int) -> tuple[str, int, bool]:
    """The wind that stands here, the position after it, and whether it is said in words of the screen; "" for none."""
    if at >= len(words):
        return "", at, False
    first = words[at].removesuffix("most") if words[at].endswith("ernmost") else words[at]
    if first in WIND_FORMS:
        wind = WIND_FORMS[first]
        if wind in ("north", "south") and at + 1 < len(words) and WIND_FORMS.get(words[at + 1]) in ("east", "west"):
            return wind + WIND_FORMS[words[at + 1]], at + 2, False
        return wind, at + 1, False
    if first in SCREEN:
        wind = SCREEN[first]
        if wind in ("north", "south") and at + 1 < len(words) and words[at + 1] in ("left", "right"):
            return wind + SCREEN[words[at + 1]], at + 2, True
        return wind, at + 1, True
    hyphened = first.split("-")
    if len(hyphened) == 2:
        if hyphened[0] in SCREEN and hyphened[1] in SCREEN:
            return SCREEN[hyphened[0]] + SCREEN[hyphened[1]], at + 1, True
        if hyphened[0] in WINDS and hyphened[1] in WIND_FORMS:
            return hyphened[0] + WIND_FORMS[hyphened[1]], at + 1, False
    return "", at, False


def _number(word: str) -> int:
    """The number that a word or up to nine digits say."""
    return NUMBERS[word] if word in NUMBERS else int(word[:9])


def _phrase(words: Words, at: int, phrase: str) -> Iterator[int]:
    """Yield the position after `phrase` if it stands at `at`."""
    expected = tuple(phrase.split())
    if words[at : at + len(expected)] == expected:
        yield at + len(expected)


def _said(text: str, tokens: list[Token], first: int, end: int) -> str:
    return text[tokens[first].start : tokens[max(first, end - 1)].end]
