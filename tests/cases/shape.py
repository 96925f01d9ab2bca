"""Formats sessions as JSON that is short enough to review."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from bygones.model.base import Problem
from bygones.model.sessions import AgentRun, Branch, Message, Session, ToolCall, Turn
from bygones.model.summary import HiddenRecord, MessageUsage, RecordRef
from bygones.model.usage import Usage

__all__ = ["written"]

Shape = dict[str, Any]


def written(sessions: Iterable[Session]) -> str:
    """Return sessions as stable JSON, one value per line, without empty values."""
    shapes = [_session(session) for session in sessions]
    return json.dumps(shapes, indent=1, ensure_ascii=False) + "\n"


def _session(session: Session) -> Shape:
    return _full(
        id=session.id,
        title=f"{session.title.kind}: {session.title.text}",
        project=session.project,
        directories=[path for path in session.directories if path != session.project],
        versions=" ".join(session.versions),
        tags=" ".join(session.tags),
        is_empty=session.is_empty,
        lineage=[
            f"{one.kind} {one.session_id} at {one.last_shared_id},"
            f" {one.shared_count} shared"
            for one in session.lineage
        ],
        branches=[_branch(branch) for branch in session.branches],
        agents=[_agent(agent) for agent in session.agents],
        endpoints=" ".join(session.endpoint_ids),
        edits=[
            f"{edit.path} +{edit.added_lines} -{edit.removed_lines}"
            f"{' new' if edit.is_new_file else ''}"
            f"{' deleted' if edit.is_deleted else ''}"
            f"{'' if edit.has_diff else ' not recorded'} by {edit.tool_call.id}"
            f" of {edit.message_id},"
            f" turn {edit.turn_number} of branch {edit.branch_number}"
            f"{f' of {edit.agent_id}' if edit.agent_id else ''}"
            for edit in session.edits
        ],
        usage=_usage(session.usage),
        spends=[_spend(spend) for spend in session.message_usages],
        hidden=_hidden(session.hidden_records),
        problems=_problems(session.problems),
        sources=[
            source.relative_path.removeprefix("projects/") for source in session.sources
        ],
    )


def _branch(branch: Branch) -> Shape:
    place = (
        "live"
        if branch.is_live
        else f"left {branch.parent_number} behind {branch.fork_id}"
        f" with {branch.first_prompt_id}"
    )
    return _full(
        branch=f"{branch.number}, {place}, leaf {branch.id}",
        title=branch.title,
        path="" if branch.is_live else " ".join(m.id for m in branch.messages),
        prompts=[message.preview for message in branch.prompts],
        own=[_turn(turn) for turn in branch.own_turns],
        usage=_usage(branch.usage),
    )


def _turn(turn: Turn) -> Shape:
    prompt = turn.prompt.id if turn.prompt else "none"
    lasted = f", {turn.duration.total_seconds():g} s" if turn.duration else ""
    messages: list[Any] = []
    for message in turn.messages:
        messages.append(_message(message))
        messages.extend(_call(call) for call in message.tool_calls)
    return {f"turn {turn.number}, prompt {prompt}{lasted}": messages}


def _message(message: Message) -> str:
    kind = " ".join(
        filter(None, (message.role, message.origin, message.system_subtype))
    )
    marks = [
        "steering" if message.is_steering else "",
        "error" if message.is_error else "",
        f"command {message.command.name}" if message.command else "",
        f"{message.notification.task_id} {message.notification.status}"
        if message.notification
        else "",
        f"compaction by {message.compaction.trigger}" if message.compaction else "",
        f"pieces {_pieces(message.record_refs)}"
        if len(message.record_refs) > 1
        else "",
        f"attached {_pieces(message.attached_refs)}" if message.attached_refs else "",
    ]
    noted = "".join(f" [{mark}]" for mark in marks if mark)
    return f"{message.id} {kind}{noted}: {message.preview}"


def _call(call: ToolCall) -> str:
    outcome = "unanswered"
    if call.has_result:
        outcome = f"answered by {call.result_record_id}"
    marks = [
        "error" if call.is_error else "",
        "interrupted" if call.is_interrupted else "",
        f"attached {_pieces(call.attached_refs)}" if call.attached_refs else "",
        f"agents {' '.join(run.id for run in call.agents)}" if call.agents else "",
    ]
    noted = "".join(f" [{mark}]" for mark in marks if mark)
    return f"  {call.id} {call.name} {call.label}, {outcome}{noted}"


def _pieces(pieces: Iterable[RecordRef]) -> str:
    return " ".join(
        f"{piece.record_id}{list(piece.block_indexes)}".replace(", ", ",")
        for piece in pieces
    )


def _agent(run: AgentRun) -> Shape:
    background = ", in the background" if run.is_background else ""
    lasted = f", {run.duration.total_seconds():g} s" if run.duration else ""
    return _full(
        agent=f"{run.id}, {run.kind}, {run.status}{background}{lasted}",
        link=f"{run.linked_by} to {' '.join(run.call_ids)}"
        if run.linked_by
        else "orphan",
        what=f"{run.agent_type}: {run.description}, depth {run.depth}",
        workflow=run.workflow,
        tools=run.tool_call_count,
        usage=_usage(run.usage),
        branches=[_branch(branch) for branch in run.branches],
        agents=[_agent(inner) for inner in run.agents],
        hidden=_hidden(run.hidden_records),
        problems=_problems(run.problems),
    )


def _usage(usage: Usage) -> str:
    if usage == Usage():
        return ""
    return (
        f"{usage.input} in, {usage.output} out,"
        f" {usage.cache_write_5m}+{usage.cache_write_1h} written,"
        f" {usage.cache_read} read, {usage.web_searches} searches"
    )


def _spend(spend: MessageUsage) -> str:
    whose = f" of {spend.agent_id}" if spend.agent_id else ""
    return f"{spend.record_id}: {spend.usage.total}" + (
        f", branch {spend.branch_number}{whose}" if spend.branch_number or whose else ""
    )


def _hidden(hidden: Iterable[HiddenRecord]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for one in hidden:
        found.setdefault(one.reason, []).append(one.record_id or "·")
    return {reason: " ".join(found[reason]) for reason in sorted(found)}


def _problems(problems: Iterable[Problem]) -> list[str]:
    return [f"{problem.kind} {problem.detail}".strip() for problem in problems]


def _full(**fields: object) -> Shape:
    return {name: value for name, value in fields.items() if value}
