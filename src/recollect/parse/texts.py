"""The text of a record that is indexed, field by field.

Content only: ids, paths of the session, versions and times are never part of it.
Text and thinking are taken whole; of a tool's input the names and commands whole and
the rest up to a limit; of a tool's result the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from recollect.model.attachments import AttachmentRecord, QueuedCommand
from recollect.model.metadata import Summary, TaskSummary, Title
from recollect.model.records import SystemRecord
from recollect.model.sketches import Sketch, SketchBlock, Sketched
from recollect.model.texts import IndexField, Origin, Passage
from recollect.parse.full import parse_record
from recollect.parse.machine import read_text

__all__ = ["INPUT_LIMIT", "RESULT_LIMIT", "TEXT_LIMIT", "text_of_content", "texts_of"]

TEXT_LIMIT = 16 * 1024 * 1024
"""Characters of one text that are indexed; the bytes are all kept."""
INPUT_LIMIT = 200
RESULT_LIMIT = 500

_SMALL = 4096
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Input(Struct, frozen=True, gc=False):
    """The parts of a tool's input that people search for."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None
    command: str | None = None
    description: str | None = None
    pattern: str | None = None
    query: str | None = None
    url: str | None = None
    prompt: str | None = None
    skill: str | None = None
    subject: str | None = None


class _ResultBlock(Struct, frozen=True, gc=False):
    type: str | None = None
    text: str | None = None


_input = msgspec.json.Decoder(_Input).decode
_anything = msgspec.json.Decoder().decode
_blocks = msgspec.json.Decoder(list[_ResultBlock | str | None]).decode
_string = msgspec.json.Decoder(str).decode


def texts_of(sketched: Sketched) -> tuple[Passage, ...]:
    """Return the passages of a record that are indexed, in the record's order.

    Machine text, images, snapshots, queue operations and private records give none.
    """
    sketch = sketched.sketch
    match sketch.type:
        case "user" | "assistant":
            return tuple(_message(sketch))
        case "summary" | "ai-title" | "custom-title" | "task-summary":
            return tuple(_small_record(sketched))
        case "system" if sketch.subtype == "away_summary":
            return tuple(_small_record(sketched))
        case "attachment" if b'"queued_command"' in sketched.raw:
            return tuple(_small_record(sketched))
    return ()


def _message(sketch: Sketch) -> Iterator[Passage]:
    content = sketch.message.content if sketch.message else None
    blocks = [SketchBlock(type="text", text=content)] if isinstance(content, str) else content
    for block in blocks or ():
        if block.text and not sketch.is_meta:
            text = block.text if sketch.type == "assistant" else _typed(block.text)
            if text:
                yield _passage(IndexField.TEXT, text)
        if block.thinking:
            yield _passage(IndexField.THINKING, block.thinking)
        if block.name:
            yield Passage(IndexField.TOOL, block.name)
            yield from _tool_input(block.input)
        if block.tool_use_id and bytes(block.content):
            text, is_cut = _beginning(block.content)
            yield Passage(
                IndexField.RESULT, text, is_cut=is_cut, is_error=bool(block.is_error)
            )


def _typed(text: str) -> str:
    told = read_text(text)
    if told.origin in {Origin.PERSON, Origin.COMPACTION}:
        return told.typed or text
    if told.command:
        return f"{told.command.name} {told.command.args}".strip()
    return told.output


def _passage(field: IndexField, text: str) -> Passage:
    if len(text) > TEXT_LIMIT:
        return Passage(field, text[:TEXT_LIMIT], is_cut=True)
    return Passage(field, text)


def _tool_input(raw: Raw) -> Iterator[Passage]:
    try:
        known = _input(raw)
    except _FAILURES:
        known = _Input()
    for path in (known.file_path, known.notebook_path, known.path):
        if path:
            yield _passage(IndexField.PATH, path)
    if known.command:
        yield _passage(IndexField.COMMAND, known.command)
    rest, is_cut = _rest_of_input(raw, known)
    if rest:
        yield Passage(IndexField.INPUT, rest, is_cut=is_cut)


def _rest_of_input(raw: Raw, known: _Input) -> tuple[str, bool]:
    """Return the other words of an input, up to the limit."""
    if len(bytes(raw)) <= _SMALL:
        try:
            whole = _anything(raw)
        except _FAILURES:
            whole = {}
        taken = {known.file_path, known.notebook_path, known.path, known.command}
        words = " ".join(word for word in _strings(whole) if word not in taken)
    else:
        parts = (known.description, known.pattern, known.query, known.url)
        parts += (known.skill, known.subject, known.prompt)
        words = " ".join(part for part in parts if part)
    return words[:INPUT_LIMIT], len(words) > INPUT_LIMIT


def _strings(value: Any) -> Iterator[str]:  # noqa: ANN401 (JSON of any form)
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        elif isinstance(top, dict):
            stack.extend(reversed(top.values()))
        elif isinstance(top, list):
            stack.extend(reversed(top))


def _beginning(raw: Raw) -> tuple[str, bool]:
    """Return the first characters of a result, and whether there are more."""
    content = bytes(raw)
    is_long = content[:1] == b'"' and len(content) > _SMALL
    text = _string_head(content) if is_long else text_of_content(raw)
    return text[:RESULT_LIMIT], len(text) > RESULT_LIMIT


def _string_head(content: bytes) -> str:
    """Decode the beginning of a long JSON string without reading all of it."""
    # A character takes at most twelve bytes here: two escaped surrogates.
    head = content[1:_SMALL]
    run = len(head) - len(head.rstrip(b"\\"))
    escape = head.rfind(b"\\u", -6)
    if run % 2:
        head = head[:-1]
    elif escape >= 0:
        head = head[:escape]
    text = head.decode("utf-8", "ignore")
    try:
        return _string(b'"' + text.encode() + b'"')
    except _FAILURES:
        # The cut parted a surrogate pair, or a literal backslash stands before a u.
        return text


def _small_record(sketched: Sketched) -> Iterator[Passage]:
    record = parse_record(sketched.raw, sketched.position)[-1]
    match record:
        case Title():
            title = record.custom_title or record.ai_title
        case Summary() | TaskSummary():
            title = record.summary
        case SystemRecord():
            yield _passage(IndexField.TEXT, record.content or "")
            return
        case AttachmentRecord(attachment=QueuedCommand() as queued):
            yield from _queued(queued)
            return
        case _:
            return
    if title:
        yield _passage(IndexField.TITLE, title)


def _queued(queued: QueuedCommand) -> Iterator[Passage]:
    if queued.command_mode == "task-notification":
        return
    typed = _typed(text_of_content(queued.prompt))
    if typed:
        yield _passage(IndexField.TEXT, typed)


def text_of_content(raw: Raw) -> str:
    """Return the text of a value that is a string or a list of blocks."""
    content = bytes(raw)
    try:
        if content[:1] == b'"':
            return _string(content)
        blocks = _blocks(content)
    except _FAILURES:
        return ""
    texts = (b if isinstance(b, str) else b.text if b else None for b in blocks)
    return "\n".join(text for text in texts if text)
