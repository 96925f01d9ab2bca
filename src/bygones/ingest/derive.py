"""Derive the rows of sessions, of long ones in parts.

A long session is divided at a cut (see `assemble.segments`). The part before it is
settled: its rows stay in the index, together with `SettledSession`, a summary of what
they add up to. When the session grows, only the records after the cut are loaded and
assembled, and their rows are joined with what is settled. A session that is derived
from scratch goes through the same steps: settle the first part, then derive the end.
Where records refer to settled ones, the whole session is derived again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple, TypeAlias

from msgspec import Struct, structs

from bygones.assemble.agents import link_agents
from bygones.assemble.dedupe import sort_transcripts
from bygones.assemble.durations import TurnTimes, find_copy_times, measure_turn
from bygones.assemble.grouping import (
    SessionRecords,
    collect_records,
    group_by_session,
)
from bygones.assemble.queue import EMPTY_QUEUE
from bygones.assemble.segments import (
    CUT_MARGIN,
    Before,
    ConversationState,
    Settled,
    conflicts,
    find_cuts,
    find_open_call,
    settle,
    settled_ids,
    used_ids,
)
from bygones.assemble.sessions import (
    abandoned_record_ids,
    assemble_segment,
    assemble_sessions,
)
from bygones.assemble.summary import (
    SessionNames,
    SummariesByLeaf,
    choose_title,
    collect_names,
    find_directories,
    find_last_tag,
    summarize_session,
)
from bygones.model.base import SourceKind, ToolUseId
from bygones.model.conversations import (
    BranchSummary,
    ConversationHeader,
    StoredTurn,
    build_conversation_header,
    strip_message,
)
from bygones.model.nodes import RecordNode, Transcript
from bygones.model.query import Flag
from bygones.model.sessions import Message, own_messages
from bygones.model.summary import Loader, Role, SessionSummary
from bygones.model.usage import QUARTER_HOUR_SECONDS, ReportedCost
from bygones.store.derived_rows import (
    DerivedRows,
    ToolContextRow,
    derive_rows,
    find_queued_prompts,
)
from bygones.store.encoding import id_key
from bygones.store.messages import (
    MESSAGES_PER_BLOCK,
    EarlierMessages,
    find_forked_turns,
)

MIN_DIVIDED_NODES = 1_024
"""Records of a session, or of its end, from which on it is divided."""


class SettledSession(Struct, frozen=True, kw_only=True, array_like=True):
    """What the settled part of a session adds up to."""

    source: str
    """The id of the session's file."""
    generation: int
    settled: Settled
    summary: SessionSummary
    header: ConversationHeader
    names: SessionNames
    queued_prompts: list[str]
    """Prompts that have no record."""
    repository: str | None
    directory: str | None
    last_tag: str | None
    models: tuple[str, ...]
    """Of the session's own answers."""
    progress_models: tuple[str, ...]
    """Of answers that only progress records have."""
    agent_models: tuple[str, ...]
    agent_bytes: int
    """The size of the files of its agents."""
    reported_cost: ReportedCost | None
    cost_reported_at: datetime | None
    turn_count: int
    last_turn: StoredTurn
    last_times: TurnTimes
    forked_turns: dict[int, StoredTurn]
    tool_contexts: list[ToolContextRow]
    """Rows of the last quarter of an hour, to which more may be added."""
    agents: dict[str, int] = {}
    """The files of its agents, and their states."""


class DerivedSession(Struct, frozen=True, array_like=True):
    """The rows of a session, or of what changes when it grows."""

    rows: DerivedRows
    settled_rows: DerivedRows | None = None
    """Rows to add to those that are settled."""
    settled_keys: list[int] = []
    settled: SettledSession | None = None
    """What is settled then; `None` if all rows may change."""


class _EditedFiles:
    """Counts the files that a session edits, each once."""

    def __init__(self, is_settled: Callable[[str], bool] = lambda _: False) -> None:
        self._is_settled = is_settled
        self._known: set[str] = set()

    def forget(self) -> None:
        """Count again from the start."""
        self._known.clear()

    def count_new(self, paths: Iterable[str]) -> int:
        """Count paths that were not edited before."""
        new = {path for path in paths if path not in self._known}
        self._known |= new
        return sum(not self._is_settled(path) for path in new)


_FindCut: TypeAlias = Callable[[Sequence[RecordNode], Before | None], int]


class NotDivisible(Exception):
    """Records refer to others before the cut."""


def derive_family(
    transcripts: Sequence[Transcript],
    summaries: SummariesByLeaf,
    agent_states: dict[str, int] | None = None,
) -> list[DerivedSession]:
    """Return the rows of the sessions of a family.

    A long session is divided if the states of its agents' files are passed.
    """
    ordered = sort_transcripts(transcripts)
    if (
        agent_states is not None
        and sum(len(transcript.nodes) for transcript in ordered) >= MIN_DIVIDED_NODES
    ):
        groups = group_by_session(ordered)
        if len(groups) == 1:
            try:
                return [_divide(groups[0], summaries, agent_states)]
            except NotDivisible:
                pass
    sessions = assemble_sessions(ordered, Loader(), summaries)
    return [
        DerivedSession(derive_rows(session, summarize_session(session)))
        for session in sessions
    ]


class StoredPart(NamedTuple):
    """What is stored of a session: what is settled, and its last messages."""

    settled: SettledSession
    messages: EarlierMessages

    @property
    def before(self) -> Before:
        return Before(self.settled.settled.last_id, self.settled.settled.last_time)


class _Context(NamedTuple):
    """What is known besides the records of a session."""

    files: _EditedFiles
    agent_states: Mapping[str, int]


def _divide(
    records: SessionRecords,
    summaries: SummariesByLeaf,
    agent_states: Mapping[str, int],
) -> DerivedSession:
    """Settle the first part of a session, and derive its end."""
    if any(node.uuid in summaries for node in records.nodes):
        raise NotDivisible  # summaries of records before a cut may be added at any time
    context = _Context(_EditedFiles(), agent_states)
    return _settle_and_derive(records, None, context)


def grow(
    records: SessionRecords,
    stored: StoredPart,
    *,
    is_settled_path: Callable[[str], bool],
    agent_states: Mapping[str, int],
    min_nodes: int | None = None,
) -> DerivedSession:
    """Derive the end of a session that has grown, and settle more if it is long.

    The records are those after the settled part.
    """
    _check_start(records, stored)
    if len(find_main(records).nodes) >= (min_nodes or MIN_DIVIDED_NODES):
        context = _Context(_EditedFiles(is_settled_path), agent_states)
        try:
            return _settle_and_derive(records, stored, context)
        except NotDivisible:
            pass
    context = _Context(_EditedFiles(is_settled_path), agent_states)
    rows = _derive_end(_without_parent(records), stored, context)
    return DerivedSession(rows, settled=stored.settled)


class SettledPart(NamedTuple):
    """A part of a session that is settled, without the records after it."""

    rows: DerivedRows
    keys: list[int]
    stored: StoredPart
    rest: SessionRecords


def settle_half(
    records: SessionRecords,
    stored: StoredPart | None,
    *,
    is_settled_path: Callable[[str], bool],
    agent_states: Mapping[str, int],
) -> SettledPart:
    """Settle about half of some records of a session that has more.

    The more records after a cut refer to none before it, the less likely later ones do.
    """
    if stored is not None:
        _check_start(records, stored)
    context = _Context(_EditedFiles(is_settled_path), agent_states)
    return _settle(records, stored, context, _find_middle_cut)


def _check_start(records: SessionRecords, stored: StoredPart) -> None:
    cuts = list(find_cuts(find_main(records).nodes, stored.before))
    if not cuts or cuts[-1] != 0:
        raise NotDivisible


def _settle_and_derive(
    records: SessionRecords, stored: StoredPart | None, context: _Context
) -> DerivedSession:
    """Settle records up to the last cut, and derive the rest.

    If that is not possible, because of a rewind after it, a nearer one is tried.
    """
    try:
        return _settle_at(_find_last_cut, records, stored, context)
    except NotDivisible:
        context.files.forget()
        return _settle_at(_find_nearest_cut, records, stored, context)


def _settle_at(
    find_cut: _FindCut,
    records: SessionRecords,
    stored: StoredPart | None,
    context: _Context,
) -> DerivedSession:
    part = _settle(records, stored, context, find_cut)
    rows = _derive_end(part.rest, part.stored, context)
    return DerivedSession(rows, part.rows, part.keys, part.stored.settled)


def _settle(
    records: SessionRecords,
    stored: StoredPart | None,
    context: _Context,
    find_cut: _FindCut,
) -> SettledPart:
    """Settle records up to a cut."""
    nodes = find_main(records).nodes
    cut = find_cut(nodes, stored.before if stored else None)
    first, rest = _split(records, cut)
    if stored is not None:
        first = _without_parent(first)
        if conflicts(stored.settled.settled, find_main(first).nodes, first.agents):
            raise NotDivisible
    part = _Part(first, stored, context)
    if stored is not None and len(part.session.branches) != 1:
        raise NotDivisible
    settled = part.settle(find_main(rest).nodes[0].position.offset)
    names = set(settled_ids(first.nodes, first.agents))
    if not names.isdisjoint(used_ids(rest.nodes, rest.agents)):
        raise NotDivisible
    if (first.agents or rest.agents) and not set(record_ids(first)).isdisjoint(
        record_ids(rest)
    ):
        raise NotDivisible
    settled = structs.replace(
        settled, agents=settled.agents | _states_of(first, context.agent_states)
    )
    messages = EarlierMessages(part.message_count, part.last_messages, [])
    keys = sorted(set(map(id_key, names)))
    return SettledPart(part.settled_rows(), keys, StoredPart(settled, messages), rest)


def _derive_end(
    records: SessionRecords, stored: StoredPart, context: _Context
) -> DerivedRows:
    """Return the rows of a session that follow its settled ones."""
    nodes = find_main(records).nodes
    if conflicts(stored.settled.settled, nodes, records.agents):
        raise NotDivisible
    part = _Part(records, stored, context)
    if len(part.session.branches) != 1:
        raise NotDivisible
    return part.rows


def find_main(records: SessionRecords) -> Transcript:
    """Return the only file of a session, besides those of its agents."""
    own = [t for t in records.transcripts if t.source.kind is SourceKind.SESSION]
    if len(own) != 1:
        raise NotDivisible
    return own[0]


def _states_of(
    records: SessionRecords, agent_states: Mapping[str, int]
) -> dict[str, int]:
    return {
        transcript.source.id: agent_states[transcript.source.id]
        for transcript in records.transcripts
        if transcript.source.kind is SourceKind.AGENT
    }


def record_ids(records: SessionRecords) -> Iterable[str]:
    """Yield the ids of records and answers."""
    agent_nodes = chain.from_iterable(agent.nodes for agent in records.agents)
    for node in chain(records.nodes, agent_nodes):
        yield from filter(None, (node.uuid, node.message_id))


def _find_middle_cut(nodes: Sequence[RecordNode], before: Before | None) -> int:
    """Return the last cut before the middle, or the first one after it."""
    cuts = _find_safe_cuts(nodes, list(find_cuts(nodes, before)))
    if not cuts:
        raise NotDivisible
    return next((one for one in cuts if one <= len(nodes) // 2), cuts[-1])


def _find_last_cut(nodes: Sequence[RecordNode], before: Before | None) -> int:
    """Return the last cut to which the next records hardly refer.

    If that is long before the end, a later one is better: deriving the whole session
    when a record refers to something before the cut takes less than a long end each time.
    """
    cuts = list(find_cuts(nodes, before))
    safe = _find_safe_cuts(nodes, cuts)
    if safe and len(nodes) - safe[0] <= MIN_DIVIDED_NODES // 2:
        return safe[0]
    near = [one for one in cuts if one and len(nodes) - one <= MIN_DIVIDED_NODES // 2]
    found = [*near[-1:], *safe]
    if not found:
        raise NotDivisible
    return found[0]


def _find_nearest_cut(nodes: Sequence[RecordNode], before: Before | None) -> int:
    """Return the last cut."""
    cut = next(find_cuts(nodes, before), 0)
    if not cut:
        raise NotDivisible
    return cut


def _find_safe_cuts(nodes: Sequence[RecordNode], cuts: Sequence[int]) -> list[int]:
    """Return the cuts to which the next records hardly refer."""
    end = min(len(nodes) - CUT_MARGIN, find_open_call(nodes))
    return [one for one in cuts if 0 < one <= end]


def _split(records: SessionRecords, cut: int) -> tuple[SessionRecords, SessionRecords]:
    """Divide records at a cut. Agents follow their calls."""
    nodes = find_main(records).nodes
    main = find_main(records)
    files = [t for t in records.transcripts if t.source.kind is SourceKind.AGENT]
    later = _agents_after(records, nodes[cut:]) if files else set()
    agent = {t.source.id: t.source.agent_id or t.source.id for t in files}
    # Problems of the file are counted at its end.
    start = structs.replace(main, nodes=tuple(nodes[:cut]), problems=())
    end = structs.replace(main, nodes=tuple(nodes[cut:]))
    first = collect_records(
        records.id, [start], [t for t in files if agent[t.source.id] not in later]
    )
    rest = collect_records(
        records.id, [end], [t for t in files if agent[t.source.id] in later]
    )
    return first, _without_parent(rest)


def _without_parent(records: SessionRecords) -> SessionRecords:
    """Make the first record after a cut a root."""
    first, *others = records.nodes
    root = structs.replace(first, parent_uuid=None)
    return structs.replace(records, nodes=(root, *others))


def _agents_after(records: SessionRecords, nodes: Sequence[RecordNode]) -> set[str]:
    """Return the agents that records after a cut started, directly or through others."""
    links = link_agents(records.nodes, records.agents)
    calls = set(_call_ids(nodes))
    later: set[str] = set()
    while True:
        found = [
            agent
            for agent in records.agents
            if agent.id not in later and not calls.isdisjoint(links[agent.id].call_ids)
        ]
        if not found:
            return later
        for agent in found:
            if not calls.issuperset(links[agent.id].call_ids):
                raise NotDivisible
            later.add(agent.id)
            calls.update(_call_ids(agent.nodes))


def _call_ids(nodes: Iterable[RecordNode]) -> Iterable[ToolUseId]:
    for node in nodes:
        for block in node.blocks:
            if block.name is not None and block.id is not None:
                yield block.id


class _Part:
    """A part of a session, assembled, and joined with what is settled before it."""

    def __init__(
        self,
        records: SessionRecords,
        stored: StoredPart | None,
        context: _Context,
    ) -> None:
        self._records = records
        self._before = stored.settled if stored else None
        self._earlier = stored.messages if stored else None
        self.session, self._conversation = assemble_segment(
            records,
            Loader(),
            {},
            self._before.settled.queue if self._before else EMPTY_QUEUE,
        )
        if self._conversation.end is None or self._conversation.end.queue is None:
            raise NotDivisible
        self._names = collect_names(
            self._conversation.nodes,
            {},
            abandoned_record_ids(self.session.branches),
        )
        self._repository, self._directory = find_directories(self._conversation.nodes)
        self._last_tag = find_last_tag(self._conversation.nodes)
        live, *others = self.session.branches
        if any(find_queued_prompts(others)):
            raise NotDivisible  # they follow those of the live branch
        self._queued_prompts = [
            *(self._before.queued_prompts if self._before else ()),
            *find_queued_prompts([live]),
        ]
        self._new_paths = context.files.count_new(
            {edit.path for edit in self.session.edits}
        )
        self._collect_models()
        self._join()
        self.rows = self._derive()

    @property
    def message_count(self) -> int:
        """How many messages the live branch has up to the end of the part."""
        return self._header.branches[0].message_count

    @property
    def last_messages(self) -> list[Message]:
        """The messages that don't fill a block."""
        count = self.message_count % MESSAGES_PER_BLOCK
        own = list(map(strip_message, own_messages(self.session.live_branch)))
        if self._earlier is not None:
            own = [*self._earlier.last_messages, *own]
        return own[len(own) - count :]

    def _collect_models(self) -> None:
        before = self._before
        own: dict[str, None] = dict.fromkeys(before.models if before else ())
        progress = dict.fromkeys(before.progress_models if before else ())
        agents = dict.fromkeys(before.agent_models if before else ())
        for usage in self._conversation.message_usages:
            if usage.model:
                (own if usage.agent_id is None else progress)[usage.model] = None
        count = len(self._conversation.message_usages)
        for usage in self.session.message_usages[count:]:
            if usage.model:
                agents[usage.model] = None
        self._models = tuple(own)
        self._progress_models = tuple(progress)
        self._agent_models = tuple(agents)

    def _join(self) -> None:
        """Set the summary and header of everything up to the end of the part."""
        summary = summarize_session(self.session)
        header = build_conversation_header(self.session)
        before = self._before
        if before is not None:
            self._names = before.names + self._names
            self._repository = before.repository or self._repository
            self._directory = before.directory or self._directory
            if self._last_tag is None:
                self._last_tag = before.last_tag
            summary = self._join_summaries(before, summary)
            header = _join_headers(before.header, header, self._new_paths)
        models = dict.fromkeys((*self._models, *self._progress_models))
        title = choose_title(self.session.id, self._names)
        project = self._directory if self._repository is None else self._repository
        self._summary = structs.replace(
            summary,
            title=title,
            project=project,
            models=tuple(dict.fromkeys((*models, *self._agent_models))),
            tags=(self._last_tag,) if self._last_tag else (),
        )
        self._header = structs.replace(
            header,
            title=title,
            project=project,
            models=tuple(models),
            problem_count=self._summary.problem_count,
        )
        self._agent_bytes = (before.agent_bytes if before else 0) + sum(
            source.size
            for source in self.session.sources
            if source.kind is SourceKind.AGENT
        )

    def _join_summaries(
        self, before: SettledSession, later: SessionSummary
    ) -> SessionSummary:
        earlier = before.summary
        others = {node.session_id for node in find_main(self._records).nodes}
        # Another session in the file is one problem, wherever its records are.
        repeated = (others & before.settled.mixed_ids) - {self.session.id, None}
        return structs.replace(
            earlier,
            project_keys=_distinct(earlier.project_keys, later.project_keys),
            started_at=_earliest(earlier.started_at, later.started_at),
            ended_at=_latest(earlier.ended_at, later.ended_at),
            prompt_count=earlier.prompt_count + later.prompt_count,
            message_count=earlier.message_count + later.message_count,
            agent_count=earlier.agent_count + later.agent_count,
            hidden_agent_count=earlier.hidden_agent_count + later.hidden_agent_count,
            versions=_distinct(earlier.versions, later.versions),
            git_branches=_distinct(earlier.git_branches, later.git_branches),
            entrypoints=_distinct(earlier.entrypoints, later.entrypoints),
            usage=earlier.usage + later.usage,
            problem_count=earlier.problem_count + later.problem_count - len(repeated),
            flags=tuple(
                flag for flag in Flag if flag in {*earlier.flags, *later.flags}
            ),
            source_bytes=later.source_bytes + before.agent_bytes,
            contained_ids=_distinct(earlier.contained_ids, later.contained_ids),
        )

    def _derive(self) -> DerivedRows:
        session, before = self.session, self._before
        cost, until = session.reported_cost, session.cost_reported_at
        if before is not None:
            cost = cost or before.reported_cost
            until = (
                before.cost_reported_at
                if session.reported_cost is None
                else until or before.header.ended_at
            )
        self._cost, self._cost_until = cost, until
        self._turns, self._turn_count, self._last_times = self._join_turns()
        self._forked = (
            before.forked_turns
            if before is not None
            else find_forked_turns(session, self._header)
        )
        joined = structs.replace(
            session,
            title=self._summary.title,
            is_empty=self._summary.is_empty,
            reported_cost=cost,
            cost_reported_at=until,
        )
        rows = derive_rows(
            joined,
            self._summary,
            queued_prompts=self._queued_prompts,
            header=self._header,
            earlier=structs.replace(
                self._earlier, turns=self._turns, forked_turns=self._forked
            )
            if self._earlier is not None
            else None,
        )
        held = before.tool_contexts if before is not None else []
        return structs.replace(
            rows, tool_contexts=_join_tool_contexts([*held, *rows.tool_contexts])
        )

    def _join_turns(self) -> tuple[list[StoredTurn], int, TurnTimes]:
        """Return the turns after the settled ones, the number of all, and the last times."""
        branch, before = self.session.live_branch, self._before
        turns, copied = branch.turns, find_copy_times(self._conversation.nodes)
        last_times = measure_turn(turns[-1].messages, copied) if turns else TurnTimes()
        joined: list[StoredTurn] = []
        number, start = 0, 0
        if before is not None:
            joined = [before.last_turn]
            number = before.turn_count
            start = before.header.branches[0].message_count
        for turn in turns:
            if not (joined and turn is turns[0] and turn.prompt is None and before):
                has_prompt = turn.prompt is not None
                joined.append(
                    StoredTurn(start, number, has_prompt, turn.usage, turn.duration)
                )
                number += 1
            else:
                times = before.last_times + measure_turn(
                    turn.messages, copied, is_rest=True
                )
                if len(turns) == 1:
                    last_times = times
                joined = [
                    structs.replace(
                        before.last_turn,
                        usage=before.last_turn.usage + turn.usage,
                        duration=times.duration,
                    )
                ]
            start += len(turn.messages)
        return joined, number, last_times

    def settle(self, offset: int) -> SettledSession:
        """Return what is settled, if a cut follows this part."""
        end = self._conversation.end
        branch = self.session.live_branch
        messages = branch.turns[-1].messages if branch.turns else ()
        if (
            end is None
            or end.queue is None
            or branch.id != end.last_id
            or not end.is_leaf_before
            or not messages
            or messages[-1].role is not Role.ASSISTANT
        ):
            raise NotDivisible
        main = find_main(self._records)
        before = self._before
        settled = settle(
            main.nodes,
            self._records.agents,
            offset=offset,
            state=ConversationState(
                end.missing_ids,
                end.open_forks,
                {run.id: run.call_ids for run in self.session.all_agents},
                end.queue,
            ),
            earlier=before.settled if before else None,
        )
        if settled is None or settled.last_id != end.last_id:
            raise NotDivisible
        self._quarter = int(settled.last_time.timestamp()) // QUARTER_HOUR_SECONDS
        return SettledSession(
            source=main.source.id,
            generation=main.nodes[0].position.generation,
            settled=settled,
            summary=self._summary,
            header=self._header,
            names=self._names,
            queued_prompts=self._queued_prompts,
            repository=self._repository,
            directory=self._directory,
            last_tag=self._last_tag,
            models=self._models,
            progress_models=self._progress_models,
            agent_models=self._agent_models,
            agent_bytes=self._agent_bytes,
            reported_cost=self._cost,
            cost_reported_at=self._cost_until,
            turn_count=self._turn_count,
            last_turn=self._turns[-1],
            last_times=self._last_times,
            forked_turns=self._forked,
            tool_contexts=[
                row for row in self.rows.tool_contexts if self._is_open(row)
            ],
            agents=before.agents if before else {},
        )

    def _is_open(self, row: ToolContextRow) -> bool:
        return row[1] is None or row[1] >= self._quarter

    def settled_rows(self) -> DerivedRows:
        """Return the rows that don't change if the session grows."""
        count = self.message_count
        first_open = count - count % MESSAGES_PER_BLOCK
        rows = self.rows
        return structs.replace(
            rows,
            reported_cost=None,
            tool_contexts=[r for r in rows.tool_contexts if not self._is_open(r)],
            conversations=[row for row in rows.conversations if row[0]],
            facts=rows.facts.settled(),
            turns=[
                row
                for row in rows.turns
                if row[:2] != ("", 0) or row[2] < self._turns[-1].start
            ],
            message_blocks=[
                row
                for row in rows.message_blocks
                if row[:2] != ("", 0) or row[2] < first_open
            ],
        )


def _join_headers(
    earlier: ConversationHeader, later: ConversationHeader, new_paths: int
) -> ConversationHeader:
    live, *others = earlier.branches
    return structs.replace(
        earlier,
        directories=_distinct(earlier.directories, later.directories),
        git_branches=_distinct(earlier.git_branches, later.git_branches),
        versions=_distinct(earlier.versions, later.versions),
        entrypoints=_distinct(earlier.entrypoints, later.entrypoints),
        started_at=_earliest(earlier.started_at, later.started_at),
        ended_at=_latest(earlier.ended_at, later.ended_at),
        usage=earlier.usage + later.usage,
        agent_count=earlier.agent_count + later.agent_count,
        file_count=earlier.file_count + new_paths,
        branches=(_join_branches(live, later.branches[0]), *others),
        orphan_agents=(*earlier.orphan_agents, *later.orphan_agents),
    )


def _join_branches(earlier: BranchSummary, later: BranchSummary) -> BranchSummary:
    return structs.replace(
        earlier,
        id=later.id,
        message_count=earlier.message_count + later.message_count,
        prompt_count=earlier.prompt_count + later.prompt_count,
        tool_call_count=earlier.tool_call_count + later.tool_call_count,
        own_prompt_count=earlier.own_prompt_count + later.own_prompt_count,
        preview=earlier.preview if earlier.own_prompt_count else later.preview,
        usage=earlier.usage + later.usage,
    )


def _join_tool_contexts(rows: Iterable[ToolContextRow]) -> list[ToolContextRow]:
    sums: dict[tuple[str, int | None], tuple[int, int]] = {}
    for tool, quarter, calls, size in rows:
        count, total = sums.get((tool, quarter), (0, 0))
        sums[tool, quarter] = (count + calls, total + size)
    return [(*key, *counts) for key, counts in sums.items()]


def _distinct(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


def _earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    return min(filter(None, (one, other)), default=None)


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(filter(None, (one, other)), default=None)
