"""Candidate programs of one scene: all are tried, executed, and kept only when every release rule holds.

Every program that the forms of the five levels allow is executed; what the rules forbid is counted by reason. Of what may be released,
levels 4 and 5 hand on at most a number per category, drawn by a generator seeded by scene: a scene has far more than any release asks.
Not here: which candidates are released (`trigpoint.programs.select`), and whether answers are stable (`trigpoint.programs.certificate`).
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import Literal, NamedTuple

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
    conjunction,
    flips_of,
    is_category,
    query_id,
    relations_of,
    selected_category,
)
from trigpoint.programs.resolver import Members, Resolver, bits_of, positions_of
from trigpoint.programs.sectors import SectorShare
from trigpoint.rules import AZIMUTH_DEG, COUNTERPART, DIRECTIONS, TOPOLOGY, is_distance

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

_BEYOND: dict[tuple[Key, Extreme], float] = {
    ("north", "most"): 0.0,
    ("east", "most"): 90.0,
    ("north", "least"): 180.0,
    ("east", "least"): 270.0,
}
"""Extreme of a position → azimuth in which nothing of its set lies beyond it."""


class Limits(NamedTuple):
    """How much of what may be released is handed on.

    Attributes:
        per_level: Candidates of levels 4 and 5 per scene and kind, shared by the categories.
        per_answer: Candidates of one level and category with the same answer.
        names_per_anchor: Ways to name one anchor.
        category_absent: Level 1 programs of absent categories per scene.
    """

    per_level: int = 400
    per_answer: int = 4
    names_per_anchor: int = 3
    category_absent: int = 2


DEFAULT_LIMITS = Limits()
"""Many times what a release asks of a scene."""


class Candidate(NamedTuple):
    """A program that may be released.

    Attributes:
        answer_ids: Sorted instance ids; empty when unanswerable.
        relations: Names of its outermost relations.
        anchor_ids: Instances its outermost anchors denote, for variety.
        n_category: Sure members of its category in the scene.
        flips: Query ids of its counterfactuals among the candidates, sorted.
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
    flips: tuple[str, ...] = ()


class Anchor(NamedTuple):
    """A name of one instance: its position and the program that denotes it."""

    position: int
    node: Node


class Generated(NamedTuple):
    """Candidates of a scene and why others were left out, by reason."""

    candidates: list[Candidate]
    rejected: dict[str, int]


def generate_candidates(
    resolver: Resolver, sector_share: SectorShare, poi_categories: frozenset[str], seed: int, limits: Limits = DEFAULT_LIMITS
) -> Generated:
    """Generate the admissible candidates of a scene, sorted by query id.

    Args:
        resolver: On the scene's graph.
        sector_share: Guards unanswerable directions against being trivial.
        poi_categories: Categories that the scene's POI tags name; none of these is called absent.
        seed: Release seed.
        limits: How many are handed on.
    """
    return _Generator(resolver, sector_share, poi_categories, seed, limits).run()


class _Room:
    """How many candidates of each kind, and with each answer, one category may still hand on at one level."""

    def __init__(self, per_kind: int, per_answer: int) -> None:
        self._per_kind, self._per_answer = max(1, per_kind), per_answer
        self._kinds: Counter[bool] = Counter()
        self._answers: Counter[int] = Counter()

    def has(self, answer: int) -> bool:
        return self._kinds[answer != 0] < self._per_kind and (answer == 0 or self._answers[answer] < self._per_answer)

    def take(self, answer: int) -> None:
        self._kinds[answer != 0] += 1
        self._answers[answer] += 1


class _Generator:
    def __init__(self, resolver: Resolver, sector_share: SectorShare, poi_categories: frozenset[str], seed: int, limits: Limits) -> None:
        self.resolver, self.graph, self.taxonomy, self.rules = resolver, resolver.graph, resolver.taxonomy, resolver.rules
        self.sector_share, self.poi_categories, self.limits = sector_share, poi_categories, limits
        self.random = seeded_generator(seed, "generate", self.graph.scene_id)
        self.rejected: Counter[str] = Counter()
        self.found: dict[str, Candidate] = {}
        self.answers: dict[Node, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        """Category → level → answers of its programs, released or not."""
        self.plain = [name for name in self.graph.verdicts if name not in TOPOLOGY]
        self.countable = bits_of(self.graph.nodes.countable)
        self.of_regions = [name for name in self.graph.verdicts if name != "contains"]

    def run(self) -> Generated:
        selectable = self._selectable_categories()
        anchors = self._direct_anchors()
        self._direct_positions = {position for position, _ in anchors}
        for category in selectable:
            self._offer(category, 1)
        # from level 2 up there must be at least two to choose from
        several = [category for category in selectable if self._n_members(category) >= 2]
        self.rejected["fewer_than_two_of_the_category"] = len(selectable) - len(several)
        for category in several:
            for key, extreme in SUPERLATIVES:
                self._offer(Attr(category, key, extreme), 2)
        relations = {category: list(self._relations(category, anchors)) for category in several}
        for category in several:
            for node in relations[category]:
                self._offer(node, 3)
            for anchor in anchors:
                self._offer(Nearest(category, anchor.node), 3)
                self._offer(Farthest(category, anchor.node), 3)
        for category in several:
            self._offer_pairs(category, relations[category], self.limits.per_level // len(several))
        hops = self._hops(several, anchors)
        for category in several:
            self._offer_hops(category, hops, self.limits.per_level // len(several))
        self._offer_flips()
        self._offer_absent()
        return Generated(self._linked(), dict(sorted(self.rejected.items())))

    # what there is to talk about

    def _selectable_categories(self) -> list[Node]:
        """Those of the countable categories that hold no region: what is selected can be counted."""
        return [node for node in self._countable_categories() if not self.resolver.execute(node).possible & ~self.countable]

    def _countable_categories(self) -> list[Node]:
        """Countable categories with members, alone and joined with the values of the further axes."""
        first = self.taxonomy.axes[0].id
        heads = [c for c in self.taxonomy.categories if c.axis == first and c.countable]
        further = [c for c in self.taxonomy.categories if c.axis != first]
        nodes: list[Node] = []
        for head in heads:
            if self._n_members(Cat(head.id)):
                joined = (conjunction((Cat(head.id), Cat(other.id))) for other in further)
                nodes += [node for node in (Cat(head.id), *joined) if self._n_members(node)]
        return nodes

    def _denoted(self, anchor: Node) -> int | None:
        """The admissible instance that an anchor denotes, or None."""
        try:
            position = self.resolver.denoted(anchor)
        except ProgramError:
            return None
        return position if self.resolver.is_admissible_anchor(position) else None

    def _direct_anchors(self) -> list[Anchor]:
        """Anchors that are named without a relation: the one of its category, or a superlative of it."""
        nodes: list[Node] = [Cat(c.id) for c in self.taxonomy.categories if c.axis == self.taxonomy.axes[0].id]
        nodes += [node for node in self._countable_categories() if isinstance(node, And)]
        present = [node for node in nodes if self._n_members(node)]
        superlatives = (Attr(node, key, extreme) for node in present for key, extreme in SUPERLATIVES)
        return self._named_anchors(itertools.chain(present, superlatives))

    def _named_anchors(self, nodes: Iterable[Node], known: Container[int] = ()) -> list[Anchor]:
        """Those that denote one admissible instance with nothing to spare, a few names per instance at most, in the order given.

        Args:
            nodes: Anchors to try.
            known: Positions that need no other name.
        """
        names: Counter[int] = Counter()
        kept: list[Anchor] = []
        for node in nodes:
            position = self._denoted(node)
            if position is None or position in known or names[position] >= self.limits.names_per_anchor:
                continue
            # the one of its category may be the one of a broader category, too: that is another name of it
            if is_category(node) or not self._is_redundant(node):
                names[position] += 1
                kept.append(Anchor(position, node))
        return kept

    def _names_to(self, position: int) -> list[str]:
        """Relations that are asked to an anchor: topology to regions alone."""
        return self.plain if self.graph.nodes.countable[position] else self.of_regions

    def _relations(self, category: Node, anchors: Iterable[Anchor]) -> Iterator[Rel]:
        for position, anchor in anchors:
            yield from (Rel(category, name, anchor) for name in self._names_to(position))

    # levels 4 and 5

    def _offer_pairs(self, category: Node, nodes: list[Rel], per_kind: int) -> None:
        """Try every pair of relations on one category."""
        found = [self.resolver.execute(node) for node in nodes]
        positions = [self.resolver.denoted(node.anchor) for node in nodes]
        names = sorted({node.relation for node in nodes})
        clash = {one: {other for other in names if not _may_join(one, other)} for one in names}
        clash_here = {one: {other for other in names if _exclude_each_other(one, other)} for one in names}
        most = self._most(category)
        lower = self._lower_answers(category, 4)
        fit: list[tuple[int, int]] = []
        n_undecided = n_trivial = n_unneeded = n_large = n_lower = 0
        answers = self.answers[category][4]
        for i, one in enumerate(nodes):
            sure, possible = found[i]
            clashing, clashing_here = clash[one.relation], clash_here[one.relation]
            for j in range(i + 1, len(nodes)):
                other = nodes[j]
                if other.relation in clashing:
                    continue
                if positions[i] == positions[j] and (one.anchor != other.anchor or other.relation in clashing_here):
                    continue
                other_sure, other_possible = found[j]
                both = sure & other_sure
                if both != possible & other_possible:
                    n_undecided += 1
                elif both == 0:
                    if sure and other_sure:
                        fit.append((i, j))
                    else:
                        n_trivial += 1
                elif (both == sure == possible) or (both == other_sure == other_possible):
                    n_unneeded += 1
                else:
                    answers.add(both)
                    if both.bit_count() > most:
                        n_large += 1
                    elif both in lower:
                        n_lower += 1
                    else:
                        fit.append((i, j))
        self.rejected.update(
            undecided_at_the_root=n_undecided,
            empty_and_trivial=n_trivial,
            a_part_is_not_needed=n_unneeded,
            answer_is_nearly_the_category=n_large,
            a_lower_level_has_this_answer=n_lower,
        )
        room = _Room(per_kind, self.limits.per_answer)
        for k in self.random.permutation(len(fit)):
            i, j = fit[int(k)]
            self._offer_if_room(conjunction((nodes[i], nodes[j])), 4, found[i].sure & found[j].sure, room)

    def _hops(self, selectable: list[Node], anchors: list[Anchor]) -> list[Anchor]:
        """Anchors that are found through a relation and cannot be named without."""
        nodes: list[Node] = []
        for inner in selectable:
            for anchor in anchors:
                nodes += [Nearest(inner, anchor.node), Farthest(inner, anchor.node)]
                for name in self._names_to(anchor.position):
                    related = Rel(inner, name, anchor.node)
                    nodes += [related, *(Attr(related, key, extreme) for key, extreme in SUPERLATIVES)]
        drawn = (nodes[int(k)] for k in self.random.permutation(len(nodes)))
        return self._named_anchors(drawn, self._direct_positions)

    def _offer_hops(self, category: Node, hops: list[Anchor], per_kind: int) -> None:
        """Try every relation of one category to every anchor that is itself found through a relation."""
        fit: list[tuple[Node, int]] = []
        for position, hop in hops:
            related: list[Node] = [Rel(category, name, hop) for name in self._names_to(position)]
            for node in (*related, Nearest(category, hop), Farthest(category, hop)):
                found = self.resolver.execute(node)
                reason = self._screen(category, 5, found)
                if reason is None:
                    fit.append((node, found.sure))
                else:
                    self.rejected[reason] += 1
        room = _Room(per_kind, self.limits.per_answer)
        for k in self.random.permutation(len(fit)):
            node, answer = fit[int(k)]
            self._offer_if_room(node, 5, answer, room)

    def _offer_if_room(self, node: Node, level: int, answer: int, room: _Room) -> None:
        if not room.has(answer):
            self.rejected["enough_of_this_category"] += 1
        elif self._offer(node, level):
            room.take(answer)

    def _offer_flips(self) -> None:
        """Try the counterfactuals of levels 4 and 5, so that those of what was drawn are there too; lower levels have all of theirs."""
        for candidate in list(self.found.values()):
            if candidate.level >= 4:
                for flip in flips_of(candidate.node):
                    if query_id(self.graph.scene_id, flip) not in self.found and self._is_askable(flip):
                        self._offer(flip, candidate.level)

    def _is_askable(self, node: Node) -> bool:
        """Whether a flip keeps the form of its level: relations that may be joined, anchors that may be named, topology of regions."""
        try:
            for part in node.args if isinstance(node, And) else (node,):
                while isinstance(part, Rel | Nearest | Farthest):
                    position = self._denoted(part.anchor)
                    if position is None or (isinstance(part, Rel) and part.relation not in self._names_to(position)):
                        return False
                    is_hop = next(relations_of(part.anchor), None) is not None
                    if is_hop and (position in self._direct_positions or self._is_redundant(part.anchor)):
                        return False
                    part = part.anchor.of if isinstance(part.anchor, Attr) else part.anchor
        except ProgramError:
            return False
        if isinstance(node, And):
            one, other = node.args
            assert isinstance(one, Rel)
            assert isinstance(other, Rel)
            if self.resolver.denoted(one.anchor) == self.resolver.denoted(other.anchor):
                # one thing under two names in one sentence would be a riddle
                return (
                    one.anchor == other.anchor
                    and _may_join(one.relation, other.relation)
                    and not _exclude_each_other(one.relation, other.relation)
                )
            return _may_join(one.relation, other.relation)
        return True

    # controls

    def _offer_absent(self) -> None:
        """Level 1 programs of categories that are absent but plausible: siblings of present ones, on closed axes."""
        first = self.taxonomy.axes[0].id
        if first not in self.resolver.unknown_is_other:
            self.rejected["category_absent_axis_has_unknowns"] += 1
            return
        heads = [c for c in self.taxonomy.categories if c.axis == first and c.countable]
        present = {c.id for c in heads if self.resolver.execute(Cat(c.id)).possible}
        parents = {self.taxonomy.get(c).parent for c in present}
        made = 0
        for category in heads:
            is_sibling = category.parent in parents and category.parent in present
            if category.id in present or not is_sibling or self._is_named_by_a_poi(category.id) or made >= self.limits.category_absent:
                continue
            self._keep(Cat(category.id), 1, "category_absent", 0, 0)
            made += 1

    def _is_named_by_a_poi(self, category_id: str) -> bool:
        return any(self.taxonomy.is_within(named, category_id) for named in self.poi_categories)

    def _linked(self) -> list[Candidate]:
        """The candidates, each with its counterfactuals: one word turned, another answer, one of the two answerable."""
        linked: list[Candidate] = []
        for identity in sorted(self.found):
            candidate = self.found[identity]
            ids = {query_id(self.graph.scene_id, flip) for flip in flips_of(candidate.node)}
            others = (self.found[other] for other in sorted(ids & self.found.keys()))
            linked.append(candidate._replace(flips=tuple(o.query_id for o in others if o.answer_ids != candidate.answer_ids)))
        return linked

    # the release rules

    def _n_members(self, category: Node) -> int:
        """Number of sure members of a category."""
        return self.resolver.execute(category).sure.bit_count()

    def _most(self, category: Node) -> float:
        """Most members that an answer of level 3 or above may have."""
        return self.rules.answer_max_share * self._n_members(category)

    def _lower_answers(self, category: Node, level: int) -> set[int]:
        return set[int]().union(*(self.answers[category][lower] for lower in range(1, level)))

    def _screen(self, category: Node, level: int, found: Members) -> str | None:
        """Say why an answer may not be released whatever its program, or None."""
        if not found.is_decided:
            return "undecided_at_the_root"
        if found.sure == 0:
            return None if level >= 3 else "empty_and_trivial"
        if level >= 3 and found.sure.bit_count() > self._most(category):
            return "answer_is_nearly_the_category"
        if any(found.sure in self.answers[category][lower] for lower in range(1, level)):
            return "a_lower_level_has_this_answer"
        return None

    def _offer(self, node: Node, level: int) -> bool:
        """Keep a program if it may be released, and say whether."""
        category = selected_category(node)
        try:
            found = self.resolver.execute(node)
        except ProgramError:
            return self._reject("anchor_denotes_none_or_several")
        reason = self._screen(category, level, found)
        if reason is not None:
            return self._reject(reason)
        if found.sure:
            # also of programs that are not released: a shorter way to the same answer exists
            self.answers[category][level].add(found.sure)
            if self._is_redundant(node):
                return self._reject("a_part_is_not_needed")
        elif not self._is_unsatisfied_but_plausible(node):
            return self._reject("empty_and_trivial")
        self._keep(node, level, "answerable" if found.sure else "relation_unsatisfied", found.sure, self._n_members(category))
        return True

    def _reject(self, reason: str) -> bool:
        self.rejected[reason] += 1
        return False

    def _is_redundant(self, node: Node) -> bool:
        """Whether a category or relation could be left out without changing the answer."""
        own = self.resolver.execute(node).sure
        for variant in self._reductions(node):
            try:
                other = self.resolver.execute(variant)
            except ProgramError:
                continue
            if other.is_decided and other.sure == own:
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
                    yield rest[0] if len(rest) == 1 else conjunction(rest)
                    yield from (conjunction((*rest, _with_anchor(args[k], anchor))) for anchor in self._reduced_anchors(args[k]))
            case Attr(of, key, extreme) if not is_category(of):
                yield of
                yield from (Attr(variant, key, extreme) for variant in self._reductions(of))
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
                yield conjunction((*rest, Cat(found.parent))) if rest else Cat(found.parent)
            elif rest and found.axis != first:
                yield rest[0] if len(rest) == 1 else conjunction(rest)

    def _is_unsatisfied_but_plausible(self, node: Node) -> bool:
        """Whether an empty answer is worth asking: the relation to that anchor holds for something else."""
        match node:
            case And(args):
                return all(self.resolver.execute(arg).sure and self._has_room(arg) for arg in args)
            case Rel(_, relation, anchor):
                others = self.resolver.edges_to(relation, self.resolver.denoted(anchor)).sure & self.countable
                return bool(others) and self._has_room(node) and not self._is_empty_by_its_words(node)
            case _:
                return False

    def _is_empty_by_its_words(self, node: Rel) -> bool:
        """Whether the sentence alone says that there is nothing: "the temples that are south of the southernmost temple"."""
        if not isinstance(node.anchor, Attr) or node.relation not in AZIMUTH_DEG:
            return False
        beyond = _BEYOND.get((node.anchor.key, node.anchor.extreme))
        if beyond is None or abs((AZIMUTH_DEG[node.relation] - beyond + 180.0) % 360.0 - 180.0) > 45.0 or not is_category(node.anchor.of):
            return False
        selected, best_of = categories_of(selected_category(node)), categories_of(node.anchor.of)
        return all(any(self.taxonomy.is_within(name, broad) for name in selected) for broad in best_of)

    def _has_room(self, node: Node) -> bool:
        """Whether enough of the valid area lies in the sector of a direction; other relations need none."""
        if not isinstance(node, Rel) or node.relation not in AZIMUTH_DEG:
            return True
        half_angle_deg = self.rules.direction_half_angle_deg if node.relation in DIRECTIONS else self.rules.wind_half_angle_deg
        share = self.sector_share(self.resolver.denoted(node.anchor), AZIMUTH_DEG[node.relation], half_angle_deg)
        return share >= self.rules.sector_min_share

    def _keep(self, node: Node, level: int, kind: Kind, answer: int, n_category: int) -> None:
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
            answer_ids=self.resolver.ids_of(answer),
            category=categories_of(category),
            relations=names,
            anchor_ids=tuple(ids[self.resolver.denoted(anchor)] for anchor in anchors),
            n_category=n_category,
            difficulty=self._difficulty(level, positions_of(answer), n_category),
        )

    def _difficulty(self, level: int, answer: list[int], n_category: int) -> str:
        rule = self.rules.difficulty
        area = float(self.graph.nodes.area_px[answer].sum()) / max(1, self.graph.valid_px)
        points = (
            int(n_category > rule.candidates)
            + int(level >= rule.level)
            + int(not answer or area < rule.area_share)
            + int(not answer or len(answer) > rule.cardinality)
        )
        return "hard" if points >= rule.hard_from else "medium" if points >= rule.medium_from else "easy"


def _may_join(one: str, other: str) -> bool:
    """Whether two relations may stand in one program of level 4: different names, and not both of distance."""
    return one != other and not (is_distance(one) and is_distance(other))


def _exclude_each_other(one: str, other: str) -> bool:
    """Whether nothing can be in both relations to one anchor: two sectors, inside and outside.

    "East of the pond and south of the pond" is empty by the sectors alone, though people would take it for south-east.
    """
    return (one in AZIMUTH_DEG and other in AZIMUTH_DEG) or COUNTERPART.get(one) == other


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
