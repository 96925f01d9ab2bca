"""All rows that are derived from one session.

A pure function of a session, so it can run in another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from bygones.model.base import SessionId
from bygones.model.conversations import summarize_branches
from bygones.model.summary import SessionSummary
from bygones.model.usage import QUARTER_HOUR_SECONDS
from bygones.store.encoding import (
    BORROWED_TITLE,
    STEERING_TITLE,
    id_key,
    to_milliseconds,
)
from bygones.store.fact_rows import FactRows, build_fact_rows
from bygones.store.messages import (
    ConversationRow,
    EarlierMessages,
    MessageBlockRow,
    TurnRow,
    conversation_rows,
)

if TYPE_CHECKING:
    from bygones.model.conversations import ConversationHeader
    from bygones.model.sessions import AgentRun, Branch, Session

__all__ = ["DerivedRows", "PayerRows", "derive_rows"]

_encode = msgspec.msgpack.Encoder().encode

OptionalInt = int | None
PayerRows = list[tuple[str | None, str | None, str | None, str, str | None]]
"""Agent, agent type, model, terms and entrypoint of each payer."""


_EditRow = tuple[
    str, int, int, str | None, OptionalInt, int, int, bool, bool, bool, str
]


ToolContextRow = tuple[str, OptionalInt, int, int]
"""A tool, a quarter of an hour, number and size of results."""


PromptEntry = tuple[str, OptionalInt, int, str, str | None]
"""Record, time, branch and start of a prompt, and the other session that it is of."""


class DerivedRows(Struct, frozen=True, array_like=True):
    """The rows of a session, without its number."""

    session: SessionId
    session_row: tuple[str | None, OptionalInt, OptionalInt, bool, str, bytes]
    """Project, start, end, whether it is empty, title, encoded summary."""
    abandoned_keys: list[int]
    """Keys of records on abandoned branches."""
    agent_runs: list[tuple[str, str | None, bytes]]
    """Agent, agent type, and the usage of a warm-up, which is not in `usage`."""
    payers: PayerRows
    usage: list[tuple[int, int, OptionalInt, int, int, int, int, int, int, int, int]]
    """The first number of each row is an index into `payers`."""
    tool_contexts: list[ToolContextRow]
    reported_cost: tuple[OptionalInt, bytes] | None
    edits: list[_EditRow]
    prompts: list[PromptEntry]
    conversations: list[ConversationRow]
    turns: list[TurnRow]
    message_blocks: list[MessageBlockRow]
    facts: FactRows = FactRows()
    repository_clues: list[tuple[str, str, str]] = []
    """Directory, kind and value."""


def _searchable_titles(session: Session, queued_prompts: Iterable[str]) -> str:
    """Return explicit title, summaries and queued prompts, as `split_titles` reads them.

    An empty session has the summaries in its file, because the sessions that they are
    about may be gone.
    """
    title = session.title.text if session.title.kind.is_explicit else ""
    lines = {" ".join(one.text.split()): "" for one in session.summaries}
    if session.is_empty:
        others = (" ".join(one.text.split()) for one in session.other_summaries)
        lines |= {line: BORROWED_TITLE for line in others if line not in lines}
    lines.pop(title, None)
    lines |= dict.fromkeys(queued_prompts, STEERING_TITLE)
    return "\n".join((title, *(f"{mark}{line}" for line, mark in lines.items())))


def find_queued_prompts(branches: Iterable[Branch]) -> Iterator[str]:
    """Yield prompts that were typed while Claude worked and have no record."""
    for branch in branches:
        for turn in branch.own_turns:
            for message in turn.messages:
                if message.is_steering and message.id.startswith("@"):
                    yield " ".join(message.preview.split())


def derive_rows(
    session: Session,
    summary: SessionSummary,
    *,
    header: ConversationHeader | None = None,
    earlier: EarlierMessages | None = None,
    queued_prompts: Sequence[str] | None = None,
) -> DerivedRows:
    """Return the rows of a session.

    If only the end of a session was assembled, pass summary, header and queued prompts of
    all of it; the other rows are those of the end.
    """
    if queued_prompts is None:
        queued_prompts = list(find_queued_prompts(session.branches))
    stored = conversation_rows(session, header, earlier)
    cost = session.reported_cost
    payers, usage = _usage_rows(session)
    return DerivedRows(
        session=session.id,
        session_row=(
            summary.project,
            to_milliseconds(summary.started_at),
            to_milliseconds(summary.ended_at),
            summary.is_empty,
            _searchable_titles(session, queued_prompts),
            _encode(summary),
        ),
        abandoned_keys=sorted(_abandoned_keys(session)),
        agent_runs=[
            (run.id, run.agent_type, _warm_up_usage(run)) for run in session.all_agents
        ],
        payers=payers,
        usage=usage,
        tool_contexts=[
            (*key, *counts) for key, counts in _measure_tool_context(session).items()
        ],
        reported_cost=(to_milliseconds(session.cost_reported_at), _encode(cost))
        if cost
        else None,
        edits=_edit_rows(session),
        prompts=list(_prompt_rows(session)),
        conversations=stored.conversations,
        turns=stored.turns,
        message_blocks=stored.message_blocks,
        facts=build_fact_rows(
            session,
            header.branches if header else list(summarize_branches(session.branches)),
            earlier,
        ),
        repository_clues=[clue.row for clue in session.repository_clues],
    )


def _warm_up_usage(run: AgentRun) -> bytes:
    """Return the replies of a warm-up, or those that only a replay contains."""
    is_billed = not run.kind.is_shown and run.message_usages
    return _encode(run.message_usages) if is_billed else b""


def _edit_rows(session: Session) -> list[_EditRow]:
    return [
        (
            edit.path,
            id_key(edit.tool_call.record_id),
            edit.branch_number,
            edit.agent_id,
            to_milliseconds(edit.edited_at),
            edit.added_lines,
            edit.removed_lines,
            edit.is_new_file,
            edit.is_deleted,
            edit.has_diff,
            edit.tool_call.name,
        )
        for edit in session.edits
    ]


def _abandoned_keys(session: Session) -> set[int]:
    """Return the keys of records that are only on abandoned branches."""
    branches = [
        branch
        for branch in session.branches
        if not branch.is_live and branch.session_id is None
    ]
    if not branches:
        return set()
    live = {r for message in session.live_branch.messages for r in message.record_ids}
    abandoned = {
        record
        for branch in branches
        for turn in branch.own_turns
        for message in turn.messages
        for record in message.record_ids
    }
    return {id_key(record) for record in abandoned - live}


def _prompt_rows(session: Session) -> Iterator[PromptEntry]:
    for branch in session.branches:
        for prompt in branch.prompts:
            yield (
                prompt.id,
                to_milliseconds(prompt.sent_at),
                branch.number,
                prompt.preview,
                branch.session_id,
            )


def _usage_rows(
    session: Session,
) -> tuple[
    PayerRows,
    list[tuple[int, int, OptionalInt, int, int, int, int, int, int, int, int]],
]:
    """Return the payers of a session, and the usage of each answer."""
    types = {run.id: run.agent_type for run in session.all_agents}
    # Negative, so that it does not count as abandoned.
    others = {b.number: -b.number for b in session.branches if b.session_id}
    known: dict[tuple[object, ...], int] = {}
    payers: PayerRows = []
    rows = []
    for message_usage in session.message_usages:
        agent = message_usage.agent_id
        key = (
            agent,
            message_usage.model,
            message_usage.terms,
            message_usage.entrypoint,
        )
        payer = known.get(key)
        if payer is None:
            payer = known[key] = len(payers)
            agent_type = types.get(agent) if agent else None
            terms = " ".join(message_usage.terms or ())
            payers.append(
                (
                    agent,
                    agent_type,
                    message_usage.model,
                    terms,
                    message_usage.entrypoint,
                )
            )
        usage = message_usage.usage
        rows.append(
            (
                payer,
                id_key(message_usage.record_id),
                to_milliseconds(message_usage.sent_at),
                others.get(message_usage.branch_number, message_usage.branch_number),
                usage.input,
                usage.output,
                usage.cache_write_5m,
                usage.cache_write_1h,
                usage.cache_read,
                usage.web_searches,
                message_usage.estimated_output,
            )
        )
    return payers, rows


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
