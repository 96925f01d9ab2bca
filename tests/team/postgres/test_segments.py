"""Counts by session lie in segments, which are joined, left and made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bygones.model.base import SessionId, SourceKind
from bygones.team.contract import BlobStore, ErasureSelector, RemoteSource, SourceUpdate
from bygones.team.stores.postgres import PostgresStore
from bygones.team.stores.postgres_search import counts_in, living_in
from bygones.team.worker import derive_all
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.team.engines import opened
from tests.team.homes import spans_of

Made = tuple[PostgresStore, BlobStore]
NOW = datetime(2026, 11, 15, tzinfo=UTC)
BUCKETS = 16


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    with opened("postgresql") as make:
        store, objects = make()
        assert isinstance(store, PostgresStore)
        yield store, objects
        store.close()


def say(made: Made, number: int, *words: str) -> None:
    """Have a session be sent whole, with these words last, and derived."""
    store, objects = made
    name = SessionId(session_id(number))
    lines = [
        line
        for step, said in enumerate(words)
        for line in thread(
            prompt(f"tests of {said}", sessionId=name),
            reply(f"testing {said} {said}", sessionId=name),
            start=number * 1000 + step * 10,
        )
    ]
    sent = RemoteSource(
        person="ann",
        machine="laptop",
        home="/home/ann/.claude",
        path=f"projects/-work/{name}.jsonl",
        kind=SourceKind.SESSION,
        session=name,
    )
    raw = jsonl(lines)
    store.put(
        SourceUpdate(
            source=sent, generation=len(words), spans=tuple(spans_of(raw, objects))
        )
    )
    derive_all(store, objects)


def tallied(store: PostgresStore) -> dict[str, Counter[tuple[int, int]]]:
    """Return what segments count of sessions that are there."""
    alive = {row[0] for row in store._db.rows("SELECT number FROM session", {})}
    found: dict[str, Counter[tuple[int, int]]] = {}
    for forms, packed in store._db.rows("SELECT forms, packed FROM post", {}):
        for bucket, count in counts_in(packed, alive).items():
            found.setdefault(forms, Counter())[divmod(bucket, BUCKETS)] += count
    return found


def counted(store: PostgresStore) -> dict[str, Counter[tuple[int, int]]]:
    """Return the same, counted anew from the texts."""
    found: dict[str, Counter[tuple[int, int]]] = {}
    for forms, session, kind, count in store._db.rows(
        "SELECT forms, number, kind, count(DISTINCT text) FROM said AS s"
        " CROSS JOIN LATERAL unnest(tsv) AS u JOIN word AS w"
        " ON w.term = u.lexeme AND w.holder = s.holder GROUP BY 1, 2, 3",
        {},
    ):
        found.setdefault(forms, Counter())[session, kind] = count
    return found


def words(store: PostgresStore) -> list[tuple[object, ...]]:
    return store._db.rows("SELECT term, texts FROM word ORDER BY term", {})


def test_many_small_segments_become_few_that_say_the_same(made: Made) -> None:
    store, _ = made
    for number in range(40):
        say(made, number, f"apple{number}")

    ((segments,),) = store._db.rows("SELECT count(*) FROM segment", {})
    assert segments <= 2 + 40 % 16
    assert tallied(store) == counted(store)
    assert sum(tallied(store)["test"].values()) == 80


def test_a_session_that_goes_on_leaves_nothing_behind(made: Made) -> None:
    store, _ = made
    for step in range(2, 6):
        say(made, 39, *(f"pear{one}" for one in range(step)))

    assert tallied(store) == counted(store)
    assert ("apple39", 1) not in words(store)
    ((both,),) = store._db.rows("SELECT texts FROM total", {})
    ((texts,),) = store._db.rows("SELECT count(*) FROM said WHERE piece = 0", {})
    assert both == texts


def test_of_what_was_erased_no_segment_says_anything(made: Made) -> None:
    store, _ = made
    gone = SessionId(session_id(3))
    rows = store._db.rows(
        "SELECT number FROM session WHERE session = %(gone)s", {"gone": gone}
    )

    store.erase(ErasureSelector(session=gone), now=NOW)

    assert "=apple3" not in set(tallied(store))
    assert ("apple3", 2) not in words(store)
    for (packed,) in store._db.rows("SELECT packed FROM post", {}):
        assert counts_in(packed, {rows[0][0]}) == {}
    assert tallied(store) == counted(store)


def test_of_an_earlier_state_of_what_was_erased_nothing_is_left(made: Made) -> None:
    store, _ = made
    gone = SessionId(session_id(50))
    # Others are filed with it, so that its segment lives on when it goes on.
    say(made, 50, "cherry", "first")
    for number in range(51, 67):
        say(made, number, f"plum{number}")
    say(made, 50, "cherry", "second", "third")
    ((dead,),) = store._db.rows("SELECT sum(dead) FROM segment", {})
    assert dead

    store.erase(ErasureSelector(session=gone), now=NOW)

    alive = {row[0] for row in store._db.rows("SELECT number FROM filed", {})}
    for forms, packed in store._db.rows("SELECT forms, packed FROM post", {}):
        assert "cherr" not in forms
        assert living_in(packed, alive) == packed
    assert tallied(store) == counted(store)
