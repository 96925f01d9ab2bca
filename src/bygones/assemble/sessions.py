"""Assembles sessions from transcripts."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeVar

from msgspec import structs

from bygones.assemble.conversation import (
    BuiltConversation,
    ConversationBuilder,
    EarlierAgents,
)
from bygones.assemble.dedupe import first_timestamp, last_timestamp, sort_transcripts
from bygones.assemble.grouping import (
    SessionRecords,
    drop_repeated_runs,
    find_families,
    group_by_session,
    iter_accounts,
    join_predecessors,
    mixed_session_problems,
    relate_sessions,
)
from bygones.assemble.queue import QueueState
from bygones.assemble.repositories import find_repository_clues
from bygones.assemble.summary import (
    SummariesByLeaf,
    choose_title,
    collect_names,
    collect_summaries,
    detect_project,
    explain_empty,
    is_error_summary,
    session_tags,
)
from bygones.assemble.usage import (
    build_ledger,
    find_inherited_cost,
    last_reported_cost,
)
from bygones.model.base import AgentId, Problem, RecordId, SessionId, SourceKind
from bygones.model.nodes import RecordNode, TitleFacts, Transcript
from bygones.model.sessions import (
    AgentRun,
    Branch,
    FileEdit,
    Session,
    walk_agents,
)
from bygones.model.summary import (
    EmptyReason,
    LeafSummary,
    Lineage,
    LineageKind,
    Loader,
    Role,
)
from bygones.model.usage import ReportedCost, Usage


def collect_edits(
    branches: Iterable[Branch], agent: AgentId | None = None
) -> tuple[FileEdit, ...]:
    """Return the file edits of the calls on each branch, in order."""
    edits: list[FileEdit] = []
    for branch in branches:
        for turn in branch.own_turns:
            for message in turn.messages:
                edits += [
                    FileEdit(
                        path=file.path,
                        tool_call=call,
                        message_id=message.id,
                        turn_number=turn.number,
                        branch_number=branch.number,
                        agent_id=agent,
                        edited_at=call.completed_at or call.called_at,
                        added_lines=file.added_lines,
                        removed_lines=file.removed_lines,
                        is_new_file=file.is_new_file,
                        is_deleted=file.is_deleted,
                        has_diff=file.has_diff,
                    )
                    for call in message.tool_calls
                    for file in call.changed_files
                ]
    return tuple(edits)


T = TypeVar("T", bound=str)


def assemble_sessions(
    transcripts: Iterable[Transcript],
    loader: Loader,
    summaries: SummariesByLeaf | None = None,
    paid_keys: set[str] | None = None,
) -> tuple[Session, ...]:
    """Return the sessions of transcripts, oldest first.

    Pass all files of a project: summaries, copies and agents of a session may be in the
    file of another one. If `summaries` contains the summaries of all files, the files of
    a family (see `find_families`) are enough. Answers in `paid_keys` were counted
    elsewhere and cost nothing here; the answers of these sessions are added to it.
    """
    ordered = sort_transcripts(transcripts)
    groups = join_predecessors(group_by_session(ordered))
    summaries = summaries if summaries is not None else collect_summaries(ordered)
    built = _assemble_groups(groups, loader, summaries, paid_keys)
    return tuple(session for session, _ in built)


def assemble_segment(
    records: SessionRecords,
    loader: Loader,
    summaries: SummariesByLeaf,
    queue: QueueState,
) -> tuple[Session, BuiltConversation]:
    """Return the session of some records, and its conversation.

    The records are all that a session has before a cut, or all after it (see
    `segments`); `queue` is what was queued before them.
    """
    ((session, conversation),) = _assemble_groups(
        [records], loader, summaries, queue=queue
    )
    return session, conversation


def _assemble_groups(
    groups: Sequence[SessionRecords],
    loader: Loader,
    summaries: SummariesByLeaf,
    paid_keys: set[str] | None = None,
    *,
    queue: QueueState | None = None,
) -> Iterator[tuple[Session, BuiltConversation]]:
    families = find_families({records.id: records.nodes for records in groups})
    groups = drop_repeated_runs(groups, families)
    ledger = build_ledger(iter_accounts(groups), paid_keys or frozenset())
    if paid_keys is not None:
        paid_keys.update(ledger.owner)
    lineages = relate_sessions(groups)
    earlier_agents: dict[SessionId, EarlierAgents] = {}
    for records in groups:
        earlier = earlier_agents.setdefault(families[records.id], EarlierAgents())
        builder = ConversationBuilder(records, ledger, loader, queue=queue)
        runs = builder.build_agents()
        conversation = builder.build_main(runs, earlier)
        session = _build_session(records, conversation, runs, summaries, loader=loader)
        family = families[records.id]
        contained = _distinct(
            node.session_id
            for node in records.nodes
            # One of the same family has a file of its own.
            if node.session_id != records.id
            and families.get(node.session_id or records.id) != family
        )
        yield (
            structs.replace(
                session,
                lineage=lineages[records.id],
                contained_ids=contained,
                reported_cost=_own_cost(session, lineages[records.id], groups),
            ),
            conversation,
        )
        earlier.add(runs)


def _build_session(
    records: SessionRecords,
    conversation: BuiltConversation,
    runs: tuple[AgentRun, ...],
    summaries: SummariesByLeaf,
    *,
    loader: Loader,
) -> Session:
    branches = tuple(_with_title(branch, summaries) for branch in conversation.branches)
    # If the session's own file is gone, use the records of its agents.
    nodes = conversation.nodes or [n for agent in records.agents for n in agent.nodes]
    own_ids = dict.fromkeys(n.uuid for n in nodes if n.uuid)
    summarized = [uuid for uuid in own_ids if uuid in summaries]
    shown = [run for run in walk_agents(runs) if run.kind.is_shown]
    reported_cost, cost_reported_at = last_reported_cost(nodes)
    abandoned = abandoned_record_ids(branches)
    empty_reason = _empty_reason(records, conversation, runs)
    return Session(
        id=records.id,
        title=choose_title(records.id, collect_names(nodes, summaries, abandoned)),
        project=detect_project(_newest_copy(records, nodes)),
        project_keys=_distinct(t.source.project_key for t in records.transcripts),
        directories=_distinct(map(attrgetter("cwd"), nodes)),
        repository_clues=find_repository_clues(nodes, records.agents),
        git_branches=_distinct(map(attrgetter("git_branch"), nodes)),
        versions=_distinct(map(attrgetter("version"), nodes)),
        entrypoints=_distinct(map(attrgetter("entrypoint"), nodes)),
        models=_distinct(usage.model for usage in conversation.message_usages),
        slug=next((node.slug for node in reversed(nodes) if node.slug), None),
        tags=session_tags(nodes),
        started_at=first_timestamp(nodes),
        ended_at=last_timestamp(nodes),
        live_branch=branches[0],
        branches=branches,
        agents=runs,
        endpoint_ids=_distinct((*conversation.leaf_ids, *summarized)),
        summaries=_useful_summaries((uuid, summaries[uuid]) for uuid in summarized),
        other_summaries=_other_summaries(nodes, own_ids),
        edits=(
            *collect_edits(branches),
            *(edit for run in shown for edit in collect_edits(run.branches, run.id)),
        ),
        usage=sum((u.usage for u in conversation.message_usages), Usage()),
        message_usages=(
            *conversation.message_usages,
            *(usage for run in shown for usage in run.message_usages),
        ),
        reported_cost=reported_cost,
        cost_reported_at=cost_reported_at,
        snapshot_positions=tuple(
            n.position for n in nodes if n.kind.startswith("file-history")
        ),
        problems=tuple(_all_problems(records, conversation, runs)),
        hidden_records=conversation.hidden_records,
        sources=tuple(t.source for t in records.transcripts),
        is_empty=empty_reason is not None,
        empty_reason=empty_reason,
        loader=loader,
    )


def _newest_copy(
    records: SessionRecords, nodes: Sequence[RecordNode]
) -> Sequence[RecordNode]:
    """Return the records as they are in the newest file that has the first of them.

    If a project was moved, the copy in its new folder has the new directory.
    """
    first = next((node for node in nodes if node.cwd and node.uuid), None)
    copies = [
        transcript
        for transcript in records.transcripts
        if transcript.source.kind is SourceKind.SESSION
        if first and any(node.uuid == first.uuid for node in transcript.nodes)
    ]
    if len(copies) < 2:  # noqa: PLR2004 (nothing to choose)
        return nodes
    return max(copies, key=lambda one: (one.source.mtime_ns, one.source.ctime_ns)).nodes


def _own_cost(
    session: Session, lineage: Iterable[Lineage], groups: Iterable[SessionRecords]
) -> ReportedCost | None:
    """Return what the client reported for a session, without its parent's cost."""
    cost = session.reported_cost
    parents = {one.session_id for one in lineage if one.kind in _COPIES_OF}
    if cost is None or not cost.start_time or not parents:
        return cost
    nodes = {records.id: records.nodes for records in groups}
    inherited = [
        find_inherited_cost(cost, nodes[session.id], nodes[parent])
        for parent in parents & nodes.keys()
    ]
    most = max(filter(None, inherited), key=lambda one: one.micro_usd, default=None)
    return cost - most if most else cost


_COPIES_OF = frozenset({LineageKind.CONTINUES, LineageKind.FORKED_FROM})


def _empty_reason(
    records: SessionRecords,
    conversation: BuiltConversation,
    runs: Sequence[AgentRun],
) -> EmptyReason | None:
    branches = (*conversation.branches, *_shown_branches(runs))
    if any(map(_has_conversation, branches)):
        return None
    return explain_empty(conversation.nodes, runs, records.transcripts)


def _other_summaries(
    nodes: Iterable[RecordNode], own_ids: Container[RecordId]
) -> tuple[LeafSummary, ...]:
    """Return the summaries in the files of a session that are not of its records."""
    return _useful_summaries(
        (node.extra.leaf_id, node.extra.text)
        for node in nodes
        if node.kind == "summary"
        and isinstance(node.extra, TitleFacts)
        and node.extra.leaf_id
        and node.extra.leaf_id not in own_ids
    )


def _useful_summaries(
    found: Iterable[tuple[RecordId, str]],
) -> tuple[LeafSummary, ...]:
    return tuple(
        LeafSummary(leaf, text)
        for leaf, text in dict.fromkeys(found)
        if not is_error_summary(text)
    )


def abandoned_record_ids(branches: Iterable[Branch]) -> frozenset[RecordId]:
    """Return the records of messages that are only on abandoned branches."""
    return frozenset(
        ref.record_id
        for branch in branches
        if not branch.is_live
        for turn in branch.own_turns
        for message in turn.messages
        for ref in message.record_refs
    )


def _all_problems(
    records: SessionRecords, conversation: BuiltConversation, runs: Sequence[AgentRun]
) -> Iterable[Problem]:
    yield from _file_problems(records)
    yield from conversation.problems
    for run in walk_agents(runs):
        yield from run.problems


def _file_problems(records: SessionRecords) -> Iterable[Problem]:
    for transcript in records.transcripts:
        yield from transcript.problems
        if transcript.source.kind is SourceKind.SESSION:
            yield from mixed_session_problems(transcript, records.id)


def _shown_branches(runs: Iterable[AgentRun]) -> Iterable[Branch]:
    return (run.live_branch for run in runs if run.kind.is_shown)


def _has_conversation(branch: Branch) -> bool:
    messages = (message for turn in branch.own_turns for message in turn.messages)
    return any(m.is_prompt or m.role is Role.ASSISTANT for m in messages)


def _distinct(values: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(value for value in dict.fromkeys(values) if value)


def _with_title(branch: Branch, summaries: SummariesByLeaf) -> Branch:
    """Set the title of a branch to the last summary of its records."""
    if not summaries:
        return branch
    title = None
    for turn in branch.own_turns:
        for message in turn.messages:
            for ref in message.record_refs:
                found = summaries.get(ref.record_id)
                if found and not is_error_summary(found):
                    title = found
    return structs.replace(branch, title=title) if title else branch
