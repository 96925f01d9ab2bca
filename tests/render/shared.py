"""Sessions to render, in a few words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bygones.model.sessions import Session, ToolCall
from bygones.parse import read_text
from bygones.prices import load_prices
from bygones.reading import read
from bygones.render.drawing import MarkKind, marks
from bygones.render.plain import Page, plain
from bygones.render.walk import View
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

__all__ = ["PAGE", "call_of", "check_sums", "page", "session_of"]

PAGE = Page(width=60, teller=read_text)
"""A narrow page."""


def session_of(folder: Path, records: Iterable[object]) -> Session:
    """Return the session of a home that holds these records and no others."""
    Home(folder).session(SESSION, records)
    (session,) = read(folder)
    return session


def call_of(
    folder: Path,
    name: str,
    given: Written,
    content: str | list[Written] | None = "",
    **answer: object,
) -> ToolCall:
    """Return a call with its input and its result; none if the content is none."""
    records = [prompt("please"), reply([tool_use(name, **given)])]
    if content is not None:
        records.append(tool_result("toolu_1", content, **answer))  # type: ignore[arg-type]
    session = session_of(folder, thread(*records))
    (call,) = session.live.turns[0].calls
    return call


def page(session: Session, width: int | None = 80, **options: bool) -> str:
    """Return a session as the command shows it."""
    view = View(**options)
    return plain(session, view, Page(width=width, teller=read_text))


def check_sums(session: Session) -> None:
    """Check that the lines of a drawing add up to what is said above them."""
    cost_of = load_prices().cost_of
    lines = [m for m in marks(session, cost_of) if m.kind is not MarkKind.BRANCH]
    costs = [mark.cost for mark in lines if mark.cost is not None]
    whole = cost_of(session.spends)

    assert sum(mark.usage.total for mark in lines) == session.total.total
    assert sum(one.nanos or 0 for one in costs) == (whole.nanos or 0)
    assert sum(one.unpriced_tokens for one in costs) == whole.unpriced_tokens
