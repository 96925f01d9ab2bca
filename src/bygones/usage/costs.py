"""Compute the costs of sums of usage, and of sessions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from bygones.model.base import AgentId, SessionId
from bygones.model.query import FieldValue
from bygones.model.usage import Cost
from bygones.store.protocols import StoreReader
from bygones.store.usage_tables import Payer, RowFilter, UsageDivision, UsageSum
from bygones.usage.prices import Price, Prices, Rates, picos_to_nanos


class SumPricer:
    """Computes what sums cost, and knows how sums have to be split for that."""

    def __init__(self, prices: Prices, payers: Iterable[Payer]) -> None:
        self.payers: Mapping[int, Payer] = {payer.number: payer for payer in payers}
        models = {payer.model for payer in self.payers.values()}
        self._prices = {model: prices.for_model(model) for model in models}
        known = [price for found in self._prices.values() for price in found]
        steps = {p.long_context_threshold for p in known if p.long_context_threshold}
        self.division = UsageDivision(
            context_steps=tuple(sorted(steps)),
            price_changes=tuple(sorted({p.since_ms for p in known if p.since_ms})),
        )
        """What sums have to be divided by to have one price each."""
        self._rates: dict[object, Rates | None] = {}

    def cost(self, usage_sum: UsageSum) -> tuple[int | None, int | None]:
        """Return the cost of a sum in picodollars, and that of its estimated output."""
        rates = self._rates_of(usage_sum)
        if rates is None:
            return None, None
        estimated = usage_sum.estimated_output
        return (
            rates.compute_cost(usage_sum.token_counts),
            rates.compute_cost((0, estimated)) if estimated else 0,
        )

    def describe_unpriced(self, usage_sum: UsageSum) -> str:
        """Return what has no price: a model, its terms, a kind of tokens."""
        payer, rates = self.payers[usage_sum.payer], self._rates_of(usage_sum)
        missing = (
            ", ".join(rates.missing_rates(usage_sum.token_counts)) if rates else ""
        )
        name = " ".join((payer.model or "?", *payer.terms))
        return f"{name} ({missing})" if missing else name

    def _rates_of(self, usage_sum: UsageSum) -> Rates | None:
        payer = self.payers[usage_sum.payer]
        key = (
            payer.model,
            payer.terms,
            usage_sum.price_period,
            usage_sum.context_step,
        )
        if key not in self._rates:
            self._rates[key] = self._find_rates(*key)
        return self._rates[key]

    def _find_rates(
        self, model: str | None, terms: tuple[str, ...], period: int, step: int
    ) -> Rates | None:
        price = self._find_price(model, period)
        if price is None:
            return None
        is_long = (
            bool(price.long_context_threshold)
            and price.long_context_threshold in self.division.context_steps[:step]
        )
        return price.rates_for(terms, is_long_context=is_long)

    def find_rates(
        self, payer: Payer, period: int
    ) -> tuple[Rates, Rates, int | None] | None:
        """Return the rates of a payer in a price period, also for long contexts.

        The last value is the context from which on those apply. None without a price.
        """
        price = self._find_price(payer.model, period)
        standard = price.rates_for(payer.terms) if price else None
        long_context = (
            price.rates_for(payer.terms, is_long_context=True) if price else None
        )
        if price is None or standard is None or long_context is None:
            return None
        return standard, long_context, price.long_context_threshold

    def _find_price(self, model: str | None, period: int) -> Price | None:
        start_ms = self.division.price_changes[period - 1] if period else 0
        prices = self._prices[model]
        valid = [price for price in prices if (price.since_ms or 0) <= start_ms]
        return valid[-1] if valid else None


K = TypeVar("K", bound=Hashable)


class SessionCosts(NamedTuple):
    """The cost of a session, and of each agent run in it."""

    total: Cost
    """Including all agent runs."""
    by_agent: Mapping[AgentId, Cost]
    """Each without the runs that it started."""


def load_costs(
    reader: StoreReader, sessions: Iterable[SessionId], prices: Prices
) -> dict[SessionId, Cost]:
    """Return the cost of each session with its agents, as in a report by session."""
    with reader.read_transaction():
        numbered = ((reader.sessions.session_number(id_), id_) for id_ in sessions)
        ids = {number: id_ for number, id_ in numbered if number is not None}
        sums = _priced_sums(reader, ids, prices)
    costs = _sum_costs(sums, lambda payer: payer.session)
    return {id_: costs.get(number, Cost(nano_usd=0)) for number, id_ in ids.items()}


def load_session_costs(
    reader: StoreReader, session: SessionId, prices: Prices
) -> SessionCosts | None:
    """Return the cost of a session and its agent runs; none if it is not indexed."""
    with reader.read_transaction():
        number = reader.sessions.session_number(session)
        if number is None:
            return None
        sums = _priced_sums(reader, (number,), prices)
    total = _sum_costs(sums, lambda payer: payer.session).get(number, Cost(nano_usd=0))
    runs = _sum_costs(sums, lambda payer: payer.agent)
    return SessionCosts(total, {run: cost for run, cost in runs.items() if run})


_PricedSum = tuple[Payer, int | None, int]
"""The payer, the cost in picodollars, and the number of tokens."""


def _priced_sums(
    reader: StoreReader, sessions: Iterable[int], prices: Prices
) -> list[_PricedSum]:
    pricer = SumPricer(prices, reader.usage.load_payers(sessions))
    of_payers = RowFilter("payer", frozenset(pricer.payers))
    sums = reader.usage.sum_usage(
        pricer.division,
        where=FieldValue("session", ""),  # any condition: it resolves to these payers
        row_filter=lambda _: of_payers,
    )
    return [
        (pricer.payers[one.payer], pricer.cost(one)[0], sum(one.token_counts[:5]))
        for one in sums
    ]


def _sum_costs(sums: Iterable[_PricedSum], key: Callable[[Payer], K]) -> dict[K, Cost]:
    picos: dict[K, int] = {}
    unpriced: dict[K, int] = {}
    for payer, cost, tokens in sums:
        group = key(payer)
        if cost is None:
            unpriced[group] = unpriced.get(group, 0) + tokens
        else:
            picos[group] = picos.get(group, 0) + cost
    return {
        group: Cost(
            nano_usd=None
            if group not in picos and unpriced[group]
            else picos_to_nanos(picos.get(group, 0)),
            unpriced_tokens=unpriced.get(group, 0),
        )
        for group in {**picos, **unpriced}
    }
