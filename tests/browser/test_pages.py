"""What a page is like to read: contrast, keys, phones, no script, great length."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from bygones.export.folder import export_folder
from bygones.export.formats import ExportFormat
from tests.browser.tabs import new_tab, write_page
from tests.build import Written, prompt, reply, thread, tool_result, tool_use
from tests.export.shared import export_items, export_options, make_home
from tests.render.shared import session_of
from tests.render.stories import STORIES, called, everyday, passing, rewound

pytestmark = pytest.mark.full

PHONE = {"width": 390, "height": 844}
PAPER = {"width": 718, "height": 1000}
DESK = {"width": 1280, "height": 900}
_CONTRASTS = """
() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(") ? [...found.slice(0, 3).map((n) => n * 255),
      found[3] ?? 1] : [found[0], found[1], found[2], found[3] ?? 1];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((n) => {
      const c = n / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color[3] > 0.99) return color;
    }
    return [255, 255, 255, 1];
  };
  const weak = [];
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || one.localName === "script") continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(ground(one))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) weak.push([contrast.toFixed(2), one.className || one.tagName,
      walker.currentNode.data.trim().slice(0, 30)].join(" "));
  }
  return weak;
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("story", STORIES)
def test_every_text_has_enough_contrast(
    story: str, scheme: str, browser: Browser, tmp_path: Path
) -> None:
    path = write_page(STORIES[story](tmp_path / "home"), tmp_path / "page.html")

    with new_tab(browser, color_scheme=scheme, viewport=DESK) as tab:
        tab.open(path)
        weak = tab.page.evaluate(_CONTRASTS)

    assert weak == []


def test_chosen_theme_is_kept(browser: Browser, tmp_path: Path) -> None:
    path = write_page(everyday(tmp_path / "home"), tmp_path / "page.html")
    ground = "getComputedStyle(document.body).backgroundColor"

    with new_tab(browser, color_scheme="light") as tab:
        tab.open(path)
        before = tab.page.evaluate(ground)
        tab.page.keyboard.press("t")
        tab.page.keyboard.press("t")
        after = tab.page.evaluate(ground)
        tab.page.reload()
        tab.page.wait_for_selector("#theme-dark:checked", state="attached")
        again = tab.page.evaluate(ground)

    assert before != after == again


@pytest.mark.parametrize("story", STORIES)
def test_nothing_is_wider_than_a_phone(
    story: str, browser: Browser, tmp_path: Path
) -> None:
    path = write_page(STORIES[story](tmp_path / "home"), tmp_path / "page.html")

    with new_tab(browser, viewport=PHONE) as tab:
        tab.open(path)
        tab.page.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = 1)"
        )
        width = tab.page.evaluate("document.documentElement.scrollWidth")

    assert width <= PHONE["width"]


def test_nothing_is_wider_than_printed_paper(browser: Browser, tmp_path: Path) -> None:
    row = " | ".join(f"value{n}" for n in range(30))
    text = f"```\n{'z' * 400}\n```\n\n| {row} |\n|{'---|' * 30}\n| {row} |"
    edit = tool_use("Edit", file_path="f", old_string="a" * 300, new_string="b" * 300)
    records = thread(prompt("x" * 300), reply(text), reply([edit], message_id="m2"))
    path = write_page(session_of(tmp_path / "home", records), tmp_path / "page.html")

    with new_tab(browser, viewport=PAPER) as tab:
        tab.page.emulate_media(media="print")
        tab.open(path)
        tab.page.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = 1)"
        )
        rights = tab.page.evaluate(
            "[...document.querySelectorAll('pre, pre *, td')].map(one => "
            "Math.max(one.getBoundingClientRect().right, one.scrollWidth))"
        )

    assert len(rights) > 30
    assert max(rights) <= PAPER["width"]


def test_everything_is_readable_without_scripts(
    browser: Browser, tmp_path: Path
) -> None:
    talk = write_page(rewound(tmp_path / "a"), tmp_path / "a.html")
    agents = write_page(called(tmp_path / "b"), tmp_path / "b.html")

    with new_tab(browser, java_script_enabled=False) as tab:
        tab.open(talk)
        assert not tab.page.get_by_text("Of the wind", exact=True).is_visible()
        assert tab.page.locator("main").get_by_text("Of the sun").is_visible()
        tab.page.get_by_label("branch 3").check()
        assert tab.page.get_by_text("Of the wind", exact=True).is_visible()
        tab.page.get_by_label("Dark").check()
        tab.open(agents)
        assert not tab.page.get_by_text("Find it").is_visible()
        tab.page.locator("summary", has_text="Explore").click()
        assert tab.page.get_by_text("Find it").is_visible()


def test_another_branch_replaces_the_live_one(browser: Browser, tmp_path: Path) -> None:
    talk = write_page(rewound(tmp_path / "a"), tmp_path / "a.html")

    with new_tab(browser) as tab:
        tab.open(talk)
        live = tab.page.locator("#m-p4")
        tab.page.get_by_label("branch 3").check()
        assert not live.is_visible()
        tab.page.get_by_label("the live branch").last.check()
        assert live.is_visible()


def test_link_expands_its_target(browser: Browser, tmp_path: Path) -> None:
    talk = write_page(rewound(tmp_path / "a"), tmp_path / "a.html")

    with new_tab(browser) as tab:
        tab.page.goto(f"{talk.as_uri()}#m-p2")

        assert tab.page.locator("#m-p2").is_visible()


def test_keys_move_between_messages_and_prompts(
    browser: Browser, tmp_path: Path
) -> None:
    session = session_of(
        tmp_path / "home",
        thread(
            *(r for n in range(9) for r in (prompt(f"a{n}"), reply(f"b\n\n{n}" * 40)))
        ),
    )
    path = write_page(session, tmp_path / "page.html")
    focused = "document.activeElement.innerText.split('\\n').at(-1)"

    # Keys may come faster than a page could move smoothly.
    with new_tab(browser, viewport=DESK, reduced_motion="no-preference") as tab:
        tab.open(path)
        for key in "nnn":
            tab.page.keyboard.press(key)
        third = tab.page.evaluate(focused)
        tab.page.keyboard.press("p")
        second = tab.page.evaluate(focused)
        tab.page.keyboard.press("j")
        role = tab.page.evaluate("document.activeElement.className")

    assert (third, second, role) == ("a2", "a1", "answer")


def test_first_tab_stop_skips_the_header(browser: Browser, tmp_path: Path) -> None:
    path = write_page(passing(tmp_path / "home"), tmp_path / "page.html")

    with new_tab(browser) as tab:
        tab.open(path)
        tab.page.keyboard.press("Tab")
        skip = tab.page.evaluate("document.activeElement.hash")

    assert skip == "#main"


def test_a_folder_is_searched_by_words(browser: Browser, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", 5)
    export_folder(
        export_items(home.path), tmp_path / "site", export_options(ExportFormat.HTML)
    )

    with new_tab(browser) as tab:
        tab.open(tmp_path / "site" / "index.html")
        everything = tab.page.locator(".sessions li").count()
        tab.page.fill(".find", "number 3")
        found = tab.page.locator(".sessions li")
        assert (everything, found.count()) == (5, 1)
        assert tab.page.locator(".status").inner_text() == "1 session"
        found.locator("a").click()
        tab.page.wait_for_url("**/sessions/*.html")
        assert "Number 3 is" in tab.page.locator("main").inner_text()

    assert tab.external_requests == []
    assert tab.errors == []


def test_fifty_thousand_messages_open_quickly(browser: Browser, tmp_path: Path) -> None:
    path = write_page(
        session_of(tmp_path / "home", _long_session()), tmp_path / "page.html"
    )
    head, _, rest = path.read_text("utf-8").partition('<section class="part">')
    body, _, foot = rest.rpartition("</main>")
    rounds = (re.sub(r'id="(\w)-', rf'id="\1-{n}x', body) for n in range(84))
    main = "".join(f'<section class="part">{one}' for one in rounds)
    path.write_text(f"{head}{main}</main>{foot}", "utf-8")

    with new_tab(browser, viewport=DESK) as tab:
        tab.page.goto(path.as_uri(), wait_until="commit")
        tab.page.wait_for_selector("article.prompt")
        painted = tab.page.evaluate("performance.now()")
        tab.page.wait_for_load_state("load")
        count = tab.page.locator("article").count()
        longest = tab.page.evaluate(_SCROLL)

    assert count > 50_000
    assert painted < 5_000
    assert longest < 1_000


def _long_session() -> list[Written]:
    return thread(
        *(
            record
            for name in map(str, range(200))
            for record in (
                prompt(f"ask {name}"),
                reply([tool_use("Bash", id=name, command="ls")], message_id=f"a{name}"),
                tool_result(name, "one\ntwo"),
                reply(f"say **{name}**", message_id=f"b{name}"),
            )
        )
    )


_SCROLL = """
async () => {
  let longest = 0;
  for (let n = 0; n < 20; n += 1) {
    const start = performance.now();
    scrollBy({ top: 700, behavior: "instant" });
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    longest = Math.max(longest, performance.now() - start);
  }
  return longest;
}
"""
"""Scrolls page after page, and tells the milliseconds of the slowest step."""
