"""Measure how soon a session is visible in a browser, compared with agentsview.

``python -m benchmarks.bench_browser HOME --archive ARCHIVE`` opens sessions by URL in
Debian's Chromium, alternating between the two servers, and measures the time from the
start of the navigation until the first message is in the page. Scripts and styles are
cached by then; every session is new to server and browser. External requests are blocked.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from playwright.sync_api import Page, Route, sync_playwright

from benchmarks.bench_web import (
    PEER,
    Server,
    option_parser,
    ours,
    questions,
    theirs,
    write_report,
)
from benchmarks.contenders import install

CHROMIUM = "/usr/bin/chromium"
WARM = 3
"""Sessions that are opened before anything is measured."""
PATIENCE = 60_000
_WATCH = """
  const look = () => {
    if (!window.seen && document.querySelector(%r)) window.seen = performance.now();
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
"""


class Looked(NamedTuple):
    """Whose pages are looked at, and by what a message is known there."""

    server: Server
    path: str
    message: str

    def address(self, session: str) -> str:
        """Return where a session is."""
        return f"http://127.0.0.1:{self.server.port}{self.path.format(session)}"


def opened(page: Page, address: str, message: str) -> float:
    """Open a page and return after how many milliseconds a message was there."""
    page.goto(address, wait_until="commit")
    page.wait_for_selector(message, state="attached", timeout=PATIENCE)
    return float(page.evaluate("window.seen"))


def pages(
    looked: Sequence[Looked], sessions: Sequence[str]
) -> Iterator[tuple[str, list[float]]]:
    """Yield whose pages took how long; each session is asked of all in turn."""
    took: dict[str, list[float]] = {one.server.name: [] for one in looked}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        views = []
        for one in looked:
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            name, _, value = one.server.cookie.partition("=")
            if name:
                own = f"http://127.0.0.1:{one.server.port}"
                context.add_cookies([{"name": name, "value": value, "url": own}])
            page = context.new_page()
            page.route("https://**", _refused)
            page.add_init_script(_WATCH % one.message)
            views.append((one, page))
        for number, session in enumerate(sessions):
            for one, page in views:
                seen = opened(page, one.address(session), one.message)
                if number >= WARM:
                    took[one.server.name].append(seen)
        browser.close()
    yield from took.items()


def _refused(route: Route) -> None:
    route.abort()


def report(took: Sequence[tuple[str, list[float]]]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| program | median ms | p95 ms | share of agentsview |"
    yield "|---|---:|---:|---:|"
    last = {name: _p95(some) for name, some in took}
    for name, some in took:
        median = sorted(some)[len(some) // 2]
        ratio = last[name] / last[PEER.name]
        yield f"| {name} | {median:.0f} | {last[name]:.0f} | {ratio:.2f} |"


def _p95(took: Sequence[float]) -> float:
    return sorted(took)[min(round(len(took) * 0.95), len(took) - 1)]


def main(arguments: list[str]) -> int:
    """Measure, print the report, and save it if requested."""
    description = (
        "Open sessions in a browser, served by Bygones and by agentsview in turn."
    )
    options = option_parser("bench_browser", description, count=40).parse_args(
        arguments
    )
    options.scratch.mkdir(parents=True, exist_ok=True)
    version = install(PEER, options.scratch)
    sessions = questions(options.archive, options.count + WARM)[1].items(5)
    with ours(options.archive) as us, theirs(options.home, options.scratch) as them:
        looked = (
            Looked(us, "/session/{}", "#conversation article"),
            Looked(them, "/sessions/{}", ".message .text-content"),
        )
        took = list(pages(looked, sessions))
    lines = [
        f"# In a browser · Python {platform.python_version()}, {platform.machine()}\n",
        (
            f"{options.count} sessions, in turn; {os.cpu_count()} cores, {PEER.name}"
            f" {version}. Time until the first message is in the page.\n"
        ),
        *report(took),
    ]
    write_report(lines, options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
