"""A session with its messages: the session first, then its turns in order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import UNSET, Raw, UnsetType, structs

from bygones.assemble.summary import summarize_session
from bygones.model.assembled import as_conversation
from bygones.model.base import AgentId, RecordId, SessionId, ToolUseId
from bygones.model.conversations import BranchSummary, Conversation
from bygones.model.nodes import Command, Notification, parse_user_text
from bygones.model.records import TextBlock, ThinkingBlock
from bygones.model.sessions import AgentRun, Message, Session, ToolCall, Turn
from bygones.model.summary import AgentStatus, Role, SessionSummary
from bygones.model.usage import Cost
from bygones.render.message_text import (
    TextParser,
    attached_texts,
    full_text,
    parse_as_typed,
)
from bygones.render.session_tree import TreeLine, TreeLineKind
from bygones.render.tool_detail import output_text
from bygones.render.tool_line import ToolCallFormatter, ToolCallState
from bygones.render.walk import (
    SHOW_ALL,
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
from bygones.schema.encoding import JsonObject, TokenCounts, portable_id, to_ms, to_usd
from bygones.schema.summaries import SessionObject


class TurnObject(JsonObject, frozen=True, kw_only=True, tag="turn"):
    """The start of a turn; its messages follow."""

    turn: int
    branch: int
    """1 is the live branch."""
    agent_id: AgentId | None
    """The agent run that it belongs to; null for the session itself."""
    prompt_id: RecordId | None
    started_at: datetime | None
    duration_ms: int | None
    tokens: TokenCounts


class ChangedFileObject(JsonObject, frozen=True, kw_only=True, tag="changed_file"):
    """A file that a tool call changed, inside the call."""

    path: str
    added_lines: int
    removed_lines: int
    is_new_file: bool
    is_deleted: bool
    has_diff: bool
    """`false` if the changed lines are not recorded, and so not counted."""


class ToolCallObject(JsonObject, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call, inside the message that made it."""

    tool_use_id: ToolUseId
    name: str
    state: ToolCallState
    label: str
    """The file, the command or the words that distinguish it."""
    facts: tuple[str, ...]
    """Counts, the exit code, how long it took."""
    error: str
    """The first line of the error."""
    path: str | None
    added_lines: int
    removed_lines: int
    changed_files: tuple[ChangedFileObject, ...]
    """All files that it changed; a shell command may have changed several."""
    called_at: datetime | None
    completed_at: datetime | None
    agent_ids: tuple[AgentId, ...]
    """The agent runs that it started or continued."""
    input: Raw | UnsetType = UNSET
    """With `--tools`."""
    output: str | UnsetType | None = UNSET
    """With `--tools`, as text."""


class CompactionObject(JsonObject, frozen=True, kw_only=True, tag="compaction"):
    """A compaction, inside the message that marks it."""

    trigger: str | None
    tokens_before: int | None
    tokens_after: int | None


class MessageObject(JsonObject, frozen=True, kw_only=True, tag="message"):
    """A message."""

    message_id: RecordId
    role: Role
    origin: str | None
    """Who wrote a message on the user's side."""
    branch: int
    """The branch on which it was written first; 1 is the live branch."""
    turn: int
    agent_id: AgentId | None
    """The agent run that it belongs to; null for the session itself."""
    sent_at: datetime | None
    text: str
    """What a person typed, what Claude replied, or what a notice says."""
    thinking: str | UnsetType = UNSET
    """Claude's reasoning; with `--thinking`."""
    output: str
    """What a command printed."""
    expansion: str | UnsetType = UNSET
    """The text that a command or a compaction put into the context; with `--tools`."""
    command: Command | None
    notification: Notification | None
    compaction: CompactionObject | None
    notice: str | None
    """The kind of a system notice."""
    is_error: bool
    is_steering: bool
    """Whether it was typed while Claude was working."""
    model: str | None
    tokens: TokenCounts | None
    tool_calls: tuple[ToolCallObject, ...]


class AgentRunObject(JsonObject, frozen=True, kw_only=True, tag="agent_run"):
    """An agent run, after the message that called it; runs without a call come last."""

    agent_id: AgentId
    status: AgentStatus
    tool_use_ids: tuple[ToolUseId, ...]
    """The calls that started and continued it."""
    agent_type: str | None
    description: str | None
    workflow: str | None
    is_background: bool
    depth: int
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: int | None
    tool_call_count: int
    tokens: TokenCounts
    """Tokens without those of the agents that it called."""
    is_partial: bool
    """Whether its file is gone, and only parts of it are known."""
    is_expanded: bool
    """Whether its turns follow; with `--agents`."""


class BranchObject(JsonObject, frozen=True, kw_only=True, tag="branch"):
    """Another branch, after the last message that it shares with the shown one."""

    branch: int
    leaf_id: RecordId
    is_live: bool
    parent_branch: int | None
    fork_id: RecordId | None
    """The last record that it shares with its parent."""
    title: str
    agent_id: AgentId | None
    """The agent run that it belongs to; null for the session itself."""
    prompt_count: int
    tokens: TokenCounts
    """Tokens of the turns that only this branch has."""
    is_expanded: bool
    """Whether its turns follow; with `--all`."""


class TreeLineObject(JsonObject, frozen=True, kw_only=True, tag="tree_line"):
    """A line of `bygones tree`, from top to bottom."""

    session_id: SessionId
    kind: TreeLineKind
    depth: int
    """The number of branches and agents around it."""
    branch: int
    """1 is the live branch."""
    turn: int | None
    record_id: RecordId | None
    """The first record of a turn, the leaf of a branch or summary, or the boundary of a
    compaction."""
    agent_id: AgentId | None
    text: str
    """The start of a prompt, an agent's task, what was compacted, or a summary."""
    started_at: datetime | None
    duration_ms: int | None
    tool_call_count: int
    changed_file_count: int
    tokens: TokenCounts
    cost_usd: float | None
    unpriced_tokens: int

    @classmethod
    def from_line(cls, session_id: SessionId, line: TreeLine) -> TreeLineObject:
        cost = line.cost or Cost()
        return cls(
            session_id=session_id,
            kind=line.kind,
            depth=line.depth,
            branch=line.branch + 1,
            turn=None if line.turn_number is None else line.turn_number + 1,
            record_id=None if line.record is None else portable_id(line.record),
            agent_id=line.agent,
            text=line.text,
            started_at=line.time,
            duration_ms=to_ms(line.duration),
            tool_call_count=line.calls,
            changed_file_count=line.changed_files,
            tokens=TokenCounts.from_usage(line.usage),
            cost_usd=to_usd(cost.nano_usd),
            unpriced_tokens=cost.unpriced_tokens,
        )


def session_objects(
    source: Session | Conversation,
    view: SessionView,
    text_parser: TextParser = parse_as_typed,
    *,
    summary: SessionSummary | None = None,
    cost: Cost | None = None,
) -> Iterator[JsonObject]:
    """Yield a session and what the view shows of it, in reading order.

    `summary` is what the archive lists about the session; without it the summary is
    computed from the whole session.
    """
    conversation = as_conversation(source)
    header = conversation.facts
    builder = _ObjectBuilder(header.project, view, text_parser)
    if summary is None:
        summary = summarize_session(conversation.load_session())
    is_empty = header.empty_reason is not None
    yield structs.replace(
        SessionObject.from_summary(summary, cost),
        directories=header.directories,
        summaries=header.other_summaries if is_empty else header.summaries,
        sources=tuple(file.relative_path for file in conversation.sources),
    )
    for step in walk_session(conversation, view):
        found = builder.build(step)
        if found is not None:
            yield found


class _ObjectBuilder:
    """Builds the objects of a walk; knows the agent run in which the walk is."""

    def __init__(
        self, project: str | None, view: SessionView, text_parser: TextParser
    ) -> None:
        self._view = view
        self._text_parser = text_parser
        self._call_formatter = ToolCallFormatter(project)
        self._agent_stack: list[AgentId] = []

    def build(self, step: WalkStep) -> JsonObject | None:
        match step:
            case TurnStart():
                return self._turn(step.turn, step.branch_number)
            case MessageStep():
                return self.build_message(step.message, step.turn.number)
            case AgentStep(is_resumed=False):
                if step.is_expanded:
                    self._agent_stack.append(step.run.id)
                return _agent_run(step.run, is_expanded=step.is_expanded)
            case AgentEnd():
                self._agent_stack.pop()
            case BranchStep():
                return self._branch(step.branch, is_expanded=step.is_expanded)
            case SessionStart() | _:
                pass
        return None

    @property
    def _current_agent(self) -> AgentId | None:
        return self._agent_stack[-1] if self._agent_stack else None

    def _turn(self, turn: Turn, branch_number: int) -> TurnObject:
        return TurnObject(
            turn=turn.number + 1,
            branch=branch_number + 1,
            agent_id=self._current_agent,
            prompt_id=portable_id(turn.prompt.id) if turn.prompt else None,
            started_at=next((m.sent_at for m in turn.messages if m.sent_at), None),
            duration_ms=to_ms(turn.duration),
            tokens=TokenCounts.from_usage(turn.usage),
        )

    def _branch(self, branch: BranchSummary, *, is_expanded: bool) -> BranchObject:
        parent = branch.parent_number
        return BranchObject(
            branch=branch.number + 1,
            leaf_id=portable_id(branch.id),
            is_live=branch.is_live,
            parent_branch=None if parent is None else parent + 1,
            fork_id=None if branch.fork_id is None else portable_id(branch.fork_id),
            title=branch.title or "",
            agent_id=self._current_agent,
            prompt_count=branch.own_prompt_count,
            tokens=TokenCounts.from_usage(branch.usage),
            is_expanded=is_expanded,
        )

    def build_message(self, message: Message, turn_number: int = 0) -> MessageObject:
        """Return a message in a turn of the current conversation."""
        text, thinking = self._texts(message)
        output, expansion = attached_texts(message, self._text_parser)
        view = self._view
        return MessageObject(
            message_id=portable_id(message.id),
            role=message.role,
            origin=message.origin,
            branch=message.branch_number + 1,
            turn=turn_number + 1,
            agent_id=self._current_agent,
            sent_at=message.sent_at,
            text=text,
            thinking=thinking if view.include_thinking else UNSET,
            output=output,
            expansion=expansion if view.include_tools else UNSET,
            command=message.command,
            notification=message.notification,
            compaction=_compaction(message),
            notice=message.system_subtype,
            is_error=message.is_error,
            is_steering=message.is_steering,
            model=message.model,
            tokens=TokenCounts.from_usage(message.usage) if message.usage else None,
            tool_calls=tuple(
                self._tool_call(call) for call in message.tool_calls if call.name
            ),
        )

    def _texts(self, message: Message) -> tuple[str, str]:
        """Return the text of a message and the reasoning in it."""
        if message.role is not Role.ASSISTANT:
            return full_text(message, self._text_parser), ""
        texts, thoughts = [], []
        for block in message.blocks:
            if isinstance(block, TextBlock) and block.text:
                texts.append(block.text)
            elif isinstance(block, ThinkingBlock) and block.thinking:
                thoughts.append(block.thinking)
        return "\n".join(texts), "\n".join(thoughts)

    def _tool_call(self, call: ToolCall) -> ToolCallObject:
        brief = _brief_call(call, self._call_formatter)
        return _with_content(brief, call) if self._view.include_tools else brief


def _brief_call(call: ToolCall, formatter: ToolCallFormatter) -> ToolCallObject:
    line = formatter.format_call(call)
    return ToolCallObject(
        tool_use_id=call.id,
        name=call.name,
        state=line.state,
        label=call.label,
        facts=line.facts,
        error=line.error,
        path=call.path,
        added_lines=line.added,
        removed_lines=line.removed,
        changed_files=tuple(
            ChangedFileObject(**structs.asdict(file)) for file in call.changed_files
        ),
        called_at=call.called_at,
        completed_at=call.completed_at,
        agent_ids=tuple(run.id for run in call.agents if run.kind.is_shown),
    )


def _with_content(brief: ToolCallObject, call: ToolCall) -> ToolCallObject:
    raw_input = call.raw_input
    return structs.replace(
        brief,
        input=raw_input if bytes(raw_input) else Raw(b"null"),
        output=output_text(call),
    )


def message_object(message: Message) -> MessageObject:
    """Return a message with its texts and calls, as if it were in the first turn."""
    return _ObjectBuilder(None, SHOW_ALL, parse_user_text).build_message(message)


def tool_call_object(call: ToolCall) -> ToolCallObject:
    """Return a tool call with its input and output."""
    formatter = ToolCallFormatter(None)
    return _with_content(_brief_call(call, formatter), call)


def _compaction(message: Message) -> CompactionObject | None:
    facts = message.compaction
    if facts is None:
        return None
    return CompactionObject(
        trigger=facts.trigger,
        tokens_before=facts.tokens_before,
        tokens_after=facts.tokens_after,
    )


def _agent_run(run: AgentRun, *, is_expanded: bool) -> AgentRunObject:
    return AgentRunObject(
        agent_id=run.id,
        status=run.status,
        tool_use_ids=run.call_ids,
        agent_type=run.agent_type,
        description=run.description,
        workflow=run.workflow,
        is_background=run.is_background,
        depth=run.depth,
        started_at=run.started_at,
        ended_at=run.ended_at,
        duration_ms=to_ms(run.duration),
        tool_call_count=run.tool_call_count,
        tokens=TokenCounts.from_usage(run.usage),
        is_partial=run.is_partial,
        is_expanded=is_expanded,
    )
