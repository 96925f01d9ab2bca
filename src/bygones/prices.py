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

from bygones.errors import PricesUnreadable
from bygones.model.usage import Cost

if TYPE_CHECKING:  # whoever prices sums needs no sessions
    from bygones.model.parts import Spend

__all__ = ["PICOS", "Price", "Prices", "Rates", "load_prices", "nanos", "normal_name"]

PICOS = 10**12
"""Of the unit of money in a dollar."""
_MILLION = 10**6
_PICOS_IN_NANO = 1000
_LEAST, _MOST = Decimal(0), Decimal(10**6)
"""Between these is every price; what is dearer was meant otherwise."""

_PLACE = re.compile(r"(?:[a-z0-9_-]+[./])+(?=claude)")
_ENDINGS = re.compile(r"(?:\[1m\]|-v\d+(?::\d+)?|[@-]\d{8}|[@-]latest|-0)$")
_OLD_ORDER = re.compile(r"claude-(\d(?:-\d)?)-([a-z]+)")


def nanos(picos: int) -> int:
    """Return money in billionths of a dollar, rounded."""
    return (picos + _PICOS_IN_NANO // 2) // _PICOS_IN_NANO


@cache
def normal_name(model: str) -> str:
    """Return a model's name without what clouds, dates and context sizes add to it.

    >>> normal_name("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
    'claude-sonnet-4-5'
    >>> normal_name("claude-opus-4.5[1m]"), normal_name("claude-3-5-haiku-latest")
    ('claude-opus-4-5', 'claude-haiku-3-5')
    """
    name = _PLACE.sub("", model.strip().lower(), count=1)
    shorter = _ENDINGS.sub("", name)
    while shorter != name:
        name, shorter = shorter, _ENDINGS.sub("", shorter)
    name = name.replace(".", "-")
    old = _OLD_ORDER.fullmatch(name)
    return f"claude-{old[2]}-{old[1]}" if old else name


class _Rates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars for a million tokens of each kind, as the file has them."""

    input: Decimal
    output: Decimal
    write_5m: Decimal | None = None
    write_1h: Decimal | None = None
    read: Decimal | None = None


class _Long(_Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    above: int


class _Row(_Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    models: tuple[str, ...]
    since: date | None = msgspec.field(name="from", default=None)
    fast: Decimal | None = None
    us: Decimal | None = None
    long: _Long | None = None


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    date: date | None = None
    sources: tuple[str, ...] = ()
    search: Decimal | None = None
    terms: dict[str, Decimal] = {}
    price: tuple[_Row, ...] = ()


class Rates(Struct, frozen=True, kw_only=True):
    """What one token of each kind costs on some terms, and one web search."""

    each: tuple[int, int, int | None, int | None, int | None]
    """Input, output, cache writes of both kinds, cache reads."""
    factor: tuple[int, int] = (1, 1)
    """What the terms multiply them by, as a fraction."""
    search: int = 0

    def cost(self, counts: Sequence[int]) -> int | None:
        """Return what tokens cost; nothing where a part of it is not known.

        ``counts`` has tokens in the order of the rates, and then web searches.
        """
        total = 0
        for count, rate in zip(counts, self.each, strict=False):
            if rate is not None:
                total += count * rate
            elif count:
                return None
        above, below = self.factor
        return total * above // below + sum(counts[len(self.each) :]) * self.search

    def missing(self, counts: Sequence[int]) -> list[str]:
        """Return which prices there would have to be, named as in a file of prices."""
        names = _Rates.__struct_fields__
        return [
            name
            for name, count, rate in zip(names, counts, self.each, strict=False)
            if count and rate is None
        ]


class Price(Struct, frozen=True, kw_only=True):
    """What a model's tokens cost from some moment on, for contexts of some size."""

    usual: Rates
    long: Rates | None = None
    above: int | None = None
    """The context above which the rates for long ones hold."""
    terms: Mapping[str, tuple[int, int]]
    """What multiplies the rates, as a fraction."""
    since_ms: int | None = None

    def rates(
        self, terms: Iterable[str] = (), *, is_long: bool = False
    ) -> Rates | None:
        """Return the rates on some terms; nothing where a term is not known."""
        above, below = 1, 1
        for term in terms:
            if term not in self.terms:
                return None
            above, below = above * self.terms[term][0], below * self.terms[term][1]
        rates = self.long if is_long and self.long else self.usual
        return structs.replace(rates, factor=(above, below))


class Prices:
    """A table of prices, looked up by a model's name and a moment."""

    def __init__(self, files: Iterable[_File]) -> None:
        self.date: date | None = None
        self._by_name: dict[str, tuple[Price, ...]] = {}
        terms: dict[str, Decimal] = {}
        search = Decimal(0)
        rows: dict[str, list[_Row]] = {}
        for file in files:
            self.date = self.date or file.date
            terms |= file.terms
            search = search if file.search is None else file.search
            named: dict[str, list[_Row]] = {}
            for row in file.price:
                for name in row.models:
                    named.setdefault(normal_name(name), []).append(row)
            rows |= named
        for name, own in rows.items():
            made = (_price(row, terms, search) for row in own)
            self._by_name[name] = tuple(sorted(made, key=lambda p: p.since_ms or 0))

    def of(self, model: str | None) -> tuple[Price, ...]:
        """Return the prices of a model, oldest first; none where it is not known."""
        return self._by_name.get(normal_name(model), ()) if model else ()

    def cost_of(self, spends: Iterable[Spend]) -> Cost:
        """Return what answers cost, each at the price that held when it was given."""
        total: int | None = None
        unpriced = 0
        for spend in spends:
            picos = self._answer(spend)
            if picos is None:
                unpriced += spend.usage.total
            else:
                total = picos + (total or 0)
        if total is None and not unpriced:
            total = 0
        return Cost(
            nanos=None if total is None else nanos(total), unpriced_tokens=unpriced
        )

    def _answer(self, spend: Spend) -> int | None:
        said_ms = spend.time.timestamp() * 1000 if spend.time else 0
        held = [p for p in self.of(spend.model) if (p.since_ms or 0) <= said_ms]
        if not held:
            return None
        price, usage = held[-1], spend.usage
        is_long = price.above is not None and usage.context > price.above
        rates = price.rates(spend.terms, is_long=is_long)
        return rates.cost(structs.astuple(usage)) if rates else None


def load_prices(own: Path | None = None) -> Prices:
    """Return the prices that come with this version, with a user's file over them.

    :raises PricesUnreadable: if the user's file is not what it should be.
    """
    # The table as JSON, made of prices.toml: every list shows money, and TOML takes
    # longer to read than all else that this needs.
    table = Path(__file__).with_name("prices.json").read_bytes()
    files = [msgspec.json.decode(table, type=_File)]
    if own is not None and own.exists():
        try:
            files.append(_read(own.read_text("utf-8")))
        except (ValueError, OSError) as error:
            raise PricesUnreadable(own, " ".join(str(error).split())) from error
    return Prices(files)


def _read(text: str) -> _File:
    import tomllib  # noqa: PLC0415 (for a file of the user's own)

    found = tomllib.loads(text, parse_float=Decimal)
    file = msgspec.convert(found, _File)
    amounts = [file.search, *file.terms.values()]
    for row in file.price:
        for one in (row, row.long):
            amounts += [getattr(one, name) for name in _Rates.__struct_fields__ if one]
        amounts += [row.fast, row.us]
    for amount in amounts:
        is_price = amount is None or (amount.is_finite() and _LEAST <= amount <= _MOST)
        if not is_price:
            raise ValueError(f"{amount} is no price")
    return file


def _price(row: _Row, terms: dict[str, Decimal], search: Decimal) -> Price:
    own = {"fast": row.fast, "us": row.us}
    known = terms | {name: value for name, value in own.items() if value is not None}
    midnight = time(tzinfo=UTC)
    since = datetime.combine(row.since, midnight) if row.since else None
    return Price(
        usual=_rates(row, search),
        long=_rates(row.long, search) if row.long else None,
        above=row.long.above if row.long else None,
        terms={name: value.as_integer_ratio() for name, value in known.items()},
        since_ms=int(since.timestamp()) * 1000 if since else None,
    )


def _rates(row: _Rates, search: Decimal) -> Rates:
    def picos(dollars: Decimal | None) -> int | None:
        return None if dollars is None else int(dollars * (PICOS // _MILLION))

    each = (
        picos(row.input) or 0,
        picos(row.output) or 0,
        picos(row.write_5m),
        picos(row.write_1h),
        picos(row.read),
    )
    return Rates(each=each, search=int(search * PICOS))
