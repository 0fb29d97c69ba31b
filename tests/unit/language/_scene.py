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
        "axes": [{"id": "kind"}, {"id": "roof"}],
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
            {
                "id": "road",
                "axis": "kind",
                "countable": False,
                "instanceable": False,
                "noun": "road",
                "plural": "roads",
                "synonyms": ["street"],
            },
            {"id": "shed", "axis": "kind", "noun": "shed", "plural": "sheds"},
            {"id": "shrine", "axis": "kind", "noun": "shrine", "plural": "shrines"},
            {"id": "tree", "axis": "kind", "noun": "tree", "plural": "trees"},
            {"id": "pond", "axis": "kind", "noun": "pond", "plural": "ponds"},
            {"id": "tin", "axis": "roof", "phrase": "with a tin roof"},
            {"id": "tile", "axis": "roof", "phrase": "with a tile roof"},
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
RICH_THINGS = [
    ("school", 30, 30, 60, 50),
    ("temple", 300, 40, 30, 30),
    ("house", 60, 300, 20, 20),
    ("house", 100, 300, 20, 20),
    ("house", 140, 304, 22, 20),
    ("shed", 190, 40, 30, 31),  # between school and temple
    ("shrine", 210, 170, 12, 12),  # near the middle, with trees all round
    ("tree", 190, 160, 8, 8),
    ("tree", 212, 150, 8, 8),
    ("tree", 236, 160, 8, 8),
    ("tree", 234, 182, 8, 8),
    ("tree", 192, 182, 8, 8),
    ("tree", 214, 186, 8, 6),
    ("pond", 380, 90, 10, 60),  # at the eastern edge
]
"""The same with more things in it."""
ROOFS = {"temple": "tin", "school": "tile"}


def ground_scene(
    is_north_up: bool = True,
    pois: frozenset[str] = frozenset(),
    things: list[tuple[str, int, int, int, int]] = THINGS,
    roofs: dict[str, str] | None = None,
    mapped_tags: list[dict[str, str]] | None = None,
    is_map_complete: bool = False,
    vocabularies: tuple[Taxonomy, ...] = (),
) -> GroundScene:
    labels = np.zeros((SIZE, SIZE), dtype=np.uint16)
    for k, (_, col, row, width, height) in enumerate(things, start=1):
        labels[row : row + height, col : col + width] = k
    road = np.zeros((SIZE, SIZE), dtype=bool)
    road[195:205] = True
    frame = SceneFrame("EPSG:32645", TRANSFORM, fit_frame("EPSG:32645", TRANSFORM, SIZE, SIZE))
    n = len(things) + 1
    known = roofs or {}
    traced = polygons_from_labels(labels)
    polygons = np.empty(n, dtype=object)
    polygons[:] = [*(traced[k + 1] for k in range(n - 1)), polygon_from_mask(road)]
    outlines = shapely.transform(measuring_outlines(polygons), frame.ground_from_image)
    areas = np.array([*(w * h for *_, w, h in things), road.sum()], dtype=np.float64)
    nodes = Nodes(
        instance_ids=tuple(f"i-{k}" for k in range(n)),
        categories=(*((kind, *([known[kind]] if kind in known else [])) for kind, *_ in things), ("road",)),
        countable=np.array([True] * (n - 1) + [False]),
        cut=np.array([False] * (n - 1) + [True]),
        area_m2=areas * frame.record.pixel_area_m2,
        area_px=areas,
        perimeter_m=np.asarray(shapely.length(outlines)),
        length_m=np.array([*(0.5 * max(w, h) for *_, w, h in things), 200.0]),
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
        mapped_tags=mapped_tags or [],
        is_map_complete=is_map_complete,
        vocabularies=vocabularies,
    )


def target_of(scene: GroundScene, name: str) -> LanguageTarget:
    return next(t for t in targets_of(scene.resolver, [True] * len(scene.resolver.graph.nodes)) if t.name == name)


def check_of(name: str, is_north_up: bool = True, pois: frozenset[str] = frozenset()) -> GroundedCheck:
    scene = ground_scene(is_north_up, pois)
    return GroundedCheck(scene, target_of(scene, name))


def rich_check_of(name: str) -> GroundedCheck:
    scene = ground_scene(things=RICH_THINGS, roofs=ROOFS)
    return GroundedCheck(scene, target_of(scene, name))
