"""Costs of messages that are in memory, for display next to them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import structs

from bygones.model.conversations import ModelUsage
from bygones.model.reports import NANOS_PER_DOLLAR
from bygones.model.sessions import Message
from bygones.render.numbers import MessagePricer
from bygones.usage.prices import PICOS_PER_DOLLAR, Price, Prices


def make_message_pricer(prices: Prices) -> MessagePricer:
    """Return a function that sums the costs of messages.

    The function returns ``None`` if one of the messages has no price.
    """

    def price_messages(messages: Iterable[Message | ModelUsage]) -> int | None:
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
            is_long_context = (
                price.long_context_threshold is not None
                and context > price.long_context_threshold
            )
            rates = price.rates_for(is_long_context=is_long_context)
            cost = rates.compute_cost(structs.astuple(usage)) if rates else None
            if cost is None:
                return None
            total += cost
        return total // (PICOS_PER_DOLLAR // NANOS_PER_DOLLAR)

    return price_messages


def has_single_price(prices: Prices, usage: ModelUsage) -> bool:
    """Whether the same price applies to all messages in a sum."""
    model_prices = prices.for_model(usage.model)
    price = _price_at(model_prices, usage.last_at)
    if price is not _price_at(model_prices, usage.first_at):
        return False
    threshold = price.long_context_threshold if price is not None else None
    return threshold is None or not usage.min_context <= threshold < usage.max_context


def _price_at(prices: tuple[Price, ...], time: datetime | None) -> Price | None:
    """Return the price that was valid at a time; the newest if there is no time."""
    if time is None:
        return prices[-1] if prices else None
    time_ms = time.timestamp() * 1000
    valid = [price for price in prices if (price.since_ms or 0) <= time_ms]
    return valid[-1] if valid else None
