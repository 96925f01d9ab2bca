"""A hub that serves: two people, each with sessions of their own behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from bygones.hub.serving import HubPlace, HubServing
from bygones.push import Courier, push
from bygones.render.redact import Redactor
from bygones.store.folder import FolderShelf
from bygones.store.shelf import Shelf
from bygones.store.vault import Vault
from bygones.team.contract import Scope, TeamStore
from bygones.team.deriving import derive
from bygones.team.objects import open_objects
from bygones.team.tokens import Token, Tokens
from tests.push.sending import NOW
from tests.team.fake import MemoryStore

__all__ = ["Answered", "TestHub", "serving"]

Headers = dict[str, str]


class Answered:
    """What a hub answered."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class TestHub:
    """A hub, its store and its raw store, and tokens for whoever asks.

    Without an engine nothing is derived: each person reads an archive in a folder.
    """

    __test__ = False

    def __init__(
        self, place: Path, folders: dict[str, Path], engine: TeamStore | None
    ) -> None:
        self.store: TeamStore = engine or MemoryStore()
        self.objects = open_objects(str(place / "raw"))
        self.folders = folders
        self._engine = engine
        self.derived = 0
        self.serving = HubServing(
            self.store,
            self.objects,
            HubPlace(names=("hub.example.com",)),
            opening=self._opened,
            derive=self._derive,
            notes=self.store,
        )
        self.address = self.serving.address

    def token(self, person: str) -> tuple[str, Token]:
        return Tokens(self.store).issue(person, teams=("shop",), now=NOW)

    def push_all(self) -> None:
        """Have everybody send everything, and wait until it can be seen."""
        for person, folder in self.folders.items():
            with Courier(self.address, self.token(person)[0]) as courier:
                push(folder, ["/"], redactor=Redactor(), courier=courier)
        while self.store.touched():
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

    def _opened(self, scope: Scope) -> Shelf:
        if self._engine is None:
            return FolderShelf(Vault(self.folders[scope.person]))
        return self._engine.shelf(scope, self.objects)

    def _derive(self) -> bool:
        self.derived += 1
        return self._engine is not None and derive(self._engine, self.objects) > 0


@contextmanager
def serving(
    place: Path, folders: dict[str, Path], engine: TeamStore | None = None
) -> Iterator[TestHub]:
    hub = TestHub(place, folders, engine)
    thread = threading.Thread(target=hub.serving.run, daemon=True)
    thread.start()
    while not hub.serving.is_up:
        time.sleep(0.01)
    try:
        yield hub
    finally:
        hub.serving.stop()
        thread.join(20)
