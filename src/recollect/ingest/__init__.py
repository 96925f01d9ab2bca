"""INGEST: where the stages meet; brings archive and index up to date with sources."""

from __future__ import annotations

from recollect.ingest.report import Progress, Report
from recollect.ingest.run import ingest

__all__ = ["Progress", "Report", "ingest"]
