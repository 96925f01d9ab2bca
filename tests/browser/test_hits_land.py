"""Search results of the corpus: each excerpt is on screen and highlighted after a click."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from bygones.archive import Archive
from tests.browser.server import open_tab, run_server
from tests.corpus import CORPUS, needs_corpus
from tests.corpus_queries import corpus_queries

pytestmark = [pytest.mark.full, needs_corpus]

_QUERY_COUNT = 100
_AROUND = 6
"""Letters and digits before or after a match that have to be on screen with it."""

_MOST = 0.8
"""Share of the words of an excerpt."""

_EXCERPTS = """() => [...document.querySelectorAll("a.excerpt")].map((link) => {
  const copy = link.cloneNode(true);
  copy.querySelector("small")?.remove();
  const mark = copy.querySelector("mark");
  if (mark) { mark.prepend("\\u0001"); mark.append("\\u0002"); }
  return [link.getAttribute("href"), copy.textContent, Boolean(mark)];
})"""

_ON_SCREEN = """() => {
  const edge = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
  const isShown = (rectangles) => [...rectangles].some(
    ({ top, bottom, width }) => width && bottom > edge && top < innerHeight);
  const marks = [...document.querySelectorAll("article mark, .note mark")]
    .filter((mark) => isShown(mark.getClientRects())).map((mark) => mark.textContent);
  const words = [...(CSS.highlights.get("words") ?? [])]
    .filter((range) => isShown(range.getClientRects())).map(String);
  const walker = document.createTreeWalker(
    document.getElementById("conversation"), NodeFilter.SHOW_TEXT);
  let text = "";
  const range = new Range();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    range.selectNode(node);
    if (isShown(range.getClientRects())) text += node.data;
  }
  const hash = decodeURIComponent(location.hash.slice(1));
  const target = document.getElementById(hash);
  return {
    highlighted: [...marks, ...words], text,
    isTargetShown: Boolean(target && isShown(target.getClientRects())),
  };
}"""

_STATUS = """() => document.querySelector(".finder output")?.textContent ?? ''"""


class Excerpt(NamedTuple):
    """An excerpt of the results: its link and its text; a mark before the first match."""

    url: str
    text: str
    is_marked: bool

    def is_in(self, text: str) -> bool:
        """Whether a text contains the first match with what is before or after it.

        The excerpt of a call joins its fields, which a page shows in different places:
        then it is enough that the text has most of the words.
        """
        before, _, rest = self.text.partition("\x01")
        word, after = _plain(rest.partition("\x02")[0]), _plain(rest)
        plain = _plain(text)
        around = (after[: len(word) + _AROUND], _plain(before)[-_AROUND:] + word)
        if any(part in plain for part in around if len(part) > len(word)):
            return True
        words = [_plain(one) for one in re.findall(r"[^\W_]+", self.text)]
        return sum(one in plain for one in words) >= _MOST * len(words)


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def excerpts_of(page: Page, home: str, query: str) -> list[Excerpt]:
    page.goto(f"{home}/search?q={_quoted(query)}")
    return [Excerpt(*row) for row in page.evaluate(_EXCERPTS) if "at=" in row[0]]


def _quoted(text: str) -> str:
    return quote(text, safe="")


def settle(page: Page) -> None:
    """Wait until the finder shows the position of the match."""
    until = time.monotonic() + 20
    while not re.search(r"\d of \d", page.evaluate(_STATUS)):
        if re.search("atch|nvalid", page.evaluate(_STATUS)):
            until = min(until, time.monotonic() + 2)  # there may be no position
        if time.monotonic() > until:
            return
        page.wait_for_timeout(30)


def misses_of(page: Page, excerpt: Excerpt) -> Iterator[str]:
    """Yield what is not as it should be after an excerpt was opened."""
    settle(page)
    seen = page.evaluate(_ON_SCREEN)
    if excerpt.is_marked and not seen["highlighted"]:
        yield "nothing on screen is highlighted"
    if not excerpt.is_marked and not seen["isTargetShown"]:
        yield "the message is not on screen"
    if excerpt.is_marked and not excerpt.is_in(seen["text"]):
        yield f"not on screen: {excerpt.text!r}"


def misses_of_keys(page: Page) -> Iterator[str]:
    """Yield what is not as it should be after the keys for next and previous match."""
    before = page.evaluate(_STATUS)
    count = re.sub(r"\D", "", before.partition(" of ")[2])
    if not count.isdecimal() or int(count) < 2:
        return
    for key in (".", ","):
        status = page.evaluate(_STATUS)
        page.keyboard.press(key)
        until = time.monotonic() + 20
        while page.evaluate(_STATUS) == status and time.monotonic() < until:
            page.wait_for_timeout(30)
        while not page.evaluate(_ON_SCREEN)[
            "highlighted"
        ] and "not shown" not in page.evaluate(_STATUS):
            if time.monotonic() > until:
                yield f"nothing on screen is highlighted after {key}"
                break
            page.wait_for_timeout(30)
    if not page.evaluate(_STATUS).startswith(before.partition(",")[0]):
        yield f"{before} before, and {page.evaluate(_STATUS)} after both keys"


def test_every_excerpt_of_the_corpus_is_on_screen_and_highlighted(
    browser: Browser, tmp_path: Path
) -> None:
    Archive.ingest(tmp_path / "archive", [CORPUS])
    count, misses = 0, []
    with run_server(tmp_path / "archive") as server, open_tab(browser, server) as tab:
        page = tab.page
        for kind, query in corpus_queries(_QUERY_COUNT):
            for at, excerpt in enumerate(excerpts_of(page, server.home, query)):
                count += 1
                page.goto(server.home + excerpt.url)
                found = list(misses_of(page, excerpt))
                if not at and excerpt.is_marked:
                    found += misses_of_keys(page)
                where = f"{kind} {query!r}, excerpt {at + 1}, {excerpt.url}"
                misses += [f"{where}: {miss}" for miss in found]
        assert tab.errors == []
    assert count > 5 * _QUERY_COUNT
    assert misses == []
