"""The query stage on whole builds: sentences, paraphrase files, pairs, the schema, and scenes with nothing or much in them."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import geopandas as gpd
import jsonschema
import pytest
import shapely
import yaml
from pyproj import Transformer

from tests.tiny_project import LEFT, PIXEL, TOP, make_project, make_raster
from tests.unit.tasks.test_build import build
from trigpoint.categories import Taxonomy
from trigpoint.errors import InputError, TaxonomyError
from trigpoint.language.parser import SentenceParser
from trigpoint.programs.generate import Candidate
from trigpoint.programs.language import Cat
from trigpoint.release.reader import Release


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = make_project(tmp_path_factory.mktemp("query"))
    assert build(config).findings == []
    return config


def test_every_query_has_three_sentences_that_mean_it_and_a_program_of_the_schema(built: Path) -> None:
    release = Release.open(built.parent / "release")
    assert release.taxonomy is not None
    parser = SentenceParser(release.taxonomy)
    own = json.loads(files("trigpoint.programs").joinpath("program.v1.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(own)

    assert json.loads((release.folder / "schemas" / "program.v1.schema.json").read_text(encoding="utf-8")) == own
    assert release.queries
    for query in release.queries:
        assert len(set(query.sentences)) == 3
        assert [parser.parse(text).canonical() for text in query.sentences] == [query.canonical] * 3
        assert validator.is_valid(query.program)


@pytest.mark.parametrize(
    "program",
    [
        {"op": "cat"},
        {"op": "attr", "of": {"op": "cat", "category": "pond"}, "key": "area", "extreme": "least"},
        {"op": "rel", "of": {"op": "cat", "category": "pond"}, "relation": "within_025m", "anchor": {"op": "cat", "category": "road"}},
        {"op": "and", "args": [{"op": "cat", "category": "pond"}]},
        {"op": "cat", "category": "pond", "note": "x"},
    ],
)
def test_the_schema_refuses_what_the_parser_refuses(program: dict[str, Any]) -> None:
    own = json.loads(files("trigpoint.programs").joinpath("program.v1.schema.json").read_text(encoding="utf-8"))

    assert not jsonschema.Draft202012Validator(own).is_valid(program)


def test_counterfactual_pairs_and_the_certificate_are_in_the_release(built: Path) -> None:
    release = Release.open(built.parent / "release")
    by_id = {query.query_id: query for query in release.queries}
    halves = [query for query in release.queries if query.counterfactual_of is not None]

    assert halves
    assert release.manifest["counts"]["counterfactual_pairs"] == len(halves) // 2
    for query in halves:
        other = by_id[str(query.counterfactual_of)]
        assert other.counterfactual_of == query.query_id
        assert other.answer_ids != query.answer_ids
        assert query.answerable or other.answerable
    certificate = release.manifest["certificate"]
    assert certificate["jitters"] == 3
    assert certificate["levels"]["3"]["answers"] == 3 * certificate["levels"]["3"]["programs"]


def test_paraphrases_are_taken_only_when_they_mean_their_query(tmp_path: Path, built: Path) -> None:
    queries = Release.open(built.parent / "release").queries
    one = next(q for q in queries if q.level == 3 and " that are " in q.sentences[0])
    other = next(q for q in queries if q.query_id != one.query_id and q.scene_id == one.scene_id)
    right = one.sentences[0].replace(" that are ", " which are ")
    lines = [
        {"query_id": one.query_id, "sentence": right},
        {"query_id": one.query_id, "sentence": other.sentences[0]},
        {"query_id": one.query_id, "sentence": one.sentences[1]},
        {"query_id": "q-0000000000000000", "sentence": right},
    ]
    config = make_project(
        tmp_path, query={"per_scene": {1: 2, 2: 3, 3: 6, 4: 4, 5: 3}, "certificate_jitters": 3, "paraphrases": ["said.jsonl"]}
    )
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    report = build(config)

    release = Release.open(tmp_path / "release")
    assert report.findings == []
    assert {q.query_id: q.sentences for q in release.queries}[one.query_id] == (*one.sentences, right)
    drops = release.manifest["counts"]["drops"]
    assert {name: n for name, n in drops.items() if "paraphrase" in name} == {
        "query.paraphrase_means_something_else": 1,
        "query.paraphrase_known": 1,
        "query.paraphrase_of_no_query": 1,
    }


def test_a_taxonomy_whose_sentences_mean_two_things_is_refused() -> None:
    from tasks.query import _say  # pyright: ignore[reportPrivateUsage]

    house = {"id": "house", "axis": "kind", "noun": "house", "plural": "houses"}
    shed = {"id": "shed", "axis": "kind", "noun": "house with a tin roof", "plural": "houses with a tin roof"}
    tin = {"id": "tin", "axis": "roof", "phrase": "with a tin roof"}
    axes = [{"id": "kind"}, {"id": "roof"}]
    taxonomy = Taxonomy.model_validate({"name": "sheds", "version": 1, "axes": axes, "categories": [house, shed, tin]})
    candidate = Candidate("q-1", "s-1", 1, Cat("shed"), "answerable", ("i-1",), ("shed",), (), (), 1, "easy")

    with pytest.raises(TaxonomyError, match=r"'sheds': 'all houses with a tin roof' can mean .*; change a noun"):
        _say(candidate, taxonomy, SentenceParser(taxonomy))


def test_a_paraphrase_file_that_is_not_utf_8_or_not_there_is_named(tmp_path: Path) -> None:
    from tasks.query import _lines_of  # pyright: ignore[reportPrivateUsage]

    (tmp_path / "said.jsonl").write_bytes('{"sentence": "früh"}'.encode("latin-1"))

    with pytest.raises(InputError, match=r"said\.jsonl: is not UTF-8 at byte 16; convert it to UTF-8"):
        _lines_of(tmp_path / "said.jsonl")
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read"):
        _lines_of(tmp_path / "none.jsonl")
    (tmp_path / "said.jsonl").write_text('{"sentence": "a\u2028b"}\r\n', encoding="utf-8")
    assert [line.strip() for line in _lines_of(tmp_path / "said.jsonl")] == ['{"sentence": "a\u2028b"}', ""]


def test_a_line_that_is_no_paraphrase_is_named_with_its_place(tmp_path: Path) -> None:
    from tasks.query import _paraphrase  # pyright: ignore[reportPrivateUsage]

    with pytest.raises(InputError, match=r"said\.jsonl:4: .* query_id and sentence"):
        _paraphrase(tmp_path / "said.jsonl", 4, '{"query": 1}')


def test_a_scene_with_nothing_and_a_scene_with_three_hundred_of_one_kind_do_not_stop_the_others(tmp_path: Path) -> None:
    """One source without any footprint, one with 300 houses on a grid, beside the usual ones."""
    config = make_project(tmp_path)
    left = LEFT + 20_000
    make_raster(tmp_path / "empty.tif", LEFT + 10_000, TOP, 3)
    make_raster(tmp_path / "crowd.tif", left, TOP, 4)
    to_lonlat = Transformer.from_crs(32645, 4326, always_xy=True)
    houses: list[Any] = []
    for row in range(15):
        for col in range(20):
            x, y, side = 4 + 23 * col + (row % 3), 4 + 19 * row + (col % 2), 9 + (7 * row + 3 * col) % 5
            box = shapely.box(left + x * PIXEL, TOP - (y + side) * PIXEL, left + (x + side) * PIXEL, TOP - y * PIXEL)
            houses.append(shapely.transform(box, lambda points: list(zip(*to_lonlat.transform(points[:, 0], points[:, 1]), strict=True))))
    crowd = gpd.GeoDataFrame({"osm_id": range(300), "building": ["yes"] * 300}, geometry=houses, crs=4326)
    crowd.to_file(tmp_path / "crowd.geojson", driver="GeoJSON")
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    own = {"licence": "CC0-1.0", "attribution": "made for the tests"}
    settings["sources"] += [
        {"name": "empty", "imagery": {**own, "path": "empty.tif"}, "scenes": {"windows": [[0, 0, 200, 200]]}},
        {
            "name": "crowd",
            "imagery": {**own, "path": "crowd.tif"},
            "footprints": [{"path": "crowd.geojson", "id_property": "osm_id", "id_prefix": "osm/way/", **own}],
            "scenes": {"windows": [[0, 0, 480, 300]]},
        },
    ]
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")

    report = build(config)

    release = Release.open(tmp_path / "release")
    scene_of = {row["source"]: row["scene_id"] for row in release.scenes.drop_columns(["geometry"]).to_pylist()}
    n_queries = {source: sum(q.scene_id == scene for q in release.queries) for source, scene in scene_of.items()}
    assert report.findings == []
    assert report.state == "done"
    assert n_queries["empty"] == 0
    assert n_queries["a"] > 0
    assert n_queries["crowd"] >= 1
