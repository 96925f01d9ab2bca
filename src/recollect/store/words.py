"""The analyser: how text becomes the terms that are compared, for index and query."""

from __future__ import annotations

from functools import cache, lru_cache

import tantivy

__all__ = ["ANALYSER", "analyse", "analyser"]

ANALYSER = "recollect"

_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}"
_PATTERN = (
    r"[\p{Lu}]+[\p{Ll}\p{M}]*|[\p{Ll}\p{M}]+|[0-9]+"
    rf"|[{_CJK}]|[\p{{Lo}}\p{{Lm}}\p{{Lt}}--[{_CJK}]]+"
)
"""Names are split where their case changes, where a digit begins, and at every sign;
of scripts without spaces each character is a term."""


@cache
def analyser() -> tantivy.TextAnalyzer:
    """Return the engine's form of the analyser."""
    build = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.regex(_PATTERN))
    for step in (
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
        tantivy.Filter.stemmer("English"),
    ):
        build = build.filter(step)
    return build.build()


@lru_cache(maxsize=4096)
def _terms(text: str) -> tuple[str, ...]:
    return tuple(analyser().analyze(text))


def analyse(text: str) -> tuple[str, ...]:
    """Return the terms of a text, in its order: folded, in lower case, stemmed."""
    short = 200
    return _terms(text) if len(text) <= short else tuple(analyser().analyze(text))
