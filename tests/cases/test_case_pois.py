"""Public bug reports about points of interest, as tests: each names the reports and holds the exact right values."""

import csv
import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import geopandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
import yaml
from pyproj import Transformer

from storage.artefacts import ArtefactStore
from storage.catalogue import Catalogue
from storage.osm import read_osm
from storage.vectors import read_features
from tasks.collect import read_pois
from tasks.workspace import Workspace
from tests.tiny_project import make_project
from trigpoint.errors import OsmError, VectorError
from trigpoint.identity import digest_bytes
from trigpoint.records.stage import ItemResult
from trigpoint.spreadsheets import csv_text_guarded


def write_geojson(path: Path, features: list[tuple[tuple[float, float], dict[str, Any]]], **members: Any) -> Path:
    document = {
        "type": "FeatureCollection",
        "features": [
            {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": list(position)}}
            for position, properties in features
        ],
        **members,
    }
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return path


def test_p01_first_position_is_longitude_whatever_the_crs_member_says(tmp_path: Path) -> None:
    """pyproj4/pyproj#510, OSGeo/gdal#1974: x and y swapped when a GeoJSON says EPSG:4326."""
    urn = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::4326"}}
    geojson = write_geojson(tmp_path / "poi.geojson", [((7.4386, 46.9511), {"name": "Kiosk"})], crs=urn)
    package = tmp_path / "poi.gpkg"
    geopandas.GeoDataFrame({"name": ["Kiosk"]}, geometry=[shapely.Point(7.4386, 46.9511)], crs=4326).to_file(package)

    for table in (read_features(geojson), read_features(package)):
        point = table.geometries[0]
        east, north = Transformer.from_crs(table.crs, 2056, always_xy=True).transform(point.x, point.y)

        assert (point.x, point.y) == (7.4386, 46.9511)
        assert (round(east, 2), round(north, 2)) == (2599997.53, 1200001.92)
        assert table.properties == [{"name": "Kiosk"}]


BIG_IDS = [4294967297, 540000000000001, 9007199254740993]


def test_p03_ids_stay_exact_in_every_store(tmp_path: Path) -> None:
    """drolbr/Overpass-API#304, #465: OSM ids beyond 32 bits wrap, beyond 53 bits round."""
    nodes = "".join(f"<node id='{i}' version='1' lat='50.0' lon='8.0'><tag k='amenity' v='cafe'/></node>" for i in BIG_IDS)
    (tmp_path / "big.osm").write_text(f"<osm version='0.6'>{nodes}</osm>")
    elements = [{"type": "node", "id": i, "lat": 50.0, "lon": 8.0, "tags": {"amenity": "cafe"}} for i in BIG_IDS]
    (tmp_path / "overpass.json").write_text(json.dumps({"version": 0.6, "elements": elements}))
    write_geojson(tmp_path / "big.geojson", [((8.0, 50.0), {"osm_id": i}) for i in BIG_IDS])
    (tmp_path / "big.csv").write_text("id,lon,lat\n" + "".join(f"{i},8,50\n" for i in BIG_IDS))

    found = [feature.osm_id for feature in read_osm(tmp_path / "big.osm").nodes]
    assert found == [feature.osm_id for feature in read_osm(tmp_path / "overpass.json").nodes] == BIG_IDS
    assert [row["osm_id"] for row in read_features(tmp_path / "big.geojson").properties] == BIG_IDS
    assert read_features(tmp_path / "big.csv").ids == [str(i) for i in BIG_IDS]

    key = digest_bytes(b"key")
    table = pa.table({"item_key": [key] * 3, "poi_id": [f"osm/node/{i}" for i in found], "osm_id": pa.array(found, pa.int64())})
    store = ArtefactStore(tmp_path / "store")
    assert store.get_table(store.put_table(table)).column("osm_id").to_pylist() == BIG_IDS
    catalogue = Catalogue(tmp_path / "cat.duckdb")
    catalogue.start_run("r", "build", key, "{}", {})
    result = ItemResult(stage="collect", item_id="osm", item_key=key, status="done", content_sha256=key)
    catalogue.record_results("r", "collect", [result], {"poi": table}, [])
    assert [row[0] for row in catalogue.select("SELECT osm_id FROM poi ORDER BY osm_id").rows] == BIG_IDS
    rows = list(csv.reader(io.StringIO(csv_text_guarded(["osm_id"], [[i] for i in found]))))
    assert [row[0] for row in rows[1:]] == [str(i) for i in BIG_IDS]


def test_p04_building_with_a_courtyard_is_one_building_with_a_hole(tmp_path: Path) -> None:
    """gboeing/osmnx#223: the tagged outer way and its relation counted as two, the hole filled."""
    to_lonlat = Transformer.from_crs(32633, 4326, always_xy=True)
    nodes: list[str] = []
    for first, x, y, width, height in ((101, 500000, 5500000, 100, 60), (111, 500030, 5500020, 40, 20)):
        for k, (dx, dy) in enumerate([(0, 0), (width, 0), (width, height), (0, height)]):
            lon, lat = to_lonlat.transform(x + dx, y + dy)
            nodes.append(f"<node id='{first + k}' version='1' lat='{lat:.7f}' lon='{lon:.7f}'/>")
    refs = {way: "".join(f"<nd ref='{n}'/>" for n in (a, a + 1, a + 2, a + 3, a)) for way, a in ((201, 101), (202, 111))}
    (tmp_path / "courtyard.osm").write_text(
        "<osm version='0.6'>" + "".join(nodes) + f"<way id='201' version='1'>{refs[201]}<tag k='building' v='yes'/></way>"
        f"<way id='202' version='1'>{refs[202]}</way><relation id='301' version='1'>"
        "<member type='way' ref='201' role='outer'/><member type='way' ref='202' role='inner'/>"
        "<tag k='type' v='multipolygon'/><tag k='building' v='yes'/><tag k='name' v='Hof'/></relation></osm>"
    )

    found = read_osm(tmp_path / "courtyard.osm")

    assert [(area.osm_type, area.osm_id, area.tags["name"]) for area in found.areas] == [("relation", 301, "Hof")]
    assert found.covered == ((201, 301),)
    geometry = shapely.from_wkb(found.areas[0].wkb)
    to_utm = Transformer.from_crs(4326, 32633, always_xy=True)
    assert shapely.transform(geometry, to_utm.transform, interleaved=False).area == pytest.approx(5200, abs=4)
    assert geometry.contains(shapely.Point(found.areas[0].lon, found.areas[0].lat))


@pytest.mark.parametrize(
    ("name", "text", "remark"),
    [
        (
            "overpass.json",
            '{"elements": [{"type": "node", "id": 1, "lat": 50.0, "lon": 8.0, "tags": {"amenity": "school"}}], '
            '"remark": "runtime error: query stopped at line 3, time limit reached"}',
            "query stopped at line 3, time limit reached",
        ),
        (
            "overpass.xml",
            "<?xml version='1.0'?><osm version='0.6'><node id='1' lat='50' lon='8'/>"
            "<remark>runtime error: query stopped, out of memory</remark></osm>",
            "query stopped, out of memory",
        ),
    ],
)
def test_p07_answer_with_a_remark_is_incomplete_and_no_answer(tmp_path: Path, name: str, text: str, remark: str) -> None:
    """DinoTools/python-overpy#62: a server's timeout read as 'nothing there'."""
    (tmp_path / name).write_text(text)

    with pytest.raises(OsmError, match=f"is incomplete: 'runtime error: {remark}'"):
        read_osm(tmp_path / name)


def test_p09_absent_crs_is_crs84_and_null_crs_is_unknown(tmp_path: Path) -> None:
    """geoparquet/geoparquet-io#471, geopython/pygeoapi#2030: an absent CRS and a null CRS mixed up."""
    base = tmp_path / "base.parquet"
    geopandas.GeoDataFrame({"name": ["a"]}, geometry=[shapely.Point(8, 50)], crs=4326).to_parquet(base)
    table = pq.read_table(base)
    for kind in ("absent", "null"):
        geo = json.loads(table.schema.metadata[b"geo"])
        del geo["columns"]["geometry"]["crs"]
        if kind == "null":
            geo["columns"]["geometry"]["crs"] = None
        pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo).encode()}), tmp_path / f"crs_{kind}.parquet")

    absent = read_features(tmp_path / "crs_absent.parquet")

    assert (absent.crs, absent.geometries[0].x, absent.geometries[0].y) == ("OGC:CRS84", 8.0, 50.0)
    with pytest.raises(VectorError, match=r"crs_null\.parquet': the CRS of column 'geometry' is null"):
        read_features(tmp_path / "crs_null.parquet")


def test_p11_box_with_west_beyond_east_crosses_the_antimeridian(tmp_path: Path) -> None:
    """stac-utils/stac-pydantic#122, #211: a bbox with west > east refused, or read as a belt round the globe."""
    places = [(179.9, -17.0, "a"), (-179.9, -17.0, "b"), (179.6, -16.6, "c"), (0.0, -17.0, "d"), (178.0, -17.0, "e")]
    path = write_geojson(tmp_path / "poi.geojson", [((x, y), {"name": name, "building": "school"}) for x, y, name in places])
    box = [179.5, -17.5, -179.5, -16.5]
    own = {"licence": "CC0-1.0", "attribution": "made for the tests"}
    config = make_project(tmp_path / "project")
    document = yaml.safe_load(config.read_text())
    document["sources"][0]["pois"] = [{"path": str(path), "bbox": box, **own}]
    config.write_text(yaml.safe_dump(document))
    part = Workspace(config).config.sources[0].pois[0]

    found = read_pois(part, path, "a", Workspace(config), [])

    assert sorted(str(poi.name) for poi in found) == ["a", "b", "c"]
    assert part.bbox == tuple(box)


NAMES = [
    '=HYPERLINK("http://x.invalid","a")',
    "+49 30 1",
    "-5 Bar",
    "@home",
    "\tTab",
    "../../outside",
    "C:\\temp\\x",
    "a/b\\c:d*?",
    "CON",
    "🏥 клиника 診療所",
    "\u202egnp.exe",
    unicodedata.normalize("NFC", "Café Zoë"),
    unicodedata.normalize("NFD", "Café Zoë"),
    "line1\nline2",
    "'; DROP TABLE poi; --",
    "",
    "x" * 3000,
]


def test_p10_names_stay_byte_exact_and_csv_cells_are_guarded(tmp_path: Path) -> None:
    """hhurz/tableExport.jquery.plugin#230, HumanSignal/label-studio#7294: names break CSV, paths and encodings."""
    path = write_geojson(tmp_path / "names.geojson", [((8 + k * 0.001, 50), {"poi_id": k, "name": x}) for k, x in enumerate(NAMES)])

    found = [row["name"] for row in read_features(path).properties]
    cells = [row[1] for row in csv.reader(io.StringIO(csv_text_guarded(["id", "name"], enumerate(found)), newline=""))][1:]

    assert found == NAMES
    assert [k for k, cell in enumerate(cells) if cell != NAMES[k]] == [0, 1, 2, 3, 4]
    assert [cells[k] for k in range(5)] == ["'" + NAMES[k] for k in range(5)]
    assert found[11] != found[12]
    assert unicodedata.normalize("NFC", found[11]) == unicodedata.normalize("NFC", found[12])

    key = digest_bytes(b"key")
    table = pa.table({"item_key": [key] * len(found), "poi_id": [f"f/{k:02d}" for k in range(len(found))], "name": found})
    store = ArtefactStore(tmp_path / "store")
    assert store.get_table(store.put_table(table)).column("name").to_pylist() == NAMES
    catalogue = Catalogue(tmp_path / "cat.duckdb")
    catalogue.start_run("r", "build", key, "{}", {})
    result = ItemResult(stage="collect", item_id="f", item_key=key, status="done", content_sha256=key)
    catalogue.record_results("r", "collect", [result], {"poi": table}, [])
    assert [row[0] for row in catalogue.select("SELECT name FROM poi ORDER BY poi_id").rows] == NAMES
    assert sorted(child.name for child in tmp_path.iterdir()) == ["cat.duckdb", "names.geojson", "store"]
