"""What sessions cost, for whoever lists them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from recollect.model.ids import AgentId, SessionId
from recollect.model.query import Fact
from recollect.model.usage import Cost
from recollect.prices import Prices, nanos
from recollect.store.shelf import Shelf
from recollect.store.spending import Among, Purse
from recollect.usage.pricing import Pricing

__all__ = ["agent_costs_of", "costs_of"]

K = TypeVar("K", bound=Hashable)


def costs_of(
    shelf: Shelf, sessions: Iterable[SessionId], prices: Prices
) -> dict[SessionId, Cost]:
    """Return what each session cost with its agents, as a report by session says it."""
    with shelf.at_once():
        found = ((shelf.derived.number_of(name), name) for name in sessions)
        names = {number: name for number, name in found if number is not None}
        costs = _costs(shelf, names, prices, lambda purse: purse.session)
    return {name: costs.get(number, Cost(nanos=0)) for number, name in names.items()}


def agent_costs_of(
    shelf: Shelf, session: SessionId, prices: Prices
) -> dict[AgentId, Cost]:
    """Return what each agent run of a session cost, without the runs below it."""
    with shelf.at_once():
        number = shelf.derived.number_of(session)
        numbers = () if number is None else (number,)
        costs = _costs(shelf, numbers, prices, lambda purse: purse.agent)
    return {agent: cost for agent, cost in costs.items() if agent is not None}


def _costs(
    shelf: Shelf, sessions: Iterable[int], prices: Prices, key: Callable[[Purse], K]
) -> dict[K, Cost]:
    spending = shelf.spending
    pricing = Pricing(prices, spending.purses(sessions))
    chosen = Among("purse", frozenset(pricing.purses))
    sums = spending.sums(
        where=Fact("session", ""),
        among=lambda _: chosen,
        steps=pricing.steps,
        ages=pricing.ages,
    )
    picos: dict[K, int] = {}
    unpriced: dict[K, int] = {}
    for one in sums:
        who, (cost, _) = key(pricing.purses[one.purse]), pricing.cost(one)
        if cost is None:
            unpriced[who] = unpriced.get(who, 0) + sum(one.counts[:5])
        else:
            picos[who] = picos.get(who, 0) + cost
    return {
        who: Cost(
            nanos=None
            if who not in picos and unpriced[who]
            else nanos(picos.get(who, 0)),
            unpriced_tokens=unpriced.get(who, 0),
        )
        for who in {**picos, **unpriced}
    }
