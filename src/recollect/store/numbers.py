"""Ids as numbers that an index can hold in eight bytes."""

from __future__ import annotations

import hashlib

__all__ = ["id_number", "id_range"]

_BITS = 63
_HEX = 16
_UUID_LENGTH = 36


def id_number(name: str) -> int:
    """Return the first 63 bits of a uuid, or of the hash of any other name."""
    if len(name) == _UUID_LENGTH:
        digits = name.replace("-", "")
        if len(digits) == 2 * _HEX:
            try:
                return int(digits[:_HEX], 16) >> 1
            except ValueError:
                pass
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1


def id_range(prefix: str) -> tuple[int, int] | None:
    """Return the numbers between which uuids with this beginning lie."""
    digits = prefix.replace("-", "").lower()[:_HEX]
    if not digits or any(digit not in "0123456789abcdef" for digit in digits):
        return None
    low = int(digits.ljust(_HEX, "0"), 16) >> 1
    high = int(digits.ljust(_HEX, "f"), 16) >> 1
    return low, high
