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
from tests.browser.serving import Served, opened, served
from tests.build import (
    Home,
    jsonl,
    prompt,
    reply,
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
def kept(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    return build_archive(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def site(kept: WebArchive) -> Iterator[Served]:
    with served(kept.folder) as found:
        yield found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("look", [("light", 1280), ("dark", 1280), ("dark", 390)])
def test_every_page_is_whole(
    path: str, look: tuple[str, int], browser: Browser, site: Served
) -> None:
    scheme, width = look
    size = {"width": width, "height": 800}
    with opened(browser, site, color_scheme=scheme, viewport=size) as seen:
        said: list[str] = []
        seen.page.on("console", lambda line: said.append(line.text))
        answer = seen.page.goto(site.home + path)
        seen.page.wait_for_load_state("networkidle" if "session" in path else "load")

        assert answer is not None
        assert answer.status == (404 if path == "/nothing" else 200)
        assert seen.errors == []
        assert [line for line in said if "404" not in line] == []
        assert all(url.startswith((site.home, "data:")) for url in seen.requests)
        wide = seen.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        assert _violations(seen.page) == []


def test_a_table_on_a_phone_breaks_no_word_into_letters(
    browser: Browser, site: Served
) -> None:
    size = {"width": 390, "height": 800}
    with opened(browser, site, viewport=size) as seen:
        seen.page.goto(f"{site.home}/usage")
        cells = seen.page.locator("td:first-child, th:first-child")
        heights = [cell.bounding_box() for cell in cells.all()]

        assert heights
        assert all(box is not None and box["height"] < 60 for box in heights)


def test_the_checker_of_accessibility_is_there() -> None:
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
    told = page.evaluate(f"axe.run(document, {json.dumps(options)})")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in told["violations"]
        if one["impact"] in {"serious", "critical"}
    ]


def test_everything_can_be_done_with_keys(browser: Browser, site: Served) -> None:
    with opened(browser, site) as seen:
        page, keyboard = seen.page, seen.page.keyboard
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


def test_search_finds_as_one_types(browser: Browser, site: Served) -> None:
    with opened(browser, site) as seen:
        page = seen.page
        page.goto(f"{site.home}/search")
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


def test_a_branch_is_switched_at_its_fork(browser: Browser, site: Served) -> None:
    with opened(browser, site) as seen:
        page = seen.page
        page.goto(f"{site.home}/session/{REWOUND}")
        expect(page.locator("article.prompt").first).to_contain_text("Second way")
        page.locator(".mark.fork a").first.click()
        page.wait_for_url("**branch=1*")
        expect(page.locator("article.prompt").first).to_contain_text("First way")


def test_the_outline_of_a_long_session_follows_the_reader(
    browser: Browser, tmp_path: Path
) -> None:
    home = Home(tmp_path / ".claude")
    asked = (prompt(f"Question {at}.") for at in range(MANY))
    home.session(PLAIN, thread(*(one for p in asked for one in (p, reply("Yes.")))))
    Archive.ingest(tmp_path / "archive", [home.path])
    with served(tmp_path / "archive") as site, opened(browser, site) as seen:
        page = seen.page
        page.goto(f"{site.home}/session/{PLAIN}?from={MANY}")
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
        whole = page.evaluate("document.querySelector('#outline').scrollHeight")
        page.locator("#outline").hover()
        page.mouse.wheel(0, -200_000)
        expect(page.locator("#outline a", has_text="Question 0.")).to_be_in_viewport()
        again = page.evaluate("document.querySelector('#outline').scrollHeight")
        assert again == whole
        assert seen.errors == []


def test_an_agent_opens_beside_and_inside(browser: Browser, site: Served) -> None:
    with opened(browser, site) as seen:
        page = seen.page
        page.goto(f"{site.home}/session/{AGENT}")
        page.locator("p.agent > a").click()
        expect(page.locator(".panel")).to_contain_text("Nothing odd.")
        expect(page.locator(".panel button").first).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator(".panel")).to_have_count(0)
        expect(page.locator("p.agent > a")).to_be_focused()
        page.locator("p.agent > a").click(modifiers=["Alt"])
        expect(page.locator(".inline-agent")).to_contain_text("Nothing odd.")


def test_a_message_gives_its_link_and_its_record(
    browser: Browser, site: Served
) -> None:
    with opened(
        browser, site, permissions=["clipboard-read", "clipboard-write"]
    ) as seen:
        page = seen.page
        page.goto(f"{site.home}/session/{LONG}")
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


def test_what_is_found_in_a_fold_unfolds(browser: Browser, tmp_path: Path) -> None:
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
    with served(tmp_path / "archive") as site, opened(browser, site) as seen:
        page, told = seen.page, seen.page.locator(".finder output")
        page.goto(f"{site.home}/session/{PLAIN}?find=lemur")
        expect(told).to_have_text("1 match")
        expect(page.get_by_text("Perhaps a lemur")).to_be_hidden()
        page.locator(".finder input").press("Enter")
        expect(page.get_by_text("Perhaps a lemur")).to_be_visible()
        expect(page.get_by_text("Of something else")).to_be_hidden()
        page.locator(".finder input").fill("tapir")
        expect(told).to_have_text(
            "No matches here (only the start of a long tool result is searched)"
        )
        at = page.locator("article", has_text="Of something else").get_attribute("id")
        page.goto(f"{site.home}/session/{PLAIN}?at={at}&find=something")
        expect(page.get_by_text("Of something else")).to_be_visible()
        expect(page.get_by_text("Perhaps a lemur")).to_be_hidden()


def test_news_appear_and_move_nothing(browser: Browser, tmp_path: Path) -> None:
    archive_home = build_archive(tmp_path)
    path = archive_home.home.path / "projects" / "-work-other" / f"{LONG}.jsonl"
    with (
        served(archive_home.folder, archive_home.home.path) as site,
        opened(browser, site) as seen,
        opened(browser, site) as other,
    ):
        for one in (seen, other):
            one.page.goto(f"{site.home}/session/{LONG}")
            one.page.locator("#outline a").first.wait_for()
        seen.page.locator("#outline a").nth(20).click()
        seen.page.wait_for_timeout(500)
        other.page.keyboard.press("G")
        before = seen.page.evaluate(
            "document.querySelector('.target').getBoundingClientRect().top"
        )
        # Others may have the machine for a while: one of some has to be in time.
        took: list[float] = []
        while len(took) < TRIES and not any(one < 1 for one in took):
            took.append(_appearing(other.page, path, len(took)))
        expect(seen.page.locator(".new-messages")).to_be_visible()
        expect(seen.page.locator(".top .running")).to_be_visible()
        expect(seen.page.locator("#outline")).to_be_attached()
        after = seen.page.evaluate(
            "document.querySelector('.target').getBoundingClientRect().top"
        )

        assert abs(after - before) <= 1
        assert min(took) < 1, took
        assert seen.errors == other.errors == []


def test_of_a_branch_that_is_left_while_it_is_read_no_other_is_shown(
    browser: Browser, tmp_path: Path
) -> None:
    archive_home = build_archive(tmp_path)
    path = archive_home.home.path / "projects" / "-work-other" / f"{LONG}.jsonl"
    above = json.loads(path.read_bytes().splitlines()[7])["uuid"]
    left = thread(prompt("Another way", parent=above), reply("Gone."), start=9000)
    with (
        served(archive_home.folder, archive_home.home.path) as site,
        opened(browser, site) as seen,
    ):
        page = seen.page
        page.goto(f"{site.home}/session/{LONG}")
        page.locator("#outline a").first.wait_for()
        with path.open("ab") as file:
            file.write(jsonl([one | {"sessionId": LONG} for one in left]))
        expect(page.locator(".new-messages")).to_contain_text("rewound")
        page.keyboard.press("G")
        page.wait_for_timeout(500)

        ids = page.eval_on_selector_all("article[id]", "all => all.map(o => o.id)")
        assert len(ids) == len({*ids})
        expect(page.get_by_text("Another way", exact=True)).to_have_count(0)
        page.locator(".new-messages").click()
        expect(page.locator("article", has_text="Another way").first).to_be_attached()
        assert seen.errors == []


def test_stopping_lets_pages_go_that_listen(
    browser: Browser, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    archive_home = build_archive(tmp_path)
    with ExitStack() as stack:
        with served(archive_home.folder, archive_home.home.path) as site:
            seen = stack.enter_context(opened(browser, site))
            with seen.page.expect_response("**/api/live"):
                seen.page.goto(f"{site.home}/session/{LONG}")

        assert "Traceback" not in capfd.readouterr().err


def test_the_end_of_a_long_output_comes_when_it_is_unfolded(
    browser: Browser, site: Served
) -> None:
    with opened(browser, site) as seen:
        page = seen.page
        page.goto(f"{site.home}/session/{LOUD}")
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
        assert seen.errors == []


def _appearing(page: Page, path: Path, number: int) -> float:
    """Append to a session that is shown; return the seconds until it is seen."""
    words = f"News number {number}."
    last = json.loads(path.read_bytes().splitlines()[-1])["uuid"]
    asked = prompt("And now?", parent=last)
    news = thread(asked, reply(words), start=5000 + 60 * number)
    page.evaluate(_AWAIT, words)
    written = time.time()
    with path.open("ab") as file:
        file.write(jsonl([one | {"sessionId": LONG} for one in news]))
    seen: float = page.evaluate("window.awaited")
    return seen / 1000 - written


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
    site: Served, browser: Browser
) -> None:
    cookies: list[str | None] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(self.headers.get("Cookie"))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Other) as other, opened(browser, site) as seen:
        thread = Thread(target=other.serve_forever, daemon=True)
        thread.start()
        port = other.server_address[1]
        for host in ("127.0.0.1", "localhost"):
            seen.page.goto(f"http://{host}:{port}/")
        other.shutdown()

    assert len(cookies) >= 2
    assert set(cookies) == {None}


def test_a_name_that_points_here_gets_nothing(site: Served, browser: Browser) -> None:
    port = site.home.rpartition(":")[2]
    launched = browser.browser_type.launch(
        executable_path=next(filter(None, map(shutil.which, NAMES))),
        args=["--no-sandbox", "--host-resolver-rules=MAP attacker.test 127.0.0.1"],
    )
    try:
        page = launched.new_page()
        page.goto(site.links[-1])
        page.wait_for_url(f"{site.home}/")
        answer = page.goto(f"http://attacker.test:{port}/")
        assert answer is not None
        assert answer.status == 421
        assert "Counting" not in page.content()
        told = page.evaluate(
            f"fetch('{site.home}/api/sessions', {{credentials: 'include'}})"
            ".then((answer) => answer.text(), () => 'refused')"
        )
        assert told == "refused"
    finally:
        launched.close()
