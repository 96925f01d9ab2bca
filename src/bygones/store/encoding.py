"""Ids and times as numbers that an index can hold in eight bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from operator import add
from struct import Struct
from zlib import crc32

from bygones.model.nodes import RecordText
from bygones.model.query import Part

_UUID_LENGTH = 36
_HYPHEN_COUNT = 4
_PREFIX_DIGITS = 8
_CHECKSUM_BITS = 31
_CHECKSUM_MASK = (1 << _CHECKSUM_BITS) - 1


def id_key(id_: str) -> int:
    """Return the first 32 bits of a uuid and 31 of its checksum, or two checksums.

    Uuids that were counted up differ at their end only, and must not all be one.
    """
    raw = id_.lower().encode()
    if len(raw) == _UUID_LENGTH and raw.count(b"-") == _HYPHEN_COUNT:
        try:
            return (
                int(raw[:_PREFIX_DIGITS], 16) << _CHECKSUM_BITS
                | crc32(raw) & _CHECKSUM_MASK
            )
        except ValueError:
            pass
    return crc32(raw) << _CHECKSUM_BITS | crc32(raw[::-1]) & _CHECKSUM_MASK


def id_key_range(prefix: str) -> tuple[int, int] | None:
    """Return the numbers between which uuids with this beginning lie.

    Only its first eight digits count; others may lie there too.
    """
    digits = prefix.replace("-", "").lower()[:_PREFIX_DIGITS]
    if not digits or any(digit not in "0123456789abcdef" for digit in digits):
        return None
    low = int(digits.ljust(_PREFIX_DIGITS, "0"), 16) << _CHECKSUM_BITS
    high = int(digits.ljust(_PREFIX_DIGITS, "f"), 16) << _CHECKSUM_BITS | _CHECKSUM_MASK
    return low, high


def to_milliseconds(moment: datetime | None) -> int | None:
    """Return a moment in milliseconds since 1970."""
    return round(moment.timestamp() * 1000) if moment is not None else None


_PART_INDEX = {part: code for code, part in enumerate(Part)}
_COUNT_FIELDS = 2 * len(Part)
_LENGTHS_LAYOUT = Struct(f"<{_COUNT_FIELDS}Q2q")
_COUNTS_LAYOUT = Struct(f"<{_COUNT_FIELDS}Q16x")


class TextLengths:
    """Documents and their characters for each part; the first and the last time."""

    def __init__(self, packed: bytes | None = None) -> None:
        *numbers, first, last = (
            _LENGTHS_LAYOUT.unpack(packed) if packed else _EMPTY_LENGTHS
        )
        self.counts: list[int] = numbers
        self.first_ms: int = first
        """In milliseconds; 0 where no record has a time."""
        self.last_ms: int = last

    @staticmethod
    def unpack_counts(packed: bytes) -> tuple[int, ...]:
        """Return documents, then characters, for each part."""
        return _COUNTS_LAYOUT.unpack(packed)

    def add(self, said: RecordText) -> None:
        """Count what a record says in one of its parts."""
        at = 2 * _PART_INDEX[said.part]
        self.counts[at] += 1
        self.counts[at + 1] += len(said.text)

    def include_times(self, times: Iterable[datetime]) -> None:
        """Take in when something was said."""
        found = list(times)
        if found:
            self._include_range(_to_ms(min(found)), _to_ms(max(found)))

    def _include_range(self, first: int, last: int) -> None:
        self.first_ms = min(self.first_ms or first, first)
        self.last_ms = max(self.last_ms or last, last)

    def merge(self, other: TextLengths) -> None:
        """Count what another has counted."""
        self.counts = list(map(add, self.counts, other.counts))
        if other.first_ms:
            self._include_range(other.first_ms, other.last_ms)

    def pack(self) -> bytes:
        """Return them as bytes."""
        return _LENGTHS_LAYOUT.pack(*self.counts, self.first_ms, self.last_ms)


class SessionTextLengths(Mapping[int, tuple[int, ...]]):
    """How much each session says, by its number; packed, as there are very many."""

    def __init__(self, packed: dict[int, bytes]) -> None:
        self._packed = packed

    def __getitem__(self, session: int) -> tuple[int, ...]:
        """Return documents, then characters, for each part."""
        return TextLengths.unpack_counts(self._packed[session])

    def __iter__(self) -> Iterator[int]:
        """Go through the numbers of sessions."""
        return iter(self._packed)

    def __len__(self) -> int:
        """Return how many sessions there are."""
        return len(self._packed)


_EMPTY_LENGTHS = (0,) * (_COUNT_FIELDS + 2)


def _to_ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
