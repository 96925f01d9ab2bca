"""Term vectors of PostgreSQL: pieces of long texts, and the counts of terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bygones.model.base import SessionId, SourceKind
from bygones.team.contract import (
    AccessScope,
    BlobStore,
    ErasureSelector,
    RemoteSource,
    SourceUpdate,
)
from bygones.team.stores.postgres import PostgresStore
from bygones.team.stores.postgres_rows import PIECE_OVERLAP, PIECE_TERMS, iter_vectors
from bygones.team.text_engine import words_of
from bygones.team.worker import derive_all
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.team.engines import open_engine
from tests.team.homes import split_spans

Store = tuple[PostgresStore, BlobStore]
NOW = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.fixture(scope="module")
def empty_store() -> Iterator[Store]:
    with open_engine("postgresql") as make:
        store, blobs = make()
        assert isinstance(store, PostgresStore)
        yield store, blobs
        store.close()


def upload(empty_store: Store, number: int, *words: str) -> None:
    """Upload a session as a new generation, and derive it."""
    store, blobs = empty_store
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
    spans = tuple(split_spans(jsonl(lines), blobs))
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


def stored_words(store: PostgresStore) -> dict[tuple[str, str, int], int]:
    """Return the stored counts by session, word and kind."""
    rows = store._db.rows(
        "SELECT session, word, w.kind, texts FROM session_word AS w"
        " JOIN session AS s USING (number)",
        {},
    )
    assert len(rows) == len({row[:3] for row in rows})
    return {(session, word, kind): texts for session, word, kind, texts in rows}


def actual_words(store: PostgresStore) -> dict[tuple[str, str, int], int]:
    """Return the same counts by the stored texts."""
    rows = store._db.rows(
        "SELECT session, text, t.kind, tsvector_to_array(terms) FROM text AS t"
        " JOIN session AS s USING (number)",
        {},
    )
    texts: dict[tuple[str, int, int], set[str]] = {}
    for session, text, kind, terms in rows:
        texts.setdefault((session, text, kind), set()).update(words_of(terms))
    return dict(
        Counter(
            (session, word, kind)
            for (session, _, kind), words in texts.items()
            for word in words
        )
    )


def test_term_counts_follow_replaced_and_erased_sessions(empty_store: Store) -> None:
    store, _ = empty_store
    upload(empty_store, 1, "apples", "pears")
    upload(empty_store, 2, "apples")
    assert stored_counts(store) == actual_counts(store)
    assert stored_words(store) == actual_words(store)
    assert stored_counts(store)["apples"] == 4

    upload(empty_store, 1, "apples", "pears", "plums " * (PIECE_TERMS + 1))
    assert stored_counts(store) == actual_counts(store)
    assert stored_words(store) == actual_words(store)
    assert stored_counts(store)["plums"] == 2

    store.erase(ErasureSelector(session=SessionId(session_id(1))), now=NOW)
    assert stored_counts(store) == actual_counts(store)
    assert stored_words(store) == actual_words(store)
    assert "pears" not in stored_counts(store)
    ((texts, terms),) = store._db.rows("SELECT texts, terms FROM owner_stats", {})
    assert [(texts, terms)] == store._db.rows(
        "SELECT count(*), sum(length)::bigint FROM text WHERE piece = 0", {}
    )


def test_forms_of_a_word_share_a_stem(empty_store: Store) -> None:
    store, _ = empty_store
    upload(empty_store, 3, "apples")

    rows = store._db.rows("SELECT term FROM term WHERE stem = 'test' ORDER BY 1", {})

    assert [row[0] for row in rows] == ["testing", "tests"]


def test_text_with_two_forms_of_a_word_counts_once(empty_store: Store) -> None:
    store, blobs = empty_store
    upload(empty_store, 4, "figs", "4figs")
    upload(empty_store, 5, "fig with figs")
    reader = store.open_reader(AccessScope(person="ann"), blobs)
    engine = reader.engine()
    engine.prefetch(["fig", "4figs"])

    def count(*terms: str) -> int:
        return sum(engine.count(engine.match_terms(terms)).values())

    assert engine.match_terms(["fig", "figs"]).word == "fig"
    assert count("fig", "figs") == 4
    # A query for some of the forms only cannot use the counts of the word.
    assert engine.match_terms(["fig"]).word is None
    assert count("fig") == 2
    assert count("4figs") == 2
    reader.close()


def test_pieces_of_a_long_text_overlap() -> None:
    terms = [f"w{index}" for index in range(PIECE_TERMS + 1)]

    first, second = iter_vectors(terms)

    assert first.split()[-1] == f"w{PIECE_TERMS - 1}:{PIECE_TERMS}"
    assert second.split()[0] == f"w{PIECE_TERMS - PIECE_OVERLAP}:1"


def test_an_empty_text_has_an_empty_vector() -> None:
    assert list(iter_vectors([])) == [""]
