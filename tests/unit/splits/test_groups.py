import itertools
import random

import pytest
import shapely

from trigpoint.errors import LeakageError
from trigpoint.geometry.repair import split_at_antimeridian
from trigpoint.records.scene import Window
from trigpoint.splits.groups import SplitScene, assign_groups, footprint_distance_m, group_scenes, split_document

SHARES = {"train": 0.6, "val": 0.2, "test": 0.2}


def scene(name: str, col: int, row: int, source: str = "a", lon: float = 8.0, size: int = 100, n: int = 10) -> SplitScene:
    """A scene of 1e-5° pixels at latitude 0."""
    west, north = lon + col * 1e-5, -row * 1e-5
    footprint = shapely.box(west, north - size * 1e-5, west + size * 1e-5, north)
    return SplitScene(name, source * 64, Window(col_off=col, row_off=row, width=size, height=size), footprint, n)


def test_windows_that_share_a_pixel_are_one_group_and_neighbours_are_not() -> None:
    scenes = [scene("s1", 0, 0), scene("s2", 99, 99), scene("s3", 199, 99), scene("s4", 500, 0)]

    groups = group_scenes(scenes, 0.0, 100.0)

    assert sorted(g.scenes for g in groups) == [("s1", "s2"), ("s3",), ("s4",)]
    assert any("1 shared native pixels" in reason for g in groups for reason in g.reasons)


def test_chains_are_one_group_whatever_the_order() -> None:
    scenes = [scene(f"s{k}", 90 * k, 0) for k in range(6)]
    shuffled = random.Random(1).sample(scenes, 6)

    assert group_scenes(scenes, 0, 100) == group_scenes(shuffled, 0, 100)
    assert len(group_scenes(scenes, 0, 100)) == 1


def test_other_sources_are_grouped_by_ground_distance() -> None:
    # 8.0010 + 80 px gap of 1e-5° at the equator = 89 m; 100 px = 111 m
    near = [scene("s1", 0, 0), scene("s2", 180, 0, source="b")]
    apart = [scene("s1", 0, 0), scene("s2", 200, 0, source="b")]

    assert footprint_distance_m(near[0].footprint, near[1].footprint) == pytest.approx(89.1, rel=0.01)
    assert len(group_scenes(near, 0, 100)) == 1
    assert len(group_scenes(apart, 0, 100)) == 2


def test_footprints_on_both_sides_of_the_antimeridian_are_close() -> None:
    a, b = shapely.box(179.999, 0, 179.9995, 0.001), shapely.box(-179.9995, 0, -179.999, 0.001)

    assert footprint_distance_m(a, b) == pytest.approx(111.3, rel=0.01)


def test_groups_never_straddle_and_every_split_gets_one() -> None:
    scenes = [scene(f"s{k}{j}", 1000 * k + 50 * j, 0, n=5 * k + 1) for k, j in itertools.product(range(5), range(2))]
    groups = group_scenes(scenes, 0, 100)
    assignment = assign_groups(groups, scenes, SHARES, seed=3)
    where = {s: name for name, ids in assignment.items() for s in ids}

    assert sorted(where) == sorted(s.scene_id for s in scenes)
    assert all(len({where[s] for s in g.scenes}) == 1 for g in groups)
    assert all(assignment.values())
    assert assign_groups(groups[::-1], scenes, SHARES, seed=3) == assignment


def test_the_proof_counts_what_it_claims() -> None:
    scenes = [scene("s1", 0, 0, n=6), scene("s2", 1000, 0, n=2), scene("s3", 2000, 0, n=2)]
    groups = group_scenes(scenes, 0, 100)
    assignment = {"train": ["s1"], "val": ["s2"], "test": ["s3"]}

    document = split_document("scene-disjoint", scenes, groups, assignment, 3, SHARES, (0, 100))

    assert document["proof"]["queries"] == {"train": 6, "val": 2, "test": 2}
    assert document["proof"]["shared_pixels_between_splits"] == 0
    assert document["proof"]["smallest_distance_m"]["train-val"] == pytest.approx(900 * 1.11319, rel=0.01)


def test_a_leaking_assignment_is_refused_with_its_pairs() -> None:
    scenes = [scene("s1", 0, 0), scene("s2", 50, 50), scene("s3", 1000, 0)]

    with pytest.raises(LeakageError, match="share 2500 native pixels") as caught:
        split_document("p", scenes, [], {"train": ["s1"], "val": ["s2"], "test": ["s3"]}, 0, SHARES, (0, 100))
    assert caught.value.pairs == [("s1", "s2")]


def test_wide_footprints_that_overlap_are_at_no_distance() -> None:
    assert footprint_distance_m(shapely.box(8, 45, 9.4, 46), shapely.box(9.3, 45, 10.7, 46)) == 0


def test_a_footprint_split_at_the_antimeridian_is_as_near_as_it_is() -> None:
    whole = split_at_antimeridian(shapely.Polygon([(179.995, 0), (-179.995, 0), (-179.995, 0.01), (179.995, 0.01)]))

    assert whole.geom_type == "MultiPolygon"
    assert footprint_distance_m(whole, shapely.box(-179.9945, 0, -179.99, 0.01)) == pytest.approx(55.7, rel=0.01)
