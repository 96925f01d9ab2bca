"""From a sketch to a node: what a record contributes to its session's structure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from functools import cache
from typing import Any
from zlib import crc32

from bygones.model.nodes import HEAD_LIMIT, Beside, LineageFacts, Node
from bygones.model.sketches import Sketch, SketchBlock, Sketched
from bygones.model.texts import Origin, Told
from bygones.parse.bills import billing_of, told_of, usage_of
from bygones.parse.facts import block_fact, result_facts
from bygones.parse.machine import read_text, said

__all__ = ["node_of"]

_SENDERS = {
    "human": None,
    "task-notification": Origin.NOTIFICATION,
    "peer": Origin.TEAMMATE,
    "channel": Origin.TEAMMATE,
    "coordinator": Origin.TEAMMATE,
}
"""What the record's own word on its sender means; none leaves it to the text."""


def node_of(sketched: Sketched) -> Node:
    """Return the node of a record, whatever its type."""
    sketch = sketched.sketch
    facts: dict[str, Any] = {}
    if sketch.type in {"user", "assistant"}:
        facts = _message(sketch)
    elif sketch.type == "progress":
        facts = _progress(sketch)
    else:
        facts = _small()(sketched)
    return Node(
        position=sketched.position,
        kind=sketch.type or "",
        subtype=facts.pop("subtype", sketch.subtype),
        uuid=sketch.uuid,
        parent=sketch.parent_uuid,
        logical_parent=sketch.logical_parent_uuid,
        session=sketch.session_id,
        agent=facts.pop("agent", sketch.agent_id),
        time=_moment(sketch.timestamp),
        is_sidechain=sketch.is_sidechain,
        is_meta=sketch.is_meta,
        is_error=sketch.is_api_error_message,
        cwd=sketch.cwd,
        git_branch=sketch.git_branch,
        version=sketch.version,
        slug=sketch.slug,
        entrypoint=sketch.entrypoint,
        team=sketch.team_name,
        request=sketch.request_id,
        source_call=sketch.source_tool_use or sketch.parent_tool_use,
        source_record=sketch.source_tool_assistant,
        forked_from=_forked_from(sketch),
        supersedes=sketch.supersedes_uuids,
        **facts,
    )


@cache
def _small() -> Callable[[Sketched], dict[str, Any]]:
    """Return what reads all other records: whoever reads a message needs it not."""
    from bygones.parse.small import small_facts  # noqa: PLC0415

    return small_facts


def _forked_from(sketch: Sketch) -> LineageFacts | None:
    origin = sketch.forked_from
    return LineageFacts(origin.session_id, origin.message_uuid) if origin else None


def _moment(time: datetime | None) -> datetime | None:
    """Return a time as the whole world counts it.

    In the calendar's first and last year it is none: some clock on earth shows a year
    there that no calendar has.
    """
    if time is None or not MINYEAR < time.year < MAXYEAR:
        return None
    return time if time.tzinfo is UTC else time.astimezone(UTC)


def _message(sketch: Sketch) -> dict[str, Any]:
    message = sketch.message
    if message is None:
        return {"origin": Origin.HARNESS if sketch.type == "user" else None}
    content = message.content
    blocks = (
        [SketchBlock(type="text", text=content)]
        if isinstance(content, str)
        else content or []
    )
    facts: dict[str, Any] = {
        "message": message.id,
        "model": message.model,
        "blocks": tuple(map(block_fact, blocks)),
    }
    if message.usage is not None:
        facts["usage"] = usage_of(message.usage)
        facts["billing"] = billing_of(message.usage)
    if sketch.type == "user":
        facts |= _user(sketch, blocks)
    else:
        text = next((block.text for block in blocks if block.text), "")
        facts["head"] = text[:HEAD_LIMIT]
    return facts


def _user(sketch: Sketch, blocks: list[SketchBlock]) -> dict[str, Any]:
    if any(block.tool_use_id for block in blocks):
        facts, head = result_facts(sketch.tool_use_result, blocks)
        others = [block for block in blocks if block.text and not block.tool_use_id]
        beside = _beside(sketch, others)
        found = {"origin": Origin.TOOL, "result": facts, "head": head}
        return found if beside is None else {**found, "beside": beside}
    tolds = [read_text(block.text) for block in blocks if block.text is not None]
    typed = "\n".join(told.typed for told in tolds if told.typed)
    has_media = any(block.type in {"image", "document"} for block in blocks)
    told = _leading(tolds, has_media=has_media)
    origin = _origin(sketch, told)
    text = typed if origin in {Origin.PERSON, Origin.CALLER} else said(told, typed)
    return {
        "origin": origin,
        "head": text[:HEAD_LIMIT],
        "digest": crc32(text.encode("utf-8", "replace")) if text else 0,
        "command": told.command,
        "notification": told.notification,
    }


def _beside(sketch: Sketch, blocks: list[SketchBlock]) -> Beside | None:
    """Return what somebody says in a record of results, if it is not the harness."""
    if not blocks:
        return None
    said = _user(sketch, blocks)
    if said["origin"] in {Origin.HARNESS, Origin.HOOK}:
        return None
    return Beside(said["origin"], said["head"], said["digest"])


def _leading(tolds: list[Told], *, has_media: bool) -> Told:
    """Return the text that says what a record is: a person's before any other."""
    persons = (told for told in tolds if told.typed.strip())
    first = next(persons, None)
    if first is not None or has_media:
        return first or Told(Origin.PERSON)
    machine = (told for told in tolds if told.origin is not Origin.PERSON)
    return next(machine, Told(Origin.HARNESS))


def _origin(sketch: Sketch, told: Told) -> Origin:
    if sketch.is_compact_summary:
        return Origin.COMPACTION
    origin = told.origin
    if sketch.origin is not None and origin is Origin.PERSON:
        sender = _SENDERS.get(sketch.origin.kind or "human", Origin.HARNESS)
        origin = sender or origin
    if origin is Origin.PERSON and (sketch.is_meta or sketch.source_tool_use):
        origin = Origin.HARNESS
    if origin is Origin.PERSON and _is_compact(told.typed):
        origin = Origin.COMMAND
    if origin is Origin.PERSON and sketch.is_sidechain:
        return Origin.CALLER
    return origin


def _is_compact(typed: str) -> bool:
    """Whether the text is ``/compact`` as typed; the command is recorded again."""
    return typed == "/compact" or typed.startswith("/compact ")


def _progress(sketch: Sketch) -> dict[str, Any]:
    if sketch.progress is None:
        return {}
    agent = sketch.progress.agent_id or sketch.agent_id
    facts: dict[str, Any] = {"subtype": sketch.progress.type, "agent": agent}
    if sketch.progress.type == "agent_progress":
        facts["extra"] = told_of(sketch.progress.message)
    return facts
