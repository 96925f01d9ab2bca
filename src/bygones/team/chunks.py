"""The bytes of a team's sources, from the raw store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from msgspec.structs import replace

from bygones.errors import ArchiveDamaged
from bygones.model.ids import AgentId, ProjectKey, SessionId
from bygones.model.sources import SourceKind
from bygones.store.chunks import Chunk, Kept
from bygones.store.press import digest, unpress
from bygones.team.contract import Objects
from bygones.team.database import Sight
from bygones.team.places import Opened

__all__ = ["TeamChunks", "Unpacked"]

_ROOM = 32 * 1024 * 1024
"""Bytes that one reader keeps unpacked while a question is answered."""
_SHARED = 64 * 1024 * 1024
"""Bytes that all readers of a store keep unpacked besides."""
_AHEAD = 8 * 1024 * 1024
"""Bytes that are fetched at once: a long source may have been sent in small spans. As
many are kept by who reads on and asks nothing."""
_COLUMNS = (
    "number, machine, home, path, kind, project, session, agent, generation, upto,"
    " mtime_ns, fragment"
)
_COLUMNS_OF_S = ", ".join(f"s.{name}" for name in _COLUMNS.split(", "))
_SOURCE = f"SELECT {_COLUMNS} FROM {{source}} AS s"  # noqa: S608 (our names)
_END = (1 << 62) - 1
_LAST = "\U0010ffff"


class _Span(NamedTuple):
    start: int
    stop: int
    sha256: bytes
    address: str


class Unpacked:
    """Objects that were unpacked last, by address; several threads may share them.

    Nobody finds here what they may not read: addresses come from spans that they see.
    """

    def __init__(self, room: int = _SHARED) -> None:
        self.room = room
        self._lock = Lock()
        self._raw: OrderedDict[str, bytes] = OrderedDict()
        self._weight = 0

    def find(self, address: str) -> bytes | None:
        """Return bytes, if they are there."""
        with self._lock:
            raw = self._raw.get(address)
            if raw is not None:
                self._raw.move_to_end(address)
            return raw

    def keep(self, address: str, raw: bytes) -> None:
        """Keep bytes; what was not asked for longest gives way."""
        with self._lock:
            if address not in self._raw:
                self._raw[address] = raw
                self._weight += len(raw)
            self._shrink(self.room)

    def shrink(self, room: int) -> None:
        """Keep no more than so many bytes."""
        with self._lock:
            self._shrink(room)

    def _shrink(self, room: int) -> None:
        while self._weight > room and len(self._raw) > bool(room):
            _, old = self._raw.popitem(last=False)
            self._weight -= len(old)


class TeamChunks:
    """The bytes of sources, from the raw store."""

    def __init__(self, sight: Sight, objects: Objects, shared: Unpacked) -> None:
        self._sight = sight
        self._objects = objects
        self._shared = shared
        self._own = Unpacked(_AHEAD)
        """Objects that were fetched last, and are what they were."""
        self.begin()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Have room for all that an answer is told from; keep nothing of it after."""
        before, self._own.room = self._own.room, _ROOM
        try:
            yield
        finally:
            self._own.room = before
            if before < _ROOM:
                self._own.shrink(0)

    def begin(self) -> None:
        """Look at everything anew: another question is asked."""
        self._known: dict[int, Kept | None] = {}
        self._spanned: dict[tuple[int, int], list[_Span]] = {}
        self._fragments: dict[tuple[int, int], bytes] = {}
        """Unfinished last lines of sources' generations."""
        self._named: dict[tuple[str, str], Kept] = {}
        """Sources by home and path, of which all below some folders are there."""
        self._folders: set[tuple[str, str]] = set()

    def sources(self) -> Iterator[Kept]:
        """Yield all sources."""
        for row in self._sight.rows(f"{_SOURCE} ORDER BY number"):
            yield self._kept(row)

    def source(self, number: int) -> Kept | None:
        """Return a source by its number."""
        if number not in self._known:
            self._know([number])
        return self._known[number]

    def _know(self, numbers: Iterable[int]) -> None:
        new = [number for number in numbers if number not in self._known]
        if new:
            self._known |= dict.fromkeys(new)
            among = self._sight.db.among("number", "numbers")
            for row in self._sight.rows(f"{_SOURCE} WHERE {among}", numbers=new):
                self._known[row[0]] = self._kept(row)

    def find(self, home: str, path: str) -> Kept | None:
        """Return a source by its place."""
        if any(
            home == place and path.startswith(folder) for place, folder in self._folders
        ):
            return self._named.get((home, path))
        rows = self._sight.rows(f"{_SOURCE} WHERE path = %(path)s", path=path)
        return next((one for one in map(self._kept, rows) if one.home == home), None)

    def named(self, id_: str) -> Kept | None:
        """Return a source by the path as it was found."""
        for kept in self._known.values():
            if kept is not None and kept.id == id_:
                return kept
        sql = f"{_SOURCE} WHERE id = %(name)s ORDER BY number LIMIT 1"
        row = self._sight.first(sql, name=id_)
        return self._kept(row) if row else None

    def expect(self, opened: Sequence[Opened]) -> None:
        """Fetch the bytes of records that will be read."""
        self._open({one.source for one in opened})
        wanted: dict[str, _Span] = {}
        for one in opened:
            kept = self._known[one.source]
            if kept is not None:
                place = (kept.number, kept.generation, one.start, one.start + 1)
                wanted |= {span.address: span for span in self._spans(*place)}
        self._fetch(wanted.values())

    def _open(self, numbers: Iterable[int]) -> None:
        """Look up sources with their spans."""
        new = [number for number in numbers if number not in self._known]
        if not new:
            return
        self._known |= dict.fromkeys(new)
        among = self._sight.db.among("s.number", "numbers")
        rows = self._sight.rows(
            f"SELECT {_COLUMNS_OF_S}, p.start, p.stop, p.sha256, p.address"  # noqa: S608 (our names)
            " FROM {source} AS s LEFT JOIN {span} AS p"
            " ON p.number = s.number AND p.generation = s.generation"
            f" WHERE {among} ORDER BY s.number, p.start",
            numbers=new,
        )
        for row in rows:
            kept = self._known[row[0]] = self._kept(row[: -len(_Span._fields)])
            spans = self._spanned.setdefault((kept.number, kept.generation), [])
            span = _Span(*row[-len(_Span._fields) :])
            if span.stop:  # one engine has nothing where there is no span, one zero
                spans.append(span)

    def expect_beside(self, numbers: Sequence[int]) -> list[int]:
        """Look up sources with all that lies beside them; return their numbers."""
        self._know(numbers)
        own = self._known_among(numbers)
        stems = {(kept.home, kept.path.split("/subagents/")[0]) for kept in own}
        folders = {(home, stem.removesuffix(".jsonl")) for home, stem in stems}
        values: dict[str, str] = {}
        ranges: list[str] = []
        for at, (_, folder) in enumerate(sorted(folders - self._folders)):
            values |= {f"low{at}": folder, f"high{at}": folder + _LAST}
            ranges.append(f"(path >= %(low{at})s AND path < %(high{at})s)")
        if ranges:
            rows = self._sight.rows(f"{_SOURCE} WHERE {' OR '.join(ranges)}", **values)
            for kept in map(self._kept, rows):
                self._known[kept.number] = kept
                self._named[kept.home, kept.path] = kept
        self._folders |= folders
        beside = [
            kept
            for kept in self._named.values()
            if any(
                kept.home == home and kept.path.startswith(folder)
                for home, folder in folders
            )
        ]
        keys = [(kept.number, kept.generation) for kept in (*own, *beside)]
        self._span(keys)
        self._ahead([span for key in keys for span in self._spanned[key]])
        return [kept.number for kept in own]

    def _known_among(self, numbers: Iterable[int]) -> list[Kept]:
        found = (self._known.get(number) for number in numbers)
        return [kept for kept in found if kept is not None]

    def _span(self, sources: Iterable[tuple[int, int]]) -> None:
        """Look up the spans of sources' generations."""
        new = sorted(set(sources) - self._spanned.keys())
        if not new:
            return
        pairs = self._sight.db.pairs("number, generation", "sources")
        rows = self._sight.rows(
            "SELECT number, generation, start, stop, sha256, address"  # noqa: S608 (our names)
            f" FROM {{span}} AS p WHERE {pairs} ORDER BY number, generation, start",
            sources=new,
        )
        self._spanned |= {key: [] for key in new}
        for number, generation, *span in rows:
            self._spanned[number, generation].append(_Span(*span))

    def fragment(self, number: int, generation: int) -> bytes:
        """Return the unfinished last line of a source."""
        self.source(number)
        return self._fragments.get((number, generation), b"")

    def tried(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes | None]]:
        """Yield spans with their bytes; one that is damaged has none."""
        spans = self._spans(number, generation, start, _END)
        for at, span in enumerate(spans):
            chunk = Chunk(0, number, generation, span.start, span.stop, span.sha256)
            try:
                raw = self._bytes(span, spans[at:])
            except ArchiveDamaged:
                yield chunk, None
            else:
                yield chunk, raw

    def read(self, number: int, generation: int, offset: int, length: int) -> bytes:
        """Return bytes of a source; fewer where there are fewer."""
        parts = []
        spans = self._spans(number, generation, offset, offset + length)
        for at, span in enumerate(spans):
            raw, start = self._bytes(span, spans[at:]), span.start
            parts.append(raw[max(offset - start, 0) : offset + length - start])
        return b"".join(parts)

    def at_once(self) -> AbstractContextManager[None]:
        """Nothing: spans are only added, and a row has the line behind them."""
        return nullcontext()

    def _spans(
        self, number: int, generation: int, start: int, stop: int
    ) -> list[_Span]:
        self._span([(number, generation)])
        found = self._spanned[number, generation]
        return [span for span in found if span.start < stop and span.stop > start]

    def _bytes(self, span: _Span, following: Sequence[_Span]) -> bytes:
        """Return the bytes of a span; those of some that follow are fetched with it."""
        raw = self._own.find(span.address)
        if raw is None:
            self._ahead(following)
            raw = self._own.find(span.address)
        if raw is None:
            # Fetched alone it says what is wrong with it.
            raw = self._objects.bytes_of(span.address)
            if digest(raw) != span.sha256:
                raise ArchiveDamaged(Path(span.address), "it has another hash")
            self._keep(span.address, raw)
        return raw

    def _ahead(self, spans: Sequence[_Span]) -> None:
        """Fetch the bytes of the first spans: as many as are not too much at once."""
        weight, ahead = 0, list[_Span]()
        for one in spans:
            weight += one.stop - one.start
            if ahead and weight > _AHEAD:
                break
            ahead.append(one)
        self._fetch(ahead)

    def _fetch(self, spans: Iterable[_Span]) -> None:
        """Fetch bytes at once; such as are missing or damaged are left out."""
        new: dict[str, _Span] = {}
        for one in spans:
            if self._own.find(one.address) is None:
                raw = self._shared.find(one.address)
                if raw is None:
                    new[one.address] = one
                else:
                    self._own.keep(one.address, raw)
        for address, raw in self._objects.several(list(new)).items() if new else ():
            if digest(raw) == new[address].sha256:
                self._keep(address, raw)

    def _keep(self, address: str, raw: bytes) -> None:
        self._own.keep(address, raw)
        self._shared.keep(address, raw)

    def _kept(self, row: Sequence[object]) -> Kept:
        """Return a source by its row; its unfinished line is kept for who asks."""
        *told, frame = row
        kept = _kept(told)
        if isinstance(frame, bytes) and frame:
            raw = self._fragments[kept.number, kept.generation] = unpress(frame)
            kept = replace(kept, size=kept.kept + len(raw))
        return kept


def _kept(row: Sequence[object]) -> Kept:
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
