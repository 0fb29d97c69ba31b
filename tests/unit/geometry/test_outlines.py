from fractions import Fraction

import numpy as np
import pytest
import rasterio.features
import shapely
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trigpoint.errors import InputError
from trigpoint.geometry.outlines import _simplified_rings, measuring_outline, polygon_from_mask, polygons_from_labels
from trigpoint.masks.rasterise import crop_mask
from trigpoint.masks.rle import decode_rle, encode_mask

MASKS = arrays(bool, st.tuples(st.integers(1, 14), st.integers(1, 17)))


def rasterised(polygon: shapely.Geometry, shape: tuple[int, int]) -> np.ndarray:
    crop = crop_mask(polygon, *shape)
    out = np.zeros(shape, dtype=bool)
    out[crop.slices] = crop.mask
    return out


@given(MASKS.filter(lambda m: m.any()))
def test_mask_polygon_and_rle_give_the_mask_back_bit_for_bit(mask: np.ndarray) -> None:
    polygon = polygon_from_mask(mask)

    assert shapely.is_valid(polygon)
    assert polygon.area == mask.sum()
    assert np.array_equal(rasterised(polygon, mask.shape), mask)
    assert np.array_equal(decode_rle(encode_mask(mask), mask.shape), mask)


@given(MASKS.filter(lambda m: m.any()))
def test_measuring_outline_is_valid_close_and_keeps_holes_and_parts(mask: np.ndarray) -> None:
    polygon = polygon_from_mask(mask)
    outline = measuring_outline(polygon)

    assert shapely.is_valid(outline)
    assert shapely.hausdorff_distance(polygon.boundary, outline.boundary) <= 1.0 + 1e-9
    assert shapely.get_num_geometries(outline) == shapely.get_num_geometries(polygon)
    assert sum(shapely.get_num_interior_rings(shapely.get_parts(outline))) == sum(
        shapely.get_num_interior_rings(shapely.get_parts(polygon))
    )


def test_measuring_outline_takes_the_staircase_out_of_a_perimeter() -> None:
    rows, cols = np.mgrid[0:200, 0:200]
    disc = (rows - 99.5) ** 2 + (cols - 99.5) ** 2 < 80**2
    polygon = polygon_from_mask(disc)

    assert polygon.length > 1.25 * 2 * np.pi * 80
    assert measuring_outline(polygon).length == pytest.approx(2 * np.pi * 80, rel=0.03)


def slow_douglas_peucker(chain: np.ndarray, tolerance: Fraction) -> list[tuple[int, int]]:
    """One chain, in fractions, as the textbook has it."""
    (x0, y0), (x1, y1) = (tuple(int(v) for v in chain[k]) for k in (0, -1))
    dx, dy = x1 - x0, y1 - y0
    best, where = Fraction(-1), -1
    for k in range(1, len(chain) - 1):
        px, py = (int(v) for v in chain[k])
        t = min(Fraction(1), max(Fraction(0), Fraction((px - x0) * dx + (py - y0) * dy, dx * dx + dy * dy)))
        d2 = (x0 + t * dx - px) ** 2 + (y0 + t * dy - py) ** 2
        if d2 > best:
            best, where = d2, k
    if where < 0 or best <= tolerance**2:
        return [(x0, y0), (x1, y1)]
    return slow_douglas_peucker(chain[: where + 1], tolerance)[:-1] + slow_douglas_peucker(chain[where:], tolerance)


def slow_outline(ring: list[tuple[int, int]], tolerance: Fraction) -> list[tuple[int, int]]:
    """One ring without its repeated vertex: from its start vertex over the first farthest vertex and back, each half on its own."""
    start = min(range(len(ring)), key=lambda k: (ring[k][1], ring[k][0]))
    ring = [*ring[start:], *ring[:start]]
    d2 = [(x - ring[0][0]) ** 2 + (y - ring[0][1]) ** 2 for x, y in ring]
    far = d2.index(max(d2))
    one, other = np.array(ring[: far + 1]), np.array([*ring[far:], ring[0]])
    return slow_douglas_peucker(one, tolerance)[:-1] + slow_douglas_peucker(other, tolerance)


@given(MASKS.filter(lambda m: m.any()), st.sampled_from([1.0, 0.5]))
def test_simplified_rings_are_those_of_the_textbook_in_exact_fractions(mask: np.ndarray, tolerance: float) -> None:
    rings = [shapely.get_coordinates(ring)[:-1].astype(int) for ring in shapely.get_rings(shapely.get_parts(polygon_from_mask(mask)))]

    points, counts = _simplified_rings(np.concatenate(rings), np.array([len(ring) for ring in rings]), tolerance)

    made = [[(x, y) for x, y in ring] for ring in np.split(points, np.cumsum(counts)[:-1])]
    assert made == [slow_outline([(x, y) for x, y in ring.tolist()], Fraction(tolerance)) for ring in rings]


def rasterio_polygons(labels: np.ndarray) -> dict[int, shapely.Geometry]:
    """The same outlines by GDAL, whose vertices stand on every pixel edge."""
    parts: dict[int, list[shapely.Geometry]] = {}
    for shape, value in rasterio.features.shapes(labels.astype(np.int32), mask=labels != 0, connectivity=4):
        parts.setdefault(int(value), []).append(shapely.geometry.shape(shape))
    return {value: shapely.MultiPolygon(pieces) for value, pieces in parts.items()}


def same_outline(one: shapely.Geometry, other: shapely.Geometry) -> bool:
    """Whether two outlines have the same parts and holes, wherever their rings start."""
    one, other = (shapely.normalize(shapely.simplify(g, 0)) for g in (one, other))
    holes = [sorted(len(part.interiors) for part in shapely.get_parts(g)) for g in (one, other)]
    return shapely.equals(one, other) and holes[0] == holes[1]


@given(arrays(np.uint16, st.tuples(st.integers(1, 14), st.integers(1, 17)), elements=st.integers(0, 3)))
def test_traced_index_maps_are_valid_and_those_of_gdal(labels: np.ndarray) -> None:
    traced, expected = polygons_from_labels(labels), rasterio_polygons(labels)

    assert list(traced) == sorted(expected)
    for value, polygon in traced.items():
        assert shapely.is_valid(polygon)
        assert polygon.area == np.count_nonzero(labels == value)
        assert same_outline(polygon, expected[value])
        assert all(shapely.is_ccw(part.exterior) for part in shapely.get_parts(polygon)), "clockwise on screen, where y goes down"


PINCHED = """
    1 1 1 1 1 1 1
    1 0 1 1 1 0 1
    1 1 0 1 1 1 1
    1 1 1 2 2 2 1
    1 0 1 2 1 2 1
    0 1 1 2 2 2 1
    1 1 1 1 1 1 1
"""


def test_holes_that_meet_at_corners_stay_holes_and_a_part_within_a_hole_keeps_its_own() -> None:
    labels = np.array([row.split() for row in PINCHED.split("\n") if row.strip()], dtype=np.uint16)

    one, two = polygons_from_labels(labels).values()

    # by hand: value 1 has 35 pixels around the ring of value 2 and 1 inside it; the two holes at (1, 1) and (2, 2) meet at a corner,
    # the bay at (5, 0) meets the hole at (4, 1), and the hole that value 2 fills holds the single pixel at (4, 4)
    assert sorted(part.area for part in one.geoms) == [1, 35]
    assert sorted(shapely.Polygon(ring).area for part in one.geoms for ring in part.interiors) == [1, 1, 1, 1, 9]
    assert shapely.is_valid(one)
    assert (two.area, [shapely.Polygon(ring).area for ring in two.interiors]) == (8, [1])


def test_outline_does_not_depend_on_where_the_mask_lies() -> None:
    mask = np.zeros((60, 60), dtype=bool)
    mask[5:30, 4:9] = mask[25:30, 4:40] = True
    moved = np.roll(mask, (17, 11), axis=(0, 1))

    one, other = measuring_outline(polygon_from_mask(mask)), measuring_outline(polygon_from_mask(moved))

    assert shapely.equals_exact(shapely.transform(one, lambda p: p + np.array([11, 17])), other)


def test_index_map_is_traced_value_by_value() -> None:
    labels = np.array([[1, 1, 0], [2, 1, 0], [2, 0, 3]], dtype=np.uint16)

    assert {k: p.area for k, p in polygons_from_labels(labels).items()} == {1: 3.0, 2: 2.0, 3: 1.0}


def test_empty_mask_is_refused() -> None:
    with pytest.raises(InputError, match="0 true pixels"):
        polygon_from_mask(np.zeros((3, 4), dtype=bool))
