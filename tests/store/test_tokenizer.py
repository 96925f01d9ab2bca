"""Terms must be those of tantivy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable

import pytest
import tantivy
from hypothesis import given
from hypothesis import strategies as st

from bygones.store import tokenizer
from bygones.store.tokenizer import (
    correct_term,
    prepare_text,
    prepare_with_checksum,
    tokenize,
    tokenize_prepared,
)

ENGINE = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    .filter(tantivy.Filter.remove_long(40))
    .filter(tantivy.Filter.lowercase())
    .build()
)
LETTERS = "abcXYZ019 _-./:éÉñßøÆ日本語ひらカタ한국ｗａ\u0301\U0001f600\n"


@given(st.text(LETTERS, max_size=120) | st.text("aé", min_size=30, max_size=90))
def test_tokenizer_agrees_with_tantivy(text: str) -> None:
    assert tokenize(text) == ENGINE.analyze(prepare_text(text))


@given(st.text() | st.text("ΑΣσς.\u0130iIé\u0307 _", max_size=40))
def test_terms_of_a_text_are_those_of_its_words(text: str) -> None:
    made = prepare_text(text)

    assert tokenize_prepared(made) == [
        one[0].lower() for one in tokenizer._WORD.finditer(made)
    ]


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
    assert tokenize(text) == terms


def test_long_words_late_in_a_text_are_split() -> None:
    text = "word " * 300_000 + "b" * 64

    assert tokenize(text)[-2:] == ["b" * 32] * 2


WORDS = {"system": 9, "systems": 2, "audit": 5, "hardening": 3, "cat": 1}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("sytsem", "system"), ("sistem", "system"), ("systm", "system")),
        *(("hardneign", "hardening"), ("cta", None), ("zzyzx", None), ("4udit", None)),
        *(("esystem", None), ("waudit", None), ("ysstem", "system"), ("tudit", None)),
    ],
)
def test_typo_is_corrected(typed: str, meant: str | None) -> None:
    def count_words(words: Iterable[str]) -> dict[str, int]:
        return {word: WORDS.get(word, 0) for word in words}

    def count_prefix(start: str) -> list[tuple[str, int]]:
        return [pair for pair in WORDS.items() if pair[0].startswith(start)]

    assert correct_term(typed, count_words, count_prefix) == meant


@given(st.text(LETTERS + "—…→", max_size=80) | st.text(max_size=50))
def test_length_of_a_text_is_its_number_of_terms(text: str) -> None:
    assert prepare_with_checksum(text)[2] == len(tokenize(text))


@pytest.mark.parametrize("unit", ["a", " ", "ab ", "a—", "é ", "日"])
def test_terms_of_a_text_that_is_scanned_in_parts_are_counted_once(unit: str) -> None:
    text = (unit * tokenizer._SCAN_BYTES)[: tokenizer._SCAN_BYTES + 5]

    _, prepared, count = prepare_with_checksum(text)

    assert count == sum(1 for _ in tokenizer._WORD.finditer(prepared))


def test_common_symbols_are_not_part_of_words() -> None:
    assert tokenize("".join(tokenizer._COMMON_SYMBOLS)) == []


def test_prepared_text_is_the_same_in_every_process() -> None:
    """One character may become another that is replaced too, as in "デテ"."""
    code = "from bygones.store.tokenizer import prepare_text as p; print(ascii(p('デテガカ')))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in range(4)
    }

    assert len(outputs) == 1
