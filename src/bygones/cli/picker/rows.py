"""The lines of the picker: rows of sessions, the line of state, the line of keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from bygones.cli.output import project_name
from bygones.cli.picker.listing import FoundSession, FoundSessions
from bygones.render.numbers import format_age, pluralize
from bygones.render.text.highlight import excerpt_spans
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    display_width,
    sanitize_line,
    truncate_end,
)

Fragments = list[tuple[str, str]]
"""Pieces of a line with their style classes."""

_MATCH = f"class:{SpanStyle.MATCH}"
_AGE_WIDTH = 4
_PROJECT_WIDTH = 14
_MIN_WIDTH_FOR_PROJECT = 52
_SHORT_UNITS = {"minute": "m", "hour": "h", "day": "d", "week": "w", "month": "mo"}
_VARIABLE_WIDTH = dict.fromkeys(map(ord, "\u200d\ufe0e\ufe0f"))
"""Characters that join or change others; terminals disagree about the width of both."""


class KeyLabel(NamedTuple):
    """A key, what it does, and the name of that action."""

    key: str
    meaning: str
    action: str


def fragments(line: StyledLine) -> Fragments:
    """Return a line of a preview as fragments."""
    return [
        (f"class:{span.style}", span.text.translate(_VARIABLE_WIDTH)) for span in line
    ]


def row_fragments(
    row: FoundSession, width: int, now: datetime, *, is_selected: bool
) -> Fragments:
    """Return a session on one line: how old, where, and its title."""
    summary = row.summary
    line: Fragments = [("class:pointer", "▌" if is_selected else " ")]
    line.append(("class:fact", f"{_short_age(summary.ended_at, now):>{_AGE_WIDTH}} "))
    used = 1 + _AGE_WIDTH + 1
    if width >= _MIN_WIDTH_FOR_PROJECT:
        name = truncate_end(_visible(project_name(summary)), _PROJECT_WIDTH)
        gap = " " * (_PROJECT_WIDTH - display_width(name) + 1)
        line.append(("class:project", name + gap))
        used += _PROJECT_WIDTH + 1
    title = [*_title_spans(row)]
    line += _truncated(title, max(width - used, 1))
    if is_selected:
        taken = sum(display_width(text) for _, text in line)
        line.append(("", " " * max(width - taken, 0)))
        # One color after the pointer, except for what was found.
        line[1:] = [
            (f"class:selected {style if style == _MATCH else ''}".rstrip(), text)
            for style, text in line[1:]
        ]
    return line


def _title_spans(row: FoundSession) -> list[StyledSpan]:
    summary = row.summary
    spans = [StyledSpan("★ ", SpanStyle.CODE)] if summary.is_starred else []
    spans += excerpt_spans(row.title) or [StyledSpan(str(summary.id), SpanStyle.META)]
    tags = "".join(f" #{sanitize_line(tag)}" for tag in summary.tags)
    if tags:
        spans.append(StyledSpan(tags, SpanStyle.META))
    return spans


def _truncated(spans: Sequence[StyledSpan], width: int) -> Fragments:
    pieces: Fragments = []
    left = width
    for span in spans:
        text = _visible(span.text)
        shown = truncate_end(text, left)
        pieces.append((f"class:{span.style}", shown))
        left -= display_width(shown)
        if shown != text or left <= 0:
            break
    return pieces


def _visible(text: str) -> str:
    return sanitize_inline(text).translate(_VARIABLE_WIDTH)


def sanitize_inline(text: str) -> str:
    """Sanitize a piece of a line without changing the spaces at its ends."""
    start = " " if text[:1] == " " else ""
    end = " " if len(text) > 1 and text[-1:] == " " else ""
    return f"{start}{sanitize_line(text)}{end}"


def _short_age(time: datetime | None, now: datetime) -> str:
    """Return an age such as `3d`, or the year if that is long ago."""
    number, _, rest = format_age(time, now).partition(" ")
    unit = _SHORT_UNITS.get(rest.removesuffix(" ago").removesuffix("s"))
    if unit is not None:
        return f"{number}{unit}"
    return "now" if rest == "now" else number[:_AGE_WIDTH]


def state_line(
    found: FoundSessions, *, directory_name: str, status: str, width: int
) -> Fragments:
    """Return how many sessions there are, how they are chosen, and what happened."""
    query = found.query
    if found.is_pending:
        return [("class:fact", truncate_end("  searching …", width))]
    about = "about " if found.is_estimate else ""
    facts = [
        about + pluralize(found.count, "session"),
        f"in {directory_name}" if query.directory is not None else "all projects",
        f"{query.sort} first"
        if query.text or query.sort == "oldest"
        else "newest first",
        "" if query.include_agents else "without agents",
    ]
    facts = [fact for fact in facts if fact]
    message = _visible(status or found.note)
    end = f" · {message}" if message else ""
    # What happened just now matters more than how the sessions are chosen.
    while len(facts) > 1 and display_width("  " + " · ".join(facts) + end) > width:
        facts.pop()
    text = truncate_end("  " + " · ".join(facts), width)
    line = [("class:fact", text)]
    if message:
        line.append(("class:note", truncate_end(end, width - display_width(text))))
    return line


def wrap_keys(labels: Sequence[KeyLabel], width: int) -> list[list[KeyLabel]]:
    """Return the keys in lines of this width."""
    lines: list[list[KeyLabel]] = [[]]
    used = 0
    for label in labels:
        needed = len(label.key) + len(label.meaning) + 3
        if used + needed > width and lines[-1]:
            lines.append([])
            used = 0
        lines[-1].append(label)
        used += needed
    return lines


def key_fragments(labels: Sequence[KeyLabel]) -> Fragments:
    """Return a line of keys with what they do."""
    pieces: Fragments = []
    for label in labels:
        pieces.append(("class:key", f" {label.key}"))
        pieces.append(("class:fact", f" {label.meaning} "))
    return pieces
