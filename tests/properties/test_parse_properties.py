"""Invariants of parsing: nothing is lost, and no input raises."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.base import Line, Problem
from bygones.model.nodes import LocatedRecord, parse_user_text
from bygones.model.records import UnknownRecord
from bygones.parse.decode import SalvagedObject, salvage_line
from bygones.parse.full import parse_line, parse_record, unknown_fields
from bygones.parse.light import build_node, parse_line_light
from bygones.parse.loader import parse_outcome
from bygones.parse.texts import extract_text_spans
from tests import strategies
from tests.build import Written, line, source_line


def light_records(one: Line) -> list[LocatedRecord]:
    return [part for part in parse_line_light(one) if isinstance(part, LocatedRecord)]


@pytest.mark.req("E1")
@given(strategies.any_lines)
def test_every_line_is_a_record_or_a_problem_in_both_depths(one: Line) -> None:
    assert parse_line_light(one)
    assert parse_line(one)


@pytest.mark.req("E1", "R1")
@given(strategies.records())
def test_valid_line_is_one_record_without_problems(record: Written) -> None:
    one = source_line(line(record))

    (light,) = parse_line_light(one)
    (full,) = parse_line(one)

    assert isinstance(light, LocatedRecord)
    assert not isinstance(full, Problem)
    assert light.record.type == full.type == record["type"]


@given(strategies.any_lines)
def test_light_and_full_find_the_same_records(one: Line) -> None:
    light = light_records(one)
    full = [part for part in parse_line(one) if not isinstance(part, Problem)]

    assert [part.record.type for part in light] == [record.type for record in full]
    for part, record in zip(light, full, strict=True):
        if not isinstance(record, UnknownRecord):
            assert part.record.uuid == record.uuid
            assert part.record.session_id == record.session_id
            assert part.record.timestamp == record.timestamp
            parent = getattr(record, "parent_uuid", part.record.parent_uuid)
            assert part.record.parent_uuid == parent


@given(strategies.any_lines)
def test_position_is_the_location_of_the_bytes(one: Line) -> None:
    start = one.position.offset

    for part in [*salvage_line(one), *parse_line_light(one)]:
        place = part.position
        assert (place.source_id, place.generation) == ("a.jsonl", 0)
        assert start <= place.offset
        assert place.offset + place.length <= start + len(one.raw)
    repaired = {p.position for p in salvage_line(one) if isinstance(p, Problem)}
    for part in [*salvage_line(one), *light_records(one)]:
        at = part.position.offset - start
        if (
            isinstance(part, SalvagedObject | LocatedRecord)
            and part.position not in repaired
        ):
            assert part.raw == one.raw[at : at + part.position.length]


@given(strategies.any_lines)
def test_record_loaded_by_its_position_is_the_same(one: Line) -> None:
    for part in light_records(one):
        at = part.position.offset - one.position.offset
        raw = one.raw[at : at + part.position.length]

        (again,) = light_records(source_line(raw, offset=part.position.offset))

        assert again.position == part.position
        assert again.record == part.record


@pytest.mark.req("E1")
@given(strategies.spliced_lines())
def test_complete_records_on_a_damaged_line_are_found(
    spliced: tuple[bytes, list[Written]],
) -> None:
    raw, whole = spliced

    one = source_line(raw, offset=5)

    assert [part.raw for part in light_records(one)] == [
        line(record) for record in whole
    ]


@given(st.lists(strategies.any_lines, max_size=4), st.randoms())
def test_parsing_a_line_does_not_depend_on_earlier_lines(
    several: list[Line], random: Random
) -> None:
    before = {one: (parse_line_light(one), parse_line(one)) for one in several}
    shuffled = [*several]
    random.shuffle(shuffled)

    after = {one: (parse_line_light(one), parse_line(one)) for one in shuffled}

    assert {one: after[one] for one in several} == before


@pytest.mark.req("E1")
@given(strategies.any_lines)
def test_parsed_records_never_raise_later(one: Line) -> None:
    for part in light_records(one):
        extract_text_spans(part, build_node(part))
        unknown_fields(part.raw)
        parse_record(part.raw, part.position)
        parse_outcome(bytes(part.record.tool_use_result))


@given(st.binary(max_size=80) | strategies.raw_lines)
def test_any_bytes_can_be_parsed(raw: bytes) -> None:
    assert parse_record(raw, source_line(raw).position)
    parse_outcome(raw)


@given(strategies.outcomes)
def test_tool_result_of_any_form_is_kept(outcome: object) -> None:
    assert parse_outcome(line(outcome)) is not None


@given(strategies.user_texts() | st.text())
def test_any_text_can_be_classified(text: str) -> None:
    parsed = parse_user_text(text)

    assert parsed.typed_text in text
