"""A client that calls the ASGI application without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

from bygones.usage.prices import load_prices
from bygones.web.app import create_app
from bygones.web.context import AppState
from bygones.web.live import EventBroadcaster
from bygones.web.pool import ArchivePool
from bygones.web.security import LoginKeys, SecurityMiddleware
from tests.web.archives import WebArchive

__all__ = [
    "PORT",
    "ClientResponse",
    "WebClient",
    "ran",
    "scope_of",
    "sent_by",
    "web_client",
]

PORT = 8765
Headers = dict[str, str]
T = TypeVar("T")


class ClientResponse(NamedTuple):
    """What came back."""

    status: int
    headers: Headers
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def json(self) -> Any:  # noqa: ANN401 (whatever it is)
        """The body as values."""
        return json.loads(self.body)


class WebClient:
    """A page that has been opened with its link."""

    def __init__(self, app: ASGIApp, keys: LoginKeys) -> None:
        self.app = app
        self.keys = keys
        self.usual = {
            "host": f"127.0.0.1:{PORT}",
            "cookie": f"{keys.cookie_name}={keys.cookie_key}",
            "sec-fetch-site": "same-origin",
        }

    def get(self, path: str, **headers: str) -> ClientResponse:
        """Read something as one of our pages would."""
        return self.ask("GET", path, {**self.usual, **_named(headers)})

    def post(self, path: str, value: object, **headers: str) -> ClientResponse:
        """Send something as one of our pages would."""
        content = {**self.usual, "content-type": "application/json", **_named(headers)}
        return self.ask("POST", path, content, json.dumps(value).encode())

    def ask(
        self, method: str, path: str, headers: Headers, body: bytes = b""
    ) -> ClientResponse:
        """Ask with exactly these headers."""
        return ran(_asked(self.app, scope_of(method, path, headers), body))

    def ask_many(
        self,
        parameters: Iterable[tuple[str, str]],
        see: Callable[[str, ClientResponse], None],
        body: bytes = b"",
    ) -> None:
        """Ask for one thing after the other, of a page that lives all the while."""

        async def each() -> None:
            async with _living(self.app):
                for method, path in parameters:
                    scope = scope_of(method, path, self.usual)
                    see(path, await _answer(self.app, scope, body))

        ran(each())

    def socket(self, path: str) -> list[str]:
        """Try to open a web socket; return what was sent back."""
        scope = {"type": "websocket", "path": path, "headers": [], "query_string": b""}
        return [one["type"] for one in ran(sent_by(self.app, scope, []))]


def ran(parameters: Coroutine[Any, Any, T]) -> T:
    """Return what comes of it, in a thread: a browser's loop may run in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, parameters).result()


def _named(headers: Headers) -> Headers:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def scope_of(method: str, path: str, headers: Headers) -> Message:
    """Return a request as a server hands it on."""
    place, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": unquote(place),
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", PORT),
        "scheme": "http",
    }


async def _asked(app: ASGIApp, scope: Message, body: bytes) -> ClientResponse:
    async with _living(app):
        return await _answer(app, scope, body)


async def _answer(app: ASGIApp, scope: Message, body: bytes) -> ClientResponse:
    sent = await sent_by(app, scope, [{"type": "http.request", "body": body}])
    start = next(one for one in sent if one["type"] == "http.response.start")
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    parts = (one.get("body", b"") for one in sent if one is not start)
    return ClientResponse(start["status"], headers, b"".join(parts))


@asynccontextmanager
async def _living(app: ASGIApp) -> AsyncIterator[None]:
    """Begin the application's life, and end it."""
    content: asyncio.Queue[Message] = asyncio.Queue()
    heard: asyncio.Queue[Message] = asyncio.Queue()
    scope: Message = {"type": "lifespan", "state": {}}
    life = asyncio.ensure_future(app(scope, content.get, heard.put))
    for what in ("startup", "shutdown"):
        await content.put({"type": f"lifespan.{what}"})
        assert (await heard.get())["type"] == f"lifespan.{what}.complete"
        if what == "startup":
            yield
    await life


async def sent_by(
    app: ASGIApp, scope: Message, given: Iterable[Message]
) -> list[Message]:
    sent: list[Message] = []
    waiting = list(given)

    async def receive() -> Message:
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def web_client(web_archive: WebArchive, host: str = "127.0.0.1") -> WebClient:
    """Return a page over an archive, opened."""
    house = AppState(
        pool=ArchivePool(web_archive.folder),
        broadcaster=EventBroadcaster(),
        homes=(web_archive.home.path,),
        prices=load_prices(),
        clock=lambda: web_archive.now,
    )
    keys = LoginKeys(PORT)
    return WebClient(
        SecurityMiddleware(create_app(house), keys, host=host, port=PORT), keys
    )
