"""Counterfactual pairs, paraphrases, presence, macro means, and the parts of a selection."""

from pathlib import Path
from typing import Any

import pytest

from tests.toy_release import QUERIES, toy_instance_rle, toy_query, toy_rle, write_lines, write_toy_release
from trigpoint.release.reader import Release
from trigpoint.scoring.baselines import predict_silence, predict_truth
from trigpoint.scoring.metrics import METRICS, has_relation
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.report import ScoreReport, score_release

NEAR = {"op": "rel", "of": {"op": "cat", "category": "house"}, "relation": "near", "anchor": {"op": "cat", "category": "school"}}

FORMS = [
    toy_query(1, "s-a", None, "house", ["i-1", "i-2"], ["house"], form="vocabulary", annotation_id="a-houses"),
    toy_query(2, "s-a", None, "house", ["i-1", "i-2"], ["the houses in the west"], form="referring", annotation_id="a-houses"),
    toy_query(3, "s-a", None, "house", ["i-1", "i-2"], ["where people live"], form="referring", annotation_id="a-houses"),
    toy_query(4, "s-a", None, "school", ["i-3"], ["school"], form="vocabulary", annotation_id="a-school"),
    toy_query(5, "s-a", None, "school", ["i-3"], ["where children learn"], form="reasoning", annotation_id="a-school"),
    toy_query(6, "s-a", None, "road", [], ["river"], form="vocabulary", annotation_id=None),
    toy_query(7, "s-b", None, "pond", [], ["pond"], form="vocabulary", annotation_id=None),
]
"""Two annotations: the houses (80 px) asked for three times, the school (200 px) twice; two negative phrases."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(write_toy_release(tmp_path_factory.mktemp("toy")))


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(write_toy_release(tmp_path_factory.mktemp("forms"), FORMS))


def score(release: Release, tmp_path: Path, *records: dict[str, Any], modalities: tuple[str, ...] = ("masks",)) -> ScoreReport:
    return score_release(release, read_predictions(write_lines(tmp_path / "p.jsonl", *records, modalities=modalities), release))


def give(query_id: str, *instance_ids: str, **more: Any) -> dict[str, Any]:
    return {"query_id": query_id, "masks": [toy_instance_rle(i) for i in instance_ids], **more}


# counterfactual pairs: q-3 asks for nothing, q-4 for i-1 and i-2


@pytest.mark.parametrize(
    ("records", "consistency", "same"),
    [
        pytest.param([give("q-4", "i-1", "i-2")], 1.0, 0.0, id="both-right"),
        pytest.param([], 0.0, 1.0, id="nothing-twice"),
        pytest.param([give("q-3", "i-2", "i-1"), give("q-4", "i-1", "i-2")], 0.0, 1.0, id="one-answer-twice"),
        pytest.param([give("q-3", "i-3"), give("q-4", "i-1", "i-2")], 0.0, 0.0, id="two-answers"),
        pytest.param([give("q-4", "i-1")], 0.0, 0.0, id="half-an-answer"),
        pytest.param([{"query_id": "q-3", "unparsed": ""}, {"query_id": "q-4", "unparsed": ""}], 0.0, 0.0, id="unreadable-twice"),
    ],
)
def test_counterfactual_pairs(release: Release, tmp_path: Path, records: list[dict[str, Any]], consistency: float, same: float) -> None:
    report = score(release, tmp_path, *records)

    assert report.metrics["counterfactual_consistency"] == consistency
    assert report.metrics["counterfactual_same_answer"] == same
    assert report.n["counterfactual_same_answer"] == 1


def test_one_answer_to_both_is_seen_in_mask_only_systems(release: Release, tmp_path: Path) -> None:
    houses, house = (toy_rle("s-a", *r) for r in ([(2, 8, 3, 13), (10, 14, 3, 8)], [(10, 14, 3, 8)]))

    twice = score(release, tmp_path, {"query_id": "q-3", "mask": houses}, {"query_id": "q-4", "mask": houses}, modalities=("mask",))
    differing = score(release, tmp_path, {"query_id": "q-3", "mask": house}, {"query_id": "q-4", "mask": houses}, modalities=("mask",))

    assert twice.metrics["counterfactual_same_answer"] == 1.0
    assert differing.metrics["counterfactual_same_answer"] == 0.0


def test_without_pairs_counterfactual_scores_are_null(tmp_path: Path) -> None:
    alone = [{**query, "counterfactual_of": None} for query in QUERIES[:2]] + [{**QUERIES[2], "counterfactual_of": "q-99"}]
    report = score(Release.open(write_toy_release(tmp_path / "toy", alone)), tmp_path)

    for metric_id in ("counterfactual_consistency", "counterfactual_same_answer"):
        assert report.metrics[metric_id] is None
        assert report.reasons[metric_id] == "the selection has no counterfactual pair"


# paraphrases: q-1 has three sentences


@pytest.mark.parametrize(
    ("answers", "consistency", "all_right"),
    [
        pytest.param([["i-1", "i-2"]] * 3, 1.0, 1.0, id="all-right"),
        pytest.param([["i-1", "i-2"], ["i-1"], ["i-1", "i-2"]], 0.0, 0.0, id="one-wrong"),
        pytest.param([["i-1"], [], ["i-4"]], 1.0, 0.0, id="all-wrong"),
    ],
)
def test_paraphrases_agree_or_are_all_right(
    release: Release, tmp_path: Path, answers: list[list[str]], consistency: float, all_right: float
) -> None:
    report = score(release, tmp_path, *(give("q-1", *ids, sentence=k) for k, ids in enumerate(answers)))

    assert (report.metrics["paraphrase_consistency"], report.metrics["paraphrase_all_right"]) == (consistency, all_right)
    assert report.n["paraphrase_consistency"] == 1


def test_a_query_without_a_record_for_its_first_sentence_does_not_count_for_agreement(release: Release, tmp_path: Path) -> None:
    report = score(release, tmp_path, *(give("q-1", "i-1", "i-2", sentence=k) for k in (1, 2)))

    assert report.metrics["eqs_paraphrases"] == 1.0
    assert report.metrics["paraphrase_consistency"] is None


def test_an_unparsed_sentence_is_wrong_but_given(release: Release, tmp_path: Path) -> None:
    records = [give("q-1", "i-1", "i-2"), give("q-1", "i-1", "i-2", sentence=1), {"query_id": "q-1", "sentence": 2, "unparsed": ""}]

    assert score(release, tmp_path, *records).metrics["paraphrase_consistency"] == 0.0


# presence: vocabulary queries q-1 and q-4 positive, q-6 and q-7 negative


def test_presence_is_the_correlation_over_vocabulary_queries(forms: Release, tmp_path: Path) -> None:
    report = score(forms, tmp_path, give("q-1", "i-4"), give("q-4"), give("q-6", "i-4"), give("q-2", "i-1"))

    # q-1 present, rightly; q-4 missed; q-6 a false one; q-7 rightly absent
    assert report.counts["presence"] == {"tp": 1, "fp": 1, "fn": 1, "tn": 1}
    assert (report.metrics["presence_mcc"], report.n["presence_mcc"]) == (0.0, 4)


def test_any_declared_modality_makes_a_query_present(forms: Release, tmp_path: Path) -> None:
    box = {"boxes": [[0, 0, 5, 5]]}

    report = score(forms, tmp_path, {"query_id": "q-1", **box}, give("q-4", "i-3"), modalities=("masks", "boxes"))

    assert report.metrics["presence_mcc"] == 1.0


def test_unparsed_is_the_wrong_answer_to_presence(forms: Release, tmp_path: Path) -> None:
    report = score(forms, tmp_path, *({"query_id": q, "unparsed": ""} for q in ("q-1", "q-6")), give("q-4", "i-3"))

    assert report.counts["presence"] == {"tp": 1, "fp": 1, "fn": 1, "tn": 1}


def test_presence_with_one_class_alone_is_null(forms: Release, tmp_path: Path) -> None:
    report = score(forms, tmp_path)

    assert report.counts["presence"] == {"tp": 0, "fp": 0, "fn": 2, "tn": 2}
    assert report.metrics["presence_mcc"] is None
    assert report.reasons["presence_mcc"].startswith("undefined")


def test_truth_scores_the_best_in_every_metric_of_a_release_with_forms(forms: Release, tmp_path: Path) -> None:
    predict_truth(forms, tmp_path / "truth.jsonl")
    predict_silence(forms, tmp_path / "silence.jsonl")

    truth, silence = (score_release(forms, read_predictions(tmp_path / f"{name}.jsonl", forms)) for name in ("truth", "silence"))

    assert {m.metric_id for m in METRICS if truth.metrics[m.metric_id] not in (m.best, None)} == set()
    assert truth.metrics["presence_mcc"] == truth.metrics["annotation_macro_iou"] == 1.0
    assert silence.metrics["eqs"] == 2 / 7
    assert silence.metrics["annotation_macro_iou"] == silence.metrics["category_macro_iou"] == 0.0


# means over annotations and categories, and forms


def test_macro_means_weigh_annotations_and_categories_alike(forms: Release, tmp_path: Path) -> None:
    # IoU: q-1 1, q-2 60/80, q-3 0; q-4 and q-5 1
    report = score(forms, tmp_path, give("q-1", "i-1", "i-2"), give("q-2", "i-1"), give("q-4", "i-3"), give("q-5", "i-3"))

    houses = (1 + 60 / 80 + 0) / 3
    assert report.metrics["ma_iou"] == pytest.approx((3 * houses + 2) / 5)
    assert report.metrics["annotation_macro_iou"] == pytest.approx((houses + 1) / 2)
    assert report.metrics["category_macro_iou"] == pytest.approx((houses + 1) / 2)
    # eqs: houses 1 of 3, school 2 of 2, road and pond (asked for in vain) 1 of 1
    assert report.metrics["eqs_category_macro"] == pytest.approx((1 / 3 + 1 + 1 + 1) / 4)
    assert report.categories["road"] == {"n": 1, "eqs": 1.0, "n_answerable": 0, "iou": None}


def test_forms_are_compared_on_the_annotations_they_share(forms: Release, tmp_path: Path) -> None:
    report = score(forms, tmp_path, give("q-1", "i-1", "i-2"), give("q-2", "i-1"), give("q-5", "i-3"))

    referring = {"forms": ["referring", "vocabulary"], "n_annotations": 1, "iou": [60 / 80 / 2, 1.0], "eqs": [0.0, 1.0]}
    reasoning = {"forms": ["reasoning", "vocabulary"], "n_annotations": 1, "iou": [1.0, 0.0], "eqs": [1.0, 0.0]}
    assert report.contrasts == [reasoning, referring], "no annotation has both a reasoning and a referring query"
    assert "referring – vocabulary | 1 | 37.5 | 100.0 | -62.5" in report.to_markdown()


def test_programs_have_no_forms_to_contrast(release: Release, tmp_path: Path) -> None:
    assert score(release, tmp_path).contrasts == []


# near and far, and what makes a query hard


def test_near_is_found_at_any_depth_of_a_program() -> None:
    hop = {"op": "rel", "of": {"op": "cat"}, "relation": "north_of", "anchor": {"op": "and", "args": [{"op": "cat"}, NEAR]}}

    assert has_relation(hop, ("near", "far"))
    assert not has_relation({"op": "nearest", "of": {"op": "cat", "category": "near"}, "anchor": {"op": "cat"}}, ("near", "far"))
    assert not has_relation(None, ("near", "far"))


def test_queries_with_near_are_left_out_of_the_score_without_them(tmp_path: Path) -> None:
    release = Release.open(write_toy_release(tmp_path / "toy", [QUERIES[0], {**QUERIES[1], "program": NEAR}]))

    report = score(release, tmp_path, give("q-1", "i-1", "i-2"))

    assert (report.metrics["eqs"], report.metrics["eqs_without_near_far"], report.n["eqs_without_near_far"]) == (0.5, 1.0, 1)


def test_hardness_counts_answerable_queries_by_candidates_and_area(release: Release, tmp_path: Path) -> None:
    report = score(release, tmp_path, give("q-1", "i-1", "i-2"), give("q-8", "i-3"))

    # answers of 80, 60, 80, 200 of 2400 pixels (q-1, q-2, q-4, q-8) and 34, 16 of 480 (q-6, q-7); no category has five members
    # shares 0.033, 0.025, 0.033, 0.083, 0.071, 0.033: small q-1, q-2, q-4, q-7 (a tie), large q-6 and q-8
    first, *others = report.hardness["rows"]
    assert first["candidates"] == [0, 4]
    assert first["all"] == {"n": 6, "eqs": 2 / 6}
    assert first["small"] == {"n": 4, "eqs": 1 / 4}
    assert first["medium"] == {"n": 0, "eqs": None}
    assert first["large"] == {"n": 2, "eqs": 1 / 2}
    assert all(row["all"] == {"n": 0, "eqs": None} for row in others)


def test_hardness_of_nothing_has_no_limits(tmp_path: Path) -> None:
    report = score(Release.open(write_toy_release(tmp_path / "toy", [QUERIES[4]])), tmp_path)

    assert report.hardness["area_limits"] is None
    assert "no answerable query to score" in report.to_markdown()
