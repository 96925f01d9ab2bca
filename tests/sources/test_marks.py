"""Going on where reading stopped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.base import Line, Problem, SourceId
from bygones.sources.fingerprint import (
    SourceChange,
    SourceFingerprint,
    detect_change,
    fingerprint_bytes,
    fingerprint_source,
    hash_prefix,
)
from bygones.sources.lines import read_lines
from tests.sources.test_lines import BLOCKS, BYTES, lines

pytestmark = pytest.mark.req("F7")


def source_of(file: Path) -> SourceId:
    return SourceId(file.as_posix())


def marked(file: Path) -> SourceFingerprint:
    """Return the mark that a reader makes who has read the file to its end."""
    offset = size = 0
    for line in lines(file):
        size = line.position.offset + line.position.length + line.has_newline
        offset = size if line.has_newline else offset
    mark = fingerprint_source(source_of(file), offset, size=size)
    assert isinstance(mark, SourceFingerprint)
    return mark


def written(folder: Path, raw: bytes) -> Path:
    (folder / "a.jsonl").write_bytes(raw)
    return folder / "a.jsonl"


@given(raw=BYTES, cut=st.integers(0, 50), block=BLOCKS)
def test_growth_is_continuation(file: Path, raw: bytes, cut: int, block: int) -> None:
    file.write_bytes(raw[:cut])
    before = [line for line in lines(file) if line.has_newline]
    mark = marked(file)
    file.write_bytes(raw)

    growth = detect_change(source_of(file), mark)
    after = lines(file, start=mark.offset, block=block)

    assert growth == (SourceChange.APPENDED if raw[cut:] else SourceChange.UNCHANGED)
    assert before + after == lines(file)


@given(raw=BYTES, cut=st.integers(0, 50))
def test_a_mark_of_the_bytes_is_the_mark_of_the_file(
    file: Path, raw: bytes, cut: int
) -> None:
    file.write_bytes(raw)
    offset = raw.rfind(b"\n", 0, cut) + 1
    rest = raw[offset:cut]

    of_bytes = fingerprint_bytes(
        head=raw, tail=raw[:offset], unfinished=rest, offset=offset
    )

    assert of_bytes == fingerprint_source(
        source_of(file), offset, size=offset + len(rest)
    )


@given(
    raw=st.binary(min_size=1, max_size=20).map(lambda raw: raw * 1000),
    offset=st.integers(0, 20_000),
    size=st.integers(0, 20_000),
)
def test_long_windows_are_cut_in_the_same_way(
    file: Path, raw: bytes, offset: int, size: int
) -> None:
    offset = min(offset, len(raw))
    size = min(max(offset, size), len(raw))
    file.write_bytes(raw)

    of_bytes = fingerprint_bytes(
        head=raw, tail=raw[:offset], unfinished=raw[offset:size], offset=offset
    )

    assert of_bytes == fingerprint_source(source_of(file), offset, size=size)


def test_an_unfinished_line_stays_behind_the_mark(tmp_path: Path) -> None:
    file = written(tmp_path, b"one\ntwo\nthr")

    mark = marked(file)

    assert (mark.offset, mark.size) == (8, 11)
    assert detect_change(source_of(file), mark) is SourceChange.UNCHANGED


@pytest.mark.parametrize(
    ("now", "growth"),
    [
        (b"one\ntwo\nthr", SourceChange.UNCHANGED),
        (b"one\ntwo\nthree\n", SourceChange.APPENDED),
        (b"one\ntwo\nth\n", SourceChange.APPENDED),
        (b"one\ntwo\nth", SourceChange.APPENDED),
        (b"one\ntwo\n", SourceChange.APPENDED),
        (b"one\ntwo", SourceChange.REWRITTEN),
        (b"", SourceChange.REWRITTEN),
        (b"one\nTWO\nthr", SourceChange.REWRITTEN),
        (b"One\ntwo\nthr", SourceChange.REWRITTEN),
        (b"0\none\ntwo\nthr", SourceChange.REWRITTEN),
        (b"one\n\ntwo\nthree\n", SourceChange.REWRITTEN),
    ],
)
def test_a_file_is_the_same_or_grown_or_begun_anew(
    tmp_path: Path, now: bytes, growth: SourceChange
) -> None:
    mark = marked(written(tmp_path, b"one\ntwo\nthr"))

    file = written(tmp_path, now)

    assert detect_change(source_of(file), mark) is growth


def test_lines_written_between_reading_and_marking_are_not_lost(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, b"one\n")
    read = lines(file)
    written(tmp_path, b"one\ntwo\n")

    mark = fingerprint_source(source_of(file), read[-1].position.length + 1)

    assert isinstance(mark, SourceFingerprint)
    assert detect_change(source_of(file), mark) is SourceChange.APPENDED


@pytest.mark.req("E1")
@pytest.mark.parametrize("place", [0, 4095, -4096, -1])
def test_a_rewrite_of_equal_size_and_time_is_seen_at_both_ends(
    tmp_path: Path, place: int
) -> None:
    raw = bytearray(b"x" * 19_999 + b"\n")
    file = written(tmp_path, bytes(raw))
    status = file.stat()
    mark = marked(file)

    raw[place] = ord("y")
    written(tmp_path, bytes(raw))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert detect_change(source_of(file), mark) is SourceChange.REWRITTEN


def test_a_rewrite_of_the_middle_is_seen_by_the_whole_hash_only(
    tmp_path: Path,
) -> None:
    raw = bytearray(b"x" * 19_999 + b"\n")
    file = written(tmp_path, bytes(raw))
    mark, whole = marked(file), hash_prefix(source_of(file), 20_000)

    raw[10_000] = ord("y")
    written(tmp_path, bytes(raw) + b"more")

    assert detect_change(source_of(file), mark) is SourceChange.APPENDED
    assert hash_prefix(source_of(file), 20_000) != whole


@given(raw=BYTES, more=BYTES)
def test_the_hash_of_the_prefix_is_of_the_prefix_alone(
    file: Path, raw: bytes, more: bytes
) -> None:
    file.write_bytes(raw)
    before = hash_prefix(source_of(file), len(raw))

    file.write_bytes(raw + more)

    assert hash_prefix(source_of(file), len(raw)) == before


def test_a_file_replaced_by_the_same_bytes_is_the_same(tmp_path: Path) -> None:
    file = written(tmp_path, b"one\ntwo\n")
    mark = marked(file)

    (tmp_path / "b").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").replace(file)

    assert detect_change(source_of(file), mark) is SourceChange.UNCHANGED


def test_marks_and_hashes_behind_the_end_are_problems(tmp_path: Path) -> None:
    source = source_of(written(tmp_path, b"one\n"))

    answers = (
        fingerprint_source(source, 5),
        fingerprint_source(source, 4, size=5),
        hash_prefix(source, 5),
    )

    assert [one.kind for one in answers if isinstance(one, Problem)] == ["shrunk"] * 3


def test_a_file_that_begins_anew_is_read_as_a_new_generation(tmp_path: Path) -> None:
    file = written(tmp_path, b"one\ntwo\n")
    mark = marked(file)
    written(tmp_path, b"six\n")

    assert detect_change(source_of(file), mark) is SourceChange.REWRITTEN
    assert [
        (line.position.generation, line.raw)
        for line in read_lines(source_of(file), generation=1)
        if isinstance(line, Line)
    ] == [(1, b"six")]
