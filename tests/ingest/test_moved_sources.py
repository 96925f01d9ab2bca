"""Moved files and homes are recognized."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import jsonl, session, session_id
from tests.store.keeping import Keeping, unlike_rebuilt

ONE, TWO = session_id(1), session_id(2)


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    return Keeping(tmp_path)


def is_current(keeping: Keeping) -> bool:
    """Whether the index equals a rebuilt one, and another ingestion finds nothing."""
    again = keeping.ingest()
    return (again.changed, again.bytes) == (0, 0) and unlike_rebuilt(keeping) == []


def test_renamed_file_keeps_its_number_and_bytes(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    keeping.home.session(TWO, session("p"))
    keeping.ingest()
    renamed = path.with_name(f"{session_id(9)}.jsonl")
    path.rename(renamed)

    report = keeping.ingest()

    assert (report.moved, report.new, report.gone, report.bytes) == (1, 0, 0, 0)
    assert str(path) not in keeping.bytes()
    assert keeping.generations(renamed) == [renamed.read_bytes()]
    assert keeping.index_rows("SELECT count(*) FROM record") == [(3,)]
    assert is_current(keeping)


def test_renamed_and_grown_file_is_complete(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    keeping.ingest()
    renamed = path.with_name(f"{session_id(9)}.jsonl")
    path.rename(renamed)
    with renamed.open("ab") as file:
        file.write(jsonl(session("c<b")))

    assert keeping.ingest().moved == 1
    assert keeping.generations(renamed) == [renamed.read_bytes()]
    assert keeping.index_rows("SELECT count(*) FROM record") == [(3,)]
    assert is_current(keeping)


def test_moved_home_is_recognized(keeping: Keeping) -> None:
    for number in range(3):
        keeping.home.session(session_id(number), session(f"a{number}"))
    keeping.home.agent(session_id(1), "abc1234", session("in"), meta={"agentType": "x"})
    keeping.home.history(["typed"])
    keeping.ingest()
    elsewhere = keeping.folder / "elsewhere"
    keeping.home.path.rename(elsewhere)

    report = keeping.ingest(elsewhere)

    assert (report.moved, report.new, report.gone, report.bytes) == (6, 0, 0, 0)
    assert {Path(path): raws for path, raws in keeping.bytes().items()} == {
        path: [path.read_bytes()] for path in elsewhere.rglob("*.json*")
    }
    assert unlike_rebuilt(keeping) == []


def test_gone_files_move_with_their_home(keeping: Keeping) -> None:
    keeping.home.session(session_id(1), session("one"))
    lost = keeping.home.session(session_id(2), session("two"))
    keeping.ingest()
    lost.unlink()
    keeping.ingest()
    other = keeping.folder / "elsewhere"
    keeping.home.path.rename(other)

    keeping.ingest(other)

    stored = keeping.sources()[f"{session_id(2)}.jsonl"]
    assert stored.home == str(other)
    assert stored.gone_ns is not None
    assert {one.home for one in keeping.sources().values()} == {str(other)}
    assert unlike_rebuilt(keeping) == []
    assert keeping.ingest(other).changed == 0


def test_single_moved_file_does_not_move_its_home(keeping: Keeping) -> None:
    path = keeping.home.session(session_id(1), session("one"))
    lost = keeping.home.session(session_id(2), session("two"))
    keeping.ingest()
    lost.unlink()
    keeping.ingest()
    other = keeping.folder / "elsewhere" / path.relative_to(keeping.home.path)
    other.parent.mkdir(parents=True)
    path.rename(other)

    keeping.ingest(keeping.home.path, keeping.folder / "elsewhere")

    stored = keeping.sources()[f"{session_id(2)}.jsonl"]
    assert stored.home == str(keeping.home.path)


def test_moved_and_changed_home_is_imported(keeping: Keeping) -> None:
    for number in range(5):
        keeping.home.session(session_id(number), session(f"a{number}"))
    keeping.home.session(session_id(7), []).write_bytes(b"")
    rewritten = keeping.home.session(session_id(8), session("before"))
    keeping.ingest()
    other = keeping.folder / "elsewhere"
    keeping.home.path.rename(other)
    path = other / rewritten.relative_to(keeping.home.path)
    path.write_bytes(jsonl(session("another")))

    report = keeping.ingest(other)

    assert (report.moved, report.new, report.gone) == (5, 2, 2)
    assert keeping.generations(path) == [path.read_bytes()]
    assert unlike_rebuilt(keeping) == []


def test_copy_from_an_unmounted_home_does_not_move_it(
    keeping: Keeping,
) -> None:
    for number in range(3):
        keeping.home.session(session_id(number), session(f"a{number}"))
    other = keeping.folder / "desk"
    keeping.ingest()
    away = keeping.home.path.rename(keeping.folder / "away")
    (path, *_) = sorted(away.rglob("*.jsonl"))
    place = other / path.relative_to(away)
    place.parent.mkdir(parents=True)
    place.write_bytes(path.read_bytes())

    keeping.ingest(other)

    homes = [one.home for one in keeping.sources().values()]
    assert homes.count(str(keeping.home.path)) == 2
    away.rename(keeping.home.path)
    assert keeping.ingest().returned == 2
    assert unlike_rebuilt(keeping) == []


def write_session_file(keeping: Keeping, path: Path, raw: bytes) -> Path:
    """Write a file that belongs to a session into a home."""
    keeping.home.history(["typed"])
    path = keeping.home.path / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("more", [b"", b"and more\n"])
@pytest.mark.parametrize(
    "place", ["file-history/{}/0f1e@v1", "tasks/{}/1.json", "todos/{0}-agent-{0}.json"]
)
def test_equal_files_of_two_sessions_stay_separate(
    keeping: Keeping, place: str, more: bytes
) -> None:
    keeping.home.session(ONE, session("a"))
    first = write_session_file(keeping, Path(place.format(ONE)), b"same words\n")
    keeping.ingest()
    first.unlink()
    keeping.ingest()
    keeping.home.session(TWO, session("p"))
    second = write_session_file(
        keeping, Path(place.format(TWO)), b"same words\n" + more
    )

    report = keeping.ingest()

    assert (report.moved, report.new) == (0, 2)
    assert keeping.generations(first) == [b"same words\n"]
    assert keeping.generations(second) == [b"same words\n" + more]


def test_reused_inode_is_not_a_move(
    keeping: Keeping,
) -> None:
    keeping.home.session(ONE, session("a"))
    first = write_session_file(keeping, Path(f"tasks/{ONE}/1.json"), b"[]\n")
    keeping.ingest()
    second = write_session_file(keeping, Path(f"tasks/{TWO}/7.json"), b"")
    second.unlink()
    first.rename(second)  # so that its number on the disk is the same
    os.utime(second, (1, 1))

    assert keeping.ingest().moved == 0
    assert keeping.generations(first) == keeping.generations(second) == [b"[]\n"]


def test_session_that_starts_like_a_gone_one_is_separate(
    keeping: Keeping,
) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    keeping.ingest()
    saved = keeping.folder / "saved.jsonl"
    path.rename(saved)
    keeping.ingest()
    fork = path.with_name(f"{TWO}.jsonl")
    saved.rename(fork)

    assert keeping.ingest().moved == 0
    assert keeping.generations(path) == keeping.generations(fork)
    assert unlike_rebuilt(keeping) == []
