"""A hub that serves: two people, each with sessions of their own behind it."""

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

__all__ = ["Answered", "TestHub", "serving"]

Headers = dict[str, str]


class Answered:
    """What a hub answered."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class TestHub:
    """A hub, its store and its raw store, and tokens for any person.

    Without an engine nothing is derived: each person reads an archive in a folder.
    """

    __test__ = False

    def __init__(
        self,
        place: Path,
        folders: dict[str, Path],
        engine: TeamStore | None,
        **settings: Any,  # noqa: ANN401 (of any type)
    ) -> None:
        self.place = place
        self.store: TeamStore = engine or MemoryStore()
        self.objects = open_blob_store(str(place / "raw"))
        self.folders = folders
        self._engine = engine
        self.derived = 0
        self.serving = HubServer(
            self.store,
            self.objects,
            HubConfig(hostnames=("hub.example.com",), **settings),
            open_reader=self.open_reader,
            derive=self._derive,
            notes=self.store,
        )
        self.address = self.serving.address

    def token(self, person: str) -> tuple[str, AccessToken]:
        return TokenStore(self.store).issue(person, teams=("shop",), now=NOW)

    def push_all(self) -> None:
        """Have everybody send everything, and wait until it can be seen."""
        for person, folder in self.folders.items():
            with HubClient(self.address, self.token(person)[0]) as courier:
                push(folder, ["/"], redactor=Redactor(), transport=courier)
        while self.store.pending_sources():
            time.sleep(0.05)

    def ask(
        self, method: str, path: str, headers: Headers | None = None, body: bytes = b""
    ) -> Answered:
        line = HTTPConnection("127.0.0.1", self.serving.port, timeout=60)
        try:
            line.request(method, path, body or None, headers or {})
            got = line.getresponse()
            told = {name.lower(): value for name, value in got.getheaders()}
            return Answered(got.status, told, got.read())
        finally:
            line.close()

    def open_reader(self, scope: AccessScope) -> StoreReader:
        if self._engine is None:
            return LocalReader(ArchiveDir(self.folders[scope.person]))
        return self._engine.open_reader(scope, self.objects)

    def _derive(self) -> bool:
        self.derived += 1
        return self._engine is not None and derive_all(self._engine, self.objects) > 0


@contextmanager
def serving(
    place: Path,
    folders: dict[str, Path],
    engine: TeamStore | None = None,
    **settings: Any,  # noqa: ANN401 (of any type)
) -> Iterator[TestHub]:
    hub = TestHub(place, folders, engine, **settings)
    thread = threading.Thread(target=hub.serving.run, daemon=True)
    thread.start()
    while not hub.serving.is_started:
        time.sleep(0.01)
    try:
        yield hub
    finally:
        hub.serving.stop()
        thread.join(20)
