"""Sentences back to programs: the whole grammar of docs/grammar.md, every reading, so that ambiguity shows.

Used on what the grammar writes and on paraphrases from anywhere else; these count only when they have exactly one reading.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeVar

from trigpoint.categories import Taxonomy
from trigpoint.errors import ProgramError
from trigpoint.language.grammar import (
    FARTHEST,
    FRAMES_ALL,
    FRAMES_ONE,
    JOINS,
    NEAREST,
    OPENERS,
    RELATIONS,
    SCREEN_WORDS,
    SUPERLATIVES,
    WITHIN,
)
from trigpoint.programs.language import Attr, Farthest, Nearest, Node, Rel, category_node, conjunction

_SAME = {"which": "that", "situated": "located", "found": "located", "meters": "metres"}
"""Words that are read as another."""

_NUMBER = "{d}"

T = TypeVar("T")
Words = tuple[str, ...]
Reading = tuple[Node, int]
"""A meaning, and the position of the word after it."""


def normal_word(word: str) -> str:
    """Return a word as the grammar reads it.

    >>> normal_word("Which"), normal_word("meters")
    ('that', 'metres')
    """
    plain = word.casefold()
    return _SAME.get(plain, plain)


def words_of(text: str) -> Words:
    """Split a sentence into the words that count.

    >>> words_of("All ponds,  which are near the road.")
    ('all', 'ponds', 'that', 'are', 'near', 'the', 'road')
    """
    return tuple(normal_word(word) for word in text.replace(",", " ").strip().removesuffix(".").split())


class SentenceParser:
    """Reads sentences about the categories of one taxonomy.

    Args:
        taxonomy: Its nouns.
        is_north_up: Whether the scene's image is north-up within 5°: only then are left, right, above and below directions.
    """

    def __init__(self, taxonomy: Taxonomy, is_north_up: bool = False) -> None:
        self._singular, self._plural = _nouns(taxonomy)
        self._relations = {words_of(wording): name for name, wordings in RELATIONS.items() for wording in wordings}
        if is_north_up:
            self._relations |= {words_of(wording): name for wording, name in SCREEN_WORDS.items()}
        self._within = [words_of(wording) for wording in WITHIN]
        self._before = {words_of(w[k]): key for key, w in SUPERLATIVES.items() for k in (0, 2)}
        self._after = {words_of(w[1]): key for key, w in SUPERLATIVES.items()}
        self._nearest = {words_of(wording) for wording in NEAREST}
        self._farthest = {words_of(wording) for wording in (*FARTHEST, "farthest away from")}

    def readings(self, text: str) -> list[Node]:
        """Return every distinct program that a sentence can mean, by canonical form; empty when it is not in the grammar."""
        words = words_of(text)
        found = {node.canonical(): node for node, end in self._sentence(words) if end == len(words)}
        return [found[key] for key in sorted(found)]

    def descriptions(self, text: str) -> list[Node]:
        """Return every distinct program that the description of one thing ("the pond north of the road") can mean, by canonical form."""
        words = words_of(text)
        found = {node.canonical(): node for node, end in self.described(words, 0) if end == len(words)}
        return [found[key] for key in sorted(found)]

    def named(self, words: Words, at: int) -> list[Reading]:
        """Return the nouns that stand at a position, singular or plural, the longest first."""
        found = [*_named(words, at, self._singular), *_named(words, at, self._plural)]
        return sorted(found, key=lambda reading: (-reading[1], reading[0].canonical()))

    def parse(self, text: str) -> Node:
        """Return the one program that a sentence means.

        Raises:
            ProgramError: it has no reading, or several.
        """
        found = self.readings(text)
        if len(found) != 1:
            several = " or ".join(node.canonical() for node in found)
            raise ProgramError(f"{text!r} can mean {several}" if found else f"{text!r} is not a sentence of the grammar")
        return found[0]

    def _sentence(self, words: Words) -> Iterator[Reading]:
        yield from self._all_of_a_category(words)
        yield from self._related(words)
        for start in _after(words, 0, "out of all"):
            for of, end in _named(words, start, self._plural):
                for middle in _after(words, end, "the one"):
                    yield from self._by_distance(words, middle, of)
        for start in _after(words, 0, "the"):
            for superlative, end in _one_of(words, start, self._before):
                for middle in _after(words, end, "of all"):
                    for of, last in _named(words, middle, self._plural):
                        yield Attr(of, *superlative), last
        yield from ((node, end) for node, end in self.described(words, 0) if isinstance(node, Attr | Nearest | Farthest))

    def _all_of_a_category(self, words: Words) -> Iterator[Reading]:
        for opener, nouns in (("all", self._plural), ("all of the", self._plural), ("every", self._singular)):
            for start in _after(words, 0, opener):
                yield from _named(words, start, nouns)

    def _related(self, words: Words) -> Iterator[Reading]:
        """A plural in one relation, or in two."""
        for opener in OPENERS:
            for start in _after(words, 0, opener):
                for of, end in _named(words, start, self._plural):
                    for first, middle in self._clauses(words, end, of, (*FRAMES_ALL, "")):
                        yield first, middle
                        for second, last in self._clauses(words, middle, of, JOINS):
                            yield conjunction((first, second)), last

    def _clauses(self, words: Words, at: int, of: Node, frames: tuple[str, ...]) -> Iterator[Reading]:
        for frame in frames:
            for start in _after(words, at, frame):
                for relation, end in itertools.chain(_one_of(words, start, self._relations), self._within_some_metres(words, start)):
                    for anchor, last in self.described(words, end):
                        yield Rel(of, relation, anchor), last

    def _within_some_metres(self, words: Words, at: int) -> Iterator[tuple[str, int]]:
        for pattern in self._within:
            found = words[at : at + len(pattern)]
            number = found[pattern.index(_NUMBER)] if len(found) == len(pattern) else ""
            is_whole = number.isascii() and number.isdigit() and not number.startswith("0")
            if is_whole and all(p in (w, _NUMBER) for p, w in zip(pattern, found, strict=True)):
                yield f"within_{number}m", at + len(pattern)

    def _by_distance(self, words: Words, at: int, of: Node) -> Iterator[Reading]:
        for kind, wordings in ((Nearest, self._nearest), (Farthest, self._farthest)):
            for wording in wordings:
                if words[at : at + len(wording)] == wording:
                    for anchor, end in self.described(words, at + len(wording)):
                        yield kind(of, anchor), end

    def described(self, words: Words, at: int) -> Iterator[Reading]:
        """Yield every way to read the description of one thing that begins at a position: its program, and the position after it."""
        for start in _after(words, at, "the"):
            for superlative, end in _one_of(words, start, self._before):
                for of, last in _named(words, end, self._singular):
                    yield Attr(of, *superlative), last
                    yield from ((Attr(related, *superlative), stop) for related, stop in self._clauses(words, last, of, (*FRAMES_ONE, "")))
            for of, end in _named(words, start, self._singular):
                yield of, end
                for that in _after(words, end, "that"):
                    for superlative, last in _one_of(words, that, self._after):
                        yield Attr(of, *superlative), last
                yield from self._by_distance(words, end, of)
                for that_is in _after(words, end, "that is"):
                    yield from self._by_distance(words, that_is, of)
                yield from self._clauses(words, end, of, (*FRAMES_ONE, ""))


def accept_paraphrase(text: str, program: Node, parser: SentenceParser) -> str | None:
    """Say why a sentence is no paraphrase of a program, or None when it is one: the grammar reads it as that program alone."""
    try:
        found = parser.parse(text)
    except ProgramError as error:
        return str(error)
    if found.canonical() != program.canonical():
        return f"{text!r} means {found.canonical()}, expected {program.canonical()}"
    return None


def _nouns(taxonomy: Taxonomy) -> tuple[dict[Words, list[Node]], dict[Words, list[Node]]]:
    """Singular and plural noun phrases: a first-axis noun, then at most one phrase of each further axis."""
    first = taxonomy.axes[0].id
    further = [[None, *(c.id for c in taxonomy.categories if c.axis == axis.id)] for axis in taxonomy.axes[1:]]
    singular: dict[Words, list[Node]] = defaultdict(list)
    plural: dict[Words, list[Node]] = defaultdict(list)
    for head in (c for c in taxonomy.categories if c.axis == first):
        for chosen in itertools.product(*further):
            ids = (head.id, *(name for name in chosen if name is not None))
            node = category_node(ids)
            singular[words_of(taxonomy.singular_noun(ids))].append(node)
            plural[words_of(taxonomy.plural_noun(ids))].append(node)
    return dict(singular), dict(plural)


def _after(words: Words, at: int, phrase: str) -> Iterator[int]:
    """Yield the position after `phrase` if it stands at `at`."""
    expected = tuple(phrase.split())
    if words[at : at + len(expected)] == expected:
        yield at + len(expected)


def _one_of(words: Words, at: int, known: dict[Words, T]) -> Iterator[tuple[T, int]]:
    for wording, meaning in known.items():
        if words[at : at + len(wording)] == wording:
            yield meaning, at + len(wording)


def _named(words: Words, at: int, nouns: dict[Words, list[Node]]) -> Iterator[Reading]:
    for meanings, end in _one_of(words, at, nouns):
        for node in meanings:
            yield node, end
