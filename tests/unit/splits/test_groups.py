import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.splits.made import made_scene, random_grid
from trigpoint.config import SplitConfig
from trigpoint.imagery.tiling import shared_pixels
from trigpoint.splits.distances import footprint_distance_m
from trigpoint.splits.groups import SceneSet, SplitScene, group_scenes


def grouped(scenes: list[SplitScene], **config: float) -> list[tuple[str, ...]]:
    return sorted(group.scenes for group in group_scenes(SceneSet(scenes), SplitConfig.model_validate(config)))


def reasons(scenes: list[SplitScene], **config: float) -> list[Any]:
    return [tuple(r) for group in group_scenes(SceneSet(scenes), SplitConfig.model_validate(config)) for r in group.reasons]


def test_no_scenes_make_no_groups() -> None:
    assert group_scenes(SceneSet([]), SplitConfig()) == []


def test_windows_that_share_a_pixel_are_one_group_and_neighbours_are_not() -> None:
    scenes = [made_scene("s1", 0, 0), made_scene("s2", 99, 99), made_scene("s3", 199, 99), made_scene("s4", 500, 0)]

    assert grouped(scenes) == [("s1", "s2"), ("s3",), ("s4",)]
    assert reasons(scenes) == [("s1", "s2", "shared_pixels", 1)]


def test_windows_of_two_sources_share_no_pixel() -> None:
    assert grouped([made_scene("s1", 0, 0), made_scene("s2", 0, 0, source="b", lon=9.0)]) == [("s1",), ("s2",)]


def test_other_sources_are_grouped_by_ground_distance() -> None:
    # a gap of 80 px is 89.1 m, one of 100 px 111.3 m
    near = [made_scene("s1", 0, 0), made_scene("s2", 180, 0, source="b")]

    assert grouped(near) == [("s1", "s2")]
    assert [r[2] for r in reasons(near)] == ["buffer"]
    assert reasons(near)[0][3] == pytest.approx(89.06, abs=0.1)
    assert grouped([near[0], made_scene("s2", 200, 0, source="b")]) == [("s1",), ("s2",)]


def test_a_buffer_within_a_source_joins_neighbours_that_share_no_pixel() -> None:
    scenes = [made_scene("s1", 0, 0), made_scene("s2", 110, 0)]

    assert grouped(scenes, buffer_m_same_source=5.0) == [("s1",), ("s2",)]
    assert grouped(scenes, buffer_m_same_source=12.0) == [("s1", "s2")]


def test_one_place_in_two_sources_is_one_group_whatever_the_buffer() -> None:
    scenes = [made_scene("s1", 0, 0), made_scene("s2", 50, 0, source="b")]

    assert grouped(scenes, buffer_m_other_source=0.0) == [("s1", "s2")]
    assert reasons(scenes, buffer_m_other_source=0.0) == [("s1", "s2", "same_place", pytest.approx(0.5, abs=1e-5))]


def test_footprints_of_two_sources_that_only_touch_are_a_matter_of_the_buffer() -> None:
    scenes = [made_scene("s1", 0, 0), made_scene("s2", 100, 0, source="b")]

    assert grouped(scenes, buffer_m_other_source=0.0) == [("s1",), ("s2",)]
    assert [r[2] for r in reasons(scenes)] == ["buffer"]


def test_a_turned_copy_far_away_is_a_near_duplicate() -> None:
    grid = random_grid(1)
    copy = np.rot90(grid, 3).T * 0.8 + 11
    scenes = [made_scene("s1", 0, 0, grid=grid), made_scene("s2", 0, 0, source="b", lon=40.0, grid=copy), made_scene("s3", 900, 0)]

    assert grouped(scenes) == [("s1", "s2"), ("s3",)]
    assert reasons(scenes) == [("s1", "s2", "near_duplicate", 0)]


def test_a_hash_hit_without_alike_pixels_is_no_duplicate() -> None:
    grid = random_grid(1)
    other = made_scene("s2", 0, 0, source="b", lon=40.0)._replace(hashes=made_scene("s1", 0, 0, grid=grid).hashes)

    assert grouped([made_scene("s1", 0, 0, grid=grid), other]) == [("s1",), ("s2",)]


def test_flat_pictures_are_no_duplicates_of_each_other() -> None:
    flat = np.full((32, 32), 200.0) + 0.5 * np.eye(32)
    scenes = [made_scene("s1", 0, 0, grid=flat), made_scene("s2", 0, 0, source="b", lon=40.0, grid=flat)]

    assert grouped(scenes) == [("s1",), ("s2",)]


def test_footprints_on_both_sides_of_the_antimeridian_are_grouped() -> None:
    scenes = [made_scene("s1", 0, 0, lon=179.999 - 2e-5), made_scene("s2", 50, 0, source="b", lon=-180.0)]

    assert grouped(scenes) == [("s1", "s2")]


PLACES = st.lists(
    st.tuples(st.integers(0, 700), st.integers(0, 300), st.sampled_from("ab"), st.sampled_from([60, 100])), min_size=1, max_size=9
)


@given(PLACES, st.sampled_from([0.0, 30.0]), st.randoms(use_true_random=False))
def test_groups_are_those_of_the_plain_rule_in_any_order(places: list[Any], same_m: float, rng: random.Random) -> None:
    scenes = [made_scene(f"s{k}", col, row, source, size=size) for k, (col, row, source, size) in enumerate(places)]

    found = grouped(rng.sample(scenes, len(scenes)), buffer_m_same_source=same_m)

    assert found == naive_groups(scenes, same_m, 100.0)


def naive_groups(scenes: list[SplitScene], same_m: float, other_m: float) -> list[tuple[str, ...]]:
    """Merge sets until nothing changes. Pictures are all different, places are near the equator."""
    groups = [{scene.scene_id} for scene in scenes]
    for a, b in itertools.combinations(scenes, 2):
        same = a.source == b.source
        meet = same and shared_pixels(a.window, b.window) > 0
        meet |= not same and a.footprint.intersection(b.footprint).area > 0.001 * min(a.footprint.area, b.footprint.area)
        if meet or footprint_distance_m(a.footprint, b.footprint) < (same_m if same else other_m):
            one = next(g for g in groups if a.scene_id in g)
            other = next(g for g in groups if b.scene_id in g)
            if one is not other:
                one |= other
                groups.remove(other)
    return sorted(tuple(sorted(g)) for g in groups)
