"""What stands behind the answer of a query program: the anchors of its relations, what it chose from, and why nothing answers it.

None of it is stored in queries.jsonl: it is derived by executing the parts of the program. Not here: what programs mean
(`trigpoint.programs.resolver`), loading graphs (`trigpoint.release.graphs`), drawing.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from trigpoint.categories import Taxonomy
from trigpoint.language.grammar import FARTHEST, NEAREST, SUPERLATIVES, relation_wordings
from trigpoint.language.sentences import describe
from trigpoint.programs.language import (
    And,
    Attr,
    Farthest,
    Nearest,
    Node,
    Rel,
    anchors_of,
    categories_of,
    from_json,
    is_category,
    selected_category,
)
from trigpoint.programs.resolver import Resolver
from trigpoint.records.query import Query
from trigpoint.release.graphs import resolver_of_scene
from trigpoint.release.reader import Release


class Hop(NamedTuple):
    """One relation of a program: from the instance that its anchor denotes to what was found through it.

    Attributes:
        relation: Name of the relation, `nearest` or `farthest`. words: How it is said, such as `north of`.
        anchor_id: The anchor. anchor: It in words, such as `the largest temple`.
        subject_ids: The answer for the relations of the program itself, the anchor found for those inside an anchor; sorted.
        depth: 0 for the relations of the program itself, 1 for those inside an anchor, and so on.
        kind: The anchor in short, such as `northernmost temple`.
    """

    relation: str
    words: str
    anchor_id: str
    anchor: str
    subject_ids: tuple[str, ...]
    depth: int
    kind: str


class Explained(NamedTuple):
    """What stands behind an answer.

    Attributes:
        hops: Its relations, outermost first.
        chosen_from: In words, what the program selects from, such as `temples with a tile roof`. candidate_ids: These instances, sorted.
        superlative: Such as `largest`, where the answer is one.
        why_nothing: Why there is no answer; None where there is one.
    """

    hops: tuple[Hop, ...]
    chosen_from: str
    candidate_ids: tuple[str, ...]
    superlative: str | None
    why_nothing: str | None


def explain(release: Release, query: Query, resolver: Resolver | None = None) -> Explained | None:
    """Explain a query; None for one without a program.

    Args:
        release: The release.
        query: A query of it.
        resolver: Of the query's scene, when it is there already (`trigpoint.release.graphs`).

    Raises:
        ProgramError: the program cannot be read, or an anchor of it does not denote one instance; `trigpoint audit` says more.
        ReleaseError: a file of the release is missing or cannot be read.
    """
    if query.program is None:
        return None
    node = from_json(query.program)
    if is_category(node):
        name = _plural(node, release.taxonomy)
        n = len(release.instances_of_scene[query.scene_id])
        return Explained((), name, query.answer_ids, None, None if query.answer_ids else f"none of the {n} instances here are {name}")
    resolver = resolver or resolver_of_scene(release, query.scene_id)
    taxonomy = resolver.taxonomy
    kind = selected_category(node)
    return Explained(
        hops=tuple(_hops(resolver, node, query.answer_ids, 0)),
        chosen_from=_plural(kind, taxonomy),
        candidate_ids=resolver.answer(kind).members,
        superlative=_superlative(node),
        why_nothing=None if query.answer_ids else _why_nothing(resolver, node),
    )


def queries_by_anchor(release: Release, scene_id: str) -> dict[str, list[str]]:
    """Return which queries of a scene have an instance as an anchor: instance id → query ids in file order.

    Raises:
        ProgramError: an anchor does not denote one instance.
        ReleaseError: a file of the release is missing or cannot be read.
    """
    found: dict[str, list[str]] = defaultdict(list)
    programs = [(q.query_id, from_json(q.program)) for q in release.queries if q.scene_id == scene_id and q.program is not None]
    anchored = [(query_id, anchors) for query_id, node in programs if (anchors := anchors_of(node))]
    if anchored:
        resolver = resolver_of_scene(release, scene_id)
        for query_id, anchors in anchored:
            for position in sorted({resolver.denoted(anchor) for anchor in anchors}):
                found[resolver.graph.nodes.instance_ids[position]].append(query_id)
    return dict(found)


def _hops(resolver: Resolver, node: Node, subject_ids: tuple[str, ...], depth: int) -> Iterator[Hop]:
    match node:
        case And(args):
            for arg in args:
                yield from _hops(resolver, arg, subject_ids, depth)
        case Attr(of):
            yield from _hops(resolver, of, subject_ids, depth)
        case Rel(of, _, anchor) | Nearest(of, anchor) | Farthest(of, anchor):
            anchor_id = resolver.graph.nodes.instance_ids[resolver.denoted(anchor)]
            relation, words = _relation(node)
            said, kind = describe(anchor, resolver.taxonomy, 0), _kind(anchor, resolver.taxonomy)
            yield Hop(relation, words, anchor_id, said, subject_ids, depth, kind)
            yield from _hops(resolver, of, subject_ids, depth)
            yield from _hops(resolver, anchor, (anchor_id,), depth + 1)
        case _:
            return


def _relation(node: Rel | Nearest | Farthest) -> tuple[str, str]:
    """The name of a node's relation, and how it is said."""
    match node:
        case Rel(_, relation):
            return relation, relation_wordings(relation)[0]
        case Nearest():
            return "nearest", NEAREST[0]
        case Farthest():
            return "farthest", FARTHEST[0]


def _superlative(node: Node) -> str | None:
    return SUPERLATIVES[node.key, node.extreme][0] if isinstance(node, Attr) else None


def _kind(anchor: Node, taxonomy: Taxonomy) -> str:
    return f"{_superlative(anchor) or ''} {taxonomy.singular_noun(categories_of(selected_category(anchor)))}".strip()


def _plural(kind: Node, taxonomy: Taxonomy | None) -> str:
    names = categories_of(kind)
    return " and ".join(names) if taxonomy is None else taxonomy.plural_noun(names)


def _why_nothing(resolver: Resolver, node: Node) -> str:
    taxonomy = resolver.taxonomy
    match node:
        case And(args):
            halves = [(len(resolver.answer(arg).members), _clause(arg, taxonomy)) for arg in args]
            told = " and ".join(f"{n} {'is' if n == 1 else 'are'} {clause}" for n, clause in halves)
            return f"of the {_counted(resolver, selected_category(node))} {told}, and none is both"
        case Rel(of, relation, anchor):
            others = resolver.edges_to(relation, resolver.denoted(anchor)).sure.bit_count()
            are = "other thing is" if others == 1 else "other things are"
            return f"none of the {_counted(resolver, of)} is {_clause(node, taxonomy)}; {others} {are}"
        case _:
            return f"there are {_counted(resolver, selected_category(node))}"


def _counted(resolver: Resolver, kind: Node) -> str:
    return f"{len(resolver.answer(kind).members)} {_plural(selected_category(kind), resolver.taxonomy)}"


def _clause(node: Node, taxonomy: Taxonomy) -> str:
    match node:
        case Rel(_, _, anchor) | Nearest(_, anchor) | Farthest(_, anchor):
            return f"{_relation(node)[1]} {describe(anchor, taxonomy, 0)}"
        case _:
            return _plural(node, taxonomy)
