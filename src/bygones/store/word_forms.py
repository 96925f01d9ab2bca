"""Forms of English words: those in the index that have the stem of a word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import tantivy

_MIN_STEM_LENGTH = 3
_DROPPED_VOWELS = "eiy"
_STEMMER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    .filter(tantivy.Filter.stemmer("English"))
    .build()
)


@lru_cache(maxsize=4096)
def stem_word(term: str) -> str:
    """Return the stem of an English word."""
    return "".join(_STEMMER.analyze(term)) if _has_forms(term) else term


def stem_prefix(stem: str) -> str:
    """Return the letters that all forms of a stem start with."""
    if len(stem) <= _MIN_STEM_LENGTH:
        # Forms of short words differ early: dying and die, skies and sky.
        return stem[:1]
    return stem[:-1] if stem[-1] in _DROPPED_VOWELS else stem


def _has_forms(term: str) -> bool:
    return len(term) >= _MIN_STEM_LENGTH and term.isascii() and term.isalpha()


def find_word_forms(
    term: str,
    frequency: Callable[[str], int],
    terms_with_prefix: Callable[[str], Sequence[tuple[str, int]]],
) -> tuple[str, ...]:
    """Return the indexed terms that are forms of a word, the term itself first."""
    stem = shared_stem(term)
    if stem is None:
        return (term,) if frequency(term) else ()
    prefix = form_prefix(stem)
    candidates = [
        other
        for other, _ in terms_with_prefix(prefix)
        if other != term and _has_forms(other)
    ]
    stems = _STEMMER.analyze(" ".join(candidates))
    forms = [
        other
        for other, stem_of_other in zip(candidates, stems, strict=True)
        if stem_of_other == stem
    ]
    return (*((term,) if frequency(term) else ()), *forms)


def shared_stem(term: str) -> str | None:
    """Return the stem of a term, if it can have other forms."""
    stem = stem_word(term)
    is_long = _has_forms(term) and len(form_prefix(stem)) >= _MIN_STEM_LENGTH - 1
    return stem if is_long else None


def stem_terms(terms: Sequence[str]) -> list[str | None]:
    """Return the stem of each term, or `None` if only the term itself is searched."""
    candidates = [term for term in terms if _has_forms(term)]
    stems = dict(zip(candidates, _STEMMER.analyze(" ".join(candidates)), strict=True))
    result: list[str | None] = []
    for term in terms:
        stem = stems.get(term)
        prefix = form_prefix(stem) if stem else ""
        is_shared = len(prefix) >= _MIN_STEM_LENGTH - 1 and term.startswith(prefix)
        result.append(stem if is_shared else None)
    return result


def form_prefix(stem: str) -> str:
    """Return the letters that the forms found by a stem start with."""
    return stem[:-1] if stem[-1] in _DROPPED_VOWELS else stem
