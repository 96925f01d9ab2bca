"""A session as text of some format, redacted unless somebody wants it otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from enum import StrEnum

from msgspec import Struct

from bygones.export.transcripts import Raws, no_bytes
from bygones.model.sessions import Session
from bygones.parse import read_text
from bygones.render.drawing import Pricer
from bygones.render.figures import Coster
from bygones.render.html import Setting, Shell, session_page
from bygones.render.html.markup import Html, words
from bygones.render.json import encoded, json_rows
from bygones.render.markdown import Sheet, markdown
from bygones.render.plain import Page, rows
from bygones.render.redact import Finds, Redactor, redacted
from bygones.render.spans import text_of
from bygones.render.walk import View, places

__all__ = ["WHOLE", "Format", "Making", "made", "prepared"]

WHOLE = View(branches=True, agents=True, thinking=True, tools=True)
_WIDTH = 100


class Format(StrEnum):
    """What a session is written as."""

    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"

    @property
    def suffix(self) -> str:
        """How the names of such files end."""
        return _SUFFIXES[self]


_SUFFIXES = {
    Format.HTML: ".html",
    Format.MARKDOWN: ".md",
    Format.TEXT: ".txt",
    Format.JSON: ".json",
    Format.JSONL: ".jsonl",
}


class Making(Struct, frozen=True, kw_only=True):
    """How sessions are written."""

    format: Format = Format.HTML
    view: View = WHOLE
    redactor: Redactor | None = None
    """What hides secrets and persons; ``None`` if everything is to be written."""
    zone: tzinfo | None = UTC
    cost: Coster | None = None
    pricer: Pricer | None = None
    private: bool = False
    """Whether private records are written; of JSONL that hides nothing alone."""
    raws: Raws = no_bytes
    """Where the original bytes are; asked for JSONL alone."""

    @property
    def setting(self) -> Setting:
        """How pieces of a page are made."""
        return Setting(
            zone=self.zone, teller=read_text, cost=self.cost, pricer=self.pricer
        )

    @property
    def foot(self) -> Html:
        """What stands below a page."""
        told = "Made with Bygones."
        if self.redactor is not None:
            told += " Secrets, home folders and addresses that it found are hidden."
        return Html(f"<p>{words(told)}</p>")


def prepared(session: Session, making: Making, finds: Finds) -> Session:
    """Return a session as it may leave."""
    if making.redactor is None:
        return session
    return redacted(session, making.redactor, finds)


def made(session: Session, making: Making, finds: Finds) -> Iterator[str]:
    """Yield a session as text, piece by piece; JSONL is not made but kept.

    What is hidden on the way is noted in ``finds``.
    """
    session = prepared(session, making, finds)
    yield from _told(session, making)
    if making.redactor is not None and making.view != WHOLE:
        finds.only(places(session, making.view))


def _told(session: Session, making: Making) -> Iterator[str]:
    view = making.view
    match making.format:
        case Format.HTML:
            shell = Shell(foot=making.foot)
            yield from session_page(session, view, making.setting, shell)
        case Format.MARKDOWN:
            sheet = Sheet(zone=making.zone, teller=read_text)
            yield from markdown(session, view, sheet)
        case Format.TEXT:
            page = Page(width=_WIDTH, zone=making.zone, teller=read_text)
            yield from (f"{text_of(row)}\n" for row in rows(session, view, page))
        case Format.JSON:
            between = "[\n"
            for row in json_rows(session, view, read_text):
                yield f"{between}{encoded(row)}"
                between = ",\n"
            yield "\n]\n"
        case Format.JSONL:
            raise ValueError(making.format)
