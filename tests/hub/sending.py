"""A hub in memory, and transports to it, one of which is unreliable."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

from bygones.archive import Archive
from bygones.errors import HubUnreachable
from bygones.hub.client import PushReport, push
from bygones.hub.uploads import UploadHandler, parse_request
from bygones.redact.engine import Redactor
from bygones.team.access import AccessToken
from bygones.team.blobs import ExternalBlobStore, FolderBackend
from bygones.team.contract import UploadRequest, UploadResponse, encode_message
from bygones.team.stores.base import TeamStore
from tests.build import Home, prompt, reply, session_id, thread
from tests.team.memory import MemoryStore

__all__ = [
    "NOW",
    "PROJECT",
    "LossyTransport",
    "MemoryHub",
    "make_project",
    "push_project",
]

NOW = datetime(2026, 11, 15, tzinfo=UTC)
PROJECT = "/home/ann/work/shop"
KEY = "-home-ann-work-shop"


class MemoryHub:
    """A hub without a network, which checks uploads as the real one does."""

    address = "memory"

    def __init__(self, folder: Path, person: str = "ann") -> None:
        self.store: TeamStore = MemoryStore()
        self.objects = ExternalBlobStore(FolderBackend(folder))
        self.handler = UploadHandler(self.store, self.objects)
        self.token = AccessToken(id="1", person=person, teams=("shop",), created_at=NOW)
        self.requests: list[UploadRequest] = []
        self.folder = folder

    def use_store(self, store: TeamStore) -> None:
        """Use another store."""
        self.store = store
        self.handler = UploadHandler(store, self.objects)

    def fetch_state(self, machine: str) -> UploadResponse:
        return self.handler.source_states(self.token, machine)

    def send(self, request: UploadRequest) -> UploadResponse:
        self.requests.append(request)
        return self.handler.handle(self.token, parse_request(encode_message(request)))

    def texts(self) -> dict[str, bytes]:
        """Return all bytes that the hub has of each file, by path."""
        return {
            batch.source.path: b"".join(
                self.objects.get(span.address) for span in batch.spans
            )
            for batch in self.store.export_updates()
            if batch.spans
        }


class LossyTransport:
    """A transport that loses requests and responses."""

    address = "losing"

    def __init__(self, hub: MemoryHub, seed: int, share: float = 0.4) -> None:
        self._hub = hub
        self._random = random.Random(seed)  # noqa: S311 (repeatable, not secret)
        self._share = share
        self.lost = 0

    def fetch_state(self, machine: str) -> UploadResponse:
        self._maybe()
        return self._hub.fetch_state(machine)

    def send(self, request: UploadRequest) -> UploadResponse:
        self._maybe()
        answer = self._hub.send(request)
        self._maybe()
        return answer

    def _maybe(self) -> None:
        if self._random.random() < self._share:
            self.lost += 1
            raise HubUnreachable(self.address, "lost")


def make_project(
    folder: Path, *, sessions: int = 3, turns: int = 4, first: int = 0
) -> tuple[Home, Path]:
    """Return a home with some sessions in a project, and its archive."""
    home = Home(folder / ".claude")
    for number in range(sessions):
        records = []
        for turn in range(turns):
            question = f"Question {turn} of {number}, mail me: ann.lee@shop.io"
            records += [
                prompt(question, cwd=PROJECT),
                reply(f"Answer {turn}", cwd=PROJECT),
            ]
        id_ = session_id(first + number)
        home.session(id_, thread(*records, start=number * 100), project=KEY)
    folder = folder / "archive"
    Archive.ingest(folder, [home.path])
    return home, folder


def push_project(
    folder: Path,
    hub: MemoryHub | LossyTransport | None,
    *,
    dry: bool = False,
    host: str = "",
) -> PushReport:
    """Push the project."""
    redactor = Redactor()
    return push(
        folder, [PROJECT], redactor=redactor, transport=hub, dry_run=dry, host=host
    )
