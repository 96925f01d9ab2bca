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
    "collect_messages",
    "make_scope",
    "run_coroutine",
    "web_client",
]

PORT = 8765
Headers = dict[str, str]
T = TypeVar("T")


class ClientResponse(NamedTuple):
    """Status, headers and body of a response."""

    status: int
    headers: Headers
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def json(self) -> Any:  # noqa: ANN401 (any JSON value)
        """The body, decoded from JSON."""
        return json.loads(self.body)


class WebClient:
    """A client that is logged in."""

    def __init__(self, app: ASGIApp, keys: LoginKeys) -> None:
        self.app = app
        self.keys = keys
        self.default_headers = {
            "host": f"127.0.0.1:{PORT}",
            "cookie": f"{keys.cookie_name}={keys.cookie_key}",
            "sec-fetch-site": "same-origin",
        }

    def get(self, path: str, **headers: str) -> ClientResponse:
        """Send a GET request as one of our pages would."""
        return self.ask("GET", path, {**self.default_headers, **_header_names(headers)})

    def post(self, path: str, value: object, **headers: str) -> ClientResponse:
        """Send JSON as one of our pages would."""
        all_headers = {
            **self.default_headers,
            "content-type": "application/json",
            **_header_names(headers),
        }
        return self.ask("POST", path, all_headers, json.dumps(value).encode())

    def ask(
        self, method: str, path: str, headers: Headers, body: bytes = b""
    ) -> ClientResponse:
        """Send a request with exactly these headers."""
        return run_coroutine(
            _request(self.app, make_scope(method, path, headers), body)
        )

    def ask_many(
        self,
        requests: Iterable[tuple[str, str]],
        on_response: Callable[[str, ClientResponse], None],
        body: bytes = b"",
    ) -> None:
        """Send requests one after the other within one lifespan of the application."""

        async def send_all() -> None:
            async with _lifespan(self.app):
                for method, path in requests:
                    scope = make_scope(method, path, self.default_headers)
                    on_response(path, await _request_once(self.app, scope, body))

        run_coroutine(send_all())

    def socket(self, path: str) -> list[str]:
        """Try to open a WebSocket and return the types of the messages sent back."""
        scope = {"type": "websocket", "path": path, "headers": [], "query_string": b""}
        return [
            message["type"]
            for message in run_coroutine(collect_messages(self.app, scope, []))
        ]


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread: Playwright's loop may run in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def _header_names(headers: Headers) -> Headers:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def make_scope(method: str, path: str, headers: Headers) -> Message:
    """Return the ASGI scope of a request."""
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", PORT),
        "scheme": "http",
    }


async def _request(app: ASGIApp, scope: Message, body: bytes) -> ClientResponse:
    async with _lifespan(app):
        return await _request_once(app, scope, body)


async def _request_once(app: ASGIApp, scope: Message, body: bytes) -> ClientResponse:
    sent = await collect_messages(app, scope, [{"type": "http.request", "body": body}])
    start = next(
        message for message in sent if message["type"] == "http.response.start"
    )
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    parts = (message.get("body", b"") for message in sent if message is not start)
    return ClientResponse(start["status"], headers, b"".join(parts))


@asynccontextmanager
async def _lifespan(app: ASGIApp) -> AsyncIterator[None]:
    """Start the application and shut it down."""
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()
    scope: Message = {"type": "lifespan", "state": {}}
    running = asyncio.ensure_future(app(scope, to_app.get, from_app.put))
    for phase in ("startup", "shutdown"):
        await to_app.put({"type": f"lifespan.{phase}"})
        assert (await from_app.get())["type"] == f"lifespan.{phase}.complete"
        if phase == "startup":
            yield
    await running


async def collect_messages(
    app: ASGIApp, scope: Message, received: Iterable[Message]
) -> list[Message]:
    sent: list[Message] = []
    waiting = list(received)

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
    """Return a client of an archive that is logged in."""
    state = AppState(
        pool=ArchivePool(web_archive.folder),
        broadcaster=EventBroadcaster(),
        homes=(web_archive.home.path,),
        prices=load_prices(),
        clock=lambda: web_archive.now,
    )
    keys = LoginKeys(PORT)
    return WebClient(
        SecurityMiddleware(create_app(state), keys, host=host, port=PORT), keys
    )
