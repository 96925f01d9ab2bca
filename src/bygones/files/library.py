"""Histories of files in an archive."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property, lru_cache, partial
from pathlib import Path

from msgspec import Struct, structs

from bygones.errors import (
    AmbiguousSelector,
    ArchiveDamaged,
    NotATextFile,
    NotInArchive,
)
from bygones.files.blame import BlamedLine, FindNoted, blame_text
from bygones.files.disk import read_regular_file
from bygones.files.edits import FileEdits
from bygones.files.events import Place, decode_bytes, find_branch
from bygones.files.git import GitLine, GitRepository, find_repository
from bygones.files.git_notes import NOTES_REF, NotedRange, parse_note, turn_key
from bygones.files.history import (
    BranchLog,
    FileAt,
    FileHistory,
    files_at,
    without_copies,
)
from bygones.files.origins import Certainty, LineOrigin, OriginKind
from bygones.files.paths import file_name, path_key, relative_to
from bygones.files.replay import Version
from bygones.files.report import turn_label
from bygones.model.base import SessionId, SourceKind
from bygones.model.checkpoints import CHECKPOINT_LOG, Checkpoints, parse_checkpoints
from bygones.model.nodes import parse_user_text
from bygones.model.outcomes import PatchHunk, build_hunks
from bygones.model.path_case import ignores_case, path_ends_with
from bygones.model.projects import ProjectDirectories
from bygones.model.records import TextBlock, ThinkingBlock
from bygones.model.sessions import Branch, Message, Session, ToolCall
from bygones.model.summary import IndexedEdit, Role
from bygones.runtime import gc_paused
from bygones.sources.layout import CHECKPOINTS_FOLDER
from bygones.store.archive_db import ArchiveDB
from bygones.store.local_reader import find_session
from bygones.store.protocols import StoreReader

_WORKTREE = re.compile(r"/(?:\.claude/)?\.?worktrees/[^/]+(?=/)")
_MAX_CACHED_SESSIONS = 64
_MAX_CACHED_NAMES = 16
_MAX_SUGGESTIONS = 3


class FileLibrary:
    """Finds files in an archive, and loads the sessions that changed them.

    With ``uses_git``, commits of the repositories on this machine are used where a
    transcript does not contain the content that an edit was made to.
    """

    def __init__(
        self,
        reader: StoreReader,
        load_session: Callable[[SessionId], Session],
        directories: ProjectDirectories | None = None,
        *,
        uses_git: bool = False,
    ) -> None:
        self._reader = reader
        self._directories = directories or ProjectDirectories()
        self._edits_with_suffix = lru_cache(_MAX_CACHED_NAMES)(
            FileEdits(reader).edits_with_suffix
        )
        self._uses_git = uses_git
        self._load_session = lru_cache(_MAX_CACHED_SESSIONS)(load_session)

    def session_id(self, name: str) -> SessionId:
        """Return the id of a session by its id, or by a unique prefix of it.

        Raises `NotInArchive` or `AmbiguousSelector`.
        """
        return find_session(self._reader.lookup, name).id

    def open(
        self,
        path: str,
        absolute_path: str = "",
        session_id: SessionId | None = None,
    ) -> ArchivedFile:
        """Return the history of a file by its path, or by the end of its path.

        A file of a moved project is also found by its present path; if both paths were
        changed, it is that of the session, otherwise the present one.

        Raises `NotInArchive`, or `AmbiguousSelector` if several files end like this.
        """
        file = self._find(path, absolute_path or path, session_id)
        if file is None:
            raise self._not_found(path, absolute_path or path)
        return file

    def _find(
        self, path: str, absolute_path: str, session_id: SessionId | None = None
    ) -> ArchivedFile | None:
        edits = self._edits_with_suffix(file_name(path)) if file_name(path) else []
        names = self.names(absolute_path)
        own = {path_key(edit.path) for edit in edits if edit.session_id == session_id}
        names.sort(key=lambda name: path_key(name) not in own)
        keys = _choose_keys(edits, path, names) if edits else []
        if not keys:
            return None
        by_key = {key: [e for e in edits if path_key(e.path) == key] for key in keys}
        groups = {_canonical(key): key for key in sorted(keys, key=len, reverse=True)}
        if len(groups) > 1:
            names = [by_key[key][-1].path for key in groups.values()]
            raise AmbiguousSelector("file", path, names)
        (key,) = groups.values()
        canonical = _canonical(key)
        related = {
            path_key(edit.path): edit.path
            for edit in edits
            if _canonical(path_key(edit.path)) == canonical
        }
        related.pop(key)
        return ArchivedFile(self, by_key[key][-1].path, tuple(related.values()))

    def _not_found(self, path: str, absolute_path: str) -> NotInArchive:
        """Return an error that suggests files with similar names in the same folder."""
        folder = absolute_path.rpartition("/")[0]
        edits = self._reader.edits.edits_under(folder) if folder else ()
        names = {relative_to(edit.path, folder) for edit in edits} - {None}
        wanted = file_name(path)
        by_name = {file_name(name): name for name in sorted(filter(None, names))}
        similar = get_close_matches(wanted, by_name, _MAX_SUGGESTIONS)
        start = path[: -len(wanted)] if wanted else path
        found = [f"{start}{by_name[name]}" for name in similar]
        return NotInArchive("changed file", path, found)

    def sessions_of(self, path: str) -> list[SessionId]:
        """Return the sessions that changed a file, oldest change first."""
        return list(dict.fromkeys(edit.session_id for edit in self._edits_of(path)))

    def abandoned_branches(self, path: str) -> list[tuple[SessionId, int]]:
        """Return the abandoned branches that changed a file, oldest change first."""
        found = (
            (edit.session_id, edit.branch_number)
            for edit in self._edits_of(path)
            if edit.branch_number
        )
        return list(dict.fromkeys(found))

    def is_on_live_branch(self, path: str) -> bool:
        """Whether any other than abandoned branches changed a file, or nothing did."""
        branches = [edit.branch_number for edit in self._edits_of(path)]
        return 0 in branches or not branches

    def _edits_of(self, path: str) -> Iterator[IndexedEdit]:
        edits, key = self._edits_with_suffix(file_name(path)), path_key(path)
        return (edit for edit in edits if path_key(edit.path) == key)

    def log(
        self,
        session_id: SessionId,
        *,
        branch: int = 0,
        stop_turn: int | None = None,
        stop_time: float | None = None,
    ) -> BranchLog:
        """Return the calls of a branch, up to a turn or time.

        Raises `NotInArchive` if there is no such session or branch.
        """
        session = self._load_session(session_id)
        return BranchLog(
            session,
            _require_branch(session, branch),
            stop_turn=stop_turn,
            stop_time=stop_time,
            load_backup=self._load_backup,
            checkpoints=self._load_checkpoints(session_id),
            load_content=partial(self._load_checkpoint_file, session_id),
        )

    def check_turn(self, session_id: SessionId, branch: int, turn: int | None) -> None:
        """Raise `NotInArchive` if a branch of a session does not have a turn."""
        session = self._load_session(session_id)
        if turn is not None and turn >= len(_require_branch(session, branch).turns):
            raise NotInArchive("turn", turn_label(session_id, turn, branch))

    def files_at(
        self, session_id: SessionId, turn: int, *, branch: int = 0, is_before: bool
    ) -> list[FileAt]:
        """Return the files that a session changed, as they were at a turn.

        That is after the turn, or before it; before it includes files which the session
        changed later only.
        """
        stop = turn if is_before else turn + 1
        log = self.log(session_id, branch=branch, stop_turn=stop)
        found = files_at(log, looks_ahead=is_before, load_bases=self.load_bases)
        return [
            structs.replace(file, path=self.present_path(file.path)) for file in found
        ]

    def names(self, path: str) -> list[str]:
        """Return a path, and what it was before its project was moved."""
        return [path, *self._directories.former_names(path)]

    def present_path(self, path: str) -> str:
        """Return where a recorded file is now, if its project was moved."""
        moved = self._directories.present_name(path)
        return path if moved == path or os.path.lexists(path) else moved

    def read_transaction(self) -> AbstractContextManager[None]:
        """Let all reads see the same state; this also saves checks for each session."""
        return self._reader.read_transaction()

    def with_git(self) -> FileLibrary:
        """Return a library that also uses the repositories on this machine."""
        return FileLibrary(
            self._reader, self._load_session, self._directories, uses_git=True
        )

    def load_bases(self, path: str, time: datetime | None) -> Iterator[str]:
        """Yield the committed contents of a file, likely ones at a time first."""
        place = Path(path)
        if not self._uses_git or not place.is_absolute():
            return
        repository = find_repository(place)
        for raw in repository.file_versions(place, time) if repository else ():
            text = decode_bytes(raw)
            if text is not None:
                yield text

    def blame(
        self, path: Path, name: str = "", *, reads_disk: bool = True
    ) -> FileBlame:
        """Return who wrote each line of a file in the working tree.

        A file that does not exist any more, or may not be read, is shown as it was
        last; it may also be found by ``name``, the end of its path. Raises
        `NotInArchive` if no session changed it, and `NotATextFile` if it is binary.
        """
        try:
            raw = read_regular_file(path) if reads_disk else None
        except OSError:
            raw = None
        if raw is None:
            return self._blame_last_version(name or str(path), str(path))
        text = decode_bytes(raw)
        if text is None:
            raise NotATextFile(path)
        repository = find_repository(path)
        git_lines = repository.blame(path) if repository else []
        files = self._find_related(path, git_lines, repository)
        find_noted = self._read_notes(repository, git_lines)
        if not files and not any(map(find_noted, git_lines)):
            raise NotInArchive("changed file", str(path))
        histories = self._open_histories(files, path)
        lines = blame_text(text, histories, git_lines, find_noted)
        return FileBlame(path=str(path), lines=tuple(lines))

    def _open_histories(
        self, files: list[ArchivedFile], path: Path
    ) -> list[FileHistory]:
        """Return the history of a file with its former names, and related ones."""
        if not files:
            return []
        if path_key(files[0].path) != path_key(str(path)):
            # It was renamed since: continue from the name that was used last.
            files.sort(key=ArchivedFile.last_time, reverse=True)
        main, *others = files
        former = [file for file in others if file.ended_before(main)]
        histories = [main.open_history(former=[file.path for file in former])]
        histories += (file.history for file in others if file not in former)
        return histories

    def _read_notes(
        self, repository: GitRepository | None, git_lines: Sequence[GitLine]
    ) -> FindNoted:
        """Return a function that says what notes of git-ai say about a line."""
        commits = {line.commit.sha for line in git_lines}
        raws = repository.notes(NOTES_REF, commits) if repository and commits else ()
        parsed = ((sha, parse_note(raw)) for sha, raw in raws)
        notes = {sha: note for sha, note in parsed if note is not None}

        def find_noted(line: GitLine) -> LineOrigin | None:
            note = notes.get(line.commit.sha)
            author = note.author(line.path, line.number) if note else None
            if author is None or not author.agent.tool.startswith("claude"):
                return None
            return LineOrigin(
                kind=OriginKind.CLAUDE,
                certainty=Certainty.LIKELY,
                place=self._find_noted_turn(author),
                time=line.commit.committed_at,
                commit=line.commit.sha,
            )

        return find_noted

    def _find_noted_turn(self, author: NotedRange) -> Place | None:
        """Return the turn that a note names, if its session is in the archive."""
        try:
            session = self._load_session(SessionId(author.agent.id))
        except NotInArchive:
            return None
        for turn in session.branches[0].turns if session.branches else ():
            if turn_key(session.id, turn.number) == author.trace:
                return Place(session_id=session.id, turn_number=turn.number)
        return None

    def _find_related(
        self, path: Path, git_lines: Sequence[GitLine], repository: GitRepository | None
    ) -> list[ArchivedFile]:
        """Return the file itself, and what it was called or where it was copied from."""
        names = [*self.names(str(path)), *self.names(str(path.resolve()))]
        if repository:
            former = dict.fromkeys(line.path for line in git_lines)
            former |= dict.fromkeys(repository.former_paths(path))
            names += (str(repository.root / inside) for inside in former)
        found: dict[str, ArchivedFile] = {}
        for wanted in names:
            try:
                file = self._find(wanted, wanted)
            except AmbiguousSelector:
                continue
            if file is not None and _is_same_file(file.path, wanted, repository):
                for own in (file.path, *file.related_paths):
                    found.setdefault(path_key(own), ArchivedFile(self, own))
        return list(found.values())

    def _blame_last_version(self, name: str, path: str) -> FileBlame:
        file = self.open(name, path)
        # A file that was deleted is shown as it was before.
        known = [v.number for v in file.versions if v.is_known and v.exists]
        return _recorded_blame(file.path, file.blame((known or [-1])[-1]))

    def prompt(self, place: Place) -> str:
        """Return what the user asked for in the turn of a change."""
        session = self._load_session(place.session_id)
        branch = _require_branch(session, place.branch_number)
        prompt = branch.find_prompt(place.turn_number)
        return _message_text(prompt) if prompt else ""

    def title(self, session_id: SessionId) -> str:
        """Return the title of a session."""
        return self._load_session(session_id).title.text

    def describe(self, place: Place, path: str = "") -> TurnDetails:
        """Return the prompt, the reasoning and the patch of a change."""
        session = self._load_session(place.session_id)
        message, call = _find_call(session, place)
        return TurnDetails(
            title=session.title.text,
            prompt=self.prompt(place),
            reasoning=_message_text(message) if message else "",
            hunks=build_hunks(call.outcome, call.raw_input, path) if call else (),
        )

    def _load_backup(self, session_id: SessionId, name: str) -> bytes | None:
        return self._load_file("file-history", session_id, name)

    def _load_checkpoint_file(self, session_id: SessionId, name: str) -> bytes | None:
        return self._load_file(CHECKPOINTS_FOLDER, session_id, name)

    @cached_property
    def _sessions_with_checkpoints(self) -> frozenset[SessionId]:
        byte_store = self._reader.byte_store
        if not isinstance(byte_store, ArchiveDB):
            return frozenset()  # checkpoints are not pushed
        sources = byte_store.sources_of_kind(SourceKind.CHECKPOINT)
        return frozenset(source.session for source in sources if source.session)

    def _load_checkpoints(self, session_id: SessionId) -> Checkpoints:
        lineage = self._load_session(session_id).lineage
        owners = {session_id, *(one.session_id for one in lineage)}
        if self._sessions_with_checkpoints.isdisjoint(owners):
            return {}
        raw = self._load_file(CHECKPOINTS_FOLDER, session_id, CHECKPOINT_LOG)
        return parse_checkpoints(raw) if raw else {}

    def _load_file(self, folder: str, session_id: SessionId, name: str) -> bytes | None:
        """Load a file that belongs to a session, or to one that it continues."""
        session = self._load_session(session_id)
        homes = dict.fromkeys(source.home for source in session.sources)
        owners = (session.id, *(lineage.session_id for lineage in session.lineage))
        byte_store = self._reader.byte_store
        for home in homes:
            for owner in owners:
                stored = byte_store.find_source(home, f"{folder}/{owner}/{name}")
                if stored is not None:
                    place = (stored.number, stored.generation)
                    try:
                        return byte_store.read_bytes(*place, 0, stored.stored_bytes)
                    except ArchiveDamaged:
                        return None
        return None


def _recorded_blame(path: str, lines: Iterable[tuple[str, LineOrigin]]) -> FileBlame:
    blamed = (
        BlamedLine(number=number, text=text, origin=origin)
        for number, (text, origin) in enumerate(lines, 1)
    )
    return FileBlame(path=path, lines=tuple(blamed), is_on_disk=False)


def _require_branch(session: Session, number: int) -> Branch:
    branch = find_branch(session, number)
    if branch is None:
        raise NotInArchive("branch", f"{session.id[:8]}~{number + 1}")
    return branch


def _is_same_file(recorded: str, path: str, repository: GitRepository | None) -> bool:
    """Whether a recorded path is a file of the working tree, maybe before a move."""
    if path_key(recorded) == path_key(path):
        return True
    if repository is None:
        return False
    inside = relative_to(path, str(repository.root))
    if not inside or not path_ends_with(recorded, inside):
        return False
    root = recorded[: -len(inside) - 1]
    # A directory that still exists is another copy of the project.
    return _canonical(f"{root}/") != f"{root}/" or not Path(root).is_dir()


def _find_call(
    session: Session, place: Place
) -> tuple[Message | None, ToolCall | None]:
    """Return the message and the call at a place, if they are there."""
    branches: Sequence[Branch] = session.branches
    if place.agent_id is not None:
        runs = [run for run in session.all_agents if run.id == place.agent_id]
        branches = [branch for run in runs for branch in run.branches]
    for branch in branches:
        for turn in branch.own_turns:
            for message in turn.messages:
                if message.id == place.message_id:
                    calls = (c for c in message.tool_calls if c.id == place.call_id)
                    return message, next(calls, None)
    return None, None


def _message_text(message: Message) -> str:
    """Return what was thought and said in a message."""
    texts = []
    for block in message.blocks:
        if isinstance(block, TextBlock):
            text = block.text
            if message.role is Role.USER and text:
                text = parse_user_text(text).typed_text
            texts.append(text)
        elif isinstance(block, ThinkingBlock):
            texts.append(block.thinking)
    return "\n\n".join(text.strip() for text in texts if text and text.strip())


def _canonical(key: str) -> str:
    """Return a path as it would be outside of a worktree."""
    return _WORKTREE.sub("", key)


def _choose_keys(
    edits: Sequence[IndexedEdit], path: str, absolute_paths: Sequence[str]
) -> list[str]:
    """Return the files that a path may mean: itself, or those that end most like it.

    ``absolute_paths`` are its names, the preferred one first.
    """
    paths = {path_key(edit.path): edit.path for edit in edits}
    keys = list(paths)
    for name in absolute_paths:
        if path_key(name) in paths:
            return [path_key(name)]
    suffix = path_key(path).lstrip("./")
    if named := [key for key in keys if path_ends_with(paths[key], suffix)] or [
        key for key in keys if path_ends_with(key, suffix)
    ]:
        return named
    # A project that was moved: the end of the path is the same.
    scores = {key: _common_suffix(paths[key], absolute_paths[0]) for key in keys}
    best = max(scores.values())
    if best < 2:  # noqa: PLR2004 (a name alone says too little)
        return []
    return [key for key, score in scores.items() if score == best]


def _common_suffix(a: str, b: str) -> int:
    """Return how many parts at the end of two paths are equal."""
    if ignores_case(a):
        a, b = a.lower(), b.lower()
    count = 0
    sides = (path.replace("\\", "/").split("/")[::-1] for path in (a, b))
    for part, other in zip(*sides, strict=False):
        if part != other:
            break
        count += 1
    return count


class FileBlame(Struct, frozen=True, kw_only=True):
    """The lines of a file with their origins."""

    path: str
    lines: tuple[BlamedLine, ...]
    is_on_disk: bool = True
    """Otherwise the lines are those of the last version in the archive."""


class TurnDetails(Struct, frozen=True, kw_only=True):
    """The conversation around a change."""

    title: str = ""
    prompt: str = ""
    """What the user asked for in the turn."""
    reasoning: str = ""
    """What Claude thought and said in the message that made the change."""
    hunks: tuple[PatchHunk, ...] = ()


class ArchivedFile:
    """A file that sessions changed, with all its versions.

    Example::

        file = archive.file("src/app.py")
        for version in file.versions:
            print(version.time, version.kind, version.place.session_id)
        print(file.at("5e551000", 3).text)
    """

    def __repr__(self) -> str:
        return f"<ArchivedFile {self.path!r}>"

    def __init__(
        self, library: FileLibrary, path: str, related_paths: Sequence[str] = ()
    ) -> None:
        self.path = path
        self.related_paths = related_paths
        """The same file in worktrees."""
        self._library = library
        self._key = path_key(path)

    @cached_property
    def history(self) -> FileHistory:
        """The versions on the live branches of all sessions."""
        return self.open_history()

    def open_history(
        self, *, stop_time: float | None = None, former: Sequence[str] = ()
    ) -> FileHistory:
        """Return the versions up to a time, including those at former paths."""
        paths = [*former, self.path]
        sessions = [id_ for path in paths for id_ in self._library.sessions_of(path)]

        def find_logs(path: str) -> list[BranchLog]:
            found = self._library.sessions_of(path)
            return [self._library.log(id_, stop_time=stop_time) for id_ in found]

        with gc_paused(), self._library.read_transaction():
            logs = [
                self._library.log(session_id, stop_time=stop_time)
                for session_id in dict.fromkeys(sessions)
            ]
            return FileHistory(
                self.path,
                self._key,
                without_copies(logs),
                former_keys=[path_key(path) for path in former],
                load_bases=self._library.load_bases,
                find_logs=find_logs,
            )

    def ended_before(self, other: ArchivedFile) -> bool:
        """Whether all its versions are older than those of another file."""
        last, first = self.versions[-1:], other.versions[:1]
        times = [version.time for version in (*last, *first)]
        return len(times) == 2 and bool(  # noqa: PLR2004 (one of each)
            times[0] and times[1] and times[0] <= times[1]
        )

    def last_time(self) -> float:
        """Return when it was last changed, as a timestamp."""
        time = self.versions[-1].time if self.versions else None
        return time.timestamp() if time else 0.0

    @property
    def versions(self) -> Sequence[Version]:
        """All versions, oldest first; abandoned branches are left out."""
        return self.history.versions

    def text(self, number: int = -1) -> str | None:
        """Return the content of a version; none if it is unknown or deleted."""
        return self.history.text(number)

    def blame(self, number: int = -1) -> list[tuple[str, LineOrigin]]:
        """Return the lines of a version with their origins, by default of the last."""
        return self.history.blame(number)

    def blame_at(
        self, session: str, turn: int | None = None, *, branch: int = 0
    ) -> FileBlame | None:
        """Return who wrote the lines that the file had after a turn of a session.

        Turns count from 0; without one it is the last. None if the content is not
        known, or if the file did not exist.
        """
        session_id = self._library.session_id(session)
        self._library.check_turn(session_id, branch, turn)
        stop = None if turn is None else turn + 1
        history = self.open_branch(session_id, branch, stop_turn=stop)
        if history.text() is None:
            return None
        return _recorded_blame(self.path, history.blame())

    def at(
        self,
        session: str,
        turn: int | None = None,
        *,
        branch: int = 0,
        is_before: bool = False,
    ) -> FileAt:
        """Return the file as it was after a turn of a session, or before it.

        Turns count from 0; without one it is the last. Other sessions count up to the
        end of that turn. Raises `NotInArchive` if there is no such turn or branch.
        """
        session_id = self._library.session_id(session)
        self._library.check_turn(session_id, branch, turn)
        stop = None if turn is None else turn + (not is_before)
        return self.open_branch(
            session_id, branch, stop_turn=stop, looks_ahead=is_before
        ).last

    def open_branch(
        self,
        session_id: SessionId,
        branch: int,
        *,
        stop_turn: int | None = None,
        looks_ahead: bool = False,
    ) -> FileHistory:
        """Return the versions as a branch of a session had them, up to a turn.

        Other sessions count up to its end.
        """
        log = self._library.log(session_id, branch=branch, stop_turn=stop_turn)

        def find_others(path: str) -> list[BranchLog]:
            return [
                self._library.log(other, stop_time=log.end)
                for other in self._library.sessions_of(path)
                if other != session_id
            ]

        with gc_paused(), self._library.read_transaction():
            return FileHistory(
                self.path,
                self._key,
                without_copies([*find_others(self.path), log], log),
                looks_ahead=looks_ahead,
                load_bases=self._library.load_bases,
                find_logs=find_others,
            )

    @property
    def abandoned_branches(self) -> list[tuple[SessionId, int]]:
        """The abandoned branches that changed the file, as session and number."""
        return self._library.abandoned_branches(self.path)

    def at_time(self, time: datetime) -> FileAt:
        """Return the file as it was at a time."""
        return self.open_history(stop_time=time.timestamp()).last
