"""What a picture is, told by its first bytes and by nothing that is said of it."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Raw, Struct

from bygones.model.outcomes import (
    CURRENT_TOOL_NAMES,
    BashOutcome,
    PatchHunk,
    PlanOutcome,
    QuestionOutcome,
    TaskOutcome,
    TodoOutcome,
    WebFetchOutcome,
    WebSearchOutcome,
    build_hunks,
)
from bygones.model.records import Block, ImageBlock, TextBlock, ToolResultBlock
from bygones.model.sessions import ToolCall
from bygones.render.html.markdown_html import render_markdown
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    escape_sanitized,
    escape_text,
    join_html,
    make_element_id,
    render_details,
    tag,
)
from bygones.render.message_text import describe_block
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize
from bygones.render.tool_detail import (
    QuestionAnswers,
    TodoItem,
    decode_or_none,
    format_json,
    parse_tool_input,
)
from bygones.render.tool_line import ToolCallLine

_IMAGE_SIGNATURES = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
)
_SIGNATURE_LENGTH = 16
"""Signs of base64 in which a picture says what it is."""


def detect_image_type(content: bytes) -> str:
    """Return what a picture is; nothing of what is none that we know."""
    return next((kind for kind, sign in _IMAGE_SIGNATURES if sign.match(content)), "")


def detect_base64_image_type(data: str) -> str:
    """Return what a picture is that stands here as base64, without blanks."""
    try:
        return detect_image_type(a2b_base64(data[:_SIGNATURE_LENGTH]))
    except ValueError:
        return ""


_MAX_LINES = 24
_MAX_CHARS = 3_000
_SLACK_LINES = 8
"""Lines that are shown rather than hidden behind a fold of their own."""
MAX_OUTPUT_CHARS = 1_000_000
"""Signs of one output that a page holds at most."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")
_MAX_IMAGE_CHARS = 4_000_000


def render_output(
    value: str, css_class: str = "output", max_chars: int = MAX_OUTPUT_CHARS
) -> Html:
    """Return a text that was printed; a long one folds after its first lines.

    Of what folds a page holds ``most`` signs: :func:`unheld` stands for more, if that
    is less than any page holds.
    """
    value = value.strip("\n")
    if not value.strip():
        return EMPTY_HTML
    at = _cut_position(value)
    if at is None:
        return tag("pre", escape_text(value), kind=css_class)
    first, rest = value[:at], value[at:].removeprefix("\n")
    count = rest.count("\n") + 1
    told = pluralize(count, "more line") if count > 1 else f"{len(rest):,} more signs"
    shown = tag("pre", escape_text(first), kind=css_class)
    if len(rest) > max_chars < MAX_OUTPUT_CHARS:
        return join_html((shown, render_deferred(f"Show {told}")))
    lost = len(rest) - MAX_OUTPUT_CHARS
    if lost > 0:
        rest = f"{rest[:MAX_OUTPUT_CHARS]}\n… {lost:,} more signs"
    folded = render_details(
        escape_line(f"Show {told}"),
        tag("pre", escape_text(rest), kind=css_class),
        "more",
    )
    return join_html((shown, folded))


def render_deferred(label: str) -> Html:
    """Return what stands for something that the page asks for when it is unfolded."""
    return Html(
        f'<details class="more" data-rest><summary>{escape_line(label)}</summary></details>'
    )


def _cut_position(value: str) -> int | None:
    """Return where a text is cut, or ``None`` if it is short enough."""
    at = -1
    for _ in range(_MAX_LINES):
        at = value.find("\n", at + 1)
        if at < 0:
            return None if len(value) <= 2 * _MAX_CHARS else _MAX_CHARS
        if at > _MAX_CHARS:
            return _MAX_CHARS if len(value) > 2 * _MAX_CHARS else None
    is_close = value.count("\n", at + 1) < _SLACK_LINES
    return None if is_close and len(value) <= 2 * _MAX_CHARS else at


def render_result(
    tool_result: ToolResultBlock | None,
    stored: str | None,
    css_class: str,
    max_chars: int = MAX_OUTPUT_CHARS,
) -> Html:
    """Return what a tool answered; a long answer comes from its own file."""
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
    """Return the blocks that are no text: pictures, and notes on everything else."""
    return join_html(
        render_media(block) for block in blocks if not isinstance(block, TextBlock)
    )


def render_media(block: Block) -> Html:
    """Return a picture that came with a message; never one that lies elsewhere."""
    note = escape_line(describe_block(block))
    if not isinstance(block, ImageBlock) or block.source is None:
        return tag("p", note, kind="note") if note else EMPTY_HTML
    source = block.source
    coded = "".join((source.data or "").split())
    # Whatever it is called: a browser would show nothing of what is no picture.
    kind = detect_base64_image_type(coded)
    if not kind or not _BASE64.match(coded):
        return tag("p", note, kind="note")
    if len(coded) > _MAX_IMAGE_CHARS:
        told = (
            f"a picture of {format_bytes(len(coded) * 3 // 4)}, too large for this page"
        )
        return tag("p", escape_line(told), kind="note")
    return Html(
        f'<img src="data:{kind};base64,{coded}" alt="{note}" '
        'loading="lazy" decoding="async">'
    )


_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_MAX_COMPARED_LENGTH = 400
"""Signs of a line beyond which its words are not compared."""
_MIN_COMMON_SHARE = 0.35
"""The share of a line that must stay for the rest of it to be marked."""


def render_diff(hunks: Sequence[PatchHunk]) -> Html:
    """Return hunks as one block of lines."""
    parts = [part for hunk in hunks for part in _render_hunk(hunk)]
    return Html(f'<pre class="diff">{"".join(parts)}</pre>') if parts else Html("")


def _render_hunk(hunk: PatchHunk) -> Iterator[str]:
    if hunk.old_start or hunk.new_start:
        yield f"<i>@@ line {max(hunk.new_start, 1)} @@</i>"
    gone: list[str] = []
    for sign, run in groupby(hunk.lines, key=lambda line: line[:1]):
        lines = list(run)
        if sign == "-":
            gone = lines
            continue
        if sign == "+":
            yield from _render_replacement(gone, lines)
        else:
            yield from _render_replacement(gone, [])
            # Without a sign, a line only says something about the file.
            yield f"<span>{escape_text(chr(10).join(lines))}</span>"
        gone = []
    yield from _render_replacement(gone, [])


def _render_replacement(removed: Sequence[str], added: Sequence[str]) -> Iterator[str]:
    """Yield lines that went, then those that came in their place."""
    if len(removed) == len(added):
        pairs = [
            _highlight_changes(old, new)
            for old, new in zip(removed, added, strict=True)
        ]
        yield from (f"<del>{old}</del>" for old, _ in pairs)
        yield from (f"<ins>{new}</ins>" for _, new in pairs)
        return
    yield from (f"<del>{escape_text(line)}</del>" for line in removed)
    yield from (f"<ins>{escape_text(line)}</ins>" for line in added)


def _highlight_changes(old: str, new: str) -> tuple[str, str]:
    """Return two lines with the words between their same beginning and end marked."""
    old, new = sanitize(old), sanitize(new)
    if max(len(old), len(new)) > _MAX_COMPARED_LENGTH:
        return escape_sanitized(old), escape_sanitized(new)
    before, after = _WORD.findall(old[1:]), _WORD.findall(new[1:])
    head = 0
    shorter = min(len(before), len(after))
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    same = sum(map(len, (*before[:head], *(before[-tail:] if tail else ()))))
    if same < _MIN_COMMON_SHARE * max(len(old), len(new)):
        return escape_sanitized(old), escape_sanitized(new)
    return _highlight_middle(old[:1], before, head, tail), _highlight_middle(
        new[:1], after, head, tail
    )


def _highlight_middle(sign: str, line: Sequence[str], head: int, tail: int) -> str:
    end = len(line) - tail
    first, middle, last = line[:head], line[head:end], line[end:]
    marked = f"<b>{escape_sanitized(''.join(middle))}</b>" if middle else ""
    before, after = escape_sanitized("".join(first)), escape_sanitized("".join(last))
    return f"{escape_sanitized(sign)}{before}{marked}{after}"


_INLINE_COMMAND_CHARS = 100
"""Signs of a command that its line shows whole."""
_MAX_AGENT_TEXT_CHARS = 12_000
"""Signs of what an agent said that are shown as text; more is cut as outputs are."""
_OPEN_DIFF_LINES = 60
"""Lines of a diff that is open from the beginning."""


class ToolCallBody(Struct, frozen=True):
    """What stands behind a call's line."""

    html: Html
    is_open: bool = False


def render_tool_call(
    call: ToolCall,
    line: ToolCallLine,
    *,
    has_agent_below: bool = False,
    max_chars: int = MAX_OUTPUT_CHARS,
) -> Html:
    """Return a call; ``is_followed`` if the agent that it started is shown behind.

    Of what folds at the end of an output, the page holds ``most`` signs.
    """
    name = CURRENT_TOOL_NAMES.get(call.name, call.name)
    body = (
        ToolCallBody(EMPTY_HTML)
        if has_agent_below
        else _BODIES.get(name, _generic_body)(call, max_chars)
    )
    bad = " bad" if line.state.is_failure else ""
    id_ = make_element_id("c", call.id)
    summary = _render_summary(line)
    if not body.html:
        return tag("div", summary, kind=f"call{bad}", id=id_)
    state = " open" if body.is_open else ""
    return Html(
        f'<details class="call{bad}" id="{id_}"{state}><summary>{summary}</summary>'
        f"{body.html}</details>"
    )


def _render_summary(line: ToolCallLine) -> Html:
    facts = list(line.facts)
    state = line.state.label
    if state and not any(fact.startswith("exit ") for fact in facts):
        facts.insert(0, state)
    counts = [
        tag("span", Html(f"+{line.added}"), kind="added") if line.added else EMPTY_HTML,
        tag("span", Html(f"\N{MINUS SIGN}{line.removed}"), kind="removed")
        if line.removed
        else EMPTY_HTML,
    ]
    told = join_html((escape_line(fact) for fact in facts), " · ")
    parts = [
        tag("b", escape_line(line.name)),
        tag("code", escape_line(_truncate_subject(line.subject)))
        if line.subject
        else EMPTY_HTML,
        *counts,
        tag("span", told, kind="facts") if told else EMPTY_HTML,
        tag("span", escape_line(line.error), kind="trouble")
        if line.error
        else EMPTY_HTML,
    ]
    return join_html(parts, " ")


def _truncate_subject(subject: str) -> str:
    return (
        subject
        if len(subject) <= 2 * _INLINE_COMMAND_CHARS
        else f"{subject[: 2 * _INLINE_COMMAND_CHARS]}…"
    )


def _render_answer(call: ToolCall, max_chars: int) -> Html:
    kind = "output error" if call.is_error else "output"
    return render_result(call.result, call.stored_output, kind, max_chars)


def _bash_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    command = parse_tool_input(call).command or call.label
    shown = EMPTY_HTML
    if "\n" in command or len(command) > _INLINE_COMMAND_CHARS:
        shown = tag("pre", escape_text(command), kind="command")
    answer = _render_answer(call, max_chars)
    outcome = None if answer else call.outcome
    if isinstance(outcome, BashOutcome):
        answer = render_output(
            f"{outcome.stdout or ''}\n{outcome.stderr or ''}", max_chars=max_chars
        )
    return ToolCallBody(join_html((shown, answer)))


def _edit_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    hunks = build_hunks(call.outcome, call.input)
    lines = sum(len(hunk.lines) for hunk in hunks)
    trouble = _render_answer(call, max_chars) if call.is_error else EMPTY_HTML
    if lines <= _OPEN_DIFF_LINES:
        return ToolCallBody(
            join_html((render_diff(hunks), trouble)), is_open=not call.is_error
        )
    size = sum(len(line) for hunk in hunks for line in hunk.lines)
    if size > max_chars < MAX_OUTPUT_CHARS:
        return ToolCallBody(
            join_html((trouble, render_deferred(f"Show {pluralize(lines, 'line')}")))
        )
    return ToolCallBody(join_html((trouble, render_diff(hunks))))


def _search_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    return ToolCallBody(_render_answer(call, max_chars))


def _todo_body(call: ToolCall, _most: int) -> ToolCallBody:
    outcome = call.outcome
    tasks = None
    if isinstance(outcome, TodoOutcome):
        tasks = decode_or_none(outcome.new_todos, list[TodoItem])
    return _render_checklist(tasks or parse_tool_input(call).todos or [])


def _task_list_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    outcome = call.outcome
    tasks = None
    if isinstance(outcome, TaskOutcome):
        tasks = decode_or_none(outcome.tasks, list[TodoItem])
    return _render_checklist(tasks) if tasks else _generic_body(call, max_chars)


def _render_checklist(tasks: list[TodoItem]) -> ToolCallBody:
    signs = {"completed": "☑", "in_progress": "◐"}
    lines = (
        tag(
            "li",
            escape_line(
                f"{signs.get(one.status or '', '☐')} {one.content or one.subject}"
            ),
            kind="done" if one.status == "completed" else "",
        )
        for one in tasks
    )
    return ToolCallBody(tag("ul", join_html(lines), kind="tasks"), is_open=True)


def _empty_body(_call: ToolCall, _most: int) -> ToolCallBody:
    return ToolCallBody(EMPTY_HTML)


def _plan_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    outcome = call.outcome
    plan = outcome.plan if isinstance(outcome, PlanOutcome) else None
    plan = plan or parse_tool_input(call).plan or ""
    shown = tag("div", render_markdown(plan), kind="plan") if plan else EMPTY_HTML
    trouble = _render_answer(call, max_chars) if call.is_error else EMPTY_HTML
    return ToolCallBody(join_html((shown, trouble)), is_open=True)


class _Option(Struct, frozen=True):
    label: str | None = None
    description: str | None = None


class _AskedQuestion(Struct, frozen=True):
    question: str | None = None
    header: str | None = None
    options: list[_Option] = []


class _QuestionsInput(Struct, frozen=True):
    questions: list[_AskedQuestion] = []


def _questions_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    outcome = call.outcome
    asked = decode_or_none(call.input, _QuestionsInput)
    answers: QuestionAnswers = {}
    if isinstance(outcome, QuestionOutcome):
        answers = decode_or_none(outcome.answers, QuestionAnswers) or {}
    found = asked.questions if asked else []
    is_told = len(found) == 1
    parts = [_render_question(one, answers, is_in_summary=is_told) for one in found]
    trouble = (
        _render_answer(call, max_chars) if call.is_error or not parts else EMPTY_HTML
    )
    return ToolCallBody(join_html((*parts, trouble)), is_open=True)


def _render_question(
    question: _AskedQuestion, answers: QuestionAnswers, *, is_in_summary: bool
) -> Html:
    """Return a question with what was chosen; ``is_told`` if its line says it."""
    told = question.question or question.header or ""
    answer = answers.get(told)
    chosen = answer if isinstance(answer, list) else [answer] if answer else []
    labels = [option.label or "" for option in question.options]
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
        for label, option in zip(labels, question.options, strict=True)
    ]
    lines += [
        tag("li", escape_line(f"◉ {own}"), kind="chosen")
        for own in chosen
        if own not in labels
    ]
    asking = EMPTY_HTML if is_in_summary else tag("p", escape_line(told))
    return join_html((asking, tag("ul", join_html(lines), kind="tasks")))


def _fetch_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    outcome = call.outcome
    if isinstance(outcome, WebFetchOutcome) and outcome.result:
        return ToolCallBody(render_markdown(outcome.result))
    return ToolCallBody(_render_answer(call, max_chars))


class _WebPage(Struct, frozen=True):
    title: str | None = None
    url: str | None = None


class _WebSearchResult(Struct, frozen=True):
    content: list[_WebPage] | None = None
    title: str | None = None
    url: str | None = None


def _web_search_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    outcome = call.outcome
    lines = []
    if isinstance(outcome, WebSearchOutcome):
        lines = [
            _render_web_page(hit)
            for hit in _parse_web_pages(outcome.results)
            if hit.url
        ]
    if not lines:
        return ToolCallBody(_render_answer(call, max_chars))
    return ToolCallBody(tag("ul", join_html(lines), kind="pages"))


def _parse_web_pages(results: Raw) -> Iterator[_WebPage]:
    for found in decode_or_none(results, list[Raw]) or ():
        inner = decode_or_none(found, _WebSearchResult)
        if inner is not None:
            yield from inner.content or ()
            yield _WebPage(inner.title, inner.url)


def _render_web_page(page: _WebPage) -> Html:
    url = page.url or ""
    title = escape_line(page.title or url)
    if not url.lower().startswith(("https://", "http://")):
        return tag("li", title)
    return tag("li", tag("a", title, href=url, rel="noopener noreferrer nofollow"))


def _agent_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    given = decode_or_none(call.input, _AgentInput)
    prompt = given.prompt if given and given.prompt else ""
    asked = (
        tag("div", _render_agent_text(prompt, "command", max_chars), kind="plan")
        if prompt
        else EMPTY_HTML
    )
    content = call.result.content if call.result else None
    if call.is_error or call.stored_output is not None or content is None:
        return ToolCallBody(join_html((asked, _render_answer(call, max_chars))))
    blocks = (TextBlock(text=content),) if isinstance(content, str) else content
    told = (
        _render_agent_text(block.text or "", "output", max_chars)
        if isinstance(block, TextBlock)
        else render_media(block)
        for block in blocks
    )
    return ToolCallBody(join_html((asked, *told)))


def _render_agent_text(words: str, css_class: str, max_chars: int) -> Html:
    """Return what was said to an agent or by one; what is long folds as it stands."""
    if not words.strip() or len(words) > min(max_chars, _MAX_AGENT_TEXT_CHARS):
        return render_output(words, css_class, max_chars)
    return render_markdown(words)


class _AgentInput(Struct, frozen=True):
    prompt: str | None = None


def _generic_body(call: ToolCall, max_chars: int) -> ToolCallBody:
    shown = format_json(bytes(call.input))
    given = render_output(shown, "command", max_chars) if shown else EMPTY_HTML
    return ToolCallBody(join_html((given, _render_answer(call, max_chars))))


_BODIES: dict[str, Callable[[ToolCall, int], ToolCallBody]] = {
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
"""Who makes what stands behind a call's line; another tool shows all it has."""
