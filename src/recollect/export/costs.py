"""What messages cost, for whoever shows it beside them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import structs

from recollect.model.reports import NANOS
from recollect.model.sessions import Message
from recollect.prices import PICOS, Price, Prices
from recollect.render.figures import Coster

__all__ = ["coster"]


def coster(prices: Prices) -> Coster:
    """Return what tells the cost of messages; none where one has no price."""

    def cost_of(messages: Iterable[Message]) -> int | None:
        total = 0
        for message in messages:
            if message.usage is None or not message.usage.total:
                continue
            price = _valid(prices.of(message.model), message.time)
            if price is None:
                return None
            is_long = price.above is not None and message.usage.context > price.above
            rates = price.rates(is_long=is_long)
            cost = rates.cost(structs.astuple(message.usage)) if rates else None
            if cost is None:
                return None
            total += cost
        return total // (PICOS // NANOS)

    return cost_of


def _valid(prices: tuple[Price, ...], time: datetime | None) -> Price | None:
    """Return the price that held at a time; the newest if the time is not known."""
    if time is None:
        return prices[-1] if prices else None
    moment = time.timestamp() * 1000
    held = [price for price in prices if (price.since_ms or 0) <= moment]
    return held[-1] if held else None
