"""Render sessions as styled lines for terminals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from bygones.model.assembled import as_conversation
from bygones.model.conversations import BranchSummary, Conversation, MessageWindow
from bygones.model.nodes import Origin
from bygones.model.records import Block, TextBlock, ThinkingBlock
from bygones.model.sessions import (
    AgentRun,
    Message,
    Session,
    ToolCall,
)
from bygones.model.summary import Role
from bygones.model.usage import Cost
from bygones.render.headers import (
    agent_facts,
    agent_name,
    branch_label,
    describe_branch,
    render_header,
    wrap_facts,
)
from bygones.render.locate import contains_record
from bygones.render.message_text import (
    CONTINUATION,
    INTERRUPTED,
    TextParser,
    attached_texts,
    describe_block,
    describe_compaction,
    describe_expansion,
    describe_notice,
    describe_notification,
    describe_orphan_result,
    prompt_text,
    system_text,
)
from bygones.render.numbers import pluralize
from bygones.render.step_renderer import (
    RenderOptions,
    StepRenderer,
    SystemMessageRenderer,
)
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    display_width,
    plain_text,
    sanitize,
    sanitized_lines,
    styled_line,
    truncate_end,
    wrap_indented,
    wrap_line,
    wrap_markdown,
)
from bygones.render.tool_detail import render_input, render_result
from bygones.render.tool_line import render_tool_line
from bygones.render.walk import (
    AgentStep,
    BlockStep,
    BranchStep,
    MessageStep,
    SessionStart,
    SessionView,
    ToolCallStep,
    TurnStart,
    WalkStep,
    walk_session,
    walk_window,
)

_MAX_OUTPUT_LINES = 8
_TAB_WIDTH = 4
_SHOW_ALL_HINT = "--tools shows all"


class MessageLayout(Struct, frozen=True, kw_only=True):
    max_width: int | None
    text_parser: TextParser
    is_full: bool = False
    """Whether outputs are shown completely."""
    wraps_output: bool = True

    @property
    def output_width(self) -> int | None:
        """Columns of a complete output; ``None`` if its lines stay as they are."""
        return self.max_width if self.wraps_output else None


class TextSystemMessages(SystemMessageRenderer[Iterator[StyledLine]]):
    def __init__(self, layout: MessageLayout) -> None:
        self._layout = layout

    def prompt(self, message: Message) -> Iterator[StyledLine]:
        notes: list[str] = []
        if message.is_steering:
            yield styled_line(
                StyledSpan("sent while Claude was working:", SpanStyle.META)
            )
        else:
            notes = [
                describe_block(block)
                for block in message.blocks
                if not isinstance(block, TextBlock)
            ]
        text = prompt_text(message, self._layout.text_parser)
        yield from self._render_typed("\n".join(filter(None, (text, *notes))))

    def agent_task(self, message: Message) -> Iterator[StyledLine]:
        return self.prompt(message)

    def command(self, message: Message) -> Iterator[StyledLine]:
        command = message.command
        typed = f"{command.name} {command.args}".strip() if command else message.preview
        yield from self._render_typed(typed)
        yield from self._render_attached(message)

    def shell(self, message: Message) -> Iterator[StyledLine]:
        yield from self._render_typed(f"! {self._system_text(message)}")
        yield from self._render_attached(message)

    def memory(self, message: Message) -> Iterator[StyledLine]:
        yield from self._render_typed(f"# {self._system_text(message)}")

    def command_output(self, message: Message) -> Iterator[StyledLine]:
        yield from self._render_truncated(self._system_text(message))

    def interrupt(self, _message: Message) -> Iterator[StyledLine]:
        yield styled_line(StyledSpan(INTERRUPTED, SpanStyle.WARNING))

    def compaction(self, message: Message) -> Iterator[StyledLine]:
        line = f"── {describe_compaction(message)} ──"
        yield styled_line(StyledSpan(line, SpanStyle.FORK))
        _, summary = attached_texts(message, self._layout.text_parser)
        if summary and self._layout.is_full:
            yield from _render_output_lines(summary, self._layout.output_width)
        elif summary:
            count = pluralize(len(summary.splitlines()), "line")
            note = f"summary of {count}; --tools shows it"
            yield styled_line("  ", StyledSpan(note, SpanStyle.META))

    def continuation(self, message: Message) -> Iterator[StyledLine]:
        yield styled_line(StyledSpan(f"── {CONTINUATION} ──", SpanStyle.META))
        if self._layout.is_full:
            text = self._system_text(message)
            yield from _render_output_lines(text, self._layout.output_width)

    def notification(self, message: Message) -> Iterator[StyledLine]:
        text = describe_notification(message, self._layout.text_parser)
        yield self._render_muted(f"• {text}")

    def teammate(self, message: Message) -> Iterator[StyledLine]:
        yield styled_line(StyledSpan("• from a teammate:", SpanStyle.META))
        yield from self._render_truncated(self._system_text(message))

    def orphan_result(self, message: Message) -> Iterator[StyledLine]:
        yield self._render_muted(describe_orphan_result(message))

    def notice(self, message: Message) -> Iterator[StyledLine]:
        text, is_failure = describe_notice(message, self._layout.text_parser)
        if text:
            style = SpanStyle.WARNING if is_failure else SpanStyle.META
            for line in wrap_markdown(f"• {text}", self._layout.max_width, style):
                yield styled_line(line)

    def _system_text(self, message: Message) -> str:
        return system_text(message, self._layout.text_parser)

    def _render_typed(self, text: str) -> Iterator[StyledLine]:
        max_width = self._layout.max_width
        width = max_width - 2 if max_width is not None else None
        for line in wrap_markdown(text.strip("\n"), width, SpanStyle.PROMPT):
            yield styled_line(
                StyledSpan("▌ ", SpanStyle.PROMPT),
                StyledSpan(line.text, SpanStyle.PROMPT),
            )

    def _render_attached(self, message: Message) -> Iterator[StyledLine]:
        output, expansion = attached_texts(message, self._layout.text_parser)
        if output.strip():
            yield from self._render_truncated(output)
        if not expansion.strip():
            return
        if self._layout.is_full:
            yield from _render_output_lines(expansion, self._layout.output_width)
        else:
            note = f"{describe_expansion(expansion)}; {_SHOW_ALL_HINT}"
            yield styled_line("  ", StyledSpan(note, SpanStyle.META))

    def _render_truncated(self, text: str) -> Iterator[StyledLine]:
        return render_truncated(text, self._layout, _SHOW_ALL_HINT)

    def _render_muted(self, text: str) -> StyledLine:
        max_width = self._layout.max_width
        if max_width is not None:
            text = truncate_end(text, max_width)
        return styled_line(StyledSpan(text, SpanStyle.META))


def _render_output_lines(text: str, max_width: int | None) -> Iterator[StyledLine]:
    room = max_width - 2 if max_width is not None else None
    for line in sanitized_lines(text.strip("\n")):
        for part in _wrap_output(line, room):
            yield styled_line("  ", StyledSpan(part, SpanStyle.OUTPUT))


def _wrap_output(line: str, max_width: int | None) -> Iterator[str]:
    """Yield a line as it is, or on a terminal in parts that have enough room."""
    if max_width is None:
        yield line
    else:
        yield from wrap_indented(line.expandtabs(_TAB_WIDTH), max_width)


def render_truncated(
    text: str, layout: MessageLayout, hint: str, max_lines: int = _MAX_OUTPUT_LINES
) -> Iterator[StyledLine]:
    """Yield the first lines of an output, and how many more there are."""
    max_width = layout.max_width
    lines = list(sanitized_lines(text.strip("\n"), keep_tabs=max_width is None))
    is_complete = layout.is_full or len(lines) <= max_lines + 1
    shown = lines if is_complete else lines[:max_lines]
    if layout.is_full:
        yield from _render_output_lines("\n".join(shown), layout.output_width)
        return
    for line in shown:
        text = line if max_width is None else truncate_end(line, max_width - 2)
        yield styled_line("  ", StyledSpan(text, SpanStyle.OUTPUT))
    if len(shown) < len(lines):
        rest = pluralize(len(lines) - len(shown), "more line")
        yield styled_line("  ", StyledSpan(f"… {rest}; {hint}", SpanStyle.META))


_MAX_WIDTH = 100
"""Text is never wider than this, however wide the terminal is."""
_MIN_WIDTH = 20
_MAX_AGENT_LINES = 3
_MAX_BARS = 6
"""Nesting bars shown before a line at most."""


MarkdownRenderer = Callable[[str, int], Iterable[StyledLine]]
"""Returns the lines of a text for a width."""


class TextOptions(RenderOptions, frozen=True, kw_only=True):
    width: int | None = None
    """Columns of the terminal; ``None`` for a pipe, where nothing is wrapped."""
    wraps_output: bool = True
    """Whether commands and their output are wrapped, too, as a terminal needs it."""
    markdown: MarkdownRenderer | None = None
    """Renders replies; without it their Markdown is shown as written."""
    cost: Cost | None = None
    """The cost of the session, for its header."""


def render_text(
    source: Session | Conversation,
    view: SessionView | None = None,
    options: TextOptions | None = None,
) -> str:
    """Render a session as one text; 80 columns wide and in UTC by default."""
    lines = render_lines(
        source, view or SessionView(), options or TextOptions(width=80)
    )
    return "".join(f"{plain_text(line)}\n" for line in lines)


def render_lines(
    source: Session | Conversation, view: SessionView, options: TextOptions
) -> Iterator[StyledLine]:
    """Yield the lines of a session while it is walked."""
    return (line for line, _ in render_focused_lines(source, view, options))


def render_focused_lines(
    source: Session | Conversation, view: SessionView, options: TextOptions
) -> Iterator[tuple[StyledLine, bool]]:
    """Yield the lines of a session, and whether each is of a record in focus."""
    conversation = as_conversation(source)
    project = conversation.facts.project
    renderer = _TextRenderer(project, view, options, conversation)
    for step in walk_session(conversation, view):
        for line in renderer.render_step(step):
            yield line, renderer.is_in_focus
    for line in renderer.finish():
        yield line, False


def render_window_lines(
    window: MessageWindow, view: SessionView, options: TextOptions
) -> Iterator[StyledLine]:
    """Yield the lines of a range of messages, without the header of the session."""
    renderer = _TextRenderer(window.header.project, view, options)
    for step in walk_window(window):
        yield from renderer.render_step(step)
    yield from renderer.finish()


class _TextRenderer(StepRenderer[StyledLine]):
    def __init__(
        self,
        project: str | None,
        view: SessionView,
        options: TextOptions,
        conversation: Conversation | None = None,
    ) -> None:
        super().__init__(project, options)
        self._view = view
        self._options = options
        self._conversation = conversation
        self._bars: list[StyledSpan] = []
        self._previous_kind = ""
        """Kind of the lines above; empty at the start of a session or an agent."""
        self.is_in_focus = False
        """Whether the last step is of a record that the view has in focus."""

    def _before_step(self, step: WalkStep) -> Iterator[StyledLine]:
        self.is_in_focus = (
            bool(self._view.focus)
            and isinstance(step, MessageStep | BlockStep | ToolCallStep)
            and contains_record(step.message, self._view.focus)
        )
        return iter(())

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
            is_full=self._view.include_tools or self.is_in_focus,
            wraps_output=self._options.wraps_output,
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
        header = render_header(
            step.header,
            step.branch,
            self._zone,
            self._max_width,
            cost=self._options.cost,
        )
        yield from self._emit("head", header)
        if step.turn_range:
            line = styled_line(StyledSpan(step.turn_range, SpanStyle.META))
            yield from self._emit("head", [line], is_compact=True)

    def _render_turn(self, step: TurnStart) -> Iterator[StyledLine]:
        if self._is_in_agent and not self._previous_kind:
            # The line of the agent above shows the same as its first turn would.
            return
        facts = self._turn_facts(step.turn)
        width = _limit_width(self._max_width) or _RULE_WIDTH
        text = f"── {' · '.join(facts)} " if facts else ""
        rule = text + "─" * max(3, width - display_width(text))
        line = styled_line(StyledSpan(rule, SpanStyle.META))
        yield from self._emit("turn", [line])

    def _render_block(self, block: Block, *, is_error: bool) -> Iterator[StyledLine]:
        width = _limit_width(self._max_width)
        if isinstance(block, TextBlock):
            style = SpanStyle.WARNING if is_error else SpanStyle.PLAIN
            text = ("✗ " if is_error else "") + (block.text or "").strip("\n")
            if self._options.markdown and width is not None and not is_error:
                lines = self._options.markdown(text, width)
                yield from self._emit("text", lines)
                return
            spans = list(wrap_markdown(text, width, style))
        elif isinstance(block, ThinkingBlock):
            if not self._view.include_thinking and not self.is_in_focus:
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
        is_full = self._view.include_tools or self.is_in_focus
        yield from self._emit("call", self._call_lines(call), is_compact=not is_full)

    def _call_lines(self, call: ToolCall) -> Iterator[StyledLine]:
        yield from render_tool_line(
            self._call_formatter.format_call(call), self._max_width
        )
        if self._view.include_tools or self.is_in_focus:
            yield from self._detail_lines("    ┆ ", render_input(call))
            yield from self._detail_lines("    │ ", render_result(call))

    def _detail_lines(
        self, gutter: str, spans: Iterable[StyledSpan]
    ) -> Iterator[StyledLine]:
        """Yield lines of an input or a result, each part of them after the gutter."""
        width = self._max_width if self._options.wraps_output else None
        room = max(width - len(gutter), _MIN_WIDTH) if width is not None else None
        for span in spans:
            for part in _wrap_output(span.text, room):
                yield styled_line(
                    StyledSpan(gutter, SpanStyle.META), StyledSpan(part, span.style)
                )

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
        """Yield the first lines of an agent's final reply."""
        if self._conversation is None:
            return
        text = _final_text(self._conversation.agent(run.id))
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
        rest = step.read_rest() if step.read_rest is not None else None
        description = describe_branch(branch, rest)
        if step.is_expanded:
            text = f"╭ {branch_label(branch)}: {description}"
        elif branch.is_live:
            text = f"╰ the live branch continues from here: {description}"
        else:
            option = f"--branch {branch.number + 1}" if not self._bars else "--all"
            name = branch_label(branch) if branch.session_id else "abandoned branch"
            text = f"╰ {name} ({option}): {description}"
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

    def _render_branch_end(self, _branch: BranchSummary) -> Iterator[StyledLine]:
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


_FINAL_MESSAGES = 16
"""Messages to read at once to find the last reply of an agent."""


def _final_text(agent: Conversation) -> str:
    """Return the last reply of an agent without rules and empty lines."""
    live = next(branch for branch in agent.facts.branches if branch.is_live)
    stop = live.message_count
    while stop > 0:
        start = max(stop - _FINAL_MESSAGES, 0)
        for message in reversed(agent.window(live.number, start, stop).messages):
            if message.role is not Role.ASSISTANT:
                continue
            texts = [
                b.text for b in message.blocks if isinstance(b, TextBlock) and b.text
            ]
            if texts:
                lines = "\n".join(texts).splitlines()
                return "\n".join(line for line in lines if line.strip(" -*_=#"))
        stop = start
    return ""
