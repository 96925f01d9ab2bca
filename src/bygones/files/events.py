"""What transcripts say about files: changes, and content that was seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from heapq import merge

import msgspec
from msgspec import Raw, Struct, structs

from bygones.files.paths import file_name, join_path
from bygones.model.base import DECODE_ERRORS, AgentId, RecordId, SessionId, ToolUseId
from bygones.model.metadata import FileBackup, FileDeltaRecord, FileSnapshotRecord
from bygones.model.outcomes import (
    BashOutcome,
    EditOutcome,
    NotebookOutcome,
    Outcome,
    PatchHunk,
    ReadOutcome,
)
from bygones.model.records import TextBlock, ToolResultBlock
from bygones.model.sessions import AgentRun, Branch, Session, ToolCall, Turn


class EventKind(StrEnum):
    """What happened to a file, or how its content was seen."""

    WRITE = "write"
    EDIT = "edit"
    SHELL = "shell"
    """Changed by a command, as Claude Code recorded it."""
    READ = "read"
    PART = "part"
    """A part of the file was read."""
    BACKUP = "backup"
    """Claude Code kept a copy of the file before it changed it."""
    SNAPSHOT = "snapshot"
    """The content right after a command that changed the file."""
    MOVE = "move"
    """A command renamed another file to this one, or this one to another."""


class Place(Struct, frozen=True, kw_only=True, gc=False):
    """Where in a conversation something happened."""

    session_id: SessionId
    branch_number: int = 0
    turn_number: int = 0
    """The turn of the session, also for what an agent did; they count from 0."""
    agent_id: AgentId | None = None
    message_id: RecordId | None = None
    call_id: ToolUseId | None = None
    tool: str = ""


class Replacement(Struct, frozen=True, gc=False):
    """A text that an edit replaces by another."""

    old: str
    new: str
    is_for_all: bool = False


class FileEvent(Struct, frozen=True, kw_only=True):
    """A change of a file, or a look at its content.

    Texts have no byte order mark, and newlines only (see `normalize_text`).
    """

    path: str
    kind: EventKind
    place: Place
    time: datetime | None = None
    before: str | None = None
    """The recorded content before a change."""
    is_new: bool = False
    """Whether the file is recorded not to have existed before."""
    text: str | None = None
    """The content after a change, or as it was seen."""
    raw: bytes | None = None
    """The bytes that were seen, if they are known."""
    is_absent: bool = False
    """Whether the file did not exist afterwards."""
    replacements: tuple[Replacement, ...] = ()
    hunks: tuple[PatchHunk, ...] = ()
    first_line: int = 1
    """The number of the first line of a part, counted from 1."""
    total_lines: int | None = None
    proposed: str | None = None
    """What Claude proposed, if the user changed it before it was accepted."""
    command: str = ""
    from_path: str = ""
    """The former path of a file that was moved; empty if it was moved away."""


class PlacedCall(Struct, frozen=True, gc=False):
    """A tool call that was completed, and where it was made."""

    call: ToolCall
    session_id: SessionId
    branch_number: int
    turn_number: int
    agent_id: AgentId | None
    message_id: RecordId
    order: float
    """Increases along a branch; a timestamp unless the clock went back."""

    @property
    def place(self) -> Place:
        return Place(
            session_id=self.session_id,
            branch_number=self.branch_number,
            turn_number=self.turn_number,
            agent_id=self.agent_id,
            message_id=self.message_id,
            call_id=self.call.id,
            tool=self.call.name,
        )

    @property
    def time(self) -> datetime | None:
        return self.call.completed_at or self.call.called_at

    @property
    def command(self) -> str:
        """The start of a shell command."""
        return self.call.label


EDITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})


def normalize_text(text: str) -> str:
    """Return a text as Claude Code shows files to Claude: with newlines only."""
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n") if "\r" in text else text


def decode_bytes(raw: bytes) -> str | None:
    """Return the text of a file; none if it is binary."""
    if raw[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        try:
            return normalize_text(raw.decode("utf-16"))
        except UnicodeDecodeError:
            return None
    if b"\0" in raw:
        return None
    return normalize_text(raw.decode("utf-8", "replace"))


def find_branch(session: Session, number: int) -> Branch | None:
    """Return a branch of a session by its number."""
    return next((b for b in session.branches if b.number == number), None)


def walk_calls(session: Session, branch: Branch) -> Iterator[PlacedCall]:
    """Yield the calls of a branch and of its agents that have a result, in order.

    An agent belongs to the branch that started it, and only its own live branch counts.
    Agents work beside the main conversation, so their calls are merged by time. An
    agent whose call is unknown is left out if it may belong to an abandoned branch.
    """
    walker = _CallWalker(session.id, branch.number)
    main = list(walker.walk(branch.turns))
    if len(session.branches) == 1:
        for run in session.agents:
            if not run.call_ids:
                walker.add_agent(run, _turn_at(branch.turns, run.started_at))
    return merge(main, *walker.agents, key=lambda placed: placed.order)


class _CallWalker:
    """Collects the calls of turns, and separately those of the agents they started."""

    def __init__(self, session_id: SessionId, branch_number: int) -> None:
        self.agents: list[list[PlacedCall]] = []
        self._session_id = session_id
        self._branch_number = branch_number
        self._seen: set[AgentId] = set()

    def walk(
        self, turns: Iterable[Turn], agent: AgentId | None = None, agent_turn: int = 0
    ) -> Iterator[PlacedCall]:
        order = 0.0
        for turn in turns:
            number = turn.number if agent is None else agent_turn
            for message in turn.messages:
                order = _later(order, message.sent_at)
                calls = message.tool_calls
                if len(calls) > 1:
                    calls = tuple(sorted(calls, key=_completion_order))
                for call in calls:
                    for run in call.agents:
                        self.add_agent(run, number)
                    if call.has_result:
                        order = _later(order, call.completed_at)
                        yield PlacedCall(
                            call,
                            self._session_id,
                            self._branch_number,
                            number,
                            agent,
                            message.id,
                            order,
                        )

    def add_agent(self, run: AgentRun, turn: int) -> None:
        if run.kind.is_shown and run.id not in self._seen:
            self._seen.add(run.id)
            self.agents.append(list(self.walk(run.live_branch.turns, run.id, turn)))


def _turn_at(turns: Sequence[Turn], time: datetime | None) -> int:
    """Return the number of the turn during which something happened."""
    number = 0
    for turn in turns:
        started = next((m.sent_at for m in turn.messages if m.sent_at), None)
        if time is None or started is None or started <= time:
            number = turn.number
    return number


def _completion_order(call: ToolCall) -> float:
    return call.completed_at.timestamp() if call.completed_at else 0.0


def _later(order: float, time: datetime | None) -> float:
    return max(order, time.timestamp()) if time else order


def touched_paths(call: ToolCall) -> tuple[str, ...]:
    """Return the paths that a call changed or read, without loading anything."""
    facts = call.result_facts
    if call.name in EDITING_TOOLS or call.name == "Read":
        path = (facts.path if facts else None) or call.path
        return (path,) if path and not call.is_error else ()
    return tuple(file.path for file in facts.changed_files) if facts else ()


def list_commands(calls: Iterable[PlacedCall]) -> list[PlacedCall]:
    """Return the shell commands among calls, also those that failed."""
    return [
        placed
        for placed in calls
        if placed.call.name == "Bash" and not placed.call.is_interrupted
    ]


def load_events(
    placed: PlacedCall, keys: Callable[[str], bool], directory: str
) -> Iterator[FileEvent]:
    """Load what a call says about the files whose paths are selected by `keys`."""
    call = placed.call
    if call.name == "Bash":
        # A file that was renamed has its content before it is compared.
        yield from _move_events(placed, keys, directory)
        yield from _shell_events(placed, keys)
        return
    paths = [path for path in touched_paths(call) if keys(path)]
    if not paths or call.is_error or not call.has_result:
        return
    outcome = call.outcome
    if call.name == "Read":
        event = _read_event(placed, paths[0], outcome)
    else:
        event = _edit_event(placed, paths[0], outcome)
    if event is not None:
        yield event


class _CallInput(Struct, frozen=True):
    """The input of the tools that change files."""

    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool | None = None
    content: str | None = None
    edits: list[_CallInput] | None = None
    command: str | None = None


_decode_input = msgspec.json.Decoder(_CallInput).decode


def _load_input(raw: Raw) -> _CallInput:
    try:
        return _decode_input(raw)
    except DECODE_ERRORS:
        return _CallInput()


def _edit_event(
    placed: PlacedCall, path: str, outcome: Outcome | None
) -> FileEvent | None:
    place, time = placed.place, placed.time
    if isinstance(outcome, NotebookOutcome):
        if outcome.error or outcome.updated_file is None:
            return None
        return FileEvent(
            path=path,
            kind=EventKind.WRITE,
            place=place,
            time=time,
            before=_normalize(outcome.original_file),
            text=_normalize(outcome.updated_file),
        )
    if isinstance(outcome, EditOutcome):
        if _is_true(outcome.staged):
            return None  # proposed, but not written
    else:
        outcome = EditOutcome()  # agents' transcripts often have no outcome
    is_complete = outcome.old_string is not None or outcome.content is not None
    if is_complete and not outcome.user_modified:
        given = _CallInput()  # loading it would add nothing
    else:
        given = _load_input(placed.call.raw_input)
    content = outcome.content if outcome.content is not None else given.content
    is_write = placed.call.name == "Write"
    if is_write and content is None:
        return None
    replacements = () if is_write else tuple(_replacements(outcome, given))
    proposed = given.content if is_write else given.new_string
    return FileEvent(
        path=path,
        kind=EventKind.WRITE if is_write else EventKind.EDIT,
        place=place,
        time=time,
        before=_normalize(
            outcome.original_file_contents
            if outcome.original_file is None
            else outcome.original_file
        ),
        is_new=outcome.type == "create",
        text=_normalize(content) if is_write else None,
        replacements=replacements,
        hunks=outcome.structured_patch,
        proposed=_normalize(proposed) if outcome.user_modified else None,
    )


def _replacements(outcome: EditOutcome, given: _CallInput) -> Iterator[Replacement]:
    edits = given.edits or ()
    if outcome.old_string is not None or not (edits or outcome.edits):
        old = given.old_string if outcome.old_string is None else outcome.old_string
        new = given.new_string if outcome.new_string is None else outcome.new_string
        is_for_all = bool(outcome.replace_all or given.replace_all)
        if old is not None and new is not None:
            yield Replacement(normalize_text(old), normalize_text(new), is_for_all)
        return
    for edit in edits:
        yield Replacement(
            normalize_text(edit.old_string or ""),
            normalize_text(edit.new_string or ""),
            bool(edit.replace_all),
        )


def _normalize(text: str | None) -> str | None:
    return None if text is None else normalize_text(text)


def _is_true(raw: Raw) -> bool:
    return bytes(raw) not in {b"", b"null", b"false"}


_NUMBERED_LINE = re.compile(r" *(\d+)(?:\t|\u2192)(.*)")


def _read_event(
    placed: PlacedCall, path: str, outcome: Outcome | None
) -> FileEvent | None:
    if not isinstance(outcome, ReadOutcome):
        return _numbered_read(placed, path) if outcome is None else None
    file = outcome.file
    if file is None or file.content is None or outcome.type not in {None, "text"}:
        return None
    text = normalize_text(file.content)
    first = max(file.start_line or 1, 1)
    is_whole = (
        first == 1
        and not file.truncated_by_token_cap
        and file.num_lines == file.total_lines
        and file.num_lines == text.count("\n") + 1
    )
    return FileEvent(
        path=path,
        kind=EventKind.READ if is_whole else EventKind.PART,
        place=placed.place,
        time=placed.time,
        text=text,
        first_line=first,
        total_lines=file.total_lines,
    )


def _numbered_read(placed: PlacedCall, path: str) -> FileEvent | None:
    """Return what the numbered lines of a result say, if there is no outcome."""
    result = placed.call.result
    text = _result_text(result) if result else ""
    numbered: list[tuple[int, str]] = []
    for line in text.partition("<system-reminder>")[0].split("\n"):
        match = _NUMBERED_LINE.fullmatch(line)
        if match is None or (numbered and int(match[1]) != numbered[-1][0] + 1):
            break
        numbered.append((int(match[1]), match[2]))
    if not numbered:
        return None
    return FileEvent(
        path=path,
        kind=EventKind.PART,
        place=placed.place,
        time=placed.time,
        text="\n".join(line for _, line in numbered),
        first_line=numbered[0][0],
    )


def _result_text(result: ToolResultBlock) -> str:
    if isinstance(result.content, str):
        return result.content
    return "\n".join(
        block.text
        for block in result.content or ()
        if isinstance(block, TextBlock) and block.text
    )


def _shell_events(
    placed: PlacedCall, keys: Callable[[str], bool]
) -> Iterator[FileEvent]:
    call = placed.call
    if not any(map(keys, touched_paths(call))):
        return
    outcome = call.outcome
    edits = outcome.bash_edit_diff if isinstance(outcome, BashOutcome) else None
    if edits is None:
        return
    command = load_command(call)
    with_hunks = {file.file_path: file for file in edits.files}
    for path in dict.fromkeys((*with_hunks, *edits.changed_files)):
        if not path or not keys(path):
            continue
        file = with_hunks.get(path)
        hunks = file.hunks if file else ()
        yield FileEvent(
            path=path,
            kind=EventKind.SHELL,
            place=placed.place,
            time=placed.time,
            is_new=bool(file and file.created),
            is_absent=bool(file and file.deleted),
            # Binary content is recorded with replacement characters.
            hunks=() if _is_lossy(hunks) else hunks,
            command=command,
        )


def _is_lossy(hunks: Iterable[PatchHunk]) -> bool:
    return any("\ufffd" in line for hunk in hunks for line in hunk.lines)


def load_command(call: ToolCall) -> str:
    """Return the whole command of a shell call."""
    return _load_input(call.raw_input).command or call.label


_MOVE = re.compile(
    r"(?:^|&&|;|\n)\s*(git\s+)?mv\s+((?:-\w+\s+)*)"
    r"(\"[^\"]+\"|'[^']+'|[^\s;&|\"']+)\s+(\"[^\"]+\"|'[^']+'|[^\s;&|\"']+)\s*(?=$|&&|;|\n|\|)"
)


def _find_moves(
    call: ToolCall, directory: str
) -> Iterator[tuple[re.Match[str], str, str]]:
    if call.name != "Bash" or call.is_error or "mv" not in call.label:
        return
    for match in _MOVE.finditer(call.label):
        old, new = (
            join_path(directory, part.strip("\"'")) for part in match.group(3, 4)
        )
        yield match, old, new


def moved_paths(call: ToolCall, directory: str) -> Iterator[str]:
    """Yield the paths that files have no more because a command renamed them."""
    return (old for _, old, _ in _find_moves(call, directory))


def _move_events(
    placed: PlacedCall, keys: Callable[[str], bool], directory: str
) -> Iterator[FileEvent]:
    """Yield files that a command renamed, if it is plain enough to tell."""
    call = placed.call
    for match, old, new in _find_moves(call, directory):
        git, options = match[1], match[2]
        # git does not replace a file, unless it has to (-f).
        is_new = bool(git) and "f" not in options
        moved = FileEvent(
            path=old,
            kind=EventKind.MOVE,
            place=placed.place,
            time=placed.time,
            command=call.label,
        )
        for path in (new, join_path(new, file_name(old))):
            if keys(path):
                yield structs.replace(moved, path=path, from_path=old, is_new=is_new)
        if keys(old) and _is_moved_away(call, match):
            yield structs.replace(moved, is_absent=True)


def _is_moved_away(call: ToolCall, match: re.Match[str]) -> bool:
    """Whether a path is free after a command: the rest of it does not use the name.

    If the changes of a command are recorded, that says it.
    """
    whole, name = load_command(call), file_name(match[3].strip("\"'"))
    rest = whole.replace(match[0], "", 1)
    return not touched_paths(call) and name not in rest and "cd " not in rest


LoadBackup = Callable[[SessionId, str], bytes | None]
"""Returns the content of a backup by its session and name."""


class PlacedEvent(Struct, frozen=True, gc=False):
    """An event, and where it is in the order of a branch."""

    event: FileEvent
    order: float


def backup_events(
    session: Session,
    branch: Branch,
    keys: Callable[[str], bool],
    load_backup: LoadBackup,
) -> Iterator[PlacedEvent]:
    """Yield the backups that Claude Code made for the prompts of a branch.

    A snapshot has the content of files when a prompt was sent. A file that was added to
    it later was copied just before its first change.
    """
    prompts: dict[RecordId, tuple[int, float]] = {}
    order = 0.0
    for turn in branch.turns:
        for message in turn.messages:
            order = _later(order, message.sent_at)
            if message.is_prompt:
                for ref in message.record_refs:
                    prompts[ref.record_id] = (turn.number, order)
    seen: set[tuple[RecordId, str]] = set()
    for position in session.snapshot_positions:
        record = session.loader.load_snapshot(position)
        is_late = (
            not isinstance(record, FileSnapshotRecord) or record.is_snapshot_update
        )
        for message_id, path, backup in _tracked_files(record):
            at = prompts.get(message_id)
            directory = backup.real_parent_dir
            whole = (
                join_path(directory, file_name(path))
                if directory and file_name(path)
                else join_path(session.project or "", path)
            )
            if at is None or (message_id, whole) in seen or not keys(whole):
                continue
            seen.add((message_id, whole))
            name = backup.backup_file_name
            raw = load_backup(session.id, name) if name else None
            if name and raw is None:
                continue  # pruned
            turn_number, order = at
            if is_late:
                order = _later(order, backup.backup_time)
            event = FileEvent(
                path=whole,
                kind=EventKind.BACKUP,
                place=Place(
                    session_id=session.id,
                    branch_number=branch.number,
                    turn_number=turn_number,
                    message_id=message_id,
                ),
                time=backup.backup_time,
                text=decode_bytes(raw) if raw is not None else None,
                raw=raw,
                is_absent=not name,
            )
            yield PlacedEvent(event, order)


def _tracked_files(
    record: FileSnapshotRecord | FileDeltaRecord | None,
) -> Iterator[tuple[RecordId, str, FileBackup]]:
    if isinstance(record, FileSnapshotRecord):
        tracked = record.snapshot.tracked_file_backups if record.snapshot else {}
        if record.message_id:
            for path, backup in tracked.items():
                yield record.message_id, path, backup
    elif record and record.tracking_path and record.backup:
        message_id = record.snapshot_message_id or record.message_id
        if message_id:
            yield message_id, record.tracking_path, record.backup
