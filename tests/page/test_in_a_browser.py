"""The pages in Chromium: nothing of a row is run, all can be done by keys, and axe finds nothing.

Takes Debian's `chromium`, or what the variable CHROMIUM names.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from tests.page.busy import make_busy
from tests.page.world import STORY, make_world
from tidemark.page.local import serve_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.long

FIRST = datetime(2026, 7, 1, 4, tzinfo=UTC)
PAGES = (
    *("", "p/orders", "p/orders/t/per_10m", "p/orders/rejects"),
    *("p/clicks", "p/clicks/t/per_10m", "p/clicks/rejects"),
    f"p/clicks/t/per_10m/story{STORY}",
    *("p/damaged", "p/broken", "p/new", "p/nobody", "dag/another"),
)
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1360, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1360, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where a page of both worlds is served, with its token."""
    root = tmp_path_factory.mktemp("browser") / "root"
    place = make_busy(root, FIRST)
    make_world(root)
    told: list[str] = []
    served = threading.Event()

    def tell(one: str) -> None:
        told.append(one)
        served.set()

    now = FIRST + timedelta(hours=9)
    given = (lambda: place.settings, lambda: now, 0, tell)
    threading.Thread(target=serve_page, args=given, daemon=True).start()
    assert served.wait(60)
    return told[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert program, "These tests need a Chromium: `apt-get install chromium`, or name one: CHROMIUM"
    with sync_playwright() as play:
        # In a container there is no sandbox for it; it opens nothing but our own page.
        started = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


def opened(browser: Browser, address: str, look: str = "light") -> tuple[BrowserContext, Page]:
    """A page that has come in, and that fails the test where a script of a row, or ours, errs."""
    context = browser.new_context(**LOOKS[look], bypass_csp=False)
    page = context.new_page()
    page.faults = []  # type: ignore[attr-defined]
    page.on("pageerror", lambda error: page.faults.append(str(error)))  # type: ignore[attr-defined]
    page.on("dialog", lambda dialog: page.faults.append(dialog.message))  # type: ignore[attr-defined]
    page.on(
        "console",
        lambda said: (
            page.faults.append(said.text)  # type: ignore[attr-defined]
            if said.type == "error" and "status of 404" not in said.text
            else None
        ),
    )
    page.goto(address)
    return context, page


def faults_of(page: Page) -> list[str]:
    return page.faults  # type: ignore[attr-defined,no-any-return]


def base(address: str) -> str:
    return address.partition("?")[0]


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_and_nothing_of_a_row_is_run(
    browser: Browser, address: str, look: str
) -> None:
    context, page = opened(browser, address, look)
    script = files("axe_playwright_python") / "axe.min.js"
    # As an inspector does, for a page lets no script of others in.
    session = context.new_cdp_session(page)
    found = {}
    for path in (*PAGES, "canary"):
        page.goto(base(address) + (path if path != "canary" else ""))
        page.wait_for_timeout(300)
        if story := page.query_selector("a[data-story]"):
            story.click()
            page.locator("#story h2").wait_for()
        for one in page.query_selector_all("details"):
            one.evaluate("(element) => { element.open = true; }")
        if path == "canary":
            page.evaluate("document.documentElement.removeAttribute('lang')")
        else:
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        session.send("Runtime.evaluate", {"expression": script.read_text()})
        told = session.send(
            "Runtime.evaluate",
            {
                "expression": "axe.run().then((told) => told.violations.map((one) => "
                "`${one.id}: ${one.nodes.map((node) => node.target).slice(0, 3)}`))",
                "awaitPromise": True,
                "returnByValue": True,
            },
        )
        if violations := told["result"]["value"]:
            found[path] = violations
    assert {path: one for path, one in found.items() if path != "canary"} == {}
    assert [one.partition(":")[0] for one in found["canary"]] == ["html-has-lang"]
    assert faults_of(page) == []
    context.close()


def test_a_chart_is_walked_by_keys_and_told(browser: Browser, address: str) -> None:
    context, page = opened(browser, address)
    page.goto(f"{base(address)}p/orders")
    plot = page.locator('[data-chart="picture"] .plot')
    plot.locator("canvas").wait_for()
    plot.focus()
    page.keyboard.press("End")
    said = page.locator("#said")
    assert said.inner_text().startswith("2026-07-01 11:50")
    assert " corrected: " in said.inner_text()
    page.keyboard.press("ArrowLeft")
    assert said.inner_text().startswith("2026-07-01 11:40")
    others = page.locator('[data-chart="accepted"] .at')
    assert "2026-07-01 11:40" in others.inner_text()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "run-46"
    page.locator('[data-chart="rejected"] summary').click()
    table = page.locator('[data-chart="rejected"] table')
    assert table.locator("th").all_inner_texts()[1:] == ["malformed", "duplicate", "wrong type"]
    assert table.locator("tbody tr").count() == 48
    assert faults_of(page) == []
    context.close()


def test_pipelines_are_found_and_sorted_by_keys(browser: Browser, address: str) -> None:
    context, page = opened(browser, address)
    rows = page.locator("#pipelines tbody tr:visible")
    everything = rows.count()
    page.keyboard.press("/")
    page.keyboard.type("orders")
    assert rows.count() == 1 < everything
    assert page.locator("#said").inner_text() == f"1 of {everything} shown"
    page.keyboard.press("Escape")
    assert rows.count() == everything
    head = page.locator("thead th", has_text="Rejected")
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    numbers = [int(one.replace(",", "").split()[0]) for one in
               page.locator("tbody td[data-name=Rejected]").all_inner_texts()
               if one[0].isdigit()]  # fmt: skip
    assert numbers == sorted(numbers, reverse=True)
    page.keyboard.press("/")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_url("**/p/orders")
    context.close()


def test_it_follows_the_look_of_the_frame_that_it_is_in(browser: Browser, address: str) -> None:
    context, page = opened(browser, address)
    # A page of the same origin, as Airflow's is.
    host = '<html class="dark"><iframe src="p/orders"></iframe></html>'
    page.route("**/host", lambda route: route.fulfill(body=host, content_type="text/html"))
    page.goto(f"{base(address)}host")
    (frame,) = page.frames[1:]
    frame.wait_for_selector("canvas")
    look = "getComputedStyle(document.body).backgroundColor"
    assert frame.evaluate("document.documentElement.dataset.theme") == "dark"
    dark = frame.evaluate(look)
    page.evaluate("document.documentElement.className = 'light'")
    frame.wait_for_function("document.documentElement.dataset.theme === 'light'")
    assert frame.evaluate(look) != dark
    # A link to Airflow changes the address of the page around, and tells it.
    page.evaluate("addEventListener('popstate', () => { window.told = location.pathname; })")
    link = '<a id="out" data-airflow href="/dags/x/runs/a%2Bb">out</a>'
    frame.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", link)
    frame.click("#out")
    page.wait_for_function("window.told === '/dags/x/runs/a%2Bb'")
    assert frame.url.endswith("/p/orders")
    context.close()
