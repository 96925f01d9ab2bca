"""Adding up sums that have a price, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from recollect.model.reports import BlockFacts, UsageRow
from recollect.model.usage import Usage
from recollect.prices import Price, Prices
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
        self.ages: Sequence[int] = sorted({p.since_ms for p in known if p.since_ms})

    def cost(self, one: Sum) -> tuple[int | None, int | None]:
        """Return what a sum costs, and what the output beyond what was counted does."""
        purse = self.purses[one.purse]
        price = self._price(purse.model, one.age)
        if price is None:
            return None, None
        is_long = bool(price.above) and price.above in self.steps[: one.step]
        cost = price.cost(one.usage, terms=purse.terms, is_long=is_long)
        if not one.guessed:
            return cost, 0
        more = Usage(output=one.guessed)
        return cost, price.cost(more, terms=purse.terms, is_long=is_long)

    def _price(self, model: str | None, age: int) -> Price | None:
        found = self._prices[model]
        if len(found) < 2:  # noqa: PLR2004 (one for all times)
            return found[0] if found else None
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

    def add(self, one: Sum, purse: Purse, cost: tuple[int | None, int | None]) -> None:
        """Add a sum and what it costs."""
        usage, (picos, guess) = one.usage, cost
        for at, count in enumerate(
            (
                usage.input,
                usage.output,
                usage.cache_write_5m,
                usage.cache_write_1h,
                usage.cache_read,
                usage.web_searches,
            )
        ):
            self.counts[at] += count
        self.answers += one.answers
        model = purse.model or ""
        self.models[model] = self.models.get(model, 0) + usage.total
        if picos is None:
            self.unpriced += usage.total
            self.unknown.add(" ".join((model or "?", *purse.terms)))
        else:
            self.is_priced = True
            self.cost += picos
        self.guessed += one.guessed
        self.guess += guess or 0
        if one.first_ms is not None and one.last_ms is not None:
            first, last = self.first, self.last
            self.first = one.first_ms if first is None else min(first, one.first_ms)
            self.last = one.last_ms if last is None else max(last, one.last_ms)

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
