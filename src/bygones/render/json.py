"""A session as rows of JSON: the session first, then what was said, a row a message.

Every row says under ``row`` what it is. Fields that have nothing to say are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Raw, Struct, structs

from bygones.model.blocks import Text, Thinking
from bygones.model.ids import AgentId, RecordId, SessionId, ToolUseId
from bygones.model.sessions import (
    AgentRun,
    Branch,
    Lineage,
    Message,
    Role,
    Session,
    Title,
    ToolCall,
    Turn,
)
from bygones.model.texts import Command, Notification
from bygones.model.usage import Usage
from bygones.render.details import output_text
from bygones.render.encode import encoded
from bygones.render.tools import CallLines, CallState
from bygones.render.walk import (
    AgentEnd,
    AgentMet,
    Forked,
    Said,
    Start,
    Step,
    TurnStart,
    View,
    walk,
)
from bygones.render.words import Teller, as_it_stands, attached, said, typed

__all__ = [
    "ROWS",
    "SCHEMA",
    "AgentRow",
    "BranchRow",
    "CallPart",
    "CompactionPart",
    "MessageRow",
    "SessionRow",
    "TurnRow",
    "encoded",
    "json_rows",
]

SCHEMA = 1
"""Counts up when a row or a field changes its meaning or goes, not when one comes."""


class _Row(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="row"):
    pass


class SessionRow(_Row, frozen=True, kw_only=True, tag="session"):
    """The session; always the first row."""

    schema: int
    """The version of these rows."""
    id: SessionId
    title: Title
    """Its text, and the kind that it is of."""
    branch: int
    """The number of the branch that is followed; the live one is 0."""
    branches: int
    """How many branches there are, the live one counted."""
    project: str | None = None
    """The directory that it belongs to."""
    directories: tuple[str, ...] = ()
    git_branches: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    """Of Claude Code, in the order in which they were met."""
    entrypoints: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None
    usage: Usage
    """Tokens of all branches and agents."""
    tags: tuple[str, ...] = ()
    lineage: tuple[Lineage, ...] = ()
    """Other sessions that it came from or went on in."""
    problems: int = 0
    """How many oddities its files hold."""
    sources: tuple[str, ...] = ()
    """The files that it was read from."""


class TurnRow(_Row, frozen=True, kw_only=True, tag="turn"):
    """A turn begins; its messages follow."""

    number: int
    """Counted from 0 along the branch."""
    branch: int
    agent: AgentId | None = None
    """The agent run that it is of; none for the session's own."""
    prompt: RecordId | None = None
    time: datetime | None = None
    duration_ms: int | None = None
    usage: Usage


class CallPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call, as part of a message."""

    id: ToolUseId
    name: str
    state: CallState
    """How it ended: done, failed, interrupted, refused or waiting."""
    note: str = ""
    """The file, the command or the words by which it is told from others."""
    facts: tuple[str, ...] = ()
    """What the line about it says besides: counts, exit code, how long it took."""
    error: str = ""
    """The first line of what went wrong."""
    path: str | None = None
    added: int = 0
    removed: int = 0
    time: datetime | None = None
    answered: datetime | None = None
    agents: tuple[AgentId, ...] = ()
    input: Raw = Raw()
    """As it was given; with ``--tools``."""
    output: str | None = None
    """What the tool answered, as text; with ``--tools``."""


class CompactionPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where earlier context was replaced by a digest, as part of a message."""

    trigger: str | None = None
    before: int | None = None
    """Tokens of the context that was replaced."""
    after: int | None = None
    """Tokens of what took its place."""


class MessageRow(_Row, frozen=True, kw_only=True, tag="message"):
    """What one side said at one time."""

    id: RecordId
    role: Role
    origin: str | None = None
    """Who really made a message of the user's side."""
    branch: int = 0
    """The number of the branch on which it was said first."""
    turn: int
    agent: AgentId | None = None
    """The agent run that it is of; none for the session's own."""
    time: datetime | None = None
    text: str = ""
    """What a person typed, what Claude said, or what a notice says."""
    thinking: str = ""
    """Claude's reasoning; with ``--thinking``."""
    output: str = ""
    """What a command printed."""
    stands_for: str = ""
    """What a command or a compaction put into the context; with ``--tools``."""
    command: Command | None = None
    notification: Notification | None = None
    compaction: CompactionPart | None = None
    notice: str | None = None
    """The kind of a system's notice."""
    is_error: bool = False
    is_steering: bool = False
    """Typed while Claude was at work."""
    model: str | None = None
    usage: Usage | None = None
    calls: tuple[CallPart, ...] = ()


class AgentRow(_Row, frozen=True, kw_only=True, tag="agent"):
    """An agent run, behind the message that called it; an orphan comes last."""

    id: AgentId
    status: str
    """completed, failed, interrupted, running or unknown."""
    calls: tuple[ToolUseId, ...] = ()
    """The calls that started it and went on with it; none for an orphan."""
    type: str | None = None
    description: str | None = None
    workflow: str | None = None
    is_background: bool = False
    depth: int = 1
    started: datetime | None = None
    ended: datetime | None = None
    duration_ms: int | None = None
    tool_count: int = 0
    usage: Usage
    """Its own, without the agents below it."""
    is_whole: bool = False
    """Whether its turns follow; with ``--agents``."""


class BranchRow(_Row, frozen=True, kw_only=True, tag="branch"):
    """Another branch, behind the last message that it shares with this one."""

    number: int
    id: RecordId
    """Of its leaf."""
    is_live: bool = False
    parent: int | None = None
    """The number of the branch that it left."""
    fork: RecordId | None = None
    """The last record that it shares with its parent."""
    title: str | None = None
    agent: AgentId | None = None
    """The agent run that it is of; none for the session's own."""
    prompts: int = 0
    usage: Usage
    """Of its own turns."""
    is_whole: bool = False
    """Whether its turns follow; with ``--all``."""


ROWS: tuple[type[Struct], ...] = (
    SessionRow,
    TurnRow,
    MessageRow,
    CallPart,
    AgentRow,
    BranchRow,
)
"""Every shape, for the documentation."""

Row = SessionRow | TurnRow | MessageRow | AgentRow | BranchRow


def json_rows(
    session: Session, view: View, teller: Teller = as_it_stands
) -> Iterator[Row]:
    """Yield a session's rows as it is walked, step by step."""
    rows = _Rows(session, view, teller)
    for step in walk(session, view):
        row = rows.row(step)
        if row is not None:
            yield row


class _Rows:
    """Makes rows; remembers in which agent run the walk is."""

    def __init__(self, session: Session, view: View, teller: Teller) -> None:
        self._view = view
        self._teller = teller
        self._lines = CallLines(session.project)
        self._inside: list[AgentId] = []

    def row(self, step: Step) -> Row | None:
        match step:
            case Start():
                return _session(step.session, step.branch)
            case TurnStart():
                return self._turn(step.turn, step.branch)
            case Said():
                return self._message(step.message, step.turn)
            case AgentMet(is_again=False):
                found = _agent(step.run, is_whole=step.is_whole)
                if step.is_whole:
                    self._inside.append(step.run.id)
                return found
            case AgentEnd():
                self._inside.pop()
            case Forked():
                return self._branch(step.branch, is_whole=step.is_whole)
            case _:
                pass
        return None

    @property
    def _agent(self) -> AgentId | None:
        return self._inside[-1] if self._inside else None

    def _turn(self, turn: Turn, branch: Branch) -> TurnRow:
        lasted = turn.duration
        return TurnRow(
            number=turn.number,
            branch=branch.number,
            agent=self._agent,
            prompt=turn.prompt.id if turn.prompt else None,
            time=next((m.time for m in turn.messages if m.time), None),
            duration_ms=round(lasted.total_seconds() * 1000) if lasted else None,
            usage=turn.usage,
        )

    def _branch(self, branch: Branch, *, is_whole: bool) -> BranchRow:
        return BranchRow(
            number=branch.number,
            id=branch.id,
            is_live=branch.is_live,
            parent=branch.parent,
            fork=branch.fork,
            title=branch.title,
            agent=self._agent,
            prompts=len(branch.prompts),
            usage=branch.usage,
            is_whole=is_whole,
        )

    def _message(self, message: Message, turn: Turn) -> MessageRow:
        text, thinking = self._words(message)
        printed, meant = attached(message, self._teller)
        return MessageRow(
            id=message.id,
            role=message.role,
            origin=message.origin,
            branch=message.branch,
            turn=turn.number,
            agent=self._agent,
            time=message.time,
            text=text,
            thinking=thinking,
            output=printed,
            stands_for=meant if self._view.tools else "",
            command=message.command,
            notification=message.notification,
            compaction=_compaction(message),
            notice=message.notice,
            is_error=message.is_error,
            is_steering=message.is_steering,
            model=message.model,
            usage=message.usage,
            calls=tuple(self._call(call) for call in message.calls if call.name),
        )

    def _words(self, message: Message) -> tuple[str, str]:
        if message.is_prompt:
            return typed(message, self._teller), ""
        if message.role is not Role.ASSISTANT:
            return said(message, self._teller), ""
        texts, thoughts = [], []
        for block in message.blocks:
            if isinstance(block, Text) and block.text:
                texts.append(block.text)
            elif isinstance(block, Thinking) and block.thinking:
                thoughts.append(block.thinking)
        shown = "\n".join(thoughts) if self._view.thinking else ""
        return "\n".join(texts), shown

    def _call(self, call: ToolCall) -> CallPart:
        line = self._lines.line(call)
        part = CallPart(
            id=call.id,
            name=call.name,
            state=line.state,
            note=call.note,
            facts=line.facts,
            error=line.trouble,
            path=call.path,
            added=line.added,
            removed=line.removed,
            time=call.time,
            answered=call.answer_time,
            agents=tuple(run.id for run in call.agents if run.kind.is_shown),
        )
        if not self._view.tools:
            return part
        given = call.input
        if bytes(given):
            part = structs.replace(part, input=given)
        return structs.replace(part, output=output_text(call))


def _compaction(message: Message) -> CompactionPart | None:
    facts = message.compaction
    if facts is None:
        return None
    return CompactionPart(trigger=facts.trigger, before=facts.before, after=facts.after)


def _session(session: Session, branch: Branch) -> SessionRow:
    return SessionRow(
        schema=SCHEMA,
        id=session.id,
        title=session.title,
        branch=branch.number,
        branches=len(session.branches),
        project=session.project,
        directories=session.directories,
        git_branches=session.git_branches,
        versions=session.versions,
        entrypoints=session.entrypoints,
        models=session.models,
        started=session.started,
        ended=session.ended,
        usage=session.total,
        tags=session.tags,
        lineage=session.lineage,
        problems=len(session.problems),
        sources=tuple(source.path for source in session.sources),
    )


def _agent(run: AgentRun, *, is_whole: bool) -> AgentRow:
    lasted = run.duration
    return AgentRow(
        id=run.id,
        status=run.status,
        calls=run.calls,
        type=run.type,
        description=run.description,
        workflow=run.workflow,
        is_background=run.is_background,
        depth=run.depth,
        started=run.started,
        ended=run.ended,
        duration_ms=None if lasted is None else round(lasted.total_seconds() * 1000),
        tool_count=run.tool_count,
        usage=run.usage,
        is_whole=is_whole,
    )
