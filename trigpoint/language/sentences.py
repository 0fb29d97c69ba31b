"""English sentences from programs: three for each, by one grammar (docs/grammar.md), each meaning exactly its program.

Nouns come from the taxonomy. What a relation selects is a number-neutral plural ("all ponds that are …"), since a singular would give
the answer's cardinality away. `trigpoint.language.parser` reads them back; the auditor has its own parser.
"""

from trigpoint.categories import Taxonomy
from trigpoint.errors import ProgramError
from trigpoint.language.grammar import (
    FARTHEST,
    FRAMES_ALL,
    FRAMES_ONE,
    JOINS,
    NEAREST,
    OPENERS,
    STYLES,
    SUPERLATIVES,
    relation_wordings,
)
from trigpoint.programs.language import And, Attr, Cat, Farthest, Nearest, Node, Rel, categories_of, is_category


def sentences(node: Node, taxonomy: Taxonomy) -> tuple[str, ...]:
    """Say what a program denotes in every style; the first sentence is the one that is scored.

    Raises:
        ProgramError: the grammar has no words for the program.
    """
    return tuple(_Speaker(taxonomy, style).sentence(node) for style in STYLES)


def describe(node: Node, taxonomy: Taxonomy, style: int) -> str:
    """Describe the one thing that a program denotes, in one style (0 to 2): "the pond north of the road".

    Raises:
        ProgramError: the grammar has no words for the program.
    """
    return _Speaker(taxonomy, style).described(node)


class _Speaker:
    """Says programs in one style, 0 to 2."""

    def __init__(self, taxonomy: Taxonomy, style: int) -> None:
        self._taxonomy, self._style = taxonomy, style

    def sentence(self, node: Node) -> str:
        style = self._style
        match node:
            case _ if is_category(node):
                return (f"all {self._plural(node)}", f"all of the {self._plural(node)}", f"every {self._singular(node)}")[style]
            case Attr(of, key, extreme) if style == 2:
                return f"the {SUPERLATIVES[key, extreme][0]} of all {self._plural(of)}"
            case Rel(of, relation, anchor):
                return f"{OPENERS[style]} {self._plural(of)} {FRAMES_ALL[style]} {self._clause(relation, anchor)}"
            case And(args):
                return self._both(node, args)
            case Nearest(of, anchor):
                return self._extreme_distance(of, anchor, "nearest to", "closest to", NEAREST[0])
            case Farthest(of, anchor):
                return self._extreme_distance(of, anchor, "most distant from", "farthest from", FARTHEST[0])
            case _:
                return self.described(node)

    def _both(self, node: Node, args: tuple[Node, ...]) -> str:
        ordered = sorted(args, key=lambda arg: arg.canonical())
        halves = [arg for arg in ordered if isinstance(arg, Rel)]
        if len(halves) != 2 or len(ordered) != 2:
            raise ProgramError(f"{node.canonical()}: the grammar joins two relations, not nearest, farthest or more")
        clauses = [self._clause(half.relation, half.anchor) for half in halves]
        opening = f"{OPENERS[self._style]} {self._plural(halves[0].of)} {FRAMES_ALL[self._style]}"
        return f"{opening} {clauses[0]} {JOINS[self._style]} {clauses[1]}"

    def _extreme_distance(self, of: Node, anchor: Node, second: str, third: str, first: str) -> str:
        described = self.described(anchor)
        return (
            f"the {self._singular(of)} {first} {described}",
            f"the {self._singular(of)} that is {second} {described}",
            f"out of all {self._plural(of)}, the one {third} {described}",
        )[self._style]

    def _clause(self, relation: str, anchor: Node) -> str:
        return f"{relation_wordings(relation)[self._style]} {self.described(anchor)}"

    def described(self, node: Node) -> str:
        """Say a program that denotes one instance."""
        style = self._style
        match node:
            case Cat() | And():
                return f"the {self._singular(node)}"
            case Attr(Rel(of, relation, anchor), key, extreme):
                words = SUPERLATIVES[key, extreme][2 if style == 2 else 0]
                return f"the {words} {self._singular(of)} {FRAMES_ONE[style]} {self._clause(relation, anchor)}"
            case Attr(of, key, extreme):
                words = SUPERLATIVES[key, extreme][style]
                return f"the {self._singular(of)} that {words}" if style == 1 else f"the {words} {self._singular(of)}"
            case Nearest(of, anchor):
                return f"the {self._singular(of)} {NEAREST[style]} {self.described(anchor)}"
            case Farthest(of, anchor):
                return f"the {self._singular(of)} {FARTHEST[style]} {self.described(anchor)}"
            case Rel(of, relation, anchor):
                return f"the {self._singular(of)} {FRAMES_ONE[style]} {self._clause(relation, anchor)}"

    def _singular(self, node: Node) -> str:
        return self._taxonomy.singular_noun(categories_of(node))

    def _plural(self, node: Node) -> str:
        return self._taxonomy.plural_noun(categories_of(node))
