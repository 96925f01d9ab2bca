"""A visit: what a page is asked for, and by what it can answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.requests import Request

from bygones.errors import BadRequest
from bygones.settings import LocalZone
from bygones.web.live import Herald
from bygones.web.readers import Readers

if TYPE_CHECKING:
    from bygones.prices import Prices

__all__ = ["House", "Visit"]


class House(Struct, frozen=True, kw_only=True):
    """What all visits share."""

    readers: Readers
    herald: Herald
    homes: tuple[Path, ...] = ()
    """The homes that are watched; none if the archive is shown as it is."""
    prices: Prices | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)  # noqa: TID251 (a face knows the clock)


class Visit(Struct, frozen=True, kw_only=True):
    """One request, decoded as far as all pages need it."""

    request: Request
    house: House
    now: datetime
    body: bytes = b""

    @property
    def zone(self) -> tzinfo:
        """In which days begin: where this machine is."""
        return LocalZone()

    @property
    def readers(self) -> Readers:
        """The readers of the archive."""
        return self.house.readers

    def part(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])

    def text(self, name: str, limit: int = 2000) -> str:
        """Return a value of the query, cut and without blanks around it."""
        return self.request.query_params.get(name, "")[:limit].strip()

    def flag(self, name: str) -> bool:
        """Whether a value of the query is there and does not say no."""
        return self.text(name) not in {"", "0", "false"}

    def number(self, name: str, default: int, low: int = 0, high: int = 10**9) -> int:
        """Return a number of the query, brought into its bounds."""
        told = self.text(name, 20)
        if not told:
            return default
        try:
            return min(max(int(told), low), high)
        except ValueError:
            raise BadRequest(f"{name} has to be a number") from None

    def day(self, name: str) -> date | None:
        """Return a day of the query."""
        told = self.text(name, 20)
        try:
            return date.fromisoformat(told) if told else None
        except ValueError:
            raise BadRequest(f"{name} has to be a day, as in 2026-01-31") from None
