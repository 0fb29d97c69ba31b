import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from storage.osm import is_overpass, read_osm
from storage.overpass import ask_overpass, query_of
from storage.remote import Manners, Snapshots, Web
from tests.web_server import Reply, Served, serving
from trigpoint.categories import parse_tag_expression
from trigpoint.errors import FetchError

ANSWER = {
    "version": 0.6,
    "osm3s": {"timestamp_osm_base": "2024-05-01T00:00:00Z"},
    "elements": [
        {"type": "way", "id": 7, "nodes": [1, 2, 3, 1], "tags": {"amenity": "school"}},
        {"type": "node", "id": 1, "lat": 50.0, "lon": 8.0},
        {"type": "node", "id": 2, "lat": 50.0, "lon": 8.001},
        {"type": "node", "id": 3, "lat": 50.001, "lon": 8.0},
        {"type": "way", "id": 7, "nodes": [1, 2, 3, 1]},
        {
            "type": "relation",
            "id": 9007199254740993,
            "center": {"lat": 50.5, "lon": 8.5},
            "tags": {"amenity": "school", "type": "multipolygon"},
        },
    ],
}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        yield server


def ask(served: Served, folder: Path, waits: list[float] | None = None) -> Any:
    web = Web(Manners(attempts=3, timeout_s=5.0), sleep=(waits if waits is not None else []).append)
    return ask_overpass(web, Snapshots(folder), served.url + "/api", "[out:json];node(1);out;", 10)


def test_an_answer_is_kept_and_never_asked_for_again(served: Served, tmp_path: Path) -> None:
    served.put("/api", Reply(b"", 429, {"Retry-After": "3"}), Reply(json.dumps(ANSWER).encode()))
    waits: list[float] = []

    first = ask(served, tmp_path, waits)
    served.put("/api", Reply(b"changed", 500))
    second = ask(served, tmp_path)

    assert first == second
    assert first.facts == {"osm_base": "2024-05-01T00:00:00Z"}
    assert waits == [3.0]
    assert [parse_qs(asked.body.decode())["data"] for asked in served.asked] == [["[out:json];node(1);out;"]] * 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            Reply(json.dumps({**ANSWER, "remark": "runtime error: Query timed out"}).encode()),
            "is incomplete: 'runtime error: Query timed out'",
        ),
        (Reply(b"<html>The server is too busy</html>"), "is no Overpass answer"),
        (Reply(b'{"elements": 5}'), "'elements' is no list"),
        (Reply(b"Dispatcher_Client::request_read_and_idx::timeout", 504), "busy"),
    ],
    ids=["remark", "html", "no list", "504"],
)
def test_an_incomplete_answer_is_none_and_not_kept(served: Served, tmp_path: Path, reply: Reply, message: str) -> None:
    served.put("/api", reply)

    with pytest.raises(FetchError, match=message):
        ask(served, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_elements_that_come_twice_keep_their_tags_and_centres_are_points(served: Served, tmp_path: Path) -> None:
    served.put("/api", Reply(json.dumps(ANSWER).encode()))

    found = read_osm(ask(served, tmp_path).path)

    assert [(area.osm_type, area.osm_id, area.tags["amenity"]) for area in found.areas] == [
        ("relation", 9007199254740993, "school"),
        ("way", 7, "school"),
    ]
    assert (found.areas[0].lon, found.areas[0].lat) == (8.5, 50.5)
    assert found.without_geometry == ()


def test_texts_of_a_taxonomy_never_leave_their_quotes() -> None:
    expression = parse_tag_expression('name=a"](1,2,3,4);out;["b|x.*y')

    assert query_of([expression], (0.0, 0.0, 1.0, 1.0), 5).splitlines()[2] == (
        '  nwr["name"~"^(.*; *)?(a\\"\\\\]\\\\(1,2,3,4\\\\);out;\\\\[\\"b|x\\\\.\\\\*y)( *;.*)?$"](0.0,0.0,1.0,1.0);'
    )


def test_a_box_over_the_antimeridian_is_asked_in_halves() -> None:
    lines = query_of([parse_tag_expression("amenity=school")], (179.5, -17.5, -179.5, -16.5), 60, "2024-01-01T00:00:00Z").splitlines()

    assert lines == [
        '[out:json][timeout:60][date:"2024-01-01T00:00:00Z"];',
        "(",
        '  nwr["amenity"~"^(.*; *)?(school)( *;.*)?$"](-17.5,179.5,-16.5,180.0);',
        '  nwr["amenity"~"^(.*; *)?(school)( *;.*)?$"](-17.5,-180.0,-16.5,-179.5);',
        ");",
        "(._;>;);",
        "out body qt;",
    ]


def test_json_is_told_apart_by_its_members(tmp_path: Path) -> None:
    for name, document in (("a", ANSWER), ("b", {"type": "FeatureCollection", "features": []}), ("c", [1])):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))

    assert [is_overpass(tmp_path / f"{name}.json") for name in "abcd"] == [True, False, False, False]
