"""ClickHouse's engine behind HTTP, as its server has it, in a process of its own.

``python -m tests.team.node FOLDER PORT`` serves until it is killed. It knows as much
of the interface as the client asks for: statements, what is inserted, errors.
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
    """An engine that can be asked, killed and started again."""

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
        words = ["-m", "tests.team.node", str(self._folder), str(self.port)]
        self._running = subprocess.Popen([sys.executable, *words], cwd=ROOT)
        deadline = time.monotonic() + _LONG
        while time.monotonic() < deadline:
            line = HTTPConnection("127.0.0.1", self.port, timeout=_LONG)
            with contextlib.suppress(OSError):
                line.request("GET", "/ping")
                line.getresponse().read()
                line.close()
                return
            time.sleep(0.05)
        raise TimeoutError

    def kill(self) -> None:
        """Stop it as a power cut would."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()


@contextmanager
def node() -> Iterator[Node]:
    """Start an engine, and stop it."""
    with tempfile.TemporaryDirectory(prefix="chnode-") as folder:
        one = Node(Path(folder))
        one.start()
        try:
            yield one
        finally:
            one.kill()


class _Engine:
    """The engine: one statement at a time."""

    def __init__(self, folder: str) -> None:
        # It may not be there, and has no types.
        self._db: Any = importlib.import_module("chdb").connect(folder)
        self._lock = Lock()

    def ask(self, sql: str, given: dict[str, str], body: bytes) -> bytes:
        with self._lock, tempfile.NamedTemporaryFile() as file:
            self._db.query(f"USE {given.get('database') or 'default'}")
            if sql.upper().startswith("INSERT") and body:
                file.write(body)
                file.flush()
                head, _, form = sql.rpartition(" FORMAT ")
                sql = f"{head} FROM INFILE '{file.name}' FORMAT {form}"
            if filters := given.get("additional_table_filters"):
                sql += f" SETTINGS additional_table_filters = {filters}"
            return bytes(self._db.query(sql, "TabSeparated").bytes())


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: _Engine

    def do_GET(self) -> None:
        self._tell(200, b"Ok.\n")

    def do_POST(self) -> None:
        given = dict(parse_qsl(urlsplit(self.path).query))
        try:
            body = self._body()
            sql, body = _parted(given.get("query", ""), body)
            self._tell(200, self.engine.ask(sql, given, body))
        except Exception as error:  # noqa: BLE001 (the engine's own words)
            self._tell(500, str(error).encode())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        raw = b"".join(parts)
        packed = self.headers.get("Content-Encoding")
        return _unpacked(raw, packed) if packed is not None else raw

    def _tell(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-ClickHouse-Summary", "{}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _unpacked(raw: bytes, packed: str) -> bytes:
    # The client brings what it packs with.
    from clickhouse_connect.driver._backend.chdb_backend import (
        _decompress,
    )

    return bytes(_decompress(raw, packed))


def _parted(sql: str, body: bytes) -> tuple[str, bytes]:
    """Return the statement, and what it inserts if it does."""
    if sql:
        return sql, body
    found = re.match(rb"INSERT INTO .*? FORMAT \w+\n", body, re.DOTALL)
    if found is None:
        return body.decode(), b""
    return found[0].decode().strip(), body[found.end() :]


def main(folder: str, port: str) -> None:
    """Serve until killed."""
    _Door.engine = _Engine(folder)
    ThreadingHTTPServer(("127.0.0.1", int(port)), _Door).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
