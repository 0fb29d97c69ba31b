"""Scores per query form: appendix C of OVEarth-Bench, worked out by hand on the toy release."""

from pathlib import Path
from typing import Any

import pytest

from tests.toy_release import LANGUAGE, RECTANGLES, toy_instance_rle, write_lines, write_toy_release
from trigpoint.release.reader import Release
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.report import ScoreReport, score_release
from trigpoint.scoring.scorecard import score_files


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(write_toy_release(tmp_path_factory.mktemp("language"), LANGUAGE))


def score(release: Release, tmp_path: Path, *records: dict[str, Any], modalities: tuple[str, ...] = ("masks",)) -> ScoreReport:
    return score_release(release, read_predictions(write_lines(tmp_path / "p.jsonl", *records, modalities=modalities), release))


def give(number: int, *instance_ids: str, **more: Any) -> dict[str, Any]:
    return {"query_id": f"q-{number}", "masks": [toy_instance_rle(i) for i in instance_ids], **more}


def hbb(instance_id: str) -> list[int]:
    row0, row1, col0, col1 = RECTANGLES[instance_id][2]
    return [col0, row0, col1, row1]


def test_every_form_has_its_own_macro_and_micro_means(release: Release, tmp_path: Path) -> None:
    # vocabulary: q-11 whole (IoU 1), q-12 i-1 of both (60/80), q-21 missing (0), q-31 whole, q-41 missing (0)
    report = score(release, tmp_path, give(11, "i-1", "i-2"), give(12, "i-1"), give(31, "i-9"), give(14, "i-1", "i-2"))

    vocabulary = report.forms["vocabulary"]["metrics"]
    assert vocabulary["ma_iou"] == pytest.approx((1 + 0.75 + 0 + 1 + 0) / 5)
    assert vocabulary["ma_p"] == pytest.approx(3 / 5)
    assert vocabulary["ma_r"] == pytest.approx((1 + 0.75 + 0 + 1 + 0) / 5)
    # pixels: houses 80 + 60 shared of 80 + 80, school 0 of 200, road 120 of 120, houses of s-b 0 of 34
    assert vocabulary["mi_iou"] == pytest.approx((80 + 60 + 120) / (80 + 80 + 200 + 120 + 34))
    assert vocabulary["annotation_macro_iou"] == pytest.approx((0.875 + 0 + 1 + 0) / 4)
    # categories: house (q-11, q-12, q-41), school, road
    assert vocabulary["category_macro_iou"] == pytest.approx((1.75 / 3 + 0 + 1) / 3)
    assert report.forms["referring"]["metrics"]["ma_iou"] == pytest.approx(1 / 3)
    assert report.forms["reasoning"]["metrics"]["ma_iou"] == 0.0
    assert [found["n_annotations"] for found in report.forms.values()] == [4, 3, 2]


def test_presence_belongs_to_vocabulary_and_is_null_with_one_answer_for_all(release: Release, tmp_path: Path) -> None:
    report = score(release, tmp_path, *(give(number, "i-1") for number in (11, 12, 13)))

    # 8 vocabulary queries, 5 of them positive: two found, one false alarm
    assert report.forms["vocabulary"]["counts"]["presence"] == {"tp": 2, "fp": 1, "fn": 3, "tn": 2}
    assert report.forms["vocabulary"]["metrics"]["presence_mcc"] == pytest.approx((2 * 2 - 1 * 3) / (3 * 5 * 3 * 5) ** 0.5)
    assert report.forms["referring"]["metrics"]["presence_mcc"] is None

    nothing = score(release, tmp_path).forms["vocabulary"]
    assert nothing["metrics"]["presence_mcc"] is None
    assert nothing["reasons"]["presence_mcc"].startswith("undefined")


def test_targets_are_split_by_whether_they_come_in_instances(release: Release, tmp_path: Path) -> None:
    report = score(release, tmp_path, give(11, "i-1", "i-2"), give(31, "i-9"))

    assert report.forms["vocabulary"]["targets"] == {
        "instanceable": {"n": 4, "n_annotations": 3, "iou": 0.25},
        "not_instanceable": {"n": 1, "n_annotations": 1, "iou": 1.0},
    }
    assert "vocabulary | not instanceable | 1 | 1 | 100.0" in report.to_markdown()


def test_boxes_are_asked_of_targets_that_have_them(release: Release, tmp_path: Path) -> None:
    boxes = [give(11, boxes=[hbb("i-1"), hbb("i-4")]), give(31, boxes=[[0, 0, 5, 5]]), give(14, boxes=[hbb("i-2"), hbb("i-1")])]
    records = [{**record, "masks": []} for record in boxes]

    forms = score(release, tmp_path, *records, modalities=("masks", "boxes")).forms

    # vocabulary: q-11 one hit, one vain, one miss; q-12 two misses, q-21 one, q-41 two; the road is left out with its box
    assert forms["vocabulary"]["counts"]["hbb_50_maxcard"] == {"tp": 1, "fp": 1, "fn": 6}
    assert forms["vocabulary"]["metrics"]["hbb_f1_50_maxcard"] == pytest.approx(2 / (2 + 1 + 6))
    assert forms["vocabulary"]["reasons"]["hbb_f1_50_maxcard"].startswith("1 of 5 queries left out")
    assert forms["referring"]["metrics"]["hbb_f1_50_95_maxcard"] == pytest.approx(2 * 2 / (2 * 2 + 2))
    assert forms["reasoning"]["metrics"]["hbb_p50_maxcard"] == 0.0, "no predicted box"


def test_contrasts_are_means_over_the_queries_of_shared_annotations(release: Release, tmp_path: Path) -> None:
    # vocabulary and referring share the houses of both scenes and the road: 4 and 3 queries
    report = score(release, tmp_path, give(11, "i-1", "i-2"), give(31, "i-9"), give(43, "i-5", "i-6"))

    found = {tuple(contrast["forms"]): contrast for contrast in report.contrasts}
    assert found["referring", "vocabulary"]["iou"] == pytest.approx([1 / 3, 2 / 4])
    assert found["referring", "vocabulary"]["n_annotations"] == 3
    assert found["reasoning", "vocabulary"]["n_annotations"] == 2
    assert found["reasoning", "referring"]["n_annotations"] == 1


def test_several_submissions_stand_in_one_table_per_form(release: Release, tmp_path: Path) -> None:
    files = [write_lines(tmp_path / f"{k}.jsonl", give(11, "i-1", "i-2"), *more) for k, more in enumerate([[], [give(14, "i-1")]])]

    page = score_files(release.folder, files).to_markdown()

    assert "## Vocabulary queries, per cent (MCC -1 to 1)" in page
    assert "- 3 queries, 3 of them answerable, of 3 annotations" in page
    referring = page[page.index("## Referring queries") :]
    assert f"| toy ({files[1]}) | 33.3 | 25.0 | 25.0 |" in referring
