"""Excerpts: the best words of a text, whole and harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.query.excerpts import WIDTH, excerpt, marking
from tests.search.finding import marked

WALRUS = marking([("walrus",), ("walruses",)])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a walrus, two Walruses", "a [walrus], two [Walruses]"),
        ("swalrus walrusy", "swalrus walrusy"),
        ("a\n\twalrus  is", "a [walrus] is"),
        ("\x1b[31mwal\x1b[0mrus", "[walrus]"),
        ("the wàlrus", "the [wàlrus]"),
        ("", ""),
    ],
)
def test_words_are_marked(text: str, shown: str) -> None:
    found = excerpt(text, WALRUS)

    assert marked(found.text, found.marks) == shown


def test_the_stretch_with_most_different_words_is_taken() -> None:
    marks = marking([("tusk",), ("walrus",)])
    text = "walrus " * 40 + "filler " * 60 + "the tusk of a walrus" + " filler" * 60

    found = excerpt(text, marks)

    assert "[tusk] of a [walrus]" in marked(found.text, found.marks)
    assert found.is_begun
    assert found.is_cut


def test_runs_beginnings_and_patterns_are_marked() -> None:
    marks = marking([("auth", "go"), ("日", "本")], [("migr",)], ["EN[A-Z]+"])

    found = excerpt("see auth.go, Migrations, ENOENT, 日本語", marks)

    assert marked(found.text, found.marks) == (
        "see [auth.go], [Migrations], [ENOENT], [日本]語"
    )


@given(st.text(max_size=600), st.integers(0, 300))
def test_an_excerpt_is_a_piece_of_its_text(text: str, at: int) -> None:
    found = excerpt(text[:at] + " walrus " + text[at:], WALRUS)

    assert len(found.text) <= WIDTH
    assert "\n" not in found.text
    for start, stop in found.marks:
        assert found.text[start:stop].lower().startswith("walrus")
    assert found.marks == tuple(sorted(found.marks))


def test_a_word_without_an_end_is_cut_between_signs() -> None:
    found = excerpt("e\u0301" * 500, WALRUS)

    assert found.is_cut
    assert found.text.endswith("\u0301")
