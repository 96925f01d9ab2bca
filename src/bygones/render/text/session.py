"""Render a session as lines of styled text for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bygones.model.nodes import Origin
from bygones.model.records import Block, TextBlock, ThinkingBlock
from bygones.model.sessions import AgentRun, Branch, Message, Session, ToolCall, Turn
from bygones.model.summary import Role
from bygones.render.headers import (
    agent_facts,
    agent_name,
    describe_branch,
    render_header,
    wrap_facts,
)
from bygones.render.message_text import describe_block
from bygones.render.step_renderer import RenderOptions, StepRenderer
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    display_width,
    plain_text,
    sanitize,
    styled_line,
    wrap_line,
    wrap_markdown,
)
from bygones.render.text.system_messages import (
    MessageLayout,
    TextSystemMessages,
    render_truncated,
)
from bygones.render.tool_detail import render_input, render_result
from bygones.render.tool_line import render_tool_line
from bygones.render.walk import (
    AgentStep,
    BranchStep,
    SessionStart,
    SessionView,
    walk_session,
)

_MAX_WIDTH = 100
"""Text is never wider than this, however wide the terminal is."""
_MIN_WIDTH = 20
_MAX_AGENT_LINES = 3
_MAX_BARS = 6
"""Nesting bars shown before a line at most."""


class TextOptions(RenderOptions, frozen=True, kw_only=True):
    width: int | None = None
    """Columns of the terminal; ``None`` for a pipe, where nothing is wrapped."""


def render_text(
    session: Session,
    view: SessionView | None = None,
    options: TextOptions | None = None,
) -> str:
    """Render a session as one text; 80 columns wide and in UTC by default."""
    lines = render_lines(
        session, view or SessionView(), options or TextOptions(width=80)
    )
    return "".join(f"{plain_text(line)}\n" for line in lines)


def render_lines(
    session: Session, view: SessionView, options: TextOptions
) -> Iterator[StyledLine]:
    """Yield the lines of a session while it is walked."""
    renderer = _TextRenderer(session.project, view, options)
    for step in walk_session(session, view):
        yield from renderer.render_step(step)
    yield from renderer.finish()


class _TextRenderer(StepRenderer[StyledLine]):
    def __init__(
        self, project: str | None, view: SessionView, options: TextOptions
    ) -> None:
        super().__init__(project, options)
        self._view = view
        self._options = options
        self._bars: list[StyledSpan] = []
        self._previous_kind = ""
        """Kind of the lines above; empty at the start of a session or an agent."""

    def _render_failure(self, text: str) -> Iterator[StyledLine]:
        line = styled_line(StyledSpan(text, SpanStyle.WARNING))
        yield from self._emit("notice", [line], is_compact=True)

    def _render_heading(self, text: str) -> Iterator[StyledLine]:
        line = styled_line(StyledSpan(text, SpanStyle.HEADING))
        yield from self._emit("head", [line])

    def _render_message(self, message: Message) -> Iterator[StyledLine]:
        if message.role is Role.ASSISTANT:
            return
        is_notification = message.origin is Origin.NOTIFICATION
        yield from self._emit(
            "notice" if is_notification else "message",
            TextSystemMessages(self._message_layout).render(message),
            is_compact=is_notification,
        )

    @property
    def _is_in_agent(self) -> bool:
        return bool(self._bars) and self._bars[-1].style is SpanStyle.AGENT

    @property
    def _max_width(self) -> int | None:
        """Columns available after the bars."""
        if self._options.width is None:
            return None
        bars = sum(display_width(bar.text) for bar in self._bars[:_MAX_BARS])
        return max(self._options.width - bars, _MIN_WIDTH)

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
        """Yield lines after the bars, with an empty line above.

        Compact lines have no empty line above if the previous kind is the same.
        """
        bars = tuple(self._bars[:_MAX_BARS])
        needs_gap = bool(self._previous_kind) and not (
            is_compact and self._previous_kind == kind
        )
        for line in lines:
            if needs_gap:
                yield bars
                needs_gap = False
            yield bars + line
            self._previous_kind = kind

    def _render_header(self, step: SessionStart) -> Iterator[StyledLine]:
        header = render_header(step.session, step.branch, self._zone, self._max_width)
        yield from self._emit("head", header)
        if step.turn_range:
            line = styled_line(StyledSpan(step.turn_range, SpanStyle.META))
            yield from self._emit("head", [line], is_compact=True)

    def _render_turn(self, turn: Turn) -> Iterator[StyledLine]:
        if self._is_in_agent and not self._previous_kind:
            # The line of the agent above shows the same as its first turn would.
            return
        facts = self._turn_facts(turn)
        width = _limit_width(self._max_width) or _RULE_WIDTH
        text = f"── {' · '.join(facts)} " if facts else ""
        rule = text + "─" * max(3, width - display_width(text))
        line = styled_line(StyledSpan(rule, SpanStyle.META))
        yield from self._emit("turn", [line])

    def _render_block(self, block: Block, *, is_error: bool) -> Iterator[StyledLine]:
        width = _limit_width(self._max_width)
        if isinstance(block, TextBlock):
            style = SpanStyle.WARNING if is_error else SpanStyle.PLAIN
            spans = list(wrap_markdown((block.text or "").strip("\n"), width, style))
        elif isinstance(block, ThinkingBlock):
            if not self._view.include_thinking:
                return
            thinking = (block.thinking or "").strip("\n")
            spans = list(wrap_markdown(thinking, width, SpanStyle.THINKING))
        else:
            spans = [
                StyledSpan(
                    sanitize(describe_block(block), newlines="space"), SpanStyle.META
                )
            ]
        if any(span.text for span in spans):
            yield from self._emit("text", map(styled_line, spans))

    def _render_call(self, call: ToolCall) -> Iterator[StyledLine]:
        yield from self._emit(
            "call", self._call_lines(call), is_compact=not self._view.include_tools
        )

    def _call_lines(self, call: ToolCall) -> Iterator[StyledLine]:
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
            note = f"  ╰ continues agent {sanitize(run.id, newlines='space')}"
            line = styled_line(StyledSpan(note, SpanStyle.META))
            yield from self._emit("call", [line], is_compact=True)
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
        name = agent_name(run)
        if step.call is None:
            yield styled_line(
                "  ",
                StyledSpan("Agent ", SpanStyle.TOOL),
                sanitize(name, newlines="space"),
            )
        elif len(step.call.agents) > 1:
            # The line of the call names a single agent, but not one of several.
            facts = [name, *facts]
        width = self._max_width - 4 if self._max_width else None
        prefix = "  ╰ "
        for line in wrap_facts(facts, width):
            yield styled_line(
                StyledSpan(prefix, SpanStyle.META), StyledSpan(line, SpanStyle.AGENT)
            )
            prefix = "    "

    def _render_final_answer(self, run: AgentRun) -> Iterator[StyledLine]:
        """Yield the first lines of an agent's final answer."""
        text = _final_text(run)
        if text:
            width = self._max_width - 2 if self._max_width else None
            layout = MessageLayout(
                max_width=_limit_width(width), text_parser=self._options.text_parser
            )
            for line in render_truncated(
                text, layout, "--agents shows all", max_lines=_MAX_AGENT_LINES
            ):
                yield styled_line("  ", *line)

    def _render_branch(self, step: BranchStep) -> Iterator[StyledLine]:
        branch = step.branch
        description = describe_branch(branch)
        if step.is_expanded:
            text = f"╭ rewound, branch {branch.number + 1}: {description}"
        elif branch.is_live:
            text = f"╰ the live branch continues from here: {description}"
        else:
            option = f"--branch {branch.number + 1}" if not self._bars else "--all"
            text = f"╰ rewound: {description} — show with {option}"
        yield from self._emit("fork", self._fork_lines(text))
        if step.is_expanded:
            self._bars.append(StyledSpan("│ ", SpanStyle.FORK))
            self._previous_kind = ""

    def _fork_lines(self, text: str) -> Iterator[StyledLine]:
        width = _limit_width(self._max_width)
        indent = "│ " if text.startswith("╭") else "  "
        lines = [text]
        if width is not None:
            lines = [*wrap_line(text, width, subsequent_indent=indent)]
        for line in lines:
            yield styled_line(StyledSpan(line, SpanStyle.FORK))

    def _render_agent_end(self) -> Iterator[StyledLine]:
        return self._close_bar()

    def _render_branch_end(self, _branch: Branch) -> Iterator[StyledLine]:
        return self._close_bar()

    def _close_bar(self) -> Iterator[StyledLine]:
        bar = self._bars.pop()
        corner = bar.text.replace("│", "╰").rstrip()
        yield (*self._bars[:_MAX_BARS], StyledSpan(f"{corner}──", bar.style))
        self._previous_kind = "end"


_RULE_WIDTH = 60
"""Width of the line above a turn if there is no terminal."""


def _limit_width(max_width: int | None) -> int | None:
    return None if max_width is None else min(max_width, _MAX_WIDTH)


def _final_text(run: AgentRun) -> str:
    """Return the last answer of an agent without rules and empty lines."""
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
