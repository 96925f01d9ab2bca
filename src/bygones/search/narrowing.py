"""Asking an engine for texts that may hold what only a look at them can tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from bygones.query.needed import Either, Piece, Stretch, stretches

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.engine import Asked, Engine

__all__ = ["narrowed"]

_LONGEST = 32
"""Letters up to which a word is surely one term, whatever it is part of."""
_SHORTEST = 3
"""Letters of a piece of a word that are worth looking for."""


def narrowed(pieces: Sequence[Piece | Either], engine: Engine) -> Asked | None:
    """Return a question that finds at least the texts which have all pieces, if any.

    Whole words are asked for, in their order. Where there are none, a beginning is;
    what may be the middle of a word last, as all words must be looked through for it.
    """
    words = [one for piece in pieces for one in _words(piece, engine)]
    if words:
        return engine.all_of(words)
    known = [one for piece in pieces for one in _usable(piece)]
    begun = [one.text for one in known if one.is_begun]
    if begun:
        return engine.beginning([max(begun, key=len)])
    inner = [one.text for one in known]
    return engine.containing(max(inner, key=len)) if inner else None


def _words(piece: Piece | Either, engine: Engine) -> Iterator[Asked]:
    if isinstance(piece, Either):
        ways = [narrowed(way, engine) for way in piece.ways]
        if all(way is not None for way in ways):
            yield engine.any_of(ways)
        return
    for is_whole, group in groupby(stretches(piece), _is_whole):
        if is_whole:
            yield engine.run([one.text for one in group])


def _is_whole(one: Stretch) -> bool:
    return (
        one.is_begun
        and one.is_ended
        and one.text.isascii()
        and len(one.text) <= _LONGEST
    )


def _usable(piece: Piece | Either) -> Iterator[Stretch]:
    if isinstance(piece, Piece):
        for one in stretches(piece):
            if one.text.isascii() and _SHORTEST <= len(one.text) <= _LONGEST:
                yield one
