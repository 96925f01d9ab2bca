"""Changes of a source are detected by its fingerprint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.base import Line, SourceId
from bygones.sources.fingerprint import (
    SourceChange,
    SourceFingerprint,
    detect_change,
    fingerprint_bytes,
)
from bygones.sources.lines import read_lines
from tests.sources.test_lines import BLOCKS, BYTES, lines

pytestmark = pytest.mark.req("F7")


def source_of(file: Path) -> SourceId:
    return SourceId(file.as_posix())


def fingerprint(file: Path) -> SourceFingerprint:
    """Return the fingerprint after the file was read to its end."""
    raw = file.read_bytes()
    offset = raw.rfind(b"\n") + 1
    return fingerprint_bytes(
        head=raw, tail=raw[:offset], unfinished=raw[offset:], offset=offset
    )


def write(folder: Path, raw: bytes) -> Path:
    (folder / "a.jsonl").write_bytes(raw)
    return folder / "a.jsonl"


@given(raw=BYTES, cut=st.integers(0, 50), block=BLOCKS)
def test_appended_lines_continue_at_the_offset(
    file: Path, raw: bytes, cut: int, block: int
) -> None:
    file.write_bytes(raw[:cut])
    before = [line for line in lines(file) if line.has_newline]
    known = fingerprint(file)
    file.write_bytes(raw)

    change = detect_change(source_of(file), known)
    after = lines(file, start=known.offset, block=block)

    assert change == (SourceChange.APPENDED if raw[cut:] else SourceChange.UNCHANGED)
    assert before + after == lines(file)


@given(
    raw=st.binary(min_size=1, max_size=20).map(lambda raw: raw * 1000),
    offset=st.integers(0, 20_000),
    size=st.integers(0, 20_000),
)
def test_only_the_ends_of_long_parts_are_hashed(
    file: Path, raw: bytes, offset: int, size: int
) -> None:
    offset = min(offset, len(raw))
    size = min(max(offset, size), len(raw))
    file.write_bytes(raw[:size])

    from_bytes = fingerprint_bytes(
        head=raw, tail=raw[:offset], unfinished=raw[offset:size], offset=offset
    )

    assert detect_change(source_of(file), from_bytes) is SourceChange.UNCHANGED


def test_unfinished_line_is_after_the_offset(tmp_path: Path) -> None:
    file = write(tmp_path, b"one\ntwo\nthr")

    known = fingerprint(file)

    assert (known.offset, known.size) == (8, 11)
    assert detect_change(source_of(file), known) is SourceChange.UNCHANGED


@pytest.mark.parametrize(
    ("now", "change"),
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
def test_unchanged_appended_and_rewritten_files_are_distinguished(
    tmp_path: Path, now: bytes, change: SourceChange
) -> None:
    known = fingerprint(write(tmp_path, b"one\ntwo\nthr"))

    file = write(tmp_path, now)

    assert detect_change(source_of(file), known) is change


def test_lines_written_while_reading_are_detected(
    tmp_path: Path,
) -> None:
    file = write(tmp_path, b"one\n")
    known = fingerprint(file)

    write(tmp_path, b"one\ntwo\n")

    assert detect_change(source_of(file), known) is SourceChange.APPENDED


@pytest.mark.req("E1")
@pytest.mark.parametrize("index", [0, 4095, -4096, -1])
def test_rewrite_of_same_size_and_time_is_detected_at_both_ends(
    tmp_path: Path, index: int
) -> None:
    raw = bytearray(b"x" * 19_999 + b"\n")
    file = write(tmp_path, bytes(raw))
    status = file.stat()
    known = fingerprint(file)

    raw[index] = ord("y")
    write(tmp_path, bytes(raw))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert detect_change(source_of(file), known) is SourceChange.REWRITTEN


def test_file_replaced_by_the_same_bytes_is_unchanged(tmp_path: Path) -> None:
    file = write(tmp_path, b"one\ntwo\n")
    known = fingerprint(file)

    (tmp_path / "b").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").replace(file)

    assert detect_change(source_of(file), known) is SourceChange.UNCHANGED


def test_rewritten_file_is_read_as_a_new_generation(tmp_path: Path) -> None:
    file = write(tmp_path, b"one\ntwo\n")
    known = fingerprint(file)
    write(tmp_path, b"six\n")

    assert detect_change(source_of(file), known) is SourceChange.REWRITTEN
    assert [
        (line.position.generation, line.raw)
        for line in read_lines(source_of(file), generation=1)
        if isinstance(line, Line)
    ] == [(1, b"six")]
