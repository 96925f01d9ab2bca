"""Finding in a session, as people do it: what is found is marked, also what comes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bygones.archive import Archive
from tests.browser.server import open_tab, run_server
from tests.build import Home, jsonl, prompt, reply, thread, tool_result, tool_use
from tests.web.archives import PLAIN

pytestmark = pytest.mark.full


def highlighted_words(page: Page) -> list[str]:
    """Return the words that are marked on a page, in their order."""
    return list(
        page.evaluate(
            "() => [...(CSS.highlights.get('words') ?? [])]"
            ".sort((a, b) => a.compareBoundaryPoints(0, b)).map(String)"
        )
    )


def expect_highlighted(page: Page, *wanted: str) -> None:
    """Wait until these words are marked."""
    until = time.monotonic() + 20
    while highlighted_words(page) != list(wanted) and time.monotonic() < until:
        page.wait_for_timeout(50)
    assert highlighted_words(page) == list(wanted)


def test_all_forms_of_a_word_are_highlighted(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    records = thread(
        prompt("Why does it *retry*? <b>retrying</b>"),
        reply("It **retries**, then `retried`; it does not retrieve. Café RETRY."),
        reply("A red\nkite, red **kite**, a red thing. Kites are red"),
        prompt("<img src=x onerror=alert(1)> retry"),
    )
    home.session(PLAIN, records)
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server, open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{PLAIN}?find=retry")
        before = page.locator("#conversation").inner_html()
        expect_highlighted(
            page, "retry", "retrying", "retries", "retried", "RETRY", "retry"
        )
        page.locator(".finder input").fill("red kite")
        expect_highlighted(page, "red\nkite", "red kite")
        page.locator(".finder input").fill("cafe")
        expect_highlighted(page, "Café")
        page.locator(".finder input").fill("retri*")
        expect_highlighted(page, "retries", "retried", "retrieve")
        assert page.locator("#conversation").inner_html() == before
        page.keyboard.press("Escape")
        expect_highlighted(page)
        assert tab.errors == []


def test_match_far_below_is_scrolled_into_view(
    browser: Browser, tmp_path: Path
) -> None:
    home = Home(tmp_path / ".claude")
    shown = "\n\n".join(f"Paragraph {at}" for at in range(200))
    records = thread(
        prompt("Write"),
        reply([tool_use("Bash", command="make")]),
        tool_result("toolu_1", "a wombat\n" + "line\n" * 200),
        reply(f"{shown}\n\nAn okapi"),
    )
    home.session(PLAIN, records)
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server, open_tab(browser, server) as tab:
        page = tab.page
        for words in ("okapi", "wombat"):
            page.goto(f"{server.home}/session/{PLAIN}?find={words}")
            expect(page.locator(".finder output")).to_have_text("1 match")
            page.locator(".finder input").press("Enter")
            expect(page.get_by_text(words).last).to_be_in_viewport()
            expect_highlighted(page, words)


def test_new_messages_are_included_in_find(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    records = thread(
        prompt("A quokka"), reply("Nothing"), prompt("Again"), reply("A quokka")
    )
    path = home.session(PLAIN, records[:3])
    Archive.ingest(tmp_path / "archive", [home.path])
    with (
        run_server(tmp_path / "archive", home.path) as server,
        open_tab(browser, server) as tab,
    ):
        page, status = tab.page, tab.page.locator(".finder output")
        page.goto(f"{server.home}/session/{PLAIN}?find=quokka")
        expect(status).to_have_text("1 match")
        page.locator(".finder input").press("Enter")
        expect(status).to_have_text("1 of 1")
        with path.open("ab") as file:
            file.write(jsonl([records[3] | {"sessionId": PLAIN}]))
        expect(status).to_have_text("1 of 2")
        expect_highlighted(page, "quokka", "quokka")
        assert tab.errors == []


def test_search_result_opens_at_the_matched_words(
    browser: Browser, tmp_path: Path
) -> None:
    home = Home(tmp_path / ".claude")
    filler = "\n\n".join(f"Paragraph {at}" for at in range(150))
    records = thread(
        prompt("Write"),
        reply(filler, message_id="msg_1"),
        reply([tool_use("Bash", command="make")], message_id="msg_1"),
        tool_result("toolu_1", "line\n" * 80 + "a numbat"),
        prompt(filler),
        reply("Another numbat"),
    )
    home.session(PLAIN, records)
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server, open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/search?q=numbat")
        page.locator("a.excerpt", has_text="a numbat").click()
        expect(page.locator("mark#hit")).to_have_text("numbat")
        expect(page.locator("mark#hit")).to_be_in_viewport()
        expect(page.locator(".finder output")).to_have_text("1 of 2")
        page.keyboard.press(".")
        expect(page.locator(".finder output")).to_have_text("2 of 2")
        expect(page.get_by_text("Another numbat")).to_be_in_viewport()
        page.keyboard.press(",")
        expect(page.locator("mark#hit")).to_be_in_viewport()
        page.keyboard.press("n")
        expect(page.locator(".finder output")).to_have_text("2 of 2")
        page.keyboard.press("N")
        expect(page.locator(".finder output")).to_have_text("1 of 2")
        expect(page.locator("mark#hit")).to_be_in_viewport()
        page.keyboard.press("Escape")
        page.keyboard.press("n")  # to the next prompt, as without matches
        expect(page.locator("article.target")).to_contain_text("Paragraph 149")
        assert tab.errors == []
