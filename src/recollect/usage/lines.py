"""What sessions cost, for whoever lists them."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.model.ids import SessionId
from recollect.model.query import Fact
from recollect.model.usage import Cost
from recollect.prices import Prices, nanos
from recollect.store.shelf import Shelf
from recollect.store.spending import Among
from recollect.usage.pricing import Pricing

__all__ = ["costs_of"]


def costs_of(
    shelf: Shelf, sessions: Iterable[SessionId], prices: Prices
) -> dict[SessionId, Cost]:
    """Return what each session cost with its agents, as a report by session says it."""
    with shelf.at_once():
        return _costs(shelf, sessions, prices)


def _costs(
    shelf: Shelf, sessions: Iterable[SessionId], prices: Prices
) -> dict[SessionId, Cost]:
    spending, derived = shelf.spending, shelf.derived
    found = ((derived.number_of(name), name) for name in sessions)
    names = {number: name for number, name in found if number is not None}
    pricing = Pricing(prices, spending.purses(names))
    chosen = Among("purse", frozenset(pricing.purses))
    sums = spending.sums(
        where=Fact("session", ""),
        among=lambda _: chosen,
        steps=pricing.steps,
        ages=pricing.ages,
    )
    picos: dict[int, int] = {}
    unpriced = dict.fromkeys(names, 0)
    for one in sums:
        session, (cost, _) = pricing.purses[one.purse].session, pricing.cost(one)
        if cost is None:
            unpriced[session] += sum(one.counts[:5])
        else:
            picos[session] = picos.get(session, 0) + cost
    return {
        name: Cost(
            nanos=None
            if number not in picos and unpriced[number]
            else nanos(picos.get(number, 0)),
            unpriced_tokens=unpriced[number],
        )
        for number, name in names.items()
    }
