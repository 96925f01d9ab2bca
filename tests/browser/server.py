"""The page as it is served, and a browser that has opened it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from playwright.sync_api import Browser

from bygones.web.server import ServerConfig, WebServer
from tests.browser.tabs import BrowserTab, new_tab

__all__ = ["RunningServer", "open_tab", "run_server"]


class RunningServer:
    """A server and the links that it printed."""

    def __init__(self) -> None:
        self.links: list[str] = []
        self.home = ""
        """Where it is, for browsers."""


@contextmanager
def run_server(folder: Path, *homes: Path) -> Iterator[RunningServer]:
    """Serve an archive in a thread of this program."""
    server = RunningServer()
    web_server = WebServer(
        ServerConfig(folder=folder, homes=homes), server.links.append
    )
    server.home = web_server.browser_origin
    thread = Thread(target=web_server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        web_server.stop()
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def open_tab(
    browser: Browser, server: RunningServer, **options: object
) -> Iterator[BrowserTab]:
    """Open a tab that is signed in with a link."""
    with new_tab(browser, **options) as tab:
        tab.page.goto(server.links[-1])
        tab.page.wait_for_url(f"{server.home}/")
        tab.requests.clear()
        yield tab
