"""Term vectors of PostgreSQL: pieces of long texts, and the counts of terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bygones.model.base import SessionId, SourceKind
from bygones.team.contract import BlobStore, ErasureSelector, RemoteSource, SourceUpdate
from bygones.team.stores.postgres import PostgresStore
from bygones.team.stores.postgres_rows import PIECE_OVERLAP, PIECE_TERMS, iter_vectors
from bygones.team.worker import derive_all
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.team.engines import opened
from tests.team.homes import spans_of

Store = tuple[PostgresStore, BlobStore]
NOW = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.fixture(scope="module")
def made() -> Iterator[Store]:
    with opened("postgresql") as make:
        store, blobs = make()
        assert isinstance(store, PostgresStore)
        yield store, blobs
        store.close()


def upload(made: Store, number: int, *words: str) -> None:
    """Upload a session as a new generation, and derive it."""
    store, blobs = made
    session = SessionId(session_id(number))
    lines = [
        line
        for step, word in enumerate(words)
        for line in thread(
            prompt(f"tests of {word}", sessionId=session),
            reply(f"testing {word} {word}", sessionId=session),
            start=number * 1000 + step * 10,
        )
    ]
    source = RemoteSource(
        person="ann",
        machine="laptop",
        home="/home/ann/.claude",
        path=f"projects/-work/{session}.jsonl",
        kind=SourceKind.SESSION,
        session=session,
    )
    spans = tuple(spans_of(jsonl(lines), blobs))
    store.put(SourceUpdate(source=source, generation=len(words), spans=spans))
    derive_all(store, blobs)


def stored_counts(store: PostgresStore) -> dict[str, int]:
    return dict(store._db.rows("SELECT term, texts FROM term", {}))


def actual_counts(store: PostgresStore) -> dict[str, int]:
    rows = store._db.rows("SELECT number, text, tsvector_to_array(terms) FROM text", {})
    texts: dict[tuple[int, int], set[str]] = {}
    for number, text, terms in rows:
        texts.setdefault((number, text), set()).update(terms)
    return dict(Counter(term for terms in texts.values() for term in terms))


def test_term_counts_follow_replaced_and_erased_sessions(made: Store) -> None:
    store, _ = made
    upload(made, 1, "apples", "pears")
    upload(made, 2, "apples")
    assert stored_counts(store) == actual_counts(store)
    assert stored_counts(store)["apples"] == 4

    upload(made, 1, "apples", "pears", "plums " * (PIECE_TERMS + 1))
    assert stored_counts(store) == actual_counts(store)
    assert stored_counts(store)["plums"] == 2

    store.erase(ErasureSelector(session=SessionId(session_id(1))), now=NOW)
    assert stored_counts(store) == actual_counts(store)
    assert "pears" not in stored_counts(store)
    ((texts, terms),) = store._db.rows("SELECT texts, terms FROM holder_stats", {})
    assert [(texts, terms)] == store._db.rows(
        "SELECT count(*), sum(length)::bigint FROM text WHERE piece = 0", {}
    )


def test_forms_of_a_word_share_a_stem(made: Store) -> None:
    store, _ = made
    upload(made, 3, "apples")

    rows = store._db.rows("SELECT term FROM term WHERE stem = 'test' ORDER BY 1", {})

    assert [row[0] for row in rows] == ["testing", "tests"]


def test_pieces_of_a_long_text_overlap() -> None:
    terms = [f"w{index}" for index in range(PIECE_TERMS + 1)]

    first, second = iter_vectors(terms)

    assert first.split()[-1] == f"w{PIECE_TERMS - 1}:{PIECE_TERMS}"
    assert second.split()[0] == f"w{PIECE_TERMS - PIECE_OVERLAP}:1"


def test_an_empty_text_has_an_empty_vector() -> None:
    assert list(iter_vectors([])) == [""]
