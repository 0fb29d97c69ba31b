"""The review page in a browser, on a made-up desk: every way to correct a mask, dropped connections, two people, hostile names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenPage
from tests.review_desk import MadeUpDesk, served

pytestmark = pytest.mark.browser

STEP = 60  # of the grid of boxes: 240 px, 4 on a side


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[MadeUpDesk]:
    made = MadeUpDesk(tmp_path)
    yield made
    made.ledger.close()


TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def at(page: Page, x: float, y: float) -> tuple[float, float]:
    page.evaluate(TWO_FRAMES)  # the picture may just be getting another size
    box = page.locator(".pane canvas").first.bounding_box()
    assert box is not None
    sx, sy = page.evaluate("async (p) => (await import('/static/viewer.js')).mainPane().toScreen(p)", [x, y])
    return box["x"] + sx, box["y"] + sy


def click(page: Page, x: float, y: float, **more: Any) -> None:
    page.mouse.click(*at(page, x, y), **more)


def drag(page: Page, start: tuple[float, float], end: tuple[float, float], button: str = "left") -> None:
    page.mouse.move(*at(page, *start))
    page.mouse.down(button=button)  # type: ignore[arg-type]
    page.mouse.move(*at(page, *end), steps=5)
    page.mouse.up(button=button)  # type: ignore[arg-type]


def open_mask(page: Page, row: int, col: int) -> str:
    """Open the mask in a place of the grid by a click in the picture."""
    click(page, col * STEP + 20, row * STEP + 20)
    expect(page.locator("#inspector h2")).to_be_visible()
    return page.locator("#inspector .id").inner_text()


def all_saved(page: Page) -> None:
    expect(page.locator("#editbar")).to_be_hidden()
    expect(page.locator("#connection")).to_have_text("All saved")


def said(desk: MadeUpDesk) -> list[dict[str, Any]]:
    return list(desk.ledger.records())


def test_a_mask_is_brushed_split_merged_drawn_and_renamed(desk: MadeUpDesk, open_page: OpenPage) -> None:
    with served(desk) as running:
        page = open_page(running.link())

        brushed = open_mask(page, 0, 0)
        area = running.board.detail(brushed)["value"]["area_px"]
        page.keyboard.press("b")
        expect(page.get_by_label("Brush size")).to_be_visible()
        drag(page, (20, 20), (20, 52))
        expect(page.locator("#editbar")).to_contain_text("+")
        page.keyboard.press("e")
        drag(page, (40, 10), (40, 14))
        page.keyboard.press("Control+z")
        page.keyboard.press("Enter")
        all_saved(page)
        assert running.board.detail(brushed)["value"]["area_px"] > area

        whole = open_mask(page, 1, 1)
        page.keyboard.press("s")
        click(page, STEP + 2, STEP + 25)
        click(page, 2 * STEP - 2, STEP + 27)
        page.keyboard.press("Enter")
        expect(page.locator("#editbar")).to_contain_text("2 pieces")
        page.keyboard.press("Enter")
        all_saved(page)
        assert running.board.detail(whole)["fate"] == "split"

        goes_on = open_mask(page, 2, 2)
        page.keyboard.down("Shift")
        click(page, 3 * STEP + 20, 2 * STEP + 20)
        page.keyboard.up("Shift")
        expect(page.locator("#inspector")).to_contain_text("1 neighbour chosen")
        page.keyboard.press("m")
        page.get_by_role("button", name="Merge Enter").click()
        all_saved(page)
        assert running.board.detail(goes_on)["history"][-1]["merged"] == 1

        renamed = open_mask(page, 3, 0)
        page.keyboard.press("c")
        page.get_by_label("Search categories").fill("temple")
        page.keyboard.press("Enter")
        all_saved(page)
        assert running.board.detail(renamed)["value"]["category"][0] == "temple"

        page.keyboard.press("Shift+N")
        for x, y in ((2, 232), (30, 232), (30, 238), (2, 238)):
            click(page, x, y)
        page.keyboard.press("Enter")
        expect(page.locator("#editbar")).to_contain_text("168 px will be stored")
        page.keyboard.press("Enter")
        page.get_by_label("Search categories").fill("tree")
        page.keyboard.press("Enter")
        all_saved(page)
        expect(page.locator("#inspector h2")).to_have_text("tree")

    assert [one["action"] for one in said(desk)] == ["edit", "split", "merge", "edit", "add"]


def test_a_mask_is_marked_as_one_that_cannot_be_told_apart(desk: MadeUpDesk, open_page: OpenPage) -> None:
    with served(desk) as running:
        page = open_page(running.link())
        item = open_mask(page, 0, 0)
        expect(page.locator("#inspector .facts")).not_to_contain_text("told apart")

        page.keyboard.press("t")
        expect(page.locator("#inspector .facts")).to_contain_text("cannot be told apart here: no boxes")
        all_saved(page)
        assert running.board.state(item).value.separable is False  # type: ignore[union-attr]

        # an edit of the outline keeps it, and the mark can be taken away in the editor
        page.keyboard.press("b")
        expect(page.get_by_label("Brush size")).to_be_visible()
        drag(page, (20, 20), (20, 52))
        page.keyboard.press("Enter")
        all_saved(page)
        assert running.board.state(item).value.separable is False  # type: ignore[union-attr]
        page.keyboard.press("e")
        expect(page.locator("#editbar")).to_contain_text("px will be stored; cannot be told apart")
        page.get_by_role("button", name="Cannot be told apart").click()
        expect(page.locator("#editbar")).not_to_contain_text("told apart")
        page.keyboard.press("Enter")
        all_saved(page)
        expect(page.locator("#inspector .facts")).not_to_contain_text("told apart")
        expect(page.locator(".history")).to_contain_text("cannot be told apart → can be told apart")

    after = [one["after"]["separable"] for one in said(desk)]
    assert after == [False, False, True]
    assert said(desk)[2]["after"]["mask"] == said(desk)[1]["after"]["mask"]


def test_rings_and_vertices_are_inserted_deleted_and_moved(desk: MadeUpDesk, open_page: OpenPage) -> None:
    with served(desk) as running:
        page = open_page(running.link())
        item = open_mask(page, 1, 2)
        before = running.board.detail(item)["value"]["area_px"]
        page.keyboard.press("z")
        page.keyboard.press("e")
        expect(page.locator("#editbar")).to_contain_text(f"{before:,} px will be stored")

        # a hole with the pen
        page.keyboard.press("p")
        left, top = 2 * STEP + 16, STEP + 14
        for x, y in ((left, top), (left + 8, top), (left + 8, top + 6), (left, top + 6)):
            click(page, x, y)
        page.keyboard.press("Enter")
        expect(page.locator("#editbar")).to_contain_text(f"{before - 48:,} px (−48) will be stored")

        # the whole hole, moved to the right, then deleted, and back
        click(page, left + 4, top + 3, click_count=2)
        drag(page, (left + 4, top + 3), (left + 9, top + 3))
        expect(page.locator("#editbar")).to_contain_text("(−48)")
        page.keyboard.press("Delete")
        expect(page.locator("#editbar")).to_contain_text(f"{before:,} px (+0)")
        page.keyboard.press("Control+z")
        expect(page.locator("#editbar")).to_contain_text("(−48)")

        # a vertex put into an edge and pulled out
        edge_y = running.board.detail(item)["outline"]["rings"][0][1]
        drag(page, (2 * STEP + 30, edge_y), (2 * STEP + 30, edge_y - 6))
        expect(page.locator("#editbar")).to_contain_text("px (+")
        page.keyboard.press("Enter")
        all_saved(page)

        [outline] = [one for one in running.board.outlines(desk.scenes[0].scene_id)["outlines"] if one["id"] == item]
        assert len(outline["rings"]) == 2


def test_nothing_is_lost_and_nothing_counts_twice_when_the_connection_drops(desk: MadeUpDesk, open_page: OpenPage) -> None:
    with served(desk) as running:
        page = open_page(running.link())
        page.route("**/api/decisions", lambda route: route.abort())
        page.get_by_label("Kind").select_option("mask")
        page.locator(".item").first.click()

        for n in range(3):
            page.keyboard.press("a")
            expect(page.locator("#connection")).to_have_text(f"Offline: {n + 1} kept here")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        expect(page.locator("#connection")).to_contain_text("3 kept here")
        assert said(desk) == []

        # the server takes the first, but its answer is lost
        lost: list[Route] = []

        def lose_the_first_answer(route: Route) -> None:
            if lost:
                route.continue_()
                return
            lost.append(route)
            route.fetch()
            route.abort()

        page.unroute("**/api/decisions")
        page.route("**/api/decisions", lose_the_first_answer)
        all_saved(page)

        assert lost
        assert [one["action"] for one in said(desk)] == ["accept"] * 3
        assert len({one["item_id"] for one in said(desk)}) == 3


def test_unsent_work_survives_a_restart_of_the_server(desk: MadeUpDesk, open_page: OpenPage) -> None:
    with served(desk) as running:
        page = open_page(running.link())
        port = int(running.url.rpartition(":")[2])
        page.get_by_label("Kind").select_option("mask")
        page.locator(".item").first.click()
        expect(page.locator("#inspector")).to_contain_text("proposed by the build")
    page.keyboard.press("a")
    expect(page.locator("#connection")).to_have_text("Offline: 1 kept here")

    with served(desk, port=port) as again:
        page.get_by_label("Link or token").fill(again.link())
        page.keyboard.press("Enter")
        page.get_by_label("Your name").fill("Ada")
        page.keyboard.press("Enter")
        all_saved(page)

    assert [(one["who"], one["action"]) for one in said(desk)] == [("Ada", "accept")]


def test_a_drawing_that_came_too_late_can_be_saved_on_the_new_state(desk: MadeUpDesk, open_page: OpenPage) -> None:
    with served(desk) as running:
        ada, ben = open_page(running.link(), "Ada"), open_page(running.link(), "Ben", "manager")
        for page in (ada, ben):
            open_mask(page, 0, 1)
            page.route("**/api/queue*", lambda route: route.abort())
            page.keyboard.press("b")
            expect(page.get_by_label("Brush size")).to_be_visible()
        drag(ada, (STEP + 20, 20), (STEP + 20, 52))
        drag(ben, (STEP + 20, 20), (STEP + 55, 20))
        for page in (ben, ada):
            expect(page.locator("#editbar")).to_contain_text("+")
        drawn = ada.evaluate("async () => (await import('/static/editor.js')).editing.mask.area_px")

        ben.keyboard.press("Enter")
        expect(ben.locator("#editbar")).to_be_hidden()
        expect(ben.locator("#inspector .history")).to_contain_text("Ben")
        ada.keyboard.press("Enter")
        expect(ada.get_by_role("alert")).to_contain_text("Ben (manager) decided to edit it")
        assert len(said(desk)) == 1
        ada.get_by_role("button", name="Save mine on the new state").click()
        expect(ada.locator("#inspector .history")).to_contain_text("Ada")

        decisions = said(desk)
        assert [(one["who"], one["action"]) for one in decisions] == [("Ben", "edit"), ("Ada", "edit")]
        assert running.board.detail(decisions[0]["item_id"])["value"]["area_px"] == drawn


def test_return_is_offered_only_where_it_keeps_something_back(tmp_path: Path, open_page: OpenPage) -> None:
    desk = MadeUpDesk(tmp_path, review={"policy": "none", "sentences": {"policy": "single"}})
    with served(desk) as running:
        page = open_page(running.link())
        open_mask(page, 0, 0)
        expect(page.locator(".decide button")).to_have_text(["AcceptA", "RejectX"])
        page.keyboard.press("r")
        expect(page.locator("#toasts")).to_contain_text("would be released all the same")
        expect(page.get_by_role("dialog")).to_have_count(0)

        page.keyboard.press("/")
        page.keyboard.type("swimming")
        page.keyboard.press("Enter")
        expect(page.locator(".sentence")).to_have_text("swimming pool")
        expect(page.locator(".decide button")).to_have_text(["AcceptA", "ReturnR", "RejectX"])
        page.keyboard.press("r")
        page.get_by_label("Reason").fill("not sure")
        page.keyboard.press("Enter")
        all_saved(page)

    assert [(one["kind"], one["action"]) for one in said(desk)] == [("negative", "return")]
    desk.ledger.close()


def test_two_dates_move_together(desk: MadeUpDesk, open_page: OpenPage) -> None:
    with served(desk) as running:
        page = open_page(running.link())
        open_mask(page, 1, 1)

        page.keyboard.press("d")
        expect(page.locator(".pane canvas")).to_have_count(2)
        page.keyboard.press("z")
        page.wait_for_timeout(150)
        views = page.evaluate("async () => (await import('/static/viewer.js')).views()")

        assert views[0] == pytest.approx(views[1], rel=1e-6)
        assert page.locator(".pane-label").all_inner_texts()[1].endswith("2021-06-01")
        page.keyboard.press("d")
        expect(page.locator(".pane canvas")).to_have_count(1)


def test_no_name_text_or_reason_becomes_markup(tmp_path: Path, open_page: OpenPage) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    desk = MadeUpDesk(tmp_path, title=evil)
    with served(desk) as running:
        page = open_page(running.link(), evil)
        open_mask(page, 0, 0)
        page.keyboard.press("w")
        page.get_by_label("Reason").fill(evil)
        page.keyboard.press("Enter")
        all_saved(page)
        expect(page.locator(".history .said")).to_have_text(evil)
        page.get_by_label("Search the queue").fill(evil)
        page.wait_for_timeout(150)

        expect(page.locator("#release")).to_have_text(evil)
        expect(page.locator("#me")).to_contain_text(evil)
        assert page.locator("img[onerror]").count() == 0
        assert page.locator("script").count() == 1
    desk.ledger.close()


def test_everything_is_reached_by_the_keyboard_and_the_help_says_how(desk: MadeUpDesk, open_page: OpenPage) -> None:
    with served(desk) as running:
        page = open_page(running.link())

        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("accept with a remark")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("/")
        page.keyboard.type("swimming")
        page.keyboard.press("Enter")
        expect(page.locator(".sentence")).to_have_text("swimming pool")
        page.keyboard.press("j")
        page.keyboard.press("a")
        all_saved(page)

    assert [(one["kind"], one["action"]) for one in said(desk)] == [("negative", "accept")]


def test_the_claims_that_the_ground_cannot_decide_stand_out(desk: MadeUpDesk, open_page: OpenPage) -> None:
    with served(desk) as running:
        page = open_page(running.link())
        page.get_by_label("doubtful").check()
        page.locator(".item").first.click()

        doubt = page.locator("mark.undecidable")
        expect(doubt).to_have_text("perhaps")
        assert "41.0°" in str(doubt.get_attribute("title"))
        doubt.focus()  # by the keyboard as well
        expect(page.locator("#inspector .verdict")).to_contain_text("the ground cannot decide it")
