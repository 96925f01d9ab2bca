"""What is known of the last verification of an archive."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

__all__ = ["Verified"]


class Verified(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When an archive was last verified, and what that found."""

    time: datetime
    is_sound: bool
    is_deep: bool = False
    """Whether the index was compared with a rebuild as well."""
    sources: int = 0
    bytes: int = 0
    """That were read and compared with their hashes."""
    damages: int = 0
    since: int = 0
    """Bytes that came since, and that nobody has verified."""
