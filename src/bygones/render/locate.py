"""Find records in a session: their branch, their message and the turns around them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection

from msgspec import structs

from bygones.model.assembled import as_conversation
from bygones.model.base import Position
from bygones.model.conversations import Conversation
from bygones.model.sessions import Message, Session, walk_agents
from bygones.render.walk import SessionView

_CONTEXT_TURNS = 1
"""Turns shown before and after the turn of a record."""


def view_turns_around(
    conversation: Conversation, view: SessionView, record: str
) -> SessionView:
    """Return a view of the turn of a record and its neighbors.

    The view is returned unchanged if its branch does not contain the record.
    """
    number = find_message_index(conversation, view.branch, {record})
    if number is None:
        return view
    turns = conversation.turns(view.branch)
    at = bisect_right(turns, number, key=lambda turn: turn.start) - 1
    last = at + _CONTEXT_TURNS
    return structs.replace(
        view,
        first_turn=turns[max(at - _CONTEXT_TURNS, 0)].number,
        last_turn=turns[last].number if last < len(turns) - 1 else None,
    )


def find_message_index(
    source: Session | Conversation, branch_number: int, ids: Collection[str]
) -> int | None:
    """Return the index of the message with one of these records or agent runs."""
    conversation = as_conversation(source)
    for at, message in conversation.messages(branch_number, list(ids)):
        if _contains_id(message, ids):
            return at
    return None


def find_message_before(
    source: Session | Conversation, branch_number: int, position: Position
) -> int | None:
    """Return the index of the last message that starts before a record."""
    last = None
    for at, message in as_conversation(source).messages(branch_number):
        if is_before(message, position):
            last = at
    return last


def is_before(message: Message, position: Position) -> bool:
    """Return whether a message starts before a record of the same file."""
    starts = (ref.position for ref in message.record_refs[:1])
    return any(
        start.source_id == position.source_id and start.offset <= position.offset
        for start in starts
    )


def _contains_id(message: Message, ids: Collection[str]) -> bool:
    agents = (run.id for call in message.tool_calls for run in walk_agents(call.agents))
    return contains_record(message, ids) or any(id_ in ids for id_ in agents)


def contains_record(message: Message, ids: Collection[str]) -> bool:
    """Return whether a message, or a result of its calls, is one of these records."""
    results = (call.result_record_id for call in message.tool_calls)
    return any(id_ in ids for id_ in (*message.record_ids, *results))
