"""Runs a hub for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from bygones.hub.client import HubClient, push
from bygones.hub.server import HubConfig, HubServer
from bygones.redact.engine import Redactor
from bygones.store.archive_dir import ArchiveDir
from bygones.store.local_reader import LocalReader
from bygones.store.protocols import StoreReader
from bygones.team.access import AccessToken, TokenStore
from bygones.team.blobs import open_blob_store
from bygones.team.contract import AccessScope
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.hub.sending import NOW
from tests.team.memory import MemoryStore

__all__ = ["Response", "TestHub", "run_hub"]

Headers = dict[str, str]


class Response:
    """A response of a hub."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class TestHub:
    """A hub with its store and blob store, and tokens for any person.

    Without an engine nothing is derived: each person reads a local archive.
    """

    __test__ = False

    def __init__(
        self,
        folder: Path,
        folders: dict[str, Path],
        engine: TeamStore | None,
        **settings: Any,  # noqa: ANN401 (of any type)
    ) -> None:
        self.folder = folder
        self.store: TeamStore = engine or MemoryStore()
        self.objects = open_blob_store(str(folder / "raw"))
        self.folders = folders
        self._engine = engine
        self.derived = 0
        self.server = HubServer(
            self.store,
            self.objects,
            HubConfig(hostnames=("hub.example.com",), **settings),
            open_reader=self.open_reader,
            derive=self._derive,
            notes=self.store,
        )
        self.address = self.server.address

    def token(self, person: str) -> tuple[str, AccessToken]:
        return TokenStore(self.store).issue(person, teams=("shop",), now=NOW)

    def push_all(self) -> None:
        """Push everything of all people, and wait until it is derived."""
        for person, folder in self.folders.items():
            with HubClient(self.address, self.token(person)[0]) as client:
                push(folder, ["/"], redactor=Redactor(), transport=client)
        while self.store.pending_sources():
            time.sleep(0.05)

    def ask(
        self, method: str, path: str, headers: Headers | None = None, body: bytes = b""
    ) -> Response:
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request(method, path, body or None, headers or {})
            response = connection.getresponse()
            headers_by_name = {
                name.lower(): value for name, value in response.getheaders()
            }
            return Response(response.status, headers_by_name, response.read())
        finally:
            connection.close()

    def open_reader(self, scope: AccessScope) -> StoreReader:
        if self._engine is None:
            return LocalReader(ArchiveDir(self.folders[scope.person]))
        return self._engine.open_reader(scope, self.objects)

    def _derive(self, _skipped_people: frozenset[str]) -> bool:
        self.derived += 1
        return self._engine is not None and derive_all(self._engine, self.objects) > 0


@contextmanager
def run_hub(
    folder: Path,
    folders: dict[str, Path],
    engine: TeamStore | None = None,
    **settings: Any,  # noqa: ANN401 (of any type)
) -> Iterator[TestHub]:
    hub = TestHub(folder, folders, engine, **settings)
    thread = threading.Thread(target=hub.server.run, daemon=True)
    thread.start()
    while not hub.server.is_started:
        time.sleep(0.01)
    try:
        yield hub
    finally:
        hub.server.stop()
        thread.join(20)
