"""What all renderers have in common: a method for each step of a walk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Generic, TypeVar

from msgspec import Struct

from bygones.model.conversations import BranchSummary
from bygones.model.nodes import Origin
from bygones.model.records import Block
from bygones.model.sessions import Message, ToolCall, Turn
from bygones.model.summary import LeafSummary
from bygones.render.message_text import TextParser, display_origin, parse_as_typed
from bygones.render.numbers import format_duration, format_time, format_tokens
from bygones.render.text.primitives import sanitize
from bygones.render.tool_line import ToolCallFormatter
from bygones.render.walk import (
    AgentEnd,
    AgentStep,
    BlockStep,
    BranchEnd,
    BranchStep,
    MessageStep,
    OrphanAgents,
    SessionStart,
    SummaryStep,
    ToolCallStep,
    TurnStart,
    WalkStep,
)

T = TypeVar("T")

ORPHAN_AGENTS_HEADING = "Agents without a known call"


def describe_summary(summary: LeafSummary) -> str:
    """Return a summary as one line, with the record that it ends with."""
    text = sanitize(summary.text, newlines="space")
    return f"Summary up to {summary.leaf_id[:8]}: {text}"


class RenderOptions(Struct, frozen=True, kw_only=True):
    """Options of every renderer."""

    zone: tzinfo | None = UTC
    """Time zone of all times; ``None`` for that of the machine."""
    text_parser: TextParser = parse_as_typed


class StepRenderer(ABC, Generic[T]):
    """Renders the steps of a walk through a session.

    Repeated API failures are collapsed: they are counted, and rendered before the next
    step. Call `finish` after the last step.
    """

    def __init__(
        self,
        project: str | None,
        options: RenderOptions,
        previous_time: datetime | None = None,
    ) -> None:
        self._call_formatter = ToolCallFormatter(project)
        self._zone = options.zone
        self._last_time = previous_time
        self._api_failures = 0

    def render_step(  # noqa: C901 (one case for each kind of step)
        self, step: WalkStep
    ) -> Iterator[T]:
        if isinstance(step, MessageStep) and step.message.system_subtype == "api_error":
            self._api_failures += 1
            return
        yield from self._before_step(step)
        yield from self._flush_api_failures()
        match step:
            case MessageStep(message=message):
                yield from self._render_message(message)
            case BlockStep(message=message, block=block):
                yield from self._render_block(block, is_error=message.is_error)
            case ToolCallStep(call=call):
                yield from self._render_call(call)
            case SessionStart():
                yield from self._render_header(step)
            case TurnStart():
                yield from self._render_turn(step)
            case AgentStep():
                yield from self._render_agent(step)
            case AgentEnd():
                yield from self._render_agent_end()
            case BranchStep():
                yield from self._render_branch(step)
            case BranchEnd(branch=branch):
                yield from self._render_branch_end(branch)
            case SummaryStep(summary=summary):
                yield from self._render_heading(describe_summary(summary))
            case OrphanAgents():
                yield from self._render_heading(ORPHAN_AGENTS_HEADING)

    def finish(self) -> Iterator[T]:
        yield from self._flush_api_failures()

    def _flush_api_failures(self) -> Iterator[T]:
        count, self._api_failures = self._api_failures, 0
        if count:
            times = f", {count} times in a row" if count > 1 else ""
            yield from self._render_failure(f"• API error{times}")

    def _turn_facts(self, turn: Turn) -> list[str]:
        """Return time, duration and tokens of a turn; the date only if it changed."""
        time = next((m.sent_at for m in turn.messages if m.sent_at), None)
        facts = []
        if time is not None:
            facts.append(format_time(time, self._zone, self._last_time))
            self._last_time = time
        if turn.duration:
            facts.append(format_duration(turn.duration))
        if turn.usage.total:
            facts.append(f"{format_tokens(turn.usage.total)} tokens")
        return facts

    def _before_step(self, _step: WalkStep) -> Iterator[T]:
        return iter(())

    def _render_header(self, _step: SessionStart) -> Iterator[T]:
        return iter(())

    @abstractmethod
    def _render_message(self, message: Message) -> Iterator[T]: ...

    @abstractmethod
    def _render_block(self, block: Block, *, is_error: bool) -> Iterator[T]: ...

    @abstractmethod
    def _render_call(self, call: ToolCall) -> Iterator[T]: ...

    @abstractmethod
    def _render_turn(self, step: TurnStart) -> Iterator[T]: ...

    @abstractmethod
    def _render_agent(self, step: AgentStep) -> Iterator[T]: ...

    @abstractmethod
    def _render_agent_end(self) -> Iterator[T]: ...

    @abstractmethod
    def _render_branch(self, step: BranchStep) -> Iterator[T]: ...

    @abstractmethod
    def _render_branch_end(self, branch: BranchSummary) -> Iterator[T]: ...

    @abstractmethod
    def _render_heading(self, text: str) -> Iterator[T]: ...

    @abstractmethod
    def _render_failure(self, text: str) -> Iterator[T]: ...


class SystemMessageRenderer(ABC, Generic[T]):
    """Renders messages that are not answers of the model: prompts, commands, notices."""

    def render(self, message: Message) -> T:
        if message.compaction is not None:
            return self.compaction(message)
        renderers: dict[Origin, Callable[[Message], T]] = {
            Origin.PERSON: self.prompt,
            Origin.CALLER: self.agent_task,
            Origin.COMMAND: self.command,
            Origin.COMMAND_OUTPUT: self.command_output,
            Origin.SHELL: self.shell,
            Origin.SHELL_OUTPUT: self.command_output,
            Origin.MEMORY: self.memory,
            Origin.INTERRUPT: self.interrupt,
            Origin.COMPACTION: self.continuation,
            Origin.NOTIFICATION: self.notification,
            Origin.TEAMMATE: self.teammate,
            Origin.TOOL: self.orphan_result,
        }
        return renderers.get(display_origin(message), self.notice)(message)

    @abstractmethod
    def prompt(self, message: Message) -> T: ...

    @abstractmethod
    def agent_task(self, message: Message) -> T: ...

    @abstractmethod
    def command(self, message: Message) -> T: ...

    @abstractmethod
    def shell(self, message: Message) -> T: ...

    @abstractmethod
    def memory(self, message: Message) -> T: ...

    @abstractmethod
    def command_output(self, message: Message) -> T: ...

    @abstractmethod
    def interrupt(self, message: Message) -> T: ...

    @abstractmethod
    def compaction(self, message: Message) -> T: ...

    @abstractmethod
    def continuation(self, message: Message) -> T:
        """Render the first message after a compaction."""

    @abstractmethod
    def notification(self, message: Message) -> T: ...

    @abstractmethod
    def teammate(self, message: Message) -> T: ...

    @abstractmethod
    def orphan_result(self, message: Message) -> T:
        """Render a tool result that belongs to no known call."""

    @abstractmethod
    def notice(self, message: Message) -> T: ...
