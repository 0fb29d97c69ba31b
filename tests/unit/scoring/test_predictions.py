import json
from pathlib import Path

import numpy as np
import pytest

from tests.toy_release import toy_instance_rle, toy_rle, write_lines, write_toy_release
from trigpoint.errors import PredictionError
from trigpoint.release.reader import Release
from trigpoint.scoring.predictions import Submission, read_predictions, write_predictions


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(write_toy_release(tmp_path_factory.mktemp("toy")))


GOOD = toy_instance_rle("i-1")
ALL = ("masks", "mask", "boxes", "obbs")


@pytest.mark.parametrize(
    ("record", "code", "message"),
    [
        pytest.param({"masks": [GOOD, {"size": [40, 60], "counts": [5, 3]}]}, "bad_mask", r"masks\[1\]: runs sum to 8", id="short"),
        pytest.param({"masks": [{"size": [60, 40], "counts": GOOD["counts"]}]}, "bad_mask", "height comes first", id="swapped-size"),
        pytest.param(
            {"masks": [{"size": [24, 20], "counts": [480]}]}, "bad_mask", r"expected \[height, width\] = \[40, 60\]", id="other-scene"
        ),
        pytest.param({"masks": [{"size": [40, 60], "counts": "zz~~PP"}]}, "bad_mask", "no COCO RLE", id="garbage"),
        pytest.param({"masks": [[[1, 0], [0, 1]]]}, "bad_mask", "not a whole number", id="bitmap"),
        pytest.param({"masks": "x"}, "bad_record", "expected a list", id="not-a-list"),
        pytest.param({"mask": [GOOD]}, "bad_mask", "not a whole number", id="list-for-one"),
        pytest.param({"masks": [GOOD], "mask": GOOD}, "bad_record", "more than one of", id="two-kinds"),
        pytest.param({"polygons": [[[0, 0, 4, 4, 4, 0, 0, 4]]]}, "bad_mask", "simple polygon", id="bow-tie"),
        pytest.param({"boxes": [[3, 2, 10, 6], [3, 2, 1, 1]]}, "bad_box", r"boxes\[1\]", id="xywh"),
        pytest.param({"boxes": [[3, 2, 10]]}, "bad_box", "4 finite numbers", id="three-numbers"),
        pytest.param({"boxes": [[3, 2, 10, float("nan")]]}, "bad_box", "4 finite numbers", id="nan"),
        pytest.param({"obbs": [[0, 0, 1, 1, 1, 0, 0, 1]]}, "bad_box", "ring order", id="crossed-corners"),
        pytest.param({"Masks": [GOOD]}, "unknown_key", "nearest is 'masks'", id="typo"),
    ],
)
def test_a_record_that_breaks_its_contract_is_unparsed_with_a_reason(
    release: Release, tmp_path: Path, record: dict[str, object], code: str, message: str
) -> None:
    file = write_lines(tmp_path / "p.jsonl", {"query_id": "q-1", **record}, {"query_id": "q-2", "masks": [GOOD]}, modalities=ALL)

    found = read_predictions(file, release)

    assert [(p.code, p.where, p.query_id) for p in found.problems] == [(code, "line 2", "q-1")]
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(found.records["q-1", 0].unparsed)
    assert found.records["q-2", 0].unparsed is None


@pytest.mark.parametrize(
    "record",
    [{}, {"masks": None}, {"masks": []}, {"masks": [toy_rle("s-a")]}, {"mask": toy_rle("s-a")}, {"boxes": []}, {"polygons": []}],
    ids=["bare", "null", "empty", "all-zero", "all-zero-mask", "no-box", "no-polygon"],
)
def test_null_empty_and_all_zero_predictions_are_empty(release: Release, tmp_path: Path, record: dict[str, object]) -> None:
    found = read_predictions(write_lines(tmp_path / "p.jsonl", {"query_id": "q-1", **record}, modalities=ALL), release)

    assert found.records["q-1", 0].is_empty
    assert found.records["q-1", 0].unparsed is None
    assert found.problems == []


def test_a_duplicate_makes_both_records_unparsed(release: Release, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "p.jsonl", *[{"query_id": "q-1", "masks": [GOOD]}] * 2, {"query_id": "q-1", "sentence": 1})

    found = read_predictions(file, release)

    assert "given before, in line 2" in str(found.records["q-1", 0].unparsed)
    assert found.records["q-1", 1].unparsed is None
    assert [(p.code, p.where) for p in found.problems] == [("duplicate", "line 3")]


def test_unknown_queries_and_sentences_are_listed(release: Release, tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "p.jsonl", {"query_id": "q-99"}, {"query_id": "q-1", "sentence": 3}, {"query_id": "q-1", "sentence": True}
    )

    found = read_predictions(file, release)

    assert [p.code for p in found.problems] == ["unknown_query", "unknown_sentence", "unknown_sentence"]
    assert found.records == {}


def test_an_undeclared_modality_beside_a_declared_one_is_listed_and_ignored(release: Release, tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "p.jsonl", {"query_id": "q-1", "masks": [GOOD], "boxes": [[0, 0, 1, 1]]}, {"query_id": "q-2", "boxes": []}
    )

    found = read_predictions(file, release)

    assert found.records["q-1", 0].boxes is None
    assert found.records["q-1", 0].unparsed is None
    assert str(found.records["q-2", 0].unparsed).startswith("undeclared_modality")
    assert [(p.code, p.where) for p in found.problems] == [("undeclared_modality", "line 2"), ("undeclared_modality", "line 3")]


def test_polygons_and_runs_and_strings_give_one_mask(release: Release, tmp_path: Path) -> None:
    # i-1: rows 2-8, columns 3-13, runs down the columns of 40 rows
    runs = [3 * 40 + 2, *([6, 34] * 9), 6, 60 * 40 - 12 * 40 - 8]
    records = [
        {"query_id": "q-1", "masks": [GOOD]},
        {"query_id": "q-2", "masks": [{"size": [40, 60], "counts": runs}]},
        {"query_id": "q-3", "polygons": [[[3, 2, 13, 2, 13, 8, 3, 8]]]},
        {"query_id": "q-4", "polygons": [[3, 2, 13, 2, 13, 8, 3, 8]]},
    ]

    found = read_predictions(write_lines(tmp_path / "p.jsonl", *records), release)

    assert len({record.masks for record in found.records.values()}) == 1
    assert found.problems == []


def test_parquet_and_json_lines_are_read_alike(release: Release, tmp_path: Path) -> None:
    records = [
        {"query_id": "q-1", "sentence": 0, "masks": [GOOD], "boxes": [[1.5, 2.0, 3.0, 4.0]]},
        {"query_id": "q-2", "sentence": 0, "mask": GOOD},
        {"query_id": "q-3", "sentence": 0, "unparsed": "I cannot see it"},
        {"query_id": "q-4", "sentence": 0, "masks": []},
        {"query_id": "q-8", "sentence": 0, "obbs": [[0.0, 0, 4, 0, 4, 2, 0, 2]]},
        {"query_id": "q-7", "sentence": 0, "masks": [GOOD]},
    ]
    submission = Submission("both ways", ALL, "pixel")
    for name in ("p.jsonl", "p.parquet"):
        write_predictions(tmp_path / name, submission, records)

    lines, table = read_predictions(tmp_path / "p.jsonl", release), read_predictions(tmp_path / "p.parquet", release)

    assert str(lines.records) == str(table.records)
    assert [p._replace(where="") for p in lines.problems] == [p._replace(where="") for p in table.problems]
    assert [p.code for p in lines.problems] == ["bad_mask"]
    assert lines.submission == table.submission == submission


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "empty", id="empty"),
        pytest.param('{"query_id": "q-1"}\n', "the first line is", id="no-header"),
        pytest.param("[]\n", "line 1 is a list", id="list"),
        pytest.param('{"submission": {"name": "x", "modalities": ["masks"]}}\n', "space is None", id="no-space"),
        pytest.param('{"submission": {"name": "x", "modalities": ["masks"], "space": "unit"}}\n', "space is 'unit'", id="unknown-space"),
        pytest.param('{"submission": {"name": "x", "modalities": ["points"], "space": "pixel"}}\n', "modalities are", id="modality"),
        pytest.param('{"submission": {"name": "", "modalities": ["masks"], "space": "pixel"}}\n', "name is ''", id="no-name"),
        pytest.param(
            '{"submission": {"name": "x", "modalities": ["masks"], "space": "pixel"}}\n{"query', "line 2 is not JSON", id="cut-off"
        ),
        pytest.param(
            '{"submission": {"name": "x", "modalities": ["masks"], "space": "pixel"}}\n{"id": 1}', "line 2: query_id", id="no-query"
        ),
    ],
)
def test_a_file_that_cannot_be_charged_to_queries_is_refused(release: Release, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)

    with pytest.raises(PredictionError, match=message):
        read_predictions(tmp_path / "p.jsonl", release)


def test_a_missing_file_and_a_parquet_without_submission_are_refused(release: Release, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"query_id": ["q-1"]}), tmp_path / "bare.parquet")
    (tmp_path / "text.parquet").write_text("no")

    for name, message in (("none.jsonl", "cannot be read"), ("bare.parquet", "schema metadata"), ("text.parquet", "as Parquet")):
        with pytest.raises(PredictionError, match=message):
            read_predictions(tmp_path / name, release)


def test_line_separators_inside_text_do_not_break_a_line(release: Release, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "p.jsonl", modalities=("masks",))
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"query_id": "q-1", "unparsed": "a\u2028b"}, ensure_ascii=False) + "\r\n")

    assert read_predictions(file, release).records["q-1", 0].unparsed is not None


# i-1: columns 3-13 of 60, rows 2-8 of 40
@pytest.mark.parametrize(("space", "x", "y"), [("pixel", 1.0, 1.0), ("normalised", 1 / 60, 1 / 40), ("per_mille", 1000 / 60, 1000 / 40)])
def test_declared_spaces_lead_to_the_same_pixels(release: Release, tmp_path: Path, space: str, x: float, y: float) -> None:
    box, ring = [3 * x, 2 * y, 13 * x, 8 * y], [3 * x, 2 * y, 13 * x, 2 * y, 13 * x, 8 * y, 3 * x, 8 * y]
    records = [{"query_id": "q-1", "polygons": [ring], "boxes": [box], "obbs": [ring]}, {"query_id": "q-2", "polygons": [[ring]]}]

    found = read_predictions(write_lines(tmp_path / "p.jsonl", *records, modalities=ALL, space=space), release)

    assert found.problems == []
    first = found.records["q-1", 0]
    assert [mask.to_json() for mask in first.masks or ()] == [GOOD]
    assert found.records["q-2", 0].masks == first.masks
    assert (first.boxes, first.obbs) == (pytest.approx(np.array([[3, 2, 13, 8]])), pytest.approx(np.array([[3, 2, 13, 2, 13, 8, 3, 8]])))


def test_rles_are_native_pixels_in_every_space(release: Release, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "p.jsonl", {"query_id": "q-1", "masks": [GOOD]}, space="normalised")

    assert [mask.to_json() for mask in read_predictions(file, release).records["q-1", 0].masks or ()] == [GOOD]


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"boxes": [[0.1, 0.1, 13, 8]]}, "bad_box"),
        ({"obbs": [[0.0, 0, 0.5, 0, 0.5, 40, 0, 40]]}, "bad_box"),
        ({"polygons": [[3, 2, 13, 2, 13, 8]]}, "bad_mask"),
    ],
    ids=["box", "obb", "polygon"],
)
def test_pixels_in_a_normalised_submission_are_noticed(release: Release, tmp_path: Path, record: dict[str, object], code: str) -> None:
    file = write_lines(tmp_path / "p.jsonl", {"query_id": "q-1", **record}, modalities=ALL, space="normalised")

    found = read_predictions(file, release)

    assert [problem.code for problem in found.problems] == [code]
    assert "far outside the image, which is 0 to 1 in the declared space 'normalised'" in found.problems[0].detail


def test_a_normalised_box_may_reach_over_the_edge(release: Release, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "p.jsonl", {"query_id": "q-1", "boxes": [[-0.1, 0, 1.1, 0.5]]}, modalities=ALL, space="normalised")

    assert read_predictions(file, release).records["q-1", 0].boxes == pytest.approx(np.array([[-6.0, 0, 66, 20]]))


@pytest.mark.parametrize("value", ["x", [["a", "b"]], [[0.1, 0.2]], 5])
def test_broken_normalised_polygons_and_boxes_are_unparsed(release: Release, tmp_path: Path, value: object) -> None:
    records = [{"query_id": "q-1", "polygons": value}, {"query_id": "q-2", "boxes": value}]

    found = read_predictions(write_lines(tmp_path / "p.jsonl", *records, modalities=ALL, space="normalised"), release)

    assert len(found.problems) == 2
    assert all(record.unparsed for record in found.records.values())
