"""Only modified files are checked if nothing else can have changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.ingest import importer, scan_plan
from bygones.ingest.run import ingest
from bygones.maintenance.backup import backup
from bygones.maintenance.purge import purge
from bygones.model.base import Problem, SessionId, SourceFile
from bygones.model.query import Query, Words
from bygones.sources.walk import discover_sources
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.store.sandbox import (
    Sandbox,
    differing_tables,
    overwrite_keeping_times,
    settle,
)


@pytest.fixture
def scanned_folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were scanned."""
    found: list[Path] = []

    def walk(path: Path) -> Iterator[SourceFile | Problem]:
        found.append(path)
        yield from discover_sources(path)

    monkeypatch.setattr(importer, "discover_sources", walk)
    return found


@pytest.fixture
def sandbox(tmp_path: Path, scanned_folders: list[Path]) -> Sandbox:
    """An archive of a home with old timestamps."""
    found = Sandbox(tmp_path)
    for number in (1, 2):
        folders = thread(prompt(f"words {number}"), reply("an answer"))
        found.home.session(session_id(number), folders)
    found.home.agent(session_id(1), "a1", [prompt("Look")], meta={})
    settle(found.home.path)
    found.ingest()
    scanned_folders.clear()
    return found


def transcript(sandbox: Sandbox, number: int = 1) -> Path:
    return next(sandbox.home.path.rglob(f"{session_id(number)}.jsonl"))


def append(path: Path, raw: bytes = jsonl([prompt("And more")])) -> None:
    with path.open("ab") as file:
        file.write(raw)


def test_grown_file_is_imported_without_a_full_scan(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    path = transcript(sandbox)
    append(path)

    report = sandbox.ingest()

    assert (report.grown, report.new, report.gone, report.rewritten) == (1, 0, 0, 0)
    assert (report.files, report.unchanged) == (4, 3)
    assert report.updated_sessions == [session_id(1)]
    assert scanned_folders == []
    assert sandbox.generations(path) == [path.read_bytes()]
    assert differing_tables(sandbox) == []


def test_repeated_growth_needs_no_full_scan(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    for number in (1, 2, 1, 1, 2):
        append(transcript(sandbox, number))
        assert sandbox.ingest().grown == 1
    for number in (1, 2):
        append(transcript(sandbox, number), b'{"unfinished')
    assert sandbox.ingest().grown == 2

    assert scanned_folders == []
    assert differing_tables(sandbox) == []


def test_many_grown_files_are_imported_without_a_full_scan(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    found = sorted(sandbox.home.path.rglob("*.jsonl"))
    assert len(found) == 3
    for path in found:
        append(path)

    assert sandbox.ingest().grown == 3
    assert scanned_folders == []
    assert [sandbox.generations(path) for path in found] == [
        [path.read_bytes()] for path in found
    ]


def test_unchanged_homes_need_no_full_scan(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    report = sandbox.ingest()

    assert (report.files, report.unchanged) == (4, 4)
    assert scanned_folders == []


def test_new_or_deleted_file_causes_a_full_scan(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    sandbox.home.session(session_id(3), [prompt("new")])
    assert sandbox.ingest().new == 1
    assert scanned_folders == [sandbox.home.path]
    settle(sandbox.home.path, 2)
    sandbox.ingest()
    scanned_folders.clear()

    transcript(sandbox, 2).unlink()
    assert sandbox.ingest().gone == 1
    assert scanned_folders == [sandbox.home.path]


def test_rewritten_file_needs_no_full_scan(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    path = transcript(sandbox)
    before = path.read_bytes()
    overwrite_keeping_times(path, before.replace(b"words 1", b"other 1"))

    assert sandbox.ingest().rewritten == 1
    assert scanned_folders == []
    assert sandbox.generations(path) == [before, path.read_bytes()]
    assert differing_tables(sandbox) == []


def test_thorough_ingestion_scans_everything(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    append(transcript(sandbox))

    ingest(sandbox.archive, [sandbox.home.path], is_thorough=True)

    assert scanned_folders == [sandbox.home.path]


def test_second_thorough_ingestion_needs_no_scan(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    thoroughly = partial(ingest, sandbox.archive, [sandbox.home.path], is_thorough=True)
    thoroughly()
    scanned_folders.clear()

    report = thoroughly()

    assert (report.files, report.unchanged, scanned_folders) == (4, 4, [])
    assert differing_tables(sandbox) == []

    path = transcript(sandbox)
    overwrite_keeping_times(path, path.read_bytes().replace(b"words 1", b"other 1"))
    assert thoroughly().rewritten == 1
    assert scanned_folders == [sandbox.home.path]


def test_recent_snapshot_is_taken_again_once(
    sandbox: Sandbox, scanned_folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript(sandbox).parent.joinpath("beside").mkdir()
    sandbox.ingest()  # a moment after the folder was made
    settle(sandbox.home.path)
    sandbox.ingest()
    scanned_folders.clear()
    monkeypatch.setattr(scan_plan, "scan_tree", _stop)

    report = sandbox.ingest()

    assert (report.files, report.unchanged, scanned_folders) == (4, 4, [])


@pytest.mark.parametrize("is_thorough", [False, True])
def test_missing_text_index_is_rebuilt_without_changes(
    sandbox: Sandbox, *, is_thorough: bool
) -> None:
    again = partial(
        ingest, sandbox.archive, [sandbox.home.path], is_thorough=is_thorough
    )
    again()
    (text_index,) = sandbox.archive.glob("index/*/text")
    shutil.rmtree(text_index)

    again()

    with Archive.open(sandbox.archive) as archive:
        assert len(archive.search(Query(Words(("words",)))).sessions) == 2
    assert differing_tables(sandbox) == []


def test_problems_are_reported_every_time(sandbox: Sandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(jsonl([prompt("away")]))
    link = transcript(sandbox).with_name(f"{session_id(9)}.jsonl")
    link.symlink_to(outside)
    for _ in range(3):
        report = ingest(sandbox.archive, [sandbox.home.path], is_thorough=True)
        assert [problem.kind for problem in report.problems] == ["link-out"]
    link.unlink()
    sources = sandbox.sources()[f"{session_id(2)}.jsonl"]
    purge(sandbox.archive, [sources], sessions=[SessionId(session_id(2))])
    for _ in range(3):
        report = ingest(sandbox.archive, [sandbox.home.path], is_thorough=True)
        assert (report.refused, report.problems) == (1, [])


def test_missing_home_is_noticed_while_scanning_another(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(sandbox.home.path, other)
    for paths in ([other], [sandbox.home.path], [sandbox.home.path]):
        ingest(sandbox.archive, paths, is_thorough=True)
    shutil.rmtree(other)

    report = ingest(sandbox.archive, [sandbox.home.path], is_thorough=True)

    assert report.gone == 4


def test_grown_file_of_a_purged_session_is_refused(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    sources = sandbox.sources()[f"{session_id(2)}.jsonl"]
    purge(sandbox.archive, [sources], sessions=[SessionId(session_id(2))])
    sandbox.ingest()
    append(transcript(sandbox, 2))

    assert sandbox.ingest().refused == 1
    assert scanned_folders
    assert f"{session_id(2)}.jsonl" not in sandbox.sources()


def test_interrupted_ingestion_is_followed_by_a_full_scan(
    sandbox: Sandbox, scanned_folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    append(transcript(sandbox))
    with monkeypatch.context() as stopped:
        stopped.setattr(importer, "derive_sessions", _stop)
        with pytest.raises(KeyboardInterrupt):
            sandbox.ingest()

    sandbox.ingest()

    assert scanned_folders == [sandbox.home.path]
    assert differing_tables(sandbox) == []


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_folder_with_a_reset_mtime_is_scanned(
    sandbox: Sandbox, scanned_folders: list[Path]
) -> None:
    folder = transcript(sandbox).parent
    times = folder.stat()
    sandbox.home.session(session_id(3), [prompt("new")])
    os.utime(folder, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert sandbox.ingest().new == 1
    assert scanned_folders == [sandbox.home.path]


def test_snapshot_contains_no_purged_names(sandbox: Sandbox) -> None:
    one = sandbox.sources()[f"{session_id(2)}.jsonl"]
    purge(sandbox.archive, [one], sessions=[SessionId(session_id(2))])
    settle(sandbox.home.path, 2)

    for _ in range(2):
        sandbox.ingest()
        with Archive.open(sandbox.archive) as archive:
            assert archive.is_current([sandbox.home.path])

    contents = [p.read_bytes() for p in sandbox.archive.rglob("*") if p.is_file()]
    assert not any(session_id(2).encode() in raw for raw in contents)


def test_restored_backup_is_scanned_again(
    sandbox: Sandbox, scanned_folders: list[Path], tmp_path: Path
) -> None:
    with sandbox.open_dir() as archive_dir:
        backup(archive_dir, tmp_path / "copy")
    append(transcript(sandbox))
    sandbox.home.session(session_id(3), thread(prompt("three"), reply("four")))
    settle(sandbox.home.path, 2)
    sandbox.ingest()
    for path in sandbox.archive.glob("archive.db*"):
        path.unlink()
    shutil.copy(tmp_path / "copy" / "archive.db", sandbox.archive / "archive.db")
    scanned_folders.clear()

    with Archive.open(sandbox.archive) as archive:
        assert not archive.is_current([sandbox.home.path])
    assert (sandbox.ingest().new, scanned_folders) == (1, [sandbox.home.path])
    assert differing_tables(sandbox) == []
