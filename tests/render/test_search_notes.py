"""Notes on search results."""

from __future__ import annotations

from bygones.model.base import RecordId
from bygones.model.query import Part
from bygones.model.summary import (
    CountBound,
    Excerpt,
    Hit,
    SearchResults,
    SpellingCorrection,
)
from bygones.render.headers import hit_excerpt, hit_label, search_notes


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


def make_hit(text: str, *highlights: tuple[int, int]) -> Hit:
    return Hit(
        record_id=RecordId("r"),
        position=None,
        part=Part.TOOL,
        tool_names=("Bash",),
        excerpt=Excerpt(text, highlights),
    )


def test_excerpt_of_a_call_does_not_repeat_the_name_of_its_label() -> None:
    hit = make_hit("Bash git status", (5, 8))

    assert hit_label(hit) == "Bash:"
    assert hit_excerpt(hit) == Excerpt("git status", ((0, 3),))
    for kept in (make_hit("Bash git", (0, 4)), make_hit("Bashful git", (8, 11))):
        assert hit_excerpt(kept) is kept.excerpt


def test_partial_results_have_a_note() -> None:
    assert CountBound.EXACT.qualify("3 hits") == "3 hits"
    assert CountBound.AT_MOST.qualify("3 hits") == "at most 3 hits"
