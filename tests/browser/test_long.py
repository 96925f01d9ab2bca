"""A session of 100,000 messages: it opens, scrolls and is jumped about in."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from bygones.archive import Archive
from tests.browser.server import open_tab, run_server
from tests.build import Home, prompt, reply, session_id, thread

pytestmark = pytest.mark.full

TURNS = 50_000
FIRST_CONTENT = 8.0
"""Seconds of this program until the first messages are seen, nothing being open."""
NODES = 20_000
HEAP = 60e6


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("long")
    home = Home(place / ".claude")
    records = [
        one
        for at in range(TURNS)
        for one in (prompt(f"Question {at} of many"), reply(f"Answer {at}: *yes*"))
    ]
    home.session(session_id(1), thread(*records))
    Archive.ingest(place / "archive", [home.path])
    return place / "archive"


def test_hundred_thousand_messages_scroll_smoothly(
    browser: Browser, archive: Path
) -> None:
    with run_server(archive) as server, open_tab(browser, server) as tab:
        page = tab.page
        start = time.process_time()
        page.goto(
            f"{server.home}/session/{session_id(1)}",
            wait_until="commit",
            timeout=60_000,
        )
        page.locator("article").first.wait_for(timeout=60_000)
        took = time.process_time() - start
        assert took < FIRST_CONTENT

        # To the very end, to the middle, and a long way by the wheel.
        page.locator("#outline a").first.wait_for(timeout=60_000)
        page.keyboard.press("G")
        last = page.locator("article", has_text=f"Answer {TURNS - 1}:")
        expect(last).to_be_in_viewport(timeout=30_000)
        page.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
        expect(_first_article(page)).to_have_count(1, timeout=30_000)
        page.mouse.move(640, 400)
        blank = 0
        for _ in range(40):
            page.mouse.wheel(0, 900)
            page.wait_for_timeout(60)
            blank += page.evaluate(_BLANK)
        assert blank <= 4

        nodes = page.evaluate(
            "document.querySelector('#conversation').querySelectorAll('*').length"
        )
        assert nodes < NODES
        client = page.context.new_cdp_session(page)
        client.send("HeapProfiler.collectGarbage")
        heap = client.send("Runtime.getHeapUsage")
        assert heap["usedSize"] < HEAP, json.dumps(heap)
        assert tab.errors == []


def _first_article(page: Page) -> Locator:
    return page.locator(".window:not(.waiting) article").first


_BLANK = """
() => {
  const at = document.elementFromPoint(700, 400);
  return at?.closest(".window.waiting") ? 1 : 0;
}
"""
