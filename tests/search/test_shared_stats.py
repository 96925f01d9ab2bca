"""Statistics that several open archives share."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.errors import IndexNotFound
from bygones.maintenance.purge import purge
from bygones.maintenance.verify import rebuild
from bygones.model.base import SessionId
from bygones.model.summary import Annotations
from bygones.query.parser import parse_query
from bygones.search.scoring import SearchStats, SharedSearchStats
from bygones.store.archive_dir import ArchiveDir
from bygones.store.local_reader import LocalReader
from tests.build import prompt, reply, session_id, thread, title
from tests.search.searching import NOW
from tests.store.sandbox import Sandbox


def add(sandbox: Sandbox, number: int, content: str) -> None:
    records = thread(prompt(content), reply(f"so be it, {content}"))
    sandbox.home.session(session_id(number), [*records, title(f"About {content}")])
    sandbox.ingest()


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    add(sandbox, 1, "apples")
    add(sandbox, 2, "pears")
    return sandbox


@pytest.fixture
def shared_stats(sandbox: Sandbox) -> Iterator[SharedSearchStats]:
    found = SharedSearchStats(sandbox.archive)
    yield found
    found.close()


def found(archive: Archive, text: str) -> list[str]:
    query = parse_query(text, now=NOW, zone=UTC)
    return sorted(one.summary.title.text for one in archive.search(query).sessions)


def known(archive: Archive) -> SearchStats:
    assert archive._open_searcher is not None
    return archive._open_searcher.stats


def test_two_archives_share_statistics(
    sandbox: Sandbox, shared_stats: SharedSearchStats
) -> None:
    with (
        Archive.open(sandbox.archive, shared_stats) as one,
        Archive.open(sandbox.archive, shared_stats) as other,
    ):
        assert found(one, "apples") == found(other, "apples") == ["About apples"]
        assert known(one) is known(other)

    with Archive.open(sandbox.archive, shared_stats) as third:
        assert found(third, "pears") == ["About pears"]
        assert known(third) is shared_stats.stats_for(third._reader)


def test_unchanged_archive_is_not_loaded_again(
    sandbox: Sandbox, shared_stats: SharedSearchStats
) -> None:
    with Archive.open(sandbox.archive, shared_stats) as archive:
        found(archive, "apples")
        before = known(archive)
        archive.refresh()
        assert found(archive, "apples") == ["About apples"]
        assert known(archive) is before


def test_new_sessions_replace_the_statistics_for_all(
    sandbox: Sandbox, shared_stats: SharedSearchStats
) -> None:
    with (
        Archive.open(sandbox.archive, shared_stats) as one,
        Archive.open(sandbox.archive, shared_stats) as other,
    ):
        found(one, "apples")
        found(other, "apples")
        old = weakref.ref(known(one))
        add(sandbox, 3, "cherries")
        assert found(one, "cherries") == []  # until the next refresh
        one.refresh()
        assert found(one, "cherries") == ["About cherries"]
        assert found(other, "cherries") == ["About cherries"]
        assert known(one) is known(other)
        gc.collect()
        assert old() is None


def test_replaced_index_is_searched_with_its_own_numbers(
    sandbox: Sandbox, shared_stats: SharedSearchStats
) -> None:
    with Archive.open(sandbox.archive, shared_stats) as old:
        assert found(old, "pears") == ["About pears"]
        rebuild(sandbox.archive)
        with Archive.open(sandbox.archive, shared_stats) as new:
            assert found(new, "pears") == ["About pears"]
            assert found(old, "pears") == ["About pears"]
            assert known(old) is not known(new)
            assert known(new) is shared_stats.stats_for(new._reader)


def test_index_with_the_same_name_is_another_one(
    sandbox: Sandbox, shared_stats: SharedSearchStats
) -> None:
    with ArchiveDir(sandbox.archive) as old:
        index_path = old.index_path
        with Archive.open(sandbox.archive, shared_stats) as archive:
            assert found(archive, "apples OR pears") == ["About apples", "About pears"]
        first = next(old.byte_store.sources())
        purge(sandbox.archive, [first], sessions=[SessionId(session_id(1))])
        with ArchiveDir(sandbox.archive) as new:
            assert new.index_path == index_path
            assert new.index_inode != old.index_inode
            assert new.is_newest_index()
        assert not old.is_newest_index()
        assert shared_stats.stats_for(LocalReader(old)) is not None  # not refreshed yet
        with Archive.open(sandbox.archive, shared_stats) as archive:
            assert found(archive, "apples OR pears") == ["About pears"]
        assert shared_stats.stats_for(LocalReader(old)) is None


def test_tags_are_read_by_each_search(
    sandbox: Sandbox, shared_stats: SharedSearchStats
) -> None:
    with Archive.open(sandbox.archive, shared_stats) as archive:
        assert found(archive, "tag:fruit") == []
        name = SessionId(session_id(2))
        archive.annotate([name], lambda _: Annotations(tags=("fruit",)))
        before = known(archive)
        archive.refresh()
        assert found(archive, "tag:fruit") == ["About pears"]
        assert found(archive, "-tag:fruit apples") == ["About apples"]
        assert known(archive) is before


def test_threads_can_search_at_the_same_time(
    sandbox: Sandbox, shared_stats: SharedSearchStats
) -> None:
    queries = ["apples", "pear", "title:pears", "about", "so be", "project:demo apple"]

    def answers(_: int) -> list[list[str]]:
        with Archive.open(sandbox.archive, shared_stats) as archive:
            return [found(archive, text) for text in queries * 5]

    with Archive.open(sandbox.archive) as alone:
        wanted = [found(alone, text) for text in queries * 5]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(answers, range(12)))

    assert results == [wanted] * 12
    assert wanted[:2] == [["About apples"], ["About pears"]]


def test_archive_without_an_index_raises_until_it_has_one(
    sandbox: Sandbox, shared_stats: SharedSearchStats
) -> None:
    with ArchiveDir(sandbox.archive, write=True) as opened:
        opened.remove_all_indexes()
    with Archive.open(sandbox.archive, shared_stats) as archive:
        with pytest.raises(IndexNotFound):
            found(archive, "apples")
        rebuild(sandbox.archive)
        archive.refresh()
        assert found(archive, "apples") == ["About apples"]
