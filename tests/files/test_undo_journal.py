"""An undo that is killed in the middle can be taken back, whenever that happens."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from bygones.errors import FileModifiedConcurrently
from bygones.files.undo import PlannedUndo, UndoAction, plan_redo
from bygones.files.undo_journal import UndoStore, UndoTarget
from bygones.model.base import SessionId

SESSION = SessionId("5e551000-0000-4000-8000-000000000001")
NOW = datetime(2026, 11, 17, tzinfo=UTC)
BEFORE = {"a": b"a before", "b": b"b before", "made": b"made"}
AFTER = {"a": b"a after", "b": b"b after", "sub/new": b"new"}
STEPS = ("replace", "unlink", "fsync", "chmod", "mkdir", "open")


def fill(folder: Path) -> Path:
    folder.mkdir()
    for name, raw in BEFORE.items():
        (folder / name).write_bytes(raw)
    return folder


def read(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def plans(folder: Path) -> list[PlannedUndo]:
    return [
        PlannedUndo(
            path=str(folder / name),
            action=UndoAction.WRITE,
            before=BEFORE.get(name),
            after=AFTER.get(name),
        )
        for name in sorted({*BEFORE, *AFTER})
    ]


def apply(store: UndoStore, planned: list[PlannedUndo], *, redo: bool = False) -> None:
    store.apply(planned, UndoTarget(SESSION, 1, is_redo=redo), NOW)


def run_and_kill(action: Callable[[], None], step: int) -> bool:
    """Run an action in a process that is killed before a step; return whether it was."""
    child = os.fork()
    if child == 0:
        left = [step]

        def limit(function: Callable[..., object]) -> Callable[..., object]:
            def wrapper(*arguments: object, **options: object) -> object:
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return function(*arguments, **options)

            return wrapper

        try:
            for name in STEPS:
                setattr(os, name, limit(getattr(os, name)))
            action()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.req("FV5")
@pytest.mark.parametrize("is_redo", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_undo_that_is_killed_at_any_step_is_taken_back(
    tmp_path: Path, *, is_redo: bool
) -> None:
    changed = 0
    for step in range(200):
        folder = fill(tmp_path / "project")
        (tmp_path / "archive").mkdir()
        store = UndoStore(tmp_path / "archive")
        planned = plans(folder)
        if is_redo:
            apply(store, planned)
            planned = plan_redo(store.load())

        action = partial(apply, store, planned, redo=is_redo)
        is_killed = run_and_kill(action, step)
        changed += is_killed and read(folder) != (AFTER if is_redo else BEFORE)
        unfinished = store.unfinished()
        for record in unfinished:
            store.recover(record)

        assert store.unfinished() == []
        if unfinished:
            assert read(folder) == BEFORE, step
        elif read(folder) != BEFORE:  # not started, or done: it can be taken back
            assert read(folder) == AFTER, step
            assert all(plan.is_change for plan in plan_redo(store.load())), step
        shutil.rmtree(folder)
        shutil.rmtree(tmp_path / "archive")
        if not is_killed:
            break

    assert not is_killed
    assert changed > 10


def test_second_of_two_equal_undos_does_not_take_back_the_first(
    tmp_path: Path,
) -> None:
    folder = fill(tmp_path / "project")
    planned = plans(folder)
    (tmp_path / "archive").mkdir()
    store = UndoStore(tmp_path / "archive")
    target = UndoTarget(SESSION, 0)
    first = store.apply(planned, target, NOW)

    with pytest.raises(FileModifiedConcurrently):
        store.apply(planned, target, NOW)

    assert read(folder) == AFTER
    assert [record.id for record in store.records()] == [first.id]
    assert store.unfinished() == []


def test_recovery_leaves_a_file_that_was_changed_since(tmp_path: Path) -> None:
    folder = fill(tmp_path / "project")
    (tmp_path / "archive").mkdir()
    store = UndoStore(tmp_path / "archive")
    apply(store, plans(folder))
    (record,) = store.records()
    (path,) = (tmp_path / "archive" / "undo").glob("*-*")
    path.rename(path.with_name(f"{path.name}.unfinished"))
    (folder / "a").write_bytes(b"mine")

    store.recover(record)

    assert read(folder) == BEFORE | {"a": b"mine"}
    assert store.load().entries[0].before == BEFORE["a"]


def test_recovery_does_not_undo_what_was_finished_meanwhile(tmp_path: Path) -> None:
    folder = fill(tmp_path / "project")
    (tmp_path / "archive").mkdir()
    store = UndoStore(tmp_path / "archive")
    apply(store, plans(folder))

    assert store.recover(store.load()) == []
    assert read(folder) == AFTER
