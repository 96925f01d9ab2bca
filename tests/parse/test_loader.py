"""Loading single records."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.base import Position, SourceId
from bygones.model.records import UserRecord
from bygones.parse.full import parse_record, parse_record_content
from bygones.parse.loader import RecordLoader, record_blocks
from tests.build import image, prompt, reply, text, thinking, tool_result, tool_use

HERE = Position(SourceId("a"), 0, 0, 9)
RECORDS = [
    prompt("hello"),
    prompt([text("a"), image()]),
    prompt(""),
    reply([thinking("hm"), text("a"), tool_use("Bash", command="ls")]),
    tool_result("t", "out", outcome={"stdout": "x"}),
    tool_result("t", [text("out"), image()]),
    tool_result("t", ""),
    prompt([{"type": "odd", "x": 1}, None, 7, "bare"]),
    prompt("x") | {"message": {"content": None}},
    prompt("x") | {"message": {"content": 7}},
    prompt("x") | {"message": None},
    prompt("x") | {"message": "odd"},
    prompt("x") | {"toolUseResult": None},
    prompt("x") | {"type": 7},
    {"type": "summary", "summary": "x"},
]


def full(raw: bytes) -> tuple[object, bytes]:
    """Return blocks and outcome by the full decoder."""
    record = parse_record(raw, HERE)[-1]
    result = record.tool_use_result if isinstance(record, UserRecord) else b""
    return record_blocks(record), bytes(result)  # type: ignore[arg-type]


@pytest.mark.parametrize("record", RECORDS, ids=range(len(RECORDS)))
def test_content_decoder_agrees_with_the_full_decoder(record: object) -> None:
    raw = json.dumps(record).encode()
    content = parse_record_content(raw)

    if content is not None:
        blocks, result = full(raw)
        assert content.blocks == blocks
        assert content.raw_result in {result, b"null"}


def test_content_decoder_is_used_for_valid_records() -> None:
    taken = [
        parse_record_content(json.dumps(record).encode()) is not None
        for record in RECORDS
    ]

    assert taken[:8] == [True] * 8
    assert not any(taken[9:12])


@given(st.binary(max_size=80))
def test_any_bytes_are_accepted(raw: bytes) -> None:
    assert parse_record_content(raw) is None
    assert parse_record_content(b'{"type":"user","message":' + raw) is None


@pytest.mark.parametrize(
    ("written", "is_seen"),
    [({"stdout": "", "interrupted": True}, True), ({"stdout": "x"}, False), (7, False)],
)
def test_outcome_contains_searches_the_raw_outcome(
    written: object, is_seen: bool
) -> None:
    class Holding(RecordLoader):
        def read_raw(self, position: Position) -> bytes:
            assert position == HERE
            record = tool_result("t", '"interrupted": true')
            return json.dumps(record | {"toolUseResult": written}).encode()

    assert Holding().outcome_contains(HERE, b'"interrupted": true', b"other") == is_seen
