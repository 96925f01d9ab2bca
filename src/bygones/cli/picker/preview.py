"""The preview of a session: facts, the best hits, and the messages around the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bygones.archive import Archive
from bygones.cli.output import display_path
from bygones.errors import NotInArchive
from bygones.model.base import SessionId
from bygones.model.conversations import Conversation, MessageWindow
from bygones.model.nodes import parse_user_text
from bygones.model.query import FieldValue, Part, Query
from bygones.model.summary import Hit, SessionSummary
from bygones.query.parser import and_terms
from bygones.render.headers import hit_excerpt, hit_label
from bygones.render.locate import contains_record
from bygones.render.numbers import format_time_range, format_tokens, pluralize
from bygones.render.text.highlight import excerpt_spans, highlight_line
from bygones.render.text.markdown_text import render_markdown_lines
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    sanitize_line,
    styled_line,
    truncate_end,
    wrap_line,
    wrap_spans,
)
from bygones.render.text.session import TextOptions, render_window_lines
from bygones.render.walk import SessionView

_MESSAGES_BEFORE = 2
_MESSAGES_AFTER = 10
_MAX_HITS = 3
_MAX_LINES = 400
_MIN_WIDTH = 20
_MAX_NOTE = 200


class SessionPreviewer:
    """Renders previews of the sessions of an archive."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def render(
        self,
        session_id: SessionId,
        query: Query,
        width: int,
        is_canceled: Callable[[], bool],
    ) -> tuple[StyledLine, ...] | None:
        """Return a preview; none if it was canceled."""
        width = max(width, _MIN_WIDTH)
        try:
            summary = self._archive.session_summary(session_id)
        except NotInArchive:
            return ()
        hits = self._find_hits(session_id, query) if query.root is not None else ()
        title = _title(summary)
        lines = [*_wrapped(title, width, SpanStyle.TITLE)]
        if hits:
            # A small preview has room for little else than what was found.
            lines = [(StyledSpan(truncate_end(title, width), SpanStyle.TITLE),)]
            for found in hits:
                lines += _excerpt_lines(found, width)
            lines.append(())
        lines += _fact_lines(summary, width)
        if is_canceled():
            return None
        lines.append(())
        positions = self._archive.match_positions(query, session_id)
        hit = hits[0] if hits else None
        for line in self._conversation_lines(session_id, hit, width):
            if is_canceled():
                return None
            lines.append(
                highlight_line(line, lambda text: Archive.find_words(text, positions))
                if hits
                else line
            )
            if len(lines) > _MAX_LINES:
                break
        return tuple(lines)

    def _find_hits(self, session_id: SessionId, query: Query) -> tuple[Hit, ...]:
        terms = [query.root] if query.root is not None else []
        terms.append(FieldValue("session", session_id))
        results = self._archive.search(
            Query(and_terms(terms)), limit=1, hits_per_session=_MAX_HITS
        )
        found = results.sessions[0].hits if results.sessions else ()
        return tuple(hit for hit in found if hit.part is not Part.TITLE)

    def _conversation_lines(
        self, session_id: SessionId, hit: Hit | None, width: int
    ) -> Iterator[StyledLine]:
        conversation = self._archive.conversation(
            session_id, (hit.agent_id or "") if hit else ""
        )
        window = _window_around(conversation, str(hit.record_id) if hit else "")
        if window is None:
            return
        view = SessionView(include_thinking=bool(hit and hit.part is Part.THINKING))
        options = TextOptions(
            width=width,
            zone=None,
            text_parser=parse_user_text,
            markdown=render_markdown_lines,
        )
        yield from render_window_lines(window, view, options)


def _window_around(conversation: Conversation, record: str) -> MessageWindow | None:
    """Return the messages around a record, or the last ones."""
    branches = conversation.facts.branches
    if not branches:
        return None
    for branch in branches if record else ():
        for number, message in conversation.messages(branch.number, [record]):
            if contains_record(message, {record}):
                start = max(number - _MESSAGES_BEFORE, 0)
                stop = number + _MESSAGES_AFTER
                return conversation.window(branch.number, start, stop)
    live = branches[0]
    start = 0 if record else _last_prompt(conversation, live.message_count)
    return conversation.window(live.number, start, start + _MESSAGES_AFTER)


def _last_prompt(conversation: Conversation, count: int) -> int:
    """Return the number of the last prompt, if it is among the last messages."""
    number = conversation.facts.branches[0].number
    start = max(count - 2 * _MESSAGES_AFTER, 0)
    recent = conversation.window(number, start, count).messages
    prompts = [at for at, message in enumerate(recent, start) if message.is_prompt]
    return prompts[-1] if prompts else max(count - _MESSAGES_AFTER, 0)


def _title(summary: SessionSummary) -> str:
    star = "★ " if summary.is_starred else ""
    return star + (sanitize_line(summary.title.text) or str(summary.id))


def _fact_lines(summary: SessionSummary, width: int) -> Iterator[StyledLine]:
    tags = " ".join(f"#{tag}" for tag in summary.tags)
    facts = (
        display_path(summary.project or ""),
        _times(summary),
        _counts(summary),
        ", ".join(summary.models),
        str(summary.id),
        tags,
        summary.note[:_MAX_NOTE],
    )
    for fact in facts:
        yield from _wrapped(sanitize_line(fact), width, SpanStyle.META)


def _times(summary: SessionSummary) -> str:
    if summary.started_at is None or summary.ended_at is None:
        return ""
    return format_time_range(summary.started_at, summary.ended_at, None)


def _counts(summary: SessionSummary) -> str:
    counts = (
        pluralize(summary.prompt_count, "prompt"),
        pluralize(summary.message_count, "message"),
        pluralize(summary.agent_count, "agent") if summary.agent_count else "",
        pluralize(summary.branch_count, "branch", "branches")
        if summary.branch_count > 1
        else "",
        f"{format_tokens(summary.usage.total)} tokens" if summary.usage.total else "",
    )
    return " · ".join(filter(None, counts))


def _wrapped(text: str, width: int, style: SpanStyle) -> Iterator[StyledLine]:
    for line in wrap_line(text, width) if text else ():
        yield styled_line(StyledSpan(line, style))


def _excerpt_lines(hit: Hit, width: int) -> Iterable[StyledLine]:
    """Return the excerpt of a hit on a few lines, with its label before it."""
    label = f"{hit_label(hit)} "
    pieces = [StyledSpan(label, SpanStyle.META), *excerpt_spans(hit_excerpt(hit))]
    return wrap_spans(pieces, width)
