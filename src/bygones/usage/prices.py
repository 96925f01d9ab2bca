"""Prices of tokens: a dated table, which a user's file can override.

Money is always an integer: prices are picodollars (10⁻¹² dollars) per token, so that
every sum is exact.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from bygones.errors import InvalidPrices
from bygones.model.usage import Cost

if TYPE_CHECKING:  # lists show costs, but load no sessions
    from bygones.model.summary import MessageUsage

PICOS_PER_DOLLAR = 10**12
_MILLION = 10**6
_PICOS_PER_NANO = 1000
_MIN_PRICE, _MAX_PRICE = Decimal(0), Decimal(10**6)
"""The range of valid prices, in dollars per million tokens; more is a mistake."""

_PROVIDER_PREFIX = re.compile(r"(?:[a-z0-9_-]+[./])+(?=claude)")
_NAME_SUFFIXES = re.compile(r"(?:\[1m\]|-v\d+(?::\d+)?|[@-]\d{8}|[@-]latest|-0)$")
_OLD_NAME_ORDER = re.compile(r"claude-(\d(?:-\d)?)-([a-z]+)")


def picos_to_nanos(picos: int) -> int:
    """Return picodollars as nanodollars, rounded."""
    return (picos + _PICOS_PER_NANO // 2) // _PICOS_PER_NANO


@cache
def normalize_model_name(model: str) -> str:
    """Return a model's name without its cloud provider, date and context size.

    >>> normalize_model_name("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
    'claude-sonnet-4-5'
    >>> normalize_model_name("claude-opus-4.5[1m]")
    'claude-opus-4-5'
    >>> normalize_model_name("claude-3-5-haiku-latest")
    'claude-haiku-3-5'
    """
    name = _PROVIDER_PREFIX.sub("", model.strip().lower(), count=1)
    shorter = _NAME_SUFFIXES.sub("", name)
    while shorter != name:
        name, shorter = shorter, _NAME_SUFFIXES.sub("", shorter)
    name = name.replace(".", "-")
    old = _OLD_NAME_ORDER.fullmatch(name)
    return f"claude-{old[2]}-{old[1]}" if old else name


class _RatesEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars per million tokens of each kind, as in a price file."""

    input: Decimal
    output: Decimal
    write_5m: Decimal | None = None
    write_1h: Decimal | None = None
    read: Decimal | None = None


class _LongContextEntry(
    _RatesEntry, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    above: int


class _PriceEntry(_RatesEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    models: tuple[str, ...]
    since: date | None = msgspec.field(name="from", default=None)
    fast: Decimal | None = None
    us: Decimal | None = None
    long: _LongContextEntry | None = None
    source: str | None = None
    """Where the price is from: a key of the file's `sources`."""
    checked: date | None = None


class _PricesFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    date: date | None = None
    sources: dict[str, str] = {}
    search: Decimal | None = None
    terms: dict[str, Decimal] = {}
    price: tuple[_PriceEntry, ...] = ()


class Rates(Struct, frozen=True, kw_only=True):
    """The price of one token of each kind, and of one web search."""

    per_token: tuple[int, int, int | None, int | None, int | None]
    """Input, output, cache writes (5 minutes, 1 hour), cache reads."""
    multiplier: tuple[int, int] = (1, 1)
    """The factor of the terms, as a fraction."""
    per_search: int = 0

    def compute_cost(self, counts: Sequence[int]) -> int | None:
        """Return the cost of tokens in picodollars; none if a rate is unknown.

        ``counts`` are the tokens in the order of the rates, then web searches.
        """
        total = 0
        for count, rate in zip(counts, self.per_token, strict=False):
            if rate is not None:
                total += count * rate
            elif count:
                return None
        numerator, denominator = self.multiplier
        return (
            total * numerator // denominator
            + sum(counts[len(self.per_token) :]) * self.per_search
        )

    def missing_rates(self, counts: Sequence[int]) -> list[str]:
        """Return the rates that are missing for these tokens, named as in a price file."""
        names = _RatesEntry.__struct_fields__
        return [
            name
            for name, count, rate in zip(names, counts, self.per_token, strict=False)
            if count and rate is None
        ]


class Price(Struct, frozen=True, kw_only=True):
    """The rates of a model from some time on."""

    standard: Rates
    long_context: Rates | None = None
    long_context_threshold: int | None = None
    """The context size above which the rates for long contexts apply."""
    terms: Mapping[str, tuple[int, int]]
    """The factor of each term, as a fraction."""
    since_ms: int | None = None

    def rates_for(
        self, terms: Iterable[str] = (), *, is_long_context: bool = False
    ) -> Rates | None:
        """Return the rates with these terms; none if a term is unknown."""
        numerator, denominator = 1, 1
        for term in terms:
            if term not in self.terms:
                return None
            numerator *= self.terms[term][0]
            denominator *= self.terms[term][1]
        rates = (
            self.long_context
            if is_long_context and self.long_context
            else self.standard
        )
        return structs.replace(rates, multiplier=(numerator, denominator))


class Prices:
    """A table of prices by model and time."""

    def __init__(self, files: Iterable[_PricesFile]) -> None:
        self.date: date | None = None
        self._by_name: dict[str, tuple[Price, ...]] = {}
        terms: dict[str, Decimal] = {}
        search = Decimal(0)
        rows: dict[str, list[_PriceEntry]] = {}
        for file in files:
            self.date = self.date or file.date
            terms |= file.terms
            search = search if file.search is None else file.search
            by_name: dict[str, list[_PriceEntry]] = {}
            for row in file.price:
                for name in row.models:
                    by_name.setdefault(normalize_model_name(name), []).append(row)
            rows |= by_name
        for name, entries in rows.items():
            prices = (_build_price(entry, terms, search) for entry in entries)
            self._by_name[name] = tuple(sorted(prices, key=lambda p: p.since_ms or 0))

    def for_model(self, model: str | None) -> tuple[Price, ...]:
        """Return the prices of a model, oldest first; empty if it is unknown."""
        return self._by_name.get(normalize_model_name(model), ()) if model else ()

    def compute_cost(self, usages: Iterable[MessageUsage]) -> Cost:
        """Return the cost of replies, each at the price of its time."""
        total: int | None = None
        unpriced = 0
        for message_usage in usages:
            picos = self._message_cost(message_usage)
            if picos is None:
                unpriced += message_usage.usage.total
            else:
                total = picos + (total or 0)
        if total is None and not unpriced:
            total = 0
        return Cost(
            nano_usd=None if total is None else picos_to_nanos(total),
            unpriced_tokens=unpriced,
        )

    def _message_cost(self, message_usage: MessageUsage) -> int | None:
        sent_at = message_usage.sent_at
        sent_ms = sent_at.timestamp() * 1000 if sent_at else 0
        valid = [
            price
            for price in self.for_model(message_usage.model)
            if (price.since_ms or 0) <= sent_ms
        ]
        if not valid:
            return None
        price, usage = valid[-1], message_usage.usage
        is_long = (
            price.long_context_threshold is not None
            and usage.context > price.long_context_threshold
        )
        rates = price.rates_for(message_usage.terms, is_long_context=is_long)
        return rates.compute_cost(structs.astuple(usage)) if rates else None


def load_prices(user_file: Path | None = None) -> Prices:
    """Return the built-in prices, overridden by those of a user's file.

    Raises `InvalidPrices` if the user's file is invalid.
    """
    built_in = Path(__file__).with_name("prices.toml")
    files = [_parse_prices(built_in.read_text("utf-8"))]
    if user_file is not None and user_file.exists():
        try:
            files.append(_parse_prices(user_file.read_text("utf-8")))
        except (ValueError, OSError) as error:
            raise InvalidPrices(user_file, " ".join(str(error).split())) from error
    return Prices(files)


def _parse_prices(text: str) -> _PricesFile:
    table = tomllib.loads(text, parse_float=Decimal)
    file = msgspec.convert(table, _PricesFile)
    amounts = [file.search, *file.terms.values()]
    for row in file.price:
        for entry in (row, row.long):
            amounts += [
                getattr(entry, name) for name in _RatesEntry.__struct_fields__ if entry
            ]
        amounts += [row.fast, row.us]
    for amount in amounts:
        is_price = amount is None or (
            amount.is_finite() and _MIN_PRICE <= amount <= _MAX_PRICE
        )
        if not is_price:
            raise ValueError(f"{amount} is not a valid price")
    return file


def _build_price(row: _PriceEntry, terms: dict[str, Decimal], search: Decimal) -> Price:
    own_terms = {"fast": row.fast, "us": row.us}
    terms = terms | {k: v for k, v in own_terms.items() if v is not None}
    midnight = time(tzinfo=UTC)
    since = datetime.combine(row.since, midnight) if row.since else None
    return Price(
        standard=_build_rates(row, search),
        long_context=_build_rates(row.long, search) if row.long else None,
        long_context_threshold=row.long.above if row.long else None,
        terms={name: value.as_integer_ratio() for name, value in terms.items()},
        since_ms=int(since.timestamp()) * 1000 if since else None,
    )


def _build_rates(row: _RatesEntry, search: Decimal) -> Rates:
    def picos(dollars: Decimal | None) -> int | None:
        return (
            None if dollars is None else int(dollars * (PICOS_PER_DOLLAR // _MILLION))
        )

    rates = (
        picos(row.input) or 0,
        picos(row.output) or 0,
        picos(row.write_5m),
        picos(row.write_1h),
        picos(row.read),
    )
    return Rates(per_token=rates, per_search=int(search * PICOS_PER_DOLLAR))
