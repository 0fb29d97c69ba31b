import io
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.toy_release import QUERIES, toy_instance_rle, toy_query, write_lines, write_toy_release
from trigpoint.errors import InputError
from trigpoint.scoring.comparison import Comparison, Settings
from trigpoint.scoring.report import ScoreReport
from trigpoint.scoring.scorecard import score_files
from trigpoint.scoring.statistics import bootstrap_shares, holm, two_sided_p

NEAR = {"op": "rel", "of": {"op": "cat", "category": "house"}, "relation": "near", "anchor": {"op": "cat", "category": "school"}}

MANY = [
    toy_query(k, scene, 3, category, [instance], ["one"], **({"program": NEAR} if k % 4 == 0 else {}))
    for k, (scene, category, instance) in enumerate(
        [("s-a", "house", "i-1"), ("s-a", "house", "i-2"), ("s-a", "school", "i-3"), ("s-b", "house", "i-5"), ("s-b", "house", "i-6")] * 4
    )
]
"""Twenty queries in two scenes, of two categories; q-0, q-4, … q-16 ask for something near."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_release(tmp_path_factory.mktemp("many"), MANY)


def write_system(path: Path, right: set[int]) -> Path:
    """A system that answers the queries of these numbers and has nothing for the others."""
    records = [{"query_id": f"q-{k}", "masks": [toy_instance_rle(i) for i in MANY[k]["answer_ids"]]} for k in sorted(right)]
    write_lines(path, *records)
    text = path.read_text().replace('"name": "toy"', f'"name": "{path.stem}"', 1)
    path.write_text(text)
    return path


def compare(folder: Path, tmp_path: Path, *systems: set[int], settings: Settings | None = None) -> Comparison:
    files = [write_system(tmp_path / f"{chr(97 + k)}.jsonl", right) for k, right in enumerate(systems)]
    compared = score_files(folder, files, settings=settings)
    assert isinstance(compared, Comparison)
    return compared


def test_one_file_gives_a_report_and_several_a_comparison(folder: Path, tmp_path: Path) -> None:
    files = [write_system(tmp_path / f"{name}.jsonl", {1, 2}) for name in "ab"]

    assert isinstance(score_files(folder, files[:1]), ScoreReport)
    compared = score_files(folder, files)
    assert isinstance(compared, Comparison)
    assert compared.labels == ["a", "b"]
    assert [report.metrics for report in compared.reports] == [compared.reports[0].metrics] * 2


def test_submissions_stand_by_eqs_and_equals_share_a_rank(folder: Path, tmp_path: Path) -> None:
    compared = compare(folder, tmp_path, {1}, set(range(20)), set(range(10)), set(range(10, 20)))

    assert [(s.label, s.rank, s.eqs) for s in compared.standings] == [("b", 1, 1.0), ("c", 2, 0.5), ("d", 2, 0.5), ("a", 4, 0.05)]
    assert (compared.standings[0].low, compared.standings[0].high) == (1.0, 1.0)
    assert compared.standings[1].low is not None
    assert compared.standings[1].low <= 0.5


def test_pairs_are_tested_on_the_same_draws_of_scenes(folder: Path, tmp_path: Path) -> None:
    systems = [set(range(20)), set(range(0, 20, 2)), {1, 2, 3}]
    settings = Settings(resamples=500, significance=0.1, seed=3)
    scene = [query["scene_id"] for query in MANY]
    hits = np.array([[sum(k in right and scene[k] == s for k in range(20)) for right in systems] for s in ("s-a", "s-b")])
    shares = bootstrap_shares(hits, np.array([12, 8]), 500, 3)
    p_values = [two_sided_p(shares[:, i] - shares[:, j]) for i, j in combinations(range(3), 2)]

    compared = compare(folder, tmp_path, *systems, settings=settings)

    assert [(pair.first, pair.second) for pair in compared.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [pair.p for pair in compared.pairs] == p_values
    assert [pair.p_holm for pair in compared.pairs] == holm(p_values)
    assert [pair.difference for pair in compared.pairs] == pytest.approx([0.5, 0.85, 0.35])
    assert compared.n_separated == sum(p <= 0.1 for p in holm(p_values)) == 3
    assert compared.largest_unseparated is None


def test_equal_systems_are_not_separated_and_opposite_ones_neither(folder: Path, tmp_path: Path) -> None:
    in_a, in_b = ({k for k in range(20) if MANY[k]["scene_id"] == scene} for scene in ("s-a", "s-b"))

    compared = compare(folder, tmp_path, in_a, in_a, in_b)

    assert compared.pairs[0].p == compared.pairs[0].p_holm == 1.0
    assert (compared.n_separated, compared.largest_unseparated) == (0, pytest.approx(0.2))


def test_the_same_seed_gives_the_same_report_and_another_another(folder: Path, tmp_path: Path) -> None:
    in_a = {k for k in range(20) if MANY[k]["scene_id"] == "s-a"}

    def report(seed: int) -> Any:
        return compare(folder, tmp_path, in_a, set(range(20)) - in_a, settings=Settings(200, 0.05, seed)).to_json()

    assert report(1) == report(1)
    assert report(1)["comparison"]["pairs"] != report(2)["comparison"]["pairs"]


def test_too_few_resamples_are_said(folder: Path, tmp_path: Path) -> None:
    compared = compare(folder, tmp_path, set(), {1}, set(range(20)), settings=Settings(resamples=50))

    assert compared.n_separated == 0
    assert compared.remarks == ["50 resamples can separate none of 3 pairs, their p-values are too coarse; give 119 or more"]
    assert compare(folder, tmp_path, set(), set(range(20)), {1}, settings=Settings(resamples=119)).remarks == []


def test_one_scene_has_no_test_and_no_interval(tmp_path: Path) -> None:
    folder = write_toy_release(tmp_path / "one", MANY[:3])

    compared = compare(folder, tmp_path, {1}, {1, 2})

    assert (compared.pairs, compared.n_separated, compared.standings[0].low) == ([], None, None)
    assert compared.pairs_reason == "the scored queries lie in 1 scene(s), resampling scenes needs two"
    assert "resampling scenes needs two" in compared.to_markdown()


def test_a_submission_without_masks_is_not_ranked(folder: Path, tmp_path: Path) -> None:
    boxes = write_lines(tmp_path / "boxes.jsonl", modalities=("boxes",))

    compared = score_files(folder, [write_system(tmp_path / "a.jsonl", {1}), boxes])

    assert isinstance(compared, Comparison)
    assert [standing.label for standing in compared.standings] == ["a"]
    assert compared.left_out == {"toy": "the submission declares neither masks nor mask"}
    assert compared.pairs_reason == "1 submission(s) have an EQS, a pair needs two"
    assert compared.agreement["ma_iou"].kendall_tau is None
    assert "toy is not ranked" in compared.to_markdown()


def test_no_submission_with_masks_at_all_is_no_failure(folder: Path, tmp_path: Path) -> None:
    files = [write_lines(tmp_path / f"{name}.jsonl", modalities=("boxes",)) for name in "ab"]

    compared = score_files(folder, files)

    assert isinstance(compared, Comparison)
    assert (compared.standings, compared.n_separated, compared.n_scenes) == ([], None, 0)
    assert json.loads(json.dumps(compared.to_json(), allow_nan=False))["comparison"]["pairs_reason"]
    assert compared.to_markdown()


def test_rankings_are_compared_by_tau_and_spearman(folder: Path, tmp_path: Path) -> None:
    # by EQS a > b > c. Without near (queries not divisible by 4): a 3, b 4, c 2 of 15
    near = set(range(0, 20, 4))
    systems = [near | {1, 2, 3}, {0, 5, 6, 7, 9}, {10, 11}]

    compared = compare(folder, tmp_path, *systems)

    assert [standing.label for standing in compared.standings] == ["a", "b", "c"]
    without = compared.agreement["eqs_without_near_far"]
    assert (without.kendall_tau, without.spearman, without.n) == (pytest.approx(1 / 3), pytest.approx(0.5), 3)
    assert compared.agreement["ma_iou"].kendall_tau == 1.0, "every query is right or empty here"


def test_stability_leaves_out_one_category_at_a_time(folder: Path, tmp_path: Path) -> None:
    schools, houses = ({k for k in range(20) if MANY[k]["category"] == [c]} for c in ("school", "house"))
    # a has all 4 schools and 2 houses, b 5 houses: with schools a leads, without b
    compared = compare(folder, tmp_path, schools | set(sorted(houses)[:2]), set(sorted(houses)[:5]))

    assert compared.stability.taus == {"house": 1.0, "school": -1.0}
    assert (compared.stability.lowest, compared.stability.mean, compared.stability.reason) == (-1.0, 0.0, None)


def test_stability_is_null_with_its_reason(folder: Path, tmp_path: Path) -> None:
    equal = compare(folder, tmp_path, {1}, {3})
    single = compare(write_toy_release(tmp_path / "houses", MANY[:2]), tmp_path, {0}, {0, 1})

    assert equal.stability.taus == {"house": None, "school": None}
    assert equal.stability.reason == "one of the scores is the same for all"
    assert single.stability.reason == "the scored queries name 1 category(ies), leaving one out needs two"


def test_files_of_one_name_are_told_apart_and_one_file_twice_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files = [write_system(tmp_path / "a.jsonl", {1}), write_system(tmp_path / "other" / "a.jsonl", {2})]

    compared = score_files(folder, files)

    assert isinstance(compared, Comparison)
    assert compared.labels == [f"a ({files[0]})", f"a ({files[1]})"]
    with pytest.raises(InputError, match=r"a\.jsonl' is given twice"):
        score_files(folder, [files[0], tmp_path / "other" / ".." / "a.jsonl"])
    with pytest.raises(InputError, match="no prediction file"):
        score_files(folder, [])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(resamples=0), "resamples is 0"),
        (Settings(significance=0), "significance is 0"),
        (Settings(significance=5), "between 0 and 1"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(folder: Path, tmp_path: Path, settings: Settings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_files(folder, [write_system(tmp_path / "a.jsonl", {1})], settings=settings)


def test_pages_show_all_of_it(tmp_path: Path) -> None:
    folder = write_toy_release(tmp_path / "toy")
    answers = {query["query_id"]: [toy_instance_rle(i) for i in query["answer_ids"]] for query in QUERIES}
    good = write_lines(tmp_path / "good.jsonl", *({"query_id": k, "masks": v} for k, v in answers.items()), {"query_id": "q-99"})
    poor = write_lines(tmp_path / "poor.jsonl", {"query_id": "q-1", "masks": answers["q-2"]})

    compared = score_files(folder, [poor, good])

    assert isinstance(compared, Comparison)
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(compared.to_table())
    for page in (console.export_text(), compared.to_markdown()):
        for text in (
            "2 submissions on toy 1", "8 queries (6 answerable) in 2 scenes", "(category_union)", "Ranking by EQS",
            "95 % bootstrap interval",
            "1 of 1 pairs are separated at 0.05 after Holm's correction", "Kendall's tau-b", "eqs_without_near_far", "false alarm",
            "good.jsonl) (1)", "q-99: unknown_query",
        ):  # fmt: skip
            assert text in page, text
    markdown = compared.to_markdown()
    for text in ("Ranking by EQS without one category", "| paraphrase_consistency |", "sibling: points at as many instances", "Undefined"):
        assert text in markdown
    assert all(line.count("|") == 0 or line.startswith("|") for line in markdown.splitlines())
    assert set(json.loads(json.dumps(compared.to_json(), allow_nan=False))) == {"reports", "comparison"}


def test_names_are_never_read_as_markup_or_as_table_cells(folder: Path, tmp_path: Path) -> None:
    file = write_system(tmp_path / "a.jsonl", {1})
    file.write_text(file.read_text().replace('"name": "a"', '"name": "[red]x|y"'))

    report = score_files(folder, [file])

    console = Console(width=140, record=True, file=io.StringIO())
    console.print(report.to_table())
    assert "[red]x|y" in console.export_text()
    assert "| [red]x\\|y |" in report.to_markdown()
