"""Write a new transcript that continues a session from any point on any branch.

Claude Code resumes a session at its end only. A fork contains the records on the path to
another point, with a new session id, and the files that belong to them. Records keep
their ids and bytes except for what the new place needs.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from errno import EEXIST
from pathlib import Path
from typing import TypedDict

import msgspec
from msgspec import Raw, Struct

from bygones.errors import NothingToFork
from bygones.maintenance.fork_path import ForkPath, find_end, fork_id, started_agents
from bygones.maintenance.restore import (
    TargetState,
    cwd_rewriter,
    default_home,
    escapes_home,
    read_stored_bytes,
    remove_leftovers,
    write_file,
)
from bygones.model.base import (
    DECODE_ERRORS,
    UUID_PATTERN,
    Line,
    Position,
    RecordId,
    SessionId,
    SourceId,
    SourceKind,
    decode_path,
)
from bygones.model.machines import is_on_this_machine
from bygones.model.nodes import LocatedRecord
from bygones.model.sessions import AgentRun, Branch, Session, walk_agents
from bygones.parse.light import parse_line_light
from bygones.sources.layout import TEMP_FILE_PREFIX, project_key
from bygones.sources.lines import iter_raw_lines
from bygones.store.archive_db import StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.connect import (
    create_folders,
    fsync_folder,
    lock_file,
    try_lock,
)

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.encode
_SUBAGENTS = ("subagents",)
"""The folder of agents in that of their session."""
_STAGED = "session"
"""The session's folder while it is written."""


class ForkOptions(TypedDict, total=False):
    """Where a fork ends and where it is written; see `Archive.fork`."""

    turn: int | None
    branch: int
    through: bool
    before_compaction: bool
    directory: str | Path | None
    home: str | Path | None


class ForkedSession(Struct, frozen=True, kw_only=True):
    """A new session that was written."""

    session_id: SessionId
    forked_from: SessionId
    path: str
    home: str
    directory: str | None
    """The directory in which to resume it; `None` if it is unknown."""
    title: str
    message_count: int
    file_count: int
    """Files besides the transcript: agents, long outputs and backups."""


def fork_session(  # noqa: PLR0913 (all but three by name and optional)
    archive_dir: ArchiveDir,
    session: Session,
    files: Sequence[StoredSource],
    *,
    turn: int | None = None,
    branch: int = 0,
    through: bool = False,
    before_compaction: bool = False,
    directory: str | Path | None = None,
    home: str | Path | None = None,
) -> ForkedSession:
    """Write a session that ends before a turn of another one; see `Archive.fork`.

    `files` are the stored files of the session. All other files are in place before the
    transcript gets its name, so that a session is complete as soon as it is found. The
    next fork removes what an interrupted one wrote.
    """
    chosen = next(one for one in session.branches if one.number == branch)
    end = find_end(chosen, turn, through=through, before_compaction=before_compaction)
    messages = chosen.messages[:end]
    if not messages:
        raise NothingToFork(session.id)
    sources = _session_sources(archive_dir, session, chosen)
    place = _Place.choose(session, sources, directory, home)
    records = [
        record for source in sources for record in _read_records(archive_dir, source)
    ]
    path = ForkPath(records, session, chosen, end)
    title = f"{session.title.text} (fork)"
    writer = _ForkWriter(archive_dir, session, files, place)
    lines = [*path.lines(writer.rewrite), *writer.last_lines(title, path.leaf)]
    runs = list(walk_agents(started_agents(messages)))
    with _staging_folder(place, writer.session_id):
        writer.write_agents(runs)
        writer.write_outputs(lines)
        writer.write_backups(path.backup_names)
        writer.move_staged()
        writer.write(place.folder / f"{writer.session_id}.jsonl", lines)
    return ForkedSession(
        session_id=writer.session_id,
        forked_from=session.id,
        path=str(place.folder / f"{writer.session_id}.jsonl"),
        home=str(place.home),
        directory=place.directory,
        title=title,
        message_count=len(messages),
        file_count=writer.file_count - 1,
    )


def _session_sources(
    archive_dir: ArchiveDir, session: Session, branch: Branch
) -> list[StoredSource]:
    """Return the stored files of a branch's records, in order.

    A session may continue a file that it contains only the end of.
    """
    own = [one.id for one in session.sources if one.kind is SourceKind.SESSION]
    refs = (ref for message in branch.messages for ref in message.record_refs)
    earlier = [
        id_ for id_ in (ref.position.source_id for ref in refs) if id_ not in own
    ]
    ids = dict.fromkeys((*earlier, *own))
    stored = (archive_dir.byte_store.source_by_id(id_) for id_ in ids)
    found = [source for source in stored if source is not None]
    if not found:
        raise NothingToFork(session.id)
    return found


def _read_records(
    archive_dir: ArchiveDir, source: StoredSource
) -> Iterator[LocatedRecord]:
    offset = 0
    for raw in iter_raw_lines(read_stored_bytes(archive_dir, source)):
        text = raw.removesuffix(b"\n")
        position = Position(source.id, source.generation, offset, len(text))
        for part in parse_line_light(Line(position, text, has_newline=raw != text)):
            if isinstance(part, LocatedRecord):
                yield part
        offset += len(raw)


class _Place(Struct, frozen=True):
    """Where a fork is written."""

    home: Path
    folder: Path
    """The project's folder of transcripts."""
    directory: str | None
    old_directory: str | None

    @classmethod
    def choose(
        cls,
        session: Session,
        sources: Sequence[StoredSource],
        directory: str | Path | None,
        home: str | Path | None,
    ) -> _Place:
        source = max(sources, key=lambda one: (one.session == session.id, one.mtime_ns))
        chosen = Path(home) if home else _home_of(source)
        into = os.path.realpath(Path(directory).expanduser()) if directory else None
        where = into or session.project
        key = project_key(where) if where else source.project or "-"
        return cls(
            home=chosen,
            folder=chosen / "projects" / key,
            directory=where,
            old_directory=session.project,
        )


def _home_of(source: StoredSource) -> Path:
    """Return the home of a file, or the default one if it is not there."""
    own = Path(decode_path(source.home))
    is_here = is_on_this_machine(source.home) and own.is_dir()
    if source.path.startswith("projects/") and is_here:
        return own
    return default_home()


def _staging_path(home: Path, session_id: SessionId) -> Path:
    """Return the folder of a fork that is being written.

    It is outside of `projects`, where agents without a session would be found.
    """
    return home / f"{TEMP_FILE_PREFIX}{session_id}"


@contextmanager
def _staging_folder(place: _Place, session_id: SessionId) -> Iterator[None]:
    """Create the folder of a fork; remove it, and all of the fork if it failed.

    The folder is locked, so that others can see whether its process still runs.
    """
    _remove_interrupted(place.home)
    staging = _staging_path(place.home, session_id)
    create_folders(staging)
    handle = os.open(staging, os.O_RDONLY) if os.name == "posix" else None
    try:
        if handle is not None:
            lock_file(handle)
        yield
        shutil.rmtree(staging, ignore_errors=True)
    except (Exception, KeyboardInterrupt):
        _remove_fork(staging)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _remove_interrupted(home: Path) -> None:
    """Remove what forks wrote whose process was stopped before they were complete."""
    if os.name != "posix":  # pragma: no cover (a folder can't be locked there)
        return
    for staging in home.glob(f"{TEMP_FILE_PREFIX}*-*-*-*-*/"):
        with suppress(OSError):
            handle = os.open(staging, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if try_lock(handle):
                    _remove_fork(staging)
            finally:
                os.close(handle)


def _remove_fork(staging: Path) -> None:
    """Remove the files of a fork without a transcript; the folder with its id last."""
    home, id_ = staging.parent, staging.name.removeprefix(TEMP_FILE_PREFIX)
    if not UUID_PATTERN.fullmatch(id_):
        return
    if not any((home / "projects").glob(f"*/{id_}.jsonl")):
        for folder in (home / "projects").glob(f"*/{id_}/"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home / "file-history" / id_, ignore_errors=True)
    shutil.rmtree(staging, ignore_errors=True)


class _ForkWriter:
    """Writes the files of a fork, and never replaces one."""

    def __init__(
        self,
        archive_dir: ArchiveDir,
        session: Session,
        files: Sequence[StoredSource],
        place: _Place,
    ) -> None:
        self.session_id = SessionId(str(uuid.uuid4()))
        self.file_count = 0
        self._archive_dir = archive_dir
        self._session = session
        self._files = [file for file in files if not escapes_home(file.path)]
        self._place = place
        self._staging = _staging_path(place.home, self.session_id) / _STAGED
        self._time_ns = time.time_ns()
        self._written: set[tuple[int, int]] = set()
        old, new = place.old_directory, place.directory
        self._move = cwd_rewriter(old, new) if old and new and old != new else None

    def rewrite(
        self,
        raw: bytes,
        changes: Mapping[str, object],
        id_: RecordId | None,
    ) -> bytes:
        """Return a line with the new session id, directory and other changed fields.

        A record of the tree, which has an id, says where it was forked from.
        """
        try:
            fields: dict[str, object] = dict(_decode(raw))
        except DECODE_ERRORS:
            return raw
        for name in {"sessionId", "session_id"} & fields.keys():
            fields[name] = self.session_id
        fields.update(changes)
        if id_ is not None:
            id_ = fork_id(id_)
            fields["sessionId"] = self.session_id
            fields["forkedFrom"] = {"sessionId": self._session.id, "messageUuid": id_}
        line = _encode(fields)
        return self._move(line) if self._move else line

    def last_lines(self, title: str, leaf: RecordId) -> Iterator[bytes]:
        """Yield the records that end a fork: its title, and where to continue."""
        own = {"sessionId": self.session_id}
        yield _encode({"type": "custom-title", "customTitle": title, **own})
        yield _encode({"type": "last-prompt", "leafUuid": leaf, **own})

    def write_agents(self, runs: Iterable[AgentRun]) -> None:
        """Write the transcripts of agents, with the files beside them."""
        folders: set[str] = set()
        ids = set()
        for run in runs:
            source = run.source and self._find(run.source.id)
            if source:
                lines = iter_raw_lines(read_stored_bytes(self._archive_dir, source))
                texts = (
                    self.rewrite(line.removesuffix(b"\n"), {}, None) for line in lines
                )
                self.write(self._target(source), texts)
                folders.add(source.id.rpartition("/")[0])
                ids.add(run.id)
        for file in self._files:
            is_sidecar = file.kind is SourceKind.SIDECAR and file.agent in ids
            is_journal = file.kind is SourceKind.JOURNAL
            if is_sidecar or (is_journal and file.id.rpartition("/")[0] in folders):
                self._copy(file, self._target(file))

    def write_outputs(self, lines: Sequence[bytes]) -> None:
        """Write the long outputs that lines name."""
        outputs = [file for file in self._files if file.kind is SourceKind.TOOL_RESULT]
        for file in outputs:
            name = file.path.rpartition("/")[2].encode("utf-8", "surrogateescape")
            if any(name in line for line in lines):
                self._copy(file, self._target(file))

    def write_backups(self, names: AbstractSet[str]) -> None:
        """Write backups of edited files, which `/rewind` restores."""
        folder = self._place.home / "file-history" / self.session_id
        for file in self._files:
            name = file.path.rpartition("/")[2]
            if file.kind is SourceKind.FILE_HISTORY and name in names:
                self._copy(file, folder / decode_path(name))

    def _find(self, source: SourceId) -> StoredSource | None:
        return self._archive_dir.byte_store.source_by_id(source)

    def _target(self, file: StoredSource) -> Path:
        """Return the path of a file of the session's folder in that of the fork."""
        parts = file.path.split("/")
        below = parts[parts.index(file.session) + 1 :] if file.session in parts else ()
        name = below or (*_SUBAGENTS, parts[-1])
        return self._staging / decode_path("/".join(name))

    def move_staged(self) -> None:
        """Move agents and outputs to the session's folder."""
        if self._staging.exists():
            create_folders(self._place.folder)
            self._staging.rename(self._place.folder / self.session_id)
            fsync_folder(self._place.folder)

    def _copy(self, file: StoredSource, path: Path) -> None:
        self._write_bytes(path, read_stored_bytes(self._archive_dir, file))

    def write(self, path: Path, lines: Iterable[bytes]) -> None:
        """Write a transcript."""
        self._write_bytes(path, (line + b"\n" for line in lines))

    def _write_bytes(self, path: Path, parts: Iterable[bytes]) -> None:
        remove_leftovers(path.parent)
        result = write_file(path, parts, self._time_ns, self._written, overwrite=False)
        if result.target_state not in {TargetState.NEW, TargetState.SAME}:
            raise FileExistsError(EEXIST, os.strerror(EEXIST), str(path))
        self.file_count += 1
        fsync_folder(path.parent)
