"""GeoPackages that trigpoint itself writes: layers with their style for QGIS, and the list of the export in a table of its own.

Not here: which layers (`trigpoint.exchange.geopackage`), other people's vector files (`storage.vectors`).
"""

import json
import sqlite3
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import geopandas
import pyogrio
from pyogrio.errors import DataLayerError, DataSourceError

from storage.documents import NamedBytes, parse_json
from storage.vectors import read_features
from trigpoint.errors import VectorError
from trigpoint.exchange.geopackage import MASK_COLUMNS, MASKS, VectorLayer

LIST_TABLE = "trigpoint_export"
"""Table with one row: the list of the export as JSON. A layer that is saved as another file leaves it behind."""

MAX_LIST_BYTES = 256 << 20
"""Largest list that is read."""

MAX_BYTES = 4 << 30
"""Largest GeoPackage that is read."""

GPKG_VERSION = "1.3"
"""Version of the format: programs of 2022 and later know it."""

_WRITTEN_AT = "2000-01-01T00:00:00.000Z"
"""A GeoPackage must say when it was written; ours are the same bytes whenever they are written, and say a day of no meaning."""

_STYLES = """CREATE TABLE layer_styles (
  id INTEGER PRIMARY KEY AUTOINCREMENT, f_table_catalog TEXT(256), f_table_schema TEXT(256), f_table_name TEXT(256),
  f_geometry_column TEXT(256), styleName TEXT(30), styleQML TEXT, styleSLD TEXT, useAsDefault BOOLEAN, description TEXT, owner TEXT(30),
  ui TEXT(30), update_time DATETIME DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')))"""


def write_geopackage(path: Path, layers: Iterable[VectorLayer], styles: Mapping[str, str], export: dict[str, Any]) -> None:
    """Write layers of MultiPolygons, the styles of some of them (QML, by layer) and the list of the export.

    Raises:
        VectorError: the file is there already, or cannot be written.
    """
    if path.exists():
        raise VectorError(f"GeoPackage {str(path)!r} is there already; choose another folder, what is in it may be somebody's work")
    before = pyogrio.get_gdal_config_option("OGR_CURRENT_DATE")
    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": _WRITTEN_AT})
    try:
        for layer in layers:
            columns = sorted({key for row in layer.rows for key in row}) or list(MASK_COLUMNS)
            values: dict[str, Any] = {column: [row.get(column) for row in layer.rows] for column in columns}
            geometries: Any = list(layer.geometries)
            table = geopandas.GeoDataFrame(values, geometry=geometries, crs=layer.crs)
            table = table.astype(dict.fromkeys(columns, "str"))
            how: dict[str, Any] = {"driver": "GPKG", "geometry_type": "MultiPolygon", "append": path.exists(), "VERSION": GPKG_VERSION}
            pyogrio.write_dataframe(table, path, layer=layer.name, **how)
    except (DataSourceError, DataLayerError, OSError) as error:
        raise VectorError(f"GeoPackage {str(path)!r} cannot be written: {error}; check the folder") from error
    finally:
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": before})
    with closing(sqlite3.connect(path)) as database, database:
        _add_styles(database, styles)
        database.execute(f"CREATE TABLE {LIST_TABLE} (id INTEGER PRIMARY KEY AUTOINCREMENT, list TEXT NOT NULL)")
        database.execute(f"INSERT INTO {LIST_TABLE} (list) VALUES (?)", [json.dumps(export, sort_keys=True, separators=(",", ":"))])
        _register(database, LIST_TABLE, "What was exported: do not edit")


def _add_styles(database: sqlite3.Connection, styles: Mapping[str, str]) -> None:
    database.execute(_STYLES)
    _register(database, "layer_styles", "Styles of QGIS")
    for layer, qml in sorted(styles.items()):
        database.execute(
            "INSERT INTO layer_styles (f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, styleQML, styleSLD, "
            "useAsDefault, description, owner, update_time) SELECT '', '', table_name, column_name, 'masks', ?, '', 1, '', '', ? "
            "FROM gpkg_geometry_columns WHERE table_name = ?",
            [qml, _WRITTEN_AT, layer],
        )


def _register(database: sqlite3.Connection, table: str, description: str) -> None:
    """Make a table known: programs see only those that gpkg_contents names."""
    database.execute(
        "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, last_change, srs_id) "
        "VALUES (?, 'attributes', ?, ?, ?, 0)",
        [table, table, description, _WRITTEN_AT],
    )


def read_mask_layers(path: Path) -> tuple[list[VectorLayer], list[str]]:
    """Read the layers of masks of a GeoPackage; where none is called so, the only layer.

    Returns:
        The layers, and a line per feature whose geometry cannot be read.

    Raises:
        VectorError: the file is missing, too large or broken, or has several layers of which none is called masks.
    """
    if not path.is_file():
        raise VectorError(f"GeoPackage {str(path)!r} is not there; check its name")
    if path.stat().st_size > MAX_BYTES:
        raise VectorError(f"GeoPackage {str(path)!r} has {path.stat().st_size} bytes, at most {MAX_BYTES} are read; export fewer scenes")
    with _reading(path) as database:
        names = [str(row[0]) for row in database.execute("SELECT table_name FROM gpkg_geometry_columns ORDER BY table_name")]
    chosen = [name for name in names if name == MASKS or name.startswith(f"{MASKS}_")] or (names if len(names) == 1 else [])
    if not chosen:
        raise VectorError(f"GeoPackage {str(path)!r} has the layers {names}, none is called {MASKS!r}; rename the one that holds the masks")
    layers: list[VectorLayer] = []
    broken: list[str] = []
    for name in chosen:
        table = read_features(path, layer=name)
        layers.append(VectorLayer(name, table.crs, tuple(table.geometries), tuple(table.properties), tuple(table.ids)))
        broken += [f"layer {name!r}, feature {aside.feature_id}: {aside.detail}" for aside in table.set_aside]
    return layers, broken


def read_list(path: Path) -> Any:
    """Return the list of the export that a GeoPackage holds, as JSON; None when it has none.

    Raises:
        VectorError: it is too large.
        InputError: it is no JSON.
    """
    with _reading(path) as database:
        is_there = database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [LIST_TABLE]).fetchone()
        if is_there is None:
            return None
        size = database.execute(f"SELECT max(length(list)) FROM {LIST_TABLE}").fetchone()[0] or 0
        if size > MAX_LIST_BYTES:
            raise VectorError(
                f"GeoPackage {str(path)!r}: its table {LIST_TABLE} has a list of {size} bytes, expected at most {MAX_LIST_BYTES}; delete it"
            )
        row = database.execute(f"SELECT list FROM {LIST_TABLE} LIMIT 1").fetchone()
    if row is None:
        return None
    return parse_json(NamedBytes(f"{path.name}, table {LIST_TABLE}", str(row[0]).encode()))


@contextmanager
def _reading(path: Path) -> Generator[sqlite3.Connection]:
    """Open the tables of a GeoPackage read only, without trusting what its schema would run."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            yield database
    except sqlite3.Error as error:
        raise VectorError(f"GeoPackage {str(path)!r} cannot be read: {error}; close it in QGIS, or copy it again") from error
