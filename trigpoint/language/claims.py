"""What a free sentence claims about its target: relations to other things, places in the image, counts, superlatives, negations.

Not a language model: a table of phrases that people and models use of overhead imagery. What it cannot read is a claim, too, of kind
`attribute` or `negation`, which nothing here can decide. Not here: what the ground says of a claim (`trigpoint.language.grounding`).
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from trigpoint.language.parser import SentenceParser, Words, normal_word, words_of
from trigpoint.programs.language import Attr, Node

ClaimKind = Literal[
    "relation", "screen", "adjacency", "nearness", "position", "count", "superlative", "negation", "attribute", "between", "category"
]

WINDS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
"""Clockwise from north, 45° apart."""

_WIND_FORMS = {form: wind for wind in WINDS for form in (wind, f"{wind}ern", wind.replace("th", "th-", 1) if len(wind) > 5 else wind)}

SCREEN = {"left": "west", "right": "east", "top": "north", "upper": "north", "bottom": "south", "lower": "south"}
"""Words of the screen and the wind they stand for on a north-up image."""

_ADJACENT = (
    "adjacent to",
    "next to",
    "beside",
    "bordering",
    "borders",
    "alongside",
    "along",
    "abutting",
    "touching",
    "attached to",
    "flanking",
)
_NEAR = ("near", "nearby", "close to", "in the vicinity of", "not far from", "a short distance from")
_FAR = ("far from", "far away from", "a long way from")
_INSIDE = ("inside", "within", "enclosed by", "surrounded by", "in")
_OUTSIDE = ("outside of", "outside")
_IMAGE = ("image", "scene", "picture", "frame", "patch", "tile", "photo", "view")
_PARTS = ("part", "side", "edge", "corner", "half", "portion", "section", "area", "end", "quadrant", "region")
_MIDDLE = ("center", "centre", "middle")
_NEGATIONS = ("not", "no", "without", "except", "excluding", "neither", "never")
_COUNTED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS = {word: k for k, word in enumerate(_COUNTED)} | {"single": 1, "sole": 1, "lone": 1, "both": 2, "pair": 2}
_SUPERLATIVES: dict[str, tuple[str, str]] = {
    "largest": ("area", "most"),
    "biggest": ("area", "most"),
    "longest": ("length", "most"),
    "northernmost": ("north", "most"),
    "southernmost": ("north", "least"),
    "easternmost": ("east", "most"),
    "westernmost": ("east", "least"),
}
_UNMEASURED = ("smallest", "shortest", "tallest", "widest", "narrowest", "brightest", "darkest", "oldest", "newest")
_PLAIN = frozenset(
    words_of(
        "a an and are area areas at be by can directly exactly from has have immediately in is it its just lies lie lying "
        "locate located of on or place positioned region seen set sits sit situated slightly standing stands structure "
        "structures that the their these this those to visible with all every any whole entire image scene picture side "
    )
)
"""Words that claim nothing."""

_TOKEN = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*|\d+(?:\.\d+)?", re.UNICODE)


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
        relation: Relation of the graph that it asserts, or the wind of a place in the image (`center` for its middle).
        anchor: What the relation is to; None where no known thing is named.
        is_definite: Whether the anchor is one particular thing ("the road", not "a road").
        number: A count.
        swap: The words that a correction replaces: first and last token.
    """

    kind: ClaimKind
    text: str
    relation: str = ""
    anchor: Node | None = None
    is_definite: bool = True
    number: int = 0
    swap: tuple[int, int] | None = None


def tokens_of(text: str) -> list[Token]:
    """Split a sentence into words with their places."""
    return [Token(normal_word(found.group()), found.start(), found.end()) for found in _TOKEN.finditer(text)]


class ClaimReader:
    """Reads the claims of sentences about one category of a taxonomy.

    Args:
        parser: Knows the nouns, and reads descriptions of other things.
        names: How the target may be called, singular and plural.
    """

    def __init__(self, parser: SentenceParser, names: tuple[str, ...]) -> None:
        self._parser = parser
        self._names = sorted({tuple(token.word for token in tokens_of(name)) for name in names}, key=len, reverse=True)

    def read(self, text: str) -> list[ParsedClaim]:
        """Return every claim of a sentence, in its order."""
        tokens = tokens_of(text)
        words = tuple(token.word for token in tokens)
        claims: list[ParsedClaim] = []
        at = 0
        has_name = False
        while at < len(words):
            found = next(self._at(words, at, has_name), None)
            if found is None:
                name = self._name_at(words, at)
                if name:
                    has_name = True
                    claims.append(ParsedClaim("category", _said(text, tokens, at, at + name)))
                    at += name
                elif words[at] in _PLAIN:
                    at += 1
                else:
                    claims.append(ParsedClaim("attribute", _said(text, tokens, at, at + 1)))
                    at += 1
                continue
            claim, end = found
            claims.append(claim._replace(text=_said(text, tokens, at, end)))
            at = end
        return claims

    def _name_at(self, words: Words, at: int) -> int:
        """Number of words of the target's name that stands here, 0 for none."""
        return next((len(name) for name in self._names if words[at : at + len(name)] == name), 0)

    def _at(self, words: Words, at: int, has_name: bool) -> Iterator[tuple[ParsedClaim, int]]:
        """Claims that begin here, the longest phrases first."""
        yield from self._in_the_image(words, at)
        yield from self._to_something(words, at)
        for end in _phrase(words, at, "not far from"):
            yield from self._anchored(words, end, ParsedClaim("nearness", "", "near"))
        word = words[at]
        if word in _NEGATIONS:
            yield ParsedClaim("negation", ""), at + 1
        if word == "between":
            yield ParsedClaim("between", ""), at + 1
        if word in _SUPERLATIVES:
            key, extreme = _SUPERLATIVES[word]
            yield ParsedClaim("superlative", "", f"{extreme} {key}"), at + 1
        if word in _UNMEASURED:
            yield ParsedClaim("attribute", ""), at + 1
        if not has_name and (word in _NUMBERS or word.isdigit()):
            yield ParsedClaim("count", "", number=_NUMBERS.get(word, int(word) if word.isdigit() else 0)), at + 1

    def _in_the_image(self, words: Words, at: int) -> Iterator[tuple[ParsedClaim, int]]:
        """Places such as "in the upper left corner (of the image)", "on the eastern edge of the scene", "in the middle"."""
        start, is_in = at, False
        for lead in ("in the", "at the", "on the", "along the", "near the", "toward the", "towards the", "to the", "the"):
            for after in _phrase(words, at, lead):
                start, is_in = after, lead in ("in the", "at the", "on the")
                break
            else:
                continue
            break
        else:
            return
        wind, end, is_screen = _wind_at(words, start)
        if words[start : start + 1] and words[start] in _MIDDLE:
            wind, end, is_screen = "center", start + 1, False
        if not wind:
            return
        has_part = end < len(words) and words[end] in _PARTS
        after = end + 1 if has_part else end
        is_of_image = False
        for tail in ("of the", "of this"):
            for stop in _phrase(words, after, tail):
                if stop < len(words) and words[stop] in _IMAGE:
                    after, is_of_image = stop + 1, True
        is_of_other = not is_of_image and words[after : after + 1] == ("of",)
        if is_of_other or not (has_part or is_of_image or is_screen or is_in or wind == "center"):
            return  # "to the north of the road" is a relation
        kind: ClaimKind = "screen" if is_screen else "position"
        yield ParsedClaim(kind, "", wind, swap=(start, end)), after

    def _to_something(self, words: Words, at: int) -> Iterator[tuple[ParsedClaim, int]]:
        """Relations to another thing."""
        for lead in ("to the", "on the", "at the", ""):
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
            ("adjacency", "near", _ADJACENT),
            ("nearness", "near", _NEAR),
            ("nearness", "far", _FAR),
            ("relation", "outside", _OUTSIDE),
            ("relation", "inside", _INSIDE),
        )
        for kind, relation, phrases in kinds:
            for phrase in sorted(phrases, key=len, reverse=True):
                for end in _phrase(words, at, phrase):
                    yield from self._anchored(words, end, ParsedClaim(kind, "", relation), is_needed=relation == "inside")

    def _anchored(self, words: Words, at: int, claim: ParsedClaim, is_needed: bool = False) -> Iterator[tuple[ParsedClaim, int]]:
        """Complete a claim with the thing it is about; an unknown thing leaves it without anchor, unless one `is_needed`."""
        described = sorted(self._parser.described(words, at), key=lambda reading: -reading[1])
        if described:
            node, end = described[0]
            yield claim._replace(anchor=node), end
            return
        is_definite = words[at : at + 1] in (("the",), ("this",))
        start = at + 1 if words[at : at + 1] and words[at] in ("the", "a", "an", "this", "some", "several", "its", "another") else at
        for skip in range(4):
            if start + skip >= len(words) or words[start + skip] in ("of", "and", "that", "in", "to"):
                break
            for node, end in self._parser.named(words, start + skip):
                adjectives = words[start : start + skip]
                superlative = next((_SUPERLATIVES[word] for word in adjectives if word in _SUPERLATIVES), None)
                anchor = Attr(node, *superlative) if superlative else node  # pyright: ignore[reportArgumentType]  keys of the table
                yield claim._replace(anchor=anchor, is_definite=is_definite and (not adjectives or superlative is not None)), end
                return
        if not is_needed:
            yield claim, at


def _wind_at(words: Words, at: int) -> tuple[str, int, bool]:
    """The wind that stands here, the position after it, and whether it is said in words of the screen; "" for none."""
    if at >= len(words):
        return "", at, False
    first = words[at].removesuffix("most") if words[at].endswith("ernmost") else words[at]
    if first in _WIND_FORMS:
        wind = _WIND_FORMS[first]
        if wind in ("north", "south") and at + 1 < len(words) and _WIND_FORMS.get(words[at + 1]) in ("east", "west"):
            return wind + _WIND_FORMS[words[at + 1]], at + 2, False
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
        if hyphened[0] in WINDS and hyphened[1] in _WIND_FORMS:
            return hyphened[0] + _WIND_FORMS[hyphened[1]], at + 1, False
    return "", at, False


def _phrase(words: Words, at: int, phrase: str) -> Iterator[int]:
    """Yield the position after `phrase` if it stands at `at`."""
    expected = tuple(phrase.split())
    if words[at : at + len(expected)] == expected:
        yield at + len(expected)


def _said(text: str, tokens: list[Token], first: int, end: int) -> str:
    return text[tokens[first].start : tokens[max(first, end - 1)].end]
