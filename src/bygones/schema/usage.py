"""What was used and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime

from msgspec import Struct

from bygones.model.base import SessionId
from bygones.model.reports import (
    ContextReport,
    ContextRow,
    Grouping,
    ReportedCostRow,
    ToolRow,
    UsageBlock,
    UsageReport,
    UsageRow,
)
from bygones.schema.encoding import JsonObject, TokenCounts, to_usd


class BlockDetails(Struct, frozen=True, kw_only=True):
    """A block of five hours, as Anthropic limits subscriptions."""

    started_at: datetime
    ends_at: datetime
    is_active: bool
    tokens_per_minute: int
    cost_usd_per_hour: float | None
    projected_tokens: int | None
    """At its end, at the present rate; null unless it is active."""
    projected_cost_usd: float | None

    @classmethod
    def from_block(cls, block: UsageBlock) -> BlockDetails:
        return cls(
            started_at=block.started_at,
            ends_at=block.ends_at,
            is_active=block.is_active,
            tokens_per_minute=block.tokens_per_minute,
            cost_usd_per_hour=to_usd(block.cost_per_hour),
            projected_tokens=block.projected_tokens,
            projected_cost_usd=to_usd(block.projected_cost),
        )


class UsageObject(JsonObject, frozen=True, kw_only=True, tag="usage"):
    """What one day, project, model or the like used."""

    key: str
    """The day (of a week, the first), directory, model, id or name; may be empty."""
    title: str
    """Of a session."""
    answer_count: int
    tokens: TokenCounts
    web_search_count: int
    cost_usd: float | None
    unpriced_tokens: int
    """Tokens without a known price, which the cost does not include."""
    estimated_output_tokens: int
    """Output that was never counted, by the length of its text; in no other figure."""
    estimated_cost_usd: float | None
    """What that output would add to the cost."""
    models: tuple[str, ...]
    first_at: datetime | None
    last_at: datetime | None
    block: BlockDetails | None

    @classmethod
    def from_row(cls, row: UsageRow) -> UsageObject:
        return cls(
            key=row.key,
            title=row.title,
            answer_count=row.answers,
            tokens=TokenCounts(
                input=row.input_tokens,
                output=row.output_tokens,
                cache_write_5m=row.cache_write_5m_tokens,
                cache_write_1h=row.cache_write_1h_tokens,
                cache_read=row.cache_read_tokens,
            ),
            web_search_count=row.web_searches,
            cost_usd=to_usd(row.cost),
            unpriced_tokens=row.unpriced_tokens,
            estimated_output_tokens=row.estimated_output_tokens,
            estimated_cost_usd=to_usd(row.estimated_cost),
            models=row.models,
            first_at=row.first_at,
            last_at=row.last_at,
            block=BlockDetails.from_block(row.block) if row.block else None,
        )


class ToolUsageObject(JsonObject, frozen=True, kw_only=True, tag="tool_usage"):
    """What the results of a tool added to contexts."""

    tool_name: str
    result_count: int
    result_bytes: int
    estimated_tokens: int
    """Four bytes count as one token."""

    @classmethod
    def from_row(cls, row: ToolRow) -> ToolUsageObject:
        return cls(
            tool_name=row.key,
            result_count=row.calls,
            result_bytes=row.bytes,
            estimated_tokens=row.tokens,
        )


class ReportedCostDetails(Struct, frozen=True, kw_only=True):
    """Claude Code's own total compared with ours, for sessions that have one."""

    session_count: int
    reported_cost_usd: float | None
    computed_cost_usd: float | None
    """Of the same sessions, up to the same moments."""
    unrecorded_cost_usd: float | None
    """Of the difference: models that no record names."""
    unrecorded_models: tuple[str, ...]
    token_difference_usd: float | None
    """Of the difference: models with different token counts."""
    price_difference_usd: float | None
    """Of the difference: models with the same tokens at different prices."""
    unexplained_difference_usd: float | None
    """Of the difference: models that Claude Code's total does not name."""
    unpriced_tokens: int

    @classmethod
    def from_row(cls, row: ReportedCostRow) -> ReportedCostDetails:
        return cls(
            session_count=row.session_count,
            reported_cost_usd=to_usd(row.reported_cost),
            computed_cost_usd=to_usd(row.computed_cost),
            unrecorded_cost_usd=to_usd(row.unrecorded_cost),
            unrecorded_models=row.unrecorded_models,
            token_difference_usd=to_usd(row.token_difference),
            price_difference_usd=to_usd(row.price_difference),
            unexplained_difference_usd=to_usd(row.unexplained_difference),
            unpriced_tokens=row.unpriced_tokens,
        )


class UsageReportObject(JsonObject, frozen=True, kw_only=True, tag="usage_report"):
    """The total of a usage report, after its rows."""

    by: Grouping
    timezone: str
    """In which days start."""
    prices_date: date | None
    total: UsageObject
    unpriced_models: tuple[str, ...]
    reported_cost: ReportedCostDetails | None

    @classmethod
    def from_report(cls, report: UsageReport) -> UsageReportObject:
        reported = report.reported_cost
        return cls(
            by=report.by,
            timezone=report.timezone,
            prices_date=report.prices_date,
            total=UsageObject.from_row(report.total),
            unpriced_models=report.unpriced_models,
            reported_cost=ReportedCostDetails.from_row(reported) if reported else None,
        )


class ContextObject(JsonObject, frozen=True, kw_only=True, tag="context"):
    """The context at the end of a turn, or a compaction of it."""

    turn: int
    measured_at: datetime | None
    context_tokens: int
    """Input, cache writes and cache reads of the last answer."""
    peak_context_tokens: int
    """The most of all answers of the turn."""
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    input_tokens: int
    answer_count: int
    prompt: str
    """The start of the prompt."""
    compacted_from: int | None
    """Tokens before a compaction; null for a turn."""
    trigger: str | None
    """What caused a compaction."""

    @classmethod
    def from_row(cls, row: ContextRow) -> ContextObject:
        return cls(
            turn=row.turn_number + 1,
            measured_at=row.measured_at,
            context_tokens=row.tokens,
            peak_context_tokens=row.peak_tokens,
            output_tokens=row.output_tokens,
            cache_read_tokens=row.cache_read_tokens,
            cache_write_tokens=row.cache_write_tokens,
            input_tokens=row.input_tokens,
            answer_count=row.answers,
            prompt=row.prompt,
            compacted_from=row.compacted_from,
            trigger=row.trigger,
        )


class ContextReportObject(JsonObject, frozen=True, kw_only=True, tag="context_report"):
    """How the context of a session grew, after its turns."""

    session_id: SessionId
    title: str
    peak_context_tokens: int
    cache_hit_rate: float
    """The share of all input that was read from the cache, from 0 to 1."""
    compaction_count: int

    @classmethod
    def from_report(cls, report: ContextReport) -> ContextReportObject:
        return cls(
            session_id=report.session_id,
            title=report.title,
            peak_context_tokens=report.peak_tokens,
            cache_hit_rate=report.cache_hit_rate,
            compaction_count=report.compaction_count,
        )


def usage_objects(
    report: UsageReport | ContextReport, rows: Iterable[UsageRow | ToolRow | ContextRow]
) -> Iterator[JsonObject]:
    """Yield some rows of a report, then its total."""
    for row in rows:
        match row:
            case UsageRow():
                yield UsageObject.from_row(row)
            case ToolRow():
                yield ToolUsageObject.from_row(row)
            case ContextRow():
                yield ContextObject.from_row(row)
    if isinstance(report, UsageReport):
        yield UsageReportObject.from_report(report)
    else:
        yield ContextReportObject.from_report(report)
