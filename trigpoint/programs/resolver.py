"""The resolver: the only thing that answers a program. Three-valued, total, deterministic.

Membership is held in two bitsets per program: what is surely a member, and what may be one (TRUE and UNDECIDED together), so that a
conjunction is two integer operations whatever the number of instances. Definitions: docs/release-format.md, "Three-valued execution".
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.categories import FALSE, TRUE, UNDECIDED, Taxonomy
from trigpoint.errors import ProgramError
from trigpoint.programs.language import And, Attr, Cat, Farthest, Nearest, Node, Rel
from trigpoint.rules import Rules
from trigpoint.scene_graph.graph import SceneGraph

Margins = Callable[[int], NDArray[np.float64] | float]


class Answer(NamedTuple):
    """What a program denotes.

    Attributes:
        members: Instance ids that are members, sorted.
        undecided: Instance ids whose membership hangs on the outline tolerance, sorted.
    """

    members: tuple[str, ...]
    undecided: tuple[str, ...]


class Members(NamedTuple):
    """The members of a program as bitsets; bit k stands for node k.

    Attributes:
        sure: Instances that are members (TRUE).
        possible: Instances that are or may be members (TRUE and UNDECIDED); holds all of `sure`.
    """

    sure: int
    possible: int

    @property
    def is_decided(self) -> bool:
        """Whether nothing is undecided."""
        return self.sure == self.possible

    def intersect(self, other: "Members") -> "Members":
        """Return the members of both: FALSE in one settles it, else UNDECIDED does."""
        return Members(self.sure & other.sure, self.possible & other.possible)

    def without(self, position: int) -> "Members":
        """Return the same members but one."""
        keep = ~(1 << position)
        return Members(self.sure & keep, self.possible & keep)


NOTHING = Members(0, 0)


def bits_of(flags: NDArray[np.bool_]) -> int:
    """Pack a (n,) bool array into a bitset.

    >>> bin(bits_of(np.array([True, False, True])))
    '0b101'
    """
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def positions_of(bits: int) -> list[int]:
    """Return the positions in a bitset, ascending.

    >>> positions_of(0b101)
    [0, 2]
    """
    found: list[int] = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


class Resolver:
    """Executes programs on one scene graph. Results are remembered by program.

    Args:
        graph: The scene's graph.
        taxonomy: Says what belongs to a category.
        rules: Margins.
        unknown_is_other: Axes whose missing values mean "none of these".
        is_sharp: Decide superlatives and distances without margins, as the certificate does on a graph measured likewise.
    """

    def __init__(
        self, graph: SceneGraph, taxonomy: Taxonomy, rules: Rules, unknown_is_other: Iterable[str] = (), *, is_sharp: bool = False
    ) -> None:
        self.graph = graph
        self.taxonomy = taxonomy
        self.rules = rules
        self.unknown_is_other = frozenset(unknown_is_other)
        self._margin_scale = 0.0 if is_sharp else 1.0
        self._known: dict[Node, Members] = {}
        self._columns: dict[tuple[str, int], Members] = {}
        self._listed: dict[int, NDArray[np.intp]] = {}
        self._scores: dict[str, NDArray[np.float64]] = {}
        self._kinds: dict[tuple[str, ...], int] = {}
        for k, values in enumerate(graph.nodes.categories):
            self._kinds[values] = self._kinds.get(values, 0) | 1 << k
        self._uncut = bits_of(~graph.nodes.cut)
        self._two_tau_m = 2 * rules.outline_tolerance_px * graph.gsd_m

    def answer(self, node: Node) -> Answer:
        """Execute a program.

        Raises:
            ProgramError: an anchor denotes none, several or something undecided; an unknown relation.
            TaxonomyError: an unknown category.
        """
        found = self.execute(node)
        return Answer(self.ids_of(found.sure), self.ids_of(found.possible & ~found.sure))

    def ids_of(self, bits: int) -> tuple[str, ...]:
        """Return the instance ids of a bitset, sorted."""
        ids = self.graph.nodes.instance_ids
        return tuple(sorted(ids[k] for k in positions_of(bits)))

    def execute(self, node: Node) -> Members:
        """Return the members of a program; see `answer` for errors."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._execute(node)
        return known

    def verdicts(self, node: Node) -> NDArray[np.int8]:
        """Return the verdict of every instance, (n,) int8, in node order; see `answer` for errors."""
        found = self.execute(node)
        out = np.full(len(self.graph.nodes), FALSE, dtype=np.int8)
        out[positions_of(found.possible)] = UNDECIDED
        out[positions_of(found.sure)] = TRUE
        return out

    def denoted(self, anchor: Node) -> int:
        """Return the position of the one instance that an anchor denotes.

        Raises:
            ProgramError: it denotes none, several, or something undecided.
        """
        found = self.execute(anchor)
        if found.sure != found.possible or found.sure.bit_count() != 1:
            n_undecided = (found.possible & ~found.sure).bit_count()
            raise ProgramError(
                f"scene {self.graph.scene_id!r}: anchor {anchor.canonical()} denotes {found.sure.bit_count()} instances and {n_undecided}"
                " undecided, expected exactly one"
            )
        return found.sure.bit_length() - 1

    def is_admissible_anchor(self, position: int) -> bool:
        """Whether an instance may be an anchor: a countable one is seen whole, and none dominates the scene."""
        nodes = self.graph.nodes
        if nodes.countable[position] and nodes.cut[position]:
            return False
        return bool(nodes.area_px[position] <= self.rules.anchor_max_scene_share * self.graph.valid_px)

    def edges_to(self, relation: str, position: int) -> Members:
        """Return what stands in a relation to one instance, whatever its category.

        Raises:
            ProgramError: the graph has no such relation.
        """
        known = self._columns.get((relation, position))
        if known is None:
            if relation not in self.graph.verdicts:
                raise ProgramError(f"relation {relation!r} is not in the graph; it has {sorted(self.graph.verdicts)}")
            column = self.graph.edge_column(relation, position)
            known = Members(bits_of(column == TRUE), bits_of(column != FALSE)).without(position)
            self._columns[relation, position] = known
        return known

    def _execute(self, node: Node) -> Members:
        match node:
            case Cat(category):
                return self._category(category)
            case And(args):
                found = self.execute(args[0])
                for arg in args[1:]:
                    found = found.intersect(self.execute(arg))
                return found
            case Rel(of, relation, anchor):
                return self.execute(of).intersect(self.edges_to(relation, self.denoted(anchor)))
            case Attr(of, key, extreme):
                return self._superlative(self.execute(of), key, extreme)
            case Nearest(of, anchor):
                return self._by_distance(of, anchor, is_nearest=True)
            case Farthest(of, anchor):
                return self._by_distance(of, anchor, is_nearest=False)

    def _category(self, category: str) -> Members:
        sure = possible = 0
        for values, bits in self._kinds.items():
            verdict = self.taxonomy.membership(values, category, self.unknown_is_other)
            if verdict != FALSE:
                possible |= bits
            if verdict == TRUE:
                sure |= bits
        return Members(sure, possible)

    def _score(self, key: str) -> NDArray[np.float64]:
        if key not in self._scores:
            nodes = self.graph.nodes
            self._scores[key] = nodes.area_m2 if key == "area" else nodes.length_m if key == "length" else self.graph.position_m(key)
        return self._scores[key]

    def _superlative(self, candidates: Members, key: str, extreme: str) -> Members:
        nodes, value, tau_m = self.graph.nodes, self._score(key), self._two_tau_m / 2

        def margins(best: int) -> NDArray[np.float64] | float:
            if key == "area":
                blur = tau_m * (nodes.perimeter_m + nodes.perimeter_m[best])
                return np.maximum(self.rules.area_margin_share * value[best], blur)
            if key == "length":
                return max(self.rules.area_margin_share * value[best], self._two_tau_m)
            return self.rules.position_margin_px * self.graph.gsd_m

        return self._winner(candidates, value if extreme == "most" else -value, margins)

    def _by_distance(self, of: Node, anchor: Node, *, is_nearest: bool) -> Members:
        position = self.denoted(anchor)
        distance = self.graph.distance_column(position)
        share = self.rules.nearest_margin_share if is_nearest else self.rules.farthest_margin_share

        def margins(best: int) -> float:
            return max(share * float(distance[best]), self._two_tau_m)

        return self._winner(self.execute(of).without(position), -distance if is_nearest else distance, margins)

    def _winner(self, candidates: Members, score: NDArray[np.float64], margins: Margins) -> Members:
        """The one best candidate, or everything within the margin of the best sure, uncut member as UNDECIDED."""
        if not candidates.possible:
            return NOTHING
        sure = self._positions(candidates.sure & self._uncut)
        if not len(sure):
            return Members(0, candidates.possible)
        best = int(sure[np.argmax(score[sure])])
        possible = self._positions(candidates.possible)
        margin: Any = margins(best)
        margin = self._margin_scale * (margin[possible] if isinstance(margin, np.ndarray) else margin)
        contenders = np.asarray(score[possible] >= score[best] - margin)
        if np.count_nonzero(contenders) <= 1:
            return Members(1 << best, 1 << best)
        return Members(0, sum(1 << int(k) for k in possible[contenders]))

    def _positions(self, bits: int) -> NDArray[np.intp]:
        """Positions in a bitset, ascending; remembered, since candidates are the same few categories again and again."""
        known = self._listed.get(bits)
        if known is None:
            known = self._listed[bits] = np.array(positions_of(bits), dtype=np.intp)
        return known
