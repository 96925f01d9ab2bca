"""Searches for frequent words, words in long texts, and adjacent words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bygones.archive import Archive
from bygones.model.summary import SearchResults
from bygones.query.parser import parse_query
from bygones.team.contract import AccessScope, BlobStore
from bygones.team.stores.base import TeamStore
from bygones.team.stores.postgres_rows import PIECE_OVERLAP, PIECE_TERMS
from bygones.team.worker import derive_all
from tests.build import Home, prompt, reply, session_id, thread
from tests.team.engines import open_engine
from tests.team.homes import upload_homes

StoreAndBlobs = tuple[TeamStore, BlobStore]
NOW = datetime(2026, 11, 15, tzinfo=UTC)
FAR = " filler" * (PIECE_TERMS + PIECE_OVERLAP)
SAID = (
    ("secure boot", "the secureboot key"),
    (f"secure {FAR} secureboot", "nothing"),
    (f"secureboot {FAR} boot", f"secure and secureboot {FAR}"),
    ("secured by a boot", "secureboot, secureboot"),
    ("reboot", "insecure"),
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Archive, Archive]]:
    """Return the same sessions in a team store and in a local archive."""
    root = tmp_path_factory.mktemp("words")
    home = Home(root / "claude")
    for number, (question, answer) in enumerate(SAID):
        lines = thread(prompt(question), reply(answer), start=number * 10)
        home.session(session_id(number), lines)
    with open_engine("postgresql") as make:
        store, objects = make()
        upload_homes(store, objects, "ann", [home.path])
        derive_all(store, objects)
        reader = store.open_reader(AccessScope(person="ann"), objects)
        Archive.ingest(root / "archive", [home.path])
        with (
            Archive.from_store(reader) as team,
            Archive.open(root / "archive") as folder,
        ):
            yield team, folder
        store.close()


@pytest.mark.parametrize(
    "query",
    ["secure boot", "secure boot key", '"secure boot"', "boot secure", "filler boot"],
)
def test_text_with_two_variants_of_a_word_counts_once(
    both: tuple[Archive, Archive], query: str
) -> None:
    parsed = parse_query(query, now=NOW, zone=UTC)

    ours, theirs = (archive.search(parsed) for archive in both)

    assert summarize_results(ours) == summarize_results(theirs)


def summarize_results(found: SearchResults) -> list[tuple[object, ...]]:
    return [
        (
            one.summary.id,
            pytest.approx(one.score, rel=1e-12),
            one.word_shares,
            one.hit_count,
        )
        for one in found.sessions
    ]
