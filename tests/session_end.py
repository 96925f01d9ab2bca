"""What a worker stops when all its tests have run."""

from __future__ import annotations

from contextlib import ExitStack

__all__ = ["SESSION_END"]

SESSION_END = ExitStack()
"""Servers that tests share; `tests/conftest.py` closes it."""
