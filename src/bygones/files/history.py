"""The history of a file over sessions, and all files of a session at a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from heapq import merge
from math import inf

from msgspec import Struct

from bygones.files.checkpoints import LoadContent, checkpoint_events
from bygones.files.events import (
    EDITING_TOOLS,
    EventKind,
    FileEvent,
    LoadBackup,
    Place,
    PlacedCall,
    PlacedEvent,
    backup_events,
    find_branch,
    list_commands,
    load_events,
    moved_paths,
    touched_paths,
    walk_calls,
)
from bygones.files.origins import LineOrigin, OriginTrace, trace_origins
from bygones.files.paths import file_name, path_key
from bygones.files.replay import (
    Cause,
    Check,
    LoadBases,
    Replay,
    Version,
    is_suspect,
)
from bygones.model.base import RecordId, SessionId
from bygones.model.checkpoints import Checkpoints
from bygones.model.sessions import Branch, Message, Session
from bygones.model.summary import find_ancestors


def _no_backup(_session: SessionId, _name: str) -> None:
    return None


_MAX_MOVES = 20
"""Former paths of a file that are followed."""

FindLogs = Callable[[str], Iterable["BranchLog"]]
"""Returns logs with changes of a file, by its path."""


class BranchLog:
    """The tool calls of one branch, from which events of files are loaded."""

    def __init__(  # noqa: PLR0913 (all but two by name and optional)
        self,
        session: Session,
        branch: Branch,
        *,
        stop_turn: int | None = None,
        stop_time: float | None = None,
        load_backup: LoadBackup = _no_backup,
        checkpoints: Checkpoints | None = None,
        load_content: LoadContent = lambda _: None,
    ) -> None:
        self.session = session
        self.branch = branch
        self.directory = session.project or ""
        self.stop_turn = stop_turn
        self.stop_time = stop_time
        self._load_backup = load_backup
        self._checkpoints = checkpoints or {}
        self._load_content = load_content
        self._copied: frozenset[RecordId] = frozenset()

    @cached_property
    def _all_calls(self) -> list[PlacedCall]:
        calls = walk_calls(self.session, self.branch)
        return [call for call in calls if call.message_id not in self._copied]

    @cached_property
    def calls(self) -> list[PlacedCall]:
        """The calls before the turn and the time at which the log stops, in order."""
        return [c for c in self._all_calls if self._includes(c.turn_number, c.order)]

    def leave_out(self, records: frozenset[RecordId]) -> None:
        """Leave out what happened in messages that another session contains, too."""
        self._copied = records

    @property
    def has_own_calls(self) -> bool:
        """Whether calls are left."""
        return bool(self._all_calls)

    def _includes(self, turn: int, order: float) -> bool:
        return (self.stop_turn is None or turn < self.stop_turn) and (
            self.stop_time is None or order <= self.stop_time
        )

    @cached_property
    def end(self) -> float:
        """Where the log ends, as a timestamp."""
        times = [
            message.sent_at.timestamp()
            for turn in self.branch.turns
            if self.stop_turn is None or turn.number < self.stop_turn
            for message in turn.messages
            if message.sent_at
        ]
        return max([*times, *(call.order for call in self.calls[-1:])], default=0.0)

    def key(self, path: str) -> str:
        """Return the key of a path that is recorded in this session."""
        return path_key(path, self.directory)

    def changed_paths(self, *, looks_ahead: bool = False) -> dict[str, str]:
        """Return the files that calls changed, by key; maybe also those after the log."""
        paths: dict[str, str] = {}
        for placed in self._all_calls if looks_ahead else self.calls:
            if placed.call.name in EDITING_TOOLS or placed.call.name == "Bash":
                for path in (*touched_paths(placed.call), *self._stored_paths(placed)):
                    paths.setdefault(self.key(path), path)
        return paths

    def paths_changed_from(self, turn: int) -> set[str]:
        """Return the keys of files that a turn or a later one changed."""
        return {
            self.key(path)
            for placed in self._all_calls
            if placed.turn_number >= turn and placed.call.name != "Read"
            for path in (
                *touched_paths(placed.call),
                *moved_paths(placed.call, self.directory),
                *self._stored_paths(placed),
            )
        }

    def _stored_paths(self, placed: PlacedCall) -> Iterator[str]:
        """Yield the files that a command changed according to checkpoints."""
        for checkpoint in self._checkpoints.get(placed.call.id, ()):
            yield from (f.path for f in checkpoint.files if f.during)

    def events(self, key: str, *, looks_ahead: bool = False) -> list[PlacedEvent]:
        """Return the events of a file in order.

        With `looks_ahead` the first change after the log is used, too: what is recorded
        of the file before it is the newest that is known of its content. What was seen
        after a command that may have changed the file says nothing about that.
        """
        name, selects = file_name(key).lower(), self._selector(key)
        calls = self._all_calls if looks_ahead else self.calls
        found = self._load_events(calls, key)
        backups = backup_events(self.session, self.branch, selects, self._load_backup)
        snapshots = [
            event
            for placed in (calls if self._checkpoints else ())
            for event in checkpoint_events(
                placed, self._checkpoints, selects, self._load_content
            )
        ]
        # Of one moment, what was recorded comes before what was seen afterwards.
        found = [*(b for b in backups if self._is_own(b)), *found, *snapshots]
        found.sort(key=_order)
        included = [
            p for p in found if self._includes(p.event.place.turn_number, p.order)
        ]
        if looks_ahead:
            later = found[len(included) :]
            included += _leading_checks(self._until_command(later, name))
        return included

    def _selector(self, key: str) -> Callable[[str], bool]:
        name = file_name(key).lower()
        # Comparing names first is faster than normalizing every path.
        return lambda path: file_name(path).lower() == name and self.key(path) == key

    def _load_events(self, calls: Iterable[PlacedCall], key: str) -> list[PlacedEvent]:
        name, selects = file_name(key).lower(), self._selector(key)
        return [
            PlacedEvent(event, placed.order)
            for placed in calls
            if _may_name(placed, selects, name)
            for event in load_events(placed, selects, self.directory)
        ]

    def former_path(self, key: str) -> str:
        """Return what a file was called at the end of the log, if it is renamed later."""
        later = [
            call
            for call in self._all_calls
            if not self._includes(call.turn_number, call.order)
        ]
        events = (placed.event for placed in self._load_events(later, key))
        return next((event.from_path for event in events if event.from_path), "")

    def _until_command(
        self, events: Iterable[PlacedEvent], name: str
    ) -> Iterator[PlacedEvent]:
        """Yield events after the log, up to a command that may change a file."""
        later = (
            c for c in self._all_calls if not self._includes(c.turn_number, c.order)
        )
        for command in list_commands(later):
            if is_suspect(command, name):
                break
        else:
            yield from events
            return
        for placed in events:
            is_own = placed.event.place.call_id == command.call.id
            if placed.order < command.order or is_own:
                yield placed

    def _is_own(self, placed: PlacedEvent) -> bool:
        return placed.event.place.message_id not in self._copied


def without_copies(
    logs: Sequence[BranchLog], whole: BranchLog | None = None
) -> list[BranchLog]:
    """Leave out what sessions copied from those that they continue or were forked from.

    It counts there, once; otherwise the fork of an abandoned branch would bring back its
    changes. All of the log `whole` is kept. Logs of which nothing is left are left out.
    """
    lineages = {log.session.id: log.session.lineage for log in logs}
    ancestors = {
        id_: find_ancestors(id_, lambda one: lineages.get(one, ())) for id_ in lineages
    }
    kept = []
    for log in logs:
        own = log.session.id
        # Of two that name each other as origin, both are kept.
        originals = [
            _record_ids(one.session)
            for one in logs
            if one.session.id in ancestors[own] and own not in ancestors[one.session.id]
        ]
        if log is not whole and originals:
            log.leave_out(frozenset().union(*originals))
            if not log.has_own_calls:
                continue
        kept.append(log)
    return kept


def _record_ids(session: Session) -> frozenset[RecordId]:
    """Return the ids of all records of messages, on all branches and of agents."""
    branches = (
        *session.branches,
        *(branch for run in session.all_agents for branch in run.branches),
    )
    return frozenset(
        record_id
        for branch in branches
        for turn in branch.own_turns
        for message in turn.messages
        for record_id in message.record_ids
    )


def _leading_checks(events: Iterable[PlacedEvent]) -> Iterator[PlacedEvent]:
    """Yield what events say about a file before they change it."""
    moved_by = None
    for placed in events:
        event = placed.event
        if event.kind in {EventKind.READ, EventKind.PART, EventKind.BACKUP}:
            yield placed
            continue
        if event.kind is EventKind.MOVE and not event.is_new:
            moved_by = event.place.call_id  # the same call may say what was there
            continue
        if moved_by not in {None, event.place.call_id}:
            return
        if event.before is not None or event.is_new:
            seen = FileEvent(
                path=event.path,
                kind=EventKind.BACKUP,
                place=event.place,
                time=event.time,
                text=event.before,
                is_absent=event.is_new,
            )
            yield PlacedEvent(seen, placed.order)
        return


def _may_name(placed: PlacedCall, selects: Callable[[str], bool], name: str) -> bool:
    """Whether a call may say something about a file, without loading it."""
    call = placed.call
    if any(map(selects, touched_paths(call))):
        return True
    return call.name == "Bash" and "mv " in call.label and name in call.label.lower()


class FileAt(Struct, frozen=True, kw_only=True):
    """A file at a moment."""

    path: str
    version: Version | None
    """The version that it had; none if nothing is known."""
    text: str | None
    """Its content; none if it did not exist or the content is not known."""
    doubts: tuple[PlacedCall, ...] = ()
    """Commands since it was last seen that may have changed it."""
    former_path: str = ""
    """What it was called, if a later command renamed it to its path."""

    @property
    def exists(self) -> bool | None:
        """Whether the file existed; none if that is not known."""
        return self.version.exists if self.version else None

    @property
    def is_certain(self) -> bool:
        """Whether all of the content is recorded and nothing may have changed it."""
        version = self.version
        return bool(
            version and version.is_known and version.is_exact and not self.doubts
        )


class PathPeriod(Struct, frozen=True, gc=False):
    """When a file had a path; both ends are places in the order of events."""

    key: str
    start: float
    stop: float


class FileHistory:
    """The versions of a file in some logs, which are merged by time.

    A call that several sessions contain, because one continues another, counts once.
    Before a command renamed the file, its history is that of its former path, for which
    ``find_logs`` returns more logs.
    """

    def __init__(  # noqa: PLR0913 (all but three by name and optional)
        self,
        path: str,
        key: str,
        logs: Sequence[BranchLog],
        *,
        former_keys: Sequence[str] = (),
        looks_ahead: bool = False,
        load_bases: LoadBases = lambda _path, _time: (),
        find_logs: FindLogs = lambda _path: (),
    ) -> None:
        self.path = path
        self._key = key
        self._former_keys = former_keys
        self._looks_ahead = looks_ahead
        self._logs = list(logs)
        self._loaded: dict[tuple[int, str], list[PlacedEvent]] = {}
        self._periods = self._find_periods(key, find_logs)
        self._commands = [c for log in self._logs for c in list_commands(log.calls)]
        self._replay = Replay(self._commands, self._find_other_text, load_bases)
        self._events = list(_without_copies(merge(*self._streams(), key=_order)))
        self._other_texts: dict[str, Cause] | None = None
        self._replay.add(placed.event for placed in self._events)
        self._loaded.clear()

    def _find_periods(self, key: str, find_logs: FindLogs) -> list[PathPeriod]:
        """Return which paths the file had, the last one first."""
        periods = []
        stop = inf
        for _ in range(_MAX_MOVES):
            moves = [
                (placed.order, former, placed.event.from_path)
                for log in self._logs
                for placed in self._events_of(log, key)
                if placed.event.from_path and placed.order < stop
                if (former := log.key(placed.event.from_path)) != key
            ]
            if not moves:
                break
            moved_at, former, former_path = max(moves)
            known = {log.session.id for log in self._logs}
            self._logs += (
                log for log in find_logs(former_path) if log.session.id not in known
            )
            earlier = (p for log in self._logs for p in self._events_of(log, former))
            if not any(placed.order < moved_at for placed in earlier):
                break
            periods.append(PathPeriod(key, moved_at, stop))
            key, stop = former, moved_at
        return [*periods, PathPeriod(key, -inf, stop)]

    def _events_of(self, log: BranchLog, key: str) -> list[PlacedEvent]:
        place = (id(log), key)
        if place not in self._loaded:
            looks_ahead = self._looks_ahead and log.stop_turn is not None
            self._loaded[place] = log.events(key, looks_ahead=looks_ahead)
        return self._loaded[place]

    def _streams(self) -> Iterator[list[PlacedEvent]]:
        # Where it was before too many moves is not followed.
        is_cut = len(self._periods) > _MAX_MOVES
        for log in self._logs:
            for key in self._former_keys:
                events = self._events_of(log, key)
                yield [p for p in events if not _is_moved_away(p.event)]
            yield [
                placed
                for period in reversed(self._periods)
                for placed in self._events_of(log, period.key)
                if period.start <= placed.order < period.stop
                if not (is_cut and _is_moved_away(placed.event))
            ]

    @property
    def versions(self) -> Sequence[Version]:
        """All versions, oldest first."""
        return self._replay.versions

    @property
    def checks(self) -> Sequence[Check]:
        """All comparisons of the replayed content with a recorded one."""
        return self._replay.checks

    def text(self, number: int = -1) -> str | None:
        """Return the content of a version, by default of the last one.

        None if it is not known, or if the file was deleted.
        """
        count = len(self.versions)
        return self._replay.text(number % count) if count else None

    def origins(self, number: int = -1) -> list[LineOrigin]:
        """Return the origin of each line of a version, by default of the last one.

        A text that ends with a newline has an empty last line.
        """
        count = len(self.versions)
        return trace_origins(self.versions[: number % count + 1]) if count else []

    def blame(self, number: int = -1) -> list[tuple[str, LineOrigin]]:
        """Return the lines of a version with their origins, by default of the last."""
        text = self.text(number)
        if text is None:
            return []
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        return list(zip(lines, self.origins(number), strict=False))

    def removed_origins(self) -> dict[str, LineOrigin]:
        """Return the origins of lines that are not in the last version any more."""
        return OriginTrace(self.versions).removed

    def find_session(self, session_id: SessionId) -> Session | None:
        """Return a session that changed the file."""
        return self._sessions.get(session_id)

    @cached_property
    def _sessions(self) -> dict[SessionId, Session]:
        return {log.session.id: log.session for log in self._logs}

    def find_prompt(self, place: Place) -> Message | None:
        """Return the prompt of the turn in which something happened."""
        session = self.find_session(place.session_id)
        branch = find_branch(session, place.branch_number) if session else None
        return branch.find_prompt(place.turn_number) if branch else None

    @property
    def last(self) -> FileAt:
        """The file after the last event."""
        version = self.versions[-1] if self.versions else None
        last_seen = self._events[-1].event.time if self._events else None
        name = file_name(self.path)
        doubts = [
            command
            for command in self._commands
            if last_seen is not None
            and command.time is not None
            and command.time > last_seen
            and command.call.id != self._events[-1].event.place.call_id
            and is_suspect(command, name)
        ]
        text = self.text()
        former = (log.former_path(self._key) for log in self._logs if text is None)
        return FileAt(
            path=self.path,
            version=version,
            text=text,
            doubts=tuple(doubts),
            former_path=next(filter(None, former), ""),
        )

    def _find_other_text(self, text: str) -> Cause | None:
        """Return what else is known to have had a text: an abandoned branch."""
        if self._other_texts is None:
            self._other_texts = {}
            for log in self._logs:
                for branch in log.session.branches:
                    if branch.number != log.branch.number:
                        self._add_texts(BranchLog(log.session, branch))
        return self._other_texts.get(text)

    def _add_texts(self, log: BranchLog) -> None:
        replay = Replay()
        keys = dict.fromkeys(period.key for period in self._periods)
        events = merge(*(log.events(key) for key in keys), key=_order)
        replay.add(placed.event for placed in events)
        for version in replay.versions:
            text = replay.text(version.number)
            if text is not None and self._other_texts is not None:
                self._other_texts.setdefault(text, Cause.BRANCH)


def _order(placed: PlacedEvent) -> float:
    return placed.order


def _is_moved_away(event: FileEvent) -> bool:
    return event.kind is EventKind.MOVE and event.is_absent


def _without_copies(events: Iterable[PlacedEvent]) -> Iterator[PlacedEvent]:
    seen: set[tuple[object, ...]] = set()
    for placed in events:
        event = placed.event
        place = event.place
        key = (
            place.call_id or place.message_id,
            event.kind,
            event.path,
            event.from_path,
        )
        if key not in seen:
            seen.add(key)
            yield placed


def files_at(
    log: BranchLog,
    *,
    looks_ahead: bool = False,
    load_bases: LoadBases = lambda _path, _time: (),
) -> Iterator[FileAt]:
    """Yield all files that a branch changed, as they were at the end of a log.

    With `looks_ahead` also those that were changed later only, as they were before.
    """
    for key, path in log.changed_paths(looks_ahead=looks_ahead).items():
        history = FileHistory(
            path, key, [log], looks_ahead=looks_ahead, load_bases=load_bases
        )
        yield history.last
