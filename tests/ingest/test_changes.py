"""Changes are detected by path and content, never by an inode or a time alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bygones.archive import Archive
from bygones.ingest import importer
from bygones.ingest.run import ingest
from bygones.maintenance.verify import verify
from bygones.model.base import Problem, SourceFile, SourceId
from bygones.sources.lines import problem_from_error, read_line_blocks
from tests.build import jsonl, line, prompt, session, session_id
from tests.store.sandbox import Sandbox, differing_tables, overwrite_keeping_times

ONE, TWO = session_id(1), session_id(2)
LONG = jsonl([prompt(f"said {number} " + "x" * 900) for number in range(40)])
"""Longer than the compared head and tail together."""


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def is_current(sandbox: Sandbox) -> bool:
    """Whether the index equals a rebuilt one, and another ingestion finds nothing."""
    again = sandbox.ingest()
    return (again.changed, again.bytes) == (0, 0) and differing_tables(sandbox) == []


@pytest.mark.req("F7")
def test_only_new_bytes_of_a_grown_file_are_read(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    first = path.read_bytes()
    sandbox.ingest()
    more = jsonl(session("c<b", "d<c", sessionId=ONE))
    path.write_bytes(first + more)

    report = sandbox.ingest()

    assert (report.grown, report.rewritten, report.bytes) == (1, 0, len(more))
    assert sandbox.generations(path) == [first + more]
    assert is_current(sandbox)


@pytest.mark.req("F7")
def test_truncated_file_starts_a_new_generation(
    sandbox: Sandbox,
) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a", "c<b"))
    before = path.read_bytes()
    sandbox.ingest()
    after = sandbox.home.session(ONE, session("a")).read_bytes()

    report = sandbox.ingest()

    assert report.rewritten == 1
    assert sandbox.generations(path) == [before, after]
    assert is_current(sandbox)


@pytest.mark.parametrize(
    "at", [0, 2000, len(LONG) // 2, len(LONG) - 3000, len(LONG) - 9]
)
def test_rewrite_in_place_is_detected_despite_equal_size_and_time(
    sandbox: Sandbox, at: int
) -> None:
    path = sandbox.home.session(ONE, [])
    path.write_bytes(LONG)
    sandbox.ingest()
    other = LONG[:at] + b"?" + LONG[at + 1 :]
    overwrite_keeping_times(path, other)

    report = sandbox.ingest()

    assert report.rewritten == 1
    assert sandbox.generations(path) == [LONG, other]
    assert is_current(sandbox)


def test_replacement_with_a_changed_middle_is_detected(
    sandbox: Sandbox,
) -> None:
    path = sandbox.home.session(ONE, [])
    path.write_bytes(LONG)
    sandbox.ingest()
    middle = len(LONG) // 2
    other = LONG[:middle] + b"?" + LONG[middle + 1 :] + jsonl([prompt("more")])
    temp_path = path.with_suffix(".new")
    temp_path.write_bytes(other)
    temp_path.replace(path)

    sandbox.ingest()

    assert sandbox.generations(path) == [LONG, other]
    assert is_current(sandbox)


def test_other_file_with_the_same_path_is_a_new_generation(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    before = path.read_bytes()
    sandbox.ingest()
    path.unlink()
    after = sandbox.home.session(ONE, session("x", "y<x", "z<y")).read_bytes()

    assert sandbox.ingest().rewritten == 1
    assert sandbox.generations(path) == [before, after]
    assert is_current(sandbox)


def test_every_generation_stays_readable(sandbox: Sandbox) -> None:
    written = []
    for number in range(5):
        prompts = [f"{number}-{n}" for n in range(5 - number)]
        path = sandbox.home.session(ONE, session(*prompts))
        written.append(path.read_bytes())
        sandbox.ingest()

    assert sandbox.generations(path) == written
    with sandbox.open_dir() as archive_dir:
        for generation, raw in enumerate(written):
            assert archive_dir.byte_store.read_bytes(1, generation, 0, 10**6) == raw


def test_copy_is_a_separate_source(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.ingest()
    copy = path.with_name(f"{TWO}.jsonl")
    copy.write_bytes(path.read_bytes())

    report = sandbox.ingest()

    assert (report.new, report.moved, report.gone) == (1, 0, 0)
    assert sandbox.generations(path) == sandbox.generations(copy)
    assert is_current(sandbox)


def test_deleted_file_stays_in_the_archive(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    raw = path.read_bytes()
    sandbox.ingest()
    before = sandbox.dump()
    path.unlink()

    report = sandbox.ingest()

    assert report.gone == 1
    assert sandbox.sources()[path.name].gone_ns is not None
    assert sandbox.generations(path) == [raw]
    assert sandbox.dump() == before
    assert sandbox.ingest().gone == 0


def test_returned_file_is_not_gone(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    raw = path.read_bytes()
    sandbox.ingest()
    path.unlink()
    sandbox.ingest()
    path.write_bytes(raw)

    report = sandbox.ingest()

    assert (report.returned, report.rewritten, report.bytes) == (1, 0, 0)
    assert sandbox.sources()[path.name].gone_ns is None
    assert is_current(sandbox)


@pytest.mark.req("F7")
def test_unfinished_line_is_stored_until_it_is_complete(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    whole = path.read_bytes()
    cut = len(whole) - 30
    path.write_bytes(whole[:cut])
    sandbox.ingest()
    assert sandbox.generations(path) == [whole[:cut]]

    path.write_bytes(whole)
    report = sandbox.ingest()

    assert (report.grown, report.rewritten) == (1, 0)
    assert sandbox.generations(path) == [whole]
    assert sandbox.rows("SELECT count(*) FROM fragment") == [(0,)]
    assert is_current(sandbox)


def test_replaced_unfinished_line_is_not_lost(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a"))
    whole = path.read_bytes()
    before, after = whole + b'{"half":', whole + b'{"other":1}\n'
    path.write_bytes(before)
    sandbox.ingest()
    path.write_bytes(after)

    sandbox.ingest()

    assert sandbox.generations(path) == [before, after]
    assert is_current(sandbox)


def test_long_unfinished_line_changed_at_its_start_is_not_lost(
    sandbox: Sandbox,
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    whole = path.read_bytes()
    before = whole + b"x" * 9000
    after = whole + b"?" + b"x" * 8999
    path.write_bytes(before)
    sandbox.ingest()
    overwrite_keeping_times(path, after)

    sandbox.ingest()

    assert sandbox.generations(path) == [before, after]


def damage_unfinished_line(sandbox: Sandbox, sql: str) -> None:
    with sandbox.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.db.execute(sql)


@pytest.mark.parametrize(
    "sql", ["UPDATE fragment SET frame = x'00'", "DELETE FROM fragment"]
)
def test_damaged_unfinished_line_is_stored_again_from_a_touched_file(
    sandbox: Sandbox, sql: str
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    with path.open("ab") as file:
        file.write(b'{"half')
    sandbox.ingest()
    damage_unfinished_line(sandbox, sql)
    os.utime(path, (1, 1))

    sandbox.ingest()

    assert sandbox.generations(path) == [path.read_bytes()]
    assert verify(sandbox.archive).is_intact


def test_damaged_unfinished_line_that_cannot_be_read_to_its_end_stops_nothing_else(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    with path.open("ab") as file:
        file.write(b'{"half')
    sandbox.ingest()
    before = path.read_bytes()
    damage_unfinished_line(sandbox, "UPDATE fragment SET frame = x'00'")
    other = sandbox.home.session(TWO, session("b"))
    with path.open("ab") as file:
        file.write(b" of a line")

    def read(
        source: SourceFile, **options: int
    ) -> Iterator[tuple[int, bytes] | Problem]:
        for found in read_line_blocks(source, **options):
            if not isinstance(found, Problem) and b'{"half' in found[1]:
                yield found[0], found[1].removesuffix(b" of a line")
                yield problem_from_error(OSError(5, "Input/output error"), source.id)
                return
            yield found

    with monkeypatch.context() as patched:
        patched.setattr(importer, "read_line_blocks", read)
        report = sandbox.ingest()

    assert report.new == 1
    assert len(report.problems) == 1
    assert sandbox.generations(other) == [other.read_bytes()]
    assert sandbox.generations(path)[-1] == before
    sandbox.ingest()
    assert sandbox.generations(path)[-1] == path.read_bytes()


def test_wrong_offset_of_an_unfinished_line_stores_no_file_twice(
    sandbox: Sandbox,
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    with path.open("ab") as file:
        file.write(b'{"half')
    sandbox.ingest()
    damage_unfinished_line(sandbox, "UPDATE fragment SET start = start + 5")
    with path.open("ab") as file:
        file.write(b" of a line")

    sandbox.ingest()

    assert sandbox.generations(path) == [path.read_bytes()]


def test_empty_file_is_a_source(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, [])

    assert sandbox.ingest().new == 1
    assert sandbox.generations(path) == [b""]
    assert is_current(sandbox)


def test_file_deleted_after_the_scan_loses_nothing(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    raw = path.read_bytes() + b'{"half'
    path.write_bytes(raw)
    other = sandbox.home.session(TWO, session("b"))
    sandbox.ingest()
    path.write_bytes(raw + b" of it")
    other.write_bytes(other.read_bytes() + jsonl(session("c<b")))
    before_reading(monkeypatch, lambda: path.unlink(missing_ok=True))

    report = sandbox.ingest()

    assert [problem.kind for problem in report.problems] == ["vanished"]
    assert sandbox.generations(path) == [raw]
    assert sandbox.generations(other) == [other.read_bytes()]
    monkeypatch.undo()
    assert sandbox.ingest().gone == 1
    assert differing_tables(sandbox) == []


def before_reading(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Call a function between the scan and the reading."""

    def wrapper(*args: Any, **kwargs: Any) -> object:  # noqa: ANN401 (handed through)
        act()
        return read_line_blocks(*args, **kwargs)

    monkeypatch.setattr("bygones.ingest.importer.read_line_blocks", wrapper)


def test_new_file_deleted_after_the_scan_is_a_problem(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    before_reading(monkeypatch, lambda: path.unlink(missing_ok=True))

    report = sandbox.ingest()

    assert [problem.kind for problem in report.problems] == ["vanished"]
    assert differing_tables(sandbox) == []


def test_link_that_replaced_a_file_is_not_followed(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a"))
    raw = path.read_bytes()
    sandbox.ingest()
    secret = sandbox.folder / "secret.jsonl"
    secret.write_bytes(raw + jsonl(session("stolen")))
    path.unlink()
    path.symlink_to(secret)

    report = sandbox.ingest()

    assert [problem.kind for problem in report.problems] == ["link-out"]
    assert sandbox.generations(path) == [raw]


def test_link_swapped_in_after_the_scan_is_not_followed(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    secret = sandbox.folder / "secret.jsonl"
    secret.write_bytes(jsonl(session("stolen")))

    def swap() -> None:
        path.unlink()
        path.symlink_to(secret)

    before_reading(monkeypatch, swap)
    report = sandbox.ingest()

    assert [problem.kind for problem in report.problems] == ["link-out"]
    assert sandbox.bytes() == {}


def test_touched_file_has_no_changes(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.ingest()
    os.utime(path, (1, 1))

    report = sandbox.ingest()

    assert (report.unchanged, report.changed) == (1, 0)
    assert is_current(sandbox)


def test_file_name_that_is_not_utf8_is_supported(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a"))
    odd = Path(os.fsdecode(os.fsencode(path.parent) + b"/\xff.jsonl"))
    path.rename(odd)
    sandbox.ingest()
    os.utime(odd, (1, 1))

    report = sandbox.ingest()

    assert (report.unchanged, report.changed) == (1, 0)
    assert list(sandbox.bytes().values()) == [[odd.read_bytes()]]


def test_relative_path_of_a_home_is_the_same_home(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    other = sandbox.home.session(TWO, session("b"))
    sandbox.ingest()
    path.unlink()
    monkeypatch.chdir(sandbox.folder)

    report = sandbox.ingest(Path("home"))

    assert (report.gone, report.new, report.unchanged) == (1, 0, 1)
    assert sandbox.sources()[other.name].gone_ns is None


def test_folder_inside_a_home_adds_no_duplicates(sandbox: Sandbox) -> None:
    path = sandbox.home.session(ONE, session("a"))
    sandbox.ingest()

    report = sandbox.ingest(sandbox.home.path / "projects")

    assert (report.new, report.unchanged) == (0, 1)
    assert list(sandbox.bytes()) == [str(path)]


def test_files_in_an_unreadable_folder_are_not_gone(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    sandbox.ingest()
    listing = os.scandir

    def refusing(folder: str | bytes) -> object:
        if os.fsdecode(folder) == str(path.parent):
            raise PermissionError(13, "Permission denied")
        return listing(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    report = sandbox.ingest()

    assert [problem.kind for problem in report.problems] == ["unreadable"]
    assert report.gone == 0


def test_unreadable_file_is_not_gone(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sandbox.home.session(ONE, session("a"))
    sandbox.ingest()
    refusal = PermissionError(13, "Permission denied")
    unseen = problem_from_error(refusal, SourceId(str(path)))
    monkeypatch.setattr(importer, "discover_sources", lambda _: [unseen])
    sandbox.home.session(TWO, session("b"))  # otherwise nothing would be walked

    report = sandbox.ingest()

    assert report.problems == [unseen]
    assert report.gone == 0


def test_problems_of_a_scan_are_reported(sandbox: Sandbox) -> None:
    missing = sandbox.folder / "nowhere"

    report = sandbox.ingest(sandbox.home.path, missing)

    assert [type(problem) for problem in report.problems] == [Problem]


@pytest.mark.req("F7")
def test_grown_file_with_a_changed_middle_is_detected(
    sandbox: Sandbox,
) -> None:
    path = sandbox.home.session(ONE, [])
    path.write_bytes(LONG)
    sandbox.ingest()
    middle = len(LONG) // 2
    other = LONG[:middle] + b"?" + LONG[middle + 1 :] + jsonl([prompt("more")])
    path.write_bytes(other)

    assert sandbox.ingest().rewritten == 1

    assert sandbox.generations(path) == [LONG, other]
    assert is_current(sandbox)


def test_session_of_an_unfinished_line_disappears_with_it(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session("notes", [])
    path.write_bytes(line(prompt("half") | {"sessionId": "other"}))
    sandbox.ingest()
    with Archive.open(sandbox.archive) as archive:
        assert [one.id for one in archive.sessions(include_empty=True)] == ["other"]

    path.write_bytes(b"")
    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        assert [one.id for one in archive.sessions(include_empty=True)] == ["notes"]
    assert differing_tables(sandbox) == []


@pytest.mark.req("F7")
def test_thorough_scan_detects_a_changed_middle_of_a_long_file(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.ingest.changes.FULL_COMPARE_BYTES", len(LONG) // 2)
    path = sandbox.home.session(ONE, [])
    path.write_bytes(LONG)
    sandbox.ingest()
    middle = len(LONG) // 2
    other = LONG[:middle] + b"?" + LONG[middle + 1 :] + jsonl([prompt("more")])
    path.write_bytes(other)

    report = ingest(sandbox.archive, [sandbox.home.path], is_thorough=True)

    assert report.rewritten == 1
    assert sandbox.generations(path) == [LONG, other]
    assert is_current(sandbox)


def test_thorough_scan_compares_long_files_that_grew_before(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.ingest.changes.FULL_COMPARE_BYTES", len(LONG) // 2)
    path = sandbox.home.session(ONE, [])
    path.write_bytes(LONG)
    sandbox.ingest()
    middle = len(LONG) // 2
    other = LONG[:middle] + b"?" + LONG[middle + 1 :] + jsonl([prompt("more")])
    path.write_bytes(other)
    assert sandbox.ingest().grown == 1
    assert sandbox.ingest().changed == 0

    report = ingest(sandbox.archive, [sandbox.home.path], is_thorough=True)

    assert report.rewritten == 1
    assert sandbox.generations(path)[-1] == other
    assert is_current(sandbox)
    assert ingest(sandbox.archive, [sandbox.home.path], is_thorough=True).unchanged == 1


def test_agent_with_an_unfinished_first_line_belongs_to_its_session(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.ingest()
    path = sandbox.home.path / "projects" / "-work-demo" / "agent-a1b2c3d.jsonl"
    path.write_bytes(line(prompt("half") | {"sessionId": ONE}))

    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        (one,) = archive.sessions(include_empty=True)
    assert (one.id, one.message_count, one.agent_count) == (ONE, 2, 1)
    assert differing_tables(sandbox) == []
