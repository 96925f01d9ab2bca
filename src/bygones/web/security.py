"""The gate: every request passes it, and nothing behind it asks again.

What is not let in on purpose is kept out, in this order: a foreign ``Host`` (a name
that somebody made point at this machine), a request from another page, a caller
without the cookie, too much at once. All that goes out carries the same headers.
"""

from __future__ import annotations

import hmac
import secrets
import sys
from collections import deque
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from time import monotonic
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = [
    "LOGIN_PATH",
    "SECURITY_HEADERS",
    "LoginKeys",
    "RequestLimits",
    "SecurityMiddleware",
    "allowed_hosts",
    "error_response",
    "is_loopback",
    "is_trusted_origin",
]

LOGIN_PATH = "/enter"
"""Where a link that was printed is exchanged for the cookie."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types bygones"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""On every answer; ``Cache-Control: no-store`` too, unless it says otherwise."""

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_OWN_SITES = frozenset({"same-origin", "none"})
_WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})  # noqa: S104 (compared with, not bound to)


class RequestLimits:
    """How much is let in at once, and how often somebody may fail."""

    max_body_bytes = 64 * 1024
    """Bytes of what is sent."""
    max_url_bytes = 8 * 1024
    """Bytes of a path with its query."""
    max_concurrent_requests = 400
    """Requests that are being answered."""
    max_failed_logins = 20
    """Wrong keys in a minute, after which all are refused for a while."""


class LoginKeys:
    """The one-time key in a link, and the lasting one in the cookie.

    A link works once: it may stand in a history, or in a list of what is running. When
    it is used, ``told`` gets the next.
    """

    def __init__(
        self, port: int, on_new_key: Callable[[str], None] | None = None
    ) -> None:
        self.cookie_name = f"bygones-{port}"
        self.cookie_key = secrets.token_urlsafe(32)
        self._on_new_key = on_new_key
        self.one_time_key = secrets.token_urlsafe(32)

    def is_valid_cookie(self, key: str) -> bool:
        """Whether this is what the cookie holds."""
        return hmac.compare_digest(key.encode(), self.cookie_key.encode())

    def redeem(self, key: str) -> bool:
        """Whether this is the key of the link; if so, it was."""
        if not hmac.compare_digest(key.encode(), self.one_time_key.encode()):
            return False
        self.one_time_key = secrets.token_urlsafe(32)
        if self._on_new_key is not None:
            self._on_new_key(self.one_time_key)
        return True


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and can be reached from no other."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """Return the values of ``Host`` under which a server at an address is meant."""
    names = {"localhost", "127.0.0.1", "[::1]"}
    if host not in _WILDCARD_HOSTS:
        names.add(f"[{host}]" if ":" in host else host)
    return frozenset(f"{name}:{port}" for name in names)


class SecurityMiddleware:
    """Lets in whoever has the key, asks from here, and does not ask for too much."""

    def __init__(self, app: ASGIApp, keys: LoginKeys, *, host: str, port: int) -> None:
        self._app = app
        self._keys = keys
        self._port = port
        self._allowed_hosts = allowed_hosts(host, port)
        self._is_wildcard_bind = host in _WILDCARD_HOSTS
        self._active_requests = 0
        self._failed_logins: deque[float] = deque(
            maxlen=RequestLimits.max_failed_logins
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on what is let in."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            # There are no web sockets here, so none is ever accepted.
            await send({"type": "websocket.close", "code": 1008})
        else:
            refused = self._check_request(scope)
            if refused is not None:
                await refused(scope, receive, _with_security_headers(send))
                return
            self._active_requests += 1
            try:
                most = self._max_body_bytes(scope)
                await self._app(
                    scope, _with_body_limit(receive, most), _with_security_headers(send)
                )
            finally:
                self._active_requests -= 1

    def _check_request(self, scope: Scope) -> Response | None:
        """Return why a request is not let in; ``None`` if it is."""
        headers = Headers(scope=scope)
        told = [value for name, value in headers.items() if name == "host"]
        if len(told) != 1 or not self._is_allowed_host(told[0]):
            return error_response(421, "This is not the host that was asked for.")
        if (
            len(scope["path"]) + len(scope["query_string"])
            > RequestLimits.max_url_bytes
        ):
            return error_response(414, "The address is too long.")
        if not self._is_trusted_origin(scope["method"], headers, told[0]):
            return error_response(403, "Another page asked for this.")
        if _content_length(headers) > self._max_body_bytes(scope):
            return error_response(413, "That is too much.")
        if self._active_requests >= RequestLimits.max_concurrent_requests:
            return error_response(503, "Too many at once.", {"Retry-After": "1"})
        return self._check_access(scope, headers)

    def _max_body_bytes(self, _scope: Scope) -> int:
        """Return how many bytes may be sent."""
        return RequestLimits.max_body_bytes

    def _check_access(self, scope: Scope, headers: Headers) -> Response | None:
        """Return why somebody has no right to ask; ``None`` if they have."""
        given = cookie_parser(headers.get("cookie", "")).get(self._keys.cookie_name, "")
        if given and self._keys.is_valid_cookie(given):
            return None
        if self._is_locked_out():
            return error_response(429, "Too many wrong keys.", {"Retry-After": "60"})
        if scope["path"] == LOGIN_PATH and scope["method"] == "GET":
            return self._log_in(scope)
        if given:
            self._failed_logins.append(monotonic())
        return error_response(401, _LOGIN_REQUIRED)

    def _log_in(self, scope: Scope) -> Response:
        """Exchange the key of a link for the cookie."""
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        if not self._keys.redeem(asked.get("key", [""])[0]):
            self._failed_logins.append(monotonic())
            return error_response(401, _LOGIN_REQUIRED)
        # A redirect would count as coming from wherever the link stood.
        to = safe_redirect_path(asked.get("to", ["/"])[0])
        return Response(
            "<!doctype html><title>Bygones</title>"
            f'<meta http-equiv="refresh" content="0;url={to}">',
            media_type="text/html",
            headers={
                "Set-Cookie": f"{self._keys.cookie_name}={self._keys.cookie_key}; "
                "HttpOnly; SameSite=Strict; Path=/"
            },
        )

    def _is_locked_out(self) -> bool:
        full = len(self._failed_logins) == RequestLimits.max_failed_logins
        return full and monotonic() - self._failed_logins[0] < 60  # noqa: PLR2004 (a minute)

    def _is_trusted_origin(self, method: str, headers: Headers, host: str) -> bool:
        return is_trusted_origin(method, headers, f"http://{host}")

    def _is_allowed_host(self, host: str) -> bool:
        if host in self._allowed_hosts:
            return True
        if not self._is_wildcard_bind:
            return False
        # Only a name can be made to point elsewhere; an address is what it is.
        name, _, port = host.rpartition(":")
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return port == str(self._port)


_LOGIN_REQUIRED = (
    "This page opens with the link that `bygones serve` prints. A link works once;"
    " the terminal shows the next one."
)
_SAFE_PATH_CHARS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/"
)


def safe_redirect_path(path: str) -> str:
    """Return a path of ours as it was given, and the home page for anything else.

    It may say at which record to open a session.
    """
    way, _, record = path.partition("?at=")
    is_plain = way.startswith("/") and set(way + record) <= _SAFE_PATH_CHARS
    return path if is_plain and not way.startswith("//") else "/"


def is_trusted_origin(method: str, headers: Headers, *origins: str) -> bool:
    """Whether a request comes from one of our pages, or from no page at all.

    ``own`` are the origins that are ours.

    Other pages may lead here, and that is all. Whoever changes something has to say
    where it comes from.
    """
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if origin is not None and origin not in origins:
        return False
    if method in _SAFE_METHODS:
        if site is None or site in _OWN_SITES:
            return True
        return headers.get("sec-fetch-mode") == "navigate"
    return site == "same-origin" or (site is None and origin is not None)


def _content_length(headers: Headers) -> int:
    told = headers.get("content-length", "0")
    return int(told) if told.isdecimal() else sys.maxsize


def error_response(
    status: int, message: str, headers: dict[str, str] | None = None
) -> Response:
    """Return what somebody is told who is not let in."""
    return PlainTextResponse(message + "\n", status_code=status, headers=headers)


def _with_security_headers(send: Send) -> Send:
    """Return a sender that gives every answer our headers."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            _add_headers(MutableHeaders(scope=message), SECURITY_HEADERS.items())
        await send(message)

    return sending


def _add_headers(headers: MutableHeaders, extra: Iterable[tuple[str, str]]) -> None:
    for name, value in extra:
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")


def _with_body_limit(receive: Receive, max_bytes: int) -> Receive:
    """Return a receiver that ends where somebody sends more than was announced."""
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > max_bytes:
                return {"type": "http.disconnect"}
        return message

    return receiving
