"""What one does with a session: jump, compare, copy, hide, enlarge."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from bygones.archive import Archive
from tests.browser.server import RunningServer, open_tab, run_server
from tests.build import (
    Home,
    prompt,
    reply,
    text,
    thinking,
    thread,
    tool_result,
    tool_use,
)
from tests.web.archives import LONG, PLAIN, WebArchive, build_archive

pytestmark = pytest.mark.full
PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d49444154789c6360f8cfc0f01f0005000201d7b0d4a40000000049454e44ae426082"
    )
).decode()


@pytest.fixture(scope="module")
def web_archive(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    return build_archive(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def server(web_archive: WebArchive) -> Iterator[RunningServer]:
    with run_server(web_archive.folder) as running:
        yield running


def test_palette_jumps_to_a_session_and_runs_actions(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.keyboard.press("Control+k")
        page.keyboard.type("count")
        expect(page.locator(".palette [role=option]").first).to_contain_text("Counting")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/session/{PLAIN}")
        page.keyboard.press("Control+k")
        page.keyboard.type("usage")
        option = page.locator(".palette [role=option]", has_text="Go to usage")
        expect(option).to_be_visible()
        option.click()
        page.wait_for_url("**/usage")
        page.keyboard.press("Control+k")
        page.keyboard.type("words")
        page.keyboard.press("Escape")
        expect(page.locator(".palette")).to_be_hidden()


def test_palette_offers_what_the_header_of_a_session_does(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{PLAIN}")
        page.keyboard.press("Control+k")
        options = page.locator(".palette [role=option]")
        expect(options.filter(has_text="Copy resume command")).to_be_visible()
        page.keyboard.type("export")
        expect(options.first).to_have_text("Export")
        page.keyboard.press("Enter")
        page.wait_for_url("**/share?session=*")


def test_further_filters_open_below_their_button(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server, viewport={"width": 1440, "height": 900}) as tab:
        page = tab.page
        button = page.locator(".more-filters > summary")
        before = button.bounding_box()
        button.click()
        field = page.locator("input[name=since]").bounding_box()

        assert before == button.bounding_box()
        assert field is not None
        assert before is not None
        assert field["y"] >= before["y"] + before["height"]
        assert field["x"] < before["x"]


def test_timeline_jumps_and_shows_the_place(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        place = page.locator("#session-timeline .here")
        expect(place).to_be_attached()
        before = place.get_attribute("d")
        page.locator('#session-timeline a[data-at="100"]').click()
        expect(page.locator("article.target")).to_contain_text("Question number 50")
        page.wait_for_timeout(300)
        assert place.get_attribute("d") != before


def test_tools_and_thinking_are_hidden_and_stay_so(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{PLAIN}")
        expect(page.locator(".call").first).to_be_visible()
        page.locator("#show-tools").uncheck()
        page.locator("#show-thinking").uncheck()
        expect(page.locator(".call").first).to_be_hidden()
        expect(page.locator(".thought").first).to_be_hidden()
        expect(page.get_by_text("Three lines.")).to_be_visible()
        page.reload()
        expect(page.locator(".call").first).to_be_hidden()


def test_code_is_copied_and_pictures_are_enlarged(
    browser: Browser, tmp_path: Path
) -> None:
    home = Home(tmp_path / ".claude")
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    home.session(
        PLAIN,
        thread(
            prompt([text("See"), {"type": "image", "source": source}]),
            reply([thinking("Hm"), text("```sh\necho hi\n```")]),
            reply([tool_use("Bash", command="ls")]),
            tool_result("toolu_1", "a\nb"),
        ),
    )
    Archive.ingest(tmp_path / "archive", [home.path])
    allowed = ["clipboard-read", "clipboard-write"]
    with (
        run_server(tmp_path / "archive") as server,
        open_tab(browser, server, permissions=allowed) as tab,
    ):
        page = tab.page
        page.goto(f"{server.home}/session/{PLAIN}")
        page.locator("pre", has_text="echo hi").hover()
        page.locator(".copy-code").click()
        expect(page.locator(".toast")).to_have_text("Text copied")
        assert page.evaluate("navigator.clipboard.readText()") == "echo hi\n"
        page.locator("article img").click()
        expect(page.locator("dialog.lightbox img")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("dialog.lightbox")).to_have_count(0)
        assert tab.errors == []


def test_code_gets_its_colors_after_the_page(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    code = "\n".join(f"def function_{n}(): return {n}" for n in range(20))
    call = tool_use("Write", file_path="/work/demo/a.py", content=code)
    last = reply("Done:\n\n```python\nimport a\n```\n")
    home.session(PLAIN, thread(prompt("Write"), reply([call]), last))
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server:
        with open_tab(browser, server, java_script_enabled=False) as tab:
            tab.page.goto(f"{server.home}/session/{PLAIN}")
            expect(tab.page.locator("pre.diff[data-plain]")).to_contain_text("def")
            expect(tab.page.locator("pre.plain")).to_contain_text("import a")
        with open_tab(browser, server) as tab:
            tab.page.goto(f"{server.home}/session/{PLAIN}")
            expect(tab.page.locator("pre.diff .k").first).to_have_text("def")
            expect(tab.page.locator(".prose pre .k").first).to_have_text("import")
            assert tab.page.locator("pre[data-plain], pre.plain").count() == 0
            assert tab.errors == []


def test_sessions_are_listed_beside_the_reader(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        page.get_by_role("button", name="Sessions").click()
        page.locator("#beside a", has_text="Counting lines").click()
        page.wait_for_url(f"**/session/{PLAIN}")
        expect(page.locator("#beside [aria-current]")).to_contain_text("Counting lines")


def test_list_shows_ten_sessions_on_a_laptop(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    for number in range(40):
        name = f"5e551000-0000-4000-8000-{number:012}"
        lines = thread(prompt(f"Task {number}."), reply("Yes."), start=number * 90_000)
        home.session(name, lines)
    Archive.ingest(tmp_path / "archive", [home.path])
    size = {"width": 1366, "height": 768}
    with (
        run_server(tmp_path / "archive") as server,
        open_tab(browser, server, viewport=size) as tab,
    ):
        page = tab.page
        boxes = [row.bounding_box() for row in page.locator("tr[data-session]").all()]
        visible = [b for b in boxes if b and b["y"] + b["height"] <= 768]
        assert len(visible) >= 18
        page.locator("#density-comfortable").check(force=True)
        boxes = [row.bounding_box() for row in page.locator("tr[data-session]").all()]
        assert len([b for b in boxes if b and b["y"] + b["height"] <= 768]) >= 6


def test_list_on_a_small_laptop_shows_prompts_and_duration(
    browser: Browser, server: RunningServer
) -> None:
    size = {"width": 1024, "height": 768}
    with open_tab(browser, server, viewport=size) as tab:
        row = tab.page.locator("tr[data-session]").first
        for name in ("project", "prompts", "duration", "cost"):
            expect(row.locator(f".c-{name}")).to_be_visible()
        title = row.locator(".c-title").bounding_box()
        assert title is not None
        assert title["width"] > 350


def test_facts_of_a_session_have_no_dots_at_the_ends_of_lines(
    browser: Browser, server: RunningServer
) -> None:
    size = {"width": 390, "height": 800}
    with open_tab(browser, server, viewport=size) as tab:
        tab.page.goto(f"{server.home}/session/{LONG}")
        essentials = tab.page.locator(".essentials")
        expect(essentials).not_to_contain_text("·")
        left = essentials.evaluate(
            """(box) => { const { left } = box.getBoundingClientRect();
            const heading = document.querySelector(".top h1").getBoundingClientRect();
            const inset = parseFloat(getComputedStyle(box).clipPath.split(" ").at(-1));
            return left + inset - heading.left; }"""
        )
        assert abs(left) < 1


def test_without_scripts_actions_appear_when_a_row_is_selected(
    browser: Browser, tmp_path: Path
) -> None:
    archive_home = build_archive(tmp_path)
    with (
        run_server(archive_home.folder) as server,
        open_tab(browser, server, java_script_enabled=False) as tab,
    ):
        expect(tab.page.locator("#bulk-bar")).to_be_hidden()
        tab.page.locator("tbody [name=session]").nth(0).check()
        expect(tab.page.locator("#bulk-bar")).to_be_visible()


def test_header_fits_at_200_percent_zoom(browser: Browser, tmp_path: Path) -> None:
    archive_home = build_archive(tmp_path)
    with (
        run_server(archive_home.folder) as server,
        open_tab(browser, server, viewport={"width": 720, "height": 450}) as tab,
    ):
        brand = tab.page.locator(".brand").bounding_box()
        search = tab.page.locator(".header-search input").bounding_box()
        assert brand is not None
        assert brand["height"] < 30  # one line
        assert search is not None
        assert search["width"] > 100


def test_several_rows_are_starred_at_once(browser: Browser, tmp_path: Path) -> None:
    archive_home = build_archive(tmp_path)
    with run_server(archive_home.folder) as server, open_tab(browser, server) as tab:
        page = tab.page
        expect(page.locator("#bulk-bar")).to_be_hidden()
        boxes = page.locator("tbody [name=session]")
        boxes.nth(0).check()
        boxes.nth(2).click(modifiers=["Shift"])
        expect(page.locator("[data-count]")).to_have_text("3 selected")
        page.get_by_role("button", name="Star", exact=True).click()
        page.wait_for_load_state()
        expect(page.locator("tr .starred")).to_have_count(3)


SHIFT = """() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) sum += one.value;
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(sum), 1500);
})"""


@pytest.mark.parametrize("width", [1440, 390])
def test_pages_do_not_shift_while_they_load(
    width: int, browser: Browser, server: RunningServer
) -> None:
    paths = ("/", "/search?q=question", "/usage", "/prompts", f"/session/{LONG}")
    size = {"width": width, "height": 800}
    shifts = {}
    with open_tab(browser, server, viewport=size) as tab:
        for path in paths:
            tab.page.goto(server.home + path)
            shifts[path] = tab.page.evaluate(SHIFT)

    assert {path: one for path, one in shifts.items() if one > 0.02} == {}


def test_every_page_is_readable_without_scripts(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as signed_in:
        cookies = signed_in.page.context.cookies()
    context = browser.new_context(java_script_enabled=False)
    context.add_cookies(cookies)  # type: ignore[arg-type]
    page = context.new_page()
    for path, words in (
        ("/", "Counting lines"),
        ("/?sort=-cost", "Question number 0"),
        (f"/session/{LONG}", "Question number 0"),
        ("/usage", "Top sessions"),
        ("/prompts", "Change the words"),
        ("/search?q=question", "Question number"),
        (f"/share?session={PLAIN}", "Download"),
    ):
        page.goto(server.home + path)
        expect(page.get_by_text(words).first).to_be_visible()
    page.goto(f"{server.home}/session/{PLAIN}")
    page.locator("#show-tools").uncheck()
    expect(page.locator(".call").first).to_be_hidden()
    page.goto(server.home)
    page.locator("tbody [name=session]").first.check()
    page.get_by_role("button", name="Star", exact=True).click()
    expect(page.locator("tr .starred")).to_have_count(1)
    context.close()


def test_pages_fit_at_twice_the_text_size(
    browser: Browser, server: RunningServer
) -> None:
    # A window of 1280 pixels zoomed to 200 % has room for 640.
    size = {"width": 640, "height": 400}
    wide = {}
    with open_tab(browser, server, viewport=size) as tab:
        for path in ("/", "/usage", "/prompts", "/search?q=a", f"/session/{LONG}"):
            tab.page.goto(server.home + path)
            tab.page.wait_for_timeout(300)
            wide[path] = tab.page.evaluate("document.documentElement.scrollWidth")

    assert {path: one for path, one in wide.items() if one > 640} == {}
