"""Restored files are complete, and replace nothing by default."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.maintenance.restore import (
    TargetState,
    WriteResult,
    remove_leftovers,
    write_file,
)
from bygones.store.connect import lock_file

OURS = b"ours, all of it\n"
THEIRS = b"what somebody else has put there\n"


def restore_file(
    path: Path, raws: Iterator[bytes] | None = None, *, overwrite: bool
) -> WriteResult:
    return write_file(path, raws or iter([OURS]), 10**18, set(), overwrite=overwrite)


def interrupted_by(path: Path, raw: bytes, *, overwrite: bool) -> Iterator[bytes]:
    """Yield bytes, while another process writes the same file."""
    yield OURS[:5]
    restore_file(path, iter([raw]), overwrite=overwrite)
    yield OURS[5:]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_concurrent_writes_of_one_file_leave_one_complete_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "file.jsonl"
    both = interrupted_by(path, OURS, overwrite=overwrite)

    done = restore_file(path, both, overwrite=overwrite)

    assert done.target_state is TargetState.SAME
    assert not done.is_written
    assert path.read_bytes() == OURS
    assert list(tmp_path.iterdir()) == [path]


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, "no links here")


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_file_created_meanwhile_is_only_replaced_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "file.jsonl"
    left = restore_file(
        path, interrupted_by(path, THEIRS, overwrite=False), overwrite=False
    )
    assert left.target_state is TargetState.DIFFERS
    assert not left.is_written
    assert path.read_bytes() == THEIRS

    path.unlink()
    done = restore_file(
        path, interrupted_by(path, THEIRS, overwrite=True), overwrite=True
    )
    assert done.is_written
    assert path.read_bytes() == OURS
    assert done.backup_copy is not None
    assert done.backup_copy.read_bytes() == THEIRS


def test_backup_copy_has_an_unused_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(THEIRS)
    first = tmp_path / "file.jsonl.before-restore"
    link = os.link

    def late(source: Path, to: Path, **options: bool) -> None:
        if to == first and not first.exists():
            first.write_bytes(b"older")  # by another, between our look and our link
        link(source, to, **options)

    monkeypatch.setattr(os, "link", late)
    done = restore_file(path, overwrite=True)

    assert done.backup_copy == tmp_path / "file.jsonl.before-restore-1"
    assert done.backup_copy.read_bytes() == THEIRS
    assert first.read_bytes() == b"older"


def test_file_of_the_same_restore_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").symlink_to("one")
    mine: set[tuple[int, int]] = set()

    for folder, raw, found in (
        ("one", OURS, TargetState.NEW),
        ("two", THEIRS, TargetState.TAKEN),
        ("two", OURS, TargetState.SAME),
    ):
        path = tmp_path / folder / "file"
        assert write_file(path, [raw], 0, mine, overwrite=True).target_state is found

    assert (tmp_path / "one" / "file").read_bytes() == OURS
    assert len(list((tmp_path / "one").iterdir())) == 1


@pytest.mark.parametrize("reason", [KeyboardInterrupt, OSError])
def test_interrupted_write_leaves_no_file(
    tmp_path: Path, reason: type[BaseException]
) -> None:
    def stopped() -> Iterator[bytes]:
        yield OURS
        (temp_path,) = tmp_path.iterdir()
        assert temp_path.name.startswith(".bygones-")
        assert temp_path.stat().st_mode & 0o777 == 0o600
        raise reason

    with pytest.raises(reason):
        restore_file(tmp_path / "file", stopped(), overwrite=True)

    assert list(tmp_path.iterdir()) == []


def test_only_unlocked_leftovers_are_removed(
    tmp_path: Path,
) -> None:
    left, locked = (tmp_path / f".bygones-{n * 16}" for n in "0a")
    other = tmp_path / ".bygones-notes"
    for path in (left, locked, other):
        path.write_bytes(OURS)

    with locked.open("rb") as file:
        lock_file(file.fileno())
        remove_leftovers(tmp_path)

    assert set(tmp_path.iterdir()) == {locked, other}
    remove_leftovers(tmp_path / "nowhere")


@pytest.mark.parametrize("overwrite", [False, True])
def test_leftovers_in_use_are_not_removed(tmp_path: Path, *, overwrite: bool) -> None:
    def swept() -> Iterator[bytes]:
        yield OURS
        remove_leftovers(tmp_path)

    assert restore_file(tmp_path / "file", swept(), overwrite=overwrite).is_written
    assert (tmp_path / "file").read_bytes() == OURS


def test_temp_file_removed_before_locking_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = os.open
    removed: list[Path] = []

    def swept(path: Path, flags: int, mode: int = 0o777) -> int:
        handle = created(path, flags, mode)
        if flags & os.O_EXCL and not removed:
            removed.append(path)
            remove_leftovers(tmp_path)
        return handle

    monkeypatch.setattr(os, "open", swept)
    assert restore_file(tmp_path / "file", overwrite=False).is_written

    assert len(removed) == 1
    assert (tmp_path / "file").read_bytes() == OURS
