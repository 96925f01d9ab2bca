"""The analyser: how text becomes the terms that are compared, for index and query."""

from __future__ import annotations

import re
from functools import cache, lru_cache

import tantivy

__all__ = ["ANALYSER", "analyse", "analyser", "spaced"]

ANALYSER = "recollect"

_NO_SPACES = re.compile(r"([぀-ヿ㐀-䶿一-鿿豈-﫿])")
"""Kana and Han: scripts in which words are not parted by spaces."""
_SHORT = 200


@cache
def analyser() -> tantivy.TextAnalyzer:
    """Return the engine's part of the analyser; it is given spaced text."""
    build = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
        tantivy.Filter.stemmer("English"),
    ):
        build = build.filter(step)
    return build.build()


def spaced(text: str) -> str:
    """Return a text in which each character of scripts without spaces is a word.

    The engine parts words at every sign, so ``parse_transcript`` and ``auth.go`` are
    two words each; a name such as ``parseTranscript`` is one, and it is the query that
    is read both ways: parting names here would cost a tenth of all ingestion.
    """
    return text if text.isascii() else _NO_SPACES.sub(r" \1 ", text)


@lru_cache(maxsize=1024)
def _terms(text: str) -> tuple[str, ...]:
    return tuple(analyser().analyze(spaced(text)))


def analyse(text: str) -> tuple[str, ...]:
    """Return the terms of a text, in its order: folded, in lower case, stemmed."""
    if len(text) <= _SHORT:
        return _terms(text)
    return tuple(analyser().analyze(spaced(text)))
