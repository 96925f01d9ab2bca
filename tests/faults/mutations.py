"""Faults that the harnesses must catch: each breaks the product as somebody might.

A mutation is applied in the program that is about to suffer, and never taken back;
in a test it goes through ``monkeypatch``.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import tantivy
from apsw import SQLITE_OPEN_READONLY, SQLITE_OPEN_READWRITE, Connection, FullError
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.assemble import listed
from bygones.ingest import changes, tasks
from bygones.ingest import run as running
from bygones.ingest.changes import Change, Changes
from bygones.model.ids import SourceId
from bygones.model.listing import Listed
from bygones.model.problems import Problem
from bygones.model.sessions import Session
from bygones.model.sources import Source
from bygones.render.html import markup
from bygones.sources import Growth, opening, read_stretches, walk
from bygones.sources.places import Place, classify
from bygones.store import chunks, connect, index, migrate, text
from bygones.store.chunks import Chunks, Kept
from bygones.store.index import Index
from bygones.store.lock import writing
from bygones.store.press import Press, Pressed, unpress
from bygones.store.vault import Vault
from bygones.upkeep.placing import Put, Standing
from bygones.upkeep.restore import Restored

__all__ = ["MUTATIONS", "Set"]

Set = Callable[[object, str, object], None]
"""Sets an attribute, as ``setattr`` or ``monkeypatch.setattr`` do."""


def _lazily(opened: Callable[..., Connection]) -> Callable[..., Connection]:
    def lazy(path: Path, *, write: bool, **more: int) -> Connection:
        db = opened(path, write=write, **more)
        db.pragma("synchronous", "NORMAL")
        return db

    return lazy


def lazy_archive(put: Set) -> None:
    """Acknowledge in the archive what no sync has made certain."""
    put(chunks, "open_archive", _lazily(connect.open_archive))


def lazy_index(put: Set) -> None:
    """Let the rows of the index be less durable than its words."""
    put(index, "open_index", _lazily(connect.open_index))


def offset_first(put: Set) -> None:
    """Note how far a source was read before its bytes are in the archive."""
    kept = Chunks.set_mark

    def early(self: Chunks, *words: object) -> None:
        kept(self, *words)  # type: ignore[arg-type]
        if self.db.in_transaction:
            self.db.execute("COMMIT")
            self.db.execute("BEGIN IMMEDIATE")

    put(Chunks, "set_mark", early)
    put(running, "BATCH", 1)


def half_built(put: Set) -> None:
    """Build an index where readers look for it, and note early what it has seen."""
    begun, finished, seen = Vault.begin_index, Vault.finish_index, Index.set_seen

    def begin(self: Vault) -> None:
        begun(self)
        finished(self)

    def early(self: Index, *words: object) -> None:
        seen(self, *words)  # type: ignore[arg-type]
        if self.db.in_transaction:
            self.db.execute("COMMIT")
            self.db.execute("BEGIN IMMEDIATE")

    put(Vault, "begin_index", begin)
    put(Vault, "finish_index", lambda _: None)
    put(Index, "set_seen", early)


def numbered_first(put: Set) -> None:
    """Note that an archive is of a version before it is."""

    def hasty(db: Connection, _path: Path) -> int:
        found = int(str(db.pragma("user_version")))
        for number, sql in migrate.steps():
            if number > found:
                db.pragma("user_version", number)
                db.execute(sql)
        return found

    put(chunks, "migrate", hasty)


def index_last(put: Set) -> None:
    """Erase what is purged first, and then the index that tells of it."""
    dropped, packed = Vault.drop_index, Chunks.pack
    waiting: list[Vault] = []

    def drop(self: Vault) -> None:
        waiting.append(self)

    def pack(self: Chunks) -> bool:
        for vault in waiting:
            dropped(vault)
        return packed(self)

    put(Vault, "drop_index", drop)
    put(Chunks, "pack", pack)


def engine_unheard(put: Set) -> None:
    """Let the text engine's own words through to whoever runs a command."""
    put(text, "_refusal", lambda _: None)


def restoring_in_place(put: Set) -> None:
    """Write a restored file where it belongs, and not beside it first."""

    def write(
        path: Path, raws: Iterable[bytes], mtime_ns: int, *_: object, overwrite: bool
    ) -> Put:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb" if overwrite else "xb", buffering=0) as file:
            size = sum(file.write(raw) for raw in raws)
        os.utime(path, ns=(mtime_ns, mtime_ns))
        return Put(found=Standing.NEW, size=size)

    put(import_module(Restored.__module__), "put_file", write)


def never_synced(put: Set) -> None:
    """Give a file its name before the disk has its bytes."""
    put(os, "fsync", lambda _: None)


def files_unsynced(put: Set) -> None:
    """Wait for names of files, and not for their bytes."""
    inner = os.fsync

    def sync(handle: int) -> None:
        if S_ISDIR(os.fstat(handle).st_mode):
            inner(handle)

    put(os, "fsync", sync)


def names_unsynced(put: Set) -> None:
    """Note that words are there before the disk has the name of their file."""
    put(text, "sync_folder", lambda _: None)


def open_words(put: Set) -> None:
    """Let the text engine make its files as it likes."""
    put(text, "_PRIVATE", 0)


def hasty(put: Set) -> None:
    """Take a line that is being written for a whole one."""
    inner = read_stretches

    def read(
        source: Source, *, size: int, start: int = 0
    ) -> Iterator[tuple[int, bytes] | Problem]:
        for found in inner(source, size=size, start=start):
            if isinstance(found, Problem) or found[1].endswith(b"\n"):
                yield found
            else:
                yield found[0], found[1] + b"\n"

    put(running, "read_stretches", read)


def trusting_times(put: Set) -> None:
    """Take a file of the same size and time for the same file."""

    def looks_same(source: Source, kept: Kept, **_: bool) -> bool:
        return (source.size, source.mtime_ns) == (kept.size, kept.mtime_ns)

    put(changes, "_looks_same", looks_same)


def moves_unknown(put: Set) -> None:
    """Take a file that has another name for a new one, and keep it twice."""
    put(changes._Missing, "like", lambda *_: [])


def always_anew(put: Set) -> None:
    """Begin a new generation whenever a file grew, with all that is kept already."""
    inner = Changes._growth

    def growth(self: Changes, source: Source, kept: Kept) -> Growth | Problem:
        found = inner(self, source, kept)
        return Growth.ANEW if found is Growth.GROWN else found

    put(Changes, "_growth", growth)


def following_links(put: Set) -> None:
    """Take what a link leads to for a file of the home."""

    def followed(
        child: os.DirEntry[str], source: SourceId, place: Place, root: walk._Root
    ) -> Source | None:
        role = classify(place, child.name)
        where = (root.text, source[root.skip :])
        return (
            walk._source(source, where, (role, place), child.stat()) if role else None
        )

    put(walk, "_linked", followed)
    put(opening, "_FLAGS", os.O_RDONLY)


def hash_unheeded(put: Set) -> None:
    """Take whatever can be unpacked for what was stored."""
    put(Chunks, "_sound", lambda _self, _what, _expected, frame, *_: unpress(frame))


def forgetful_only(put: Set) -> None:
    """Take rows away on a purge, and leave their bytes where they lie."""

    def opened(path: Path, *, write: bool, known: int) -> Connection:
        db = connect.open_archive(path, write=write, known=known)
        if write:
            db.pragma("secure_delete", "OFF")
        return db

    put(chunks, "open_archive", opened)
    put(Chunks, "pack", lambda _: True)


def words_left(put: Set) -> None:
    """Remove the rows of an index that was purged, and not its words."""

    def dropped(self: Vault) -> None:
        self._close_index()
        for rows in (self.folder / "index").rglob("index.db*"):
            rows.unlink()
        self._open_index(None)

    put(Vault, "drop_index", dropped)
    put(Vault, "_remove_but", lambda *_: None)


def piecemeal(put: Set) -> None:
    """Keep every piece that a source grows by as a chunk of its own."""
    put(Chunks, "take_last_chunk", lambda _self, kept: (kept.kept, b""))


def copied_only(put: Set) -> None:
    """Back up by copying the file, without what is in the log beside it."""
    put(Chunks, "backup", lambda self, path: path.write_bytes(self.path.read_bytes()))


def any_version(put: Set) -> None:
    """Take an archive for one's own, whatever version has written it."""
    put(chunks, "LATEST", 9999)
    put(migrate, "LATEST", 9999)


def by_the_clock(put: Set) -> None:
    """Take the time at which a session is taken in for the time of its end."""

    def now(session: Session) -> Listed:
        return replace(listed(session), ended=datetime.now(UTC))

    put(tasks, "listed", now)


def lockless(put: Set) -> None:
    """Let several write at once."""
    put(running, "writing", lambda *_, **__: nullcontext())


def patient(put: Set) -> None:
    """Have pages wait, a while at most, until nobody writes."""
    opened, beats = Vault.__init__, "beat"

    def go_on(beat: Path) -> None:
        while beat.parent.exists():
            beat.touch()
            time.sleep(0.05)

    def open_(
        self: Vault, folder: Path, *, write: bool = False, **more: object
    ) -> None:
        if write:
            beat = folder / beats
            threading.Thread(target=go_on, args=(beat,), daemon=True).start()
        opened(self, folder, write=write, **more)  # type: ignore[arg-type]

    put(Vault, "__init__", open_)
    if "serve" not in sys.argv:
        return  # who takes something in shows no pages
    app = import_module("bygones.web.app")
    answered = app._answered

    def wait(row: object, visit: Any) -> object:  # noqa: ANN401 (handed through)
        beat = visit.readers.folder / beats
        until = time.monotonic() + 4
        while beat.exists() and time.monotonic() < until:
            if time.time() - beat.stat().st_mtime > 0.3:
                break
            time.sleep(0.02)
        return answered(row, visit)

    put(app, "_answered", wait)


def leaking(put: Set) -> None:
    """Hold whatever a page was asked for, for ever."""
    app = import_module("bygones.web.app")  # few need it, and it is long in coming
    answered = app._answered
    held: list[bytes] = []

    def answer(*asked: object) -> object:
        held.append(b"x" * 3_000_000)
        return answered(*asked)

    put(app, "_answered", answer)


def rereading(put: Set) -> None:
    """Look into every file, whatever its size and its times say."""
    put(changes, "_looks_same", lambda *_, **__: False)


def looking_through_all(put: Set) -> None:
    """Look for every file among all that are known, one by one."""
    inner = Changes._known_change

    def known(self: Changes, source: Source, kept: Kept) -> list[Change]:
        for one in self._known.values():
            kept = one if one.id == source.id else kept
        return inner(self, source, kept)

    put(Changes, "_known_change", known)


def listing_all(put: Set) -> None:
    """Make a line of every session before the first of them is shown."""
    inner = Archive.sessions

    def sessions(self: Archive, *words: object, **more: object) -> Iterator[Listed]:
        return iter(list(inner(self, *words, **more)))  # type: ignore[arg-type]

    put(Archive, "sessions", sessions)


def dropped_when_gone(put: Set) -> None:
    """Let go of what is kept of a file once that is gone."""
    inner = Chunks.set_gone

    def drop(self: Chunks, numbers: Iterable[int], when: int | None) -> None:
        gone = list(numbers)
        inner(self, gone, when)
        for number in gone if when else []:
            self.db.execute("DELETE FROM chunk WHERE source = ?", (number,))

    put(Chunks, "set_gone", drop)


def full_for_damaged(put: Set) -> None:
    """Take an archive on a full disk for a damaged one."""
    refusals = [one for one in connect._REFUSALS if one is not FullError]
    put(connect, "_REFUSALS", tuple(refusals))
    put(connect, "_DAMAGES", (*connect._DAMAGES, FullError))


def hoarding(put: Set) -> None:
    """Hold what is pressed several times, and for ever."""
    held: list[bytes] = []

    def add(self: Press, raw: bytes, then: Callable[[Pressed], None]) -> None:
        held.extend(raw + bytes([number]) for number in range(9))
        inner(self, raw, then)

    inner = Press.add
    put(Press, "add", add)


def unescaped(put: Set) -> None:
    """Write what a transcript says into pages as it stands."""
    put(markup, "escape", lambda text: text)


def lone_readers(put: Set) -> None:
    """Have whoever reads hold the lock that is the writer's."""
    opened = Vault.__init__
    held = ExitStack()

    def alone(self: Vault, folder: Path, *, write: bool = False) -> None:
        opened(self, folder, write=write)
        if not write:
            held.enter_context(writing(folder, wait=0))

    put(Vault, "__init__", alone)


def notes_of_readers(put: Set) -> None:
    """Open an archive only where readers can leave what they share with writers."""

    def connected(path: Path, *, write: bool) -> Connection:
        how = SQLITE_OPEN_READWRITE if write else SQLITE_OPEN_READONLY
        return Connection(str(path), flags=how)

    put(connect, "_connect", connected)


def words_where_they_lie(put: Set) -> None:
    """Open words only where the text engine can leave its lock."""

    def opened(self: text.TextIndex) -> None:
        self.index = tantivy.Index.open(str(self._folder))

    put(text.TextIndex, "_open", opened)


MUTATIONS: dict[str, Callable[[Set], None]] = {
    one.__name__: one
    for one in (
        lazy_archive,
        lazy_index,
        offset_first,
        half_built,
        numbered_first,
        index_last,
        engine_unheard,
        restoring_in_place,
        never_synced,
        files_unsynced,
        names_unsynced,
        open_words,
        hasty,
        trusting_times,
        moves_unknown,
        always_anew,
        following_links,
        hash_unheeded,
        forgetful_only,
        words_left,
        piecemeal,
        copied_only,
        any_version,
        by_the_clock,
        lockless,
        patient,
        leaking,
        rereading,
        looking_through_all,
        listing_all,
        dropped_when_gone,
        full_for_damaged,
        hoarding,
        unescaped,
        lone_readers,
        notes_of_readers,
        words_where_they_lie,
    )
}
