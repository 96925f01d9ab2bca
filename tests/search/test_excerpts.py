"""Excerpts and highlights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.search.results import EXCERPT_WIDTH, cut_excerpt, make_highlighter
from tests.search.searching import marked

WALRUS = make_highlighter([("walrus",), ("walruses",)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a walrus, two Walruses", "a [walrus], two [Walruses]"),
        ("swalrus walrusy", "swalrus walrusy"),
        ("a\n\twalrus  is", "a [walrus] is"),
        ("\x1b[31mwal\x1b[0mrus", "[walrus]"),
        ("the wàlrus", "the [wàlrus]"),
        ("", ""),
    ],
)
def test_words_are_highlighted(text: str, expected: str) -> None:
    found = cut_excerpt(text, WALRUS)

    assert marked(found.text, found.highlights) == expected


def test_excerpt_has_the_most_different_words() -> None:
    marks = make_highlighter([("tusk",), ("walrus",)])
    text = "walrus " * 40 + "filler " * 60 + "the tusk of a walrus" + " filler" * 60

    found = cut_excerpt(text, marks)

    assert "[tusk] of a [walrus]" in marked(found.text, found.highlights)
    assert found.is_cut_before
    assert found.is_cut_after


def test_text_that_fits_is_not_cut() -> None:
    text = "Prompt number zero: please change the module and feed the walrus"

    found = cut_excerpt(text, WALRUS)

    assert found.text == text
    assert not found.is_cut_before


def test_phrases_prefixes_and_regexes_are_highlighted() -> None:
    marks = make_highlighter([("auth", "go"), ("日", "本")], [("migr",)], ["EN[A-Z]+"])

    found = cut_excerpt("see auth.go, Migrations, ENOENT, 日本語", marks)

    assert marked(found.text, found.highlights) == (
        "see [auth.go], [Migrations], [ENOENT], [日本]語"
    )


@given(st.text(max_size=600), st.integers(0, 300))
def test_excerpt_is_part_of_its_text(text: str, at: int) -> None:
    found = cut_excerpt(text[:at] + " walrus " + text[at:], WALRUS)

    assert len(found.text) <= EXCERPT_WIDTH
    assert "\n" not in found.text
    for start, stop in found.highlights:
        assert found.text[start:stop].lower().startswith("walrus")
    assert found.highlights == tuple(sorted(found.highlights))


def test_very_long_word_is_cut_between_characters() -> None:
    found = cut_excerpt("e\u0301" * 500, WALRUS)

    assert found.is_cut_after
    assert found.text.endswith("\u0301")
