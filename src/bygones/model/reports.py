"""What was spent, summed: the rows of a report on usage.

Money is in billionths of a dollar, a whole number; the sums behind it are exact.
"""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum

from msgspec import Struct

from bygones.model.ids import SessionId

__all__ = [
    "NANOS",
    "ROWS",
    "BlockFacts",
    "ClaimRow",
    "ContextReport",
    "ContextRow",
    "Grouping",
    "ToolRow",
    "UsageReport",
    "UsageRow",
]

NANOS = 10**9
"""Of the unit of money in a dollar."""


class Grouping(StrEnum):
    """By what usage is summed."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    BLOCK = "block"
    PROJECT = "project"
    SESSION = "session"
    MODEL = "model"
    AGENT = "agent"
    BRANCH = "branch"
    ENTRYPOINT = "entrypoint"
    TOOL = "tool"


class _Row(Struct, frozen=True, kw_only=True, tag_field="row", omit_defaults=True):
    """One line of JSON."""


class BlockFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Five hours from the first answer on, as Anthropic limits subscriptions."""

    start: datetime
    end: datetime
    is_active: bool = False
    """It is not over, and there was an answer in it."""
    tokens_per_minute: int = 0
    """From its first answer to its last, or to now; over a quarter hour at least."""
    cost_per_hour: int = 0
    projected_tokens: int | None = None
    """At its end, if it goes on so; only while it is active."""
    projected_cost: int | None = None


class UsageRow(_Row, frozen=True, kw_only=True, tag="usage"):
    """What was spent in one day, in one project, with one model or the like."""

    key: str
    """The day (of a week, the first), directory, model, id or name; ``""``: none."""
    title: str = ""
    """Of a session."""
    answers: int
    tokens: int
    """All of them, whatever they cost."""
    input_tokens: int
    output_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    web_searches: int = 0
    cost: int | None = None
    """Billionths of a dollar, of what has a price; nothing where nothing has one."""
    unpriced_tokens: int = 0
    """Tokens of models or terms whose price is not known."""
    estimated_output_tokens: int = 0
    """Output that was never counted, by the length of the text; in no other figure."""
    estimated_cost: int = 0
    """What that would add to the cost."""
    models: tuple[str, ...] = ()
    first: datetime | None = None
    last: datetime | None = None
    block: BlockFacts | None = None

    @property
    def cached(self) -> float:
        """The share of all contexts that was read from the cache."""
        context = self.tokens - self.output_tokens
        return self.cache_read_tokens / context if context else 0.0


class ToolRow(_Row, frozen=True, kw_only=True, tag="tool"):
    """What the results of a tool put into contexts."""

    key: str
    calls: int
    bytes: int
    tokens: int
    """By their length: four bytes are about one token."""


class ClaimRow(_Row, frozen=True, kw_only=True, tag="claim"):
    """Claude Code's own total beside ours, for the sessions that have one."""

    sessions: int
    claimed: int
    """Billionths of a dollar, as Claude Code says."""
    counted: int
    """What we count in these sessions up to the same moments."""
    silent: int = 0
    """Of the difference: models that only Claude Code names; no record has them."""
    silent_models: tuple[str, ...] = ()
    counts: int = 0
    """Of the difference: models of which the two count other tokens."""
    prices: int = 0
    """Of the difference: models with the same tokens at other prices."""
    rest: int = 0
    """What no model explains: our answers of models that the total does not name."""
    unpriced_tokens: int = 0


class UsageReport(_Row, frozen=True, kw_only=True, tag="usage-report"):
    """The answer to a question about usage; printed last, without its rows."""

    by: Grouping
    zone: str
    """In which days begin."""
    prices: date | None
    """The day of the table of prices."""
    rows: tuple[UsageRow | ToolRow, ...] = ()
    total: UsageRow
    unpriced: tuple[str, ...] = ()
    """Models, and terms, that have no price."""
    claim: ClaimRow | None = None


class ContextRow(_Row, frozen=True, kw_only=True, tag="context"):
    """What was in context when a turn ended, or what a compaction made of it."""

    turn: int
    time: datetime | None = None
    tokens: int
    """In context: input, cache writes and cache reads of the last answer."""
    peak: int = 0
    """The most of all its answers."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    input_tokens: int = 0
    answers: int = 0
    prompt: str = ""
    """Its beginning."""
    compacted_from: int | None = None
    """Tokens before a compaction: this row is one."""
    trigger: str | None = None


class ContextReport(_Row, frozen=True, kw_only=True, tag="context-report"):
    """How a session's context grew along its live branch; printed without its rows."""

    session: SessionId
    title: str
    rows: tuple[ContextRow, ...] = ()
    peak: int
    cached: float
    """The share of all contexts that was read from the cache."""
    compactions: int


ROWS = (UsageRow, ToolRow, ClaimRow, UsageReport, ContextRow, ContextReport)
