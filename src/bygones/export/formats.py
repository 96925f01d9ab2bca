"""Export a session in one of the formats, and report what was redacted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, tzinfo
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from bygones.export.files import (
    SourceOpener,
    encode_chunks,
    iter_transcript_files,
    open_nothing,
    write_atomic,
)
from bygones.model.assembled import AssembledConversation
from bygones.model.base import SessionId
from bygones.model.conversations import Conversation
from bygones.model.nodes import parse_user_text
from bygones.model.sessions import Session
from bygones.model.summary import SessionSummary
from bygones.model.usage import Cost
from bygones.redact.engine import Redactor
from bygones.redact.session import RedactionLog, redact_conversation
from bygones.render.html.markup import Html, escape_line
from bygones.render.html.page import PageFrame, render_session_page
from bygones.render.html.session import HtmlOptions
from bygones.render.markdown import render_session_markdown
from bygones.render.numbers import MessagePricer, pluralize
from bygones.render.session_tree import UsagePricer
from bygones.render.step_renderer import RenderOptions
from bygones.render.text.primitives import plain_text
from bygones.render.text.session import TextOptions, render_lines
from bygones.render.walk import SHOW_ALL, SessionView, find_visible
from bygones.schema.encoding import encode_object
from bygones.schema.sessions import session_objects

_TEXT_WIDTH = 100


class ExportFormat(StrEnum):
    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"

    @property
    def label(self) -> str:
        return _FORMATS[self][0]

    @property
    def suffix(self) -> str:
        return _FORMATS[self][1]

    @property
    def media_type(self) -> str:
        return _FORMATS[self][2]


_FORMATS = {
    ExportFormat.HTML: ("HTML page", ".html", "text/html"),
    ExportFormat.MARKDOWN: ("Markdown", ".md", "text/markdown"),
    ExportFormat.TEXT: ("Plain text", ".txt", "text/plain"),
    ExportFormat.JSON: ("JSON", ".json", "application/json"),
    ExportFormat.JSONL: (
        "Original transcript (JSONL)",
        ".jsonl",
        "application/x-ndjson",
    ),
}


class ExportOptions(Struct, frozen=True, kw_only=True):
    format: ExportFormat = ExportFormat.HTML
    view: SessionView = SHOW_ALL
    redactor: Redactor | None = None
    """Redacts secrets and personal data; ``None`` to export everything."""
    zone: tzinfo | None = UTC
    message_pricer: MessagePricer | None = None
    usage_pricer: UsagePricer | None = None
    """Computes the cost of a session that is in memory."""
    include_private: bool = False
    """Whether private records are exported; only for JSONL without redaction."""
    open_source: SourceOpener = open_nothing
    """Returns the original bytes; only needed for JSONL."""

    @property
    def html_options(self) -> HtmlOptions:
        return HtmlOptions(
            zone=self.zone,
            text_parser=parse_user_text,
            message_pricer=self.message_pricer,
        )

    @property
    def footer(self) -> Html:
        text = "Exported with Bygones."
        if self.redactor is not None:
            text += " Detected secrets, home folders and email addresses are redacted."
        return Html(f"<p>{escape_line(text)}</p>")


class ExportInput(Struct, frozen=True, kw_only=True):
    """A session to export, read while it is written."""

    conversation: Conversation
    summary: SessionSummary | None = None
    """What lists show of it, without annotations; computed if it is needed."""
    cost: Cost | None = None
    damage: Exception | None = None
    """Why some of its texts cannot be loaded."""

    @property
    def id(self) -> SessionId:
        return self.conversation.facts.id


def as_input(source: Session | ExportInput, options: ExportOptions) -> ExportInput:
    """Return a session in memory as an input, with its cost."""
    if isinstance(source, ExportInput):
        return source
    pricer = options.usage_pricer
    cost = pricer(source.message_usages) if pricer else None
    return ExportInput(conversation=AssembledConversation(source), cost=cost)


def apply_redaction(
    source: ExportInput, options: ExportOptions, log: RedactionLog
) -> ExportInput:
    if options.redactor is None:
        return source
    conversation = redact_conversation(source.conversation, options.redactor, log)
    summary = source.summary
    if summary is not None:
        # Keys are encoded paths of this machine.
        summary = structs.replace(summary, project_keys=())
        summary = conversation.redact_value(summary)
    return structs.replace(source, conversation=conversation, summary=summary)


def render_session(
    source: Session | ExportInput, options: ExportOptions, log: RedactionLog
) -> Iterator[str]:
    """Yield a session in any format but JSONL, which consists of the original lines.

    Redactions are added to ``log``.
    """
    redacted = apply_redaction(as_input(source, options), options, log)
    yield from _render_format(redacted, options)
    if options.redactor is not None and options.view != SHOW_ALL:
        found = log.records
        log.keep_only(find_visible(redacted.conversation, options.view, found))


def _render_format(source: ExportInput, options: ExportOptions) -> Iterator[str]:
    conversation, view = source.conversation, options.view
    match options.format:
        case ExportFormat.HTML:
            frame = PageFrame(footer=options.footer)
            html_options = structs.replace(options.html_options, cost=source.cost)
            yield from render_session_page(conversation, view, html_options, frame)
        case ExportFormat.MARKDOWN:
            render_options = RenderOptions(
                zone=options.zone, text_parser=parse_user_text
            )
            yield from render_session_markdown(conversation, view, render_options)
        case ExportFormat.TEXT:
            text_options = TextOptions(
                width=_TEXT_WIDTH,
                wraps_output=False,
                zone=options.zone,
                text_parser=parse_user_text,
            )
            for line in render_lines(conversation, view, text_options):
                yield f"{plain_text(line)}\n"
        case ExportFormat.JSON:
            separator = "[\n"
            for value in session_objects(
                conversation,
                view,
                parse_user_text,
                summary=source.summary,
                cost=source.cost,
            ):
                yield f"{separator}{encode_object(value)}"
                separator = ",\n"
            yield "\n]\n"
        case ExportFormat.JSONL:
            raise ValueError(options.format)


def export_session(
    source: Session | ExportInput, path: Path, options: ExportOptions, log: RedactionLog
) -> list[Path]:
    """Write a session and return the files, ``path`` first.

    With JSONL, the transcripts of agents are written to a folder with the name of the
    session, as Claude Code does.
    """
    is_private = options.redactor is None
    source = as_input(source, options)
    if options.format is not ExportFormat.JSONL:
        text = render_session(source, options, log)
        write_atomic(path, encode_chunks(text), private=is_private)
        return [path]
    written = []
    for transcript in iter_transcript_files(
        source.conversation,
        options.open_source,
        options.redactor,
        log,
        include_private=options.include_private,
    ):
        target = _companion_folder(path) / transcript.name if transcript.name else path
        write_atomic(target, transcript.chunks, private=is_private)
        written.append(target)
    return written


def _companion_folder(path: Path) -> Path:
    """Return the folder for the transcripts of agents."""
    stem = path.name.removesuffix(ExportFormat.JSONL.suffix)
    return path.with_name(stem if stem and stem != path.name else f"{path.name}-agents")


_PERSONAL_LABELS = {
    "home": ("home folder", ""),
    "user": ("user name", ""),
    "email": ("email address", "email addresses"),
}


class RedactionReportRow(Struct, frozen=True, kw_only=True):
    """One redaction."""

    session: SessionId
    source: str
    """Path of the transcript."""
    offset: int
    """Byte offset of the line."""
    text: str
    """Path of the text in its record, such as ``content[0].input.command``."""
    kind: str
    start: int
    """Offset in that text, in characters."""
    end: int


class RedactionReport:
    """Collects the redactions in all exported sessions."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.private_records = 0
        self.rows: list[RedactionReportRow] = []

    def add(
        self, session: SessionId, log: RedactionLog, *, keep_details: bool = False
    ) -> None:
        """Add the redactions in a session; ``keep_details`` keeps a row for each."""
        self.counts.update(log.count_by_kind())
        self.private_records += log.private_records
        if keep_details:
            self.rows.extend(_report_rows(session, log))

    def to_jsonl(self) -> bytes:
        """Return one JSON line for each redaction."""
        return b"".join(msgspec.json.encode(row) + b"\n" for row in self.rows)

    def summary(self) -> str:
        """Return the counts as a sentence; empty if nothing was redacted."""
        parts = list(redaction_labels(self.counts))
        if self.private_records:
            parts.append(pluralize(self.private_records, "private record"))
        return f"redacted: {', '.join(parts)}" if parts else ""


def redaction_labels(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield how many redactions of each kind there are, the most frequent first."""
    for kind, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        yield pluralize(count, *_PERSONAL_LABELS.get(kind, (kind, "")))


def _report_rows(session: SessionId, log: RedactionLog) -> Iterator[RedactionReportRow]:
    for position, redactions in log.records.items():
        for redaction in redactions:
            yield RedactionReportRow(
                session=session,
                source=position.source_id,
                offset=position.offset,
                text=redaction.path.removeprefix("."),
                kind=redaction.kind,
                start=redaction.start,
                end=redaction.end,
            )
