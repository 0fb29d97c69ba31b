"""Records give themselves back from JSON and from table rows."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.collect import poi_row, scene_row
from trigpoint.geometry.frames import fit_frame
from trigpoint.identity import canonical_json, make_id, seeded_generator
from trigpoint.records.scene import Poi, Scene, Window
from trigpoint.records.stage import ArtefactRef, Drop, ItemResult
from trigpoint.records.tables import POI_SCHEMA, SCENE_SCHEMA

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SHA = st.binary(min_size=32, max_size=32).map(bytes.hex)
POIS = st.builds(
    Poi,
    poi_id=TEXT,
    source=TEXT,
    osm_type=st.sampled_from([None, "node", "way"]),
    osm_id=st.none() | st.integers(-(2**62), 2**62),
    lon=st.floats(-180, 180),
    lat=st.floats(-90, 90),
    geometry=st.none() | st.binary(max_size=30),
    name=st.none() | TEXT,
    tags=st.dictionaries(TEXT, TEXT, max_size=4),
    categories=st.lists(TEXT, max_size=3).map(tuple),
)
REFS = st.builds(ArtefactRef, sha256=SHA, n_bytes=st.integers(0, 2**40), suffix=st.sampled_from([".tif", ".parquet"]))
DROPS = st.builds(
    Drop,
    stage=st.just("collect"),
    scope_id=TEXT,
    item_id=TEXT,
    reason_code=st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True),
    detail=TEXT,
    is_quarantined=st.booleans(),
    n=st.integers(0, 9),
)
RESULTS = st.builds(
    ItemResult,
    stage=st.just("graph"),
    item_id=TEXT,
    item_key=SHA,
    status=st.sampled_from(["done", "quarantined"]),
    content_sha256=SHA,
    tables=st.dictionaries(TEXT, REFS, max_size=2),
    files=st.dictionaries(TEXT, REFS, max_size=2),
    drops=st.lists(DROPS, max_size=2).map(tuple),
    n_in=st.integers(0, 99),
)


@given(RESULTS)
def test_results_give_themselves_back_from_json(result: ItemResult) -> None:
    assert ItemResult.model_validate_json(json.dumps(result.to_json())) == result


@given(POIS)
def test_pois_give_themselves_back_from_json(poi: Poi) -> None:
    assert Poi.model_validate_json(json.dumps(poi.to_json())) == poi


@given(st.lists(POIS, max_size=4))
def test_pois_give_themselves_back_from_a_parquet_file(pois: list[Poi]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([poi_row(poi) for poi in pois], schema=POI_SCHEMA), sink)
    rows = pq.read_table(pa.BufferReader(sink.getvalue())).to_pylist()

    assert [Poi.model_validate({**row, "tags": json.loads(row["tags"])}) for row in rows] == pois


def test_a_scene_and_its_row_say_the_same() -> None:
    transform = (0.5, 0.0, 354000.0, 0.0, -0.5, 3057000.0)
    scene = Scene(
        scene_id="s-1",
        source="a",
        source_sha256="0" * 64,
        window=Window(col_off=3, row_off=4, width=30, height=20),
        crs="EPSG:32645",
        transform=transform,
        frame=fit_frame("EPSG:32645", transform, 30, 20),
        valid_share=1.0,
        shorter_side_m=10.0,
        licence="CC0-1.0",
        attribution="us",
        how="grid",
        phash=("0" * 16,) * 8,
        grey_sd=0.0,
    )
    row = pa.Table.from_pylist([scene_row(scene)], schema=SCENE_SCHEMA).to_pylist()[0]

    assert (tuple(row["transform"]), tuple(row["window"])) == (scene.transform, scene.window.as_tuple())
    assert (row["width"], row["height"], row["gsd_m"], row["metric_crs"]) == (30, 20, scene.frame.gsd_m, "EPSG:32645")
    assert Scene.model_validate_json(scene.model_dump_json()) == scene


def test_unknown_fields_and_changes_are_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Window.model_validate({"col_off": 0, "row_off": 0, "width": 1, "height": 1, "depth": 1})
    with pytest.raises(ValidationError, match="frozen"):
        Window(col_off=0, row_off=0, width=1, height=1).width = 2  # type: ignore[misc]


def test_ids_and_generators_depend_on_content_alone() -> None:
    assert canonical_json({"b": [1, None], "a": "ü"}) == '{"a":"ü","b":[1,null]}'
    assert make_id("s", "x", [1, 2]) != make_id("s", "x", [2, 1])
    assert seeded_generator(1, "a").random() == seeded_generator(1, "a").random()
    assert seeded_generator(1, "a").random() != seeded_generator(1, "b").random()
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(float("nan"))
