"""What must not be lost while reading: the place, the messages, the sign-in."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from bygones.archive import Archive
from bygones.web.conversation_view import WINDOW_SIZE
from bygones.web.server import ServerConfig, WebServer
from tests.browser.server import RunningServer, open_tab, run_server
from tests.browser.tabs import new_tab
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.web.archives import (
    EDITED,
    LONG,
    LONG_TURNS,
    LOUD,
    REWOUND,
    WebArchive,
    build_archive,
)

pytestmark = pytest.mark.full
PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def web_archive(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    return build_archive(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def server(web_archive: WebArchive) -> Iterator[RunningServer]:
    with run_server(web_archive.folder) as running:
        yield running


def _top_of(page: Page, text: str) -> float:
    words = page.locator("article.prompt .typed", has_text=re.compile(rf"{text}$"))
    return float(words.first.evaluate("o => o.getBoundingClientRect().top"))


def test_back_returns_to_the_message_that_was_read(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        page.locator("#outline a", has_text="Question number 41").click()
        expect(page.locator("article.target")).to_be_in_viewport()
        page.mouse.wheel(0, 130)
        page.wait_for_timeout(600)
        before, scrolled = _top_of(page, "Question number 41"), page.evaluate("scrollY")
        page.goto(f"{server.home}/about")
        page.go_back()
        page.wait_for_timeout(1200)

        assert scrolled > 1000
        assert abs(_top_of(page, "Question number 41") - before) < 4
        page.reload()
        page.wait_for_timeout(1200)
        assert abs(_top_of(page, "Question number 41") - before) < 4


def test_back_returns_to_the_place_in_a_list(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    for number in range(1, 200):
        lines = thread(prompt(f"Task {number}."), reply("Yes."), start=number * 9000)
        home.session(session_id(number), lines)
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server, open_tab(browser, server) as tab:
        page = tab.page
        row = page.get_by_role("link", name="Task 9.", exact=True)
        for _ in range(40):
            page.mouse.wheel(0, 3000)
            page.wait_for_timeout(150)
            if row.count() and row.is_visible():
                break
        row.scroll_into_view_if_needed()
        page.wait_for_timeout(400)
        before = row.evaluate("o => o.getBoundingClientRect().top")
        assert page.evaluate("scrollY") > 2000
        row.click()
        page.wait_for_url("**/session/**")
        page.go_back()
        expect(row).to_be_in_viewport()
        page.wait_for_timeout(500)
        assert abs(row.evaluate("o => o.getBoundingClientRect().top") - before) < 4


@pytest.mark.parametrize("end", ["%", "%E0%A4%A", "m-%22%5D", "m-none"])
def test_link_with_a_damaged_anchor_opens_the_session(
    browser: Browser, server: RunningServer, end: str
) -> None:
    with open_tab(browser, server) as tab:
        tab.page.goto(f"{server.home}/session/{LONG}#{end}")
        tab.page.wait_for_timeout(300)
        assert tab.errors == []


def test_messages_that_fail_to_load_are_tried_again(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        failed: list[str] = []

        def fail_twice(route: Route) -> None:
            if "from=64" in route.request.url and len(failed) < 2:
                failed.append(route.request.url)
                route.abort()
            else:
                route.continue_()

        page.route("**/window?*", fail_twice)
        page.goto(f"{server.home}/session/{LONG}")
        page.locator("#outline a", has_text="Question number 35").click()
        expect(page.locator(".load-problem")).to_contain_text("could not be loaded")
        article = page.locator("article", has_text="Question number 35")
        expect(article.first).to_be_in_viewport()
        expect(page.locator(".load-problem")).to_have_count(0)
        assert len(failed) == 2


def test_rest_of_the_first_messages_is_loaded_later_if_it_failed(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server, viewport={"width": 1000, "height": 500}) as tab:
        page = tab.page
        page.route("**/window?*until=*", lambda route: route.abort())
        page.goto(f"{server.home}/session/{LONG}")
        problem = page.locator('[data-window="0"] > .load-problem')
        expect(problem).to_be_attached()
        shown = page.locator('[data-window="0"] > article').count()
        page.evaluate("scrollTo(0, 7000)")
        expect(problem).to_have_count(0)
        page.unroute("**/window?*until=*")
        page.evaluate("scrollTo(0, 0)")
        expect(page.locator('[data-window="0"] > article').nth(shown)).to_be_attached()
        expect(page.locator('[data-window="0"] > article')).to_have_count(WINDOW_SIZE)


def test_failed_actions_say_so(browser: Browser, server: RunningServer) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        toast = page.locator(".toast")
        page.route("**/markdown*", lambda route: route.fulfill(status=500, body="no"))
        page.keyboard.press("m")
        expect(toast).to_have_text("Loading failed")
        expect(toast).to_have_count(0)
        page.get_by_role("button", name="Copy as Markdown").first.click()
        expect(toast).to_have_text("Loading failed")
        page.route("**/annotations", lambda route: route.abort())
        star = page.get_by_role("button", name="Star")
        star.click()
        expect(toast).to_have_text("Saving failed")
        expect(star).to_have_attribute("aria-pressed", "false")
        assert tab.errors == []


def test_a_second_click_on_the_star_takes_the_first_one_back(
    browser: Browser, tmp_path: Path
) -> None:
    folder = build_archive(tmp_path).folder
    with run_server(folder) as server, open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        star = page.get_by_role("button", name="Star")
        with page.expect_response(
            lambda response: response.request.post_data == '{"is_starred":false}'
        ):
            star.dblclick()
        expect(star).to_have_attribute("aria-pressed", "false")
        with Archive(folder) as archive:
            assert not archive.session_summary(LONG).is_starred


def test_outline_on_a_phone_can_be_closed(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server, viewport=PHONE, has_touch=True) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        outline = page.locator(".outline")
        button = page.locator('[data-act="outline"]')
        for close in ("button", "outside", "key"):
            button.click()
            expect(outline).to_be_visible()
            expect(outline.get_by_text("Question number 0")).to_be_visible()
            assert button.get_attribute("aria-expanded") == "true"
            if close == "button":
                page.get_by_role("button", name="Close outline").click()
            elif close == "outside":
                page.touchscreen.tap(20, 400)
            else:
                page.keyboard.press("Escape")
            expect(outline).to_be_hidden()


@pytest.mark.parametrize("has_clipboard", [True, False])
def test_copying_works_and_says_so(
    has_clipboard: bool, browser: Browser, server: RunningServer
) -> None:
    allowed = ["clipboard-read", "clipboard-write"]
    with open_tab(browser, server, permissions=allowed) as tab:
        page = tab.page
        if not has_clipboard:
            page.add_init_script(
                "Object.defineProperty(navigator, 'clipboard', {value: undefined})"
            )
        page.goto(f"{server.home}/session/{LONG}")
        page.get_by_role("button", name="Copy resume command").click()
        expect(page.locator(".toast")).to_be_visible()
        expect(page.locator(".toast")).to_have_text("Copied")
        page.goto(f"{server.home}/search")
        page.locator("#query").focus()
        page.keyboard.press("Control+v")
        pasted = page.locator("#query").input_value()
        assert pasted.startswith(f"bygones resume {LONG}")


def test_header_of_a_growing_session_stays_current(
    browser: Browser, tmp_path: Path
) -> None:
    archive_home = build_archive(tmp_path)
    path = archive_home.home.path / "projects" / "-work-other" / f"{LONG}.jsonl"
    with (
        run_server(archive_home.folder, archive_home.home.path) as server,
        open_tab(browser, server) as tab,
    ):
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        page.locator("#outline a").first.wait_for()
        facts = page.locator(".session-facts")
        expect(facts).to_contain_text(f"{LONG_TURNS} prompts")
        page.locator(".session-details > summary").click()
        page.locator("#annotations [name=note]").fill("half a note")
        lines = thread(prompt("One more"), reply("Yes."), start=99_000)
        with path.open("ab") as file:
            file.write(jsonl([line | {"sessionId": LONG} for line in lines]))
        expect(facts).to_contain_text("2026-01-06")
        expect(page.locator("#annotations [name=note]")).to_have_value("half a note")


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_actions_of_a_message_do_not_cover_it(
    width: int, browser: Browser, server: RunningServer
) -> None:
    size = {"width": width, "height": 800}
    with open_tab(browser, server, viewport=size) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LOUD}")
        article = page.locator("article.prompt").first
        article.hover()
        bar = article.locator(".message-actions")
        expect(bar).to_have_css("opacity", "1")
        shown = bar.locator("button:visible").first.bounding_box()
        body = article.bounding_box()

        assert shown is not None
        assert body is not None
        assert shown["x"] >= body["x"] + body["width"] - 1
        assert shown["x"] + shown["width"] <= width


def test_branch_links_say_what_follows(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    long = "Try to do it in another way that is described with more than sixty letters"
    home.session(
        REWOUND,
        [
            *thread(prompt("Start", uuid="p0"), reply("Yes", uuid="r0")),
            *thread(
                prompt(long, uuid="p1", parent="r0"), reply("One", uuid="r1"), start=60
            ),
            *thread(
                prompt("Then that", uuid="p2", parent="r0"), reply("Two"), start=90
            ),
        ],
    )
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server, open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{REWOUND}")
        page.locator(".branches summary").click()
        links = page.locator(".branches a")
        expect(links.filter(has_text="live branch")).to_contain_text("Then that")
        other = links.filter(has_text="abandoned").inner_text()
        assert "Try to do it in another way" in other
        assert other.endswith("…")
        links.filter(has_text="abandoned").click()
        page.wait_for_url("**branch=1*")
        expect(page.locator(".mark.fork a").first).to_contain_text("Then that")


def test_page_after_a_restart_links_to_sign_in(
    browser: Browser, web_archive: WebArchive, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    login = tmp_path / "login"
    with new_tab(browser) as tab:
        page = tab.page
        for at, file in enumerate((None, login, login)):
            links: list[str] = []
            config = ServerConfig(folder=web_archive.folder, port=port, login_file=file)
            server = WebServer(config, links.append)
            thread_ = Thread(target=server.run, daemon=True)
            thread_.start()
            try:
                if at == 0:
                    page.goto(links[0])
                    page.wait_for_url("**.localhost:*/")
                    page.goto(f"{page.url}session/{LONG}")
                    continue
                if at == 1:
                    answer = page.reload()
                    assert answer is not None
                    assert answer.status == 401
                    expect(page.locator("h1")).to_have_text("Sign in")
                    color = page.locator("body").evaluate(
                        "o => getComputedStyle(o).backgroundColor"
                    )
                    assert color == "rgb(252, 251, 249)"
                    page.locator("[name=key]").fill(links[-1])
                    page.get_by_role("button", name="Sign in").click()
                    page.wait_for_url(f"**/session/{LONG}")
                    expect(page.locator("article").first).to_be_visible()
                else:
                    # The port and its login file are the same: nothing to do.
                    page.reload()
                    expect(page.locator("article").first).to_be_visible()
                    assert server.browser_origin in page.url
            finally:
                server.stop()
                thread_.join(20)
    assert login.stat().st_mode & 0o077 == 0


def test_an_open_page_notices_that_it_is_signed_out(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        page.context.clear_cookies()
        page.keyboard.press("G")
        expect(page.get_by_role("button", name="Sign in again")).to_be_visible()
        page.get_by_role("button", name="Sign in again").click()
        expect(page.locator("h1")).to_have_text("Sign in")


def test_keys_reach_the_start_and_keep_the_place(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        page.locator("#outline a").first.wait_for()
        page.keyboard.press("G")
        last = page.locator("#outline a", has_text=f"number {LONG_TURNS - 1}")
        expect(last).to_have_attribute("aria-current", "true")
        page.keyboard.press("g")
        page.keyboard.press("g")
        page.wait_for_timeout(700)
        assert page.evaluate("scrollY") == 0
        page.goto(f"{server.home}/session/{LOUD}")
        folds = page.locator("details.call")
        expect(folds.first).to_be_attached()
        page.keyboard.press("o")
        expect(page.locator("details.call[open]")).to_have_count(folds.count())
        page.keyboard.press("o")
        expect(page.locator("details.call[open]")).to_have_count(0)


@pytest.mark.parametrize("key", ["End", "Control+End"])
def test_end_goes_to_the_last_message_at_the_first_press(
    browser: Browser, tmp_path: Path, key: str
) -> None:
    home = Home(tmp_path / ".claude")
    # Windows are higher than is expected of those that are not loaded.
    records = [
        one
        for at in range(200)
        for one in (prompt(f"Question {at}"), reply("A line.\n\n" * 20 + f"Last {at}"))
    ]
    home.session(session_id(1), thread(*records))
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server, open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{session_id(1)}")
        page.locator("#outline a").first.wait_for()
        page.keyboard.press(key)
        expect(page.get_by_text("Last 199")).to_be_in_viewport()
        page.wait_for_timeout(700)
        expect(page.get_by_text("Last 199")).to_be_in_viewport()
        # In the outline it scrolls the outline.
        page.keyboard.press("Home")
        page.wait_for_timeout(700)
        assert page.evaluate("scrollY") == 0
        page.locator("#outline").focus()
        page.keyboard.press("End")
        page.wait_for_timeout(300)
        assert page.evaluate("scrollY") == 0


def test_a_wide_diff_can_be_scrolled_with_keys(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server, viewport=PHONE) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{EDITED}")
        diff = page.locator(".diff").first
        expect(diff).to_be_visible()
        focusable = diff.evaluate(
            "o => [o, ...o.querySelectorAll('*'), o.parentElement]"
            ".some((one) => one.tabIndex === 0) || o.scrollWidth <= o.clientWidth"
        )
        assert focusable
