"""The ways in which a word can stand in a text, and which words count.

People type ``parse transcript``, ``parse_transcript`` or ``parseTranscript`` and mean
the same. An index that splits nothing is asked for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

__all__ = ["FILLERS", "Analyse", "Reading", "Run", "counted", "reading", "readings"]

Analyse = Callable[[str], Sequence[str]]
"""Turns a text into the terms that are compared, in the text's order."""
Run = tuple[str, ...]
"""Terms that stand one right behind the other."""

FILLERS = frozenset(
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

_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_]+?(?=[A-Z]|\b|_)")
_HUMPED = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_OWNER = re.compile(r"(?<=\w)['\u2019]s$")
_JOINT = re.compile(r"[^\W_]+(?:[_-]+[^\W_]+)+")


class Reading(Struct, frozen=True):
    """A word as it was typed, and the runs of terms that it may stand as.

    The first run is the word itself. A run of one term also stands for the other forms
    of that term.
    """

    word: str
    runs: tuple[Run, ...]


def reading(word: str, analyse: Analyse) -> Reading | None:
    """Return how a word may stand in a text; nothing, if it has no terms."""
    word = _OWNER.sub("", word)
    own = tuple(analyse(word))
    if not own:
        return None
    runs = {own: None}
    if _HUMPED.search(word):
        runs[tuple(analyse(" ".join(_HUMP.findall(word))))] = None
    if len(own) > 1 and _JOINT.fullmatch(word.strip("_-")):
        runs[tuple(analyse("".join(own)))] = None
    return Reading(word, tuple(run for run in runs if run))


def readings(words: Sequence[str], analyse: Analyse) -> tuple[Reading | None, ...]:
    """Return how words typed behind each other may stand in a text.

    Two neighbours may stand as one word, which then says both.
    """
    found = [reading(word, analyse) for word in words]
    return tuple(
        one and Reading(one.word, (*one.runs, *_with_neighbours(found, at)))
        for at, one in enumerate(found)
    )


def _with_neighbours(found: Sequence[Reading | None], at: int) -> Iterator[Run]:
    for first, second in ((at - 1, at), (at, at + 1)):
        if first < 0 or second >= len(found):
            continue
        pair = found[first], found[second]
        terms = [one.runs[0][0] for one in pair if one and len(one.runs[0]) == 1]
        if len(terms) == len(pair) and all(map(_is_name, terms)):
            yield ("".join(terms),)


def _is_name(term: str) -> bool:
    return len(term) > 1 and term.isalpha() and term not in FILLERS


def counted(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that say what a query is about, each once.

    Common words are left out, unless there are no others.
    """
    once = dict.fromkeys(words)
    telling = tuple(word for word in once if word.lower() not in FILLERS)
    return telling or tuple(once)
