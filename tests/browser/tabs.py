"""Tabs of a browser that record what a page does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from bygones.model.nodes import parse_user_text
from bygones.model.sessions import Session
from bygones.render.html.page import PageFrame, render_session_page
from bygones.render.html.session import HtmlOptions

__all__ = ["BrowserTab", "new_tab", "write_page"]


class BrowserTab:
    """A page with its requests, dialogs and errors."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._dialog)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _dialog(self, dialog: object) -> None:
        self.dialogs.append(str(dialog))
        dialog.dismiss()  # type: ignore[attr-defined]

    def open(self, path: Path) -> None:
        """Open a file and wait until it has settled."""
        self.page.goto(path.as_uri(), wait_until="load")

    @property
    def external_requests(self) -> list[str]:
        """Requests for what is neither a file nor in the page."""
        return [u for u in self.requests if not u.startswith(("file:", "data:"))]


@contextmanager
def new_tab(browser: Browser, **options: object) -> Iterator[BrowserTab]:
    """Open a tab of a browser without cookies."""
    context = browser.new_context(**options)  # type: ignore[arg-type]
    try:
        yield BrowserTab(context.new_page())
    finally:
        context.close()


def write_page(session: Session, path: Path, frame: PageFrame | None = None) -> Path:
    """Write a session as one page and return where it is."""
    pieces = render_session_page(
        session, options=HtmlOptions(text_parser=parse_user_text), frame=frame
    )
    path.write_text("".join(pieces), "utf-8")
    return path
