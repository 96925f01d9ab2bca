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
from tests.store.keeping import Keeping, set_back, settle, unlike_rebuilt


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
def keeping(tmp_path: Path, scanned_folders: list[Path]) -> Keeping:
    """An archive of a home with old timestamps."""
    found = Keeping(tmp_path)
    for number in (1, 2):
        folders = thread(prompt(f"words {number}"), reply("an answer"))
        found.home.session(session_id(number), folders)
    found.home.agent(session_id(1), "a1", [prompt("Look")], meta={})
    settle(found.home.path)
    found.ingest()
    scanned_folders.clear()
    return found


def transcript(keeping: Keeping, number: int = 1) -> Path:
    return next(keeping.home.path.rglob(f"{session_id(number)}.jsonl"))


def append(path: Path, raw: bytes = jsonl([prompt("And more")])) -> None:
    with path.open("ab") as file:
        file.write(raw)


def test_grown_file_is_imported_without_a_full_scan(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    path = transcript(keeping)
    append(path)

    report = keeping.ingest()

    assert (report.grown, report.new, report.gone, report.rewritten) == (1, 0, 0, 0)
    assert (report.files, report.unchanged) == (4, 3)
    assert report.updated_sessions == [session_id(1)]
    assert scanned_folders == []
    assert keeping.generations(path) == [path.read_bytes()]
    assert unlike_rebuilt(keeping) == []


def test_repeated_growth_needs_no_full_scan(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    for number in (1, 2, 1, 1, 2):
        append(transcript(keeping, number))
        assert keeping.ingest().grown == 1
    for number in (1, 2):
        append(transcript(keeping, number), b'{"unfinished')
    assert keeping.ingest().grown == 2

    assert scanned_folders == []
    assert unlike_rebuilt(keeping) == []


def test_many_grown_files_are_imported_without_a_full_scan(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    found = sorted(keeping.home.path.rglob("*.jsonl"))
    assert len(found) == 3
    for path in found:
        append(path)

    assert keeping.ingest().grown == 3
    assert scanned_folders == []
    assert [keeping.generations(path) for path in found] == [
        [path.read_bytes()] for path in found
    ]


def test_unchanged_homes_need_no_full_scan(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    report = keeping.ingest()

    assert (report.files, report.unchanged) == (4, 4)
    assert scanned_folders == []


def test_new_or_deleted_file_causes_a_full_scan(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    keeping.home.session(session_id(3), [prompt("new")])
    assert keeping.ingest().new == 1
    assert scanned_folders == [keeping.home.path]
    settle(keeping.home.path, 2)
    keeping.ingest()
    scanned_folders.clear()

    transcript(keeping, 2).unlink()
    assert keeping.ingest().gone == 1
    assert scanned_folders == [keeping.home.path]


def test_rewritten_file_needs_no_full_scan(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    path = transcript(keeping)
    before = path.read_bytes()
    set_back(path, before.replace(b"words 1", b"other 1"))

    assert keeping.ingest().rewritten == 1
    assert scanned_folders == []
    assert keeping.generations(path) == [before, path.read_bytes()]
    assert unlike_rebuilt(keeping) == []


def test_thorough_ingestion_scans_everything(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    append(transcript(keeping))

    ingest(keeping.archive, [keeping.home.path], is_thorough=True)

    assert scanned_folders == [keeping.home.path]


def test_second_thorough_ingestion_needs_no_scan(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    thoroughly = partial(ingest, keeping.archive, [keeping.home.path], is_thorough=True)
    thoroughly()
    scanned_folders.clear()

    report = thoroughly()

    assert (report.files, report.unchanged, scanned_folders) == (4, 4, [])
    assert unlike_rebuilt(keeping) == []

    path = transcript(keeping)
    set_back(path, path.read_bytes().replace(b"words 1", b"other 1"))
    assert thoroughly().rewritten == 1
    assert scanned_folders == [keeping.home.path]


def test_recent_snapshot_is_taken_again_once(
    keeping: Keeping, scanned_folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript(keeping).parent.joinpath("beside").mkdir()
    keeping.ingest()  # a moment after the folder was made
    settle(keeping.home.path)
    keeping.ingest()
    scanned_folders.clear()
    monkeypatch.setattr(scan_plan, "scan_tree", _stop)

    report = keeping.ingest()

    assert (report.files, report.unchanged, scanned_folders) == (4, 4, [])


@pytest.mark.parametrize("is_thorough", [False, True])
def test_missing_text_index_is_rebuilt_without_changes(
    keeping: Keeping, *, is_thorough: bool
) -> None:
    again = partial(
        ingest, keeping.archive, [keeping.home.path], is_thorough=is_thorough
    )
    again()
    (words,) = keeping.archive.glob("index/*/text")
    shutil.rmtree(words)

    again()

    with Archive.open(keeping.archive) as archive:
        assert len(archive.search(Query(Words(("words",)))).sessions) == 2
    assert unlike_rebuilt(keeping) == []


def test_problems_are_reported_every_time(keeping: Keeping, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(jsonl([prompt("away")]))
    link = transcript(keeping).with_name(f"{session_id(9)}.jsonl")
    link.symlink_to(outside)
    for _ in range(3):
        report = ingest(keeping.archive, [keeping.home.path], is_thorough=True)
        assert [problem.kind for problem in report.problems] == ["link-out"]
    link.unlink()
    kept = keeping.sources()[f"{session_id(2)}.jsonl"]
    purge(keeping.archive, [kept], sessions=[SessionId(session_id(2))])
    for _ in range(3):
        report = ingest(keeping.archive, [keeping.home.path], is_thorough=True)
        assert (report.refused, report.problems) == (1, [])


def test_missing_home_is_noticed_while_scanning_another(
    keeping: Keeping, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(keeping.home.path, other)
    for paths in ([other], [keeping.home.path], [keeping.home.path]):
        ingest(keeping.archive, paths, is_thorough=True)
    shutil.rmtree(other)

    report = ingest(keeping.archive, [keeping.home.path], is_thorough=True)

    assert report.gone == 4


def test_grown_file_of_a_purged_session_is_refused(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    kept = keeping.sources()[f"{session_id(2)}.jsonl"]
    purge(keeping.archive, [kept], sessions=[SessionId(session_id(2))])
    keeping.ingest()
    append(transcript(keeping, 2))

    assert keeping.ingest().refused == 1
    assert scanned_folders
    assert f"{session_id(2)}.jsonl" not in keeping.sources()


def test_interrupted_ingestion_is_followed_by_a_full_scan(
    keeping: Keeping, scanned_folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    append(transcript(keeping))
    with monkeypatch.context() as stopped:
        stopped.setattr(importer, "derive_sessions", _stop)
        with pytest.raises(KeyboardInterrupt):
            keeping.ingest()

    keeping.ingest()

    assert scanned_folders == [keeping.home.path]
    assert unlike_rebuilt(keeping) == []


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_folder_with_a_reset_mtime_is_scanned(
    keeping: Keeping, scanned_folders: list[Path]
) -> None:
    folder = transcript(keeping).parent
    times = folder.stat()
    keeping.home.session(session_id(3), [prompt("new")])
    os.utime(folder, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert keeping.ingest().new == 1
    assert scanned_folders == [keeping.home.path]


def test_snapshot_contains_no_purged_names(keeping: Keeping) -> None:
    one = keeping.sources()[f"{session_id(2)}.jsonl"]
    purge(keeping.archive, [one], sessions=[SessionId(session_id(2))])
    settle(keeping.home.path, 2)

    for _ in range(2):
        keeping.ingest()
        with Archive.open(keeping.archive) as archive:
            assert archive.is_current([keeping.home.path])

    kept = [p.read_bytes() for p in keeping.archive.rglob("*") if p.is_file()]
    assert not any(session_id(2).encode() in raw for raw in kept)


def test_restored_backup_is_scanned_again(
    keeping: Keeping, scanned_folders: list[Path], tmp_path: Path
) -> None:
    with keeping.vault() as archive_dir:
        backup(archive_dir, tmp_path / "copy")
    append(transcript(keeping))
    keeping.home.session(session_id(3), thread(prompt("three"), reply("four")))
    settle(keeping.home.path, 2)
    keeping.ingest()
    for path in keeping.archive.glob("archive.db*"):
        path.unlink()
    shutil.copy(tmp_path / "copy" / "archive.db", keeping.archive / "archive.db")
    scanned_folders.clear()

    with Archive.open(keeping.archive) as archive:
        assert not archive.is_current([keeping.home.path])
    assert (keeping.ingest().new, scanned_folders) == (1, [keeping.home.path])
    assert unlike_rebuilt(keeping) == []
