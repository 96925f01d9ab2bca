"""Homes of fictional people, uploaded to a store as by a hub, or archived locally."""

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

__all__ = [
    "PEOPLE",
    "People",
    "comparable_summaries",
    "copy_homes",
    "iter_uploads",
    "split_spans",
    "upload_homes",
]

PEOPLE = {"ann": ("core",), "ben": ("core", "web"), "cem": ("web",)}
"""Fictional people, and the teams that can read their sessions."""
STEP = 64 * 1024
_KEPT = {".jsonl", ".json", ".txt"}


def copy_homes(homes: Iterable[Path], folder: Path) -> dict[str, list[Path]]:
    """Copy homes and assign them to people in turn."""
    copies: dict[str, list[Path]] = {person: [] for person in PEOPLE}
    for number, home in enumerate(homes):
        person = list(PEOPLE)[number % len(PEOPLE)]
        copy = folder / person / f"{number:03}"
        shutil.copytree(home, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        for second, path in enumerate(files):
            os.utime(path, (second + 1, second + 1))
        copies[person].append(copy)
    return copies


def upload_homes(
    store: TeamStore,
    objects: BlobStore,
    person: str,
    homes: Sequence[Path],
    *,
    step: int = STEP,
) -> None:
    """Store all files of homes, as a hub does when they are pushed."""
    for batch, raws in iter_uploads(person, homes, step=step):
        addresses = [objects.put(raw) for raw in raws]
        pairs = zip(batch.spans, addresses, strict=True)
        spans = tuple(replace(span, address=address) for span, address in pairs)
        store.put(replace(batch, spans=spans))


def iter_uploads(
    person: str, homes: Sequence[Path], *, step: int = STEP
) -> Iterator[tuple[SourceUpdate, list[bytes]]]:
    """Yield an update for each file of homes, with the bytes of its spans."""
    for source in _sources(homes):
        remote = RemoteSource(
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
        span_size = step if source.kind.is_transcript else max(len(raw), 1)
        line_end = raw.rfind(b"\n") + 1 if source.kind.is_transcript else len(raw)
        blobs = _RecordedBlobs()
        spans = tuple(split_spans(raw[:line_end], blobs, span_size))
        last_line = raw[line_end:]
        fragment = SourceFragment(
            offset=line_end, fingerprint=b"1", frame=compress(last_line)
        )
        yield (
            SourceUpdate(
                source=remote, spans=spans, fragment=fragment if last_line else None
            ),
            blobs.raws,
        )


class _RecordedBlobs:
    """Records blobs, and returns the same addresses as all engines."""

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


def split_spans(
    raw: bytes, objects: BlobStore | _RecordedBlobs, step: int = STEP
) -> Iterator[StoredSpan]:
    """Store bytes as spans of whole lines, and yield the spans."""
    offset = 0
    while offset < len(raw):
        end = raw.find(b"\n", min(offset + step, len(raw)) - 1) + 1 or len(raw)
        part = raw[offset:end]
        yield StoredSpan(
            offset=offset,
            length=len(part),
            client_offset=end,
            sha256=hashlib.sha256(part).digest(),
            address=objects.put(part),
        )
        offset = end


def comparable_summaries(summaries: Iterable[SessionSummary]) -> list[SessionSummary]:
    """Return summaries without what only a hub or only an archive knows.

    A hub knows whose they are; an archive knows from its records which directories are
    one project, a hub only from what was pushed.
    """
    return [replace(one, person="", project_paths=()) for one in summaries]


class People:
    """Homes of people, and a local archive for each person."""

    def __init__(self, homes: Iterable[Path], folder: Path) -> None:
        self.homes = copy_homes(homes, folder / "homes")
        self._folder = folder

    def archive(self, person: str) -> Archive:
        """Return the local archive of a person's homes."""
        folder = self._folder / "archives" / person
        if not Archive.exists(folder):
            Archive.ingest(folder, self.homes[person])
        return Archive.open(folder)
