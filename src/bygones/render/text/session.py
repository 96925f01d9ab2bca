"""A session as text for people: rows of styled spans, wrapped or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo

from msgspec import Struct

from bygones.model.nodes import Origin
from bygones.model.records import Block, TextBlock, ThinkingBlock
from bygones.model.sessions import AgentRun, Session, ToolCall, Turn
from bygones.model.summary import Role
from bygones.render.headers import (
    agent_facts,
    describe_branch,
    render_header,
    wrap_facts,
)
from bygones.render.message_text import (
    MessageLayout,
    TextParser,
    describe_block,
    parse_as_typed,
    render_system_message,
    render_truncated,
)
from bygones.render.numbers import format_duration, format_time, format_tokens
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    display_width,
    plain_text,
    sanitize_line,
    styled_line,
    wrap_line,
    wrap_markdown,
)
from bygones.render.tool_detail import render_input, render_result
from bygones.render.tool_line import ToolCallFormatter, render_tool_line
from bygones.render.walk import (
    AgentEnd,
    AgentStep,
    BlockStep,
    BranchEnd,
    BranchStep,
    MessageStep,
    OrphanAgents,
    SessionStart,
    SessionView,
    ToolCallStep,
    TurnStart,
    WalkStep,
    walk_session,
)

__all__ = ["TextOptions", "render_lines", "render_text"]

_MAX_WIDTH = 100
"""Columns beyond which prose is not set, however wide the terminal."""
_MAX_AGENT_LINES = 3
_MAX_BARS = 6
"""Bars that stand before a line at most."""


class TextOptions(Struct, frozen=True, kw_only=True):
    """For whom the text is set."""

    width: int | None = None
    """Columns of the terminal; ``None`` for a pipe, where nothing is wrapped."""
    zone: tzinfo | None = UTC
    """Of the times; ``None`` for that of the machine."""
    text_parser: TextParser = parse_as_typed


def render_text(
    session: Session,
    view: SessionView | None = None,
    options: TextOptions | None = None,
) -> str:
    """Return a session as one text, 80 columns wide and in UTC unless told else."""
    chosen = options or TextOptions(width=80)
    texts = (
        plain_text(spans)
        for spans in render_lines(session, view or SessionView(), chosen)
    )
    return "".join(f"{text}\n" for text in texts)


def render_lines(
    session: Session, view: SessionView, options: TextOptions
) -> Iterator[StyledLine]:
    """Yield the lines of a session as it is walked, step by step."""
    setter = _TextRenderer(session, view, options)
    for step in walk_session(session, view):
        yield from setter.render_step(step)
    yield from setter.flush()


class _TextRenderer:
    """Sets one session; remembers what stands above the next line."""

    def __init__(
        self, session: Session, view: SessionView, options: TextOptions
    ) -> None:
        self._session = session
        self._view = view
        self._options = options
        self._call_formatter = ToolCallFormatter(session.project)
        self._bars: list[StyledSpan] = []
        self._previous_kind = ""
        self._last_time: datetime | None = None
        self._api_failures = 0

    def render_step(self, step: WalkStep) -> Iterator[StyledLine]:
        if isinstance(step, MessageStep) and step.message.system_subtype == "api_error":
            self._api_failures += 1
            return
        yield from self.flush()
        match step:
            case MessageStep() | BlockStep() | ToolCallStep():
                yield from self._render_content(step)
            case SessionStart():
                yield from self._emit("head", self._render_header(step))
            case TurnStart():
                # An agent's head has told already what its first turn would.
                if self._previous_kind or not self._is_agent:
                    yield from self._emit("turn", self._render_turn(step.turn))
            case AgentStep():
                yield from self._render_agent(step)
            case BranchStep():
                yield from self._render_fork(step)
            case AgentEnd() | BranchEnd():
                yield from self._close_bar()
            case OrphanAgents():
                told = "Agents that no call here is known to have started"
                yield from self._emit(
                    "head", [styled_line(StyledSpan(told, SpanStyle.HEADING))]
                )

    def flush(self) -> Iterator[StyledLine]:
        """Yield what was held back: failures in a row are told once."""
        if self._api_failures:
            times = (
                f" {self._api_failures} times in a row"
                if self._api_failures > 1
                else ""
            )
            failed = styled_line(
                StyledSpan(f"• the API failed{times}", SpanStyle.WARNING)
            )
            self._api_failures = 0
            yield from self._emit("notice", [failed], is_compact=True)

    def _render_content(
        self, step: MessageStep | BlockStep | ToolCallStep
    ) -> Iterator[StyledLine]:
        match step:
            case MessageStep(message=message):
                if message.role is not Role.ASSISTANT:
                    is_news = message.origin is Origin.NOTIFICATION
                    kind = "notice" if is_news else "heard"
                    found = render_system_message(message, self._message_layout)
                    yield from self._emit(kind, found, is_compact=is_news)
            case BlockStep(message=message, block=block):
                yield from self._render_block(block, is_error=message.is_error)
            case ToolCallStep(call=call):
                found = self._render_call(call)
                yield from self._emit(
                    "call", found, is_compact=not self._view.include_tools
                )

    @property
    def _is_agent(self) -> bool:
        """Whether the next line is an agent's."""
        return bool(self._bars) and self._bars[-1].style is SpanStyle.AGENT

    @property
    def _max_width(self) -> int | None:
        """Columns that are left for a line."""
        if self._options.width is None:
            return None
        bars = sum(display_width(bar.text) for bar in self._bars[:_MAX_BARS])
        return max(self._options.width - bars, 20)

    @property
    def _message_layout(self) -> MessageLayout:
        return MessageLayout(
            max_width=_limit_width(self._max_width),
            text_parser=self._options.text_parser,
            is_full=self._view.include_tools,
        )

    def _emit(
        self, kind: str, lines: Iterable[StyledLine], *, is_compact: bool = False
    ) -> Iterator[StyledLine]:
        """Yield lines behind their bars, parted from what is above them.

        Those that are close stand right below lines of their own kind.
        """
        bars = tuple(self._bars[:_MAX_BARS])
        gap = bool(self._previous_kind) and not (
            is_compact and self._previous_kind == kind
        )
        for spans in lines:
            if gap:
                yield bars
                gap = False
            yield bars + spans
            self._previous_kind = kind

    def _render_header(self, start: SessionStart) -> Iterator[StyledLine]:
        yield from render_header(
            start.session, start.branch, self._options.zone, self._max_width
        )
        if start.turn_range:
            yield styled_line(StyledSpan(start.turn_range, SpanStyle.META))

    def _render_turn(self, turn: Turn) -> Iterator[StyledLine]:
        time = next((m.sent_at for m in turn.messages if m.sent_at), None)
        facts = []
        if time is not None:
            facts.append(format_time(time, self._options.zone, self._last_time))
            self._last_time = time
        if turn.duration:
            facts.append(format_duration(turn.duration))
        if turn.usage.total:
            facts.append(f"{format_tokens(turn.usage.total)} tokens")
        room = _limit_width(self._max_width) or 60
        line = f"── {' · '.join(facts)} " if facts else ""
        yield styled_line(
            StyledSpan(line + "─" * max(3, room - display_width(line)), SpanStyle.META)
        )

    def _render_block(self, block: Block, *, is_error: bool) -> Iterator[StyledLine]:
        room = _limit_width(self._max_width)
        if isinstance(block, TextBlock):
            style = SpanStyle.WARNING if is_error else SpanStyle.PLAIN
            found = wrap_markdown((block.text or "").strip("\n"), room, style)
        elif isinstance(block, ThinkingBlock):
            if not self._view.include_thinking:
                return
            found = wrap_markdown(
                (block.thinking or "").strip("\n"), room, SpanStyle.THINKING
            )
        else:
            note = sanitize_line(describe_block(block))
            found = iter([StyledSpan(note, SpanStyle.META)] if note else [])
        lines = [styled_line(span) for span in found]
        if any(span.text for spans in lines for span in spans):
            yield from self._emit("text", lines)

    def _render_call(self, call: ToolCall) -> Iterator[StyledLine]:
        yield from render_tool_line(
            self._call_formatter.format_call(call), self._max_width
        )
        if self._view.include_tools:
            for span in render_input(call):
                yield styled_line(StyledSpan("    ┆ ", SpanStyle.META), span)
            for span in render_result(call):
                yield styled_line(StyledSpan("    │ ", SpanStyle.META), span)

    def _render_agent(self, step: AgentStep) -> Iterator[StyledLine]:
        run = step.run
        if step.is_resumed:
            told = f"goes on with agent {sanitize_line(run.id)}"
            yield from self._emit("call", [_indented_note(told)], is_compact=True)
            return
        lines = list(self._render_agent_header(step))
        if not step.is_expanded:
            lines.extend(self._render_final_answer(run))
        yield from self._emit("call", lines, is_compact=True)
        if step.is_expanded:
            self._bars.append(StyledSpan("  │ ", SpanStyle.AGENT))
            self._previous_kind = ""

    def _render_agent_header(self, step: AgentStep) -> Iterator[StyledLine]:
        run = step.run
        facts = agent_facts(run)
        name = ": ".join(filter(None, (run.agent_type, run.description))) or run.id
        if step.call is None:
            yield styled_line(
                "  ", StyledSpan("Agent ", SpanStyle.TOOL), sanitize_line(name)
            )
        elif len(step.call.agents) > 1:
            # One agent is named by its call's line; of several, each needs its own.
            facts = [name, *facts]
        room = self._max_width - 4 if self._max_width else None
        mark = "  ╰ "
        for line in wrap_facts(facts, room):
            yield styled_line(
                StyledSpan(mark, SpanStyle.META), StyledSpan(line, SpanStyle.AGENT)
            )
            mark = "    "

    def _render_final_answer(self, run: AgentRun) -> Iterator[StyledLine]:
        """Yield the beginning of an agent's final answer."""
        words = _final_text(run)
        if words:
            room = self._max_width - 2 if self._max_width else None
            how = MessageLayout(
                max_width=_limit_width(room), text_parser=self._options.text_parser
            )
            for spans in render_truncated(
                words, how, "--agents shows all", max_lines=_MAX_AGENT_LINES
            ):
                yield styled_line("  ", *spans)

    def _render_fork(self, step: BranchStep) -> Iterator[StyledLine]:
        branch = step.branch
        words = describe_branch(branch)
        if step.is_expanded:
            told = f"╭ rewound, branch {branch.number}: {words}"
        elif branch.is_live:
            told = f"╰ the live branch goes on from here: {words}"
        else:
            where = f"--branch {branch.number}" if not self._bars else "--all"
            told = f"╰ rewound: {words} — show with {where}"
        yield from self._emit("fork", self._render_fork_lines(told))
        if step.is_expanded:
            self._bars.append(StyledSpan("│ ", SpanStyle.FORK))
            self._previous_kind = ""

    def _render_fork_lines(self, text: str) -> Iterator[StyledLine]:
        room = _limit_width(self._max_width)
        hang = "│ " if text.startswith("╭") else "  "
        for line in (
            [text] if room is None else wrap_line(text, room, subsequent_indent=hang)
        ):
            yield styled_line(StyledSpan(line, SpanStyle.FORK))

    def _close_bar(self) -> Iterator[StyledLine]:
        bar = self._bars.pop()
        sign = bar.text.replace("│", "╰")
        bars = tuple(self._bars[:_MAX_BARS])
        yield (*bars, StyledSpan(f"{sign.rstrip()}──", bar.style))
        self._previous_kind = "end"


def _limit_width(max_width: int | None) -> int | None:
    return None if max_width is None else min(max_width, _MAX_WIDTH)


def _indented_note(text: str) -> StyledLine:
    return styled_line(StyledSpan(f"  ╰ {text}", SpanStyle.META))


def _final_text(run: AgentRun) -> str:
    for turn in reversed(run.live_branch.turns):
        for message in reversed(turn.messages):
            if message.role is not Role.ASSISTANT:
                continue
            texts = [
                b.text for b in message.blocks if isinstance(b, TextBlock) and b.text
            ]
            if texts:
                lines = "\n".join(texts).splitlines()
                return "\n".join(line for line in lines if line.strip(" -*_=#"))
    return ""
