"""The hub as an application: parcels in, pages and answers out, each to its person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bygones.errors import BygonesError, ParcelRefused
from bygones.hub.gate import HEALTH, STYLE, entered, token_of
from bygones.hub.intake import Intake, checked_parcel
from bygones.hub.people import People
from bygones.mcp.http import PATH, shared_application
from bygones.push.wire import ACKS, PUSH, Answer, pack
from bygones.team.tokens import Tokens
from bygones.web.gate import ENTRANCE, refusal

__all__ = ["Behind", "hub_application"]

T = TypeVar("T")
_PARCELS = 4
"""Parcels that are taken in at once; each may be unpacked to many megabytes."""
_FORM = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Bygones</title>"
    "<meta name=viewport content='width=device-width'>"
    f"<link rel=stylesheet href={STYLE}>"
    "<main><h1>Bygones</h1><form method=post action=/enter><label for=token>Your "
    "token, as whoever runs this hub gave it to you</label><input id=token name=token "
    "type=password autocomplete=off required autofocus><button>Enter</button></form>"
)
_STYLE = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
main { max-width: 24rem; margin: 18vh auto; padding: 0 1rem }
h1 { font: 700 1.6rem/1 Georgia, serif }
label { display: block; margin-bottom: .5rem }
input, button { font: inherit; padding: .5rem .7rem; border-radius: .5rem }
input { width: 100%; box-sizing: border-box; border: 1px solid #8888 }
button { margin-top: .7rem; border: 0; background: #b4633a; color: #fff }
"""


class Behind(Protocol):
    """What is done about a parcel after it was acknowledged."""

    def begin(self) -> None:
        """Begin, with whatever was left undone."""
        ...

    def wake(self, sender: str = "", *, more: bool = False) -> None:
        """Go on soon: something has come, and more is on its way, if it says so."""
        ...

    def end(self) -> None:
        """Stop, and wait for what is being done."""
        ...

    @property
    def trouble(self) -> str:
        """What cannot be done, without a word of what was sent; mostly nothing."""
        ...


def hub_application(
    intake: Intake, tokens: Tokens, people: People, behind: Behind
) -> ASGIApp:
    """Return the application, without its gate."""
    hub = _Hub(intake, tokens, behind)
    agents = shared_application(lambda scope: people.speaker(token_of(scope).scope))

    @asynccontextmanager
    async def living(_app: Starlette) -> AsyncIterator[None]:
        hub.parcels = asyncio.Semaphore(_PARCELS)
        behind.begin()
        async with agents.router.lifespan_context(agents):
            yield
        await people.close()
        await anyio.to_thread.run_sync(behind.end)

    own = Starlette(routes=hub.routes(), lifespan=living)
    own.router.redirect_slashes = False
    taken = {route.path for route in hub.routes()}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in taken:
            await own(scope, receive, send)
        elif scope["path"] == PATH:
            await agents(scope, receive, send)
        else:
            await people.serve(token_of(scope).scope, scope, receive, send)

    return app


class _Hub:
    """What the hub answers by itself."""

    def __init__(self, intake: Intake, tokens: Tokens, behind: Behind) -> None:
        self._intake = intake
        self._tokens = tokens
        self._behind = behind
        self.parcels = asyncio.Semaphore(_PARCELS)

    def routes(self) -> list[Route]:
        rows: tuple[tuple[str, str, Callable[[Request], Awaitable[Response]]], ...] = (
            (PUSH, "POST", self._push),
            (ACKS, "GET", self._acks),
            (HEALTH, "GET", self._health),
            (ENTRANCE, "GET", self._form),
            (ENTRANCE, "POST", self._enter),
            (STYLE, "GET", self._style),
        )
        return [Route(path, answer, methods=[how]) for path, how, answer in rows]

    async def _push(self, request: Request) -> Response:
        async with self.parcels:
            body = await request.body()
            token = token_of(request.scope)

            def take() -> Answer:
                parcel = checked_parcel(body)
                answer = self._intake.take(token, parcel)
                if any(piece.length for piece in parcel.pieces):
                    sender = f"{token.person} {parcel.machine}"
                    self._behind.wake(sender, more=parcel.more)
                return answer

            return await _answered(take)

    async def _acks(self, request: Request) -> Response:
        machine = request.query_params.get("machine", "")
        known = partial(self._intake.known, token_of(request.scope), machine)
        return await _answered(known)

    async def _health(self, _request: Request) -> Response:
        trouble = self._behind.trouble
        return refusal(200, f"alive; {trouble}" if trouble else "alive")

    async def _form(self, _request: Request) -> Response:
        return Response(_FORM, media_type="text/html")

    async def _style(self, _request: Request) -> Response:
        return Response(_STYLE, media_type="text/css")

    async def _enter(self, request: Request) -> Response:
        body = await request.body()
        host = request.headers["host"]
        enter = partial(entered, body, self._tokens, host)
        return await anyio.to_thread.run_sync(enter)


async def _answered(ask: Callable[[], Answer]) -> Response:
    try:
        answer = await anyio.to_thread.run_sync(ask)
    except ParcelRefused as error:
        return refusal(400, str(error))
    except HTTPException:
        raise
    except BygonesError as error:
        return refusal(503, str(error), {"Retry-After": "2"})
    except OSError as error:
        return refusal(503, f"the raw store: {error.strerror}", {"Retry-After": "2"})
    return Response(pack(answer), media_type="application/octet-stream")
