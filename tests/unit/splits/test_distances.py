import itertools

import numpy as np
import pyproj
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from trigpoint.geometry.repair import split_at_antimeridian
from trigpoint.splits.distances import Footprints, PairArrays, footprint_distance_m

NO_PAIRS = PairArrays(np.empty(0, np.int64), np.empty(0, np.int64))


def box(lon: float, lat: float, width: float = 0.01, height: float = 0.01) -> shapely.Polygon:
    return shapely.box(lon, lat, lon + width, lat + height)


PLACES = st.lists(
    st.tuples(st.sampled_from([-179.99, 179.985, 8.0, 8.3, 60.0]), st.floats(0, 0.05), st.floats(-80, 80)), min_size=2, max_size=8
)


def all_pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    i, j = np.array(list(itertools.combinations(range(n), 2)), dtype=np.int64).reshape(-1, 2).T
    return i, j


def test_distances_are_those_of_proj() -> None:
    a, b = box(8, 47), box(8.05, 47.02)
    middle = (8.0 + 8.06) / 2, (47.005 + 47.025) / 2
    local = pyproj.Transformer.from_crs("OGC:CRS84", f"+proj=aeqd +lon_0={middle[0]} +lat_0={middle[1]} +datum=WGS84", always_xy=True)
    flat = [shapely.transform(shape, lambda p: np.column_stack(local.transform(p[:, 0], p[:, 1]))) for shape in (a, b)]

    assert footprint_distance_m(a, b) == pytest.approx(shapely.distance(*flat), abs=1e-4)


def test_a_gap_on_the_equator_is_as_wide_as_its_degrees() -> None:
    assert footprint_distance_m(box(8, 0), box(8.02, 0)) == pytest.approx(0.01 * 111319.49, rel=1e-4)


def test_far_footprints_are_measured_between_their_centroids() -> None:
    geodesic = pyproj.Geod(ellps="WGS84").inv(8.005, 47.005, 10.005, 47.005)[2]

    assert footprint_distance_m(box(8, 47), box(10, 47)) == pytest.approx(geodesic)


def test_wide_footprints_that_overlap_are_at_no_distance() -> None:
    assert footprint_distance_m(shapely.box(8, 45, 9.4, 46), shapely.box(9.3, 45, 10.7, 46)) == 0


def test_a_footprint_split_at_the_antimeridian_is_as_near_as_it_is() -> None:
    whole = split_at_antimeridian(shapely.Polygon([(179.995, 0), (-179.995, 0), (-179.995, 0.01), (179.995, 0.01)]))

    assert whole.geom_type == "MultiPolygon"
    assert footprint_distance_m(whole, shapely.box(-179.9945, 0, -179.99, 0.01)) == pytest.approx(55.7, rel=0.01)


def test_overlaps_are_shares_of_the_smaller_footprint() -> None:
    shapes = Footprints([box(8, 0), box(8.005, 0, 0.005, 0.005), box(8.0075, 0)])

    shares = shapes.overlap_shares(np.array([0, 0, 1]), np.array([1, 2, 2]))

    assert shares == pytest.approx([1.0, 0.25, 0.5], abs=1e-4)


@given(PLACES, st.sampled_from([0.0, 100.0, 5_000.0]))
def test_no_close_pair_is_missing_among_the_candidates(places: list[tuple[float, float, float]], reach_m: float) -> None:
    shapes = Footprints([box(lon + more, lat) for lon, more, lat in places])
    i, j = all_pairs(len(places))
    close = shapes.distances_m(i, j) < reach_m

    found = set(zip(*(array.tolist() for array in shapes.candidates(reach_m)), strict=True))

    assert set(zip(i[close].tolist(), j[close].tolist(), strict=True)) <= found


@given(PLACES)
def test_the_smallest_distance_is_that_of_all_pairs(places: list[tuple[float, float, float]]) -> None:
    shapes = Footprints([box(lon + more, lat) for lon, more, lat in places])
    ones, others = np.arange(0, len(places), 2), np.arange(1, len(places), 2)
    i, j = (array.ravel() for array in np.meshgrid(ones, others))

    assert shapes.smallest_m(ones, others) == pytest.approx(shapes.distances_m(i, j).min())


def test_there_is_no_smallest_distance_to_nothing() -> None:
    assert Footprints([box(8, 0)]).smallest_m(np.array([0]), np.empty(0, np.int64)) is None


@given(PLACES, st.sampled_from([300.0, 3_000.0, 40_000.0]))
def test_components_are_those_of_all_close_pairs(places: list[tuple[float, float, float]], reach_m: float) -> None:
    shapes = Footprints([box(lon + more, lat) for lon, more, lat in places])
    i, j = all_pairs(len(places))
    close = shapes.distances_m(i, j) < reach_m
    parent = list(range(len(places)))
    for a, b in zip(i[close], j[close], strict=True):
        old, new = parent[b], parent[a]
        parent = [new if p == old else p for p in parent]

    labels = shapes.components(reach_m, NO_PAIRS)

    assert [labels[a] == labels[b] for a, b in zip(i, j, strict=True)] == [parent[a] == parent[b] for a, b in zip(i, j, strict=True)]


def test_joined_footprints_are_one_component_wherever_they_are() -> None:
    shapes = Footprints([box(8, 0), box(60, 0), box(100, 0)])

    labels = shapes.components(1000.0, PairArrays(np.array([0]), np.array([2])))

    assert (labels[0] == labels[2], labels[0] == labels[1]) == (True, False)
