"""What is derived of a person's sessions, on its way to a store."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from bygones.store.harvest import Harvest

__all__ = ["Derivation"]


class Derivation(Struct, frozen=True, kw_only=True):
    """Sessions of a person, derived together from whole sources."""

    person: str
    sources: Mapping[int, int]
    """What they were derived from, and the revision of each: it is clean up to there,
    and sessions that had these sources before are replaced. Whoever has derived
    something newer meanwhile wins."""
    sessions: tuple[Harvest, ...]
