"""A session as text of some format, redacted unless somebody wants it otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from bygones.export.files import (
    SourceOpener,
    encode_chunks,
    iter_transcript_files,
    open_nothing,
    write_atomic,
)
from bygones.model.harness_text import parse_user_text
from bygones.model.sessions import Session
from bygones.redact.engine import Redactor
from bygones.redact.session import RedactionLog, redact_session
from bygones.render.html.markup import Html, escape_line
from bygones.render.html.page import PageFrame, render_session_page
from bygones.render.html.session import HtmlOptions
from bygones.render.markdown.session import render_session_markdown
from bygones.render.numbers import MessagePricer
from bygones.render.session_tree import UsagePricer
from bygones.render.step_renderer import RenderOptions
from bygones.render.text.primitives import plain_text
from bygones.render.text.session import TextOptions, render_lines
from bygones.render.walk import SHOW_ALL, SessionView, visible_positions
from bygones.schema.encoding import encode_object
from bygones.schema.sessions import session_objects

_TEXT_WIDTH = 100


class ExportFormat(StrEnum):
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
    ExportFormat.HTML: ".html",
    ExportFormat.MARKDOWN: ".md",
    ExportFormat.TEXT: ".txt",
    ExportFormat.JSON: ".json",
    ExportFormat.JSONL: ".jsonl",
}


class ExportOptions(Struct, frozen=True, kw_only=True):
    """How sessions are written."""

    format: ExportFormat = ExportFormat.HTML
    view: SessionView = SHOW_ALL
    redactor: Redactor | None = None
    """What hides secrets and persons; ``None`` if everything is to be written."""
    zone: tzinfo | None = UTC
    message_pricer: MessagePricer | None = None
    usage_pricer: UsagePricer | None = None
    include_private: bool = False
    """Whether private records are written; of JSONL that hides nothing alone."""
    open_source: SourceOpener = open_nothing
    """Where the original bytes are; asked for JSONL alone."""

    @property
    def html_options(self) -> HtmlOptions:
        """How pieces of a page are made."""
        return HtmlOptions(
            zone=self.zone,
            text_parser=parse_user_text,
            message_pricer=self.message_pricer,
            usage_pricer=self.usage_pricer,
        )

    @property
    def footer(self) -> Html:
        """What stands below a page."""
        told = "Made with Bygones."
        if self.redactor is not None:
            told += " Secrets, home folders and addresses that it found are hidden."
        return Html(f"<p>{escape_line(told)}</p>")


def apply_redaction(
    session: Session, options: ExportOptions, log: RedactionLog
) -> Session:
    """Return a session as it may leave."""
    if options.redactor is None:
        return session
    return redact_session(session, options.redactor, log)


def render_session(
    session: Session, options: ExportOptions, log: RedactionLog
) -> Iterator[str]:
    """Yield a session as text, piece by piece; JSONL is not made but kept.

    What is hidden on the way is noted in ``finds``.
    """
    session = apply_redaction(session, options, log)
    yield from _render_format(session, options)
    if options.redactor is not None and options.view != SHOW_ALL:
        log.keep_only(visible_positions(session, options.view))


def _render_format(session: Session, options: ExportOptions) -> Iterator[str]:
    view = options.view
    match options.format:
        case ExportFormat.HTML:
            shell = PageFrame(footer=options.footer)
            yield from render_session_page(session, view, options.html_options, shell)
        case ExportFormat.MARKDOWN:
            sheet = RenderOptions(zone=options.zone, text_parser=parse_user_text)
            yield from render_session_markdown(session, view, sheet)
        case ExportFormat.TEXT:
            page = TextOptions(
                width=_TEXT_WIDTH, zone=options.zone, text_parser=parse_user_text
            )
            yield from (
                f"{plain_text(row)}\n" for row in render_lines(session, view, page)
            )
        case ExportFormat.JSON:
            between = "[\n"
            pricer = options.usage_pricer
            cost = pricer(session.message_usages) if pricer else None
            for value in session_objects(session, view, parse_user_text, cost=cost):
                yield f"{between}{encode_object(value)}"
                between = ",\n"
            yield "\n]\n"
        case ExportFormat.JSONL:
            raise ValueError(options.format)


def export_session(
    session: Session, path: Path, options: ExportOptions, log: RedactionLog
) -> list[Path]:
    """Write a session and return the files, the one that was asked for first.

    As JSONL, what its agents said goes into a folder of the same name beside it, as
    Claude Code lays it out.
    """
    is_private = options.redactor is None
    if options.format is not ExportFormat.JSONL:
        pieces = render_session(session, options, log)
        write_atomic(path, encode_chunks(pieces), private=is_private)
        return [path]
    written = []
    for transcript in iter_transcript_files(
        session,
        options.open_source,
        options.redactor,
        log,
        include_private=options.include_private,
    ):
        place = _companion_folder(path) / transcript.name if transcript.name else path
        write_atomic(place, transcript.chunks, private=is_private)
        written.append(place)
    return written


def _companion_folder(path: Path) -> Path:
    """Return the folder for what belongs to a transcript."""
    stem = path.name.removesuffix(ExportFormat.JSONL.suffix)
    return path.with_name(stem if stem and stem != path.name else f"{path.name}-agents")
