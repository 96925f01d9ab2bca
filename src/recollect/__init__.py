"""Recollect keeps, finds and shows what you and Claude Code have said."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
