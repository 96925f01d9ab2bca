"""Queries of real transcripts give the same results in a team store and locally.

The transcripts are not part of the project; without them the tests are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.query.parser import parse_query
from bygones.team.contract import AccessScope, BlobStore
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.team.homes import PEOPLE, People, comparable_summaries, upload_homes

StoreAndBlobs = tuple[TeamStore, BlobStore]
CORPUS = Path(__file__).resolve().parents[2] / ".." / "shared" / "corpus"
NOW = datetime(2026, 11, 15, tzinfo=UTC)
MOST = 300_000
"""Bytes of a folder that is tried here: all of them take minutes."""
QUERIES = ("test", "fix the bug", "error file", '"unit test"', "tool:Bash", "handl*")


def small() -> list[Path]:
    def weight(folder: Path) -> int:
        return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())

    folders = (path for path in sorted(CORPUS.glob("*")) if path.is_dir())
    return [folder for folder in folders if 0 < weight(folder) <= MOST][:6]


@pytest.mark.full_on_clickhouse
@pytest.mark.skipif(not small(), reason=f"no transcripts at {CORPUS}")
def test_real_sessions_are_the_same(
    engine: Callable[[], StoreAndBlobs], tmp_path: Path
) -> None:
    people = People(small(), tmp_path)
    store, objects = engine()
    for person in PEOPLE:
        upload_homes(store, objects, person, people.homes[person])
    derive_all(store, objects)

    seen = 0
    for person in PEOPLE:
        reader = store.open_reader(AccessScope(person=person), objects)
        with people.archive(person) as folder, Archive.from_store(reader) as team:
            listed = list(folder.sessions(include_empty=True))
            assert comparable_summaries(team.sessions(include_empty=True)) == listed
            assert team.usage("model", now=NOW) == folder.usage("model", now=NOW)
            for query in QUERIES:
                parsed = parse_query(query, now=NOW, zone=UTC)
                ours, theirs = team.search(parsed), folder.search(parsed)
                assert ours.session_count == theirs.session_count
                assert [one.score for one in ours.sessions] == pytest.approx(
                    [one.score for one in theirs.sessions]
                )
            seen += len(listed)
    store.close()
    assert seen
