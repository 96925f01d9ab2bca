"""What a request handler receives, and the entries of the route table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bygones.config import LocalTimezone
from bygones.errors import BadRequest
from bygones.model.query import Query
from bygones.query.parser import parse_query
from bygones.web.live import EventBroadcaster
from bygones.web.pool import ArchivePool

if TYPE_CHECKING:
    from bygones.usage.prices import Prices


_MAX_NUMBER = 1e12


class AppState(Struct, frozen=True, kw_only=True):
    """What all requests share."""

    pool: ArchivePool
    broadcaster: EventBroadcaster
    homes: tuple[Path, ...] = ()
    """The homes that are watched; empty if the archive is not updated."""
    prices: Prices | None = None
    searches_file: Path | None = None
    """Where saved searches are; `None` if they cannot be saved."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)  # noqa: TID251 (interfaces read the clock)


class RequestContext(Struct, frozen=True, kw_only=True):
    """One request, with helpers that decode its parameters."""

    request: Request
    app_state: AppState
    now: datetime
    body: bytes = b""

    @property
    def zone(self) -> tzinfo:
        """The time zone in which days start."""
        return LocalTimezone()

    @property
    def pool(self) -> ArchivePool:
        return self.app_state.pool

    def path_param(self, name: str) -> str:
        return str(self.request.path_params[name])

    @property
    def agent(self) -> str:
        """The agent run that the path names; empty for the session itself."""
        return str(self.request.path_params.get("agent", ""))

    def query_param(self, name: str, max_length: int = 2000) -> str:
        """Return a query parameter, truncated and stripped; empty if it is missing."""
        return self.request.query_params.get(name, "")[:max_length].strip()

    def query_flag(self, name: str) -> bool:
        """Return whether a query parameter is set and not `0` or `false`."""
        return self.query_param(name) not in {"", "0", "false"}

    def query_int(
        self, name: str, default: int, minimum: int = 0, maximum: int = 10**9
    ) -> int:
        """Return a number of the query, limited to a range."""
        text = self.query_param(name, 20)
        if not text:
            return default
        try:
            return min(max(int(text), minimum), maximum)
        except ValueError:
            raise BadRequest(f"{name} must be a number") from None

    def query_number(self, name: str) -> float:
        """Return a number of the query that may have decimals; 0 if it is missing."""
        text = self.query_param(name, 20)
        try:
            number = float(text) if text else 0.0
        except ValueError:
            raise BadRequest(f"{name} must be a number") from None
        return number if 0 <= number < _MAX_NUMBER else 0.0

    def query_date(self, name: str) -> date | None:
        """Return a day of the query."""
        text = self.query_param(name, 20)
        try:
            return date.fromisoformat(text) if text else None
        except ValueError:
            raise BadRequest(f"{name} must be a date such as 2026-01-31") from None

    def form(self, max_fields: int) -> dict[str, list[str]]:
        """Return the fields of a form that was sent."""
        body = self.body.decode("utf-8", "replace")
        try:
            return parse_qs(body, max_num_fields=max_fields)
        except ValueError:
            raise BadRequest("the form has too many fields") from None

    def parse_query(self, text: str) -> Query:
        """Parse a query of the query language, relative to the time of the request."""
        return parse_query(text, now=self.now, zone=self.zone)


class RouteSpec(NamedTuple):
    """A path and the function that handles it."""

    path: str
    handler: Callable[[RequestContext], Response]
    method: str = "GET"
    name: str = ""
    """The OpenAPI operation; only described routes have one."""
    is_session_page: bool = False

    @property
    def is_api(self) -> bool:
        """Whether errors are JSON, too."""
        return self.path.startswith("/api/")
