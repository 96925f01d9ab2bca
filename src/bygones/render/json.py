"""A session as rows of JSON: the session first, then what was said, a row a message.

Every row says under ``row`` what it is. Fields that have nothing to say are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Raw, Struct, structs

from bygones.model.base import AgentId, RecordId, SessionId, ToolUseId
from bygones.model.nodes import Command, Notification
from bygones.model.records import TextBlock, ThinkingBlock
from bygones.model.sessions import AgentRun, Branch, Message, Session, ToolCall, Turn
from bygones.model.summary import Lineage, Role, Title
from bygones.model.usage import Usage
from bygones.render.message_text import (
    TextParser,
    attached_texts,
    parse_as_typed,
    prompt_text,
    system_text,
)
from bygones.render.text.primitives import encode_row
from bygones.render.tool_detail import output_text
from bygones.render.tool_line import ToolCallFormatter, ToolCallState
from bygones.render.walk import (
    AgentEnd,
    AgentStep,
    BranchStep,
    MessageStep,
    SessionStart,
    SessionView,
    TurnStart,
    WalkStep,
    walk_session,
)

__all__ = [
    "JSON_TYPES",
    "SCHEMA_VERSION",
    "AgentRunJson",
    "BranchJson",
    "CompactionJson",
    "MessageJson",
    "SessionJson",
    "ToolCallJson",
    "TurnJson",
    "encode_row",
    "iter_json_rows",
]

SCHEMA_VERSION = 1
"""Counts up when a row or a field changes its meaning or goes, not when one comes."""


class _JsonRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="row"):
    pass


class SessionJson(_JsonRow, frozen=True, kw_only=True, tag="session"):
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


class TurnJson(_JsonRow, frozen=True, kw_only=True, tag="turn"):
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


class ToolCallJson(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call, as part of a message."""

    id: ToolUseId
    name: str
    state: ToolCallState
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


class CompactionJson(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where earlier context was replaced by a digest, as part of a message."""

    trigger: str | None = None
    before: int | None = None
    """Tokens of the context that was replaced."""
    after: int | None = None
    """Tokens of what took its place."""


class MessageJson(_JsonRow, frozen=True, kw_only=True, tag="message"):
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
    compaction: CompactionJson | None = None
    notice: str | None = None
    """The kind of a system's notice."""
    is_error: bool = False
    is_steering: bool = False
    """Typed while Claude was at work."""
    model: str | None = None
    usage: Usage | None = None
    calls: tuple[ToolCallJson, ...] = ()


class AgentRunJson(_JsonRow, frozen=True, kw_only=True, tag="agent"):
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


class BranchJson(_JsonRow, frozen=True, kw_only=True, tag="branch"):
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


JSON_TYPES: tuple[type[Struct], ...] = (
    SessionJson,
    TurnJson,
    MessageJson,
    ToolCallJson,
    AgentRunJson,
    BranchJson,
)
"""Every shape, for the documentation."""

JsonRow = SessionJson | TurnJson | MessageJson | AgentRunJson | BranchJson


def iter_json_rows(
    session: Session, view: SessionView, text_parser: TextParser = parse_as_typed
) -> Iterator[JsonRow]:
    """Yield a session's rows as it is walked, step by step."""
    rows = _RowBuilder(session, view, text_parser)
    for step in walk_session(session, view):
        row = rows.build_row(step)
        if row is not None:
            yield row


class _RowBuilder:
    """Makes rows; remembers in which agent run the walk is."""

    def __init__(
        self, session: Session, view: SessionView, text_parser: TextParser
    ) -> None:
        self._view = view
        self._text_parser = text_parser
        self._call_formatter = ToolCallFormatter(session.project)
        self._agent_stack: list[AgentId] = []

    def build_row(self, step: WalkStep) -> JsonRow | None:
        match step:
            case SessionStart():
                return _session_row(step.session, step.branch)
            case TurnStart():
                return self._turn_row(step.turn, step.branch)
            case MessageStep():
                return self._message_row(step.message, step.turn)
            case AgentStep(is_resumed=False):
                found = _agent_row(step.run, is_whole=step.is_expanded)
                if step.is_expanded:
                    self._agent_stack.append(step.run.id)
                return found
            case AgentEnd():
                self._agent_stack.pop()
            case BranchStep():
                return self._branch_row(step.branch, is_whole=step.is_expanded)
            case _:
                pass
        return None

    @property
    def _current_agent(self) -> AgentId | None:
        return self._agent_stack[-1] if self._agent_stack else None

    def _turn_row(self, turn: Turn, branch: Branch) -> TurnJson:
        lasted = turn.duration
        return TurnJson(
            number=turn.number,
            branch=branch.number,
            agent=self._current_agent,
            prompt=turn.prompt.id if turn.prompt else None,
            time=next((m.sent_at for m in turn.messages if m.sent_at), None),
            duration_ms=round(lasted.total_seconds() * 1000) if lasted else None,
            usage=turn.usage,
        )

    def _branch_row(self, branch: Branch, *, is_whole: bool) -> BranchJson:
        return BranchJson(
            number=branch.number,
            id=branch.id,
            is_live=branch.is_live,
            parent=branch.parent_number,
            fork=branch.fork_id,
            title=branch.title,
            agent=self._current_agent,
            prompts=len(branch.prompts),
            usage=branch.usage,
            is_whole=is_whole,
        )

    def _message_row(self, message: Message, turn: Turn) -> MessageJson:
        text, thinking = self._message_texts(message)
        printed, meant = attached_texts(message, self._text_parser)
        return MessageJson(
            id=message.id,
            role=message.role,
            origin=message.origin,
            branch=message.branch_number,
            turn=turn.number,
            agent=self._current_agent,
            time=message.sent_at,
            text=text,
            thinking=thinking,
            output=printed,
            stands_for=meant if self._view.include_tools else "",
            command=message.command,
            notification=message.notification,
            compaction=_compaction_row(message),
            notice=message.system_subtype,
            is_error=message.is_error,
            is_steering=message.is_steering,
            model=message.model,
            usage=message.usage,
            calls=tuple(
                self._call_row(call) for call in message.tool_calls if call.name
            ),
        )

    def _message_texts(self, message: Message) -> tuple[str, str]:
        if message.is_prompt:
            return prompt_text(message, self._text_parser), ""
        if message.role is not Role.ASSISTANT:
            return system_text(message, self._text_parser), ""
        texts, thoughts = [], []
        for block in message.blocks:
            if isinstance(block, TextBlock) and block.text:
                texts.append(block.text)
            elif isinstance(block, ThinkingBlock) and block.thinking:
                thoughts.append(block.thinking)
        shown = "\n".join(thoughts) if self._view.include_thinking else ""
        return "\n".join(texts), shown

    def _call_row(self, call: ToolCall) -> ToolCallJson:
        line = self._call_formatter.format_call(call)
        part = ToolCallJson(
            id=call.id,
            name=call.name,
            state=line.state,
            note=call.label,
            facts=line.facts,
            error=line.error,
            path=call.path,
            added=line.added,
            removed=line.removed,
            time=call.called_at,
            answered=call.completed_at,
            agents=tuple(run.id for run in call.agents if run.kind.is_shown),
        )
        if not self._view.include_tools:
            return part
        given = call.input
        if bytes(given):
            part = structs.replace(part, input=given)
        return structs.replace(part, output=output_text(call))


def _compaction_row(message: Message) -> CompactionJson | None:
    facts = message.compaction
    if facts is None:
        return None
    return CompactionJson(
        trigger=facts.trigger, before=facts.tokens_before, after=facts.tokens_after
    )


def _session_row(session: Session, branch: Branch) -> SessionJson:
    return SessionJson(
        schema=SCHEMA_VERSION,
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
        started=session.started_at,
        ended=session.ended_at,
        usage=session.total_usage,
        tags=session.tags,
        lineage=session.lineage,
        problems=len(session.problems),
        sources=tuple(source.relative_path for source in session.sources),
    )


def _agent_row(run: AgentRun, *, is_whole: bool) -> AgentRunJson:
    lasted = run.duration
    return AgentRunJson(
        id=run.id,
        status=run.status,
        calls=run.call_ids,
        type=run.agent_type,
        description=run.description,
        workflow=run.workflow,
        is_background=run.is_background,
        depth=run.depth,
        started=run.started_at,
        ended=run.ended_at,
        duration_ms=None if lasted is None else round(lasted.total_seconds() * 1000),
        tool_count=run.tool_call_count,
        usage=run.usage,
        is_whole=is_whole,
    )
