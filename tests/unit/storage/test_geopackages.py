"""GeoPackages with styles and the list of an export."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import shapely

from storage.geopackages import LIST_TABLE, read_list, read_mask_layers, write_geopackage
from trigpoint.errors import InputError, VectorError
from trigpoint.exchange.geopackage import VectorLayer

ROWS = ({"item_id": "i-1", "scene_id": "s-1", "category": "hut+tin", "seen": ""}, {"item_id": "i-2", "scene_id": "s-1", "category": "hut"})
SHAPES = tuple(shapely.MultiPolygon([shapely.box(x, 0, x + 1, 0.1 + x / 3)]) for x in (412_345, 412_346))
LAYERS = [
    VectorLayer("masks", "EPSG:32633", SHAPES, ROWS),
    VectorLayer("scenes", "EPSG:32633", SHAPES[:1], ({"scene_id": "s-1"},)),
]


def written(path: Path) -> Path:
    write_geopackage(path, LAYERS, {"masks": "<qgis/>"}, {"release": "x"})
    return path


def test_what_is_written_is_read_again_to_the_bit(tmp_path: Path) -> None:
    path = written(tmp_path / "a.gpkg")

    layers, broken = read_mask_layers(path)

    assert broken == []
    assert [(layer.name, layer.crs, layer.ids) for layer in layers] == [("masks", "EPSG:32633", (1, 2))]
    assert [{k: v for k, v in row.items() if v} for row in layers[0].rows] == [{k: v for k, v in row.items() if v} for row in ROWS]
    assert all(shapely.equals_exact(a, b) for a, b in zip(layers[0].geometries, SHAPES, strict=True))
    assert read_list(path) == {"release": "x"}


def test_the_same_export_is_the_same_file(tmp_path: Path) -> None:
    assert written(tmp_path / "a.gpkg").read_bytes() == written(tmp_path / "b.gpkg").read_bytes()


def test_nobodys_file_is_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path / "a.gpkg")
    with pytest.raises(VectorError, match="is there already"):
        written(path)


def test_the_style_belongs_to_the_layer_and_all_tables_are_registered(tmp_path: Path) -> None:
    path = written(tmp_path / "a.gpkg")

    with closing(sqlite3.connect(path)) as database:
        styles = database.execute("SELECT f_table_name, f_geometry_column, styleQML, useAsDefault FROM layer_styles").fetchall()
        tables = {row[0]: row[1] for row in database.execute("SELECT table_name, data_type FROM gpkg_contents")}

    assert styles == [("masks", "geom", "<qgis/>", 1)]
    assert tables == {"masks": "features", "scenes": "features", "layer_styles": "attributes", LIST_TABLE: "attributes"}


def test_empty_layers_keep_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.gpkg"
    write_geopackage(path, [VectorLayer("masks", "EPSG:32633", (), ())], {}, {})

    with closing(sqlite3.connect(path)) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(masks)")]

    assert columns == ["fid", "geom", "category", "item_id", "scene_id", "seen", "separable"]


def test_a_file_without_a_list_and_one_whose_list_is_a_view(tmp_path: Path) -> None:
    path = written(tmp_path / "a.gpkg")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"DROP TABLE {LIST_TABLE}")
        database.execute(
            f"CREATE VIEW {LIST_TABLE} AS WITH RECURSIVE n(list) AS (SELECT 1 UNION ALL SELECT list + 1 FROM n) SELECT list FROM n"
        )

    assert read_list(path) is None  # a view could run for ever


def test_broken_files_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.gpkg")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {LIST_TABLE} SET list = '{{'")
        database.execute("ALTER TABLE masks RENAME TO drawn")
        database.execute("UPDATE gpkg_geometry_columns SET table_name = 'drawn' WHERE table_name = 'masks'")
    with pytest.raises(InputError, match=r"a\.gpkg, table trigpoint_export' is no JSON"):
        read_list(path)
    with pytest.raises(VectorError, match="none is called 'masks'"):
        read_mask_layers(path)
    text = tmp_path / "b.gpkg"
    text.write_bytes(b"no database" * 100)
    for read in (read_list, read_mask_layers):
        with pytest.raises(VectorError, match=r"b\.gpkg' cannot be read"):
            read(text)
    with pytest.raises(VectorError, match="is not there"):
        read_mask_layers(tmp_path / "c.gpkg")
