import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import osmium
import pytest
import shapely

from storage.osm import read_osm
from trigpoint.errors import OsmError

SQUARE = "".join(
    f"<node id='{i}' version='1' lat='{lat}' lon='{lon}'/>"
    for i, (lon, lat) in enumerate([(8.0, 50.0), (8.002, 50.0), (8.002, 50.001), (8.0, 50.001)], start=1)
)
CLOSED = "<nd ref='1'/><nd ref='2'/><nd ref='3'/><nd ref='4'/><nd ref='1'/>"


def osm(body: str) -> str:
    return f"<?xml version='1.0' encoding='UTF-8'?>\n<osm version='0.6'>{body}</osm>\n"


def tags(**pairs: str) -> str:
    return "".join(f"<tag k='{k}' v='{v}'/>" for k, v in pairs.items())


def way(way_id: int, refs: str = CLOSED, **pairs: str) -> str:
    return f"<way id='{way_id}' version='1'>{refs}{tags(**pairs)}</way>"


def relation(relation_id: int, members: dict[int, str], **pairs: str) -> str:
    inner = "".join(f"<member type='way' ref='{ref}' role='{role}'/>" for ref, role in members.items())
    return f"<relation id='{relation_id}' version='1'>{inner}{tags(**pairs)}</relation>"


def write(tmp_path: Path, body: str, name: str = "a.osm") -> Path:
    path = tmp_path / name
    path.write_text(osm(body), encoding="utf-8")
    return path


def test_tagged_nodes_areas_and_lines_are_read_and_untagged_ones_left_out(tmp_path: Path) -> None:
    cafe = "<node id='9' version='1' lat='50.5' lon='8.5'><tag k='name' v='Café &amp; Bar'/><tag k='amenity' v='cafe'/></node>"
    street = way(21, "<nd ref='1'/><nd ref='2'/>", highway="residential")
    path = write(tmp_path, SQUARE + cafe + way(20, building="yes") + street + way(22))

    found = read_osm(path)

    assert [(n.osm_type, n.osm_id, n.lon, n.lat, n.tags) for n in found.nodes] == [
        ("node", 9, 8.5, 50.5, {"amenity": "cafe", "name": "Café & Bar"})
    ]
    assert [(a.osm_type, a.osm_id, a.tags) for a in found.areas] == [("way", 20, {"building": "yes"})]
    assert (found.areas[0].lon, found.areas[0].lat) == pytest.approx((8.001, 50.0005))
    assert shapely.from_wkb(found.areas[0].wkb).area == pytest.approx(0.002 * 0.001)
    assert [(line.osm_id, line.lon, line.lat) for line in found.lines] == [(21, pytest.approx(8.001), 50.0)]
    assert read_osm(path, lambda tags: "amenity" in tags)._replace(nodes=()) == ((), (), (), (), ())


@pytest.mark.parametrize("name", ["a.osm.bz2", "a.osm.gz", "a.osm.pbf", "a.xml"])
def test_other_containers_give_the_same_features(tmp_path: Path, name: str) -> None:
    plain = write(tmp_path, SQUARE + way(20, building="yes"))
    other = tmp_path / name
    if name.endswith(".pbf"):
        with osmium.SimpleWriter(str(other)) as writer:
            for element in osmium.FileProcessor(str(plain)):
                writer.add(element)
    else:
        pack = {".bz2": bz2.compress, ".gz": gzip.compress}.get(other.suffix, bytes)
        other.write_bytes(pack(plain.read_bytes()))

    assert read_osm(other) == read_osm(plain)


@pytest.mark.parametrize(
    ("outer", "multipolygon", "expected"),
    [
        ({"building": "yes", "height": "10"}, {"building": "yes", "name": "A"}, ["relation/301"]),
        ({"building": "yes", "name": "B"}, {"building": "yes", "name": "A"}, ["relation/301"]),
        ({"landuse": "forest", "source": "x"}, {"natural": "water", "source": "x"}, ["relation/301", "way/201"]),
        ({"barrier": "fence"}, {"leisure": "park"}, ["relation/301", "way/201"]),
    ],
    ids=["same thing", "other name", "same source only", "fence of a park"],
)
def test_outer_way_is_left_out_only_when_it_says_what_its_relation_says(
    tmp_path: Path, outer: dict[str, str], multipolygon: dict[str, str], expected: list[str]
) -> None:
    path = write(tmp_path, SQUARE + way(201, **outer) + relation(301, {201: "outer"}, type="multipolygon", **multipolygon))

    assert [f"{area.osm_type}/{area.osm_id}" for area in read_osm(path).areas] == expected


def test_outer_way_of_a_broken_relation_is_kept(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        SQUARE + way(201, building="yes") + relation(301, {201: "outer", 999: "inner"}, type="multipolygon", building="yes"),
    )

    found = read_osm(path)

    assert [(area.osm_type, area.osm_id) for area in found.areas] == [("way", 201)]
    assert found.without_geometry == (("relation", 301),)


def test_element_with_missing_nodes_is_listed_and_the_file_goes_on(tmp_path: Path) -> None:
    gone = "<nd ref='1'/><nd ref='77'/><nd ref='78'/><nd ref='1'/>"
    path = write(
        tmp_path, SQUARE + way(20, building="yes") + way(30, gone, building="yes") + way(31, "<nd ref='1'/><nd ref='77'/>", highway="path")
    )

    found = read_osm(path)

    assert [area.osm_id for area in found.areas] == [20]
    assert found.without_geometry == (("way", 30), ("way", 31))


def test_closed_way_that_is_no_area_is_no_area(tmp_path: Path) -> None:
    found = read_osm(write(tmp_path, SQUARE + way(20, highway="pedestrian", area="no")))

    assert found.areas == ()
    assert [shapely.from_wkb(line.wkb).geom_type for line in found.lines] == ["LineString"]


def test_relation_of_another_type_is_listed_as_without_geometry(tmp_path: Path) -> None:
    path = write(tmp_path, SQUARE + way(20) + relation(30, {20: ""}, type="site", power="plant"))

    assert read_osm(path).without_geometry == (("relation", 30),)
    assert read_osm(path, lambda tags: "building" in tags).without_geometry == ()


def test_line_over_the_antimeridian_is_split_there_and_its_middle_lies_on_it(tmp_path: Path) -> None:
    nodes = "".join(f"<node id='{i}' version='1' lat='-17' lon='{lon}'/>" for i, lon in ((1, 179.99), (2, -179.97)))

    (line,) = read_osm(write(tmp_path, nodes + way(20, "<nd ref='1'/><nd ref='2'/>", man_made="pier"))).lines

    assert shapely.from_wkb(line.wkb).equals(shapely.from_wkt("MULTILINESTRING ((179.99 -17, 180 -17), (-180 -17, -179.97 -17))"))
    assert (line.lon, line.lat) == (pytest.approx(-179.985), -17.0)


def test_doctype_is_refused_before_any_entity_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.osm"
    levels = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 9))
    path.write_text(
        f'<?xml version="1.0"?><!-- {"x" * 3_000_000} --><!DOCTYPE osm [<!ENTITY e0 "x">{levels}]>'
        '<osm version="0.6"><node id="1" lat="1" lon="1"><tag k="name" v="&e8;"/></node></osm>'
    )

    with pytest.raises(OsmError, match=r"bomb\.osm' has a DOCTYPE"):
        read_osm(path)


def test_doctype_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.osm"
    path.write_bytes("<!DOCTYPE osm []><osm version='0.6'/>".encode("utf-16"))

    with pytest.raises(OsmError, match="not in UTF-8"):
        read_osm(path)


def test_text_of_a_doctype_in_a_tag_is_no_doctype(tmp_path: Path) -> None:
    node = "<node id='9' version='1' lat='50.5' lon='8.5'><tag k='name' v='&lt;!DOCTYPE&gt; &lt;remark&gt;'/></node>"

    assert read_osm(write(tmp_path, node)).nodes[0].tags == {"name": "<!DOCTYPE> <remark>"}


@pytest.mark.parametrize("name", ["a.osm", "a.osm.bz2", "a.osm.gz", "a.osm.pbf"])
def test_file_cut_short_is_named(tmp_path: Path, name: str) -> None:
    plain = write(tmp_path, SQUARE + "".join(way(i, building="yes") for i in range(20, 400)), "plain.osm")
    path = tmp_path / name
    if name.endswith(".pbf"):
        with osmium.SimpleWriter(str(path)) as writer:
            for element in osmium.FileProcessor(str(plain)):
                writer.add(element)
        data = path.read_bytes()
    else:
        data = {".bz2": bz2.compress, ".gz": gzip.compress}.get(path.suffix, bytes)(plain.read_bytes())
    path.write_bytes(data[: len(data) // 2])

    with pytest.raises(OsmError, match=rf"{name}' cannot be read.*copy it again"):
        read_osm(path)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.osm", b"", "is empty"),
        ("a.osm.pbf", b"junk" * 100, "cannot be read"),
        ("a.osm.bz2", b"junk" * 100, "cannot be read"),
        ("a.json", b'{"elements"', "is no Overpass answer"),
        ("a.json", b'{"elements": [{"type": "node", "id": "x"}]}', "broken element"),
        ("a.txt", b"osm", "has another extension"),
    ],
)
def test_broken_files_are_refused_by_name(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(OsmError, match=message) as caught:
        read_osm(tmp_path / name)
    assert name in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OsmError, match=r"none\.osm' is not there"):
        read_osm(tmp_path / "none.osm")


def test_overpass_answer_gives_areas_and_exact_texts(tmp_path: Path) -> None:
    corners = [(8.0, 50.0), (8.002, 50.0), (8.002, 50.001), (8.0, 50.001)]
    nodes = [{"type": "node", "id": i, "lon": lon, "lat": lat} for i, (lon, lat) in enumerate(corners, start=1)]
    name = "a\nb\t\"c\" 'd' <e> & é"
    building = {"type": "way", "id": 20, "nodes": [1, 2, 3, 4, 1], "tags": {"building": "yes", "name": name}}
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({"elements": [building, *nodes]}))

    areas = read_osm(path).areas

    assert [(area.osm_id, area.tags["name"]) for area in areas] == [(20, name)]


def test_file_without_anything_tagged_is_empty_not_wrong(tmp_path: Path) -> None:
    assert read_osm(write(tmp_path, SQUARE)) == ((), (), (), (), ())


RING = [{"lat": lat, "lon": lon} for lon, lat in [(8.0, 50.0), (8.002, 50.0), (8.002, 50.001), (8.0, 50.001), (8.0, 50.0)]]


def overpass(tmp_path: Path, *elements: dict[str, Any]) -> Path:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({"elements": elements}))
    return path


@pytest.mark.parametrize("nodes", [{}, {"nodes": [1, 2, 3, 4, 1]}], ids=["out tags geom", "out geom"])
def test_overpass_answer_with_places_instead_of_nodes_has_its_areas(tmp_path: Path, nodes: dict[str, Any]) -> None:
    building = {"type": "way", "id": 20, **nodes, "geometry": RING, "tags": {"building": "yes"}}
    pier = {"type": "way", "id": 21, "geometry": RING[:2], "tags": {"man_made": "pier"}}

    found = read_osm(overpass(tmp_path, building, pier))

    assert [area.osm_id for area in found.areas] == [20]
    assert shapely.from_wkb(found.areas[0].wkb).area == pytest.approx(0.002 * 0.001)
    assert [line.osm_id for line in found.lines] == [21]
    assert (found.nodes, found.without_geometry) == ((), ())


def test_overpass_relation_with_places_of_its_members_is_assembled(tmp_path: Path) -> None:
    hole = [{"lat": lat, "lon": lon} for lon, lat in [(8.0005, 50.0002), (8.001, 50.0002), (8.001, 50.0005), (8.0005, 50.0002)]]
    members = [(1, "outer", RING[:3]), (2, "outer", RING[2:]), (3, "inner", hole)]
    listed = [{"type": "way", "ref": ref, "role": role, "geometry": places} for ref, role, places in members]

    (area,) = read_osm(
        overpass(tmp_path, {"type": "relation", "id": 9, "members": listed, "tags": {"type": "multipolygon", "building": "yes"}})
    ).areas

    assert (area.osm_type, area.osm_id) == ("relation", 9)
    assert shapely.from_wkb(area.wkb).area == pytest.approx(0.002 * 0.001 - 0.0005 * 0.0003 / 2)


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"nodes": [1, 2, 3, 4, 1]},
        {"geometry": [RING[0], None, *RING[2:]]},
        {"nodes": [1, 2, 3, 4, 1], "geometry": [RING[0], None, *RING[2:]]},
    ],
    ids=["tags alone", "nodes alone", "places cut off", "nodes and places cut off"],
)
def test_overpass_way_whose_places_are_not_all_there_is_listed(tmp_path: Path, way: dict[str, Any]) -> None:
    found = read_osm(overpass(tmp_path, {"type": "way", "id": 20, **way, "tags": {"building": "yes"}}))

    assert (found.areas, found.without_geometry) == ((), (("way", 20),))
