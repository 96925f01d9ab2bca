"""The page of a file: the slider, keys, who wrote a line, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from bygones.archive import Archive
from tests.browser.server import RunningServer, open_tab, run_server
from tests.build import Home
from tests.files.story import FILE, Story

pytestmark = pytest.mark.full
ONE, TWO, THREE = "first line\n", "first line\nsecond\n", "first line\nSECOND\n"
URL = f"/file?{urlencode({'path': FILE})}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("files")
    story = Story()
    story.say("Create the file")
    story.write(ONE)
    story.say("Add a line")
    story.edit(ONE, TWO, ONE)
    story.say("Look")
    story.read(THREE)
    home = Home(folder / "home")
    story.write_to(home)
    Archive.ingest(folder / "archive", [home.path])
    with run_server(folder / "archive") as running:
        yield running


def test_slider_is_moved_with_the_keyboard_from_turn_to_turn(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}{URL}")
        expect(page.locator("output")).to_have_text("before 5e551000:3 (3 of 3)")
        page.locator("input[type=range]").focus()
        for turn in (2, 1):
            page.keyboard.press("ArrowLeft")
            page.wait_for_url(f"**turn={turn}")
            expect(page.locator("output")).to_contain_text(f"({turn} of 3)")
            expect(page.locator("input[type=range]")).to_be_focused()
        page.keyboard.press("]")
        page.wait_for_url("**version=2")
        page.keyboard.press("v")
        page.wait_for_url("**view=unified")
        expect(page.locator(".diff")).to_contain_text("second")
        assert not tab.errors


def test_gutter_names_the_prompt_and_opens_the_conversation(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}{URL}")
        links = page.locator(".blame a")
        expect(links.first).to_have_attribute("title", "Create the file")
        expect(page.locator(".blame .origin-outside")).to_contain_text("SECOND")
        links.first.click()
        page.wait_for_url("**/session/**")
        back = page.locator("a", has_text="The file after this change")
        expect(back.first).to_be_visible()


def test_turns_and_views_are_chosen_without_scripts(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server, java_script_enabled=False) as tab:
        page = tab.page
        page.goto(f"{server.home}{URL}")
        page.locator("input[type=range]").press("Home")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url("**turn=1")
        expect(page.locator(".blame")).not_to_contain_text("second")
        page.get_by_role("link", name="Newer").click()
        page.get_by_role("link", name="Side by side").click()
        expect(page.locator("main")).to_contain_text("After")
