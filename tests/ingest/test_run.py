"""Interrupted ingestions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bygones.archive import Archive
from bygones.ingest import derive, growing, indexer
from bygones.maintenance.verify import verify
from bygones.model.base import Position, Problem, SourceFile
from bygones.sources.lines import read_line_blocks
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.faults.racing import race
from tests.store.sandbox import Sandbox, differing_tables


def test_interrupted_ingestion_keeps_committed_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.ingest.importer.COMMIT_INTERVAL", 0.0)
    sandbox = Sandbox(tmp_path)
    first = sandbox.home.session(session_id(1), [prompt("a")]).read_bytes()
    sandbox.home.session(session_id(2), [prompt("b")])
    started: list[object] = []

    def interrupted(*args: Any, **kwargs: Any) -> object:  # noqa: ANN401 (handed through)
        if started:
            raise KeyboardInterrupt
        started.append(args)
        return read_line_blocks(*args, **kwargs)

    monkeypatch.setattr("bygones.ingest.importer.read_line_blocks", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sandbox.ingest()
    monkeypatch.undo()

    assert list(sandbox.bytes().values()) == [[first]]
    assert sandbox.ingest().new == 1
    assert differing_tables(sandbox) == []


def test_unreadable_file_is_not_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    closed = sandbox.home.session(session_id(1), thread(prompt("closed")))
    sandbox.home.session(session_id(2), thread(prompt("open")))
    sandbox.home.session(session_id(3), [])  # really empty, which can be read

    def refused(
        source: SourceFile, *, target_size: int, start: int = 0
    ) -> Iterator[tuple[int, bytes] | Problem]:
        if source.id == str(closed):
            yield Problem("unreadable", Position(source.id, 0, 0, 0))
        else:
            yield from read_line_blocks(source, target_size=target_size, start=start)

    with monkeypatch.context() as patched:
        patched.setattr("bygones.ingest.importer.read_line_blocks", refused)
        report = sandbox.ingest()

    assert (report.new, len(report.problems)) == (2, 1)
    assert set(sandbox.sources()) == {f"{session_id(n)}.jsonl" for n in (2, 3)}

    report = sandbox.ingest()

    assert (report.new, report.unchanged, report.problems) == (1, 2, [])
    assert sandbox.generations(closed) == [closed.read_bytes()]


@pytest.mark.parametrize("truncate", [False, True])
def test_unfinished_line_that_is_rewritten_before_it_is_read_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, truncate: bool
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), [prompt("whole")])
    with path.open("ab") as file:
        file.write(b'{"half')
    sandbox.ingest()
    acknowledged = path.read_bytes()
    with path.open("ab") as file:
        file.write(b" a line")
    with monkeypatch.context() as patched:
        race(patched.setattr, truncate=truncate)

        report = sandbox.ingest()

    assert sandbox.generations(path) == [acknowledged, path.read_bytes()]
    assert (report.grown, report.rewritten) == (0, 1)
    assert differing_tables(sandbox) == []


def fail_for(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, session: str
) -> None:
    """Let a function fail if its arguments contain the id of a session."""
    original = getattr(module, name)

    def function(*arguments: object, **options: object) -> object:
        if session in repr(arguments):
            raise ValueError("unexpected")
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, function)


@pytest.mark.parametrize("has_workers", [False, True])
def test_session_that_fails_is_left_out_until_it_can_be_derived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_workers: bool
) -> None:
    if has_workers:
        monkeypatch.setattr("bygones.ingest.workers.MIN_PARALLEL_BYTES", 0)
        monkeypatch.setattr("bygones.ingest.importer.MIN_PARALLEL_BYTES", 0)
        monkeypatch.setattr("bygones.ingest.workers.spare_cpu_count", lambda: 2)
        # The task fails in this process: another one would not be patched.
        monkeypatch.setattr("bygones.ingest.workers.sys.executable", "")
    sandbox = Sandbox(tmp_path)
    for number in range(1, 6):
        sandbox.home.session(session_id(number), thread(prompt(f"number {number}")))
    with monkeypatch.context() as patched:
        fail_for(patched, derive, "assemble_sessions", session_id(3))

        for _ in range(2):
            failure = sandbox.ingest().failure
            assert failure is not None
            assert (failure.count, failure.related_count) == (1, 0)
            assert failure.first_source.endswith(f"{session_id(3)}.jsonl")
            assert not verify(sandbox.archive, deep=True).is_index_current
        with Archive.open(sandbox.archive) as archive:
            shown = {one.id for one in archive.sessions()}
        assert shown == {session_id(number) for number in (1, 2, 4, 5)}

    sandbox.ingest()

    assert differing_tables(sandbox) == []
    with Archive.open(sandbox.archive) as archive:
        assert len(list(archive.sessions())) == 5


def test_session_that_fails_when_it_grows_keeps_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derive, "MIN_DIVIDED_NODES", 20)
    monkeypatch.setattr(indexer, "_MIN_DIVIDED_BYTES", 0)
    sandbox = Sandbox(tmp_path)
    turns = ((prompt(f"number {n}"), reply(f"answer {n}")) for n in range(400))
    records = thread(*chain.from_iterable(turns))
    path = sandbox.home.session(session_id(1), records[:-2])
    sandbox.ingest()
    with path.open("ab") as file:
        file.write(jsonl(records[-2:]))
    sandbox.home.session(session_id(2), thread(prompt("another")))
    with monkeypatch.context() as patched:
        original = growing.write_session

        def fail_after(*arguments: object, **options: object) -> None:
            original(*arguments, **options)  # type: ignore[arg-type]
            raise ValueError("unexpected")

        patched.setattr("bygones.ingest.growing.write_session", fail_after)
        assert sandbox.ingest().failure is not None
        with Archive.open(sandbox.archive) as archive:
            counts = {one.id: one.prompt_count for one in archive.sessions()}
        assert counts == {session_id(1): 399, session_id(2): 1}

    sandbox.ingest()

    assert differing_tables(sandbox) == []


def test_all_sessions_that_are_derived_with_one_that_fails_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    shared = thread(prompt("shared"), reply("answer"))
    for number in (1, 2, 3):
        more = thread(prompt(f"number {number}"), start=100 * number)
        sandbox.home.session(session_id(number), [*shared, *more])
    sandbox.home.session(session_id(4), thread(prompt("alone"), start=900))
    fail_for(monkeypatch, derive, "assemble_sessions", session_id(2))

    failure = sandbox.ingest().failure

    assert failure is not None
    assert (failure.count, failure.related_count) == (3, 2)
    assert f"{session_id(1)}.jsonl or one of 2 that share" in str(failure)
    with Archive.open(sandbox.archive) as archive:
        assert [one.id for one in archive.sessions()] == [session_id(4)]


def test_session_whose_rows_cannot_be_written_keeps_the_former_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    records = thread(prompt("one"), reply("answer"), prompt("two"))
    path = sandbox.home.session(session_id(1), records[:-1])
    sandbox.ingest()
    with path.open("ab") as file:
        file.write(jsonl(records[-1:]))
    with monkeypatch.context() as patched:
        fail_for(patched, indexer, "write_session", session_id(1))

        assert sandbox.ingest().failure is not None
        with Archive.open(sandbox.archive) as archive:
            assert [one.prompt_count for one in archive.sessions()] == [1]

    assert sandbox.ingest().failure is None
    assert differing_tables(sandbox) == []


def test_very_long_session_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "NODES_PER_PART", 2)
    sandbox = Sandbox(tmp_path)
    prompts = [prompt(f"number {number}") for number in range(9)]
    sandbox.home.session(session_id(1), thread(*prompts))
    sandbox.home.session(session_id(2), thread(prompt("another")))
    with monkeypatch.context() as patched:

        def fail(*_: object) -> None:
            raise ValueError("unexpected")

        patched.setattr(indexer, "derive_in_parts", fail)

        failure = sandbox.ingest().failure

        assert failure is not None
        assert failure.first_source.endswith(f"{session_id(1)}.jsonl")
        with Archive.open(sandbox.archive) as archive:
            assert [one.id for one in archive.sessions()] == [session_id(2)]

    assert sandbox.ingest().failure is None
    assert differing_tables(sandbox) == []
