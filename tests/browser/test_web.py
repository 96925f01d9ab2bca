"""The page as people use it: every page, keys, search, branches, agents, news."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page, expect

from bygones.archive import Archive
from tests.browser.conftest import NAMES
from tests.browser.server import RunningServer, open_tab, run_server
from tests.browser.tabs import new_tab
from tests.build import (
    Home,
    jsonl,
    prompt,
    reply,
    session_id,
    text,
    thinking,
    thread,
    tool_result,
    tool_use,
)
from tests.web.archives import (
    AGENT,
    EDITED,
    EDITED_PATH,
    LONG,
    LONG_TURNS,
    LOUD,
    PLAIN,
    REWOUND,
    WebArchive,
    build_archive,
)

pytestmark = pytest.mark.full

TRIES = 6
MANY = 1_500
"""Prompts of a session whose outline is longer than any screen."""
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
PATHS = (
    "/",
    "/search",
    "/search?q=question",
    "/projects",
    "/files",
    f"/files?session={EDITED}&path={EDITED_PATH}",
    f"/file?path={EDITED_PATH}",
    f"/file?path={EDITED_PATH}&view=unified",
    f"/file?path={EDITED_PATH}&view=split",
    "/usage",
    "/usage?by=model",
    "/usage?since=all&split=project&measure=tokens",
    "/?sort=-cost&starred=0&since=2026-01-01",
    "/prompts",
    f"/share?session={PLAIN}",
    f"/session/{REWOUND}/map",
    f"/session/{REWOUND}/compare",
    "/problems",
    "/about",
    f"/session/{PLAIN}",
    f"/session/{LONG}?from=50",
    f"/session/{AGENT}",
    "/nothing",
)


@pytest.fixture(scope="module")
def web_archive(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    return build_archive(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def server(web_archive: WebArchive) -> Iterator[RunningServer]:
    with run_server(web_archive.folder) as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("look", [("light", 1280), ("dark", 1280), ("dark", 390)])
def test_every_page_loads_without_errors_and_is_accessible(
    path: str, look: tuple[str, int], browser: Browser, server: RunningServer
) -> None:
    scheme, width = look
    size = {"width": width, "height": 800}
    with open_tab(browser, server, color_scheme=scheme, viewport=size) as tab:
        errors: list[str] = []
        tab.page.on("console", lambda line: errors.append(line.text))
        answer = tab.page.goto(server.home + path)
        tab.page.wait_for_load_state("networkidle" if "session" in path else "load")

        assert answer is not None
        assert answer.status == (404 if path == "/nothing" else 200)
        assert tab.errors == []
        assert [line for line in errors if "404" not in line] == []
        assert all(url.startswith((server.home, "data:")) for url in tab.requests)
        wide = tab.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        assert _violations(tab.page) == []


def test_neighboring_targets_are_large_enough(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    for number in range(1, 9):
        # Long titles, and projects that differ: links on every row, close together.
        cwd = f"/work/some-project-{number}"
        long_prompt = prompt(f"Prompt {number} " + "of many words " * 60, cwd=cwd)
        answer = reply("Yes", cwd=cwd, model=f"claude-opus-4-{number}")
        home.session(session_id(number), thread(long_prompt, answer))
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server:
        for width in (1280, 390):
            size = {"width": width, "height": 800}
            with open_tab(browser, server, viewport=size) as tab:
                for path in ("/", "/prompts", "/usage?since=all&measure=tokens"):
                    tab.page.goto(server.home + path)
                    assert _violations(tab.page) == []
                    heights = tab.page.evaluate(
                        "[...document.querySelectorAll('.c-project a, .legend a, "
                        ".palette-hint')].filter(one => one.checkVisibility())"
                        ".map(one => one.getBoundingClientRect().height)"
                    )
                    assert min(heights, default=24) >= 24
                    texts = tab.page.locator(".prompt-text")
                    assert texts.count() == 8 * (path == "/prompts")
                    for text in texts.all():
                        assert text.get_attribute("tabindex") == "0"


def test_table_on_a_phone_does_not_break_words(
    browser: Browser, server: RunningServer
) -> None:
    size = {"width": 390, "height": 800}
    with open_tab(browser, server, viewport=size) as tab:
        tab.page.goto(f"{server.home}/usage")
        cells = tab.page.locator("td:first-child, th:first-child")
        heights = [cell.bounding_box() for cell in cells.all()]

        assert heights
        assert all(box is not None and box["height"] < 60 for box in heights)


def test_pages_on_a_phone_show_whole_columns_and_the_name(
    browser: Browser, server: RunningServer
) -> None:
    size = {"width": 390, "height": 800}
    with open_tab(browser, server, viewport=size) as tab:
        tab.page.goto(f"{server.home}/projects")
        assert tab.page.evaluate(
            "(o => o.scrollWidth <= o.clientWidth)(document.querySelector('.table'))"
        )
        tab.page.goto(f"{server.home}/search")
        expect(tab.page.locator(".brand")).to_be_visible()
    with new_tab(browser, viewport=size) as tab:
        tab.page.goto(f"{server.home}/")
        expect(tab.page.locator(".brand")).to_be_visible()


def test_accessibility_checker_is_installed() -> None:
    if not AXE.exists():
        pytest.skip(
            "NO CHECKER: pages were not held against the rules of accessibility; "
            "`npm ci` in tests/browser brings one"
        )
    assert b"axe" in AXE.read_bytes()[:200]


def _violations(page: Page) -> list[str]:
    """Return what hinders people with disabilities, if the checker is there."""
    if not AXE.exists():
        return []
    # The checker is ours to run; the page itself lets no foreign script in.
    page.evaluate(AXE.read_text("utf-8") + "; 0")
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    result = page.evaluate(f"axe.run(document, {json.dumps(options)})")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in result["violations"]
        if one["impact"] in {"serious", "critical"}
    ]


def test_everything_works_with_the_keyboard(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page, keyboard = tab.page, tab.page.keyboard
        keyboard.press("j")
        keyboard.press("j")
        assert page.evaluate("document.activeElement.getAttribute('href')").startswith(
            "/session/"
        )
        keyboard.press("?")
        expect(page.locator("dialog[open] li").first).to_be_visible()
        keyboard.press("Escape")
        keyboard.press("/")
        keyboard.type("question number 7")
        keyboard.press("Enter")
        page.wait_for_url("**/search?q=question**")
        page.locator("#query").focus()
        page.locator(".hits .hit > a").first.wait_for()
        keyboard.press("ArrowDown")
        keyboard.press("Enter")
        page.wait_for_url(f"**/session/{LONG}*")
        expect(page.locator("#outline a").first).to_be_visible()
        for _ in range(3):
            keyboard.press("n")
        expect(page.locator("article:focus")).to_contain_text("number 2")
        keyboard.press("G")
        last = page.locator("article", has_text=f"Answer {LONG_TURNS - 1}")
        expect(last.last).to_be_in_viewport()
        keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_search_updates_while_typing(browser: Browser, server: RunningServer) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/search")
        page.locator("#query").press_sequentially("to", delay=20)
        expect(page.locator("#hints li").first).to_contain_text("tool:")
        page.keyboard.press("Tab")
        assert page.locator("#query").input_value() == "tool:"
        page.locator("#query").fill("three lines")
        expect(page.locator(".hits li").first).to_contain_text("Counting lines")
        page.wait_for_url("**/search?q=three+lines")
        page.locator("#query").fill("question")
        page.locator('.facets a[title="/work/other"]').click()
        page.wait_for_url("**project**")
        assert "project:/work/other" in page.locator("#query").input_value()
        page.go_back()
        page.wait_for_url("**/search?q=question")
        page.locator(".hits .excerpt").first.click()
        page.wait_for_url("**/session/**")
        expect(page.locator("article.target")).to_be_in_viewport()


def test_a_branch_is_switched_at_its_fork(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{REWOUND}")
        expect(page.locator("article.prompt").first).to_contain_text("Second way")
        page.locator(".mark.fork a").first.click()
        page.wait_for_url("**branch=1*")
        expect(page.locator("article.prompt").first).to_contain_text("First way")


def test_the_outline_of_a_long_session_follows_the_reader(
    browser: Browser, tmp_path: Path
) -> None:
    home = Home(tmp_path / ".claude")
    question = (prompt(f"Question {at}.") for at in range(MANY))
    home.session(PLAIN, thread(*(one for p in question for one in (p, reply("Yes.")))))
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server, open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{PLAIN}?from={MANY}")
        current = page.locator("#outline a[aria-current]")
        expect(current).to_be_in_viewport()
        middle = int(current.inner_text().strip("Question ."))
        assert abs(middle - MANY // 2) < 10
        high = page.evaluate("document.querySelector('#outline').clientHeight")
        assert high < page.evaluate("innerHeight")
        page.keyboard.press("G")
        line = page.locator("#outline a", has_text=f"Question {MANY - 1}.")
        expect(line).to_be_in_viewport()
        expect(current).to_be_in_viewport()
        assert MANY - int(current.inner_text().strip("Question .")) < 20
        # Its room is the same, whatever part of it is there.
        height = page.evaluate("document.querySelector('#outline').scrollHeight")
        page.locator("#outline").hover()
        page.mouse.wheel(0, -200_000)
        expect(page.locator("#outline a", has_text="Question 0.")).to_be_in_viewport()
        again = page.evaluate("document.querySelector('#outline').scrollHeight")
        assert again == height
        assert tab.errors == []


def test_agent_opens_in_panel_and_inline(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{AGENT}")
        page.locator("p.agent > a").click()
        expect(page.locator(".panel")).to_contain_text("Nothing odd.")
        expect(page.locator(".panel button").first).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator(".panel")).to_have_count(0)
        expect(page.locator("p.agent > a")).to_be_focused()
        page.locator("p.agent > a").click(modifiers=["Alt"])
        expect(page.locator(".inline-agent")).to_contain_text("Nothing odd.")


def test_message_copies_its_link_and_shows_its_record(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(
        browser, server, permissions=["clipboard-read", "clipboard-write"]
    ) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        # A click before the page listens only goes to the place.
        for _ in range(5):
            page.locator("#outline a", has_text="Question number 50").click()
            page.wait_for_timeout(1000)
            if page.locator("article.target").count():
                break
        expect(page.locator("article.target")).to_contain_text("Question number 50")
        page.keyboard.press("c")
        expect(page.locator("#live-region")).to_have_text("Link copied")
        link = page.evaluate("navigator.clipboard.readText()")
        page.keyboard.press("r")
        expect(page.locator("dialog[open] pre")).to_contain_text("Question number 50")
        page.keyboard.press("Escape")
        page.locator("article.target").hover()
        target = page.locator("article.target")
        target.get_by_role("button", name="Actions").click()
        target.get_by_role("button", name="Sent").click()
        expect(page.locator("dialog[open] h2")).to_have_text("What Claude was sent")
        expect(page.locator("dialog[open]")).to_contain_text("new: user")
        page.keyboard.press("Escape")
        page.goto(link)
        expect(page.locator("article.target")).to_contain_text("Question number 50")
        expect(page.locator("article.target")).to_be_in_viewport()
        page.keyboard.press("f")
        page.keyboard.type("question number 9")
        expect(page.locator(".finder output")).to_have_text("1 match")
        page.keyboard.press("Enter")
        expect(page.locator("article.target")).to_contain_text("Question number 9")
        page.keyboard.press("Escape")
        expect(page.locator(".finder")).to_have_count(0)


def test_match_in_a_collapsed_block_is_expanded(
    browser: Browser, tmp_path: Path
) -> None:
    home = Home(tmp_path / ".claude")
    home.session(
        PLAIN,
        thread(
            prompt("Look"),
            reply([thinking("Perhaps a lemur"), tool_use("Bash", command="cat a.txt")]),
            tool_result("toolu_1", "line\n" * 4_000 + "tapir"),
            reply([thinking("Of something else"), text("Done")]),
        ),
    )
    Archive.ingest(tmp_path / "archive", [home.path])
    with run_server(tmp_path / "archive") as server, open_tab(browser, server) as tab:
        page, result = tab.page, tab.page.locator(".finder output")
        page.goto(f"{server.home}/session/{PLAIN}?find=lemur")
        expect(result).to_have_text("1 match")
        expect(page.get_by_text("Perhaps a lemur")).to_be_hidden()
        page.locator(".finder input").press("Enter")
        expect(page.get_by_text("Perhaps a lemur")).to_be_visible()
        expect(page.get_by_text("Of something else")).to_be_hidden()
        page.locator(".finder input").fill("tapir")
        expect(result).to_have_text(
            "No matches here (only the start of a long tool result is searched)"
        )
        at = page.locator("article", has_text="Of something else").get_attribute("id")
        page.goto(f"{server.home}/session/{PLAIN}?at={at}&find=something")
        expect(page.get_by_text("Of something else")).to_be_visible()
        expect(page.get_by_text("Perhaps a lemur")).to_be_hidden()


def test_new_messages_appear_without_moving_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    archive_home = build_archive(tmp_path)
    path = archive_home.home.path / "projects" / "-work-other" / f"{LONG}.jsonl"
    with (
        run_server(archive_home.folder, archive_home.home.path) as server,
        open_tab(browser, server) as tab,
        open_tab(browser, server) as other,
    ):
        for one in (tab, other):
            one.page.goto(f"{server.home}/session/{LONG}")
            one.page.locator("#outline a").first.wait_for()
        tab.page.locator("#outline a").nth(20).click()
        tab.page.wait_for_timeout(500)
        other.page.keyboard.press("G")
        before = tab.page.evaluate(
            "document.querySelector('.target').getBoundingClientRect().top"
        )
        # Others may have the machine for a while: one of some has to be in time.
        took: list[float] = []
        while len(took) < TRIES and not any(one < 1 for one in took):
            took.append(_seconds_until_shown(other.page, path, len(took)))
        expect(tab.page.locator(".new-messages")).to_be_visible()
        expect(tab.page.locator(".top .running")).to_be_visible()
        expect(tab.page.locator("#outline")).to_be_attached()
        after = tab.page.evaluate(
            "document.querySelector('.target').getBoundingClientRect().top"
        )

        assert abs(after - before) <= 1
        assert min(took) < 1, took
        assert tab.errors == other.errors == []


def test_abandoned_branch_stays_open_while_it_is_read(
    browser: Browser, tmp_path: Path
) -> None:
    archive_home = build_archive(tmp_path)
    path = archive_home.home.path / "projects" / "-work-other" / f"{LONG}.jsonl"
    above = json.loads(path.read_bytes().splitlines()[7])["uuid"]
    left = thread(prompt("Another way", parent=above), reply("Gone."), start=9000)
    with (
        run_server(archive_home.folder, archive_home.home.path) as server,
        open_tab(browser, server) as tab,
    ):
        page = tab.page
        page.goto(f"{server.home}/session/{LONG}")
        page.locator("#outline a").first.wait_for()
        with path.open("ab") as file:
            file.write(jsonl([one | {"sessionId": LONG} for one in left]))
        expect(page.locator(".new-messages")).to_contain_text("rewind")
        page.keyboard.press("G")
        page.wait_for_timeout(500)

        ids = page.eval_on_selector_all("article[id]", "all => all.map(o => o.id)")
        assert len(ids) == len({*ids})
        expect(page.get_by_text("Another way", exact=True)).to_have_count(0)
        page.locator(".new-messages").click()
        expect(page.locator("article", has_text="Another way").first).to_be_attached()
        assert tab.errors == []


def test_stopping_the_server_disconnects_live_pages(
    browser: Browser, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    archive_home = build_archive(tmp_path)
    with ExitStack() as stack:
        with run_server(archive_home.folder, archive_home.home.path) as server:
            tab = stack.enter_context(open_tab(browser, server))
            with tab.page.expect_response("**/api/live"):
                tab.page.goto(f"{server.home}/session/{LONG}")

        assert "Traceback" not in capfd.readouterr().err


def test_lost_live_connection_is_opened_again_when_the_tab_is_used(
    browser: Browser, server: RunningServer
) -> None:
    """Another user's program may listen on the port, and would get the cookie."""
    with open_tab(browser, server) as tab:
        page = tab.page
        page.add_init_script(
            """window.sources = [];
            window.EventSource = class extends EventTarget {
              isClosed = false;
              constructor() { super(); window.sources.push(this); }
              close() { this.isClosed = true; }
            };"""
        )
        page.goto(f"{server.home}/session/{LONG}")
        page.wait_for_function("sources.length === 1")

        page.evaluate("sources[0].dispatchEvent(new Event('error'))")
        assert page.evaluate("sources.map((source) => source.isClosed)") == [True]
        page.keyboard.press("Shift")
        page.keyboard.press("Shift")

        closed = page.evaluate("sources.map((source) => source.isClosed)")
        assert closed == [True, False]
        assert tab.errors == []


def test_rest_of_a_long_output_is_loaded_when_expanded(
    browser: Browser, server: RunningServer
) -> None:
    with open_tab(browser, server) as tab:
        page = tab.page
        page.goto(f"{server.home}/session/{LOUD}")
        page.locator("details.call", has_text="cat all").locator(
            "summary"
        ).first.click()
        page.get_by_text("more lines").click()
        expect(page.get_by_text("line 9999 of many")).to_be_attached()
        change = page.locator("details.call", has_text="Write")
        change.locator("summary").first.click()
        change.get_by_text("Show 1,000 lines").click()
        expect(change.get_by_text("new 999 words")).to_be_attached()
        expect(page.locator("[data-rest]")).to_have_count(0)
        assert tab.errors == []


def _seconds_until_shown(page: Page, path: Path, number: int) -> float:
    """Append to a session that is shown; return the seconds until it is seen."""
    words = f"News number {number}."
    last = json.loads(path.read_bytes().splitlines()[-1])["uuid"]
    question = prompt("And now?", parent=last)
    news = thread(question, reply(words), start=5000 + 60 * number)
    page.evaluate(_AWAIT, words)
    written = time.time()
    with path.open("ab") as file:
        file.write(jsonl([one | {"sessionId": LONG} for one in news]))
    shown_at: float = page.evaluate("window.awaited")
    return shown_at / 1000 - written


_AWAIT = """
(words) => {
  window.awaited = new Promise((seen) => {
    const look = () => {
      if (document.getElementById("conversation").textContent.includes(words)) {
        watching.disconnect();
        seen(Date.now());
      }
    };
    const watching = new MutationObserver(look);
    watching.observe(document.body, { childList: true, subtree: true });
  });
}
"""


def test_server_on_another_port_does_not_get_the_cookie(
    server: RunningServer, browser: Browser
) -> None:
    cookies: list[str | None] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(self.headers.get("Cookie"))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Other) as other, open_tab(browser, server) as tab:
        thread = Thread(target=other.serve_forever, daemon=True)
        thread.start()
        port = other.server_address[1]
        for host in ("127.0.0.1", "localhost"):
            tab.page.goto(f"http://{host}:{port}/")
        other.shutdown()

    assert len(cookies) >= 2
    assert set(cookies) == {None}


def test_dns_rebinding_gets_nothing(server: RunningServer, browser: Browser) -> None:
    port = server.home.rpartition(":")[2]
    launched = browser.browser_type.launch(
        executable_path=next(filter(None, map(shutil.which, NAMES))),
        args=["--no-sandbox", "--host-resolver-rules=MAP attacker.test 127.0.0.1"],
    )
    try:
        page = launched.new_page()
        page.goto(server.links[-1])
        page.wait_for_url(f"{server.home}/")
        answer = page.goto(f"http://attacker.test:{port}/")
        assert answer is not None
        assert answer.status == 421
        assert "Counting" not in page.content()
        result = page.evaluate(
            f"fetch('{server.home}/api/sessions', {{credentials: 'include'}})"
            ".then((answer) => answer.text(), () => 'refused')"
        )
        assert result == "refused"
    finally:
        launched.close()
