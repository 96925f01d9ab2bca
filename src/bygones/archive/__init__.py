"""The library: `Archive`."""

from __future__ import annotations

from bygones.archive.archive import Archive
from bygones.archive.base import translate_database_error

__all__ = ["Archive", "translate_database_error"]
