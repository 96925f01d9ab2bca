"""The decoder for lines without unknown fields."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from bygones.inspection import (
    find_unknown_fields,
    inspect_transcripts,
    parse_known_line,
)
from bygones.model.base import Line
from bygones.model.nodes import LightMessage, LightRecord, LocatedRecord
from bygones.model.reports import DriftKind
from bygones.parse.full import unknown_fields
from bygones.parse.light import parse_line_light
from tests import build
from tests.build import line, prompt, reply, source_line
from tests.corpus import CORPUS, corpus_lines, needs_corpus

SKETCH = tuple(field.name for field in fields(LightRecord))
MESSAGE = tuple(field.name for field in fields(LightMessage))

strange_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("user"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "role", "id", "x"]), inner
        )
    ),
    max_leaves=5,
)
strange_records = st.builds(
    lambda record, changes: record | changes,
    st.sampled_from(
        [
            prompt("a"),
            reply("b"),
            build.system("turn_duration"),
            build.attachment("file"),
            build.progress("bash_progress"),
            build.summary("s", "u"),
            build.snapshot("u"),
        ]
    ),
    st.dictionaries(
        st.sampled_from(
            [
                "type",
                "message",
                "uuid",
                "timestamp",
                "subtype",
                "requestId",
                "data",
                "y",
            ]
        ),
        strange_values,
        max_size=2,
    ),
)


def values(sketch: LightRecord) -> list[object]:
    fields = [getattr(sketch, name) for name in SKETCH if name != "message"]
    if sketch.message:
        fields += [getattr(sketch.message, name) for name in MESSAGE]
    return fields


def assert_fits_only_what_is_known(read: Line) -> None:
    fitting = parse_known_line(read)
    if fitting:
        (plain,) = parse_line_light(read)
        assert isinstance(plain, LocatedRecord)
        assert values(fitting.record) == values(plain.record)
        assert unknown_fields(read.raw) == ()


@given(strange_records)
def test_known_line_is_parsed_as_by_the_light_decoder(
    record: build.Written,
) -> None:
    assert_fits_only_what_is_known(source_line(line(record)))


@pytest.mark.parametrize(
    "record",
    [
        *build.session("a", "b<a", "c<b:system", "d<c:attachment", "e<d:progress"),
        build.tool_result("toolu_1", "x", outcome={"stdout": "x"}),
        build.snapshot("u"),
        build.summary("s", "u"),
        build.title("t"),
        build.queue("enqueue", "x"),
    ],
)
def test_ordinary_line_is_known(record: build.Written) -> None:
    assert parse_known_line(source_line(line(record)))


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"type":7}'])
def test_undecodable_line_has_no_unknown_fields(raw: bytes) -> None:
    assert find_unknown_fields(raw) == ()


@needs_corpus
def test_known_lines_of_the_corpus_are_parsed_alike() -> None:
    for read in corpus_lines():
        assert_fits_only_what_is_known(read)


@needs_corpus
def test_drift_in_the_corpus_is_found_by_checking_every_field() -> None:
    expected: Counter[str] = Counter()
    for read in corpus_lines():
        for part in parse_line_light(read):
            if isinstance(part, LocatedRecord):
                names = unknown_fields(part.raw)
                expected.update(f"{part.record.type}.{name}" for name in names)

    found: Counter[str] = Counter()
    for row in inspect_transcripts([CORPUS]).drift:
        if row.kind is DriftKind.FIELD:
            found[row.name] += row.records

    assert found == expected
