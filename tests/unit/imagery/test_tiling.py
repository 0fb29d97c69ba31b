import numpy as np
import pytest
import shapely
from pyproj import Geod

from trigpoint.errors import InputError
from trigpoint.imagery.bbox import box_of, check_box, parts_of_box
from trigpoint.imagery.tiling import Sampling, choose_points

GEOD = Geod(ellps="WGS84")


def test_quotas_hold_per_category_and_the_rare_one_goes_first() -> None:
    random = np.random.default_rng(3)
    points = random.uniform(0, 1, (200, 2))
    kinds = [("cafe", "shop") if k % 20 == 0 else (("tower",) if k % 50 == 7 else ("cafe",)) for k in range(200)]
    chosen = choose_points(points, kinds, range(200), Sampling({"cafe": 6, "shop": 3, "tower": 9}))

    counts = {name: sum(name in kinds[k] for k in chosen.indices) for name in ("cafe", "shop", "tower")}
    assert counts == {"cafe": 6, "shop": 3, "tower": 4}
    assert chosen.missing == {"tower": 5}
    assert len(set(chosen.indices)) == len(chosen.indices)


def test_chosen_points_keep_their_distance_also_over_the_antimeridian() -> None:
    random = np.random.default_rng(5)
    points = np.column_stack(
        [np.where(random.random(300) < 0.5, 179.99, -180.0) + random.uniform(0, 0.01, 300), random.uniform(60, 60.01, 300)]
    )
    chosen = choose_points(points, [("a",)] * 300, range(300), Sampling({"a": 300}, min_spacing_m=120.0))

    picked = points[chosen.indices]
    ways = [GEOD.inv(*picked[i], *picked[j])[2] for i in range(len(picked)) for j in range(i)]
    assert min(ways) >= 120.0
    assert list(chosen.refused.values()) == ["too_near"] * (300 - len(picked)) != []
    left = [k for k in range(300) if k not in chosen.indices]
    assert all(min(GEOD.inv(*points[k], *other)[2] for other in picked) < 120.0 for k in left)


def test_a_region_holds_no_more_than_its_share() -> None:
    random = np.random.default_rng(7)
    points = np.column_stack([random.uniform(20, 20.2, 400), random.uniform(59.9, 60.1, 400)])
    chosen = choose_points(points, [("a",)] * 400, range(400), Sampling({"a": 400}, per_region=2, region_km=5.0))

    spread = [GEOD.inv(20.0, 59.9, *points[k])[2] for k in chosen.indices]
    assert 2 * 12 <= len(chosen.indices) <= 2 * 30  # about 11 × 22 km in cells of 5 km
    assert max(spread) > 15_000


def test_every_point_that_is_not_chosen_has_its_reason() -> None:
    points = np.array([[0.0, 0.0], [0.0001, 0.0], [0.001, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]])
    kinds = [("a",), ("a",), ("a",), ("a",), ("a", "b"), ("b",), ("c",)]
    sampling = Sampling({"a": 3, "b": 1}, min_spacing_m=50.0, per_region=2, region_km=5.0)

    chosen = choose_points(points, kinds, [0, 1, 2, 5, 4, 3, 6], sampling)

    assert chosen.indices == [5, 0, 2, 3]
    assert chosen.refused == {1: "too_near", 4: "quota_full"}
    full = choose_points(points[:3], kinds[:3], [0, 1, 2], sampling._replace(quota={"a": 3}, per_region=1))
    assert (full.indices, full.missing, full.refused) == ([0], {"a": 2}, {1: "region_full", 2: "region_full"})
    few = choose_points(points[:4], kinds[:4], [3, 2, 1, 0], sampling._replace(quota={"a": 3}, limit=1))
    assert (few.indices, few.missing, few.refused) == ([3], {"a": 2}, {0: "over_limit", 1: "over_limit", 2: "over_limit"})


def test_choice_follows_the_order_alone() -> None:
    points = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
    kinds = [("a",), ("a",), ("b",)]

    assert choose_points(points, kinds, [1, 0, 2], Sampling({"a": 1, "b": 1})).indices == [2, 1]
    assert choose_points(points, kinds, [2, 0, 1], Sampling({"a": 1, "b": 1}, limit=1)).indices == [2]
    assert choose_points(points[:0], [], [], Sampling({"a": 1})).missing == {"a": 1}
    assert choose_points(points, kinds, [0, 1, 2], Sampling({"a": 0})).indices == []


def test_boxes_over_the_antimeridian() -> None:
    assert parts_of_box((-180.0, 0.0, 180.0, 1.0)) == ((-180.0, 0.0, 180.0, 1.0),)
    assert parts_of_box((180.0, 0.0, -179.0, 1.0)) == ((-180.0, 0.0, -179.0, 1.0),)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["MULTIPOINT ((179.9995 -17), (180 -17))", "MULTIPOINT ((-180 -17.001), (-179.9995 -17))"], (179.9995, -17.001, -179.9995, -17.0)),
        (["POINT (140 35)", "POINT (-120 40)"], (140.0, 35.0, -120.0, 40.0)),
        (["POINT (-120 40)", "POINT (100 35)", "POINT (10 50)"], (-120.0, 35.0, 100.0, 50.0)),
        (["LINESTRING (-170 0, 20 5)", "LINESTRING (-160 1, -150 2)", "POINT (30 0)"], (-170.0, 0.0, 30.0, 5.0)),
        (["LINESTRING (-180 -60, 180 -61)"], (-180.0, -61.0, 180.0, -60.0)),
        (["POINT (-180 3)", "POINT EMPTY"], (-180.0, 3.0, -180.0, 3.0)),
    ],
    ids=["over 180", "shorter over the Pacific", "shorter over Greenwich", "within each other", "round the Earth", "one point"],
)
def test_the_box_around_geometries_leaves_out_the_widest_gap(texts: list[str], expected: tuple[float, float, float, float]) -> None:
    geometries = shapely.from_wkt(np.array(texts, dtype=object))

    assert box_of(geometries) == expected
    assert box_of(geometries[::-1]) == expected


def test_there_is_no_box_around_nothing() -> None:
    with pytest.raises(InputError, match="no geometry has a point"):
        box_of(np.empty(0, dtype=object))


@pytest.mark.parametrize("box", [(0, 1, 1, 0), (0, 0, 0, 1), (0, 0, 181, 1), (0, -91, 1, 0), (float("nan"), 0, 1, 1)])
def test_what_is_no_box_is_refused(box: tuple[float, float, float, float]) -> None:
    with pytest.raises(InputError, match="bbox"):
        check_box(box)
