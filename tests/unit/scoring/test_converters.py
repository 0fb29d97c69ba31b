"""Submissions made of COCO results and of one JSON object per model: nothing is lost in silence."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.toy_release import (
    COCO_CATEGORIES,
    COCO_IMAGES,
    LANGUAGE,
    QUERIES,
    RECTANGLES,
    toy_instance_rle,
    write_coco_export,
    write_toy_release,
)
from trigpoint.cli import app
from trigpoint.errors import PredictionError, ReleaseError
from trigpoint.release.reader import Release
from trigpoint.scoring.converters import Conversion, convert_coco, convert_json
from trigpoint.scoring.predictions import MODALITIES, Predictions, read_predictions
from trigpoint.scoring.report import score_release


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = write_toy_release(tmp_path_factory.mktemp("language"), [*LANGUAGE, *QUERIES])
    write_coco_export(folder)
    return Release.open(folder)


def result(instance_id: str, score: float = 0.9, **more: Any) -> dict[str, Any]:
    """A detection of an instance of the toy release, as pycocotools takes results."""
    scene_id, category, (row0, row1, col0, col1) = RECTANGLES[instance_id]
    return {
        "image_id": COCO_IMAGES[scene_id],
        "category_id": COCO_CATEGORIES[category],
        "segmentation": toy_instance_rle(instance_id),
        "bbox": [col0, row0, col1 - col0, row1 - row0],
        "score": score,
        **more,
    }


def coco(release: Release, tmp_path: Path, results: Any, threshold: float = 0.5) -> tuple[Conversion, Predictions]:
    (tmp_path / "results.json").write_text(json.dumps(results))
    found = convert_coco(release, tmp_path / "results.json", tmp_path / "out.jsonl", threshold)
    return found, read_predictions(tmp_path / "out.jsonl", release)


def n_masks(predictions: Predictions) -> dict[str, int]:
    return {query_id: len(record.masks or ()) for (query_id, _), record in predictions.records.items() if record.masks}


def test_detections_answer_the_queries_that_ask_for_their_category_by_name(release: Release, tmp_path: Path) -> None:
    found, predictions = coco(release, tmp_path, [result("i-1"), result("i-2"), result("i-3"), result("i-5", 0.4)])

    # vocabulary q-11, q-12 (houses of s-a), q-21 (school); programs of level 1: q-1 (house), q-8 is of level 5
    assert n_masks(predictions) == {"q-11": 2, "q-12": 2, "q-21": 1, "q-1": 2}
    assert (found.n_used, found.n_below, found.problems) == (3, 1, [])
    assert predictions.submission.modalities == ("masks", "boxes")
    assert "q-14" not in {query_id for query_id, _ in predictions.records}, "a referring expression asks for more than a category"


def test_boxes_are_turned_into_corners_and_score_like_those_of_the_release(release: Release, tmp_path: Path) -> None:
    coco(release, tmp_path, [result(i, segmentation=None) for i in ("i-1", "i-2", "i-3", "i-5", "i-6")])

    report = score_release(release, read_predictions(tmp_path / "out.jsonl", release))

    assert report.submission["modalities"] == ["boxes"]
    assert report.forms["vocabulary"]["metrics"]["hbb_f1_50_95_maxcard"] == 1.0


def test_a_category_named_by_a_negative_phrase_is_a_false_alarm(release: Release, tmp_path: Path) -> None:
    pond = {**result("i-5"), "category_id": COCO_CATEGORIES["pond"]}

    _, predictions = coco(release, tmp_path, [pond])

    # q-42 asks for 'ponds' in s-b, where there are none; q-5 is the program that asks for them; 'greenhouse' is no category
    assert n_masks(predictions) == {"q-42": 1, "q-5": 1}


def test_annotations_with_their_images_are_no_results(release: Release, tmp_path: Path) -> None:
    with pytest.raises(PredictionError, match=r"holds an object, expected a list of results \(not of annotations with their images\)"):
        coco(release, tmp_path, {"annotations": [result("i-1")]})


def test_a_negative_phrase_may_name_something_broader(tmp_path: Path) -> None:
    folder = write_toy_release(tmp_path / "release", [{**LANGUAGE[2], "sentences": ["a building"]}])
    write_coco_export(folder)

    _, predictions = coco(Release.open(folder), tmp_path, [result("i-1"), result("i-4")])

    assert n_masks(predictions) == {"q-13": 1}, "a house is a building, a pond is none"


def test_detections_of_a_narrower_category_answer_for_the_broader(tmp_path: Path) -> None:
    queries = [{**LANGUAGE[0], "category": ["building"], "answer_ids": ["i-1", "i-2", "i-3"], "sentences": ["building"]}]
    folder = write_toy_release(tmp_path / "release", queries)
    write_coco_export(folder)

    _, predictions = coco(Release.open(folder), tmp_path, [result("i-1"), result("i-3"), result("i-4")])

    assert n_masks(predictions) == {"q-11": 2}


def test_polygons_are_taken_as_masks(release: Release, tmp_path: Path) -> None:
    _, predictions = coco(release, tmp_path, [result("i-1", segmentation=[[3, 2, 13, 2, 13, 8, 3, 8]])])

    assert predictions.records["q-11", 0].masks is not None
    assert predictions.records["q-11", 0].masks[0].text == toy_instance_rle("i-1")["counts"]


@pytest.mark.parametrize(
    ("row", "code", "told"),
    [
        pytest.param(result("i-1", image_id=7), "unknown_image_id", "image_id 7", id="image"),
        pytest.param(result("i-1", category_id="house"), "unknown_category_id", "'house'", id="category"),
        pytest.param("i-1", "bad_record", "expected an object", id="no-object"),
        pytest.param(result("i-1", score=None), "bad_record", "score is None", id="no-score"),
        pytest.param(result("i-1", score=10**400), "bad_record", "score is 1000", id="endless-score"),
        pytest.param(result("i-1", score=True), "bad_record", "score is True", id="score-is-a-bool"),
        pytest.param(result("i-1", segmentation={"size": [40, 60], "counts": "1"}), "bad_record", "runs sum to 1", id="short-rle"),
        pytest.param(result("i-1", segmentation=[[1, 1, 2]]), "bad_record", "ring 0", id="ring"),
        pytest.param(result("i-1", segmentation=None), "bad_record", "no segmentation", id="no-mask"),
        pytest.param(result("i-1", segmentation=None, bbox=None), "bad_record", "neither", id="nothing"),
        pytest.param(result("i-1", bbox=[3, 2, -10, 6]), "bad_record", "width", id="negative-width"),
    ],
)
def test_what_cannot_be_read_is_named_and_fails_the_queries_that_it_is_for(
    release: Release, tmp_path: Path, row: Any, code: str, told: str
) -> None:
    found, predictions = coco(release, tmp_path, [result("i-3"), row])

    assert [(problem.code, problem.where) for problem in found.problems] == [(code, "result 1")]
    assert told in found.problems[0].detail
    unparsed = {query_id for (query_id, _), record in predictions.records.items() if record.unparsed}
    can_be_charged = code == "bad_record" and isinstance(row, dict)
    assert unparsed == ({"q-11", "q-12", "q-1"} if can_be_charged else set())
    assert n_masks(predictions) == {"q-21": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("{}", "expected a list", id="object"),
        pytest.param("[", "is not JSON", id="cut"),
        pytest.param("[" * 100_000, "nested too deeply", id="too-deep"),
        pytest.param('[{"image_id": 1}]', "none of 1 results", id="no-masks"),
    ],
)
def test_a_file_that_is_no_results_is_refused(release: Release, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "results.json").write_text(text)

    with pytest.raises(PredictionError, match=told):
        convert_coco(release, tmp_path / "results.json", tmp_path / "out.jsonl", 0.5)


def test_a_detector_that_found_nothing_gives_a_submission_of_silence(release: Release, tmp_path: Path) -> None:
    found, predictions = coco(release, tmp_path, [])

    assert (found.n_used, found.n_below, found.n_unparsed, found.problems) == (0, 0, 0, [])
    assert predictions.submission.modalities == ("masks", "boxes")
    assert found.n_records == len(predictions.records) > 0
    assert all(record.is_empty for record in predictions.records.values())
    metrics = score_release(release, predictions).forms["vocabulary"]["metrics"]
    assert (metrics["mi_iou"], metrics["hbb_f1_50_95_maxcard"]) == (0.0, 0.0)


@pytest.mark.parametrize("text", ["{}", '{"q-11": {}, "q-12": null, "q-21": []}'])
def test_a_model_that_found_nothing_gives_a_submission_of_silence(release: Release, tmp_path: Path, text: str) -> None:
    found, predictions = answers(release, tmp_path, text)

    assert found.problems == []
    assert predictions.submission.modalities == MODALITIES
    assert all(record.is_empty for record in predictions.records.values())
    assert score_release(release, predictions).forms["vocabulary"]["metrics"]["hbb_f1_50_95_maxcard"] == 0.0


def test_a_release_without_its_coco_file_cannot_say_what_ids_mean(tmp_path: Path) -> None:
    bare = Release.open(write_toy_release(tmp_path / "release"))
    (tmp_path / "results.json").write_text(json.dumps([result("i-1")]))

    with pytest.raises(ReleaseError, match=r"exports/coco\.json"):
        convert_coco(bare, tmp_path / "results.json", tmp_path / "out.jsonl", 0.5)


def answers(release: Release, tmp_path: Path, text: str, space: str = "pixel") -> tuple[Conversion, Predictions]:
    (tmp_path / "model.json").write_text(text)
    found = convert_json(release, tmp_path / "model.json", tmp_path / "out.jsonl", space)
    return found, read_predictions(tmp_path / "out.jsonl", release)


def test_answers_by_query_id_become_records_in_pixels(release: Release, tmp_path: Path) -> None:
    given = {
        "q-11": {"masks": [toy_instance_rle("i-1"), toy_instance_rle("i-2")]},
        "q-12": {"polygons": [[0.05, 0.05, 0.25, 0.05, 0.25, 0.2, 0.05, 0.2]], "boxes": [[0.05, 0.05, 0.25, 0.2]]},
        "q-13": None,
        "q-14": [],
        "q-21": {},
    }

    found, predictions = answers(release, tmp_path, json.dumps(given), "normalised")

    assert (found.n_records, found.n_unparsed, found.problems) == (5, 0, [])
    assert predictions.submission == ("model", ("masks", "boxes"), "pixel")
    assert predictions.records["q-12", 0].boxes is not None
    assert predictions.records["q-12", 0].boxes.tolist() == [[3.0, 2.0, 15.0, 8.0]]
    assert predictions.records["q-12", 0].masks is not None
    assert predictions.records["q-12", 0].masks[0].area_px == 12 * 6
    assert all(predictions.records[query_id, 0].is_empty for query_id in ("q-13", "q-14", "q-21"))


@pytest.mark.parametrize(
    ("text", "code", "told", "n_unparsed"),
    [
        pytest.param('{"q-11": {"masks": []}, "q-99": {"masks": []}}', "unknown_query", "no such query", 0, id="unknown"),
        pytest.param('{"q-12": {"masks": []}, "q-11": {"masks": [], "masks": []}}', "bad_record", "twice", 1, id="key-twice"),
        pytest.param('{"q-11": {"masks": []}, "q-11": {"masks": []}}', "duplicate", "given before", 1, id="query-twice"),
        pytest.param('{"q-12": {"masks": []}, "q-11": "nothing"}', "bad_record", "expected an object", 1, id="text"),
        pytest.param('{"q-12": {"masks": []}, "q-11": {"masks": [{"size": [4, 4], "counts": [16]}]}}', "bad_mask", "size", 1, id="size"),
        pytest.param('{"q-12": {"masks": []}, "q-11": {"mask_list": []}}', "unknown_key", "mask_list", 1, id="key"),
    ],
)
def test_answers_that_cannot_be_used_are_named(release: Release, tmp_path: Path, text: str, code: str, told: str, n_unparsed: int) -> None:
    found, predictions = answers(release, tmp_path, text)

    assert [problem.code for problem in found.problems] == [code]
    assert told in found.problems[0].detail
    assert sum(record.unparsed is not None for record in predictions.records.values()) == found.n_unparsed == n_unparsed


@pytest.mark.parametrize(
    ("text", "space", "told"),
    [
        pytest.param("[]", "pixel", "expected an object", id="list"),
        pytest.param('{"q-11": "none"}', "pixel", "no keys", id="nothing-said"),
        pytest.param('{"q-11": {"rles": []}}', "pixel", "it has \\['rles'\\]", id="unknown-keys"),
        pytest.param('{"q-11": {"masks": []}}', "metres", "space is 'metres'", id="space"),
    ],
)
def test_a_file_that_is_no_answers_is_refused(release: Release, tmp_path: Path, text: str, space: str, told: str) -> None:
    with pytest.raises(PredictionError, match=told):
        answers(release, tmp_path, text, space)


def test_a_submission_has_a_name_that_says_its_format(release: Release, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"q-11": {"masks": []}}')

    with pytest.raises(PredictionError, match="end the name so"):
        convert_json(release, tmp_path / "model.json", tmp_path / "model.json", "pixel")
    assert (tmp_path / "model.json").read_text() == '{"q-11": {"masks": []}}'


def test_the_command_line_tells_problems_and_ends_with_1(release: Release, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps([result("i-1"), result("i-1", image_id=7)]))
    files = [str(release.folder), str(tmp_path / "results.json"), str(tmp_path / "out.parquet")]

    without = CliRunner().invoke(app, ["predictions", "from-coco", *files])
    told = CliRunner().invoke(app, ["predictions", "from-coco", *files, "--score-threshold", "0.5"])
    as_json = CliRunner().invoke(app, ["predictions", "from-coco", *files, "--score-threshold", "0.5", "--json"])

    assert without.exit_code == 2, "the threshold is never guessed"
    assert told.exit_code == 1
    assert told.stdout.startswith("result 1 unknown_image_id")
    assert json.loads(as_json.stdout)["n_used"] == 1
    assert read_predictions(tmp_path / "out.parquet", release).problems == []
