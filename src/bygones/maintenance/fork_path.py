"""The records on the path to a point of a session, as a transcript of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple, Self

import msgspec
from msgspec import Raw, Struct

from bygones.assemble.tree import find_cycle_breaks
from bygones.model.base import DECODE_ERRORS, Position, RecordId
from bygones.model.nodes import LightRecord, LocatedRecord
from bygones.model.sessions import AgentRun, Branch, Message, Session, walk_agents

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.encode
_HISTORY_TYPES = frozenset({"file-history-snapshot", "file-history-delta"})
_KEPT_METADATA = frozenset({"content-replacement"})
"""Records outside the tree that change what the model is sent."""

RewriteRecord = Callable[[bytes, Mapping[str, object], RecordId | None], bytes]
"""Returns a line with changed fields; a record of the tree has an id."""


class _Compaction(Struct, frozen=True):
    uuids: tuple[str, ...] = ()


class _CompactionFields(Struct, frozen=True, rename="camel"):
    preserved_messages: _Compaction | None = None


class _Backup(Struct, frozen=True, rename="camel"):
    backup_file_name: str | None = None


class _Snapshot(Struct, frozen=True, rename="camel"):
    message_id: RecordId | None = None
    tracked_file_backups: dict[str, _Backup] = {}


class _HistoryRecord(Struct, frozen=True, rename="camel"):
    """A record of the file history, with the prompt and the backups it names."""

    message_id: RecordId | None = None
    snapshot_message_id: RecordId | None = None
    snapshot: _Snapshot | None = None
    backup: _Backup | None = None


class _Boundary(Struct, frozen=True, rename="camel"):
    compact_metadata: _CompactionFields | None = None


def find_end(
    branch: Branch,
    turn: int | None,
    *,
    through: bool = False,
    before_compaction: bool = False,
) -> int:
    """Return how many messages of a branch a fork contains.

    Turns count from 1. Without a turn these are all messages. `before_compaction` leaves
    out the last compaction before that point and everything after it.
    """
    turns = branch.turns
    if turn is not None:
        turns = turns[: turn if through else turn - 1]
    messages = [message for one in turns for message in one.messages]
    if before_compaction:
        for index in range(len(messages) - 1, -1, -1):
            if messages[index].compaction is not None:
                return index
    return len(messages)


class ForkPoint(NamedTuple):
    """A point of a branch in terms of turns, for the files as they were there."""

    branch: Branch
    end: int
    """How many messages are before it."""
    turn: int
    """The turn from 0 that it is in, or before."""
    is_before: bool

    @classmethod
    def find(
        cls,
        branch: Branch,
        turn: int | None,
        *,
        through: bool = False,
        before_compaction: bool = False,
    ) -> Self:
        """Return the point at which a fork ends; see `find_end`."""
        end = find_end(
            branch, turn, through=through, before_compaction=before_compaction
        )
        start = 0
        for number, one in enumerate(branch.turns):
            if end < start + len(one.messages):
                return cls(branch, end, number, is_before=start == end)
            start += len(one.messages)
        return cls(branch, end, len(branch.turns) - 1, is_before=False)

    @property
    def continues_turn(self) -> bool:
        """Whether the turn calls tools after the point."""
        if self.is_before:
            return False
        own = {message.id for message in self.branch.turns[self.turn].messages}
        rest = self.branch.messages[self.end :]
        return any(message.tool_calls for message in rest if message.id in own)

    @property
    def time(self) -> datetime | None:
        """The time of the last message before it."""
        times = [m.sent_at for m in self.branch.messages[: self.end] if m.sent_at]
        return times[-1] if times else None


def started_agents(messages: Iterable[Message]) -> list[AgentRun]:
    return [
        run
        for message in messages
        for call in message.tool_calls
        for run in call.agents
    ]


class ForkPath:
    """The records on the path to a message of a branch, and the files they name."""

    def __init__(
        self,
        records: Sequence[LocatedRecord],
        session: Session,
        branch: Branch,
        end: int,
    ) -> None:
        self.backup_names: set[str] = set()
        path = branch.messages[:end]
        inline = [
            message
            for run in walk_agents(started_agents(path))
            if run.source is None
            for one in run.branches
            for message in one.messages
        ]
        shown = {id_ for message in (*path, *inline) for id_ in message.record_ids}
        # A history that was written again with other ids is there once.
        copies = {h.record_id for h in session.hidden_records if h.reason == "copy"}
        self._records = [
            one for one in records if _record_id(one) not in copies - shown
        ]
        self._chosen = self._choose_records((*path, *inline))
        parents = {id_: one.record.parent_uuid for id_, one in self._chosen.items()}
        self._cycle_breaks = {
            *find_cycle_breaks(parents),
            *(id_ for id_, parent in parents.items() if id_ == parent),
        }
        """Records that are roots, because they follow themselves."""
        self._order = {id_: number for number, id_ in enumerate(self._chosen)}
        self._owners = {
            id_: number for number, m in enumerate(path) for id_ in m.record_ids
        }
        # The result of a call may have been found in a repetition of it.
        self._later = {
            id_ for message in branch.messages[end:] for id_ in message.record_ids
        } - shown
        self._parents = self._find_stale_parents(branch, end)
        times = [message.sent_at for message in path if message.sent_at]
        self._last_time = _format_time(max(times, default=None))
        self._leaf = self._find_leaf(branch, end)
        repeated = self._find_progress(started_agents(path))
        self._ids = self._with_ancestors({self._leaf, *shown, *repeated})

    @property
    def leaf(self) -> RecordId:
        """The id of the last record in the fork."""
        return fork_id(self._leaf)

    def _choose_records(
        self, messages: Iterable[Message]
    ) -> dict[RecordId, LocatedRecord]:
        """Return one record for each id: the one that is shown, or the first."""
        refs = (ref for m in messages for ref in (*m.record_refs, *m.attached_refs))
        shown = {ref.record_id: ref.position for ref in refs}
        chosen: dict[RecordId, LocatedRecord] = {}
        for record in self._records:
            id_ = _record_id(record)
            if id_ not in chosen or _is_at(record, shown.get(id_)):
                chosen[id_] = record
        return chosen

    def _find_progress(self, runs: Sequence[AgentRun]) -> Iterator[RecordId]:
        """Yield the records that are all there is of agents whose files are gone."""
        partial = [run for run in walk_agents(runs) if run.is_partial]
        calls = {call for run in partial for call in run.call_ids}
        for id_, located in self._chosen.items() if calls else ():
            record = located.record
            if record.type == "progress" and record.parent_tool_use in calls:
                yield id_

    def _owner_above(self, id_: RecordId | None) -> int | None:
        """Return the number of the first message that a record follows."""
        seen = set()
        while id_ is not None and id_ in self._chosen and id_ not in seen:
            if id_ in self._owners:
                return self._owners[id_]
            seen.add(id_)
            id_ = self._parent_of(self._chosen[id_])
        return None

    def _parent_of(self, located: LocatedRecord) -> RecordId | None:
        if _record_id(located) in self._cycle_breaks:
            return None
        return located.record.parent_uuid

    def _last_record(
        self, message: Message, before: RecordId | None = None
    ) -> RecordId:
        """Return the last record of a message, before another one if it is given."""
        stop = self._order[before] if before else len(self._order)
        ids = [id_ for id_ in message.record_ids if id_ in self._order]
        earlier = [id_ for id_ in ids if self._order[id_] < stop] or ids
        return max(earlier, key=self._order.__getitem__, default=message.id)

    def _find_stale_parents(self, branch: Branch, end: int) -> dict[RecordId, RecordId]:
        """Return the parents of prompts that hang further up than the path has them.

        Such a prompt waited in the queue, or follows a record that is missing.
        """
        parents = {}
        start = count = 0
        for turn in branch.turns:
            if 0 < count < end and turn.messages[0].id in self._chosen:
                first = self._chosen[turn.messages[0].id]
                above = self._owner_above(self._parent_of(first))
                is_start = first.record.subtype == "compact_boundary"
                if (above is None or above < start) and not is_start:
                    prompt = turn.messages[0].id
                    last = self._last_record(branch.messages[count - 1], prompt)
                    parents[prompt] = last
            start, count = count, count + len(turn.messages)
        return parents

    def _find_leaf(self, branch: Branch, end: int) -> RecordId:
        """Return the last record: what the following message hangs on."""
        if end < len(branch.messages):
            following = self._chosen.get(branch.messages[end].id)
            leaf = self._parent_of(following) if following else None
        else:
            leaf = branch.id
        if leaf is not None and self._owner_above(leaf) == end - 1:
            return leaf
        return self._last_record(branch.messages[end - 1])

    def _with_ancestors(self, ids: set[RecordId]) -> set[RecordId]:
        """Add what the records follow, and what compactions among them preserved."""
        found: set[RecordId] = set()
        waiting = list(ids)
        while waiting:
            id_ = waiting.pop()
            if id_ in found or id_ in self._later or id_ not in self._chosen:
                continue
            found.add(id_)
            record, parent = (
                self._chosen[id_].record,
                self._parent_of(self._chosen[id_]),
            )
            if parent and id_ not in self._parents:
                waiting.append(parent)
            if record.subtype == "compact_boundary":
                # A damaged boundary may name records that come after it.
                earlier = _preserved_ids(self._chosen[id_].raw)
                if record.logical_parent_uuid:
                    earlier.append(record.logical_parent_uuid)
                waiting += [one for one in earlier if self._is_before(one, id_)]
        return found

    def _is_before(self, one: RecordId, other: RecordId) -> bool:
        return one in self._order and self._order[one] < self._order[other]

    def lines(self, rewrite: RewriteRecord) -> Iterator[bytes]:
        """Yield the rewritten lines of the path, parents first."""
        written: dict[RecordId, RecordId | None] = {}
        moved: dict[RecordId | None, RecordId] = {}
        previous: RecordId | None = None
        for located in self._parents_first():
            record, id_ = located.record, _record_id(located)
            if record.type in _HISTORY_TYPES:
                if self._is_of_path(located.raw):
                    yield rewrite(located.raw, {}, None)
            elif record.type in _KEPT_METADATA:
                yield rewrite(located.raw, {}, None)
            elif record.type == "queue-operation":
                if id_ in self._ids:
                    moved[previous] = id_
                    yield rewrite(*self._delivered_text(located, previous))
                    previous = id_
            elif id_ in self._ids:
                parent = self._choose_parent(located, previous)
                parent = moved.pop(parent, parent) if id_ not in written else parent
                if self._is_needless(located, parent, written):
                    continue
                written[id_] = parent
                yield rewrite(located.raw, self._changes(record, id_, parent), id_)
                previous = previous if record.is_sidechain else id_

    def _parents_first(self) -> Iterator[LocatedRecord]:
        """Yield the records in the order of the file, but each after its parent.

        This is the order in which they are read (`order_parents_first`).
        """
        done: set[RecordId] = set()
        waiting: dict[RecordId, list[LocatedRecord]] = {}
        for located in self._records:
            parent = self._parent_of(located)
            if parent is not None and parent in self._chosen and parent not in done:
                waiting.setdefault(parent, []).append(located)
                continue
            ready = [located]
            while ready:
                current = ready.pop()
                done.add(_record_id(current))
                yield current
                ready += reversed(waiting.pop(_record_id(current), []))
        # Copies of a record with other parents may follow themselves.
        yield from chain.from_iterable(waiting.values())

    def _is_needless(
        self,
        located: LocatedRecord,
        parent: RecordId | None,
        written: Mapping[RecordId, RecordId | None],
    ) -> bool:
        """Whether a record is a copy that differs in nothing but its place."""
        id_ = _record_id(located)
        if id_ not in written:
            return located is not self._chosen[id_]
        has_parent = self._parent_of(located) in self._ids
        return not has_parent or parent == written[id_] or parent not in written

    def _choose_parent(
        self, located: LocatedRecord, previous: RecordId | None
    ) -> RecordId | None:
        """Return the parent of a record; the record before it if that is not there."""
        id_, record = _record_id(located), located.record
        if id_ in self._parents:
            return self._parents[id_]
        parent = self._parent_of(located)
        if parent in self._ids:
            return parent
        is_start = record.subtype == "compact_boundary" or record.is_compact_summary
        if record.is_sidechain or (is_start and record.parent_uuid is None):
            return None
        return previous

    def _changes(
        self, record: LightRecord, id_: RecordId, parent: RecordId | None
    ) -> dict[str, object]:
        changes: dict[str, object] = {"parentUuid": parent and fork_id(parent)}
        if record.uuid is None:
            changes["uuid"] = fork_id(id_)
        if id_ == self._leaf and record.timestamp is None:
            changes["timestamp"] = self._last_time
        return changes

    def _delivered_text(
        self, located: LocatedRecord, parent: RecordId | None
    ) -> tuple[bytes, dict[str, object], RecordId]:
        """Return the record of a text that old versions have only in the queue."""
        fields = _decode(located.raw)
        text = fields.get("content", Raw(b'""'))
        record = {
            "type": "attachment",
            "isSidechain": False,
            "attachment": {"type": "queued_command", "prompt": text},
            "timestamp": fields.get("timestamp", self._last_time),
        }
        id_ = _record_id(located)
        return _encode(record), self._changes(located.record, id_, parent), id_

    def _is_of_path(self, raw: bytes) -> bool:
        """Whether a record of the file history belongs to a prompt on the path."""
        try:
            record = msgspec.json.decode(raw, type=_HistoryRecord)
        except DECODE_ERRORS:
            return False
        snapshot = record.snapshot or _Snapshot()
        prompts = {
            record.message_id,
            record.snapshot_message_id,
            snapshot.message_id,
        } - {None}
        if not prompts or not prompts <= self._ids:
            return False
        backups = [*snapshot.tracked_file_backups.values()]
        backups += [record.backup] if record.backup else []
        self.backup_names |= {b.backup_file_name for b in backups if b.backup_file_name}
        return True


def _record_id(located: LocatedRecord) -> RecordId:
    """Return the id of a record, or one made of its position, as in `Message`."""
    position = located.position
    return located.record.uuid or RecordId(f"@{position.source_id}:{position.offset}")


def _is_at(located: LocatedRecord, position: Position | None) -> bool:
    here = located.position
    return position is not None and (
        (here.source_id, here.offset) == (position.source_id, position.offset)
    )


def fork_id(id_: RecordId) -> RecordId:
    """Return the id of a record in a fork; one without an id gets one."""
    if not id_.startswith("@"):
        return id_
    place = id_.rpartition("/")[2]
    return RecordId(str(uuid.uuid5(uuid.NAMESPACE_URL, place)))


def _preserved_ids(raw: bytes) -> list[RecordId]:
    try:
        boundary = msgspec.json.decode(raw, type=_Boundary)
    except DECODE_ERRORS:
        return []
    fields = boundary.compact_metadata or _CompactionFields()
    preserved = fields.preserved_messages or _Compaction()
    return [RecordId(id_) for id_ in preserved.uuids]


def _format_time(time: datetime | None) -> str:
    known = time or datetime.fromtimestamp(0, UTC)
    return known.isoformat(timespec="milliseconds").replace("+00:00", "Z")
