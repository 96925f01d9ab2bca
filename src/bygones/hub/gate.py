"""The hub's gate: that of the page, for whoever has a token.

A program shows it in ``Authorization``; a browser hands it over once, in a form, and
has it in a cookie that no script can read and no other site can send. Who somebody is
stands in the request from here on, and nobody behind asks again.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bygones.errors import BygonesError
from bygones.push.wire import LONGEST_FRAME, PUSH
from bygones.team.tokens import Token, Tokens
from bygones.web.gate import (
    ENTRANCE,
    Gate,
    Keys,
    Limits,
    is_from_here,
    is_loopback,
    refusal,
)

__all__ = ["COOKIE", "HEALTH", "STYLE", "HubGate", "entered", "token_of"]

COOKIE = "bygones-hub"
HEALTH = "/health"
"""Where whoever looks after the hub asks whether it lives; it says nothing else."""
_TOKEN = "bygones.token"  # noqa: S105 (its name)
STYLE = "/enter.css"
"""How the form looks; pages load theirs once somebody is in."""
_UNASKED = frozenset({ENTRANCE, HEALTH, STYLE})
"""What is answered without a token."""
_AROUND = 1024 * 1024
"""Bytes of a parcel besides its longest frame."""


def token_of(scope: Scope) -> Token:
    """Return who asks; only what has passed the gate has one."""
    token = scope[_TOKEN]
    if not isinstance(token, Token):
        raise TypeError(_TOKEN)
    return token


class HubGate(Gate):
    """Lets in whoever has a token that was not revoked."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        *,
        host: str,
        port: int,
        names: Iterable[str] = (),
    ) -> None:
        super().__init__(app, Keys(port), host=host, port=port)
        self._tokens = tokens
        self._hosts |= frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find out who asks, then answer or pass on as any gate does."""
        if scope["type"] == "http":
            scope.pop(_TOKEN, None)
            try:
                token = await self._asking(Headers(scope=scope))
            except BygonesError:
                away = refusal(503, "The store does not answer.", {"Retry-After": "2"})
                await away(scope, receive, send)
                return
            if token is not None:
                scope[_TOKEN] = token
        await super().__call__(scope, receive, send)

    async def _asking(self, headers: Headers) -> Token | None:
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            secret = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if not secret:
            return None
        return await anyio.to_thread.run_sync(self._tokens.known, secret.strip())

    def _stopped(self, scope: Scope, headers: Headers) -> Response | None:
        """Return why somebody has no right to ask; ``None`` if they have."""
        if _TOKEN in scope or scope["path"] in _UNASKED:
            return None
        if headers.get("accept", "").startswith("text/html"):
            return Response(status_code=303, headers={"Location": ENTRANCE})
        told = {"WWW-Authenticate": "Bearer"}
        return refusal(401, "This needs a token that was not revoked.", told)

    def _most(self, scope: Scope) -> int:
        return LONGEST_FRAME + _AROUND if scope["path"] == PUSH else Limits.body

    def _is_from_here(self, method: str, headers: Headers, host: str) -> bool:
        # No page can send this header elsewhere; so whoever does is a program.
        if "authorization" in headers and "origin" not in headers:
            return True
        # A form of ours says no origin, as we tell no referrer; its browser knows.
        site = headers.get("sec-fetch-site")
        if site == "same-origin" and headers.get("origin") == "null":
            return True
        return is_from_here(method, headers, f"https://{host}", f"http://{host}")


def entered(body: bytes, tokens: Tokens, host: str) -> Response:
    """Answer a form with the cookie, if the token in it is one."""
    try:
        given = parse_qs(body.decode("ascii"), max_num_fields=4)
    except ValueError:
        given = {}
    secret = given.get("token", [""])[0].strip()
    if tokens.known(secret) is None:
        return refusal(401, "That is no token, or it was revoked.")
    name = host.rpartition(":")[0] or host
    safe = "" if is_loopback(name) else "; Secure"
    return Response(
        '<!doctype html><title>Bygones</title><meta http-equiv="refresh" '
        'content="0;url=/">',
        media_type="text/html",
        headers={
            "Set-Cookie": f"{COOKIE}={secret}; HttpOnly; SameSite=Strict; "
            f"Path=/; Max-Age=2592000{safe}"
        },
    )
