import math

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Geod

from trigpoint.errors import CrsMismatchError, InputError
from trigpoint.geometry.frames import MAX_SPREAD, SceneFrame, azimuth_deg, fit_frame, invert_affine, transformer, utm_crs
from trigpoint.geometry.repair import split_at_antimeridian

GEOD = Geod(ellps="WGS84")
BANEPA = (0.14929107086948487, 0.0, 9520026.5, 0.0, -0.14929107086948487, 3203431.0)


def frame_of(crs: str, transform: tuple[float, ...], width: int, height: int) -> SceneFrame:
    return SceneFrame(crs, transform, fit_frame(crs, transform, width, height))  # type: ignore[arg-type]


def test_web_mercator_pixel_is_its_true_ground_size() -> None:
    frame = frame_of("EPSG:3857", BANEPA, 2048, 2048)
    ends = frame.lonlat_from_image(np.array([[0.0, 1024.0], [2048.0, 1024.0]]))
    geodesic_m = GEOD.inv(*ends[0], *ends[1])[2]

    assert frame.record.metric_crs == "EPSG:32645"
    assert frame.record.gsd_m == pytest.approx(geodesic_m / 2048, rel=3e-3)
    assert 0.131 < frame.record.gsd_m < 0.133


def test_ground_distances_are_geodesic_to_a_ten_thousandth() -> None:
    frame = frame_of("EPSG:3857", BANEPA, 2048, 2048)
    points = np.array([[10.0, 20.0], [2000.0, 1900.0]])
    ground, lonlat = frame.ground_from_image(points), frame.lonlat_from_image(points)

    assert np.hypot(*(ground[1] - ground[0])) == pytest.approx(GEOD.inv(*lonlat[0], *lonlat[1])[2], rel=1e-4)


def test_true_azimuth_is_the_geodesic_one() -> None:
    transform = (1.0, 0.0, 300000.0, 0.0, -1.0, 7770000.0)
    frame = frame_of("EPSG:32633", transform, 1000, 1000)
    points = np.array([[200.0, 800.0], [600.0, 100.0]])
    ground, lonlat = frame.ground_from_image(points), frame.lonlat_from_image(points)

    azimuth = (azimuth_deg(ground[1:] - ground[:1]) + frame.convergence_at(ground[:1]))[0] % 360

    assert azimuth == pytest.approx(GEOD.inv(*lonlat[0], *lonlat[1])[0] % 360, abs=0.01)


@pytest.mark.parametrize(
    ("crs", "transform", "expected"),
    [
        ("EPSG:32645", (0.2, 0, 354000, 0, -0.2, 3057000), "EPSG:32645"),
        ("EPSG:3857", BANEPA, "EPSG:32645"),
        ("EPSG:4326", (1e-6, 0, 85.5, 0, -1e-6, 27.6), "EPSG:32645"),
        ("EPSG:2263", (2, 0, 980000, 0, -2, 200600), "EPSG:32618"),
        ("EPSG:32633", (1, 0, 1_800_000, 0, -1, 5_500_000), "EPSG:32636"),
        ("EPSG:3031", (10, 0, 0, 0, -10, 0), "EPSG:5042"),
    ],
    ids=["own utm", "web mercator", "degrees", "feet", "far-off zone", "pole"],
)
def test_metric_frame_is_chosen_by_the_rule(crs: str, transform: tuple[float, ...], expected: str) -> None:
    assert fit_frame(crs, transform, 100, 100).metric_crs == expected  # type: ignore[arg-type]


def test_zones_wrap_at_the_antimeridian() -> None:
    assert [utm_crs(lon, -17.0) for lon in (-180.0, 179.99, 180.0)] == ["EPSG:32701", "EPSG:32760", "EPSG:32701"]


def test_rasters_of_other_bodies_are_refused() -> None:
    mars = "+proj=eqc +a=3396190 +b=3376200 +units=m"

    with pytest.raises(CrsMismatchError, match="other bodies"):
        fit_frame(mars, (1, 0, 0, 0, -1, 0), 10, 10)


def test_degrees_that_are_metres_are_named_with_their_latitude() -> None:
    with pytest.raises(CrsMismatchError, match=r"latitude 5\.5e\+06 in 'EPSG:4326', expected -90 to 90; check the CRS"):
        fit_frame("EPSG:4326", (1, 0, 500000, 0, -1, 5500005), 10, 10)


def test_singular_transform_is_refused() -> None:
    with pytest.raises(InputError, match="singular"):
        invert_affine((1.0, 2.0, 0.0, 2.0, 4.0, 0.0))


@given(
    angle=st.floats(-180, 180),
    sx=st.floats(0.05, 20),
    sy=st.floats(0.05, 20),
    flip=st.sampled_from([-1, 1]),
    col=st.floats(-500, 4000),
    row=st.floats(-500, 4000),
)
def test_pixel_to_crs_and_back_is_exact_on_rotated_flipped_and_stretched_grids(
    angle: float, sx: float, sy: float, flip: int, col: float, row: float
) -> None:
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    transform = (cos * sx, -sin * sy * flip, 512345.6, sin * sx, cos * sy * flip, 5_400_321.0)
    frame = frame_of("EPSG:32633", transform, 512, 300)
    point = np.array([[col, row]])

    assert frame.image_from_crs(frame.crs_from_image(point)) == pytest.approx(point, abs=1e-6)
    assert frame.image_from_ground(frame.ground_from_image(point)) == pytest.approx(point, abs=1e-5)


def _placed(crs: str, lon: float, lat: float, px: float, size: int, turn_deg: float = 0.0, south_up: bool = False) -> tuple[float, ...]:
    """A transform whose scene is centred on a place: `px` units per pixel (0.7 of it along the other axis), turned, perhaps upside down."""
    x, y = transformer("OGC:CRS84", crs).transform(lon, lat)
    x = x + 360.0 if crs == "EPSG:4326" and lon < -179.9 else x
    cos, sin, flip = math.cos(math.radians(turn_deg)), math.sin(math.radians(turn_deg)), 1 if south_up else -1
    a, b, d, e = cos * px, -sin * 0.7 * px * flip, sin * px, cos * 0.7 * px * flip
    return (a, b, x - (a + b) * size / 2, d, e, y - (d + e) * size / 2)


KINDS = {
    "own utm": ("EPSG:32645", 85.52, 27.63, 0.5, 0, False),
    "degrees": ("EPSG:4326", 85.52, 27.63, 5e-6, 0, False),
    "degrees, rotated": ("EPSG:4326", 10.0, 60.0, 5e-6, 25, False),
    "web mercator": ("EPSG:3857", 10.0, 60.0, 1.0, 0, False),
    "web mercator on the equator": ("EPSG:3857", 10.0, 0.0, 1.0, 0, False),
    "web mercator over the antimeridian": ("EPSG:3857", 179.9999, -17.0, 1.0, 0, False),
    "survey feet": ("EPSG:2263", -73.9, 40.72, 2.0, 0, False),
    "international feet, rotated": ("EPSG:2222", -111.7, 33.4, 2.0, -40, False),
    "zone border": ("EPSG:4326", 6.0, 50.0, 5e-6, 0, False),
    "own zone across its border": ("EPSG:32632", 12.0, 50.0, 0.5, 0, False),
    "far-off zone": ("EPSG:32633", 33.0, 50.0, 0.5, 0, False),
    "degrees over the antimeridian": ("EPSG:4326", 179.9999, -17.0, 5e-6, 0, False),
    "degrees past 180": ("EPSG:4326", -179.9999, 66.0, 5e-6, 0, False),
    "own utm over the antimeridian": ("EPSG:32701", -180.0, -17.0, 0.5, 0, False),
    "arctic": ("EPSG:3413", 30.0, 88.0, 2.0, 0, False),
    "beyond 84 north in degrees": ("EPSG:4326", 30.0, 85.0, 5e-5, 0, False),
    "antarctic": ("EPSG:3031", -120.0, -85.0, 2.0, 15, False),
    "rotated": ("EPSG:32633", 14.0, 50.0, 0.5, 30, False),
    "south-up": ("EPSG:32633", 14.0, 50.0, 0.5, 0, True),
    "south-up, rotated past a right angle": ("EPSG:32633", 17.9, 70.0, 0.5, 130, True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_agrees_with_the_geodesic(kind: str) -> None:
    crs, lon, lat, px, turn, south_up = KINDS[kind]
    size = 400
    frame = frame_of(crs, _placed(crs, lon, lat, px, size, turn, south_up), size, size)
    image = np.array([[200.0, 200.0], [390.0, 10.0], [10.0, 350.0], [200.0, 120.0], [300.0, 200.0]])
    ground, lonlat = frame.ground_from_image(image), frame.lonlat_from_image(image)
    starts, ends = [0, 0, 0, 0, 1], [1, 2, 3, 4, 2]

    azimuth, _, distance = GEOD.inv(*lonlat[starts].T, *lonlat[ends].T)
    rays = ground[ends] - ground[starts]
    assert np.hypot(*rays.T) == pytest.approx(distance, rel=2e-4)
    off = (azimuth_deg(rays) + frame.convergence_at(ground[starts]) - azimuth + 180) % 360 - 180
    assert off == pytest.approx(np.zeros(5), abs=0.02)
    assert (frame.record.image_up_deg - azimuth[2] + 180) % 360 - 180 == pytest.approx(0, abs=0.02)
    corners = frame.lonlat_from_image(np.array([[0.0, 0], [size, 0], [size, size], [0, size]]))
    area_m2 = abs(GEOD.polygon_area_perimeter(*corners.T)[0])
    assert frame.record.pixel_area_m2 * size**2 == pytest.approx(area_m2, rel=1e-3)
    assert frame.image_from_ground(ground) == pytest.approx(image, abs=1e-4)


def test_shorter_side_is_that_of_the_valid_area() -> None:
    frame = frame_of("EPSG:32645", (0.5, 0, 354000, 0, -0.5, 3057000), 100, 80)
    valid = np.zeros((80, 100), dtype=bool)
    valid[10:50, 5:95] = True

    assert frame.shorter_side_m(valid) == pytest.approx(40 * 0.5, rel=1e-3)


@pytest.mark.parametrize(("crs", "centre"), [("EPSG:2048", (19.0, -33.5)), ("EPSG:5513", (15.0, 50.0)), ("EPSG:5514", (15.0, 50.0))])
def test_image_up_is_true_also_where_axes_count_westings_and_southings(crs: str, centre: tuple[float, float]) -> None:
    x, y = transformer("OGC:CRS84", crs).transform(*centre)
    frame = frame_of(crs, (1.0, 0.0, x - 50, 0.0, -1.0, y + 50), 100, 100)
    middle, up = frame.lonlat_from_image(np.array([[50.0, 50.0], [50.0, 10.0]]))
    azimuth = GEOD.inv(*middle, *up)[0]

    assert (frame.record.image_up_deg - azimuth + 180) % 360 - 180 == pytest.approx(0, abs=0.01)


def test_no_points_have_no_convergence() -> None:
    frame = frame_of("EPSG:3857", BANEPA, 100, 100)

    assert frame.convergence_at(np.zeros((0, 2))).shape == (0,)


OVER_180 = (1e-5, 0.0, 179.999, 0.0, -1e-5, -17.0)  # 300 px of about 1 m from 179.999° to 180.002°


def test_points_past_the_antimeridian_come_to_the_scene_that_lies_over_it() -> None:
    frame = frame_of("EPSG:4326", OVER_180, 300, 200)
    lonlat = np.array([[179.9995, -17.001], [-179.9995, -17.001], [-179.9985, -17.0015]])

    assert frame.image_from_crs(lonlat) == pytest.approx(np.array([[50, 100], [150, 100], [250, 150]]), abs=1e-3)
    assert frame.lonlat_from_image(np.array([[150.0, 100.0]])) == pytest.approx(np.array([[-179.9995, -17.001]]), abs=1e-7)
    corners = frame.lonlat_from_image(np.array([[0.0, 0], [300, 0], [300, 200], [0, 200]]))
    assert split_at_antimeridian(shapely.Polygon(corners)).bounds == (-180, pytest.approx(-17.002), 180, -17)


def test_a_scene_that_begins_at_minus_180_takes_points_from_the_other_side() -> None:
    frame = frame_of("EPSG:3857", (2.0, 0.0, -20037608.34, 0.0, -2.0, -1900000.0), 200, 100)  # 100 m of it lie west of the antimeridian
    x = np.array([[20037508.34 - 50, -1900100.0], [-20037508.34 + 50, -1900100.0]])

    assert frame.image_from_crs(x) == pytest.approx(np.array([[25, 50], [75, 50]]), abs=0.1)


def test_a_raster_of_the_whole_earth_keeps_every_point_where_it_is() -> None:
    frame = frame_of("EPSG:4326", (0.25, 0.0, -180.0, 0.0, -0.25, 90.0), 1440, 720)
    points = np.array([[-179.9, 0.0], [179.9, 0.0], [170.0, -45.0], [0.0, 89.0]])

    assert frame.record.scale_spread == MAX_SPREAD
    assert frame.image_from_crs(points[:1]) == pytest.approx(np.array([[0.4, 360]]))
    assert frame.image_from_crs(points) == pytest.approx(np.array([[0.4, 360], [1439.6, 360], [1400, 540], [720, 4]]))


def test_a_shape_that_spans_half_the_earth_is_not_torn_apart() -> None:
    frame = frame_of("EPSG:4326", (1e-5, 0.0, -100.0, 0.0, -1e-5, 60.0), 300, 200)
    wide = np.array([[27.0, 60.0], [180.0, 65.0], [100.0, 50.0]])  # seen from 100° W, 80° E is the far side

    assert frame.image_from_crs(wide)[:, 0] == pytest.approx([127e5, 280e5, 200e5])


def test_projected_coordinates_of_one_zone_have_no_second_turn() -> None:
    frame = frame_of("EPSG:32633", (1.0, 0.0, 400_000.0, 0.0, -1.0, 5_500_000.0), 100, 100)

    assert frame.image_from_crs(np.array([[40_000_000.0, 5_499_950.0]])) == pytest.approx(np.array([[39_600_000.0, 50.0]]))
