"""What a record says of tokens and money: counts, terms, calls made on the side."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from bygones.model.ids import MessageId
from bygones.model.nodes import ToldFacts
from bygones.model.usage import (
    NO_ITERATIONS,
    Billing,
    Claim,
    SubCall,
    Usage,
    WireIteration,
    WireUsage,
)
from bygones.model.wire import wire_name
from bygones.parse.decode import decode_struct
from bygones.parse.raws import head_of
from bygones.parse.salvage import sound_text

if TYPE_CHECKING:  # whoever reads a message needs no other records
    from bygones.model.metadata import CostState, ModelCost

__all__ = ["billing_of", "claim_of", "told_of", "usage_of"]

_USUAL = frozenset({None, "", "standard", "default", "not_available", "global"})
_ASIDE = frozenset({"advisor_message", "compaction"})
"""Calls that are billed and stand in no sum; the others are parts of the answer."""
_MILLION = 1_000_000
_MOST = 1_000_000_000_000
"""No answer has as many tokens, and no session costs as much."""
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_calls = msgspec.json.Decoder(list[Raw]).decode


def usage_of(wire: WireUsage) -> Usage:
    """Return the counts of one record, none of them negative.

    The split of cache writes is believed where it says more than the flat count,
    which was written as zero for a while; an unsplit rest is of the short kind.
    """
    split, tools = wire.cache_creation, wire.server_tool_use
    long = _count(split.ephemeral_1h_input_tokens) if split else 0
    short = _count(split.ephemeral_5m_input_tokens) if split else 0
    rest = _count(wire.cache_creation_input_tokens) - long - short
    return Usage(
        input=_count(wire.input_tokens),
        output=_count(wire.output_tokens),
        cache_write_5m=short + rest if rest > 0 else short,
        cache_write_1h=long,
        cache_read=_count(wire.cache_read_input_tokens),
        web_searches=_count(tools.web_search_requests) if tools else 0,
    )


def billing_of(wire: WireUsage) -> Billing | None:
    """Return what sets an answer's price apart; nothing, in the usual case."""
    calls: tuple[SubCall, ...] = ()
    if wire.iterations is not NO_ITERATIONS:
        raw = bytes(wire.iterations)
        if b"advisor_message" in raw or b"compaction" in raw:
            calls = _asides(raw)
    if not calls and (
        wire.speed in _USUAL
        and wire.service_tier in _USUAL
        and wire.inference_geo in _USUAL
    ):
        return None
    terms = {wire.speed, wire.service_tier, wire.inference_geo} - _USUAL
    return Billing(tuple(sorted(str(term) for term in terms)), calls)


def _asides(raw: bytes) -> tuple[SubCall, ...]:
    """Return the calls that are in no sum; what cannot be read is left out."""
    try:
        found = [_iteration(call) for call in _calls(sound_text(raw))]
    except _FAILURES:
        return ()
    return tuple(
        SubCall(call.model, usage_of(call)) for call in found if call.type in _ASIDE
    )


def _iteration(raw: Raw) -> WireIteration:
    if head_of(raw, 1) != b"{":
        return WireIteration()
    return decode_struct(WireIteration, bytes(raw), lambda _path, _reason: None)


class _Message(Struct, frozen=True, gc=False):
    id: str | None = None
    model: str | None = None
    usage: WireUsage | None = None


class _Record(Struct, frozen=True, gc=False, rename=wire_name):
    message: _Message | None = None
    request_id: str | None = None
    is_api_error_message: bool = False


@cache
def _decoder() -> msgspec.json.Decoder[_Record]:
    return msgspec.json.Decoder(_Record)


def told_of(raw: Raw) -> ToldFacts | None:
    """Return the answer that is repeated in a progress record, if it is one."""
    if b'"usage"' not in bytes(raw):
        return None
    try:
        record = _decoder().decode(raw)
    except _FAILURES:
        return None
    message = record.message
    if message is None or message.usage is None or record.is_api_error_message:
        return None
    return ToldFacts(
        message=MessageId(message.id) if message.id else None,
        request=record.request_id,
        model=message.model,
        usage=usage_of(message.usage),
        billing=billing_of(message.usage),
    )


def claim_of(record: CostState) -> Claim | None:
    """Return Claude Code's own total, if the record has one that is a number."""
    micros = _micros(record.total_cost_usd)
    if micros is None:
        return None
    models = [
        (name, _micros(told.cost_usd) or 0, _tokens(told))
        for name, told in record.model_usage.items()
    ]
    return Claim(micros, tuple(models))


def _tokens(told: ModelCost) -> int:
    return sum(
        map(
            _count,
            (
                told.input_tokens,
                told.output_tokens,
                told.cache_read_input_tokens,
                told.cache_creation_input_tokens,
            ),
        )
    )


def _micros(dollars: float | None) -> int | None:
    if dollars is None or not math.isfinite(dollars * _MILLION):
        return None
    return min(max(round(dollars * _MILLION), 0), _MOST)


def _count(tokens: int | None) -> int:
    """Return a count that can be one: what is beyond belief counts as nothing."""
    return tokens if tokens is not None and 0 < tokens < _MOST else 0
