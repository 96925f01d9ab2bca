"""What one scope may read of a team's store, in the shape of a folder's shelf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path

from recollect.errors import ArchiveDamaged
from recollect.ingest.gist import decode
from recollect.ingest.pieces import lines_of
from recollect.model.annotations import Annotations
from recollect.model.ids import AgentId, Position, ProjectKey, SessionId
from recollect.model.nodes import Node
from recollect.model.problems import Problem
from recollect.model.sources import SourceKind
from recollect.store.chunks import Chunk, Kept
from recollect.store.press import digest
from recollect.team.contract import Objects
from recollect.team.database import Sight
from recollect.team.engine import TeamEngine, Words
from recollect.team.reading import (
    TeamChanges,
    TeamDerived,
    TeamFinding,
    TeamPlaces,
    TeamTyped,
)
from recollect.team.spending import TeamSpending

__all__ = ["TeamShelf"]

_OPEN = 64
"""Objects that are kept unpacked: most are a megabyte at most."""
_SOURCE = (
    "SELECT number, machine, home, path, kind, project, session, agent, generation,"
    " upto, mtime_ns FROM {source} AS s"
)
_SPANS = (
    "SELECT start, stop, sha256, address FROM {span} AS p WHERE number = %(number)s"
    " AND generation = %(generation)s ORDER BY start"
)
_END = (1 << 62) - 1


class TeamChunks:
    """The bytes of sources, from the raw store."""

    def __init__(self, sight: Sight, objects: Objects) -> None:
        self._sight = sight
        self._raw = lru_cache(_OPEN)(objects.bytes_of)
        self._known: dict[int, Kept | None] = {}
        """Sources that were looked up for the question that is being answered."""
        self._spanned: dict[tuple[int, int], list[tuple[int, int, bytes, str]]] = {}
        """Their spans."""

    def begin(self) -> None:
        """Look at everything anew: another question is asked."""
        self._known.clear()
        self._spanned.clear()

    def sources(self) -> Iterator[Kept]:
        """Yield all sources."""
        for row in self._sight.rows(f"{_SOURCE} ORDER BY number"):
            yield _kept(row)

    def source(self, number: int) -> Kept | None:
        """Return a source by its number."""
        if number not in self._known:
            sql = f"{_SOURCE} WHERE number = %(number)s"
            row = self._sight.first(sql, number=number)
            self._known[number] = _kept(row) if row else None
        return self._known[number]

    def find(self, home: str, path: str) -> Kept | None:
        """Return a source by its place."""
        rows = self._sight.rows(f"{_SOURCE} WHERE path = %(path)s", path=path)
        return next((one for one in map(_kept, rows) if one.home == home), None)

    def named(self, id_: str) -> Kept | None:
        """Return a source by the path as it was found."""
        sql = f"{_SOURCE} WHERE id = %(name)s ORDER BY number LIMIT 1"
        row = self._sight.first(sql, name=id_)
        return _kept(row) if row else None

    def fragment(self, number: int, generation: int) -> bytes:
        """Return nothing: only whole lines are sent."""
        del number, generation
        return b""

    def tried(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes | None]]:
        """Yield spans with their bytes; one that is damaged has none."""
        for row in self._spans(number, generation, start, _END):
            begin, stop, sign, _ = row
            chunk = Chunk(0, number, generation, begin, stop, sign)
            try:
                raw = self._bytes(row)
            except ArchiveDamaged:
                yield chunk, None
            else:
                yield chunk, raw

    def read(self, number: int, generation: int, offset: int, length: int) -> bytes:
        """Return bytes of a source; fewer where there are fewer."""
        parts = []
        for row in self._spans(number, generation, offset, offset + length):
            raw, start = self._bytes(row), row[0]
            parts.append(raw[max(offset - start, 0) : offset + length - start])
        return b"".join(parts)

    def at_once(self) -> AbstractContextManager[None]:
        """Nothing: spans are only added."""
        return nullcontext()

    def _spans(
        self, number: int, generation: int, start: int, stop: int
    ) -> list[tuple[int, int, bytes, str]]:
        if (number, generation) not in self._spanned:
            found = self._sight.rows(_SPANS, number=number, generation=generation)
            self._spanned[number, generation] = found
        found = self._spanned[number, generation]
        return [row for row in found if row[0] < stop and row[1] > start]

    def _bytes(self, row: tuple[int, int, bytes, str]) -> bytes:
        raw = self._raw(row[3])
        if digest(raw) != row[2]:
            raise ArchiveDamaged(Path(row[3]), "it has another hash")
        return raw


class TeamSeeing:
    """What is known of the lines of sources: read from their bytes."""

    def __init__(self, sight: Sight, chunks: TeamChunks) -> None:
        self._sight = sight
        self._chunks = chunks

    def nodes(self, source: int) -> tuple[Node, ...]:
        """Return all nodes of a source, in order."""
        kept = self._chunks.source(source)
        if kept is None:
            return ()
        found: list[Node] = []
        for chunk, raw in self._chunks.tried(source, kept.generation):
            if raw is not None:
                lines = lines_of(kept.id, kept.generation, chunk.start, raw)
                found += decode(lines)[1]
        return tuple(found)

    def problems(self, kept: Kept) -> Iterator[Problem]:
        """Yield what was odd in a source, in order."""
        rows = self._sight.rows(
            "SELECT kind, start, length, detail FROM {problem} AS p"
            " WHERE source = %(source)s ORDER BY place",
            source=kept.number,
        )
        for kind, start, length, detail in rows:
            place = Position(kept.id, kept.generation, start, length)
            yield Problem(kind, place, detail)


class TeamShelf:
    """What one scope may read."""

    def __init__(
        self, sight: Sight, words: Words, objects: Objects, close: Callable[[], None]
    ) -> None:
        self.chunks = TeamChunks(sight, objects)
        self.index = TeamSeeing(sight, self.chunks)
        self._derived = TeamDerived(sight)
        self.finding = TeamFinding(sight)
        self.places = TeamPlaces(sight)
        self.changes = TeamChanges(sight)
        self.typed = TeamTyped(sight)
        self.spending = TeamSpending(sight)
        self._words = words
        self._closes = [close]

    @property
    def derived(self) -> TeamDerived:
        """The rows of sessions; with them every question about sessions begins."""
        self.chunks.begin()
        return self._derived

    def engine(self) -> TeamEngine:
        """Return the words as they are now."""
        self.chunks.begin()
        self.places.begin()
        return TeamEngine(self._words, self.places.placed)

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return nothing: tags and notes stay with whoever wrote them."""
        return {}

    def at_once(self) -> AbstractContextManager[None]:
        """Nothing: each statement has its own moment, and readers put up with that."""
        return self.chunks.at_once()

    def also_close(self, close: Callable[[], None]) -> None:
        """Let go of something else together with the shelf."""
        self._closes.append(close)

    def close(self) -> None:
        """Let go of the engine."""
        for close in self._closes:
            close()


def _kept(row: tuple[object, ...]) -> Kept:
    number, machine, home, path, kind, project, session, agent, generation = row[:9]
    upto, mtime_ns = row[9:]
    return Kept(
        number=int(str(number)),
        home=f"{machine}:{home}" if machine else str(home),
        path=str(path),
        kind=SourceKind(str(kind)),
        project=ProjectKey(str(project)) if project is not None else None,
        session=SessionId(str(session)) if session is not None else None,
        agent=AgentId(str(agent)) if agent is not None else None,
        generation=int(str(generation)),
        kept=int(str(upto)),
        size=int(str(upto)),
        mtime_ns=int(str(mtime_ns)),
    )
