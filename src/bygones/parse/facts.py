"""What blocks and outcomes contribute to a session's structure, without their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar
from zlib import crc32

import msgspec
from msgspec import Raw, Struct, structs

from bygones.model.ids import AgentId
from bygones.model.nodes import HEAD_LIMIT, BlockFact, ResultFacts
from bygones.model.sketches import SketchBlock
from bygones.model.wire import CALLS, wire_name
from bygones.parse.decode import decode_struct
from bygones.parse.raws import head_of, size_of, tail_of
from bygones.parse.salvage import sound_text
from bygones.parse.texts import text_of_content

__all__ = ["block_fact", "result_facts"]

T = TypeVar("T", bound=Struct)

_NOTE_LIMIT = 200
_MOST = 1 << 53
"""Numbers above it are no counts of anything."""
_AGENT_TAIL = rb"agentId: ([A-Za-z0-9_-]+)"
_TAIL = 600
_STORED = rb"<persisted-output>.{0,200}?[Ss]aved to: ([^\n]+?)(?:\\n|\n|<|$)"
_STORED_HEAD = 4_000


def result_facts(
    raw: Raw, blocks: Sequence[SketchBlock]
) -> tuple[ResultFacts | None, str]:
    """Return what a record with results says beyond their text, and its first error.

    What the structured outcome leaves out may stand in the text for the model: which
    agent it was, and where a long output is kept.
    """
    facts = _result(raw)
    head = ""
    for block in blocks:
        if block.is_error and not head:
            head = text_of_content(block.content)[:HEAD_LIMIT]
        tail = tail_of(block.content, _TAIL)
        named = re.search(_AGENT_TAIL, tail) if b"agentId" in tail else None
        if named and (facts is None or facts.agent is None):
            told = AgentId(named[1].decode())
            facts = structs.replace(facts or ResultFacts(), told_agent=told)
        stored = _stored_at(head_of(block.content, _STORED_HEAD))
        if stored and (facts is None or facts.stored_at is None):
            facts = structs.replace(facts or ResultFacts(), stored_at=stored)
    return facts, head


def _stored_at(content: bytes) -> str | None:
    """Return the path in the words that stand for an output that is kept elsewhere."""
    if b"<persisted-output>" not in content:
        return None
    found = re.search(_STORED, content)
    return found[1].decode("utf-8", "replace").replace("\\\\", "\\") if found else None


class _Input(Struct, frozen=True, gc=False):
    """What tells one call of a tool from another."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None
    command: str | None = None
    description: str | None = None
    pattern: str | None = None
    query: str | None = None
    url: str | None = None
    skill: str | None = None
    subject: str | None = None
    plan: str | None = None
    prompt: str | None = None
    subagent_type: str | None = None


@cache
def _decoder(kind: type[T], *, strict: bool) -> Callable[[Raw], T]:
    # Made when the first is met: whoever reads a text meets none.
    return msgspec.json.Decoder(kind, strict=strict).decode


_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _tolerant(kind: type[T], raw: Raw, *, strict: bool = True) -> T:
    """Decode fast, and field by field where a field is odd."""
    try:
        found: T = _decoder(kind, strict=strict)(raw)
    except _FAILURES:
        pass
    else:
        return found
    try:
        return decode_struct(kind, sound_text(bytes(raw)), lambda _path, _reason: None)
    except _FAILURES:
        return kind()


def block_fact(block: SketchBlock) -> BlockFact:
    """Return a block without its content."""
    # Some gateways give every block an empty name and an empty id.
    if block.name or block.type in CALLS:
        return _call(block)
    if block.tool_use_id:
        return BlockFact(
            kind=block.type,
            id=block.tool_use_id,
            size=size_of(block.content),
            is_error=bool(block.is_error),
        )
    text = block.text if block.text is not None else block.thinking
    if text is None:
        return BlockFact(kind=block.type, size=size_of(block.source))
    raw = text.encode("utf-8", "replace")
    return BlockFact(kind=block.type, digest=crc32(raw), size=len(raw))


def _call(block: SketchBlock) -> BlockFact:
    known = _tolerant(_Input, block.input)
    path = known.file_path or known.notebook_path
    note = path or known.command or known.description or known.pattern or known.query
    note = note or known.url or known.skill or known.subject or known.path or known.plan
    prompt = known.prompt
    return BlockFact(
        kind=block.type,
        id=block.id or None,
        name=block.name or "",
        note=note[:_NOTE_LIMIT] if note else None,
        path=path,
        agent_type=known.subagent_type,
        digest=crc32(prompt.encode("utf-8", "replace")) if prompt else 0,
        size=size_of(block.input),
    )


class _Hunk(Struct, frozen=True, gc=False):
    lines: list[str] = []


class _File(Struct, frozen=True, gc=False, rename=wire_name):
    file_path: str | None = None


class _Outcome(Struct, frozen=True, gc=False, rename=wire_name):
    type: str | None = None
    status: str | None = None
    agent_id: str | None = None
    resumed_agent_id: str | None = None
    file_path: str | None = None
    file: _File | None = None
    structured_patch: list[_Hunk] | None = None
    old_string: str | None = None
    new_string: str | None = None
    content: Raw = Raw()
    run_id: str | None = None
    task_id: str | None = None
    background_task_id: str | None = None
    persisted_output_path: str | None = None
    total_duration_ms: float | None = None
    total_tokens: float | None = None
    total_tool_use_count: float | None = None
    search_count: int | None = None


def _result(raw: Raw) -> ResultFacts | None:
    if head_of(raw, 1) != b"{":
        return None
    outcome = _tolerant(_Outcome, raw, strict=False)
    patch = [line[:1] for hunk in outcome.structured_patch or () for line in hunk.lines]
    added, removed = (
        (patch.count("+"), patch.count("-")) if patch else _changed(outcome)
    )
    agent = outcome.agent_id or outcome.resumed_agent_id
    facts = ResultFacts(
        agent=AgentId(agent) if agent else None,
        status=outcome.status,
        duration_ms=_whole(outcome.total_duration_ms),
        tokens=_whole(outcome.total_tokens),
        tool_count=_whole(outcome.total_tool_use_count),
        path=outcome.file_path or (outcome.file.file_path if outcome.file else None),
        added=added,
        removed=removed,
        has_patch=bool(patch),
        is_new=outcome.type == "create",
        run=outcome.run_id or outcome.task_id or outcome.background_task_id,
        stored_at=outcome.persisted_output_path,
        searches=_whole(outcome.search_count) or 0,
    )
    return facts if facts != _NO_FACTS else None


_NO_FACTS = ResultFacts()
_words = msgspec.json.Decoder(str).decode


def _changed(outcome: _Outcome) -> tuple[int, int]:
    """Return the lines that came and went, where no patch tells of them."""
    added = outcome.new_string or ""
    if outcome.type == "create" and head_of(outcome.content, 1) == b'"':
        added = _words(sound_text(bytes(outcome.content)))
    return len(added.splitlines()), len((outcome.old_string or "").splitlines())


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and abs(value) < _MOST else None
