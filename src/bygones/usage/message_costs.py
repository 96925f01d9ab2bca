"""Costs of messages that are in memory, for display next to them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from operator import add

from msgspec import structs

from bygones.model.reports import NANOS_PER_DOLLAR
from bygones.model.sessions import Message
from bygones.render.numbers import MessagePricer
from bygones.usage.prices import PICOS_PER_DOLLAR, Price, Prices


def make_message_pricer(prices: Prices) -> MessagePricer:
    """Return a function that sums the costs of messages.

    The function returns ``None`` if one of the messages has no price.
    """

    def price_messages(messages: Iterable[Message]) -> int | None:
        # Tokens are summed by price first: a turn may have thousands of messages.
        sums: dict[tuple[int, bool], tuple[Price, tuple[int, ...]]] = {}
        for message in messages:
            usage = message.usage
            if usage is None or not usage.total:
                continue
            price = _price_at(prices.for_model(message.model), message.sent_at)
            if price is None:
                return None
            threshold = price.long_context_threshold
            is_long_context = threshold is not None and usage.context > threshold
            key, counts = (id(price), is_long_context), structs.astuple(usage)
            if key in sums:
                counts = tuple(map(add, sums[key][1], counts))
            sums[key] = (price, counts)
        total = 0
        for (_, is_long_context), (price, counts) in sums.items():
            rates = price.rates_for(is_long_context=is_long_context)
            cost = rates.compute_cost(counts) if rates else None
            if cost is None:
                return None
            total += cost
        return total // (PICOS_PER_DOLLAR // NANOS_PER_DOLLAR)

    return price_messages


def _price_at(prices: tuple[Price, ...], time: datetime | None) -> Price | None:
    """Return the price that was valid at a time; the newest if there is no time."""
    if time is None or (len(prices) == 1 and prices[0].since_ms is None):
        return prices[-1] if prices else None
    time_ms = time.timestamp() * 1000
    valid = [price for price in prices if (price.since_ms or 0) <= time_ms]
    return valid[-1] if valid else None
