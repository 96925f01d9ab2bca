"""An invalid field is left out without affecting other fields."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Struct

from bygones.model.base import Problem
from bygones.model.metadata import UnknownAttachment
from bygones.model.records import TextBlock, ToolUseBlock, UnknownBlock
from bygones.parse.decode import (
    MAX_VALUES,
    decode_struct,
    field_names,
    has_too_many_values,
)
from bygones.parse.full import parse_record
from bygones.parse.light import parse_line_light
from tests.build import (
    Written,
    attachment,
    image,
    line,
    meta,
    prompt,
    reply,
    source_line,
    system,
    text,
    title,
    tool_result,
)
from tests.parse.helpers import (
    block,
    full,
    kinds,
    light,
    odd_fields,
    outcome,
    passages,
    pieces,
)


class Small(Struct, frozen=True):
    """A struct with a field of every form."""

    count: int | None = None
    word: str | None = None
    words: tuple[str, ...] = ()
    inner: Small | None = None
    by_name: dict[str, int] = {}


def decoded(written: object) -> tuple[Small, list[str]]:
    actual: list[str] = []
    small = decode_struct(Small, line(written), lambda path, _: actual.append(path))
    return small, actual


def last(record: object) -> Any:  # noqa: ANN401 (what the test expects)
    return pieces(record)[-1]


def test_struct_is_decoded_field_by_field() -> None:
    written = {"count": 1, "word": "w", "words": ["x"], "inner": {"count": 2}}

    assert decoded(written) == (Small(1, "w", ("x",), Small(2)), [])
    assert field_names(Small) == {"count", "word", "words", "inner", "by_name"}


def test_invalid_value_is_reported_with_its_path() -> None:
    written = {
        "count": [],
        "words": ["x", 7],
        "inner": {"inner": {"word": {}}, "count": 2},
        "by_name": {"a": 1, "b": "no"},
        "new": 1,
    }

    small, actual = decoded(written)

    assert small == Small(None, None, ("x",), Small(2, inner=Small()), {"a": 1})
    assert actual == ["count", "words[1]", "inner.inner.word", "by_name.b"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [("7", 7), (7.9, 7), (-3.2, -3), (2**70, 2**70), (1e300, int(1e300)), (None, None)],
)
def test_count_as_string_or_fraction_is_accepted(
    written: object, expected: int | None
) -> None:
    assert decoded({"count": written})[0].count == expected


def test_value_instead_of_a_container_is_invalid_and_vice_versa() -> None:
    written = {"inner": 7, "words": {}, "word": [], "by_name": 3, "count": {}}

    assert decoded(written) == (Small(), list(written))


@pytest.mark.req("E1")
def test_case_11_message_may_be_missing_null_or_invalid() -> None:
    bare = {key: value for key, value in prompt("x").items() if key != "message"}

    assert full(bare).message is None
    assert full(bare | {"message": None}).message is None
    assert odd_fields(bare | {"message": "hi"}) == ["message"]
    assert light(bare | {"message": "hi"}).message is None


@pytest.mark.req("E1", "R2")
@pytest.mark.parametrize("content", [7, True, 1.5])
def test_case_11_content_of_another_type_is_invalid(
    content: object,
) -> None:
    record = prompt("x", uuid="a") | {"message": {"role": "user", "content": content}}

    assert kinds(record) == ["odd-field"]
    assert odd_fields(record) == ["message.content"]
    assert last(record).uuid == "a"


@pytest.mark.req("E1", "R2")
def test_case_11_text_is_kept_next_to_an_invalid_field() -> None:
    record = prompt("x") | {"message": {"role": 7, "content": "hi"}}

    assert kinds(record) == ["odd-field"]
    assert [part.text for part in passages(record)] == ["hi"]


@pytest.mark.req("E1", "R2")
def test_case_11_strings_nulls_and_numbers_among_blocks_are_accepted() -> None:
    content = ["bare", None, 7, text("block"), {"type": "text", "text": None}]

    found = full(prompt(content)).message.content

    assert found == (
        TextBlock(text="bare"),
        UnknownBlock("", b"null"),
        UnknownBlock("", b"7"),
        TextBlock(text="block"),
        TextBlock(),
    )
    assert [part.text for part in passages(prompt(content))] == ["bare", "block"]


@pytest.mark.req("E1")
@pytest.mark.parametrize("given", ['"ls -l"', "null", "[]", '{"timeout":"12"}'])
def test_case_11_malformed_call_is_kept(given: str) -> None:
    raw = line(reply([{"type": "tool_use", "id": "t", "name": "Bash", "input": "?"}]))

    call = full(raw.replace(b'"?"', given.encode())).message.content[0]

    assert isinstance(call, ToolUseBlock)
    assert (call.id, call.name) == ("t", "Bash")
    assert bytes(call.input) == (b"" if given == "null" else given.encode())


@pytest.mark.req("E1")
def test_case_11_invalid_field_of_a_block_is_left_out() -> None:
    content = [{"type": "tool_use", "id": 7, "name": "Bash"}, text("behind")]

    record = prompt(content)

    assert odd_fields(record) == ["message.content[0].id"]
    assert last(record).message.content[1] == TextBlock(text="behind")
    assert [part.text for part in passages(record)] == ["Bash", "behind"]


@pytest.mark.req("E1")
def test_case_12_record_without_uuid_or_time_is_a_record() -> None:
    bare = {"type": "user", "message": {"role": "user", "content": "hi"}}

    assert full(bare).uuid is None
    assert full(bare).timestamp is None
    assert light(bare).uuid is None


@pytest.mark.req("E1")
@pytest.mark.parametrize(
    "time",
    ["yesterday", "", "2026-01-05T09:00:00", 1_767_600_000_000, {}, "2026-13-01"],
)
def test_case_12_malformed_time_is_left_out_and_reported(time: object) -> None:
    record = prompt("hi", uuid="a", timestamp=time)

    assert kinds(record) == ["odd-field"]
    assert odd_fields(record) == ["timestamp"]
    assert light(record).timestamp is None
    assert light(record).uuid == "a"


@pytest.mark.req("E1")
def test_case_12_time_in_another_zone_is_the_same_moment() -> None:
    record = full(prompt("hi", timestamp="2026-01-05T11:00:00+02:00"))

    assert record.timestamp == datetime(2026, 1, 5, 9, tzinfo=UTC)


@pytest.mark.req("E1")
@pytest.mark.parametrize("odd", ["text", 7, []])
def test_case_13_malformed_attachment_is_kept_and_reported(odd: object) -> None:
    record = attachment("file", uuid="x", parent="a") | {"attachment": odd}

    assert odd_fields(record) == ["attachment"]
    assert last(record).attachment == UnknownAttachment(type="", raw=line(odd))
    assert (last(record).uuid, light(record).uuid) == ("x", "x")


@pytest.mark.req("E1")
def test_case_13_attachment_may_be_missing_or_without_a_type() -> None:
    record = attachment("file")

    assert full(record | {"attachment": None}).attachment is None
    assert full(record | {"attachment": {"a": 1}}).attachment == UnknownAttachment(
        type="", raw=b'{"a":1}'
    )


@pytest.mark.req("E1", "R6")
def test_case_13_outcome_may_be_null() -> None:
    record = tool_result("t", "x") | {"toolUseResult": None}

    assert bytes(full(record).tool_use_result) == b""
    assert bytes(light(record).tool_use_result) == b"null"
    assert outcome(None) is None


@pytest.mark.req("E1")
def test_case_13_nulls_in_search_results_are_kept() -> None:
    found = outcome({"query": "q", "results": [None, {}], "durationSeconds": 1})

    assert bytes(found.results) == b"[null,{}]"


@pytest.mark.req("E1", "R7")
@pytest.mark.parametrize("message", [{}, {"model": None, "usage": None}])
def test_case_14_model_and_usage_may_be_missing(message: Written) -> None:
    record = reply("x") | {"message": message}

    assert full(record).message.model is None
    assert full(record).message.usage is None


@pytest.mark.req("E1")
@pytest.mark.parametrize(
    ("written", "expected"),
    [(-5, -5), (1.9, 1), ("12", 12), ("many", None), ([], None)],
)
def test_case_14_counts_may_be_negative_fractional_or_invalid(
    written: object, expected: int | None
) -> None:
    record = reply("x", usage={"input_tokens": written, "output_tokens": 3})

    message = light(record).message

    assert last(record).message.usage.input_tokens == expected
    assert last(record).message.usage.output_tokens == 3
    assert message is not None
    assert message.usage is not None
    assert message.usage.input_tokens == expected


@pytest.mark.req("E1", "R5")
def test_case_15_results_are_decoded_without_their_call() -> None:
    twice = [{"type": "tool_result", "tool_use_id": "t", "content": "x"}] * 2

    assert len(full(prompt(twice)).message.content) == 2
    assert full(tool_result("from-nowhere", "x")).message.content[0].content == "x"


@pytest.mark.req("E1", "R6")
def test_case_16_error_has_text_as_outcome() -> None:
    denied = "The user doesn't want to proceed with this tool use."
    record = tool_result(
        "t", denied, is_error=True, outcome="Error: rejected", toolDenialKind="x"
    )

    assert full(record).message.content[0].is_error
    assert outcome("Error: rejected").text == "Error: rejected"
    assert outcome({"structuredPatch": []}).file_path is None


@pytest.mark.req("E1")
def test_case_17_title_is_kept_unchanged() -> None:
    words = "One\n\x1b[1mtwo\x1b[0m <b>three</b>"

    assert full(title(words)).ai_title == words


@pytest.mark.req("E1")
def test_case_17_prompt_may_be_an_image_or_empty() -> None:
    assert len(full(prompt([image()])).message.content) == 1
    assert passages(prompt([image()])) == []
    assert full(prompt("")).message.content == ""
    assert full(prompt([])).message.content == ()


@pytest.mark.req("E1")
def test_case_18_odd_parents_are_decoded() -> None:
    own = prompt("x", uuid="a", parent="a")

    assert (full(own).parent_uuid, light(own).parent_uuid) == ("a", "a")
    assert odd_fields(prompt("x") | {"parentUuid": 7}) == ["parentUuid"]
    assert light(prompt("x") | {"parentUuid": 7}).parent_uuid is None


@pytest.mark.req("E1")
def test_case_31_paths_of_other_machines_are_kept() -> None:
    assert full(prompt("x", cwd="C:\\work\\demo")).cwd == "C:\\work\\demo"
    assert light(prompt("x", cwd="C:\\work\\demo")).cwd == "C:\\work\\demo"


@pytest.mark.req("E1")
def test_case_33_escape_sequences_and_markup_stay_in_the_text() -> None:
    words = "\x1b[31mred\x1b[0m <script>alert(1)</script> **bold**"

    assert full(prompt(words)).message.content == words


@pytest.mark.req("E1")
def test_flags_as_null_or_string_are_accepted() -> None:
    record = prompt("x") | {"isSidechain": None, "isMeta": "true"}

    assert (light(record).is_sidechain, light(record).is_meta) == (False, True)
    assert (full(record).is_sidechain, full(record).is_meta) == (False, True)


@pytest.mark.req("E1")
def test_problem_comes_before_its_record_with_its_position() -> None:
    item = source_line(line(system("informational", "x") | {"level": 7}), offset=40)

    (light_record,) = parse_line_light(item)
    problem, _ = parse_record(item.raw, item.position)

    assert not isinstance(light_record, Problem)
    assert problem == Problem(
        "odd-field", item.position, "level: Expected `str | null`, got `int`"
    )


@pytest.mark.req("E1")
def test_case_5_record_with_invalid_utf8_can_be_decoded() -> None:
    raw = b'{"type":"tag","t\xffg":1,"tag":"a\xff"}'

    (record,) = parse_record(raw, source_line(raw).position)

    assert record.tag == "a\ufffd"  # type: ignore[union-attr]


@pytest.mark.req("E1")
def test_value_that_is_not_an_object_has_no_record() -> None:
    position = source_line(b"").position

    for raw in (b"", b"[]", b"{", b"\xff"):
        (problem,) = parse_record(raw, position)
        assert isinstance(problem, Problem)
        assert problem.kind == "not-json"


@pytest.mark.req("E1")
def test_too_deep_record_is_reported_by_the_light_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def give_up(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr("bygones.parse.light.decode_struct", give_up)

    (problem,) = parse_line_light(source_line(line(prompt("x") | {"uuid": 7})))

    assert isinstance(problem, Problem)
    assert problem.kind == "too-deep"


@pytest.mark.req("E1")
def test_invalid_elements_of_lists_are_left_out() -> None:
    record = reply("x", supersedesUuids=["a", 7, None])
    swapped = meta("content-replacement", replacements=[{"kind": "x"}, 7])

    assert last(record).supersedes_uuids == ("a",)
    assert light(record).supersedes_uuids == ("a",)
    assert len(last(swapped).replacements) == 1


@pytest.mark.req("E1", "R4")
def test_block_with_invalid_type_is_kept_raw() -> None:
    assert block({"type": 5}) == UnknownBlock("", b'{"type":5}')


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("piece", "count", "is_too_many"),
    [
        (b'"k":1,', MAX_VALUES + 9, True),
        (b'"a,{[b",', MAX_VALUES // 3, False),
    ],
)
def test_counting_the_values_of_a_line_takes_little_memory(
    piece: bytes, count: int, is_too_many: object
) -> None:
    raw = b"{" + piece * count + b"," * 9 + b"}"
    tracemalloc.start()
    try:
        assert has_too_many_values(raw) is is_too_many
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
