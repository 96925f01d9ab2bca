"""The security middleware: checks every request before the application sees it.

It rejects, in this order: a foreign ``Host`` (DNS rebinding), requests from other web
sites, requests that are too large or too many, and requests without the login cookie.
Every response gets the same security headers.
"""

from __future__ import annotations

import hmac
import re
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from ipaddress import ip_address
from math import inf
from urllib.parse import parse_qs, urlencode

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bygones.web.link_proof import prove_key
from bygones.web.sign_in import key_of_link, sign_in_page

LOGIN_PATH = "/enter"
"""The path of a login link; it is exchanged for the cookie."""

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
    # Not "no-referrer": browsers would then send forms with the origin "null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""On every response, with ``Cache-Control: no-store`` unless it has its own."""

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_OWN_SITES = frozenset({"same-origin", "none"})
_WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})  # noqa: S104 (compared with, not bound to)


class RequestLimits:
    max_body_bytes = 64 * 1024
    max_url_bytes = 8 * 1024
    """Path and query."""
    max_concurrent_requests = 400
    """Of a person; of all that are not signed in together. Those with a body are counted
    separately: clients decide how long they take."""
    max_concurrent_bodies = 100
    """Requests with a body of a person who is signed in: each keeps a file open."""
    max_connections = 500
    """When there are more, idle connections are closed."""
    max_idle_seconds = 20.0
    """Until the first request of a connection is complete."""
    max_stall_seconds = 30.0
    """Until the next part of a body has arrived."""
    max_anonymous_stall_seconds = 10.0
    """The same for clients that are not signed in."""
    max_anonymous_bodies = 100
    """Bodies of clients that are not signed in which may be incomplete at a time. When
    there are more, the oldest is given up: that of a form arrives at once."""
    min_body_bytes_per_second = 1000
    """On average, after the time that a part may take."""


class LoginKeys:
    """The one-time key of a login link, and the lasting key in the cookie.

    A link works once, as it may be visible in a shell history or a process list. When it
    is used, `on_new_key` receives the next key.
    """

    def __init__(
        self,
        port: int,
        on_new_key: Callable[[str], None] | None = None,
        cookie_key: str = "",
    ) -> None:
        self.cookie_name = f"bygones-{port}"
        self.cookie_key = cookie_key or secrets.token_urlsafe(32)
        self._on_new_key = on_new_key
        self.one_time_key = secrets.token_urlsafe(32)

    def is_one_time_key(self, key: str) -> bool:
        return hmac.compare_digest(key.encode(), self.one_time_key.encode())

    def is_valid_cookie(self, key: str) -> bool:
        return hmac.compare_digest(key.encode(), self.cookie_key.encode())

    def prove_one_time_key(self, challenge: str) -> str:
        return prove_key(self.one_time_key, challenge)

    def redeem(self, key: str) -> bool:
        """Return whether a key is the one-time key, and replace it if so."""
        if not self.is_one_time_key(key):
            return False
        self.one_time_key = secrets.token_urlsafe(32)
        if self._on_new_key is not None:
            self._on_new_key(self.one_time_key)
        return True


def is_loopback(host: str) -> bool:
    """Return whether a host can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """Return the ``Host`` headers that are valid for a server at an address."""
    names = {"localhost", "127.0.0.1", "[::1]"}
    if host not in _WILDCARD_HOSTS:
        names.add(f"[{host}]" if ":" in host else host)
    return frozenset(f"{name}:{port}" for name in names)


class SecurityMiddleware:
    """Passes on requests that have the key, come from our pages and are not too large.

    Browsers send a cookie to all ports of a host. So they are sent to `browser_host`, a
    random name below `localhost` that other local servers do not know.
    """

    _unlimited_paths: frozenset[str] = frozenset()
    """Paths that are served however many requests there are."""

    def __init__(
        self,
        app: ASGIApp,
        keys: LoginKeys,
        *,
        host: str,
        port: int,
        browser_host: str = "",
    ) -> None:
        self._app = app
        self._keys = keys
        self._port = port
        self._browser_host = f"{browser_host}:{port}" if browser_host else ""
        self._allowed_hosts = allowed_hosts(host, port)
        if self._browser_host:
            self._allowed_hosts |= {self._browser_host}
        self._is_wildcard_bind = host in _WILDCARD_HOSTS
        self._active_requests: Counter[tuple[str, bool]] = Counter()
        """By person, and whether they have a body: one person cannot use up the requests
        of others."""
        self._anonymous_bodies: dict[_LimitedBody, None] = {}
        """Incomplete bodies of clients that are not signed in, the oldest first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            # There are no web sockets.
            await send({"type": "websocket.close", "code": 1008})
        else:
            rejection = self._check_request(scope)
            if rejection is not None:
                await rejection(scope, receive, _with_security_headers(send))
                return
            group = self._request_group(scope, Headers(scope=scope))
            self._active_requests[group] += 1
            try:
                await self._serve_limited(scope, receive, _with_security_headers(send))
            finally:
                self._active_requests -= Counter((group,))

    def _request_group(self, scope: Scope, headers: Headers) -> tuple[str, bool]:
        """Return the requests with which a request shares the limit."""
        has_body = "transfer-encoding" in headers or _content_length(headers) > 0
        return self._person(scope, headers), has_body

    async def _serve_limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; if its body turns out to be too long, respond with 413."""
        person, has_body = self._request_group(scope, Headers(scope=scope))
        limited = _LimitedBody(
            receive,
            send,
            max_bytes=self._max_body_bytes(scope),
            max_stall_seconds=(
                RequestLimits.max_stall_seconds
                if person
                else RequestLimits.max_anonymous_stall_seconds
            ),
        )
        if has_body and not person:
            self._add_anonymous_body(limited)
        try:
            await self._app(scope, limited.receive, limited.send)
        except Exception:
            # The application knows that the client is gone.
            if not limited.is_exceeded:
                raise
        finally:
            self._anonymous_bodies.pop(limited, None)
        if limited.is_exceeded and not limited.is_started:
            status, reason = 413, "The request is too large."
            if limited.is_stalled:
                status, reason = 408, "The rest of the request did not arrive."
            response = error_response(status, reason, {"Connection": "close"})
            await response(scope, receive, send)

    def _add_anonymous_body(self, body: _LimitedBody) -> None:
        """Count a body until it is complete; give up the oldest if there are too many."""
        while len(self._anonymous_bodies) >= RequestLimits.max_anonymous_bodies:
            oldest = next(iter(self._anonymous_bodies))
            del self._anonymous_bodies[oldest]
            oldest.give_up()
        self._anonymous_bodies[body] = None
        body.on_complete = partial(self._anonymous_bodies.pop, body, None)

    def _check_request(self, scope: Scope) -> Response | None:
        """Return the error response for a request; ``None`` if it is allowed."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_allowed_host(hosts[0]):
            return error_response(421, "This host name is not allowed.")
        if (
            len(scope["path"]) + len(scope["query_string"])
            > RequestLimits.max_url_bytes
        ):
            return error_response(414, "The URL is too long.")
        if not self._is_trusted_origin(scope["method"], headers, hosts[0]):
            return error_response(403, "Requests from other sites are not allowed.")
        if _content_length(headers) > self._max_body_bytes(scope):
            # Otherwise the server would go on to read the body.
            close = {"Connection": "close"}
            return error_response(413, "The request is too large.", close)
        person, has_body = group = self._request_group(scope, headers)
        limit = (
            RequestLimits.max_concurrent_bodies
            if person and has_body
            else RequestLimits.max_concurrent_requests
        )
        if (
            self._active_requests[group] >= limit
            and scope["path"] not in self._unlimited_paths
        ):
            return error_response(503, "Too many requests.", {"Retry-After": "1"})
        return self._check_access(scope, headers)

    def _person(self, _scope: Scope, headers: Headers) -> str:
        """Return who sends a request; empty if they are not signed in."""
        cookies = cookie_parser(headers.get("cookie", ""))
        key = cookies.get(self._keys.cookie_name, "")
        return "owner" if key and self._keys.is_valid_cookie(key) else ""

    def _max_body_bytes(self, _scope: Scope) -> int:
        return RequestLimits.max_body_bytes

    def _check_access(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the error response for a request without a valid cookie or key."""
        if self._person(scope, headers):
            return None
        if scope["method"] == "GET" and scope["path"].startswith(_PUBLIC_PATHS):
            return None
        if scope["path"] == LOGIN_PATH and scope["method"] == "GET":
            return self._log_in(scope, headers)
        return self._reject_without_cookie(scope, headers)

    def _reject_without_cookie(self, scope: Scope, headers: Headers) -> Response:
        """Return a page for a browser that shows one, and one line for others."""
        is_page = (
            scope["method"] == "GET"
            and "text/html" in headers.get("accept", "")
            and headers.get("sec-fetch-mode", "navigate") == "navigate"
        )
        if not is_page:
            return error_response(401, _LOGIN_REQUIRED)
        path = scope["path"]
        target = "/" if path == LOGIN_PATH else safe_redirect_path(path)
        return sign_in_page(target, LOGIN_PATH)

    def _log_in(self, scope: Scope, headers: Headers) -> Response:
        """Exchange the key of a link for the cookie.

        Wrong keys do not block the right one: any web page can send them, and a key
        has too many bits to be guessed.
        """
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if "challenge" in query:
            return PlainTextResponse(
                self._keys.prove_one_time_key(query["challenge"][0])
            )
        key = key_of_link(query.get("key", [""])[0])
        target = safe_redirect_path(query.get("to", ["/"])[0])
        if (
            self._browser_host not in {"", headers["host"]}
            and "sec-fetch-mode" in headers
            and "plain" not in query
            and self._keys.is_one_time_key(key)
        ):
            return self._send_to_browser_host(key, target)
        if not self._keys.redeem(key):
            return self._reject_without_cookie(scope, headers)
        # With a redirect, the browser would not send the SameSite cookie.
        return Response(
            "<!doctype html><title>Bygones</title>"
            f'<meta http-equiv="refresh" content="0;url={target}">',
            media_type="text/html",
            headers={
                "Set-Cookie": f"{self._keys.cookie_name}={self._keys.cookie_key}; "
                "HttpOnly; SameSite=Strict; Path=/"
            },
        )

    def _send_to_browser_host(self, key: str, target: str) -> Response:
        """Let a browser sign in under the random name; the key is not used up."""
        path = f"{LOGIN_PATH}?{urlencode({'key': key, 'to': target})}".replace(
            "&", "&amp;"
        )
        return Response(
            "<!doctype html><title>Bygones</title>"
            f'<meta http-equiv="refresh" content="0;url=http://{self._browser_host}{path}">'
            f'<p><a href="{path}&amp;plain=1">Continue here</a> if nothing happens.',
            media_type="text/html",
        )

    def _is_trusted_origin(self, method: str, headers: Headers, host: str) -> bool:
        return is_trusted_origin(method, headers, f"http://{host}")

    def _is_allowed_host(self, host: str) -> bool:
        if host in self._allowed_hosts:
            return True
        if self._browser_host and _is_former_host(host, self._port):
            return True
        if not self._is_wildcard_bind:
            return False
        # DNS rebinding needs a name; an address cannot be rebound.
        name, _, port = host.rpartition(":")
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return port == str(self._port)


_LOGIN_REQUIRED = (
    "Open this page with the link that `bygones serve` prints. Each link works once;"
    " after that, the terminal shows a new one."
)
_PUBLIC_PATHS = ("/static/", "/favicon.ico")
"""Files of the product, which the sign-in page needs; they contain no data."""
_FORMER_HOST = re.compile(r"bygones-[0-9a-f]{16}\.localhost:([0-9]{1,5})")


def _is_former_host(host: str, port: int) -> bool:
    """Return whether a host is a name that an earlier server gave to browsers.

    Browsers resolve names below `localhost` to this machine only, so they cannot be
    used for DNS rebinding. The cookie of the earlier server is not valid.
    """
    match = _FORMER_HOST.fullmatch(host)
    return match is not None and match[1] == str(port)


_SAFE_PATH_CHARS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/"
)


def safe_redirect_path(path: str) -> str:
    """Return a path of this site unchanged, and the home page for anything else.

    The only query it may have is `at`, the record at which to open a session.
    """
    route, _, record = path.partition("?at=")
    is_plain = route.startswith("/") and set(route + record) <= _SAFE_PATH_CHARS
    return path if is_plain and not route.startswith("//") else "/"


def is_trusted_origin(method: str, headers: Headers, *origins: str) -> bool:
    """Return whether a request comes from our own origins, or from no web page.

    Other sites may link here, nothing else. State-changing requests have to name their
    origin.
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
    length = headers.get("content-length", "0")
    return int(length) if length.isdecimal() else sys.maxsize


def error_response(
    status: int, message: str, headers: dict[str, str] | None = None
) -> Response:
    return PlainTextResponse(message + "\n", status_code=status, headers=headers)


def _with_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            _add_headers(MutableHeaders(scope=message), SECURITY_HEADERS.items())
        await send(message)

    return send_with_headers


def _add_headers(headers: MutableHeaders, extra: Iterable[tuple[str, str]]) -> None:
    for name, value in extra:
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")


class _LimitedBody:
    """Ends a request whose body is longer than allowed, stops arriving or is too slow.

    Otherwise a few clients that send nothing could use up the concurrent requests.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        max_bytes: int,
        max_stall_seconds: float,
    ) -> None:
        self._receive = receive
        self._send = send
        self._rest = max_bytes
        self._max_stall_seconds = max_stall_seconds
        self._deadline: float | None = None
        """When a client that sends as slowly as allowed would have sent the next part."""
        self.is_exceeded = False
        self.is_stalled = False
        self.is_started = False
        self._is_complete = False
        self._waiting: anyio.CancelScope | None = None
        self.on_complete: Callable[[], object] = lambda: None

    def give_up(self) -> None:
        """Wait no longer for the rest of the body."""
        self._deadline = -inf
        if self._waiting is not None:
            self._waiting.cancel()

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()
        now = anyio.current_time()
        # An application may wait before it reads a body, which is not the client's delay.
        self._deadline = self._deadline or now + self._max_stall_seconds
        with anyio.move_on_after(
            min(self._max_stall_seconds, self._deadline - now)
        ) as self._waiting:
            message = await self._receive()
        if self._waiting.cancelled_caught:
            self.is_exceeded = self.is_stalled = True
            return {"type": "http.disconnect"}
        self._is_complete = not message.get("more_body", False)
        if self._is_complete:
            self.on_complete()
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self._rest -= size
            self._deadline += size / RequestLimits.min_body_bytes_per_second
            if self._rest < 0:
                self.is_exceeded = True
                return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        if self.is_exceeded and not self.is_started:
            return  # a response to the disconnect
        self.is_started = True
        await self._send(message)
