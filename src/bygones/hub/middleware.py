"""Who may send which requests to a hub: the middleware in front of all routes.

A program sends its token in ``Authorization``. A browser posts it once, in a form, and
then has it in a cookie that no script can read and no other site can send. The
middleware puts the token's owner into the request; nothing behind it checks again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from math import ceil

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bygones.archive.remote import READER_PATH
from bygones.errors import BygonesError
from bygones.hub.monitoring import AccessLog, Metrics, RateLimiter
from bygones.hub.sign_in import SIGN_IN_PATHS
from bygones.mcp.http import PATH
from bygones.team.access import AccessToken, TokenStore
from bygones.team.contract import MAX_FRAME_BYTES, PROGRESS_PATH, PUSH_PATH
from bygones.web.app import ROUTES
from bygones.web.security import (
    LOGIN_PATH,
    LoginKeys,
    RequestLimits,
    SecurityMiddleware,
    error_response,
    is_trusted_origin,
)

HUB_COOKIE = "bygones-hub"
HEALTH_PATH = "/health"
"""A health check for monitoring; it reveals nothing else."""
_TOKEN_KEY = "bygones.token"  # noqa: S105 (its name)
READY_PATH = "/ready"
"""Whether the hub can answer: 503 with the reason if it cannot."""
METRICS_PATH = "/metrics"
LOGIN_CSS_PATH = "/enter.css"
"""The style of the login form: all other styles need a login."""
_PUBLIC_PATHS = frozenset(
    {LOGIN_PATH, HEALTH_PATH, READY_PATH, LOGIN_CSS_PATH, *SIGN_IN_PATHS}
)
"""Paths that need no token."""
_UNLIMITED_PATHS = frozenset({*_PUBLIC_PATHS, PUSH_PATH, PROGRESS_PATH})
"""Paths that the limit of requests does not apply to: uploads have limits of their own."""
_REQUEST_OVERHEAD = 1024 * 1024
"""Bytes of a request besides its longest frame."""
_MAX_PUBLIC_BODY_BYTES = 8 * 1024
"""Of a request to sign in: a token, or the code of a provider."""


def request_token(scope: Scope) -> AccessToken:
    """Return the token of a request that has passed the middleware."""
    token = scope[_TOKEN_KEY]
    if not isinstance(token, AccessToken):
        raise TypeError(_TOKEN_KEY)
    return token


class RequestObserver:
    """Counts, limits and logs requests."""

    def __init__(
        self,
        log: AccessLog | None = None,
        metrics: Metrics | None = None,
        max_per_minute: int = 0,
    ) -> None:
        self.log = log or AccessLog()
        self.metrics = metrics or Metrics()
        self._limiter = RateLimiter(max_per_minute)

    def wait_seconds(self, scope: Scope) -> float:
        """Return how long a request has to wait: people may not send too many."""
        if scope["path"] in _UNLIMITED_PATHS or _TOKEN_KEY not in scope:
            return 0.0
        return self._limiter.wait_seconds(request_token(scope).person)

    @asynccontextmanager
    async def observe(self, scope: Scope, send: Send) -> AsyncIterator[Send]:
        """Count and log a request when it is answered; health checks are only counted."""
        started = time.monotonic()
        status = 500

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            yield send_observed
        finally:
            seconds = time.monotonic() - started
            path = scope["path"]
            self.metrics.observe(
                _known_method(scope["method"]), _route_name(path), status, seconds
            )
            if path not in {HEALTH_PATH, READY_PATH, METRICS_PATH}:
                token = scope.get(_TOKEN_KEY)
                self.log.write(
                    event="request",
                    person=token.person if token else "",
                    token=token.id if token else "",
                    client=(scope.get("client") or ("",))[0],
                    method=_known_method(scope["method"]),
                    path=path,
                    query=_logged_query(path, scope["query_string"]),
                    status=status,
                    ms=round(seconds * 1000, 1),
                )


def _logged_query(path: str, query: bytes) -> str:
    """Return a query without the code with which the provider sends people back."""
    return "" if path in SIGN_IN_PATHS else query.decode("ascii", "replace")


def _known_method(method: str) -> str:
    return method if method in {"GET", "HEAD", "POST", "DELETE"} else "OTHER"


def _route_name(path: str) -> str:
    """Return the kind of a page: its name without what is specific to a session.

    Paths that a hub doesn't have share one name, because anyone may invent them.
    """
    name = _first_parts(path)
    return name if name in _ROUTE_NAMES else "other"


def _first_parts(path: str) -> str:
    parts = path.split("/")
    return ("/".join(parts[1:3]) if parts[1] == "api" else parts[1]) or "home"


_ROUTE_NAMES = {
    _first_parts(path)
    for path in (
        *(route.path for route in ROUTES),
        *(PUSH_PATH, PROGRESS_PATH, READER_PATH, PATH, LOGIN_PATH, "/oidc"),
        *(HEALTH_PATH, READY_PATH, METRICS_PATH),
    )
}
"""Values of the label ``route`` in metrics."""


class HubSecurityMiddleware(SecurityMiddleware):
    """Admits requests with a valid token, in a header or a cookie."""

    _unlimited_paths = frozenset({HEALTH_PATH, READY_PATH})

    def __init__(  # noqa: PLR0913 (most by name)
        self,
        app: ASGIApp,
        tokens: TokenStore,
        *,
        host: str,
        port: int,
        hostnames: Iterable[str] = (),
        observer: RequestObserver | None = None,
    ) -> None:
        super().__init__(app, LoginKeys(port), host=host, port=port)
        self._tokens = tokens
        self._allowed_hosts |= frozenset(hostnames)
        self._observer = observer or RequestObserver()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        async with self._observer.observe(scope, send) as send_observed:
            scope.pop(_TOKEN_KEY, None)
            try:
                token = await self._authenticate(Headers(scope=scope))
            except BygonesError:
                unavailable = error_response(
                    503, "The database is not available.", {"Retry-After": "2"}
                )
                await unavailable(scope, receive, send_observed)
                return
            if token is not None:
                scope[_TOKEN_KEY] = token
            await super().__call__(scope, receive, send_observed)

    async def _authenticate(self, headers: Headers) -> AccessToken | None:
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            secret = cookie_parser(headers.get("cookie", "")).get(HUB_COOKIE, "")
        if not secret:
            return None
        return await anyio.to_thread.run_sync(
            self._tokens.authenticate, secret.strip(), utc_now()
        )

    def _person(self, scope: Scope, _headers: Headers) -> str:
        return request_token(scope).person if _TOKEN_KEY in scope else ""

    def _check_access(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response to a request without access; ``None`` if it has."""
        if wait := self._observer.wait_seconds(scope):
            after = {"Retry-After": str(ceil(wait))}
            return error_response(429, "Too many requests.", after)
        if _TOKEN_KEY in scope or scope["path"] in _PUBLIC_PATHS:
            return None
        if headers.get("accept", "").startswith("text/html"):
            return Response(status_code=303, headers={"Location": LOGIN_PATH})
        message = (
            "The token is unknown, expired or revoked."
            if "authorization" in headers
            else "A valid token is required."
        )
        return error_response(401, message, {"WWW-Authenticate": "Bearer"})

    def _max_body_bytes(self, scope: Scope) -> int:
        if scope["path"] == PUSH_PATH:
            return MAX_FRAME_BYTES + _REQUEST_OVERHEAD
        if scope["path"] in _PUBLIC_PATHS:
            return _MAX_PUBLIC_BODY_BYTES
        return RequestLimits.max_body_bytes

    def _is_trusted_origin(self, method: str, headers: Headers, host: str) -> bool:
        # Web pages cannot send this header to other origins: the client is a program.
        if "authorization" in headers and "origin" not in headers:
            return True
        # Our own form has no origin, because of our referrer policy.
        site = headers.get("sec-fetch-site")
        if site == "same-origin" and headers.get("origin") == "null":
            return True
        return is_trusted_origin(method, headers, f"https://{host}", f"http://{host}")


def utc_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
