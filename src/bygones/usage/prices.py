"""What tokens cost: a dated table, and a user's own file over it.

Money is an integer here and everywhere: prices are millionths of a millionth of a
dollar for one token, so that every sum is exact.
"""

from __future__ import annotations

import re
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

if TYPE_CHECKING:  # whoever prices sums needs no sessions
    from bygones.model.summary import MessageUsage

__all__ = [
    "PICOS_PER_DOLLAR",
    "Price",
    "Prices",
    "Rates",
    "load_prices",
    "normalize_model_name",
    "picos_to_nanos",
]

PICOS_PER_DOLLAR = 10**12
"""Of the unit of money in a dollar."""
_MILLION = 10**6
_PICOS_PER_NANO = 1000
_MIN_PRICE, _MAX_PRICE = Decimal(0), Decimal(10**6)
"""Between these is every price; what is dearer was meant otherwise."""

_PROVIDER_PREFIX = re.compile(r"(?:[a-z0-9_-]+[./])+(?=claude)")
_NAME_SUFFIXES = re.compile(r"(?:\[1m\]|-v\d+(?::\d+)?|[@-]\d{8}|[@-]latest|-0)$")
_OLD_NAME_ORDER = re.compile(r"claude-(\d(?:-\d)?)-([a-z]+)")


def picos_to_nanos(picos: int) -> int:
    """Return money in billionths of a dollar, rounded."""
    return (picos + _PICOS_PER_NANO // 2) // _PICOS_PER_NANO


@cache
def normalize_model_name(model: str) -> str:
    """Return a model's name without what clouds, dates and context sizes add to it.

    >>> normal_name("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
    'claude-sonnet-4-5'
    >>> normal_name("claude-opus-4.5[1m]"), normal_name("claude-3-5-haiku-latest")
    ('claude-opus-4-5', 'claude-haiku-3-5')
    """
    name = _PROVIDER_PREFIX.sub("", model.strip().lower(), count=1)
    shorter = _NAME_SUFFIXES.sub("", name)
    while shorter != name:
        name, shorter = shorter, _NAME_SUFFIXES.sub("", shorter)
    name = name.replace(".", "-")
    old = _OLD_NAME_ORDER.fullmatch(name)
    return f"claude-{old[2]}-{old[1]}" if old else name


class _RatesEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars for a million tokens of each kind, as the file has them."""

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


class _PricesFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    date: date | None = None
    sources: tuple[str, ...] = ()
    search: Decimal | None = None
    terms: dict[str, Decimal] = {}
    price: tuple[_PriceEntry, ...] = ()


class Rates(Struct, frozen=True, kw_only=True):
    """What one token of each kind costs on some terms, and one web search."""

    per_token: tuple[int, int, int | None, int | None, int | None]
    """Input, output, cache writes of both kinds, cache reads."""
    multiplier: tuple[int, int] = (1, 1)
    """What the terms multiply them by, as a fraction."""
    per_search: int = 0

    def compute_cost(self, counts: Sequence[int]) -> int | None:
        """Return what tokens cost; nothing where a part of it is not known.

        ``counts`` has tokens in the order of the rates, and then web searches.
        """
        total = 0
        for count, rate in zip(counts, self.per_token, strict=False):
            if rate is not None:
                total += count * rate
            elif count:
                return None
        above, below = self.multiplier
        return (
            total * above // below
            + sum(counts[len(self.per_token) :]) * self.per_search
        )

    def missing_rates(self, counts: Sequence[int]) -> list[str]:
        """Return which prices there would have to be, named as in a file of prices."""
        names = _RatesEntry.__struct_fields__
        return [
            name
            for name, count, rate in zip(names, counts, self.per_token, strict=False)
            if count and rate is None
        ]


class Price(Struct, frozen=True, kw_only=True):
    """What a model's tokens cost from some moment on, for contexts of some size."""

    standard: Rates
    long_context: Rates | None = None
    long_context_threshold: int | None = None
    """The context above which the rates for long ones hold."""
    terms: Mapping[str, tuple[int, int]]
    """What multiplies the rates, as a fraction."""
    since_ms: int | None = None

    def rates_for(
        self, terms: Iterable[str] = (), *, is_long_context: bool = False
    ) -> Rates | None:
        """Return the rates on some terms; nothing where a term is not known."""
        above, below = 1, 1
        for term in terms:
            if term not in self.terms:
                return None
            above, below = above * self.terms[term][0], below * self.terms[term][1]
        rates = (
            self.long_context
            if is_long_context and self.long_context
            else self.standard
        )
        return structs.replace(rates, multiplier=(above, below))


class Prices:
    """A table of prices, looked up by a model's name and a moment."""

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
            named: dict[str, list[_PriceEntry]] = {}
            for row in file.price:
                for name in row.models:
                    named.setdefault(normalize_model_name(name), []).append(row)
            rows |= named
        for name, own in rows.items():
            made = (_build_price(row, terms, search) for row in own)
            self._by_name[name] = tuple(sorted(made, key=lambda p: p.since_ms or 0))

    def for_model(self, model: str | None) -> tuple[Price, ...]:
        """Return the prices of a model, oldest first; none where it is not known."""
        return self._by_name.get(normalize_model_name(model), ()) if model else ()

    def compute_cost(self, usages: Iterable[MessageUsage]) -> Cost:
        """Return what answers cost, each at the price that held when it was given."""
        total: int | None = None
        unpriced = 0
        for spend in usages:
            picos = self._message_cost(spend)
            if picos is None:
                unpriced += spend.usage.total
            else:
                total = picos + (total or 0)
        if total is None and not unpriced:
            total = 0
        return Cost(
            nano_usd=None if total is None else picos_to_nanos(total),
            unpriced_tokens=unpriced,
        )

    def _message_cost(self, message_usage: MessageUsage) -> int | None:
        said_ms = (
            message_usage.sent_at.timestamp() * 1000 if message_usage.sent_at else 0
        )
        held = [
            p
            for p in self.for_model(message_usage.model)
            if (p.since_ms or 0) <= said_ms
        ]
        if not held:
            return None
        price, usage = held[-1], message_usage.usage
        is_long = (
            price.long_context_threshold is not None
            and usage.context > price.long_context_threshold
        )
        rates = price.rates_for(message_usage.terms, is_long_context=is_long)
        return rates.compute_cost(structs.astuple(usage)) if rates else None


def load_prices(user_file: Path | None = None) -> Prices:
    """Return the prices that come with this version, with a user's file over them.

    :raises PricesUnreadable: if the user's file is not what it should be.
    """
    # The table as JSON, made of prices.toml: every list shows money, and TOML takes
    # longer to read than all else that this needs.
    table = Path(__file__).with_name("prices.json").read_bytes()
    files = [msgspec.json.decode(table, type=_PricesFile)]
    if user_file is not None and user_file.exists():
        try:
            files.append(_parse_user_file(user_file.read_text("utf-8")))
        except (ValueError, OSError) as error:
            raise InvalidPrices(user_file, " ".join(str(error).split())) from error
    return Prices(files)


def _parse_user_file(text: str) -> _PricesFile:
    import tomllib

    found = tomllib.loads(text, parse_float=Decimal)
    file = msgspec.convert(found, _PricesFile)
    amounts = [file.search, *file.terms.values()]
    for row in file.price:
        for one in (row, row.long):
            amounts += [
                getattr(one, name) for name in _RatesEntry.__struct_fields__ if one
            ]
        amounts += [row.fast, row.us]
    for amount in amounts:
        is_price = amount is None or (
            amount.is_finite() and _MIN_PRICE <= amount <= _MAX_PRICE
        )
        if not is_price:
            raise ValueError(f"{amount} is no price")
    return file


def _build_price(row: _PriceEntry, terms: dict[str, Decimal], search: Decimal) -> Price:
    own = {"fast": row.fast, "us": row.us}
    known = terms | {name: value for name, value in own.items() if value is not None}
    midnight = time(tzinfo=UTC)
    since = datetime.combine(row.since, midnight) if row.since else None
    return Price(
        standard=_build_rates(row, search),
        long_context=_build_rates(row.long, search) if row.long else None,
        long_context_threshold=row.long.above if row.long else None,
        terms={name: value.as_integer_ratio() for name, value in known.items()},
        since_ms=int(since.timestamp()) * 1000 if since else None,
    )


def _build_rates(row: _RatesEntry, search: Decimal) -> Rates:
    def picos(dollars: Decimal | None) -> int | None:
        return (
            None if dollars is None else int(dollars * (PICOS_PER_DOLLAR // _MILLION))
        )

    each = (
        picos(row.input) or 0,
        picos(row.output) or 0,
        picos(row.write_5m),
        picos(row.write_1h),
        picos(row.read),
    )
    return Rates(per_token=each, per_search=int(search * PICOS_PER_DOLLAR))
