"""Sentences read back by the auditor's own small parser: each must mean exactly the program that it stands for.

Grammar version 2 (docs/grammar.md): any wording of a table may stand where another of its row may. P is a plural and n a singular
noun phrase: a noun of the first axis, then one phrase at most of each further axis, in their order. Not here: whether a sentence is natural
English; nobody can certify that by machine.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from trigpoint.audit.findings import Notebook
from trigpoint.audit.programs import Node, ProgramError, both, cat, parse_json
from trigpoint.audit.reading import Release, Taxonomy

SENTENCES_EACH = 3
"""A query has at least this many (docs/release-format.md)."""

Words = tuple[str, ...]
"""Words of a sentence, lower case."""

Readings = Iterator[tuple[Node, int]]
"""Every way to read something from a place in the text: the meaning and where it ends."""

Choice = dict[Words, None]
"""Wordings that may stand for each other."""

WHICH = ("that", "which")
WINDS = ("north", "east", "south", "west", "northeast", "southeast", "southwest", "northwest")
SUPERLATIVES: dict[tuple[str, str], tuple[Words, Words]] = {
    ("area", "most"): (("largest", "biggest"), ("has the largest area",)),
    ("length", "most"): (("longest",), ("has the greatest length",)),
    ("north", "most"): (("northernmost", "most northerly"), ("lies farthest north",)),
    ("north", "least"): (("southernmost", "most southerly"), ("lies farthest south",)),
    ("east", "most"): (("easternmost", "most easterly"), ("lies farthest east",)),
    ("east", "least"): (("westernmost", "most westerly"), ("lies farthest west",)),
}
"""Key and extreme → words before the noun, and words after "that"."""

RELATIONS: dict[str, Words] = {
    **{f"{wind}_of": (f"{wind} of", f"to the {wind} of") for wind in WINDS},
    "near": ("near", "close to", "in the vicinity of"),
    "far": ("far from", "far away from", "a long way from"),
    "inside": ("inside", "within", "in"),
    "outside": ("outside", "outside of"),
    "overlaps": ("partly inside", "partly within", "partly in"),
    "touches": ("in contact with",),
}
WITHIN = (("within", "of"), ("no", "more", "than", "from"), ("at", "most", "from"))
"""Wordings of `within_<d>m`: before the number, and the last word after the unit."""

NUMBER = re.compile(r"\d+(?:\.\d+)?")
CLOSEST: Words = ("closest to", "nearest to")
FARTHEST: Words = ("farthest from", "farthest away from", "most distant from")


def words_of(text: str) -> Words:
    """Split a sentence into words: case, runs of spaces, commas and a full stop at the end do not count.

    >>> words_of("Out of all  trees, the one closest to the School.")
    ('out', 'of', 'all', 'trees', 'the', 'one', 'closest', 'to', 'the', 'school')
    """
    return tuple(text.strip().removesuffix(".").replace(",", " ").casefold().split())


def _choices(*wordings: str) -> Choice:
    return dict.fromkeys(tuple(wording.split()) for wording in wordings)


def _after_which(*wordings: str) -> list[str]:
    return [f"{which} {wording}" for which, wording in itertools.product(WHICH, wordings)]


def _with_or_without(wordings: Words) -> Choice:
    return _choices(*wordings, *_after_which(*(f"is {wording}" for wording in wordings)))


LOCATED: Words = ("located", "situated", "found")
ALL, EVERY = _choices("all", "all of the"), _choices("every")
THESE = _choices("all", "all of the", "the", "any")
MANY_RELATED = _choices(*_after_which("are", "lie"), *LOCATED, "")
ONE_RELATED = _choices(*_after_which("is", "lies"), *LOCATED, "")
AND_RELATED = _choices("and are", "and lie", "and also")
THE = _choices("the")
OF_ALL = _choices("of all")
ONE_OF_ALL = _choices("the one")
OUT_OF_ALL = _choices("out of all")
BY_DISTANCE = {"nearest": _with_or_without(CLOSEST), "farthest": _with_or_without(FARTHEST)}
BEFORE_NOUN = {meaning: _choices(*before) for meaning, (before, _) in SUPERLATIVES.items()}
AFTER_NOUN = {meaning: _choices(*_after_which(*after)) for meaning, (_, after) in SUPERLATIVES.items()}
RELATED = {name: _choices(*wordings) for name, wordings in RELATIONS.items()}
ON_SCREEN = RELATED | {
    "north_of": RELATED["north_of"] | _choices("above"),
    "south_of": RELATED["south_of"] | _choices("below"),
    "west_of": RELATED["west_of"] | _choices("left of", "to the left of"),
    "east_of": RELATED["east_of"] | _choices("right of", "to the right of"),
}
"""Wordings of relations in scenes that are north-up."""

METRES = _choices("metres", "meters")


class SentenceParser:
    """Reads sentences over one taxonomy; returns every meaning, so that ambiguity shows."""

    def __init__(self, taxonomy: Taxonomy, *, north_up: bool = False) -> None:
        """Learn the nouns of a taxonomy; `north_up`: the words of the screen are read as directions."""
        self._relations = ON_SCREEN if north_up else RELATED
        axes = list(taxonomy.axes)
        self._singular: dict[Words, list[str]] = defaultdict(list)
        self._plural: dict[Words, list[str]] = defaultdict(list)
        self._phrases: list[dict[Words, list[str]]] = [defaultdict(list) for _ in axes[1:]]
        for category in taxonomy.categories.values():
            if axes and category.axis == axes[0]:
                for forms, noun in ((self._singular, category.noun), (self._plural, category.plural)):
                    if noun:
                        forms[words_of(noun)].append(category.category_id)
            elif category.phrase and category.axis in axes:
                self._phrases[axes.index(category.axis) - 1][words_of(category.phrase)].append(category.category_id)

    def parse(self, sentence: str) -> list[Node]:
        """Return every distinct program that a sentence can mean; none when it is not in the grammar."""
        text = words_of(sentence)
        found = {node.meaning(): node for node, end in self._root(text) if end == len(text)}
        return [found[key] for key in sorted(found)]

    def parse_any(self, text: str) -> list[Node]:
        """Return every distinct program that a text can mean, read as a sentence or as a description of one thing."""
        words = words_of(text)
        found = {node.meaning(): node for node, end in (*self._root(words), *self._described(words, 0)) if end == len(words)}
        return [found[key] for key in sorted(found)]

    def _root(self, text: Words) -> Readings:
        yield from self._many(text, ALL, self._plural)
        yield from self._many(text, EVERY, self._singular)
        for members, at in self._many(text, THESE, self._plural):
            for first, after in self._related(text, at, MANY_RELATED, members):
                yield first, after
                for second, end in self._related(text, after, AND_RELATED, members):
                    yield both(first, second), end
        for node, end in self._described(text, 0):
            if node.op in ("nearest", "farthest") or (node.op == "attr" and node.children[0].categories()):
                yield node, end
        for at in _match(text, 0, THE):
            for meaning, wordings in BEFORE_NOUN.items():
                for after in _match(text, at, wordings):
                    for start in _match(text, after, OF_ALL):
                        for members, end in self._noun(text, start, self._plural):
                            yield Node("attr", meaning, (members,)), end
        for members, at in self._many(text, OUT_OF_ALL, self._plural):
            for start in _match(text, at, ONE_OF_ALL):
                yield from self._by_distance(text, start, members)

    def _many(self, text: Words, heads: Choice, forms: dict[Words, list[str]]) -> Readings:
        for at in _match(text, 0, heads):
            yield from self._noun(text, at, forms)

    def _related(self, text: Words, at: int, joints: Choice, members: Node) -> Readings:
        for start in _match(text, at, joints):
            yield from self._relation(text, start, members)

    def _relation(self, text: Words, at: int, members: Node) -> Readings:
        for name, wordings in self._relations.items():
            for start in _match(text, at, wordings):
                yield from self._to_anchor(text, start, members, lambda of, anchor, name=name: Node("rel", (name,), (of, anchor)))
        for name, start in _within(text, at):
            yield from self._to_anchor(text, start, members, lambda of, anchor, name=name: Node("rel", (name,), (of, anchor)))

    def _by_distance(self, text: Words, at: int, members: Node) -> Readings:
        for op, wordings in BY_DISTANCE.items():
            for start in _match(text, at, wordings):
                yield from self._to_anchor(text, start, members, lambda of, anchor, op=op: Node(op, (), (of, anchor)))

    def _to_anchor(self, text: Words, at: int, members: Node, make: Callable[[Node, Node], Node]) -> Readings:
        for anchor, end in self._described(text, at):
            yield make(members, anchor), end

    def _described(self, text: Words, at: int) -> Readings:
        """Read a description of one thing: a category, a superlative (of a relation, too), a relation, or the nearest or farthest."""
        for start in _match(text, at, THE):
            for meaning, wordings in BEFORE_NOUN.items():
                for after in _match(text, start, wordings):
                    for members, end in self._noun(text, after, self._singular):
                        yield Node("attr", meaning, (members,)), end
                        for related, last in self._related(text, end, ONE_RELATED, members):
                            yield Node("attr", meaning, (related,)), last
            for members, end in self._noun(text, start, self._singular):
                yield members, end
                for meaning, wordings in AFTER_NOUN.items():
                    for last in _match(text, end, wordings):
                        yield Node("attr", meaning, (members,)), last
                yield from self._by_distance(text, end, members)
                yield from self._related(text, end, ONE_RELATED, members)

    def _noun(self, text: Words, at: int, forms: dict[Words, list[str]]) -> Readings:
        for end in _match(text, at, forms):
            for name in forms[text[at:end]]:
                yield from self._qualified(text, end, cat(name), 0)

    def _qualified(self, text: Words, at: int, node: Node, first_axis: int) -> Readings:
        """Read at most one phrase of every further axis, in their order."""
        yield node, at
        for number in range(first_axis, len(self._phrases)):
            for end in _match(text, at, self._phrases[number]):
                for name in self._phrases[number][text[at:end]]:
                    yield from self._qualified(text, end, both(node, cat(name)), number + 1)


def _match(text: Words, at: int, choices: Iterable[Words]) -> Iterator[int]:
    """Yield the place after each wording that stands at `at`."""
    for words in choices:
        if text[at : at + len(words)] == words:
            yield at + len(words)


def _within(text: Words, at: int) -> Iterator[tuple[str, int]]:
    """Read "within 25 metres of" and its like: the relation's name, and the place after it."""
    for wording in WITHIN:
        before, after = wording[:-1], wording[-1:]
        number = at + len(before)
        if text[at:number] == before and number + 2 < len(text) and NUMBER.fullmatch(text[number]):
            for unit in _match(text, number + 1, METRES):
                for end in _match(text, unit, (after,)):
                    yield f"within_{text[number]}m", end


def check_sentences(release: Release, notes: Notebook) -> None:
    """Parse every sentence of every query back to its program; three at least, no two alike."""
    file = "queries.jsonl"
    parsers = {north_up: SentenceParser(release.taxonomy, north_up=north_up) for north_up in (False, True)}
    for query in release.queries.values():
        scene = release.scenes.get(query.scene_id)
        parser = parsers[scene is not None and scene.north_up is True]
        with notes.guard("sentence_unreadable", file, query.query_id):
            try:
                right = parse_json(query.program).meaning()
            except ProgramError:
                continue  # named by the checks of programs
            if len(query.sentences) < SENTENCES_EACH:
                notes.add("sentence_missing", file, query.query_id, f"at least {SENTENCES_EACH} sentences", len(query.sentences))
            if len({words_of(sentence) for sentence in query.sentences}) < len(query.sentences):
                notes.add("sentence_twice", file, query.query_id, "sentences that differ", list(query.sentences))
            for sentence in query.sentences:
                notes.count("sentences")
                meanings = [node.meaning() for node in parser.parse(sentence)]
                if not meanings:
                    notes.add("sentence_unparsed", file, query.query_id, f"a sentence that means {right}", sentence)
                elif len(meanings) > 1:
                    notes.add("sentence_ambiguous", file, query.query_id, f"one meaning, {right}", f"{sentence!r}: {' or '.join(meanings)}")
                elif meanings[0] != right:
                    notes.add("sentence_mismatch", file, query.query_id, right, f"{sentence!r} means {meanings[0]}")
