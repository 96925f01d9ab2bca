"""Lines with exact positions."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bygones.model.base import Line, Position, Problem, SourceId
from bygones.sources.lines import (
    LONG_LINE_BYTES,
    read_at,
    read_line_blocks,
    read_lines,
    split_block,
    split_lines,
)
from bygones.sources.walk import discover_sources

BYTES = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"a", b"{}", b"\0", b"\xe2\x80\xa8", b"\xff"])
    | st.binary(max_size=5)
).map(b"".join)
BLOCKS = st.integers(1, 9)


def lines(file: Path, *, start: int = 0, block: int = 1 << 18) -> list[Line]:
    read = list(read_lines(SourceId(file.as_posix()), start=start, buffer_size=block))
    assert not [item for item in read if isinstance(item, Problem)]
    return [item for item in read if isinstance(item, Line)]


def joined(read: list[Line]) -> bytes:
    return b"".join(line.raw + b"\n" * line.has_newline for line in read)


@pytest.mark.req("F7", "E1")
@given(raw=BYTES, block=BLOCKS)
def test_joined_lines_are_the_bytes_of_the_file(
    file: Path, raw: bytes, block: int
) -> None:
    file.write_bytes(raw)

    read = lines(file, block=block)

    assert joined(read) == raw
    assert all(line.has_newline for line in read[:-1])
    assert not [line for line in read if b"\n" in line.raw]


@given(raw=BYTES, block=BLOCKS)
def test_position_reads_its_line_again(file: Path, raw: bytes, block: int) -> None:
    file.write_bytes(raw)

    for line in lines(file, block=block):
        assert read_at(line.position) == line.raw


@given(raw=BYTES, block=BLOCKS)
def test_buffer_size_does_not_matter(file: Path, raw: bytes, block: int) -> None:
    file.write_bytes(raw)

    assert lines(file, block=block) == lines(file)


@pytest.mark.req("F7")
@given(raw=BYTES, block=BLOCKS)
def test_reading_from_a_line_gives_the_rest(file: Path, raw: bytes, block: int) -> None:
    file.write_bytes(raw)
    whole = lines(file)

    for number, line in enumerate(whole):
        start = line.position.offset
        assert lines(file, start=start, block=block) == whole[number:]


@pytest.mark.req("E1")
def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    raw = '"\u2028\u2029\x85\x0b\x0c\r"'.encode()
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf{}\r\n\n" + raw)

    assert [line.raw for line in lines(tmp_path / "a.jsonl")] == [
        b"\xef\xbb\xbf{}\r",
        b"",
        raw,
    ]


@pytest.mark.req("F7", "E1")
def test_line_without_newline_is_marked(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{}\n{"a":"\xc3')
    source = SourceId((tmp_path / "a.jsonl").as_posix())

    assert list(read_lines(source, generation=3)) == [
        Line(Position(source, 3, 0, 2), b"{}"),
        Line(Position(source, 3, 3, 7), b'{"a":"\xc3', has_newline=False),
    ]


@pytest.mark.req("E1")
def test_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()

    assert lines(tmp_path / "a.jsonl") == []


@pytest.mark.req("F7")
def test_lines_written_while_reading_are_left_for_next_time(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"a\nb\nc")

    reading = read_lines(SourceId(file.as_posix()), buffer_size=3)
    next(reading)
    with file.open("ab") as growing:
        growing.write(b"c\nd\n")
    rest = [line.raw for line in reading if isinstance(line, Line)]

    assert rest == [b"b", b"c"]


@pytest.mark.req("E1", "F7")
def test_file_truncated_while_reading_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"a\nbb\nc\n")

    reading = read_lines(SourceId(file.as_posix()), buffer_size=3)
    next(reading)
    with file.open("r+b") as shrinking:
        shrinking.truncate(3)
    line, problem = reading

    assert isinstance(line, Line)
    assert (line.raw, line.has_newline) == (b"b", False)
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.position.offset) == ("shrunk", 3)


def test_start_after_the_end_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"a\n")

    (problem,) = read_lines(SourceId(f"{tmp_path.as_posix()}/a.jsonl"), start=3)

    assert isinstance(problem, Problem)
    assert problem.kind == "shrunk"


def test_read_ahead_stops_at_the_end(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"abcdef")
    position = Position(SourceId(f"{tmp_path.as_posix()}/a.jsonl"), 0, 1, 2)

    found = [read_at(position, read_ahead=ahead) for ahead in (0, 1, 3, 99)]

    assert found == [b"bc", b"bc", b"bcd", b"bcdef"]


def test_bytes_that_are_gone_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"abc")
    position = Position(SourceId(f"{tmp_path.as_posix()}/a.jsonl"), 0, 1, 5)

    answer = read_at(position)

    assert isinstance(answer, Problem)
    assert (answer.kind, answer.position) == ("shrunk", position)


def test_source_is_read_like_its_id(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"a\nb")
    (source,) = discover_sources(tmp_path)
    assert not isinstance(source, Problem)

    assert list(read_lines(source)) == list(read_lines(source.id))


@pytest.mark.req("E3")
def test_large_file_is_read_with_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with file.open("wb") as large:
        for _ in range(64):
            large.write((b"x" * 1000 + b"\n") * 1000)
    tracemalloc.start()

    count = sum(1 for _ in read_lines(SourceId(file.as_posix())))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 64_000
    assert peak < 2_000_000


@pytest.mark.req("E3")
def test_offsets_beyond_4_gib_are_exact(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    far = (1 << 32) + 7
    with file.open("wb") as sparse:  # takes no space: the hole is not written
        sparse.seek(far)
        sparse.write(b"a\nb")

    read = lines(file, start=far)

    assert [(line.position.offset, line.raw) for line in read] == [
        (far, b"a"),
        (far + 2, b"b"),
    ]
    assert read_at(read[1].position) == b"b"


@pytest.mark.req("E3", "E1")
@pytest.mark.skipif(sys.platform == "win32", reason="no figure of the peak there")
def test_huge_line_needs_about_twice_its_length_of_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    size = 64 << 20
    with file.open("wb") as huge:
        huge.write(b"{}\n")
        for _ in range(size >> 20):
            huge.write(b"x" * (1 << 20))
        huge.write(b"\n{}\n")
    script = textwrap.dedent(
        """
        import resource, sys
        from bygones.sources.lines import read_lines

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        before = peak()
        print([line.position.length for line in read_lines(sys.argv[1])])
        print((peak() - before) * (1 if sys.platform == "darwin" else 1024))
        """
    )

    answer = subprocess.run(
        [sys.executable, "-c", script, file.as_posix()],
        capture_output=True,
        check=True,
        text=True,
    ).stdout.splitlines()

    assert answer[0] == f"[2, {size}, 2]"
    assert int(answer[1]) < 2.2 * size


@pytest.mark.req("F7")
@given(raw=BYTES, block=BLOCKS, size=st.integers(1, 40))
@example(raw=b"\n\n\n\0\0\0\0\0\n\n", block=2, size=1)
def test_line_blocks_are_the_bytes_split_at_newlines(
    file: Path, raw: bytes, block: int, size: int
) -> None:
    file.write_bytes(raw)
    source = SourceId(file.as_posix())

    found = [
        item
        for item in read_line_blocks(source, target_size=size, buffer_size=block)
        if not isinstance(item, Problem)
    ]

    assert b"".join(part for _, part in found) == raw
    starts = [sum(len(part) for _, part in found[:at]) for at in range(len(found))]
    assert [start for start, _ in found] == starts
    assert all(part.endswith(b"\n") for _, part in found[:-1])
    if found and not found[-1][1].endswith(b"\n"):
        assert b"\n" not in found[-1][1]
    # A block ends at the first newline after the target size.
    assert all(b"\n" not in part[size : max(len(part) - block, 0)] for _, part in found)


@pytest.mark.parametrize("end", [b"\n", b"\nshort\n", b"\nunfinished", b""])
def test_long_line_is_in_memory_once(file: Path, end: bytes) -> None:
    size = 4_000_000
    file.write_bytes(b"x" * size + end)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for item in read_line_blocks(
            SourceId(file.as_posix()), target_size=1, buffer_size=1 << 16
        ):
            if not isinstance(item, Problem) and len(item[1]) >= size:
                now, _ = tracemalloc.get_traced_memory()
                assert now - before < 1.2 * size
                break
        else:
            pytest.fail("it was never handed on")
    finally:
        tracemalloc.stop()


@given(raw=BYTES, block=BLOCKS, size=st.integers(1, 40), limit=st.integers(1, 9))
def test_very_long_line_is_a_block_of_its_own(
    file: Path, raw: bytes, block: int, *, size: int, limit: int
) -> None:
    file.write_bytes(raw)
    source = SourceId(file.as_posix())

    with patch("bygones.sources.lines.LONG_LINE_BYTES", limit):
        read = list(read_line_blocks(source, target_size=size, buffer_size=block))

    blocks = [item for item in read if not isinstance(item, Problem)]
    assert b"".join(part for _, part in blocks) == raw
    starts = [sum(len(part) for _, part in blocks[:at]) for at in range(len(blocks))]
    assert [start for start, _ in blocks] == starts
    for _, part in blocks:
        if max(map(len, part.split(b"\n"))) > limit + 2 * block + size:
            assert part.count(b"\n") <= 1


@pytest.mark.parametrize(("size", "is_cut"), [(LONG_LINE_BYTES, False), (9, True)])
def test_very_long_line_keeps_its_newline_to_be_indexed(
    size: int, *, is_cut: bool
) -> None:
    raw = b"x" * size + b"\n"

    (line,) = split_block(SourceId("a"), 0, 5, raw)

    assert line.position == Position(SourceId("a"), 0, 5, size)
    assert (line.raw is raw) is not is_cut


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    "raw", [b"\n", b"\n\n", b"a\n\nb", b"\na\na\na\n\n\n", b"{}\n" * 9]
)
def test_short_lines_are_the_same_if_split_in_parts(
    monkeypatch: pytest.MonkeyPatch, raw: bytes, size: int
) -> None:
    whole = list(split_lines(SourceId("a"), 0, 0, raw, merge_repeats=True))
    monkeypatch.setattr("bygones.sources.lines._SPLIT_BYTES", size)

    assert list(split_lines(SourceId("a"), 0, 0, raw, merge_repeats=True)) == whole
    lines = list(split_lines(SourceId("a"), 0, 0, raw))
    joined = b"".join(one.raw + b"\n" * one.has_newline for one in lines)
    assert joined == raw
