"""What sessions cost, for whoever lists them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from bygones.model.ids import AgentId, SessionId
from bygones.model.query import Fact
from bygones.model.usage import Cost
from bygones.prices import Prices, nanos
from bygones.store.shelf import Shelf
from bygones.store.spending import Among, Purse
from bygones.usage.pricing import Pricing

__all__ = ["SessionCosts", "costs_of", "session_costs_of"]

K = TypeVar("K", bound=Hashable)


class SessionCosts(NamedTuple):
    """What a session cost, and each agent run in it."""

    total: Cost
    """With all its agents."""
    runs: Mapping[AgentId, Cost]
    """Each without the runs below it."""


def costs_of(
    shelf: Shelf, sessions: Iterable[SessionId], prices: Prices
) -> dict[SessionId, Cost]:
    """Return what each session cost with its agents, as a report by session says it."""
    with shelf.at_once():
        found = ((shelf.derived.number_of(name), name) for name in sessions)
        names = {number: name for number, name in found if number is not None}
        sums = _sums(shelf, names, prices)
    costs = _by(sums, lambda purse: purse.session)
    return {name: costs.get(number, Cost(nanos=0)) for number, name in names.items()}


def session_costs_of(
    shelf: Shelf, session: SessionId, prices: Prices
) -> SessionCosts | None:
    """Return what a session cost and each agent run in it, if it is known."""
    with shelf.at_once():
        number = shelf.derived.number_of(session)
        if number is None:
            return None
        sums = _sums(shelf, (number,), prices)
    total = _by(sums, lambda purse: purse.session).get(number, Cost(nanos=0))
    runs = _by(sums, lambda purse: purse.agent)
    return SessionCosts(total, {run: cost for run, cost in runs.items() if run})


_Priced = tuple[Purse, int | None, int]
"""Whose something is, what it cost, and how many tokens it was."""


def _sums(shelf: Shelf, sessions: Iterable[int], prices: Prices) -> list[_Priced]:
    spending = shelf.spending
    pricing = Pricing(prices, spending.purses(sessions))
    chosen = Among("purse", frozenset(pricing.purses))
    sums = spending.sums(
        where=Fact("session", ""),
        among=lambda _: chosen,
        steps=pricing.steps,
        ages=pricing.ages,
    )
    return [
        (pricing.purses[one.purse], pricing.cost(one)[0], sum(one.counts[:5]))
        for one in sums
    ]


def _by(sums: Iterable[_Priced], key: Callable[[Purse], K]) -> dict[K, Cost]:
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
            nanos=None
            if who not in picos and unpriced[who]
            else nanos(picos.get(who, 0)),
            unpriced_tokens=unpriced.get(who, 0),
        )
        for who in {**picos, **unpriced}
    }
