"""Rows of messages, tool calls, branches and agent runs: facts without texts.

A row of a message names its records by their keys (see `encoding.id_key`), so that its
text can be loaded from the archive when something reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from bygones.model.conversations import summarize_branches
from bygones.model.shell_commands import name_command
from bygones.model.summary import Role
from bygones.store.encoding import to_milliseconds
from bygones.store.fact_encoding import (
    HAS_RESULT,
    HAS_STORED_OUTPUT,
    IS_DENIED,
    IS_ERROR,
    IS_INTERRUPTED,
    IS_STEERING,
    IS_STOPPED,
    MAY_COMMIT,
    encode_id,
    encode_refs,
    record_key,
)

if TYPE_CHECKING:
    from bygones.model.conversations import BranchSummary
    from bygones.model.sessions import AgentRun, Branch, Message, Session, ToolCall
    from bygones.store.messages import EarlierMessages

OptionalInt = int | None
MessageRow = tuple[
    str,
    int,
    int,
    int,
    bytes,
    str,
    str | None,
    OptionalInt,
    str | None,
    int,
    str | None,
    bytes,
]
"""Agent, branch, number, turn, id, role, origin, time, model, flags, head, records."""
ToolCallRow = tuple[
    str,
    int,
    int,
    int,
    int,
    str,
    str,
    OptionalInt,
    OptionalInt,
    int,
    int,
    int,
    int,
    OptionalInt,
    int,
    str | None,
]
"""Agent, branch, message, index, turn, id, name, time, duration, flags, result size,
record and block of the call, record and block of the result, program of a shell command.
"""
BranchRow = tuple[
    str, int, bytes, OptionalInt, int, int, int, int, int, str | None, str | None
]
"""Agent, branch, leaf, parent, messages, shared messages, prompts, own prompts, calls,
title, session."""
AgentRow = tuple[
    str,
    str,
    str,
    str | None,
    str | None,
    int,
    int,
    OptionalInt,
    OptionalInt,
    OptionalInt,
    int,
    str | None,
]
"""Agent, kind, status, description, workflow, whether it runs in the background, depth,
start, end, duration, calls, id of the first call."""

_MAX_WHOLE_LABEL = 100
"""Characters up to which the label of a shell command is surely the whole command."""


class FactRows(Struct, frozen=True, array_like=True):
    """What messages, tool calls, branches and agent runs of a session are."""

    messages: list[MessageRow] = []
    tool_calls: list[ToolCallRow] = []
    branches: list[BranchRow] = []
    agents: list[AgentRow] = []

    def settled(self) -> FactRows:
        """Return the rows that stay if the session grows."""
        return FactRows(
            self.messages,
            self.tool_calls,
            [row for row in self.branches if row[0]],
            self.agents,
        )


def build_fact_rows(
    session: Session,
    branches: Sequence[BranchSummary],
    earlier: EarlierMessages | None = None,
) -> FactRows:
    """Return the rows of a session.

    `branches` are those of the whole session. If only its end was assembled, `earlier`
    says how many messages precede it, and which turns contain those that follow.
    """
    rows = FactRows([], [], [], [])
    _add_messages(rows, "", zip(session.branches, branches, strict=False), earlier)
    rows.branches.extend(_branch_row("", one) for one in branches)
    for run in session.all_agents:
        rows.agents.append(_agent_row(run))
        if run.kind.is_shown:
            summaries = list(summarize_branches(run.branches))
            _add_messages(rows, run.id, zip(run.branches, summaries, strict=True))
            rows.branches.extend(_branch_row(run.id, one) for one in summaries)
    return rows


def _add_messages(
    rows: FactRows,
    agent: str,
    branches: Iterable[tuple[Branch, BranchSummary]],
    earlier: EarlierMessages | None = None,
) -> None:
    for branch, summary in branches:
        place = (agent, branch.number)
        if earlier is None:
            number, turns = summary.shared_count, _own_turns(branch)
        else:
            number, turns = earlier.message_count, _later_turns(branch, earlier)
        for turn, message in turns:
            rows.messages.append(_message_row(place, number, turn, message))
            for index, call in enumerate(message.tool_calls):
                rows.tool_calls.append(_call_row(place, number, index, (turn, call)))
            number += 1


def _own_turns(branch: Branch) -> Iterator[tuple[int, Message]]:
    for turn in branch.own_turns:
        for message in turn.messages:
            yield turn.number, message


def _later_turns(
    branch: Branch, earlier: EarlierMessages
) -> Iterator[tuple[int, Message]]:
    """Yield messages with the numbers that their turns have in the whole session."""
    number = earlier.message_count
    turns = earlier.turns
    at = 0
    for turn in branch.own_turns:
        for message in turn.messages:
            while at + 1 < len(turns) and turns[at + 1].start <= number:
                at += 1
            yield turns[at].number if turns else turn.number, message
            number += 1


def _message_row(
    place: tuple[str, int], number: int, turn: int, message: Message
) -> MessageRow:
    is_answer = message.role is Role.ASSISTANT
    # The start of a session's own prompt is in the table of prompts.
    has_head = not is_answer and not (message.is_prompt and not place[0])
    return (
        *place,
        number,
        turn,
        encode_id(message.id),
        str(message.role),
        message.origin and str(message.origin),
        to_milliseconds(message.sent_at),
        message.model,
        message.is_error * IS_ERROR | message.is_steering * IS_STEERING,
        message.preview if has_head else None,
        encode_refs(message.record_refs),
    )


def _call_row(
    place: tuple[str, int], number: int, index: int, found: tuple[int, ToolCall]
) -> ToolCallRow:
    turn, call = found
    called, completed = map(to_milliseconds, (call.called_at, call.completed_at))
    duration = None
    if called is not None and completed is not None:
        duration = max(completed - called, 0)
    facts = call.result_facts
    return (
        *place,
        number,
        index,
        turn,
        call.id,
        call.name,
        called,
        duration,
        call.is_error * IS_ERROR
        | call.is_interrupted * IS_INTERRUPTED
        | call.is_stopped * IS_STOPPED
        | call.has_result * HAS_RESULT
        | bool(facts and facts.stored_path) * HAS_STORED_OUTPUT
        | _may_commit(call) * MAY_COMMIT
        | bool(facts and facts.is_denied) * IS_DENIED,
        call.result_size,
        record_key(call.record_id),
        call.block_index,
        record_key(call.result_record_id) if call.result_record_id else None,
        call.result_index,
        (name_command(call.label) or None) if call.name == "Bash" else None,
    )


def _may_commit(call: ToolCall) -> bool:
    """Whether a shell command that succeeded names git or gh, as far as is known."""
    label = call.label
    if call.name != "Bash" or call.is_error or not call.has_result:
        return False
    return len(label) > _MAX_WHOLE_LABEL or "git" in label or "gh" in label


def _branch_row(agent: str, summary: BranchSummary) -> BranchRow:
    return (
        agent,
        summary.number,
        encode_id(summary.id),
        summary.parent_number,
        summary.message_count,
        summary.shared_count,
        summary.prompt_count,
        summary.own_prompt_count,
        summary.tool_call_count,
        summary.title,
        summary.session_id,
    )


def _agent_row(run: AgentRun) -> AgentRow:
    duration = run.duration
    return (
        run.id,
        str(run.kind),
        str(run.status),
        run.description,
        run.workflow,
        int(run.is_background),
        run.depth,
        to_milliseconds(run.started_at),
        to_milliseconds(run.ended_at),
        None if duration is None else round(duration.total_seconds() * 1000),
        run.tool_call_count,
        run.call_ids[0] if run.call_ids else None,
    )
