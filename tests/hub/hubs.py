"""A hub that serves: two people, each with an archive of their own behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from recollect.archive import Archive
from recollect.hub.serving import HubPlace, HubServing
from recollect.team.contract import Scope
from recollect.team.objects import open_objects
from recollect.team.tokens import Token, Tokens
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
    """A hub, its store and its raw store, and tokens for whoever asks."""

    __test__ = False

    def __init__(self, place: Path, folders: dict[str, Path]) -> None:
        self.store = MemoryStore()
        self.objects = open_objects(str(place / "raw"))
        self._folders = folders
        self.derived = 0
        self.folder = Path()
        self.serving = HubServing(
            self.store,
            self.objects,
            HubPlace(names=("hub.example.com",)),
            opening=self._opened,
            derive=self._derive,
        )
        self.address = self.serving.address

    def token(self, person: str) -> tuple[str, Token]:
        return Tokens(self.store).issue(person, teams=("shop",), now=NOW)

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

    def _opened(self, scope: Scope) -> Archive:
        return Archive.open(self._folders[scope.person])

    def _derive(self) -> bool:
        self.derived += 1
        return False


@contextmanager
def serving(place: Path, folders: dict[str, Path]) -> Iterator[TestHub]:
    hub = TestHub(place, folders)
    thread = threading.Thread(target=hub.serving.run, daemon=True)
    thread.start()
    while not hub.serving.is_up:
        time.sleep(0.01)
    try:
        yield hub
    finally:
        hub.serving.stop()
        thread.join(20)
