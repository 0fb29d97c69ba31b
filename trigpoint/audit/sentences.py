"""Sentences read back by the auditor's own small parser: each must mean exactly the program that it stands for.

The grammar (version 1; N plural and n singular noun phrase, D a description of one thing, R a relation phrase):

    all N | all N that are R D | all N that are R D and are R D
    D = the n | the largest|longest n | the northernmost|southernmost|easternmost|westernmost n
      | the n closest to D | the n farthest from D | the n that is R D

A noun phrase is a taxonomy noun, or a noun and one phrase of another axis ("building with a tin roof"). At the root a description
must be a superlative or closest/farthest. Not here: whether a sentence is natural English; nobody can certify that by machine.
"""

from collections import defaultdict
from collections.abc import Iterator

from trigpoint.audit.findings import Notebook
from trigpoint.audit.programs import Node, ProgramError, both, cat, parse_json
from trigpoint.audit.reading import Query, Release, Taxonomy

SUPERLATIVES = {
    "largest": ("area", "most"),
    "longest": ("length", "most"),
    "northernmost": ("north", "most"),
    "southernmost": ("north", "least"),
    "easternmost": ("east", "most"),
    "westernmost": ("east", "least"),
}
RELATION_PHRASES = {
    "north of": "north_of",
    "east of": "east_of",
    "south of": "south_of",
    "west of": "west_of",
    "near": "near",
    "far from": "far",
    "inside": "inside",
    "outside": "outside",
    "around": "contains",
    "partly inside": "overlaps",
}
Readings = Iterator[tuple[Node, int]]
"""Every way to read something from a place in the text: the meaning and where it ends."""


class SentenceParser:
    """Reads sentences over one taxonomy; returns every meaning, so that ambiguity shows."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._singular: dict[str, list[Node]] = defaultdict(list)
        self._plural: dict[str, list[Node]] = defaultdict(list)
        named = [c for c in taxonomy.categories.values() if c.noun]
        phrases = [c for c in taxonomy.categories.values() if c.phrase]
        for category in named:
            for forms, word in ((self._singular, category.noun), (self._plural, category.plural)):
                if word:
                    forms[word].append(cat(category.category_id))
                    for extra in phrases:
                        if extra.axis != category.axis:
                            forms[f"{word} {extra.phrase}"].append(both(cat(category.category_id), cat(extra.category_id)))

    def parse(self, sentence: str) -> list[Node]:
        """Return every distinct program that a sentence can mean; none when it is not in the grammar."""
        found: dict[str, Node] = {}
        for node, end in self._root(sentence):
            if end == len(sentence):
                found[node.canonical()] = node
        return [found[key] for key in sorted(found)]

    def _root(self, text: str) -> Readings:
        for at in _word(text, 0, "all"):
            for members, end in _noun(text, at, self._plural):
                yield members, end
                for start in _word(text, end, "that are"):
                    for first, after in self._relation(text, start, members):
                        yield first, after
                        for again in _word(text, after, "and are"):
                            for second, last in self._relation(text, again, members):
                                yield both(first, second), last
        for node, end in self._described(text, 0):
            if node.op in ("attr", "nearest", "farthest"):
                yield node, end

    def _relation(self, text: str, at: int, members: Node) -> Readings:
        for phrase, name in RELATION_PHRASES.items():
            for start in _word(text, at, phrase):
                for anchor, end in self._described(text, start):
                    yield Node("rel", (name,), (members, anchor)), end

    def _described(self, text: str, at: int) -> Readings:
        for start in _word(text, at, "the"):
            for word, (key, extreme) in SUPERLATIVES.items():
                for after in _word(text, start, word):
                    for members, end in _noun(text, after, self._singular):
                        yield Node("attr", (key, extreme), (members,)), end
            for members, end in _noun(text, start, self._singular):
                yield members, end
                for phrase, op in (("closest to", "nearest"), ("farthest from", "farthest")):
                    for after in _word(text, end, phrase):
                        for anchor, last in self._described(text, after):
                            yield Node(op, (), (members, anchor)), last
                for after in _word(text, end, "that is"):
                    yield from self._relation(text, after, members)


def _word(text: str, at: int, words: str) -> Iterator[int]:
    """Yield the place after `words` if they stand at `at` as whole words."""
    if at and at < len(text) and text[at] == " ":
        at += 1
    elif at:
        return
    end = at + len(words)
    if text.startswith(words, at) and (end == len(text) or text[end] == " "):
        yield end


def _noun(text: str, at: int, forms: dict[str, list[Node]]) -> Readings:
    for phrase, nodes in forms.items():
        for end in _word(text, at, phrase):
            for node in nodes:
                yield node, end


def check_sentences(release: Release, queries: list[Query], parser: SentenceParser, notes: Notebook) -> None:
    """Parse every sentence of every query back to its program."""
    file = "queries.jsonl"
    for query in queries:
        with notes.guard("sentence_unreadable", file, query.query_id):
            try:
                right = parse_json(query.program).canonical()
            except ProgramError:
                continue  # named by the checks of programs
            if not query.sentences:
                notes.add("sentence_missing", file, query.query_id, "at least one sentence", "none")
            for sentence in query.sentences:
                notes.count("sentences")
                meanings = [node.canonical() for node in parser.parse(sentence)]
                if not meanings:
                    notes.add("sentence_unparsed", file, query.query_id, f"a sentence that means {right}", sentence)
                elif len(meanings) > 1:
                    notes.add("sentence_ambiguous", file, query.query_id, f"one meaning, {right}", f"{sentence!r}: {' or '.join(meanings)}")
                elif meanings[0] != right:
                    notes.add("sentence_mismatch", file, query.query_id, right, f"{sentence!r} means {meanings[0]}")
