"""Chunks of bytes: hashed, complete and private."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from bygones.errors import ArchiveDamaged, ArchiveEmpty, ArchiveNotFound
from bygones.ingest.run import ingest
from bygones.model.base import SourceFile, SourceId, SourceKind
from bygones.store.archive_db import CHUNK_SIZE, ArchiveDB, StoredSource
from bygones.store.compression import compress_and_hash, sha256_digest
from tests.build import Home, jsonl, prompt, session, session_id
from tests.store.sandbox import Sandbox

SOURCE = SourceFile(
    id=SourceId("/home/a.jsonl"),
    home="/home",
    relative_path="a.jsonl",
    kind=SourceKind.SESSION,
    size=0,
    mtime_ns=0,
)


@pytest.fixture
def chunks(tmp_path: Path) -> Iterator[ArchiveDB]:
    with closing(ArchiveDB(tmp_path / "archive", write=True)) as opened:
        yield opened


def store_blocks(chunks: ArchiveDB, stored: StoredSource, *raws: bytes) -> int:
    """Store blocks one after another; return the end offset."""
    end = 0
    for raw in raws:
        chunks.add_chunk(stored, end, end + len(raw), compress_and_hash(raw))
        end += len(raw)
    return end


def corrupt(chunks: ArchiveDB, sql: str, *values: bytes) -> None:
    """Change the database with plain SQLite."""
    with closing(sqlite3.connect(chunks.path)) as db, db:
        db.execute(sql, values)


def test_any_range_of_bytes_can_be_read(chunks: ArchiveDB) -> None:
    stored = chunks.add_source(SOURCE)
    store_blocks(chunks, stored, b"one\n", b"two\n", b"three\n")

    whole = b"one\ntwo\nthree\n"
    for offset in range(len(whole) + 2):
        for length in range(len(whole) + 2):
            found = chunks.read_bytes(stored.number, 0, offset, length)
            assert found == whole[offset : offset + length]


@pytest.mark.parametrize("start", [0, 4, 8])
def test_range_without_a_row_is_reported_as_damaged(
    chunks: ArchiveDB, start: int
) -> None:
    whole = b"one\ntwo\nsix\n"
    stored = chunks.add_source(SOURCE)
    end = store_blocks(chunks, stored, b"one\n", b"two\n", b"six\n")
    chunks.save_read_state(structs.replace(stored, stored_bytes=end, size=end))
    chunks.db.execute("DELETE FROM chunk WHERE start = ?", (start,))

    for offset in range(end):
        for length in range(1, end + 2):
            stop = min(offset + length, end)
            arguments = (stored.number, 0, offset, length)
            if offset < start + 4 and stop > start:
                with pytest.raises(ArchiveDamaged, match="has no bytes"):
                    chunks.read_bytes(*arguments)
                with pytest.raises(ArchiveDamaged, match="has no bytes"):
                    chunks.read_unchecked(*arguments)
                assert chunks.read_ranges(stored.number, 0, [(offset, length)]) == [b""]
            else:
                assert chunks.read_bytes(*arguments) == whole[offset:stop]
    with pytest.raises(ArchiveDamaged, match="has no bytes"):
        list(chunks.read_chunks(stored.number, 0))


def test_chunk_with_changed_bytes_is_reported_as_damaged(chunks: ArchiveDB) -> None:
    stored = chunks.add_source(SOURCE)
    store_blocks(chunks, stored, b"one\n", b"two\n", b"six\n")
    _, other = compress_and_hash(b"TWO\n")
    corrupt(chunks, "UPDATE chunk SET frame = ? WHERE start = 4", other)

    with pytest.raises(ArchiveDamaged, match="different hash"):
        chunks.read_bytes(stored.number, 0, 0, 12)

    assert chunks.read_bytes(stored.number, 0, 0, 4) == b"one\n"
    assert chunks.read_bytes(stored.number, 0, 8, 4) == b"six\n"
    assert [raw for _, raw in chunks.try_read_chunks(stored.number, 0)] == [
        b"one\n",
        None,
        b"six\n",
    ]


def test_invalid_frame_is_reported_as_damaged(chunks: ArchiveDB) -> None:
    stored = chunks.add_source(SOURCE)
    store_blocks(chunks, stored, b"one\n")
    chunks.set_fragment(stored, 4, b"half")
    corrupt(chunks, "UPDATE chunk SET frame = x'00'")
    corrupt(chunks, "UPDATE fragment SET hash = x'00'")

    with pytest.raises(ArchiveDamaged):
        chunks.read_bytes(stored.number, 0, 0, 4)
    with pytest.raises(ArchiveDamaged):
        chunks.fragment(stored.number, 0)


def test_reused_chunk_id_does_not_return_cached_bytes(
    chunks: ArchiveDB,
) -> None:
    stored = chunks.add_source(SOURCE)
    stored = StoredSource(
        number=stored.number, home="/home", path="a", kind=stored.kind, stored_bytes=4
    )
    store_blocks(chunks, stored, b"one\n")

    assert chunks.pop_small_last_chunk(stored) == (0, b"one\n")
    store_blocks(chunks, stored, b"other\n")

    assert chunks.read_bytes(stored.number, 0, 0, 9) == b"other\n"


def test_only_a_small_last_chunk_is_popped(
    chunks: ArchiveDB,
) -> None:
    stored = chunks.add_source(SOURCE)
    large = b"x" * CHUNK_SIZE
    stored = StoredSource(
        number=stored.number,
        home="/home",
        path="a",
        kind=stored.kind,
        stored_bytes=CHUNK_SIZE,
    )
    store_blocks(chunks, stored, large)

    assert chunks.pop_small_last_chunk(stored) == (CHUNK_SIZE, b"")
    assert chunks.read_bytes(stored.number, 0, 0, CHUNK_SIZE) == large


def test_many_small_appends_make_few_chunks(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), [])
    for number in range(40):
        with path.open("ab") as file:
            file.write(jsonl([prompt(f"{number}")]))
        sandbox.ingest()

    assert sandbox.generations(path) == [path.read_bytes()]
    assert sandbox.rows("SELECT count(*) FROM chunk") == [(1,)]


def test_giant_line_is_stored_in_several_chunks(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    content = os.urandom(2_200_000).hex()
    path = sandbox.home.session(session_id(1), [prompt(content), prompt("after")])

    sandbox.ingest()
    with path.open("ab") as file:
        file.write(jsonl([prompt("later")]))
    sandbox.ingest()

    assert sandbox.generations(path) == [path.read_bytes()]
    assert sandbox.rows("SELECT max(stop - start) <= 4194304 FROM chunk") == [(1,)]
    rows = sandbox.index_rows("SELECT count(*) FROM record")
    assert rows == [(3,)]


def test_fragment_replaces_the_previous_one(chunks: ArchiveDB) -> None:
    stored = chunks.add_source(SOURCE)

    chunks.set_fragment(stored, 0, b"ha")
    chunks.set_fragment(stored, 0, b"half")
    assert chunks.fragment(stored.number, 0) == b"half"

    chunks.set_fragment(stored, 0, b"")
    assert chunks.fragment(stored.number, 0) == b""


def test_new_generation_leaves_the_old_one_unchanged(chunks: ArchiveDB) -> None:
    stored = chunks.add_source(SOURCE)
    store_blocks(chunks, stored, b"old\n")
    chunks.set_fragment(stored, 4, b"ha")

    next_generation = chunks.start_generation(stored)
    store_blocks(chunks, next_generation, b"new\n")

    assert next_generation.generation == 1
    assert chunks.read_bytes(stored.number, 0, 0, 9) == b"old\n"
    assert chunks.read_bytes(stored.number, 1, 0, 9) == b"new\n"
    assert chunks.fragment(stored.number, 0) == b"ha"


def test_sources_below_returns_sources_in_a_folder(chunks: ArchiveDB) -> None:
    for path in ("a/b/1", "a/b/c/2", "a/b", "a/bc/3", "a/b.x", "b/b/1"):
        chunks.add_source(
            SourceFile(
                id=SourceId(f"/home/{path}"),
                home="/home",
                relative_path=path,
                kind=SourceKind.SESSION,
                size=0,
                mtime_ns=0,
            )
        )

    found = {stored.path for stored in chunks.sources_below("/home", "a/b/")}

    assert found == {"a/b/1", "a/b/c/2"}


def test_chunks_are_stored_with_their_sha256(chunks: ArchiveDB) -> None:
    stored = chunks.add_source(SOURCE)
    store_blocks(chunks, stored, b"one\n")

    assert chunks.chunk_hashes(stored.number, 0) == [(0, 4, sha256_digest(b"one\n"))]
    assert sha256_digest(b"").hex().startswith("e3b0c442")


def test_archive_without_a_schema_cannot_be_read(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "archive.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
    assert (tmp_path / "archive.db").stat().st_size

    with pytest.raises(ArchiveNotFound):
        ArchiveDB(tmp_path)


@pytest.mark.parametrize("write", [True, False])
def test_empty_file_is_not_an_archive(tmp_path: Path, *, write: bool) -> None:
    (tmp_path / "archive.db").touch()

    with pytest.raises(ArchiveEmpty):
        ArchiveDB(tmp_path, write=write)


def test_interrupted_creation_leaves_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bygones.store.archive_db.migrate", stop)
    with pytest.raises(KeyboardInterrupt):
        ArchiveDB(tmp_path, write=True)
    monkeypatch.undo()
    assert not (tmp_path / "archive.db").exists()

    ArchiveDB(tmp_path, write=True).close()

    assert [path.name for path in tmp_path.iterdir()] == ["archive.db"]


def test_log_of_a_removed_archive_is_not_applied_to_a_new_one(
    tmp_path: Path,
) -> None:
    first = ArchiveDB(tmp_path, write=True)
    first.add_source(SOURCE)
    shutil.copyfile(tmp_path / "archive.db-wal", tmp_path / "log")
    first.close()
    (tmp_path / "archive.db").unlink()
    (tmp_path / "log").rename(tmp_path / "archive.db-wal")

    with closing(ArchiveDB(tmp_path, write=True)) as chunks:
        assert chunks.is_empty
        assert chunks.check_integrity() == "ok"


def test_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "archive.db").write_bytes(b"not a database at all" * 99)

    for write in (False, True):
        with pytest.raises(ArchiveDamaged):
            ArchiveDB(tmp_path, write=write)


def test_committed_data_survives_without_a_checkpoint(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), session("a"))
    with sandbox.open_dir(write=True) as archive_dir:
        assert (
            archive_dir.byte_store.archive_id
        )  # its being open keeps the log as it is
        sandbox.ingest()
        assert (sandbox.archive / "archive.db-wal").stat().st_size > 0

        assert sandbox.generations(path) == [path.read_bytes()]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_and_folders_are_private(tmp_path: Path, umask: int) -> None:
    home, archive = Home(tmp_path / "home"), tmp_path / "deep" / "archive"
    path = home.session(session_id(1), session("a", "b<a"))
    before = os.umask(umask)
    try:
        ingest(archive, [home.path])
        path.write_bytes(path.read_bytes() + jsonl(session("c<b")))
        with closing(ArchiveDB(archive)) as reader:
            assert reader.archive_id  # so that the log and its index are there too
            ingest(archive, [home.path])
            reader.backup(archive / "copy.db")
            modes = {
                str(found.relative_to(tmp_path)): stat.S_IMODE(found.stat().st_mode)
                for found in (tmp_path / "deep").rglob("*")
            }
        modes["deep"] = stat.S_IMODE((tmp_path / "deep").stat().st_mode)
    finally:
        assert os.umask(before) == umask

    folders = {name for name in modes if (tmp_path / name).is_dir()}
    assert {modes[name] for name in folders} == {0o700}
    assert {modes[name] for name in modes.keys() - folders} == {0o600}
    assert {"archive.db-wal", "archive.db-shm"} <= {Path(name).name for name in modes}
    assert any(name.endswith(".term") for name in modes)
