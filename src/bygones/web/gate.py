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
    "ENTRANCE",
    "HEADERS",
    "Gate",
    "Keys",
    "Limits",
    "hosts_of",
    "is_from_here",
    "is_loopback",
    "refusal",
]

ENTRANCE = "/enter"
"""Where a link that was printed is exchanged for the cookie."""

HEADERS = {
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

_READING = frozenset({"GET", "HEAD"})
_OWN = frozenset({"same-origin", "none"})
_ANY = frozenset({"0.0.0.0", "::"})  # noqa: S104 (compared with, not bound to)


class Limits:
    """How much is let in at once, and how often somebody may fail."""

    body = 64 * 1024
    """Bytes of what is sent."""
    address = 8 * 1024
    """Bytes of a path with its query."""
    at_once = 400
    """Requests that are being answered."""
    failures = 20
    """Wrong keys in a minute, after which all are refused for a while."""


class Keys:
    """The one-time key in a link, and the lasting one in the cookie.

    A link works once: it may stand in a history, or in a list of what is running. When
    it is used, ``told`` gets the next.
    """

    def __init__(self, port: int, told: Callable[[str], None] | None = None) -> None:
        self.cookie = f"bygones-{port}"
        self.lasting = secrets.token_urlsafe(32)
        self._told = told
        self.once = secrets.token_urlsafe(32)

    def is_lasting(self, given: str) -> bool:
        """Whether this is what the cookie holds."""
        return hmac.compare_digest(given.encode(), self.lasting.encode())

    def use(self, given: str) -> bool:
        """Whether this is the key of the link; if so, it was."""
        if not hmac.compare_digest(given.encode(), self.once.encode()):
            return False
        self.once = secrets.token_urlsafe(32)
        if self._told is not None:
            self._told(self.once)
        return True


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and can be reached from no other."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def hosts_of(host: str, port: int) -> frozenset[str]:
    """Return the values of ``Host`` under which a server at an address is meant."""
    names = {"localhost", "127.0.0.1", "[::1]"}
    if host not in _ANY:
        names.add(f"[{host}]" if ":" in host else host)
    return frozenset(f"{name}:{port}" for name in names)


class Gate:
    """Lets in whoever has the key, asks from here, and does not ask for too much."""

    def __init__(self, app: ASGIApp, keys: Keys, *, host: str, port: int) -> None:
        self._app = app
        self._keys = keys
        self._port = port
        self._hosts = hosts_of(host, port)
        self._takes_any = host in _ANY
        self._inside = 0
        self._failed: deque[float] = deque(maxlen=Limits.failures)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on what is let in."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            # There are no web sockets here, so none is ever accepted.
            await send({"type": "websocket.close", "code": 1008})
        else:
            refused = self._refused(scope)
            if refused is not None:
                await refused(scope, receive, _dressed(send))
                return
            self._inside += 1
            try:
                most = self._most(scope)
                await self._app(scope, _measured(receive, most), _dressed(send))
            finally:
                self._inside -= 1

    def _refused(self, scope: Scope) -> Response | None:
        """Return why a request is not let in; ``None`` if it is."""
        headers = Headers(scope=scope)
        told = [value for name, value in headers.items() if name == "host"]
        if len(told) != 1 or not self._is_host(told[0]):
            return refusal(421, "This is not the host that was asked for.")
        if len(scope["path"]) + len(scope["query_string"]) > Limits.address:
            return refusal(414, "The address is too long.")
        if not self._is_from_here(scope["method"], headers, told[0]):
            return refusal(403, "Another page asked for this.")
        if _length(headers) > self._most(scope):
            return refusal(413, "That is too much.")
        if self._inside >= Limits.at_once:
            return refusal(503, "Too many at once.", {"Retry-After": "1"})
        return self._stopped(scope, headers)

    def _most(self, _scope: Scope) -> int:
        """Return how many bytes may be sent."""
        return Limits.body

    def _stopped(self, scope: Scope, headers: Headers) -> Response | None:
        """Return why somebody has no right to ask; ``None`` if they have."""
        given = cookie_parser(headers.get("cookie", "")).get(self._keys.cookie, "")
        if given and self._keys.is_lasting(given):
            return None
        if self._is_locked():
            return refusal(429, "Too many wrong keys.", {"Retry-After": "60"})
        if scope["path"] == ENTRANCE and scope["method"] == "GET":
            return self._enter(scope)
        if given:
            self._failed.append(monotonic())
        return refusal(401, _LOCKED)

    def _enter(self, scope: Scope) -> Response:
        """Exchange the key of a link for the cookie."""
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        if not self._keys.use(asked.get("key", [""])[0]):
            self._failed.append(monotonic())
            return refusal(401, _LOCKED)
        # A redirect would count as coming from wherever the link stood.
        to = own_path(asked.get("to", ["/"])[0])
        return Response(
            "<!doctype html><title>Bygones</title>"
            f'<meta http-equiv="refresh" content="0;url={to}">',
            media_type="text/html",
            headers={
                "Set-Cookie": f"{self._keys.cookie}={self._keys.lasting}; "
                "HttpOnly; SameSite=Strict; Path=/"
            },
        )

    def _is_locked(self) -> bool:
        full = len(self._failed) == Limits.failures
        return full and monotonic() - self._failed[0] < 60  # noqa: PLR2004 (a minute)

    def _is_from_here(self, method: str, headers: Headers, host: str) -> bool:
        return is_from_here(method, headers, f"http://{host}")

    def _is_host(self, told: str) -> bool:
        if told in self._hosts:
            return True
        if not self._takes_any:
            return False
        # Only a name can be made to point elsewhere; an address is what it is.
        name, _, port = told.rpartition(":")
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return port == str(self._port)


_LOCKED = (
    "This page opens with the link that `bygones serve` prints. A link works once;"
    " the terminal shows the next one."
)
_PLAIN_PATH = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/"
)


def own_path(path: str) -> str:
    """Return a path of ours as it was given, and the home page for anything else.

    It may say at which record to open a session.
    """
    way, _, record = path.partition("?at=")
    is_plain = way.startswith("/") and set(way + record) <= _PLAIN_PATH
    return path if is_plain and not way.startswith("//") else "/"


def is_from_here(method: str, headers: Headers, *own: str) -> bool:
    """Whether a request comes from one of our pages, or from no page at all.

    ``own`` are the origins that are ours.

    Other pages may lead here, and that is all. Whoever changes something has to say
    where it comes from.
    """
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if origin is not None and origin not in own:
        return False
    if method in _READING:
        if site is None or site in _OWN:
            return True
        return headers.get("sec-fetch-mode") == "navigate"
    return site == "same-origin" or (site is None and origin is not None)


def _length(headers: Headers) -> int:
    told = headers.get("content-length", "0")
    return int(told) if told.isdecimal() else sys.maxsize


def refusal(status: int, words: str, headers: dict[str, str] | None = None) -> Response:
    """Return what somebody is told who is not let in."""
    return PlainTextResponse(words + "\n", status_code=status, headers=headers)


def _dressed(send: Send) -> Send:
    """Return a sender that gives every answer our headers."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            _dress(MutableHeaders(scope=message), HEADERS.items())
        await send(message)

    return sending


def _dress(headers: MutableHeaders, told: Iterable[tuple[str, str]]) -> None:
    for name, value in told:
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")


def _measured(receive: Receive, most: int) -> Receive:
    """Return a receiver that ends where somebody sends more than was announced."""
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > most:
                return {"type": "http.disconnect"}
        return message

    return receiving
