"""Text as Markdown: what was written as such stays, what is dangerous in it does not.

Viewers differ in what they let through: raw HTML is spelled out, pictures are linked
instead of loaded, and links lead to the web or to a mail address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from html import escape

from msgspec import Struct

from bygones.model.nodes import Origin
from bygones.model.outcomes import CURRENT_TOOL_NAMES, build_hunks
from bygones.model.records import Block, TextBlock, ThinkingBlock
from bygones.model.sessions import (
    AgentRun,
    ConversationHeader,
    Message,
    MessageWindow,
    Session,
    ToolCall,
    Turn,
)
from bygones.model.summary import Role
from bygones.render.headers import (
    agent_facts,
    describe_branch,
    session_header_facts,
    window_header_facts,
)
from bygones.render.message_text import (
    TextParser,
    attached_texts,
    describe_block,
    describe_compaction,
    describe_notice,
    describe_notification,
    display_origin,
    parse_as_typed,
    prompt_text,
    system_text,
)
from bygones.render.numbers import (
    format_duration,
    format_time,
    format_tokens,
    pluralize,
)
from bygones.render.text.primitives import sanitize, sanitize_line
from bygones.render.tool_detail import (
    TodoItem,
    format_json,
    output_text,
    parse_tool_input,
)
from bygones.render.tool_line import ToolCallFormatter, ToolCallLine, ToolCallState
from bygones.render.walk import (
    AgentEnd,
    AgentStep,
    BlockStep,
    BranchEnd,
    BranchLink,
    BranchStep,
    MessageStep,
    OrphanAgents,
    SessionStart,
    SessionView,
    ToolCallStep,
    TurnStart,
    WalkStep,
    walk_session,
    walk_window,
)

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_SPECIAL_CHARS = re.compile(r"([\\`*_\[\]{}#|~])")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_AUTOLINK = re.compile(r"<(https?://[^\s<>]+|mailto:[^\s<>]+)>")
_UNSAFE_LINK_TARGET = re.compile(
    r"(\]\(\s*<?|^ {0,3}\[[^\]]*\]:\s*<?)"
    r"(?![hH][tT]{2}[pP][sS]?:|[mM]ailto:|#)(?=[^\s)])"
)
"""Where a link leads that does not lead to the web."""
_HEADING = re.compile(r" {0,3}(#{1,6})(?=\s|$)")
_BACKTICKS = re.compile(r"`+")
_HEADING_SHIFT = 2
"""Levels by which headings go down: those of the page stand above them."""
_MAX_HEADING_LEVEL = 6


def escape_markdown(text: str) -> str:
    r"""Return a text on one line that Markdown shows as it is.

    >>> plain("a *b* <c>")
    'a \\*b\\* &lt;c>'
    """
    return _SPECIAL_CHARS.sub(
        r"\\\1", sanitize_line(text).replace("&", "&amp;")
    ).replace("<", "&lt;")


def escape_summary(text: str) -> str:
    """Return a text on one line for an element in which Markdown is not read."""
    return escape(sanitize_line(text), quote=False)


def inline_code(text: str) -> str:
    """Return a text on one line as code."""
    line = sanitize_line(text)
    mark = "`" * (_longest_backtick_run(line) + 1)
    gap = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{mark}{gap}{line}{gap}{mark}" if line else ""


def fenced_code(text: str, language: str = "") -> str:
    """Return a text as a block of code, in a fence that nothing in it can end."""
    body = sanitize(text).strip("\n")
    mark = "`" * max(3, _longest_backtick_run(body) + 1)
    return f"{mark}{language}\n{body}\n{mark}\n"


def _longest_backtick_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def neutralize_markdown(text: str) -> str:
    """Return Markdown that shows the same and does nothing."""
    return "\n".join(_neutralize_lines(sanitize(text).strip("\n")))


def quote_markdown(text: str) -> str:
    """Return Markdown as a quotation in which every line stays one."""
    lines = neutralize_markdown(text).split("\n")
    return "\n".join(f"> {line}  " if line else ">" for line in lines)


def _neutralize_lines(text: str) -> Iterator[str]:
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            yield line
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif mark and not ("`" in mark[1] and "`" in line[mark.end() :]):
            fence = mark[1]
            yield _TAG.sub("&lt;", line)
        else:
            yield _neutralize_line(line)
    if fence:
        # Nobody closed it; what follows is not part of it.
        yield fence


def _neutralize_line(line: str) -> str:
    """Return a line of Markdown without what is dangerous outside of code."""
    heading = _HEADING.match(line)
    if heading:
        level = min(len(heading[1]) + _HEADING_SHIFT, _MAX_HEADING_LEVEL)
        line = "#" * level + line[heading.end() :]
    parts: list[str] = []
    at = 0
    for found in _CODE.finditer(line):
        parts += (_neutralize_text(line[at : found.start()]), found[0])
        at = found.end()
    parts.append(_neutralize_text(line[at:]))
    return "".join(parts)


def _neutralize_text(text: str) -> str:
    text = _AUTOLINK.sub(r"[\1](\1)", text)
    text = _TAG.sub("&lt;", text).replace("![", "[picture: ")
    return _UNSAFE_LINK_TARGET.sub(r"\1#not-followed:", text)


_MAX_LINES = 40
"""Lines of an output that are shown."""
_MAX_CHARS = 4_000
_EDIT_TOOLS = {"Edit", "Write", "MultiEdit", "NotebookEdit"}
_UNREMARKABLE_STATES = {ToolCallState.DONE, ToolCallState.WAITING}


class MarkdownOptions(Struct, frozen=True, kw_only=True):
    """For whom Markdown is made."""

    zone: tzinfo | None = UTC
    text_parser: TextParser = parse_as_typed


def render_session_markdown(
    session: Session,
    view: SessionView | None = None,
    options: MarkdownOptions | None = None,
) -> Iterator[str]:
    """Yield a session as Markdown, piece by piece; calls fold where a viewer can."""
    view, options = view or SessionView(), options or MarkdownOptions()
    setter = _MarkdownRenderer(session.project, view, options)
    for step in walk_session(session, view):
        yield from (f"{part}\n\n" for part in setter.render_step(step) if part)


def render_window_markdown(
    window: MessageWindow, options: MarkdownOptions | None = None
) -> Iterator[str]:
    """Yield the messages of a window as Markdown, and nothing around them."""
    view = SessionView(include_thinking=False, include_tools=True)
    setter = _MarkdownRenderer(
        window.header.project, view, options or MarkdownOptions()
    )
    for step in walk_window(window):
        if isinstance(step, MessageStep | BlockStep | ToolCallStep | AgentStep):
            yield from (f"{part}\n\n" for part in setter.render_step(step) if part)


def render_branch_markdown(
    windows: Iterable[MessageWindow], options: MarkdownOptions | None = None
) -> Iterator[str]:
    """Yield a branch as :func:`markdown` would, of all its windows in their order."""
    options = options or MarkdownOptions()
    seen: set[str] = set()
    setter: _MarkdownRenderer | None = None
    for window in windows:
        if setter is None:
            setter = _MarkdownRenderer(
                window.header.project, SessionView(include_tools=True), options
            )
            yield from (f"{part}\n\n" for part in setter.render_window_header(window))
        for step in walk_window(window, seen):
            yield from (f"{part}\n\n" for part in setter.render_step(step) if part)


class _MarkdownRenderer:
    """Sets one session."""

    def __init__(
        self, project: str | None, view: SessionView, options: MarkdownOptions
    ) -> None:
        self._view = view
        self._options = options
        self._call_formatter = ToolCallFormatter(project)
        self._last_time: datetime | None = None
        self._api_failures = 0

    def render_step(self, step: WalkStep | BranchLink) -> Iterator[str]:
        if isinstance(step, MessageStep) and step.message.system_subtype == "api_error":
            self._api_failures += 1
            return
        if self._api_failures:
            times = (
                f" {self._api_failures} times in a row"
                if self._api_failures > 1
                else ""
            )
            self._api_failures = 0
            yield f"*• the API failed{times}*"
        match step:
            case MessageStep() | BlockStep() | ToolCallStep():
                yield from self._render_content(step)
            case SessionStart():
                yield from self._render_header(step)
            case TurnStart():
                yield self._render_turn(step.turn)
            case AgentStep():
                yield self._render_agent(step)
            case BranchStep() | BranchEnd() | BranchLink():
                yield _render_branch(step)
            case AgentEnd():
                yield "</details>"
            case OrphanAgents():
                yield "## Agents that no call here is known to have started"

    def _render_content(
        self, step: MessageStep | BlockStep | ToolCallStep
    ) -> Iterator[str]:
        match step:
            case MessageStep(message=message):
                if message.role is Role.ASSISTANT:
                    return
                yield from self._render_system_message(message)
            case BlockStep(block=block):
                yield self._render_block(block)
            case ToolCallStep(call=call):
                yield from self._render_call(call)

    def _render_header(self, step: SessionStart) -> Iterator[str]:
        told = session_header_facts(step.session, step.branch, self._options.zone)
        yield from _render_header_lines(step.session, (*told, [step.turn_range]))

    def render_window_header(self, window: MessageWindow) -> Iterator[str]:
        branch = window.header.find_branch(window.branch_number)
        if branch is not None:
            told = window_header_facts(window.header, branch, self._options.zone)
            yield from _render_header_lines(window.header, told)

    def _render_turn(self, turn: Turn) -> str:
        time = next((m.sent_at for m in turn.messages if m.sent_at), None)
        facts = []
        if time is not None:
            facts.append(format_time(time, self._options.zone, self._last_time))
            self._last_time = time
        facts.append(format_duration(turn.duration) if turn.duration else "")
        facts.append(
            f"{format_tokens(turn.usage.total)} tokens" if turn.usage.total else ""
        )
        return f"---\n\n*{' · '.join(filter(None, facts)) or '…'}*"

    def _render_system_message(self, message: Message) -> Iterator[str]:
        teller = self._options.text_parser
        kind = display_origin(message)
        if message.compaction is not None:
            yield f"**{escape_markdown(describe_compaction(message))}**"
        elif kind in {Origin.PERSON, Origin.CALLER}:
            others = (
                block for block in message.blocks if not isinstance(block, TextBlock)
            )
            yield quote_markdown(prompt_text(message, teller) or "…")
            yield "\n".join(
                filter(None, (escape_markdown(describe_block(b)) for b in others))
            )
        elif kind in _COMMAND_PREFIXES:
            yield from self._render_command(message, _COMMAND_PREFIXES[kind])
        elif kind in {Origin.COMMAND_OUTPUT, Origin.SHELL_OUTPUT, Origin.TEAMMATE}:
            yield _render_truncated(system_text(message, teller))
        elif kind is Origin.INTERRUPT:
            yield "*✗ interrupted by the user*"
        elif kind is Origin.NOTIFICATION:
            yield f"*• {escape_markdown(describe_notification(message, teller))}*"
        elif kind is Origin.COMPACTION:
            yield "*goes on after a compaction*"
        else:
            told, _ = describe_notice(message, teller)
            yield f"*• {escape_markdown(told)}*" if told else ""

    def _render_command(self, message: Message, prefix: str) -> Iterator[str]:
        command = message.command
        words = system_text(message, self._options.text_parser)
        if command is not None:
            words = f"{command.name} {command.args}".strip()
        yield f"> {inline_code(f'{prefix}{words}')}"
        printed, meant = attached_texts(message, self._options.text_parser)
        yield _render_truncated(printed)
        if meant.strip():
            count = pluralize(len(meant.splitlines()), "line")
            yield f"*it put {count} before Claude*"

    def _render_block(self, block: Block) -> str:
        if isinstance(block, TextBlock):
            return neutralize_markdown(block.text or "")
        if isinstance(block, ThinkingBlock):
            thought = (block.thinking or "").strip()
            if not self._view.include_thinking or not thought:
                return ""
            return _render_details("Thought", quote_markdown(thought))
        return escape_markdown(describe_block(block))

    def _render_call(self, call: ToolCall) -> Iterator[str]:
        line = self._call_formatter.format_call(call)
        runs = [run.id for run in call.agents if run.kind.is_shown]
        told = _call_summary(line)
        body = "" if runs or not self._view.include_tools else _render_call_body(call)
        yield _render_details(told, body) if body else f"- {_render_call_line(line)}"

    def _render_agent(self, step: AgentStep) -> str:
        run = step.run
        if step.is_resumed:
            return f"*goes on with agent {escape_markdown(run.id)}*"
        told = _describe_agent(run)
        if not step.is_expanded:
            return f"- {escape_markdown(told)}"
        return f"<details><summary>{escape_summary(told)}</summary>"


_COMMAND_PREFIXES = {Origin.COMMAND: "", Origin.SHELL: "! ", Origin.MEMORY: "# "}


def _render_header_lines(
    session: Session | ConversationHeader, fact_lines: Iterable[Iterable[str]]
) -> Iterator[str]:
    yield f"# {escape_markdown(session.title.text) or escape_markdown(session.id)}"
    lines = (
        " · ".join(escape_markdown(fact) for fact in facts if fact)
        for facts in fact_lines
    )
    yield "\n".join(f"- {line}" for line in lines if line)


def _render_branch(step: BranchStep | BranchEnd | BranchLink) -> str:
    branch = step.branch
    if isinstance(step, BranchEnd):
        return f"**Branch {branch.number} ends here.**"
    way = "The live branch" if branch.is_live else f"Rewound, branch {branch.number}"
    return f"**{way}:** {escape_markdown(describe_branch(branch))}"


def _describe_agent(run: AgentRun) -> str:
    name = ": ".join(filter(None, (run.agent_type, run.description))) or run.id
    return f"Agent {name} ({' · '.join(filter(None, agent_facts(run)))})"


def _render_call_line(line: ToolCallLine) -> str:
    told = [f"**{escape_markdown(line.name)}**", inline_code(line.subject)]
    return " ".join(filter(None, (*told, escape_markdown(_call_facts(line)))))


def _call_summary(line: ToolCallLine) -> str:
    return " ".join(filter(None, (line.name, line.subject, _call_facts(line))))


def _call_facts(line: ToolCallLine) -> str:
    facts = [*line.facts]
    if line.added or line.removed:
        facts.insert(0, f"+{line.added} \N{MINUS SIGN}{line.removed}")
    if line.state not in _UNREMARKABLE_STATES:
        facts.insert(0, line.state.value)
    told = f"({' · '.join(facts)})" if facts else ""
    return f"{told}: {line.error}" if line.error else told


def _render_details(summary_text: str, body: str) -> str:
    return f"<details><summary>{escape_summary(summary_text)}</summary>\n\n{body}\n\n</details>"


def _render_call_body(call: ToolCall) -> str:
    name = CURRENT_TOOL_NAMES.get(call.name, call.name)
    fields = parse_tool_input(call)
    parts = []
    if name in _EDIT_TOOLS:
        hunks = build_hunks(call.outcome, call.input)
        lines = (line for hunk in hunks for line in hunk.lines)
        parts.append(_render_truncated("\n".join(lines), "diff"))
        if not call.is_error:
            return parts[0]
    elif name in {"Bash", "PowerShell"} and fields.command:
        parts.append(_render_truncated(fields.command, "sh"))
    elif fields.todos and not call.is_error:
        return _render_checklist(fields.todos)
    elif name == "ExitPlanMode" and fields.plan:
        parts.append(neutralize_markdown(fields.plan))
    elif name not in {"Read", "Glob", "Grep"}:
        parts.append(_render_truncated(format_json(bytes(call.input)), "json"))
    parts.append(_render_truncated(output_text(call)))
    return "\n\n".join(filter(None, parts))


def _render_checklist(tasks: Sequence[TodoItem]) -> str:
    return "\n".join(
        f"- [{'x' if one.status == 'completed' else ' '}] "
        f"{escape_markdown(one.content or one.subject or '')}"
        for one in tasks
    )


def _render_truncated(text: str, language: str = "") -> str:
    text = text.strip("\n")
    if not text.strip():
        return ""
    lines = text.split("\n")
    shown = "\n".join(lines[:_MAX_LINES])[:_MAX_CHARS]
    if len(shown) == len(text):
        return fenced_code(text, language).rstrip("\n")
    rest = len(text) - len(shown)
    return f"{fenced_code(shown, language)}\n*… {rest:,} more signs*"
