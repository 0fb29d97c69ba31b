"""Known traps of presence and of macro means. Inputs and expectations are rebuilt here from the case descriptions."""

import json
import warnings
from pathlib import Path

import pytest

from tests.toy_release import toy_query, toy_rle, write_lines, write_toy_release
from trigpoint.release.reader import Release
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.report import score_release
from trigpoint.scoring.statistics import matthews_correlation

TABLES = [
    (4, 0, 0, 0), (0, 4, 0, 0), (0, 0, 4, 0), (0, 0, 0, 4), (5, 3, 2, 1), (2, 0, 2, 0), (0, 2, 0, 2), (50, 50, 0, 0), (1, 1, 1, 1),
    (0, 0, 2, 3), (3037000500, 3037000500, 1, 1),
]  # fmt: skip
"""tp, tn, fp, fn."""


def test_x01_mcc_of_one_class_is_undefined_and_not_zero() -> None:
    """scikit-learn/scikit-learn#25258, #28509: 0 for a perfect answer to one class; overflow for large counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [matthews_correlation(tp=tp, fp=fp, fn=fn, tn=tn) for tp, tn, fp, fn in TABLES]

    assert [k for k, value in enumerate(found) if value is None] == [0, 1, 2, 3, 5, 6]
    # (5·3 − 2·1) / sqrt(7·6·5·4)
    assert found[4] == pytest.approx(13 / 840**0.5)
    assert found[7:10] == [1.0, 0.0, -1.0]
    assert found[10] == pytest.approx(1 - 2 / 3037000501)


def test_x01_all_present_and_all_found_is_null_in_a_report(tmp_path: Path) -> None:
    queries = [toy_query(k, "s-a", None, "house", ["i-1"], ["house"], form="vocabulary") for k in range(4)]
    release = Release.open(write_toy_release(tmp_path / "toy", queries))
    records = [{"query_id": f"q-{k}", "masks": [toy_rle("s-a", (2, 8, 3, 13))]} for k in range(4)]

    report = score_release(release, read_predictions(write_lines(tmp_path / "p.jsonl", *records), release))

    assert report.counts["presence"] == {"tp": 4, "fp": 0, "fn": 0, "tn": 0}
    assert report.metrics["presence_mcc"] is None


def test_x04_a_class_that_is_absent_is_neither_zero_nor_one(tmp_path: Path) -> None:
    """Lightning-AI/torchmetrics#1693, #2866, pyg-team/pytorch_geometric#1982.

    Six labels 0 1 0 0 1 0 against 0 1 0 1 1 0; here each label is ten pixels wide and forty high, and each class one query.
    """
    target, predicted = [0, 1, 0, 0, 1, 0], [0, 1, 0, 1, 1, 0]

    def mask(labels: list[int], value: int) -> dict[str, object]:
        return toy_rle("s-a", *((0, 40, 10 * k, 10 * k + 10) for k, label in enumerate(labels) if label == value))

    folder = write_toy_release(
        tmp_path / "toy",
        [
            toy_query(0, "s-a", None, "house", ["i-1"], ["class 0"], form="vocabulary"),
            toy_query(1, "s-a", None, "school", ["i-3"], ["class 1"], form="vocabulary"),
            toy_query(2, "s-a", None, "pond", [], ["class 2"], form="vocabulary"),
        ],
        rles={"i-1": str(mask(target, 0)["counts"]), "i-3": str(mask(target, 1)["counts"])},
    )
    release = Release.open(folder)
    records = [{"query_id": f"q-{value}", "masks": [mask(predicted, value)]} for value in (0, 1)]

    report = score_release(release, read_predictions(write_lines(tmp_path / "p.jsonl", *records), release))

    assert [report.categories[name]["iou"] for name in ("house", "school", "pond")] == [0.75, pytest.approx(2 / 3), None]
    assert report.metrics["category_macro_iou"] == pytest.approx((0.75 + 2 / 3) / 2)
    assert report.metrics["mi_iou"] == pytest.approx(5 / 7)


def test_x02_no_prediction_is_zero_and_what_is_found_on_nothing_enters_presence_alone(tmp_path: Path) -> None:
    """cocodataset/cocoapi#450, #675, Lightning-AI/torchmetrics#2778: a crash, -1 or NaN.

    Three images: three boxes and nothing predicted; no box and two predicted; neither. Of the counts tp 0, fp 2, fn 3 of a plain
    detection counter, the two on the negative query are not counted as boxes here (OVEarth-Bench), but as a wrong presence.
    """
    release = Release.open(
        write_toy_release(
            tmp_path / "toy",
            [
                toy_query(0, "s-a", None, "building", ["i-1", "i-2", "i-3"], ["buildings"], form="vocabulary"),
                toy_query(1, "s-a", None, "pond", [], ["ships"], form="vocabulary"),
                toy_query(2, "s-b", None, "pond", [], ["ponds"], form="vocabulary"),
            ],
        )
    )
    records = [
        {"query_id": "q-0", "boxes": []},
        {"query_id": "q-1", "boxes": [[0, 35, 5, 40], [10, 35, 15, 40]]},
        {"query_id": "q-2", "boxes": []},
    ]

    report = score_release(release, read_predictions(write_lines(tmp_path / "p.jsonl", *records, modalities=("boxes",)), release))

    assert (report.missing, report.problems) == (0, [])
    assert report.counts["hbb_50_maxcard"] == {"tp": 0, "fp": 0, "fn": 3}
    assert [report.metrics[f"hbb_{name}_maxcard"] for name in ("p50", "r50", "f1_50", "f1_50_95")] == [0.0] * 4
    assert report.n["hbb_f1_50_maxcard"] == 1, "an image without boxes lifts no mean"
    assert report.counts["presence"] == {"tp": 0, "fp": 1, "fn": 1, "tn": 1}
    assert report.metrics["rejection_accuracy"] == 0.5


def test_x02_a_file_without_records_is_silence_and_the_report_warns_of_it(tmp_path: Path) -> None:
    """A missing prediction is an empty one, never skipped; a record for another data set's query is named, not scored."""
    queries = [
        toy_query(0, "s-a", None, "building", ["i-1", "i-2", "i-3"], ["buildings"], form="vocabulary"),
        toy_query(1, "s-a", None, "pond", [], ["ships"], form="vocabulary"),
    ]
    release = Release.open(write_toy_release(tmp_path / "toy", queries))
    stray = {"query_id": "q-elsewhere", "boxes": [[0, 0, 1, 1]]}

    report = score_release(release, read_predictions(write_lines(tmp_path / "p.jsonl", stray, modalities=("boxes",)), release))

    assert report.missing == report.to_json()["missing"] == 2
    assert "2 of 2 queries have no record: each counts as an empty prediction" in report.to_markdown()
    assert [(problem.code, problem.query_id) for problem in report.problems] == [("unknown_query", "q-elsewhere")]
    assert report.metrics["hbb_f1_50_maxcard"] == 0.0
    assert report.counts["presence"] == {"tp": 0, "fp": 0, "fn": 1, "tn": 1}
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["metrics"]["presence_mcc"] is None
