"""Public bug reports about frames, topology, vectorising and boxes, with their exact right values."""

import math

import numpy as np
import pytest
import shapely
from pyproj import Geod, Transformer

from trigpoint.boxes.calipers import hbb_from_polygon, min_area_rectangle
from trigpoint.boxes.conventions import AngledBox, angled_box_from_corners, corners_from_angled_box
from trigpoint.categories import TRUE, UNDECIDED
from trigpoint.geometry.frames import SceneFrame, azimuth_deg, fit_frame, wind_name
from trigpoint.geometry.outlines import polygon_from_mask, polygons_from_labels
from trigpoint.geometry.repair import repair_polygon
from trigpoint.geometry.topology import topological_relation
from trigpoint.masks.rasterise import crop_mask
from trigpoint.rules import DIAGONALS, DIRECTIONS, Rules
from trigpoint.scene_graph.build import SceneMasks, build_graph
from trigpoint.scene_graph.graph import Nodes, SceneGraph


def ground_points(crs: str, transform: tuple[float, ...], size: int, points: np.ndarray) -> tuple[np.ndarray, SceneFrame]:
    frame = SceneFrame(crs, transform, fit_frame(crs, transform, size, size))  # type: ignore[arg-type]
    return frame.ground_from_image(frame.image_from_crs(points)), frame


def test_g01_scene_over_a_zone_border_has_one_frame_and_true_distances() -> None:
    lonlat = np.array([[5.999, 50.0], [6.001, 50.0], [6.001, 50.002]])
    ground, frame = ground_points("EPSG:4326", (1e-5, 0, 5.9985, 0, -1e-5, 50.0025), 300, lonlat)
    azimuth = (azimuth_deg(ground[[1, 2]] - ground[[0, 1]]) + frame.convergence_at(ground[[0, 1]])) % 360

    assert np.hypot(*(ground[1] - ground[0])) == pytest.approx(143.392, rel=1e-3)
    assert azimuth[0] == pytest.approx(89.999, abs=0.05)
    assert [wind_name(a) for a in azimuth] == ["east", "north"]


def test_g02_web_mercator_metres_are_not_metres() -> None:
    x, y = (round(v) for v in Transformer.from_crs(4326, 3857, always_xy=True).transform(10.0, 60.0))
    ground, frame = ground_points("EPSG:3857", (1, 0, x - 50, 0, -1, y + 100), 200, np.array([[x, y], [x + 100, y]], dtype=float))

    assert np.hypot(*(ground[1] - ground[0])) == pytest.approx(50.126, rel=1e-3)
    assert frame.record.gsd_m == pytest.approx(0.50126, rel=3e-3)  # the pixel is 0.2 % taller than wide on the ellipsoid


def test_g03_survey_feet_become_metres() -> None:
    ground, frame = ground_points("EPSG:2263", (2, 0, 980000, 0, -2, 200600), 300, np.array([[980100.0, 200300], [980300, 200300]]))

    assert frame.record.gsd_m == pytest.approx(0.609601219, rel=5e-4)
    assert np.hypot(*(ground[1] - ground[0])) == pytest.approx(60.960122, rel=5e-4)


def _pair_graph(rules: Rules) -> SceneGraph:
    """Case G05: two houses of 4 m, b 500 m from a at a true bearing of 24°, far east in UTM zone 33 at 70° N."""
    lon, lat, _ = Geod(ellps="WGS84").fwd(17.9, 70.0, 24.0, 500.0)
    x, y = Transformer.from_crs(4326, 32633, always_xy=True).transform([17.9, lon], [70.0, lat])
    transform = (1.0, 0.0, round(x[0]) - 100.0, 0.0, -1.0, round(y[0]) + 550.0)
    frame = SceneFrame("EPSG:32633", transform, fit_frame("EPSG:32633", transform, 700, 700))
    ground = frame.ground_from_image(frame.image_from_crs(np.column_stack([x, y])))
    outlines = shapely.box(*(ground - 2).T, *(ground + 2).T)
    centroid = shapely.get_coordinates(shapely.centroid(outlines))
    nodes = Nodes(
        ("a", "b"), (("house",),) * 2, np.array([True] * 2), np.array([False] * 2), *(np.full(2, 16.0) for _ in range(4)), centroid
    )
    labels = SceneMasks(np.zeros((700, 700), np.uint16), np.array([1, 2]), {})
    return build_graph("s", nodes, outlines, labels, frame, 700.0, 490_000, rules)


def test_g05_north_is_true_north_and_not_that_of_the_grid() -> None:
    graph = _pair_graph(Rules(relations=(*DIRECTIONS, *DIAGONALS)))
    ray = graph.nodes.centroid_m[1:] - graph.nodes.centroid_m[:1]
    grid, true = float(azimuth_deg(ray)[0]), float(graph.values["north_of"][1, 0])

    assert true == pytest.approx(24.0, abs=0.01)
    assert true - grid == pytest.approx(2.7254, abs=0.001)  # atan(tan(17.9° - 15°) · sin 70°)
    assert (wind_name(true), wind_name(grid)) == ("north-east", "north")
    assert graph.verdicts["north_of"][1, 0] == TRUE
    # 1.5° past the border of the sector: ambiguous, and not silently the grid's answer
    assert graph.verdicts["northeast_of"][1, 0] == UNDECIDED


@pytest.mark.parametrize(
    ("bearing", "name"),
    [
        (0, "north"), (359, "north"), (1, "north"), (337.4, "north-west"), (337.5, "north"), (337.6, "north"), (22.4, "north"),
        (22.5, "north-east"), (22.6, "north-east"), (90, "east"), (135, "south-east"), (180, "south"), (225, "south-west"),
        (270, "west"), (315, "north-west"), (-45, "north-west"), (360, "north"), (720, "north"),
    ],
)  # fmt: skip
def test_g06_winds_are_half_open_sectors_around_the_circle(bearing: float, name: str) -> None:
    assert wind_name(bearing) == name


@pytest.mark.parametrize(("to", "name"), [((50, 10), "north"), ((90, 50), "east"), ((10, 90), "south-west"), ((50, 50), None)], ids=str)
def test_g06_rows_grow_to_the_south_and_the_same_place_has_no_direction(to: tuple[float, float], name: str | None) -> None:
    transform = (1.0, 0.0, 499950.0, 0.0, -1.0, 5500050.0)  # on the central meridian
    frame = SceneFrame("EPSG:32633", transform, fit_frame("EPSG:32633", transform, 100, 100))
    ground = frame.ground_from_image(np.array([[50.0, 50.0], to]))

    assert wind_name(float(azimuth_deg(ground[1:] - ground[:1])[0])) == name


def test_r03_up_in_a_rotated_raster_is_not_north() -> None:
    cos, sin = 2 * math.cos(math.radians(30)), 2 * math.sin(math.radians(30))
    transform = (cos, sin, 500000.0, sin, -cos, 5500000.0)

    frame = fit_frame("EPSG:32633", transform, 120, 80)

    # the scene lies on the central meridian: grid north is true north there
    assert frame.image_up_deg == pytest.approx(330.0, abs=0.01)
    assert not frame.is_north_up
    assert frame.gsd_m == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (shapely.box(500010 - 1e-8, 5500000, 500020, 5500010), "touches"),
        (shapely.box(500000, 5500010 + 1e-8, 500010, 5500020), "touches"),
        (shapely.box(499995, 5500000, 500000.5, 5500010), "overlaps"),
        (shapely.box(500040, 5500000, 500050, 5500010), "disjoint"),
        (shapely.box(500002, 5500002, 500004, 5500004), "within"),
    ],
    ids=["sliver", "gap", "overlap", "far", "inside"],
)
def test_g08_slivers_and_gaps_below_the_tolerance_only_touch(other: shapely.Geometry, expected: str) -> None:
    a = shapely.box(500000, 5500000, 500010, 5500010)

    assert topological_relation(a, other, 1e-6) == expected


def test_v01_diagonal_pixels_are_parts_under_four_connection() -> None:
    mask = np.zeros((12, 20), dtype=bool)
    mask[3, 4] = mask[4, 5] = mask[8:10, 10:12] = mask[10:12, 12:14] = True

    polygon = polygon_from_mask(mask)

    assert sorted(part.area for part in polygon.geoms) == [1, 1, 4, 4]
    assert shapely.is_valid(polygon)
    assert np.array_equal(crop_mask(polygon, 12, 20).mask, mask[3:12, 4:14])


def test_v02_repair_keeps_both_halves_of_a_bow_tie_and_drops_lines() -> None:
    bow = shapely.Polygon([(0, 0), (10, 10), (0, 10), (10, 0)])
    spike = shapely.Polygon([(20, 0), (30, 0), (30, 10), (45, 10), (30, 10), (20, 10)])
    good = shapely.Polygon([(50, 0), (60, 0), (60, 10), (50, 10)])

    made = [repair_polygon(g) for g in (bow, spike, good)]

    assert [m.geometry.area for m in made] == [50, 100, 100]
    assert [m.geometry.geom_type for m in made] == ["MultiPolygon", "Polygon", "Polygon"]
    assert [m.is_changed for m in made] == [True, True, False]
    assert "LineString" in made[1].note


def test_v03_footprints_below_a_pixel_cover_no_centre() -> None:
    boxes = [(5.1, 5.1, 5.4, 5.4), (4.6, 4.6, 5.4, 5.4), (4.0, 4.0, 6.0, 6.0)]

    assert [crop_mask(shapely.box(*box), 20, 20).area_px for box in boxes] == [0, 0, 4]


def test_b01_boxes_are_pixel_edges() -> None:
    labels = np.zeros((30, 50), dtype=np.uint16)
    labels[0:10, 0:10], labels[20, 33], labels[25:30, 45:50], labels[12:15, 5:49] = 1, 2, 3, 4
    polygons = polygons_from_labels(labels)
    xywh = {k: [b[0], b[1], b[2] - b[0], b[3] - b[1]] for k, b in ((k, hbb_from_polygon(p)) for k, p in polygons.items())}

    assert xywh == {1: [0, 0, 10, 10], 2: [33, 20, 1, 1], 3: [45, 25, 5, 5], 4: [5, 12, 44, 3]}
    assert {k: p.area for k, p in polygons.items()} == {1: 100, 2: 1, 3: 25, 4: 132}


def _rectangles_over_hull_edges(points: np.ndarray) -> list[tuple[float, float]]:
    hull = np.array(shapely.MultiPoint(points).convex_hull.exterior.coords)[:-1]
    sides = []
    for a, b in zip(hull, np.roll(hull, -1, axis=0), strict=True):
        u = (b - a) / np.hypot(*(b - a))
        sides.append((float(np.ptp(hull @ u)), float(np.ptp(hull @ np.array([-u[1], u[0]])))))
    return sides


def test_b02_least_area_is_not_least_width() -> None:
    random = np.random.default_rng(5)
    seen = 0
    for _ in range(5000):
        points = random.integers(0, 9, (5, 2)).astype(float)
        if shapely.MultiPoint(points).convex_hull.geom_type != "Polygon":
            continue
        sides = _rectangles_over_hull_edges(points)
        least_area = min(w * h for w, h in sides)
        narrowest = min((min(w, h), w * h) for w, h in sides)[1]
        if narrowest > least_area * 1.08:
            made = min_area_rectangle(shapely.MultiPoint(points))
            assert made.length * made.width == pytest.approx(least_area, rel=1e-9)
            if seen == 0:
                assert (round(least_area, 9), round(narrowest, 9)) == (27.0, 30.0)
            seen += 1
    assert seen > 10


@pytest.mark.parametrize("angle", [30, -30, 0, 90, 45, -45, 89.9999999])
def test_b04_every_angle_convention_gives_the_same_corners(angle: float) -> None:
    corners = corners_from_angled_box(AngledBox(100, 80, 40, 20, angle))

    for convention, low, high in (("le90", -90, 90), ("le135", -45, 135), ("opencv_0_90", 0, 90), ("opencv_m90_0", -90, 0)):
        box = angled_box_from_corners(corners, convention)  # type: ignore[arg-type]
        assert low <= box.angle_deg <= high
        assert corners_from_angled_box(box) == pytest.approx(corners, abs=1e-6)
    if angle == 30:
        assert corners == pytest.approx(
            np.array([[87.679492, 61.339746], [122.320508, 81.339746], [112.320508, 98.660254], [77.679492, 78.660254]]), abs=1e-6
        )


def test_m05_holes_survive_in_polygon_and_mask() -> None:
    mask = np.zeros((40, 64), dtype=bool)
    mask[10:30, 20:40] = True
    mask[15:25, 25:35] = False
    polygon = polygon_from_mask(mask)

    assert polygon.area == 300
    assert len(polygon.interiors) == 1
    assert hbb_from_polygon(polygon) == (20, 10, 40, 30)
    assert crop_mask(polygon, 40, 64).area_px == 300
