"""Show a session at a record: which messages, from which line, with which words marked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bygones.cli.named_session import ShownSession
from bygones.cli.output import find_pager, is_less
from bygones.model.query import Part
from bygones.model.sessions import AgentRun, Session
from bygones.model.summary import MatchPositions
from bygones.render.locate import find_message_before, find_message_index
from bygones.render.text.highlight import highlight_line
from bygones.render.text.primitives import SpanStyle, StyledLine
from bygones.render.walk import SessionView

if TYPE_CHECKING:
    from bygones.archive import Archive

_MESSAGES_BEFORE = 2
_MESSAGES_AFTER = 10
"""Messages that are shown before a record and after it, if not the whole session is."""
_MAX_MESSAGES_BEFORE = 1000
"""Messages that a pager can scroll back to."""
_LINES_ABOVE = 4

FocusedLines = Iterator[tuple[StyledLine, bool]]


def view_around_record(
    shown: ShownSession, view: SessionView, *, is_paged: bool
) -> SessionView:
    """Return a view of the messages around the named record, in which it is visible.

    In a pager the session continues to its end, and can be scrolled back.
    """
    record = shown.record
    if record is None:
        return view
    agent = str(record.agent_id or "")
    runs = find_run_path(shown.session, agent) if agent else []
    names = {str(record.id), *(str(run.id) for run in runs)}
    at = find_message_index(shown.conversation, view.branch, names)
    if at is None:
        # A record that is not shown, such as the progress of a call.
        at = find_message_before(shown.conversation, view.branch, record.position)
        if at is None:
            return view
        window = shown.conversation.window(view.branch, at, at + 1)
        names.update(str(id_) for one in window.messages for id_ in one.record_ids)
    before = _MAX_MESSAGES_BEFORE if is_paged else _MESSAGES_BEFORE
    return replace(
        view,
        first_message=max(at - before, 0),
        stop_message=_stop_message(at, is_paged=is_paged),
        focus=tuple(sorted(names)),
        include_thinking=view.include_thinking or shown.hit_part is Part.THINKING,
    )


def _stop_message(at: int, *, is_paged: bool) -> int | None:
    if not is_paged:
        return at + _MESSAGES_AFTER
    return sys.maxsize if at > _MAX_MESSAGES_BEFORE else None


def find_run_path(session: Session, agent: str) -> list[AgentRun]:
    """Return an agent run and the runs that it is nested in, the outermost first."""
    path: list[AgentRun] = []
    runs = session.agents
    while True:
        inner = next((run for run in runs if _contains_run(run, agent)), None)
        if inner is None or not agent:
            return path
        path.append(inner)
        runs = inner.agents if inner.id != agent else ()


def _contains_run(run: AgentRun, agent: str) -> bool:
    stack = [run]
    while stack:
        one = stack.pop()
        if one.id == agent:
            return True
        stack.extend(one.agents)
    return False


def can_land() -> bool:
    """Whether the pager can start at any line."""
    return is_less(find_pager())


def find_landing_line(lines: FocusedLines) -> tuple[int, Iterator[StyledLine]]:
    """Return the number of the line to start at, from 1, and all lines.

    That is some lines above the one with most of the words in the record in focus, or
    above the record.
    """
    read: list[StyledLine] = []
    first = best = most = 0
    for line, is_in_focus in lines:
        read.append(line)
        if first and not is_in_focus:
            break
        if is_in_focus:
            first = first or len(read)
            matched = {s.text.casefold() for s in line if s.style is SpanStyle.MATCH}
            if len(matched) > most:
                best, most = len(read), len(matched)
    number = max((best or first) - _LINES_ABOVE, 1)
    return number, chain(read, (line for line, _ in lines))


def highlight(
    lines: FocusedLines, archive: Archive, positions: MatchPositions
) -> FocusedLines:
    """Mark the words that were searched for."""
    for line, is_in_focus in lines:
        marked = highlight_line(line, lambda text: archive.find_words(text, positions))
        yield marked, is_in_focus


def without_focus(lines: FocusedLines) -> Iterable[StyledLine]:
    return (line for line, _ in lines)
