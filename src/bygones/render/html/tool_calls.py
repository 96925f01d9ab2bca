"""Render tool calls as HTML: their inputs, outputs, images and diffs."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable
from urllib.parse import urlencode

from msgspec import Struct

from bygones.model.outcomes import (
    CURRENT_TOOL_NAMES,
    BashOutcome,
    WebFetchOutcome,
    WebSearchOutcome,
    build_hunks,
)
from bygones.model.records import Block, ImageBlock, TextBlock, ToolResultBlock
from bygones.model.sessions import ToolCall
from bygones.render.html.diff import render_diff
from bygones.render.html.markdown_html import render_markdown
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    escape_text,
    join_html,
    language_of,
    make_element_id,
    render_details,
    tag,
)
from bygones.render.message_text import describe_block
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.tool_detail import (
    QuestionAnswers,
    TodoItem,
    UserQuestion,
    WebPage,
    decode_or_none,
    find_plan,
    find_questions,
    find_tasks,
    find_todos,
    find_web_pages,
    format_json,
    parse_tool_input,
    shell_diffs,
)
from bygones.render.tool_line import ToolCallLine

_IMAGE_SIGNATURES = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
)
_SIGNATURE_LENGTH = 16
"""Base64 characters that contain the signature of an image."""


def detect_image_type(content: bytes) -> str:
    """Return the media type of an image by its signature; empty if it is unknown."""
    return next(
        (name for name, signature in _IMAGE_SIGNATURES if signature.match(content)), ""
    )


def detect_base64_image_type(data: str) -> str:
    """Return the media type of an image in base64 without whitespace."""
    try:
        return detect_image_type(a2b_base64(data[:_SIGNATURE_LENGTH]))
    except ValueError:
        return ""


_MAX_LINES = 24
_MAX_CHARS = 3_000
_SLACK_LINES = 8
"""So few further lines are shown instead of being folded."""
MAX_OUTPUT_CHARS = 1_000_000
"""Characters of an output that a page contains at most."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")
_MAX_IMAGE_CHARS = 4_000_000


def render_output(
    value: str, css_class: str = "output", max_chars: int = MAX_OUTPUT_CHARS
) -> Html:
    """Render output; long output is folded after its first lines.

    If the folded part is longer than ``max_chars``, the page does not contain it and a
    script requests it when it is unfolded.
    """
    value = value.strip("\n")
    if not value.strip():
        return EMPTY_HTML
    at = _fold_position(value)
    if at is None:
        return tag("pre", escape_text(value), kind=css_class)
    first, rest = value[:at], value[at:].removeprefix("\n")
    line_count = rest.count("\n") + 1
    label = (
        f"Show {pluralize(line_count, 'more line')}"
        if line_count > 1
        else f"Show {len(rest):,} more characters"
    )
    shown = tag("pre", escape_text(first), kind=css_class)
    if len(rest) > max_chars < MAX_OUTPUT_CHARS:
        return join_html((shown, render_deferred(label)))
    dropped = len(rest) - MAX_OUTPUT_CHARS
    if dropped > 0:
        rest = f"{rest[:MAX_OUTPUT_CHARS]}\n… {dropped:,} more characters"
    folded = render_details(
        escape_line(label),
        tag("pre", escape_text(rest), kind=css_class),
        "more",
    )
    return join_html((shown, folded))


def render_deferred(label: str) -> Html:
    """Render a placeholder whose content a script requests when it is unfolded."""
    return Html(
        f'<details class="more" data-rest><summary>{escape_line(label)}</summary></details>'
    )


def _fold_position(value: str) -> int | None:
    """Return where a text is folded, or ``None`` if it is short enough."""
    at = -1
    for _ in range(_MAX_LINES):
        at = value.find("\n", at + 1)
        if at < 0:
            return None if len(value) <= 2 * _MAX_CHARS else _MAX_CHARS
        if at > _MAX_CHARS:
            return _MAX_CHARS if len(value) > 2 * _MAX_CHARS else None
    has_few_more = value.count("\n", at + 1) < _SLACK_LINES
    return None if has_few_more and len(value) <= 2 * _MAX_CHARS else at


def render_result(
    tool_result: ToolResultBlock | None,
    stored: str | None,
    css_class: str,
    max_chars: int = MAX_OUTPUT_CHARS,
) -> Html:
    """Render the result of a tool; ``stored`` is a long result from its own file."""
    content = tool_result.content if tool_result else None
    if stored is not None:
        return render_output(stored, css_class, max_chars)
    if content is None or isinstance(content, str):
        return render_output(content or "", css_class, max_chars)
    return join_html(
        _render_result_block(block, css_class, max_chars) for block in content
    )


def _render_result_block(block: Block, css_class: str, max_chars: int) -> Html:
    if isinstance(block, TextBlock):
        return render_output(block.text or "", css_class, max_chars)
    return render_media(block)


def render_media_blocks(blocks: Iterable[Block]) -> Html:
    """Render the blocks that are not text."""
    return join_html(
        render_media(block) for block in blocks if not isinstance(block, TextBlock)
    )


def render_media(block: Block) -> Html:
    """Render an embedded image, or describe a block; nothing external is loaded."""
    note = escape_line(describe_block(block))
    if not isinstance(block, ImageBlock) or block.source is None:
        return tag("p", note, kind="note") if note else EMPTY_HTML
    data = "".join((block.source.data or "").split())
    # The declared type is not trusted.
    media_type = detect_base64_image_type(data)
    if not media_type or not _BASE64.match(data):
        return tag("p", note, kind="note")
    if len(data) > _MAX_IMAGE_CHARS:
        size = format_bytes(len(data) * 3 // 4)
        text = f"image, {size}: too large for this page"
        return tag("p", escape_line(text), kind="note")
    return Html(
        f'<img src="data:{media_type};base64,{data}" alt="{note}" '
        'loading="lazy" decoding="async">'
    )


_INLINE_COMMAND_CHARS = 100
"""Shorter commands are shown completely by the line of the call."""
_MAX_AGENT_TEXT_CHARS = 12_000
"""Longer prompts and replies of agents are shown as output."""
_OPEN_DIFF_LINES = 60
"""Longer diffs are folded."""


_EDITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})


class ToolCallBody(Struct, frozen=True):
    """What is shown when a call is unfolded."""

    html: Html
    is_open: bool = False


class ToolCallOptions(Struct, frozen=True, kw_only=True):
    """How a call is rendered."""

    has_agent_below: bool = False
    """Whether the agent that it started follows; then it has no body."""
    max_chars: int = MAX_OUTPUT_CHARS
    """Longer folded content is left out."""
    file_url: str = ""
    """With it, a call that changed a file links to the file as it was then."""
    has_colors: bool = True
    """Whether code is highlighted."""


_DEFAULT_OPTIONS = ToolCallOptions()


def render_tool_call(
    call: ToolCall, line: ToolCallLine, options: ToolCallOptions = _DEFAULT_OPTIONS
) -> Html:
    name = CURRENT_TOOL_NAMES.get(call.name, call.name)
    render_body = _BODIES.get(name, _generic_body)
    body = ToolCallBody(EMPTY_HTML)
    if not options.has_agent_below:
        body = render_body(call, options)
    bad = " bad" if line.state.is_failure else ""
    id_ = make_element_id("c", call.id)
    summary = _render_summary(line)
    if not body.html:
        return tag("div", summary, kind=f"call{bad}", id=id_)
    state = " open" if body.is_open else ""
    return Html(
        f'<details class="call{bad}" id="{id_}"{state}><summary>{summary}</summary>'
        f"{body.html}{_render_file_link(call, options.file_url)}</details>"
    )


def _render_file_link(call: ToolCall, file_url: str) -> Html:
    is_change = call.name in _EDITING_TOOLS and call.has_result and not call.is_error
    if not file_url or not is_change or not call.path:
        return EMPTY_HTML
    query = urlencode({"path": call.path, "call": call.id}, errors="replace")
    separator = "&" if "?" in file_url else "?"
    url = f"{file_url}{separator}{query}"
    label = escape_line("The file after this change")
    return tag("p", tag("a", label, href=url), kind="note")


def _render_summary(line: ToolCallLine) -> Html:
    facts = [*line.facts, *filter(None, (line.changes,))]
    state = line.state.label
    if state and not any(fact.startswith("exit ") for fact in facts):
        facts.insert(0, state)
    counts = [
        tag("span", Html(f"+{line.added}"), kind="added") if line.added else EMPTY_HTML,
        tag("span", Html(f"\N{MINUS SIGN}{line.removed}"), kind="removed")
        if line.removed
        else EMPTY_HTML,
    ]
    facts_html = join_html((escape_line(fact) for fact in facts), " · ")
    parts = [
        tag("b", escape_line(line.name)),
        tag("code", escape_line(_truncate_text(line.subject)))
        if line.subject
        else EMPTY_HTML,
        *counts,
        tag("span", facts_html, kind="facts") if facts_html else EMPTY_HTML,
        tag("span", escape_line(_truncate_text(line.error)), kind="trouble")
        if line.error
        else EMPTY_HTML,
    ]
    return join_html(parts, " ")


def _truncate_text(text: str) -> str:
    return (
        text
        if len(text) <= 2 * _INLINE_COMMAND_CHARS
        else f"{text[: 2 * _INLINE_COMMAND_CHARS]}…"
    )


def _render_answer(call: ToolCall, max_chars: int) -> Html:
    css_class = "output error" if call.is_error else "output"
    return render_result(call.result, call.stored_output, css_class, max_chars)


def _bash_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    command = parse_tool_input(call).command or call.label
    command_html = EMPTY_HTML
    if "\n" in command or len(command) > _INLINE_COMMAND_CHARS:
        command_html = tag("pre", escape_text(command), kind="command")
    answer = _render_answer(call, options.max_chars)
    outcome = None if answer else call.outcome
    if isinstance(outcome, BashOutcome):
        output = f"{outcome.stdout or ''}\n{outcome.stderr or ''}"
        answer = render_output(output, max_chars=options.max_chars)
    diffs = _render_shell_diffs(call, options)
    return ToolCallBody(join_html((command_html, answer, diffs)))


def _render_shell_diffs(call: ToolCall, options: ToolCallOptions) -> Html:
    """Render what a command changed, each file after its path."""
    diffs = list(shell_diffs(call))
    lines = [line for _, hunks in diffs for hunk in hunks for line in hunk.lines]
    if sum(map(len, lines)) > options.max_chars < MAX_OUTPUT_CHARS:
        return render_deferred(f"Show {pluralize(len(lines), 'line')}")
    return join_html(
        join_html(
            (
                tag("p", escape_line(path), kind="note"),
                render_diff(hunks, language_of(path), has_colors=options.has_colors),
            )
        )
        for path, hunks in diffs
    )


def _edit_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    hunks = build_hunks(call.outcome, call.raw_input)
    error = _render_answer(call, options.max_chars) if call.is_error else EMPTY_HTML
    lines = sum(len(hunk.lines) for hunk in hunks)
    size = sum(len(line) for hunk in hunks for line in hunk.lines)
    is_short = lines <= _OPEN_DIFF_LINES
    if not is_short and size > options.max_chars < MAX_OUTPUT_CHARS:
        label = f"Show {pluralize(lines, 'line')}"
        return ToolCallBody(join_html((error, render_deferred(label))))
    language = language_of(call.path or "")
    diff = render_diff(hunks, language, has_colors=options.has_colors)
    if is_short:
        return ToolCallBody(join_html((diff, error)), is_open=not call.is_error)
    return ToolCallBody(join_html((error, diff)))


def _search_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    return ToolCallBody(_render_answer(call, options.max_chars))


def _todo_body(call: ToolCall, _options: ToolCallOptions) -> ToolCallBody:
    return _render_checklist(find_todos(call))


def _task_list_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    tasks = find_tasks(call)
    return _render_checklist(tasks) if tasks else _generic_body(call, options)


def _render_checklist(tasks: list[TodoItem]) -> ToolCallBody:
    boxes = {"completed": "☑", "in_progress": "◐"}
    lines = (
        tag(
            "li",
            escape_line(
                f"{boxes.get(task.status or '', '☐')} {task.content or task.subject}"
            ),
            kind="done" if task.status == "completed" else "",
        )
        for task in tasks
    )
    return ToolCallBody(tag("ul", join_html(lines), kind="tasks"), is_open=True)


def _empty_body(_call: ToolCall, _options: ToolCallOptions) -> ToolCallBody:
    return ToolCallBody(EMPTY_HTML)


def _plan_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    plan = find_plan(call)
    html = (
        tag("div", render_markdown(plan, has_colors=options.has_colors), kind="plan")
        if plan
        else EMPTY_HTML
    )
    error = _render_answer(call, options.max_chars) if call.is_error else EMPTY_HTML
    return ToolCallBody(join_html((html, error)), is_open=True)


def _questions_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    questions, answers = find_questions(call)
    is_single = len(questions) == 1
    parts = [
        _render_question(question, answers, is_in_summary=is_single)
        for question in questions
    ]
    if call.is_error or not parts:
        parts.append(_render_answer(call, options.max_chars))
    return ToolCallBody(join_html(parts), is_open=True)


def _render_question(
    question: UserQuestion, answers: QuestionAnswers, *, is_in_summary: bool
) -> Html:
    """Render a question with its options and answers.

    ``is_in_summary`` is set if the line of the call already shows the question.
    """
    answer = answers.get(question.text)
    chosen = answer if isinstance(answer, list) else [answer] if answer else []
    options = question.options or []
    labels = [option.label or "" for option in options]
    lines = [
        tag(
            "li",
            join_html(
                (
                    escape_line(f"{'◉' if label in chosen else '○'} {label}"),
                    tag("small", escape_line(option.description or "")),
                ),
                " ",
            ),
            kind="chosen" if label in chosen else "",
        )
        for label, option in zip(labels, options, strict=True)
    ]
    lines += [
        tag("li", escape_line(f"◉ {own_answer}"), kind="chosen")
        for own_answer in chosen
        if own_answer not in labels
    ]
    text = EMPTY_HTML if is_in_summary else tag("p", escape_line(question.text))
    return join_html((text, tag("ul", join_html(lines), kind="tasks")))


def _fetch_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    outcome = call.outcome
    if isinstance(outcome, WebFetchOutcome) and outcome.result:
        if len(outcome.result) > options.max_chars < MAX_OUTPUT_CHARS:
            lines = outcome.result.count("\n") + 1
            return ToolCallBody(render_deferred(f"Show {pluralize(lines, 'line')}"))
        return ToolCallBody(
            render_markdown(outcome.result, has_colors=options.has_colors)
        )
    return ToolCallBody(_render_answer(call, options.max_chars))


def _web_search_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    outcome = call.outcome
    lines = []
    if isinstance(outcome, WebSearchOutcome):
        lines = [
            _render_web_page(page)
            for page in find_web_pages(outcome.results)
            if page.url
        ]
    if not lines:
        return ToolCallBody(_render_answer(call, options.max_chars))
    return ToolCallBody(tag("ul", join_html(lines), kind="pages"))


def _render_web_page(page: WebPage) -> Html:
    url = page.url or ""
    title = escape_line(page.title or url)
    if not url.lower().startswith(("https://", "http://")):
        return tag("li", title)
    return tag("li", tag("a", title, href=url, rel="noopener noreferrer nofollow"))


def _agent_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    fields = decode_or_none(call.raw_input, _AgentInput)
    prompt = fields.prompt if fields and fields.prompt else ""
    prompt_html = (
        tag("div", _render_agent_text(prompt, "command", options), kind="plan")
        if prompt
        else EMPTY_HTML
    )
    content = call.result.content if call.result else None
    if call.is_error or call.stored_output is not None or content is None:
        return ToolCallBody(
            join_html((prompt_html, _render_answer(call, options.max_chars)))
        )
    blocks = (TextBlock(text=content),) if isinstance(content, str) else content
    answer = (
        _render_agent_text(block.text or "", "output", options)
        if isinstance(block, TextBlock)
        else render_media(block)
        for block in blocks
    )
    return ToolCallBody(join_html((prompt_html, *answer)))


def _render_agent_text(text: str, css_class: str, options: ToolCallOptions) -> Html:
    if not text.strip() or len(text) > min(options.max_chars, _MAX_AGENT_TEXT_CHARS):
        return render_output(text, css_class, options.max_chars)
    return render_markdown(text, has_colors=options.has_colors)


class _AgentInput(Struct, frozen=True):
    prompt: str | None = None


def _generic_body(call: ToolCall, options: ToolCallOptions) -> ToolCallBody:
    fields = format_json(bytes(call.raw_input))
    input_html = (
        render_output(fields, "command", options.max_chars) if fields else EMPTY_HTML
    )
    return ToolCallBody(
        join_html((input_html, _render_answer(call, options.max_chars)))
    )


_BODIES: dict[str, Callable[[ToolCall, ToolCallOptions], ToolCallBody]] = {
    "Bash": _bash_body,
    "PowerShell": _bash_body,
    "Read": _search_body,
    "Grep": _search_body,
    "Glob": _search_body,
    "LS": _search_body,
    "Edit": _edit_body,
    "MultiEdit": _edit_body,
    "Write": _edit_body,
    "NotebookEdit": _edit_body,
    "TodoWrite": _todo_body,
    "TaskList": _task_list_body,
    "TaskUpdate": _empty_body,
    "ExitPlanMode": _plan_body,
    "AskUserQuestion": _questions_body,
    "WebFetch": _fetch_body,
    "WebSearch": _web_search_body,
    "Agent": _agent_body,
}
"""Functions that render the body of a call; other tools show input and result."""
