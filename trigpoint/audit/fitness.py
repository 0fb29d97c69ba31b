"""What makes a program fit for release: anchors that may be anchors, no part without which the answer stays, no simpler program with it.

Not here: whether the stored answer is right (`queries.py`), and execution (`programs.py`).
"""

from collections.abc import Iterator

import numpy as np

from trigpoint.audit.findings import Notebook
from trigpoint.audit.programs import (
    EXTREMES,
    KEYS,
    Node,
    ProgramError,
    Verdicts,
    World,
    anchors_of,
    both,
    cat,
)
from trigpoint.audit.reading import Query, Taxonomy
from trigpoint.audit.relations import FALSE, TOPOLOGY, TRUE, UNDECIDED

FILE = "queries.jsonl"


def selected_node(node: Node) -> Node:
    """Return the category node that a program selects from."""
    while not node.categories():
        node = node.children[0]
    return node


def check_anchors(query: Query, node: Node, world: World, notes: Notebook) -> None:
    """Anchors denote one thing, are not cut (countable ones), do not fill the scene, and topology has region anchors.

    Raises:
        ProgramError: an anchor denotes none or several.
    """
    m = world.measures
    for relation, anchor in anchors_of(node):
        notes.count("anchors")
        row = world.denote(anchor)
        who = m.instances[row]
        if who.countable and who.cut:
            notes.add("anchor_cut", FILE, query.query_id, "an anchor that is seen whole", who.instance_id)
        if dominates(world, query.scene_id, row):
            limit = world.release.rule("anchor_max_scene_share", 0.40)
            notes.add("anchor_dominates", FILE, query.query_id, f"at most {limit} of the valid area", who.instance_id)
        if relation in TOPOLOGY and who.countable:
            notes.add("topology_anchor", FILE, query.query_id, f"a region as the anchor of {relation}", who.instance_id)
        if anchor.has_relation():
            for name in names_of(row, world):
                notes.add("anchor_directly_nameable", FILE, query.query_id, "an anchor that needs its relation", name.canonical())


def names_of(row: int, world: World) -> list[Node]:
    """Return the programs without a relation that surely denote one instance: a category with a noun, or a superlative of one."""
    found: list[Node] = []
    for category in world.taxonomy.categories.values():
        members = cat(category.category_id)
        if category.noun and world.execute(members)[row] == TRUE:
            for name in (members, *superlatives(members)):
                verdicts = world.with_care.execute(name)
                if verdicts[row] == TRUE and int((verdicts > FALSE).sum()) == 1:
                    found.append(name)
    return found


def superlatives(members: Node) -> list[Node]:
    """Return all superlatives of a category."""
    return [
        Node("attr", (key, extreme), (members,))
        for key in KEYS
        for extreme in (EXTREMES if key in ("north", "east") else EXTREMES[:1])
    ]  # fmt: skip


def dominates(world: World, scene_id: str, row: int) -> bool:
    """Say whether an instance covers more of the scene's valid area than an anchor may."""
    scene = world.release.scenes[scene_id]
    valid_m2 = scene.valid_share * scene.width * scene.height * world.measures.frame.pixel_area_m2
    return bool(world.measures.areas_m2[row] > world.release.rule("anchor_max_scene_share", 0.40) * valid_m2 * (1 + 1e-6))


def simpler(node: Node, taxonomy: Taxonomy) -> Iterator[Node]:
    """Yield a program with each of its parts made broader or left out, one at a time, in anchors too.

    A category gives way to its parent, or its axis is left out (in both halves of an `and` at once); a relation, `nearest` or `farthest`
    to what it selects from, an `and` of two relations to each half.
    """
    if node.categories():
        yield from _broader(node, taxonomy)
        return
    if node.op == "and":
        yield from node.children
        selected = selected_node(node)
        for wider in _broader(selected, taxonomy):
            yield both(*(_with_selected(half, wider) for half in node.children))
        for position, half in enumerate(node.children):
            for anchor in simpler(half.children[1], taxonomy):
                changed = Node(half.op, half.words, (half.children[0], anchor))
                yield both(changed, node.children[1 - position])
        return
    if node.op != "attr":
        yield node.children[0]
    for position, child in enumerate(node.children):
        for other in simpler(child, taxonomy):
            yield Node(node.op, node.words, (*node.children[:position], other, *node.children[position + 1 :]))


def _with_selected(node: Node, wider: Node) -> Node:
    """Put another category node in the place of the one that a program selects from."""
    if node.categories():
        return wider
    return Node(node.op, node.words, (_with_selected(node.children[0], wider), *node.children[1:]))


def _broader(selected: Node, taxonomy: Taxonomy) -> Iterator[Node]:
    """Yield a category node with one category replaced by its parent, or left out where it is not of the first axis."""
    names = selected.categories()
    for name in names:
        known = taxonomy.categories[name]
        rest = [other for other in names if other != name]
        if known.parent is not None:
            yield _all_of([known.parent, *rest])
        if rest and known.axis != next(iter(taxonomy.axes)):
            yield _all_of(rest)


def _all_of(names: list[str]) -> Node:
    node = cat(names[0])
    for name in names[1:]:
        node = both(node, cat(name))
    return node


def check_needed(query: Query, node: Node, world: World, verdicts: Verdicts, notes: Notebook) -> None:
    """Every part is needed: without it, or with a broader category in its place, the answer surely is another one."""
    for other in simpler(node, world.taxonomy):
        notes.count("parts_needed")
        if _surely_the_same(world, other, verdicts):
            notes.add("part_unneeded", FILE, query.query_id, f"another answer from {other.canonical()}", "the same answer")


def _surely_the_same(world: World, node: Node, verdicts: Verdicts) -> bool:
    try:
        return np.array_equal(world.with_care.execute(node), verdicts)
    except ProgramError:
        return False


def check_no_simpler(query: Query, node: Node, world: World, verdicts: Verdicts, notes: Notebook) -> None:
    """No program of a lower level on this category has this answer: the category, a superlative, one relation to a nameable thing."""
    selected = selected_node(node)
    for level, other in simpler_levels(selected, query, world):
        if level < query.level and _surely_the_same(world, other, verdicts):
            found = f"{other.canonical()} (L{level})"
            notes.add("lower_level_same_answer", FILE, query.query_id, "an answer that no lower level has", found)
            return


def simpler_levels(selected: Node, query: Query, world: World) -> Iterator[tuple[int, Node]]:
    """Yield (level, program) of L1 to L3 on a category; L3 to anchors that a category alone names."""
    yield 1, selected
    for superlative in superlatives(selected):
        yield 2, superlative
    if query.level <= 3:
        return
    for category in world.taxonomy.categories:
        anchor = cat(category)
        try:
            row = world.denote(anchor)
        except ProgramError:
            continue
        who = world.measures.instances[row]
        if (who.countable and who.cut) or dominates(world, query.scene_id, row):
            continue
        for name in world.codes:
            if name != "contains" and (name not in TOPOLOGY or not who.countable):
                yield 3, Node("rel", (name,), (selected, anchor))
        for op in ("nearest", "farthest"):
            yield 3, Node(op, (), (selected, anchor))


def check_fitness(query: Query, node: Node, world: World, verdicts: Verdicts, notes: Notebook) -> None:
    """Check that an answerable program needs all its parts, has room in its category, and is the simplest with its answer."""
    members = world.execute(selected_node(node))
    n_members, n_right = int((members == TRUE).sum()), int((verdicts == TRUE).sum())
    if query.kind != "category_absent" and query.level >= 2 and n_members < 2:
        notes.add("category_too_small", FILE, query.query_id, "at least 2 instances of the category", n_members)
    if query.level >= 3 and n_members and n_right > world.release.rule("answer_max_share", 0.80) * n_members:
        notes.add("answer_too_large", FILE, query.query_id, "at most 80 % of the category", f"{n_right} of {n_members}")
    if n_right and not (verdicts == UNDECIDED).any():
        check_needed(query, node, world, verdicts, notes)
        check_no_simpler(query, node, world, verdicts, notes)
