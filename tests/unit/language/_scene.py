"""A scene that is measured for real: boxes on a grid of 0.5 m pixels, north-up, with a road through the middle."""

import numpy as np
import shapely

from trigpoint.categories import Taxonomy
from trigpoint.geometry.frames import SceneFrame, fit_frame
from trigpoint.geometry.outlines import measuring_outlines, polygon_from_mask, polygons_from_labels
from trigpoint.language.grounding import GroundedCheck, GroundScene, centroid_shares
from trigpoint.language.targets import targets_of
from trigpoint.programs.resolver import Resolver
from trigpoint.records.language import LanguageTarget
from trigpoint.rules import Rules
from trigpoint.scene_graph.build import SceneMasks, build_graph
from trigpoint.scene_graph.graph import Nodes

SIZE = 400
TRANSFORM = (0.5, 0.0, 354000.0, 0.0, -0.5, 3057000.0)
TAXONOMY = Taxonomy.model_validate(
    {
        "name": "words",
        "version": 1,
        "axes": [{"id": "kind"}],
        "categories": [
            {
                "id": "school",
                "axis": "kind",
                "noun": "school",
                "plural": "schools",
                "synonyms": ["schoolhouse"],
                "broader": ["public building"],
                "look_alikes": ["hospital", "warehouse", "temple"],
                "functions": ["where children are taught", "a complex with classrooms and a yard"],
            },
            {
                "id": "temple",
                "axis": "kind",
                "noun": "temple",
                "plural": "temples",
                "look_alikes": ["hospital"],
                "functions": ["where people pray"],
            },
            {"id": "hospital", "axis": "kind", "noun": "hospital", "plural": "hospitals"},
            {"id": "warehouse", "axis": "kind", "noun": "warehouse", "plural": "warehouses"},
            {"id": "house", "axis": "kind", "noun": "house", "plural": "houses"},
            {"id": "road", "axis": "kind", "countable": False, "instanceable": False, "noun": "road", "plural": "roads"},
        ],
    }
)
THINGS = [
    ("school", 60, 60, 40, 30),  # north-west
    ("temple", 300, 40, 30, 30),  # north-east
    ("house", 60, 300, 20, 20),  # south-west, three of them
    ("house", 100, 300, 20, 20),
    ("house", 140, 304, 22, 20),
]
"""kind, column, row, width, height in pixels; the road is at rows 195 to 205."""


def ground_scene(is_north_up: bool = True, pois: frozenset[str] = frozenset()) -> GroundScene:
    labels = np.zeros((SIZE, SIZE), dtype=np.uint16)
    for k, (_, col, row, width, height) in enumerate(THINGS, start=1):
        labels[row : row + height, col : col + width] = k
    road = np.zeros((SIZE, SIZE), dtype=bool)
    road[195:205] = True
    frame = SceneFrame("EPSG:32645", TRANSFORM, fit_frame("EPSG:32645", TRANSFORM, SIZE, SIZE))
    n = len(THINGS) + 1
    traced = polygons_from_labels(labels)
    polygons = np.empty(n, dtype=object)
    polygons[:] = [*(traced[k + 1] for k in range(n - 1)), polygon_from_mask(road)]
    outlines = shapely.transform(measuring_outlines(polygons), frame.ground_from_image)
    areas = np.array([*(w * h for *_, w, h in THINGS), road.sum()], dtype=np.float64)
    nodes = Nodes(
        instance_ids=tuple(f"i-{k}" for k in range(n)),
        categories=(*((kind,) for kind, *_ in THINGS), ("road",)),
        countable=np.array([True] * (n - 1) + [False]),
        cut=np.array([False] * (n - 1) + [True]),
        area_m2=areas * frame.record.pixel_area_m2,
        area_px=areas,
        perimeter_m=np.asarray(shapely.length(outlines)),
        length_m=np.array([*(0.5 * max(w, h) for *_, w, h in THINGS), 200.0]),
        centroid_m=shapely.get_coordinates(shapely.centroid(outlines)),
    )
    rules = Rules(within_m=(60,))
    masks = SceneMasks(labels, np.array([*range(1, n), 0]), {n - 1: road})
    graph = build_graph("s-1", nodes, outlines, masks, frame, 0.5 * SIZE, SIZE * SIZE, rules)
    corners = frame.ground_from_image(np.array([[0, 0], [SIZE, 0], [SIZE, SIZE], [0, SIZE]], dtype=np.float64))
    return GroundScene(
        resolver=Resolver(graph, TAXONOMY, rules, {"kind"}),
        centroid_share=centroid_shares(graph, corners),
        is_north_up=is_north_up,
        near_m=min(rules.near_share * 0.5 * SIZE, rules.near_max_px * 0.5),
        poi_categories=pois,
    )


def target_of(scene: GroundScene, name: str) -> LanguageTarget:
    return next(t for t in targets_of(scene.resolver, [True] * (len(THINGS) + 1)) if t.name == name)


def check_of(name: str, is_north_up: bool = True, pois: frozenset[str] = frozenset()) -> GroundedCheck:
    scene = ground_scene(is_north_up, pois)
    return GroundedCheck(scene, target_of(scene, name))
