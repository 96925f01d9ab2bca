"""Files of junk cost at most a small multiple of their size."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from bygones.model.problem_runs import ProblemRuns
from tests.build import session_id
from tests.faults.sizes import is_usual, reached, seeded, sized
from tests.faults.test_size import measure_cost
from tests.store.sandbox import Sandbox, differing_tables

SIZE = sized(1, 100, 100) * 1_000_000
MAX_MEMORY = sized(100, 256, 256) * 1_000_000
MAX_ARCHIVE = 8_000_000
"""Random lines of one byte hardly compress; most files take less than 1 MB."""
PIECES = (
    *(b"\n", b"{\n", b"\0\n", b"\r\n", b"x\n", b"1\n", b"{}\n", b"{ \n", b'"\n'),
    *(b"\xff\n", b"[[[\n", b'{"type":"x"}\n', b'{"type":1}\n', b'{"a":1}{"b":2}\n'),
    *(b"\0" * 50, b"{" * 50, b'{"type":"x"}' * 9, b'{"type":'),
)
FILES = {
    "blank": b"\n",
    "braces": b"{\n",
    "zeros": b"\0",
    "alternating": b"\n{\n",
    "objects": b"{}\n",
    "unknown records": b'{"type":"x"}\n',
    "empty prompts": b'{"type":"user"}\n',
    "empty replies": b'{"type":"assistant"}\n',
    "empty notices": b'{"type":"system"}\n',
    "one line of records": b'{"type":"x"}',
    "one line of lists": b"[",
}
SHORT_RECORDS = {
    "short prompts": b'{"type":"user","message":{"content":"a"}}\n',
    "short titles": b'{"type":"ai-title","aiTitle":"a"}\n',
    "short records of a session": b'{"type":"user","sessionId":"a"}\n',
    "short thread": b'{"type":"user","uuid":"%x","parentUuid":"%x"}\n',
    "lost parents": b'{"type":"user","uuid":"%x","parentUuid":"lost-%x"}\n',
    "short agents": b'{"type":"user","isSidechain":true,"agentId":"%x","uuid":"%x"}\n',
    "progress of agents": b'{"type":"progress","uuid":"%x","data":{"type":"agent_progress"'
    b',"agentId":"%x","message":{"type":"user","message":{"content":"a"}}}}\n',
}
"""Valid records, of which a file may have only so many. %x is a number."""
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is counted as Linux counts it"
)


def junk(seed: int, size: int) -> bytes:
    """Return random pieces in random proportions."""
    random = Random(seed)  # noqa: S311 (not used for security)
    weights = [random.random() ** 4 for _ in PIECES]
    part = b"".join(random.choices(PIECES, weights, k=20_000))
    return (part * (size // len(part) + 1))[:size]


def short_records(name: str, size: int) -> bytes:
    pattern = SHORT_RECORDS[name]
    records: list[bytes] = []
    length = 0
    while length < size:
        number = len(records)
        values = (number + 1, number)[: pattern.count(b"%x")]
        records.append(pattern % values)
        length += len(records[-1])
    return b"".join(records)


def many_repeated_records(size: int) -> bytes:
    record = b'{"type":"user","message":{"content":"a"}}'
    return (
        b'{"type":"progress","data":{"type":"agent_progress","agentId":"a","message":%s,'
        b'"normalizedMessages":[%s%s]}}\n'
        % (record, (record + b",") * (size // len(record)), record)
    )


def many_blocks(size: int) -> bytes:
    return b'{"type":"user","message":{"content":[%s{}]}}\n' % (b"{}," * (size // 3))


def many_fields(size: int) -> bytes:
    return b'{%s"z":1}\n' % (b'"k":1,' * (size // 6))


def one_string(size: int) -> bytes:
    return b'"%s"\n' % (b"\\\\" * (size // 2))


def one_text(size: int) -> bytes:
    return b"neither JSON nor short " * (size // 23) + b"\n"


def torn_record(size: int) -> bytes:
    return b'{"type":"user","message":{"content":"%s\n' % (b"x" * size)


def invalid_text(size: int) -> bytes:
    return b'{"type":"user","message":{"content":"%s\xff"}}\n' % (b"x" * size)


def long_ids(size: int) -> bytes:
    name = b"x" * (size // 3)
    return (
        b'{"type":"user","uuid":"a%s","parentUuid":"b%s","sessionId":"c%s"'
        b',"message":{"content":"a"}}\n' % (name, name, name)
    )


def long_directory(size: int) -> bytes:
    return b'{"type":"user","uuid":"a","cwd":"%s"}\n' % (b"/tmp" * (size // 4))


GENERATED = {
    "blocks": many_blocks,
    "repeated records": many_repeated_records,
    "fields": many_fields,
    "string": one_string,
    "text": one_text,
    "ids": long_ids,
    "directory": long_directory,
    "torn record": torn_record,
    "invalid UTF-8": invalid_text,
}


def random_bytes(size: int) -> bytes:
    return Random(1).randbytes(size).replace(b"\n", b" ")  # noqa: S311 (no secret)


UNFINISHED = {
    "zeros": b"\0",
    "braces": b"{",
    "brackets": b"[",
    "letters": b"a",
    "blanks": b" ",
    "quotes": b'"',
    "records": b'{"type":"x"}',
    "text": b"neither JSON nor short ",
    "invalid UTF-8": b"\xff",
}
"""What a line without a newline repeats."""


def unfinished_line(name: str, size: int) -> bytes:
    if name == "torn record":
        line = torn_record(size)
    elif name == "random":
        line = random_bytes(size)
    else:
        line = UNFINISHED[name] * (size // len(UNFINISHED[name]) + 1)
    return line[:size]


def write_all(sandbox: Sandbox) -> None:
    """Write all kinds of junk as small files of one home."""
    files = [(raw * SIZE)[: SIZE // 8] for raw in FILES.values()]
    files += [short_records(name, SIZE // 8) for name in SHORT_RECORDS]
    files += [junk(seeded(seed), SIZE // 8) for seed in range(4)]
    for number, raw in enumerate(
        [
            *files,
            many_blocks(2_000_000),
            many_fields(4_000_000),
            one_string(8_000_000),
            long_ids(8_000_000),
            long_directory(8_000_000),
        ]
    ):
        path = sandbox.home.path / "projects" / "-x" / f"{session_id(number)}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)


def archive_size(sandbox: Sandbox) -> int:
    files = (path for path in sandbox.archive.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files)


@pytest.mark.skipif(not is_usual(), reason="the long form has larger files")
def test_junk_of_all_kinds_takes_little_memory_and_space(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    write_all(sandbox)

    cost = measure_cost(sandbox)

    assert cost.memory < MAX_MEMORY
    assert archive_size(sandbox) < MAX_ARCHIVE
    assert differing_tables(sandbox) == []


@pytest.mark.skipif(is_usual(), reason="part of the long form")
@pytest.mark.parametrize("name", [*FILES, *GENERATED, *map(str, range(4))])
def test_large_file_of_junk_takes_little_memory_and_space(
    name: str, tmp_path: Path
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.path / "projects" / "-x" / f"{session_id(1)}.jsonl"
    path.parent.mkdir(parents=True)
    if name in GENERATED:
        path.write_bytes(GENERATED[name](SIZE))
    elif name in FILES:
        path.write_bytes((FILES[name] * SIZE)[:SIZE])
    else:
        path.write_bytes(junk(seeded(int(name)), SIZE))

    cost = measure_cost(sandbox)
    size = archive_size(sandbox)
    rmtree(sandbox.archive / "index")  # it is built again
    rebuilt = measure_cost(sandbox)

    peak = max(cost.memory, rebuilt.memory)
    assert peak < MAX_MEMORY
    assert size < MAX_ARCHIVE
    reached("files of 100 MB of junk", 1)
    reached(f"peak MB: {name}", peak // 1_000_000)


@pytest.mark.skipif(is_usual(), reason="part of the long form")
@pytest.mark.parametrize("name", [*UNFINISHED, "torn record", "random"])
def test_large_unfinished_line_takes_little_memory_each_time(
    name: str, tmp_path: Path
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.path / "projects" / "-x" / f"{session_id(1)}.jsonl"
    path.parent.mkdir(parents=True)
    line = unfinished_line(name, SIZE)
    path.write_bytes(line[:-1_000])

    first = measure_cost(sandbox)
    path.write_bytes(line)
    again = measure_cost(sandbox)
    rmtree(sandbox.archive / "index")  # it is built again
    rebuilt = measure_cost(sandbox)

    peak = max(cost.memory for cost in (first, again, rebuilt))
    assert peak < MAX_MEMORY
    assert sandbox.generations(path) == [path.read_bytes()]
    reached("unfinished lines of 100 MB", 1)
    reached(f"peak MB, unfinished: {name}", peak // 1_000_000)


@pytest.mark.skipif(is_usual(), reason="part of the long form")
@pytest.mark.parametrize("name", SHORT_RECORDS)
def test_large_file_of_short_records_takes_little_memory(
    name: str, tmp_path: Path
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.path / "projects" / "-x" / f"{session_id(1)}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(short_records(name, SIZE))

    cost = measure_cost(sandbox)

    assert cost.memory < MAX_MEMORY
    reached("files of 100 MB of short records", 1)
    reached(f"peak MB: {name}", cost.memory // 1_000_000)


def test_an_object_per_line_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProblemRuns, "MAX_RUNS", 10**9)
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.path / "projects" / "-x" / f"{session_id(1)}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\n{\n" * 60_000)

    sandbox.ingest()

    assert archive_size(sandbox) > 10 * path.stat().st_size
