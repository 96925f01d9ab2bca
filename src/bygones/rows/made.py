"""The rows of commands that make or offer something: exports, links, a demo, help."""

from __future__ import annotations

from bygones.model.ids import RecordId, SessionId
from bygones.rows.archive import Row

__all__ = ["ROWS", "DemoRow", "ExportedRow", "HelpRow", "LinkRow", "PartRow"]


class ExportedRow(Row, frozen=True, kw_only=True, tag="exported"):
    """What an export wrote, and what it hid."""

    path: str
    """What to open: the file of a session, the first page or the folder of several."""
    format: str
    files: tuple[str, ...] = ()
    """The files of one session, all that were written."""
    sessions: int
    """Written now."""
    same: int = 0
    """Sessions that had not changed since the last time."""
    empty: int = 0
    """Sessions in which nothing was said, and of which nothing was written."""
    bytes: int
    is_redacted: bool
    hidden: dict[str, int]
    """How much was hidden, by its kind."""
    private: int = 0
    """Records that were left out whole."""
    report: str | None = None
    """The file with the place of everything that was hidden."""


class LinkRow(Row, frozen=True, kw_only=True, tag="link"):
    """Where a session is to be seen in a browser."""

    url: str
    """With the token that opens the page."""
    session: SessionId
    record: RecordId | None = None
    """At which the page opens."""
    is_served: bool = False
    """Whether the page is there only until this command ends."""


class PartRow(Row, frozen=True, kw_only=True, tag="part"):
    """A part that is added to Claude Code, or taken away."""

    what: str
    path: str
    """The file that it stands in."""
    state: str
    """``missing``, ``there``, or ``taken`` by something else, which stays."""
    is_needed: bool = False
    """Whether adding or taking away changes the file."""
    is_done: bool = False
    """Whether that was done now."""


class DemoRow(Row, frozen=True, kw_only=True, tag="demo"):
    """An invented home, and the archive that it was taken into."""

    folder: str
    home: str
    archive: str


class HelpRow(Row, frozen=True, kw_only=True, tag="help"):
    """A command, or what else there is help about."""

    topic: str
    summary: str = ""
    page: str = ""
    """The whole page, where one topic was asked for."""


ROWS = (ExportedRow, LinkRow, PartRow, DemoRow, HelpRow)
