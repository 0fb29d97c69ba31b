"""A reviewer's morning on real data, in a real browser; then the build is run, and the release has exactly what was decided."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from playwright.sync_api import Page, expect

from storage.ledger import LedgerFile
from tasks.builds import conclude, run_stage
from tasks.desk import WorkspaceDesk, stages_before_review
from tasks.engine import start_build
from tasks.stages import STAGES
from tasks.workspace import Workspace
from tests.browser.conftest import OpenPage
from tests.review_desk import Served, served
from trigpoint.masks.crops import crop_of_record
from trigpoint.masks.rle import decode_rle
from trigpoint.records.review import Decision, MaskValue
from trigpoint.release.reader import Release
from trigpoint.review.ledger import Ledger, version_of

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "banepa"


def _absolute(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _absolute(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_absolute(v, key) for v in value]
    return str((EXAMPLE / value).resolve()) if key in ("path", "taxonomy") and isinstance(value, str) else value


def _project(folder: Path) -> Path:
    """A town and a woodland of the sample release, one small scene each; one person must accept everything."""
    config = _absolute(yaml.safe_load((EXAMPLE / "release.yaml").read_text(encoding="utf-8")))
    town, wood = config["sources"][:2]
    town["scenes"] = {"windows": [[0, 0, 448, 448]]}
    config["sources"] = [town, wood]
    config["review"] = {"policy": "single"}
    config["query"] = {"certificate_jitters": 2}
    config["run"] = {"output": str(folder / "release"), "work": str(folder / "work"), "workers": 1}
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def _desk(config: Path) -> WorkspaceDesk:
    workspace = Workspace(config)
    run = start_build(workspace, "review")
    for stage in stages_before_review():
        run_stage(run, stage)
    conclude(run, is_whole=False)
    return WorkspaceDesk(workspace, run.done)


class Morning(NamedTuple):
    """What there is when the reviewer comes: the town's masks were accepted yesterday, so that it has sentences."""

    config: Path
    served: Served
    ledger: LedgerFile
    n_before: int
    town: str
    wood: str


@pytest.fixture(scope="module")
def morning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Morning]:
    config = _project(tmp_path_factory.mktemp("morning"))
    desk = _desk(config)
    town, wood = (next(scene.scene_id for scene in desk.scenes if scene.source == name) for name in ("banepa", "neon-osbs"))
    for item in desk.items:
        if item.scene_id == town:
            said = {"item_id": item.item_id, "kind": "mask", "scene_id": town, "action": "accept", "who": "Mia", "role": "manager"}
            desk.ledger.append(Decision.model_validate({**said, "version": version_of(item.value)}))
    desk = _desk(config)
    ledger = desk.ledger
    with served(desk) as page:
        yield Morning(config, page, ledger, len(ledger.refresh()), town, wood)
    ledger.close()


def _current(page: Page) -> str:
    return str(page.locator(".item.current").get_attribute("data-id"))


def _screen(page: Page, point: tuple[float, float]) -> tuple[float, float]:
    """Where a point of the scene is on the screen."""
    box = page.locator(".pane canvas").first.bounding_box()
    assert box is not None
    x, y = page.evaluate("async (p) => (await import('/static/viewer.js')).mainPane().toScreen(p)", list(point))
    return box["x"] + x, box["y"] + y


def _drag(page: Page, start: tuple[float, float], by: tuple[float, float]) -> None:
    x, y = _screen(page, start)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by[0], y + by[1], steps=4)
    page.mouse.up()


def _vertices(page: Page) -> list[list[list[float]]]:
    found: list[list[list[float]]] = page.evaluate("async () => (await import('/static/editor.js')).editing.after")
    return found


def _saved(page: Page) -> None:
    expect(page.locator("#connection")).to_have_text("All saved")


def test_a_morning_of_review_and_the_build_after_it(morning: Morning, open_page: OpenPage) -> None:
    done: list[tuple[str, str, str]] = []
    page = open_page(morning.served.link(), "Ada")

    # ten crowns are good
    page.get_by_label("Kind").select_option("mask")
    expect(page.locator(".pill.me b")).to_have_text("48")
    page.locator(".item").first.click()
    for _ in range(10):
        done.append(("Ada", _current(page), "accept"))
        page.keyboard.press("a")
        expect(page.locator(f"[data-id={done[-1][1]}]")).to_have_count(0)
    _saved(page)
    expect(page.locator(".pill.me b")).to_have_text("38")

    # the last was hasty
    page.keyboard.press("u")
    _saved(page)
    done.append(("Ada", done[-1][1], "undo"))
    expect(page.locator(".pill.me b")).to_have_text("39")
    assert _current(page) == done[-1][1]

    # and goes back, with a reason
    page.keyboard.press("r")
    page.get_by_label("Reason").fill("Half of the crown is missing")
    page.keyboard.press("Enter")
    _saved(page)
    done.append(("Ada", done[-1][1], "return"))

    # two people on one crown: Ben is faster
    item_id = _current(page)
    other = open_page(morning.served.link(), "Ben", "manager")
    other.get_by_label("Search the queue").fill(item_id)
    other.keyboard.press("Enter")
    expect(other.locator("#inspector .id")).to_have_text(item_id)
    page.route("**/api/queue*", lambda route: route.abort())  # Ada's page hears nothing of it
    other.keyboard.press("x")
    other.get_by_role("button", name="Nothing is there").click()
    _saved(other)
    done.append(("Ben", item_id, "reject"))
    page.keyboard.press("a")
    expect(page.locator("#connection")).to_contain_text("1 decision not taken")
    page.unroute("**/api/queue*")
    page.get_by_label("Search the queue").fill(item_id)
    page.locator(".pill.all").click()
    page.locator(f"[data-id={item_id}]").click()
    expect(page.get_by_role("alert")).to_contain_text("Ben (manager) decided to reject it")
    page.get_by_role("button", name="Discard mine").click()
    _saved(page)
    page.get_by_role("button", name="clear filters").click()

    # a corner of a building in the town, with a reload in the middle
    page.evaluate("async (id) => (await import('/static/queue.js')).setFilter({ scene: id, kind: 'mask' })", morning.town)
    page.locator(".item", has_text="building").first.click()
    building = _current(page)
    page.wait_for_timeout(100)
    page.keyboard.press("z")
    page.keyboard.press("e")
    expect(page.locator("#editbar")).to_contain_text("will be stored")
    corner = _vertices(page)[0][0]
    _drag(page, (corner[0], corner[1]), (-14, -12))
    expect(page.locator("#editbar")).to_contain_text("+")
    after = _vertices(page)
    assert after[0][0] != corner
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert _current(page) == building
    expect(page.locator("#editbar")).to_contain_text("will be stored")
    assert _vertices(page) == after
    page.keyboard.press("Control+z")
    assert _vertices(page)[0][0] == corner
    page.keyboard.press("Control+y")
    assert _vertices(page) == after
    page.keyboard.press("Enter")
    _saved(page)
    expect(page.locator("#editbar")).to_be_hidden()
    done.append(("Ada", building, "edit"))

    # a sentence in other words; one that the ground contradicts cannot be saved
    page.evaluate("async (id) => (await import('/static/queue.js')).setFilter({ scene: id, kind: 'referring' })", morning.town)
    page.locator(".item").first.click()
    page.wait_for_timeout(100)
    page.keyboard.press("e")
    page.get_by_label("Sentence").fill("the trees that stand in the picture")
    expect(page.locator("#inspector")).to_contain_text("It cannot be saved while the ground contradicts it.")
    expect(page.locator("#inspector").get_by_role("button", name="Save")).to_be_disabled()
    page.keyboard.press("Escape")
    page.evaluate("async (id) => (await import('/static/queue.js')).setFilter({ scene: id, kind: 'reasoning' })", morning.town)
    page.locator(".item").first.click()
    sentence = _current(page)
    page.wait_for_timeout(100)
    page.keyboard.press("e")
    page.get_by_label("Sentence").fill("whatever keeps the rain off people here")
    expect(page.locator("#inspector").get_by_role("button", name="Save")).to_be_enabled()
    page.keyboard.press("Enter")
    _saved(page)
    done.append(("Ada", sentence, "edit"))

    # the ledger has exactly that
    decisions = list(morning.ledger.records())[morning.n_before :]
    assert [(one["who"], one["item_id"], one["action"]) for one in decisions] == done
    assert decisions[11]["reason"] == "Half of the crown is missing"

    # and so has the release: the town as edited; the woodland is held back, since crowns of it wait
    workspace = Workspace(morning.config)
    run = start_build(workspace, "build")
    for stage in STAGES:
        run_stage(run, stage)
    report = conclude(run)
    assert (report.state, report.findings) == ("done", [])
    release = Release.open(workspace.config.run.output)
    assert [row["scene_id"] for row in release.scenes.to_pylist()] == [morning.town]
    edited = next(one for one in decisions if one["item_id"] == building)
    value = MaskValue.model_validate(edited["after"])
    row = next(row for row in release.instances.to_pylist() if row["instance_id"] == building)
    crop = crop_of_record(value.mask, 448, 448)
    mask = decode_rle(row["rle"], (448, 448))
    assert mask[crop.slices][crop.mask].all()  # what a person drew owns what it shares
    assert row["area_px"] == crop.area_px
    lines = (workspace.config.run.output / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    said = [text for line in lines for text in json.loads(line)["sentences"]]
    assert "whatever keeps the rain off people here" in said
    assert _sentence_is_decided(Ledger(Decision.model_validate(_plain(one)) for one in morning.ledger.records()), sentence)


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in ("decision_id", "decided_at")}


def _sentence_is_decided(ledger: Ledger, item_id: str) -> bool:
    newest = ledger.newest(item_id)
    return newest is not None and newest.action == "edit"
