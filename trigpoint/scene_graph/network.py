"""The scene graph as a networkx graph, for everything that networkx can do with one.

Not here: measuring (`trigpoint.scene_graph.build`), resolving programs (`trigpoint.programs`), which needs no such graph.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow as pa

from trigpoint.errors import ReleaseError
from trigpoint.scene_graph.graph import EDGE_SCHEMA, SceneGraph

NODE_ATTRIBUTES = (
    "category", "countable", "cut", "area_m2", "area_px", "perimeter_m", "length_m", "centroid_x_m", "centroid_y_m",
)  # fmt: skip
"""What a node carries; names and units as in instances.parquet."""


def to_networkx(graph: SceneGraph) -> "nx.MultiDiGraph[str]":
    """Return the measured TRUE and UNDECIDED edges of a scene graph, with its instances as nodes; see `network_from_tables`."""
    nodes = graph.nodes
    columns: tuple[Iterable[Any], ...] = (
        nodes.categories,
        nodes.countable.tolist(),
        nodes.cut.tolist(),
        nodes.area_m2.tolist(),
        nodes.area_px.astype(int).tolist(),
        nodes.perimeter_m.tolist(),
        nodes.length_m.tolist(),
        *nodes.centroid_m.T.tolist(),
    )
    attributes: Iterable[dict[str, Any]] = (dict(zip(NODE_ATTRIBUTES, row, strict=True)) for row in zip(*columns, strict=True))
    return _network(graph.scene_id, zip(nodes.instance_ids, attributes, strict=True), graph.to_edges())


def network_from_tables(scene_id: str, instances: pa.Table, relations: pa.Table) -> "nx.MultiDiGraph[str]":
    """Return a scene of a release as a graph.

    Args:
        scene_id: The scene; rows of other scenes are left out.
        instances: Columns of instances.parquet.
        relations: Columns of relations.parquet, perhaps fewer rows.

    Returns:
        A directed multigraph from subject to anchor. Nodes are instance ids with `NODE_ATTRIBUTES` (`category` a tuple). An edge's key is
        its relation; it carries `relation`, `verdict`, `value`, `unit` and `margin`, without those that are null. FALSE is no edge.

    Raises:
        ReleaseError: a column is missing.
    """
    import pyarrow.compute as pc

    wanted = ("instance_id", "scene_id", *NODE_ATTRIBUTES)
    for name, table, columns in (("instances", instances, wanted), ("relations", relations, EDGE_SCHEMA.names)):
        missing = [column for column in columns if column not in table.column_names]
        if missing:
            raise ReleaseError(f"{name}.parquet lacks the columns {missing}; it has {table.column_names}")
    here = pc.field("scene_id") == scene_id
    rows = instances.select(list(wanted)).filter(here).to_pylist()
    nodes = [(row["instance_id"], {name: row[name] for name in NODE_ATTRIBUTES} | {"category": tuple(row["category"])}) for row in rows]
    return _network(scene_id, nodes, relations.select(EDGE_SCHEMA.names).filter(here))


def _network(scene_id: str, nodes: Iterable[tuple[str, dict[str, Any]]], edges: pa.Table) -> "nx.MultiDiGraph[str]":
    made: nx.MultiDiGraph[str] = nx.MultiDiGraph(scene_id=scene_id)
    made.add_nodes_from(nodes)
    for row in edges.drop_columns(["scene_id"]).to_pylist():
        subject, anchor = row.pop("subject_id"), row.pop("anchor_id")
        made.add_edge(subject, anchor, key=row["relation"], **{name: value for name, value in row.items() if value is not None})
    return made


def write_graphml(network: "nx.MultiDiGraph[str]", path: Path) -> None:
    """Write a graph as GraphML, which knows no lists: the categories of a node are joined by `, `."""
    plain = network.copy()
    for _, attributes in plain.nodes(data=True):
        attributes["category"] = ", ".join(attributes["category"])
    nx.write_graphml(plain, path)
