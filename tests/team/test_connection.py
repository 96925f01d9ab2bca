"""A hub that answers slowly, endlessly or with a redirect is given up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from bygones.errors import HubRejected, HubUnreachable
from bygones.team import connection
from bygones.team.connection import HubConnection


class Answers(BaseHTTPRequestHandler):
    """Answers as the path says."""

    protocol_version = "HTTP/1.1"
    tokens: list[tuple[str, str]]
    """The paths that were requested, with the token."""
    clients: set[tuple[str, int]]

    def do_GET(self) -> None:
        kind = self.path.strip("/")
        self.tokens.append((kind, self.headers["Authorization"]))
        self.clients.add(self.client_address)
        self.send_response(302 if kind == "moved" else 200)
        if kind == "moved":
            self.send_header("Location", "/short")
        if kind in {"chunked", "endless"}:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            size = {"slow": 10_000, "cut": 9, "moved": 0}.get(kind, 4)
            self.send_header("Content-Length", str(size))
        self.end_headers()
        if kind == "chunked":
            self.wfile.write(b"2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n")
        elif kind != "moved":
            self.wfile.write(b"400\r\n" + bytes(1024) if kind == "endless" else b"abcd")
        self.close_connection = kind in {"cut", "endless"}
        self.continue_body(kind)

    def continue_body(self, kind: str) -> None:
        try:
            for _ in range(200):
                if kind == "slow":
                    self.wfile.write(b"x")
                    time.sleep(0.05)
                elif kind == "endless":
                    self.wfile.write(b"\r\n400\r\n" + bytes(1024))
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def hub() -> Iterator[HubConnection]:
    Answers.tokens, Answers.clients = [], set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    client = HubConnection(address, "secret", max_attempts=2, sleep=lambda _: None)
    yield client
    client.close()
    server.shutdown()
    server.server_close()


def test_answers_of_any_form_are_read_over_one_connection(hub: HubConnection) -> None:
    paths = ("/short", "/chunked", "/short", "/chunked")

    assert [hub.request("GET", path) for path in paths] == [b"abcd"] * 4
    assert len(Answers.clients) == 1


def test_answer_that_comes_too_slowly_is_given_up(
    hub: HubConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_TIMEOUT", 0.3)

    with pytest.raises(HubUnreachable, match="too slowly"):
        hub.request("GET", "/slow")


def test_endless_answer_is_given_up(
    hub: HubConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_MAX_RESPONSE_BYTES", 10_000)

    with pytest.raises(HubUnreachable, match="it sent more than"):
        hub.request("GET", "/endless")


def test_incomplete_answer_is_not_used(hub: HubConnection) -> None:
    with pytest.raises(HubUnreachable):
        hub.request("GET", "/cut")


def test_redirect_is_not_followed(hub: HubConnection) -> None:
    with pytest.raises(HubRejected, match="302"):
        hub.request("GET", "/moved")

    assert Answers.tokens == [("moved", "Bearer secret")]
