"""Token counts as in transcripts, and their sums; costs."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw, Struct


class CacheWrites(Struct, frozen=True, kw_only=True, gc=False):
    """Cache writes by lifetime."""

    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class ServerTools(Struct, frozen=True, kw_only=True, gc=False):
    """Number of calls of server tools."""

    web_search_requests: int | None = None
    web_fetch_requests: int | None = None


NO_ITERATIONS = Raw()


class WireUsage(Struct, frozen=True, kw_only=True, gc=False):
    """`message.usage` of one record.

    Only one record of a message has the final counts, not necessarily the last one. Any
    count may be missing, and some gateways write negative ones.
    """

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheWrites | None = None
    output_tokens: int | None = None
    service_tier: str | None = None
    server_tool_use: ServerTools | None = None
    speed: str | None = None
    inference_geo: str | None = None
    iterations: Raw = NO_ITERATIONS
    """The API calls of the reply, each with its usage; most are in the total."""


class WireIteration(WireUsage, frozen=True, kw_only=True, gc=False):
    """One API call of a reply."""

    type: str | None = None
    model: str | None = None


class Usage(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """Token counts of one or more messages, by price category."""

    input: int = 0
    """Input without cache reads and writes."""
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    web_searches: int = 0

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cache_write + self.cache_read

    @property
    def cache_write(self) -> int:
        """Tokens written to the cache."""
        return self.cache_write_5m + self.cache_write_1h

    @property
    def context(self) -> int:
        """Size of the context."""
        return self.input + self.cache_write + self.cache_read

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_write_5m=self.cache_write_5m + other.cache_write_5m,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
            cache_read=self.cache_read + other.cache_read,
            web_searches=self.web_searches + other.web_searches,
        )

    def __or__(self, other: Usage) -> Usage:
        """Return the maximum of each field, to merge two records of a message."""
        return Usage(
            input=max(self.input, other.input),
            output=max(self.output, other.output),
            cache_write_5m=max(self.cache_write_5m, other.cache_write_5m),
            cache_write_1h=max(self.cache_write_1h, other.cache_write_1h),
            cache_read=max(self.cache_read, other.cache_read),
            web_searches=max(self.web_searches, other.web_searches),
        )


class Cost(Struct, frozen=True, kw_only=True, gc=False):
    """A cost, as far as prices are known."""

    nano_usd: int | None = None
    """`None` if nothing has a price."""
    unpriced_tokens: int = 0
    """Tokens without a known price; not part of the cost."""


def sum_costs(costs: Iterable[Cost | None]) -> Cost:
    """Return the sum of costs; unknown ones count as zero."""
    known = [cost for cost in costs if cost is not None]
    return Cost(
        nano_usd=sum(cost.nano_usd or 0 for cost in known),
        unpriced_tokens=sum(cost.unpriced_tokens for cost in known),
    )


class SubCall(Struct, frozen=True, gc=False, array_like=True):
    """An API call for a reply that is not part of the reply's counts."""

    model: str | None
    usage: Usage


class Billing(Struct, frozen=True, array_like=True):
    """Special terms and additional calls of a reply."""

    terms: tuple[str, ...] = ()
    """`batch`, `fast`, a tier or a region; usually empty."""
    sub_calls: tuple[SubCall, ...] = ()


class ReportedCost(Struct, frozen=True, array_like=True):
    """The cost of a session as Claude Code reports it."""

    micro_usd: int
    """Millionths of a dollar, for all models."""
    by_model: tuple[tuple[str, int, int], ...] = ()
    """Model, millionths of a dollar, and tokens."""
    start_time: int = 0
    """When the total started, in milliseconds; a fork may continue that of its parent."""

    def __sub__(self, earlier: ReportedCost) -> ReportedCost:
        """Return what was added to an earlier total."""
        known = {model: (micros, tokens) for model, micros, tokens in earlier.by_model}
        rest = (
            (model, micros - before, tokens - tokens_before)
            for model, micros, tokens in self.by_model
            for before, tokens_before in (known.get(model, (0, 0)),)
        )
        return ReportedCost(
            self.micro_usd - earlier.micro_usd,
            tuple(row for row in rest if row[1] or row[2]),
            self.start_time,
        )


QUARTER_HOUR_SECONDS = 900
"""Days start at a multiple of this in every time zone in use."""
