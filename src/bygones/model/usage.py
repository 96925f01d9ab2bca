"""Token counts: as the API reports them, and as we add them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Raw, Struct


class CacheWrites(Struct, frozen=True, kw_only=True, gc=False):
    """How cache writes split by how long they are kept."""

    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class ServerTools(Struct, frozen=True, kw_only=True, gc=False):
    """How often tools ran on the API's side."""

    web_search_requests: int | None = None
    web_fetch_requests: int | None = None


NO_ITERATIONS = Raw()


class WireUsage(Struct, frozen=True, kw_only=True, gc=False):
    """``message.usage`` as it stands in one record.

    Only one record of a message holds the final counts, and it need not be the
    last; any count may be missing, and broken gateways write negative ones.
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
    """The calls that the answer took, each with its own usage; most are in the sum."""


class WireIteration(WireUsage, frozen=True, kw_only=True, gc=False):
    """One of the calls that an answer took."""

    type: str | None = None
    model: str | None = None


class Usage(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """Tokens of one or many messages, by what they are billed as."""

    input: int = 0
    """Input that was neither read from nor written to the cache."""
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    web_searches: int = 0

    @property
    def total(self) -> int:
        """All tokens, whatever they cost."""
        return self.input + self.output + self.cache_write + self.cache_read

    @property
    def cache_write(self) -> int:
        """Tokens written to the cache, for whatever time."""
        return self.cache_write_5m + self.cache_write_1h

    @property
    def context(self) -> int:
        """Tokens that the model had before it when it began to answer."""
        return self.input + self.cache_write + self.cache_read

    def __add__(self, other: Usage) -> Usage:
        """Return the sum, field by field."""
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_write_5m=self.cache_write_5m + other.cache_write_5m,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
            cache_read=self.cache_read + other.cache_read,
            web_searches=self.web_searches + other.web_searches,
        )

    def __or__(self, other: Usage) -> Usage:
        """Return the larger of each field: the truth of two records of a message."""
        return Usage(
            input=max(self.input, other.input),
            output=max(self.output, other.output),
            cache_write_5m=max(self.cache_write_5m, other.cache_write_5m),
            cache_write_1h=max(self.cache_write_1h, other.cache_write_1h),
            cache_read=max(self.cache_read, other.cache_read),
            web_searches=max(self.web_searches, other.web_searches),
        )


class Cost(Struct, frozen=True, kw_only=True, gc=False):
    """What something cost, as far as there are prices for it."""

    nano_usd: int | None = None
    """None where nothing of it has a price."""
    unpriced_tokens: int = 0
    """Those of models, or on terms, that have no price; not in the cost."""


def sum_costs(costs: Iterable[Cost | None]) -> Cost:
    """Return what several things cost together; what nobody knows counts nothing."""
    known = [cost for cost in costs if cost is not None]
    return Cost(
        nano_usd=sum(cost.nano_usd or 0 for cost in known),
        unpriced_tokens=sum(cost.unpriced_tokens for cost in known),
    )


class SubCall(Struct, frozen=True, gc=False, array_like=True):
    """A call that was made for an answer and is not in the answer's own counts."""

    model: str | None
    usage: Usage


class Billing(Struct, frozen=True, array_like=True):
    """What sets the price of an answer apart from that of its tokens."""

    terms: tuple[str, ...] = ()
    """``batch``, ``fast``, a tier or a region; none is the usual case."""
    sub_calls: tuple[SubCall, ...] = ()


class ReportedCost(Struct, frozen=True, array_like=True):
    """What Claude Code itself says a session has cost so far."""

    micro_usd: int
    """Millionths of a dollar, of all models together."""
    by_model: tuple[tuple[str, int, int], ...] = ()
    """Each model with its millionths of a dollar and its tokens."""


if TYPE_CHECKING:  # whoever sums rows needs no whole sessions
    from bygones.model.sessions import AgentRun, Branch, Session


QUARTER_HOUR_SECONDS = 900
"""Seconds: the grain at which every time zone in use begins its days."""

ToolContextSizes = Mapping[tuple[str, int | None], tuple[int, int]]


def measure_tool_context(session: Session) -> ToolContextSizes:
    """Return how many results there were and their bytes, by tool and quarter hour.

    Those of agents and of branches that were left count too.
    """
    found: dict[tuple[str, int | None], tuple[int, int]] = {}
    runs: Iterable[Session | AgentRun] = (session, *_shown_agents(session))
    for branch in (branch for run in runs for branch in run.branches):
        for name, time, size in _tool_results(branch):
            key = (
                name,
                int(time.timestamp()) // QUARTER_HOUR_SECONDS if time else None,
            )
            calls, sizes = found.get(key, (0, 0))
            found[key] = (calls + 1, sizes + size)
    return found


def _shown_agents(session: Session) -> Iterable[AgentRun]:
    return (run for run in session.all_agents if run.kind.is_shown)


def _tool_results(branch: Branch) -> Iterable[tuple[str, datetime | None, int]]:
    for turn in branch.own_turns:
        for message in turn.messages:
            for call in message.tool_calls:
                if call.has_result:
                    yield (
                        call.name,
                        call.completed_at or call.called_at,
                        call.result_size,
                    )
