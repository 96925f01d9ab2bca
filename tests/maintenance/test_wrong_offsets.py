"""Offsets of intact bytes: wrong ones are reported, corrected, and never lose bytes."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bygones.maintenance.damaged_parts import find_damaged_parts
from bygones.maintenance.repair import accept_losses, repair_archive
from bygones.maintenance.verify import rebuild, verify
from bygones.store.archive_db import ArchiveDB
from tests.build import prompt, session_id, thread
from tests.store.sandbox import Sandbox, differing_tables

WRONG = {
    "end of the last chunk": "UPDATE chunk SET stop = stop + 8 WHERE id = 4",
    "early end of the last chunk": "UPDATE chunk SET stop = stop - 8 WHERE id = 4",
    "start of the last chunk": "UPDATE chunk SET start = start - 8 WHERE id = 4",
    "end of an inner chunk": "UPDATE chunk SET stop = stop + 8 WHERE id = 2",
    "early end of an inner chunk": "UPDATE chunk SET stop = stop - 8 WHERE id = 2",
    "start of an inner chunk": "UPDATE chunk SET start = start + 8 WHERE id = 2",
    "early start of an inner chunk": "UPDATE chunk SET start = start - 8 WHERE id = 2",
    "both": "UPDATE chunk SET start = start + 8, stop = stop + 8 WHERE id = 2",
    "start of the first chunk": "UPDATE chunk SET start = 8 WHERE id = 1",
    "far start of an inner chunk": "UPDATE chunk SET start = start | 1 << 30 WHERE id = 2",
    "negative start": "UPDATE chunk SET start = start - (1 << 20) WHERE id = 4",
    "far end": "UPDATE chunk SET stop = stop | 1 << 30 WHERE id = 4",
    "two of them": "UPDATE chunk SET stop = stop + 8 WHERE id IN (1, 2)",
    "too many bytes in chunks": "UPDATE generation SET kept = kept + 100",
    "too few bytes in chunks": "UPDATE generation SET kept = kept - 100",
    "size": "UPDATE generation SET size = size + 50 WHERE source = 1",
    "small size": "UPDATE generation SET size = size - 5",
    "start of the unfinished line": "UPDATE fragment SET start = start + 3",
    "early start of the unfinished line": "UPDATE fragment SET start = start - 3",
    "state": "DELETE FROM generation WHERE source = 1",
    "state of all files": "DELETE FROM generation",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """Return an archive of a file with some chunks and an unfinished line."""
    sandbox = Sandbox(tmp_path_factory.mktemp("whole"))
    words = (prompt(f"number{number} " + "x" * 1900) for number in range(900))
    path = sandbox.home.session(session_id(1), thread(*words))
    with path.open("ab") as file:
        file.write(b'{"type":"user","unfinished')
    sandbox.home.session(session_id(2), thread(prompt("another one")))
    sandbox.ingest()
    assert sandbox.rows("SELECT id FROM chunk WHERE source = 1") == [
        (1,),
        (2,),
        (3,),
        (4,),
    ]
    sandbox.home.path.rename(sandbox.folder / "away")
    return sandbox


@pytest.fixture
def sandbox(whole: Sandbox, tmp_path: Path) -> Sandbox:
    """Return a copy of the archive, without the files."""
    copy = Sandbox(tmp_path)
    shutil.copytree(whole.archive, copy.archive)
    return copy


def change(sandbox: Sandbox, sql: str) -> None:
    with closing(sqlite3.connect(sandbox.archive / "archive.db")) as db, db:
        db.execute(sql)


def offsets(sandbox: Sandbox) -> list[object]:
    found: list[object] = []
    for sql in (
        "SELECT id, start, stop, hash, frame FROM chunk ORDER BY id",
        "SELECT source, generation, start, hash, frame FROM fragment ORDER BY source",
        "SELECT source, generation, kept, size FROM generation ORDER BY source",
    ):
        found += sandbox.rows(sql)
    return found


@pytest.mark.parametrize(
    "which",
    [
        pytest.param(name, marks=() if number % 3 == 0 else pytest.mark.full)
        for number, name in enumerate(WRONG)
    ],
)
def test_wrong_offset_of_intact_bytes_is_reported_and_corrected(
    whole: Sandbox, sandbox: Sandbox, which: str
) -> None:
    change(sandbox, WRONG[which])
    before = verify(sandbox.archive)

    result = repair_archive(sandbox.archive)

    assert not before.is_intact
    assert before.correctable_count
    assert (result.lost, result.recovered) == ([], [])
    assert result.corrected_count
    assert verify(sandbox.archive, deep=True).is_intact
    assert offsets(sandbox) == offsets(whole)
    assert differing_tables(sandbox) == []
    assert repair_archive(sandbox.archive).corrected_count == 0


def test_index_ends_where_the_source_does(sandbox: Sandbox) -> None:
    change(
        sandbox, "UPDATE generation SET kept = 600000, size = 600000 WHERE source = 1"
    )

    report = rebuild(sandbox.archive)

    assert report.problems == []
    rows = sandbox.index_rows("SELECT max(start + length) FROM record WHERE source = 1")
    assert int(str(rows[0][0])) <= 600_000


def test_intact_unfinished_line_is_not_marked_as_lost(
    whole: Sandbox, sandbox: Sandbox
) -> None:
    change(sandbox, "DELETE FROM chunk WHERE id = 4")
    change(sandbox, "UPDATE generation SET kept = kept + 100 WHERE source = 1")

    result = accept_losses(sandbox.archive, repair_archive(sandbox.archive).lost)

    assert result.accepted
    line = "SELECT start, hash, frame FROM fragment"
    assert sandbox.rows(line) == whole.rows(line)
    found = verify(sandbox.archive)
    assert (found.is_intact, len(found.accepted)) == (True, 1)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE chunk SET stop = stop + 8 WHERE id = 2",
        "UPDATE chunk SET start = start - 8 WHERE id = 2",
    ],
)
def test_verify_and_repair_agree_about_a_damaged_chunk_at_a_wrong_place(
    sandbox: Sandbox, sql: str
) -> None:
    change(sandbox, "UPDATE chunk SET frame = x'00' WHERE id = 2")
    change(sandbox, sql)

    lost = repair_archive(sandbox.archive).lost
    accept_losses(sandbox.archive, lost)

    found = verify(sandbox.archive)
    assert (found.is_intact, len(found.accepted)) == (True, len(lost))
    assert repair_archive(sandbox.archive).lost == []


def test_intact_chunk_is_never_marked_as_lost(sandbox: Sandbox) -> None:
    change(sandbox, "UPDATE chunk SET start = start - (1 << 20) WHERE id = 4")
    before = sandbox.rows("SELECT id, frame FROM chunk ORDER BY id")
    with closing(ArchiveDB(sandbox.archive)) as archive_db:
        parts = list(find_damaged_parts(archive_db))

    accept_losses(sandbox.archive, parts)

    after = sandbox.rows("SELECT id, frame FROM chunk ORDER BY id")
    assert after[: len(before)] == before


def test_ranges_are_verified_in_one_state_while_others_write(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[bool] = []

    def find(archive_db: ArchiveDB, *_place: int) -> list[object]:
        states.append(archive_db.db.in_transaction)
        return []

    monkeypatch.setattr("bygones.maintenance.verify.find_wrong_ranges", find)

    assert verify(sandbox.archive).is_intact
    assert set(states) == {True}
