"""The resolver: the only thing that answers. Three-valued, deterministic, total.

Execution gives every instance of the scene a verdict: TRUE (member), FALSE, or UNDECIDED (a slightly different outline
would change it). Definitions: docs/release-format.md, "Three-valued execution".
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.categories import FALSE, TRUE, UNDECIDED, Taxonomy
from trigpoint.errors import ProgramError
from trigpoint.programs.language import And, Attr, Cat, Farthest, Nearest, Node, Rel
from trigpoint.rules import Rules
from trigpoint.scene_graph.graph import SceneGraph

Verdicts = NDArray[np.int8]
Margins = Callable[[int], NDArray[np.float64]]


class Answer(NamedTuple):
    """What a program denotes.

    Attributes:
        members: Instance ids that are members, sorted.
        undecided: Instance ids whose membership hangs on the outline tolerance, sorted.
    """

    members: tuple[str, ...]
    undecided: tuple[str, ...]


class Resolver:
    """Executes programs on one scene graph. Results are remembered by canonical form."""

    def __init__(self, graph: SceneGraph, taxonomy: Taxonomy, rules: Rules, unknown_is_other: Iterable[str] = ()) -> None:
        self.graph = graph
        self.taxonomy = taxonomy
        self.rules = rules
        self.unknown_is_other = frozenset(unknown_is_other)
        self._known: dict[Node, Verdicts] = {}
        self._two_tau_m = 2 * rules.outline_tolerance_px * graph.gsd_m

    def answer(self, node: Node) -> Answer:
        """Execute a program.

        Raises:
            ProgramError: an anchor denotes none, several or something undecided; an unknown relation.
            TaxonomyError: an unknown category.
        """
        verdicts = self.execute(node)
        ids = self.graph.nodes.instance_ids
        return Answer(
            tuple(sorted(ids[k] for k in np.flatnonzero(verdicts == TRUE))),
            tuple(sorted(ids[k] for k in np.flatnonzero(verdicts == UNDECIDED))),
        )

    def execute(self, node: Node) -> Verdicts:
        """Return the verdict of every instance, (n,) int8, in node order; see `answer` for errors."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._execute(node)
            known.setflags(write=False)
        return known

    def denoted(self, anchor: Node) -> int:
        """Return the position of the one instance that an anchor denotes.

        Raises:
            ProgramError: it denotes none, several, or something undecided.
        """
        verdicts = self.execute(anchor)
        members = np.flatnonzero(verdicts == TRUE)
        n_undecided = int(np.count_nonzero(verdicts == UNDECIDED))
        if len(members) != 1 or n_undecided:
            raise ProgramError(
                f"scene {self.graph.scene_id!r}: anchor {anchor.canonical()} denotes {len(members)} instances and {n_undecided} undecided,"
                " expected exactly one"
            )
        return int(members[0])

    def _execute(self, node: Node) -> Verdicts:
        match node:
            case Cat(category):
                values = self.graph.nodes.categories
                return np.array([self.taxonomy.membership(v, category, self.unknown_is_other) for v in values], dtype=np.int8)
            case And(args):
                return _all_of([self.execute(arg) for arg in args])
            case Rel(of, relation, anchor):
                if relation not in self.graph.verdicts:
                    raise ProgramError(f"relation {relation!r} is not in the graph; it has {sorted(self.graph.verdicts)}")
                position = self.denoted(anchor)
                edge = self.graph.verdicts[relation][:, position].copy()
                edge[position] = FALSE
                return _all_of([self.execute(of), edge])
            case Attr(of, key, extreme):
                return self._superlative(self.execute(of), key, extreme)
            case Nearest(of, anchor):
                return self._by_distance(of, anchor, is_nearest=True)
            case Farthest(of, anchor):
                return self._by_distance(of, anchor, is_nearest=False)

    def _superlative(self, candidates: Verdicts, key: str, extreme: str) -> Verdicts:
        nodes, tau_m = self.graph.nodes, self._two_tau_m / 2
        if key == "area":
            value = nodes.area_m2

            def margins(best: int) -> NDArray[np.float64]:
                blur = tau_m * (nodes.perimeter_m + nodes.perimeter_m[best])
                return np.maximum(self.rules.area_margin_share * value[best], blur)

        elif key == "length":
            value = nodes.length_m

            def margins(best: int) -> NDArray[np.float64]:
                return np.full(len(nodes), max(self.rules.area_margin_share * value[best], self._two_tau_m))

        else:
            value = self.graph.position_m(key)

            def margins(best: int) -> NDArray[np.float64]:
                return np.full(len(nodes), self.rules.position_margin_px * self.graph.gsd_m)

        return self._winner(candidates, value if extreme == "most" else -value, margins)

    def _by_distance(self, of: Node, anchor: Node, *, is_nearest: bool) -> Verdicts:
        position = self.denoted(anchor)
        candidates = self.execute(of).copy()
        candidates[position] = FALSE
        distance = self.graph.distance_m[:, position]
        share = self.rules.nearest_margin_share if is_nearest else self.rules.farthest_margin_share

        def margins(best: int) -> NDArray[np.float64]:
            return np.full(len(distance), max(share * distance[best], self._two_tau_m))

        return self._winner(candidates, -distance if is_nearest else distance, margins)

    def _winner(self, candidates: Verdicts, score: NDArray[np.float64], margins: Margins) -> Verdicts:
        """The one best candidate, or everything within the margin of the best sure, uncut member as UNDECIDED."""
        out = np.zeros(len(score), dtype=np.int8)
        possible = candidates != FALSE
        if not possible.any():
            return out
        sure = (candidates == TRUE) & ~self.graph.nodes.cut
        if not sure.any():
            return np.where(possible, UNDECIDED, FALSE).astype(np.int8)
        best = int(np.flatnonzero(sure)[np.argmax(score[sure])])
        contenders = possible & (score >= score[best] - margins(best))
        contenders[best] = True
        if contenders.sum() == 1:
            out[best] = TRUE
        else:
            out[contenders] = UNDECIDED
        return out


def _all_of(parts: list[Verdicts]) -> Verdicts:
    """Three-valued conjunction: FALSE settles it, else UNDECIDED does."""
    stacked = np.stack(parts)
    return np.where((stacked == FALSE).any(0), FALSE, np.where((stacked == UNDECIDED).any(0), UNDECIDED, TRUE)).astype(np.int8)
