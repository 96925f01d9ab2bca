"""ClickHouse, for a company: the same rows as elsewhere, and postings for the words."""

from __future__ import annotations

from bygones.team.clickhouse.store import ClickHouseStore

__all__ = ["ClickHouseStore"]
