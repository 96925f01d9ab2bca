"""Describe each tool call in one line: what it did, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from difflib import SequenceMatcher
from enum import StrEnum

from msgspec import Struct, structs

from bygones.model.nodes import ChangedFile
from bygones.model.outcomes import (
    CURRENT_TOOL_NAMES,
    BashOutcome,
    EditOutcome,
    FileSearchOutcome,
    TaskOutcome,
    TextOutcome,
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
    sanitize,
    styled_line,
    truncate_end,
    truncate_start,
    wrap_markdown,
)
from bygones.render.tool_detail import (
    TextEdit,
    TodoItem,
    decode_or_none,
    find_plan,
    find_questions,
    find_tasks,
    find_todos,
    find_web_pages,
    parse_tool_input,
    summarize_input,
)

_SLOW_CALL = timedelta(seconds=10)
"""Calls that take longer show their duration."""
_DIFF_LIMIT = 500
"""Longer texts are not compared line by line."""
_NOTE_LIMIT = 200
"""Length of the label of a call; a longer command has to be loaded."""
_MAX_LISTED_FILES = 3
"""Files that are named in the line of a command."""
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
"""Outcomes of commands without these keys need not be loaded."""
_UNTIMED_TOOLS = {"AskUserQuestion", "ExitPlanMode", "Agent"}
"""Tools that wait for a person, or that report their own duration."""


class ToolCallState(StrEnum):
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"
    """By the user."""
    DENIED = "denied"
    """By a permission rule, or because there was no user to ask."""
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
    """A call in one line; the texts are not sanitized yet."""

    name: str
    subject: str = ""
    is_path: bool = False
    """Whether the end of the subject matters more than its start."""
    facts: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    state: ToolCallState = ToolCallState.DONE
    error: str = ""
    """The first line of the error."""
    extra_lines: tuple[str, ...] = ()
    """Questions and answers, which have lines of their own."""
    changes: str = ""
    """The files that a command changed."""


class ToolCallFormatter:
    """Formats the calls of a session in order, keeping track of its task list."""

    def __init__(self, project: str | None = None) -> None:
        self._project = project.rstrip("/\\") if project else None
        self.task_statuses: dict[str, str] = {}
        """Status by task id."""

    def format_call(self, call: ToolCall) -> ToolCallLine:
        """Format a call; loads what the line needs."""
        name = CURRENT_TOOL_NAMES.get(call.name, call.name)
        error = _error_text(call) if call.is_error else ""
        state = _call_state(call, error)
        if name in _CONTEXT_FORMATTERS:
            line = _CONTEXT_FORMATTERS[name](call, self)
        else:
            line = _FORMATTERS.get(name, _generic_line)(call)
        error = _ERROR_TAGS.sub("", error) if state is ToolCallState.FAILED else ""
        exit_code = _EXIT_CODE.match(error)
        facts = list(line.facts)
        if exit_code:
            facts.insert(0, f"exit {exit_code[1]}")
            error = error[exit_code.end() :]
        duration = _call_duration(call)
        is_slow = duration is not None and duration >= _SLOW_CALL
        if duration is not None and is_slow and name not in _UNTIMED_TOOLS:
            facts.append(format_duration(duration))
        return structs.replace(
            line,
            state=state,
            facts=tuple(fact for fact in facts if fact),
            error=_first_line(error),
        )

    def shorten_path(self, path: str | None) -> str:
        """Return a path relative to the folder of the project."""
        if not path or self._project is None or not path.startswith(self._project):
            return path or ""
        rest = path[len(self._project) :]
        return rest[1:] or "." if rest[:1] in {"/", "\\", ""} else path

    def task_progress(self) -> str:
        """Return how many of the tasks so far are done."""
        return _progress_label(
            [s for s in self.task_statuses.values() if s != "deleted"]
        )


def _bash_line(call: ToolCall, formatter: ToolCallFormatter) -> ToolCallLine:
    facts = []
    run_id = call.result_facts.run_id if call.result_facts else None
    if run_id:
        facts.append(f"in the background as {run_id}")
    elif call.result_position and call.loader.outcome_contains(
        call.result_position, *_NOTABLE_OUTCOME_KEYS
    ):
        outcome = call.outcome
        if isinstance(outcome, BashOutcome):
            facts.append(outcome.return_code_interpretation or "")
            facts.append("interrupted" if outcome.interrupted else "")
    command = call.label
    if len(command) >= _NOTE_LIMIT or not command:
        command = parse_tool_input(call).command or command
    return ToolCallLine(
        name="$",
        subject=command,
        facts=tuple(facts),
        changes=_describe_changes(call.changed_files, formatter.shorten_path),
    )


def _describe_changes(
    files: Sequence[ChangedFile], shorten_path: Callable[[str], str]
) -> str:
    """Return which files a command changed, with their lines."""
    parts = [
        " ".join(filter(None, (shorten_path(file.path), *_change_facts(file))))
        for file in files[:_MAX_LISTED_FILES]
    ]
    if len(files) > len(parts):
        parts.append(f"{len(files) - len(parts):,} more")
    count = f"{pluralize(len(files), 'file')}: " if len(files) > 1 else ""
    return f"changed {count}{', '.join(parts)}" if parts else ""


def _change_facts(file: ChangedFile) -> tuple[str, ...]:
    """Return how a file was changed; an empty text for what does not apply."""
    return (
        "new" if file.is_new_file else "",
        "deleted" if file.is_deleted else "",
        f"+{file.added_lines}" if file.added_lines else "",
        f"\N{MINUS SIGN}{file.removed_lines}" if file.removed_lines else "",
        "" if file.has_diff else "(lines not recorded)",
    )


def _read_line(call: ToolCall, formatter: ToolCallFormatter) -> ToolCallLine:
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
            size = file.original_size
            facts.append(
                f"{outcome.type}, {format_bytes(size)}" if size else outcome.type
            )
    return ToolCallLine(
        name="Read",
        subject=_display_path(call, formatter),
        is_path=True,
        facts=tuple(facts),
    )


def _edit_line(call: ToolCall, formatter: ToolCallFormatter) -> ToolCallLine:
    facts = call.result_facts
    added, removed = (facts.added_lines, facts.removed_lines) if facts else (0, 0)
    if not (facts and facts.has_patch) and call.has_result and not call.is_error:
        added, removed = _count_changed_lines(call)
    return ToolCallLine(
        name=call.name,
        subject=_display_path(call, formatter),
        is_path=True,
        facts=("new",) if facts and facts.is_new_file else (),
        added=added,
        removed=removed,
    )


def _display_path(call: ToolCall, formatter: ToolCallFormatter) -> str:
    path = (
        call.path
        or (call.result_facts.path if call.result_facts else None)
        or call.label
    )
    return formatter.shorten_path(path)


def _search_line(call: ToolCall, formatter: ToolCallFormatter) -> ToolCallLine:
    fields = parse_tool_input(call)
    scope = " ".join(filter(None, (formatter.shorten_path(fields.path), fields.glob)))
    subject = fields.pattern or call.label
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
        subject=f"{subject} in {scope}" if scope else subject,
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
        count = sum(1 for _ in find_web_pages(outcome.results))
        facts = (pluralize(count, "page"),)
    return ToolCallLine(name="WebSearch", subject=call.label, facts=facts)


def _todo_line(call: ToolCall) -> ToolCallLine:
    todos = find_todos(call)
    current = next((todo for todo in todos if todo.status == "in_progress"), None)
    subject = (current.active_form or current.content or "") if current else ""
    facts = (_progress_label([todo.status or "" for todo in todos]) or "emptied",)
    return ToolCallLine(name="Todo", subject=subject, facts=facts)


def _task_create_line(call: ToolCall, formatter: ToolCallFormatter) -> ToolCallLine:
    outcome = call.outcome
    task = None
    if isinstance(outcome, TaskOutcome):
        task = decode_or_none(outcome.task, TodoItem)
    if call.has_result and not call.is_error:
        key = str(task.id) if task and task.id is not None else call.id
        formatter.task_statuses.setdefault(key, "pending")
    number = f"#{task.id} " if task and task.id is not None else ""
    subject = number + (parse_tool_input(call).subject or call.label)
    progress = formatter.task_progress()
    return ToolCallLine(name="Task", subject=subject, facts=(progress,))


def _task_update_line(call: ToolCall, formatter: ToolCallFormatter) -> ToolCallLine:
    fields = parse_tool_input(call)
    key = str(fields.task if fields.task is not None else fields.task_id or "")
    if fields.status and not call.is_error:
        formatter.task_statuses[key] = fields.status
    change = (fields.status or "changed").replace("_", " ")
    subject = f"#{key} {change}" + (f": {fields.subject}" if fields.subject else "")
    progress = formatter.task_progress()
    return ToolCallLine(name="Task", subject=subject, facts=(progress,))


def _task_list_line(call: ToolCall) -> ToolCallLine:
    statuses = [task.status or "" for task in find_tasks(call)]
    return ToolCallLine(name="Tasks", facts=(_progress_label(statuses),))


def _task_output_line(call: ToolCall) -> ToolCallLine:
    fields = parse_tool_input(call)
    outcome = call.outcome
    facts: tuple[str, ...] = ()
    if isinstance(outcome, TaskOutcome):
        task = decode_or_none(outcome.task, TodoItem)
        facts = ((task.status or "") if task else "",)
    elif isinstance(outcome, BashOutcome):
        facts = (outcome.status or "",)
    task_id = fields.task_id or fields.bash_id or fields.shell_id or fields.agent
    is_output = CURRENT_TOOL_NAMES.get(call.name, call.name) == "TaskOutput"
    return ToolCallLine(
        name="Output" if is_output else "Stop",
        subject=str(task_id or call.label),
        facts=facts,
    )


def _question_line(call: ToolCall) -> ToolCallLine:
    questions, answers = find_questions(call)
    is_single = len(questions) == 1
    extra_lines = []
    for question in questions:
        answer = answers.get(question.text)
        chosen = ", ".join(answer) if isinstance(answer, list) else answer
        if not is_single:
            extra_lines.append(question.text)
        if chosen:
            extra_lines.append(f"→ {chosen}")
    is_unanswered = call.has_result and not call.is_error and not answers
    return ToolCallLine(
        name="Question" if is_single else "Questions",
        subject=questions[0].text if is_single else "",
        facts=("not answered",) if is_unanswered else (),
        extra_lines=tuple(extra_lines),
    )


def _plan_line(call: ToolCall) -> ToolCallLine:
    plan = find_plan(call)
    is_approved = call.has_result and not call.is_error
    return ToolCallLine(
        name="Plan",
        subject=_first_line(plan).lstrip("# "),
        facts=(
            pluralize(len(plan.splitlines()), "line") if plan else "",
            "approved" if is_approved else "",
        ),
    )


def _skill_line(call: ToolCall) -> ToolCallLine:
    fields = parse_tool_input(call)
    name = fields.skill or fields.command or call.label
    subject = f"{name} {fields.args or ''}".strip()
    return ToolCallLine(name="Skill", subject=subject)


def _agent_line(call: ToolCall) -> ToolCallLine:
    fields = parse_tool_input(call)
    agent_type = fields.subagent_type or next(
        (run.agent_type for run in call.agents if run.agent_type), None
    )
    subject = ": ".join(filter(None, (agent_type, fields.description or call.label)))
    facts: list[str] = []
    if not call.agents and call.result_facts is not None:
        result = call.result_facts
        if result.duration_ms is not None:
            facts.append(format_duration(timedelta(milliseconds=result.duration_ms)))
        if result.tool_call_count is not None:
            facts.append(pluralize(result.tool_call_count, "call"))
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
    if call.is_stopped:
        return ToolCallState.INTERRUPTED
    note = error[:_NOTE_LIMIT]
    if any(phrase in note for phrase in _REFUSAL_PHRASES):
        return ToolCallState.REFUSED
    is_denied = call.result_facts is not None and call.result_facts.is_denied
    if is_denied:
        return ToolCallState.DENIED
    return ToolCallState.INTERRUPTED if call.is_interrupted else ToolCallState.FAILED


def _error_text(call: ToolCall) -> str:
    result = call.result
    if isinstance(result, ToolResultBlock) and result.content:
        return result_text(result)
    outcome = call.outcome
    return outcome.text if isinstance(outcome, TextOutcome) else ""


def _first_line(text: str) -> str:
    """Return the first line with words; frames and rules say nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    with_words = (line for line in lines if any(map(str.isalnum, line)))
    return next(with_words, lines[0] if lines else "")


def _call_duration(call: ToolCall) -> timedelta | None:
    if call.called_at is None or call.completed_at is None:
        return None
    return call.completed_at - call.called_at


def _count_changed_lines(call: ToolCall) -> tuple[int, int]:
    """Count added and removed lines of a call without a patch."""
    fields = parse_tool_input(call)
    edits = fields.edits or []
    if fields.old_string is not None or fields.new_string is not None:
        edits = [TextEdit(fields.old_string, fields.new_string)]
    elif fields.content is not None or fields.new_source is not None:
        edits = [TextEdit(_original_content(call), fields.content or fields.new_source)]
    counts = [_diff_counts(edit.old_string, edit.new_string) for edit in edits]
    return sum(added for added, _ in counts), sum(removed for _, removed in counts)


def _original_content(call: ToolCall) -> str:
    outcome = call.outcome
    return (outcome.original_file or "") if isinstance(outcome, EditOutcome) else ""


def _diff_counts(old: str | None, new: str | None) -> tuple[int, int]:
    before, after = (old or "").splitlines(), (new or "").splitlines()
    common = 0
    while common < min(len(before), len(after)) and before[common] == after[common]:
        common += 1
    before, after = before[common:], after[common:]
    if max(len(before), len(after)) > _DIFF_LIMIT:
        return len(after), len(before)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    matching = sum(block.size for block in matcher.get_matching_blocks())
    return len(after) - matching, len(before) - matching


def _progress_label(statuses: Sequence[str]) -> str:
    return f"{statuses.count('completed')}/{len(statuses)} done" if statuses else ""


_CONTEXT_FORMATTERS: dict[
    str, Callable[[ToolCall, ToolCallFormatter], ToolCallLine]
] = {
    "Bash": _bash_line,
    "PowerShell": _bash_line,
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
"""For tools whose line depends on the project folder or on other calls."""
_FORMATTERS: dict[str, Callable[[ToolCall], ToolCallLine]] = {
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
"""For the other known tools; unknown tools show their input."""


_MAX_LINE_WIDTH = 240
"""Used if there is no terminal."""
_MIN_SUBJECT_WIDTH = 12


def render_tool_line(line: ToolCallLine, max_width: int | None) -> Iterator[StyledLine]:
    """Yield the line of a call, its extra lines and its error."""
    width = max_width or _MAX_LINE_WIDTH
    status = _status_spans(line)
    name = truncate_end(sanitize(line.name, newlines="space"), width // 2)
    used = 2 + display_width(name) + sum(display_width(span.text) for span in status)
    subject = sanitize(line.subject, newlines="space")
    if subject:
        truncate = truncate_start if line.is_path else truncate_end
        subject = " " + truncate(subject, max(width - used - 1, _MIN_SUBJECT_WIDTH))
    yield styled_line("  ", StyledSpan(name, SpanStyle.TOOL), subject, *status)
    for text in line.extra_lines:
        extra_width = width - 4 if max_width else None
        for span in wrap_markdown(sanitize(text, newlines="space"), extra_width):
            yield styled_line("    ", span)
    if line.changes:
        changes = truncate_end(sanitize(line.changes, newlines="space"), width - 6)
        yield styled_line(StyledSpan(f"    ╰ {changes}", SpanStyle.META))
    if line.error:
        error = truncate_end(sanitize(line.error, newlines="space"), width - 6)
        yield styled_line(
            StyledSpan("    ╰ ", SpanStyle.META), StyledSpan(error, SpanStyle.WARNING)
        )


def _status_spans(line: ToolCallLine) -> list[StyledSpan]:
    spans = []
    facts = [sanitize(fact, newlines="space") for fact in line.facts]
    is_highlighted = line.state is not ToolCallState.DONE
    has_exit_code = line.state is ToolCallState.FAILED and any(
        fact.startswith("exit ") for fact in facts
    )
    if line.added:
        spans.append(StyledSpan(f" +{line.added}", SpanStyle.ADDED))
    if line.removed:
        spans.append(StyledSpan(f" \N{MINUS SIGN}{line.removed}", SpanStyle.REMOVED))
    if is_highlighted and not has_exit_code:
        facts.insert(0, line.state.label)
    for number, fact in enumerate(facts):
        is_first = number == 0
        separator = StyledSpan("  " if is_first else " · ", SpanStyle.META)
        style = SpanStyle.WARNING if is_highlighted and is_first else SpanStyle.META
        spans += [separator, StyledSpan(fact, style)]
    return spans
