"""Properties of the model's structs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.base import (
    PROBLEM_KINDS,
    Position,
    Problem,
    SourceId,
    SourceKind,
    WireStruct,
    wire_name,
)
from bygones.model.metadata import (
    ATTACHMENTS_BY_TYPE,
    METADATA_BY_TYPE,
    RECORDS_BY_TYPE,
    Attachment,
    MetadataRecord,
)
from bygones.model.records import BLOCKS_BY_TYPE
from bygones.model.usage import Usage

PLACE = Position(SourceId("a.jsonl"), 0, 0, 1)

usages = st.builds(
    Usage,
    input=st.integers(0, 99),
    output=st.integers(0, 99),
    cache_write_5m=st.integers(0, 99),
    cache_write_1h=st.integers(0, 99),
    cache_read=st.integers(0, 99),
    web_searches=st.integers(0, 99),
)


@pytest.mark.parametrize("kind", PROBLEM_KINDS)
def test_every_kind_of_problem_has_a_meaning(kind: str) -> None:
    assert Problem(kind, PLACE).kind == kind
    assert PROBLEM_KINDS[kind].meaning


def test_unknown_kind_of_problem_is_rejected() -> None:
    with pytest.raises(ValueError, match="odd-socks"):
        Problem("odd-socks", PLACE)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("uuid", "uuid"),
        ("parent_uuid", "parentUuid"),
        ("is_api_error_message", "isApiErrorMessage"),
        ("session_id_again", "session_id"),
        ("source_tool_use", "sourceToolUseID"),
        ("cost_usd", "costUSD"),
        ("progress", "data"),
    ],
)
def test_wire_name_is_the_name_in_transcripts(field: str, name: str) -> None:
    assert wire_name(field) == name


@pytest.mark.parametrize(
    ("table", "parent"),
    [(METADATA_BY_TYPE, MetadataRecord), (ATTACHMENTS_BY_TYPE, Attachment)],
)
def test_type_belongs_to_one_struct(
    table: dict[str, type[MetadataRecord | Attachment]],
    parent: type[MetadataRecord | Attachment],
) -> None:
    names = [name for kind in parent.__subclasses__() for name in kind.types]

    assert len(names) == len(set(names)) == len(table)


def test_every_field_except_the_type_is_optional() -> None:
    kinds = [
        *RECORDS_BY_TYPE.values(),
        *ATTACHMENTS_BY_TYPE.values(),
        *BLOCKS_BY_TYPE.values(),
    ]

    for kind in kinds:
        needed = {
            field.name for field in msgspec.structs.fields(kind) if field.required
        }
        assert needed <= {"type"}


def test_values_are_frozen_and_only_marked_ones_are_private() -> None:
    assert not WireStruct.is_private
    assert all(kind.__struct_config__.frozen for kind in RECORDS_BY_TYPE.values())


@given(usages, usages)
def test_usage_sums_and_maxima_are_by_field(item: Usage, other: Usage) -> None:
    for field in Usage.__struct_fields__:
        first, second = getattr(item, field), getattr(other, field)
        assert getattr(item + other, field) == first + second
        assert getattr(item | other, field) == max(first, second)


@given(usages)
def test_empty_usage_is_neutral_and_maximum_is_idempotent(usage: Usage) -> None:
    assert usage + Usage() == usage == usage | usage


def test_usage_totals_are_computed() -> None:
    usage = Usage(input=1, output=2, cache_write_5m=4, cache_write_1h=8, cache_read=16)

    assert (usage.cache_write, usage.context, usage.total) == (12, 29, 31)


def test_sessions_and_agents_are_transcripts() -> None:
    assert {kind.value for kind in SourceKind if kind.is_transcript} == {
        "session",
        "agent",
    }


def test_positions_are_sorted_by_offset() -> None:
    later = Position(SourceId("a.jsonl"), 0, 5, 1)

    assert sorted([later, PLACE]) == [PLACE, later]
