"""Ranking: frequent words are counted in the best sessions only, and none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.search import ranking
from bygones.search.ranking import SortOrder
from bygones.store.tantivy_engine import TantivyEngine
from tests.build import Home, prompt, reply, session_id, summary, thread
from tests.search.searching import SearchArchive, open_archive

MANY = 60


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchArchive]:
    """Return an archive of many sessions that all contain the same word."""
    folder = tmp_path_factory.mktemp("counting")
    home = Home(folder / "home")
    for number in range(1, MANY + 1):
        replies = [reply(f"walrus number {number}") for _ in range(number % 7)]
        last = reply("the narwhal" if number == 17 else f"the end of {number}")
        first = prompt(f"walrus {'walrus ' * (number % 5)} {number}")
        records = thread(first, *replies, last, start=3600.0 * number)
        home.session(session_id(number), records)
    with open_archive(home, folder / "archive") as found:
        yield found


@pytest.fixture
def broad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every word count as frequent."""
    monkeypatch.setattr(ranking, "_MAX_EXACT_TEXTS", 5)
    monkeypatch.setattr(ranking, "_FEW_SESSIONS", 5)
    monkeypatch.setattr(ranking, "_MAX_CANDIDATES", 8)


@pytest.mark.usefixtures("broad")
def test_pages_of_a_frequent_word_have_each_session_once(many: SearchArchive) -> None:
    pages = [
        many.search("walrus", limit=7, offset=at).sessions for at in range(0, 70, 7)
    ]

    ids = [one.summary.id for page in pages for one in page]

    assert sorted(ids) == sorted(map(session_id, range(1, MANY + 1)))
    assert all(one.matched_words == ("walrus",) for page in pages for one in page)


@pytest.mark.usefixtures("broad")
def test_rare_word_next_to_a_frequent_one_comes_first(many: SearchArchive) -> None:
    found = many.search("walrus narwhal", limit=3)

    assert found.sessions[0].summary.id == session_id(17)
    assert found.sessions[0].matched_words == ("walrus", "narwhal")


@pytest.mark.usefixtures("broad")
def test_results_by_time_are_counted_exactly(many: SearchArchive) -> None:
    found = many.search("walrus", limit=5, sort=SortOrder.NEWEST)

    assert [one.summary.id for one in found.sessions] == [
        session_id(MANY - at) for at in range(5)
    ]
    assert found.session_count == MANY


def test_more_text_keys_than_one_request_returns_are_counted(
    many: SearchArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = many.search("walrus", limit=100)
    monkeypatch.setattr(TantivyEngine, "max_keys", 10)

    assert many.search("walrus", limit=100) == whole


@pytest.mark.usefixtures("broad")
@pytest.mark.parametrize("max_keys", [10, 65_000])
def test_identifier_in_many_sessions_does_not_hide_a_rare_word(
    many: SearchArchive, monkeypatch: pytest.MonkeyPatch, max_keys: int
) -> None:
    monkeypatch.setattr(TantivyEngine, "max_keys", max_keys)
    monkeypatch.setattr(ranking, "_MAX_PHRASE_SESSIONS", 5)

    found = many.search("walrusNumber narwhal", limit=3)
    alone = many.search("walrusNumber", limit=3)

    assert found.sessions[0].summary.id == session_id(17)
    assert alone.session_count == sum(1 for n in range(1, MANY + 1) if n % 7)


def test_title_from_another_file_counts(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    records = thread(prompt("something else"), reply("yes"))
    home.session(session_id(1), records)
    leaf = str(records[-1]["uuid"])
    others = [summary("Parsing of walrus files", leaf=leaf), prompt("hello", uuid="x")]
    home.session(session_id(2), others)

    with open_archive(home, tmp_path / "archive") as archive:
        found = archive.search("walrus")

    assert session_id(1) in {one.summary.id for one in found.sessions}


def test_session_with_the_query_as_its_title_comes_first(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for number in range(1, 6):
        turn = [prompt("the walrus parser fails"), reply("walrus parser, fixed")]
        records = thread(*turn, *turn, start=3600.0 * number)
        home.session(session_id(number), records)
    records = thread(prompt("something else"), reply("yes"))
    leaf = str(records[-1]["uuid"])
    home.session(session_id(9), [*records, summary("Walrus parser fails", leaf=leaf)])

    with open_archive(home, tmp_path / "archive") as archive:
        found = archive.search("walrus parser fails")

    assert found.sessions[0].summary.id == session_id(9)
