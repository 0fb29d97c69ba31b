"""The auditor's own geometry: boxes, outlines, run lengths, frames; expected values by hand or by a second library."""

import math

import numpy as np
import pyproj
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco_mask

from trigpoint.audit.boxes import oriented_box, smallest_rectangles
from trigpoint.audit.georeferencing import apply_transform, metric_choices
from trigpoint.audit.grouping import nearness, shared_pixels
from trigpoint.audit.outline import measuring_outline, normalise_ring, pixel_edge_parts, polygon_of, simplify_chain
from trigpoint.audit.ownership import mask_runs, rle_counts, rle_runs
from trigpoint.audit.reading import Scene


def area_of(corners):
    return float(shapely.Polygon(corners).area)


def test_the_oriented_box_is_minimal_in_area_not_in_width():
    points = np.array([[8, 6], [5, 4], [8, 1], [3, 5], [5, 0]], dtype=float)

    assert area_of(oriented_box(points)) == pytest.approx(27.0, abs=1e-9)  # the rectangle of minimal width has 30


def test_a_box_starts_at_the_smallest_y_then_the_smallest_x_and_runs_clockwise_on_screen():
    diamond = np.array([[5, 0], [10, 5], [5, 10], [0, 5]], dtype=float)

    np.testing.assert_allclose(oriented_box(diamond), [[5, 0], [10, 5], [5, 10], [0, 5]], atol=1e-12)
    np.testing.assert_array_equal(oriented_box(np.array([[3, 5], [4, 5], [4, 6], [3, 6.0]])), [[3, 5], [4, 5], [4, 6], [3, 6]])


def test_of_equal_areas_the_box_whose_long_side_is_closest_to_the_x_axis_wins():
    octagon = np.array([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in range(0, 360, 45)])

    assert len(smallest_rectangles(octagon)) == 8
    angles = np.degrees(np.arctan2(*(np.roll(oriented_box(octagon), -1, 0) - oriented_box(octagon)).T[::-1])) % 90
    # Hull edges of this octagon lie at 22.5 and 67.5 degrees: as squares both give the same four directions modulo 90.
    assert np.allclose(np.minimum(angles, 90 - angles), 22.5)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_rotation_gives_a_smaller_box(seed):
    points = np.random.Generator(np.random.PCG64(seed)).integers(0, 30, (8, 2)).astype(float)
    if shapely.convex_hull(shapely.multipoints(points)).geom_type != "Polygon":
        return

    box = oriented_box(points)

    assert shapely.Polygon(box).buffer(1e-6).covers(shapely.multipoints(points))
    for degrees in range(0, 90, 3):
        turn = np.array(
            [
                [math.cos(math.radians(degrees)), -math.sin(math.radians(degrees))],
                [math.sin(math.radians(degrees)), math.cos(math.radians(degrees))],
            ]
        )
        assert np.prod(np.ptp(points @ turn, axis=0)) >= area_of(box) * (1 - 1e-9)


def masks():
    return st.integers(0, 2**32 - 1).map(
        lambda seed: np.random.Generator(np.random.PCG64(seed)).random((13, 17)) < (0.3 + 0.6 * (seed % 7) / 7)
    )


@settings(max_examples=60, deadline=None)
@given(masks())
def test_pixel_edges_of_any_mask_are_valid_and_have_its_area(mask):
    if not mask.any():
        return

    parts = pixel_edge_parts(mask.astype(np.uint8))[1]
    polygon = polygon_of(parts)

    assert shapely.is_valid(polygon)
    assert polygon.area == mask.sum()
    outline = measuring_outline(parts)
    assert shapely.is_valid(outline)
    assert outline.hausdorff_distance(polygon) <= 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(masks())
def test_run_lengths_agree_with_pycocotools(mask):
    text = coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()

    assert sum(rle_counts(text)) == mask.size
    np.testing.assert_array_equal(rle_runs(text, mask.size), mask_runs(mask, (slice(0, 13), slice(0, 17)), 13))


@pytest.mark.parametrize("text", ["`", "PPPPPPPPPPPPPPPPPPPPPPPP", "é", "31", "~~~~"])
def test_impossible_run_lengths_are_refused(text):
    with pytest.raises(ValueError):
        rle_runs(text, 12)


def test_runs_are_counted_from_the_window():
    mask = np.array([[True, False], [True, True]])

    runs = mask_runs(mask, (slice(3, 5), slice(2, 4)), 10)

    np.testing.assert_array_equal(runs, [[23, 25], [34, 35]])


def test_simplifying_a_chain_agrees_with_shapely():
    rng = np.random.Generator(np.random.PCG64(3))
    chain = np.cumsum(rng.integers(-2, 4, (80, 2)), axis=0).astype(float)

    right = shapely.get_coordinates(shapely.simplify(shapely.LineString(chain), 1.0, preserve_topology=False))

    np.testing.assert_array_equal(simplify_chain(chain, 1.0), right)


def test_a_ring_starts_at_the_top_left_and_turns_as_asked():
    square = np.array([[4, 9], [4, 2], [8, 2], [8, 9]], dtype=float)

    assert normalise_ring(square, clockwise=True).tolist() == [[4, 2], [8, 2], [8, 9], [4, 9]]
    assert normalise_ring(square, clockwise=False).tolist() == [[4, 2], [4, 9], [8, 9], [8, 2]]


def test_a_one_pixel_hole_halves_the_tolerance_instead_of_vanishing():
    mask = np.ones((9, 9), dtype=np.uint8)
    mask[4, 4] = 0

    outline = measuring_outline(pixel_edge_parts(mask)[1])

    assert outline.area == 80
    assert len(outline.interiors) == 1


def places(crs, transform, width=100, height=100):
    points = np.array([[0, 0], [width, 0], [width, height], [0, height], [width / 2, height / 2]], dtype=float)
    return metric_choices(pyproj.CRS.from_user_input(crs), np.column_stack(apply_transform(transform, points)))


@pytest.mark.parametrize(
    ("crs", "transform", "codes"),
    [
        ("EPSG:32645", (1, 0, 330000, 0, -1, 3060000), [32645]),
        ("EPSG:3857", (0.15, 0, 9520300, 0, -0.15, 3203400), [32645]),
        ("EPSG:4326", (1e-5, 0, -70, 0, -1e-5, -33), [32719]),
        ("EPSG:4326", (1e-4, 0, 20, 0, -1e-4, 86), [5041, 32661]),
        ("EPSG:2263", (2, 0, 984000, 0, -2, 215000), [32618]),
        ("EPSG:32633", (1, 0, 1100000, 0, -1, 5500000), [32634]),  # far off its zone: the scale is 1.004
    ],
    ids=["utm", "web mercator", "degrees", "polar", "feet", "another zone"],
)
def test_the_metric_frame_follows_the_rule(crs, transform, codes):
    assert [choice.to_epsg() for choice in places(crs, transform)] == codes


def test_distances_reach_over_the_antimeridian():
    one, other = shapely.box(179.90, 10, 179.99, 10.1), shapely.box(-179.99, 10, -179.90, 10.1)

    _, _, right = pyproj.Geod(ellps="WGS84").inv(179.99, 10.1, -179.99, 10.1)
    assert nearness(one, other).distance_m == pytest.approx(right, rel=1e-3)


def test_windows_that_touch_share_no_pixel():
    def window(*values):
        fields = dict.fromkeys(Scene.__dataclass_fields__) | {"source_sha256": "a", "window": values}
        return Scene(**fields)

    assert shared_pixels(window(0, 0, 10, 10), window(10, 0, 10, 10)) == 0
    assert shared_pixels(window(0, 0, 10, 10), window(9, 8, 10, 10)) == 2


@pytest.mark.parametrize("degrees", range(1, 90, 4))
def test_staircases_full_of_equal_distances_simplify_as_shapely_does(degrees):
    y, x = np.mgrid[0:160, 0:160] - 79.5
    turn = math.radians(degrees)
    u, v = x * math.cos(turn) + y * math.sin(turn), y * math.cos(turn) - x * math.sin(turn)
    ring = pixel_edge_parts(((abs(u) < 61) & (abs(v) < 23)).astype(np.uint8))[1][0][0]
    far = int(np.argmax(((ring - ring[0]) ** 2).sum(axis=1)))

    for half in (ring[: far + 1], np.vstack([ring[far:], ring[:1]])):
        right = shapely.get_coordinates(shapely.simplify(shapely.LineString(half), 1.0, preserve_topology=False))
        np.testing.assert_array_equal(simplify_chain(half, 1.0), right)


def test_a_chain_too_long_for_64_bits_simplifies_the_same():
    chain = np.array([[0, 0], [3, 1], [9, 2], [20, 0], [31, -1], [40, 0]], dtype=float)
    scale = 1 << 20

    assert simplify_chain(chain * scale, 1.5 * scale).tolist() == (simplify_chain(chain, 1.5) * scale).tolist()
