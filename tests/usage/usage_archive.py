"""A home whose usage is known exactly, with short methods for reports about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from bygones.archive import Archive
from bygones.model.reports import ContextReport, UsageReport, UsageRow
from bygones.query.parser import parse_query
from bygones.usage.prices import Prices, load_prices
from tests.build import Written, reply
from tests.store.sandbox import Sandbox

__all__ = ["NOW", "OPUS", "SONNET", "UsageArchive", "answer", "usages"]

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""Three hours after the first record of a home."""
SONNET = "claude-sonnet-4-5-20250929"
OPUS = "claude-opus-4-5-20251101"


def answer(
    number: int,
    *,
    model: str = SONNET,
    says: str = "done",
    more: Mapping[str, object] | None = None,
    **counts: int,
) -> Written:
    """Return a record of the answer with this number; counts are named as in usage."""
    names = {
        "write_5m": "ephemeral_5m_input_tokens",
        "write_1h": "ephemeral_1h_input_tokens",
        "read": "cache_read_input_tokens",
    }
    usage: Written = {}
    for name, count in counts.items():
        if name.startswith("write"):
            usage.setdefault("cache_creation", {})[names[name]] = count
        else:
            usage[names.get(name, f"{name}_tokens")] = count
    return reply(
        says,
        message_id=f"msg_{number:024}",
        model=model,
        usage=usage | dict(more or {}),
        requestId=f"req_{number}",
    )


class UsageArchive(Sandbox):
    """A home and its archive."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.prices: Prices = load_prices()

    def usage(
        self,
        by: str = "day",
        query: str = "",
        *,
        zone: tzinfo = UTC,
        now: datetime = NOW,
    ) -> UsageReport:
        """Ingest what is new and return a report."""
        self.ingest()
        asked = parse_query(query, now=now, zone=zone)
        with Archive.open(self.archive) as archive:
            return archive.usage(
                by, query=asked, timezone=zone, now=now, prices=self.prices
            )

    def total(self, query: str = "") -> UsageRow:
        """Return the total of a report."""
        return self.usage(query=query).total

    def tokens(self, by: str, query: str = "", *, zone: tzinfo = UTC) -> dict[str, int]:
        """Return the tokens of each row."""
        return {row.key: row.tokens for row in self.usage(by, query, zone=zone).rows}

    def context(self, session: str) -> ContextReport:
        """Ingest what is new and return a session's context."""
        self.ingest()
        with Archive.open(self.archive) as archive:
            return archive.context(session)


def usages(row: UsageRow) -> tuple[int, int, int, int, int]:
    """Return input, output, cache writes of both kinds, and cache reads."""
    return (
        row.input_tokens,
        row.output_tokens,
        row.cache_write_5m_tokens,
        row.cache_write_1h_tokens,
        row.cache_read_tokens,
    )
