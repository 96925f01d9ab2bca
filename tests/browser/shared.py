"""Pages as a browser sees them, and what they did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from bygones.model.nodes import parse_user_text
from bygones.model.sessions import Session
from bygones.render.html.page import PageFrame, render_session_page
from bygones.render.html.session import HtmlOptions

__all__ = ["Watched", "page_of", "watched"]


class Watched:
    """A page that is being watched: what it asked for, and what it said."""

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
    def elsewhere(self) -> list[str]:
        """What was asked for that is neither a file nor in the page."""
        return [u for u in self.requests if not u.startswith(("file:", "data:"))]


@contextmanager
def watched(browser: Browser, **options: object) -> Iterator[Watched]:
    """Give a page in a browser that knows nothing yet."""
    context = browser.new_context(**options)  # type: ignore[arg-type]
    try:
        yield Watched(context.new_page())
    finally:
        context.close()


def page_of(session: Session, path: Path, shell: PageFrame | None = None) -> Path:
    """Write a session as one page and return where it is."""
    pieces = render_session_page(
        session, options=HtmlOptions(text_parser=parse_user_text), frame=shell
    )
    path.write_text("".join(pieces), "utf-8")
    return path
