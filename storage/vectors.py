"""Vector files in: GeoJSON, GeoPackage (FlatGeobuf, Shapefile), GeoParquet and CSV.

Geometries stay in the file's CRS; coordinates are x, y with longitude first, whatever a file's `crs` member or an authority
says of axis order. Ids and texts stay exact. A feature without a usable geometry is set aside with a reason, it does not stop
the file. Not here: OpenStreetMap files (`storage.osm`), what a feature means (tasks, taxonomy).
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from storage.crs import LON_LAT, crs_text, parse_crs
from trigpoint.errors import VectorError

MAX_TEXT_BYTES = 2 << 30
"""Largest GeoJSON or CSV file that is read, bytes: they are held in memory whole."""

_LON_NAMES, _LAT_NAMES = ("lon", "longitude", "lng"), ("lat", "latitude")
_X_NAMES, _Y_NAMES = ("x", "easting"), ("y", "northing")
_WKT_NAMES = ("wkt", "geometry", "geom", "the_geom")
_OGR_MAGIC = {".gpkg": b"SQLite format 3\0", ".fgb": b"fgb", ".shp": b"\0\0\x27\x0a"}
_LON_LAT_CODES = ("EPSG::4326", "EPSG:4326", "CRS84")


class SetAside(NamedTuple):
    """A feature that cannot be used, and why.

    Attributes:
        position: Its place in the file, from 0.
        feature_id: Its id, as text.
        reason_code: `no_geometry` or `bad_geometry`.
        detail: What was found.
    """

    position: int
    feature_id: str
    reason_code: str
    detail: str


class FeatureTable(NamedTuple):
    """Features of one layer of one file; the i-th entries of the three lists belong together.

    Attributes:
        geometries: shapely geometries in `crs`, x first (longitude first); none is empty or has a NaN.
        properties: As found: texts byte for byte, whole numbers exact.
        ids: The file's own ids (GeoJSON `id`, GeoPackage fid, column `id`), exact, else places in the file from 0.
        crs: Authority code or WKT.
        crs_overridden: The CRS is the configuration's.
        layer: Name of the layer; the file's stem where there is but one.
        set_aside: Features without a usable geometry.
    """

    geometries: NDArray[np.object_]
    properties: list[dict[str, Any]]
    ids: list[int | str]
    crs: str
    crs_overridden: bool
    layer: str
    set_aside: tuple[SetAside, ...]


class _Raw(NamedTuple):
    geometries: list[Any]
    properties: list[dict[str, Any]]
    ids: list[int | str]
    crs: str | None
    layer: str
    no_crs: str = "the file has no CRS"


def read_features(path: str | Path, layer: str | None = None, crs_override: str | None = None) -> FeatureTable:
    """Read the features of a vector file, told by its extension.

    `.geojson` and `.json` (RFC 7946; an older `crs` member is believed, but positions are x, y always), `.gpkg`, `.fgb`, `.shp`,
    `.parquet` and `.geoparquet` (an absent `crs` means OGC:CRS84, a null one means unknown), `.csv` (columns lon and lat, or x
    and y, or WKT; UTF-8).

    Args:
        path: A local file.
        layer: Layer of a file that holds several.
        crs_override: The configuration's key `crs` of this source; used instead of the file's, and recorded.

    Raises:
        VectorError: the file is missing, of another kind or broken; its CRS is unknown; the layer is not in it.
    """
    path = Path(path)
    name = repr(str(path))
    if not path.is_file():
        raise VectorError(f"vector file {name} is not there or no file; check the path in the configuration")
    raw = _reader_of(path)(path, name, layer)
    if layer is not None and layer != raw.layer:
        raise VectorError(f"vector file {name} has no layer {layer!r}, found ['{raw.layer}']; leave the key 'layer' out")
    if crs_override is not None:
        crs = crs_text(parse_crs(crs_override, f"key 'crs' for vector file {name}", VectorError))
        overridden = raw.crs != crs
    elif raw.crs is None:
        raise VectorError(
            f"vector file {name}: {raw.no_crs}; set the key 'crs' of this source in the configuration, for example 'EPSG:4326'"
        )
    else:
        parsed = parse_crs(raw.crs, f"crs of vector file {name}", VectorError)
        crs, overridden = LON_LAT if raw.crs == LON_LAT else crs_text(parsed), False
    return _sorted_out(raw, crs, overridden)


def _reader_of(path: Path) -> Callable[[Path, str, str | None], _Raw]:
    suffix = path.suffix.lower()
    if suffix in (".geojson", ".json"):
        return _read_geojson
    if suffix in _OGR_MAGIC:
        return _read_ogr
    if suffix in (".parquet", ".geoparquet"):
        return _read_parquet
    if suffix == ".csv":
        return _read_csv
    raise VectorError(
        f"vector file {str(path)!r} has the extension {suffix!r}, expected .geojson, .json, .gpkg, .fgb, .shp, .parquet, .geoparquet or "
        ".csv; convert it"
    )


def _sorted_out(raw: _Raw, crs: str, overridden: bool) -> FeatureTable:
    """Set aside what has no usable geometry."""
    kept: list[int] = []
    aside: list[SetAside] = []
    for index, geometry in enumerate(raw.geometries):
        reason = _fault_of(geometry)
        if reason is None:
            kept.append(index)
        else:
            aside.append(SetAside(index, str(raw.ids[index]), *reason))
    geometries = np.empty(len(kept), dtype=object)
    geometries[:] = [raw.geometries[index] for index in kept]
    return FeatureTable(
        geometries=geometries,
        properties=[raw.properties[index] for index in kept],
        ids=[raw.ids[index] for index in kept],
        crs=crs,
        crs_overridden=overridden,
        layer=raw.layer,
        set_aside=tuple(aside),
    )


def _fault_of(geometry: Any) -> tuple[str, str] | None:
    if geometry is None:
        return ("no_geometry", "the feature has none")
    if isinstance(geometry, Exception):
        return ("bad_geometry", str(geometry) or type(geometry).__name__)
    if shapely.is_empty(geometry):
        return ("no_geometry", f"{geometry.geom_type} without a coordinate")
    if not np.isfinite(shapely.get_coordinates(geometry)).all():
        return ("bad_geometry", "a coordinate is NaN or infinite")
    return None


def _read_text(path: Path, name: str) -> str:
    size = path.stat().st_size
    if size > MAX_TEXT_BYTES:
        raise VectorError(
            f"vector file {name} has {size} bytes, at most {MAX_TEXT_BYTES} are read as text; convert it to GeoPackage or GeoParquet"
        )
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise VectorError(f"vector file {name} is not UTF-8 at byte {error.start}; convert it to UTF-8") from error


def _read_geojson(path: Path, name: str, layer: str | None) -> _Raw:
    try:
        document = json.loads(_read_text(path, name))
    except (ValueError, RecursionError) as error:
        raise VectorError(f"vector file {name} is no JSON: {error}; the file is damaged or cut short: copy it again") from error
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "FeatureCollection" and isinstance(document.get("features"), list):
        features = document["features"]
    elif kind == "Feature":
        features = [document]
    else:
        raise VectorError(f"vector file {name} is no GeoJSON: expected a 'FeatureCollection' or 'Feature', found type {kind!r}; convert it")
    geometries: list[Any] = []
    properties: list[dict[str, Any]] = []
    ids: list[int | str] = []
    for index, feature in enumerate(features):
        found = feature if isinstance(feature, dict) else {}
        geometries.append(_geometry_of_json(found.get("geometry")))
        values = found.get("properties")
        properties.append(values if isinstance(values, dict) else {})
        own = found.get("id")
        ids.append(own if isinstance(own, int | str) and not isinstance(own, bool) else index)
    crs, no_crs = _crs_of_geojson(document)
    return _Raw(geometries, properties, ids, crs, path.stem, no_crs)


def _geometry_of_json(value: Any) -> Any:
    if value is None:
        return None
    try:
        return shapely.from_geojson(json.dumps(value))
    except (shapely.errors.GEOSException, ValueError, TypeError) as error:
        return error


def _crs_of_geojson(document: dict[str, Any]) -> tuple[str | None, str]:
    """Return the CRS of an older `crs` member; every name of WGS 84 means longitude first."""
    if "crs" not in document:
        return LON_LAT, ""
    member = document["crs"]
    if member is None:
        return None, "its member 'crs' is null, which means unknown"
    properties = member.get("properties") if isinstance(member, dict) else None
    code = properties.get("name") if isinstance(properties, dict) else None
    if not isinstance(code, str):
        return None, f"its member 'crs' names no CRS ({json.dumps(member)[:80]})"
    return (LON_LAT if code.endswith(_LON_LAT_CODES) else code), ""


def _ogr_layers(path: Path, name: str) -> list[str]:
    import pyogrio
    from pyogrio.errors import DataSourceError

    magic = _OGR_MAGIC[path.suffix.lower()]
    try:
        with path.open("rb") as file:
            head = file.read(len(magic))
    except OSError as error:
        raise VectorError(f"vector file {name} cannot be read: {error.strerror}; check the path in the configuration") from error
    if head != magic:
        raise VectorError(f"vector file {name} is no {path.suffix} file: expected it to begin with {magic!r}, found {head!r}; convert it")
    try:
        return [str(layer) for layer, geometry in pyogrio.list_layers(path.resolve()) if geometry is not None]
    except DataSourceError as error:
        raise VectorError(f"vector file {name} cannot be opened: {error}; the file is damaged or of another kind: copy it again") from error


def _read_ogr(path: Path, name: str, layer: str | None) -> _Raw:
    import pyogrio
    from pyogrio.errors import DataLayerError, DataSourceError, FeatureError

    layers = _ogr_layers(path, name)
    if layer is None and len(layers) != 1:
        raise VectorError(
            f"vector file {name} has {len(layers)} layers with geometries: {layers}, expected one; set the key 'layer' of this source"
        )
    if layer is not None and layer not in layers:
        raise VectorError(f"vector file {name} has no layer {layer!r} with geometries, found {layers}; set the key 'layer' to one of them")
    chosen = layers[0] if layer is None else layer
    try:
        meta, table = pyogrio.read_arrow(path.resolve(), layer=chosen, return_fids=True)
    except (DataSourceError, DataLayerError, FeatureError) as error:
        raise VectorError(f"vector file {name}, layer {chosen!r} cannot be read: {error}; copy it again") from error
    fid_column, geometry_column = meta["fid_column"] or "OGC_FID", meta["geometry_name"] or "wkb_geometry"
    rows = table.drop_columns([fid_column, geometry_column])
    return _Raw(
        _geometries_of_wkb(table.column(geometry_column).to_pylist()),
        [_plain(row) for row in rows.to_pylist()],
        table.column(fid_column).to_pylist(),
        meta["crs"],
        chosen,
        f"layer {chosen!r} has no CRS",
    )


def tags_of(properties: dict[str, Any]) -> dict[str, str]:
    """Turn properties into tags, as taxonomies test them: struct columns (Overture places) become dotted keys, lists are joined by ';'.

    The covering `bbox` of GeoParquet is no tag. A list of structs stays JSON text. Nulls are left out, True and False are
    `true` and `false`.

    >>> tags_of({"names": {"primary": "A", "common": None}, "categories": {"primary": "cafe", "alternate": ["a", "b"]}, "n": 5})
    {'names.primary': 'A', 'categories.primary': 'cafe', 'categories.alternate': 'a;b', 'n': '5'}
    """
    tags: dict[str, str] = {}
    for key, value in properties.items():
        if value is None or (key == "bbox" and isinstance(value, dict)):
            continue
        tags.update(
            {f"{key}.{name}": text for name, text in tags_of(value).items()} if isinstance(value, dict) else {key: _tag_text(value)}
        )
    return tags


def _tag_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        if all(isinstance(each, str | int | float) for each in value):
            return ";".join(_tag_text(each) for each in value)
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return str(value)


def _geometries_of_wkb(values: Iterable[bytes | None]) -> list[Any]:
    geometries: list[Any] = []
    for value in values:
        try:
            geometries.append(None if value is None else shapely.from_wkb(value))
        except (shapely.errors.GEOSException, TypeError) as error:
            geometries.append(error)
    return geometries


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Turn times of day into ISO text, so that properties are plain JSON values (bytes as hex)."""
    return {key: _plain_value(value) for key, value in row.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _plain(value)
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) for each in value)
        return _plain(dict(value)) if is_map else [_plain_value(each) for each in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else value


def _read_parquet(path: Path, name: str, layer: str | None) -> _Raw:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        raise VectorError(f"vector file {name} is no Parquet file: {error}; the file is damaged or cut short: copy it again") from error
    text = (table.schema.metadata or {}).get(b"geo")
    if text is None:
        raise VectorError(
            f"vector file {name} is Parquet without 'geo' metadata, found columns {table.column_names}; write it as GeoParquet"
        )
    try:
        geo = json.loads(text)
        column = geo["primary_column"]
        about = geo["columns"][column]
        encoding = about["encoding"]
    except (ValueError, KeyError, TypeError) as error:
        raise VectorError(f"vector file {name} has broken 'geo' metadata ({error!r}); write it as GeoParquet again") from error
    if encoding != "WKB" or column not in table.column_names:
        raise VectorError(
            f"vector file {name}: geometry column {column!r} has encoding {encoding!r}, expected a column in 'WKB'; write it so"
        )
    crs, no_crs = _crs_of_parquet(about, column, name)
    rows = [_plain(row) for row in table.drop_columns([column]).to_pylist()]
    ids: list[int | str] = [_id_of(row, index) for index, row in enumerate(rows)]
    values = table.column(column).cast(pa.binary()).to_pylist()
    return _Raw(_geometries_of_wkb(values), rows, ids, crs, path.stem, no_crs)


def _crs_of_parquet(about: dict[str, Any], column: str, name: str) -> tuple[str | None, str]:
    if "crs" not in about:
        return LON_LAT, ""
    if about["crs"] is None:
        return None, f"the CRS of column {column!r} is null, which means unknown"
    try:
        return crs_text(CRS.from_user_input(about["crs"])), ""
    except ValueError as error:
        raise VectorError(f"vector file {name}: the CRS of column {column!r} cannot be read ({error}); write it again") from error


def _id_of(row: dict[str, Any], index: int) -> int | str:
    for key in ("id", "fid"):
        value = row.get(key)
        if isinstance(value, int | str) and not isinstance(value, bool) and value != "":
            return value
    return index


def _read_csv(path: Path, name: str, layer: str | None) -> _Raw:
    text = _read_text(path, name)
    limit = csv.field_size_limit(max(len(text), 1 << 17))
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise VectorError(f"vector file {name} is no CSV: {error}; quote fields with '\"' and separate them by commas") from error
    finally:
        csv.field_size_limit(limit)
    while rows and not any(rows[0]):
        del rows[0]
    if not rows:
        raise VectorError(f"vector file {name} is empty, expected a header line such as 'id,name,lon,lat'; check the file")
    header = rows[0]
    twice = sorted({column for column in header if column and header.count(column) > 1})
    if twice:
        raise VectorError(f"vector file {name} has the columns {twice} more than once, expected each once; rename or remove one")
    crs, geometry_of = _geometry_columns(header, name)
    geometries: list[Any] = []
    properties: list[dict[str, Any]] = []
    ids: list[int | str] = []
    for index, row in enumerate(row for row in rows[1:] if row):
        values = dict(zip(header, row, strict=False))
        properties.append(values)
        ids.append(_id_of(values, index))
        if len(row) == len(header):
            geometries.append(geometry_of(values))
        else:
            geometries.append(ValueError(f"the row has {len(row)} fields, the header {len(header)}"))
    return _Raw(geometries, properties, ids, crs, path.stem, "x, y or WKT in a CSV say no CRS")


def _geometry_columns(header: list[str], name: str) -> tuple[str | None, Callable[[dict[str, str]], Any]]:
    by_lower = {column.strip().lower(): column for column in reversed(header)}

    def first(names: tuple[str, ...]) -> Iterator[str]:
        return (by_lower[each] for each in names if each in by_lower)

    for crs, x_names, y_names in ((LON_LAT, _LON_NAMES, _LAT_NAMES), (None, _X_NAMES, _Y_NAMES)):
        x_column, y_column = next(first(x_names), None), next(first(y_names), None)
        if x_column is not None and y_column is not None:
            return crs, lambda row, x=x_column, y=y_column: _point_of_text(row[x], row[y])
    wkt_column = next(first(_WKT_NAMES), None)
    if wkt_column is not None:
        return None, lambda row: _geometry_of_wkt(row[wkt_column])
    remedy = "rename the columns" if len(header) > 1 else "separate the fields by commas"
    raise VectorError(f"vector file {name} has no columns 'lon' and 'lat', 'x' and 'y', or 'wkt', found {header}; {remedy}")


def _point_of_text(x: str, y: str) -> Any:
    if not x.strip() and not y.strip():
        return None
    try:
        return shapely.Point(float(x), float(y))
    except ValueError as error:
        return error


def _geometry_of_wkt(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return shapely.from_wkt(text)
    except shapely.errors.GEOSException as error:
        return error
