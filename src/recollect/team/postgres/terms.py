"""The terms of a text in the form in which PostgreSQL keeps and asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["OVERLAP", "PIECE", "query_of", "vectors_of"]

PIECE = 8_000
"""Terms of a vector: positions above 16,383 are all one to the engine."""
OVERLAP = 32
"""Terms that two pieces share, so that no run is cut in two."""


def vectors_of(terms: Sequence[str]) -> Iterator[str]:
    """Yield the vectors of a text; most have one."""
    start = 0
    while True:
        yield _vector(terms[start : start + PIECE])
        start += PIECE - OVERLAP
        if start + OVERLAP >= len(terms):
            return


def _vector(terms: Sequence[str]) -> str:
    places: dict[str, list[str]] = {}
    for at, term in enumerate(terms, 1):
        places.setdefault(term, []).append(str(at))
    # A term has letters and digits only: nothing in it needs to be escaped.
    return " ".join(f"'{term}':{','.join(found)}" for term, found in places.items())


def query_of(runs: Sequence[Sequence[str]]) -> str:
    """Return the question for texts that have one of some runs of terms."""
    return " | ".join(
        "(" + " <-> ".join(f"'{term}'" for term in run) + ")" for run in runs
    )
