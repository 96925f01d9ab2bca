"""Open the session, agent run or record that was named, from an archive or from files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec.structs import replace

from bygones.cli.context import EMPTY_PATH_MESSAGE, CommonOptions
from bygones.cli.resolve import (
    choose_session,
    find_search_result,
    resolve_session_and_record,
)
from bygones.errors import (
    AmbiguousSelector,
    ArchiveNotFound,
    NotATranscript,
    NotInArchive,
    PathNotFound,
)
from bygones.model.assembled import AssembledConversation, find_branch_of
from bygones.model.base import AgentId, Position, SourceId
from bygones.model.sessions import (
    AgentRun,
    Session,
    agent_run_as_session,
    walk_agents,
)
from bygones.reader import read_sessions
from bygones.render.headers import agent_name

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.conversations import Conversation
    from bygones.model.query import Part
    from bygones.model.summary import IndexedRecord, SessionSummary
    from bygones.model.usage import Cost

_MAX_LISTED = 5


class ShownSession(NamedTuple):
    """A session, and how it was named."""

    conversation: Conversation
    record: IndexedRecord | None = None
    hit_part: Part | None = None
    """What the record is, if it was named as a hit of the last search."""
    summary: SessionSummary | None = None
    """What the archive lists about the session."""
    cost: Cost | None = None
    query: str = ""
    """What was searched for, if it was named as a result of the last search."""
    archive: Archive | None = None
    run_id: AgentId | None = None
    """The agent run that is shown instead of the session."""

    @property
    def session(self) -> Session:
        """All of it; assembled on first use."""
        return self.conversation.load_session()


@contextmanager
def open_named_session(
    name: str, session: str | None, options: CommonOptions, *, priced: bool = False
) -> Iterator[ShownSession]:
    """Open the named session, and the record by which it was named.

    It can be read until the context ends. With `priced`, the cost of a session that is
    read from files is computed, too.
    """
    if not name.strip():
        raise click.UsageError(EMPTY_PATH_MESSAGE)
    path = Path(name)
    agent_name_parts = _split_agent_name(name) if session is None else None
    is_path = os.path.lexists(path) or path.name != name
    if session is not None or (is_path and agent_name_parts is None):
        path = path.expanduser()
        chosen = choose_session(read_sessions(path), session)
        if path.is_file() and not any(record_positions(chosen)):
            raise NotATranscript(path)
        cost = _compute_cost(chosen) if priced else None
        yield ShownSession(AssembledConversation(chosen), cost=cost)
        return
    # Files are read without an archive, and without its libraries.
    from bygones.cli.open_archive import open_current

    try:
        archive = open_current(options)
    except ArchiveNotFound as error:
        if options.archive is not None or not path.suffix:
            raise
        raise PathNotFound(path) from error
    with archive:
        if agent_name_parts is not None:
            yield _load_agent(archive, *agent_name_parts, path)
        else:
            yield _load(archive, name)


def _load(archive: Archive, name: str) -> ShownSession:
    from bygones.cli.open_archive import load_session_costs

    result = find_search_result(name, archive)
    id_, record_id = resolve_session_and_record(archive, name)
    conversation = archive.conversation(id_)
    record = archive.record(record_id) if record_id else None
    summary = archive.session_summary(conversation.facts.id)
    cost = load_session_costs(archive, [summary]).get(summary.id)
    hit_part = result.part if result else None
    query = result.query if result else ""
    shown = ShownSession(conversation, record, hit_part, summary, cost, query, archive)
    if record is None or find_branch_of(conversation, record.id) is not None:
        return shown
    # It is a record of an agent run, or it is not shown.
    session = conversation.load_session()
    return _enter_run_of_record(shown._replace(record=_with_agent(session, record)))


def _with_agent(session: Session, record: IndexedRecord) -> IndexedRecord:
    """Return a record with its agent run, also if the run has no file of its own."""
    if record.agent_id:
        return record
    for run in session.all_agents:
        turns = (turn for branch in run.branches for turn in branch.own_turns)
        if any(record.id in one.record_ids for turn in turns for one in turn.messages):
            return replace(record, agent_id=run.id)
    return record


def _enter_run_of_record(shown: ShownSession) -> ShownSession:
    """Return the agent run of a record as the session, if the session does not show it.

    A hit of a search is shown in the session, unless that hides the run, or does not
    know which call started it.
    """
    record = shown.record
    for outer in shown.session.agents if record else ():
        for run in walk_agents((outer,)):
            is_in_session = run.kind.is_shown and bool(outer.call_ids)
            is_shown_hit = shown.hit_part is not None and is_in_session
            if record and run.id == record.agent_id and not is_shown_hit:
                return enter_run(shown, run)
    return shown


def enter_run(shown: ShownSession, run: AgentRun) -> ShownSession:
    """Return an agent run as the session that is shown."""
    session = agent_run_as_session(shown.session, run)
    # Records that are not shown belong to the run if its own file has them.
    sources = _source_ids(session) - _source_ids(replace(shown.session, agents=()))
    hidden = [
        one for one in session.hidden_records if one.position.source_id in sources
    ]
    session = replace(session, hidden_records=tuple(hidden))
    return shown._replace(
        conversation=AssembledConversation(session), run_id=run.id, cost=None
    )


def _source_ids(session: Session) -> set[SourceId]:
    """Return the files that contain the messages of a session."""
    places = record_positions(replace(session, hidden_records=()))
    return {place.source_id for place in places}


def _split_agent_name(name: str) -> tuple[str, str] | None:
    """Return session and agent of a name such as `5e55/a1`, unless it is a path."""
    session, slash, agent = name.partition("/")
    is_name = bool(slash and session and agent) and "/" not in agent
    if not is_name or session[0] in ".~" or os.path.lexists(name):
        return None
    return session, agent


def _load_agent(archive: Archive, name: str, agent: str, path: Path) -> ShownSession:
    try:
        shown = _load(archive, name)
    except NotInArchive as error:
        raise PathNotFound(path) from error
    return enter_run(shown, find_run(shown.session, agent))


def find_run(session: Session, name: str) -> AgentRun:
    """Return the agent run whose id starts with a name."""
    runs = [run for run in session.all_agents if run.id.startswith(name)]
    exact = [run for run in runs if run.id == name]
    if not runs:
        known = [run.id for run in session.all_agents if run.kind.is_shown]
        raise NotInArchive("agent", name, tuple(known[:_MAX_LISTED]))
    if len(runs) > 1 and not exact:
        listed = [f"{run.id}  {agent_name(run)}" for run in runs[:_MAX_LISTED]]
        more_count = len(runs) - len(listed)
        raise AmbiguousSelector("agent", name, listed, more_count)
    return (exact or runs)[0]


def _compute_cost(session: Session) -> Cost | None:
    from bygones.cli.open_archive import load_user_prices_or_warn

    prices = load_user_prices_or_warn()
    return prices.compute_cost(session.message_usages) if prices else None


def record_positions(session: Session) -> dict[Position, str | None]:
    """Return the positions of all records of a session with their ids."""
    places: dict[Position, str | None] = {}
    for hidden in session.hidden_records:
        places[hidden.position] = hidden.record_id
    branches = (*session.branches, *(b for a in session.all_agents for b in a.branches))
    for branch in branches:
        for turn in branch.own_turns:
            for message in turn.messages:
                pieces = (*message.record_refs, *message.attached_refs)
                for piece in pieces:
                    places[piece.position] = piece.record_id
                for call in message.tool_calls:
                    if call.result_position is not None:
                        places[call.result_position] = call.result_record_id
    return places
