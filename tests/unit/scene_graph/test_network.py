"""The scene graph as a networkx graph, from the measured graph and from the tables of a release alike."""

from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from tests.unit.scene_graph.test_build import graph_of, region
from trigpoint.errors import ReleaseError
from trigpoint.scene_graph.graph import SceneGraph
from trigpoint.scene_graph.network import NODE_ATTRIBUTES, network_from_tables, to_networkx, write_graphml


@pytest.fixture(scope="module")
def graph() -> SceneGraph:
    return graph_of([(100, 200, 120, 220), (100, 100, 120, 120), (300, 20, 310, 30)], [region(80, 90, 200, 230)])


def instances_of(graph: SceneGraph) -> pa.Table:
    nodes = graph.nodes
    columns = {
        "instance_id": list(nodes.instance_ids),
        "scene_id": [graph.scene_id] * len(nodes),
        "category": [list(values) for values in nodes.categories],
        **{name: getattr(nodes, name) for name in ("countable", "cut", "area_m2", "area_px", "perimeter_m", "length_m")},
        "centroid_x_m": nodes.centroid_m[:, 0],
        "centroid_y_m": nodes.centroid_m[:, 1],
    }
    other = {"instance_id": "i-x", "scene_id": "s-other", "category": ["pond"], "countable": True, "cut": False}
    other |= {name: 1.0 for name in NODE_ATTRIBUTES if name not in other}
    return pa.concat_tables([pa.table(columns), pa.Table.from_pylist([other], schema=pa.table(columns).schema)])


def test_every_stored_edge_is_an_edge_with_its_value(graph: SceneGraph) -> None:
    network = to_networkx(graph)

    assert network.number_of_edges() == graph.to_edges().num_rows == sum(np.count_nonzero(m) for m in graph.verdicts.values())
    north = network.edges["i-1", "i-0", "north_of"]
    assert (north["verdict"], north["unit"]) == ("TRUE", "deg")
    assert np.cos(np.radians(north["value"])) == pytest.approx(1.0, abs=1e-6)
    assert network.nodes["i-3"]["countable"] is False
    assert network.nodes["i-0"]["category"] == ("building",)
    assert network.nodes["i-0"]["area_px"] == 400


def test_the_tables_of_a_release_give_the_same_graph(graph: SceneGraph) -> None:
    measured, read = to_networkx(graph), network_from_tables(graph.scene_id, instances_of(graph), graph.to_edges())

    assert dict(read.nodes(data=True)) == dict(measured.nodes(data=True))
    assert sorted(read.edges(keys=True)) == sorted(measured.edges(keys=True))
    assert all(read.edges[edge] == measured.edges[edge] for edge in measured.edges(keys=True))


def test_an_edge_without_a_value_has_no_value() -> None:
    # the path runs under the middle of the building, so the deciding ray has no length
    network = to_networkx(graph_of([(150, 150, 186, 186)], [region(5, 167, 395, 169)]))

    assert "value" not in network.edges["i-0", "i-1", "north_of"]


def test_graphml_gives_nodes_and_edges_back(graph: SceneGraph, tmp_path: Path) -> None:
    network = to_networkx(graph)
    write_graphml(network, tmp_path / "graph.graphml")
    read = nx.read_graphml(tmp_path / "graph.graphml", force_multigraph=True)

    assert read.nodes["i-0"]["category"] == "building"
    assert read.edges["i-1", "i-0", "north_of"] == network.edges["i-1", "i-0", "north_of"]
    assert read.number_of_edges() == network.number_of_edges()
    assert network.nodes["i-0"]["category"] == ("building",), "writing leaves the graph as it is"


def test_a_table_without_its_columns_is_named(graph: SceneGraph) -> None:
    with pytest.raises(ReleaseError, match=r"relations\.parquet lacks the columns \['margin'\]"):
        network_from_tables(graph.scene_id, instances_of(graph), graph.to_edges().drop_columns(["margin"]))
