"""Divides the records of a long session, so that its end can be assembled alone.

A *cut* is a place in a session's file where everything after it refers only to records
after it, except that its first record continues the last one before it. Then messages,
turns, usage and edits after the cut are the same as if the whole session was assembled,
and nothing before the cut changes. `find_cuts` checks this for the records; `Settled`
remembers what later records may still refer to without naming it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from bygones.assemble.agents import AGENT_TOOLS, AgentRecords, answered_call_id
from bygones.assemble.dedupe import TREE_KINDS, first_timestamp
from bygones.assemble.durations import COPY_TOLERANCE, MAX_WAIT, is_version_1
from bygones.assemble.queue import EMPTY_QUEUE, QueueState, find_queue_references
from bygones.assemble.tree import NIL_RECORD_ID
from bygones.model.base import AgentId, RecordId, SessionId, ToolUseId
from bygones.model.nodes import (
    AgentProgressFacts,
    CompactionFacts,
    InterruptFacts,
    LineageFacts,
    Origin,
    QueueFacts,
    RecordNode,
    RetractionFacts,
    TitleFacts,
)

CUT_MARGIN = 64
"""Records after a cut: the next ones often refer to the last few."""
_OPEN_CALL_WINDOW = 256
"""A call without a result in so many last records may still get one."""
_MAX_MISSING = 1_000
"""Missing parents that are remembered; a file with more is not divided."""
_TYPED_ORIGINS = {Origin.PERSON, Origin.CALLER}
_ROOT_ORIGINS = {*_TYPED_ORIGINS, Origin.COMMAND}


class Settled(Struct, frozen=True, kw_only=True, array_like=True):
    """What later records of a session may refer to before a cut."""

    offset: int
    """Where the cut is in the session's file."""
    last_id: RecordId
    """The record that the first one after the cut continues."""
    last_time: datetime
    """The latest time before the cut."""
    last_agent_start: datetime | None = None
    """When the last of the agents started: they are sorted by that."""
    missing_ids: frozenset[RecordId] = frozenset()
    """Parents that are in no file: if one appears, records are sorted otherwise."""
    queue: QueueState = EMPTY_QUEUE
    needs_prompt: bool = False
    """Whether a prompt would make a continuation before the cut a branch."""
    needs_answer: bool = False
    agent_ids: frozenset[AgentId] = frozenset()
    workflows: frozenset[str] = frozenset()
    unlinked_prompts: frozenset[int] = frozenset()
    """Digests of the prompts of agents whose calls are unknown."""
    free_calls: frozenset[int] = frozenset()
    """Digests of the prompts of calls whose agents are unknown."""
    mixed_ids: frozenset[SessionId] = frozenset()
    """Other sessions whose records are before the cut."""


class Before(Struct, frozen=True):
    """The end of the records before those in which cuts are searched."""

    last_id: RecordId
    last_time: datetime


def find_cuts(nodes: Sequence[RecordNode], before: Before | None) -> Iterator[int]:
    """Yield the indexes at which the records of a file can be divided, last first.

    With `before`, index 0 may be a cut too. Ids before it are unknown here; the
    caller looks them up in the index.
    """
    first_index = _first_indexes(nodes)
    latest = _latest_times(nodes, before)
    previous = _previous_records(nodes, before)
    texts = find_queue_references(nodes)
    suffix = _Suffix()
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        suffix.add(node, first_index)
        suffix.first_index = min(suffix.first_index, texts.get(index, index))
        if suffix.is_blocked:
            return
        last_id, time = previous[index], latest[index]
        if (
            suffix.first_index >= index
            and _can_start(node)
            and not suffix.may_start_with_copies(node)
            and last_id is not None
            and node.parent_uuid == last_id
            and time is not None
            and suffix.is_closed(last_id, time)
        ):
            yield index


def _can_start(node: RecordNode) -> bool:
    """Whether a record starts a message that doesn't depend on records before it."""
    if node.is_sidechain or node.uuid is None or node.timestamp is None:
        return False
    is_answer = node.kind == "assistant" and bool(node.message_id)
    is_answer = is_answer and not node.is_synthetic
    return is_answer or (node.kind == "user" and node.origin in _TYPED_ORIGINS)


def _first_indexes(nodes: Sequence[RecordNode]) -> dict[str, int]:
    """Return where each id of a record, answer or call is first used."""
    found: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for id_ in _defined_ids(node):
            found.setdefault(id_, index)
    return found


def _defined_ids(node: RecordNode) -> Iterator[str]:
    """Yield the ids of a record, of its answer, and of the calls that it makes."""
    if node.uuid is not None:
        yield node.uuid
    if node.message_id is not None:
        yield node.message_id
    yield from _progress_ids(node)
    for block in node.blocks:
        if block.id is not None and block.name is not None:
            yield block.id


def _progress_ids(node: RecordNode) -> Iterator[str]:
    """Yield the answer of an agent that a record repeats."""
    answer = node.extra.answer if isinstance(node.extra, AgentProgressFacts) else None
    if answer is not None and answer.message_id:
        yield answer.message_id


def _latest_times(
    nodes: Sequence[RecordNode], before: Before | None
) -> list[datetime | None]:
    """Return the latest time before each record."""
    latest = before.last_time if before else None
    times: list[datetime | None] = []
    for node in nodes:
        times.append(latest)
        if node.timestamp is not None and (latest is None or node.timestamp > latest):
            latest = node.timestamp
    return times


def _previous_records(
    nodes: Sequence[RecordNode], before: Before | None
) -> list[RecordId | None]:
    """Return the last record of the tree before each one, if it ends a message."""
    last = before.last_id if before else None
    found: list[RecordId | None] = []
    for node in nodes:
        found.append(last)
        if node.kind in TREE_KINDS and not node.is_sidechain:
            is_end = node.kind == "assistant" or node.origin is Origin.TOOL
            last = node.uuid if is_end and not node.is_synthetic else None
        elif isinstance(node.extra, QueueFacts):
            last = None  # the text may be shown as a message
    return found


def find_open_call(nodes: Sequence[RecordNode]) -> int:
    """Return the index of the first recent call that may still get a result."""
    start = max(len(nodes) - _OPEN_CALL_WINDOW, 0)
    recent = nodes[start:]
    answered = {
        block.id for node in recent for block in node.blocks if block.name is None
    }
    for index, node in enumerate(recent, start):
        for block in node.blocks:
            if block.name is not None and block.id not in answered:
                return index
    return len(nodes)


class _Suffix:
    """The records from some index to the end, and what they refer to before it."""

    def __init__(self) -> None:
        self.is_blocked = False
        """Whether there is no cut before these records."""
        self.first_index = 1 << 62
        """Where the ids of these records are first used."""
        self._first_time: datetime | None = None
        self._first_answered_at: datetime | None = None
        self._ids: set[str] = set()
        self._records: Counter[str] = Counter()
        """Records that are referred to, and are not known yet, with the number."""
        self._others: set[str] = set()
        """The same for calls and answers."""
        self._needs_typed_command = False

    def is_closed(self, last_id: RecordId, last_time: datetime) -> bool:
        """Whether the records only refer to each other, and the first to the last one."""
        return (
            not self._others
            and not self._needs_typed_command
            and self._records == {last_id: 1}
            and self._first_time is not None
            and self._first_time > last_time + COPY_TOLERANCE
        )

    def may_start_with_copies(self, first: RecordNode) -> bool:
        """Whether the first prompt could be taken for that of a resumed file."""
        if first.kind != "user" or not (first.version is None or is_version_1(first)):
            return False
        asked_at, answered_at = first.timestamp, self._first_answered_at
        return (
            asked_at is None or answered_at is None or answered_at - asked_at > MAX_WAIT
        )

    def add(self, node: RecordNode, first_index: Mapping[str, int]) -> None:
        """Add the record before those that were added."""
        self.is_blocked = self.is_blocked or _blocks_cuts(node)
        for id_ in _defined_ids(node):
            self._define(id_, first_index)
        time = node.timestamp
        if time is not None and (self._first_time is None or time < self._first_time):
            self._first_time = time
        is_answer = node.kind == "assistant" and bool(node.message_id)
        if (is_answer or node.origin is Origin.INTERRUPT) and not node.is_sidechain:
            self._first_answered_at = time
        for record_id in _referenced_records(node):
            if record_id not in self._ids or record_id == node.uuid:
                self._records[record_id] += 1
        self._others.update(
            id_ for id_ in _referenced_calls(node) if id_ not in self._ids
        )
        if node.origin is Origin.COMMAND and node.command is None:
            self._needs_typed_command = False
        elif node.origin is Origin.COMMAND and node.command is not None:
            self._needs_typed_command |= node.command.name == "/compact"

    def _define(self, id_: str, first_index: Mapping[str, int]) -> None:
        self._ids.add(id_)
        self._records.pop(id_, None)
        self._others.discard(id_)
        self.first_index = min(self.first_index, first_index[id_])


def _blocks_cuts(node: RecordNode) -> bool:
    """Whether the effect of a record reaches back to any record before it."""
    return _has_distant_facts(node) or (
        (node.kind not in TREE_KINDS and node.uuid is not None)  # may be in the tree
        or (node.kind in TREE_KINDS and node.uuid is None)  # follows the one before
        or (node.is_conversation and node.timestamp is None)
        or node.forked_from is not None
        or (node.usage is not None and not node.message_id)
        or (not node.is_sidechain and _is_typed_root(node))
    )


def _has_distant_facts(node: RecordNode) -> bool:
    facts = node.extra
    if isinstance(facts, TitleFacts):
        return facts.leaf_id == NIL_RECORD_ID
    if isinstance(facts, AgentProgressFacts):
        answer = facts.answer
        return answer is not None and not (answer.message_id and node.agent_id)
    return isinstance(facts, LineageFacts)


def _is_typed_root(node: RecordNode) -> bool:
    is_root = node.parent_uuid is None and node.logical_parent_uuid is None
    return is_root and node.kind == "user" and node.origin in _ROOT_ORIGINS


def _referenced_records(node: RecordNode) -> Iterator[RecordId]:
    facts = node.extra
    if node.parent_uuid is not None:
        yield node.parent_uuid
    elif node.logical_parent_uuid is not None:
        yield node.logical_parent_uuid
    yield from node.supersedes_ids
    if isinstance(facts, TitleFacts):
        # Titles of records are looked up by the caller.
        if node.kind == "last-prompt" and facts.leaf_id is not None:
            yield facts.leaf_id
    elif isinstance(facts, RetractionFacts):
        yield from facts.record_ids
    elif isinstance(facts, CompactionFacts):
        yield from facts.preserved_ids


def _referenced_calls(node: RecordNode) -> Iterator[str]:
    for block in node.blocks:
        if block.id is not None and block.name is None:
            yield block.id
    if node.source_call_id is not None:
        yield node.source_call_id
    if isinstance(node.extra, InterruptFacts):
        yield node.extra.message_id


def conflicts(
    settled: Settled, nodes: Iterable[RecordNode], agents: Sequence[AgentRecords]
) -> bool:
    """Whether records after a cut change what is before it.

    Such records may be anywhere after the cut: `nodes` are those of the session.
    """
    own = {agent.id for agent in agents}
    if own & settled.agent_ids:
        return True
    last_start = settled.last_agent_start
    for agent in agents:
        prompt = next((n for n in agent.nodes if n.origin is Origin.CALLER), None)
        if prompt is not None and prompt.digest in settled.free_calls:
            return True
        start = first_timestamp(agent.nodes)
        if start is None or (last_start is not None and start <= last_start):
            return True
        if any(_conflicts(settled, node, is_main=False) for node in agent.nodes):
            return True
    return any(_conflicts(settled, node, is_main=True) for node in nodes)


def _conflicts(settled: Settled, node: RecordNode, *, is_main: bool) -> bool:
    run_id = node.result.run_id if node.result is not None else None
    return (
        node.uuid in settled.missing_ids
        or (
            node.timestamp is not None
            and node.timestamp <= settled.last_time + COPY_TOLERANCE
        )
        or not settled.agent_ids.isdisjoint(_named_agents(node))
        or run_id in settled.workflows
        or any(
            block.name in AGENT_TOOLS and block.digest in settled.unlinked_prompts
            for block in node.blocks
        )
        or (is_main and _conflicts_in_session(settled, node))
    )


def _conflicts_in_session(settled: Settled, node: RecordNode) -> bool:
    is_prompt = node.kind == "user" and node.origin in _TYPED_ORIGINS
    return settled.needs_answer or (settled.needs_prompt and is_prompt)


def _named_agents(node: RecordNode) -> Iterator[str]:
    if node.agent_id is not None:
        yield node.agent_id
    if node.result is not None:
        yield from filter(None, (node.result.agent_id, node.result.mentioned_agent_id))
    if node.notification is not None and node.notification.task_id:
        yield node.notification.task_id


def settled_ids(
    nodes: Iterable[RecordNode], agents: Sequence[AgentRecords]
) -> Iterator[str]:
    """Yield the ids of calls and agents that records before a cut name."""
    for node in _iter_all(nodes, agents):
        for block in node.blocks:
            if block.id is not None and block.name is not None:
                yield block.id
        yield from _named_agents(node)
        yield from _progress_ids(node)
        call = answered_call_id(node)
        if call is not None and node.result is not None and node.result.run_id:
            yield node.result.run_id


def used_ids(
    nodes: Iterable[RecordNode], agents: Sequence[AgentRecords]
) -> Iterator[str]:
    """Yield the ids that records after a cut use, and those before it must not name."""
    own = {agent.id for agent in agents}
    for agent in agents:
        sidecar = agent.sidecar
        yield from filter(None, (agent.id, agent.workflow))
        if sidecar is not None:
            yield from filter(None, (sidecar.tool_use_id, sidecar.parent_agent_id))
    for node in _iter_all(nodes, agents):
        for block in node.blocks:
            if block.id is not None:
                yield block.id
        if node.source_call_id is not None:
            yield node.source_call_id
        yield from _progress_ids(node)
        notification = node.notification
        if notification is not None and notification.task_id in own:
            yield notification.tool_use_id or ""


def _iter_all(
    nodes: Iterable[RecordNode], agents: Iterable[AgentRecords]
) -> Iterator[RecordNode]:
    yield from nodes
    for agent in agents:
        yield from agent.nodes


class ConversationState(Struct, frozen=True):
    """What assembling the records before a cut has shown."""

    missing_ids: frozenset[RecordId]
    open_forks: tuple[bool, bool]
    """See `find_open_forks`."""
    calls_by_agent: Mapping[AgentId, Sequence[ToolUseId]]
    queue: QueueState
    """Also of the records before these."""


def settle(
    nodes: Sequence[RecordNode],
    agents: Sequence[AgentRecords],
    *,
    offset: int,
    state: ConversationState,
    earlier: Settled | None,
) -> Settled | None:
    """Return what is known about records before a cut, after those of `earlier`."""
    last = next(n for n in reversed(nodes) if _is_tree_record(n))
    times = [node.timestamp for node in nodes if node.timestamp is not None]
    starts = [first_timestamp(agent.nodes) for agent in agents]
    if last.uuid is None or not times or len(state.missing_ids) > _MAX_MISSING:
        return None
    base = earlier or Settled(offset=0, last_id=last.uuid, last_time=min(times))
    mixed = frozenset(n.session_id for n in nodes if n.session_id is not None)
    has_prompt = any(n.kind == "user" and n.origin in _TYPED_ORIGINS for n in nodes)
    unlinked = frozenset(_unlinked_prompts(agents, state.calls_by_agent))
    free = frozenset(_free_calls(nodes, agents, state.calls_by_agent))
    return Settled(
        offset=offset,
        last_id=last.uuid,
        last_time=max(*times, base.last_time),
        last_agent_start=max(
            filter(None, (*starts, base.last_agent_start)), default=None
        ),
        missing_ids=base.missing_ids | state.missing_ids,
        queue=state.queue,
        needs_prompt=state.open_forks[0] or (base.needs_prompt and not has_prompt),
        needs_answer=state.open_forks[1],
        agent_ids=base.agent_ids | {agent.id for agent in agents},
        workflows=base.workflows | {a.workflow for a in agents if a.workflow},
        unlinked_prompts=base.unlinked_prompts | unlinked,
        free_calls=base.free_calls | free,
        mixed_ids=base.mixed_ids | mixed,
    )


def _unlinked_prompts(
    agents: Iterable[AgentRecords],
    calls_by_agent: Mapping[AgentId, Sequence[ToolUseId]],
) -> Iterator[int]:
    """Yield the digests of the prompts of agents whose calls are unknown."""
    for agent in agents:
        if not calls_by_agent.get(agent.id):
            yield from (n.digest for n in agent.nodes if n.origin is Origin.CALLER)


def _free_calls(
    nodes: Iterable[RecordNode],
    agents: Iterable[AgentRecords],
    calls_by_agent: Mapping[AgentId, Sequence[ToolUseId]],
) -> Iterator[int]:
    """Yield the digests of the prompts of calls whose agents are unknown."""
    linked = {call for calls in calls_by_agent.values() for call in calls}
    for node in _iter_all(nodes, agents):
        for block in node.blocks:
            if block.name in AGENT_TOOLS and block.digest and block.id not in linked:
                yield block.digest


def _is_tree_record(node: RecordNode) -> bool:
    return node.kind in TREE_KINDS and not node.is_sidechain and node.uuid is not None
