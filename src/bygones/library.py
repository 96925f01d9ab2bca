"""What values of the model offer besides their fields: texts, costs, dicts, HTML.

The model imports nothing above it. Its properties get here through the names of the
package (`bygones.library`), which are loaded when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from bygones.model.base import DECODE_ERRORS
from bygones.model.reports import (
    NANOS_PER_DOLLAR,
    FailureRow,
    ToolRow,
    UsageReport,
    UsageRow,
)
from bygones.model.sessions import Message, Session, ToolCall
from bygones.model.summary import SearchResults
from bygones.render.message_text import full_text
from bygones.render.tool_detail import output_text
from bygones.render.walk import SHOW_ALL
from bygones.schema.commands import (
    FailureObject,
    ToolUsageObject,
    UsageObject,
    UsageReportObject,
)
from bygones.schema.encoding import JsonObject, encode_object_as_dict, to_usd
from bygones.schema.registry import to_dict as convert
from bygones.schema.sessions import message_object, session_objects, tool_call_object
from bygones.usage.prices import Prices, load_prices

if TYPE_CHECKING:
    from bygones.model.usage import Cost

_MAX_HTML_ROWS = 50
_MAX_CELL = 200
_decode_input = msgspec.json.Decoder(dict[str, Any]).decode


def message_text(message: Message) -> str:
    """Return what was typed, what Claude replied, or what a notice says."""
    return full_text(message)


def call_input(call: ToolCall) -> dict[str, Any]:
    """Return the input of a call; empty if it is not an object."""
    try:
        return _decode_input(call.raw_input)
    except DECODE_ERRORS:
        return {}


def call_output(call: ToolCall) -> str | None:
    """Return the result of a call as text; none if there is no result."""
    return output_text(call) if call.has_result else None


@cache
def _built_in_prices() -> Prices:
    return load_prices()


def session_cost(session: Session) -> Cost:
    """Return the cost of a session and its agents, at the built-in prices."""
    return _built_in_prices().compute_cost(session.message_usages)


def session_cost_usd(session: Session) -> float | None:
    """Return the cost in dollars; none if no price is known."""
    return to_usd(session_cost(session).nano_usd)


def to_dict(value: object, *, cost: Cost | None = None) -> dict[str, Any]:
    """Return a value in JSON schema 2, as the dict that `--json` prints for it.

    ``cost`` is that of a session, as `Archive.costs` returns it. A session that was
    loaded is priced without it; a summary is not.
    """
    if isinstance(value, Session):
        return convert(value, cost=cost or session_cost(value))
    build = _OBJECT_BUILDERS.get(type(value))
    if build is None:
        return convert(value, cost=cost)  # type: ignore[arg-type]
    found = encode_object_as_dict(build(value))
    if isinstance(value, Message):
        # It does not know in which turn of which conversation it is.
        del found["turn"], found["agent_id"]
    return found


_OBJECT_BUILDERS: dict[type, Callable[[Any], JsonObject]] = {
    Message: message_object,
    ToolCall: tool_call_object,
    UsageReport: UsageReportObject.from_report,
    UsageRow: UsageObject.from_row,
    ToolRow: ToolUsageObject.from_row,
    FailureRow: FailureObject.from_row,
}


def to_dicts(value: object) -> list[dict[str, Any]]:
    """Return the parts of a value in JSON schema 2.

    Those of a session are the objects that `export --format json` writes.
    """
    match value:
        case Session():
            objects = session_objects(value, SHOW_ALL, cost=session_cost(value))
            return [encode_object_as_dict(one) for one in objects]
        case UsageReport():
            return [to_dict(row) for row in value.rows]
        case SearchResults():
            return [to_dict(match) for match in value.sessions]
        case _:
            raise TypeError(f"{type(value).__name__} has no parts")


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table for a notebook; all texts are escaped."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    shown = list(rows)
    lines = [
        f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>"
        for row in shown[:_MAX_HTML_ROWS]
    ]
    rest = len(shown) - _MAX_HTML_ROWS
    note = f"<p>and {rest:,} more rows</p>" if rest > 0 else ""
    body = "".join(lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        text = f"{value:%Y-%m-%d %H:%M %Z}"
    else:
        text = f"{value:,.2f}" if isinstance(value, float) else str(value)
    cut = text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]}…"
    return escape(cut)


def to_html(value: object) -> str:
    """Return a value as an HTML table."""
    match value:
        case SearchResults():
            return html_table(
                ("session", "title", "ended", "hit"),
                (
                    (
                        match.id[:8],
                        match.title,
                        match.summary.ended_at,
                        match.hits[0].excerpt if match.hits else "",
                    )
                    for match in value.sessions
                ),
            )
        case UsageReport():
            return html_table(
                (str(value.by), "tokens", "cost in $"),
                (
                    (_row_name(row), f"{row.tokens:,}", _dollars(row))
                    for row in value.rows
                ),
            )
        case Message():
            return html_table(
                ("role", "sent", "text"), [(value.role, value.sent_at, value.text)]
            )
        case Session():
            return html_table(
                ("turn", "role", "sent", "text"),
                (
                    (turn.number + 1, message.role, message.sent_at, message.text)
                    for turn in value.live_branch.turns
                    for message in turn.messages
                ),
            )
        case _:
            raise TypeError(f"{type(value).__name__} has no table")


def _row_name(row: UsageRow | ToolRow) -> str:
    return (row.title if isinstance(row, UsageRow) else "") or row.key


def _dollars(row: UsageRow | ToolRow) -> float | None:
    cost = row.cost if isinstance(row, UsageRow) else None
    return None if cost is None else cost / NANOS_PER_DOLLAR
