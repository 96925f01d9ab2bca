"""What somebody may read of a team's store."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Shelf"]


class Shelf(Protocol):
    """Answers as the index of a folder does, for one scope."""

    def close(self) -> None:
        """Let go of it."""
        ...
