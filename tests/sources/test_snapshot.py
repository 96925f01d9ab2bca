"""Snapshots detect every change in a home that a walk would find."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import ANY

import pytest

from bygones.sources.snapshot import (
    ModifiedFile,
    ModifiedFiles,
    is_unchanged,
    modified_since,
    scan_tree,
)
from tests.build import Home, prompt, session_id
from tests.store.sandbox import settle


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / ".claude")
    home.session(session_id(1), [prompt("Hello")])
    home.agent(session_id(1), "a1", [prompt("Look")], meta={})
    home.history(["Hello"])
    return home


def checksum_of(paths: list[Path]) -> str:
    return scan_tree(paths)[0]


def transcript(home: Home) -> Path:
    return next(home.path.glob("projects/*/*.jsonl"))


def grow(home: Home) -> None:
    with transcript(home).open("a") as file:
        file.write("{}\n")


def rewrite(home: Home) -> None:
    path = transcript(home)
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"Hello", b"Jello"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def add_deep(home: Home) -> None:
    folder = home.path / "projects" / "-new" / session_id(3) / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a2.jsonl").write_text("{}\n")


def rename(home: Home) -> None:
    path = transcript(home)
    path.rename(path.with_name(f"{session_id(9)}.jsonl"))


def add_history(home: Home) -> None:
    with (home.path / "history.jsonl").open("a") as file:
        file.write("{}\n")


CHANGES = [grow, rewrite, add_deep, rename, add_history]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changes_that_a_walk_finds_change_the_checksum(
    home: Home, change: Callable[[Home], None]
) -> None:
    before = checksum_of([home.path])

    change(home)

    assert checksum_of([home.path]) != before


def test_checksum_is_stable_without_changes(home: Home) -> None:
    assert checksum_of([home.path]) == checksum_of([home.path])


def test_ignored_files_do_not_change_the_checksum(home: Home) -> None:
    (home.path / "settings.json").write_text("{}")
    (home.path / "statsig").mkdir()
    before = checksum_of([home.path])

    (home.path / "settings.json").write_text('{"a": 1}')
    (home.path / "statsig" / "cache").write_text("new")

    assert checksum_of([home.path]) == before


def test_checksum_of_a_folder_that_is_not_a_home(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    before = checksum_of([tmp_path])

    (tmp_path / "deep" / "a.jsonl").write_text("{}\n")

    assert checksum_of([tmp_path]) != before


def test_checksum_of_a_single_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    before = checksum_of([path])

    path.write_text("{}\n{}\n")

    assert checksum_of([path]) != before


def test_checksum_of_a_missing_path(tmp_path: Path) -> None:
    before = checksum_of([tmp_path / "gone"])

    (tmp_path / "gone").mkdir()

    assert checksum_of([tmp_path / "gone"]) != before


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_names_need_not_be_valid_unicode(tmp_path: Path) -> None:
    before = checksum_of([tmp_path])

    (tmp_path / os.fsdecode(b"\xff.jsonl")).write_text("{}\n")

    assert checksum_of([tmp_path]) != before


def test_equal_homes_at_other_paths_have_other_checksums(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()

    assert checksum_of([tmp_path / "a"]) != checksum_of([tmp_path / "b"])


def settled(home: Home) -> tuple[str, bytes]:
    """Return checksum and snapshot of a home whose files are old enough."""
    settle(home.path)
    return scan_tree([home.path])


def test_unchanged_home_is_recognized(home: Home) -> None:
    checksum, snapshot = settled(home)

    assert is_unchanged(snapshot, checksum, [home.path])


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_home_is_not_unchanged(
    home: Home, change: Callable[[Home], None]
) -> None:
    checksum, snapshot = settled(home)

    change(home)

    assert not is_unchanged(snapshot, checksum, [home.path])


def test_ignored_files_leave_a_home_unchanged(home: Home) -> None:
    (home.path / "settings.json").write_text("{}")
    checksum, snapshot = settled(home)

    (home.path / "settings.json").write_text("{1}")
    (home.path / "statsig").mkdir()

    assert is_unchanged(snapshot, checksum, [home.path])


def test_new_folder_in_a_home_is_detected(home: Home) -> None:
    checksum, snapshot = settled(home)

    (home.path / "todos").mkdir()

    assert not is_unchanged(snapshot, checksum, [home.path])


def test_recently_modified_folders_are_not_trusted(home: Home) -> None:
    checksum, snapshot = scan_tree([home.path])

    assert not is_unchanged(snapshot, checksum, [home.path])


@pytest.mark.parametrize("snapshot", [b"", b"\x90", b"garbage"])
def test_unreadable_snapshot_is_ignored(snapshot: bytes, home: Home) -> None:
    assert not is_unchanged(snapshot, scan_tree([home.path])[0], [home.path])


def test_snapshot_of_other_paths_or_another_checksum_is_ignored(
    home: Home, tmp_path: Path
) -> None:
    checksum, snapshot = settled(home)

    assert not is_unchanged(snapshot, checksum, [tmp_path])
    assert not is_unchanged(snapshot, "another", [home.path])


def test_modified_files_are_listed_if_none_was_added_or_removed(home: Home) -> None:
    checksum, snapshot = settled(home)
    path = next(home.path.rglob("*.jsonl"))

    assert modified_since(snapshot, checksum, [home.path]) == ModifiedFiles(
        [], checksum, ANY
    )
    with path.open("ab") as file:
        file.write(b"{}\n")

    found = modified_since(snapshot, checksum, [home.path])
    assert found is not None
    status = path.stat()
    assert found.files == [
        ModifiedFile(
            path,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
        )
    ]
    assert found.checksum == checksum_of([home.path])
    assert is_unchanged(found.snapshot, found.checksum, [home.path])


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_is_listed_or_left_to_a_walk(
    home: Home, change: Callable[[Home], None]
) -> None:
    checksum, snapshot = settled(home)

    change(home)

    found = modified_since(snapshot, checksum, [home.path])
    assert found is None or (found.files and found.checksum == checksum_of([home.path]))


def test_recent_folders_are_left_to_a_walk(home: Home) -> None:
    checksum, snapshot = scan_tree([home.path])

    assert modified_since(snapshot, checksum, [home.path]) is None
