"""Relations of rectangles whose distances and azimuths are known by hand, at 1 m pixels on the central meridian."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import ndimage

from trigpoint.categories import FALSE, TRUE, UNDECIDED
from trigpoint.errors import InputError
from trigpoint.geometry.frames import SceneFrame, fit_frame
from trigpoint.geometry.outlines import measuring_outline, polygon_from_mask
from trigpoint.rules import DIAGONALS, DIRECTIONS, KNOWN_RELATIONS, RELATIONS, Rules
from trigpoint.scene_graph.build import SceneMasks, build_graph, fill_holes
from trigpoint.scene_graph.graph import Nodes, SceneGraph, algebra_violations, verdicts_from_edges

# 400 x 300 px of 1 m on the central meridian of zone 33: grid north is true north there, k = 0.9996
TRANSFORM = (1.0, 0.0, 499800.0, 0.0, -1.0, 5500150.0)
WIDTH, HEIGHT = 400, 300
FRAME = SceneFrame("EPSG:32633", TRANSFORM, fit_frame("EPSG:32633", TRANSFORM, WIDTH, HEIGHT))
RULES = Rules()


def graph_of(
    boxes: list[tuple[int, int, int, int]],
    regions: list[np.ndarray] | None = None,
    rules: Rules = RULES,
    anchors: np.ndarray | None = None,
    is_sharp: bool = False,
) -> SceneGraph:
    """Build a graph of pixel rectangles (x0, y0, x1, y1) and region masks."""
    labels = np.zeros((HEIGHT, WIDTH), dtype=np.uint16)
    for k, (x0, y0, x1, y1) in enumerate(boxes, start=1):
        labels[y0:y1, x0:x1] = k
    regions = regions or []
    polygons = [shapely.box(*b) for b in boxes] + [measuring_outline(polygon_from_mask(m)) for m in regions]
    ground = shapely.transform(np.array(polygons, dtype=object), FRAME.ground_from_image)
    n = len(polygons)
    area_px = np.array([np.count_nonzero(labels == k + 1) for k in range(len(boxes))] + [np.count_nonzero(m) for m in regions], dtype=float)
    nodes = Nodes(
        instance_ids=tuple(f"i-{k}" for k in range(n)),
        categories=(("building",),) * n,
        countable=np.array([True] * len(boxes) + [False] * len(regions), dtype=bool),
        cut=np.zeros(n, dtype=bool),
        area_m2=area_px,
        area_px=area_px,
        perimeter_m=shapely.length(ground),
        length_m=np.ones(n),
        centroid_m=shapely.get_coordinates(shapely.centroid(ground)),
    )
    masks = SceneMasks(
        labels, np.array([*range(1, len(boxes) + 1), *[0] * len(regions)]), {len(boxes) + k: m for k, m in enumerate(regions)}
    )
    return build_graph("s-test", nodes, ground, masks, FRAME, 300.0, WIDTH * HEIGHT, rules, anchors, is_sharp)


def verdict(graph: SceneGraph, relation: str, subject: int, anchor: int) -> int:
    return int(graph.verdicts[relation][subject, anchor])


def region(x0: int, y0: int, x1: int, y1: int) -> np.ndarray:
    mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
    mask[y0:y1, x0:x1] = True
    return mask


def test_azimuth_and_distance_of_a_pair_due_north() -> None:
    graph = graph_of([(100, 200, 120, 220), (100, 100, 120, 120)])

    assert np.cos(np.radians(graph.values["north_of"][1, 0])) == pytest.approx(1.0, abs=1e-7)
    assert graph.values["south_of"][0, 1] == pytest.approx(180.0, abs=0.01)
    assert graph.distance_m[0, 1] == pytest.approx(80.0, rel=1e-3)
    assert [verdict(graph, name, 1, 0) for name in ("north_of", "east_of", "south_of", "west_of")] == [TRUE, FALSE, FALSE, FALSE]
    assert verdict(graph, "south_of", 0, 1) == TRUE


@pytest.mark.parametrize(("dx", "expected"), [(0, (TRUE, FALSE)), (55, (TRUE, FALSE)), (100, (UNDECIDED, UNDECIDED)), (170, (FALSE, TRUE))])
def test_direction_is_undecided_near_the_diagonal(dx: int, expected: tuple[int, int]) -> None:
    # the subject lies 100 m north and dx m east of the anchor: azimuth atan(dx / 100)
    graph = graph_of([(100, 200, 110, 210), (100 + dx, 100, 110 + dx, 110)])

    assert (verdict(graph, "north_of", 1, 0), verdict(graph, "east_of", 1, 0)) == expected


def test_both_rays_must_agree_for_a_countable_anchor() -> None:
    # a long anchor: from its centroid the subject is north-east, from its nearest point due north
    graph = graph_of([(50, 200, 250, 210), (240, 130, 250, 140)])

    assert verdict(graph, "north_of", 1, 0) == UNDECIDED
    assert verdict(graph, "east_of", 1, 0) == UNDECIDED


def test_a_region_anchor_is_seen_from_its_nearest_point_alone() -> None:
    graph = graph_of([(240, 130, 250, 140)], [region(50, 200, 250, 210)])

    assert verdict(graph, "north_of", 0, 1) == TRUE
    assert np.cos(np.radians(graph.values["north_of"][0, 1])) == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize(
    ("gap", "near", "far"), [(10, TRUE, FALSE), (28, UNDECIDED, FALSE), (40, FALSE, FALSE), (148, FALSE, UNDECIDED), (170, FALSE, TRUE)]
)
def test_near_and_far_have_an_undecided_band_of_twice_the_tolerance(gap: int, near: int, far: int) -> None:
    # shorter side 300 m: near within 30 m, far from 150 m, margin max(5 %, 6 m)
    graph = graph_of([(20, 100, 40, 120), (40 + gap, 100, 60 + gap, 120)])

    assert (verdict(graph, "near", 0, 1), verdict(graph, "far", 0, 1)) == (near, far)


def test_near_is_capped_by_pixels() -> None:
    rules = Rules(near_max_px=20)

    assert verdict(graph_of([(20, 100, 40, 120), (52, 100, 72, 120)], rules=rules), "near", 0, 1) == TRUE
    assert verdict(graph_of([(20, 100, 40, 120), (69, 100, 89, 120)], rules=rules), "near", 0, 1) == FALSE


@pytest.mark.parametrize(
    ("x0", "inside", "outside", "overlaps"),
    [
        (150, TRUE, FALSE, FALSE),  # wholly inside
        (103, UNDECIDED, FALSE, FALSE),  # inside, near the edge, and 49 % left of 20 × 20 px once 3 px are eroded
        (97, UNDECIDED, FALSE, UNDECIDED),  # 85 % inside
        (90, FALSE, FALSE, TRUE),  # half
        (82, FALSE, UNDECIDED, UNDECIDED),  # 10 %
        (77, FALSE, UNDECIDED, FALSE),  # apart by 3 m
        (60, FALSE, TRUE, FALSE),  # apart by 20 m
    ],
)
def test_topology_against_a_region_by_share_and_distance(x0: int, inside: int, outside: int, overlaps: int) -> None:
    graph = graph_of([(x0, 150, x0 + 20, 170)], [region(100, 100, 300, 250)])

    assert [verdict(graph, name, 0, 1) for name in ("inside", "outside", "overlaps")] == [inside, outside, overlaps]
    assert verdict(graph, "contains", 1, 0) == inside


def test_a_thick_subject_is_inside_up_to_the_edge() -> None:
    graph = graph_of([(101, 150, 131, 180)], [region(100, 100, 300, 250)])  # 64 % left of 30 × 30 px

    assert verdict(graph, "inside", 0, 1) == TRUE


def test_a_thin_subject_is_inside_only_when_it_is_deep() -> None:
    deep = graph_of([(150, 150, 154, 190)], [region(100, 100, 300, 250)])
    shallow = graph_of([(101, 150, 105, 190)], [region(100, 100, 300, 250)])

    assert verdict(deep, "inside", 0, 1) == TRUE
    assert verdict(shallow, "inside", 0, 1) == UNDECIDED


def test_a_building_in_the_hole_of_a_region_is_inside_it() -> None:
    block = region(100, 100, 300, 250)
    block[150:180, 150:180] = False
    graph = graph_of([(155, 155, 175, 175)], [block])

    assert verdict(graph, "inside", 0, 1) == TRUE


def test_a_building_over_the_edge_of_a_hole_is_inside_the_region_and_partly_on_it() -> None:
    block = region(100, 100, 300, 250)
    block[150:180, 150:180] = False
    graph = graph_of([(140, 155, 160, 175)], [block])  # half on the hole: inside counts filled masks, overlaps the masks themselves

    assert (verdict(graph, "inside", 0, 1), verdict(graph, "overlaps", 0, 1)) == (TRUE, TRUE)
    assert algebra_violations(graph) == []


def test_sharing_pixels_rules_out_directions_and_nearness() -> None:
    graph = graph_of([(150, 150, 170, 170)], [region(100, 100, 300, 250)])

    assert [verdict(graph, name, 0, 1) for name in ("north_of", "east_of", "south_of", "west_of", "near")] == [FALSE] * 5


@pytest.mark.parametrize(("gap", "expected"), [(0, TRUE), (1, TRUE), (3, UNDECIDED), (10, FALSE)])
def test_touching_is_within_a_pixel_and_undecided_up_to_twice_the_tolerance(gap: int, expected: int) -> None:
    rules = Rules(relations=("near", "far", "touches"))
    graph = graph_of([(20, 100, 40, 120), (40 + gap, 100, 60 + gap, 120)], rules=rules)

    assert verdict(graph, "touches", 0, 1) == verdict(graph, "touches", 1, 0) == expected
    assert algebra_violations(graph) == []


def test_what_shares_pixels_does_not_touch() -> None:
    graph = graph_of([(95, 150, 115, 170)], [region(100, 100, 300, 250)], Rules(relations=("touches",)))

    assert verdict(graph, "touches", 0, 1) == FALSE


MIXED_BOXES = [(20, 20, 40, 40), (60, 30, 90, 50), (150, 150, 170, 170), (95, 180, 115, 200), (330, 40, 350, 60)]
MIXED_REGIONS = [(100, 100, 300, 250), (250, 20, 390, 130), (110, 140, 200, 200)]


def test_chosen_anchors_have_the_columns_of_the_full_graph() -> None:
    regions = [region(*r) for r in MIXED_REGIONS]
    rules = Rules(relations=KNOWN_RELATIONS)
    chosen = np.array([1, 3, 5, 6])
    full, part = graph_of(MIXED_BOXES, regions, rules), graph_of(MIXED_BOXES, regions, rules, chosen)

    assert part.distance_m.shape == (8, 4)
    for position in chosen.tolist():
        assert np.array_equal(part.distance_column(position), full.distance_column(position))
        for name in KNOWN_RELATIONS:
            assert np.array_equal(part.edge_column(name, position), full.edge_column(name, position)), name
    kept = full.to_edges().filter(pc.is_in(full.to_edges()["anchor_id"], pa.array([f"i-{k}" for k in chosen])))
    assert part.to_edges().equals(kept)
    assert algebra_violations(part) == []


def test_an_anchor_that_was_not_measured_is_named() -> None:
    part = graph_of(MIXED_BOXES, anchors=np.array([1, 3]))

    with pytest.raises(InputError, match=r"position 4 \('i-4'\) was not measured"):
        part.edge_column("near", 4)
    with pytest.raises(InputError, match="position 2"):
        part.distance_column(2)


def test_a_sharp_graph_leaves_nothing_undecided_and_changes_nothing_that_is_decided() -> None:
    regions = [region(*r) for r in MIXED_REGIONS]
    rules = Rules(relations=KNOWN_RELATIONS)
    blurred, sharp = graph_of(MIXED_BOXES, regions, rules), graph_of(MIXED_BOXES, regions, rules, is_sharp=True)

    for name in KNOWN_RELATIONS:
        decided = blurred.verdicts[name] != UNDECIDED
        assert set(np.unique(sharp.verdicts[name]).tolist()) <= {TRUE, FALSE}
        assert np.array_equal(sharp.verdicts[name][decided], blurred.verdicts[name][decided]), name


@pytest.mark.parametrize(("gap", "relation"), [(29, "near"), (31, None), (149, None), (151, "far")])
def test_sharp_distances_are_decided_at_the_threshold(gap: int, relation: str | None) -> None:
    graph = graph_of([(20, 100, 40, 120), (40 + gap, 100, 60 + gap, 120)], is_sharp=True)

    assert {name for name in ("near", "far") if verdict(graph, name, 0, 1)} == ({relation} if relation else set())


@pytest.mark.parametrize(("dx", "expected"), [(95, (TRUE, FALSE)), (105, (FALSE, TRUE))])
def test_sharp_directions_are_decided_at_the_diagonal(dx: int, expected: tuple[int, int]) -> None:
    graph = graph_of([(100, 200, 110, 210), (100 + dx, 100, 110 + dx, 110)], is_sharp=True)

    assert (verdict(graph, "north_of", 1, 0), verdict(graph, "east_of", 1, 0)) == expected


@pytest.mark.parametrize(
    ("x0", "true"),
    [
        (98, {"inside"}),  # 90 %
        (97, {"overlaps"}),  # 85 %
        (83, {"overlaps"}),  # 15 %
        (81, {"outside", "near", "west_of"}),  # 5 %: the nearest point of the region is east of the centroid
    ],
)
def test_sharp_topology_is_decided_at_the_middle_of_the_zones(x0: int, true: set[str]) -> None:
    graph = graph_of([(x0, 150, x0 + 20, 170)], [region(100, 100, 300, 250)], is_sharp=True)

    assert {name for name in RELATIONS if verdict(graph, name, 0, 1)} == true
    assert verdict(graph, "contains", 1, 0) == ("inside" in true)


def test_a_sharp_ray_of_no_length_points_nowhere() -> None:
    # a path of 2 px under the middle of the subject: 72 of 780 px shared, the nearest point is the centroid itself
    path = region(5, 167, 395, 169)
    blurred, sharp = (graph_of([(150, 150, 186, 186)], [path], is_sharp=is_sharp) for is_sharp in (False, True))

    assert [verdict(blurred, name, 0, 1) for name in (*DIRECTIONS, "near")] == [UNDECIDED] * 5
    assert [verdict(sharp, name, 0, 1) for name in (*DIRECTIONS, "near")] == [FALSE] * 4 + [TRUE]


def test_everything_is_deep_inside_a_region_that_fills_the_scene() -> None:
    graph = graph_of([(1, 1, 3, 40)], [region(0, 0, WIDTH, HEIGHT)])

    assert verdict(graph, "inside", 0, 1) == TRUE


@pytest.mark.parametrize(("gap", "expected"), [(3, TRUE), (4, FALSE)])
def test_sharp_touching_ends_between_one_pixel_and_twice_the_tolerance(gap: int, expected: int) -> None:
    graph = graph_of([(20, 100, 40, 120), (40 + gap, 100, 60 + gap, 120)], rules=Rules(relations=("touches",)), is_sharp=True)

    assert verdict(graph, "touches", 0, 1) == expected


def test_fill_holes_leaves_bays_open_and_closes_only_what_is_cut_off() -> None:
    mask = np.array([[1, 1, 1, 1, 0], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1]], dtype=bool)

    filled = fill_holes(mask)

    # the hole at (1, 1) is closed; that at (1, 3) meets the outside over a corner alone, which does not open it
    assert filled.tolist() == [[True] * 4 + [False], [True] * 5, [True] * 5]
    assert np.array_equal(fill_holes(mask), ndimage.binary_fill_holes(mask))


@pytest.mark.parametrize(
    ("subject", "true"),
    [((150, 50), "northeast_of"), ((150, 150), "southeast_of"), ((50, 150), "southwest_of"), ((50, 50), "northwest_of"), ((100, 50), None)],
)
def test_diagonal_sectors_lie_between_the_main_directions(subject: tuple[int, int], true: str | None) -> None:
    x, y = subject
    graph = graph_of([(100, 100, 106, 106), (x, y, x + 6, y + 6)], rules=Rules(relations=DIAGONALS))

    assert {name for name in DIAGONALS if verdict(graph, name, 1, 0) != FALSE} == ({true} if true else set())
    if true:
        assert verdict(graph, true, 1, 0) == TRUE
        assert graph.margins[true][1, 0] == pytest.approx(5.0, abs=0.4)  # atan(6 m / 71 m) is 4.8°


@pytest.mark.parametrize(("dx", "expected"), [(41, FALSE), (44, FALSE), (55, UNDECIDED), (72, UNDECIDED), (90, TRUE)])
def test_a_diagonal_is_undecided_near_its_border_at_22_and_a_half_degrees(dx: int, expected: int) -> None:
    # 150 m north and dx m east: azimuths 15.3°, 16.3°, 20.1°, 25.6°, 31.0°; the margin is 5° (2τ at 160 m is 2.1°)
    graph = graph_of([(100, 200, 104, 204), (100 + dx, 50, 104 + dx, 54)], rules=Rules(relations=DIAGONALS))

    assert verdict(graph, "northeast_of", 1, 0) == expected


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (18, (TRUE, TRUE)),
        (20, (UNDECIDED, TRUE)),
        (30, (UNDECIDED, TRUE)),
        (32, (FALSE, TRUE)),
        (189, (FALSE, TRUE)),
        (191, (FALSE, UNDECIDED)),
    ],
)
def test_within_is_decided_by_distance_alone(gap: int, expected: tuple[int, int]) -> None:
    # margins: max(5 %, 6 m) is 6 m for 25 m and 10 m for 200 m
    graph = graph_of([(20, 100, 40, 120), (40 + gap, 100, 60 + gap, 120)], rules=Rules(within_m=(25, 200)))

    assert (verdict(graph, "within_25m", 0, 1), verdict(graph, "within_200m", 1, 0)) == expected
    assert graph.units["within_25m"] == "m"
    assert graph.margins["within_200m"][0, 1] == 10.0


def test_what_shares_pixels_is_within_every_distance_though_not_near() -> None:
    graph = graph_of([(150, 150, 170, 170)], [region(100, 100, 300, 250)], Rules(within_m=(25,)))

    assert (verdict(graph, "near", 0, 1), verdict(graph, "within_25m", 0, 1)) == (FALSE, TRUE)


def test_within_distances_are_whole_metres_each_once_and_sorted() -> None:
    assert Rules(relations=("near", "far"), within_m=(10, 25)).relation_names == ("near", "far", "within_10m", "within_25m")
    for wrong in ((0,), (25, 10), (10, 10), (2.5,)):
        with pytest.raises(ValueError, match="within_m"):
            Rules.model_validate({"within_m": wrong})


def everything(limits_m: tuple[int, ...]) -> Rules:
    return Rules(relations=KNOWN_RELATIONS, within_m=limits_m)


@st.composite
def scenes(draw: st.DrawFn) -> SceneGraph:
    """Scenes of up to nine boxes that do not overlap and up to three regions that may, with every relation measured."""
    boxes: list[tuple[int, int, int, int]] = []
    for _ in range(draw(st.integers(0, 9))):
        x, y = draw(st.integers(0, WIDTH - 60)), draw(st.integers(0, HEIGHT - 60))
        box = (x, y, x + draw(st.integers(1, 60)), y + draw(st.integers(1, 60)))
        if all(box[2] <= b[0] or b[2] <= box[0] or box[3] <= b[1] or b[3] <= box[1] for b in boxes):
            boxes.append(box)
    regions = []
    for _ in range(draw(st.integers(0, 3))):
        x, y = draw(st.integers(0, WIDTH - 2)), draw(st.integers(0, HEIGHT - 2))
        mask = region(x, y, draw(st.integers(x + 1, WIDTH)), draw(st.integers(y + 1, HEIGHT)))
        if draw(st.booleans()):
            mask[y + 10 : y + 40, x + 10 : x + 60] = False
        if mask.any():
            regions.append(mask)
    limits = tuple(sorted(draw(st.sets(st.integers(1, 400), max_size=3))))
    return graph_of(boxes, regions, everything(limits))


@settings(max_examples=60, deadline=None)
@given(scenes())
def test_every_random_scene_keeps_the_algebra_and_its_edges_give_the_verdicts_back(graph: SceneGraph) -> None:
    assert algebra_violations(graph) == []
    rebuilt = verdicts_from_edges(graph.to_edges(), graph.nodes.instance_ids, list(graph.verdicts))
    assert all(np.array_equal(rebuilt[name], graph.verdicts[name]) for name in graph.verdicts)


@settings(max_examples=40, deadline=None)
@given(scenes())
def test_distances_of_random_scenes_are_a_symmetric_premetric(graph: SceneGraph) -> None:
    distance = graph.distance_m

    assert np.array_equal(distance, distance.T)
    assert (np.diag(distance) == 0).all()
    assert (distance >= 0).all()
    assert (distance <= np.hypot(WIDTH, HEIGHT) * 1.001).all()


PLANTED = [
    ("southwest_of", (0, 1), FALSE, "northeast_of TRUE but reverse southwest_of FALSE"),
    ("northwest_of", (1, 0), TRUE, "northeast_of and northwest_of both TRUE"),
    ("south_of", (1, 0), TRUE, "south_of and northeast_of both TRUE"),
    ("within_80m", (1, 0), FALSE, "within_80m and reverse within_80m differ"),
    ("within_160m", (1, 0), FALSE, "within_80m TRUE but within_160m FALSE"),
    ("far", (1, 0), TRUE, "within_80m and far both TRUE"),
    ("touches", (1, 0), TRUE, "touches and reverse touches differ"),
    ("near", (0, 0), TRUE, "near of itself"),
]


@pytest.mark.parametrize(("relation", "pair", "planted", "line"), PLANTED, ids=[p[3] for p in PLANTED])
def test_every_rule_of_the_algebra_notices_its_fault(relation: str, pair: tuple[int, int], planted: int, line: str) -> None:
    # the subject lies 50 m east and 50 m north: about 62 m of clear ground between the two
    graph = graph_of([(100, 200, 106, 206), (150, 150, 156, 156)], rules=everything((80, 160)))
    assert algebra_violations(graph) == []

    graph.verdicts[relation][pair] = planted

    assert any(line in found for found in algebra_violations(graph))


@settings(max_examples=150, deadline=None)
@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.sampled_from([True, True, False])))
def test_a_mask_whose_outline_has_one_part_and_no_hole_has_nothing_to_fill(mask: np.ndarray) -> None:
    assume(mask.any())
    outline = measuring_outline(polygon_from_mask(mask))
    filled = fill_holes(mask)

    assert np.array_equal(filled, ndimage.binary_fill_holes(mask))
    if outline.geom_type == "Polygon":
        assert np.array_equal(filled, mask) == (len(outline.interiors) == 0)
