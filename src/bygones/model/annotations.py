"""What a reader adds to a session: the only facts that no transcript can give back."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Annotations"]


class Annotations(Struct, frozen=True, kw_only=True):
    """A session's tags, its note and its star."""

    tags: tuple[str, ...] = ()
    """In the order of the alphabet."""
    note: str = ""
    is_starred: bool = False
