"""Variants of a word, and stop words.

``parse transcript``, ``parse_transcript`` and ``parseTranscript`` mean the same, but the
index has them as different terms: a query searches for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

Analyzer = Callable[[str], Sequence[str]]
"""Splits a text into the terms that are compared, in the order of the text."""
TermRun = tuple[str, ...]
"""Consecutive terms."""

STOP_WORDS = frozenset(
    (
        *("a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be"),
        *("been", "being", "but", "by", "can", "could", "did", "do", "does", "for"),
        *("from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it"),
        *("its", "just", "me", "my", "no", "not", "of", "on", "or", "our", "so"),
        *("some", "than", "that", "the", "then", "there", "these", "this", "those"),
        *("to", "us", "was", "we", "were", "what", "when", "where", "which", "who"),
        *("why", "will", "with", "would", "you", "your"),
    )
)
"""Words that say nothing about the topic of a text."""

_CAMEL_CASE_PART = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_]+?(?=[A-Z]|\b|_)"
)
_CAMEL_CASE = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s$")
_JOINED_WORD = re.compile(r"[^\W_]+(?:[_-]+[^\W_]+)+")


class WordVariants(Struct, frozen=True):
    """A word as it was typed, and the runs of terms as which it may be written.

    The first run is the word itself. A run of one term includes its other forms.
    """

    word: str
    runs: tuple[TermRun, ...]


def expand_word(word: str, analyzer: Analyzer) -> WordVariants | None:
    """Return the variants of a word; none if it has no terms."""
    word = _POSSESSIVE.sub("", word)
    terms = tuple(analyzer(word))
    if not terms:
        return None
    runs = {terms: None}
    if _CAMEL_CASE.search(word):
        runs[tuple(analyzer(" ".join(_CAMEL_CASE_PART.findall(word))))] = None
    if len(terms) > 1 and _JOINED_WORD.fullmatch(word.strip("_-")):
        runs[tuple(analyzer("".join(terms)))] = None
    return WordVariants(word, tuple(run for run in runs if run))


def expand_words(
    words: Sequence[str], analyzer: Analyzer
) -> tuple[WordVariants | None, ...]:
    """Return the variants of consecutive words.

    Two neighbours may be written as one word, which is then a variant of both.
    """
    variants = [expand_word(word, analyzer) for word in words]
    return tuple(
        one and WordVariants(one.word, (*one.runs, *_neighbor_runs(variants, index)))
        for index, one in enumerate(variants)
    )


def _neighbor_runs(
    variants: Sequence[WordVariants | None], index: int
) -> Iterator[TermRun]:
    for first, second in ((index - 1, index), (index, index + 1)):
        if first < 0 or second >= len(variants):
            continue
        pair = variants[first], variants[second]
        terms = [one.runs[0][0] for one in pair if one and len(one.runs[0]) == 1]
        if len(terms) == len(pair) and all(map(_is_joinable, terms)):
            yield ("".join(terms),)


def _is_joinable(term: str) -> bool:
    return len(term) > 1 and term.isalpha() and term not in STOP_WORDS


def drop_stop_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a query without stop words and duplicates.

    If there are only stop words, they stay.
    """
    unique = dict.fromkeys(words)
    significant = tuple(word for word in unique if word.lower() not in STOP_WORDS)
    return significant or tuple(unique)
