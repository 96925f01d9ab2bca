"""Whole records on damaged lines are found, and damage is reported."""

from __future__ import annotations

import sys
import tracemalloc
from unittest.mock import patch

import pytest
from msgspec import structs

from bygones.model.base import Problem
from bygones.parse import decode
from bygones.parse.decode import SalvagedObject
from bygones.parse.full import parse_line
from bygones.parse.light import parse_line_light
from tests.build import (
    attachment,
    line,
    meta,
    progress,
    prompt,
    reply,
    source_line,
    summary,
    text,
)
from tests.parse.helpers import full, kinds, light, pieces, raws

ONE = line(prompt("one", uuid="a"))
TWO = line(reply("two", uuid="b", parent="a"))


@pytest.mark.req("E1")
def test_case_1_truncated_last_line_is_reported() -> None:
    assert kinds(ONE[:-30], ended=False) == ["cut-line"]
    assert kinds(ONE[:-30], ended=True) == ["not-json"]


@pytest.mark.parametrize("before", [b"", b"  ", b"garbage ", "é\0".encode()])
def test_salvaged_objects_are_at_their_positions(before: bytes) -> None:
    raw = before + ONE + b" " + TWO + ONE[:-9]
    actual = source_line(raw, offset=700)
    start = actual.position.offset

    found = [
        part for part in decode.salvage_line(actual) if isinstance(part, SalvagedObject)
    ]

    assert [part.raw for part in found] == [ONE, TWO]
    for part in found:
        at = part.position.offset - start
        assert raw[at : at + part.position.length] == part.raw


@pytest.mark.req("E1")
def test_case_1_line_truncated_inside_a_character_is_reported() -> None:
    raw = line(prompt("grüße", uuid="a"))
    at = raw.index("ü".encode()) + 1

    assert kinds(raw[:at], ended=False) == ["cut-line"]


@pytest.mark.req("E1")
def test_case_1_line_truncated_after_a_block_is_not_a_record() -> None:
    raw = line(reply([text("x")]))
    at = raw.index(b'"x"}') + 4

    assert raws(raw[:at], ended=False) == []
    assert kinds(raw[:at], ended=False) == ["cut-line"]


@pytest.mark.req("E1")
def test_case_1_complete_last_line_without_newline_is_a_record() -> None:
    assert kinds(ONE, ended=False) == []
    assert kinds(ONE + TWO, ended=False) == ["spliced"]
    assert kinds(ONE + TWO[:-9], ended=False) == ["cut-line"]


@pytest.mark.req("E1")
@pytest.mark.parametrize("at", range(1, len(ONE), 7))
def test_case_2_record_after_a_torn_one_is_found(at: int) -> None:
    assert raws(ONE[:at] + TWO) == [TWO]
    assert kinds(ONE[:at] + TWO) == ["spliced"]


@pytest.mark.req("E1")
def test_case_2_records_without_a_newline_between_are_all_found() -> None:
    assert raws(ONE + TWO) == [ONE, TWO]
    assert raws(ONE + b" \r" + TWO + ONE) == [ONE, TWO, ONE]
    assert kinds(ONE + TWO) == ["spliced"]


@pytest.mark.req("E1")
def test_case_2_torn_record_with_many_blocks_is_skipped() -> None:
    torn = line(reply([text(f"block {number}") for number in range(3000)]))

    assert raws(torn[:-200] + ONE) == [ONE]


@pytest.mark.req("E1")
def test_case_2_record_torn_after_a_block_is_not_two_records() -> None:
    torn = line(reply([text("x")]))
    at = torn.index(b'"x"}') + 4

    assert raws(torn[:at] + ONE) == [ONE]


@pytest.mark.req("E1")
def test_case_2_metadata_after_a_torn_record_is_found() -> None:
    titled = line(summary("Mended", "z"))

    unknown = line(meta("from-tomorrow"))

    assert raws(ONE[:40] + titled) == [titled]
    assert raws(ONE[:40] + unknown) == [unknown]


@pytest.mark.req("E1")
@pytest.mark.parametrize(
    "tail",
    [b'tail of a text"}', b'"}]}', b"5}", b"[1,2", b"null,", b'"x":{"uuid":1}}'],
)
def test_case_2_records_after_the_tail_of_a_torn_one_are_found(
    tail: bytes,
) -> None:
    assert raws(tail + ONE) == [ONE]


@pytest.mark.req("E1")
def test_case_2_records_before_the_tail_of_a_torn_one_are_found() -> None:
    assert raws(ONE + b'","uuid":"x"}') == [ONE]
    assert kinds(ONE + b'","uuid":"x"}') == ["spliced"]


@pytest.mark.req("E1")
def test_case_2_part_without_its_bracket_is_not_a_record() -> None:
    inner = {"type": "assistant", "timestamp": "t", "uuid": "x", "message": {}}
    outer = progress("agent_progress", message=inner)
    later = {"uuid": outer.pop("uuid"), "timestamp": outer.pop("timestamp")}
    file = line(attachment("file", content="x", uuid="x") | {"slug": "brave-fox"})

    for written in (outer, outer | later):
        assert raws(line(written).replace(b"}},", b"},")) == []
    assert raws(file.replace(b'"x"}', b'"x"')) == []


@pytest.mark.req("E1", "R1")
def test_case_2_problem_does_not_repeat_the_torn_record() -> None:
    torn = line(attachment("session_context", email="ann@example.com"))

    for raw in (torn[:-3], torn[:-3] + ONE, ONE + torn[:-3], b"[" + torn + b"]"):
        actual = [str(part) for part in pieces(raw) if isinstance(part, Problem)]
        assert actual
        assert "ann@" not in "".join(actual)


@pytest.mark.req("E1")
def test_case_3_zero_bytes_before_a_record_are_skipped() -> None:
    item = source_line(b"\0\0\0\0" + ONE, offset=100)

    problem, part = decode.salvage_line(item)

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.position.offset, problem.position.length) == (
        "nul-run",
        100,
        4,
    )
    assert isinstance(part, SalvagedObject)
    assert (part.raw, part.position.offset) == (ONE, 104)


@pytest.mark.req("E1")
def test_case_3_zero_bytes_after_and_between_records_are_reported() -> None:
    assert raws(ONE + b"\0\0" + TWO + b"\0") == [ONE, TWO]
    assert kinds(ONE + b"\0\0" + TWO + b"\0") == ["spliced", "nul-run", "nul-run"]
    assert kinds(ONE[:50] + b"\0" * 5000 + TWO) == ["spliced"]
    assert kinds(b"\0" * 4096) == ["nul-run"]


@pytest.mark.req("E1")
def test_case_4_escaped_control_characters_are_kept() -> None:
    assert full(rb'{"type":"system","content":"a\u0000\u001bb"}').content == "a\0\x1bb"


@pytest.mark.req("E1")
def test_case_4_raw_control_characters_are_repaired() -> None:
    raw = b'{"type":"system","content":"a\0\x1bb"}'

    assert kinds(raw) == ["repaired"]
    assert pieces(raw)[-1].content == "a\0\x1bb"  # type: ignore[union-attr]


@pytest.mark.req("E1")
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (rb"cut \ud83d here", "cut � here"),
        (rb"\ude00\ud83d", "��"),
        (b"bad \xff here", "bad � here"),
        (b"cut \xf0\x9f\x98", "cut �"),
    ],
)
def test_case_5_lone_surrogates_are_replaced_in_both_decoders(
    raw: bytes, expected: str
) -> None:
    item = b'{"type":"user","uuid":"a","message":{"content":"' + raw + b'"}}'

    message = light(item).message

    assert kinds(item) == ["repaired"]
    assert pieces(item)[-1].message.content == expected  # type: ignore[union-attr]
    assert message is not None
    assert message.content == expected


@pytest.mark.req("E1")
def test_case_5_escaped_surrogate_pair_is_one_character() -> None:
    assert full(rb'{"type":"system","content":"\ud83d\ude00"}').content == "😀"


@pytest.mark.req("E1")
def test_case_6_byte_order_mark_is_accepted_at_the_start_only() -> None:
    raw = b"\xef\xbb\xbf" + ONE

    assert kinds(raw, offset=0) == ["bom"]
    assert raws(raw, offset=0) == [ONE]
    assert kinds(raw, offset=500) == ["spliced"]
    assert raws(raw, offset=500) == [ONE]
    assert kinds(b"\xef\xbb\xbf", offset=0) == ["bom", "blank"]


@pytest.mark.req("E1")
def test_case_6_carriage_return_is_not_part_of_a_record() -> None:
    assert kinds(ONE + b"\r") == []
    assert raws(ONE + b"\r") == [ONE]


@pytest.mark.req("E1")
@pytest.mark.parametrize("raw", [b"", b"\r", b" \t "])
def test_case_6_empty_line_is_blank(raw: bytes) -> None:
    assert kinds(raw) == ["blank"]


@pytest.mark.req("E1")
def test_case_6_unicode_line_separators_are_characters() -> None:
    words = "one\u2028two\u2029three\u0085four"

    assert full(prompt(words)).message.content == words


@pytest.mark.req("E1")
@pytest.mark.parametrize("raw", [b"[1]", b'"text"', b"7", b"null", b"true", b"NaN"])
def test_case_7_json_that_is_not_an_object_is_reported(raw: bytes) -> None:
    assert kinds(raw) == ["not-an-object"]


@pytest.mark.req("E1")
@pytest.mark.parametrize("raw", [b"{}", b'{"uuid":"a"}', b'{"type":null}'])
def test_case_7_record_without_a_type_is_reported(raw: bytes) -> None:
    assert kinds(raw) == ["no-type"]


@pytest.mark.req("E1")
def test_case_7_type_that_is_not_a_string_is_missing() -> None:
    assert [part.kind for part in pieces(b'{"type":7}')] == ["no-type"]  # type: ignore[union-attr]
    assert kinds_of_sketch(b'{"type":7}') == ["odd-field", "no-type"]


def kinds_of_sketch(raw: bytes) -> list[str]:
    found = parse_line_light(source_line(raw))
    return [part.kind for part in found if isinstance(part, Problem)]


@pytest.mark.req("E1")
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_case_8_nan_and_infinity_are_replaced_by_null(number: bytes) -> None:
    raw = b'{"type":"cost-state","totalCostUSD":' + number + b',"totalDuration":5}'

    assert kinds(raw) == ["repaired"]
    record = pieces(raw)[-1]
    assert (record.total_cost_usd, record.total_duration) == (None, 5)  # type: ignore[union-attr]


@pytest.mark.req("E1")
def test_case_8_long_numbers_in_repaired_lines_are_replaced() -> None:
    raw = b'{"type":"x","n":[NaN,1e999,' + b"9" * 5000 + b"," + b"9" * 20 + b",12,0.5]}"

    assert raws(raw) == [b'{"type": "x", "n": [null, null, null, 1e+20, 12, 0.5]}']


@pytest.mark.req("E1")
def test_case_8_last_of_duplicate_keys_counts() -> None:
    raw = b'{"type":"user","uuid":"a","type":"tag","uuid":"b","tag":"x"}'

    assert (full(raw).type, full(raw).uuid) == ("tag", "b")
    assert (light(raw).type, light(raw).uuid) == ("tag", "b")


@pytest.mark.req("E1")
def test_case_8_numbers_beyond_64_bits_are_accepted() -> None:
    assert full(b'{"type":"from-tomorrow","n":' + b"9" * 400 + b"}").type
    assert full(meta_count(2**53 + 1)).pr_number == 2**53 + 1


def meta_count(number: int) -> bytes:
    return line({"type": "pr-link", "prNumber": number})


@pytest.mark.req("E1")
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"content":['])
def test_case_8_too_deep_nesting_is_reported(opening: bytes) -> None:
    closing = {b"[": b"]", b'{"a":': b"}", b'{"content":[': b"]}"}[opening]
    depth = 100_000
    value = opening * depth + b"1" + closing * depth

    assert kinds(b'{"type":"user","message":' + value + b"}") == ["too-deep"]
    assert kinds(opening * depth) == ["too-deep"] or opening == b"["


@pytest.mark.req("E1")
def test_case_8_too_deep_nesting_after_a_torn_record_is_given_up() -> None:
    assert kinds(b"}" + b'{"type":' * 100_000) == ["not-json"]


@pytest.mark.req("E1")
def test_case_8_too_deep_blocks_are_reported_by_the_full_decoder() -> None:
    depth = sys.getrecursionlimit() // 3
    value = b'"x"'
    for _ in range(depth):
        value = b'[{"type":"tool_result","content":' + value + b"}]"
    raw = b'{"type":"user","message":{"content":' + value + b"}}"

    assert [part.kind for part in pieces(raw)] == ["too-deep"]  # type: ignore[union-attr]


@pytest.mark.req("E1")
def test_case_9_line_of_megabytes_is_parsed() -> None:
    words = "x" * 3_000_000

    assert full(prompt(words)).message.content == words


@pytest.mark.req("E1")
def test_case_10_any_key_order_and_whitespace_is_accepted() -> None:
    raw = b'{ "message" : { "content" : "hi" } , "uuid" : "a" , "type" : "user" }'

    assert full(raw).message.content == "hi"
    assert raws(raw + raw) == [raw, raw]
    assert raws(ONE[:60] + raw) == [raw]


@pytest.mark.req("E1")
@pytest.mark.parametrize(
    "hostile",
    [b'{"type":', b'{"type":"', b'{"a":x', b'{"type":[1,', b'{"a":1}', b'{"a":1},'],
)
def test_work_on_a_hostile_line_is_linear(hostile: bytes) -> None:
    assert effort(hostile, 60_000) <= 2.5 * effort(hostile, 30_000) + 10_000


@pytest.mark.req("E1")
def test_hostile_line_of_nested_lists_is_linear() -> None:
    raw = b'{"type":[' * 200 + b"1," * 50_000

    assert effort(raw, len(raw)) <= 20 * len(raw)


def effort(hostile: bytes, length: int) -> int:
    """Return how many characters were parsed to salvage a line."""
    spent = []
    extent = decode._scan_object

    def counted(text: str, at: int) -> tuple[list[tuple[str, object]], int, int]:
        found = extent(text, at)
        spent.append(found[-1])
        return found

    raw = (hostile * (length // len(hostile) + 1))[:length]
    with patch.object(decode, "_scan_object", counted):
        assert parse_line(source_line(raw))
    return sum(spent)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (ONE[:-30], ["not-json"]),
        (b"words", ["not-json"]),
        (b"[1]", ["not-an-object"]),
        (ONE + TWO, ["not-json"]),
        (ONE.replace(b"one", b"\xff"), ["not-json"]),
        (ONE, []),
        (ONE + b" \0", ["nul-run"]),
    ],
)
def test_very_long_damaged_line_is_reported_but_not_searched(
    monkeypatch: pytest.MonkeyPatch, raw: bytes, expected: list[str]
) -> None:
    monkeypatch.setattr(decode, "_MAX_REPAIRED_BYTES", 2)
    monkeypatch.setattr(decode, "_MAX_DIVIDED_BYTES", 2)

    assert kinds(raw) == expected


@pytest.mark.parametrize("end", [b"\n", b" ", b"\0\n"])
def test_very_long_damaged_line_is_not_copied(end: bytes) -> None:
    size = decode._MAX_DIVIDED_BYTES + 1
    damaged = source_line(b'{"a":"' + b"x" * size + end)
    tracemalloc.start()
    try:
        [*decode.salvage_line(damaged)]
        assert tracemalloc.get_traced_memory()[1] < size // 8
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "raw", [ONE, ONE[:-30], b"words", b"[1]", b"\0\0", b"", ONE + b"\0", ONE + TWO]
)
def test_newline_of_a_very_long_line_changes_nothing(raw: bytes) -> None:
    line_ = source_line(raw)

    found = parse_line_light(structs.replace(line_, raw=raw + b"\n"))

    assert [part.position for part in found] == [
        part.position for part in parse_line_light(line_)
    ]
    assert [type(part) for part in found] == [
        type(part) for part in parse_line_light(line_)
    ]
