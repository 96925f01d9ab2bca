"""Texts that match: which words each has, and that a hit shows intact text only."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bygones.model.query import KINDS_PER_SESSION
from bygones.render.headers import search_notes
from bygones.search import ranking
from bygones.store.archive_db import ArchiveDB
from bygones.store.archive_dir import ArchiveDir
from bygones.store.compression import compress, decompress
from bygones.store.tantivy_engine import TantivyEngine
from tests.build import Home, prompt, reply, session_id, thread
from tests.search.searching import open_archive
from tests.store.sandbox import Sandbox

WORDS = [f"w{chr(97 + at // 26)}{chr(97 + at % 26)}q" for at in range(30)]
TEXTS = {
    number: [
        " ".join(WORDS[at] for at in range(number % 5, 30, step)) for step in (1, 7)
    ]
    for number in range(1, 9)
}


@pytest.fixture
def engine(tmp_path: Path) -> TantivyEngine:
    """Return the engine of an archive in which each text has several of the words."""
    sandbox = Sandbox(tmp_path)
    for number, texts in TEXTS.items():
        records = thread(prompt(texts[0]), reply(texts[1]), start=3600.0 * number)
        sandbox.home.session(session_id(number), records)
    sandbox.ingest()
    return TantivyEngine(ArchiveDir(sandbox.archive).text_index)


def expected_masks(words: list[str]) -> list[int]:
    masks = [
        sum(1 << bit for bit, word in enumerate(words) if word in text.split())
        for texts in TEXTS.values()
        for text in texts
    ]
    return sorted(mask for mask in masks if mask)


@pytest.mark.parametrize("words", [WORDS[:2], WORDS[3:9], WORDS])
def test_each_text_has_a_bit_for_each_word(
    engine: TantivyEngine, words: list[str]
) -> None:
    queries = [engine.match_terms([word]) for word in words]

    found = engine.match_texts(queries, None, [], 100)

    assert sorted(mask for _, _, mask, _ in found) == expected_masks(words)


def test_texts_with_later_words_come_first(engine: TantivyEngine) -> None:
    queries = [engine.match_terms([word]) for word in WORDS[:3]]
    every = engine.match_texts(queries, None, [], 100)

    some = engine.match_texts(queries, None, [], 4)

    best = sorted((mask for _, _, mask, _ in every), reverse=True)[:4]
    assert [mask for _, _, mask, _ in some] == best


def test_texts_of_other_sessions_are_left_out(engine: TantivyEngine) -> None:
    queries = [engine.match_terms([word]) for word in WORDS[:3]]
    every = engine.match_texts(queries, None, [], 100)
    sessions = {key // KINDS_PER_SESSION for _, key, _, _ in every}
    one = min(sessions)

    found = engine.match_texts(queries, [one], [], 100)

    assert {key // KINDS_PER_SESSION for _, key, _, _ in found} == {one} < sessions


@pytest.mark.parametrize("words", [WORDS[:1], WORDS[:4], WORDS])
def test_sessions_are_counted_exactly(engine: TantivyEngine, words: list[str]) -> None:
    terms = {number: {*" ".join(texts).split()} for number, texts in TEXTS.items()}

    for _ in range(2):  # counted, then cached
        found = engine.find_sessions([[word] for word in words], len(TEXTS), 10)

        assert found.by_word == [
            sum(word in own for own in terms.values()) for word in words
        ]
        assert found.with_any == sum(bool(own & {*words}) for own in terms.values())
        assert found.with_all == sum(own >= {*words} for own in terms.values())
        assert len(found.best) == found.with_any


def test_session_with_all_other_words_is_a_candidate_beside_the_rarest_word(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    texts = {1: ("walrus", "narwhal")}
    texts |= dict.fromkeys(range(2, 5), ("okapi", "filler"))
    texts |= dict.fromkeys(range(5, 12), ("walrus", "filler"))
    texts |= dict.fromkeys(range(12, 19), ("narwhal", "filler"))
    texts |= dict.fromkeys(range(19, 41), ("otter", "filler"))
    for number, (asked, answered) in texts.items():
        records = thread(prompt(asked), reply(answered), start=3600.0 * number)
        sandbox.home.session(session_id(number), records)
    sandbox.ingest()
    archive_dir = ArchiveDir(sandbox.archive)
    engine = TantivyEngine(archive_dir.text_index)
    both = set(engine.sessions_with(["walrus"])) & set(
        engine.sessions_with(["narwhal"])
    )

    found = engine.find_sessions([["okapi"], ["walrus"], ["narwhal"]], len(texts), 1)

    assert both < set(found.best)


def test_ranking_is_the_same_for_few_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    for number in range(1, 40):
        words = "walrus " * (number % 4) + "narwhal " * (number % 3) + "otter"
        records = thread(prompt(f"{words} {number}"), start=3600.0 * number)
        home.session(session_id(number), records)
    with open_archive(home, tmp_path / "archive") as archive:
        whole = archive.search("walrus narwhal otter", limit=5)
        monkeypatch.setattr(ranking, "_MAX_EXACT_TEXTS", 5)
        monkeypatch.setattr(ranking, "_MAX_CANDIDATES", 12)

        found = archive.search("walrus narwhal otter", limit=5)

    assert [one.summary.id for one in found.sessions] == [
        one.summary.id for one in whole.sessions
    ]
    assert found.full_match_count == whole.full_match_count
    assert found.session_count == whole.session_count


def test_bytes_are_read_up_to_a_record(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    prompts = [prompt(f"number {at} " * 50) for at in range(200)]
    path = sandbox.home.session(session_id(1), thread(*prompts))
    sandbox.ingest()
    raw = path.read_bytes()
    with closing(ArchiveDB(sandbox.archive)) as chunks:
        (stored,) = chunks.sources()
        key = (stored.number, stored.generation)
        for offset in (0, 90_000, 5, len(raw) - 10, 40_000):
            wanted = raw[offset : offset + 700]
            assert chunks.read_unchecked(*key, offset, 700) == wanted


def test_damaged_text_is_not_shown(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), thread(prompt("the walrus sleeps")))
    sandbox.home.session(session_id(2), thread(prompt("another walrus"), start=60.0))
    sandbox.ingest()
    with closing(sqlite3.connect(sandbox.archive / "archive.db")) as db, db:
        for id_, frame in db.execute("SELECT id, frame FROM chunk").fetchall():
            raw = decompress(frame)
            if b"sleeps" in raw:
                changed = compress(raw.replace(b"sleeps", b"shouts"))
                db.execute("UPDATE chunk SET frame = ? WHERE id = ?", (changed, id_))

    with open_archive(sandbox.home, sandbox.archive) as archive:
        found = archive.search("walrus").sessions

    excerpts = [hit.excerpt.text for one in found for hit in one.hits]
    assert excerpts == ["another walrus"]


def test_limits_are_named_if_no_session_has_all_words(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("the walrus sleeps")))
    home.session(session_id(2), thread(prompt("an otter"), start=60.0))
    with open_archive(home, tmp_path / "archive") as archive:
        notes = {
            text: " ".join(search_notes(archive.search(text)))
            for text in ("walrus sleeps", "walrus otter", "walrus zzyzx")
        }

    assert ["500 characters" in note for note in notes.values()] == [False, True, True]
