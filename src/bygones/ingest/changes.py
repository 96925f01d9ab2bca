"""What changed since the last walk: by stat first, by content where that lies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct, structs

from bygones.assemble import is_named
from bygones.errors import ArchiveDamaged
from bygones.ingest.gist import decode
from bygones.ingest.report import Report
from bygones.model.ids import Position, SessionId, SourceId
from bygones.model.problems import Problem
from bygones.model.sources import Source, SourceKind
from bygones.sources import (
    Growth,
    Mark,
    check,
    native_path,
    path_text,
    read_at,
    read_lines,
)
from bygones.store.chunks import Chunks, Kept
from bygones.store.press import digest
from bygones.store.purged import erased_signs, purged_signs, session_sign

__all__ = ["Change", "Changes"]

SOON_READ = 32 * 1024 * 1024
"""Bytes of a file that are read and compared as soon as it grows: a tenth of a second
at most. Of longer files the ends are, until somebody looks thoroughly."""

_UNPROVEN = 0
"""Stands for the time of a long file of which only the ends were compared when it grew:
whoever looks thoroughly compares all of it, though it look the same."""
_BEGINNING = 1 << 16


class Change(Struct, frozen=True, kw_only=True):
    """A source that has something new for the archive."""

    source: Source
    kept: Kept | None = None
    is_anew: bool = False
    is_moved: bool = False

    @property
    def kept_bytes(self) -> int:
        """How much of the file the archive has already."""
        return self.kept.kept if self.kept and not self.is_anew else 0

    def settle(self, chunks: Chunks) -> Kept:
        """Give the source its row and its generation; return what is kept of it."""
        if self.kept is None:
            return chunks.add_source(self.source)
        if self.is_moved:
            chunks.move(self.kept, self.source)
        elif self.kept.gone_ns is not None:
            chunks.set_gone([self.kept.number], None)
        if self.is_anew:
            return chunks.begin_anew(self.kept)
        return chunks.source(self.kept.number) or self.kept


class Changes:
    """Compares a walk with what the archive knows."""

    def __init__(
        self,
        chunks: Chunks,
        report: Report,
        known: Iterable[Kept],
        *,
        is_thorough: bool = False,
    ) -> None:
        self._chunks = chunks
        self._report = report
        self._is_thorough = is_thorough
        self._known = {kept.id: kept for kept in known}
        self._purged = erased_signs(chunks.db)
        self._gone: list[int] = []
        self._back: list[int] = []
        self.touched: list[Kept] = []
        """Sources whose files have other times, and nothing else that is new."""
        self.carried: list[Kept] = []
        """Sources that were gone when their home moved, with the home they have now."""

    def find(self, sources: Iterable[Source], walked: Iterable[Path]) -> list[Change]:
        """Return the changed sources, in the order of the walk."""
        changes: list[Change] = []
        fresh: list[Source] = []
        refused: set[SourceId] = set()
        met: set[SourceId] = set()
        for source in sources:
            if source.id in met:
                continue
            met.add(source.id)
            kept = self._known.get(source.id)
            if kept is not None:
                changes.extend(self._known_change(source, kept))
            elif self._purged and self._is_purged(source):
                refused.add(source.id)
            else:
                fresh.append(source)
        taken = [source for source in fresh if _owner(source) not in refused]
        self._report.refused += len(refused) + len(fresh) - len(taken)
        missing = _Missing(self._missing(met, walked))
        changes.extend([self._fresh_change(source, missing) for source in taken])
        self.carried = list(self._carried(changes, missing, met))
        self._gone = [k.number for k in missing if k.gone_ns is None]
        self._report.gone = len(self._gone)
        self._known = {}  # whoever goes on needs it no more, and it may be large
        return changes

    @property
    def is_any(self) -> bool:
        """Whether files are gone or back, or were merely touched."""
        return bool(self._gone or self._back or self.touched)

    def _is_purged(self, source: Source) -> bool:
        """Whether a file was erased, or is of a session that was.

        The place of an agent that lies beside its session does not say whose it is,
        nor does a name that is no id; the first record does.
        """
        if purged_signs(source) & self._purged:
            return True
        is_told = source.session is not None
        if source.kind is SourceKind.SESSION:
            is_told = is_named(source)
        if is_told or not source.kind.is_transcript:
            return False
        starter = _starter(source)
        return starter is not None and session_sign(starter) in self._purged

    def note(self) -> None:
        """Mark files that are gone, that are back, or that were merely touched."""
        for kept in self.touched:
            self._chunks.set_mark(kept)
        for kept in self.carried:
            self._chunks.set_home(kept)
        self._chunks.set_gone(self._gone, time.time_ns())
        self._chunks.set_gone(self._back, None)

    def _known_change(self, source: Source, kept: Kept) -> list[Change]:
        if self._purged and not kept.kept and self._is_purged(source):
            # It was there before anything in it said whose it is.
            self._report.refused += 1
            return []
        if kept.gone_ns is not None:
            self._back.append(kept.number)
            self._report.back += 1
        elif _looks_same(source, kept, is_thorough=self._is_thorough):
            self._report.unchanged += 1
            return []
        growth = self._growth(source, kept)
        if isinstance(growth, Problem):
            self._report.problems.append(growth)
            return []
        if growth is Growth.SAME:
            self._report.unchanged += 1
            self.touched.append(_signed(kept, source))
            return []
        is_anew = growth is Growth.ANEW
        self._report.anew += is_anew
        self._report.grown += not is_anew
        if not is_anew and not self._is_read(growth, source, kept):
            source = structs.replace(source, ctime_ns=_UNPROVEN)
        return [Change(source=source, kept=kept, is_anew=is_anew)]

    def _growth(self, source: Source, kept: Kept) -> Growth | Problem:
        """Return what became of a file, by its ends, and by all of it if in doubt.

        A file that was touched and has its old length may have been rewritten in its
        middle, and so may one that took the place of another, or that grew besides.
        An unfinished line that did not go on, but became another, must not be lost
        either.
        """
        growth = check(source, _mark(kept))
        if isinstance(growth, Problem) or growth is Growth.ANEW:
            return growth
        if self._is_read(growth, source, kept) and not self._holds(source, kept):
            return Growth.ANEW
        return growth if self._goes_on(source, kept) else Growth.ANEW

    def _is_read(self, growth: Growth, source: Source, kept: Kept) -> bool:
        """Whether all of a file is compared, and not its ends alone."""
        is_odd = growth is Growth.SAME or source.inode != kept.inode
        return is_odd or self._is_thorough or kept.kept <= SOON_READ

    def _holds(self, source: Source, kept: Kept) -> bool:
        """Whether a file still begins with all whole lines that are kept of it."""
        return all(
            isinstance(raw := _read(source, start, stop), bytes) and digest(raw) == sign
            for start, stop, sign in self._chunks.hashes(kept.number, kept.generation)
        )

    def _goes_on(self, source: Source, kept: Kept) -> bool:
        """Whether the unfinished line that is kept of a file is still there."""
        if kept.size == kept.kept:
            return True
        try:
            fragment = self._chunks.fragment(kept.number, kept.generation)
        except ArchiveDamaged:
            return False
        return _read(source, kept.kept, kept.kept + len(fragment)) == fragment

    def _missing(self, met: set[SourceId], walked: Iterable[Path]) -> Iterator[Kept]:
        """Yield the sources that a walk should have met and did not.

        What could not be looked at may still be there, and so may what lies in it.
        """
        roots = {path_text(path.absolute()) for path in walked}
        homes: dict[str, bool] = {}
        unseen = {
            problem.position.source
            for problem in self._report.problems
            if problem.kind == "unreadable"
        }
        above = tuple(f"{one}/" for one in unseen)
        for id_, kept in self._known.items():
            if kept.home not in homes:
                is_there = Path(native_path(kept.home)).exists()
                homes[kept.home] = kept.home in roots or not is_there
            is_looked_for = homes[kept.home] or id_ in roots
            is_unseen = id_ in unseen or id_.startswith(above)
            if id_ not in met and is_looked_for and not is_unseen:
                yield kept

    def _carried(
        self, changes: Iterable[Change], missing: Iterable[Kept], met: set[SourceId]
    ) -> Iterator[Kept]:
        """Yield what lies in a home that is gone as such, while its files moved.

        Most of those that were there must have: one that is found elsewhere may be a
        copy, and the disk with the others may be away.
        """
        moved = Counter(
            (change.kept.home, change.source.home)
            for change in changes
            if change.kept
            and change.is_moved
            and change.kept.path == change.source.path
        )
        there = Counter(k.home for k in self._known.values() if k.gone_ns is None)
        homes = {
            old: new
            for (old, new), count in moved.items()
            if 2 * count > there[old] and not Path(native_path(old)).exists()
        }
        for kept in missing:
            carried = structs.replace(kept, home=homes.get(kept.home, kept.home))
            if carried.id not in self._known and carried.id not in met:
                yield carried

    def _fresh_change(self, source: Source, missing: _Missing) -> Change:
        """Return a source under a new path: moved there, or new."""
        for kept in missing.like(source):
            if self._is_moved(source, kept):
                missing.remove(kept)
                self._report.moved += 1
                return Change(source=source, kept=kept, is_moved=True)
        self._report.new += 1
        return Change(source=source)

    def _is_moved(self, source: Source, kept: Kept) -> bool:
        growth = check(source, _mark(kept))
        is_same = growth in {Growth.SAME, Growth.GROWN}
        return (
            is_same
            and kept.kept > 0
            and self._holds(source, kept)
            and self._goes_on(source, kept)
        )


class _Missing:
    """Sources that were not met, by what a file that was moved has in common."""

    def __init__(self, sources: Iterable[Kept]) -> None:
        self._by_number = {kept.number: kept for kept in sources}
        self._alike: dict[str | int, dict[int, Kept]] = {}
        for number, kept in self._by_number.items():
            for sign in _signs(kept.path, kept.inode):
                self._alike.setdefault(sign, {})[number] = kept

    def __iter__(self) -> Iterator[Kept]:
        return iter(self._by_number.values())

    def like(self, source: Source) -> list[Kept]:
        """Return those that a file may be: by its name, or its place on the disk."""
        found: dict[int, Kept] = {}
        for sign in _signs(source.path, source.inode):
            found.update(self._alike.get(sign, {}))
        return [
            kept
            for kept in found.values()
            if source.kind is kept.kind
            and source.size >= kept.size
            and _may_be(source, kept)
        ]

    def remove(self, kept: Kept) -> None:
        """Take out one that was found again."""
        del self._by_number[kept.number]
        for sign in _signs(kept.path, kept.inode):
            self._alike[sign].pop(kept.number, None)


def _signs(path: str, inode: int) -> tuple[str | int, ...]:
    name = path.rpartition("/")[2]
    return (inode, name) if inode else (name,)


def _may_be(source: Source, kept: Kept) -> bool:
    """Whether a file can be one that stood elsewhere, if it says the same.

    What is said of two sessions or agents is often the same to the byte: a backup of a
    file that neither changed, a list without tasks. Those of one may have been gone for
    long when the other's come, or have left their places on the disk to them.
    """
    old = kept.source
    is_transcript = source.kind.is_transcript
    if (source.session, source.agent) == (old.session, old.agent):
        may_be = is_transcript or _place(source) == _place(old)
    else:
        may_be = is_transcript and not (is_named(source) and is_named(old))
    is_there = source.inode == kept.inode != 0 and kept.gone_ns is None
    is_touched = source.mtime_ns != kept.mtime_ns
    return may_be or (is_there and (is_transcript or not is_touched))


def _place(source: Source) -> str:
    """Return where a file stands beside what it belongs to, whatever holds that."""
    owner = source.session or source.agent
    return source.path.rpartition(owner)[2] if owner else source.path


def _read(source: Source, start: int, stop: int) -> bytes | Problem:
    return read_at(Position(source.id, 0, start, stop - start))


def _owner(source: Source) -> str:
    """Return where the agent is that a sidecar would tell of."""
    return f"{source.id.removesuffix('.meta.json')}.jsonl"


def _starter(source: Source) -> SessionId | None:
    """Return the session that an agent's records name first."""
    for line in read_lines(source, block=_BEGINNING):
        if isinstance(line, Problem):
            break
        for node in decode([line])[1]:
            if node.session:
                return node.session
    return None


def _looks_same(source: Source, kept: Kept, *, is_thorough: bool) -> bool:
    is_unproven = kept.ctime_ns == _UNPROVEN and not is_thorough
    return (
        source.size == kept.size
        and source.mtime_ns == kept.mtime_ns
        and (source.ctime_ns == kept.ctime_ns or is_unproven)
        and source.inode == kept.inode
    )


def _mark(kept: Kept) -> Mark:
    return Mark(
        offset=kept.kept, size=kept.size, head=kept.head, tail=kept.tail, rest=kept.rest
    )


def _signed(kept: Kept, source: Source) -> Kept:
    return structs.replace(
        kept,
        mtime_ns=source.mtime_ns,
        ctime_ns=source.ctime_ns,
        inode=source.inode,
    )
