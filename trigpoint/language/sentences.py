"""English sentences from programs by one grammar (version 1), each meaning exactly its program.

Nouns come from the taxonomy. The root of a relation is a number-neutral plural ("all ponds that are …"), since a singular would give
the answer's cardinality away. The auditor has its own parser of this grammar (docs/audit.md).
"""

from trigpoint.categories import Taxonomy
from trigpoint.errors import ProgramError
from trigpoint.programs.language import And, Attr, Cat, Farthest, Nearest, Node, Rel, categories_of, is_category

GRAMMAR_VERSION = 1

RELATION_PHRASES = {
    "north_of": "north of",
    "east_of": "east of",
    "south_of": "south of",
    "west_of": "west of",
    "near": "near",
    "far": "far from",
    "inside": "inside",
    "outside": "outside",
    "overlaps": "partly inside",
}
"""How a relation is said. `contains` is not asked for."""

SUPERLATIVES = {
    ("area", "most"): "largest",
    ("length", "most"): "longest",
    ("north", "most"): "northernmost",
    ("north", "least"): "southernmost",
    ("east", "most"): "easternmost",
    ("east", "least"): "westernmost",
}


def sentence(node: Node, taxonomy: Taxonomy) -> str:
    """Say what a program denotes.

    Raises:
        ProgramError: the grammar has no words for the program.
    """
    match node:
        case _ if is_category(node):
            return f"all {taxonomy.plural_noun(categories_of(node))}"
        case Rel(of, relation, anchor):
            return f"all {taxonomy.plural_noun(categories_of(of))} that are {_relation(relation)} {_denotation(anchor, taxonomy)}"
        case And(args):
            ordered = sorted(args, key=lambda arg: arg.canonical())
            clauses = [f"are {_relation(arg.relation)} {_denotation(arg.anchor, taxonomy)}" for arg in ordered if isinstance(arg, Rel)]
            if len(clauses) != len(args):
                raise ProgramError(f"{node.canonical()}: the grammar joins relations alone, not nearest or farthest")
            first = ordered[0]
            assert isinstance(first, Rel)  # checked just above
            return f"all {taxonomy.plural_noun(categories_of(first.of))} that {' and '.join(clauses)}"
        case _:
            return _denotation(node, taxonomy)


def _relation(relation: str) -> str:
    if relation not in RELATION_PHRASES:
        raise ProgramError(f"relation {relation!r} has no words; the grammar knows {sorted(RELATION_PHRASES)}")
    return RELATION_PHRASES[relation]


def _denotation(node: Node, taxonomy: Taxonomy) -> str:
    """Say a program that denotes one instance."""
    match node:
        case Cat() | And():
            return f"the {taxonomy.singular_noun(categories_of(node))}"
        case Attr(of, key, extreme):
            return f"the {SUPERLATIVES[key, extreme]} {taxonomy.singular_noun(categories_of(of))}"
        case Nearest(of, anchor):
            return f"the {taxonomy.singular_noun(categories_of(of))} closest to {_denotation(anchor, taxonomy)}"
        case Farthest(of, anchor):
            return f"the {taxonomy.singular_noun(categories_of(of))} farthest from {_denotation(anchor, taxonomy)}"
        case Rel(of, relation, anchor):
            return f"the {taxonomy.singular_noun(categories_of(of))} that is {_relation(relation)} {_denotation(anchor, taxonomy)}"
