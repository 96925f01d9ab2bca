"""Content decoded at once is what the full decode gives."""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec import Raw

from bygones.model.base import Position, SourceId
from bygones.model.records import (
    Block,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserRecord,
)
from bygones.parse.full import decode_common_content, parse_record

USUAL = [
    "words",
    [],
    [{"type": "text", "text": "a"}],
    [{"type": "text", "text": None, "citations": None, "more": 1}],
    [{"type": "text", "text": "a", "citations": [{"x": 1}]}],
    [{"type": "thinking", "thinking": "t", "signature": "s"}],
    [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}],
    [{"type": "tool_use", "id": None, "input": None, "caller": {"type": "direct"}}],
    [{"type": "tool_result", "tool_use_id": "t1", "content": "out", "is_error": True}],
    [{"type": "tool_result", "content": [{"type": "text", "text": "x"}]}],
    [{"type": "tool_result", "content": None, "toolUseResult": {"stdout": ""}}],
]
UNUSUAL = [
    None,
    7,
    {"type": "text", "text": "alone"},
    ["bare"],
    [None],
    [{"type": "text", "text": 7}],
    [{"type": "new_kind"}],
    [{"text": "no type"}],
    [{"type": "server_tool_use", "id": "t1"}],
    [{"type": "tool_result", "content": [{"type": "image"}]}],
]


def opened(content: object) -> str | tuple[Block, ...] | None:
    """Return content as the full decode gives it."""
    line = json.dumps({"type": "user", "message": {"content": content}}).encode()
    record = parse_record(line, Position(SourceId("a"), 0, 0, len(line)))[-1]
    assert isinstance(record, UserRecord)
    assert record.message is not None
    return record.message.content


@pytest.mark.parametrize("content", USUAL, ids=str)
def test_usual_content_is_decoded_as_in_full(content: object) -> None:
    found = decode_common_content(Raw(json.dumps(content).encode()))

    assert found == opened(content)
    assert found is not None


@pytest.mark.parametrize("content", UNUSUAL, ids=str)
def test_unusual_content_is_left_to_the_full_decode(content: object) -> None:
    assert decode_common_content(Raw(json.dumps(content).encode())) is None


@pytest.mark.parametrize("raw", [b"", b"[", b'"\xff"', b"[" * 5_000, b'["\\ud800"]'])
def test_what_is_no_json_is_left_to_the_full_decode(raw: bytes) -> None:
    assert decode_common_content(Raw(raw)) is None


@pytest.mark.parametrize(
    "kind", [TextBlock, ThinkingBlock, ToolUseBlock, ToolResultBlock]
)
def test_every_field_of_a_usual_block_is_decoded(kind: type[msgspec.Struct]) -> None:
    name = kind.types[0]  # type: ignore[attr-defined]
    fields = [one for one in msgspec.structs.fields(kind) if one.name != "type"]
    given = {
        one.encode_name: False if one.name == "is_error" else "x" for one in fields
    }
    content = [{"type": name, **given}]

    assert decode_common_content(Raw(json.dumps(content).encode())) == opened(content)
