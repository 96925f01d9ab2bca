"""What is said about an answer."""

from __future__ import annotations

from bygones.model.summary import CountBound, SearchResults, SpellingCorrection
from bygones.render.headers import search_notes


def test_what_stands_nowhere_is_told_in_brief() -> None:
    found = SearchResults(
        missing_words=("a" * 500,), corrections=(SpellingCorrection("teh", "the"),)
    )

    nowhere, missing = search_notes(found)

    assert nowhere == "no match for teh; searched for the instead"
    assert len(missing) < 120


def test_a_whole_answer_needs_no_remark() -> None:
    assert list(search_notes(SearchResults(session_count=3))) == []


def test_a_number_says_how_sure_it_is() -> None:
    assert CountBound.EXACT.qualify("3 hits") == "3 hits"
    assert CountBound.AT_MOST.qualify("3 hits") == "at most 3 hits"
