"""What messages cost, for whoever shows it beside them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import structs

from bygones.model.reports import NANOS_PER_DOLLAR
from bygones.model.sessions import Message, ModelUsage
from bygones.render.numbers import MessagePricer
from bygones.usage.prices import PICOS_PER_DOLLAR, Price, Prices

__all__ = ["has_single_price", "make_message_pricer"]


def make_message_pricer(prices: Prices) -> MessagePricer:
    """Return what tells the cost of messages; none where one has no price."""

    def cost_of(messages: Iterable[Message | ModelUsage]) -> int | None:
        total = 0
        for message in messages:
            usage = message.usage
            if usage is None or not usage.total:
                continue
            if isinstance(message, ModelUsage):
                time, context = message.last_at, message.max_context
            else:
                time, context = message.sent_at, usage.context
            price = _price_at(prices.for_model(message.model), time)
            if price is None:
                return None
            is_long = (
                price.long_context_threshold is not None
                and context > price.long_context_threshold
            )
            rates = price.rates_for(is_long_context=is_long)
            cost = rates.compute_cost(structs.astuple(usage)) if rates else None
            if cost is None:
                return None
            total += cost
        return total // (PICOS_PER_DOLLAR // NANOS_PER_DOLLAR)

    return cost_of


def has_single_price(prices: Prices, paid: ModelUsage) -> bool:
    """Whether one price holds for all that is told as a sum."""
    known = prices.for_model(paid.model)
    price = _price_at(known, paid.last_at)
    if price is not _price_at(known, paid.first_at):
        return False
    above = price.long_context_threshold if price is not None else None
    return above is None or not paid.min_context <= above < paid.max_context


def _price_at(prices: tuple[Price, ...], time: datetime | None) -> Price | None:
    """Return the price that held at a time; the newest if the time is not known."""
    if time is None:
        return prices[-1] if prices else None
    moment = time.timestamp() * 1000
    held = [price for price in prices if (price.since_ms or 0) <= moment]
    return held[-1] if held else None
