"""Analyses of prediction files on the toy release, their pages and their plots."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.toy_release import LANGUAGE, toy_instance_rle, toy_rle, write_toy_release
from trigpoint.analysis.analyse import Analysis, AnalysisSettings, analyse
from trigpoint.analysis.material import from_predictions
from trigpoint.analysis.plots import draw_analysis
from trigpoint.cli import app
from trigpoint.errors import InputError

SETTINGS = AnalysisSettings(sizes=(1, 2, 50), draws=60, resamples=200)


def submission(folder: Path, name: str, answers: dict[int, list[dict[str, Any]]]) -> Path:
    lines: list[dict[str, Any]] = [{"submission": {"name": name, "modalities": ["masks"], "space": "pixel"}}]
    lines += [{"query_id": f"q-{number}", "masks": masks} for number, masks in answers.items()]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def truth(*numbers: int) -> dict[int, list[dict[str, Any]]]:
    answers = {int(query["query_id"][2:]): query["answer_ids"] for query in LANGUAGE}
    return {number: [toy_instance_rle(i) for i in answers[number]] for number in numbers}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_release(tmp_path_factory.mktemp("language"), LANGUAGE)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """`names` knows names, `places` where things are, `halves` gives half of every house; `words` answers vocabulary alone."""
    folder = tmp_path_factory.mktemp("predictions")
    half = toy_rle("s-a", (2, 8, 3, 13))
    return [
        submission(folder, "names", {**truth(11, 12, 21, 31, 41, 22), 14: []}),
        submission(folder, "places", {**truth(14, 33, 43, 11, 15), 21: []}),
        submission(folder, "halves", {number: [half] for number in (11, 12, 14, 15)}),
        submission(folder, "words", truth(11, 31)),
    ]


@pytest.fixture(scope="module")
def analysis(release: Path, files: list[Path]) -> Analysis:
    return analyse(from_predictions(release, files), SETTINGS)


def test_scores_are_those_of_the_report_in_per_cent(analysis: Analysis) -> None:
    scores = analysis.material.scores

    assert {model: row["Q"] for model, row in scores["vocabulary"].items()} == pytest.approx(
        {"names": 100.0, "places": 20.0, "halves": 100 * 2 * 0.75 / 5, "words": 40.0}
    )
    assert scores["vocabulary"]["names"]["MCC"] == 1.0
    assert scores["referring"]["places"]["Q"] == 100.0


def test_a_model_without_a_record_for_a_form_was_not_run_on_it(analysis: Analysis) -> None:
    assert list(analysis.material.scores["referring"]) == ["names", "places", "halves"]
    assert list(analysis.material.scores["reasoning"]) == ["names", "places", "halves"]
    assert analysis.material.notes == [
        "words has no record for any referring query and is left out there",
        "words has no record for any reasoning query and is left out there",
    ]


def test_contrasts_are_on_shared_annotations_the_later_form_first(analysis: Analysis) -> None:
    rows = {row[0]: row for row in analysis.page.table("contrasts").rows}

    assert list(rows) == ["reasoning − referring", "reasoning − vocabulary", "referring − vocabulary"]
    # names 0 against 100, places 100 against 25, halves 25 against 37.5
    assert rows["referring − vocabulary"][1:3] == (3, 3)
    assert rows["referring − vocabulary"][4:6] == (1, 2)


def test_subsets_are_smaller_than_the_number_of_categories(analysis: Analysis) -> None:
    rows = analysis.page.table("category_subsets").rows

    assert {(row[0], row[1]) for row in rows} == {("vocabulary", 1), ("vocabulary", 2), ("referring", 1), ("reasoning", 1)}


def test_targets_stand_side_by_side(analysis: Analysis) -> None:
    rows = {row[:3]: row[3:] for row in analysis.page.table("targets").rows}

    assert rows["vocabulary", "not instanceable", "words"] == (1, 1, 100.0)
    assert rows["vocabulary", "instanceable", "words"] == (4, 3, 25.0)


def test_plots_are_pictures_with_the_same_bytes_every_time(analysis: Analysis, tmp_path: Path) -> None:
    first, second = (draw_analysis(analysis, tmp_path / name) for name in ("first", "second"))

    assert [path.stem for path in first] == ["aggregation", "contrasts", "category_subsets", "targets", "correlations"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        with Image.open(one) as picture:
            assert picture.size[0] > 500
            assert "Software" not in picture.info


def test_two_submissions_of_one_name_are_refused(release: Path, files: list[Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(files[0].read_bytes())

    with pytest.raises(InputError, match="two prediction files are called 'names'"):
        from_predictions(release, [files[0], copy])


def test_the_command_line_writes_every_kind_of_page(release: Path, files: list[Path], tmp_path: Path) -> None:
    how = ["--draws", "20", "--resamples", "50", "--size", "1", "--markdown", str(tmp_path / "a.md"), "--csv", str(tmp_path / "csv")]

    told = CliRunner().invoke(app, ["analyse", str(release), *map(str, files), "--json", "-", *how])

    assert told.exit_code == 0, told.output
    page = json.loads(told.stdout)
    assert page["aggregation"]["rows"][0]["form"] == "vocabulary"
    assert page["category_subsets"]["rows"][0]["categories"] == 1
    assert "| vocabulary | 4 |" in (tmp_path / "a.md").read_text()
    assert (tmp_path / "csv" / "contrasts.csv").read_text().startswith("contrast,n_models,n_annotations,rho")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param([], "one of the two", id="nothing"),
        pytest.param(["RELEASE"], "no prediction file", id="no-predictions"),
        pytest.param(["RELEASE", "--table", "t.csv"], "one of the two", id="both"),
        pytest.param(["--table", "t.csv", "--split", "test"], "published scores have none", id="split"),
        pytest.param(["--table", "t.csv", "--draws", "0"], "draws is 0", id="draws"),
        pytest.param(["--table", "t.csv", "--json", "-", "--markdown", "-"], "both write", id="two-outputs"),
    ],
)
def test_what_cannot_be_analysed_is_refused(release: Path, arguments: list[str], told: str) -> None:
    found = CliRunner().invoke(app, ["analyse", *(str(release) if a == "RELEASE" else a for a in arguments)])

    assert found.exit_code == 2
    assert told in found.stderr
