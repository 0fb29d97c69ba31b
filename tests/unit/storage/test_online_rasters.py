"""Rasters on the web, from a real server on 127.0.0.1: parts of GeoTIFFs by ranges, tiles, STAC items, and VRTs beside them."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from numpy.typing import NDArray
from PIL import Image
from pyproj import Transformer

from storage.cogs import fetch_cog
from storage.rasters import open_source, read_window
from storage.remote import Manners, Snapshots, Web
from storage.stac import choose_asset, place_of, read_items, search_body, search_items
from storage.tiles import HALF_WORLD_M, TileRange, fetch_tiles, tile_range
from storage.vrt import files_of_vrt, put_together
from tests.web_server import Reply, Served, serving
from trigpoint.errors import FetchError, InputError, RasterError
from trigpoint.imagery.bbox import LonLatBox
from trigpoint.records.scene import Window

GRID = Affine(1.0, 0, 500000.0, 0, -1.0, 5500000.0)
TO_LONLAT = Transformer.from_crs(32633, 4326, always_xy=True)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        yield server


def web(**manners: Any) -> Web:
    return Web(Manners(**{"timeout_s": 10.0, "attempts": 2, "backoff_s": 0.0, **manners}))


def cog_bytes(path: Path, side: int = 2048, mask: bool = False, **options: Any) -> tuple[bytes, NDArray[np.uint8]]:
    pixels = np.random.default_rng(2).integers(0, 255, (3, side, side), dtype=np.uint8)
    profile = {"driver": "GTiff", "width": side, "height": side, "count": 3, "dtype": "uint8", "crs": "EPSG:32633", "transform": GRID}
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(path, "w", tiled=True, blockxsize=256, blockysize=256, photometric="RGB", **profile, **options) as target,
    ):
        target.write(pixels)
        if mask:
            valid = np.ones((side, side), bool)
            valid[:, :100] = False
            target.write_mask(valid)
    return path.read_bytes(), pixels


def box_of(left: float, top: float, right: float, bottom: float) -> LonLatBox:
    """The box of pixel edges of `GRID`, a little inside of them so that it covers these pixels alone."""
    corners = [(500000 + x, 5500000 - y) for x in (left + 0.3, right - 0.3) for y in (top + 0.3, bottom - 0.3)]
    lon, lat = np.array([TO_LONLAT.transform(*corner) for corner in corners]).T
    return (float(lon.min()), float(lat.min()), float(lon.max()), float(lat.max()))


def test_only_the_wanted_part_of_a_remote_raster_is_read_in_native_pixels(served: Served, tmp_path: Path) -> None:
    data, pixels = cog_bytes(tmp_path / "a.tif")
    url = served.put("/a.tif", Reply(data, headers={"ETag": '"v1"'}))
    snapshots = Snapshots(tmp_path / "kept")

    found = fetch_cog(web(), snapshots, url, box_of(300, 500, 420, 560), None, 1 << 24)

    sent = [asked for asked in served.asked if asked.method == "GET"]
    assert all("range" in asked.headers for asked in sent)
    assert {asked.headers["user-agent"] for asked in served.asked} == {"trigpoint"}
    col, row, width, height = found.facts["window"]
    assert abs(col - 300) <= 1 and abs(row - 500) <= 1 and 120 <= width <= 124 and 60 <= height <= 64
    with open_source(found.path) as source:
        patch = read_window(source, Window(col_off=0, row_off=0, width=width, height=height))
        assert source.crs == "EPSG:32633" and source.transform[2] == 500000 + col
    np.testing.assert_array_equal(patch.pixels, pixels[:, row : row + height, col : col + width])
    assert (found.facts["etag"], found.facts["n_bytes"]) == ('"v1"', len(data))

    n = len(served.asked)
    assert fetch_cog(web(), snapshots, url, box_of(300, 500, 420, 560), None, 1 << 24) == found
    assert len(served.asked) == n


def test_a_mask_inside_a_remote_raster_stays_one(served: Served, tmp_path: Path) -> None:
    data, _ = cog_bytes(tmp_path / "a.tif", 512, mask=True)
    url = served.put("/a.tif", Reply(data))

    found = fetch_cog(web(), Snapshots(tmp_path / "kept"), url, None, None, 1 << 24)

    with open_source(found.path) as source:
        valid = read_window(source, Window(col_off=0, row_off=0, width=512, height=512)).valid
    assert not valid[:, :100].any() and valid[:, 100:].all()


def test_remote_rasters_that_cannot_be_used_are_named_and_not_kept(served: Served, tmp_path: Path) -> None:
    data, _ = cog_bytes(tmp_path / "a.tif", 512)
    no_ranges = served.put("/whole.tif", Reply(data, ranges=False))
    html = served.put("/page.tif", Reply(b"<html>sign in</html>"))
    good = served.put("/a.tif", Reply(data))
    cut = served.put("/cut.tif", Reply(data[: len(data) // 2]))
    changed = served.put("/new.tif", Reply(data, headers={"ETag": "1"}), Reply(data, headers={"ETag": "2"}))
    kept = Snapshots(tmp_path / "kept")

    for url, box, max_px, message in (
        (no_ranges, None, 1 << 24, r"whole\.tif': its server serves no ranges"),
        (html, None, 1 << 24, r"page\.tif' is no GeoTIFF \(it begins with b'<html>si'\)"),
        (good, (0.0, 0.0, 1.0, 1.0), 1 << 24, r"a\.tif': bbox \[0\.0, 0\.0, 1\.0, 1\.0\] lies outside"),
        (good, None, 1000, r"512 × 512 pixels are asked for, more than run\.network\.max_px = 1000"),
        (changed, None, 1 << 24, r"new\.tif' changed while it was read"),
        (served.url + "/none.tif", None, 1 << 24, r"GET .*/none\.tif: the server says 404"),
    ):
        with pytest.raises(FetchError, match=message):
            fetch_cog(web(), kept, url, box, None, max_px)
    with pytest.raises((FetchError, RasterError), match=r"cut\.tif'"):
        fetch_cog(web(), kept, cut, None, None, 1 << 24)
    assert not (tmp_path / "kept").exists()


def picture(seed: int, size: int = 256, kind: str = "PNG", mode: str = "RGB") -> tuple[bytes, NDArray[np.uint8]]:
    pixels = np.random.default_rng(seed).integers(0, 255, (size, size, 3), dtype=np.uint8)
    sink = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(sink, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return sink.getvalue(), pixels


def test_tiles_are_put_together_as_they_are(served: Served, tmp_path: Path) -> None:
    box = (8.001, 50.001, 8.004, 50.002)
    tiles = tile_range(box, 18)
    tops = {
        (x, y): picture(1000 * x + y, kind=("PNG", "WEBP")[(x + y) % 2])
        for x in range(tiles.x0, tiles.x0 + 9)
        for y in range(tiles.y0, tiles.y0 + 9)
    }
    for (x, y), (data, _) in tops.items():
        served.put(f"/18/{y}/{x}", Reply(data))
    missing = (tiles.x0, tiles.y0)
    served.put(f"/18/{missing[1]}/{missing[0]}", Reply(b"", 404))
    kept = Snapshots(tmp_path / "kept")

    found = fetch_tiles(web(), kept, served.url + "/{z}/{y}/{x}", 256, tiles, 100, 1 << 24)

    with open_source(found.path) as source:
        assert source.crs == "EPSG:3857"
        patch = read_window(source, Window(col_off=0, row_off=0, width=source.width, height=source.height))
        left, bottom, right, top = Transformer.from_crs(3857, 4326, always_xy=True).transform_bounds(*source.bounds_crs)
    assert left <= box[0] and bottom <= box[1] and right >= box[2] and top >= box[3]
    assert source.transform[0] == pytest.approx(2 * HALF_WORLD_M / 2**18 / 256)
    assert found.facts == {"url": served.url + "/{z}/{y}/{x}", "n_tiles": tiles.n_cols * tiles.n_rows, "n_missing": 1}
    for col in range(tiles.n_cols):
        for row in range(tiles.n_rows):
            here = np.s_[row * 256 : row * 256 + 256, col * 256 : col * 256 + 256]
            if (tiles.x0 + col, tiles.y0 + row) == missing:
                assert not patch.valid[here].any()
            else:
                np.testing.assert_array_equal(
                    np.moveaxis(patch.pixels[(slice(None), *here)], 0, -1), tops[tiles.x0 + col, tiles.y0 + row][1]
                )
    n = len(served.asked)
    fetch_tiles(web(), kept, served.url + "/{z}/{y}/{x}", 256, tiles, 100, 1 << 24)
    assert len(served.asked) == n


def test_tiles_over_the_antimeridian_go_round(served: Served, tmp_path: Path) -> None:
    tiles = tile_range((179.9, -17.1, -179.9, -17.0), 9)
    assert (tiles.x0, tiles.n_cols) == (511, 2)
    for x in (511, 0):
        for y in range(tiles.y0, tiles.y0 + tiles.n_rows):
            served.put(f"/9/{x}/{(1 << 9) - 1 - y}.png", Reply(picture(x)[0]))

    found = fetch_tiles(web(), Snapshots(tmp_path), served.url + "/{z}/{x}/{-y}.png", 256, tiles, 100, 1 << 24)

    with open_source(found.path) as source:
        patch = read_window(source, Window(col_off=0, row_off=0, width=512, height=256))
    np.testing.assert_array_equal(np.moveaxis(patch.pixels[:, :, 256:], 0, -1), picture(0)[1])


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(b"<html>quota</html>"), "is no whole picture"),
        (Reply(picture(1)[0][:900]), "is no whole picture"),
        (Reply(picture(1, 512)[0]), "has 512 × 512 pixels, expected 256"),
        (Reply(b"", 404), "the server has none of the 1 tiles"),
        (Reply(b"no", 403), "the server says 403"),
    ],
    ids=["html", "cut", "size", "none", "refused"],
)
def test_tiles_that_are_none_are_refused(served: Served, tmp_path: Path, reply: Reply, message: str) -> None:
    served.put("/1/0/0", reply)

    with pytest.raises(FetchError, match=message):
        fetch_tiles(web(), Snapshots(tmp_path), served.url + "/{z}/{x}/{y}", 256, TileRange(1, 0, 0, 1, 1), 10, 1 << 20)


def test_too_many_tiles_are_not_asked_for(served: Served, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"1048576 tiles .* more than run\.network\.max_tiles = 10"):
        fetch_tiles(web(), Snapshots(tmp_path), served.url + "/{z}/{x}/{y}", 256, TileRange(10, 0, 0, 1024, 1024), 10, 1 << 30)
    assert served.asked == []


def item(item_id: str, href: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "Feature", "stac_version": "1.0.0", "id": item_id, "bbox": [179.5, -17.5, -179.5, -16.5], "links": [],
        "geometry": {"type": "Point", "coordinates": [180.0, -17.0]},
        "properties": {"datetime": "2024-01-05T10:00:00Z", **properties},
        "assets": {"visual": {"href": href, "type": "image/tiff"}},
    }  # fmt: skip


def saved(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_an_item_says_date_and_licence_as_they_are(tmp_path: Path) -> None:
    path = saved(tmp_path / "i.json", item("am", "a.tif", license="CC-BY-4.0"))

    asset = choose_asset(read_items(path), None, "visual", "x")

    assert (asset.item_id, asset.acquired, asset.licence) == ("am", "2024-01-05", "CC-BY-4.0")
    assert place_of(asset, path, ()) == tmp_path / "a.tif"


def test_items_and_assets_are_named_when_the_choice_is_not_one(tmp_path: Path) -> None:
    items = read_items(saved(tmp_path / "i.json", {"type": "FeatureCollection", "features": [item("b", "b.tif"), item("a", "a.tif")]}))

    assert choose_asset(items, "a", "visual", "x").href == "a.tif"
    with pytest.raises(InputError, match="x has 2 items: a, b; expected one"):
        choose_asset(items, None, "visual", "x")
    with pytest.raises(InputError, match=r"item 'a' has the assets \['visual'\], not 'nir'"):
        choose_asset(items, "a", "nir", "x")
    with pytest.raises(InputError, match="x has no item"):
        choose_asset([], None, "visual", "x")


@pytest.mark.parametrize(
    "href",
    [
        "../a.tif",
        "/etc/passwd",
        "file:///etc/passwd",
        "s3://bucket/a.tif",
        "http://elsewhere.invalid/a.tif",
        "http://u:p@good.example/a.tif",
        "http://good.example/${HOME}",
    ],
)
def test_hrefs_lead_nowhere_else(tmp_path: Path, href: str) -> None:
    path = saved(tmp_path / "i.json", item("a", href))
    asset = choose_asset(read_items(path), None, "visual", "x")

    with pytest.raises(InputError, match="asset of STAC item 'a': its href"):
        place_of(asset, path, ("good.example",))
    if not href.startswith(("..", "/")):
        with pytest.raises(InputError, match="asset of STAC item 'a': its href"):
            place_of(asset, "http://api.example/search", ())


@pytest.mark.parametrize("document", [[], {"type": "Feature"}, {"features": [{"id": "a"}]}, {"features": 5}, 7])
def test_what_is_no_item_is_refused(tmp_path: Path, document: Any) -> None:
    with pytest.raises(InputError, match="STAC"):
        read_items(saved(tmp_path / "i.json", document))


def test_a_search_is_asked_once_page_by_page(served: Served, tmp_path: Path) -> None:
    first = {
        "type": "FeatureCollection",
        "features": [item("b", "b.tif")],
        "links": [{"rel": "next", "href": "/p2", "method": "POST", "merge": True, "body": {"token": "t"}}],
    }
    last = {"type": "FeatureCollection", "features": [item("a", "a.tif")], "links": [{"rel": "self", "href": "x"}]}
    url = served.put("/search", Reply(json.dumps(first).encode()))
    served.put("/p2", Reply(json.dumps(last).encode()))
    body = search_body(("naip",), "2024-01-01/2024-12-31", (179.5, -17.5, -179.5, -16.5), None)
    kept = Snapshots(tmp_path)

    found = search_items(web(), kept, url, body, 50)

    assert [each.id for each in read_items(found.path)] == ["a", "b"]
    assert [json.loads(asked.body) for asked in served.asked] == [
        {"collections": ["naip"], "datetime": "2024-01-01/2024-12-31", "bbox": [179.5, -17.5, -179.5, -16.5], "limit": 50},
        {"collections": ["naip"], "datetime": "2024-01-01/2024-12-31", "bbox": [179.5, -17.5, -179.5, -16.5], "limit": 50, "token": "t"},
    ]
    assert search_items(web(), kept, url, body, 50) == found
    assert len(served.asked) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"code": "BadRequest"}, "the answer is no item collection"),
        ({"features": [{"id": "a"}], "links": []}, "holds no STAC item"),
        ({"features": [], "links": [{"rel": "next", "href": "http://elsewhere.invalid/p2"}]}, "is on another host"),
        ({"features": [], "links": [{"rel": "next", "href": "/search", "method": "POST"}]}, "50 pages and no end"),
    ],
)
def test_a_search_that_goes_wrong_is_not_kept(served: Served, tmp_path: Path, answer: Any, message: str) -> None:
    url = served.put("/search", Reply(json.dumps(answer).encode()))

    with pytest.raises(FetchError, match=message):
        search_items(web(), Snapshots(tmp_path), url, {}, 50)
    assert list(tmp_path.iterdir()) == []


VRT = """<VRTDataset rasterXSize="40" rasterYSize="20">
 <SRS>EPSG:32633</SRS><GeoTransform>500000.0, 1.0, 0.0, 5500000.0, 0.0, -1.0</GeoTransform>
 <VRTRasterBand dataType="Byte" band="1"><ColorInterp>Gray</ColorInterp>{sources}</VRTRasterBand>
</VRTDataset>"""
PART = """<SimpleSource><SourceFilename relativeToVRT="1">{name}</SourceFilename><SourceBand>1</SourceBand>
 <SrcRect xOff="0" yOff="0" xSize="20" ySize="20"/><DstRect xOff="{at}" yOff="0" xSize="20" ySize="20"/></SimpleSource>"""


def parts(folder: Path) -> list[NDArray[np.uint8]]:
    made = []
    for k in range(2):
        pixels = np.random.default_rng(k).integers(1, 255, (1, 20, 20), dtype=np.uint8)
        made.append(pixels)
        with rasterio.open(
            folder / f"p{k}.tif", "w", driver="GTiff", width=20, height=20, count=1, dtype="uint8", crs="EPSG:32633",
            transform=Affine(1.0, 0, 500000.0 + 20 * k, 0, -1.0, 5500000.0),
        ) as target:  # fmt: skip
            target.write(pixels)
    return made


def test_a_vrt_is_put_together_in_native_pixels(tmp_path: Path) -> None:
    made = parts(tmp_path)
    path = tmp_path / "m.vrt"
    path.write_text(VRT.format(sources="".join(PART.format(name=f"p{k}.tif", at=20 * k) for k in range(2))))

    found = put_together(Snapshots(tmp_path / "kept"), path, None, 1 << 20)

    with open_source(found.path) as source:
        patch = read_window(source, Window(col_off=0, row_off=0, width=40, height=20))
    np.testing.assert_array_equal(patch.pixels, np.concatenate(made, axis=2))
    assert [file.name for file in files_of_vrt(path)] == ["p0.tif", "p1.tif"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("p0.tif", "../p0.tif"), r"names '\.\./p0\.tif', expected a file in its own folder"),
        (("p0.tif", "/etc/passwd"), "names '/etc/passwd'"),
        (("p0.tif", "/vsicurl/http://127.0.0.1/a.tif"), "names '/vsicurl/"),
        (("p0.tif", "none.tif"), "which is not there"),
        (('relativeToVRT="1"', 'relativeToVRT="0"'), "expected a file in its own folder"),
        (('<SrcRect xOff="0" yOff="0" xSize="20"', '<SrcRect xOff="0" yOff="0" xSize="10"'), "would be resampled"),
        (('xOff="0" yOff="0" xSize="20"', 'xOff="0.5" yOff="0" xSize="20"'), "between pixels"),
        (("<VRTDataset ", '<VRTDataset subClass="VRTWarpedDataset" '), "is no plain mosaic"),
        (('band="1">', 'band="1" subClass="VRTDerivedRasterBand">'), "is no plain mosaic"),
        (("<ColorInterp>Gray</ColorInterp>", "<PixelFunctionLanguage>Python</PixelFunctionLanguage>"), "PixelFunctionLanguage"),
        (("<VRTDataset ", '<!DOCTYPE x [<!ENTITY a "b">]><VRTDataset '), "has a DOCTYPE"),
        (("</VRTDataset>", ""), "is no XML"),
    ],
)
def test_a_vrt_that_is_more_than_a_mosaic_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    parts(tmp_path)
    path = tmp_path / "m.vrt"
    path.write_text(VRT.format(sources=PART.format(name="p0.tif", at=0)).replace(*change))

    with pytest.raises(RasterError, match=message):
        put_together(Snapshots(tmp_path / "kept"), path, None, 1 << 20)


def test_a_vrt_of_files_in_another_crs_is_refused(tmp_path: Path) -> None:
    parts(tmp_path)
    path = tmp_path / "m.vrt"
    path.write_text(VRT.format(sources=PART.format(name="p0.tif", at=0)).replace("EPSG:32633", "EPSG:32634"))

    with pytest.raises(RasterError, match=r"p0\.tif is in 'EPSG:32633', the mosaic in 'EPSG:32634'"):
        put_together(Snapshots(tmp_path / "kept"), path, None, 1 << 20)


def test_a_vrt_of_what_is_no_raster_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p0.tif").write_text("<VRTDataset/>")
    path = tmp_path / "m.vrt"
    path.write_text(VRT.format(sources=PART.format(name="p0.tif", at=0)))

    with pytest.raises(RasterError, match=r"p0\.tif' is no GeoTIFF"):
        put_together(Snapshots(tmp_path / "kept"), path, None, 1 << 20)
