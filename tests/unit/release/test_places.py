"""Where a release says that its scenes are: STAC items and GeoParquet metadata, also over the antimeridian."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from tasks.collect import scene_row
from trigpoint.geometry.frames import fit_frame, transformer
from trigpoint.records.scene import Scene, Transform, Window
from trigpoint.records.tables import SCENE_SCHEMA
from trigpoint.release.content import ReleaseContent
from trigpoint.release.stac import write_stac
from trigpoint.release.writer import write_geoparquet


def scenes_at(*centres: tuple[float, float]) -> pa.Table:
    """Scenes of 200 × 100 pixels of 1 m in UTM 60 S around places."""
    rows: list[dict[str, Any]] = []
    for k, centre in enumerate(centres):
        x, y = transformer("OGC:CRS84", "EPSG:32760").transform(*centre)
        transform: Transform = (1.0, 0.0, x - 100.0, 0.0, -1.0, y + 50.0)
        scene = Scene(
            scene_id=f"s-{k}", source="a", source_sha256="0" * 64, window=Window(col_off=0, row_off=0, width=200, height=100),
            crs="EPSG:32760", transform=transform, frame=fit_frame("EPSG:32760", transform, 200, 100), valid_share=1.0,
            shorter_side_m=100.0, licence="CC0-1.0", attribution="made for the tests", how="grid", phash=("0" * 16,) * 8, grey_sd=1.0,
        )  # fmt: skip
        rows.append(scene_row(scene))
    return pa.Table.from_pylist(rows, schema=SCENE_SCHEMA)


def items(folder: Path, scenes: pa.Table) -> list[list[float]]:
    content = cast(ReleaseContent, SimpleNamespace(identity={"name": "r", "description": ""}, scenes=scenes))
    write_stac(folder, content)
    return [json.loads(path.read_text())["bbox"] for path in sorted((folder / "stac").glob("s-*.json"))]


def geo_bbox(folder: Path, table: pa.Table) -> list[float]:
    write_geoparquet(folder / "t.parquet", table)
    return json.loads(pq.read_schema(folder / "t.parquet").metadata[b"geo"])["columns"]["geometry"]["bbox"]


def test_boxes_of_a_scene_over_the_antimeridian_have_their_west_beyond_their_east(tmp_path: Path) -> None:
    scenes = scenes_at((180.0, -17.0))

    (box,) = items(tmp_path, scenes)

    west, south, east, north = box
    assert 179.999 < west < 179.9993 and -179.9993 < east < -179.999  # 100 m are 0.00094° there
    assert (south, north) == pytest.approx((-17.00045, -16.99955), abs=5e-5)
    assert geo_bbox(tmp_path, scenes) == box


def test_boxes_of_other_scenes_are_their_bounds(tmp_path: Path) -> None:
    scenes = scenes_at((177.0, -17.0), (178.0, -18.0))

    first, second = (list(shapely.from_wkb(wkb).bounds) for wkb in scenes.column("geometry").to_pylist())
    assert items(tmp_path, scenes) == [first, second]
    assert geo_bbox(tmp_path, scenes) == [first[0], second[1], second[2], first[3]]


def test_scenes_on_both_sides_of_the_antimeridian_have_one_narrow_box(tmp_path: Path) -> None:
    west, _, east, _ = geo_bbox(tmp_path, scenes_at((179.5, -17.0), (-179.5, -17.0)))

    assert (west, east) == pytest.approx((179.5, -179.5), abs=2e-3)


def test_a_table_without_rows_has_no_box(tmp_path: Path) -> None:
    write_geoparquet(tmp_path / "t.parquet", SCENE_SCHEMA.empty_table())

    assert "bbox" not in json.loads(pq.read_schema(tmp_path / "t.parquet").metadata[b"geo"])["columns"]["geometry"]
