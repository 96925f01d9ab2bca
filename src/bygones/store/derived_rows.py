"""The sheet of a session: all rows that lists, usage and edits need of it.

Pure: a session in, rows out. So it can be made in this process or in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from bygones.model.base import SessionId
from bygones.model.summary import SessionSummary
from bygones.model.usage import QUARTER_HOUR_SECONDS
from bygones.store.encoding import id_key, to_milliseconds
from bygones.store.messages import (
    ConversationRow,
    MessageBlockRow,
    conversation_rows,
    encode_preview,
)

if TYPE_CHECKING:  # whoever reads rows needs no whole sessions
    from bygones.model.sessions import AgentRun, Session

__all__ = ["DerivedRows", "PayerRows", "derive_rows"]

_encode = msgspec.msgpack.Encoder().encode

OptionalInt = int | None
PayerRows = list[tuple[str | None, str | None, str | None, str, str | None]]
"""Of each its agent, the agent's type, the model, its terms, and the entrypoint."""


class DerivedRows(Struct, frozen=True, array_like=True):
    """The rows of a session; they name it by nothing."""

    session: SessionId
    session_row: tuple[str | None, OptionalInt, OptionalInt, bool, str, bytes]
    """Its project, start and end, whether it is empty, its title, its line."""
    abandoned_keys: list[int]
    """Records that stand on branches which were left."""
    agent_runs: list[tuple[str, str | None]]
    payers: PayerRows
    usage: list[tuple[int, int, OptionalInt, int, int, int, int, int, int, int, int]]
    """The first number of each says which of the purses."""
    tool_contexts: list[tuple[str, OptionalInt, int, int]]
    reported_cost: tuple[OptionalInt, bytes] | None
    edits: list[tuple[str, int, int, str | None, OptionalInt, int, int, bool]]
    prompts: list[tuple[str, OptionalInt, int, str]]
    conversations: list[ConversationRow]
    message_blocks: list[MessageBlockRow]
    preview: list[bytes]
    """How it begins, if it is short and that is known: one, or none."""


def derive_rows(
    session: Session, summary: SessionSummary, *, store_messages: bool
) -> DerivedRows:
    """Return the sheet of a session, whose line in lists is known.

    What is long is written down as it was assembled, to be shown without that; of what
    is short, only how it begins.
    """
    talks, reels = conversation_rows(session) if store_messages else ([], [])
    opening = None if store_messages else encode_preview(session, summary)
    claim = session.reported_cost
    purses, spends = _usage_rows(session)
    return DerivedRows(
        session=session.id,
        session_row=(
            summary.project,
            to_milliseconds(summary.started_at),
            to_milliseconds(summary.ended_at),
            summary.is_empty,
            summary.title.text if summary.title.kind.is_explicit else "",
            _encode(summary),
        ),
        abandoned_keys=sorted(_abandoned_keys(session)),
        agent_runs=[(run.id, run.agent_type) for run in session.all_agents],
        payers=purses,
        usage=spends,
        tool_contexts=[
            (*key, *counts) for key, counts in _measure_tool_context(session).items()
        ],
        reported_cost=(to_milliseconds(session.cost_reported_at), _encode(claim))
        if claim
        else None,
        edits=[
            (
                edit.path,
                id_key(edit.tool_call.record_id),
                edit.branch_number,
                edit.agent_id,
                to_milliseconds(edit.edited_at),
                edit.added_lines,
                edit.removed_lines,
                edit.is_new_file,
            )
            for edit in session.edits
        ],
        prompts=list(_prompt_rows(session)),
        conversations=talks,
        message_blocks=reels,
        preview=[opening] if opening is not None else [],
    )


def _abandoned_keys(session: Session) -> set[int]:
    """Return what cannot be told from a record alone: that its branch was left."""
    branches = [branch for branch in session.branches if not branch.is_live]
    if not branches:
        return set()
    live = {r for message in session.live_branch.messages for r in message.record_ids}
    left = {
        record
        for branch in branches
        for turn in branch.own_turns
        for message in turn.messages
        for record in message.record_ids
    }
    return {id_key(record) for record in left - live}


def _prompt_rows(session: Session) -> Iterator[tuple[str, OptionalInt, int, str]]:
    for branch in session.branches:
        for said in branch.prompts:
            yield said.id, to_milliseconds(said.sent_at), branch.number, said.preview


def _usage_rows(
    session: Session,
) -> tuple[
    PayerRows,
    list[tuple[int, int, OptionalInt, int, int, int, int, int, int, int, int]],
]:
    """Return who spends in a session, and what each answer cost whom."""
    types = {run.id: run.agent_type for run in session.all_agents}
    known: dict[tuple[object, ...], int] = {}
    purses: PayerRows = []
    rows = []
    for spend in session.message_usages:
        agent = spend.agent_id
        who = (agent, spend.model, spend.terms, spend.entrypoint)
        purse = known.get(who)
        if purse is None:
            purse = known[who] = len(purses)
            kind = types.get(agent) if agent else None
            terms = " ".join(spend.terms or ())
            purses.append((agent, kind, spend.model, terms, spend.entrypoint))
        usage = spend.usage
        rows.append(
            (
                purse,
                id_key(spend.record_id),
                to_milliseconds(spend.sent_at),
                spend.branch_number,
                usage.input,
                usage.output,
                usage.cache_write_5m,
                usage.cache_write_1h,
                usage.cache_read,
                usage.web_searches,
                spend.estimated_output,
            )
        )
    return purses, rows


_ToolContextSizes = Mapping[tuple[str, int | None], tuple[int, int]]
"""Number and bytes of tool results, by tool and quarter hour."""


def _measure_tool_context(session: Session) -> _ToolContextSizes:
    """Return the sizes of tool results, including those of agents and all branches."""
    sizes: dict[tuple[str, int | None], tuple[int, int]] = {}
    shown = (run for run in session.all_agents if run.kind.is_shown)
    runs: Iterable[Session | AgentRun] = (session, *shown)
    for branch in (branch for run in runs for branch in run.branches):
        for call in (call for turn in branch.own_turns for call in turn.tool_calls):
            if not call.has_result:
                continue
            time = call.completed_at or call.called_at
            quarter = int(time.timestamp()) // QUARTER_HOUR_SECONDS if time else None
            count, size = sizes.get((call.name, quarter), (0, 0))
            sizes[call.name, quarter] = (count + 1, size + call.result_size)
    return sizes
