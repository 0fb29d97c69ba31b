import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from numpy.typing import NDArray
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning

from storage.rasters import (
    open_source,
    read_label_tif,
    read_plane_tif,
    read_scene_tif,
    read_window,
    write_label_tif,
    write_plane_tif,
    write_scene_tif,
)
from trigpoint.errors import RasterError
from trigpoint.imagery.patch import Colours, Patch
from trigpoint.records.scene import Window

SKEWED = Affine(0.5, 0.1, 500000.0, 0.2, -0.6, 5500000.0)
TRANSFORM = (0.5, 0.1, 500000.0, 0.2, -0.6, 5500000.0)


def make_tif(path: Path, pixels: NDArray[Any], transform: Affine | None = SKEWED, crs: str | None = "EPSG:32633", **options: Any) -> Path:
    pixels = pixels[np.newaxis] if pixels.ndim == 2 else pixels
    colours = options.pop("colours", None)
    mask = options.pop("mask", None)
    count, height, width = pixels.shape
    profile = {"driver": "GTiff", "dtype": pixels.dtype.name, "count": count, "height": height, "width": width, "crs": crs}
    if transform is not None:
        profile["transform"] = transform
    with rasterio.open(path, "w", **profile, **options) as dataset:
        if colours:
            dataset.colorinterp = colours
        dataset.write(pixels)
        if mask is not None:
            dataset.write_mask(mask)
    return path


def read_whole(path: Path) -> Patch:
    with open_source(path) as source:
        return read_window(source, Window(col_off=0, row_off=0, width=source.width, height=source.height))


def patch_of(pixels: NDArray[Any], names: tuple[str, ...], **more: Any) -> Patch:
    valid = more.pop("valid", np.ones(pixels.shape[1:], bool))
    window = Window(col_off=0, row_off=0, width=pixels.shape[2], height=pixels.shape[1])
    return Patch(pixels, valid, TRANSFORM, "EPSG:32633", window, Colours(names, more.pop("table", None)), more.pop("nodata", None))


def test_source_says_what_is_in_the_file(tmp_path: Path) -> None:
    path = make_tif(tmp_path / "a.tif", np.zeros((3, 7, 9), "int16"), nodata=-1)

    with open_source(path) as source:
        assert (source.width, source.height, source.count, source.dtype, source.nodata) == (9, 7, 3, "int16", -1.0)
        assert (source.crs, source.transform, source.crs_overridden, source.is_rotated) == ("EPSG:32633", TRANSFORM, False, True)
        assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert source.sidecar_sha256 == {}
        assert not source.has_alpha


def test_override_equal_to_the_files_crs_is_no_override(tmp_path: Path) -> None:
    path = make_tif(tmp_path / "a.tif", np.zeros((7, 9), "uint8"))

    with open_source(path, "EPSG:32633") as same, open_source(path, "EPSG:32632") as other:
        assert (same.crs, same.crs_overridden) == ("EPSG:32633", False)
        assert (other.crs, other.crs_overridden) == ("EPSG:32632", True)
    with pytest.raises(RasterError, match="'EPSG:0' is no coordinate system"):
        open_source(path, "EPSG:0")


def test_crs_without_a_code_travels_as_wkt(tmp_path: Path) -> None:
    proj = "+proj=tmerc +lat_0=50.123 +lon_0=8.456 +k=1 +x_0=0 +y_0=0 +datum=WGS84 +units=m"
    path = make_tif(tmp_path / "a.tif", np.arange(63, dtype="uint8").reshape(7, 9), crs=proj)

    patch = read_whole(path)

    assert patch.crs.startswith("PROJCRS[")
    assert read_scene_tif(write_scene_tif(patch)).crs == patch.crs


def test_raster_placed_by_control_points_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gcps.tif"
    points = [GroundControlPoint(row=r, col=c, x=8 + c, y=50 - r) for r, c in ((0, 0), (0, 9), (7, 0), (7, 9))]
    with pytest.warns(NotGeoreferencedWarning), rasterio.open(path, "w", "GTiff", 9, 7, 1, dtype="uint8") as dataset:
        dataset.gcps = (points, rasterio.crs.CRS.from_epsg(4326))

    with pytest.raises(RasterError, match=r"gcps\.tif' has no georeferencing: .*found 4 ground control points; warp it"):
        open_source(path)


def test_raster_without_any_georeferencing_is_refused_even_with_a_crs(tmp_path: Path) -> None:
    path = tmp_path / "plain.tif"
    with pytest.warns(NotGeoreferencedWarning):
        make_tif(path, np.zeros((7, 9), "uint8"), transform=None, crs=None)

    for override in (None, "EPSG:32633"):
        with pytest.raises(RasterError, match="found the identity"):
            open_source(path, override)


def test_raster_of_another_planet_is_refused(tmp_path: Path) -> None:
    path = make_tif(tmp_path / "mars.tif", np.zeros((7, 9), "uint8"), crs="+proj=eqc +R=3396190 +units=m")

    with pytest.raises(RasterError, match=r"mars\.tif'.*not a CRS of the Earth.*3396190 m"):
        open_source(path)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.tif", b"", "is no GeoTIFF"),
        ("a.tif", b"II*\0" + b"\xff" * 40, "cannot be opened"),
        ("a.vrt", b"<VRTDataset rasterXSize='1' rasterYSize='1'/>", "is no GeoTIFF"),
    ],
)
def test_what_is_no_raster_is_refused_by_name(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(RasterError, match=message) as caught:
        open_source(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize("path", ["none.tif", "/vsicurl/http://127.0.0.1/a.tif"])
def test_only_local_files_are_opened(tmp_path: Path, path: str) -> None:
    with pytest.raises(RasterError, match="No such file"):
        open_source(tmp_path / path)


def test_limits_of_size_are_told_with_both_numbers(tmp_path: Path) -> None:
    path = make_tif(tmp_path / "a.tif", np.zeros((7, 9), "uint8"))

    with pytest.raises(RasterError, match="has 9 x 7 = 63 pixels, at most 62"):
        open_source(path, max_source_px=62)
    with open_source(path) as source, pytest.raises(RasterError, match=r"window \(0, 0, 9, 7\).* has 63 pixels, at most 62"):
        read_window(source, Window(col_off=0, row_off=0, width=9, height=7), max_window_px=62)


def test_window_outside_the_source_is_refused(tmp_path: Path) -> None:
    path = make_tif(tmp_path / "a.tif", np.zeros((7, 9), "uint8"))

    with open_source(path) as source, pytest.raises(RasterError, match="lies outside the source of 9 x 7"):
        read_window(source, Window(col_off=9, row_off=0, width=3, height=3))


def test_pixel_is_nodata_only_when_all_its_bands_are(tmp_path: Path) -> None:
    pixels = np.full((3, 2, 4), 9, "uint8")
    pixels[:, 0, 0] = 255
    pixels[0, 1, 1] = 255

    patch = read_whole(make_tif(tmp_path / "a.tif", pixels, nodata=255))

    assert np.argwhere(~patch.valid).tolist() == [[0, 0]]


def test_mask_of_the_file_counts_and_survives_the_scene_file(tmp_path: Path) -> None:
    mask = np.ones((7, 9), bool)
    mask[2:4, 1] = False

    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        path = make_tif(tmp_path / "a.tif", np.full((3, 7, 9), 5, "uint8"), mask=mask)
    patch = read_whole(path)
    data = write_scene_tif(patch)

    np.testing.assert_array_equal(patch.valid, mask)
    np.testing.assert_array_equal(read_scene_tif(data).valid, mask)
    with rasterio.MemoryFile(data) as memory, memory.open() as dataset:
        assert dataset.tags(ns="TRIGPOINT") == {"valid_rle": "0 9 2 52"}


def test_mask_beside_the_file_is_a_sidecar(tmp_path: Path) -> None:
    mask = np.ones((7, 9), bool)
    mask[0, 0] = False

    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=False):
        path = make_tif(tmp_path / "a.tif", np.full((7, 9), 5, "uint8"), mask=mask)

    with open_source(path) as source:
        assert list(source.sidecar_sha256) == ["a.tif.msk"]
    assert int(read_whole(path).valid.sum()) == 62


def test_nan_pixels_are_invalid_with_and_without_nodata(tmp_path: Path) -> None:
    pixels = np.ones((7, 9), "float32")
    pixels[3, 2] = np.nan

    for nodata in (None, math.nan, -9999.0):
        patch = read_whole(make_tif(tmp_path / "a.tif", pixels, nodata=nodata))
        assert np.argwhere(~patch.valid).tolist() == [[3, 2]]
        again = read_scene_tif(write_scene_tif(patch))
        np.testing.assert_array_equal(again.pixels, patch.pixels)
        assert (again.nodata is None) == (nodata is None)


def test_padding_is_nodata_where_there_is_one_and_seen_through_where_there_is_alpha(tmp_path: Path) -> None:
    over = Window(col_off=-1, row_off=-2, width=4, height=5)
    names = [ColorInterp.gray, ColorInterp.alpha]
    with open_source(make_tif(tmp_path / "a.tif", np.full((7, 9), 5, "int16"), nodata=-7)) as source:
        first = read_window(source, over)
    with open_source(make_tif(tmp_path / "b.tif", np.full((2, 7, 9), 255, "uint8"), colours=names)) as source:
        second = read_window(source, over)

    assert (first.pixels[0, 0, 0], first.pixels[0, 2, 1]) == (-7, 5)
    assert (second.pixels[1, 0, 0], second.pixels[1, 2, 1]) == (0, 255)
    for patch in (first, second):
        np.testing.assert_array_equal(patch.valid, [[row >= 2 and col >= 1 for col in range(4)] for row in range(5)])
        assert patch.transform[2] == pytest.approx(500000.0 - 0.5 - 0.2)
        with rasterio.MemoryFile(write_scene_tif(patch)) as memory, memory.open() as dataset:
            assert dataset.tags(ns="TRIGPOINT") == {}


@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        ("uint8", ("red", "green", "blue")),
        ("uint8", ("red", "green", "blue", "alpha")),
        ("uint8", ("blue", "green", "red", "undefined")),
        ("uint8", ("gray", "alpha")),
        ("int8", ("gray",)),
        ("uint16", ("gray", "undefined", "undefined", "undefined", "undefined")),
        ("int16", ("gray",)),
        ("uint32", ("gray",)),
        ("int64", ("gray",)),
        ("float32", ("gray", "undefined")),
        ("float64", ("gray",)),
        ("complex64", ("gray",)),
        ("complex128", ("gray",)),
    ],
    ids=str,
)
def test_scene_file_keeps_pixels_of_every_type_and_is_the_same_twice(dtype: str, names: tuple[str, ...]) -> None:
    pixels = np.random.default_rng(5).integers(1, 120, (len(names), 40, 600)).astype(dtype)
    patch = patch_of(pixels, names, nodata=None if dtype.startswith("complex") else 3.0)
    patch = patch._replace(valid=read_scene_tif(write_scene_tif(patch)).valid)

    data = write_scene_tif(patch)
    again = read_scene_tif(data)

    assert data == write_scene_tif(patch)
    np.testing.assert_array_equal(again.pixels, pixels)
    assert again.pixels.dtype == pixels.dtype
    assert (again.crs, again.transform, again.colours, again.nodata) == (patch.crs, patch.transform, patch.colours, patch.nodata)
    with rasterio.MemoryFile(data) as memory, memory.open() as dataset:
        assert (dataset.block_shapes[0], dataset.compression.name) == ((512, 512), "deflate")


def test_nodata_that_the_pixels_cannot_hold_is_none(tmp_path: Path) -> None:
    path = make_tif(tmp_path / "a.tif", np.full((7, 9), 44, "uint8"), nodata=100)
    data = path.read_bytes()
    assert data.count(b"100\0") == 1
    path.write_bytes(data.replace(b"100\0", b"300\0"))

    patch = read_whole(path)

    assert patch.nodata is None
    assert patch.valid.all()
    assert read_scene_tif(write_scene_tif(patch)).nodata is None


def test_broken_validity_tag_is_refused() -> None:
    pixels = np.ones((1, 4, 6), "uint8")
    data = write_scene_tif(patch_of(pixels, ("gray",), valid=np.zeros((4, 6), bool)))

    with pytest.raises(RasterError, match="broken tag 'valid_rle', expected runs that add up to 24"):
        read_scene_tif(data.replace(b">24<", b">25<"))


def test_truncated_scene_bytes_are_refused() -> None:
    data = write_scene_tif(patch_of(np.random.default_rng(1).integers(0, 255, (3, 600, 600)).astype("uint8"), ("red", "green", "blue")))

    with pytest.raises(RasterError, match="cannot be read"):
        read_scene_tif(data[: len(data) // 2])


def test_index_map_and_planes_come_back(tmp_path: Path) -> None:
    labels = np.arange(700 * 3, dtype="uint16").reshape(3, 700)
    label_bytes = write_label_tif(labels, "EPSG:32633", TRANSFORM)
    (tmp_path / "a.tif").write_bytes(label_bytes)

    for data in (label_bytes, tmp_path / "a.tif"):
        grid = read_label_tif(data)
        np.testing.assert_array_equal(grid.array, labels)
        assert (grid.crs, grid.transform) == ("EPSG:32633", TRANSFORM)
    for dtype in ("uint8", "uint16", "uint32"):
        planes = np.full((5, 4), 2 ** (np.dtype(dtype).itemsize * 8 - 1), dtype)
        data = write_plane_tif(planes, "EPSG:32633", TRANSFORM)
        np.testing.assert_array_equal(read_plane_tif(data).array, planes)
        assert write_plane_tif(planes, "EPSG:32633", TRANSFORM) == data
    with rasterio.MemoryFile(label_bytes) as memory, memory.open() as dataset:
        assert (dataset.compression.name, dataset.block_shapes, dataset.nodata) == ("zstd", [(512, 512)], None)


def test_wrong_types_of_maps_are_refused() -> None:
    with pytest.raises(RasterError, match=r"int64.*expected .* uint16"):
        write_label_tif(np.zeros((2, 2), "int64"), "EPSG:32633", TRANSFORM)  # pyright: ignore[reportArgumentType]
    with pytest.raises(RasterError, match=r"\(1, 2, 2\)"):
        write_plane_tif(np.zeros((1, 2, 2), "uint8"), "EPSG:32633", TRANSFORM)
    with pytest.raises(RasterError, match="expected one of uint16"):
        read_label_tif(write_plane_tif(np.zeros((2, 2), "uint8"), "EPSG:32633", TRANSFORM))


def test_jpeg_with_its_place_in_a_sidecar_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "tile.tif"
    with rasterio.open(path, "w", "JPEG", 16, 8, 3, crs="EPSG:32633", transform=SKEWED, dtype="uint8") as dataset:
        dataset.write(np.full((3, 8, 16), 99, "uint8"))

    with open_source(path) as source:
        assert (source.crs, source.transform) == ("EPSG:32633", TRANSFORM)
        assert list(source.sidecar_sha256) == ["tile.tif.aux.xml"]


@pytest.mark.parametrize(
    ("transform", "is_refused"),
    [
        (Affine(-0.5, 0, 500000, 0, -0.5, 5500000), True),
        (Affine(-0.5, 0.1, 500000, 0.1, -0.5, 5500000), True),
        (Affine(0.5, 0, 500000, 0, 0.5, 5500000), False),
        (Affine(-0.5, 0, 500000, 0, 0.5, 5500000), False),
        (SKEWED, False),
    ],
    ids=["mirrored", "mirrored and turned", "south up", "upside down", "turned"],
)
def test_raster_with_north_up_and_west_right_is_refused(tmp_path: Path, transform: Affine, is_refused: bool) -> None:
    path = make_tif(tmp_path / "a.tif", np.zeros((7, 9), "uint8"), transform)

    if is_refused:
        with pytest.raises(RasterError, match=r"a\.tif' has the transform .*: north is up and west is right; flip it"):
            open_source(path)
    else:
        open_source(path).close()


def test_raster_in_a_geocentric_crs_is_refused(tmp_path: Path) -> None:
    path = make_tif(tmp_path / "a.tif", np.zeros((7, 9), "uint8"), crs="EPSG:4978")

    with pytest.raises(RasterError, match=r"a\.tif': 'WGS 84' is neither geographic nor projected \(Geocentric CRS\)"):
        open_source(path)
