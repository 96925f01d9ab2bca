"""One line about each call: what was asked of the tool, and how that ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from difflib import SequenceMatcher
from enum import StrEnum

from msgspec import Raw, Struct, structs

from bygones.model.blocks import ToolResult
from bygones.model.sessions import ToolCall
from bygones.model.tools import (
    TOOL_NAMES,
    BashOutcome,
    EditOutcome,
    FoundOutcome,
    PlanOutcome,
    QuestionOutcome,
    TaskOutcome,
    TextOutcome,
    TodoOutcome,
    WebFetchOutcome,
    WebSearchOutcome,
    WorkflowOutcome,
)
from bygones.render.figures import lasting, several, size
from bygones.render.inputs import (
    Answers,
    Change,
    Question,
    Task,
    decoded,
    first_words,
    input_of,
)
from bygones.render.words import result_text

__all__ = ["CallLine", "CallLines", "CallState"]

_LONG = timedelta(seconds=10)
"""A call that took longer says how long."""
_DIFF_LIMIT = 500
"""Lines of a text up to which it is compared line by line."""
_NOTE_LIMIT = 200
"""Signs of a command that its call holds unopened."""
_EXIT = re.compile(r"\s*(?:Error:\s*)?Exit code (-?\d+)\s*")
_WRAPPED = re.compile(r"</?tool_use_error>|</?error>")
_REFUSED = (
    "doesn't want to proceed",
    "tool use was rejected",
    "rejected the tool",
    "chose to stay in plan mode",
)
_TELLING = (
    b'"returnCodeInterpretation"',
    b'"interrupted":true',
    b'"interrupted": true',
)
"""How the outcome of a command is written that has something to tell."""
_UNTIMED = {"AskUserQuestion", "ExitPlanMode", "Agent"}
"""Tools that wait for a person, or say themselves how long they took."""


class CallState(StrEnum):
    """How a call ended."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"
    WAITING = "waiting"
    """No result is known."""


class CallLine(Struct, frozen=True, kw_only=True):
    """A call in one line, nothing of it made harmless yet."""

    name: str
    subject: str = ""
    is_path: bool = False
    """Whether the end of the subject tells more than its beginning."""
    facts: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    state: CallState = CallState.DONE
    trouble: str = ""
    """The first line of what went wrong."""
    more: tuple[str, ...] = ()
    """Lines of their own: questions with their answers."""


class CallLines:
    """Makes the lines of one session's calls, in order: tasks are counted along."""

    def __init__(self, project: str | None = None) -> None:
        self._project = project.rstrip("/\\") if project else None
        self.tasks: dict[str, str] = {}
        """The status of each task met so far."""

    def line(self, call: ToolCall) -> CallLine:
        """Return the line about a call; opens of it what the line needs."""
        name = TOOL_NAMES.get(call.name, call.name)
        error = _error_text(call) if call.is_error else ""
        state = _state(call, error)
        if name in _PLACED:
            line = _PLACED[name](call, self)
        else:
            line = _ALONE.get(name, _any)(call)
        trouble = _WRAPPED.sub("", error) if state is CallState.FAILED else ""
        exit_code = _EXIT.match(trouble)
        facts = list(line.facts)
        if exit_code:
            facts.insert(0, f"exit {exit_code[1]}")
            trouble = trouble[exit_code.end() :]
        took = _took(call)
        if took is not None and took >= _LONG and name not in _UNTIMED:
            facts.append(lasting(took))
        return structs.replace(
            line,
            state=state,
            facts=tuple(fact for fact in facts if fact),
            trouble=_first_line(trouble),
        )

    def short(self, path: str | None) -> str:
        """Return a path as seen from the project's folder."""
        if not path or self._project is None or not path.startswith(self._project):
            return path or ""
        rest = path[len(self._project) :]
        return rest[1:] or "." if rest[:1] in {"/", "\\", ""} else path

    def share(self) -> str:
        """Return how many of the tasks met so far are done."""
        return _share([s for s in self.tasks.values() if s != "deleted"])


def _bash(call: ToolCall) -> CallLine:
    facts = []
    run = call.facts.run if call.facts else None
    if run:
        facts.append(f"in the background as {run}")
    elif call.answered_at and call.loader.glance(call.answered_at, *_TELLING):
        outcome = call.outcome
        if isinstance(outcome, BashOutcome):
            meaning = outcome.return_code_interpretation
            facts.append(meaning or "")
            facts.append("interrupted" if outcome.interrupted else "")
    command = call.note
    if len(command) >= _NOTE_LIMIT or not command:
        command = input_of(call).command or command
    return CallLine(name="$", subject=command, facts=tuple(facts))


def _read(call: ToolCall, lines: CallLines) -> CallLine:
    outcome = call.extent
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
            facts.append(several(file.num_lines, "line"))
        elif outcome.type and outcome.type != "text":
            amount = file.original_size
            facts.append(f"{outcome.type}, {size(amount)}" if amount else outcome.type)
    return CallLine(
        name="Read", subject=_path(call, lines), is_path=True, facts=tuple(facts)
    )


def _edit(call: ToolCall, lines: CallLines) -> CallLine:
    facts = call.facts
    added, removed = (facts.added, facts.removed) if facts else (0, 0)
    if not (facts and facts.has_patch) and call.is_answered and not call.is_error:
        added, removed = _counted(call)
    return CallLine(
        name=call.name,
        subject=_path(call, lines),
        is_path=True,
        facts=("new",) if facts and facts.is_new else (),
        added=added,
        removed=removed,
    )


def _path(call: ToolCall, lines: CallLines) -> str:
    path = call.path or (call.facts.path if call.facts else None) or call.note
    return lines.short(path)


def _search(call: ToolCall, lines: CallLines) -> CallLine:
    given = input_of(call)
    where = " ".join(filter(None, (lines.short(given.path), given.glob)))
    subject = given.pattern or call.note
    outcome = call.outcome
    facts: list[str] = []
    if isinstance(outcome, FoundOutcome):
        files = outcome.num_files or len(outcome.filenames)
        matches = outcome.num_matches
        if matches is None and outcome.mode == "content":
            facts.append(several(outcome.num_lines or 0, "line"))
        elif matches is not None:
            facts.append(several(matches, "match", "matches"))
        if files or not facts:
            facts.append(several(files, "file"))
        facts.append("cut off" if outcome.truncated else "")
    return CallLine(
        name=call.name,
        subject=f"{subject} in {where}" if where else subject,
        facts=tuple(facts),
    )


def _fetch(call: ToolCall) -> CallLine:
    outcome = call.outcome
    facts: tuple[str, ...] = ()
    if isinstance(outcome, WebFetchOutcome):
        code = f"{outcome.code or ''} {outcome.code_text or ''}".strip()
        facts = (code, size(outcome.bytes) if outcome.bytes else "")
    subject = input_of(call).url or call.note
    return CallLine(name=call.name, subject=subject, facts=facts)


def _web_search(call: ToolCall) -> CallLine:
    outcome = call.outcome
    facts: tuple[str, ...] = ()
    if isinstance(outcome, WebSearchOutcome):
        facts = (several(_pages(outcome.results), "page"),)
    return CallLine(name="WebSearch", subject=call.note, facts=facts)


def _todo(call: ToolCall) -> CallLine:
    outcome = call.outcome
    tasks = None
    if isinstance(outcome, TodoOutcome):
        tasks = decoded(outcome.new_todos, list[Task])
    tasks = tasks or input_of(call).todos or []
    now = next((t for t in tasks if t.status == "in_progress"), None)
    subject = (now.active_form or now.content or "") if now else ""
    facts = (_share([task.status or "" for task in tasks]) or "emptied",)
    return CallLine(name="Todo", subject=subject, facts=facts)


def _task_create(call: ToolCall, lines: CallLines) -> CallLine:
    outcome = call.outcome
    task = None
    if isinstance(outcome, TaskOutcome):
        task = decoded(outcome.task, Task)
    given = input_of(call)
    if call.is_answered and not call.is_error:
        key = str(task.id) if task and task.id is not None else call.id
        lines.tasks.setdefault(key, "pending")
    number = f"#{task.id} " if task and task.id is not None else ""
    subject = number + (given.subject or call.note)
    return CallLine(name="Task", subject=subject, facts=(lines.share(),))


def _task_update(call: ToolCall, lines: CallLines) -> CallLine:
    given = input_of(call)
    key = str(given.task if given.task is not None else given.task_id or "")
    if given.status and not call.is_error:
        lines.tasks[key] = given.status
    change = (given.status or "changed").replace("_", " ")
    subject = f"#{key} {change}" + (f": {given.subject}" if given.subject else "")
    return CallLine(name="Task", subject=subject, facts=(lines.share(),))


def _task_list(call: ToolCall) -> CallLine:
    outcome = call.outcome
    tasks = None
    if isinstance(outcome, TaskOutcome):
        tasks = decoded(outcome.tasks, list[Task])
    share = _share([task.status or "" for task in tasks]) if tasks else ""
    return CallLine(name="Tasks", facts=(share,))


def _task_output(call: ToolCall) -> CallLine:
    given = input_of(call)
    outcome = call.outcome
    facts: tuple[str, ...] = ()
    if isinstance(outcome, TaskOutcome):
        task = decoded(outcome.task, Task)
        facts = ((task.status or "") if task else "",)
    elif isinstance(outcome, BashOutcome):
        facts = (outcome.status or "",)
    which = given.task_id or given.bash_id or given.shell_id or given.agent
    name = "Output" if TOOL_NAMES.get(call.name, call.name) == "TaskOutput" else "Stop"
    return CallLine(name=name, subject=str(which or call.note), facts=facts)


def _question(call: ToolCall) -> CallLine:
    outcome = call.outcome
    asked = input_of(call).questions or []
    answers: Answers = {}
    if isinstance(outcome, QuestionOutcome):
        asked = asked or decoded(outcome.questions, list[Question]) or []
        answers = decoded(outcome.answers, Answers) or {}
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
    is_open = call.is_answered and not call.is_error and not answers
    return CallLine(
        name="Question" if single else "Questions",
        subject=(asked[0].question or asked[0].header or "") if single else "",
        facts=("not answered",) if is_open else (),
        more=tuple(more),
    )


def _plan(call: ToolCall) -> CallLine:
    outcome = call.outcome
    plan = outcome.plan if isinstance(outcome, PlanOutcome) else None
    plan = plan or input_of(call).plan or ""
    approved = call.is_answered and not call.is_error
    return CallLine(
        name="Plan",
        subject=_first_line(plan).lstrip("# "),
        facts=(
            several(len(plan.splitlines()), "line") if plan else "",
            "approved" if approved else "",
        ),
    )


def _skill(call: ToolCall) -> CallLine:
    given = input_of(call)
    name = given.skill or given.command or call.note
    subject = f"{name} {given.args or ''}".strip()
    return CallLine(name="Skill", subject=subject)


def _agent(call: ToolCall) -> CallLine:
    given = input_of(call)
    kind = given.subagent_type or next((r.type for r in call.agents if r.type), None)
    words = given.description or call.note
    subject = f"{kind}: {words}" if kind and words else kind or words
    facts: list[str] = []
    if not call.agents and call.facts is not None:
        told = call.facts
        if told.duration_ms is not None:
            facts.append(lasting(timedelta(milliseconds=told.duration_ms)))
        if told.tool_count is not None:
            facts.append(several(told.tool_count, "call"))
    return CallLine(name="Agent", subject=subject, facts=tuple(facts))


def _workflow(call: ToolCall) -> CallLine:
    outcome = call.outcome
    name = call.note
    if isinstance(outcome, WorkflowOutcome):
        name = outcome.workflow_name or outcome.summary or name
    count = several(len(call.agents), "agent") if call.agents else ""
    return CallLine(name="Workflow", subject=name, facts=(count,))


def _any(call: ToolCall) -> CallLine:
    name = call.name
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        name = f"{server} · {tool}" if tool else server
    return CallLine(name=name, subject=call.note or first_words(call))


def _state(call: ToolCall, error: str) -> CallState:
    if not call.is_answered:
        return CallState.WAITING
    if not call.is_error:
        return CallState.DONE
    if any(phrase in error[:_NOTE_LIMIT] for phrase in _REFUSED):
        return CallState.REFUSED
    return CallState.INTERRUPTED if call.is_interrupted else CallState.FAILED


def _error_text(call: ToolCall) -> str:
    result = call.result
    if isinstance(result, ToolResult) and result.content:
        return result_text(result)
    outcome = call.outcome
    return outcome.text if isinstance(outcome, TextOutcome) else ""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _took(call: ToolCall) -> timedelta | None:
    if call.time is None or call.answer_time is None:
        return None
    return call.answer_time - call.time


def _counted(call: ToolCall) -> tuple[int, int]:
    """Return the lines added and removed, where no patch says so."""
    given = input_of(call)
    changes = given.edits or []
    if given.old_string is not None or given.new_string is not None:
        changes = [Change(given.old_string, given.new_string)]
    elif given.content is not None or given.new_source is not None:
        changes = [Change(_before(call), given.content or given.new_source)]
    counts = [_compared(change.old_string, change.new_string) for change in changes]
    return sum(added for added, _ in counts), sum(removed for _, removed in counts)


def _before(call: ToolCall) -> str:
    outcome = call.outcome
    return (outcome.original_file or "") if isinstance(outcome, EditOutcome) else ""


def _compared(old: str | None, new: str | None) -> tuple[int, int]:
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


def _pages(results: Raw) -> int:
    """Return how many pages a web search found, in any of the forms it has had."""
    count = 0
    for found in decoded(results, list[Raw]) or ():
        inner = decoded(found, _Found)
        count += (
            len(inner.content) if inner and inner.content else bool(inner and inner.url)
        )
    return count


class _Found(Struct, frozen=True):
    content: list[Raw] | None = None
    url: str | None = None


def _share(statuses: Sequence[str]) -> str:
    return f"{statuses.count('completed')}/{len(statuses)} done" if statuses else ""


_PLACED: dict[str, Callable[[ToolCall, CallLines], CallLine]] = {
    "Read": _read,
    "Edit": _edit,
    "MultiEdit": _edit,
    "Write": _edit,
    "NotebookEdit": _edit,
    "Grep": _search,
    "Glob": _search,
    "TaskCreate": _task_create,
    "TaskUpdate": _task_update,
}
"""Who makes the lines that depend on the project's folder or on other calls."""
_ALONE: dict[str, Callable[[ToolCall], CallLine]] = {
    "Bash": _bash,
    "PowerShell": _bash,
    "WebFetch": _fetch,
    "WebSearch": _web_search,
    "TodoWrite": _todo,
    "TaskList": _task_list,
    "TaskOutput": _task_output,
    "TaskStop": _task_output,
    "AskUserQuestion": _question,
    "ExitPlanMode": _plan,
    "Skill": _skill,
    "Agent": _agent,
    "Workflow": _workflow,
}
"""Who makes the others; a tool in neither is shown by what it was given."""
