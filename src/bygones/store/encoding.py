"""Compact forms of ids, times and text lengths in the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import add
from struct import Struct
from zlib import crc32

from bygones.model.nodes import RecordText
from bygones.model.query import Part

MAX_CHAR = "\U0010ffff"
"""Sorts after every other character, to select texts by their prefix."""
_UUID_LENGTH = 36
_HYPHEN_COUNT = 4
_PREFIX_DIGITS = 8
_CHECKSUM_BITS = 31
_CHECKSUM_MASK = (1 << _CHECKSUM_BITS) - 1


def id_key(id_: str) -> int:
    """Return a 63-bit key of an id: 32 bits of a UUID and 31 of its checksum.

    Other ids get two checksums. The checksum is needed because generated UUIDs may
    differ only at their end.
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
    """Return the lowest and highest key of UUIDs with a prefix.

    Only its first eight digits count, so other UUIDs may be in the range.
    """
    digits = prefix.replace("-", "").lower()[:_PREFIX_DIGITS]
    if not digits or any(digit not in "0123456789abcdef" for digit in digits):
        return None
    low = int(digits.ljust(_PREFIX_DIGITS, "0"), 16) << _CHECKSUM_BITS
    high = int(digits.ljust(_PREFIX_DIGITS, "f"), 16) << _CHECKSUM_BITS | _CHECKSUM_MASK
    return low, high


def to_milliseconds(time: datetime | None) -> int | None:
    return round(time.timestamp() * 1000) if time is not None else None


_PART_INDEX = {part: code for code, part in enumerate(Part)}
_COUNT_FIELDS = 2 * len(Part)
_LENGTHS_LAYOUT = Struct(f"<{_COUNT_FIELDS}Q2q")
_COUNTS_LAYOUT = Struct(f"<{_COUNT_FIELDS}Q16x")


class TextLengths:
    """Number of texts and of characters for each part; first and last time."""

    def __init__(self, packed: bytes | None = None) -> None:
        *numbers, first, last = (
            _LENGTHS_LAYOUT.unpack(packed) if packed else _EMPTY_LENGTHS
        )
        self.counts: list[int] = numbers
        self.first_ms: int = first
        """In milliseconds; 0 if no record has a time."""
        self.last_ms: int = last

    @staticmethod
    def unpack_counts(packed: bytes) -> tuple[int, ...]:
        """Return the number of texts and of characters, for each part."""
        return _COUNTS_LAYOUT.unpack(packed)

    def add(self, text: RecordText) -> None:
        """Count one text of a record."""
        index = 2 * _PART_INDEX[text.part]
        self.counts[index] += 1
        self.counts[index + 1] += len(text.text)

    def include_times(self, times: Sequence[datetime]) -> None:
        """Extend the time range."""
        if times:
            self._include_range(_to_ms(min(times)), _to_ms(max(times)))

    def _include_range(self, first: int, last: int) -> None:
        self.first_ms = min(self.first_ms or first, first)
        self.last_ms = max(self.last_ms or last, last)

    def clear(self) -> None:
        """Forget everything."""
        *self.counts, self.first_ms, self.last_ms = _EMPTY_LENGTHS

    def merge(self, other: TextLengths) -> None:
        """Add the counts of another."""
        self.counts = list(map(add, self.counts, other.counts))
        if other.first_ms:
            self._include_range(other.first_ms, other.last_ms)

    def pack(self) -> bytes:
        return _LENGTHS_LAYOUT.pack(*self.counts, self.first_ms, self.last_ms)


class SessionTextLengths(Mapping[int, tuple[int, ...]]):
    """The text lengths of each session, by number; packed, because there are many."""

    def __init__(self, packed: dict[int, bytes]) -> None:
        self._packed = packed

    def __getitem__(self, session: int) -> tuple[int, ...]:
        """Return the number of texts and of characters, for each part."""
        return TextLengths.unpack_counts(self._packed[session])

    def __iter__(self) -> Iterator[int]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


_EMPTY_LENGTHS = (0,) * (_COUNT_FIELDS + 2)


def _to_ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


STEERING_TITLE = "\v"
"""Starts a line with a prompt that has no record of its own, only a queue operation."""
BORROWED_TITLE = "\t"
"""Starts a line with the summary of a record that is in another session, if anywhere."""


def split_titles(rows: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return titles, summaries and queued prompts with their sessions.

    The first line of a session's text is its title, or empty. Summaries of records that
    another session has are returned with that session only. Queued prompts keep their
    mark.
    """
    lines = [(number, line) for number, text in rows for line in text.split("\n")]
    own = {line for _, line in lines if not line.startswith(BORROWED_TITLE)}
    return [
        (number, line.removeprefix(BORROWED_TITLE))
        for number, line in lines
        if line and (line in own or line.removeprefix(BORROWED_TITLE) not in own)
    ]
