"""How much is said in each part, and when: what scores are measured against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from operator import add
from struct import Struct

from bygones.model.query import Part
from bygones.model.texts import Said

__all__ = ["Amounts", "Lengths"]

_CODES = {part: code for code, part in enumerate(Part)}
_SPOKEN = 2 * len(Part)
_PACKED = Struct(f"<{_SPOKEN}Q2q")
_AMOUNTS = Struct(f"<{_SPOKEN}Q16x")


class Lengths:
    """Documents and their characters for each part; the first and the last time."""

    def __init__(self, packed: bytes | None = None) -> None:
        *numbers, first, last = _PACKED.unpack(packed) if packed else _NOTHING
        self.numbers: list[int] = numbers
        self.first: int = first
        """In milliseconds; 0 where no record has a time."""
        self.last: int = last

    @staticmethod
    def amounts(packed: bytes) -> tuple[int, ...]:
        """Return documents, then characters, for each part."""
        return _AMOUNTS.unpack(packed)

    def add(self, said: Said) -> None:
        """Count what a record says in one of its parts."""
        at = 2 * _CODES[said.part]
        self.numbers[at] += 1
        self.numbers[at + 1] += len(said.text)

    def reach(self, times: Iterable[datetime]) -> None:
        """Take in when something was said."""
        found = list(times)
        if found:
            self._reach(_ms(min(found)), _ms(max(found)))

    def _reach(self, first: int, last: int) -> None:
        self.first = min(self.first or first, first)
        self.last = max(self.last or last, last)

    def join(self, other: Lengths) -> None:
        """Count what another has counted."""
        self.numbers = list(map(add, self.numbers, other.numbers))
        if other.first:
            self._reach(other.first, other.last)

    def packed(self) -> bytes:
        """Return them as bytes."""
        return _PACKED.pack(*self.numbers, self.first, self.last)


class Amounts(Mapping[int, tuple[int, ...]]):
    """How much each session says, by its number; packed, as there are very many."""

    def __init__(self, packed: dict[int, bytes]) -> None:
        self._packed = packed

    def __getitem__(self, session: int) -> tuple[int, ...]:
        """Return documents, then characters, for each part."""
        return Lengths.amounts(self._packed[session])

    def __iter__(self) -> Iterator[int]:
        """Go through the numbers of sessions."""
        return iter(self._packed)

    def __len__(self) -> int:
        """Return how many sessions there are."""
        return len(self._packed)


_NOTHING = (0,) * (_SPOKEN + 2)


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
