"""What tells that something moved in a home, and what does not."""

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
    tree_checksum,
)
from tests.build import Home, prompt, session_id
from tests.store.keeping import settle


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / ".claude")
    home.session(session_id(1), [prompt("Hello")])
    home.agent(session_id(1), "a1", [prompt("Look")], meta={})
    home.history(["Hello"])
    return home


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
def test_what_a_walk_would_see_is_felt(
    home: Home, change: Callable[[Home], None]
) -> None:
    before = tree_checksum([home.path])

    change(home)

    assert tree_checksum([home.path]) != before


def test_where_nothing_moves_the_pulse_stays(home: Home) -> None:
    assert tree_checksum([home.path]) == tree_checksum([home.path])


def test_what_no_walk_looks_at_is_not_felt(home: Home) -> None:
    (home.path / "settings.json").write_text("{}")
    (home.path / "statsig").mkdir()
    before = tree_checksum([home.path])

    (home.path / "settings.json").write_text('{"a": 1}')
    (home.path / "statsig" / "cache").write_text("new")

    assert tree_checksum([home.path]) == before


def test_any_folder_can_be_felt(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    before = tree_checksum([tmp_path])

    (tmp_path / "deep" / "a.jsonl").write_text("{}\n")

    assert tree_checksum([tmp_path]) != before


def test_a_single_file_can_be_felt(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    before = tree_checksum([path])

    path.write_text("{}\n{}\n")

    assert tree_checksum([path]) != before


def test_what_is_not_there_has_a_pulse_too(tmp_path: Path) -> None:
    before = tree_checksum([tmp_path / "gone"])

    (tmp_path / "gone").mkdir()

    assert tree_checksum([tmp_path / "gone"]) != before


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_names_need_not_be_text(tmp_path: Path) -> None:
    before = tree_checksum([tmp_path])

    (tmp_path / os.fsdecode(b"\xff.jsonl")).write_text("{}\n")

    assert tree_checksum([tmp_path]) != before


def test_other_homes_have_another_pulse(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()

    assert tree_checksum([tmp_path / "a"]) != tree_checksum([tmp_path / "b"])


def settled(home: Home) -> tuple[str, bytes]:
    """Return what is felt of a home in which nothing was made just now."""
    settle(home.path)
    return scan_tree([home.path])


def test_a_home_in_which_nothing_moved_is_still(home: Home) -> None:
    sign, felt = settled(home)

    assert is_unchanged(felt, sign, [home.path])


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_home_in_which_something_moved_is_not_still(
    home: Home, change: Callable[[Home], None]
) -> None:
    sign, felt = settled(home)

    change(home)

    assert not is_unchanged(felt, sign, [home.path])


def test_what_no_walk_looks_at_leaves_a_home_still(home: Home) -> None:
    (home.path / "settings.json").write_text("{}")
    sign, felt = settled(home)

    (home.path / "settings.json").write_text("{1}")
    (home.path / "statsig").mkdir()

    assert is_unchanged(felt, sign, [home.path])


def test_a_folder_of_a_home_that_comes_is_felt(home: Home) -> None:
    sign, felt = settled(home)

    (home.path / "todos").mkdir()

    assert not is_unchanged(felt, sign, [home.path])


def test_what_was_made_just_now_is_not_trusted(home: Home) -> None:
    sign, felt = scan_tree([home.path])

    assert not is_unchanged(felt, sign, [home.path])


@pytest.mark.parametrize("felt", [b"", b"\x90", b"garbage"])
def test_what_cannot_be_read_tells_nothing(felt: bytes, home: Home) -> None:
    assert not is_unchanged(felt, scan_tree([home.path])[0], [home.path])


def test_other_homes_are_other_homes(home: Home, tmp_path: Path) -> None:
    sign, felt = settled(home)

    assert not is_unchanged(felt, sign, [tmp_path])
    assert not is_unchanged(felt, "another", [home.path])


def test_what_was_written_is_told_where_nothing_came_or_went(home: Home) -> None:
    sign, felt = settled(home)
    path = next(home.path.rglob("*.jsonl"))

    assert modified_since(felt, sign, [home.path]) == ModifiedFiles([], sign, ANY)
    with path.open("ab") as file:
        file.write(b"{}\n")

    found = modified_since(felt, sign, [home.path])
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
    assert found.checksum == tree_checksum([home.path])
    assert is_unchanged(found.snapshot, found.checksum, [home.path])


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_whatever_moves_is_told_or_left_to_a_walk(
    home: Home, change: Callable[[Home], None]
) -> None:
    sign, felt = settled(home)

    change(home)

    found = modified_since(felt, sign, [home.path])
    assert found is None or (
        found.files and found.checksum == tree_checksum([home.path])
    )


def test_of_what_was_made_just_now_only_a_walk_can_tell(home: Home) -> None:
    sign, felt = scan_tree([home.path])

    assert modified_since(felt, sign, [home.path]) is None
