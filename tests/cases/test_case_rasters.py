"""Public bug reports about rasters, as tests: each names the reports, makes its own input and holds the exact right values."""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from numpy.typing import NDArray
from PIL import Image, ImageOps
from rasterio.enums import ColorInterp

from storage.artefacts import ArtefactStore
from storage.rasters import exif_orientation, open_source, read_scene_tif, read_window, write_scene_tif
from trigpoint.errors import InputError, RasterError
from trigpoint.geometry.frames import apply_affine, invert_affine
from trigpoint.imagery.orientation import frame_of_size, raw_box_from_shown, shown_box_from_raw, shown_size
from trigpoint.imagery.view import rgb_of_patch
from trigpoint.imagery.windows import window_around_pixel, window_of_bounds
from trigpoint.records.scene import Transform, Window

METRE_GRID = Affine(1, 0, 500000, 0, -1, 5500000)


def make_tif(path: Path, pixels: NDArray[Any], transform: Affine, crs: str | None = "EPSG:32633", **options: Any) -> Path:
    pixels = pixels[np.newaxis] if pixels.ndim == 2 else pixels
    colours, table = options.pop("colours", None), options.pop("table", None)
    count, height, width = pixels.shape
    profile = {"driver": "GTiff", "dtype": pixels.dtype.name, "count": count, "height": height, "width": width, "crs": crs}
    with rasterio.open(path, "w", transform=transform, **profile, **options) as dataset:
        if colours:
            dataset.colorinterp = colours
        if table:
            dataset.write_colormap(1, table)
        dataset.write(pixels)
    return path


def whole(path: Path) -> Window:
    with rasterio.open(path) as dataset:
        return Window(col_off=0, row_off=0, width=dataset.width, height=dataset.height)


def pixel_at(transform: Transform, x: float, y: float) -> tuple[float, float]:
    col, row = apply_affine(invert_affine(transform), np.array([[x, y]]))[0].tolist()
    return col, row


def test_r01_bounds_rounded_to_six_decimals_give_the_whole_window(tmp_path: Path) -> None:
    """rasterio/rasterio#2004, #2374: a window one pixel short, or shifted by an epsilon."""
    step = 0.00013888888889
    dem = np.arange(320 * 400, dtype="uint32").reshape(320, 400)
    path = make_tif(tmp_path / "dem.tif", dem, Affine(step, 0, -104.4, 0, -step, 32.0), "EPSG:4326")

    with open_source(path) as source:
        window = window_of_bounds(source.transform, (-104.394444, 31.986111, -104.380556, 31.997222))
        patch = read_window(source, window)

    assert window.as_tuple() == (40, 20, 100, 80)
    assert int(patch.pixels.sum()) == 191116000
    np.testing.assert_array_equal(patch.pixels[0], dem[20:100, 40:140])


def test_r02_window_over_the_edge_keeps_place_and_pads_invalid(tmp_path: Path) -> None:
    """rasterio/rasterio#1801: the transform of a patch over the edge is wrong."""
    values = (np.arange(300 * 300) % 65521).astype("uint16").reshape(300, 300)
    path = make_tif(tmp_path / "scene.tif", values, Affine(0.5, 0, 500000, 0, -0.5, 5500000))

    with open_source(path) as source:
        assert pixel_at(source.transform, 500140.0, 5499925.0) == pytest.approx((280.0, 150.0), abs=1e-6)
        window = window_around_pixel(280, 150, 256, 256)
        patch = read_window(source, window)

    assert window.as_tuple() == (152, 22, 256, 256)
    assert (patch.transform[2], patch.transform[5]) == (500076.0, 5499989.0)
    assert pixel_at(patch.transform, 500140.0, 5499925.0) == pytest.approx((128.0, 128.0), abs=1e-6)
    assert (patch.pixels[0, 0, 0], patch.pixels[0, 128, 128]) == (6752, 45280)
    assert patch.valid[:, :148].all() and not patch.valid[:, 148:].any()
    again = read_scene_tif(write_scene_tif(patch))
    np.testing.assert_array_equal(again.valid, patch.valid)


def test_r03_rotated_raster_is_bounded_by_all_four_corners(tmp_path: Path) -> None:
    """rasterio/rasterio#3280, #2787: bounds from two corners of a rotated raster."""
    transform = Affine.translation(500000, 5500000) @ Affine.rotation(30) @ Affine.scale(2, -2)
    path = make_tif(tmp_path / "rot30.tif", np.arange(80 * 120, dtype="uint16").reshape(80, 120), transform)

    with open_source(path) as source:
        bounds = source.bounds_crs
        col, row = (int(v) for v in pixel_at(source.transform, 500178.662141, 5500016.548095))
        value = read_window(source, Window(col_off=col, row_off=row, width=1, height=1)).pixels[0, 0, 0]
        rotated = source.is_rotated

    assert bounds == pytest.approx((500000.0, 5499861.435935, 500287.846097, 5500120.0), abs=1e-6)
    assert (col, row, value, rotated) == (81, 37, 4521, True)


def test_r06_missing_crs_is_named_and_an_override_is_recorded(tmp_path: Path) -> None:
    """opengeos/segment-geospatial#12: a missing CRS fails late, deep inside."""
    path = make_tif(tmp_path / "nocrs.tif", np.ones((50, 50), "uint8"), Affine(0.5, 0, 500000, 0, -0.5, 5500000), None)

    with pytest.raises(RasterError, match=r"nocrs\.tif' has no CRS; set the key 'crs'"):
        open_source(path)
    with open_source(path, crs_override="EPSG:32633") as source:
        assert (source.crs, source.crs_overridden) == ("EPSG:32633", True)


def test_r08_picture_of_sixteen_bits_is_monotone_and_the_native_patch_unchanged(tmp_path: Path) -> None:
    """cogeotiff/rio-tiler#32: 16-bit to 8-bit wraps modulo 256."""
    values = np.linspace(1, 10000, 100 * 100).astype("uint16").reshape(100, 100)
    values[0, 0] = 65535
    values[99, :50] = 0
    path = make_tif(tmp_path / "s2_like.tif", np.stack([values] * 4), Affine(10, 0, 500000, 0, -10, 5500000), nodata=0)

    with open_source(path) as source:
        patch = read_window(source, whole(path))
    view = rgb_of_patch(patch)

    assert int(patch.valid.sum()) == 9950
    assert patch.pixels.dtype == np.uint16
    np.testing.assert_array_equal(patch.pixels[0], values)
    assert [limit for band in view.limits for limit in band] == pytest.approx([200.98, 9752.02] * 3)
    order = np.argsort(values[patch.valid], kind="stable")
    assert (np.diff(view.array[..., 0][patch.valid][order].astype(int)) >= 0).all()
    assert view.array[0, 0, 0] == 255


def test_r10_alpha_collar_is_no_ground_and_no_fourth_colour(tmp_path: Path) -> None:
    """manaakiwhenua/raster2dggs#105, facebookresearch/segment-anything#413: an alpha collar taken as dark ground."""
    inside = np.zeros((50, 50), bool)
    inside[5:45, 5:45] = True
    pixels = np.where(inside, np.uint8(120), np.uint8(0)) * np.ones((4, 1, 1), np.uint8)
    pixels[3] = inside * np.uint8(255)
    names = [ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.alpha]
    path = make_tif(tmp_path / "rgba.tif", pixels, METRE_GRID, photometric="RGB", colours=names)

    with open_source(path) as source:
        patch = read_window(source, whole(path))
        has_alpha = source.has_alpha
        col, row = (int(v) for v in pixel_at(source.transform, 500002, 5499998))

    assert has_alpha and patch.valid_share == 0.64
    assert rgb_of_patch(patch).array.shape == (50, 50, 3)
    assert not patch.valid[row, col]


def test_r11_palette_is_shown_in_its_colours(tmp_path: Path) -> None:
    """ubarsc/tuiview#80, cogeotiff/rio-cogeo#121: a palette raster shown as a grey index."""
    index = np.array([[0, 1], [2, 3]], "uint8").repeat(8, 0).repeat(8, 1)
    table = {0: (34, 139, 34, 255), 1: (0, 0, 255, 255), 2: (200, 30, 0, 255), 3: (9, 9, 9, 255)}
    path = make_tif(tmp_path / "pal.tif", index, METRE_GRID, photometric="palette", table=table)

    with open_source(path) as source:
        patch = read_window(source, whole(path))
    picture = rgb_of_patch(patch).array
    again = read_scene_tif(write_scene_tif(patch))

    corners = [tuple(picture[row, col].tolist()) for row, col in ((0, 0), (0, 15), (15, 0), (15, 15))]
    assert corners == [(34, 139, 34), (0, 0, 255), (200, 30, 0), (9, 9, 9)]
    np.testing.assert_array_equal(again.pixels[0], index)
    assert again.colours == patch.colours


def test_r12_window_in_a_missing_tile_is_an_error_and_others_go_on(tmp_path: Path) -> None:
    """rasterio/rasterio#1334: a truncated TIFF opens, later tiles fail."""
    noise = np.random.default_rng(1).integers(0, 255, (512, 512), dtype="uint8")
    full = make_tif(tmp_path / "whole.tif", noise, METRE_GRID, tiled=True, blockxsize=128, blockysize=128, compress="deflate")
    data = full.read_bytes()
    cut = tmp_path / "cut.tif"
    cut.write_bytes(data[: int(len(data) * 0.6)])

    with open_source(cut) as source:
        first = read_window(source, Window(col_off=0, row_off=0, width=64, height=64))
        with pytest.raises(RasterError, match=r"cut\.tif', window \(448, 448, 64, 64\).*cannot be read"):
            read_window(source, Window(col_off=448, row_off=448, width=64, height=64))
        second = read_window(source, Window(col_off=64, row_off=0, width=64, height=64))

    np.testing.assert_array_equal(first.pixels[0], noise[:64, :64])
    np.testing.assert_array_equal(second.pixels[0], noise[:64, 64:128])


def test_r14_turned_pictures_are_worked_on_as_they_are_stored(tmp_path: Path) -> None:
    """voxel51/fiftyone#3778, HumanSignal/label-studio#6608: an EXIF turn swaps the size, boxes are off."""
    pixels = np.zeros((200, 300, 3), "uint8")
    pixels[20:60, 30:80] = (255, 0, 0)
    turned = Image.Exif()
    turned[0x0112] = 6
    for ending, options in ((".jpg", {"quality": 100, "subsampling": 0}), (".png", {})):
        path = tmp_path / f"a{ending}"
        Image.fromarray(pixels).save(path, exif=turned, **options)
        Path(f"{path}.aux.xml").write_text(
            "<PAMDataset><SRS>EPSG:32633</SRS><GeoTransform>500000,1,0,5500000,0,-1</GeoTransform></PAMDataset>"
        )

        with open_source(path) as source:
            patch = read_window(source, Window(col_off=0, row_off=0, width=300, height=200))
        rows, cols = np.nonzero(patch.pixels[0] > 200)
        raw = (float(cols.min()), float(rows.min()), float(np.ptp(cols) + 1), float(np.ptp(rows) + 1))

        assert (source.width, source.height, exif_orientation(path)) == (300, 200, 6)
        assert raw == (30, 20, 50, 40)
        shown = np.asarray(ImageOps.exif_transpose(Image.open(path)))
        assert shown_size((300, 200), 6) == (shown.shape[1], shown.shape[0]) == (200, 300)
        assert shown_box_from_raw(raw, 6, (300, 200)) == (140, 30, 40, 50)
        assert raw_box_from_shown((140, 30, 40, 50), 6, (300, 200)) == raw
        assert frame_of_size((200, 300), (300, 200), 6) == "shown"
        assert frame_of_size((300, 200), (300, 200), 6) == "raw"
        with pytest.raises(InputError, match=r"of 640 × 480 pixels, but it has 300 × 200 \(shown: 200 × 300\)"):
            frame_of_size((640, 480), (300, 200), 6)

        scene = tmp_path / "scene.tif"
        scene.write_bytes(write_scene_tif(patch))
        with Image.open(scene) as released:
            assert released.getexif().get(0x0112, 1) == 1
        np.testing.assert_array_equal(read_scene_tif(scene).pixels, patch.pixels)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_r14_every_turn_is_undone_as_the_picture_library_does_it(orientation: int) -> None:
    pixels = np.zeros((20, 30, 3), "uint8")
    pixels[2:6, 3:8] = 255
    tag = Image.Exif()
    tag[0x0112] = orientation
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "PNG", exif=tag)
    shown = np.asarray(ImageOps.exif_transpose(Image.open(sink)))
    rows, cols = np.nonzero(shown[..., 0])
    box = (float(cols.min()), float(rows.min()), float(np.ptp(cols) + 1), float(np.ptp(rows) + 1))

    assert shown_box_from_raw((3, 2, 5, 4), orientation, (30, 20)) == box
    assert raw_box_from_shown(box, orientation, (30, 20)) == (3, 2, 5, 4)


def test_r14_a_square_turned_picture_tells_nobody_its_frame() -> None:
    with pytest.raises(InputError, match="which has this size turned or not"):
        frame_of_size((64, 64), (64, 64), 3)


def test_d06_half_written_patches_are_made_again_with_the_same_bytes(tmp_path: Path) -> None:
    """ScrollPrize/villa#1695: a half-written file taken as done."""
    noise = np.random.default_rng(3).integers(0, 255, (4, 3, 128, 128), dtype="uint8")
    scenes: list[bytes] = []
    for k in range(4):
        path = make_tif(tmp_path / f"p{k}.tif", noise[k], Affine(1, 0, 500000 + k * 128, 0, -1, 5500000), compress="deflate")
        with open_source(path) as source:
            scenes.append(write_scene_tif(read_window(source, whole(path))))
    store = ArtefactStore(tmp_path / "store")
    refs = [store.put_bytes(scene, ".tif") for scene in scenes]
    clean = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "store").rglob("*.tif")}
    store.local_path(refs[2]).write_bytes(scenes[2][: len(scenes[2]) // 2])
    store.local_path(refs[3]).write_bytes(b"")

    assert [store.check(ref) for ref in refs] == ["ok", "ok", "damaged", "damaged"]
    for k in (2, 3):
        store.put_bytes(scenes[k], ".tif")

    assert [store.check(ref, deep=True) for ref in refs] == ["ok"] * 4
    assert {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (tmp_path / "store").rglob("*.tif")} == clean
