"""Homes of invented people, sent to a store as a hub would, and kept in folders."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from bygones.archive import Archive
from bygones.model.base import Problem, SourceFile
from bygones.model.summary import SessionSummary
from bygones.sources.walk import discover_sources
from bygones.store.compression import compress
from bygones.team.contract import (
    BlobStore,
    RemoteSource,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
)
from bygones.team.stores.base import TeamStore

__all__ = ["PEOPLE", "People", "lay_out", "send", "sent_from", "spans_of"]

PEOPLE = {"ann": ("core",), "ben": ("core", "web"), "cem": ("web",)}
"""Invented people, and the teams that see what they send."""
STEP = 64 * 1024
_KEPT = {".jsonl", ".json", ".txt"}


def lay_out(homes: Iterable[Path], folder: Path) -> dict[str, list[Path]]:
    """Return copies of homes, dealt to people in turn."""
    found: dict[str, list[Path]] = {person: [] for person in PEOPLE}
    for number, home in enumerate(homes):
        person = list(PEOPLE)[number % len(PEOPLE)]
        copy = folder / person / f"{number:03}"
        shutil.copytree(home, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        for second, path in enumerate(files):
            os.utime(path, (second + 1, second + 1))
        found[person].append(copy)
    return found


def send(
    store: TeamStore,
    objects: BlobStore,
    person: str,
    homes: Sequence[Path],
    *,
    step: int = STEP,
) -> None:
    """Put all that homes hold, as a hub does that was sent it."""
    for batch, raws in sent_from(person, homes, step=step):
        addresses = [objects.put(raw) for raw in raws]
        named = zip(batch.spans, addresses, strict=True)
        spans = tuple(replace(span, address=address) for span, address in named)
        store.put(replace(batch, spans=spans))


def sent_from(
    person: str, homes: Sequence[Path], *, step: int = STEP
) -> Iterator[tuple[SourceUpdate, list[bytes]]]:
    """Yield what homes hold as batches, with the bytes of their spans."""
    for source in _sources(homes):
        sent = RemoteSource(
            person=person,
            teams=PEOPLE[person],
            machine="",
            home=source.home,
            path=source.relative_path,
            kind=source.kind,
            project=source.project_key,
            session=source.session_id,
            agent=source.agent_id,
            mtime_ns=source.mtime_ns,
        )
        raw = (Path(source.home) / source.relative_path).read_bytes()
        whole = step if source.kind.is_transcript else max(len(raw), 1)
        cut = raw.rfind(b"\n") + 1 if source.kind.is_transcript else len(raw)
        parts = _Parts()
        spans = tuple(spans_of(raw[:cut], parts, whole))
        behind = raw[cut:]
        fragment = SourceFragment(offset=cut, fingerprint=b"1", frame=compress(behind))
        yield (
            SourceUpdate(
                source=sent, spans=spans, fragment=fragment if behind else None
            ),
            parts.raws,
        )


class _Parts:
    """Remembers bytes, and gives them the address that all engines give."""

    def __init__(self) -> None:
        self.raws: list[bytes] = []

    def put(self, raw: bytes) -> str:
        self.raws.append(raw)
        return hashlib.sha256(raw).hexdigest()


def _sources(homes: Sequence[Path]) -> Iterator[SourceFile]:
    for home in homes:
        for found in discover_sources(home):
            if not isinstance(found, Problem):
                yield found


def spans_of(
    raw: bytes, objects: BlobStore | _Parts, step: int = STEP
) -> Iterator[StoredSpan]:
    """Yield bytes as spans of whole lines."""
    at = 0
    while at < len(raw):
        end = raw.find(b"\n", min(at + step, len(raw)) - 1) + 1 or len(raw)
        part = raw[at:end]
        yield StoredSpan(
            offset=at,
            length=len(part),
            client_offset=end,
            sha256=hashlib.sha256(part).digest(),
            address=objects.put(part),
        )
        at = end


def anonymous(summaries: Iterable[SessionSummary]) -> list[SessionSummary]:
    """Return summaries without what only a hub or only an archive knows.

    A hub knows whose they are; an archive knows from its records which directories are
    one project, a hub only from what was pushed.
    """
    return [replace(one, person="", project_paths=()) for one in summaries]


class People:
    """What people have: homes, and an archive in a folder for each of them."""

    def __init__(self, homes: Iterable[Path], folder: Path) -> None:
        self.homes = lay_out(homes, folder / "homes")
        self._folder = folder

    def archive(self, person: str) -> Archive:
        """Return the archive of a person's homes in a folder."""
        folder = self._folder / "archives" / person
        if not Archive.exists(folder):
            Archive.ingest(folder, self.homes[person])
        return Archive.open(folder)
