import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.toy_release import QUERIES, RECTANGLES, toy_instance_rle, toy_mask, toy_query, toy_rle, write_lines, write_toy_release
from trigpoint.errors import InputError, ReleaseError
from trigpoint.release.reader import Release
from trigpoint.scoring.baselines import predict_silence, predict_truth
from trigpoint.scoring.failures import FAILURES
from trigpoint.scoring.members import members_of, members_of_all
from trigpoint.scoring.metrics import METRICS
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.references import reference_outcomes
from trigpoint.scoring.report import ScoreReport, score_release


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(write_toy_release(tmp_path_factory.mktemp("toy")))


def score(release: Release, tmp_path: Path, *records: dict[str, Any], **how: Any) -> ScoreReport:
    modalities = how.pop("modalities", ("masks",))
    return score_release(release, read_predictions(write_lines(tmp_path / "p.jsonl", *records, modalities=modalities), release), **how)


def truth_of(query: dict[str, Any]) -> dict[str, Any]:
    return {"query_id": query["query_id"], "masks": [toy_instance_rle(i) for i in query["answer_ids"]]}


TRUTH = [truth_of(query) for query in QUERIES]


def with_record(query_id: str, **record: Any) -> list[dict[str, Any]]:
    return [{"query_id": query_id, **record} if row["query_id"] == query_id else row for row in TRUTH]


def test_truth_scores_exactly_one(release: Release, tmp_path: Path) -> None:
    n = predict_truth(release, tmp_path / "truth.jsonl")

    report = score_release(release, read_predictions(tmp_path / "truth.jsonl", release))

    assert n == len(QUERIES) + 2, "every sentence has its record"
    undefined = {metric_id for metric_id, value in report.metrics.items() if value is None}
    assert undefined == {"annotation_macro_iou", "presence_mcc"}, "the toy release has neither annotations nor vocabulary queries"
    for metric in METRICS:
        assert report.metrics[metric.metric_id] in (metric.best, None), metric.metric_id
    assert report.failures == {}
    assert report.problems == []


def test_silence_scores_exactly_the_unanswerable_share(release: Release, tmp_path: Path) -> None:
    predict_silence(release, tmp_path / "silence.jsonl")

    report = score_release(release, read_predictions(tmp_path / "silence.jsonl", release))

    assert report.metrics["eqs"] == report.references["silent"]["eqs"] == 2 / 8
    zero = {"ma_iou", "ma_p", "ma_r", "mi_iou", "category_macro_iou", "eqs_answerable", "counterfactual_consistency", "unparsed_rate"}
    zero |= {metric.metric_id for metric in METRICS if metric.metric_id.startswith(("hbb", "obb"))}
    assert {metric_id: report.metrics[metric_id] for metric_id in zero} == dict.fromkeys(zero, 0.0)
    assert report.metrics["rejection_accuracy"] == report.metrics["eqs_unanswerable"] == 1.0
    assert report.metrics["counterfactual_same_answer"] == 1.0
    assert report.errors == {**dict.fromkeys(FAILURES, 0), "empty": 6}


def test_an_empty_file_scores_as_silence_does(release: Release, tmp_path: Path) -> None:
    predict_silence(release, tmp_path / "silence.jsonl")
    silence = score_release(release, read_predictions(tmp_path / "silence.jsonl", release))

    empty = score(release, tmp_path, modalities=("masks", "boxes", "obbs"))

    of_sentences = {"eqs_paraphrases", "paraphrase_consistency", "paraphrase_all_right"}
    assert {k: v for k, v in empty.metrics.items() if k not in of_sentences} == {
        k: v for k, v in silence.metrics.items() if k not in of_sentences
    }
    assert {empty.metrics[metric_id] for metric_id in of_sentences} == {None}


def test_trivial_submissions_are_the_same_bytes_every_time(release: Release, tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        predict_truth(release, tmp_path / name)

    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_masked_means_are_those_worked_out_by_hand(release: Release, tmp_path: Path) -> None:
    # q-1: i-1 alone of 60 + 20 px; q-8: half of 200 px and as much beside it; the others nothing
    records = [
        {"query_id": "q-1", "masks": [toy_instance_rle("i-1")]},
        {"query_id": "q-8", "masks": [toy_rle("s-a", (25, 35, 30, 50))]},
    ]

    metrics = score(release, tmp_path, *records).metrics

    # six answerable queries with answers of 80, 60, 80, 34, 16, 200 px
    assert metrics["ma_iou"] == pytest.approx((60 / 80 + 100 / 300) / 6)
    assert metrics["ma_p"] == pytest.approx((1 + 0.5) / 6)
    assert metrics["ma_r"] == pytest.approx((60 / 80 + 0.5) / 6)
    assert metrics["mi_iou"] == pytest.approx(160 / (80 + 60 + 80 + 34 + 16 + 300))
    assert metrics["eqs"] == 2 / 8


@pytest.mark.parametrize(
    ("masks", "is_right"),
    [
        pytest.param([(10, 14, 3, 8), (2, 8, 3, 13)], True, id="other-order"),
        pytest.param([(2, 8, 3, 8), (10, 14, 3, 8)], True, id="iou-exactly-half"),
        pytest.param([(2, 8, 3, 7), (10, 14, 3, 8)], False, id="iou-below-half"),
        pytest.param([(2, 8, 3, 13)], False, id="one-missing"),
        pytest.param([(2, 8, 3, 13), (10, 14, 3, 8), (30, 31, 0, 1)], False, id="one-extra"),
        pytest.param([(2, 8, 3, 13), (2, 8, 3, 13)], False, id="same-twice"),
        pytest.param([(2, 14, 3, 13)], False, id="merged"),
    ],
)
def test_eqs_wants_every_instance_once(release: Release, tmp_path: Path, masks: list[tuple[int, int, int, int]], is_right: bool) -> None:
    records = with_record("q-1", masks=[toy_rle("s-a", rectangle) for rectangle in masks])

    assert score(release, tmp_path, *records).metrics["eqs"] == (8 if is_right else 7) / 8


def test_all_zero_masks_are_no_instances(release: Release, tmp_path: Path) -> None:
    records = with_record("q-3", masks=[toy_rle("s-a")])

    assert score(release, tmp_path, *records).metrics["eqs"] == 1.0


def test_anything_predicted_fails_an_unanswerable_query(release: Release, tmp_path: Path) -> None:
    metrics = score(release, tmp_path, *with_record("q-3", masks=[toy_rle("s-a", (39, 40, 59, 60))])).metrics

    assert metrics["eqs_unanswerable"] == 0.5
    assert metrics["rejection_accuracy"] == 0.5
    assert metrics["ma_iou"] == 1.0, "negative queries do not enter masked means"


@pytest.mark.parametrize("query_id", ["q-2", "q-3"], ids=["answerable", "unanswerable"])
@pytest.mark.parametrize("record", [{"unparsed": ""}, {"masks": [{"size": [40, 60], "counts": "1a"}]}], ids=["said-so", "bad-rle"])
def test_unparsed_fails_every_query(release: Release, tmp_path: Path, query_id: str, record: dict[str, Any]) -> None:
    report = score(release, tmp_path, *with_record(query_id, **record))

    assert report.metrics["eqs"] == 7 / 8
    assert report.metrics["unparsed_rate"] == 1 / 8
    assert report.metrics["rejection_accuracy"] == (1.0 if query_id == "q-2" else 0.5)
    assert report.metrics["ma_iou"] == (pytest.approx(5 / 6) if query_id == "q-2" else 1.0)
    assert sum(report.unparsed.values()) == 1


@pytest.mark.parametrize(
    ("rectangles", "is_right"),
    [
        pytest.param([(2, 8, 3, 13), (10, 14, 3, 8)], True, id="both"),
        pytest.param([(2, 8, 3, 8), (10, 12, 3, 8)], True, id="half-of-each"),
        pytest.param([(2, 8, 3, 13), (10, 12, 3, 7)], False, id="less-than-half-of-one"),
        pytest.param([(2, 8, 3, 13), (10, 14, 3, 8), (2, 4, 50, 55)], False, id="half-of-a-pond-too"),
        pytest.param([(2, 8, 3, 13), (10, 14, 3, 8), (2, 4, 50, 54), (16, 40, 0, 10)], True, id="clutter-and-a-region"),
    ],
)
def test_coverage_read_out_returns_instances_of_which_half_is_predicted(
    release: Release, tmp_path: Path, rectangles: list[tuple[int, int, int, int]], is_right: bool
) -> None:
    report = score(release, tmp_path, {"query_id": "q-1", "mask": toy_rle("s-a", *rectangles)}, modalities=("mask",))

    assert report.metrics["eqs_l1"] == pytest.approx((1 + is_right) / 3)


def test_any_foreground_of_a_mask_only_system_fails_an_unanswerable_query(release: Release, tmp_path: Path) -> None:
    report = score(release, tmp_path, {"query_id": "q-3", "mask": toy_rle("s-a", (39, 40, 59, 60))}, modalities=("mask",))

    assert report.metrics["eqs_unanswerable"] == 0.5


def test_tiers_levels_and_answerability_have_their_own_n(release: Release, tmp_path: Path) -> None:
    report = score(release, tmp_path, *TRUTH)

    assert {k: report.n[k] for k in report.n if k.startswith("eqs_l")} == {"eqs_l1": 3, "eqs_l2": 1, "eqs_l3": 2, "eqs_l4": 1, "eqs_l5": 1}
    assert [report.n[f"eqs_{tier}"] for tier in ("easy", "medium", "hard")] == [4, 1, 3]
    assert (report.n["eqs"], report.n["eqs_answerable"], report.n["eqs_unanswerable"]) == (8, 6, 2)
    assert report.n["counterfactual_consistency"] == 1


def test_what_is_undefined_is_null_with_a_reason_and_never_zero(release: Release, tmp_path: Path) -> None:
    report = score(release, tmp_path, protocol="scene-disjoint", split="test")

    assert (report.metrics["eqs_l5"], report.n["eqs_l5"]) == (None, 0)
    assert "level 5" in report.reasons["eqs_l5"]
    assert "declares no boxes" in report.reasons["hbb_p50_maxcard"]
    for metric_id, value in report.metrics.items():
        assert value is not None or report.reasons[metric_id], metric_id


def test_split_and_kind_select_queries(release: Release, tmp_path: Path) -> None:
    assert score(release, tmp_path, protocol="scene-disjoint", split="test").selection.n_queries == 3
    assert score(release, tmp_path, kind="category_absent").selection.n_queries == 1
    assert "protocol scene-disjoint, split test" in str(score(release, tmp_path, protocol="scene-disjoint", split="test").selection)
    empty = score(release, tmp_path, protocol="scene-disjoint", split="val")
    assert set(empty.metrics.values()) == {None}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"protocol": "depth", "split": "test"}, r"scene-disjoint \(test, train, val\)"),
        ({"protocol": "scene-disjoint", "split": "dev"}, "split 'dev'"),
        ({"protocol": "scene-disjoint"}, "a protocol needs a split"),
        ({"split": "test"}, "a split needs a protocol"),
        ({"kind": "hard"}, "answerable, category_absent, relation_unsatisfied"),
    ],
)
def test_unknown_selections_are_refused_with_what_there_is(release: Release, tmp_path: Path, how: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(release, tmp_path, **how)


def test_answers_without_masks_are_left_out_and_said_so(tmp_path: Path) -> None:
    release = Release.open(write_toy_release(tmp_path / "toy", without_rle=("i-3",)))

    report = score(release, tmp_path, *TRUTH)

    assert (report.metrics["eqs"], report.n["eqs"]) == (1.0, 7)
    assert "1 of 8 queries left out" in report.reasons["eqs"]
    assert report.metrics["eqs_l5"] is None
    with pytest.raises(ReleaseError, match="q-8"):
        predict_truth(release, tmp_path / "truth.jsonl")


def test_answers_given_as_boxes_only_make_eqs_null(tmp_path: Path) -> None:
    release = Release.open(write_toy_release(tmp_path / "toy", QUERIES[-1:], without_rle=("i-3",)))

    report = score(release, tmp_path)

    assert report.metrics["eqs"] is None
    assert report.metrics["ma_iou"] is None
    assert "no masks" in report.reasons["eqs"]


def test_boxes_are_pooled_over_answerable_queries(release: Release, tmp_path: Path) -> None:
    # answers: 2 + 1 + 2 + 2 + 1 + 1 = 9 boxes; predicted: two right ones and one at IoU 0.5 exactly on q-8, one wrong on q-2
    records = [
        {"query_id": "q-1", "boxes": [[3, 10, 8, 14], [3, 2, 13, 8]]},
        {"query_id": "q-2", "boxes": [[50, 30, 55, 35]]},
        {"query_id": "q-3", "boxes": [[0, 0, 1, 1]]},
        {"query_id": "q-8", "boxes": [[30, 20, 50, 25]]},
    ]

    report = score(release, tmp_path, *records, modalities=("boxes",))

    assert report.metrics["hbb_p50_maxcard"] == 3 / 4
    assert report.metrics["hbb_r50_maxcard"] == 3 / 9
    assert report.metrics["hbb_f1_50_maxcard"] == report.metrics["hbb_f1_50_hungarian"] == report.metrics["hbb_f1_50_greedy"] == 6 / 13
    assert report.counts["hbb_50_maxcard"] == {"tp": 3, "fp": 1, "fn": 6}
    assert report.metrics["hbb_f1_50_95_maxcard"] == pytest.approx((6 / 13 + 9 * 4 / 13) / 10)
    assert report.metrics["rejection_accuracy"] == 0.5, "a box on a negative query is something predicted"
    assert report.metrics["eqs"] is None
    assert report.metrics["obb_p50_maxcard"] is None
    assert "neither masks nor mask" in report.reasons["eqs"]
    assert report.n["hbb_p50_maxcard"] == 6


def test_oriented_boxes_are_scored_as_polygons(release: Release, tmp_path: Path) -> None:
    turned = [[50, 20, 50, 30, 30, 30, 30, 20]]  # i-3 from another corner

    report = score(release, tmp_path, {"query_id": "q-8", "obbs": turned}, modalities=("obbs",))

    assert (report.metrics["obb_p50_maxcard"], report.metrics["obb_r50_maxcard"]) == (1.0, 1 / 9)


def test_no_predicted_box_at_all_is_zero_not_null(release: Release, tmp_path: Path) -> None:
    report = score(release, tmp_path, modalities=("boxes", "obbs"))

    assert {value for metric_id, value in report.metrics.items() if metric_id.startswith(("hbb", "obb"))} == {0.0}


def test_paraphrases_are_scored_apart_and_only_when_given(release: Release, tmp_path: Path) -> None:
    right = TRUTH[0]

    without = score(release, tmp_path, *TRUTH)
    partly = score(release, tmp_path, *TRUTH, {**right, "sentence": 1})
    fully = score(release, tmp_path, *TRUTH, {**right, "sentence": 1}, {**right, "sentence": 2})

    assert without.metrics["eqs_paraphrases"] is None
    assert (partly.metrics["eqs_paraphrases"], partly.metrics["paraphrase_consistency"]) == (0.5, None)
    assert "every one of its several sentences" in partly.reasons["paraphrase_consistency"]
    assert {fully.metrics[name] for name in ("eqs_paraphrases", "paraphrase_consistency", "paraphrase_all_right")} == {1.0}
    assert fully.n["paraphrase_consistency"] == 1
    assert without.metrics["eqs"] == partly.metrics["eqs"] == 1.0


def test_references_are_those_worked_out_by_hand(release: Release, tmp_path: Path) -> None:
    references = score(release, tmp_path).references

    # exact: q-1, q-4? houses and the school are buildings (no), q-5 (no pond), q-6, q-8; not q-2, q-3, q-7
    assert references["category_union"]["eqs"] == 4 / 8
    # q-2 (i-1), q-5, q-8
    assert references["largest"]["eqs"] == 3 / 8
    # the house nearest to the centre (30, 20) of s-a is i-2 (5.5, 12) at 25.8 px, not i-1 (8, 5) at 26.6; of s-b (10, 12) it is i-6
    assert references["nearest_to_centre"]["eqs"] == 2 / 8
    assert references["silent"]["eqs"] == 2 / 8
    assert references["category_union"]["ma_iou"] == pytest.approx((1 + 60 / 80 + 80 / 280 + 1 + 16 / 34 + 1) / 6)


def test_references_score_as_their_masks_would(release: Release, tmp_path: Path) -> None:
    """The set algebra of the references against the general scorer."""
    records = [
        {"query_id": q.query_id, "masks": [toy_instance_rle(row.instance_id) for row in members_of(release, q)]} for q in release.queries
    ]

    report = score(release, tmp_path, *records)

    expected = report.references["category_union"]
    assert {k: v for k, v in report.metrics.items() if k in expected} == pytest.approx(expected)


def test_random_reference_is_drawn_by_the_query_id_alone(release: Release) -> None:
    members = members_of_all(release, release.queries)

    forwards = reference_outcomes(release, release.queries, members)["random_one"]
    backwards = reference_outcomes(release, release.queries[::-1], members)["random_one"]

    assert forwards == backwards


def test_members_follow_the_taxonomy(release: Release) -> None:
    assert [row.instance_id for row in members_of(release, release.query("q-4"))] == ["i-1", "i-2", "i-3"]


def test_a_region_answer_is_scored_by_its_mask(tmp_path: Path) -> None:
    release = Release.open(
        write_toy_release(tmp_path / "toy", [toy_query(1, "s-a", None, "road", ["i-9"], ["the road"], form="referring")])
    )

    report = score(release, tmp_path, {"query_id": "q-1", "masks": [toy_instance_rle("i-9")]})

    assert report.metrics["ma_iou"] == 1.0
    assert report.references["category_union"]["ma_iou"] == 0.0


def test_choice_and_text_queries_are_not_scored_by_masks(tmp_path: Path) -> None:
    queries = [QUERIES[0], toy_query(2, "s-a", None, "house", ["i-1"], ["how many?"], form="choice")]
    release = Release.open(write_toy_release(tmp_path / "toy", queries))

    report = score(release, tmp_path, TRUTH[0])

    assert (report.metrics["eqs"], report.n["eqs"]) == (1.0, 1)
    assert report.selection.left_out == {"choice": 1}


def test_report_says_everything_in_json_markdown_and_on_the_terminal(release: Release, tmp_path: Path) -> None:
    report = score(release, tmp_path, *TRUTH[1:], {"query_id": "q-99"}, protocol="scene-disjoint", split="train")

    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(report.to_table())
    text = console.export_text()

    assert list(data["metrics"]) == [metric.metric_id for metric in METRICS]
    assert set(data["n"]) == set(data["metrics"])
    assert data["problems"][0]["query_id"] == "q-99"
    assert set(data["references"]) == {"category_union", "largest", "nearest_to_centre", "random_one", "silent"}
    for page in (text, report.to_markdown()):
        assert "protocol scene-disjoint, split train" in page
        assert "5 queries (4 answerable) in 1 scenes" in page
        assert "category_union" in page
        assert "q-99" in page


def test_toy_rectangles_do_not_overlap() -> None:
    """The hand-worked numbers above count on it."""
    for scene_id in ("s-a", "s-b"):
        boxes = [r for owner, _, r in RECTANGLES.values() if owner == scene_id]
        for k, (a0, a1, a2, a3) in enumerate(boxes):
            assert all(a1 <= b0 or b1 <= a0 or a3 <= b2 or b3 <= a2 for b0, b1, b2, b3 in boxes[k + 1 :])


RECTANGLE = st.tuples(st.integers(0, 18), st.integers(1, 14), st.integers(0, 18), st.integers(1, 14)).map(
    lambda v: (v[0], v[0] + v[1], v[2], v[2] + v[3])
)


@given(st.lists(RECTANGLE, max_size=3))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scores_of_any_masks_are_those_of_their_pixels(
    release: Release, tmp_path: Path, rectangles: list[tuple[int, int, int, int]]
) -> None:
    answers = [toy_mask("s-a", RECTANGLES[i][2]) for i in ("i-1", "i-2")]
    masks = [toy_mask("s-a", rectangle) for rectangle in rectangles]
    overlap = [[(m & a).sum() / (m | a).sum() for a in answers] for m in masks]
    is_right = len(masks) == 2 and any(overlap[0][k] >= 0.5 and overlap[1][1 - k] >= 0.5 for k in (0, 1))
    predicted, answer = np.logical_or.reduce([toy_mask("s-a"), *masks]), answers[0] | answers[1]

    metrics = score(release, tmp_path, *with_record("q-1", masks=[toy_rle("s-a", rectangle) for rectangle in rectangles])).metrics

    assert metrics["eqs_answerable"] == (5 + is_right) / 6
    assert metrics["ma_iou"] == pytest.approx((5 + (predicted & answer).sum() / (predicted | answer).sum()) / 6)
    assert metrics["ma_p"] == pytest.approx((5 + (predicted & answer).sum() / max(1, predicted.sum())) / 6)
    assert metrics["ma_r"] == pytest.approx((5 + (predicted & answer).sum() / answer.sum()) / 6)
