"""Render a session as Markdown.

Markdown in messages is kept but made harmless, because viewers differ in what they
allow: raw HTML is escaped, images become links, and links may only use http, https and
mailto.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt

from bygones.model.assembled import as_conversation
from bygones.model.conversations import (
    BranchSummary,
    Conversation,
    ConversationHeader,
    MessageWindow,
)
from bygones.model.outcomes import CURRENT_TOOL_NAMES, build_hunks
from bygones.model.records import Block, TextBlock, ThinkingBlock
from bygones.model.sessions import Message, Session, ToolCall
from bygones.model.summary import Role
from bygones.render.headers import (
    agent_facts,
    agent_name,
    branch_label,
    describe_branch,
    session_header_facts,
)
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
    prompt_text,
    system_text,
)
from bygones.render.step_renderer import (
    RenderOptions,
    StepRenderer,
    SystemMessageRenderer,
)
from bygones.render.text.primitives import sanitize
from bygones.render.tool_detail import (
    TodoItem,
    format_json,
    output_text,
    parse_tool_input,
    shell_diffs,
)
from bygones.render.tool_line import ToolCallLine
from bygones.render.walk import (
    AgentStep,
    BlockStep,
    BranchStep,
    MessageStep,
    SessionStart,
    SessionView,
    ToolCallStep,
    TurnStart,
    walk_session,
    walk_window,
)

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_SPECIAL_CHARS = re.compile(r"([\\`*_\[\]{}#|~])")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_AUTOLINK = re.compile(r"<(https?://[^\s<>]+|mailto:[^\s<>]+)>")
_UNSAFE_LINK_TARGET = re.compile(
    r"(\]\(\s*<?|^ {0,3}\[[^\]]*\]:\s*<?)"
    r"(?![hH][tT]{2}[pP][sS]?:|[mM]ailto:|#)(?=[^\s)])"
)
"""The target of a link that is neither a web nor a mail address."""
_SAFE_TARGET = re.compile(r"(?i)https?:|mailto:|#|$")
_MAYBE_ACTIVE = re.compile(r"<[A-Za-z/!?]|!\[|\]\(|\]:|`{3}|~{3}")
_ACTIVE_TOKENS = frozenset({"html_block", "html_inline", "image"})
_END = "end"
_MAX_PARSED_LENGTH = 100_000
_HEADING = re.compile(r" {0,3}(#{1,6})(?=\s|$)")
_BACKTICKS = re.compile(r"`+")
_HEADING_SHIFT = 2
"""Headings in messages rank below those of the page."""
_MAX_HEADING_LEVEL = 6


def escape_markdown(text: str) -> str:
    r"""Return a text on one line, escaped so that Markdown shows it literally.

    >>> escape_markdown("a *b* <c>")
    'a \\*b\\* &lt;c>'
    """
    return _SPECIAL_CHARS.sub(
        r"\\\1", sanitize(text, newlines="space").replace("&", "&amp;")
    ).replace("<", "&lt;")


def escape_summary(text: str) -> str:
    """Return a text on one line for an HTML element that contains no Markdown."""
    return escape(sanitize(text, newlines="space"), quote=False)


def inline_code(text: str) -> str:
    line = sanitize(text, newlines="space")
    fence = "`" * (_longest_backtick_run(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}" if line else ""


def fenced_code(text: str, language: str = "") -> str:
    """Return a text as a code block, with a fence longer than any in the text."""
    body = sanitize(text).strip("\n")
    fence = "`" * max(3, _longest_backtick_run(body) + 1)
    return f"{fence}{language}\n{body}\n{fence}\n"


def _longest_backtick_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def neutralize_markdown(text: str) -> str:
    """Return Markdown that looks the same but contains nothing active.

    Code is recognized line by line, which fails if it is nested in lists or continues
    on the next line. So the result is parsed, and if it is not safe, all tags are
    escaped, also in code. If that does not help, or the text is too long to be parsed,
    it becomes a code block.
    """
    text = sanitize(text).strip("\n")
    for lines in (_neutralize_lines(text), map(_neutralize_text, text.split("\n"))):
        result = "\n".join(lines)
        is_short = len(result) <= _MAX_PARSED_LENGTH
        if not _MAYBE_ACTIVE.search(result) or (is_short and _is_inactive(result)):
            return result
    return fenced_code(text).rstrip("\n")


def _is_inactive(source: str) -> bool:
    """Return whether Markdown has no HTML, images, unsafe links or open blocks."""
    env: dict[str, Any] = {}
    tokens = _parser().parse(f"{source}\n\n{_END}", env)
    inner = [child for token in tokens for child in token.children or ()]
    targets = [str(token.attrs["href"]) for token in inner if token.type == "link_open"]
    targets += [one["href"] for one in env.get("references", {}).values()]
    return (
        tokens[-1].level == 0
        and tokens[-1].type == "paragraph_close"
        and tokens[-2].content == _END
        and not any(token.type in _ACTIVE_TOKENS for token in (*tokens, *inner))
        and all(_SAFE_TARGET.match(target) for target in targets)
    )


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    # Unsafe links are to be found, not to be ignored.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005
    return parser


def quote_markdown(text: str) -> str:
    """Return Markdown as a quotation that keeps its line breaks."""
    lines = neutralize_markdown(text).split("\n")
    return "\n".join(f"> {line}  " if line else ">" for line in lines)


def _neutralize_lines(text: str) -> Iterator[str]:
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            yield line
            if match and match[1].startswith(fence) and not line[match.end() :].strip():
                fence = ""
        elif match and not ("`" in match[1] and "`" in line[match.end() :]):
            fence = match[1]
            yield _TAG.sub("&lt;", line)
        else:
            yield _neutralize_line(line)
    if fence:
        # The fence was never closed; text after this message is not part of it.
        yield fence


def _neutralize_line(line: str) -> str:
    heading = _HEADING.match(line)
    if heading:
        level = min(len(heading[1]) + _HEADING_SHIFT, _MAX_HEADING_LEVEL)
        line = "#" * level + line[heading.end() :]
    parts: list[str] = []
    end = 0
    for code_start, code_end in _find_code(line):
        parts += (
            _neutralize_text(line[end:code_start]),
            line[code_start:code_end],
        )
        end = code_end
    parts.append(_neutralize_text(line[end:]))
    return "".join(parts)


def _find_code(line: str) -> Iterator[tuple[int, int]]:
    """Yield where code is in a line: between two runs of as many backticks."""
    closing: dict[int, int] = {}
    spans = []
    for run in reversed(list(_BACKTICKS.finditer(line))):
        length = len(run[0])
        if length in closing:
            spans.append((run.start(), closing[length]))
        closing[length] = run.end()
    end = 0
    for code_start, code_end in reversed(spans):
        if code_start >= end:
            yield code_start, code_end
            end = code_end


def _neutralize_text(text: str) -> str:
    text = _AUTOLINK.sub(r"[\1](\1)", text)
    text = _TAG.sub("&lt;", text).replace("![", "[image: ")
    return _UNSAFE_LINK_TARGET.sub(r"\1#not-followed:", text)


_MAX_LINES = 40
_MAX_CHARS = 4_000
_EDIT_TOOLS = {"Edit", "Write", "MultiEdit", "NotebookEdit"}


def render_session_markdown(
    source: Session | Conversation,
    view: SessionView | None = None,
    options: RenderOptions | None = None,
) -> Iterator[str]:
    """Yield a session as Markdown, in pieces. Tool calls are in <details> elements."""
    view, options = view or SessionView(), options or RenderOptions()
    conversation = as_conversation(source)
    renderer = _MarkdownRenderer(conversation.facts.project, view, options)
    for step in walk_session(conversation, view):
        yield from _paragraphs(renderer.render_step(step))


def render_window_markdown(
    window: MessageWindow, options: RenderOptions | None = None
) -> Iterator[str]:
    """Yield only the messages of a window as Markdown."""
    view = SessionView(include_thinking=False, include_tools=True)
    options = options or RenderOptions()
    renderer = _MarkdownRenderer(window.header.project, view, options)
    for step in walk_window(window):
        if isinstance(step, MessageStep | BlockStep | ToolCallStep | AgentStep):
            yield from _paragraphs(renderer.render_step(step))


def _paragraphs(parts: Iterable[str]) -> Iterator[str]:
    return (f"{part}\n\n" for part in parts if part)


class _MarkdownRenderer(StepRenderer[str]):
    def __init__(
        self, project: str | None, view: SessionView, options: RenderOptions
    ) -> None:
        super().__init__(project, options)
        self._view = view
        self._system_messages = _MarkdownSystemMessages(options.text_parser)

    def _render_failure(self, text: str) -> Iterator[str]:
        yield f"*{text}*"

    def _render_heading(self, text: str) -> Iterator[str]:
        yield f"## {escape_markdown(text)}"

    def _render_header(self, step: SessionStart) -> Iterator[str]:
        facts = session_header_facts(step.header, step.branch, self._zone)
        yield from _header_lines(step.header, (*facts, [step.turn_range]))

    def _render_turn(self, step: TurnStart) -> Iterator[str]:
        yield f"---\n\n*{' · '.join(self._turn_facts(step.turn)) or '…'}*"

    def _render_message(self, message: Message) -> Iterator[str]:
        if message.role is not Role.ASSISTANT:
            yield from self._system_messages.render(message)

    def _render_block(self, block: Block, *, is_error: bool) -> Iterator[str]:
        if isinstance(block, TextBlock):
            mark = "✗ " if is_error else ""
            yield neutralize_markdown(mark + (block.text or ""))
        elif isinstance(block, ThinkingBlock):
            thinking = (block.thinking or "").strip()
            if self._view.include_thinking and thinking:
                yield _render_details("Thinking", quote_markdown(thinking))
        else:
            yield escape_markdown(describe_block(block))

    def _render_call(self, call: ToolCall) -> Iterator[str]:
        line = self._call_formatter.format_call(call)
        has_agent_below = any(run.kind.is_shown for run in call.agents)
        body = ""
        if self._view.include_tools and not has_agent_below:
            body = _render_call_body(call)
        if body:
            yield _render_details(_call_summary(line), body)
        else:
            yield f"- {_render_call_line(line)}"

    def _render_agent(self, step: AgentStep) -> Iterator[str]:
        run = step.run
        if step.is_resumed:
            yield f"*continues agent {escape_markdown(run.id)}*"
            return
        facts = " · ".join(filter(None, agent_facts(run)))
        description = f"Agent {agent_name(run)} ({facts})"
        if step.is_expanded:
            yield f"<details><summary>{escape_summary(description)}</summary>"
        else:
            yield f"- {escape_markdown(description)}"

    def _render_agent_end(self) -> Iterator[str]:
        yield "</details>"

    def _render_branch(self, step: BranchStep) -> Iterator[str]:
        # The summary of a parent counts what is before the fork, too.
        description = "" if step.is_parent else describe_branch(step.branch)
        yield _describe_fork(step.branch, description)

    def _render_branch_end(self, branch: BranchSummary) -> Iterator[str]:
        yield f"**Branch {branch.number + 1} ends here.**"


class _MarkdownSystemMessages(SystemMessageRenderer[Iterator[str]]):
    def __init__(self, text_parser: TextParser) -> None:
        self._text_parser = text_parser

    def prompt(self, message: Message) -> Iterator[str]:
        yield quote_markdown(prompt_text(message, self._text_parser) or "…")
        attachments = (
            escape_markdown(describe_block(block))
            for block in message.blocks
            if not isinstance(block, TextBlock)
        )
        yield "\n".join(filter(None, attachments))

    def agent_task(self, message: Message) -> Iterator[str]:
        return self.prompt(message)

    def command(self, message: Message) -> Iterator[str]:
        return self._render_command(message, "")

    def shell(self, message: Message) -> Iterator[str]:
        return self._render_command(message, "! ")

    def memory(self, message: Message) -> Iterator[str]:
        return self._render_command(message, "# ")

    def _render_command(self, message: Message, prefix: str) -> Iterator[str]:
        command = message.command
        if command is not None:
            typed = f"{command.name} {command.args}".strip()
        else:
            typed = system_text(message, self._text_parser)
        yield f"> {inline_code(f'{prefix}{typed}')}"
        output, expansion = attached_texts(message, self._text_parser)
        yield _render_truncated(output)
        if expansion.strip():
            yield f"*{describe_expansion(expansion)}*"

    def command_output(self, message: Message) -> Iterator[str]:
        yield _render_truncated(system_text(message, self._text_parser))

    def teammate(self, message: Message) -> Iterator[str]:
        return self.command_output(message)

    def interrupt(self, _message: Message) -> Iterator[str]:
        yield f"*{INTERRUPTED}*"

    def compaction(self, message: Message) -> Iterator[str]:
        yield f"**{escape_markdown(describe_compaction(message))}**"

    def continuation(self, _message: Message) -> Iterator[str]:
        yield f"*{CONTINUATION}*"

    def notification(self, message: Message) -> Iterator[str]:
        text = describe_notification(message, self._text_parser)
        yield f"*• {escape_markdown(text)}*"

    def orphan_result(self, message: Message) -> Iterator[str]:
        return self.notice(message)

    def notice(self, message: Message) -> Iterator[str]:
        text, _ = describe_notice(message, self._text_parser)
        yield f"*• {escape_markdown(text)}*" if text else ""


def _header_lines(
    session: ConversationHeader, fact_lines: Iterable[Iterable[str]]
) -> Iterator[str]:
    yield f"# {escape_markdown(session.title.text) or escape_markdown(session.id)}"
    lines = (
        " · ".join(escape_markdown(fact) for fact in facts if fact)
        for facts in fact_lines
    )
    yield "\n".join(f"- {line}" for line in lines if line)


def _describe_fork(branch: BranchSummary, description: str) -> str:
    name = "the live branch" if branch.is_live else branch_label(branch)
    name = escape_markdown(name[:1].upper() + name[1:])
    if not description:
        return f"**{name} continues from here.**"
    return f"**{name}:** {escape_markdown(description)}"


def _render_call_line(line: ToolCallLine) -> str:
    parts = (
        f"**{escape_markdown(line.name)}**",
        inline_code(line.subject),
        escape_markdown(_call_facts(line)),
    )
    return " ".join(filter(None, parts))


def _call_summary(line: ToolCallLine) -> str:
    return " ".join(filter(None, (line.name, line.subject, _call_facts(line))))


def _call_facts(line: ToolCallLine) -> str:
    facts = [*line.facts, *filter(None, (line.changes,))]
    if line.added or line.removed:
        facts.insert(0, f"+{line.added} \N{MINUS SIGN}{line.removed}")
    if line.state.is_failure:
        facts.insert(0, line.state.label)
    text = f"({' · '.join(facts)})" if facts else ""
    return f"{text}: {line.error}" if line.error else text


def _render_details(summary_text: str, body: str) -> str:
    return f"<details><summary>{escape_summary(summary_text)}</summary>\n\n{body}\n\n</details>"


def _render_call_body(call: ToolCall) -> str:
    name = CURRENT_TOOL_NAMES.get(call.name, call.name)
    fields = parse_tool_input(call)
    parts = []
    if name in _EDIT_TOOLS:
        hunks = build_hunks(call.outcome, call.raw_input)
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
        parts.append(_render_truncated(format_json(bytes(call.raw_input)), "json"))
    parts.append(_render_truncated(output_text(call)))
    for path, hunks in shell_diffs(call):
        lines = (line for hunk in hunks for line in hunk.lines)
        parts.append(_render_truncated("\n".join((path, *lines)), "diff"))
    return "\n\n".join(filter(None, parts))


def _render_checklist(tasks: Sequence[TodoItem]) -> str:
    return "\n".join(
        f"- [{'x' if task.status == 'completed' else ' '}] "
        f"{escape_markdown(task.content or task.subject or '')}"
        for task in tasks
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
    return f"{fenced_code(shown, language)}\n*… {rest:,} more characters*"
