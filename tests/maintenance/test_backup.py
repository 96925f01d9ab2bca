"""Backups of damaged and read-only archives, and of archives that diverged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from bygones.archive import Archive
from bygones.errors import ArchiveDamaged, BackupNewer
from bygones.maintenance.backup import backup
from bygones.maintenance.purge import purge
from bygones.model.base import SessionId
from bygones.model.summary import Annotations
from bygones.store.annotations import annotate
from bygones.store.archive_db import ARCHIVE_FILE, ArchiveDB
from bygones.store.archive_dir import ArchiveDir
from tests.build import SESSION, jsonl, prompt, reply, session, session_id, thread
from tests.store.sandbox import Sandbox


def make_archive(folder: Path) -> Sandbox:
    sandbox = Sandbox(folder)
    sandbox.home.session(SESSION, thread(prompt("Mend the pump"), reply("Done.")))
    sandbox.ingest()
    return sandbox


def damage(sandbox: Sandbox) -> None:
    db = apsw.Connection(str(sandbox.archive / ARCHIVE_FILE))
    with db:
        db.execute("UPDATE chunk SET frame = zeroblob(9)")
    db.close()


def test_damaged_archive_does_not_replace_an_intact_backup(tmp_path: Path) -> None:
    sandbox = make_archive(tmp_path)
    good = tmp_path / "good"
    with sandbox.open_dir() as archive_dir:
        backup(archive_dir, good)
    before = (good / ARCHIVE_FILE).read_bytes()
    damage(sandbox)

    with (
        sandbox.open_dir() as archive_dir,
        pytest.raises(ArchiveDamaged, match=r"\b1 chunk; .* left alone"),
    ):
        backup(archive_dir, good)

    assert (good / ARCHIVE_FILE).read_bytes() == before


def test_a_backup_has_every_row(tmp_path: Path) -> None:
    sandbox = make_archive(tmp_path)
    (path,) = sandbox.home.path.rglob("*.jsonl")
    path.write_bytes(jsonl(thread(prompt("Mend another pump"))))
    sandbox.ingest()
    with path.open("ab") as file:
        file.write(b'{"type":"user","unfin')
    sandbox.ingest()
    starred = Annotations(is_starred=True)
    annotate(sandbox.archive, [SessionId(SESSION)], lambda _: starred)
    with sandbox.open_dir() as archive_dir:
        backup(archive_dir, tmp_path / "copy")

    copy = rows(tmp_path / "copy")

    assert copy == rows(sandbox.archive)
    assert all(copy[table] for table in ("annotation", "chunk", "fragment"))
    assert len(copy["generation"]) == 2


def rows(folder: Path) -> dict[str, list[object]]:
    """Return all rows of an archive."""
    db = apsw.Connection(str(folder / ARCHIVE_FILE))
    names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    found = {
        name: sorted(map(repr, db.execute(f'SELECT * FROM "{name}"')))  # noqa: S608
        for (name,) in list(names)
    }
    db.close()
    return dict(found)


def test_first_backup_of_a_damaged_archive_reports_the_damage(tmp_path: Path) -> None:
    sandbox = make_archive(tmp_path)
    damage(sandbox)

    with (
        sandbox.open_dir() as archive_dir,
        pytest.raises(ArchiveDamaged, match="same damage"),
    ):
        backup(archive_dir, tmp_path / "first")

    assert (tmp_path / "first" / ARCHIVE_FILE).exists()


def test_read_only_archive_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = make_archive(tmp_path)
    opened: list[str] = []
    connect = apsw.Connection

    def on_a_fixed_medium(name: str, flags: int = 0) -> apsw.Connection:
        opened.append(name)
        if "immutable" not in name:
            raise apsw.CantOpenError(name)
        return connect(name, flags=flags)

    monkeypatch.setattr("bygones.store.connect.apsw.Connection", on_a_fixed_medium)

    with Archive.open(sandbox.archive) as archive:
        assert [listed.id for listed in archive.sessions()] == [SESSION]
    assert any("immutable" in name for name in opened)


STARRED, PLAIN = Annotations(is_starred=True), Annotations()


def star(folder: Path, annotations: Annotations = STARRED) -> None:
    annotate(folder, [SessionId(SESSION)], lambda _: annotations)


def make_backup(archive: Path, folder: Path) -> Path:
    with ArchiveDir(archive) as archive_dir:
        backup(archive_dir, folder)
    return folder


def grow(sandbox: Sandbox) -> None:
    for path in sandbox.home.path.rglob(f"{SESSION}.jsonl"):
        with path.open("ab") as file:
            file.write(jsonl(session("z")))
    sandbox.ingest()


def add_session(sandbox: Sandbox) -> None:
    sandbox.home.session(session_id(7), session("a", "b<a"))
    sandbox.ingest()


def begin_line(sandbox: Sandbox) -> None:
    for path in sandbox.home.path.rglob(f"{SESSION}.jsonl"):
        with path.open("ab") as file:
            file.write(b'{"type": "us')
    sandbox.ingest()


def rewrite(sandbox: Sandbox) -> None:
    sandbox.home.session(SESSION, thread(prompt("Another pump")))
    sandbox.ingest()


def move(sandbox: Sandbox) -> None:
    home = sandbox.home.path
    home.rename(home.with_name("moved"))
    sandbox.ingest(home.with_name("moved"))


def erase(sandbox: Sandbox) -> None:
    sources = list(sandbox.sources().values())
    purge(sandbox.archive, sources, sessions=[SessionId(SESSION)])


ADDING = {
    "1 file": (add_session, grow, begin_line, rewrite),
    "1 annotation": (lambda sandbox: star(sandbox.archive),),
    "purges": (erase,),
}
ADDED = [(change, message) for message, changes in ADDING.items() for change in changes]


@pytest.mark.parametrize(("change", "message"), ADDED)
def test_newer_archive_is_not_replaced_by_its_backup(
    tmp_path: Path, change: Callable[[Sandbox], None], message: str
) -> None:
    sandbox = make_archive(tmp_path)
    older = make_backup(sandbox.archive, tmp_path / "older")
    change(sandbox)
    before = sandbox.bytes(), sandbox.rows("SELECT * FROM annotation")

    with pytest.raises(BackupNewer, match=f"is newer than .*: it has {message} that"):
        make_backup(older, sandbox.archive)

    assert (sandbox.bytes(), sandbox.rows("SELECT * FROM annotation")) == before
    assert sandbox.dump()
    make_backup(sandbox.archive, older)
    with ArchiveDir(older) as archive_dir:
        assert len(list(archive_dir.byte_store.sources())) == len(before[0])


@pytest.mark.parametrize("change", [add_session, grow, begin_line, rewrite])
def test_newer_backup_is_not_replaced_by_the_original(
    tmp_path: Path, change: Callable[[Sandbox], None]
) -> None:
    sandbox = make_archive(tmp_path)
    other = make_backup(sandbox.archive, tmp_path / "other")
    star(other)
    change(sandbox)

    with pytest.raises(BackupNewer, match=r"both were written to, .* 1 annotation"):
        make_backup(sandbox.archive, other)


@pytest.mark.parametrize(
    "change", [add_session, grow, begin_line, rewrite, move, erase]
)
def test_older_backup_is_replaced(
    tmp_path: Path, change: Callable[[Sandbox], None]
) -> None:
    sandbox = make_archive(tmp_path)
    star(sandbox.archive)
    older = make_backup(sandbox.archive, tmp_path / "older")
    change(sandbox)

    make_backup(sandbox.archive, older)

    with ArchiveDir(older) as copy, sandbox.open_dir() as archive_dir:
        assert list(copy.byte_store.sources()) == list(archive_dir.byte_store.sources())


def test_removed_star_does_not_prevent_a_backup(
    tmp_path: Path,
) -> None:
    sandbox = make_archive(tmp_path)
    star(sandbox.archive)
    older = make_backup(sandbox.archive, tmp_path / "older")
    star(sandbox.archive, PLAIN)

    make_backup(sandbox.archive, older)

    with Archive.open(older) as archive:
        assert archive.annotations() == {}
    star(older)
    with pytest.raises(BackupNewer, match="1 annotation"):
        make_backup(sandbox.archive, older)


def test_files_added_during_a_backup_are_not_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = make_archive(tmp_path)
    older = make_backup(sandbox.archive, tmp_path / "older")
    inner = ArchiveDB._load_chunk_rows  # between finding a chunk and reading it
    pending = [grow]

    def growing(self: ArchiveDB, *args: int) -> object:
        found = inner(self, *args)
        if pending:
            pending.pop()(sandbox)
        return found

    with sandbox.open_dir() as archive_dir:
        monkeypatch.setattr(ArchiveDB, "_load_chunk_rows", growing)
        backup(archive_dir, older)

    assert pending == []
    assert Archive.verify(older).is_intact
