"""Serves ClickHouse's engine over HTTP, like its server, in a separate process.

``python -m tests.team.node FOLDER PORT`` serves until it is killed. It implements only
what the client needs of the interface: statements, inserted rows, and errors.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["Node", "node"]

ROOT = Path(__file__).resolve().parents[2]
_LONG = 60


class Node:
    """A server that can be queried, killed and restarted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"clickhouse://127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = ["-m", "tests.team.node", str(self._folder), str(self.port)]
        self._running = subprocess.Popen([sys.executable, *arguments], cwd=ROOT)
        deadline = time.monotonic() + _LONG
        while time.monotonic() < deadline:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=_LONG)
            with contextlib.suppress(OSError):
                connection.request("GET", "/ping")
                connection.getresponse().read()
                connection.close()
                return
            time.sleep(0.05)
        raise TimeoutError

    def kill(self) -> None:
        """Kill it without a shutdown, like a power failure."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()


@contextmanager
def node() -> Iterator[Node]:
    """Start a server, and stop it."""
    with tempfile.TemporaryDirectory(prefix="chnode-") as folder:
        server = Node(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()


class _Engine:
    """Executes one statement at a time."""

    def __init__(self, folder: str) -> None:
        # It may not be installed, and has no types.
        self._db: Any = importlib.import_module("chdb").connect(folder)
        self._lock = Lock()

    def execute(self, sql: str, parameters: dict[str, str], body: bytes) -> bytes:
        with self._lock, tempfile.NamedTemporaryFile() as file:
            self._db.query(f"USE {parameters.get('database') or 'default'}")
            if sql.upper().startswith("INSERT") and body:
                file.write(body)
                file.flush()
                head, _, form = sql.rpartition(" FORMAT ")
                sql = f"{head} FROM INFILE '{file.name}' FORMAT {form}"
            if filters := parameters.get("additional_table_filters"):
                sql += f" SETTINGS additional_table_filters = {filters}"
            return bytes(self._db.query(sql, "TabSeparated").bytes())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: _Engine

    def do_GET(self) -> None:
        self._respond(200, b"Ok.\n")

    def do_POST(self) -> None:
        parameters = dict(parse_qsl(urlsplit(self.path).query))
        try:
            body = self._body()
            sql, body = _split_statement(parameters.get("query", ""), body)
            self._respond(200, self.engine.execute(sql, parameters, body))
        except Exception as error:  # noqa: BLE001 (sent to the client)
            self._respond(500, str(error).encode())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        raw = b"".join(parts)
        encoding = self.headers.get("Content-Encoding")
        return _decompressed(raw, encoding) if encoding is not None else raw

    def _respond(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-ClickHouse-Summary", "{}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _decompressed(raw: bytes, encoding: str) -> bytes:
    # The client's package contains the decompression.
    from clickhouse_connect.driver._backend.chdb_backend import (
        _decompress,
    )

    return bytes(_decompress(raw, encoding))


def _split_statement(sql: str, body: bytes) -> tuple[str, bytes]:
    """Return the statement, and the rows that it inserts if any."""
    if sql:
        return sql, body
    match = re.match(rb"INSERT INTO .*? FORMAT \w+\n", body, re.DOTALL)
    if match is None:
        return body.decode(), b""
    return match[0].decode().strip(), body[match.end() :]


def main(folder: str, port: str) -> None:
    """Serve until killed."""
    _Handler.engine = _Engine(folder)
    ThreadingHTTPServer(("127.0.0.1", int(port)), _Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
