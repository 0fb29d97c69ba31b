import numpy as np
import shapely

from tests.unit.splits.made import made_scene, random_grid
from trigpoint.config import SplitConfig
from trigpoint.splits.screening import OutsideList, screen_scenes

SHA = "0" * 64


def test_scenes_that_meet_a_footprint_or_a_hash_are_marked() -> None:
    scenes = [made_scene("s1", 0, 0), made_scene("s2", 900, 0), made_scene("s3", 1900, 0)]
    places = OutsideList("places", "p.geojson", SHA, np.array([shapely.Point(8.0095, -0.0005), shapely.box(7, 1, 9, 2)]), None)
    turned = scenes[2].hashes[5] ^ 0b111
    pictures = OutsideList("pictures", "h.txt", SHA, None, [0x0123456789ABCDEF, turned])

    screened = screen_scenes(scenes, [places, pictures], SplitConfig())

    assert screened.outside == [(), ("places",), ("pictures",)]
    assert screened.block == {
        "policy": "mark",
        "max_bits": 6,
        "lists": [
            {"name": "places", "kind": "footprints", "file": "p.geojson", "sha256": SHA, "n": 2, "scenes": ["s2"]},
            {"name": "pictures", "kind": "hashes", "file": "h.txt", "sha256": SHA, "n": 2, "scenes": ["s3"]},
        ],
    }


def test_a_hash_of_more_than_the_allowed_bits_is_not_met() -> None:
    scene = made_scene("s1", 0, 0)
    listed = OutsideList("pictures", "h.txt", SHA, None, [scene.hashes[0] ^ 0b1111111])

    assert screen_scenes([scene], [listed], SplitConfig()).outside == [()]
    assert screen_scenes([scene], [listed], SplitConfig(screen_max_bits=7)).outside == [("pictures",)]


def test_flat_scenes_meet_no_hash() -> None:
    flat = made_scene("s1", 0, 0, grid=random_grid(1) / 1000)

    assert screen_scenes([flat], [OutsideList("pictures", "h.txt", SHA, None, [flat.hashes[0]])], SplitConfig()).outside == [()]


def test_without_lists_nothing_is_screened() -> None:
    screened = screen_scenes([made_scene("s1", 0, 0)], [], SplitConfig())

    assert (screened.outside, screened.block) == ([()], None)
