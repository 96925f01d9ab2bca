"""The ways in which a word can stand in a text, and which words count.

People type ``parse transcript``, ``parse_transcript`` or ``parseTranscript`` and mean
the same. An index that splits nothing is asked for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

__all__ = [
    "STOP_WORDS",
    "Analyzer",
    "TermRun",
    "WordVariants",
    "drop_stop_words",
    "expand_word",
    "expand_words",
]

Analyzer = Callable[[str], Sequence[str]]
"""Turns a text into the terms that are compared, in the text's order."""
TermRun = tuple[str, ...]
"""Terms that stand one right behind the other."""

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
"""Words that say nothing of what a text is about."""

_CAMEL_CASE_PART = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_]+?(?=[A-Z]|\b|_)"
)
_CAMEL_CASE = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s$")
_JOINED_WORD = re.compile(r"[^\W_]+(?:[_-]+[^\W_]+)+")


class WordVariants(Struct, frozen=True):
    """A word as it was typed, and the runs of terms that it may stand as.

    The first run is the word itself. A run of one term also stands for the other forms
    of that term.
    """

    word: str
    runs: tuple[TermRun, ...]


def expand_word(word: str, analyzer: Analyzer) -> WordVariants | None:
    """Return how a word may stand in a text; nothing, if it has no terms."""
    word = _POSSESSIVE.sub("", word)
    own = tuple(analyzer(word))
    if not own:
        return None
    runs = {own: None}
    if _CAMEL_CASE.search(word):
        runs[tuple(analyzer(" ".join(_CAMEL_CASE_PART.findall(word))))] = None
    if len(own) > 1 and _JOINED_WORD.fullmatch(word.strip("_-")):
        runs[tuple(analyzer("".join(own)))] = None
    return WordVariants(word, tuple(run for run in runs if run))


def expand_words(
    words: Sequence[str], analyzer: Analyzer
) -> tuple[WordVariants | None, ...]:
    """Return how words typed behind each other may stand in a text.

    Two neighbours may stand as one word, which then says both.
    """
    found = [expand_word(word, analyzer) for word in words]
    return tuple(
        one and WordVariants(one.word, (*one.runs, *_neighbor_runs(found, at)))
        for at, one in enumerate(found)
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
    """Return the words that say what a query is about, each once.

    Common words are left out, unless there are no others.
    """
    once = dict.fromkeys(words)
    telling = tuple(word for word in once if word.lower() not in STOP_WORDS)
    return telling or tuple(once)
