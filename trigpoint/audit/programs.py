"""Query programs read and executed by the auditor: JSON and s-expressions, three-valued, on verified edges and own measures.

A relation takes its verdicts from the stored edges (`relations.py` has measured them again); superlatives and nearest/farthest
are computed from the auditor's own measures and counted as decided when they are so within a band of 2 pixels. Not here: what makes a
program fit for release (`queries.py`).
"""

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trigpoint.audit.boxes import BAND_PX
from trigpoint.audit.reading import Release, Taxonomy
from trigpoint.audit.relations import FALSE, TRUE, UNDECIDED, Measures, is_distance

KEYS = ("area", "length", "north", "east")
EXTREMES = ("most", "least")
MAX_DEPTH = 12
"""Deeper nesting than any level needs is refused, so that a hostile file cannot exhaust the stack."""

Verdicts = NDArray[np.int8]
"""One verdict code per instance of the scene."""


class ProgramError(Exception):
    """A program is malformed, names an unknown category or relation, or an anchor in it does not denote exactly one instance."""


@dataclass(frozen=True)
class Node:
    """One node of a program.

    Attributes:
        op: `cat`, `and`, `attr`, `rel`, `nearest` or `farthest`.
        words: The category; or key and extreme; or the relation; else nothing.
        children: (S,), (S, anchor), or the sorted arguments of `and`.
    """

    op: str
    words: tuple[str, ...]
    children: tuple["Node", ...]

    def canonical(self) -> str:
        """Write the node as a canonical s-expression."""
        return self.written([child.canonical() for child in self.children])

    def written(self, inner: list[str]) -> str:
        """Write the node around its children, which are written already."""
        match self.op:
            case "cat":
                return f"(cat {self.words[0]})"
            case "and":
                return f"(and {' '.join(sorted(inner))})"
            case "attr":
                return f"(attr {inner[0]} {' '.join(self.words)})"
            case "rel":
                return f"(rel {inner[0]} {self.words[0]} {inner[1]})"
            case _:
                return f"({self.op} {inner[0]} {inner[1]})"

    def meaning(self) -> str:
        """Write the node so that an `and` of more than two categories reads the same however it is nested.

        >>> parse_canonical("(and (and (cat a) (cat c)) (cat b))").meaning()
        '(and (cat a) (cat b) (cat c))'
        """
        names = self.categories()
        if len(names) > 2:
            return f"(and {' '.join(sorted(f'(cat {name})' for name in names))})"
        return self.written([child.meaning() for child in self.children])

    def categories(self) -> list[str]:
        """Return the category names of a `cat` or an `and` of them (nested, where there are more than two axes); else nothing."""
        if self.op == "cat":
            return [self.words[0]]
        parts = [child.categories() for child in self.children] if self.op == "and" else []
        return [name for part in parts for name in part] if all(parts) else []

    def has_relation(self) -> bool:
        """Say whether a relation, nearest or farthest stands anywhere in this node."""
        return self.op in ("rel", "nearest", "farthest") or any(child.has_relation() for child in self.children)


def cat(category: str) -> Node:
    """Make a category node."""
    return Node("cat", (category,), ())


def both(one: Node, other: Node) -> Node:
    """Make an `and` of two nodes, its arguments sorted as the canonical form has them."""
    first, second = sorted((one, other), key=lambda node: node.canonical())
    return Node("and", (), (first, second))


def parse_json(tree: Any, depth: int = 0) -> Node:
    """Read the JSON form of a program.

    Raises:
        ProgramError: it is no program of schema version 1.
    """
    if depth > MAX_DEPTH or not isinstance(tree, dict):
        raise ProgramError(f"a node must be an object at most {MAX_DEPTH} deep, found {type(tree).__name__} at depth {depth}")
    fields = cast("dict[str, Any]", tree)
    keys = {
        "cat": {"op", "category"}, "and": {"op", "args"}, "attr": {"op", "of", "key", "extreme"}, "rel": {"op", "of", "relation", "anchor"},
        "nearest": {"op", "of", "anchor"}, "farthest": {"op", "of", "anchor"},
    }  # fmt: skip
    op = fields.get("op")
    if op not in keys or set(fields) != keys[op]:
        raise ProgramError(f"a node {op!r} has the keys {sorted(keys.get(str(op), {'op'}))}, found {sorted(fields)}")
    match op:
        case "cat":
            return cat(str(fields["category"]))
        case "and":
            if not isinstance(fields["args"], list) or len(cast("list[Any]", fields["args"])) != 2:
                raise ProgramError("and takes two arguments")
            return both(*(parse_json(argument, depth + 1) for argument in cast("list[Any]", fields["args"])))
        case "attr":
            if fields["key"] not in KEYS or fields["extreme"] not in EXTREMES[: 1 if fields["key"] in ("area", "length") else 2]:
                raise ProgramError(f"unknown superlative {fields['key']!r} {fields['extreme']!r}")
            return Node("attr", (fields["key"], fields["extreme"]), (parse_json(fields["of"], depth + 1),))
        case "rel":
            return Node("rel", (str(fields["relation"]),), (parse_json(fields["of"], depth + 1), parse_json(fields["anchor"], depth + 1)))
        case _:
            return Node(str(op), (), (parse_json(fields["of"], depth + 1), parse_json(fields["anchor"], depth + 1)))


def parse_canonical(text: str) -> Node:
    """Read a canonical s-expression.

    Raises:
        ProgramError: it is none.

    >>> parse_canonical("(rel (cat tree) near (attr (cat pond) area most))").canonical()
    '(rel (cat tree) near (attr (cat pond) area most))'
    """
    tokens = text.replace("(", " ( ").replace(")", " ) ").split()
    node, rest = _read(tokens, 0, 0)
    if rest != len(tokens):
        raise ProgramError(f"more after the end of {text!r}")
    return node


def _read(tokens: list[str], at: int, depth: int) -> tuple[Node, int]:
    if depth > MAX_DEPTH or at + 1 >= len(tokens) or tokens[at] != "(":
        raise ProgramError(f"expected '(' at token {at}")
    op, at = tokens[at + 1], at + 2
    words: list[str] = []
    children: list[Node] = []
    while at < len(tokens) and tokens[at] != ")":
        if tokens[at] == "(":
            child, at = _read(tokens, at, depth + 1)
            children.append(child)
        else:
            words.append(tokens[at])
            at += 1
    shape = {"cat": (1, 0), "and": (0, 2), "attr": (2, 1), "rel": (1, 2), "nearest": (0, 2), "farthest": (0, 2)}.get(op)
    if shape != (len(words), len(children)) or at >= len(tokens):
        raise ProgramError(f"malformed ({op} ...)")
    return Node(op, tuple(words), tuple(children)), at + 1


@dataclass(frozen=True)
class World:
    """One scene to execute programs in.

    Attributes:
        measures: The auditor's own measures.
        codes: Relation → (n, n) stored verdicts [subject, anchor].
        taxonomy: Category trees.
        unknown_is_other: Axes on which a missing value, or one too general to tell, is FALSE and not UNDECIDED.
        release: For the rules.
        known: Canonical form → verdicts already found: programs of a scene share most of their parts.
        careful: Count superlatives and distances as undecided within the margin and the band, not less it: for answers that must
            surely be the same, where the builder's own measure may call them undecided.
    """

    measures: Measures
    codes: dict[str, NDArray[np.int8]]
    taxonomy: Taxonomy
    unknown_is_other: frozenset[str]
    release: Release
    known: dict[str, Verdicts] = field(default_factory=dict[str, Verdicts])
    careful: bool = False

    @cached_property
    def with_care(self) -> "World":
        """The same scene with `careful` set."""
        return World(self.measures, self.codes, self.taxonomy, self.unknown_is_other, self.release, careful=True)

    def members(self, category: str) -> Verdicts:
        """Return which instances are of a category or of one below it, by the tree of its axis.

        Raises:
            ProgramError: the taxonomy has no such category.
        """
        known = self.taxonomy.categories.get(category)
        if known is None:
            raise ProgramError(f"category {category!r} is not in the taxonomy")
        above = set(self.taxonomy.lineage(category)[1:])
        limit = self.taxonomy.axes.get(known.axis)
        under = self.members(limit) if limit is not None else None
        result = np.zeros(len(self.measures.instances), dtype=np.int8)
        for row, instance in enumerate(self.measures.instances):
            value = next(
                (v for v in instance.category if v in self.taxonomy.categories and self.taxonomy.categories[v].axis == known.axis), None
            )
            if under is not None and under[row] == FALSE:
                result[row] = FALSE
            elif value is not None and category in self.taxonomy.lineage(value):
                result[row] = TRUE
            elif value is None or value in above:
                result[row] = FALSE if known.axis in self.unknown_is_other else UNDECIDED
        return result

    def execute(self, node: Node) -> Verdicts:
        """Execute a program: one verdict per instance.

        Raises:
            ProgramError: an anchor denotes none or several, or a name is unknown.
        """
        key = node.canonical()
        if key not in self.known:
            self.known[key] = self._execute(node)
        return self.known[key]

    def _execute(self, node: Node) -> Verdicts:
        match node.op:
            case "cat":
                return self.members(node.words[0])
            case "and":
                return np.minimum(self.execute(node.children[0]), self.execute(node.children[1]))
            case "attr":
                return self._superlative(self.execute(node.children[0]), *node.words)
            case "rel":
                if node.words[0] not in self.codes:
                    raise ProgramError(f"relation {node.words[0]!r} is not in rules.relations")
                anchor = self.denote(node.children[1])
                return np.minimum(self.execute(node.children[0]), self.edges_to(node.words[0], anchor))
            case _:
                return self._by_distance(self.execute(node.children[0]), self.denote(node.children[1]), farthest=node.op == "farthest")

    def denote(self, node: Node) -> int:
        """Return the row of the one instance that an anchor expression denotes.

        Raises:
            ProgramError: it denotes none or several, or something in it is undecided.
        """
        verdicts = self.execute(node)
        sure, unsure = np.flatnonzero(verdicts == TRUE), int((verdicts == UNDECIDED).sum())
        if len(sure) != 1 or unsure:
            raise ProgramError(f"anchor {node.canonical()} denotes {len(sure)} instances and {unsure} undecided")
        return int(sure[0])

    def edges_to(self, name: str, anchor: int) -> Verdicts:
        """Return the verdicts of a relation of all instances to an anchor."""
        return self.codes[name][:, anchor]

    def distances_to(self, anchor: int) -> NDArray[np.float64]:
        """Return the metres between the outlines of all instances and the anchor's."""
        return self.measures.distances[:, anchor]

    def value_of(self, key: str) -> NDArray[np.float64]:
        """Return what a superlative compares: areas (m²), lengths or positions (m) of all instances."""
        if key in ("area", "length"):
            return self.measures.areas_m2 if key == "area" else self.measures.lengths
        return self.position(key)

    def position(self, key: str) -> NDArray[np.float64]:
        """Return the centroids' distance along true north or true east at the scene's centre, metres."""
        angle = np.radians(self.measures.frame.convergence_deg)
        x, y = self.measures.centroids.T
        return y * np.cos(angle) - x * np.sin(angle) if key == "north" else x * np.cos(angle) + y * np.sin(angle)

    def margin_of(self, key: str, winner: int, value: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return, per instance, how close to the winner is too close, and the band of the auditor's own measure.

        Source: docs/release-format.md, "Three-valued execution".
        """
        m, rule = self.measures, self.release.rule
        gsd, two_tau = m.limits.gsd_m, m.limits.two_tau_m
        band = BAND_PX * gsd
        share = rule("area_margin_share", 0.05)
        if key == "area":
            margin = np.maximum(share * value[winner], two_tau / 2 * (m.perimeters[winner] + m.perimeters))
            return margin, 0.02 * float(margin[winner])  # areas are pixel counts: only perimeters can differ
        if key == "length":
            return np.full(len(value), max(share * value[winner], two_tau)), band
        if key in ("north", "east"):
            return np.full(len(value), rule("position_margin_px", 5.0) * gsd), band
        percent = rule("nearest_margin_share", 0.10) if key == "nearest" else rule("farthest_margin_share", 0.03)
        return np.full(len(value), max(percent * value[winner], two_tau)), band

    def too_close(self, key: str, winner: int, value: NDArray[np.float64], behind: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say who is so little behind the winner that it is undecided."""
        margin, band = self.margin_of(key, winner, value)
        return behind < (margin + band if self.careful else margin - band)

    def _superlative(self, members: Verdicts, key: str, extreme: str) -> Verdicts:
        return self._winner(members, key, self.value_of(key), 1.0 if extreme == "most" else -1.0)

    def _by_distance(self, members: Verdicts, anchor: int, *, farthest: bool) -> Verdicts:
        candidates = members.copy()
        candidates[anchor] = FALSE
        return self._winner(candidates, "farthest" if farthest else "nearest", self.distances_to(anchor), 1.0 if farthest else -1.0)

    def _winner(self, members: Verdicts, key: str, value: NDArray[np.float64], sign: float) -> Verdicts:
        """Find the one best member: cut and undecided members cannot win, but any of them too close makes it undecided."""
        result = np.zeros(len(members), dtype=np.int8)
        sure = np.flatnonzero((members == TRUE) & ~self.measures.cut)
        if not len(sure):
            result[members > FALSE] = UNDECIDED
            return result
        winner = int(sure[np.argmax(sign * value[sure])])
        rivals = (members > FALSE) & self.too_close(key, winner, value, sign * (value[winner] - value))
        rivals[winner] = False
        if rivals.any():
            result[rivals] = UNDECIDED
            result[winner] = UNDECIDED
        else:
            result[winner] = TRUE
        return result


def level_of(node: Node) -> int | None:
    """Return the level that the structure of a program has, or None when no level has that structure.

    Source: semantics, section 5: L1 a category, L2 one superlative of it, L3 one relation, L4 `and` of two relations with different
        names (not both distance relations) on one category, L5 a relation whose anchor is found through a relation.
    """
    if node.categories():
        return 1
    if node.op == "attr" and node.children[0].categories():
        return 2
    if node.op in ("rel", "nearest", "farthest") and node.children[0].categories() and _is_anchor(node.children[1]):
        return 5 if node.children[1].has_relation() else 3
    if node.op == "and" and all(child.op == "rel" and child.children[0].categories() for child in node.children):
        one, other = node.children
        same = one.children[0].canonical() == other.children[0].canonical()
        plain = not any(child.children[1].has_relation() or not _is_anchor(child.children[1]) for child in node.children)
        names = {one.words[0], other.words[0]}
        if same and plain and len(names) == 2 and not all(is_distance(name) for name in names):
            return 4
    return None


def _is_anchor(node: Node) -> bool:
    """Say whether a node is a category, a superlative of one or of what a relation selects, or a relation of one to an anchor."""
    if node.categories():
        return True
    if node.op == "attr":
        child = node.children[0]
        return bool(child.categories()) or (child.op == "rel" and _is_anchor(child))
    return node.op in ("rel", "nearest", "farthest") and bool(node.children[0].categories()) and _is_anchor(node.children[1])


def anchors_of(node: Node) -> list[tuple[str, Node]]:
    """Return (relation, anchor) of every relation in a program, anchors of anchors too."""
    found: list[tuple[str, Node]] = []
    if node.op in ("rel", "nearest", "farthest"):
        found.append((node.words[0] if node.op == "rel" else node.op, node.children[1]))
    for child in node.children:
        found += anchors_of(child)
    return found


def selected_categories(node: Node) -> list[str]:
    """Return the categories of the set that a program selects from: those of its S, all the way down."""
    while not node.categories():
        node = node.children[0]
    return node.categories()


FLIPS = frozenset(
    pair
    for one, other in (
        ("north_of", "south_of"), ("east_of", "west_of"), ("northeast_of", "southwest_of"), ("northwest_of", "southeast_of"),
        ("near", "far"), ("inside", "outside"), ("nearest", "farthest"),
    )
    for pair in ((one, other), (other, one))
)  # fmt: skip
"""Words that a counterfactual pair puts in each other's place (docs/release-format.md); extremes of positions besides."""


def _is_flip(one: Node, other: Node) -> bool:
    """Say whether two nodes differ in one word alone, and that by its counterpart."""
    if one.op != other.op:
        return (one.op, other.op) in FLIPS
    if one.op == "attr":
        return one.words[0] == other.words[0] and one.words[0] in ("north", "east")
    return one.op == "rel" and (one.words[0], other.words[0]) in FLIPS


def pairs_of(node: Node) -> set[tuple[str, str]]:
    """Return the (category, relation) pairs of a program: of every relation and superlative in it, its anchors too.

    >>> sorted(pairs_of(parse_canonical("(rel (and (cat b) (cat a)) near (attr (cat c) area most))")))
    [('a+b', 'near'), ('c', 'area:most')]
    """
    found: set[tuple[str, str]] = set()
    for child in node.children:
        found |= pairs_of(child)
    if node.op not in ("cat", "and"):
        relation = ":".join(node.words) or node.op
        found.add(("+".join(sorted(_categories_in(node.children[0]))), relation))
    return found


def _categories_in(node: Node) -> set[str]:
    """Return the categories of a node: of an `and` those of its arguments, of anything else those of what it selects from."""
    if node.op == "cat":
        return {node.words[0]}
    parts = node.children if node.op == "and" else node.children[:1]
    return {name for part in parts for name in _categories_in(part)}


def count_differences(one: Node, other: Node) -> tuple[int, int]:
    """Count where two programs differ: (nodes whose word is flipped to its counterpart, all other differences).

    >>> count_differences(parse_canonical("(rel (cat a) near (cat b))"), parse_canonical("(rel (cat a) far (cat b))"))
    (1, 0)
    """
    if one.canonical() == other.canonical():
        return 0, 0
    flipped, others = 0, 0
    if (one.op, one.words) != (other.op, other.words):
        if len(one.children) != len(other.children) or not one.children:
            return 0, 1
        flipped, others = (1, 0) if _is_flip(one, other) else (0, 1)
    pairings = [list(zip(one.children, other.children, strict=True))]
    if one.op == "and":
        pairings.append(list(zip(one.children, other.children[::-1], strict=True)))
    best = min(
        (tuple(map(sum, zip((0, 0), *(count_differences(a, b) for a, b in pairs), strict=True))) for pairs in pairings),
        key=lambda d: d[::-1],
    )
    return flipped + best[0], others + best[1]


def canonical_json(value: Any) -> str:
    """Write JSON in the one fixed way that ids are hashed over: sorted keys, no spaces, non-ASCII kept."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
