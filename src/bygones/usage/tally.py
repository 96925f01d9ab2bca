"""Adding up sums that have a price, or none."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from operator import add
from typing import Self

from bygones.model.reports import BlockFacts, UsageRow
from bygones.prices import nanos
from bygones.store.spending import Sum
from bygones.usage.pricing import Pricing

__all__ = ["Tally", "moment"]


class Tally:
    """What was spent under one key."""

    def __init__(self) -> None:
        self.counts = [0] * 6
        self.answers = self.cost = self.unpriced = self.guessed = self.guess = 0
        self.is_priced = False
        self.models: dict[str, int] = {}
        self.unknown: set[str] = set()
        self.first: int | None = None
        self.last: int | None = None

    @classmethod
    def of(cls, tallies: Iterable[Tally]) -> Self:
        """Return what several keys have spent together."""
        total = cls()
        for one in tallies:
            total.counts = list(map(add, total.counts, one.counts))
            total.answers += one.answers
            total.cost += one.cost
            total.unpriced += one.unpriced
            total.guessed += one.guessed
            total.guess += one.guess
            total.is_priced |= one.is_priced
            total.unknown |= one.unknown
            for model, tokens in one.models.items():
                total.models[model] = total.models.get(model, 0) + tokens
            total._last(one.first, one.last)
        return total

    def add(self, one: Sum, pricing: Pricing) -> None:
        """Add a sum and what it costs."""
        purse = pricing.purses[one.purse]
        self.counts = list(map(add, self.counts, one.counts))
        self.answers += one.answers
        model, tokens = purse.model or "", sum(one.counts[:5])
        self.models[model] = self.models.get(model, 0) + tokens
        picos, guess = pricing.cost(one)
        if picos is None:
            self.unpriced += tokens
            self.unknown.add(pricing.unknown(one))
        else:
            self.is_priced = True
            self.cost += picos
        self.guessed += one.guessed
        self.guess += guess or 0
        self._last(one.first_ms, one.last_ms)

    def _last(self, first: int | None, last: int | None) -> None:
        if first is None or last is None:
            return
        self.first = first if self.first is None else min(first, self.first)
        self.last = last if self.last is None else max(last, self.last)

    def row(
        self, key: str, *, title: str = "", block: BlockFacts | None = None
    ) -> UsageRow:
        """Return the row of a report."""
        counts = self.counts
        by_size = sorted(self.models, key=lambda model: -self.models[model])
        return UsageRow(
            key=key,
            title=title,
            answers=self.answers,
            tokens=sum(counts[:5]),
            input_tokens=counts[0],
            output_tokens=counts[1],
            cache_write_5m_tokens=counts[2],
            cache_write_1h_tokens=counts[3],
            cache_read_tokens=counts[4],
            web_searches=counts[5],
            cost=nanos(self.cost) if self.is_priced or not self.answers else None,
            unpriced_tokens=self.unpriced,
            estimated_output_tokens=self.guessed,
            estimated_cost=nanos(self.guess),
            models=tuple(model for model in by_size if model),
            first=moment(self.first),
            last=moment(self.last),
            block=block,
        )


def moment(milliseconds: int | None) -> datetime | None:
    """Return a time that is kept in milliseconds."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
