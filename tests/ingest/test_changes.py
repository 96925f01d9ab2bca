"""Changes are detected by path and content, never by an inode or a time alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bygones.archive import Archive
from bygones.ingest import importer
from bygones.ingest.run import ingest
from bygones.model.base import Problem, SourceId
from bygones.sources.lines import problem_from_error, read_line_blocks
from tests.build import jsonl, line, prompt, session, session_id
from tests.store.keeping import Keeping, set_back, unlike_rebuilt

ONE, TWO = session_id(1), session_id(2)
LONG = jsonl([prompt(f"said {number} " + "x" * 900) for number in range(40)])
"""Longer than the compared head and tail together."""


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    return Keeping(tmp_path)


def is_current(keeping: Keeping) -> bool:
    """Whether the index equals a rebuilt one, and another ingestion finds nothing."""
    again = keeping.ingest()
    return (again.changed, again.bytes) == (0, 0) and unlike_rebuilt(keeping) == []


@pytest.mark.req("F7")
def test_only_new_bytes_of_a_grown_file_are_read(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    first = path.read_bytes()
    keeping.ingest()
    more = jsonl(session("c<b", "d<c", sessionId=ONE))
    path.write_bytes(first + more)

    report = keeping.ingest()

    assert (report.grown, report.rewritten, report.bytes) == (1, 0, len(more))
    assert keeping.generations(path) == [first + more]
    assert is_current(keeping)


@pytest.mark.req("F7")
def test_truncated_file_starts_a_new_generation(
    keeping: Keeping,
) -> None:
    path = keeping.home.session(ONE, session("a", "b<a", "c<b"))
    before = path.read_bytes()
    keeping.ingest()
    after = keeping.home.session(ONE, session("a")).read_bytes()

    report = keeping.ingest()

    assert report.rewritten == 1
    assert keeping.generations(path) == [before, after]
    assert is_current(keeping)


@pytest.mark.parametrize(
    "at", [0, 2000, len(LONG) // 2, len(LONG) - 3000, len(LONG) - 9]
)
def test_rewrite_in_place_is_detected_despite_equal_size_and_time(
    keeping: Keeping, at: int
) -> None:
    path = keeping.home.session(ONE, [])
    path.write_bytes(LONG)
    keeping.ingest()
    other = LONG[:at] + b"?" + LONG[at + 1 :]
    set_back(path, other)

    report = keeping.ingest()

    assert report.rewritten == 1
    assert keeping.generations(path) == [LONG, other]
    assert is_current(keeping)


def test_replacement_with_a_changed_middle_is_detected(
    keeping: Keeping,
) -> None:
    path = keeping.home.session(ONE, [])
    path.write_bytes(LONG)
    keeping.ingest()
    middle = len(LONG) // 2
    other = LONG[:middle] + b"?" + LONG[middle + 1 :] + jsonl([prompt("more")])
    temp_path = path.with_suffix(".new")
    temp_path.write_bytes(other)
    temp_path.replace(path)

    keeping.ingest()

    assert keeping.generations(path) == [LONG, other]
    assert is_current(keeping)


def test_other_file_with_the_same_path_is_a_new_generation(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    before = path.read_bytes()
    keeping.ingest()
    path.unlink()
    after = keeping.home.session(ONE, session("x", "y<x", "z<y")).read_bytes()

    assert keeping.ingest().rewritten == 1
    assert keeping.generations(path) == [before, after]
    assert is_current(keeping)


def test_every_generation_stays_readable(keeping: Keeping) -> None:
    written = []
    for number in range(5):
        words = [f"{number}-{n}" for n in range(5 - number)]
        path = keeping.home.session(ONE, session(*words))
        written.append(path.read_bytes())
        keeping.ingest()

    assert keeping.generations(path) == written
    with keeping.vault() as archive_dir:
        for generation, raw in enumerate(written):
            assert archive_dir.byte_store.read_bytes(1, generation, 0, 10**6) == raw


def test_copy_is_a_separate_source(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    keeping.ingest()
    copy = path.with_name(f"{TWO}.jsonl")
    copy.write_bytes(path.read_bytes())

    report = keeping.ingest()

    assert (report.new, report.moved, report.gone) == (1, 0, 0)
    assert keeping.generations(path) == keeping.generations(copy)
    assert is_current(keeping)


def test_deleted_file_stays_in_the_archive(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    raw = path.read_bytes()
    keeping.ingest()
    before = keeping.dump()
    path.unlink()

    report = keeping.ingest()

    assert report.gone == 1
    assert keeping.sources()[path.name].gone_ns is not None
    assert keeping.generations(path) == [raw]
    assert keeping.dump() == before
    assert keeping.ingest().gone == 0


def test_returned_file_is_not_gone(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    raw = path.read_bytes()
    keeping.ingest()
    path.unlink()
    keeping.ingest()
    path.write_bytes(raw)

    report = keeping.ingest()

    assert (report.returned, report.rewritten, report.bytes) == (1, 0, 0)
    assert keeping.sources()[path.name].gone_ns is None
    assert is_current(keeping)


@pytest.mark.req("F7")
def test_unfinished_line_is_stored_until_it_is_complete(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    whole = path.read_bytes()
    cut = len(whole) - 30
    path.write_bytes(whole[:cut])
    keeping.ingest()
    assert keeping.generations(path) == [whole[:cut]]

    path.write_bytes(whole)
    report = keeping.ingest()

    assert (report.grown, report.rewritten) == (1, 0)
    assert keeping.generations(path) == [whole]
    assert keeping.rows("SELECT count(*) FROM fragment") == [(0,)]
    assert is_current(keeping)


def test_replaced_unfinished_line_is_not_lost(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a"))
    whole = path.read_bytes()
    before, after = whole + b'{"half":', whole + b'{"other":1}\n'
    path.write_bytes(before)
    keeping.ingest()
    path.write_bytes(after)

    keeping.ingest()

    assert keeping.generations(path) == [before, after]
    assert is_current(keeping)


def test_long_unfinished_line_changed_at_its_start_is_not_lost(
    keeping: Keeping,
) -> None:
    path = keeping.home.session(ONE, session("a"))
    whole = path.read_bytes()
    before = whole + b"x" * 9000
    after = whole + b"?" + b"x" * 8999
    path.write_bytes(before)
    keeping.ingest()
    set_back(path, after)

    keeping.ingest()

    assert keeping.generations(path) == [before, after]


def test_empty_file_is_a_source(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, [])

    assert keeping.ingest().new == 1
    assert keeping.generations(path) == [b""]
    assert is_current(keeping)


def test_file_deleted_after_the_scan_loses_nothing(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keeping.home.session(ONE, session("a"))
    raw = path.read_bytes() + b'{"half'
    path.write_bytes(raw)
    other = keeping.home.session(TWO, session("b"))
    keeping.ingest()
    path.write_bytes(raw + b" of it")
    other.write_bytes(other.read_bytes() + jsonl(session("c<b")))
    before_reading(monkeypatch, lambda: path.unlink(missing_ok=True))

    report = keeping.ingest()

    assert [problem.kind for problem in report.problems] == ["vanished"]
    assert keeping.generations(path) == [raw]
    assert keeping.generations(other) == [other.read_bytes()]
    monkeypatch.undo()
    assert keeping.ingest().gone == 1
    assert unlike_rebuilt(keeping) == []


def before_reading(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Call a function between the scan and the reading."""

    def reading(*words: Any, **more: Any) -> object:  # noqa: ANN401 (handed through)
        act()
        return read_line_blocks(*words, **more)

    monkeypatch.setattr("bygones.ingest.importer.read_line_blocks", reading)


def test_new_file_deleted_after_the_scan_is_a_problem(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keeping.home.session(ONE, session("a"))
    before_reading(monkeypatch, lambda: path.unlink(missing_ok=True))

    report = keeping.ingest()

    assert [problem.kind for problem in report.problems] == ["vanished"]
    assert unlike_rebuilt(keeping) == []


def test_link_that_replaced_a_file_is_not_followed(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a"))
    raw = path.read_bytes()
    keeping.ingest()
    secret = keeping.folder / "secret.jsonl"
    secret.write_bytes(raw + jsonl(session("stolen")))
    path.unlink()
    path.symlink_to(secret)

    report = keeping.ingest()

    assert [problem.kind for problem in report.problems] == ["link-out"]
    assert keeping.generations(path) == [raw]


def test_link_swapped_in_after_the_scan_is_not_followed(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keeping.home.session(ONE, session("a"))
    secret = keeping.folder / "secret.jsonl"
    secret.write_bytes(jsonl(session("stolen")))

    def swap() -> None:
        path.unlink()
        path.symlink_to(secret)

    before_reading(monkeypatch, swap)
    report = keeping.ingest()

    assert [problem.kind for problem in report.problems] == ["link-out"]
    assert keeping.bytes() == {}


def test_touched_file_has_no_changes(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a", "b<a"))
    keeping.ingest()
    os.utime(path, (1, 1))

    report = keeping.ingest()

    assert (report.unchanged, report.changed) == (1, 0)
    assert is_current(keeping)


def test_file_name_that_is_not_utf8_is_supported(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a"))
    odd = Path(os.fsdecode(os.fsencode(path.parent) + b"/\xff.jsonl"))
    path.rename(odd)
    keeping.ingest()
    os.utime(odd, (1, 1))

    report = keeping.ingest()

    assert (report.unchanged, report.changed) == (1, 0)
    assert list(keeping.bytes().values()) == [[odd.read_bytes()]]


def test_relative_path_of_a_home_is_the_same_home(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keeping.home.session(ONE, session("a"))
    other = keeping.home.session(TWO, session("b"))
    keeping.ingest()
    path.unlink()
    monkeypatch.chdir(keeping.folder)

    report = keeping.ingest(Path("home"))

    assert (report.gone, report.new, report.unchanged) == (1, 0, 1)
    assert keeping.sources()[other.name].gone_ns is None


def test_folder_inside_a_home_adds_no_duplicates(keeping: Keeping) -> None:
    path = keeping.home.session(ONE, session("a"))
    keeping.ingest()

    report = keeping.ingest(keeping.home.path / "projects")

    assert (report.new, report.unchanged) == (0, 1)
    assert list(keeping.bytes()) == [str(path)]


def test_files_in_an_unreadable_folder_are_not_gone(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keeping.home.session(ONE, session("a"))
    keeping.ingest()
    listing = os.scandir

    def refusing(folder: str | bytes) -> object:
        if os.fsdecode(folder) == str(path.parent):
            raise PermissionError(13, "Permission denied")
        return listing(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    report = keeping.ingest()

    assert [problem.kind for problem in report.problems] == ["unreadable"]
    assert report.gone == 0


def test_unreadable_file_is_not_gone(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keeping.home.session(ONE, session("a"))
    keeping.ingest()
    refusal = PermissionError(13, "Permission denied")
    unseen = problem_from_error(refusal, SourceId(str(path)))
    monkeypatch.setattr(importer, "discover_sources", lambda _: [unseen])
    keeping.home.session(TWO, session("b"))  # otherwise nothing would be walked

    report = keeping.ingest()

    assert report.problems == [unseen]
    assert report.gone == 0


def test_problems_of_a_scan_are_reported(keeping: Keeping) -> None:
    missing = keeping.folder / "nowhere"

    report = keeping.ingest(keeping.home.path, missing)

    assert [type(problem) for problem in report.problems] == [Problem]


@pytest.mark.req("F7")
def test_grown_file_with_a_changed_middle_is_detected(
    keeping: Keeping,
) -> None:
    path = keeping.home.session(ONE, [])
    path.write_bytes(LONG)
    keeping.ingest()
    middle = len(LONG) // 2
    other = LONG[:middle] + b"?" + LONG[middle + 1 :] + jsonl([prompt("more")])
    path.write_bytes(other)

    assert keeping.ingest().rewritten == 1

    assert keeping.generations(path) == [LONG, other]
    assert is_current(keeping)


def test_session_of_an_unfinished_line_disappears_with_it(
    tmp_path: Path,
) -> None:
    keeping = Keeping(tmp_path)
    path = keeping.home.session("notes", [])
    path.write_bytes(line(prompt("half") | {"sessionId": "other"}))
    keeping.ingest()
    with Archive.open(keeping.archive) as archive:
        assert [one.id for one in archive.sessions(include_empty=True)] == ["other"]

    path.write_bytes(b"")
    keeping.ingest()

    with Archive.open(keeping.archive) as archive:
        assert [one.id for one in archive.sessions(include_empty=True)] == ["notes"]
    assert unlike_rebuilt(keeping) == []


@pytest.mark.req("F7")
def test_thorough_scan_detects_a_changed_middle_of_a_long_file(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.ingest.changes.FULL_COMPARE_BYTES", len(LONG) // 2)
    path = keeping.home.session(ONE, [])
    path.write_bytes(LONG)
    keeping.ingest()
    middle = len(LONG) // 2
    other = LONG[:middle] + b"?" + LONG[middle + 1 :] + jsonl([prompt("more")])
    path.write_bytes(other)

    report = ingest(keeping.archive, [keeping.home.path], is_thorough=True)

    assert report.rewritten == 1
    assert keeping.generations(path) == [LONG, other]
    assert is_current(keeping)


def test_thorough_scan_compares_long_files_that_grew_before(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.ingest.changes.FULL_COMPARE_BYTES", len(LONG) // 2)
    path = keeping.home.session(ONE, [])
    path.write_bytes(LONG)
    keeping.ingest()
    middle = len(LONG) // 2
    other = LONG[:middle] + b"?" + LONG[middle + 1 :] + jsonl([prompt("more")])
    path.write_bytes(other)
    assert keeping.ingest().grown == 1
    assert keeping.ingest().changed == 0

    report = ingest(keeping.archive, [keeping.home.path], is_thorough=True)

    assert report.rewritten == 1
    assert keeping.generations(path)[-1] == other
    assert is_current(keeping)
    assert ingest(keeping.archive, [keeping.home.path], is_thorough=True).unchanged == 1


def test_agent_with_an_unfinished_first_line_belongs_to_its_session(
    tmp_path: Path,
) -> None:
    keeping = Keeping(tmp_path)
    keeping.home.session(ONE, session("a", "b<a"))
    keeping.ingest()
    path = keeping.home.path / "projects" / "-work-demo" / "agent-a1b2c3d.jsonl"
    path.write_bytes(line(prompt("half") | {"sessionId": ONE}))

    keeping.ingest()

    with Archive.open(keeping.archive) as archive:
        (one,) = archive.sessions(include_empty=True)
    assert (one.id, one.message_count, one.agent_count) == (ONE, 2, 1)
    assert unlike_rebuilt(keeping) == []
