"""The desk of a real build, and the command that serves it."""

import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from typer.testing import CliRunner

from tasks.builds import conclude, run_stage
from tasks.desk import WorkspaceDesk, results_for_review, stages_before_review
from tasks.engine import start_build
from tasks.exchange import open_exchange
from tasks.last_build import digests_of_beginnings, last_build
from tasks.workspace import Workspace
from tests.tiny_project import ROOT, make_project
from trigpoint.cli import app
from trigpoint.errors import InputError
from trigpoint.identity import digest_json
from trigpoint.records.review import Decision, MaskValue, SentenceValue
from trigpoint.review.ledger import version_of
from trigpoint.review.page_board import Board


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny project, built up to its sentences."""
    path = make_project(tmp_path_factory.mktemp("desk"), language={"forms": ["vocabulary", "referring", "reasoning"]})
    run = start_build(Workspace(path), "review")
    for stage in stages_before_review():
        run_stage(run, stage)
    conclude(run, is_whole=False)
    return path


@pytest.fixture
def desk(config: Path) -> Iterator[WorkspaceDesk]:
    workspace = Workspace(config)
    opened = WorkspaceDesk(workspace, results_for_review(workspace))
    yield opened
    opened.ledger.close()


def test_a_desk_has_every_mask_and_every_sentence_that_people_decide_about(desk: WorkspaceDesk) -> None:
    scenes = {scene.scene_id: scene for scene in desk.scenes}

    assert len(scenes) == 5
    masks = [item for item in desk.items if isinstance(item.value, MaskValue)]
    sentences = [item for item in desk.items if isinstance(item.value, SentenceValue)]
    assert len(masks) > 60
    assert {item.kind for item in sentences} >= {"vocabulary", "referring", "negative"}
    assert {item.scene_id for item in desk.items} <= set(scenes)
    for item in sentences:
        known = {one.item_id for one in masks if one.scene_id == item.scene_id}
        assert set(desk.sentence(item.item_id).instance_ids) <= known


def test_a_text_is_held_against_the_scene(desk: WorkspaceDesk) -> None:
    item = next(item for item in desk.items if item.kind == "referring")
    assert isinstance(item.value, SentenceValue)

    assert desk.check(item.item_id, item.value.text).verdict == desk.sentence(item.item_id).checked.verdict
    wrong = desk.check(item.item_id, "the lighthouse")
    assert wrong.verdict == "contradicted"
    assert any("does not say" in claim.measured for claim in wrong.claims)


def test_every_pixel_of_a_small_scene_is_in_its_picture(desk: WorkspaceDesk) -> None:
    picture = desk.picture(desk.scenes[0].scene_id)

    assert (picture.media_type, picture.scale) == ("image/png", 1.0)
    assert picture.data.startswith(b"\x89PNG")


def test_one_scene_alone_can_be_opened_and_an_unknown_one_is_named(config: Path) -> None:
    workspace = Workspace(config)
    done = results_for_review(workspace)
    wanted = WorkspaceDesk(workspace, done).scenes[1].scene_id

    desk = WorkspaceDesk(workspace, done, [wanted])

    assert [scene.scene_id for scene in desk.scenes] == [wanted]
    assert {item.scene_id for item in desk.items} == {wanted}
    with pytest.raises(InputError, match="no scene 's-nowhere' here; the first are s-"):
        WorkspaceDesk(workspace, done, ["s-nowhere"])


def test_the_catalogue_is_free_while_the_page_is_open(config: Path, desk: WorkspaceDesk) -> None:
    Board(desk)

    duckdb.connect(str(Workspace(config).work / "catalogue.duckdb"), read_only=False).close()


def test_without_a_build_the_missing_stage_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="step 'collect' has to be done first: 2 of 2 items are new or changed"):
        results_for_review(Workspace(make_project(tmp_path)))
    with pytest.raises(InputError, match="step 'collect' has to be done first"):
        last_build(Workspace(tmp_path / "release.yaml"))


@pytest.fixture
def copied(config: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(config.parent, tmp_path / "project")) / config.name


def decided(desk: WorkspaceDesk) -> list[str]:
    """Three decisions on masks of one scene and one on another's; ids of the masks, the first of them edited."""
    scenes = [scene.scene_id for scene in desk.scenes if any(item.scene_id == scene.scene_id for item in desk.items)][:2]
    masks = [[item for item in desk.items if item.scene_id == scene and isinstance(item.value, MaskValue)] for scene in scenes]
    chosen = [*masks[0][:3], masks[1][0]]
    for k, item in enumerate(chosen):
        said = {"item_id": item.item_id, "kind": "mask", "scene_id": item.scene_id, "action": "accept", "who": "Ada", "role": "annotator"}
        if k == 0:
            after = item.value.model_copy(update={"category": ("tree",)}).to_json()
            said |= {"action": "edit", "before": item.value.to_json(), "after": after}
        assert desk.ledger.append(Decision.model_validate({**said, "version": version_of(item.value)}))
    return [item.item_id for item in chosen]


def test_after_decisions_on_masks_the_page_opens_again_without_a_build(copied: Path) -> None:
    workspace = Workspace(copied)
    before = WorkspaceDesk(workspace, results_for_review(workspace))
    edited, *_ = decided(before)
    n_runs = len(workspace.catalogue.list_runs())

    with pytest.raises(InputError, match="step 'annotate' has to be done first: 2 of 5 items"):
        results_for_review(workspace)
    found = last_build(workspace)

    assert found.remarks == ("sentences were checked before 4 later decision(s) on masks; a build checks them again",)
    desk = WorkspaceDesk(workspace, found.done)
    assert sorted(desk.items) == sorted(before.items)
    sentence = next(item for item in desk.items if item.kind == "referring")
    assert desk.check(sentence.item_id, "the lighthouse").verdict == "contradicted"
    assert Board(desk).detail(edited)["value"]["category"] == ["tree"]
    assert len(workspace.catalogue.list_runs()) == n_runs
    assert {state.item for state in open_exchange(workspace).states.values()} == {i for i in desk.items if i.kind == "mask"}
    result = CliRunner().invoke(app, ["review", str(copied), "--no-open", "--no-build", "--scene", "s-nowhere"])
    assert "checked before 4 later decision(s)" in result.stderr
    assert "there is no scene 's-nowhere' here" in result.stderr


def test_decisions_that_a_build_knew_are_not_counted_as_later(copied: Path) -> None:
    workspace = Workspace(copied)
    desk = WorkspaceDesk(workspace, results_for_review(workspace))
    decided(desk)
    run = start_build(workspace, "review")
    for stage in stages_before_review():
        run_stage(run, stage)
    conclude(run, is_whole=False)
    item = next(item for item in desk.items if isinstance(item.value, MaskValue) and not desk.ledger.refresh().newest(item.item_id))
    said = {"item_id": item.item_id, "kind": "mask", "scene_id": item.scene_id, "version": version_of(item.value), "reason": "doubt"}
    desk.ledger.append(Decision.model_validate({**said, "action": "reject", "who": "Ben", "role": "expert"}))

    found = last_build(workspace)

    assert found.remarks == ("sentences were checked before 1 later decision(s) on masks; a build checks them again",)
    newest = {result.item_id: result.content_sha256 for result in run.done["annotate"]}
    assert {result.item_id: result.content_sha256 for result in found.done["annotate"]} == newest


def test_masks_can_be_decided_about_where_a_build_has_the_sentences_to_do(copied: Path) -> None:
    settings = yaml.safe_load(copied.read_text(encoding="utf-8"))
    settings["language"]["forms"] = ["vocabulary"]
    settings["rules"] = {"min_instance_px": 60}
    copied.write_text(yaml.safe_dump(settings), encoding="utf-8")
    workspace = Workspace(copied)

    found = last_build(workspace)

    [remark] = found.remarks
    assert remark.startswith("5 scene(s) have no sentences here, since a build has work to do on them first: s-")
    desk = WorkspaceDesk(workspace, found.done)
    assert {item.kind for item in desk.items} == {"mask"}
    assert len(desk.items) > 60


@pytest.mark.parametrize("values", [[], [{"b": 1, "a": "é"}], [1, "x", {"y": [None, 2.5]}, []]])
def test_the_digest_of_every_beginning_is_that_of_the_list(values: list[Any]) -> None:
    assert digests_of_beginnings(values) == [digest_json(values[:n]) for n in range(len(values) + 1)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "give --token with a secret of your own"),
        (["--host", "example.org"], "give --token with a secret of your own"),
        (["--host", "0.0.0.0", "--token", "short"], "--token has 5 characters, expected at least 16"),
        (["--who", "ada", "--role", "boss"], "annotator, manager or expert"),
        (["--who", " "], "expected a name of 1 to 64 characters"),
        (["--public-url", "https://review.example.org/page"], "not below a path"),
        (["--scene", "s-nowhere"], "there is no scene 's-nowhere' here"),
    ],
    ids=["all addresses", "a name", "short token", "role", "name", "path", "scene"],
)
def test_what_cannot_be_served_is_refused(config: Path, options: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["review", str(config), "--no-open", "--no-build", *options])

    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_the_command_serves_its_link_until_it_is_stopped(config: Path) -> None:
    command = [sys.executable, "-m", "trigpoint", "review", str(config), "--port", "0", "--no-open", "--who", "Ada"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().strip()
            found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#token=[\w-]{32}", link)
            assert found is not None, link
            with urllib.request.urlopen(f"{found.group(1)}/", timeout=20) as answer:
                assert answer.status == 200
                assert b"trigpoint review" in answer.read()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()

    assert process.returncode == 0
    assert "Traceback" not in said
    assert "decisions.jsonl" in said


def test_behind_a_proxy_the_link_has_its_name(config: Path) -> None:
    command = [sys.executable, "-m", "trigpoint", "review", str(config), "--port", "0", "--no-open", "--no-build"]
    public = ["--public-url", "https://review.example.org"]
    with subprocess.Popen([*command, *public], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().strip()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()

    assert re.fullmatch(r"https://review\.example\.org/#token=[\w-]{32}", link) is not None, link
    assert re.search(r"passes it on to\s+127\.0\.0\.1:\d+", said) is not None, said
