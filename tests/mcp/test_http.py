"""The server over HTTP, started by the command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.mcp.http import HOST, PATH
from bygones.runtime import bind_socket
from tests.build import Home, prompt, reply, session_id, thread

pytestmark = pytest.mark.skipif(os.name == "nt", reason="ended with a signal")
TOKEN = "let-me-in"  # noqa: S105 (of a test)
ASKED = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home that was imported."""
    home = Home(tmp_path / ".claude")
    home.session(session_id(1), thread(prompt("Hello"), reply("Hi")))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(tmp_path / "archive"))
    monkeypatch.setenv("BYGONES_HOME", str(home.path))
    monkeypatch.setenv("BYGONES_MCP_TOKEN", TOKEN)
    Archive.ingest(tmp_path / "archive", [home.path])
    return home


@pytest.fixture
def port(home: Home) -> Iterator[int]:
    """Return the URL that the command serves."""
    assert home.path.exists()
    with bind_socket(HOST, 0) as free:
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "bygones", "mcp", "--http", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        assert f"serving http://127.0.0.1:{port}{PATH}" in started.stderr.readline()
        yield port
        started.send_signal(signal.SIGINT)
        assert "Traceback" not in started.communicate(timeout=20)[1]


def test_request_with_token_is_served(port: int) -> None:
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    for _ in range(2):
        connection.request("POST", PATH, json.dumps(ASKED), headers)
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"bygones" in answer.read()
    connection.close()


def test_new_messages_are_imported_after_a_response(
    port: int, home: Home, tmp_path: Path
) -> None:
    home.session(session_id(2), thread(prompt("News"), reply("Good"), start=60))
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", PATH, "{}", {"Authorization": f"Bearer {TOKEN}"})
    connection.getresponse().read()
    connection.close()

    for _ in range(300):
        with Archive.open(tmp_path / "archive") as archive:
            if sum(1 for _ in archive.sessions()) == 2:
                return
        time.sleep(0.1)
    pytest.fail("the news were not taken in")


@pytest.mark.usefixtures("home")
def test_port_in_use_is_an_error_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with bind_socket(HOST, 0) as taken:
        port = taken.getsockname()[1]
        assert main(["mcp", "--http", "--port", str(port)]) == ExitCode.FAILURE

    assert "address already in use" in capsys.readouterr().err


def test_accepted_connections_have_no_delay() -> None:
    with bind_socket(HOST, 0) as place, socket.create_connection(place.getsockname()):
        accepted, _ = place.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
