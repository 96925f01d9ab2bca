"""Rows of messages, tool calls, branches and agent runs: facts without texts.

A row of a message names its records by their keys (see `encoding.id_key`), so that its
text can be loaded from the archive when something reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from bygones.model.conversations import summarize_branches
from bygones.model.shell_commands import name_command
from bygones.model.summary import Role
from bygones.store.encoding import id_key, to_milliseconds

if TYPE_CHECKING:
    from bygones.model.conversations import BranchSummary
    from bygones.model.sessions import AgentRun, Branch, Message, Session, ToolCall
    from bygones.model.summary import RecordRef
    from bygones.store.messages import EarlierMessages

_encode = msgspec.msgpack.Encoder().encode
_key = lru_cache(maxsize=1024)(id_key)
"""A record is named by its message and by the calls in it, one after the other."""
_MAX_BLOCKS = 60
"""Blocks of a record that fit into a mask."""

OptionalInt = int | None
_LOWER_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_UUID_BYTES = 16
_TEXT_ID, _PADDED_TEXT_ID = b"\x02", b"\x03\x03"
"""Prefixes of ids that are not UUIDs; the longer one if 16 bytes would result."""
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

IS_ERROR, IS_STEERING = 1, 2
"""Flags of messages; `IS_ERROR` also of tool calls."""
IS_INTERRUPTED, IS_STOPPED, HAS_RESULT, HAS_STORED_OUTPUT, MAY_COMMIT = 2, 4, 8, 16, 32
"""Flags of tool calls; a shell command that names git or gh may commit something."""
IS_DENIED = 64
"""Flag of tool calls that a permission rule or a hook refused."""
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


def encode_id(id_: str) -> bytes:
    """Return the 16 bytes of a UUID; other ids as text with a prefix."""
    if _LOWER_UUID.fullmatch(id_):
        return bytes.fromhex(id_.replace("-", ""))
    text = id_.encode("utf-8", "surrogatepass")
    prefix = _TEXT_ID if len(text) + 1 != _UUID_BYTES else _PADDED_TEXT_ID
    return prefix + text


def decode_id(raw: bytes) -> str:
    """Return an id that `encode_id` encoded."""
    if len(raw) == _UUID_BYTES:
        digits = raw.hex()
        return (
            f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        )
    prefix = _PADDED_TEXT_ID if raw.startswith(_PADDED_TEXT_ID) else _TEXT_ID
    return raw.removeprefix(prefix).decode("utf-8", "replace")


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


def encode_refs(refs: Iterable[RecordRef]) -> bytes:
    """Return keys of records, each followed by a mask of its blocks; 0 if too many."""
    numbers: list[int] = []
    for ref in refs:
        mask = 0
        for index in ref.block_indexes:
            if index >= _MAX_BLOCKS:
                return _encode([])
            mask |= 1 << index
        numbers += (_key(ref.record_id), mask)
    return _encode(numbers)


_decode_numbers = msgspec.msgpack.Decoder(list[int]).decode


def decode_refs(raw: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """Return keys of records, and the indexes of their blocks."""
    numbers = _decode_numbers(raw)
    return [
        (key, tuple(at for at in range(mask.bit_length()) if mask >> at & 1))
        for key, mask in zip(numbers[::2], numbers[1::2], strict=True)
    ]


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
        _key(call.record_id),
        call.block_index,
        _key(call.result_record_id) if call.result_record_id else None,
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
