"""Candidate programs of one scene: enumerated, executed, and kept only when every release rule holds.

Deterministic: the order is by canonical form, and where there are too many pairs to try, a generator seeded by scene draws them.
Not here: which candidates are released (`trigpoint.programs.select`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from trigpoint.categories import FALSE, TRUE, UNDECIDED
from trigpoint.errors import ProgramError
from trigpoint.identity import seeded_generator
from trigpoint.programs.language import (
    And,
    Attr,
    Cat,
    Extreme,
    Farthest,
    Key,
    Nearest,
    Node,
    Rel,
    categories_of,
    is_category,
    query_id,
    selected_category,
)
from trigpoint.programs.resolver import Resolver
from trigpoint.rules import COUNTERPART, DIRECTIONS, DISTANCES

Kind = Literal["answerable", "category_absent", "relation_unsatisfied"]

SUPERLATIVES: tuple[tuple[Key, Extreme], ...] = (
    ("area", "most"),
    ("length", "most"),
    ("north", "most"),
    ("north", "least"),
    ("east", "most"),
    ("east", "least"),
)
"""Superlatives that are asked; smallest and shortest are not: slivers win them."""

PLAIN_RELATIONS = (*DIRECTIONS, *DISTANCES)
REGION_RELATIONS = (*PLAIN_RELATIONS, "inside", "outside")
"""Relations asked of countable and of region anchors."""


class Limits(NamedTuple):
    """How many candidates to try per scene where all would be too many."""

    tries: int = 60_000
    kept_per_level: int = 600
    category_absent: int = 2


DEFAULT_LIMITS = Limits()
"""Limits that suit scenes of a few hundred instances."""


class Candidate(NamedTuple):
    """A program that may be released.

    Attributes:
        answer_ids: Sorted instance ids; empty when unanswerable.
        anchor_ids: Instances its outermost anchors denote, for variety.
        n_category: Sure members of its category in the scene.
    """

    query_id: str
    scene_id: str
    level: int
    node: Node
    kind: Kind
    answer_ids: tuple[str, ...]
    category: tuple[str, ...]
    relations: tuple[str, ...]
    anchor_ids: tuple[str, ...]
    n_category: int
    difficulty: str


class Generated(NamedTuple):
    """Candidates of a scene and why others were left out, by reason."""

    candidates: list[Candidate]
    rejected: dict[str, int]


SectorShare = Callable[[int, str], float]
"""(anchor position, direction) → share of the scene's valid area in that sector."""


def generate_candidates(
    resolver: Resolver, sector_share: SectorShare, poi_categories: frozenset[str], seed: int, limits: Limits = DEFAULT_LIMITS
) -> Generated:
    """Generate every admissible candidate of a scene.

    Args:
        resolver: On the scene's graph.
        sector_share: Guards unanswerable directions against being trivial.
        poi_categories: Categories that the scene's POI tags name; none of these is called absent.
        seed: Release seed.
        limits: Bounds for pairs and hops.
    """
    return _Generator(resolver, sector_share, poi_categories, seed, limits).run()


class _Cap:
    """How many candidates of each kind one category may still give, so that no kind or category crowds out another."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._kept: Counter[str] = Counter()

    def has_room(self, kind: Kind) -> bool:
        return self._kept[kind] < self._most

    def count(self, kind: Kind) -> None:
        self._kept[kind] += 1

    @property
    def is_full(self) -> bool:
        return all(self._kept[kind] >= self._most for kind in ("answerable", "relation_unsatisfied"))


class _Generator:
    def __init__(self, resolver: Resolver, sector_share: SectorShare, poi_categories: frozenset[str], seed: int, limits: Limits) -> None:
        self.resolver, self.graph, self.taxonomy, self.rules = resolver, resolver.graph, resolver.taxonomy, resolver.rules
        self.sector_share, self.poi_categories, self.limits = sector_share, poi_categories, limits
        self.random = seeded_generator(seed, "generate", self.graph.scene_id)
        self.rejected: Counter[str] = Counter()
        self.found: dict[str, Candidate] = {}
        self.answers: dict[tuple[str, int], set[tuple[str, ...]]] = {}

    def run(self) -> Generated:
        selectable = self._selectable_categories()
        anchors = self._direct_anchors()
        for category in selectable:
            self._offer(category, 1)
        # from level 2 up there must be at least two to choose from
        several = [category for category in selectable if self._n_members(category) >= 2]
        self.rejected["fewer_than_two_of_the_category"] = len(selectable) - len(several)
        selectable = several
        for category in selectable:
            for key, extreme in SUPERLATIVES:
                self._offer(Attr(category, key, extreme), 2)
        relations = {category: list(self._relations(category, anchors)) for category in selectable}
        for category in selectable:
            for node in relations[category]:
                self._offer(node, 3)
            for _, anchor in anchors:
                self._offer(Nearest(category, anchor), 3)
                self._offer(Farthest(category, anchor), 3)
        self._offer_pairs(relations)
        self._offer_hops(selectable, anchors)
        self._offer_absent()
        return Generated(sorted(self.found.values(), key=lambda c: c.query_id), dict(sorted(self.rejected.items())))

    # what there is to talk about

    def _selectable_categories(self) -> list[Node]:
        """Countable categories with members, alone and joined with the values of the further axes."""
        first = self.taxonomy.axes[0].id
        heads = [c for c in self.taxonomy.categories if c.axis == first and c.countable]
        further = [c for c in self.taxonomy.categories if c.axis != first]
        nodes: list[Node] = []
        for head in heads:
            if (self.resolver.execute(Cat(head.id)) == TRUE).any():
                nodes.append(Cat(head.id))
                for other in further:
                    joined = And((Cat(head.id), Cat(other.id)))
                    if (self.resolver.execute(joined) == TRUE).any():
                        nodes.append(joined)
        return nodes

    def _is_admissible_anchor(self, position: int) -> bool:
        nodes = self.graph.nodes
        if nodes.countable[position] and nodes.cut[position]:
            return False
        return bool(nodes.area_px[position] <= self.rules.anchor_max_scene_share * self.graph.valid_px)

    def _denoted(self, anchor: Node) -> int | None:
        """The admissible instance that an anchor denotes, or None."""
        try:
            position = self.resolver.denoted(anchor)
        except ProgramError:
            return None
        return position if self._is_admissible_anchor(position) else None

    def _direct_anchors(self) -> list[tuple[int, Node]]:
        """Anchors that are named without a relation: the one of its category, or a superlative of it; one name per instance."""
        nodes: list[Node] = [Cat(c.id) for c in self.taxonomy.categories if c.axis == self.taxonomy.axes[0].id]
        nodes += [node for node in self._selectable_categories() if isinstance(node, And)]
        present = [node for node in nodes if (self.resolver.execute(node) == TRUE).any()]
        names: dict[int, Node] = {}
        for node in present:
            position = self._denoted(node)
            if position is not None:
                names.setdefault(position, node)
        for node in present:
            for key, extreme in SUPERLATIVES:
                superlative = Attr(node, key, extreme)
                position = self._denoted(superlative)
                if position is not None and position not in names and not self._is_redundant(superlative):
                    names[position] = superlative
        return list(names.items())

    def _relations(self, category: Node, anchors: Iterable[tuple[int, Node]]) -> Iterator[Rel]:
        for position, anchor in anchors:
            names = PLAIN_RELATIONS if self.graph.nodes.countable[position] else REGION_RELATIONS
            for name in names:
                if name in self.graph.verdicts:
                    yield Rel(category, name, anchor)

    # levels 4 and 5

    def _offer_pairs(self, relations: dict[Node, list[Rel]]) -> None:
        for nodes in relations.values():
            n = len(nodes)
            cap = _Cap(self.limits.kept_per_level // len(relations))
            for i, j in self._distinct_pairs(n, min(self.limits.tries // len(relations), n * (n - 1) // 2)):
                one, other = nodes[i], nodes[j]
                if one.relation == other.relation or (one.relation in DISTANCES and other.relation in DISTANCES):
                    continue
                if one.anchor == other.anchor and _exclude_each_other(one.relation, other.relation):
                    continue
                self._offer(And(tuple(sorted((one, other), key=lambda a: a.canonical()))), 4, cap)
                if cap.is_full:
                    break

    def _distinct_pairs(self, n: int, tries: int) -> list[tuple[int, int]]:
        total = n * (n - 1) // 2
        if total == 0:
            return []
        chosen = np.arange(total) if tries >= total else np.sort(self.random.choice(total, size=tries, replace=False))
        rows, cols = np.triu_indices(n, 1)
        pairs = [(int(rows[k]), int(cols[k])) for k in chosen]
        return [pairs[k] for k in self.random.permutation(len(pairs))]

    def _offer_hops(self, selectable: list[Node], anchors: list[tuple[int, Node]]) -> None:
        direct = {position for position, _ in anchors}
        hops: list[tuple[int, Node]] = []
        for inner in selectable:
            for position, anchor in anchors:
                names = REGION_RELATIONS if not self.graph.nodes.countable[position] else PLAIN_RELATIONS
                hop_nodes: list[Node] = [Nearest(inner, anchor), Farthest(inner, anchor)]
                hop_nodes += [Rel(inner, name, anchor) for name in names if name in self.graph.verdicts]
                for node in hop_nodes:
                    found = self._denoted(node)
                    if found is not None and found not in direct and not self._is_redundant(node):
                        hops.append((found, node))
        for category in selectable:
            cap = _Cap(self.limits.kept_per_level // len(selectable))
            candidates: list[Node] = []
            for _, hop in hops:
                candidates += [Rel(category, name, hop) for name in PLAIN_RELATIONS if name in self.graph.verdicts]
                candidates += [Nearest(category, hop), Farthest(category, hop)]
            for k in self.random.permutation(len(candidates))[: self.limits.tries // len(selectable)]:
                self._offer(candidates[int(k)], 5, cap)
                if cap.is_full:
                    break

    # controls

    def _offer_absent(self) -> None:
        """Level 1 programs of categories that are absent but plausible: siblings of present ones, on closed axes."""
        first = self.taxonomy.axes[0].id
        if first not in self.resolver.unknown_is_other:
            self.rejected["category_absent_axis_has_unknowns"] += 1
            return
        heads = [c for c in self.taxonomy.categories if c.axis == first and c.countable]
        present = {c.id for c in heads if (self.resolver.execute(Cat(c.id)) != FALSE).any()}
        parents = {self.taxonomy.get(c).parent for c in present}
        made = 0
        for category in heads:
            is_sibling = category.parent in parents and category.parent in present
            if category.id in present or not is_sibling or self._is_named_by_a_poi(category.id) or made >= self.limits.category_absent:
                continue
            node = Cat(category.id)
            self._keep(node, 1, "category_absent", (), 0)
            made += 1

    def _is_named_by_a_poi(self, category_id: str) -> bool:
        return any(self.taxonomy.is_within(named, category_id) for named in self.poi_categories)

    # the release rules

    def _n_members(self, category: Node) -> int:
        """Number of sure members of a category."""
        return int(np.count_nonzero(self.resolver.execute(category) == TRUE))

    def _offer(self, node: Node, level: int, cap: "_Cap | None" = None) -> None:
        """Keep a program if it may be released."""
        category = selected_category(node)
        n_category = self._n_members(category)
        try:
            verdicts = self.resolver.execute(node)
        except ProgramError:
            return self._reject("anchor_denotes_none_or_several")
        if (verdicts == UNDECIDED).any():
            return self._reject("undecided_at_the_root")
        ids = self.graph.nodes.instance_ids
        members = tuple(sorted(ids[k] for k in np.flatnonzero(verdicts == TRUE)))
        kind: Kind = "answerable" if members else "relation_unsatisfied"
        if cap is not None and not cap.has_room(kind):
            return self._reject("enough_of_this_category")
        if members:
            if level >= 3 and len(members) > self.rules.answer_max_share * n_category:
                return self._reject("answer_is_nearly_the_category")
            if any(members in self.answers.get((category.canonical(), lower), set()) for lower in range(1, level)):
                return self._reject("a_lower_level_has_this_answer")
            # also of programs that are not released: a shorter way to the same answer exists
            self.answers.setdefault((category.canonical(), level), set()).add(members)
            if self._is_redundant(node):
                return self._reject("a_part_is_not_needed")
        elif level not in (3, 4, 5) or not self._is_unsatisfied_but_plausible(node):
            return self._reject("empty_and_trivial")
        self._keep(node, level, kind, members, n_category)
        if cap is not None:
            cap.count(kind)
        return None

    def _reject(self, reason: str) -> None:
        self.rejected[reason] += 1

    def _is_redundant(self, node: Node) -> bool:
        """Whether a category or relation could be left out without changing the answer."""
        own = self.resolver.execute(node)
        for variant in self._reductions(node):
            try:
                other = self.resolver.execute(variant)
            except ProgramError:
                continue
            if np.array_equal(own == TRUE, other == TRUE) and not (other == UNDECIDED).any():
                return True
        return False

    def _reductions(self, node: Node) -> Iterator[Node]:
        """Every program with one category made broader or one relation dropped.

        The selected category is one thing, also where two relations share it: it is made broader in all places at once.
        """
        if is_category(node):
            yield from self._broader(node)
            return
        for wider in self._broader(selected_category(node)):
            yield _with_category(node, wider)
        match node:
            case And(args):
                for k in range(len(args)):
                    rest = args[:k] + args[k + 1 :]
                    yield rest[0] if len(rest) == 1 else And(rest)
                    yield from (And((*rest, _with_anchor(args[k], anchor))) for anchor in self._reduced_anchors(args[k]))
            case Attr(of) | Rel(of) | Nearest(of) | Farthest(of):
                yield of
                yield from (_with_anchor(node, anchor) for anchor in self._reduced_anchors(node))
            case Cat():
                return

    def _reduced_anchors(self, node: Node) -> Iterator[Node]:
        if isinstance(node, Rel | Nearest | Farthest):
            yield from self._reductions(node.anchor)

    def _broader(self, category: Node) -> Iterator[Node]:
        """Broader categories: the parent on one axis, or a further axis left out; the first axis always stays, it has the noun."""
        parts = categories_of(category)
        first = self.taxonomy.axes[0].id
        for name in parts:
            rest = tuple(Cat(other) for other in parts if other != name)
            found = self.taxonomy.get(name)
            if found.parent is not None:
                yield And((*rest, Cat(found.parent))) if rest else Cat(found.parent)
            elif rest and found.axis != first:
                yield rest[0] if len(rest) == 1 else And(rest)

    def _is_unsatisfied_but_plausible(self, node: Node) -> bool:
        """Whether an empty answer is worth asking: the relation to that anchor holds for something else."""
        match node:
            case And(args):
                return all((self.resolver.execute(arg) == TRUE).any() and self._has_room(arg) for arg in args)
            case Rel(_, relation, anchor):
                edge = self.graph.verdicts[relation][:, self.resolver.denoted(anchor)]
                return bool(((edge == TRUE) & self.graph.nodes.countable).any()) and self._has_room(node)
            case _:
                return False

    def _has_room(self, node: Node) -> bool:
        """Whether enough of the valid area lies in the sector of a direction; other relations need none."""
        if not isinstance(node, Rel) or node.relation not in DIRECTIONS:
            return True
        return self.sector_share(self.resolver.denoted(node.anchor), node.relation) >= self.rules.sector_min_share

    def _keep(self, node: Node, level: int, kind: Kind, members: tuple[str, ...], n_category: int) -> None:
        category = selected_category(node)
        outer = [arg for arg in node.args if isinstance(arg, Rel)] if isinstance(node, And) else [node]
        anchors = [arg.anchor for arg in outer if isinstance(arg, Rel | Nearest | Farthest)]
        names = tuple(sorted(_outer_name(arg) for arg in outer))
        ids = self.graph.nodes.instance_ids
        identity = query_id(self.graph.scene_id, node)
        self.found[identity] = Candidate(
            query_id=identity,
            scene_id=self.graph.scene_id,
            level=level,
            node=node,
            kind=kind,
            answer_ids=members,
            category=categories_of(category),
            relations=names,
            anchor_ids=tuple(ids[self.resolver.denoted(anchor)] for anchor in anchors),
            n_category=n_category,
            difficulty=self._difficulty(level, members, n_category),
        )

    def _difficulty(self, level: int, members: tuple[str, ...], n_category: int) -> str:
        rule = self.rules.difficulty
        index = self.graph.index
        area = sum(float(self.graph.nodes.area_px[index[m]]) for m in members) / max(1, self.graph.valid_px)
        points = (
            int(n_category > rule.candidates)
            + int(level >= rule.level)
            + int(not members or area < rule.area_share)
            + int(not members or len(members) > rule.cardinality)
        )
        return "hard" if points >= rule.hard_from else "medium" if points >= rule.medium_from else "easy"


def _exclude_each_other(one: str, other: str) -> bool:
    """Whether nothing can be in both relations to one anchor: two of the four sectors, inside and outside.

    "East of the pond and south of the pond" is empty by the sectors alone, though people would take it for south-east.
    """
    return (one in DIRECTIONS and other in DIRECTIONS) or COUNTERPART.get(one) == other


def _with_category(node: Node, category: Node) -> Node:
    """Put another selected category in; anchors stay."""
    match node:
        case And(args) if not is_category(node):
            return And(tuple(_with_category(arg, category) for arg in args))
        case Attr(of, key, extreme):
            return Attr(_with_category(of, category), key, extreme)
        case Rel(of, relation, anchor):
            return Rel(_with_category(of, category), relation, anchor)
        case Nearest(of, anchor):
            return Nearest(_with_category(of, category), anchor)
        case Farthest(of, anchor):
            return Farthest(_with_category(of, category), anchor)
        case _:
            return category


def _with_anchor(node: Node, anchor: Node) -> Node:
    """Put another anchor in the outermost relation; a node without one stays."""
    match node:
        case Rel(of, relation, _):
            return Rel(of, relation, anchor)
        case Nearest(of, _):
            return Nearest(of, anchor)
        case Farthest(of, _):
            return Farthest(of, anchor)
        case _:
            return node


def _outer_name(node: Node) -> str:
    match node:
        case Rel(_, relation, _):
            return relation
        case Attr(_, key, extreme):
            return f"{extreme}_{key}"
        case _:
            return type(node).__name__.lower()
