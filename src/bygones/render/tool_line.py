"""One line about each call: what was asked of the tool, and how that ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from difflib import SequenceMatcher
from enum import StrEnum

from msgspec import Raw, Struct, structs

from bygones.model.outcomes import (
    CURRENT_TOOL_NAMES,
    BashOutcome,
    EditOutcome,
    FileSearchOutcome,
    PlanOutcome,
    QuestionOutcome,
    TaskOutcome,
    TextOutcome,
    TodoOutcome,
    WebFetchOutcome,
    WebSearchOutcome,
    WorkflowOutcome,
)
from bygones.model.records import ToolResultBlock
from bygones.model.sessions import ToolCall
from bygones.render.message_text import result_text
from bygones.render.numbers import format_bytes, format_duration, pluralize
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    display_width,
    sanitize_line,
    styled_line,
    truncate_end,
    truncate_start,
    wrap_markdown,
)
from bygones.render.tool_detail import (
    QuestionAnswers,
    TextEdit,
    TodoItem,
    UserQuestion,
    decode_or_none,
    parse_tool_input,
    summarize_input,
)

_SLOW_CALL = timedelta(seconds=10)
"""A call that took longer says how long."""
_DIFF_LIMIT = 500
"""Lines of a text up to which it is compared line by line."""
_NOTE_LIMIT = 200
"""Signs of a command that its call holds unopened."""
_EXIT_CODE = re.compile(r"\s*(?:Error:\s*)?Exit code (-?\d+)\s*")
_ERROR_TAGS = re.compile(r"</?tool_use_error>|</?error>")
_REFUSAL_PHRASES = (
    "doesn't want to proceed",
    "tool use was rejected",
    "rejected the tool",
    "chose to stay in plan mode",
)
_NOTABLE_OUTCOME_KEYS = (
    b'"returnCodeInterpretation"',
    b'"interrupted":true',
    b'"interrupted": true',
)
"""How the outcome of a command is written that has something to tell."""
_UNTIMED_TOOLS = {"AskUserQuestion", "ExitPlanMode", "Agent"}
"""Tools that wait for a person, or say themselves how long they took."""


class ToolCallState(StrEnum):
    """How a call ended."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"
    WAITING = "waiting"
    """No result is known."""

    @property
    def is_failure(self) -> bool:
        return self not in {ToolCallState.DONE, ToolCallState.WAITING}

    @property
    def label(self) -> str:
        """What is shown next to a call; empty if all went well."""
        match self:
            case ToolCallState.DONE:
                return ""
            case ToolCallState.WAITING:
                return "no result"
            case _:
                return self.value


class ToolCallLine(Struct, frozen=True, kw_only=True):
    """A call in one line, nothing of it made harmless yet."""

    name: str
    subject: str = ""
    is_path: bool = False
    """Whether the end of the subject tells more than its beginning."""
    facts: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    state: ToolCallState = ToolCallState.DONE
    error: str = ""
    """The first line of what went wrong."""
    extra_lines: tuple[str, ...] = ()
    """Lines of their own: questions with their answers."""


class ToolCallFormatter:
    """Makes the lines of one session's calls, in order: tasks are counted along."""

    def __init__(self, project: str | None = None) -> None:
        self._project = project.rstrip("/\\") if project else None
        self.task_statuses: dict[str, str] = {}
        """The status of each task met so far."""

    def format_call(self, call: ToolCall) -> ToolCallLine:
        """Return the line about a call; opens of it what the line needs."""
        name = CURRENT_TOOL_NAMES.get(call.name, call.name)
        error = _error_text(call) if call.is_error else ""
        state = _call_state(call, error)
        if name in _CONTEXT_FORMATTERS:
            line = _CONTEXT_FORMATTERS[name](call, self)
        else:
            line = _FORMATTERS.get(name, _generic_line)(call)
        trouble = _ERROR_TAGS.sub("", error) if state is ToolCallState.FAILED else ""
        exit_code = _EXIT_CODE.match(trouble)
        facts = list(line.facts)
        if exit_code:
            facts.insert(0, f"exit {exit_code[1]}")
            trouble = trouble[exit_code.end() :]
        took = _call_duration(call)
        if took is not None and took >= _SLOW_CALL and name not in _UNTIMED_TOOLS:
            facts.append(format_duration(took))
        return structs.replace(
            line,
            state=state,
            facts=tuple(fact for fact in facts if fact),
            error=_first_line(trouble),
        )

    def shorten_path(self, path: str | None) -> str:
        """Return a path as seen from the project's folder."""
        if not path or self._project is None or not path.startswith(self._project):
            return path or ""
        rest = path[len(self._project) :]
        return rest[1:] or "." if rest[:1] in {"/", "\\", ""} else path

    def task_progress(self) -> str:
        """Return how many of the tasks met so far are done."""
        return _progress_label(
            [s for s in self.task_statuses.values() if s != "deleted"]
        )


def _bash_line(call: ToolCall) -> ToolCallLine:
    facts = []
    run = call.result_facts.run_id if call.result_facts else None
    if run:
        facts.append(f"in the background as {run}")
    elif call.result_position and call.loader.outcome_contains(
        call.result_position, *_NOTABLE_OUTCOME_KEYS
    ):
        outcome = call.outcome
        if isinstance(outcome, BashOutcome):
            meaning = outcome.return_code_interpretation
            facts.append(meaning or "")
            facts.append("interrupted" if outcome.interrupted else "")
    command = call.label
    if len(command) >= _NOTE_LIMIT or not command:
        command = parse_tool_input(call).command or command
    return ToolCallLine(name="$", subject=command, facts=tuple(facts))


def _read_line(call: ToolCall, lines: ToolCallFormatter) -> ToolCallLine:
    outcome = call.read_extent
    facts = []
    if outcome is not None and outcome.file is not None:
        file = outcome.file
        first, total = file.start_line or 1, file.total_lines or 0
        if outcome.type == "file_unchanged":
            facts.append("unchanged")
        elif file.num_lines is not None and (first > 1 or file.num_lines < total):
            last = first + max(file.num_lines - 1, 0)
            facts.append(f"lines {first} to {last} of {total}")
        elif file.num_lines is not None:
            facts.append(pluralize(file.num_lines, "line"))
        elif outcome.type and outcome.type != "text":
            amount = file.original_size
            facts.append(
                f"{outcome.type}, {format_bytes(amount)}" if amount else outcome.type
            )
    return ToolCallLine(
        name="Read",
        subject=_display_path(call, lines),
        is_path=True,
        facts=tuple(facts),
    )


def _edit_line(call: ToolCall, lines: ToolCallFormatter) -> ToolCallLine:
    facts = call.result_facts
    added, removed = (facts.added_lines, facts.removed_lines) if facts else (0, 0)
    if not (facts and facts.has_patch) and call.has_result and not call.is_error:
        added, removed = _count_changed_lines(call)
    return ToolCallLine(
        name=call.name,
        subject=_display_path(call, lines),
        is_path=True,
        facts=("new",) if facts and facts.is_new_file else (),
        added=added,
        removed=removed,
    )


def _display_path(call: ToolCall, lines: ToolCallFormatter) -> str:
    path = (
        call.path
        or (call.result_facts.path if call.result_facts else None)
        or call.label
    )
    return lines.shorten_path(path)


def _search_line(call: ToolCall, lines: ToolCallFormatter) -> ToolCallLine:
    given = parse_tool_input(call)
    where = " ".join(filter(None, (lines.shorten_path(given.path), given.glob)))
    subject = given.pattern or call.label
    outcome = call.outcome
    facts: list[str] = []
    if isinstance(outcome, FileSearchOutcome):
        files = outcome.num_files or len(outcome.filenames)
        matches = outcome.num_matches
        if matches is None and outcome.mode == "content":
            facts.append(pluralize(outcome.num_lines or 0, "line"))
        elif matches is not None:
            facts.append(pluralize(matches, "match", "matches"))
        if files or not facts:
            facts.append(pluralize(files, "file"))
        facts.append("cut off" if outcome.truncated else "")
    return ToolCallLine(
        name=call.name,
        subject=f"{subject} in {where}" if where else subject,
        facts=tuple(facts),
    )


def _fetch_line(call: ToolCall) -> ToolCallLine:
    outcome = call.outcome
    facts: tuple[str, ...] = ()
    if isinstance(outcome, WebFetchOutcome):
        code = f"{outcome.code or ''} {outcome.code_text or ''}".strip()
        facts = (code, format_bytes(outcome.bytes) if outcome.bytes else "")
    subject = parse_tool_input(call).url or call.label
    return ToolCallLine(name=call.name, subject=subject, facts=facts)


def _web_search_line(call: ToolCall) -> ToolCallLine:
    outcome = call.outcome
    facts: tuple[str, ...] = ()
    if isinstance(outcome, WebSearchOutcome):
        facts = (pluralize(_count_web_results(outcome.results), "page"),)
    return ToolCallLine(name="WebSearch", subject=call.label, facts=facts)


def _todo_line(call: ToolCall) -> ToolCallLine:
    outcome = call.outcome
    tasks = None
    if isinstance(outcome, TodoOutcome):
        tasks = decode_or_none(outcome.new_todos, list[TodoItem])
    tasks = tasks or parse_tool_input(call).todos or []
    now = next((t for t in tasks if t.status == "in_progress"), None)
    subject = (now.active_form or now.content or "") if now else ""
    facts = (_progress_label([task.status or "" for task in tasks]) or "emptied",)
    return ToolCallLine(name="Todo", subject=subject, facts=facts)


def _task_create_line(call: ToolCall, lines: ToolCallFormatter) -> ToolCallLine:
    outcome = call.outcome
    task = None
    if isinstance(outcome, TaskOutcome):
        task = decode_or_none(outcome.task, TodoItem)
    given = parse_tool_input(call)
    if call.has_result and not call.is_error:
        key = str(task.id) if task and task.id is not None else call.id
        lines.task_statuses.setdefault(key, "pending")
    number = f"#{task.id} " if task and task.id is not None else ""
    subject = number + (given.subject or call.label)
    return ToolCallLine(name="Task", subject=subject, facts=(lines.task_progress(),))


def _task_update_line(call: ToolCall, lines: ToolCallFormatter) -> ToolCallLine:
    given = parse_tool_input(call)
    key = str(given.task if given.task is not None else given.task_id or "")
    if given.status and not call.is_error:
        lines.task_statuses[key] = given.status
    change = (given.status or "changed").replace("_", " ")
    subject = f"#{key} {change}" + (f": {given.subject}" if given.subject else "")
    return ToolCallLine(name="Task", subject=subject, facts=(lines.task_progress(),))


def _task_list_line(call: ToolCall) -> ToolCallLine:
    outcome = call.outcome
    tasks = None
    if isinstance(outcome, TaskOutcome):
        tasks = decode_or_none(outcome.tasks, list[TodoItem])
    share = _progress_label([task.status or "" for task in tasks]) if tasks else ""
    return ToolCallLine(name="Tasks", facts=(share,))


def _task_output_line(call: ToolCall) -> ToolCallLine:
    given = parse_tool_input(call)
    outcome = call.outcome
    facts: tuple[str, ...] = ()
    if isinstance(outcome, TaskOutcome):
        task = decode_or_none(outcome.task, TodoItem)
        facts = ((task.status or "") if task else "",)
    elif isinstance(outcome, BashOutcome):
        facts = (outcome.status or "",)
    which = given.task_id or given.bash_id or given.shell_id or given.agent
    name = (
        "Output"
        if CURRENT_TOOL_NAMES.get(call.name, call.name) == "TaskOutput"
        else "Stop"
    )
    return ToolCallLine(name=name, subject=str(which or call.label), facts=facts)


def _question_line(call: ToolCall) -> ToolCallLine:
    outcome = call.outcome
    asked = parse_tool_input(call).questions or []
    answers: QuestionAnswers = {}
    if isinstance(outcome, QuestionOutcome):
        asked = asked or decode_or_none(outcome.questions, list[UserQuestion]) or []
        answers = decode_or_none(outcome.answers, QuestionAnswers) or {}
    more = []
    for question in asked:
        words = question.question or question.header or ""
        answer = answers.get(words)
        chosen = ", ".join(answer) if isinstance(answer, list) else answer
        if len(asked) > 1:
            more.append(words)
        if chosen:
            more.append(f"→ {chosen}")
    single = len(asked) == 1
    is_open = call.has_result and not call.is_error and not answers
    return ToolCallLine(
        name="Question" if single else "Questions",
        subject=(asked[0].question or asked[0].header or "") if single else "",
        facts=("not answered",) if is_open else (),
        extra_lines=tuple(more),
    )


def _plan_line(call: ToolCall) -> ToolCallLine:
    outcome = call.outcome
    plan = outcome.plan if isinstance(outcome, PlanOutcome) else None
    plan = plan or parse_tool_input(call).plan or ""
    approved = call.has_result and not call.is_error
    return ToolCallLine(
        name="Plan",
        subject=_first_line(plan).lstrip("# "),
        facts=(
            pluralize(len(plan.splitlines()), "line") if plan else "",
            "approved" if approved else "",
        ),
    )


def _skill_line(call: ToolCall) -> ToolCallLine:
    given = parse_tool_input(call)
    name = given.skill or given.command or call.label
    subject = f"{name} {given.args or ''}".strip()
    return ToolCallLine(name="Skill", subject=subject)


def _agent_line(call: ToolCall) -> ToolCallLine:
    given = parse_tool_input(call)
    kind = given.subagent_type or next(
        (r.agent_type for r in call.agents if r.agent_type), None
    )
    words = given.description or call.label
    subject = f"{kind}: {words}" if kind and words else kind or words
    facts: list[str] = []
    if not call.agents and call.result_facts is not None:
        told = call.result_facts
        if told.duration_ms is not None:
            facts.append(format_duration(timedelta(milliseconds=told.duration_ms)))
        if told.tool_call_count is not None:
            facts.append(pluralize(told.tool_call_count, "call"))
    return ToolCallLine(name="Agent", subject=subject, facts=tuple(facts))


def _workflow_line(call: ToolCall) -> ToolCallLine:
    outcome = call.outcome
    name = call.label
    if isinstance(outcome, WorkflowOutcome):
        name = outcome.workflow_name or outcome.summary or name
    count = pluralize(len(call.agents), "agent") if call.agents else ""
    return ToolCallLine(name="Workflow", subject=name, facts=(count,))


def _generic_line(call: ToolCall) -> ToolCallLine:
    name = call.name
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        name = f"{server} · {tool}" if tool else server
    return ToolCallLine(name=name, subject=call.label or summarize_input(call))


def _call_state(call: ToolCall, error: str) -> ToolCallState:
    if not call.has_result:
        return ToolCallState.WAITING
    if not call.is_error:
        return ToolCallState.DONE
    if any(phrase in error[:_NOTE_LIMIT] for phrase in _REFUSAL_PHRASES):
        return ToolCallState.REFUSED
    return ToolCallState.INTERRUPTED if call.is_interrupted else ToolCallState.FAILED


def _error_text(call: ToolCall) -> str:
    result = call.result
    if isinstance(result, ToolResultBlock) and result.content:
        return result_text(result)
    outcome = call.outcome
    return outcome.text if isinstance(outcome, TextOutcome) else ""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _call_duration(call: ToolCall) -> timedelta | None:
    if call.called_at is None or call.completed_at is None:
        return None
    return call.completed_at - call.called_at


def _count_changed_lines(call: ToolCall) -> tuple[int, int]:
    """Return the lines added and removed, where no patch says so."""
    given = parse_tool_input(call)
    changes = given.edits or []
    if given.old_string is not None or given.new_string is not None:
        changes = [TextEdit(given.old_string, given.new_string)]
    elif given.content is not None or given.new_source is not None:
        changes = [TextEdit(_original_content(call), given.content or given.new_source)]
    counts = [_diff_counts(change.old_string, change.new_string) for change in changes]
    return sum(added for added, _ in counts), sum(removed for _, removed in counts)


def _original_content(call: ToolCall) -> str:
    outcome = call.outcome
    return (outcome.original_file or "") if isinstance(outcome, EditOutcome) else ""


def _diff_counts(old: str | None, new: str | None) -> tuple[int, int]:
    before, after = (old or "").splitlines(), (new or "").splitlines()
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    before, after = before[same:], after[same:]
    if max(len(before), len(after)) > _DIFF_LIMIT:
        return len(after), len(before)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return len(after) - same, len(before) - same


def _count_web_results(results: Raw) -> int:
    """Return how many pages a web search found, in any of the forms it has had."""
    count = 0
    for found in decode_or_none(results, list[Raw]) or ():
        inner = decode_or_none(found, _WebResults)
        count += (
            len(inner.content) if inner and inner.content else bool(inner and inner.url)
        )
    return count


class _WebResults(Struct, frozen=True):
    content: list[Raw] | None = None
    url: str | None = None


def _progress_label(statuses: Sequence[str]) -> str:
    return f"{statuses.count('completed')}/{len(statuses)} done" if statuses else ""


_CONTEXT_FORMATTERS: dict[
    str, Callable[[ToolCall, ToolCallFormatter], ToolCallLine]
] = {
    "Read": _read_line,
    "Edit": _edit_line,
    "MultiEdit": _edit_line,
    "Write": _edit_line,
    "NotebookEdit": _edit_line,
    "Grep": _search_line,
    "Glob": _search_line,
    "TaskCreate": _task_create_line,
    "TaskUpdate": _task_update_line,
}
"""Who makes the lines that depend on the project's folder or on other calls."""
_FORMATTERS: dict[str, Callable[[ToolCall], ToolCallLine]] = {
    "Bash": _bash_line,
    "PowerShell": _bash_line,
    "WebFetch": _fetch_line,
    "WebSearch": _web_search_line,
    "TodoWrite": _todo_line,
    "TaskList": _task_list_line,
    "TaskOutput": _task_output_line,
    "TaskStop": _task_output_line,
    "AskUserQuestion": _question_line,
    "ExitPlanMode": _plan_line,
    "Skill": _skill_line,
    "Agent": _agent_line,
    "Workflow": _workflow_line,
}
"""Who makes the others; a tool in neither is shown by what it was given."""


_MAX_LINE_WIDTH = 240
"""Columns of a line where no terminal limits it."""
_MIN_SUBJECT_WIDTH = 12
"""Columns that a subject gets at least."""


def render_tool_line(line: ToolCallLine, max_width: int | None) -> Iterator[StyledLine]:
    """Yield the line about a call, and those that belong to it."""
    limit = max_width or _MAX_LINE_WIDTH
    tail = _status_spans(line)
    name = truncate_end(sanitize_line(line.name), limit // 2)
    taken = 2 + display_width(name) + sum(display_width(span.text) for span in tail)
    subject = sanitize_line(line.subject)
    if subject:
        fit = truncate_start if line.is_path else truncate_end
        subject = " " + fit(subject, max(limit - taken - 1, _MIN_SUBJECT_WIDTH))
    yield styled_line("  ", StyledSpan(name, SpanStyle.TOOL), subject, *tail)
    for words in line.extra_lines:
        for span in wrap_markdown(
            sanitize_line(words), limit - 4 if max_width else None
        ):
            yield styled_line("    ", span)
    if line.error:
        trouble = truncate_end(sanitize_line(line.error), limit - 6)
        yield styled_line(
            StyledSpan("    ╰ ", SpanStyle.META), StyledSpan(trouble, SpanStyle.WARNING)
        )


def _status_spans(line: ToolCallLine) -> list[StyledSpan]:
    spans = []
    facts = [sanitize_line(fact) for fact in line.facts]
    is_bad = line.state is not ToolCallState.DONE
    has_code = line.state is ToolCallState.FAILED and any(
        f.startswith("exit ") for f in facts
    )
    if line.added:
        spans.append(StyledSpan(f" +{line.added}", SpanStyle.ADDED))
    if line.removed:
        spans.append(StyledSpan(f" \N{MINUS SIGN}{line.removed}", SpanStyle.REMOVED))
    if is_bad and not has_code:
        facts.insert(0, line.state.label)
    for number, fact in enumerate(facts):
        gap = "  " if number == 0 else " · "
        style = SpanStyle.WARNING if is_bad and number == 0 else SpanStyle.META
        spans += [StyledSpan(gap, SpanStyle.META), StyledSpan(fact, style)]
    return spans
