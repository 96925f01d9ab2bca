"""The page as it is served, and a browser that has opened it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from playwright.sync_api import Browser

from bygones.web.server import ServerConfig, WebServer
from tests.browser.shared import Watched, watched

__all__ = ["Served", "opened", "served"]


class Served:
    """A server and the links that it told."""

    def __init__(self) -> None:
        self.links: list[str] = []
        self.home = ""
        """Where it is, for browsers."""


@contextmanager
def served(folder: Path, *homes: Path) -> Iterator[Served]:
    """Serve an archive in a thread of this program."""
    found = Served()
    serving = WebServer(ServerConfig(folder=folder, homes=homes), found.links.append)
    found.home = serving.browser_origin
    thread = Thread(target=serving.run, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        serving.stop()
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def opened(browser: Browser, found: Served, **options: object) -> Iterator[Watched]:
    """Give a page that was opened with a link."""
    with watched(browser, **options) as seen:
        seen.page.goto(found.links[-1])
        seen.page.wait_for_url(f"{found.home}/")
        seen.requests.clear()
        yield seen
