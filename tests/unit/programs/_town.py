"""A small scene graph made by hand: six buildings and a road, with chosen verdicts."""

import numpy as np

from trigpoint.categories import TRUE, UNDECIDED, Taxonomy
from trigpoint.rules import RELATIONS
from trigpoint.scene_graph.graph import Nodes, SceneGraph

TAXONOMY = Taxonomy.model_validate(
    {
        "name": "town",
        "version": 1,
        "axes": [{"id": "kind"}, {"id": "roof", "of": "building"}],
        "categories": [
            {"id": "building", "axis": "kind", "noun": "building", "plural": "buildings"},
            {"id": "school", "axis": "kind", "parent": "building", "noun": "school", "plural": "schools"},
            {"id": "temple", "axis": "kind", "parent": "building", "noun": "temple", "plural": "temples"},
            {"id": "road", "axis": "kind", "countable": False, "instanceable": False, "noun": "road", "plural": "roads"},
            {"id": "tin_roof", "axis": "roof", "phrase": "with a tin roof"},
            {"id": "tile_roof", "axis": "roof", "phrase": "with a tile roof"},
        ],
    }
)


def town(seed: int = 0, n_buildings: int = 6) -> SceneGraph:
    """A graph with one road (last) and random but symmetric-free verdicts."""
    random = np.random.default_rng(seed)
    kinds = ["building", "school", "building", "temple", "building", "school", "building", "building"]
    roofs = [("tin_roof",), (), ("tile_roof",), ("tin_roof",), ("tile_roof",), ("tin_roof",), (), ("tile_roof",)]
    n = n_buildings + 1
    categories = (*tuple((kinds[k % 8], *roofs[k % 8]) for k in range(n_buildings)), ("road",))
    positions = random.uniform(0, 100, (n, 2))
    distance = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
    verdicts = {name: random.choice([0, 0, TRUE, TRUE, UNDECIDED], size=(n, n)).astype(np.int8) for name in RELATIONS}
    for matrix in verdicts.values():
        np.fill_diagonal(matrix, 0)
    nodes = Nodes(
        instance_ids=tuple(f"i-{k:02d}" for k in range(n)),
        categories=categories,
        countable=np.array([True] * n_buildings + [False]),
        cut=np.array([False] * (n_buildings - 1) + [True, True]),
        area_m2=random.uniform(50, 150, n),
        area_px=np.full(n, 400.0),
        perimeter_m=np.full(n, 40.0),
        length_m=random.uniform(8, 20, n),
        centroid_m=positions,
    )
    return SceneGraph("s-town", nodes, gsd_m=0.1, convergence_deg=1.5, valid_px=100_000, verdicts=verdicts, distance_m=distance)
