"""USAGE: what the index knows of tokens, priced and summed."""

from __future__ import annotations

from recollect.usage.report import report_of

__all__ = ["report_of"]
