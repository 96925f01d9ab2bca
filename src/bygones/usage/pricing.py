"""What sums cost, and into what parts they must come for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bygones.prices import Price, Prices, Rates
from bygones.store.spending import Purse, Sum

__all__ = ["Pricing"]


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
        rates = self._of(one)
        if rates is None:
            return None, None
        return rates.cost(one.counts), rates.cost(
            (0, one.guessed)
        ) if one.guessed else 0

    def unknown(self, one: Sum) -> str:
        """Return for what there is no price: a model, its terms, a kind of tokens."""
        purse, rates = self.purses[one.purse], self._of(one)
        missing = ", ".join(rates.missing(one.counts)) if rates else ""
        name = " ".join((purse.model or "?", *purse.terms))
        return f"{name} ({missing})" if missing else name

    def _of(self, one: Sum) -> Rates | None:
        purse = self.purses[one.purse]
        sign = (purse.model, purse.terms, one.age, one.step)
        if sign not in self._rates:
            self._rates[sign] = self._rate(*sign)
        return self._rates[sign]

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
