"""What sums cost, and into what parts they must come for that."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from bygones.model.base import AgentId, SessionId
from bygones.model.query import FieldValue
from bygones.model.usage import Cost
from bygones.store.protocols import StoreReader
from bygones.store.usage_tables import Payer, RowFilter, UsageSum
from bygones.usage.prices import Price, Prices, Rates, picos_to_nanos


class SumPricer:
    """Knows what a sum costs, and into what parts sums must come for that."""

    def __init__(self, prices: Prices, payers: Iterable[Payer]) -> None:
        self.payers: Mapping[int, Payer] = {purse.number: purse for purse in payers}
        models = {purse.model for purse in self.payers.values()}
        self._prices = {model: prices.for_model(model) for model in models}
        known = [price for found in self._prices.values() for price in found]
        self.context_steps: Sequence[int] = sorted(
            {p.long_context_threshold for p in known if p.long_context_threshold}
        )
        self._rates: dict[object, Rates | None] = {}
        self.price_dates_ms: Sequence[int] = sorted(
            {p.since_ms for p in known if p.since_ms}
        )

    def cost(self, usage_sum: UsageSum) -> tuple[int | None, int | None]:
        """Return what a sum costs, and what the output beyond what was counted does."""
        rates = self._rates_of(usage_sum)
        if rates is None:
            return None, None
        return rates.compute_cost(usage_sum.token_counts), rates.compute_cost(
            (0, usage_sum.estimated_output)
        ) if usage_sum.estimated_output else 0

    def describe_unpriced(self, usage_sum: UsageSum) -> str:
        """Return for what there is no price: a model, its terms, a kind of tokens."""
        purse, rates = self.payers[usage_sum.payer], self._rates_of(usage_sum)
        missing = (
            ", ".join(rates.missing_rates(usage_sum.token_counts)) if rates else ""
        )
        name = " ".join((purse.model or "?", *purse.terms))
        return f"{name} ({missing})" if missing else name

    def _rates_of(self, usage_sum: UsageSum) -> Rates | None:
        purse = self.payers[usage_sum.payer]
        sign = (
            purse.model,
            purse.terms,
            usage_sum.price_period,
            usage_sum.context_step,
        )
        if sign not in self._rates:
            self._rates[sign] = self._find_rates(*sign)
        return self._rates[sign]

    def _find_rates(
        self, model: str | None, terms: tuple[str, ...], age: int, step: int
    ) -> Rates | None:
        price = self._find_price(model, age)
        if price is None:
            return None
        is_long = (
            bool(price.long_context_threshold)
            and price.long_context_threshold in self.context_steps[:step]
        )
        return price.rates_for(terms, is_long_context=is_long)

    def _find_price(self, model: str | None, age: int) -> Price | None:
        found = self._prices[model]
        passed = self.price_dates_ms[age - 1] if age else 0
        valid = [price for price in found if (price.since_ms or 0) <= passed]
        return valid[-1] if valid else None


K = TypeVar("K", bound=Hashable)


class SessionCosts(NamedTuple):
    """What a session cost, and each agent run in it."""

    total: Cost
    """With all its agents."""
    by_agent: Mapping[AgentId, Cost]
    """Each without the runs below it."""


def load_costs(
    reader: StoreReader, sessions: Iterable[SessionId], prices: Prices
) -> dict[SessionId, Cost]:
    """Return what each session cost with its agents, as a report by session says it."""
    with reader.read_transaction():
        found = ((reader.sessions.session_number(name), name) for name in sessions)
        names = {number: name for number, name in found if number is not None}
        sums = _priced_sums(reader, names, prices)
    costs = _sum_costs(sums, lambda purse: purse.session)
    return {name: costs.get(number, Cost(nano_usd=0)) for number, name in names.items()}


def load_session_costs(
    reader: StoreReader, session: SessionId, prices: Prices
) -> SessionCosts | None:
    """Return what a session cost and each agent run in it, if it is known."""
    with reader.read_transaction():
        number = reader.sessions.session_number(session)
        if number is None:
            return None
        sums = _priced_sums(reader, (number,), prices)
    total = _sum_costs(sums, lambda purse: purse.session).get(number, Cost(nano_usd=0))
    runs = _sum_costs(sums, lambda purse: purse.agent)
    return SessionCosts(total, {run: cost for run, cost in runs.items() if run})


_PricedSum = tuple[Payer, int | None, int]
"""Whose something is, what it cost, and how many tokens it was."""


def _priced_sums(
    reader: StoreReader, sessions: Iterable[int], prices: Prices
) -> list[_PricedSum]:
    spending = reader.usage
    pricing = SumPricer(prices, spending.load_payers(sessions))
    chosen = RowFilter("payer", frozenset(pricing.payers))
    sums = spending.sum_usage(
        where=FieldValue("session", ""),
        row_filter=lambda _: chosen,
        context_steps=pricing.context_steps,
        price_changes=pricing.price_dates_ms,
    )
    return [
        (pricing.payers[one.payer], pricing.cost(one)[0], sum(one.token_counts[:5]))
        for one in sums
    ]


def _sum_costs(sums: Iterable[_PricedSum], key: Callable[[Payer], K]) -> dict[K, Cost]:
    picos: dict[K, int] = {}
    unpriced: dict[K, int] = {}
    for purse, cost, count in sums:
        who = key(purse)
        if cost is None:
            unpriced[who] = unpriced.get(who, 0) + count
        else:
            picos[who] = picos.get(who, 0) + cost
    return {
        who: Cost(
            nano_usd=None
            if who not in picos and unpriced[who]
            else picos_to_nanos(picos.get(who, 0)),
            unpriced_tokens=unpriced.get(who, 0),
        )
        for who in {**picos, **unpriced}
    }
