"""What one scope may read of a team's store, in the shape of a folder's shelf."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from bygones.ingest.gist import decode
from bygones.ingest.pieces import lines_of
from bygones.model.annotations import Annotations
from bygones.model.ids import Position, SessionId
from bygones.model.nodes import Node
from bygones.model.problems import Problem
from bygones.store.chunks import Kept
from bygones.team.chunks import TeamChunks, Unpacked
from bygones.team.contract import Objects
from bygones.team.database import Sight
from bygones.team.engine import TeamEngine, Words
from bygones.team.places import TeamPlaces
from bygones.team.reading import TeamChanges, TeamDerived, TeamFinding, TeamTyped
from bygones.team.spending import TeamSpending

__all__ = ["TeamShelf"]


class TeamSeeing:
    """What is known of the lines of sources: read from their bytes."""

    def __init__(self, sight: Sight, chunks: TeamChunks) -> None:
        self._sight = sight
        self._chunks = chunks
        self._odd: dict[int, list[tuple[str, int, int, str]]] = {}

    def begin(self) -> None:
        """Look at everything anew: another question is asked."""
        self._odd.clear()

    def expect(self, sources: Iterable[int]) -> None:
        """Look up at once what is odd in sources."""
        new = [source for source in sources if source not in self._odd]
        if not new:
            return
        self._odd |= {source: [] for source in new}
        among = self._sight.db.among("source", "sources")
        rows = self._sight.rows(
            "SELECT source, kind, start, length, detail FROM {problem} AS p"  # noqa: S608 (our names)
            f" WHERE {among} ORDER BY source, place",
            sources=new,
        )
        for source, *told in rows:
            self._odd[source].append(tuple(told))

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
        self.expect([kept.number])
        for kind, start, length, detail in self._odd[kept.number]:
            place = Position(kept.id, kept.generation, start, length)
            yield Problem(kind, place, detail)


class TeamShelf:
    """What one scope may read."""

    def __init__(
        self,
        sight: Sight,
        words: Words,
        objects: Objects,
        close: Callable[[], None],
        *,
        shared: Unpacked,
    ) -> None:
        self.chunks = TeamChunks(sight, objects, shared)
        self.index = TeamSeeing(sight, self.chunks)
        self._derived = TeamDerived(sight, self._expect)
        self.finding = TeamFinding(sight)
        self.places = TeamPlaces(sight, self.chunks.expect)
        self.changes = TeamChanges(sight)
        self.typed = TeamTyped(sight)
        self.spending = TeamSpending(sight)
        self._words = words
        self._moment = sight.db.moment
        self._closes = [close]
        self._seen = words.standing()

    def _expect(self, sources: Iterable[int]) -> None:
        """Look up at once what will be read of a session's sources."""
        self.index.expect(self.chunks.expect_beside(list(sources)))

    @property
    def derived(self) -> TeamDerived:
        """The rows of sessions; with them every question about sessions begins."""
        self.chunks.begin()
        self.index.begin()
        return self._derived

    def engine(self) -> TeamEngine:
        """Return the words as they are now."""
        self.chunks.begin()
        return TeamEngine(self._words, lambda: self.places.lines)

    def is_renewed(self) -> bool:
        """Look whether something has come, or whether others may be seen now."""
        before, self._seen = self._seen, self._words.standing()
        if before != self._seen:
            self.places.begin()
        return before != self._seen

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return nothing: tags and notes stay with whoever wrote them."""
        return {}

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Have all that is read be of one moment, as far as the engine can."""
        with self._moment(), self.chunks.answering():
            yield

    def also_close(self, close: Callable[[], None]) -> None:
        """Let go of something else together with the shelf."""
        self._closes.append(close)

    def close(self) -> None:
        """Let go of the engine."""
        for close in self._closes:
            close()
