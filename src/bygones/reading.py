"""Reading sessions straight from files, without any archive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import structs

from bygones.assemble import Steps, assemble, steps_of
from bygones.errors import NothingFound, PathMissing
from bygones.model.ids import Position, SourceId
from bygones.model.nodes import AgentNote, Transcript
from bygones.model.problems import Problem
from bygones.model.sessions import Session
from bygones.model.sketches import Sketched
from bygones.model.sources import Source, SourceKind
from bygones.parse import RecordLoader, node_of, parse_note, sketch_line
from bygones.sources import discover, read_at, read_lines

__all__ = ["Reading", "raws", "read"]

_STORED_LIMIT = 16 * 1024 * 1024
_PIECE = 1024 * 1024
_AHEAD = 128 * 1024
"""Bytes that are read at once where records are small."""


def read(path: str | Path) -> Reading:
    """Return the sessions in a home, a folder of transcripts, or one file.

    Nothing is read before it is iterated; one project's structure is in memory at a
    time, and what was said is opened when it is asked for.

    >>> (session,) = read("tests/cases/rewind_parallel/input")
    >>> for turn in session.live.turns:
    ...     print(turn.prompt.head, [call.note for call in turn.calls])
    Look at both ['/work/demo/1.txt', '/work/demo/2.txt']
    Keep them []
    >>> [branch.prompts[0].head for branch in session.branches[1:]]
    ['Delete them']
    >>> session.live.messages[-1].blocks[0].text
    'Kept.'
    """
    return Reading(Path(path))


def raws(source: SourceId) -> Iterator[bytes]:
    """Yield the bytes of a source, piece by piece; none where it is gone."""
    try:
        file = Path(source).open("rb")  # noqa: SIM115 (a generator closes it)
    except OSError:
        return
    with file:
        while piece := file.read(_PIECE):
            yield piece


class Reading:
    """Sessions of a path, oldest first within each project."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise PathMissing(path)
        self.path = path
        self.problems: list[Problem] = []
        """Of files that could not be read at all; sessions hold their own."""

    def __iter__(self) -> Iterator[Session]:
        """Yield sessions, project by project."""
        self.problems.clear()
        found = False
        paid: set[str] = set()
        for sources in _projects(self._sources()):
            loader = FileLoader()
            found = found or any(source.kind.is_transcript for source in sources)
            waiting = deque(assemble(_transcripts(sources), loader, paid=paid))
            # Whoever is done with a session need not hold it for the next.
            while waiting:
                yield waiting.popleft()
        if not found:
            raise NothingFound(self.path)

    def _sources(self) -> Iterator[Source]:
        for source in discover(self.path):
            if isinstance(source, Problem):
                self.problems.append(source)
            else:
                yield source


def _projects(sources: Iterable[Source]) -> Iterator[list[Source]]:
    """Group sources that may belong together.

    That is the files of one folder, and folders that hold pieces of one session: a
    worktree or a moved project has its own.
    """
    groups: dict[str, list[Source]] = {}
    alias: dict[str, str] = {}
    for source in sources:
        if source.kind not in _READ:
            continue
        folder = f"{source.home}/{source.project or _folder(source)}"
        group = alias.setdefault(folder, folder)
        if source.session is not None and source.kind is SourceKind.SESSION:
            other = alias.setdefault(f"session {source.session}", group)
            if other != group:
                groups.setdefault(other, []).extend(groups.pop(group, []))
                for name, target in alias.items():
                    if target == group:
                        alias[name] = other
                group = other
        groups.setdefault(group, []).append(source)
    yield from groups.values()


_READ = {
    SourceKind.SESSION,
    SourceKind.AGENT,
    SourceKind.SIDECAR,
    SourceKind.JOURNAL,
}


def _folder(source: Source) -> str:
    """Return the folder of a loose file, with that of its agents."""
    path = source.path.partition("/subagents/")[0]
    return path.rpartition("/")[0]


def _transcripts(sources: Iterable[Source]) -> Iterator[Transcript]:
    notes: dict[str, Source] = {}
    journals: dict[str, Steps] = {}
    files = []
    for source in sources:
        if source.kind is SourceKind.SIDECAR:
            notes[source.id.removesuffix(".meta.json")] = source
        elif source.kind is SourceKind.JOURNAL:
            folder = source.id.rpartition("/")[0]
            journals[folder] = steps_of(transcript_of(source).nodes)
        else:
            files.append(source)
    for source in files:
        told = transcript_of(source, notes.get(source.id.removesuffix(".jsonl")))
        journal = journals.get(source.id.rpartition("/")[0], {})
        steps = journal.get(source.agent, ()) if source.agent else ()
        yield structs.replace(told, steps=steps)


def transcript_of(source: Source, sidecar: Source | None = None) -> Transcript:
    """Return the nodes of a source, with the problems met on the way."""
    nodes = []
    problems: list[Problem] = []
    for line in read_lines(source):
        if isinstance(line, Problem):
            problems.append(line)
            continue
        for found in sketch_line(line):
            if isinstance(found, Sketched):
                nodes.append(node_of(found))
            else:
                problems.append(found)
    return Transcript(
        source=source,
        nodes=tuple(nodes),
        problems=tuple(problems),
        note=_note(source, sidecar),
    )


def _note(source: Source, sidecar: Source | None) -> AgentNote | None:
    if sidecar is None or source.agent is None:
        return None
    raw = read_at(Position(sidecar.id, 0, 0, sidecar.size))
    return None if isinstance(raw, Problem) else parse_note(raw, source.agent)


class FileLoader(RecordLoader):
    """Opens records from the files that they were found in."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = (SourceId(""), 0, b"")
        """Some bytes of a source and where they begin: records are read in order."""

    def raw(self, position: Position) -> bytes:
        """Return the bytes at a position; none where the file is gone."""
        source, start, known = self._ahead
        at = position.offset - start
        if source == position.source and 0 <= at <= len(known) - position.length:
            return known[at : at + position.length]
        found = read_at(position, ahead=_AHEAD)
        if isinstance(found, Problem):
            return b""
        if position.length < _AHEAD:
            self._ahead = (position.source, position.offset, found)
        return found[: position.length]

    def stored(self, position: Position, path: str) -> str | None:
        """Return a long output from the session's own folder, whatever the path says.

        Only the name of the file is taken from the transcript.
        """
        session = position.source.partition("/subagents/")[0].removesuffix(".jsonl")
        name = path.replace("\\", "/").rpartition("/")[2]
        if not name or name.startswith("."):
            return None
        place = SourceId(f"{session}/tool-results/{name}")
        lines = []
        size = 0
        for line in read_lines(place):
            if isinstance(line, Problem):
                return None
            size += len(line.raw) + 1
            if size > _STORED_LIMIT:
                break
            lines.append(line.raw)
        return b"\n".join(lines).decode("utf-8", "replace")
