"""What changed since the last walk: by stat first, by content where that lies."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, structs

from recollect.ingest.report import Report
from recollect.model.problems import Problem
from recollect.model.sources import Source
from recollect.sources import Growth, Mark, check
from recollect.store.chunks import Chunks, Kept, purged_sign
from recollect.store.press import digest

__all__ = ["Change", "Changes"]


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

    def __init__(self, chunks: Chunks, report: Report) -> None:
        self._chunks = chunks
        self._report = report
        self._known = {(kept.home, kept.path): kept for kept in chunks.sources()}
        self._purged = chunks.purged()
        self._gone: list[int] = []
        self._back: list[int] = []
        self._touched: list[Kept] = []

    def find(self, sources: Iterable[Source], walked: Iterable[str]) -> list[Change]:
        """Return the changed sources, in the order of the walk."""
        changes: list[Change] = []
        fresh: list[Source] = []
        met: set[tuple[str, str]] = set()
        for source in sources:
            key = (source.home, source.path)
            if key in met:
                continue
            met.add(key)
            kept = self._known.get(key)
            if kept is not None:
                changes.extend(self._known_change(source, kept))
            elif purged_sign(source.path) in self._purged:
                self._report.refused += 1
            else:
                fresh.append(source)
        missing = self._missing(met, set(walked))
        changes.extend([self._fresh_change(source, missing) for source in fresh])
        self._gone = [k.number for k in missing.values() if k.gone_ns is None]
        self._report.gone = len(self._gone)
        return changes

    def note(self) -> None:
        """Mark files that are gone, that are back, or that were merely touched."""
        for kept in self._touched:
            self._chunks.set_mark(kept)
        self._chunks.set_gone(self._gone, time.time_ns())
        self._chunks.set_gone(self._back, None)

    def _known_change(self, source: Source, kept: Kept) -> list[Change]:
        if kept.gone_ns is not None:
            self._back.append(kept.number)
            self._report.back += 1
        elif _looks_same(source, kept):
            self._report.unchanged += 1
            return []
        growth = check(source, _mark(kept))
        if isinstance(growth, Problem):
            self._report.problems.append(growth)
            return []
        if growth is Growth.SAME and source.size == kept.size:
            growth = self._audited(source, kept)
        if growth is Growth.SAME:
            self._report.unchanged += 1
            self._touched.append(_signed(kept, source))
            return []
        is_anew = growth is Growth.ANEW
        self._report.anew += is_anew
        self._report.grown += not is_anew
        return [Change(source=source, kept=kept, is_anew=is_anew)]

    def _audited(self, source: Source, kept: Kept) -> Growth:
        """Compare every byte: the file was touched, and its ends look the same."""
        return Growth.SAME if self._holds(source, kept) else Growth.ANEW

    def _holds(self, source: Source, kept: Kept) -> bool:
        """Whether a file still begins with all that is kept of it."""
        rows = self._chunks.hashes(kept.number, kept.generation)
        try:
            with Path(source.id).open("rb") as file:
                return all(
                    digest(file.read(stop - start)) == h for start, stop, h in rows
                )
        except OSError:
            return False

    def _missing(self, met: set[tuple[str, str]], walked: set[str]) -> dict[int, Kept]:
        """Return the sources that a walk should have met and did not."""
        homes: dict[str, bool] = {}
        for kept in self._known.values():
            if kept.home not in homes:
                homes[kept.home] = kept.home in walked or not Path(kept.home).exists()
        return {
            kept.number: kept
            for key, kept in self._known.items()
            if key not in met and homes[kept.home]
        }

    def _fresh_change(self, source: Source, missing: dict[int, Kept]) -> Change:
        """Return a source under a new path: moved there, or new."""
        for kept in list(missing.values()):
            if _may_be(source, kept) and self._is_moved(source, kept):
                del missing[kept.number]
                self._report.moved += 1
                return Change(source=source, kept=kept, is_moved=True)
        self._report.new += 1
        return Change(source=source)

    def _is_moved(self, source: Source, kept: Kept) -> bool:
        growth = check(source, _mark(kept))
        is_same = growth in {Growth.SAME, Growth.GROWN}
        return is_same and kept.kept > 0 and self._holds(source, kept)


def _looks_same(source: Source, kept: Kept) -> bool:
    return (
        source.size == kept.size
        and source.mtime_ns == kept.mtime_ns
        and source.ctime_ns == kept.ctime_ns
        and source.inode == kept.inode
    )


def _may_be(source: Source, kept: Kept) -> bool:
    """Whether it is worth comparing: the same name, or the same place on the disk."""
    name = source.path.rpartition("/")[2] == kept.path.rpartition("/")[2]
    same_file = bool(source.inode) and source.inode == kept.inode
    return (name or same_file) and source.kind is kept.kind and source.size >= kept.kept


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
