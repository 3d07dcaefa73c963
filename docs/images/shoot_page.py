"""Take `page.png`: `PYTHONPATH=include:. python docs/images/shoot_page.py [chromium]`.

A pipeline of the tests' kit, without Spark, on the page as `tidemark page` serves it.
"""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from tests.page.busy import make_busy
from tidemark.page.local import serve_page

FIRST = datetime(2026, 7, 1, 4, tzinfo=UTC)
CHROMIUM = sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/chromium"


def main() -> None:
    with TemporaryDirectory() as folder:
        place = make_busy(Path(folder) / "root", FIRST)
        told: list[str] = []
        served = threading.Event()

        def tell(address: str) -> None:
            told.append(address)
            served.set()

        now = FIRST + timedelta(hours=8)
        given = (lambda: place.settings, lambda: now, 0, tell)
        threading.Thread(target=serve_page, args=given, daemon=True).start()
        served.wait(60)
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 690})
            page.goto(told[0])
            page.click("text=orders")
            page.wait_for_timeout(1_000)
            page.screenshot(path=Path(__file__).with_name("page.png"))
            browser.close()


main()
