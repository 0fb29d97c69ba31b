"""Words of free language held against the taxonomy: what names a category, whatever its case, number, articles and hyphens.

Written from docs/taxonomies.md ("What a name is to a category"). Not here: scenes, and which text must name what (`language.py`).
"""

import itertools
import re
from functools import cache, cached_property

from trigpoint.audit.reading import Category, Taxonomy

Words = tuple[frozenset[str], ...]
"""A phrase: for every word what it may be in the singular, itself included."""

WORD = re.compile(r"[^\W_]+")
ARTICLES = frozenset(("a", "an", "the"))
IRREGULAR = {"people": "person", "children": "child", "feet": "foot", "teeth": "tooth", "geese": "goose", "mice": "mouse", "lice": "louse"}


def singulars(word: str) -> frozenset[str]:
    """Return what a word may be in the singular, itself included.

    >>> sorted(singulars("churches")), sorted(singulars("quarries")), sorted(singulars("glass"))
    (['church', 'churche', 'churches'], ['quarrie', 'quarries', 'quarry'], ['glass'])
    """
    found = {word, IRREGULAR.get(word, word)}
    if word.endswith("men"):
        found.add(f"{word[:-3]}man")
    if word.endswith("s") and not word.endswith("ss") and len(word) > 2:
        found.add(word[:-1])
        if word.endswith("ies"):
            found.add(f"{word[:-3]}y")
        if word.endswith("ves"):
            found |= {f"{word[:-3]}f", f"{word[:-3]}fe"}
        if word.endswith(("ses", "xes", "zes", "ches", "shes", "oes")):
            found.add(word[:-2])
    return frozenset(found)


@cache
def readings(text: str) -> tuple[Words, ...]:
    """Split a phrase into words without articles; a hyphen may part two words or join them."""
    texts = dict.fromkeys((text.casefold().replace("-", " "), text.casefold().replace("-", "")))
    return tuple(tuple(singulars(word) for word in WORD.findall(one) if word not in ARTICLES) for one in texts)


def _alike(one: Words, other: Words) -> bool:
    return all(a & b for a, b in zip(one, other, strict=True))


@cache
def is_same(one: str, other: str) -> bool:
    """Say whether two phrases are the same but for case, number, articles and hyphens.

    >>> is_same("The Tower-Blocks", "tower block"), is_same("tower", "tower block"), is_same("", "the")
    (True, False, False)
    """
    return any(len(a) == len(b) > 0 and _alike(a, b) for a, b in itertools.product(readings(one), readings(other)))


@cache
def holds(text: str, name: str) -> bool:
    """Say whether a text has a name in it, word after word.

    >>> holds("all tin-roofed Schools near it", "a school"), holds("all schoolhouses", "lake")
    (True, False)
    """
    return any(
        0 < len(b) <= len(a) and any(_alike(a[start : start + len(b)], b) for start in range(len(a) - len(b) + 1))
        for a, b in itertools.product(readings(text), readings(name))
    )


def _is_kind(one: str, other: str) -> bool:
    """Say whether a phrase is a kind of another by grammar: it ends with it.

    >>> _is_kind("old fishing boats", "boat"), _is_kind("boat", "boat")
    (True, False)
    """
    return any(len(a) > len(b) > 0 and _alike(a[len(a) - len(b) :], b) for a, b in itertools.product(readings(one), readings(other)))


class Lexicon:
    """What the categories of a taxonomy are called."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        """Learn the names of every category."""
        self._taxonomy = taxonomy
        self._relations: dict[tuple[str, str], str | None] = {}

    @cached_property
    def _axes(self) -> list[str]:
        return list(self._taxonomy.axes)

    def names(self, category: Category) -> list[str]:
        """Return the names of one category: noun, plural, id, synonyms, and vocabulary that is not listed as broader, narrower or part."""
        if not category.noun:
            return []
        others = (*category.broader, *category.narrower, *category.parts)
        printed = [phrase for phrase in category.vocabulary if not any(is_same(phrase, other) for other in others)]
        given = (category.noun, category.plural or category.noun, category.category_id.replace("_", " "), *category.synonyms, *printed)
        return list(dict.fromkeys(given))

    def names_of_all(self, ids: tuple[str, ...]) -> list[str]:
        """Return the names of what is of several categories: those of the first axis, then the phrases of the others in their order."""
        known = sorted((self._taxonomy.categories[name] for name in ids), key=lambda one: self._axes.index(one.axis))
        phrases = [one.phrase or "" for one in known[1:]]
        return [" ".join([name, *phrases]).strip() for name in self.names(known[0])] if known else []

    def named(self, text: str) -> list[Category]:
        """Return the categories that a phrase is a name of."""
        return [one for one in self._taxonomy.categories.values() if any(is_same(text, name) for name in self.names(one))]

    def relation(self, text: str, category_id: str) -> str | None:
        """Return what makes a phrase no name of something absent where a category is present; None when nothing does."""
        key = text, category_id
        if key not in self._relations:
            self._relations[key] = self._relate(text, self._taxonomy.categories[category_id])
        return self._relations[key]

    def _relate(self, text: str, category: Category) -> str | None:
        names = self.names(category)
        if any(is_same(text, name) for name in names):
            return "a name"
        for what, words in (("a broader word", category.broader), ("a kind", category.narrower), ("a part", category.parts)):
            if any(is_same(text, word) for word in words):
                return what
        meant = self.named(text)
        for other in meant:
            for what, words in (("a kind", other.broader), ("a broader word", other.narrower), ("a whole", other.parts)):
                if any(is_same(word, name) for word in words for name in names):
                    return what
        if not meant and not any(is_same(text, word) for word in category.look_alikes):
            if any(_is_kind(text, name) for name in names):
                return "a kind"
            if any(_is_kind(name, text) for name in names):
                return "a broader word"
        return None
