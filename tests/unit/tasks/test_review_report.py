"""`trigpoint review --report` on a small build, from nobody's decision to a published release."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from storage.ledger import LedgerFile
from tasks.workspace import Workspace
from tests.tiny_project import make_project
from tests.unit.tasks.test_build import build
from tests.unit.tasks.test_review import decide, ledger_of, mask_items, shifted
from trigpoint.cli import app
from trigpoint.records.review import MaskValue
from trigpoint.release.reader import Release
from trigpoint.review.ledger import ReviewItem
from trigpoint.review.policy import is_sampled

POLICY = {"policy": "annotator+manager", "sample_share": 0.3}


def told(config: Path, *options: str) -> Result:
    result = CliRunner().invoke(app, ["review", str(config), "--report", *options], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.stderr
    return result


def report_of(config: Path) -> dict[str, Any]:
    return json.loads(told(config, "--json").stdout)


def approve(ledger: LedgerFile, item: ReviewItem, who: str = "bo") -> None:
    decide(ledger, item, "accept", who=who, role="manager")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One source, two scenes, a spot check of three in ten."""
    path = make_project(tmp_path_factory.mktemp("report"), review=POLICY)
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    source = {**data["sources"][0], "scenes": {"grid": {"sizes_px": [240]}}}
    path.write_text(yaml.safe_dump({**data, "sources": [source]}), encoding="utf-8")
    return path


def test_a_report_follows_a_review_from_the_first_look_to_the_release(config: Path) -> None:
    items = mask_items(config)
    seed, rule = Workspace(config).config.seed, Workspace(config).config.review
    drawn = [item for item in items if is_sampled(item.item_id, rule, seed)]
    scenes = sorted({item.scene_id for item in items})
    beside = next(item for item in items if item not in drawn)
    assert 6 < len(drawn) < len(items)

    before = report_of(config)
    assert [(row["scene_id"], row["kind"]) for row in before["progress"]] == [(scene_id, "mask") for scene_id in scenes]
    assert sum(row["items"] for row in before["progress"]) == len(items)
    assert sum(row["waiting"] for row in before["progress"]) == len(drawn)
    assert sum(row["waits_for"]["annotator"] for row in before["progress"]) == len(drawn)
    assert before["changed"] == {}
    assert before["spot_check"] == {"mask": {"drawn": len(drawn), "decided": 0, "wrong": 0, "share": None, "interval": None}}
    assert (before["without_effect"], before["damaged"]) == ([], [])

    ledger = ledger_of(config)
    edited, rejected, *right = drawn
    assert isinstance(edited.value, MaskValue)
    decide(ledger, edited, "edit", after=MaskValue(mask=shifted(edited.value.mask, 1), category=edited.value.category))
    approve(ledger, edited)
    for item in right:
        decide(ledger, item, "accept")
    waits = [row["waits_for"] for row in report_of(config)["progress"]]  # the annotator is through, but for one
    assert (sum(each.get("annotator", 0) for each in waits), sum(each.get("manager", 0) for each in waits)) == (1, len(right) + 1)
    assert "Scenes that wait for people" in told(config).stdout
    for item in right:
        approve(ledger, item)
    decide(ledger, rejected, "reject", who="bo", role="manager")
    decide(ledger, beside, "reject", who="bo", role="manager")

    after = report_of(config)
    n, found = len(drawn), after["spot_check"]["mask"]
    assert (found["drawn"], found["decided"], found["wrong"], found["share"]) == (n, n, 2, round(2 / n, 4))
    assert 0 < found["interval"][0] < 2 / n < found["interval"][1] < 1
    rates = after["changed"]["mask"]
    assert (rates["seen"], rates["changed"], rates["rejected"], rates["changed_or_removed"]) == (n + 1, 1, 2, 3)
    annotators, managers = rates["by_role"]["annotator"], rates["by_role"]["manager"]
    assert (annotators["seen"], annotators["changed"], annotators["removed"]) == (n - 1, 1, 0)
    assert (managers["seen"], managers["changed"], managers["removed"]) == (n + 1, 0, 2)
    assert sum(row["approved"] for row in after["progress"]) == len(items) - 2

    text = told(config).stdout
    assert "2 of 2 scenes are decided" in text
    assert "Scenes that wait for people" not in text
    assert f"3 ({300 / (n + 1):.1f} %)" in text
    assert "Spot checks, of the drawn items alone" in text
    assert "ada and bo" in text

    one = json.loads(told(config, "--json", "--scene", scenes[0]).stdout)
    assert [row["scene_id"] for row in one["progress"]] == scenes[:1]

    assert build(config).findings == []
    release = Release.open(config.parent / "release")
    assert release.manifest["review"]["spot_check"] == after["spot_check"]
    assert release.manifest["review"]["changed"] == after["changed"]
    card = (release.folder / "README.md").read_text(encoding="utf-8")
    low, high = (100 * end for end in found["interval"])
    assert f"| mask | {n} | {n} | 2 ({200 / n:.1f} %) | {low:.1f} to {high:.1f} % |" in card
    assert f"| mask, managers | {n + 1} | 0 (0.0 %) | 2 | 2 ({200 / (n + 1):.1f} %) |" in card


def test_what_has_no_effect_and_what_cannot_be_read_is_told(config: Path) -> None:
    item = mask_items(config)[0]
    gone = decide(ledger_of(config), item._replace(item_id="i-0000000000000000", scene_id="s-0000000000000000"), "reject", who="dee")
    path = ledger_of(config).path
    path.write_bytes(path.read_bytes() + b'{"sha256":"no line of ours"}\n')

    found = report_of(config)

    assert [one["decision_id"] for one in found["without_effect"]] == [gone.decision_id]
    (damaged,) = found["damaged"]
    assert f"{path}:" in damaged
    said = told(config).stderr
    assert "no effect: 1, since what they are about is no longer there" in said
    assert f"reject {gone.item_id} (dee)" in said
    assert f"cannot be used, so that their decisions do not count: 1: {damaged}" in said

    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        page = CliRunner().invoke(app, ["review", str(config), "--no-build", "--no-open", "--port", port])
    assert page.exit_code == 2  # the page comes no further than to its door, after it has told the same
    assert "no effect: 1" in page.stderr
    assert f"do not count: 1: {damaged}" in page.stderr


def test_a_report_builds_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["review", str(make_project(tmp_path)), "--report"])

    assert result.exit_code == 2
    assert "step 'collect' has to be done first" in result.stderr
    assert result.stdout == ""


def test_json_is_for_reports(config: Path) -> None:
    result = CliRunner().invoke(app, ["review", str(config), "--json", "--no-open"])

    assert result.exit_code == 2
    assert "--json goes with --report" in result.stderr
