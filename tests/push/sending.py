"""A hub in memory and couriers to it, honest and not."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

from bygones.archive import Archive
from bygones.errors import HubUnreachable
from bygones.hub.intake import Intake, checked_parcel
from bygones.push import Pushed, push
from bygones.push.wire import Answer, Parcel, pack
from bygones.render.redact import Redactor
from bygones.team.contract import TeamStore
from bygones.team.objects import FolderBytes, RawObjects
from bygones.team.tokens import Token
from tests.build import Home, prompt, reply, session_id, thread
from tests.team.fake import MemoryStore

__all__ = ["NOW", "PROJECT", "Losing", "MemoryHub", "sent", "worked"]

NOW = datetime(2026, 11, 15, tzinfo=UTC)
PROJECT = "/home/ann/work/shop"
KEY = "-home-ann-work-shop"


class MemoryHub:
    """A hub without a network: what comes in is checked as the real one does."""

    address = "memory"

    def __init__(self, place: Path, person: str = "ann") -> None:
        self.store: TeamStore = MemoryStore()
        self.objects = RawObjects(FolderBytes(place))
        self.intake = Intake(self.store, self.objects)
        self.token = Token(id="1", person=person, teams=("shop",), made=NOW)
        self.parcels: list[Parcel] = []
        self.folder = place

    def use(self, store: TeamStore) -> None:
        """Stand on another store."""
        self.store = store
        self.intake = Intake(store, self.objects)

    def known(self, machine: str) -> Answer:
        return self.intake.known(self.token, machine)

    def send(self, parcel: Parcel) -> Answer:
        self.parcels.append(parcel)
        return self.intake.take(self.token, checked_parcel(pack(parcel)))

    def texts(self) -> dict[str, bytes]:
        """Return what the hub has of each file, whole, by its path."""
        return {
            batch.source.path: b"".join(
                self.objects.bytes_of(span.address) for span in batch.spans
            )
            for batch in self.store.batches()
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

    def known(self, machine: str) -> Answer:
        self._maybe()
        return self._hub.known(machine)

    def send(self, parcel: Parcel) -> Answer:
        self._maybe()
        answer = self._hub.send(parcel)
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
) -> Pushed:
    """Push the project, as its owner would."""
    redactor = Redactor()
    return push(folder, [PROJECT], redactor=redactor, courier=hub, dry=dry, host=host)
