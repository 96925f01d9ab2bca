"""Numbers within a session as one number, as readers of an index know them."""

from __future__ import annotations

import secrets
import time

__all__ = ["new_numbers", "pack", "unpack"]

_WITHIN = 1 << 32
_RANDOM = 12


def pack(session: int, within: int) -> int:
    """Return a record or a purse of a session as one number."""
    return session * _WITHIN + within


def unpack(number: int) -> tuple[int, int]:
    """Return the session, and the number within."""
    return divmod(number, _WITHIN)


def new_numbers(count: int) -> range:
    """Return numbers for sessions, higher than all that were given before.

    They are made of the time, so that writers need not ask each other.
    """
    first = (time.time_ns() // 1000) << _RANDOM | secrets.randbelow(1 << _RANDOM)
    return range(first, first + count)
