import json
from pathlib import Path
from typing import Any

import geopandas
import pandas
import pyarrow.parquet as pq
import pytest
import shapely

from storage.vectors import read_features
from trigpoint.errors import VectorError

POINT = {"type": "Point", "coordinates": [3.0, 4.0]}


def geojson(tmp_path: Path, features: list[Any], **members: Any) -> Path:
    path = tmp_path / "a.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **members}), encoding="utf-8")
    return path


def feature(geometry: Any = POINT, **members: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": geometry, "properties": {"name": "a"}, **members}


def frame(**options: Any) -> geopandas.GeoDataFrame:
    return geopandas.GeoDataFrame({"name": ["a", "b"]}, geometry=[shapely.Point(1, 2), shapely.Point(3, 4)], **options)


def test_geojson_keeps_ids_properties_and_polygons(tmp_path: Path) -> None:
    ring = [[0, 0], [2, 0], [2, 1], [0, 0]]
    path = geojson(
        tmp_path, [feature(id=2**53 + 1), feature({"type": "Polygon", "coordinates": [ring]}, id="way/5", properties=None), feature()]
    )

    table = read_features(path)

    assert table.ids == [2**53 + 1, "way/5", 2]
    assert table.properties == [{"name": "a"}, {}, {"name": "a"}]
    assert table.geometries[1].area == 1.0
    assert (table.crs, table.crs_overridden, table.layer, table.set_aside) == ("OGC:CRS84", False, "a", ())


def test_features_without_usable_geometry_are_set_aside_with_a_reason(tmp_path: Path) -> None:
    broken = {"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}
    empty = {"type": "Point", "coordinates": []}
    path = geojson(tmp_path, [feature(None), feature(broken), feature(empty), feature({"type": "Nothing"}), feature(id=9)])

    table = read_features(path)

    assert table.ids == [9]
    assert [(each.position, each.reason_code) for each in table.set_aside] == [
        (0, "no_geometry"),
        (1, "bad_geometry"),
        (2, "no_geometry"),
        (3, "bad_geometry"),
    ]


def test_coordinates_that_are_no_numbers_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,lon,lat\n1,nan,2\n2,east,2\n3,,\n4,7,8\n5,7\n")

    table = read_features(path)

    assert table.ids == ["4"]
    assert [each.reason_code for each in table.set_aside] == ["bad_geometry", "bad_geometry", "no_geometry", "bad_geometry"]


def test_projected_crs_member_of_an_older_geojson_is_believed(tmp_path: Path) -> None:
    member = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32616"}}

    assert read_features(geojson(tmp_path, [feature()], crs=member)).crs == "EPSG:32616"


@pytest.mark.parametrize("member", [None, {"type": "link"}, {"type": "name", "properties": {"name": 7}}], ids=["null", "link", "number"])
def test_unknown_crs_of_a_geojson_is_an_error_with_the_key_to_set(tmp_path: Path, member: Any) -> None:
    path = geojson(tmp_path, [feature()], crs=member)

    with pytest.raises(VectorError, match=r"a\.geojson'.*member 'crs'.*set the key 'crs'"):
        read_features(path)
    table = read_features(path, crs_override="EPSG:2056")
    assert (table.crs, table.crs_overridden) == ("EPSG:2056", True)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.geojson", b'{"type": "FeatureColl', "is no JSON"),
        ("a.geojson", b'{"type": "Topology"}', "found type 'Topology'"),
        ("a.geojson", b"[" * 100_000, "is no JSON"),
        ("a.geojson", b'{"a": "\xff"}', "is not UTF-8 at byte 7"),
        ("a.gpkg", b"no database", "is no .gpkg file"),
        ("a.parquet", b"PAR1", "is no Parquet file"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"id,name\n1,x\n", "has no columns 'lon' and 'lat'"),
        ("a.csv", b"id;lon;lat\n1;8;50\n", "separate the fields by commas"),
        ("a.csv", b"id,lon,lat,lon\n1,8,50,9\n", r"has the columns \['lon'\] more than once"),
        ("a.csv", b"x,y\n1,2\n", "set the key 'crs'"),
        ("a.csv", b'lon,lat\n"1,2\n', "is no CSV"),
        ("a.kml", b"<kml/>", "has the extension '.kml'"),
    ],
)
def test_broken_files_are_refused_by_name(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(VectorError, match=message) as caught:
        read_features(tmp_path / name)
    assert name in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(VectorError, match=r"none\.gpkg' is not there"):
        read_features(tmp_path / "none.gpkg")


def test_layers_are_listed_when_the_wanted_one_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "two.gpkg"
    frame(crs=32633).to_file(path, layer="roads")
    frame(crs=32633).to_file(path, layer="houses")

    assert read_features(path, layer="houses").layer == "houses"
    for layer in (None, "trees"):
        with pytest.raises(VectorError, match=r"roads.*houses|houses.*roads"):
            read_features(path, layer=layer)
    with pytest.raises(VectorError, match=r"has no layer 'x', found \['a'\]"):
        read_features(geojson(tmp_path, [feature()]), layer="x")


def test_geopackage_keeps_whole_numbers_beside_nulls_and_says_its_crs(tmp_path: Path) -> None:
    table = frame(crs=32633)
    table["big"] = pandas.array([2**53 + 1, None], dtype="Int64")
    table["seen"] = pandas.to_datetime(["2024-05-01T10:00:00", None])
    table.to_file(tmp_path / "a.gpkg")

    found = read_features(tmp_path / "a.gpkg")

    assert found.crs == "EPSG:32633"
    assert [row["big"] for row in found.properties] == [2**53 + 1, None]
    assert str(found.properties[0]["seen"]).startswith("2024-05-01T10:00:00")
    assert found.ids == [1, 2]


def test_geopackage_without_crs_names_the_layer_and_the_key(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="crs"):
        frame().to_file(tmp_path / "a.gpkg", layer="houses")

    with pytest.raises(VectorError, match="layer 'houses' has no CRS; set the key 'crs'"):
        read_features(tmp_path / "a.gpkg")


def test_geoparquet_in_another_crs_is_read_in_it(tmp_path: Path) -> None:
    frame(crs=32633).to_parquet(tmp_path / "a.parquet")

    found = read_features(tmp_path / "a.parquet")

    assert (found.crs, found.geometries[1].x, found.properties[1]) == ("EPSG:32633", 3.0, {"name": "b"})


def test_parquet_without_geo_metadata_is_refused(tmp_path: Path) -> None:
    frame(crs=32633).to_parquet(tmp_path / "a.parquet")
    pq.write_table(pq.read_table(tmp_path / "a.parquet").replace_schema_metadata(None), tmp_path / "b.parquet")

    with pytest.raises(VectorError, match="without 'geo' metadata"):
        read_features(tmp_path / "b.parquet")


def test_crs_of_another_planet_and_no_crs_at_all_are_refused(tmp_path: Path) -> None:
    path = geojson(tmp_path, [feature()])

    with pytest.raises(VectorError, match="is not a CRS of the Earth"):
        read_features(path, crs_override="IAU_2015:49900")
    with pytest.raises(VectorError, match="'EPSG:banana' is no coordinate system"):
        read_features(path, crs_override="EPSG:banana")


def test_csv_with_wkt_needs_a_crs_and_keeps_names_exact(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes('\ufeffid,name,WKT\r\n7,"line1\nline2 ""x""","POLYGON ((0 0, 2 0, 2 1, 0 0))"\r\n'.encode())

    table = read_features(path, crs_override="EPSG:32633")

    assert (table.ids, table.properties[0]["name"], table.geometries[0].area) == (["7"], 'line1\nline2 "x"', 1.0)


def test_blank_lines_before_the_header_of_a_csv_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n,,\nid,lon,lat\n\n7,8,50\n")

    assert read_features(path).ids == ["7"]
