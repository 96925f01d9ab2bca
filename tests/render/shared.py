"""Helpers that create sessions to render."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bygones.model.nodes import parse_user_text
from bygones.model.sessions import Session, ToolCall
from bygones.reader import read_sessions
from bygones.render.session_tree import TreeLineKind, iter_tree_lines
from bygones.render.text.session import TextOptions, render_text
from bygones.render.walk import SessionView
from bygones.usage.prices import load_prices
from tests.build import (
    SESSION,
    Home,
    Written,
    prompt,
    reply,
    thread,
    tool_result,
    tool_use,
)

__all__ = ["PAGE", "check_sums", "make_tool_call", "page", "session_of"]

PAGE = TextOptions(width=60, text_parser=parse_user_text)
"""A narrow terminal."""


def session_of(folder: Path, records: Iterable[object]) -> Session:
    """Create a home with these records and return its session."""
    Home(folder).session(SESSION, records)
    (session,) = read_sessions(folder)
    return session


def make_tool_call(
    folder: Path,
    name: str,
    tool_input: Written,
    content: str | list[Written] | None = "",
    **answer: object,
) -> ToolCall:
    """Return a call with its input, and its result unless the content is ``None``."""
    records = [prompt("please"), reply([tool_use(name, **tool_input)])]
    if content is not None:
        records.append(tool_result("toolu_1", content, **answer))  # type: ignore[arg-type]
    session = session_of(folder, thread(*records))
    (call,) = session.live_branch.turns[0].tool_calls
    return call


def page(session: Session, width: int | None = 80, **options: bool) -> str:
    """Render a session as `bygones show` does."""
    view = SessionView(**options)  # type: ignore[arg-type]
    return render_text(
        session, view, TextOptions(width=width, text_parser=parse_user_text)
    )


def check_sums(session: Session) -> None:
    """Check that the lines of a tree add up to the totals of the session."""
    cost_of = load_prices().compute_cost
    lines = [
        m
        for m in iter_tree_lines(session, cost_of)
        if m.kind is not TreeLineKind.BRANCH
    ]
    costs = [mark.cost for mark in lines if mark.cost is not None]
    total = cost_of(session.message_usages)

    assert sum(mark.usage.total for mark in lines) == session.total_usage.total
    assert sum(cost.nano_usd or 0 for cost in costs) == (total.nano_usd or 0)
    assert sum(cost.unpriced_tokens for cost in costs) == total.unpriced_tokens
