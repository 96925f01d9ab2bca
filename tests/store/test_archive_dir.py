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
from tests.store.keeping import Keeping, unlike_rebuilt

ONE = session_id(1)


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    keeping = Keeping(tmp_path)
    keeping.home.session(ONE, session("a", "b<a"))
    keeping.home.session(session_id(2), session("c"))
    keeping.ingest()
    return keeping


def indexes(keeping: Keeping) -> list[str]:
    return sorted(path.name for path in (keeping.archive / "index").iterdir())


def test_index_of_an_older_version_is_rebuilt(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = indexes(keeping)
    before = keeping.dump()
    monkeypatch.setattr(indexing, "DERIVATION_VERSION", 999)
    with keeping.vault() as reader:
        assert reader.index is None

    report = keeping.ingest()

    (new,) = indexes(keeping)
    assert new != old
    assert (report.unchanged, report.bytes) == (2, 0)
    assert keeping.dump() == before


def test_unfinished_index_is_not_visible(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "DERIVATION_VERSION", 999)
    seen = []

    class Watching:
        def begin(self, what: str, total: int) -> None:
            with keeping.vault() as reader:
                seen.append((what, total > 0, reader.index is not None))

        def advance(self, amount: int) -> None: ...

        def end(self) -> None: ...

    Archive.ingest(keeping.archive, [keeping.home.path], progress=Watching())

    assert seen[0] == ("indexing", True, False)
    assert not any(is_there for what, _, is_there in seen[:2])


def test_reader_keeps_the_index_it_opened(keeping: Keeping) -> None:
    with keeping.vault() as reader:
        before = hash_tables(reader)

        rebuild(keeping.archive)
        keeping.home.session(session_id(3), session("d"))
        keeping.ingest()
        rebuild(keeping.archive)

        assert hash_tables(reader) == before
    assert keeping.dump() != before


def test_reader_opens_the_text_index_of_a_new_index(
    keeping: Keeping,
) -> None:
    with keeping.vault() as reader:
        rebuild(keeping.archive)

        assert len(list(reader.text_index.iter_documents())) == 3
    assert len(indexes(keeping)) == 1


def test_unfinished_index_is_removed_by_the_next_ingestion(keeping: Keeping) -> None:
    half = keeping.archive / "index" / "building"
    (half / "text").mkdir(parents=True)
    (half / "index.db").write_bytes(b"half")

    with keeping.vault() as reader:
        assert reader.index is not None
    keeping.ingest()

    assert "building" not in indexes(keeping)
    rebuild(keeping.archive)
    assert len(indexes(keeping)) == 1
    assert unlike_rebuilt(keeping) == []


def test_unfinished_index_is_removed_by_a_rebuild(keeping: Keeping) -> None:
    half = keeping.archive / "index" / "building"
    (half / "text").mkdir(parents=True)
    (half / "index.db").write_bytes(b"half")

    rebuild(keeping.archive)

    assert len(indexes(keeping)) == 1


def test_replaced_index_is_removed_after_a_kill(
    keeping: Keeping, tmp_path: Path
) -> None:
    (old,) = (keeping.archive / "index").iterdir()
    copytree(old, tmp_path / "old")
    rebuild(keeping.archive)
    (new,) = (keeping.archive / "index").iterdir()
    copytree(tmp_path / "old", old)  # as if it had not come to removing it

    with keeping.vault() as reader:
        assert reader.index_path == new
    assert len(indexes(keeping)) == 2  # who only reads removes nothing
    keeping.ingest()

    assert indexes(keeping) == [new.name]
    assert unlike_rebuilt(keeping) == []


@pytest.mark.parametrize("name", ["index.db", "text/meta.json"])
def test_damaged_index_can_be_rebuilt(keeping: Keeping, name: str) -> None:
    before = keeping.dump()
    (place,) = (keeping.archive / "index").iterdir()
    (place / name).write_bytes(b"no index at all" * 500)

    rebuild(keeping.archive)

    assert keeping.dump() == before


def test_deleted_index_is_rebuilt(keeping: Keeping) -> None:
    before = keeping.dump()
    with keeping.vault(write=True) as vault:
        vault.remove_all_indexes()
    assert not (keeping.archive / "index").exists()

    keeping.ingest()

    assert keeping.dump() == before


def test_an_index_belongs_to_one_archive(keeping: Keeping, tmp_path: Path) -> None:
    other = Keeping(tmp_path / "other")
    other.home.session(ONE, session("x"))
    other.ingest()
    (place,) = (other.archive / "index").iterdir()
    place.rename(keeping.archive / "index" / place.name)

    with keeping.vault() as reader:
        assert reader.index is not None
        assert reader.index_path is not None
        assert reader.index_path.name != place.name


def test_outdated_index_is_updated(keeping: Keeping, tmp_path: Path) -> None:
    lagging = tmp_path / "lagging"
    (keeping.archive / "index").rename(lagging)
    with keeping.home.session(ONE, session("a", "b<a")).open("ab") as file:
        file.write(jsonl([prompt("later")]))
    keeping.ingest()
    with keeping.vault(write=True) as vault:
        vault.remove_all_indexes()
    lagging.rename(keeping.archive / "index")

    keeping.ingest()

    assert keeping.index_rows("SELECT count(*) FROM record") == [(4,)]
    assert unlike_rebuilt(keeping) == []


def test_exists_reports_an_archive(keeping: Keeping) -> None:
    assert ArchiveDir.exists(keeping.archive)
    assert not ArchiveDir.exists(keeping.home.path)


def test_text_index_in_a_read_only_folder_can_be_read(keeping: Keeping) -> None:
    (place,) = (keeping.archive / "index").iterdir()
    lock = place / "text" / ".tantivy-meta.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()  # which it cannot open, even as root

    with keeping.vault() as reader:
        found = len(list(reader.text_index.iter_documents()))

    assert found == 3
    assert verify(keeping.archive, deep=True).is_intact


def test_index_without_its_text_index_is_rebuilt(keeping: Keeping) -> None:
    before = keeping.dump()
    (place,) = (keeping.archive / "index").iterdir()
    (place / "text" / "meta.json").unlink()
    keeping.home.session(session_id(3), session("d"))

    keeping.ingest()

    assert unlike_rebuilt(keeping) == []
    assert keeping.dump()["text"] != before["text"]


def test_partly_removed_index_is_ignored(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    with keeping.vault(write=True) as vault:
        monkeypatch.setattr(
            vaults, "_remove_tree", lambda _: None
        )  # stopped on its way
        with pytest.raises(SystemFailure):
            vault.remove_all_indexes()
    monkeypatch.undo()

    with keeping.vault() as vault:
        assert vault.index is None
    keeping.ingest()

    assert indexes(keeping) != []
    assert unlike_rebuilt(keeping) == []


class _CallOnce(NullProgress):
    """Calls a function once, when work starts."""

    def __init__(self, happen: Callable[[], None]) -> None:
        self.due = [happen]

    def begin(self, stage: str, total: int) -> None:  # noqa: ARG002
        if self.due:
            self.due.pop()()


def purge_while(keeping: Keeping, happen: Callable[[], None]) -> None:
    """Purge a session, and call a function while the index is rebuilt."""
    sources = [keeping.sources()[f"{ONE}.jsonl"]]
    progress = _CallOnce(happen)
    purge(keeping.archive, sources, progress=progress)
    assert progress.due == []


def test_reader_waits_for_the_index_of_a_purge(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vaults, "_INDEX_WAIT_SECONDS", 300.0)
    found: list[str] = []

    def read() -> None:
        with Archive.open(keeping.archive) as archive:
            found.extend(listed.id for listed in archive.sessions())

    reader = Thread(target=read)
    purge_while(keeping, reader.start)
    reader.join()

    assert found == [session_id(2)]


def test_long_purge_is_reported_to_readers(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vaults, "_INDEX_WAIT_SECONDS", 0.0)

    def read() -> None:
        with (
            Archive.open(keeping.archive) as archive,
            pytest.raises(IndexBusy, match="a purge is running"),
        ):
            next(archive.sessions())

    purge_while(keeping, read)


def test_text_index_removed_by_a_purge_is_not_reported_as_damaged(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vaults, "_INDEX_WAIT_SECONDS", 0.0)
    with keeping.vault() as reader:

        def read() -> None:
            with pytest.raises(IndexBusy, match="a purge is running"):
                _ = reader.text_index

        purge_while(keeping, read)


def test_index_that_is_being_built_is_reported_as_busy(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "DERIVATION_VERSION", 999)

    def read() -> None:
        with (
            Archive.open(keeping.archive) as archive,
            pytest.raises(IndexBusy, match="is building the index"),
        ):
            next(archive.sessions())

    with Archive.open(keeping.archive) as archive, pytest.raises(IndexNotFound):
        next(archive.sessions())
    Archive.rebuild(keeping.archive, progress=_CallOnce(read))


def test_index_replaced_while_opening_is_followed_by_the_next(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = [keeping.archive]

    def opening(place: Path, *, write: bool, fingerprint: str) -> indexing.IndexDB:
        if pending and not write:
            rebuild(pending.pop())
        return indexing.IndexDB(place, write=write, fingerprint=fingerprint)

    monkeypatch.setattr(vaults, "IndexDB", opening)

    with Archive.open(keeping.archive) as archive:
        assert len(list(archive.sessions())) == 2
    assert pending == []
