import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from trigpoint.boxes.calipers import min_area_rectangle, min_area_rectangles
from trigpoint.errors import InputError

POINTS = st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=3, max_size=24)


def brute_force_area(points: np.ndarray) -> float:
    """Smallest rectangle over all edges of the hull, edge by edge, in plain arithmetic."""
    hull = shapely.MultiPoint(points).convex_hull
    corners = np.array(hull.exterior.coords)[:-1]
    best = np.inf
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        u = (b - a) / np.hypot(*(b - a))
        v = np.array([-u[1], u[0]])
        best = min(best, np.ptp(corners @ u) * np.ptp(corners @ v))
    return float(best)


@given(POINTS)
def test_area_is_the_smallest_over_all_hull_edges_and_all_points_lie_within(points: list[tuple[int, int]]) -> None:
    array = np.array(points, dtype=float)
    if shapely.MultiPoint(array).convex_hull.geom_type != "Polygon":
        return
    made = min_area_rectangle(shapely.MultiPoint(array))
    rectangle = shapely.Polygon(made.corners)

    assert made.length * made.width == pytest.approx(brute_force_area(array), rel=1e-9)
    assert rectangle.area == pytest.approx(made.length * made.width, rel=1e-9)
    assert shapely.distance(shapely.points(array), rectangle).max() < 1e-9


@given(POINTS, st.floats(-5e6, 5e6), st.floats(-5e6, 5e6))
def test_corners_are_as_exact_at_map_coordinates_as_at_the_origin(points: list[tuple[int, int]], x: float, y: float) -> None:
    array, origin = np.array(points, dtype=float), np.round([x, y])
    here = min_area_rectangle(shapely.MultiPoint(array))
    there = min_area_rectangle(shapely.MultiPoint(array + origin))

    assert there.corners - origin == pytest.approx(here.corners, abs=1e-6)


def test_corners_run_clockwise_on_screen_from_the_topmost_then_leftmost() -> None:
    made = min_area_rectangle(shapely.Polygon([(10, 0), (20, 10), (13, 17), (3, 7)]))
    (x1, y1), (x2, y2), (x3, y3), _ = made.corners

    assert made.corners[0] == pytest.approx([10, 0])
    assert (x2 - x1) * (y3 - y2) - (y2 - y1) * (x3 - x2) > 0  # a right turn where y points down
    assert made.long_angle_deg == pytest.approx(45)


@given(POINTS)
def test_first_corner_is_the_topmost_then_leftmost_of_the_four(points: list[tuple[int, int]]) -> None:
    corners = min_area_rectangle(shapely.MultiPoint(points)).corners
    top = corners[:, 1].min()

    assert corners[0, 1] == pytest.approx(top, abs=1e-6)
    assert corners[0, 0] == pytest.approx(corners[corners[:, 1] <= top + 1e-6, 0].min(), abs=1e-6)


def test_of_equal_areas_the_long_side_nearest_the_x_axis_wins() -> None:
    # a regular octagon-like hull whose axis-parallel and diagonal rectangles tie
    made = min_area_rectangle(shapely.Polygon([(1, 0), (2, 0), (3, 1), (3, 2), (2, 3), (1, 3), (0, 2), (0, 1)]))

    assert brute_force_area(np.array([(1, 0), (2, 0), (3, 1), (3, 2), (2, 3), (1, 3), (0, 2), (0, 1)], dtype=float)) == pytest.approx(8.0)
    assert made.length * made.width == pytest.approx(8.0)


def test_square_and_its_quarter_turn_give_the_same_corners() -> None:
    square = shapely.box(2, 3, 6, 7)

    assert np.array_equal(min_area_rectangle(square).corners, [[2, 3], [6, 3], [6, 7], [2, 7]])


def test_collinear_points_and_single_points_get_their_true_extent() -> None:
    line = min_area_rectangle(shapely.LineString([(0, 0), (3, 4)]))
    point = min_area_rectangle(shapely.Point(2, 5))

    assert (line.length, line.width) == pytest.approx((5.0, 0.0))
    assert (point.length, point.width) == (0.0, 0.0)


def test_empty_geometry_is_refused_by_position() -> None:
    with pytest.raises(InputError, match="geometry 1 is empty"):
        min_area_rectangles(np.array([shapely.box(0, 0, 1, 1), shapely.Polygon()]))
