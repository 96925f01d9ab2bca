"""Stopping the server."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from bygones import runtime
from bygones.errors import AddressUnavailable
from bygones.runtime import bind_socket
from bygones.web import server
from bygones.web.live import EventBroadcaster
from bygones.web.security import RequestLimits
from bygones.web.server import ServerConfig, WebServer
from tests.web.archives import build_archive


def _has_ipv6_loopback() -> bool:
    with suppress(AddressUnavailable), closing(bind_socket("::1", 0)):
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not _has_ipv6_loopback(), reason="no IPv6 loopback")


@contextmanager
def _running_server(config: ServerConfig) -> Iterator[str]:
    """Run a server, and give its link."""
    links: list[str] = []
    serving = WebServer(config, links.append)
    running = Thread(target=serving.run)
    running.start()
    try:
        yield links[0]
    finally:
        serving.stop()
        running.join(60)


def _fetch_status(address: str, port: int) -> int:
    with closing(HTTPConnection(address, port, timeout=60)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().status


def test_stopping_the_server_logs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "_SHUTDOWN_SECONDS", 0)
    monkeypatch.setattr(EventBroadcaster, "close", lambda _: None)
    links: list[str] = []
    serving = WebServer(
        ServerConfig(folder=build_archive(tmp_path).folder), links.append
    )
    running = Thread(target=serving.run)
    running.start()
    link = urlsplit(links[0])
    connection = HTTPConnection("127.0.0.1", link.port or 0, timeout=60)
    connection.request("GET", f"{link.path}?{link.query}")
    entered = connection.getresponse()
    entered.read()
    cookie = (entered.getheader("set-cookie") or "").partition(";")[0]
    connection.request("GET", "/api/live", headers={"Cookie": cookie})
    assert connection.getresponse().readline().startswith(b"retry")

    serving.stop()
    running.join(60)

    assert not running.is_alive()
    assert capfd.readouterr().err == ""
    connection.close()


def test_idle_connections_do_not_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestLimits, "max_connections", 5)
    links: list[str] = []
    serving = WebServer(
        ServerConfig(folder=build_archive(tmp_path).folder), links.append
    )
    running = Thread(target=serving.run)
    running.start()
    link = urlsplit(links[0])
    place = ("127.0.0.1", link.port or 0)
    idle = [socket.create_connection(place, timeout=60) for _ in range(20)]
    connection = HTTPConnection(*place, timeout=60)
    try:
        connection.request("GET", f"{link.path}?{link.query}")
        assert connection.getresponse().status == 200
        assert idle[0].recv(1) == b""
    finally:
        serving.stop()
        running.join(60)
        connection.close()
        for one in idle:
            one.close()


def test_connection_that_sends_countless_parts_of_a_body_is_closed(
    tmp_path: Path,
) -> None:
    """Each part takes a fixed time, in which no other request is served."""
    links: list[str] = []
    serving = WebServer(
        ServerConfig(folder=build_archive(tmp_path).folder), links.append
    )
    running = Thread(target=serving.run)
    running.start()
    place = ("127.0.0.1", urlsplit(links[0]).port or 0)
    head = f"POST /enter HTTP/1.1\r\nHost: 127.0.0.1:{place[1]}\r\n"
    answers: list[bytes] = []
    try:
        for part in (b"1\r\nx\r\n" * 8_000, b"200\r\n%s\r\n" % (b"x" * 512)):
            with socket.create_connection(place, timeout=60) as sender:
                request = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()
                with suppress(OSError):
                    sender.sendall(request + part + b"0\r\n\r\n")
                    answers.append(sender.recv(8))
    finally:
        serving.stop()
        running.join(60)
    assert answers in ([b"", b"HTTP/1.1"], [b"HTTP/1.1"])


def test_connections_that_do_not_read_responses_do_not_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone may request the files of the sign-in page, and then not read them."""
    monkeypatch.setattr(RequestLimits, "max_concurrent_requests", 2)
    links: list[str] = []
    serving = WebServer(
        ServerConfig(folder=build_archive(tmp_path).folder), links.append
    )
    running = Thread(target=serving.run)
    running.start()
    link = urlsplit(links[0])
    place = ("127.0.0.1", link.port or 0)
    connection = HTTPConnection(*place, timeout=60)
    stalled = []
    try:
        connection.request("GET", f"{link.path}?{link.query}")
        entered = connection.getresponse()
        entered.read()
        cookie = (entered.getheader("set-cookie") or "").partition(";")[0]
        request = f"GET /static/1/session.js HTTP/1.1\r\nHost: {link.netloc}\r\n\r\n"
        for _ in range(12):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            one.connect(place)
            one.sendall(request.encode() * 300)
            stalled.append(one)
        connection.close()

        connection.request("GET", "/about", headers={"Cookie": cookie})

        assert connection.getresponse().status == 200
    finally:
        serving.stop()
        running.join(60)
        connection.close()
        for one in stalled:
            one.close()


@needs_ipv6
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_server_answers_on_all_addresses_of_localhost(
    tmp_path: Path, host: str
) -> None:
    """Browsers try `[::1]` first; another user who listens there would get the link."""
    folder = build_archive(tmp_path).folder
    with _running_server(ServerConfig(folder=folder, host=host)) as link:
        port = urlsplit(link).port or 0

        assert _fetch_status("127.0.0.1", port) == 401
        assert _fetch_status("::1", port) == 401


@needs_ipv6
def test_free_port_is_free_on_all_addresses_of_localhost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_archive(tmp_path).folder
    with closing(bind_socket("::1", 0)) as taken:
        taken_port = taken.getsockname()[1]
        suggested = iter([taken_port])

        def suggest_taken_port_first(host: str, port: int) -> socket.socket:
            return bind_socket(host, port or next(suggested, 0))

        monkeypatch.setattr(runtime, "bind_socket", suggest_taken_port_first)
        monkeypatch.setattr(server, "bind_socket", suggest_taken_port_first)
        with _running_server(ServerConfig(folder=folder)) as link:
            port = urlsplit(link).port or 0

            assert port != taken_port
            assert _fetch_status("::1", port) == 401
        assert next(suggested, None) is None


@needs_ipv6
def test_port_that_is_taken_on_ipv6_is_reported_before_a_link(tmp_path: Path) -> None:
    folder = build_archive(tmp_path).folder
    links: list[str] = []
    with closing(bind_socket("::1", 0)) as taken:
        port = taken.getsockname()[1]
        message = f"cannot listen on ::1 port {port}: address already in use"
        for _ in range(2):  # the first failure does not keep 127.0.0.1
            with pytest.raises(AddressUnavailable, match=message):
                WebServer(ServerConfig(folder=folder, port=port), links.append)
        bind_socket("127.0.0.1", port).close()
    assert links == []


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
def test_server_starts_without_ipv6_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    class SocketWithoutIpv6(socket.socket):
        def __init__(
            self,
            family: int = -1,
            kind: int = -1,
            proto: int = -1,
            fileno: int | None = None,
        ) -> None:
            if family == socket.AF_INET6:
                raise OSError(number, os.strerror(number))
            super().__init__(family, kind, proto, fileno)

    folder = build_archive(tmp_path).folder
    links: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", SocketWithoutIpv6)
        serving = WebServer(ServerConfig(folder=folder), links.append)
    running = Thread(target=serving.run)
    running.start()
    try:
        assert _fetch_status("127.0.0.1", urlsplit(links[0]).port or 0) == 401
    finally:
        serving.stop()
        running.join(60)
