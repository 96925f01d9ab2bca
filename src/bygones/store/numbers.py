"""Ids and times as numbers that an index can hold in eight bytes."""

from __future__ import annotations

from datetime import datetime
from zlib import crc32

__all__ = ["id_number", "id_range", "milliseconds"]

_UUID_LENGTH = 36
_HYPHENS = 4
_DIGITS = 8
_REST = 31
_MASK = (1 << _REST) - 1


def id_number(name: str) -> int:
    """Return the first 32 bits of a uuid and 31 of its checksum, or two checksums.

    Uuids that were counted up differ at their end only, and must not all be one.
    """
    raw = name.lower().encode()
    if len(raw) == _UUID_LENGTH and raw.count(b"-") == _HYPHENS:
        try:
            return int(raw[:_DIGITS], 16) << _REST | crc32(raw) & _MASK
        except ValueError:
            pass
    return crc32(raw) << _REST | crc32(raw[::-1]) & _MASK


def id_range(prefix: str) -> tuple[int, int] | None:
    """Return the numbers between which uuids with this beginning lie.

    Only its first eight digits count; others may lie there too.
    """
    digits = prefix.replace("-", "").lower()[:_DIGITS]
    if not digits or any(digit not in "0123456789abcdef" for digit in digits):
        return None
    low = int(digits.ljust(_DIGITS, "0"), 16) << _REST
    high = int(digits.ljust(_DIGITS, "f"), 16) << _REST | _MASK
    return low, high


def milliseconds(moment: datetime | None) -> int | None:
    """Return a moment in milliseconds since 1970."""
    return round(moment.timestamp() * 1000) if moment is not None else None
