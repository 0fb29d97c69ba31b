"""The desk of a real build, and the command that serves it."""

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from tasks.builds import conclude, run_stage
from tasks.desk import WorkspaceDesk, results_for_review, stages_before_review
from tasks.engine import start_build
from tasks.workspace import Workspace
from tests.tiny_project import ROOT, make_project
from trigpoint.cli import app
from trigpoint.errors import InputError
from trigpoint.records.review import MaskValue, SentenceValue
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
    with pytest.raises(InputError, match="review needs stage 'collect' first: 2 of 2 items are new or changed"):
        results_for_review(Workspace(make_project(tmp_path)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "give --token with a secret of your own"),
        (["--host", "example.org"], "give --token with a secret of your own"),
        (["--host", "0.0.0.0", "--token", "short"], "--token has 5 characters, expected at least 16"),
        (["--who", "ada", "--role", "boss"], "annotator, manager or expert"),
        (["--who", " "], "expected a name of 1 to 64 characters"),
        (["--scene", "s-nowhere"], "there is no scene 's-nowhere' here"),
    ],
    ids=["all addresses", "a name", "short token", "role", "name", "scene"],
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
