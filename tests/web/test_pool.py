"""The pool frees what is not used, also in a server that runs for weeks."""

from __future__ import annotations

import errno
import gc
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path
from threading import Event

import apsw
import pytest

from bygones.archive import Archive
from bygones.errors import ArchiveClosed
from bygones.query.parser import parse_query
from bygones.search import texts
from bygones.web.conversation_view import open_view
from bygones.web.pool import ArchivePool, OpenSession, load_summaries
from tests.build import jsonl, prompt, session_id
from tests.usage.usage_archive import NOW
from tests.web.archives import LONG, PLAIN, WebArchive, build_archive


@pytest.fixture
def web_archive(tmp_path: Path) -> WebArchive:
    return build_archive(tmp_path)


def grow(web_archive: WebArchive, number: int, word: str = "More") -> None:
    path = web_archive.home.path / "projects" / "-work-demo" / f"{PLAIN}.jsonl"
    with path.open("ab") as file:
        file.write(jsonl([prompt(f"{word} {number}") | {"sessionId": PLAIN}]))
    Archive.ingest(web_archive.folder, [web_archive.home.path])


def test_old_version_of_a_grown_session_is_freed(web_archive: WebArchive) -> None:
    readers, seen, connections = ArchivePool(web_archive.folder), [], []
    for number in range(5):
        grow(web_archive, number)
        readers.invalidate()
        with readers.session(PLAIN) as open_session:
            assert open_session.session.live_branch.messages
            assert open_view(open_session, "", 0).find_message("nowhere") is None
            seen.append(weakref.ref(open_session))
        del open_session
        connections.append(len(apsw.connections()))

    assert [one() is None for one in seen] == [True, True, True, True, False]
    # From the second one on, the archive of the old version waits for the next.
    assert connections[1:] == connections[1:2] * 4
    readers.close()


def test_changes_are_read_through_open_databases(
    web_archive: WebArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = ArchivePool(web_archive.folder)
    with readers.archive() as archive:
        before = archive.session_summary(PLAIN).message_count
        query = parse_query("pears", now=NOW, zone=UTC)
        assert archive.search(query).session_count == 0
        with readers.session(PLAIN):
            in_use = apsw.connections()
    with monkeypatch.context() as patch:
        patch.setattr(Archive, "open", None)
        for number in range(3):
            grow(web_archive, number, "pears")
            readers.invalidate()
            with readers.archive() as archive:
                found = archive.session_summary(PLAIN).message_count
                assert found == before + number + 1
                assert archive.search(query).sessions[0].hit_count == number + 1
    assert apsw.connections() == in_use
    readers.close()


def test_replaced_archive_is_opened_again(
    web_archive: WebArchive, tmp_path: Path
) -> None:
    with Archive.open(web_archive.folder) as archive:
        archive.backup(tmp_path / "copy")
    grow(web_archive, 1)
    readers = ArchivePool(web_archive.folder)
    with readers.archive() as archive:
        grown = archive.sources()[0].stored_bytes
    for file in web_archive.folder.glob("archive.db*"):
        file.unlink()
    (tmp_path / "copy" / "archive.db").rename(web_archive.folder / "archive.db")
    readers.invalidate()
    with readers.archive() as archive:
        assert archive.sources()[0].stored_bytes < grown
    readers.close()


def test_archive_that_cannot_be_refreshed_is_closed(
    web_archive: WebArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = ArchivePool(web_archive.folder)
    with readers.archive() as one, readers.archive() as other:
        pass

    def fail(_: Archive) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(Archive, "refresh", fail)
        readers.invalidate()
    assert one.is_closed
    assert other.is_closed
    with readers.archive() as archive:
        assert archive.session_summary(PLAIN).id == PLAIN
    readers.close()


def gone(*sessions: OpenSession) -> list[bool]:
    return [session.is_released for session in sessions]


def test_session_stays_open_while_it_is_used(web_archive: WebArchive) -> None:
    readers = ArchivePool(web_archive.folder, max_open_sessions=1)
    with readers.session(PLAIN) as first:
        with readers.session(LONG) as second:
            message = first.session.live_branch.messages[0]
            assert any(message.blocks)
        assert list(first.archive.sessions())
        assert gone(first, second) == [False, False]

    assert gone(first, second) == [True, False]
    assert not first.loaded_messages
    readers.close()
    assert gone(first, second) == [True, True]
    for one in (first, second):
        with pytest.raises(ArchiveClosed):
            list(one.archive.sessions())


class Litter:
    """A reference cycle, which only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_collected_after_loading_sessions(web_archive: WebArchive) -> None:
    readers = ArchivePool(web_archive.folder, max_open_sessions=1)
    gc.disable()
    try:
        litter = weakref.ref(Litter())
        for _ in range(8):
            for name in (PLAIN, LONG):
                with readers.session(name) as open_session:
                    assert open_session.session.live_branch.messages
        assert litter() is None
    finally:
        gc.enable()
        gc.unfreeze()
    readers.close()


def test_memory_of_a_search_is_freed_with_its_archive(
    web_archive: WebArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    html: list[weakref.ref[texts.TextLoader]] = []

    class Noted(texts.TextLoader):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, **named)  # type: ignore[arg-type]
            html.append(weakref.ref(self))

    monkeypatch.setattr("bygones.search.service.TextLoader", Noted)
    with Archive.open(web_archive.folder) as archive:
        query = parse_query("lines is:abandoned", now=NOW, zone=UTC)
        archive.search(query)
        archive.search(parse_query("line", now=NOW, zone=UTC))
    gc.collect()

    assert html
    assert [one() for one in html] == [None, None]


def test_closed_archive_keeps_no_text(web_archive: WebArchive) -> None:
    archive = Archive.open(web_archive.folder)
    session = archive.session(session_id(1))
    assert session.live_branch.messages[0].blocks
    opened, folder = archive._loader, archive._archive_dir
    assert (
        opened.record.cache_info().currsize
        + opened._cached_content.cache_info().currsize
    )
    archive.close()

    assert not opened.record.cache_info().currsize
    assert not opened._cached_content.cache_info().currsize
    assert not folder.byte_store._cached_chunk.cache_info().currsize


def test_open_sessions_use_archives_that_never_searched(
    web_archive: WebArchive,
) -> None:
    readers = ArchivePool(web_archive.folder, max_open_sessions=2)
    for name in (PLAIN, LONG, session_id(3), session_id(4)):
        with readers.archive() as archive:
            assert archive.search(parse_query("line", now=NOW, zone=UTC)).session_count
        with readers.session(name) as open_session:
            assert open_session.archive is not archive
            assert open_session.archive._open_searcher is None

    with readers.archive() as archive:
        assert archive._open_searcher is not None
    readers.close()


def test_archives_of_a_pool_share_search_statistics(web_archive: WebArchive) -> None:
    readers = ArchivePool(web_archive.folder)
    query = parse_query("line", now=NOW, zone=UTC)
    with readers.archive() as one, readers.archive() as other:
        assert one is not other
        assert one.search(query).session_count == other.search(query).session_count > 0
        assert one._open_searcher is not None
        assert other._open_searcher is not None
        assert one._open_searcher.stats is other._open_searcher.stats
        known = weakref.ref(one._open_searcher.stats)
    grow(web_archive, 1)
    readers.invalidate()
    assert known() is None  # although there was no search in between
    readers.close()


def test_concurrent_requests_share_a_cached_result(web_archive: WebArchive) -> None:
    readers = ArchivePool(web_archive.folder)
    parameters, is_asked, may_answer = [], Event(), Event()

    def ask(archive: Archive) -> list[str]:
        parameters.append(archive)
        is_asked.set()
        assert may_answer.wait(60)
        return [session.id for session in archive.sessions()]

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(readers.cached, "sessions", ask)
        assert is_asked.wait(60)
        others = [threads.submit(readers.cached, "sessions", ask) for _ in range(3)]
        may_answer.set()
        answers = [one.result() for one in (first, *others)]
        assert len(parameters) == 1
        assert all(answer is answers[0] for answer in answers)

        readers.invalidate()
        assert readers.cached("sessions", ask) is not answers[0]
        assert len(parameters) == 2
    readers.close()


def test_stale_result_is_freed_before_the_new_one_is_computed(
    web_archive: WebArchive,
) -> None:
    class Large:
        """A response."""

    readers = ArchivePool(web_archive.folder)
    old = weakref.ref(readers.cached("large", lambda _: Large()))
    assert old() is not None
    readers.invalidate()

    def ask(_: Archive) -> Large:
        assert old() is None
        return Large()

    assert isinstance(readers.cached("large", ask), Large)
    readers.close()


def test_summaries_share_equal_values(web_archive: WebArchive) -> None:
    with Archive.open(web_archive.folder) as archive:
        content = load_summaries(archive)
        assert list(content) == list(archive.sessions(include_empty=True))

    for name in ("project", "project_keys", "models", "versions", "git_branches"):
        values = [getattr(one, name) for one in content]
        assert len({id(value) for value in values}) == len(set(values)) < len(values)
