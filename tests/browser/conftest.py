"""Chromium, and pages of the review in it."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of one module: while it is open an event loop runs in this thread, which Prefect would take for its own."""
    path = shutil.which("chromium")
    if path is None:
        if os.environ.get("TRIGPOINT_NEEDS_BROWSER"):
            pytest.fail("there is no `chromium`, and TRIGPOINT_NEEDS_BROWSER says that there must be; `apt-get install chromium`")
        pytest.skip("there is no `chromium` here; `apt-get install chromium` brings it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    """Open the link of a page in a browser of its own, and sign in; the test fails when a script did."""
    faults: list[str] = []
    contexts = []

    def open_one(link: str, who: str | None = "Ada", role: str = "annotator", scheme: str = "light") -> Page:
        context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(f"a dialog said {dialog.message!r}"), dialog.dismiss()))
        page.goto(link)
        if who is not None:
            page.get_by_label("Your name").fill(who)
            page.locator(f"input[name=role][value={role}]").check()
            page.keyboard.press("Enter")
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert faults == []
