"""Interrupted ingestions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bygones.model.base import Position, Problem, SourceFile
from bygones.sources.lines import read_line_blocks
from tests.build import prompt, session_id, thread
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
