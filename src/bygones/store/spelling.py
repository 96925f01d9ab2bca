"""Which word of the index is likely meant by one that is not in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = ["close_terms"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SHORTEST = 4
_TWO_SLIPS = 6
"""Letters that a word must have before two slips are looked for in it."""
_SAME = 2
"""Letters at the beginning in which no second slip is looked for."""


def close_terms(
    term: str,
    frequencies: Callable[[Iterable[str]], Mapping[str, int]],
    beginning_with: Callable[[str], Sequence[tuple[str, int]]],
) -> str | None:
    """Return the most frequent term that is one slip away, else two.

    A slip is a letter left out, added, taken for another, or two that changed places.
    """
    if len(term) < _SHORTEST or not (term.isascii() and term.isalpha()):
        return None
    one = frequencies(set(_one_slip(term)))
    best = max(one, key=lambda other: (one[other], other))
    if one[best]:
        return best
    if len(term) < _TWO_SLIPS:
        return None
    near = [
        (-slips, count, other)
        for other, count in beginning_with(term[:_SAME])
        if abs(len(other) - len(term)) <= _SAME and other.isalpha()
        if (slips := _slips(term, other)) <= _SAME
    ]
    return max(near)[2] if near else None


def _one_slip(term: str) -> Iterator[str]:
    for at in range(len(term) + 1):
        head, tail = term[:at], term[at:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for letter in _LETTERS:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]


def _slips(one: str, other: str) -> int:
    """Return how many slips make one word the other."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, sign in enumerate(one, 1):
        line = [row]
        for column, there in enumerate(other, 1):
            cost = min(
                above[column] + 1,
                line[-1] + 1,
                above[column - 1] + (sign != there),
            )
            is_swap = row > 1 < column and sign == other[column - 2]
            if is_swap and one[row - 2] == there:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, above = above, line
    return above[-1]
