"""Indexes of an archive: outdated, unfinished, damaged and replaced ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from threading import Thread

import pytest

from bygones.archive import Archive
from bygones.errors import IndexBusy, IndexNotFound, SystemFailure
from bygones.maintenance.purge import purge
from bygones.maintenance.verify import rebuild, verify
from bygones.model.base import NullProgress
from bygones.store import archive_dir as vaults
from bygones.store import index_db as indexing
from bygones.store.archive_dir import ArchiveDir, hash_tables
from tests.build import jsonl, prompt, session, session_id
from tests.store.sandbox import Sandbox, differing_tables

ONE = session_id(1)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.home.session(session_id(2), session("c"))
    sandbox.ingest()
    return sandbox


def indexes(sandbox: Sandbox) -> list[str]:
    return sorted(path.name for path in (sandbox.archive / "index").iterdir())


def test_index_of_an_older_version_is_rebuilt(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = indexes(sandbox)
    before = sandbox.dump()
    monkeypatch.setattr(indexing, "DERIVATION_VERSION", 999)
    with sandbox.open_dir() as reader:
        assert reader.index is None

    report = sandbox.ingest()

    (new,) = indexes(sandbox)
    assert new != old
    assert (report.unchanged, report.bytes) == (2, 0)
    assert sandbox.dump() == before


def test_unfinished_index_is_not_visible(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "DERIVATION_VERSION", 999)
    seen = []

    class Watching:
        def begin(self, what: str, total: int) -> None:
            with sandbox.open_dir() as reader:
                seen.append((what, total > 0, reader.index is not None))

        def advance(self, amount: int) -> None: ...

        def end(self) -> None: ...

    Archive.ingest(sandbox.archive, [sandbox.home.path], progress=Watching())

    assert seen[0] == ("indexing", True, False)
    assert not any(is_there for what, _, is_there in seen[:2])


def test_reader_keeps_the_index_it_opened(sandbox: Sandbox) -> None:
    with sandbox.open_dir() as reader:
        before = hash_tables(reader)

        rebuild(sandbox.archive)
        sandbox.home.session(session_id(3), session("d"))
        sandbox.ingest()
        rebuild(sandbox.archive)

        assert hash_tables(reader) == before
    assert sandbox.dump() != before


def test_reader_opens_the_text_index_of_a_new_index(
    sandbox: Sandbox,
) -> None:
    with sandbox.open_dir() as reader:
        rebuild(sandbox.archive)

        assert len(list(reader.text_index.iter_documents())) == 3
    assert len(indexes(sandbox)) == 1


def test_unfinished_index_is_removed_by_the_next_ingestion(sandbox: Sandbox) -> None:
    half = sandbox.archive / "index" / "building"
    (half / "text").mkdir(parents=True)
    (half / "index.db").write_bytes(b"half")

    with sandbox.open_dir() as reader:
        assert reader.index is not None
    sandbox.ingest()

    assert "building" not in indexes(sandbox)
    rebuild(sandbox.archive)
    assert len(indexes(sandbox)) == 1
    assert differing_tables(sandbox) == []


def test_unfinished_index_is_removed_by_a_rebuild(sandbox: Sandbox) -> None:
    half = sandbox.archive / "index" / "building"
    (half / "text").mkdir(parents=True)
    (half / "index.db").write_bytes(b"half")

    rebuild(sandbox.archive)

    assert len(indexes(sandbox)) == 1


def test_replaced_index_is_removed_after_a_kill(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    (old,) = (sandbox.archive / "index").iterdir()
    copytree(old, tmp_path / "old")
    rebuild(sandbox.archive)
    (new,) = (sandbox.archive / "index").iterdir()
    copytree(tmp_path / "old", old)  # as if it had not come to removing it

    with sandbox.open_dir() as reader:
        assert reader.index_path == new
    assert len(indexes(sandbox)) == 2  # who only reads removes nothing
    sandbox.ingest()

    assert indexes(sandbox) == [new.name]
    assert differing_tables(sandbox) == []


@pytest.mark.parametrize("name", ["index.db", "text/meta.json"])
def test_damaged_index_can_be_rebuilt(sandbox: Sandbox, name: str) -> None:
    before = sandbox.dump()
    (index_path,) = (sandbox.archive / "index").iterdir()
    (index_path / name).write_bytes(b"no index at all" * 500)

    rebuild(sandbox.archive)

    assert sandbox.dump() == before


def test_deleted_index_is_rebuilt(sandbox: Sandbox) -> None:
    before = sandbox.dump()
    with sandbox.open_dir(write=True) as opened:
        opened.remove_all_indexes()
    assert not (sandbox.archive / "index").exists()

    sandbox.ingest()

    assert sandbox.dump() == before


def test_an_index_belongs_to_one_archive(sandbox: Sandbox, tmp_path: Path) -> None:
    other = Sandbox(tmp_path / "other")
    other.home.session(ONE, session("x"))
    other.ingest()
    (index_path,) = (other.archive / "index").iterdir()
    index_path.rename(sandbox.archive / "index" / index_path.name)

    with sandbox.open_dir() as reader:
        assert reader.index is not None
        assert reader.index_path is not None
        assert reader.index_path.name != index_path.name


def test_outdated_index_is_updated(sandbox: Sandbox, tmp_path: Path) -> None:
    lagging = tmp_path / "lagging"
    (sandbox.archive / "index").rename(lagging)
    with sandbox.home.session(ONE, session("a", "b<a")).open("ab") as file:
        file.write(jsonl([prompt("later")]))
    sandbox.ingest()
    with sandbox.open_dir(write=True) as opened:
        opened.remove_all_indexes()
    lagging.rename(sandbox.archive / "index")

    sandbox.ingest()

    assert sandbox.index_rows("SELECT count(*) FROM record") == [(4,)]
    assert differing_tables(sandbox) == []


def test_exists_reports_an_archive(sandbox: Sandbox) -> None:
    assert ArchiveDir.exists(sandbox.archive)
    assert not ArchiveDir.exists(sandbox.home.path)


def test_text_index_in_a_read_only_folder_can_be_read(sandbox: Sandbox) -> None:
    (index_path,) = (sandbox.archive / "index").iterdir()
    lock = index_path / "text" / ".tantivy-meta.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()  # which it cannot open, even as root

    with sandbox.open_dir() as reader:
        found = len(list(reader.text_index.iter_documents()))

    assert found == 3
    assert verify(sandbox.archive, deep=True).is_intact


def test_index_without_its_text_index_is_rebuilt(sandbox: Sandbox) -> None:
    before = sandbox.dump()
    (index_path,) = (sandbox.archive / "index").iterdir()
    (index_path / "text" / "meta.json").unlink()
    sandbox.home.session(session_id(3), session("d"))

    sandbox.ingest()

    assert differing_tables(sandbox) == []
    assert sandbox.dump()["text"] != before["text"]


def test_partly_removed_index_is_ignored(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sandbox.open_dir(write=True) as opened:
        monkeypatch.setattr(
            vaults, "_remove_tree", lambda _: None
        )  # stopped on its way
        with pytest.raises(SystemFailure):
            opened.remove_all_indexes()
    monkeypatch.undo()

    with sandbox.open_dir() as opened:
        assert opened.index is None
    sandbox.ingest()

    assert indexes(sandbox) != []
    assert differing_tables(sandbox) == []


class _CallOnce(NullProgress):
    """Calls a function once, when work starts."""

    def __init__(self, happen: Callable[[], None]) -> None:
        self.due = [happen]

    def begin(self, stage: str, total: int) -> None:  # noqa: ARG002
        if self.due:
            self.due.pop()()


def purge_while(sandbox: Sandbox, happen: Callable[[], None]) -> None:
    """Purge a session, and call a function while the index is rebuilt."""
    sources = [sandbox.sources()[f"{ONE}.jsonl"]]
    progress = _CallOnce(happen)
    purge(sandbox.archive, sources, progress=progress)
    assert progress.due == []


def test_reader_waits_for_the_index_of_a_purge(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vaults, "_INDEX_WAIT_SECONDS", 300.0)
    found: list[str] = []

    def read() -> None:
        with Archive.open(sandbox.archive) as archive:
            found.extend(listed.id for listed in archive.sessions())

    reader = Thread(target=read)
    purge_while(sandbox, reader.start)
    reader.join()

    assert found == [session_id(2)]


def test_long_purge_is_reported_to_readers(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vaults, "_INDEX_WAIT_SECONDS", 0.0)

    def read() -> None:
        with (
            Archive.open(sandbox.archive) as archive,
            pytest.raises(IndexBusy, match="a purge is running"),
        ):
            next(archive.sessions())

    purge_while(sandbox, read)


def test_text_index_removed_by_a_purge_is_not_reported_as_damaged(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vaults, "_INDEX_WAIT_SECONDS", 0.0)
    with sandbox.open_dir() as reader:

        def read() -> None:
            with pytest.raises(IndexBusy, match="a purge is running"):
                _ = reader.text_index

        purge_while(sandbox, read)


def test_index_that_is_being_built_is_reported_as_busy(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "DERIVATION_VERSION", 999)

    def read() -> None:
        with (
            Archive.open(sandbox.archive) as archive,
            pytest.raises(IndexBusy, match="is building the index"),
        ):
            next(archive.sessions())

    with Archive.open(sandbox.archive) as archive, pytest.raises(IndexNotFound):
        next(archive.sessions())
    Archive.rebuild(sandbox.archive, progress=_CallOnce(read))


def test_index_replaced_while_opening_is_followed_by_the_next(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = [sandbox.archive]

    def opening(
        index_path: Path, *, write: bool, is_new: bool, fingerprint: str
    ) -> indexing.IndexDB:
        if pending and not write:
            rebuild(pending.pop())
        return indexing.IndexDB(
            index_path, write=write, is_new=is_new, fingerprint=fingerprint
        )

    monkeypatch.setattr(vaults, "IndexDB", opening)

    with Archive.open(sandbox.archive) as archive:
        assert len(list(archive.sessions())) == 2
    assert pending == []
