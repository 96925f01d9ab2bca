"""What messages cost, for whoever shows it beside them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import structs

from bygones.model.reports import NANOS
from bygones.model.rest import Paid
from bygones.model.sessions import Message
from bygones.prices import PICOS, Price, Prices
from bygones.render.figures import Coster

__all__ = ["coster", "is_even"]


def coster(prices: Prices) -> Coster:
    """Return what tells the cost of messages; none where one has no price."""

    def cost_of(messages: Iterable[Message | Paid]) -> int | None:
        total = 0
        for message in messages:
            usage = message.usage
            if usage is None or not usage.total:
                continue
            if isinstance(message, Paid):
                time, context = message.last, message.most
            else:
                time, context = message.time, usage.context
            price = _valid(prices.of(message.model), time)
            if price is None:
                return None
            is_long = price.above is not None and context > price.above
            rates = price.rates(is_long=is_long)
            cost = rates.cost(structs.astuple(usage)) if rates else None
            if cost is None:
                return None
            total += cost
        return total // (PICOS // NANOS)

    return cost_of


def is_even(prices: Prices, paid: Paid) -> bool:
    """Whether one price holds for all that is told as a sum."""
    known = prices.of(paid.model)
    price = _valid(known, paid.last)
    if price is not _valid(known, paid.first):
        return False
    above = price.above if price is not None else None
    return above is None or not paid.least <= above < paid.most


def _valid(prices: tuple[Price, ...], time: datetime | None) -> Price | None:
    """Return the price that held at a time; the newest if the time is not known."""
    if time is None:
        return prices[-1] if prices else None
    moment = time.timestamp() * 1000
    held = [price for price in prices if (price.since_ms or 0) <= moment]
    return held[-1] if held else None
