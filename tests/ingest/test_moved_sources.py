"""Moved files and homes are recognized."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import jsonl, session, session_id
from tests.store.sandbox import Sandbox, differing_tables

ONE, TWO = session_id(1), session_id(2)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def is_current(sandbox: Sandbox) -> bool:
    """Whether the index equals a rebuilt one, and another ingestion finds nothing."""
    again = sandbox.ingest()
    return (again.changed, again.bytes) == (0, 0) and differing_tables(sandbox) == []


def test_renamed_file_keeps_its_number_and_bytes(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.home.session(TWO, session("p"))
    sandbox.ingest()
    renamed = path.with_name(f"{session_id(9)}.jsonl")
    path.rename(renamed)

    report = sandbox.ingest()

    assert (report.moved, report.new, report.gone, report.bytes) == (1, 0, 0, 0)
    assert str(path) not in sandbox.bytes()
    assert sandbox.generations(renamed) == [renamed.read_bytes()]
    assert sandbox.index_rows("SELECT count(*) FROM record") == [(3,)]
    assert is_current(sandbox)


def test_renamed_and_grown_file_is_complete(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.ingest()
    renamed = path.with_name(f"{session_id(9)}.jsonl")
    path.rename(renamed)
    with renamed.open("ab") as file:
        file.write(jsonl(session("c<b")))

    assert sandbox.ingest().moved == 1
    assert sandbox.generations(renamed) == [renamed.read_bytes()]
    assert sandbox.index_rows("SELECT count(*) FROM record") == [(3,)]
    assert is_current(sandbox)


def test_moved_home_is_recognized(sandbox: Sandbox) -> None:
    for number in range(3):
        sandbox.home.session(session_id(number), session(f"a{number}"))
    sandbox.home.agent(session_id(1), "abc1234", session("in"), meta={"agentType": "x"})
    sandbox.home.history(["typed"])
    sandbox.ingest()
    elsewhere = sandbox.folder / "elsewhere"
    sandbox.home.path.rename(elsewhere)

    report = sandbox.ingest(elsewhere)

    assert (report.moved, report.new, report.gone, report.bytes) == (6, 0, 0, 0)
    assert {Path(path): raws for path, raws in sandbox.bytes().items()} == {
        path: [path.read_bytes()] for path in elsewhere.rglob("*.json*")
    }
    assert differing_tables(sandbox) == []


def test_gone_files_move_with_their_home(sandbox: Sandbox) -> None:
    sandbox.home.session(session_id(1), session("one"))
    lost = sandbox.home.session(session_id(2), session("two"))
    sandbox.ingest()
    lost.unlink()
    sandbox.ingest()
    other = sandbox.folder / "elsewhere"
    sandbox.home.path.rename(other)

    sandbox.ingest(other)

    stored = sandbox.sources()[f"{session_id(2)}.jsonl"]
    assert stored.home == str(other)
    assert stored.gone_ns is not None
    assert {one.home for one in sandbox.sources().values()} == {str(other)}
    assert differing_tables(sandbox) == []
    assert sandbox.ingest(other).changed == 0


def test_single_moved_file_does_not_move_its_home(sandbox: Sandbox) -> None:
    path = sandbox.home.session(session_id(1), session("one"))
    lost = sandbox.home.session(session_id(2), session("two"))
    sandbox.ingest()
    lost.unlink()
    sandbox.ingest()
    other = sandbox.folder / "elsewhere" / path.relative_to(sandbox.home.path)
    other.parent.mkdir(parents=True)
    path.rename(other)

    sandbox.ingest(sandbox.home.path, sandbox.folder / "elsewhere")

    stored = sandbox.sources()[f"{session_id(2)}.jsonl"]
    assert stored.home == str(sandbox.home.path)


def test_moved_and_changed_home_is_imported(sandbox: Sandbox) -> None:
    for number in range(5):
        sandbox.home.session(session_id(number), session(f"a{number}"))
    sandbox.home.session(session_id(7), []).write_bytes(b"")
    rewritten = sandbox.home.session(session_id(8), session("before"))
    sandbox.ingest()
    other = sandbox.folder / "elsewhere"
    sandbox.home.path.rename(other)
    path = other / rewritten.relative_to(sandbox.home.path)
    path.write_bytes(jsonl(session("another")))

    report = sandbox.ingest(other)

    assert (report.moved, report.new, report.gone) == (5, 2, 2)
    assert sandbox.generations(path) == [path.read_bytes()]
    assert differing_tables(sandbox) == []


def test_copy_from_an_unmounted_home_does_not_move_it(
    sandbox: Sandbox,
) -> None:
    for number in range(3):
        sandbox.home.session(session_id(number), session(f"a{number}"))
    other = sandbox.folder / "desk"
    sandbox.ingest()
    away = sandbox.home.path.rename(sandbox.folder / "away")
    (path, *_) = sorted(away.rglob("*.jsonl"))
    copy_path = other / path.relative_to(away)
    copy_path.parent.mkdir(parents=True)
    copy_path.write_bytes(path.read_bytes())

    sandbox.ingest(other)

    homes = [one.home for one in sandbox.sources().values()]
    assert homes.count(str(sandbox.home.path)) == 2
    away.rename(sandbox.home.path)
    assert sandbox.ingest().returned == 2
    assert differing_tables(sandbox) == []


def write_session_file(sandbox: Sandbox, path: Path, raw: bytes) -> Path:
    """Write a file that belongs to a session into a home."""
    sandbox.home.history(["typed"])
    path = sandbox.home.path / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("more", [b"", b"and more\n"])
@pytest.mark.parametrize(
    "path", ["file-history/{}/0f1e@v1", "tasks/{}/1.json", "todos/{0}-agent-{0}.json"]
)
def test_equal_files_of_two_sessions_stay_separate(
    sandbox: Sandbox, path: str, more: bytes
) -> None:
    sandbox.home.session(ONE, session("a"))
    first = write_session_file(sandbox, Path(path.format(ONE)), b"same words\n")
    sandbox.ingest()
    first.unlink()
    sandbox.ingest()
    sandbox.home.session(TWO, session("p"))
    second = write_session_file(sandbox, Path(path.format(TWO)), b"same words\n" + more)

    report = sandbox.ingest()

    assert (report.moved, report.new) == (0, 2)
    assert sandbox.generations(first) == [b"same words\n"]
    assert sandbox.generations(second) == [b"same words\n" + more]


def test_reused_inode_is_not_a_move(
    sandbox: Sandbox,
) -> None:
    sandbox.home.session(ONE, session("a"))
    first = write_session_file(sandbox, Path(f"tasks/{ONE}/1.json"), b"[]\n")
    sandbox.ingest()
    second = write_session_file(sandbox, Path(f"tasks/{TWO}/7.json"), b"")
    second.unlink()
    first.rename(second)  # so that its number on the disk is the same
    os.utime(second, (1, 1))

    assert sandbox.ingest().moved == 0
    assert sandbox.generations(first) == sandbox.generations(second) == [b"[]\n"]


def test_session_that_starts_like_a_gone_one_is_separate(
    sandbox: Sandbox,
) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.ingest()
    saved = sandbox.folder / "saved.jsonl"
    path.rename(saved)
    sandbox.ingest()
    fork = path.with_name(f"{TWO}.jsonl")
    saved.rename(fork)

    assert sandbox.ingest().moved == 0
    assert sandbox.generations(path) == sandbox.generations(fork)
    assert differing_tables(sandbox) == []
