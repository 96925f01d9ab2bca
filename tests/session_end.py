"""Cleanup that runs after all tests of a worker."""

from __future__ import annotations

from contextlib import ExitStack

__all__ = ["SESSION_END"]

SESSION_END = ExitStack()
"""Servers that tests share; `tests/conftest.py` closes it."""
