"""Adding up sums that have a price, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import add
from typing import Self

from recollect.model.reports import BlockFacts, UsageRow
from recollect.prices import Price, Prices, Rates
from recollect.store.spending import Purse, Sum

__all__ = ["Pricing", "Tally", "moment", "nanos"]

_PICOS_IN_NANO = 1000


def nanos(picos: int) -> int:
    """Return money in billionths of a dollar, rounded."""
    return (picos + _PICOS_IN_NANO // 2) // _PICOS_IN_NANO


class Pricing:
    """Knows what a sum costs, and into what parts sums must come for that."""

    def __init__(self, prices: Prices, purses: Iterable[Purse]) -> None:
        self.purses: Mapping[int, Purse] = {purse.number: purse for purse in purses}
        models = {purse.model for purse in self.purses.values()}
        self._prices = {model: prices.of(model) for model in models}
        known = [price for found in self._prices.values() for price in found]
        self.steps: Sequence[int] = sorted({p.above for p in known if p.above})
        self._rates: dict[object, Rates | None] = {}
        self.ages: Sequence[int] = sorted({p.since_ms for p in known if p.since_ms})

    def cost(self, one: Sum) -> tuple[int | None, int | None]:
        """Return what a sum costs, and what the output beyond what was counted does."""
        purse = self.purses[one.purse]
        sign = (purse.model, purse.terms, one.age, one.step)
        if sign not in self._rates:
            self._rates[sign] = self._rate(*sign)
        rates = self._rates[sign]
        if rates is None:
            return None, None
        return rates.cost(one.counts), rates.cost(
            (0, one.guessed)
        ) if one.guessed else 0

    def _rate(
        self, model: str | None, terms: tuple[str, ...], age: int, step: int
    ) -> Rates | None:
        price = self._price(model, age)
        if price is None:
            return None
        is_long = bool(price.above) and price.above in self.steps[:step]
        return price.rates(terms, is_long=is_long)

    def _price(self, model: str | None, age: int) -> Price | None:
        found = self._prices[model]
        passed = self.ages[age - 1] if age else 0
        valid = [price for price in found if (price.since_ms or 0) <= passed]
        return valid[-1] if valid else None


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

    def add(self, one: Sum, purse: Purse, cost: tuple[int | None, int | None]) -> None:
        """Add a sum and what it costs."""
        self.counts = list(map(add, self.counts, one.counts))
        self.answers += one.answers
        model, tokens = purse.model or "", sum(one.counts[:5])
        self.models[model] = self.models.get(model, 0) + tokens
        picos, guess = cost
        if picos is None:
            self.unpriced += tokens
            self.unknown.add(" ".join((model or "?", *purse.terms)))
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
