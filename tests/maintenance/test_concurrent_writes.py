"""Reads of an archive are consistent while others write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.ingest.loading import StoreLoader
from bygones.maintenance.restore import TargetState, plan_restore, restore
from bygones.maintenance.verify import verify
from bygones.model.base import NullProgress, Position, SourceId
from bygones.store.archive_db import ArchiveDB
from bygones.store.archive_dir import ArchiveDir
from bygones.store.connect import writer_lock
from bygones.store.text_index import TextIndex
from tests.build import jsonl, session, session_id
from tests.store.sandbox import Sandbox


class _CallOnProgress(NullProgress):
    """Calls a function whenever progress is made."""

    def __init__(self, happen: Callable[[], object]) -> None:
        self.happen = happen

    def advance(self, amount: int) -> None:  # noqa: ARG002
        self.happen()


def _grow_on_progress(sandbox: Sandbox, path: Path) -> Callable[[], None]:
    def grow() -> None:
        with path.open("ab") as file:
            file.write(jsonl(session("c")))
        sandbox.ingest()

    return grow


def test_file_that_grows_during_a_verification_is_intact(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), session("a", "b<a"))
    sandbox.ingest()
    verdict = verify(
        sandbox.archive, progress=_CallOnProgress(_grow_on_progress(sandbox, path))
    )
    assert verdict.is_intact


def test_line_finished_during_a_restore_is_consistent(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), session("a", "b<a"))
    with path.open("ab") as file:
        file.write(b'{"type": "user", ')
    sandbox.ingest()
    before = path.read_bytes()
    with sandbox.open_dir() as archive_dir:
        plans = plan_restore(
            archive_dir, archive_dir.byte_store.sources(), target=tmp_path / "to"
        )

        def finish(line: bytes) -> bytes:
            if path.read_bytes() == before:
                with path.open("ab") as file:
                    file.write(b'"uuid": "x"}\n{"half')
                sandbox.ingest()
            return line

        restore(archive_dir, plans, rewrite=finish)
    assert Path(plans[0].path).read_bytes() == before


def _call_once_after_method(
    monkeypatch: pytest.MonkeyPatch, name: str, happen: Callable[[], object]
) -> None:
    """Call a function once, after a method of the archive was called."""
    inner = getattr(ArchiveDB, name)
    pending = [happen]

    def wrapper(self: ArchiveDB, *args: object) -> object:
        found = inner(self, *args)
        if pending:
            pending.pop()()
        return found

    monkeypatch.setattr(ArchiveDB, name, wrapper)


def test_line_finished_while_loading_is_the_same_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), session("a", "b<a"))
    whole, half = path.stat().st_size, jsonl(session("c"))[:-1]
    with path.open("ab") as file:
        file.write(half)
    sandbox.ingest()

    def finish() -> None:
        with path.open("ab") as file:
            file.write(b"\n{")
        sandbox.ingest()

    with sandbox.open_dir() as archive_dir:
        _call_once_after_method(monkeypatch, "source_by_id", finish)
        position = Position(SourceId(str(path)), 0, whole, len(half))
        raw = StoreLoader(archive_dir).read_raw(position)

    assert raw == half


def test_file_that_grows_during_a_comparison_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), session("a", "b<a"))
    sandbox.ingest()
    before = path.read_bytes()
    to = tmp_path / "to" / path.relative_to(sandbox.home.path)
    to.parent.mkdir(parents=True)
    to.write_bytes(before)

    with sandbox.open_dir() as archive_dir:
        sources = list(archive_dir.byte_store.sources())
        _call_once_after_method(monkeypatch, "source", _grow_on_progress(sandbox, path))
        (plan,) = plan_restore(archive_dir, sources, target=tmp_path / "to")

    assert path.read_bytes() != before
    assert plan.state is TargetState.SAME


verifying = import_module("bygones.maintenance.verify")


def _once_after(
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    happen: Callable[[], None],
) -> list[Callable[[], None]]:
    """Call a function after the first call of another; return the pending ones."""
    inner = getattr(owner, name)
    pending = [happen]

    def called(*args: object) -> object:
        found = inner(*args)
        if pending:
            pending.pop()()
        return found

    monkeypatch.setattr(owner, name, called)
    return pending


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (verifying, "hash_tables"),  # the index is read, the archive is not
        (verifying, "is_index_current"),
        (TextIndex, "pin_snapshot"),  # the words are, the index is not
        (ArchiveDir, "_read_text_meta"),
    ],
)
def test_writes_during_a_deep_verification_are_not_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), session("a", "b<a"))
    sandbox.ingest()
    pending = _once_after(monkeypatch, owner, name, _grow_on_progress(sandbox, path))

    verdict = verify(sandbox.archive, deep=True)

    assert pending == []
    assert (verdict.is_intact, verdict.is_index_compared, verdict.differences) == (
        True,
        True,
        [],
    )


@contextmanager
def _out_of_step(_: ArchiveDir) -> Iterator[bool]:
    yield False


def test_constantly_written_index_is_not_reported_as_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), session("a", "b<a"))
    sandbox.ingest()
    monkeypatch.setattr(verifying, "_RETRY_SECONDS", 0)
    monkeypatch.setattr(ArchiveDir, "consistent_read", _out_of_step)
    now = datetime(2026, 3, 1, tzinfo=UTC)

    with writer_lock(sandbox.archive):
        verdict = verify(sandbox.archive, deep=True, now=now)

    assert (verdict.is_intact, verdict.is_index_compared, verdict.is_busy) == (
        True,
        False,
        True,
    )
    with Archive.open(sandbox.archive) as archive:
        assert archive.last_verification is not None
        assert (
            archive.last_verification.damage_count,
            archive.last_verification.is_deep,
        ) == (0, False)
    alone = verify(sandbox.archive, deep=True)
    assert (alone.is_index_current, alone.is_busy) == (False, False)
