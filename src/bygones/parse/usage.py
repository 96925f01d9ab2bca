"""Token counts, billing terms and reported costs in records."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Raw

from bygones.model.base import DECODE_ERRORS
from bygones.model.usage import (
    NO_ITERATIONS,
    Billing,
    ReportedCost,
    SubCall,
    Usage,
    WireIteration,
    WireUsage,
)
from bygones.parse.decode import (
    decode_struct,
    ignore_invalid_field,
    raw_head,
    replace_invalid_utf8,
)

if TYPE_CHECKING:  # defines many structs that reading messages does not need
    from bygones.model.metadata import CostStateRecord, ModelCost

_DEFAULT_TERMS = frozenset({None, "", "standard", "default", "not_available", "global"})
_SIDE_CALL_TYPES = frozenset({"advisor_message", "compaction"})
"""Calls that are billed in addition; all others are part of the answer's usage."""
_MILLION = 1_000_000
_MAX_PLAUSIBLE = 1_000_000_000_000
"""Larger token counts and costs are not believed."""
_PlausibleTime = Annotated[int, Meta(ge=0, lt=2**60)]
_decode_calls = msgspec.json.Decoder(list[Raw]).decode


def parse_usage(wire: WireUsage) -> Usage:
    """Return the token counts of one record, without negative ones.

    Some versions wrote zero as the total of cache writes, so the split into 5 minutes and
    1 hour wins where it is larger. A remainder of the total counts as 5 minutes.
    """
    split, tools = wire.cache_creation, wire.server_tool_use
    write_1h = _plausible_count(split.ephemeral_1h_input_tokens) if split else 0
    write_5m = _plausible_count(split.ephemeral_5m_input_tokens) if split else 0
    rest = _plausible_count(wire.cache_creation_input_tokens) - write_1h - write_5m
    return Usage(
        input=_plausible_count(wire.input_tokens),
        output=_plausible_count(wire.output_tokens),
        cache_write_5m=write_5m + rest if rest > 0 else write_5m,
        cache_write_1h=write_1h,
        cache_read=_plausible_count(wire.cache_read_input_tokens),
        web_searches=_plausible_count(tools.web_search_requests) if tools else 0,
    )


def parse_billing(wire: WireUsage) -> Billing | None:
    """Return special terms and additional calls; `None` in the usual case."""
    calls: tuple[SubCall, ...] = ()
    if wire.iterations is not NO_ITERATIONS:
        raw = bytes(wire.iterations)
        if b"advisor_message" in raw or b"compaction" in raw:
            calls = _parse_side_calls(raw)
    if not calls and (
        wire.speed in _DEFAULT_TERMS
        and wire.service_tier in _DEFAULT_TERMS
        and wire.inference_geo in _DEFAULT_TERMS
    ):
        return None
    terms = {wire.speed, wire.service_tier, wire.inference_geo} - _DEFAULT_TERMS
    return Billing(tuple(sorted(str(term) for term in terms)), calls)


def _parse_side_calls(raw: bytes) -> tuple[SubCall, ...]:
    """Return the additional calls, without those that cannot be decoded."""
    try:
        calls = [
            _parse_iteration(call) for call in _decode_calls(replace_invalid_utf8(raw))
        ]
    except DECODE_ERRORS:
        return ()
    return tuple(
        SubCall(call.model, parse_usage(call))
        for call in calls
        if call.type in _SIDE_CALL_TYPES
    )


def _parse_iteration(raw: Raw) -> WireIteration:
    if raw_head(raw, 1) != b"{":
        return WireIteration()
    return decode_struct(WireIteration, bytes(raw), ignore_invalid_field)


def parse_reported_cost(record: CostStateRecord) -> ReportedCost | None:
    """Return the total that Claude Code reported, if it is a finite number."""
    micros = _to_micros(record.total_cost_usd)
    if micros is None:
        return None
    models = [
        (name, _to_micros(cost.cost_usd) or 0, _sum_tokens(cost))
        for name, cost in record.model_usage.items()
    ]
    return ReportedCost(micros, tuple(models), _parse_start_time(record.start_time))


def _parse_start_time(raw: Raw) -> int:
    try:
        time: int = msgspec.json.decode(raw, type=_PlausibleTime)
    except DECODE_ERRORS:  # absent, or not a number of milliseconds
        return 0
    return time


def _sum_tokens(model_cost: ModelCost) -> int:
    return sum(
        map(
            _plausible_count,
            (
                model_cost.input_tokens,
                model_cost.output_tokens,
                model_cost.cache_read_input_tokens,
                model_cost.cache_creation_input_tokens,
            ),
        )
    )


def _to_micros(dollars: float | None) -> int | None:
    if dollars is None or not math.isfinite(dollars * _MILLION):
        return None
    return min(max(round(dollars * _MILLION), 0), _MAX_PLAUSIBLE)


def _plausible_count(tokens: int | None) -> int:
    """Return the count, or zero if it is negative or implausibly large."""
    return tokens if tokens is not None and 0 < tokens < _MAX_PLAUSIBLE else 0
