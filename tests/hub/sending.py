"""A hub in memory and couriers to it, honest and not."""

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

__all__ = ["NOW", "PROJECT", "Losing", "MemoryHub", "sent", "worked"]

NOW = datetime(2026, 11, 15, tzinfo=UTC)
PROJECT = "/home/ann/work/shop"
KEY = "-home-ann-work-shop"


class MemoryHub:
    """A hub without a network: what comes in is checked as the real one does."""

    address = "memory"

    def __init__(self, place: Path, person: str = "ann") -> None:
        self.store: TeamStore = MemoryStore()
        self.objects = ExternalBlobStore(FolderBackend(place))
        self.intake = UploadHandler(self.store, self.objects)
        self.token = AccessToken(id="1", person=person, teams=("shop",), created_at=NOW)
        self.requests: list[UploadRequest] = []
        self.folder = place

    def use(self, store: TeamStore) -> None:
        """Stand on another store."""
        self.store = store
        self.intake = UploadHandler(store, self.objects)

    def fetch_state(self, machine: str) -> UploadResponse:
        return self.intake.source_states(self.token, machine)

    def send(self, request: UploadRequest) -> UploadResponse:
        self.requests.append(request)
        return self.intake.handle(self.token, parse_request(encode_message(request)))

    def texts(self) -> dict[str, bytes]:
        """Return what the hub has of each file, whole, by its path."""
        return {
            batch.source.path: b"".join(
                self.objects.get(span.address) for span in batch.spans
            )
            for batch in self.store.export_updates()
            if batch.spans
        }


class Losing:
    """A courier that loses parcels on the way, and answers on the way back."""

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


def worked(
    place: Path, *, sessions: int = 3, turns: int = 4, first: int = 0
) -> tuple[Home, Path]:
    """Return a home with some sessions in a project, and the archive of it."""
    home = Home(place / ".claude")
    for number in range(sessions):
        records = []
        for turn in range(turns):
            asked = f"Question {turn} of {number}, mail me: ann.lee@shop.io"
            records += [
                prompt(asked, cwd=PROJECT),
                reply(f"Answer {turn}", cwd=PROJECT),
            ]
        id_ = session_id(first + number)
        home.session(id_, thread(*records, start=number * 100), project=KEY)
    folder = place / "archive"
    Archive.ingest(folder, [home.path])
    return home, folder


def sent(
    folder: Path,
    hub: MemoryHub | Losing | None,
    *,
    dry: bool = False,
    host: str = "",
) -> PushReport:
    """Push the project, as its owner would."""
    redactor = Redactor()
    return push(
        folder, [PROJECT], redactor=redactor, transport=hub, dry_run=dry, host=host
    )
