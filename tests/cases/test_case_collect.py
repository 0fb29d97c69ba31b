"""Public bug reports that concern a whole source, as tests: from the file to POIs, scenes and reasons.

The functions that read are held in test_case_pois.py and test_case_rasters.py; here it is what becomes of an item.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import yaml
from numpy.typing import NDArray
from pyproj import Transformer
from rasterio.enums import ColorInterp

from tasks import collect
from tasks.steps import Made
from tasks.workspace import Workspace
from tests.tiny_project import make_project
from trigpoint.records.scene import Scene

OWN = {"licence": "CC0-1.0", "attribution": "made for the tests"}
UTM = "EPSG:32645"


def write_raster(path: Path, pixels: NDArray[Any], crs: str | None = UTM, **options: Any) -> None:
    colours = options.pop("colours", None)
    count, height, width = pixels.shape
    profile = {"driver": "GTiff", "dtype": pixels.dtype.name, "count": count, "height": height, "width": width, "crs": crs}
    with rasterio.open(path, "w", transform=rasterio.Affine(1, 0, 354000, 0, -1, 3057000), **profile, **options) as target:
        if colours:
            target.colorinterp = colours
        target.write(pixels)


def write_schools(path: Path, names: dict[str, tuple[float, float]]) -> None:
    to_lonlat = Transformer.from_crs(UTM, 4326, always_xy=True)
    features = [
        {
            "type": "Feature",
            "properties": {"name": name, "building": "school"},
            "geometry": {"type": "Point", "coordinates": to_lonlat.transform(354000 + col, 3057000 - row)},
        }
        for name, (col, row) in names.items()
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}, ensure_ascii=False), encoding="utf-8")


def collected(folder: Path, imagery: dict[str, Any], scenes: dict[str, Any]) -> Made:
    """Collect one source made of `raster.tif` and `schools.geojson` in a folder."""
    config = make_project(folder)
    document = yaml.safe_load(config.read_text())
    source = {"name": "a", "imagery": {"path": "raster.tif", **imagery, **OWN}, "pois": [{"path": "schools.geojson", **OWN}]}
    document["sources"] = [{**source, "scenes": scenes}]
    config.write_text(yaml.safe_dump(document))
    workspace = Workspace(config)
    (item,) = collect.plan(workspace, {})
    return collect.make(workspace, item)


def scenes_of(made: Made) -> list[Scene]:
    return [Scene.model_validate_json(text) for text in made.tables["scene_record"].column("record").to_pylist()]


def test_r06_the_crs_of_the_configuration_is_recorded_in_every_scene(tmp_path: Path) -> None:
    """opengeos/segment-geospatial#12: a missing CRS fails late, deep inside."""
    write_raster(tmp_path / "raster.tif", np.ones((1, 50, 50), "uint8"), crs=None)
    write_schools(tmp_path / "schools.geojson", {})

    (scene,) = scenes_of(collected(tmp_path, {"crs": UTM}, {"windows": [[0, 0, 50, 50]]}))

    assert (scene.crs, scene.crs_overridden) == (UTM, True)


def test_r10_a_poi_in_the_collar_is_dropped_with_its_reason(tmp_path: Path) -> None:
    """manaakiwhenua/raster2dggs#105: an alpha collar taken as dark ground."""
    inside = np.zeros((50, 50), bool)
    inside[5:45, 5:45] = True
    pixels = np.where(inside, np.uint8(120), np.uint8(0)) * np.ones((4, 1, 1), np.uint8)
    pixels[3] = inside * np.uint8(255)
    names = [ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.alpha]
    write_raster(tmp_path / "raster.tif", pixels, photometric="RGB", colours=names)
    write_schools(tmp_path / "schools.geojson", {"in the collar": (2, 2), "inside": (25, 25)})

    made = collected(tmp_path, {}, {"around_pois": {"categories": ["school"], "size_px": 20, "limit": 5}})

    poi_of = {row["poi_id"]: row["name"] for row in made.tables["poi"].to_pylist()}
    assert [poi_of[str(scene.poi_id)] for scene in scenes_of(made)] == ["inside"]
    drop, short = made.drops
    assert (short.reason_code, short.n) == ("limit_not_reached", 4)
    assert (drop.reason_code, poi_of[drop.item_id]) == ("poi_on_invalid_pixel", "in the collar")
    assert drop.detail == "lies on an invalid pixel (column 2, row 2)"


def test_r12_scenes_in_missing_tiles_are_quarantined_and_the_others_go_on(tmp_path: Path) -> None:
    """rasterio/rasterio#1334: a truncated TIFF opens, later tiles fail."""
    noise = np.random.default_rng(1).integers(1, 255, (1, 512, 512), dtype="uint8")
    write_raster(tmp_path / "whole.tif", noise, tiled=True, blockxsize=128, blockysize=128, compress="deflate")
    data = (tmp_path / "whole.tif").read_bytes()
    (tmp_path / "raster.tif").write_bytes(data[: int(len(data) * 0.6)])
    write_schools(tmp_path / "schools.geojson", {})

    made = collected(tmp_path, {}, {"windows": [[0, 0, 64, 64], [448, 448, 64, 64], [64, 0, 64, 64]]})

    assert sorted(scene.window.as_tuple() for scene in scenes_of(made)) == [(0, 0, 64, 64), (64, 0, 64, 64)]
    (drop,) = made.drops
    assert (drop.reason_code, drop.is_quarantined) == ("unreadable", True)
    assert "raster.tif', window (448, 448, 64, 64)" in drop.detail
    assert drop.remedy == "mend the file, then `trigpoint retry`"


@pytest.mark.parametrize("name", ["../../outside", "C:\\temp\\x", "CON", "a/b\\c:d*?", "\u202egnp.exe", "line1\nline2", "", "x" * 3000])
def test_p10_a_name_makes_no_path_and_stays_as_it_is(tmp_path: Path, name: str) -> None:
    """hhurz/tableExport.jquery.plugin#230: names break paths."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_raster(folder / "raster.tif", np.full((1, 50, 50), 9, "uint8"))
    write_schools(folder / "schools.geojson", {name: (25, 25)})

    made = collected(folder, {}, {"around_pois": {"categories": ["school"], "size_px": 20}})

    (row,) = made.tables["poi"].to_pylist()
    assert (row["name"] or "", json.loads(row["tags"])["name"]) == (name, name)
    assert len(scenes_of(made)) == 1
    assert list(tmp_path.iterdir()) == [folder]
    written = [path.relative_to(folder) for path in (folder / "work").rglob("*")]
    assert written and all(path.as_posix().isascii() and "outside" not in path.name and len(path.name) < 100 for path in written)
