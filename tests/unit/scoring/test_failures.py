from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.toy_release import QUERIES, toy_instance_rle, toy_query, toy_rle, write_lines, write_toy_release
from trigpoint.release.reader import Release
from trigpoint.scoring.failures import FAILURES, Failure, is_drift_of_cover, kind_of_choice
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.report import score_release

I1, I2, I3, POND = (2, 8, 3, 13), (10, 14, 3, 8), (20, 30, 30, 50), (2, 6, 50, 55)
Rectangle = tuple[int, int, int, int]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(write_toy_release(tmp_path_factory.mktemp("toy")))


def failure(release: Release, tmp_path: Path, query_id: str, **record: Any) -> str | None:
    """Kind of mistake of one query; all others have no record."""
    modality = "mask" if "mask" in record else "masks"
    file = write_lines(tmp_path / "p.jsonl", {"query_id": query_id, **record}, modalities=(modality,))
    return score_release(release, read_predictions(file, release)).failures.get(query_id)


def masks(*rectangles: Rectangle) -> list[dict[str, Any]]:
    return [toy_rle("s-a", rectangle) for rectangle in rectangles]


def test_every_kind_is_explained_once() -> None:
    assert tuple(FAILURES) == get_args(Failure)


# q-1 asks for both houses (i-1, i-2), q-2 for i-1 alone, q-4 for the buildings i-1 and i-2 of three, q-3 for nothing, q-8 for the school
@pytest.mark.parametrize(
    ("query_id", "rectangles", "kind"),
    [
        pytest.param("q-1", [I1, I2], None, id="right"),
        pytest.param("q-1", [(2, 8, 3, 7), I2], "boundary_drift", id="much-too-small"),
        pytest.param("q-1", [(0, 12, 0, 24), I2], "boundary_drift", id="much-too-large"),
        pytest.param("q-1", [(4, 10, 6, 16), I2], "other", id="shifted-off"),
        pytest.param("q-1", [(2, 8, 8, 18), I2], "boundary_drift", id="shifted-by-half"),
        pytest.param("q-1", [(2, 14, 3, 13)], "boundary_drift", id="merged"),
        pytest.param("q-1", [(2, 8, 3, 8), (2, 8, 8, 13), I2], "boundary_drift", id="split"),
        pytest.param("q-1", [I1], "subset", id="one-missing"),
        pytest.param("q-1", [I1, (30, 35, 0, 5)], "other", id="one-missing-one-on-nothing"),
        pytest.param("q-1", [I1, I2, POND], "superset", id="a-pond-too"),
        pytest.param("q-1", [I1, I2, (30, 35, 0, 5)], "superset", id="nothing-too"),
        pytest.param("q-1", [POND, I3], "other", id="wrong-category"),
        pytest.param("q-2", [I2], "sibling", id="other-house"),
        pytest.param("q-2", [I1, I2], "whole_category", id="all-houses"),
        pytest.param("q-2", [POND], "other", id="a-pond"),
        pytest.param("q-4", [I1, I2, I3], "whole_category", id="all-buildings"),
        pytest.param("q-4", [I1, I3], "sibling", id="as-many-buildings"),
        pytest.param("q-4", [I1, I2, POND], "superset", id="right-and-a-pond"),
        pytest.param("q-4", [I3], "other", id="fewer-and-wrong"),
        pytest.param("q-4", [], "empty", id="nothing"),
        pytest.param("q-3", [I1], "false_alarm", id="of-nothing"),
        pytest.param("q-3", [], None, id="rightly-nothing"),
        pytest.param("q-8", [(30, 35, 0, 5)], "other", id="on-no-instance"),
    ],
)
def test_instance_masks_have_one_kind_of_mistake(
    release: Release, tmp_path: Path, query_id: str, rectangles: list[Rectangle], kind: str | None
) -> None:
    assert kind == failure(release, tmp_path, query_id, masks=masks(*rectangles))


@pytest.mark.parametrize(
    ("query_id", "rectangles", "kind"),
    [
        pytest.param("q-1", [I1, I2], None, id="right"),
        pytest.param("q-1", [(2, 8, 3, 7), (10, 14, 3, 5)], "boundary_drift", id="two-fifths-of-each"),
        pytest.param("q-1", [I1, I2, (2, 6, 50, 53)], "boundary_drift", id="three-fifths-of-a-pond-too"),
        pytest.param("q-1", [I1, I2, POND], "superset", id="a-pond-too"),
        pytest.param("q-1", [I1, (10, 14, 3, 4)], "subset", id="a-fifth-of-the-other"),
        pytest.param("q-1", [(2, 8, 3, 4)], "subset", id="a-tenth-of-one"),
        pytest.param("q-2", [(2, 8, 3, 4)], "boundary_drift", id="a-tenth-of-the-answer"),
        pytest.param("q-2", [I2], "sibling", id="other-house"),
        pytest.param("q-4", [I1, I2, I3], "whole_category", id="all-buildings"),
        pytest.param("q-8", [(35, 40, 0, 5)], "other", id="on-no-instance"),
        pytest.param("q-3", [(39, 40, 0, 1)], "false_alarm", id="a-pixel-of-nothing"),
    ],
)
def test_one_mask_has_one_kind_of_mistake(
    release: Release, tmp_path: Path, query_id: str, rectangles: list[Rectangle], kind: str | None
) -> None:
    assert kind == failure(release, tmp_path, query_id, mask=toy_rle("s-a", *rectangles))


@pytest.mark.parametrize("query_id", ["q-1", "q-3"], ids=["answerable", "unanswerable"])
def test_unparsed_is_a_mistake_of_its_own(release: Release, tmp_path: Path, query_id: str) -> None:
    assert failure(release, tmp_path, query_id, unparsed="no") == "unparsed"


def test_a_region_can_be_pointed_at_only_where_the_answer_is_one(tmp_path: Path) -> None:
    road = [toy_instance_rle("i-9")]
    queries = [toy_query(1, "s-a", None, "road", ["i-9"], ["the road"], form="referring"), {**QUERIES[1], "query_id": "q-2"}]
    release = Release.open(write_toy_release(tmp_path / "toy", queries))

    assert failure(release, tmp_path, "q-1", masks=[toy_rle("s-a", (16, 18, 0, 20))]) == "boundary_drift"
    assert failure(release, tmp_path, "q-1", masks=[*road, *masks(I1)]) == "superset"
    assert failure(release, tmp_path, "q-2", masks=road) == "other"
    assert failure(release, tmp_path, "q-2", masks=[*masks(I1), *road]) == "superset"


def test_failed_queries_and_errors_add_up(release: Release, tmp_path: Path) -> None:
    records = [{"query_id": q["query_id"], "masks": [toy_instance_rle("i-1")]} for q in QUERIES if q["scene_id"] == "s-a"]

    report = score_release(release, read_predictions(write_lines(tmp_path / "p.jsonl", *records), release))

    assert sum(report.errors.values()) == len(report.failures) == sum(not is_right for is_right in report.eqs.values()) == 6
    # q-1 and q-4 lack i-2; q-3 asks for nothing; q-6 and q-7 have no record; q-8 is the school; q-2 and q-5 are right
    assert {kind: n for kind, n in report.errors.items() if n} == {"subset": 2, "false_alarm": 1, "empty": 2, "other": 1}
    assert report.reference_errors["silent"]["empty"] == 6
    assert report.reference_errors["category_union"] == {**dict.fromkeys(FAILURES, 0), "false_alarm": 1, "whole_category": 3}


SETS = st.sets(st.sampled_from("abcde"))


@given(SETS, st.sets(st.sampled_from("abcd"), min_size=1), SETS)
def test_a_choice_has_the_first_kind_whose_words_fit(chosen: set[str], answer: set[str], more: set[str]) -> None:
    category = answer | (more - {"e"})
    fits = {
        "boundary_drift": chosen == answer,
        "whole_category": bool(chosen) and chosen == category and answer != category,
        "subset": bool(chosen) and chosen != answer and chosen.issubset(answer),
        "superset": chosen != answer and answer.issubset(chosen) and chosen != category,
        "sibling": len(chosen) == len(answer) and chosen != answer and chosen.issubset(category),
    }

    assert kind_of_choice(chosen, answer, category) == next((kind for kind, is_so in fits.items() if is_so), "other")


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 20).map(lambda k: k / 20), min_size=1), st.data())
def test_drift_of_a_mask_is_a_read_out_threshold_between_a_quarter_and_three_quarters(covered: dict[str, float], data: Any) -> None:
    answer = data.draw(st.sets(st.sampled_from(sorted(covered)), min_size=1))
    thresholds = [0.25 + k / 80 for k in range(41)]  # finer than the shares

    expected = any({i for i, share in covered.items() if share >= threshold} == answer for threshold in thresholds)

    assert is_drift_of_cover(covered, answer, 0.5) == expected
