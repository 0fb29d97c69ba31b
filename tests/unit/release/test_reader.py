import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.toy_release import QUERIES, RECTANGLES, SIZES, toy_mask, write_toy_release
from trigpoint.errors import InputError, ReleaseError
from trigpoint.masks.rle import decode
from trigpoint.release.reader import Release


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_toy_release(tmp_path / "toy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "manifest.json cannot be read"),
        ("{", "not JSON"),
        ("[]", "is a list, expected an object"),
        ("{}", "format_version is None"),
        ('{"format_version": 2}', "format_version is 2, this trigpoint reads 1"),
        ('{"format_version": true}', "format_version is True"),
    ],
    ids=["missing", "broken", "list", "no-version", "newer", "bool"],
)
def test_only_the_manifest_decides_whether_a_release_opens(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)

    with pytest.raises(ReleaseError, match=message):
        Release.open(tmp_path)


def test_a_release_opens_without_reading_anything_else(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"format_version": 1, "name": "bare", "version": "3"}))

    release = Release.open(tmp_path)

    assert release.name == "bare 3"
    assert release.rules.eqs_iou == 0.5
    assert release.splits == {}
    assert release.taxonomy is None
    for part in ("scenes", "instances", "relations", "queries"):
        with pytest.raises(ReleaseError, match=f"{part}.*cannot be read"):
            getattr(release, part)


def test_a_split_takes_all_queries_of_its_scenes_or_those_it_lists(folder: Path) -> None:
    listed = {
        "protocol": "depth",
        "assignment": {"train": ["s-a"], "val": [], "test": ["s-b"]},
        "queries": {"train": ["q-2"], "test": ["q-7"]},
    }
    path = folder / "splits" / "depth.json"
    path.write_text(json.dumps(listed))
    release = Release.open(folder)

    found = {(p, s): [q.query_id for q in release.queries_of(p, s)] for p in ("scene-disjoint", "depth") for s in ("val", "test")}
    path.unlink()

    assert found == {
        ("scene-disjoint", "val"): [],
        ("scene-disjoint", "test"): ["q-5", "q-6", "q-7"],
        ("depth", "val"): [],
        ("depth", "test"): ["q-7"],
    }


@pytest.mark.parametrize(("protocol", "split"), [("depth", "test"), ("scene-disjoint", "dev")])
def test_an_unknown_protocol_or_split_is_told_with_those_there_are(folder: Path, protocol: str, split: str) -> None:
    with pytest.raises(InputError, match=r"is not in release toy 1, which has scene-disjoint \(test, train, val\)"):
        Release.open(folder).queries_of(protocol, split)


def test_masks_and_index_map_say_the_same(folder: Path) -> None:
    release = Release.open(folder)

    for scene_id in SIZES:
        masks, labels = release.masks_of_scene(scene_id), release.index_map(scene_id)
        for row in release.instances_of_scene[scene_id]:
            expected = toy_mask(scene_id, RECTANGLES[row.instance_id][2])
            assert np.array_equal(expected, decode(masks[row.instance_id]))
            if row.label is not None:
                assert np.array_equal(expected, labels == row.label)


def test_the_picture_is_the_native_pixels_of_an_8_bit_scene(folder: Path) -> None:
    picture = Release.open(folder).picture("s-a")

    assert (picture.shape, picture.dtype) == ((40, 60, 3), np.uint8)
    assert picture[10, 20].tolist() == [40, 60, 30]


def test_queries_are_records_in_file_order(folder: Path) -> None:
    release = Release.open(folder)

    assert [query.to_json() for query in release.queries] == QUERIES
    assert release.query("q-2").answer_ids == ("i-1",)


def test_a_line_that_is_no_query_is_named(folder: Path) -> None:
    with (folder / "queries.jsonl").open("a") as out:
        out.write('\n{"query_id": "q-9"}\n')

    with pytest.raises(ReleaseError, match=r"queries\.jsonl line 10: scene_id"):
        _ = Release.open(folder).queries


def test_missing_columns_are_named(folder: Path) -> None:
    pq.write_table(pa.table({"scene_id": ["s-a"]}), folder / "scenes.parquet")

    with pytest.raises(ReleaseError, match=r"scenes\.parquet lacks the columns \['path'"):
        _ = Release.open(folder).scenes


def test_rules_of_another_shape_are_named(folder: Path) -> None:
    (folder / "manifest.json").write_text(json.dumps({"format_version": 1, "rules": {"eqs_iou": "half", "new": 1}}))

    with pytest.raises(ReleaseError, match=r"eqs_iou.*new"):
        _ = Release.open(folder).rules


def test_a_mask_of_another_size_is_a_named_error(folder: Path) -> None:
    table = pq.read_table(folder / "instances.parquet")
    counts = ["3" if v == "i-1" else c for v, c in zip(table["instance_id"].to_pylist(), table["rle"].to_pylist(), strict=True)]
    pq.write_table(table.set_column(table.column_names.index("rle"), "rle", pa.array(counts)), folder / "instances.parquet")

    with pytest.raises(ReleaseError, match="instance 'i-1': runs sum to 3"):
        Release.open(folder).masks_of_scene("s-a")


def test_paths_that_lead_out_of_the_folder_are_refused(folder: Path) -> None:
    table = pq.read_table(folder / "scenes.parquet")
    index = table.column_names.index("path")
    pq.write_table(table.set_column(index, "path", pa.array(["../other.tif", "/other.tif"])), folder / "scenes.parquet")

    for scene_id in SIZES:
        with pytest.raises(ReleaseError, match="leads out of the folder"):
            Release.open(folder).picture(scene_id)


def test_a_raster_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "scenes" / "s-a.tif").write_text("no picture")
    (folder / "masks" / "s-a.tif").unlink()

    release = Release.open(folder)

    for read, name in ((release.picture, "scenes/s-a.tif"), (release.index_map, "masks/s-a.tif")):
        with pytest.raises(ReleaseError, match=name):
            read("s-a")


def test_unknown_scenes_and_queries_are_named_with_some_that_exist(folder: Path) -> None:
    release = Release.open(folder)

    with pytest.raises(InputError, match="scene 's-z' is not in release toy 1; it has s-a, s-b"):
        release.scene("s-z")
    with pytest.raises(InputError, match=r"q-1, q-2, q-3, … \(8 in all\)"):
        release.query("q-z")


@pytest.mark.parametrize("text", ["{", "[]", '{"assignment": []}'])
def test_a_split_without_an_assignment_is_named(folder: Path, text: str) -> None:
    (folder / "splits" / "depth.json").write_text(text)

    with pytest.raises(ReleaseError, match=r"splits/depth\.json"):
        _ = Release.open(folder).splits
