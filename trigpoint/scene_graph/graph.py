"""The scene graph as arrays: what the resolver asks, and what is stored.

Not here: measuring (`trigpoint.scene_graph.build`), programs (`trigpoint.programs`).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trigpoint.categories import FALSE, TRUE, UNDECIDED
from trigpoint.errors import InputError
from trigpoint.rules import AZIMUTH_DEG, DIRECTIONS, inverse_of, within_limit_m

VERDICT_NAMES = {TRUE: "TRUE", UNDECIDED: "UNDECIDED"}
"""Names of the verdicts that are stored; FALSE is what is not stored."""

EDGE_SCHEMA = pa.schema(
    [
        ("scene_id", pa.string()),
        ("subject_id", pa.string()),
        ("anchor_id", pa.string()),
        ("relation", pa.string()),
        ("verdict", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("margin", pa.float64()),
    ]
)
"""Columns of relations.parquet."""


@dataclass(frozen=True)
class Nodes:
    """The instances of a scene, in index order (countable by label, then regions by plane).

    Attributes:
        instance_ids: (n,) ids.
        categories: One tuple of category values per instance.
        countable: (n,) bool. cut: (n,) bool.
        area_m2, area_px, perimeter_m, length_m: (n,) float64, true ground units.
        centroid_m: (n, 2) of the measuring outline, local ground metres (grid east, grid north).
    """

    instance_ids: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    countable: NDArray[np.bool_]
    cut: NDArray[np.bool_]
    area_m2: NDArray[np.float64]
    area_px: NDArray[np.float64]
    perimeter_m: NDArray[np.float64]
    length_m: NDArray[np.float64]
    centroid_m: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.instance_ids)


def nodes_from_rows(rows: Sequence[Mapping[str, Any]]) -> Nodes:
    """Make graph nodes of rows with the columns of instances.parquet, in their order."""

    def numbers(key: str) -> NDArray[np.float64]:
        return np.array([row[key] for row in rows], dtype=np.float64)

    return Nodes(
        instance_ids=tuple(row["instance_id"] for row in rows),
        categories=tuple(tuple(row["category"]) for row in rows),
        countable=np.array([row["countable"] for row in rows], dtype=bool),
        cut=np.array([row["cut"] for row in rows], dtype=bool),
        area_m2=numbers("area_m2"),
        area_px=numbers("area_px"),
        perimeter_m=numbers("perimeter_m"),
        length_m=numbers("length_m"),
        centroid_m=np.column_stack([numbers("centroid_x_m"), numbers("centroid_y_m")]),
    )


@dataclass(frozen=True)
class SceneGraph:
    """Nodes, verdict matrices and distances of one scene; of n instances, m are measured as anchors (all unless `anchors` says which).

    Attributes:
        scene_id: Its scene.
        nodes: The instances.
        gsd_m: True ground metres per pixel. convergence_deg: At the scene's centre.
        valid_px: Valid pixels of the scene.
        verdicts: relation → (n, m) int8, [subject, anchor]: FALSE, TRUE or UNDECIDED.
        distance_m: (n, m) between outlines; 0 to itself.
        values, margins: relation → (n, m) measured value and margin, NaN where nothing was measured.
        units: relation → unit of its values.
        anchors: (m,) positions of the measured anchors, sorted; None when every instance is one.
        limits_m: Distance relation → its threshold in metres; empty for a graph read back from its edges.
    """

    scene_id: str
    nodes: Nodes
    gsd_m: float
    convergence_deg: float
    valid_px: int
    verdicts: Mapping[str, NDArray[np.int8]]
    distance_m: NDArray[np.float64]
    values: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    margins: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    anchors: NDArray[np.int64] | None = None
    limits_m: Mapping[str, float] = field(default_factory=dict)

    @property
    def index(self) -> dict[str, int]:
        """Instance id → position."""
        return {instance_id: k for k, instance_id in enumerate(self.nodes.instance_ids)}

    def _column(self, position: int) -> int:
        """Column of an anchor in the matrices."""
        if self.anchors is None:
            return position
        column = int(np.searchsorted(self.anchors, position))
        if column == len(self.anchors) or self.anchors[column] != position:
            raise InputError(
                f"scene {self.scene_id!r}: position {position} ({self.nodes.instance_ids[position]!r}) was not measured as an anchor;"
                f" this graph has {len(self.anchors)} of {len(self.nodes)}"
            )
        return column

    def edge_column(self, relation: str, position: int) -> NDArray[np.int8]:
        """Return the verdicts (n,) of a relation of every instance to the one at `position`, as a view.

        Raises:
            InputError: the anchor was not measured.
            KeyError: the graph does not have the relation.
        """
        return self.verdicts[relation][:, self._column(position)]

    def distance_column(self, position: int) -> NDArray[np.float64]:
        """Return the distances (n,) in metres of every outline to the one at `position`, as a view.

        Raises:
            InputError: the anchor was not measured.
        """
        return self.distance_m[:, self._column(position)]

    def position_m(self, key: str) -> NDArray[np.float64]:
        """Centroids along true north (`north`) or true east (`east`) at the scene's centre, metres, (n,)."""
        x, y = self.nodes.centroid_m.T
        turn = math.radians(self.convergence_deg)
        return y * math.cos(turn) - x * math.sin(turn) if key == "north" else x * math.cos(turn) + y * math.sin(turn)

    def to_edges(self) -> pa.Table:
        """Return every measured TRUE and UNDECIDED edge as a table (`EDGE_SCHEMA`), sorted by subject, anchor, relation."""
        ids = np.array(self.nodes.instance_ids, dtype=object)
        names = sorted(self.verdicts)
        subject, anchor, relation, verdict, value, margin = [], [], [], [], [], []
        for k, name in enumerate(names):
            rows, cols = np.nonzero(self.verdicts[name])
            subject.append(rows)
            anchor.append(cols if self.anchors is None else self.anchors[cols])
            relation.append(np.full(len(rows), k))
            verdict.append(self.verdicts[name][rows, cols])
            value.append(self.values[name][rows, cols])
            margin.append(self.margins[name][rows, cols])
        rank = np.argsort(np.argsort(ids.astype(str))) if len(ids) else np.zeros(0, dtype=int)
        s, a, r = (np.concatenate(part) if part else np.zeros(0, dtype=int) for part in (subject, anchor, relation))
        order = np.lexsort((r, rank[a], rank[s])) if len(s) else np.zeros(0, dtype=int)
        s, a, r = s[order], a[order], r[order]
        v, m, t = (np.concatenate(part)[order] if part else np.zeros(0) for part in (value, margin, verdict))
        units = np.array([self.units.get(name, "") for name in names], dtype=object)
        verdict_names = np.array(["FALSE", "TRUE", "UNDECIDED"], dtype=object)
        return pa.table(
            {
                "scene_id": pa.array([self.scene_id] * len(s), pa.string()),
                "subject_id": pa.array(ids[s], pa.string()),
                "anchor_id": pa.array(ids[a], pa.string()),
                "relation": pa.array(np.array(names, dtype=object)[r] if names else [], pa.string()),
                "verdict": pa.array(verdict_names[t.astype(int)], pa.string()),
                "value": pa.array(v, pa.float64(), mask=np.isnan(v)),
                "unit": pa.array(units[r] if names else [], pa.string()),
                "margin": pa.array(m, pa.float64(), mask=np.isnan(m)),
            },
            schema=EDGE_SCHEMA,
        )


def verdicts_from_edges(edges: pa.Table, instance_ids: Sequence[str], relations: Sequence[str]) -> dict[str, NDArray[np.int8]]:
    """Rebuild verdict matrices from stored edges."""
    n = len(instance_ids)
    index = {instance_id: k for k, instance_id in enumerate(instance_ids)}
    out = {name: np.zeros((n, n), dtype=np.int8) for name in relations}
    names = edges.column("relation").to_numpy(zero_copy_only=False)
    subjects = np.array([index[v] for v in edges.column("subject_id").to_pylist()], dtype=int)
    anchors = np.array([index[v] for v in edges.column("anchor_id").to_pylist()], dtype=int)
    verdicts = np.where(edges.column("verdict").to_numpy(zero_copy_only=False) == "TRUE", TRUE, UNDECIDED).astype(np.int8)
    for name in relations:
        chosen = names == name
        out[name][subjects[chosen], anchors[chosen]] = verdicts[chosen]
    return out


def _exclusions(relations: Iterable[str], limits_m: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Pairs of relations of which at most one is TRUE of a pair: no place lies in both sectors, or within both distances."""
    half = {name: 45.0 if name in DIRECTIONS else 22.5 for name in AZIMUTH_DEG}
    for one, other in combinations([name for name in relations if name in AZIMUTH_DEG], 2):
        apart = abs((AZIMUTH_DEG[one] - AZIMUTH_DEG[other] + 180.0) % 360.0 - 180.0)
        if apart > half[one] + half[other]:
            yield one, other
    yield from (("near", "far"), ("touches", "far"), ("inside", "outside"))
    yield from ((name, "far") for name, limit in limits_m.items() if within_limit_m(name) and limit < limits_m["far"])


def _implications(limits_m: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Pairs of relations where the first TRUE means that the second is not FALSE: a wider distance."""
    upper = {name: limit for name, limit in limits_m.items() if name != "far"}
    for name, limit in upper.items():
        yield from ((name, wider) for wider, more in upper.items() if within_limit_m(wider) and more >= limit and wider != name)


def algebra_violations(graph: SceneGraph) -> list[str]:
    """Check inverse, symmetry, disjointness and order between measured anchors; return one line per violation (empty: consistent).

    Between countable instances, a direction TRUE means that the opposite direction of the reverse pair is not FALSE. `inside`/`contains`
    and the symmetric relations agree exactly. Opposite directions and distances exclude each other; what is `near` or within a distance is
    within every greater one.
    """
    chosen = np.arange(len(graph.nodes)) if graph.anchors is None else graph.anchors
    verdicts = {name: matrix[chosen] for name, matrix in graph.verdicts.items()} if graph.anchors is not None else graph.verdicts
    ids = [graph.nodes.instance_ids[k] for k in chosen]
    both = np.outer(graph.nodes.countable[chosen], graph.nodes.countable[chosen])
    found: list[str] = []

    def report(text: str, where: NDArray[np.bool_]) -> None:
        found.extend(f"{graph.scene_id}: {text} for {ids[i]} -> {ids[j]}" for i, j in np.argwhere(where)[:20])

    for name, matrix in verdicts.items():
        report(f"{name} of itself", np.eye(len(ids), dtype=bool) & (matrix != FALSE))
        inverse = inverse_of(name)
        if inverse is None or inverse not in verdicts:
            continue
        reverse = verdicts[inverse].T
        if name in AZIMUTH_DEG:
            report(f"{name} TRUE but reverse {inverse} FALSE", both & (matrix == TRUE) & (reverse == FALSE))
        else:
            report(f"{name} and reverse {inverse} differ", matrix != reverse)
    for one, other in _exclusions(verdicts, graph.limits_m):
        if one in verdicts and other in verdicts:
            report(f"{one} and {other} both TRUE", (verdicts[one] == TRUE) & (verdicts[other] == TRUE))
    for one, other in _implications(graph.limits_m):
        if one in verdicts and other in verdicts:
            report(f"{one} TRUE but {other} FALSE", (verdicts[one] == TRUE) & (verdicts[other] == FALSE))
    return found
