"""A visit: what a page is asked for, and by what it can answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.requests import Request

from bygones.config import LocalTimezone
from bygones.errors import BadRequest
from bygones.web.live import EventBroadcaster
from bygones.web.pool import ArchivePool

if TYPE_CHECKING:
    from bygones.usage.prices import Prices

__all__ = ["AppState", "RequestContext"]


class AppState(Struct, frozen=True, kw_only=True):
    """What all visits share."""

    pool: ArchivePool
    broadcaster: EventBroadcaster
    homes: tuple[Path, ...] = ()
    """The homes that are watched; none if the archive is shown as it is."""
    prices: Prices | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)  # noqa: TID251 (a face knows the clock)


class RequestContext(Struct, frozen=True, kw_only=True):
    """One request, decoded as far as all pages need it."""

    request: Request
    app_state: AppState
    now: datetime
    body: bytes = b""

    @property
    def zone(self) -> tzinfo:
        """In which days begin: where this machine is."""
        return LocalTimezone()

    @property
    def pool(self) -> ArchivePool:
        """The readers of the archive."""
        return self.app_state.pool

    def path_param(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])

    def query_param(self, name: str, max_length: int = 2000) -> str:
        """Return a value of the query, cut and without blanks around it."""
        return self.request.query_params.get(name, "")[:max_length].strip()

    def query_flag(self, name: str) -> bool:
        """Whether a value of the query is there and does not say no."""
        return self.query_param(name) not in {"", "0", "false"}

    def query_int(
        self, name: str, default: int, minimum: int = 0, maximum: int = 10**9
    ) -> int:
        """Return a number of the query, brought into its bounds."""
        told = self.query_param(name, 20)
        if not told:
            return default
        try:
            return min(max(int(told), minimum), maximum)
        except ValueError:
            raise BadRequest(f"{name} has to be a number") from None

    def query_date(self, name: str) -> date | None:
        """Return a day of the query."""
        told = self.query_param(name, 20)
        try:
            return date.fromisoformat(told) if told else None
        except ValueError:
            raise BadRequest(f"{name} has to be a day, as in 2026-01-31") from None
