"""Notes on search results."""

from __future__ import annotations

from bygones.model.summary import CountBound, SearchResults, SpellingCorrection
from bygones.render.headers import search_notes


def test_missing_words_are_listed_and_truncated() -> None:
    results = SearchResults(
        missing_words=("a" * 500,), corrections=(SpellingCorrection("teh", "the"),)
    )

    nowhere, missing, limit = search_notes(results)

    assert nowhere == "no match for teh; searched for the instead"
    assert missing.startswith("no match for aaa")
    assert len(missing) < 120
    assert limit.startswith("only the first 500 characters of a tool's result")


def test_complete_results_have_no_notes() -> None:
    assert list(search_notes(SearchResults(session_count=3))) == []


def test_partial_results_have_a_note() -> None:
    assert CountBound.EXACT.qualify("3 hits") == "3 hits"
    assert CountBound.AT_MOST.qualify("3 hits") == "at most 3 hits"
