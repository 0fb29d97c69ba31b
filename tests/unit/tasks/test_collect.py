"""collect alone: which POIs and scenes a configuration finds, and why others are dropped."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rasterio
import shapely
import yaml
from pyproj import Geod, Transformer

from tasks import collect
from tasks.query import categories_in_scene
from tasks.scenes import frame_of
from tasks.steps import Made
from tasks.workspace import Workspace
from tests.tiny_project import LEFT, PIXEL, TOP, make_project
from tests.web_server import Reply, serving
from trigpoint.errors import InputError
from trigpoint.records.scene import Scene

OWN = {"licence": "CC0-1.0", "attribution": "made for the tests"}
GEOD = Geod(ellps="WGS84")


def project(folder: Path, change: Callable[[dict[str, Any]], None]) -> Workspace:
    """The tiny project with a changed first source; its second is left out."""
    path = make_project(folder)
    document = yaml.safe_load(path.read_text())
    document["sources"] = document["sources"][:1]
    change(document)
    path.write_text(yaml.safe_dump(document, allow_unicode=True))
    return Workspace(path)


def collected(workspace: Workspace, source: str = "a") -> Made:
    item = next(item for item in collect.plan(workspace, {}) if item.item_id == source)
    return collect.make(workspace, item)


def scenes_of(made: Made) -> list[Scene]:
    return [Scene.model_validate_json(text) for text in made.tables["scene_record"].column("record").to_pylist()]


def lonlat(col: float, row: float) -> list[float]:
    x, y = Transformer.from_crs(32645, 4326, always_xy=True).transform(LEFT + col * PIXEL, TOP - row * PIXEL)
    return [x, y]


def write_pois(path: Path, places: dict[str, tuple[float, float]], **tags: str) -> None:
    features = [
        {"type": "Feature", "properties": {"id": name, **tags}, "geometry": {"type": "Point", "coordinates": lonlat(*place)}}
        for name, place in places.items()
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def around(folder: Path, asked: dict[str, Any], **tags: str) -> Workspace:
    """Nine schools 40 m apart on the first raster (240 m × 150 m) and the wish for scenes around them."""
    places = {f"p{3 * i + j}": (80.0 + 80 * i, 70.0 + 80 * j) for i in range(3) for j in range(3)}

    def change(document: dict[str, Any]) -> None:
        write_pois(folder / "schools.geojson", places, **(tags or {"building": "school"}))
        document["sources"][0]["pois"] = [{"path": "schools.geojson", "id_property": "id", **OWN}]
        document["sources"][0]["scenes"] = {"around_pois": asked}

    return project(folder, change)


def test_quota_and_spacing_choose_the_same_pois_whatever_their_order_in_the_file(tmp_path: Path) -> None:
    asked = {"quota": {"school": 3}, "size_px": 60, "min_spacing_m": 50.0}
    workspace = around(tmp_path / "one", asked)
    other = around(tmp_path / "two", asked)
    document = json.loads((tmp_path / "two" / "schools.geojson").read_text())
    (tmp_path / "two" / "schools.geojson").write_text(json.dumps({**document, "features": document["features"][::-1]}))

    first, second = scenes_of(collected(workspace)), scenes_of(collected(other))

    assert [scene.poi_id for scene in first] == [scene.poi_id for scene in second]
    assert len(first) == 3
    pois = {row["poi_id"]: row for row in collected(workspace).tables["poi"].to_pylist()}
    spots = [pois[scene.poi_id] for scene in first]
    assert min(GEOD.inv(a["lon"], a["lat"], b["lon"], b["lat"])[2] for a in spots for b in spots if a is not b) >= 50.0


def shortfalls(made: Made) -> dict[str, tuple[int, str]]:
    return {drop.item_id: (drop.n, drop.detail) for drop in made.drops if drop.reason_code in ("quota_not_met", "limit_not_reached")}


def test_a_quota_that_is_not_met_is_told_with_its_reasons(tmp_path: Path) -> None:
    made = collected(around(tmp_path, {"quota": {"school": 20, "temple": 1}, "size_px": 60, "min_spacing_m": 41.0}))

    chosen = len(scenes_of(made))
    assert shortfalls(made) == {
        "around_pois/temple": (
            1,
            "1 of 1 scenes around temple are missing: 0 such POIs were read, 0 lie on the raster, 0 can have a scene",
        ),
        "around_pois/school": (
            20 - chosen,
            f"{20 - chosen} of 20 scenes around school are missing: 9 such POIs were read, 9 lie on the raster, 9 can have a scene, "
            f"{9 - chosen} are nearer than 41 m to a chosen one",
        ),
    }


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            {"quota": {"temple": 3}},
            {
                "around_pois/temple": "3 of 3 scenes around temple are missing: 0 such POIs were read, "
                "0 lie on the raster, 0 can have a scene"
            },
        ),
        (
            {"categories": ["temple"]},
            {"around_pois": "1 of 1 scenes around temple are missing: 0 such POIs were read, 0 lie on the raster, 0 can have a scene"},
        ),
        (
            {"quota": {"school": 9}, "per_region": 2, "region_km": 100.0},
            {
                "around_pois/school": "7 of 9 scenes around school are missing: 9 such POIs were read, 9 lie on the raster, "
                "9 can have a scene, 7 are in a region of 100 km that has its 2 already"
            },
        ),
        (
            {"quota": {"school": 9}, "limit": 4},
            {
                "around_pois/school": "5 of 9 scenes around school are missing: 9 such POIs were read, 9 lie on the raster, "
                "9 can have a scene, 5 are beyond the limit of 4"
            },
        ),
        (
            {"categories": ["school"], "size_px": 301},
            {"around_pois": "1 of 1 scenes around school are missing: 9 such POIs were read, 9 lie on the raster, 0 can have a scene"},
        ),
        ({"categories": ["school"], "limit": 9}, {}),
    ],
    ids=["nothing of it", "no quota", "regions", "limit", "raster too small", "enough"],
)
def test_every_scene_that_is_asked_for_and_missing_is_told(tmp_path: Path, asked: dict[str, Any], expected: dict[str, str]) -> None:
    made = collected(around(tmp_path, {"size_px": 30, **asked}))

    assert {item: detail for item, (_, detail) in shortfalls(made).items()} == expected
    if asked.get("size_px") == 301:
        small = [drop.item_id for drop in made.drops if drop.reason_code == "raster_too_small"]
        assert len(small) == len(set(small)) == 9


def test_pois_that_share_a_window_make_one_scene_and_the_others_are_told(tmp_path: Path) -> None:
    made = collected(around(tmp_path, {"quota": {"school": 9}, "size_px": 300}))

    taken = [drop for drop in made.drops if drop.reason_code == "window_taken"]
    assert len(taken) + len(scenes_of(made)) == 9
    assert len(taken) > 0


def test_rows_with_one_id_are_one_poi_and_the_others_are_set_aside_by_name(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        rows = "".join(f"{name},school,{lonlat(col, 50)[0]!r},{lonlat(col, 50)[1]!r}\n" for name, col in (("x", 50), ("x", 90), ("y", 70)))
        for name in ("p.csv", "q.csv"):
            (tmp_path / name).write_text(f"id,building,lon,lat\n{rows}")
        document["sources"][0]["pois"] = [{"path": name, "id_property": "id", **OWN} for name in ("p.csv", "q.csv")]

    made = collected(project(tmp_path, change))

    assert made.tables["poi"].column("poi_id").to_pylist() == ["x", "y"]
    assert [(drop.item_id, drop.n, drop.detail) for drop in made.drops if drop.reason_code == "poi_id_repeated"] == [
        ("x", 3, "4 POIs have this id, 2 of them say something else than the first, which is taken"),
        ("y", 1, "2 POIs have this id, 0 of them say something else than the first, which is taken"),
    ]


def test_size_on_the_ground_becomes_whole_native_pixels(tmp_path: Path) -> None:
    made = collected(around(tmp_path, {"categories": ["school"], "size_m": 30.2}))

    (scene,) = scenes_of(made)
    assert (scene.width, scene.height) == (61, 61)  # 30.2 m in pixels of 0.5001 m: 60.4, rounded up
    assert scene.width * scene.frame.gsd_m == pytest.approx(30.5, abs=0.1)


def test_patches_of_a_mercator_raster_have_their_size_on_the_ground() -> None:
    from trigpoint.geometry.frames import fit_frame

    gsd = fit_frame("EPSG:3857", (0.5, 0.0, 9520000.0, 0.0, -0.5, 3200000.0), 1, 1).gsd_m
    assert gsd == pytest.approx(0.5 * 0.8866, abs=2e-3)  # cos 27.6°


def test_a_poi_whose_category_needs_finer_pixels_is_dropped_with_the_limit(tmp_path: Path) -> None:
    workspace = around(tmp_path, {"categories": ["school"], "size_px": 60})
    path = tmp_path / "settlement.v1.yaml"
    taxonomy = yaml.safe_load(path.read_text())
    for category in taxonomy["categories"]:
        if category["id"] == "school":
            category["coarsest_gsd_m"] = 0.3
    path.write_text(yaml.safe_dump(taxonomy, sort_keys=False))

    made = collected(workspace)

    assert scenes_of(made) == []
    assert [drop.reason_code for drop in made.drops] == ["gsd_too_coarse_for_category"] * 9 + ["limit_not_reached"]
    assert "a pixel of 0.5 m is too coarse for school, which need 0.3 m or finer" in made.drops[0].detail


def test_overture_places_are_found_by_their_struct_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": ["08f1", "08f2"],
            "names": pa.array(
                [{"primary": "Shree School", "common": [("ne", "x")]}, {"primary": "Bar", "common": None}],
                pa.struct([("primary", pa.string()), ("common", pa.map_(pa.string(), pa.string()))]),
            ),
            "categories": pa.array(
                [{"primary": "school", "alternate": ["education", "primary_school"]}, {"primary": "bar", "alternate": None}],
                pa.struct([("primary", pa.string()), ("alternate", pa.list_(pa.string()))]),
            ),
            "sources": [[{"dataset": "meta", "record_id": "1"}], []],
            "bbox": [{"xmin": 1.0, "ymin": 1.0}, {"xmin": 1.0, "ymin": 1.0}],
            "geometry": shapely.to_wkb([shapely.Point(lonlat(100, 100)), shapely.Point(lonlat(200, 100))]),
        }
    )
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB", "geometry_types": ["Point"]}}}
    tmp_path.joinpath("p").mkdir()
    pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo).encode()}), tmp_path / "p" / "places.parquet")

    def change(document: dict[str, Any]) -> None:
        document["sources"][0]["pois"] = [{"path": "places.parquet", "id_property": "id", "id_prefix": "overture/", **OWN}]
        taxonomy = yaml.safe_load((tmp_path / "p" / "settlement.v1.yaml").read_text())
        next(c for c in taxonomy["categories"] if c["id"] == "school")["osm"] = ["categories.primary=school"]
        (tmp_path / "p" / "settlement.v1.yaml").write_text(yaml.safe_dump(taxonomy, sort_keys=False))

    (row,) = collected(project(tmp_path / "p", change)).tables["poi"].to_pylist()

    assert (row["poi_id"], row["name"], list(row["categories"])) == ("overture/08f1", "Shree School", ["school"])
    assert json.loads(row["tags"]) == {
        "id": "08f1",
        "names.primary": "Shree School",
        "names.common.ne": "x",
        "categories.primary": "school",
        "categories.alternate": "education;primary_school",
        "sources": '[{"dataset": "meta", "record_id": "1"}]',
    }


def test_overpass_is_asked_once_and_a_rebuild_never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    lon, lat = lonlat(200, 100)
    answer = {"elements": [{"type": "node", "id": 2**53 + 1, "lat": lat, "lon": lon, "tags": {"building": "school", "name": "Ω"}}]}
    with serving() as server:
        url = server.put("/api", Reply(json.dumps(answer).encode()))

        def change(document: dict[str, Any]) -> None:
            asked = {"url": url, "categories": ["school"]}
            document["sources"][0]["pois"] = [{"overpass": asked, "bbox": [85.5, 27.6, 85.6, 27.7], **OWN}]
            document["run"]["snapshots"] = "kept"

        workspace = project(tmp_path, change)
        with pytest.raises(InputError, match=r"sources\.a\.pois\.0: not fetched yet; `trigpoint build` does"):
            collected(workspace)
        assert server.asked == []
        workspace.may_fetch = True
        made = collected(workspace)
        key = [item.inputs for item in collect.plan(workspace, {})]
        assert len(server.asked) == 1
        assert b"nwr" in server.asked[0].body

    again = Workspace(workspace.config_path)  # the server is gone
    assert [item.inputs for item in collect.plan(again, {})] == key
    assert collected(again).tables["poi"].equals(made.tables["poi"])
    assert made.tables["poi"].column("poi_id").to_pylist() == [f"osm/node/{2**53 + 1}"]


def test_an_overpass_server_that_fails_quarantines_its_source_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        url = server.put("/api", Reply(json.dumps({"elements": [], "remark": "runtime error: out of memory"}).encode()))

        def change(document: dict[str, Any]) -> None:
            document["sources"][0]["pois"] = [{"overpass": {"url": url}, "bbox": [85.5, 27.6, 85.6, 27.7], **OWN}]

        workspace = project(tmp_path, change)
        workspace.may_fetch = True
        with pytest.raises(InputError, match=r"sources\.a\.pois\.0: Overpass answer of .* is incomplete: 'runtime error: out of memory'"):
            collected(workspace)


def test_geopackage_and_csv_find_the_same_pois(tmp_path: Path) -> None:
    point = lonlat(100, 100)

    def change(document: dict[str, Any]) -> None:
        frame = geopandas.GeoDataFrame({"id": ["x"], "building": ["school"]}, geometry=[shapely.Point(*point)], crs=4326)
        frame.to_crs(32645).to_file(tmp_path / "p.gpkg")
        (tmp_path / "p.csv").write_text(f"id,building,lon,lat\nx,school,{point[0]!r},{point[1]!r}\n")
        keys = {"id_property": "id", **OWN}
        document["sources"][0]["pois"] = [{"path": "p.gpkg", **keys, "id_prefix": "g/"}, {"path": "p.csv", **keys, "id_prefix": "c/"}]

    csv, package = collected(project(tmp_path, change)).tables["poi"].to_pylist()[::-1]

    assert (csv["poi_id"], package["poi_id"]) == ("c/x", "g/x")
    assert (csv["lon"], csv["lat"]) == pytest.approx((package["lon"], package["lat"]), abs=1e-9)


def series(folder: Path, *, pixel: float = PIXEL, left: float = LEFT, acquired: str = "2026-01", **scenes: Any) -> Workspace:
    """The first raster and another of the same place and of another date, which follows it."""

    folder.mkdir(parents=True)
    with rasterio.open(
        folder / "winter.tif", "w", driver="GTiff", width=int(240 / pixel), height=int(150 / pixel), count=3, dtype="uint8",
        crs="EPSG:32645", transform=rasterio.Affine(pixel, 0, left, 0, -pixel, TOP), photometric="RGB",
    ) as target:  # fmt: skip
        target.write(np.random.default_rng(9).integers(1, 255, (3, target.height, target.width), dtype=np.uint8))

    def change(document: dict[str, Any]) -> None:
        follower = {"path": "winter.tif", "acquired": acquired, **OWN}
        document["sources"].append({"name": "winter", "imagery": follower, "scenes": {"same_as": "a", **scenes}})
        document["sources"][0]["scenes"] = {"windows": [[20, 40, 100, 80], [300, 100, 180, 200]]}

    return project(folder, change)


def test_scenes_of_another_date_lie_on_the_same_footprints(tmp_path: Path) -> None:
    workspace = series(tmp_path / "p")

    first, second = scenes_of(collected(workspace)), scenes_of(collected(workspace, "winter"))

    assert {scene.series_id: scene.window for scene in first} == {scene.series_id: scene.window for scene in second}
    assert len({scene.series_id for scene in first}) == 2
    assert all(str(scene.series_id).startswith("series-") for scene in first)
    assert {scene.acquired for scene in (*first, *second)} == {"2025-06-01", "2026-01"}
    assert not {scene.scene_id for scene in first} & {scene.scene_id for scene in second}
    assert len(workspace.config.sources) == 2 and workspace.check() is None


def test_a_series_of_other_pixels_is_not_resampled(tmp_path: Path) -> None:
    second = scenes_of(collected(series(tmp_path / "p", pixel=0.75), "winter"))

    # columns 20 to 120 and rows 40 to 120 of 0.5 m are columns 13.3 to 80 and rows 26.7 to 80 of 0.75 m
    assert sorted(scene.window.as_tuple() for scene in second) == [(13, 26, 67, 54), (200, 66, 120, 134)]


def test_a_footprint_that_the_other_date_does_not_cover_is_dropped(tmp_path: Path) -> None:
    made = collected(series(tmp_path / "p", left=LEFT + 30), "winter")

    assert len(scenes_of(made)) == 1
    assert [drop.reason_code for drop in made.drops] == ["series_outside_raster"]
    assert "window (20, 40, 100, 80) of source 'a' is (-40, 40, 100, 80) here" in made.drops[0].detail


def test_without_a_series_there_is_no_series_id(tmp_path: Path) -> None:
    assert {scene.series_id for scene in scenes_of(collected(project(tmp_path, lambda document: None)))} == {None}


def test_a_series_needs_another_date(tmp_path: Path) -> None:
    from trigpoint.config import check_names

    assert check_names(series(tmp_path / "p", acquired="2025-06-01").config) == [
        "sources.winter.scenes.same_as: 'a' and 'winter' are of the same date 2025-06-01; a series has several"
    ]


@pytest.mark.parametrize(
    ("limits", "reason", "text"),
    [
        ({"max_gsd_m": 0.4}, "gsd_too_coarse", "a pixel is 0.5001 m, more than 0.4 m, in window (0, 0, 480, 300)"),
        ({"min_gsd_m": 0.6}, "gsd_too_fine", "a pixel is 0.5001 m, less than 0.6 m"),
        ({"max_blank_share": 0.2}, "too_blank", "25.0% of the valid pixels have one and the same value, more than 20%"),
        ({"max_bright_share": 0.2}, "too_bright", "25.0% of the valid pixels are saturated, more than 20%"),
        ({"max_cloud_share": 0.3}, "too_cloud", "50.0% of the valid pixels are clouds by the mask, more than 30%"),
        ({"max_blank_share": 0.3, "max_bright_share": 0.3, "max_cloud_share": 0.5, "max_gsd_m": 0.501, "min_gsd_m": 0.49}, None, ""),
    ],
)
def test_scenes_outside_the_limits_are_dropped_with_what_was_measured(
    tmp_path: Path, limits: dict[str, float], reason: str | None, text: str
) -> None:

    def change(document: dict[str, Any]) -> None:
        with rasterio.open(tmp_path / "a.tif", "r+") as raster:
            raster.write(np.full((3, 150, 240), 255, np.uint8), window=rasterio.windows.Window(0, 0, 240, 150))
            grid = raster.profile
        mask = np.zeros((300, 480), np.uint8)
        mask[:, 240:] = 3
        grid.update(count=1, photometric="MINISBLACK")
        with rasterio.open(tmp_path / "clouds.tif", "w", **grid) as target:
            target.write(mask, 1)
        document["sources"][0]["imagery"]["clouds"] = {"path": "clouds.tif", "values": [3, 9]}
        document["sources"][0]["scenes"] = {"windows": [[0, 0, 480, 300]], **limits}

    made = collected(project(tmp_path, change))

    assert [drop.reason_code for drop in made.drops] == ([] if reason is None else [reason])
    assert text in "".join(drop.detail for drop in made.drops)
    for scene in scenes_of(made):
        assert (scene.blank_share, scene.bright_share, scene.cloud_share) == (0.25, 0.25, 0.5)


def test_a_cloud_mask_on_another_grid_is_refused(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["sources"][0]["imagery"]["clouds"] = {"path": "b.tif", "values": [1]}
        document["sources"][0]["scenes"] = {"windows": [[0, 0, 480, 300]], "max_cloud_share": 0.5}

    with pytest.raises(InputError, match=r"cloud mask .*b\.tif has 480 × 300 pixels, the transform"):
        collected(project(tmp_path, change))


@pytest.mark.parametrize(
    ("crs", "pixel", "fits"),
    [("EPSG:32645", PIXEL, True), ("EPSG:32646", PIXEL, False), ("EPSG:32645", PIXEL * (1 + 1e-3), False)],
    ids=["same grid", "other zone", "other pixels"],
)
def test_a_cloud_mask_is_on_the_grid_of_the_imagery_in_its_crs(tmp_path: Path, crs: str, pixel: float, fits: bool) -> None:
    def change(document: dict[str, Any]) -> None:
        with rasterio.open(
            tmp_path / "clouds.tif", "w", driver="GTiff", width=480, height=300, count=1, dtype="uint8", crs=crs,
            transform=rasterio.Affine(pixel, 0, LEFT, 0, -pixel, TOP),
        ) as target:  # fmt: skip
            target.write(np.zeros((1, 300, 480), np.uint8))
        document["sources"][0]["imagery"]["clouds"] = {"path": "clouds.tif", "values": [1]}
        document["sources"][0]["scenes"] = {"windows": [[0, 0, 480, 300]], "max_cloud_share": 0.5}

    workspace = project(tmp_path, change)

    if fits:
        assert [scene.cloud_share for scene in scenes_of(collected(workspace))] == [0.0]
    else:
        with pytest.raises(InputError, match=rf"cloud mask .*clouds\.tif has 480 × 300 pixels, .* and the CRS '{crs}', expected the grid"):
            collected(workspace)


def test_a_pinned_file_that_changed_is_named_before_any_work(tmp_path: Path) -> None:
    from trigpoint.config import check_files

    workspace = project(tmp_path, lambda document: document["sources"][0]["imagery"].update(sha256="0" * 64))

    (problem,) = check_files(workspace.config)
    assert "sources.a.imagery: " in problem and "expected " + "0" * 64 in problem


def around_place(col: float, row: float, size: float) -> list[float]:
    (west, south), (east, north) = lonlat(col - size, row + size), lonlat(col + size, row - size)
    return [west, south, east, north]


def test_a_remote_raster_a_stac_item_and_a_vrt_give_the_pixels_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rasterio.shutil

    from storage.rasters import open_source, read_scene_tif, read_window
    from trigpoint.records.scene import Window

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    item = {
        "type": "Feature", "stac_version": "1.0.0", "id": "x", "bbox": [85, 27, 86, 28], "links": [], "geometry": None,
        "properties": {"datetime": "2023-04-05T06:07:08Z", "license": "cc0-1.0"},
    }  # fmt: skip
    with serving() as server:

        def change(document: dict[str, Any]) -> None:
            url = server.put("/a.tif", Reply((tmp_path / "a.tif").read_bytes()))
            item["assets"] = {"visual": {"href": url}}
            server.put("/search", Reply(json.dumps({"type": "FeatureCollection", "features": [item], "links": []}).encode()))
            with rasterio.open(tmp_path / "a.tif") as raster:
                rasterio.shutil.copy(raster, tmp_path / "a.vrt", driver="VRT")
            box = around_place(200, 150, 60)
            scenes = {"windows": [[0, 0, 100, 100]]}
            document["sources"] = [
                {"name": "cog", "imagery": {"cog": url, "bbox": box, "acquired": "2020", **OWN}, "scenes": scenes},
                {
                    "name": "stac",
                    "imagery": {"stac": {"url": server.url + "/search"}, "bbox": around_place(280, 150, 60), **OWN},
                    "scenes": scenes,
                },
                {"name": "twin", "imagery": {"stac": {"url": server.url + "/search"}, "bbox": box, **OWN}, "scenes": scenes},
                {"name": "vrt", "imagery": {"path": "a.vrt", **OWN}, "scenes": scenes},
            ]

        workspace = project(tmp_path, change)
        workspace.check()
        workspace.may_fetch = True
        made = {name: collected(workspace, name) for name in ("cog", "stac", "vrt")}
        with pytest.raises(InputError, match="its imagery is that of source 'cog', byte for byte"):
            collected(workspace, "twin")
        n = len(server.asked)

    again = Workspace(workspace.config_path)  # the server is gone
    assert [item.inputs for item in collect.plan(again, {})] == [item.inputs for item in collect.plan(workspace, {})]
    assert n < 8
    assert {name: [scene.acquired for scene in scenes_of(each)] for name, each in made.items()} == {
        "cog": ["2020"], "stac": ["2023-04-05"], "vrt": [None],
    }  # fmt: skip
    with open_source(tmp_path / "a.tif") as source:
        for name, each in made.items():
            (scene,) = scenes_of(each)
            col, row = round((scene.transform[2] - LEFT) / PIXEL), round((TOP - scene.transform[5]) / PIXEL)
            assert (name == "vrt") == ((col, row) == (0, 0))
            expected = read_window(source, Window(col_off=col, row_off=row, width=100, height=100)).pixels
            image = next(iter(each.files.values()))
            np.testing.assert_array_equal(read_scene_tif(workspace.store.get_bytes(image)).pixels, expected)


def test_an_item_of_another_licence_is_refused(tmp_path: Path) -> None:
    item = {
        "type": "Feature", "stac_version": "1.0.0", "id": "x", "bbox": [85, 27, 86, 28], "links": [], "geometry": None,
        "properties": {"datetime": "2023-04-05T06:07:08Z", "license": "CC-BY-NC-4.0"}, "assets": {"visual": {"href": "a.tif"}},
    }  # fmt: skip

    def change(document: dict[str, Any]) -> None:
        (tmp_path / "item.json").write_text(json.dumps(item))
        document["sources"][0]["imagery"] = {"stac": {"path": "item.json"}, **OWN}

    workspace = project(tmp_path, change)
    with pytest.raises(InputError, match=r"item 'x' says licence 'CC-BY-NC-4\.0', the configuration 'CC0-1\.0'"):
        collected(workspace)
    item["properties"]["license"] = "CC0-1.0"  # type: ignore[index]
    (tmp_path / "item.json").write_text(json.dumps(item))
    assert {scene.acquired for scene in scenes_of(collected(workspace))} == {"2023-04-05"}


def test_tiles_become_a_source_with_their_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from PIL import Image

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    sink = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 255, (256, 256, 3), dtype=np.uint8)).save(sink, "PNG")
    with serving() as server:
        server.reply_to = lambda path: Reply(sink.getvalue())  # type: ignore[method-assign]

        def change(document: dict[str, Any]) -> None:
            tiles = {"url": server.url + "/{z}/{x}/{y}.png", "zoom": 18}
            lon, lat = lonlat(240, 150)
            place = {"lon": lon, "lat": lat, "size_m": 150}
            document["sources"][0]["imagery"] = {"tiles": tiles, "acquired": "2021-03", "around": place, **OWN}
            document["sources"][0]["scenes"] = {"around_pois": {"categories": ["school"], "size_m": 60, "limit": 2}}

        workspace = project(tmp_path, change)
        workspace.may_fetch = True
        scenes = scenes_of(collected(workspace))

    assert len(scenes) >= 1
    for scene in scenes:
        assert (scene.crs, scene.acquired, scene.how) == ("EPSG:3857", "2021-03", "poi")
        assert scene.frame.gsd_m == pytest.approx(0.597 * 0.8862, rel=2e-3)  # zoom 18 at 27.6°
        assert 60 <= scene.width * scene.frame.gsd_m < 60.6


@pytest.mark.parametrize(
    ("imagery", "message"),
    [
        ({}, "needs exactly one of path, cog, stac and tiles, has none"),
        ({"path": "a.tif", "cog": "https://x.example/a.tif"}, r"has \['path', 'cog'\]"),
        ({"cog": "ftp://x.example/a.tif"}, "String should match pattern"),
        ({"cog": "https://user:key@x.example/a.tif"}, "String should match pattern"),
        ({"tiles": {"url": "https://x.example/{z}/{x}/{y}", "zoom": 3}}, r"tiles need acquired .* and bbox or around"),
        ({"tiles": {"url": "https://x.example/{z}/{x}", "zoom": 3}}, r"url needs \{z\}, \{x\} and either"),
        ({"path": "a.tif", "bbox": [0, 0, 1, 1]}, "bbox is for what is fetched"),
        ({"cog": "https://x.example/a.tif", "bbox": [1, 0, 0, 1]}, "which only tiles can"),
        ({"cog": "https://x.example/a.tif", "bbox": [0, 1, 1, 0]}, r"bbox \[0\.0, 1\.0, 1\.0, 0\.0\] is no box"),
        ({"stac": {}}, "needs either path .* or url"),
    ],
)
def test_what_an_image_is_taken_from_is_checked(tmp_path: Path, imagery: dict[str, Any], message: str) -> None:
    from trigpoint.errors import ConfigError

    with pytest.raises(ConfigError, match=message):
        project(tmp_path, lambda document: document["sources"][0].update(imagery={**imagery, **OWN}))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({}, "needs either path or overpass"),
        ({"overpass": {}}, "overpass without a query needs bbox"),
        ({"overpass": {"query": "node(1);out;"}}, r"query needs the setting \[out:json\]"),
        ({"overpass": {"query": "[out:json];node(1);out;", "categories": ["school"]}}, "query says everything itself"),
        ({"overpass": {"url": "file:///etc/passwd"}, "bbox": [0, 0, 1, 1]}, "String should match pattern"),
    ],
)
def test_where_pois_come_from_is_checked(tmp_path: Path, part: dict[str, Any], message: str) -> None:
    from trigpoint.errors import ConfigError

    with pytest.raises(ConfigError, match=message):
        project(tmp_path, lambda document: document["sources"][0].update(pois=[{**part, **OWN}]))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"categories": ["school"]}, "needs either size_px or size_m"),
        ({"size_px": 5}, "needs categories or quota"),
        ({"size_px": 5, "categories": ["school"], "quota": {"temple": 1}}, r"quota names \['temple'\], which categories do not list"),
    ],
)
def test_what_is_asked_around_pois_is_checked(tmp_path: Path, asked: dict[str, Any], message: str) -> None:
    from trigpoint.errors import ConfigError

    with pytest.raises(ConfigError, match=message):
        around(tmp_path, asked)


CROSSING = ((-2000.0, 250.0), (60.0, 40.0), (9000.0, 40.0))
"""A road over the first of two scenes, above the second; the middle of it is far outside the raster."""


def write_roads(folder: Path, kind: str) -> str:
    """Write the road as a line of a file; return the file's name."""
    places = [lonlat(*place) for place in CROSSING]
    nodes = [{"type": "node", "id": k, "lon": x, "lat": y} for k, (x, y) in enumerate(places, start=1)]
    way = {"type": "way", "id": 7, "nodes": [1, 2, 3], "tags": {"highway": "residential"}}
    name = {"osm": "roads.osm", "overpass": "answer.json", "geojson": "roads.geojson", "gpkg": "roads.gpkg"}[kind]
    if kind == "osm":
        text = "".join(f"<node id='{n['id']}' version='1' lat='{n['lat']:.7f}' lon='{n['lon']:.7f}'/>" for n in nodes)
        refs = "".join(f"<nd ref='{k}'/>" for k in (1, 2, 3))
        (folder / name).write_text(f"<osm version='0.6'>{text}<way id='7' version='1'>{refs}<tag k='highway' v='residential'/></way></osm>")
    elif kind == "overpass":
        (folder / name).write_text(json.dumps({"elements": [*nodes, way]}))
    else:
        frame = geopandas.GeoDataFrame({"highway": ["residential"]}, geometry=[shapely.LineString(places)], crs=4326)
        frame.to_crs(32645 if kind == "gpkg" else 4326).to_file(folder / name)
    return name


@pytest.mark.parametrize("kind", ["osm", "overpass", "geojson", "gpkg"])
def test_a_line_is_a_poi_and_in_every_scene_that_it_crosses_wherever_its_middle_is(tmp_path: Path, kind: str) -> None:
    def change(document: dict[str, Any]) -> None:
        x, y = lonlat(20.0, 40.0)
        box = [x - 1e-4, y - 1e-4, x + 1e-4, y + 1e-4]  # holds a part of the road, not its middle
        document["sources"][0]["pois"] = [{"path": write_roads(tmp_path, kind), "bbox": box, **OWN}]
        document["sources"][0]["scenes"] = {"windows": [[0, 0, 100, 100], [300, 100, 100, 100]]}

    made = collected(project(tmp_path, change))

    pois = made.tables["poi"]
    (row,) = pois.to_pylist()
    line = shapely.from_wkb(row["geometry"])
    assert shapely.get_coordinates(line) == pytest.approx(np.array([lonlat(*place) for place in CROSSING]), abs=1e-6)
    assert line.distance(shapely.Point(row["lon"], row["lat"])) < 1e-9
    found = {scene.window.col_off: categories_in_scene(pois, frame_of(scene), (scene.width, scene.height)) for scene in scenes_of(made)}
    assert found == {0: frozenset({"road"}), 300: frozenset()}


def test_an_area_is_in_a_scene_that_shows_a_corner_of_it(tmp_path: Path) -> None:
    corners = [(90.0, 90.0), (9000.0, 90.0), (9000.0, 9000.0), (90.0, 9000.0), (90.0, 90.0)]
    school = {"type": "Polygon", "coordinates": [[lonlat(*corner) for corner in corners]]}
    feature = {"type": "Feature", "properties": {"building": "school"}, "geometry": school}

    def change(document: dict[str, Any]) -> None:
        (tmp_path / "school.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
        document["sources"][0]["pois"] = [{"path": "school.geojson", **OWN}]
        document["sources"][0]["scenes"] = {"windows": [[0, 0, 100, 100], [0, 0, 80, 80]]}

    made = collected(project(tmp_path, change))

    found = {scene.width: "school" in categories_in_scene(made.tables["poi"], frame_of(scene), (scene.width, scene.height))
             for scene in scenes_of(made)}  # fmt: skip
    assert found == {100: True, 80: False}


def test_a_feature_that_is_nowhere_on_the_earth_is_set_aside_alone(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        frame = geopandas.GeoDataFrame(
            {"id": ["x", "y"], "building": ["school"] * 2}, geometry=[shapely.Point(1e30, 0), shapely.Point(LEFT, TOP)], crs=32645
        )
        frame.to_file(tmp_path / "p.gpkg")
        document["sources"][0]["pois"] = [{"path": "p.gpkg", "id_property": "id", **OWN}]

    made = collected(project(tmp_path, change))

    assert made.tables["poi"].column("poi_id").to_pylist() == ["y"]
    assert [drop.item_id for drop in made.drops if drop.reason_code == "bad_geometry"] == ["x"]
