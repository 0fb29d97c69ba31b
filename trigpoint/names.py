"""How names of things compare: one form for case, number, articles and hyphens, and how a phrase relates to a named thing.

No category is known here; the words come from a taxonomy. English only. Not here: reading and checking taxonomies
(`trigpoint.categories`).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

NameRelation = Literal["same", "synonym", "broader", "narrower", "part", "look_alike", "other", "unknown"]
"""What a phrase is to a category. `part`: one is part of the other. `other`: known and unrelated. `unknown`: nothing knows the word."""

_ARTICLES = ("a", "an", "the")
_PREPOSITIONS = frozenset({"of", "on", "in", "at", "with", "without", "for", "near", "by", "to", "from", "under", "over"})
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_IRREGULAR = {
    "men": "man", "women": "woman", "people": "person", "children": "child", "feet": "foot", "geese": "goose", "mice": "mouse",
    "teeth": "tooth", "oxen": "ox", "leaves": "leaf", "shelves": "shelf", "wharves": "wharf", "halves": "half", "calves": "calf",
    "loaves": "loaf", "knives": "knife", "lives": "life", "wolves": "wolf", "caches": "cache", "niches": "niche",
    "avalanches": "avalanche", "gases": "gas", "axes": "axe", "buses": "bus", "minibuses": "minibus", "trolleybuses": "trolleybus",
    "campuses": "campus", "termini": "terminus", "quays": "quay", "series": "series", "species": "species",
}  # fmt: skip
_SPELLINGS = {
    "armored": "armoured", "gray": "grey", "centre": "center", "harbour": "harbor", "story": "storey", "colored": "coloured",
    "metre": "meter", "mould": "mold", "catalog": "catalogue", "pedestrianized": "pedestrianised", "license": "licence",
}  # fmt: skip


def singular(word: str) -> str:
    """Return the form of a lower-case word that its singular and plural share.

    >>> [singular(word) for word in ("cars", "bridges", "churches", "ferries", "buses", "grass", "wharves", "axis")]
    ['car', 'bridge', 'church', 'ferry', 'bus', 'grass', 'wharf', 'axis']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word[:-2] if word.endswith("sses") else word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "ches", "shes", "xes", "zes", "oes")):
        return word[:-2]
    return word[:-1]


def plural_of(phrase: str) -> str:
    """Return a name in the plural; what is plural already, or has no regular one that reads back, stays as it is.

    >>> plural_of("inner yard"), plural_of("body of water"), plural_of("city"), plural_of("church"), plural_of("trees")
    ('inner yards', 'bodies of water', 'cities', 'churches', 'trees')
    """
    words = phrase.split()
    head = next((k for k, word in enumerate(words) if k and word in _PREPOSITIONS), len(words)) - 1
    word = words[head]
    if word != singular(word):
        return phrase
    irregular = next((many for many, one in _IRREGULAR.items() if one == word), None)
    if irregular is not None:
        made = irregular
    elif word.endswith("y") and word[-2:-1] not in tuple("aeiou"):
        made = f"{word[:-1]}ies"
    else:
        made = f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"
    return " ".join((*words[:head], made, *words[head + 1 :])) if singular(made) == word else phrase


@lru_cache(maxsize=65536)
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a phrase in the form in which names are compared: lower case, singular, hyphens as spaces, no first article.

    >>> words_of("The Semi-Trailer  Trucks")
    ('semi', 'trailer', 'truck')
    >>> words_of("pitcher’s mound")
    ('pitcher', 'mound')
    """
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    words = [word.removesuffix("'s").replace("'", "") for word in _WORD.findall(plain)]
    if len(words) > 1 and words[0] in _ARTICLES:
        del words[0]
    return tuple(_SPELLINGS.get(word, word) for word in map(singular, words))


def key_of(text: str) -> str:
    """Return the one form of all spellings of a name, written apart, together or with a hyphen.

    >>> key_of("air base") == key_of("Airbases") == key_of("the air-base")
    True
    """
    return "".join(words_of(text))


def spelling_of(text: str) -> str:
    """Return a phrase without case, articles, hyphens and doubled spaces, its number kept.

    >>> spelling_of("The  hoop-house"), spelling_of("hoop houses")
    ('hoop house', 'hoop houses')
    """
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold().replace("’", "'"))
    return " ".join(words[1:] if len(words) > 1 and words[0] in _ARTICLES else words)


def visible(text: str, most: int = 400) -> str:
    r"""Return a text from outside as it can be stored and shown: what does not print is escaped, and what is too long is cut.

    >>> visible("school\u202e\n"), visible("x" * 1000, most=3)
    ('school\\u202e\\u000a', 'xxx…')
    """
    shown = "".join(c if c.isprintable() else "".join(f"\\u{unit:04x}" for unit in _utf16(c)) for c in text[:most])
    return shown + ("…" if len(text) > most else "")


def _utf16(character: str) -> list[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[k : k + 2], "big") for k in range(0, len(data), 2)]


def contains_name(text: str, name: str) -> bool:
    """Whether a sentence has a name in it, as whole words in either number.

    >>> contains_name("where two bridges meet", "bridge"), contains_name("a bridgehead", "bridge")
    (True, False)
    """
    words, wanted = words_of(text), words_of(name)
    return bool(wanted) and any(words[k : k + len(wanted)] == wanted for k in range(len(words) - len(wanted) + 1))


def _heads(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield what a phrase is a kind of by its grammar, longest first: `old fishing boat with nets` → fishing boat, boat."""
    end = next((k for k, word in enumerate(words) if k and word in _PREPOSITIONS), len(words))
    for start in range(end):
        if (start, end) != (0, len(words)):
            yield words[start:end]


class NamesOf(NamedTuple):
    """All that is said of one category, as phrases.

    Attributes:
        own: Its names. synonyms: Other words for the same.
        broader, narrower: What it is a kind of, and kinds of it. parts: What it is made of.
        look_alikes: What it is taken for and is not. negatives: The same as published, where grammar is believed first.
        parent: The id of a broader category.
    """

    own: tuple[str, ...]
    synonyms: tuple[str, ...]
    broader: tuple[str, ...]
    narrower: tuple[str, ...]
    parts: tuple[str, ...]
    look_alikes: tuple[str, ...]
    negatives: tuple[str, ...]
    parent: str | None


class NameIndex:
    """Finds the categories that a phrase names, and what a phrase is to a category."""

    def __init__(self, categories: Mapping[str, NamesOf]) -> None:
        """Take the names of all categories by id."""
        self._said = categories
        self._own = {name: _keys(said.own) for name, said in categories.items()}
        self._synonyms = {name: _keys(said.synonyms) for name, said in categories.items()}
        self._named: dict[str, frozenset[str]] = {}
        for name in categories:
            for key in self._own[name] | self._synonyms[name]:
                self._named[key] = self._named.get(key, frozenset()) | {name}
        self._known = set(self._named)
        for said in categories.values():
            for phrases in (said.broader, said.narrower, said.parts, said.look_alikes, said.negatives):
                self._known |= _keys(phrases)

    def categories_named(self, phrase: str) -> tuple[str, ...]:
        """Return the ids of the categories that a phrase names or is a synonym of, in the order of the taxonomy."""
        found = self._named.get(key_of(phrase), frozenset())
        return tuple(name for name in self._said if name in found)

    def relation(self, phrase: str, category_id: str) -> NameRelation:
        """Return what a phrase is to a category.

        A phrase that names no category is also judged by its grammar: `old fishing boat` is a kind of boat, `pool` is broader
        than `swimming pool`.
        """
        words = words_of(phrase)
        key = "".join(words)
        said = self._said[category_id]
        listed = self._listed(key, category_id)
        if listed in ("other", "unknown") and key not in self._named:
            listed = self._by_grammar(words, category_id, listed)
        if listed in ("other", "unknown") and key in _keys(said.negatives):
            return "look_alike"
        return listed

    def _by_grammar(self, words: tuple[str, ...], category_id: str, listed: NameRelation) -> NameRelation:
        """What a phrase is to a category by what it is a kind of; what the lists say where that tells nothing."""
        for head in _heads(words):
            found = self._listed("".join(head), category_id)
            if found in ("same", "synonym", "narrower"):
                return "narrower"
            if listed == "unknown" and (found in ("part", "look_alike") or (found == "other" and "".join(head) in self._named)):
                listed = found
        said = self._said[category_id]
        if any(words in set(_heads(words_of(name))) for name in (*said.own, *said.synonyms)):
            return "broader"
        return listed

    def _listed(self, key: str, category_id: str) -> NameRelation:
        """What a phrase is to a category by what the taxonomy lists, both ways and over several steps."""
        if key in self._own[category_id]:
            return "same"
        if key in self._synonyms[category_id]:
            return "synonym"
        if key not in self._known:
            return "unknown"
        things = self._things(key)
        if things & self._above[category_id]:
            return "broader"
        if any(category_id in self._above.get(thing, ()) for thing in things):
            return "narrower"
        if things & self._parts_of[category_id] or any(category_id in self._parts_of.get(thing, ()) for thing in things):
            return "part"
        if things & self._look_alikes[category_id] or key in _keys(self._said[category_id].look_alikes):
            return "look_alike"
        return "other"

    def _things(self, key: str) -> frozenset[str]:
        """The categories that a key names; a word that names none stands for itself."""
        return self._named.get(key, frozenset({f"={key}"}))

    def _all_things(self, phrases: Iterable[str]) -> set[str]:
        return {thing for key in _keys(phrases) for thing in self._things(key)}

    @cached_property
    def _above(self) -> dict[str, frozenset[str]]:
        """Everything broader than a thing, over any number of steps."""
        up: dict[str, set[str]] = {name: set() for name in self._said}
        for name, said in self._said.items():
            up[name] |= self._all_things(said.broader) | ({said.parent} if said.parent is not None else set())
            for thing in self._all_things(said.narrower):
                up.setdefault(thing, set()).add(name)
        above: dict[str, frozenset[str]] = {}
        for start in up:
            reached, ahead = set[str](), [start]
            while ahead:
                fresh = up.get(ahead.pop(), set()) - reached
                reached |= fresh
                ahead.extend(fresh)
            above[start] = frozenset(reached - {start})
        return above

    @cached_property
    def _parts_of(self) -> dict[str, frozenset[str]]:
        """The parts of a category and of all that it is a kind of."""
        return {
            name: frozenset(
                self._all_things(part for kind in (name, *self._above[name]) if kind in self._said for part in self._said[kind].parts)
            )
            for name in self._said
        }

    @cached_property
    def _look_alikes(self) -> dict[str, set[str]]:
        return {name: self._all_things(said.look_alikes) for name, said in self._said.items()}


def _keys(phrases: Iterable[str]) -> frozenset[str]:
    return frozenset(key for phrase in phrases if (key := key_of(phrase)))
