"""Queries held against their programs: ids, forms, levels, answers, controls, difficulty, and what makes a program fit for release.

Not here: sentences (`sentences.py`) and execution (`programs.py`).
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.audit.findings import Notebook
from trigpoint.audit.fitness import check_anchors, check_fitness, selected_node
from trigpoint.audit.ownership import Masks
from trigpoint.audit.programs import (
    Node,
    ProgramError,
    World,
    canonical_json,
    count_differences,
    level_of,
    parse_canonical,
    parse_json,
    selected_categories,
)
from trigpoint.audit.reading import Query, Release
from trigpoint.audit.relations import DIRECTIONS, FALSE, TRUE, UNDECIDED

FILE = "queries.jsonl"
KINDS = ("answerable", "category_absent", "relation_unsatisfied")
SHARE_SLACK = 0.01
"""The unanswerable share may be off by one point (semantics, section 5) or by one query."""

SECTOR_SLACK = 0.01
"""The sector's share of the valid area is sampled: it must be this much too small to be objected to."""


def query_id_of(scene_id: str, canonical: str) -> str:
    """Return the id of a query: SHA-256 over the canonical JSON of [scene id, canonical form].

    >>> query_id_of("s-1", "(cat tree)").startswith("q-"), len(query_id_of("s-1", "(cat tree)"))
    (True, 18)
    """
    return f"q-{hashlib.sha256(canonical_json([scene_id, canonical]).encode()).hexdigest()[:16]}"


def check_form(query: Query, notes: Notebook) -> Node | None:
    """Check everything about a query that needs no scene: program, canonical form, id, level, kind and category."""
    item = query.query_id
    notes.count("queries")
    try:
        node = parse_json(query.program)
    except ProgramError as problem:
        notes.add("program_malformed", FILE, item, "a program of schema version 1", str(problem))
        return None
    canonical = node.canonical()
    try:
        same = parse_canonical(query.canonical).canonical() == canonical
    except ProgramError:
        same = False
    if query.canonical != canonical or not same:
        notes.add("canonical_differs", FILE, item, canonical, query.canonical)
    if item != query_id_of(query.scene_id, canonical):
        notes.add("query_id_wrong", FILE, item, query_id_of(query.scene_id, canonical), item)
    level = level_of(node)
    if level is None:
        notes.add("program_form", FILE, item, "the structure of a level", canonical)
    elif level != query.level:
        notes.add("level_wrong", FILE, item, level, query.level)
    if query.form != "program":
        notes.add("form_wrong", FILE, item, "program", query.form)
    if query.answerable != bool(query.answer_ids):
        notes.add("answerable_wrong", FILE, item, bool(query.answer_ids), query.answerable)
    if query.kind not in KINDS or (query.kind == "answerable") != query.answerable:
        notes.add("kind_wrong", FILE, item, "answerable" if query.answerable else "category_absent or relation_unsatisfied", query.kind)
    if query.polarity != ("positive" if query.answerable else "negative"):
        notes.add("polarity_wrong", FILE, item, "positive" if query.answerable else "negative", query.polarity)
    if sorted(query.category) != sorted(selected_categories(node)):
        notes.add("category_wrong", FILE, item, selected_categories(node), list(query.category))
    return node


def check_answer(release: Release, query: Query, node: Node, world: World, notes: Notebook) -> None:
    """Execute a query afresh and compare; check anchors, winners, and the rules for release."""
    item, instances = query.query_id, world.measures.instances
    notes.count("answers")
    if list(query.answer_ids) != sorted(set(query.answer_ids)):
        notes.add("answer_order", FILE, item, "sorted, each once", list(query.answer_ids))
    for answer in query.answer_ids:
        owner = release.instances.get(answer)
        if owner is None or owner.scene_id != query.scene_id:
            notes.add("answer_unknown", FILE, item, f"an instance of {query.scene_id}", answer)
        elif not owner.countable:
            notes.add("answer_not_countable", FILE, item, "countable instances", answer)
    try:
        verdicts = world.execute(node)
        check_anchors(query, node, world, notes)
    except ProgramError as problem:
        notes.add("program_error", FILE, item, "a program that executes", str(problem))
        return
    unsure = [instances[i].instance_id for i in np.flatnonzero(verdicts == UNDECIDED)]
    right = sorted(instances[i].instance_id for i in np.flatnonzero(verdicts == TRUE))
    if unsure:
        notes.add("answer_undecided", FILE, item, "nothing undecided", unsure)
    if right != sorted(query.answer_ids):
        notes.add("answer_stale", FILE, item, right, list(query.answer_ids))
    if node.op in ("attr", "nearest", "farthest"):
        for answer in query.answer_ids:
            if answer in release.instances and release.instances[answer].cut:
                notes.add("cut_winner", FILE, item, "a winner that is seen whole", answer)
    check_fitness(query, node, world, verdicts, notes)


def check_absence(query: Query, node: Node, world: World, masks: Masks, notes: Notebook) -> None:
    """Unanswerable queries: a category really absent, or a relation that others satisfy and that has room in the scene."""
    item = query.query_id
    if query.answerable:
        return
    notes.count("unanswerable")
    try:
        members = world.execute(selected_node(node))
        if query.kind == "category_absent":
            if not _is_plausible(node, world):
                notes.add("absence_wrong", FILE, item, "a sibling of the absent category in the scene", "none")
            if query.level != 1 or (members > FALSE).any():
                notes.add(
                    "absence_wrong",
                    FILE,
                    item,
                    "L1 and no instance that is or may be of it",
                    f"L{query.level}, {int((members > FALSE).sum())}",
                )
            return
        if query.level < 3 or not (members == TRUE).any():
            notes.add(
                "absence_wrong", FILE, item, "a relation on a category that is present", f"L{query.level}, {int((members == TRUE).sum())}"
            )
            return
        for part in node.children if node.op == "and" else (node,):
            if part.op != "rel":
                continue
            anchor, name = world.denote(part.children[1]), part.words[0]
            if node.op == "and" and not (world.execute(part) == TRUE).any():
                notes.add("absence_trivial", FILE, item, "members in both halves", f"none in {part.canonical()}")
            if node.op == "and":
                continue  # both halves have members, so neither is trivially empty
            if not (world.codes[name][:, anchor] == TRUE).any():
                notes.add("absence_trivial", FILE, item, f"another instance {name} the anchor", "none")
            if name in DIRECTIONS:
                share = _sector_share(world, masks, anchor, name)
                if share < world.release.rule("sector_min_share", 0.05) - SECTOR_SLACK:
                    notes.add("absence_trivial", FILE, item, "at least 5 % of the valid area in the sector", f"{share:.3f}")
    except ProgramError:
        return  # named by check_answer


def _is_plausible(node: Node, world: World) -> bool:
    """Say whether something in the scene is of a sibling of a category that is not there."""
    known = world.taxonomy.categories
    for name in selected_categories(node):
        if (world.members(name) > FALSE).any():
            continue
        siblings = [c for c, other in known.items() if c != name and (other.axis, other.parent) == (known[name].axis, known[name].parent)]
        if any((world.members(sibling) == TRUE).any() for sibling in siblings):
            return True
    return False


def _sector_share(world: World, masks: Masks, anchor: int, name: str) -> float:
    """Return the share of the valid pixels (sampled) that lie in a sector of an anchor: from its centroid, or a region's nearest point."""
    m = world.measures
    step = max(1, min(masks.valid.shape) // 48)
    rows, cols = np.nonzero(masks.valid[::step, ::step])
    points = m.frame.to_ground(np.column_stack([cols * step + 0.5, rows * step + 0.5]).astype(np.float64))
    start: NDArray[np.float64] = m.centroids[anchor]
    if not m.countable[anchor]:
        start = shapely.get_coordinates(shapely.shortest_line(m.outlines[anchor], shapely.points(points)))[::2]
    ray = points - start
    azimuth = np.degrees(np.arctan2(ray[:, 0], ray[:, 1])) + m.frame.convergence_deg
    within = np.abs((azimuth - DIRECTIONS[name] + 180) % 360 - 180) <= m.limits.sector(name)[0]
    return float((within & (np.hypot(*ray.T) > 0)).mean())


def check_difficulty(release: Release, query: Query, node: Node, world: World, masks: Masks, notes: Notebook) -> None:
    """Recompute the tier: a point each for many candidates, level, a small answer and many answers (or no answer).

    Source: `rules.difficulty` of the manifest. Candidates may be counted with or without undecided ones, the scene's area with or
    without invalid pixels: the format does not say, both pass.
    """
    rules = release.manifest.get("rules", {})
    difficulty: Any = cast("dict[str, Any]", rules).get("difficulty") if isinstance(rules, dict) else None
    if not isinstance(difficulty, dict):
        return
    rule = cast("dict[str, float]", difficulty)
    notes.count("difficulty")
    try:
        members = world.execute(selected_node(node))
    except ProgramError:
        return
    answers = [world.measures.row[a] for a in query.answer_ids if a in world.measures.row]
    area_px = float(world.measures.areas_m2[answers].sum()) / world.measures.frame.pixel_area_m2
    tiers: set[str] = set()
    for candidates in (int((members == TRUE).sum()), int((members > FALSE).sum())):
        for total in (masks.valid.size, int(masks.valid.sum())):
            points = int(candidates > rule["candidates"]) + int(query.level >= rule["level"])
            points += int(not answers or area_px / total < rule["area_share"])
            points += int(not answers or len(answers) > rule["cardinality"])
            tiers.add("hard" if points >= rule["hard_from"] else "medium" if points >= rule["medium_from"] else "easy")
    if query.difficulty not in tiers:
        notes.add("difficulty_wrong", FILE, query.query_id, " or ".join(sorted(tiers)), query.difficulty)


def check_all(release: Release, nodes: dict[str, Node], notes: Notebook) -> None:
    """Check queries against each other: duplicates, lower levels with the same answer, counterfactuals, the unanswerable share."""
    seen: dict[tuple[str, str], str] = {}
    spoken: dict[tuple[str, str], str] = {}
    answers: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[Query]] = defaultdict(list)
    for query in release.queries.values():
        if query.scene_id not in release.scenes:
            notes.add("scene_unknown", FILE, query.query_id, "a scene of scenes.parquet", query.scene_id)
        node = nodes.get(query.query_id)
        if node is None:
            continue
        first = seen.setdefault((query.scene_id, node.canonical()), query.query_id)
        if first != query.query_id:
            notes.add("query_twice", FILE, query.query_id, "each program once per scene", f"also {first}")
        for sentence in set(query.sentences):
            other = spoken.setdefault((query.scene_id, sentence), query.query_id)
            if other != query.query_id:
                notes.add("sentence_twice", FILE, query.query_id, "a sentence of its own", f"{sentence!r} also of {other}")
        if query.answer_ids:
            answers[query.scene_id, tuple(sorted(selected_categories(node))), tuple(sorted(query.answer_ids))].append(query)
    for same in answers.values():
        lowest = min(same, key=lambda q: (q.level, q.query_id))
        for query in same:
            if query.level > lowest.level:
                notes.add(
                    "lower_level_same_answer",
                    FILE,
                    query.query_id,
                    "an answer that no lower level has",
                    f"{lowest.query_id} (L{lowest.level})",
                )
    for query in release.queries.values():
        with notes.guard("counterfactual_wrong", FILE, query.query_id):
            _check_counterfactual(release, query, nodes, notes)
    n = len(release.queries)
    share = release.rule("unanswerable_share", 0.24)
    unanswerable = sum(not query.answerable for query in release.queries.values())
    if abs(unanswerable - share * n) > max(SHARE_SLACK * n, 1):
        notes.add(
            "unanswerable_share", FILE, "", f"{share:.2f} of {n} queries, within {SHARE_SLACK}", f"{unanswerable} ({unanswerable / n:.3f})"
        )


def counterfactual_pairs(queries: Iterable[Query]) -> set[frozenset[str]]:
    """Return the pairs of queries that name each other."""
    named = {query.query_id: query.counterfactual_of for query in queries}
    return {frozenset((one, other)) for one, other in named.items() if other is not None and named.get(other) == one != other}


def _check_counterfactual(release: Release, query: Query, nodes: dict[str, Node], notes: Notebook) -> None:
    """The other query is of the same scene, names this one back, differs in one flipped word and has another answer."""
    if query.counterfactual_of is None:
        return
    notes.count("counterfactuals")
    item = query.query_id
    other = release.queries.get(query.counterfactual_of)
    if other is None or other.scene_id != query.scene_id:
        notes.add("counterfactual_wrong", FILE, item, "a query of the same scene", query.counterfactual_of)
        return
    if other.counterfactual_of != item:
        notes.add("counterfactual_one_way", FILE, item, f"{other.query_id} names {item}", other.counterfactual_of)
    if other.query_id in nodes and item in nodes:
        flipped, others = count_differences(nodes[item], nodes[other.query_id])
        if (flipped, others) != (1, 0):
            notes.add("counterfactual_wrong", FILE, item, "exactly one word flipped", f"{flipped} flipped, {others} other differences")
    if set(other.answer_ids) == set(query.answer_ids):
        what = "the same answer" if query.answer_ids else "neither is answerable"
        notes.add("counterfactual_same_answer", FILE, item, f"another answer than {other.query_id}", what)
