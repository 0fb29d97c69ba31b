"""The typed query language: trees, canonical s-expressions, JSON, ids, levels.

A program denotes a set of instances of one scene. Meaning is given by `trigpoint.programs.resolver` alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trigpoint.errors import ProgramError
from trigpoint.identity import make_id
from trigpoint.rules import COUNTERPART, KNOWN_RELATIONS, is_relation

Key = Literal["area", "length", "north", "east"]
Extreme = Literal["most", "least"]

KEYS: tuple[Key, ...] = ("area", "length", "north", "east")
EXTREMES: tuple[Extreme, ...] = ("most", "least")


class _Program:
    """What all nodes share: the canonical form is their identity, so that comparing and hashing cost no walk through the tree."""

    __slots__ = ("_text",)
    __match_args__: tuple[str, ...] = ()
    _text: str

    def canonical(self) -> str:
        """The s-expression, arguments of `and` sorted as strings."""
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Program) and self._text == other._text

    def __reduce__(self) -> Any:
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)

    def _name(self, text: str) -> None:
        object.__setattr__(self, "_text", text)


@dataclass(frozen=True, slots=True, eq=False)
class Cat(_Program):
    """All instances of a category or of one below it."""

    category: str

    def __post_init__(self) -> None:
        self._name(f"(cat {self.category})")


@dataclass(frozen=True, slots=True, eq=False)
class And(_Program):
    """Members of all arguments."""

    args: tuple["Node", ...]

    def __post_init__(self) -> None:
        self._name(f"(and {' '.join(sorted(arg.canonical() for arg in self.args))})")


@dataclass(frozen=True, slots=True, eq=False)
class Attr(_Program):
    """The one member with the most or least of a key."""

    of: "Node"
    key: Key
    extreme: Extreme

    def __post_init__(self) -> None:
        self._name(f"(attr {self.of.canonical()} {self.key} {self.extreme})")


@dataclass(frozen=True, slots=True, eq=False)
class Rel(_Program):
    """Members in a relation to the one instance that the anchor denotes."""

    of: "Node"
    relation: str
    anchor: "Node"

    def __post_init__(self) -> None:
        self._name(f"(rel {self.of.canonical()} {self.relation} {self.anchor.canonical()})")


@dataclass(frozen=True, slots=True, eq=False)
class Nearest(_Program):
    """The one member closest to the anchor."""

    of: "Node"
    anchor: "Node"

    def __post_init__(self) -> None:
        self._name(f"(nearest {self.of.canonical()} {self.anchor.canonical()})")


@dataclass(frozen=True, slots=True, eq=False)
class Farthest(_Program):
    """The one member farthest from the anchor."""

    of: "Node"
    anchor: "Node"

    def __post_init__(self) -> None:
        self._name(f"(farthest {self.of.canonical()} {self.anchor.canonical()})")


Node = Cat | And | Attr | Rel | Nearest | Farthest


def conjunction(args: tuple[Node, ...]) -> And:
    """Return the `and` of programs, its arguments in canonical order."""
    return And(tuple(sorted(args, key=lambda arg: arg.canonical())))


def category_node(category_ids: Sequence[str]) -> Node:
    """Return the node that names a category, one per axis."""
    return Cat(category_ids[0]) if len(category_ids) == 1 else conjunction(tuple(Cat(name) for name in category_ids))


def to_json(node: Node) -> dict[str, Any]:
    """Write a program as its JSON tree (schema version 1).

    >>> to_json(Rel(Cat("pond"), "north_of", Cat("road")))["relation"]
    'north_of'
    """
    match node:
        case Cat(category):
            return {"op": "cat", "category": category}
        case And():
            return {"op": "and", "args": [to_json(arg) for arg in sorted(node.args, key=lambda arg: arg.canonical())]}
        case Attr(of, key, extreme):
            return {"op": "attr", "of": to_json(of), "key": key, "extreme": extreme}
        case Rel(of, relation, anchor):
            return {"op": "rel", "of": to_json(of), "relation": relation, "anchor": to_json(anchor)}
        case Nearest(of, anchor):
            return {"op": "nearest", "of": to_json(of), "anchor": to_json(anchor)}
        case Farthest(of, anchor):
            return {"op": "farthest", "of": to_json(of), "anchor": to_json(anchor)}


_FIELDS = {
    "cat": {"category"},
    "and": {"args"},
    "attr": {"of", "key", "extreme"},
    "rel": {"of", "relation", "anchor"},
    "nearest": {"of", "anchor"},
    "farthest": {"of", "anchor"},
}


def from_json(value: Any) -> Node:
    """Read a program from its JSON tree.

    Raises:
        ProgramError: an unknown operator, key or relation, or missing or extra fields.
    """
    if not isinstance(value, dict) or not isinstance(value.get("op"), str) or value["op"] not in _FIELDS:
        raise ProgramError(f"program node {value!r}: expected an object with op one of {sorted(_FIELDS)}")
    op = str(value["op"])
    if set(value) != _FIELDS[op] | {"op"}:
        raise ProgramError(f"program node {op!r} has fields {sorted(value)}, expected {sorted(_FIELDS[op] | {'op'})}")
    if op == "cat":
        if not isinstance(value["category"], str):
            raise ProgramError(f"program node 'cat' has category {value['category']!r}, expected a name")
        return Cat(value["category"])
    if op == "and":
        if not isinstance(value["args"], list):
            raise ProgramError(f"program node 'and' has args {value['args']!r}, expected a list")
        args = tuple(from_json(arg) for arg in value["args"])
        if len(args) < 2:
            raise ProgramError(f"program node 'and' has {len(args)} arguments, expected at least 2")
        return conjunction(args)
    of = from_json(value["of"])
    if op == "attr":
        key, extreme = value["key"], value["extreme"]
        if key not in KEYS or extreme not in EXTREMES or (extreme == "least" and key in ("area", "length")):
            raise ProgramError(f"attr {key!r} {extreme!r}: expected a key of {KEYS}, most or least, least for positions alone")
        return Attr(of, key, extreme)
    anchor = from_json(value["anchor"])
    if op == "rel":
        if not isinstance(value["relation"], str) or not is_relation(value["relation"]):
            raise ProgramError(f"relation {value['relation']!r}: expected one of {KNOWN_RELATIONS} or within_<d>m")
        return Rel(of, str(value["relation"]), anchor)
    return Nearest(of, anchor) if op == "nearest" else Farthest(of, anchor)


def parse(text: str) -> Node:
    """Parse an s-expression; whitespace and the order of `and` arguments are free.

    Raises:
        ProgramError: it is not one well-formed program.

    >>> parse("(rel (cat pond)  near (cat road))").canonical()
    '(rel (cat pond) near (cat road))'
    """
    tokens = text.replace("(", " ( ").replace(")", " ) ").split()
    node, position = _parse(tokens, 0, text)
    if position != len(tokens):
        raise ProgramError(f"program {text!r}: {' '.join(tokens[position:])!r} follows its end")
    return node


def _parse(tokens: list[str], position: int, text: str) -> tuple[Node, int]:
    if position + 1 >= len(tokens) or tokens[position] != "(":
        raise ProgramError(f"program {text!r}: expected '(' and an operator at token {position}")
    op, position = tokens[position + 1], position + 2
    parts: list[Node | str] = []
    while position < len(tokens) and tokens[position] != ")":
        if tokens[position] == "(":
            node, position = _parse(tokens, position, text)
            parts.append(node)
        else:
            parts.append(tokens[position])
            position += 1
    if position >= len(tokens):
        raise ProgramError(f"program {text!r}: a ')' is missing")
    return _node_from_parts(op, parts, text), position + 1


def _node_from_parts(op: str, parts: list[Any], text: str) -> Node:
    shapes = {"cat": ("category",), "attr": ("of", "key", "extreme"), "rel": ("of", "relation", "anchor")}
    names = shapes.get(op, ("of", "anchor"))
    if op == "and":
        value: dict[str, Any] = {"op": op, "args": [_as_json(part, text) for part in parts]}
    elif len(parts) != len(names):
        raise ProgramError(f"program {text!r}: {op!r} has {len(parts)} arguments, expected {len(names)}")
    else:
        value = {"op": op} | {name: part if isinstance(part, str) else to_json(part) for name, part in zip(names, parts, strict=True)}
    return from_json(value)


def _as_json(part: Any, text: str) -> dict[str, Any]:
    if isinstance(part, str):
        raise ProgramError(f"program {text!r}: {part!r} stands where a set is expected")
    return to_json(part)


def query_id(scene_id: str, node: Node) -> str:
    """Return the id of a query: `q-` and 16 hex digits over scene and canonical form."""
    return make_id("q", scene_id, node.canonical())


def is_category(node: Node) -> bool:
    """Whether a node only names a category (one `cat`, or several axes joined)."""
    return isinstance(node, Cat) or (isinstance(node, And) and all(isinstance(arg, Cat) for arg in node.args))


def categories_of(node: Node) -> tuple[str, ...]:
    """Return the category names of a category node, sorted.

    Raises:
        ProgramError: the node is not a category.
    """
    if isinstance(node, Cat):
        return (node.category,)
    if isinstance(node, And) and is_category(node):
        return tuple(sorted(arg.category for arg in node.args if isinstance(arg, Cat)))
    raise ProgramError(f"{node.canonical()} is not a category")


def selected_category(node: Node) -> Node:
    """Return the category node of the set that a program selects from.

    Raises:
        ProgramError: an `and` of relations over different categories.
    """
    match node:
        case Attr(of) | Rel(of) | Nearest(of) | Farthest(of):
            return selected_category(of)
        case And() if not is_category(node):
            found = {selected_category(arg).canonical(): selected_category(arg) for arg in node.args}
            if len(found) != 1:
                raise ProgramError(f"{node.canonical()} joins different categories {sorted(found)}")
            return next(iter(found.values()))
        case _:
            return node


def relations_of(node: Node) -> Iterator[str]:
    """Yield the relation names of a program, `nearest` and `farthest` included, outermost first."""
    match node:
        case Rel(of, relation, anchor):
            yield relation
            yield from relations_of(of)
            yield from relations_of(anchor)
        case Nearest(of, anchor) | Farthest(of, anchor):
            yield "nearest" if isinstance(node, Nearest) else "farthest"
            yield from relations_of(of)
            yield from relations_of(anchor)
        case And(args):
            for arg in args:
                yield from relations_of(arg)
        case Attr(of):
            yield from relations_of(of)
        case Cat():
            return


def anchors_of(node: Node) -> list[Node]:
    """Return every anchor in a program, outermost first."""
    match node:
        case Rel(of, _, anchor) | Nearest(of, anchor) | Farthest(of, anchor):
            return [*anchors_of(of), anchor, *anchors_of(anchor)]
        case And(args):
            return [found for arg in args for found in anchors_of(arg)]
        case Attr(of):
            return anchors_of(of)
        case Cat():
            return []


_OPPOSITE: dict[Extreme, Extreme] = {"most": "least", "least": "most"}


def flips_of(node: Node) -> Iterator[Node]:
    """Yield every counterfactual of a program: exactly one relation, or one extreme of a position, turned into its opposite.

    The word may stand anywhere, in an anchor too. What has no opposite (`overlaps`, `within_25m`, the largest area) is not flipped.

    >>> [flip.canonical() for flip in flips_of(parse("(nearest (cat pond) (attr (cat road) north most))"))]
    ['(farthest (cat pond) (attr (cat road) north most))', '(nearest (cat pond) (attr (cat road) north least))']
    """
    match node:
        case Cat():
            return
        case And(args):
            for k, arg in enumerate(args):
                yield from (conjunction((*args[:k], flip, *args[k + 1 :])) for flip in flips_of(arg))
        case Attr(of, key, extreme):
            if key in ("north", "east"):
                yield Attr(of, key, _OPPOSITE[extreme])
            yield from (Attr(flip, key, extreme) for flip in flips_of(of))
        case Rel(of, relation, anchor):
            if relation in COUNTERPART:
                yield Rel(of, COUNTERPART[relation], anchor)
            yield from (Rel(of, relation, flip) for flip in flips_of(anchor))
        case Nearest(of, anchor):
            yield Farthest(of, anchor)
            yield from (Nearest(of, flip) for flip in flips_of(anchor))
        case Farthest(of, anchor):
            yield Nearest(of, anchor)
            yield from (Farthest(of, flip) for flip in flips_of(anchor))


def level_of(node: Node) -> int:
    """Return the reasoning level 1–5 of a program.

    L1 a category; L2 one superlative; L3 one relation; L4 two relations on one category; L5 an anchor found through a
    relation. A superlative inside an anchor does not raise the level, whether of a category or of what a relation selects.

    Raises:
        ProgramError: the program fits no level.
    """
    if is_category(node):
        return 1
    match node:
        case Attr(of) if is_category(of):
            return 2
        case Rel(of, _, anchor) | Nearest(of, anchor) | Farthest(of, anchor) if is_category(of):
            found_through = anchor.of if isinstance(anchor, Attr) and isinstance(anchor.of, Rel) else anchor
            inner = level_of(found_through)
            if inner <= 2:
                return 3
            if inner == 3:
                return 5
        case And(args) if len(args) == 2 and all(level_of(arg) == 3 for arg in args):
            return 4
        case _:
            pass
    raise ProgramError(f"{node.canonical()} fits no level: expected cat, attr, one relation, two relations on one category, or two hops")
