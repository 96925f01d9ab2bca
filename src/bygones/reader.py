"""Reads sessions directly from files, without an archive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import structs

from bygones.assemble.agents import JournalNodes, journal_nodes_by_agent
from bygones.assemble.sessions import assemble_sessions
from bygones.assemble.summary import SummariesByLeaf, collect_summaries
from bygones.errors import NoTranscriptsFound, PathNotFound
from bygones.model.base import Position, Problem, SourceFile, SourceId, SourceKind
from bygones.model.nodes import AgentSidecar, LocatedRecord, RecordNode, Transcript
from bygones.model.problem_runs import ProblemRuns, repeat_problem
from bygones.model.sessions import Session
from bygones.parse.light import (
    RecordLimit,
    build_node,
    is_empty_node,
    parse_line_light,
)
from bygones.parse.loader import RecordLoader, stored_output_id
from bygones.parse.metadata import parse_agent_sidecar
from bygones.sources.lines import read_at, read_lines
from bygones.sources.walk import discover_sources

_MAX_TOOL_RESULT_SIZE = 16 * 1024 * 1024
_CHUNK_SIZE = 1024 * 1024
_READ_AHEAD = 128 * 1024
"""Bytes that are read at once if records are small."""


def read_sessions(path: str | Path) -> TranscriptReader:
    """Return the sessions in a Claude Code home, a folder of transcripts, or one file.

    Files are read during iteration, one project at a time. The content of messages is
    loaded when you access it.

    >>> (session,) = read_sessions("tests/cases/rewind_parallel/input")
    >>> for turn in session.live_branch.turns:
    ...     print(turn.prompt.preview, [call.label for call in turn.tool_calls])
    Look at both ['/work/demo/1.txt', '/work/demo/2.txt']
    Keep them []
    >>> [branch.prompts[0].preview for branch in session.branches[1:]]
    ['Delete them']
    >>> session.live_branch.messages[-1].blocks[0].text
    'Kept.'
    """
    return TranscriptReader(Path(path))


def read_source_file(source: SourceId) -> Iterator[bytes]:
    """Yield the bytes of a source in chunks; nothing if it is gone."""
    try:
        file = Path(source).open("rb")  # noqa: SIM115 (a generator closes it)
    except OSError:
        return
    with file:
        while chunk := file.read(_CHUNK_SIZE):
            yield chunk


class TranscriptReader:
    """Iterates over the sessions of a path, within each project oldest first."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise PathNotFound(path)
        self.path = path
        self.problems: list[Problem] = []
        """Problems of files that could not be read; sessions have their own."""

    def __iter__(self) -> Iterator[Session]:
        self.problems.clear()
        has_transcripts = False
        paid_keys: set[str] = set()
        groups = list(_group_by_project(self._discover()))
        # A summary may be in another folder than the conversation that it is about.
        summaries = _read_summaries(groups) if len(groups) > 1 else None
        for sources in groups:
            loader = FileLoader()
            has_transcripts |= any(source.kind.is_transcript for source in sources)
            transcripts = _load_transcripts(sources)
            sessions = deque(
                assemble_sessions(transcripts, loader, summaries, paid_keys)
            )
            # Sessions can be freed one by one while the caller iterates.
            while sessions:
                yield sessions.popleft()
        if not has_transcripts:
            raise NoTranscriptsFound(self.path)

    def _discover(self) -> Iterator[SourceFile]:
        for source in discover_sources(self.path):
            if isinstance(source, Problem):
                self.problems.append(source)
            else:
                yield source


def _group_by_project(sources: Iterable[SourceFile]) -> Iterator[list[SourceFile]]:
    """Group sources that may belong together.

    These are the files of one folder, and the folders that contain the same session:
    worktrees and moved projects have folders of their own.
    """
    groups: dict[str, list[SourceFile]] = {}
    alias: dict[str, str] = {}
    for source in sources:
        if source.kind not in _SOURCE_KINDS:
            continue
        folder = f"{source.home}/{source.project_key or _loose_dir(source)}"
        group = alias.setdefault(folder, folder)
        if source.session_id is not None and source.kind is SourceKind.SESSION:
            other = alias.setdefault(f"session {source.session_id}", group)
            if other != group:
                groups.setdefault(other, []).extend(groups.pop(group, []))
                for name, target in alias.items():
                    if target == group:
                        alias[name] = other
                group = other
        groups.setdefault(group, []).append(source)
    yield from groups.values()


_SOURCE_KINDS = {
    SourceKind.SESSION,
    SourceKind.AGENT,
    SourceKind.SIDECAR,
    SourceKind.JOURNAL,
}


def _read_summaries(groups: Iterable[Iterable[SourceFile]]) -> SummariesByLeaf:
    """Return the summaries in all files, without loading anything else of them."""
    transcripts = (
        Transcript(source=source, nodes=tuple(_find_summaries(source)))
        for sources in groups
        for source in sources
        if source.kind is SourceKind.SESSION
    )
    return collect_summaries(transcripts)


def _find_summaries(source: SourceFile) -> Iterator[RecordNode]:
    for line in read_lines(source, merge_repeats=True):
        if isinstance(line, Problem) or b'"leafUuid"' not in line.raw:
            continue
        for found in parse_line_light(line):
            if isinstance(found, LocatedRecord) and found.record.type == "summary":
                yield build_node(found)


def _loose_dir(source: SourceFile) -> str:
    """Return the folder of a file outside a home; agents belong to their session's."""
    path = source.relative_path.partition("/subagents/")[0]
    return path.rpartition("/")[0]


def _load_transcripts(sources: Iterable[SourceFile]) -> Iterator[Transcript]:
    sidecars: dict[str, SourceFile] = {}
    journals: dict[str, JournalNodes] = {}
    transcripts = []
    for source in sources:
        if source.kind is SourceKind.SIDECAR:
            sidecars[source.id.removesuffix(".meta.json")] = source
        elif source.kind is SourceKind.JOURNAL:
            folder = source.id.rpartition("/")[0]
            journals[folder] = journal_nodes_by_agent(load_transcript(source).nodes)
        else:
            transcripts.append(source)
    for source in transcripts:
        sidecar = sidecars.get(source.id.removesuffix(".jsonl"))
        journal = journals.get(source.id.rpartition("/")[0], {})
        steps = journal.get(source.agent_id, ()) if source.agent_id else ()
        yield structs.replace(load_transcript(source, sidecar), journal_nodes=steps)


def load_transcript(
    source: SourceFile, sidecar: SourceFile | None = None
) -> Transcript:
    """Return the nodes of a source, and the problems found in it."""
    nodes: list[RecordNode] = []
    limit = RecordLimit()
    problems = ProblemRuns()
    for line in read_lines(source, merge_repeats=True):
        if isinstance(line, Problem):
            problems.add(line)
            continue
        for found in parse_line_light(line):
            if isinstance(found, LocatedRecord):
                node = build_node(found)
                if is_empty_node(node):
                    continue
                used = limit.select(node)
                if used is not None:
                    nodes.append(used)
                if used is not node:
                    problems.add(Problem("too-many-records", node.position))
            else:
                problems.extend(repeat_problem(found, line))
    return Transcript(
        source=source,
        nodes=tuple(nodes),
        problems=tuple(problems),
        sidecar=_load_sidecar(source, sidecar),
    )


def _load_sidecar(
    source: SourceFile, sidecar: SourceFile | None
) -> AgentSidecar | None:
    if sidecar is None or source.agent_id is None:
        return None
    raw = read_at(Position(sidecar.id, 0, 0, sidecar.size))
    return (
        None if isinstance(raw, Problem) else parse_agent_sidecar(raw, source.agent_id)
    )


class FileLoader(RecordLoader):
    """Loads records from the original files."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer = (SourceId(""), 0, b"")
        """Source, offset and bytes of the last read: records are loaded in order."""

    def read_raw(self, position: Position) -> bytes:
        """Return the bytes at a position; empty if the file is gone."""
        source, start, buffer = self._buffer
        at = position.offset - start
        if source == position.source_id and 0 <= at <= len(buffer) - position.length:
            return buffer[at : at + position.length]
        raw = read_at(position, read_ahead=_READ_AHEAD)
        if isinstance(raw, Problem):
            return b""
        if position.length < _READ_AHEAD:
            self._buffer = (position.source_id, position.offset, raw)
        return raw[: position.length]

    def load_stored_output(self, position: Position, path: str) -> str | None:
        source = stored_output_id(position, path)
        if source is None:
            return None
        lines = []
        size = 0
        for line in read_lines(source):
            if isinstance(line, Problem):
                return None
            size += len(line.raw) + 1
            if size > _MAX_TOOL_RESULT_SIZE:
                break
            lines.append(line.raw)
        return b"\n".join(lines).decode("utf-8", "replace")
