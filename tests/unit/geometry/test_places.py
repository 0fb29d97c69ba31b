"""Which features of a map reach into a scene: at the antimeridian, with parts elsewhere, and touching its edge."""

import numpy as np
import pytest
import shapely

from trigpoint.geometry.frames import SceneFrame, fit_frame, transformer
from trigpoint.geometry.places import lonlat_geometry, reach_into_scene, representative_points
from trigpoint.records.scene import Transform

SIZE = (200, 100)


def frame(crs: str, left: float, top: float, pixel: float) -> SceneFrame:
    transform: Transform = (pixel, 0.0, left, 0.0, -pixel, top)
    return SceneFrame(crs, transform, fit_frame(crs, transform, *SIZE))


def reach(scene: SceneFrame, *texts: str) -> list[bool]:
    return reach_into_scene(shapely.from_wkt(np.array(texts, dtype=object)), scene, SIZE).tolist()


def test_over_the_antimeridian_both_sides_are_in_the_scene_and_the_far_side_of_the_earth_is_not() -> None:
    x, y = transformer("OGC:CRS84", "EPSG:32660").transform(180.0, -17.0)
    scene = frame("EPSG:32660", x - 100.0, y + 50.0, 1.0)

    assert reach(
        scene,
        "POINT (179.9995 -17)",
        "POINT (-179.9995 -17)",
        "MULTILINESTRING ((179 -17, 180 -17), (-180 -17, -179 -17))",
        "LINESTRING (-170 -17, -179.9999 -17)",
        "LINESTRING (-170 -17, -179.99 -17)",
        "LINESTRING (-1 -17, 1 -17)",
    ) == [True, True, True, True, False, False]


def test_a_long_line_is_where_it_is_in_the_crs_of_the_scene() -> None:
    """Over 12° of longitude a parallel leaves the straight line in UTM by kilometres; the line stays on its parallel."""
    x, y = transformer("OGC:CRS84", "EPSG:32645").transform(87.0, 60.0)
    scene = frame("EPSG:32645", x - 100.0, y + 50.0, 1.0)

    assert reach(scene, "LINESTRING (81 60, 93 60)", "LINESTRING (81 60.001, 93 60.001)") == [True, False]


def test_edges_belong_to_the_scene_and_broken_areas_are_mended() -> None:
    scene = frame("EPSG:4326", 8.0, 50.0, 0.001)

    assert reach(
        scene,
        "POINT (8 50)",
        "POINT (8.2 49.9)",
        "POINT (8.2001 49.95)",
        "LINESTRING (7 50, 9 50)",
        "POLYGON ((7 49, 9 51, 7 51, 9 49, 7 49))",
        "POLYGON ((7 49, 9 49, 9 51, 7 51, 7 49), (7.5 49.5, 8.5 49.5, 8.5 50.5, 7.5 50.5, 7.5 49.5))",
        "GEOMETRYCOLLECTION (POINT (0 0), LINESTRING (8.1 0, 8.1 60))",
    ) == [True, True, False, True, True, False, True]


def test_nothing_reaches_into_a_scene_where_there_is_nothing() -> None:
    assert reach_into_scene(np.empty(0, dtype=object), frame("EPSG:4326", 8.0, 50.0, 0.001), SIZE).shape == (0,)
    assert representative_points(np.empty(0, dtype=object)).shape == (0, 2)


@pytest.mark.parametrize("text", ["POINT (8 91)", "LINESTRING (8 50, 8 95)", "POINT (1e300 0)"])
def test_what_is_nowhere_on_the_earth_has_no_place(text: str) -> None:
    crs = "EPSG:32645" if "e" in text else "EPSG:4326"

    assert lonlat_geometry(shapely.from_wkt(text), crs) is None
