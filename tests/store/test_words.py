"""Terms as the engine has them: ours must be the same."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import tantivy
from hypothesis import given
from hypothesis import strategies as st

from bygones.store import words
from bygones.store.spelling import close_terms
from bygones.store.words import prepared, terms_in, terms_of

ENGINE = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    .filter(tantivy.Filter.remove_long(40))
    .filter(tantivy.Filter.lowercase())
    .build()
)
LETTERS = "abcXYZ019 _-./:éÉñßøÆ日本語ひらカタ한국ｗａ\u0301\U0001f600\n"


@given(st.text(LETTERS, max_size=120) | st.text("aé", min_size=30, max_size=90))
def test_our_terms_are_those_of_the_engine(text: str) -> None:
    assert terms_of(text) == ENGINE.analyze(prepared(text))


@given(st.text() | st.text("ΑΣσς.\u0130iIé\u0307 _", max_size=40))
def test_terms_are_those_of_single_words(text: str) -> None:
    made = prepared(text)

    assert terms_in(made) == [one[0].lower() for one in words._WORD.finditer(made)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Café naïve", ["cafe", "naive"]),
        ("実装する", ["実", "装", "す", "る"]),
        ("\uff57\uff49\uff44\uff45", ["wide"]),
        ("a" * 40, ["a" * 32, "a" * 8]),
        ("x_y-z", ["x", "y", "z"]),
    ],
)
def test_a_text_has_terms(text: str, terms: list[str]) -> None:
    assert terms_of(text) == terms


def test_long_words_far_away_are_cut_too() -> None:
    text = "word " * 300_000 + "b" * 64

    assert terms_of(text)[-2:] == ["b" * 32] * 2


WORDS = {"system": 9, "systems": 2, "audit": 5, "hardening": 3, "cat": 1}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("sytsem", "system"), ("sistem", "system"), ("systm", "system")),
        *(("hardneign", "hardening"), ("cta", None), ("zzyzx", None), ("4udit", None)),
    ],
)
def test_a_slip_is_mended(typed: str, meant: str | None) -> None:
    def counted(words: Iterable[str]) -> dict[str, int]:
        return {word: WORDS.get(word, 0) for word in words}

    def beginning(start: str) -> list[tuple[str, int]]:
        return [pair for pair in WORDS.items() if pair[0].startswith(start)]

    assert close_terms(typed, counted, beginning) == meant


@given(st.text(max_size=50))
def test_simple_signs_change_nothing_of_how_a_text_is_read(text: str) -> None:
    for sign in ("\u2014", "\u2026", "✅", "→"):
        told = f"{text} {sign} {text}"
        # What is long is never taken for simple.
        padding = " ." * 500

        assert terms_of(told) == terms_of(told + padding)


def test_no_simple_sign_is_part_of_a_word() -> None:
    beyond = [sign for sign in words._SIMPLE if not sign.isascii()]

    assert terms_of("".join(beyond) + " " * 2000) == []
