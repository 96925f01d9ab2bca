"""Outcomes: the structured results of tools, in addition to what the model sees.

An outcome is the `toolUseResult` field of a user record. It does not name the tool; its
type is recognized by one of the `marker_fields`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import SequenceMatcher
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from bygones.model.base import DECODE_ERRORS, AgentId, ShortStruct, WireStruct
from bygones.model.usage import WireUsage

CURRENT_TOOL_NAMES = {
    "Task": "Agent",
    "BashOutput": "TaskOutput",
    "AgentOutputTool": "TaskOutput",
    "KillShell": "TaskStop",
    "KillBash": "TaskStop",
    "exit_plan_mode": "ExitPlanMode",
    "SlashCommand": "Skill",
}
"""The current name of a tool, by its former name."""


class PatchHunk(WireStruct, frozen=True, kw_only=True):
    """One hunk of a unified diff; lines start with `+`, `-` or a space."""

    old_start: int = 0
    old_lines: int = 0
    new_start: int = 0
    new_lines: int = 0
    lines: tuple[str, ...] = ()


class ShellEdit(WireStruct, frozen=True, kw_only=True):
    """A file that a shell command changed, with the patch if it was recorded."""

    file_path: str | None = None
    hunks: tuple[PatchHunk, ...] = ()
    created: bool = False
    deleted: bool = False


class ShellEdits(WireStruct, frozen=True, kw_only=True):
    """What a shell command changed in a git working tree.

    Only the first five files are in `files`, and large files have no hunks; all paths are
    in `changed_files`.
    """

    files: tuple[ShellEdit, ...] = ()
    more_files: int | None = None
    changed_files: tuple[str, ...] = ()


class BashOutcome(WireStruct, frozen=True, kw_only=True):
    """The output and status of a shell command."""

    marker_fields: ClassVar[tuple[str, ...]] = ("stdout", "stderr", "stdoutLines")
    unused_fields: ClassVar[tuple[str, ...]] = (
        "stdoutLines",
        "stderrLines",
        "timestamp",
        "staleReadFileStateHint",
        "backgroundCwdHint",
        "backgroundEndsWithFinalResponse",
        "backgroundOutputPath",
        "backgroundWakesOwner",
        "backgroundedByTurnAbort",
        "backgroundedToDeliverMessage",
        "dangerouslyDisableSandbox",
        "ghRateLimitHint",
        "memoryLimitNote",
        "stdoutHoldsOutputEnd",
        "subagentCapApplied",
        "tailInputNote",
        "tailInputPath",
        "triggeredNote",
    )

    stdout: str | None = None
    stderr: str | None = None
    interrupted: bool | None = None
    is_image: bool | None = None
    raw_output_path: str | None = None
    background_task_id: str | None = None
    backgrounded_by_user: bool | None = None
    timed_out_after_ms: float | None = None
    return_code_interpretation: str | None = None
    no_output_expected: bool | None = None
    persisted_output_path: str | None = None
    persisted_output_size: int | None = None
    structured_content: Raw = Raw()
    git_operation: Raw = Raw()
    shell_id: str | None = None
    command: str | None = None
    exit_code: int | None = None
    status: str | None = None
    bash_edit_diff: ShellEdits | None = None


class FileText(WireStruct, frozen=True, kw_only=True):
    """The part of a file that was read."""

    file_path: str | None = None
    content: str | None = None
    num_lines: int | None = None
    start_line: int | None = None
    total_lines: int | None = None
    truncated_by_token_cap: bool | None = None
    base64: str | None = None
    type: str | None = None
    original_size: int | None = None
    dimensions: Raw = Raw()
    cells: Raw = Raw()
    count: int | None = None
    output_dir: str | None = None


class ReadOutcome(WireStruct, frozen=True, kw_only=True):
    """A file that was read: text, image, notebook or PDF."""

    marker_fields: ClassVar[tuple[str, ...]] = ("file",)

    type: str | None = None
    file: FileText | None = None
    pages: Raw = Raw()


class EditOutcome(WireStruct, frozen=True, kw_only=True):
    """A file that was edited or written, with the patch."""

    unused_fields: ClassVar[tuple[str, ...]] = ("stagedWording",)
    marker_fields: ClassVar[tuple[str, ...]] = (
        "structuredPatch",
        "oldString",
        "originalFile",
        "originalFileContents",
    )

    type: str | None = None
    file_path: str | None = None
    old_string: str | None = None
    new_string: str | None = None
    edits: Raw = Raw()
    content: str | None = None
    original_file: str | None = None
    original_file_contents: str | None = None
    structured_patch: tuple[PatchHunk, ...] = ()
    user_modified: bool | None = None
    replace_all: bool | None = None
    git_diff: Raw = Raw()
    staged: Raw = Raw()


class NotebookOutcome(ShortStruct, frozen=True, kw_only=True):
    """A notebook cell that was changed."""

    marker_fields: ClassVar[tuple[str, ...]] = ("notebook_path",)

    notebook_path: str | None = None
    cell_id: str | None = None
    cell_type: str | None = None
    language: str | None = None
    edit_mode: str | None = None
    new_source: str | None = None
    old_source: str | None = None
    original_file: str | None = None
    updated_file: str | None = None
    error: str | None = None


class FileSearchOutcome(WireStruct, frozen=True, kw_only=True):
    """The result of Glob or Grep."""

    marker_fields: ClassVar[tuple[str, ...]] = ("filenames",)

    mode: str | None = None
    filenames: tuple[str, ...] = ()
    num_files: int | None = None
    content: str | None = None
    num_lines: int | None = None
    num_matches: int | None = None
    total_files: int | None = None
    total_lines: int | None = None
    total_matches: int | None = None
    count_is_complete: bool | None = None
    duration_ms: float | None = None
    truncated: bool | None = None
    applied_limit: int | None = None
    applied_offset: int | None = None
    timed_out: bool | None = None


class WebFetchOutcome(WireStruct, frozen=True, kw_only=True):
    """A web page that was fetched and summarized."""

    marker_fields: ClassVar[tuple[str, ...]] = ("codeText",)
    unused_fields: ClassVar[tuple[str, ...]] = ("artifactRead", "citable", "title")

    url: str | None = None
    code: int | None = None
    code_text: str | None = None
    bytes: int | None = None
    result: str | None = None
    duration_ms: float | None = None


class WebSearchOutcome(WireStruct, frozen=True, kw_only=True):
    """The result of a web search: objects, strings or null."""

    marker_fields: ClassVar[tuple[str, ...]] = ("durationSeconds", "searchCount")

    query: str | None = None
    results: Raw = Raw()
    duration_seconds: float | None = None
    search_count: int | None = None


class TodoOutcome(WireStruct, frozen=True, kw_only=True):
    """The to-do list before and after a change."""

    marker_fields: ClassVar[tuple[str, ...]] = ("newTodos",)

    old_todos: Raw = Raw()
    new_todos: Raw = Raw()


class TaskOutcome(WireStruct, frozen=True, kw_only=True):
    """A task that was created, changed or listed, or its output."""

    marker_fields: ClassVar[tuple[str, ...]] = (
        "task",
        "tasks",
        "taskId",
        "retrieval_status",
    )
    unused_fields: ClassVar[tuple[str, ...]] = (
        "retrieval_status",
        "verificationNudgeNeeded",
    )

    task: Raw = Raw()
    tasks: Raw = Raw()
    agents: Raw = Raw()
    success: bool | None = None
    task_id: str | None = None
    updated_fields: Raw = Raw()
    status_change: Raw = Raw()
    timeout_ms: float | None = None
    persistent: bool | None = None
    error: str | None = None


class TaskStopOutcome(ShortStruct, frozen=True, kw_only=True):
    """A background task that was stopped."""

    marker_fields: ClassVar[tuple[str, ...]] = ("task_id", "shell_id", "shellId")

    message: str | None = None
    task_id: str | None = None
    task_type: str | None = None
    command: str | None = None
    shell_id: str | None = None
    success: bool | None = None


class AgentOutcome(WireStruct, frozen=True, kw_only=True):
    """An agent run that ended, or that was started in the background.

    `total_tokens` is the size of the last context, not the usage.
    """

    marker_fields: ClassVar[tuple[str, ...]] = ("agentId", "agent_id", "sessionUrl")
    unused_fields: ClassVar[tuple[str, ...]] = (
        "canContinueAgent",
        "handback",
        "handbackReport",
        "harnessNoteCount",
        "harnessTailCount",
        "harnessSectionHash",
        "toolsUsedLine",
    )

    status: str | None = None
    agent_id: AgentId | None = None
    agent_type: str | None = None
    description: str | None = None
    prompt: str | None = None
    content: Raw = Raw()
    resolved_model: str | None = None
    models_used: Raw = Raw()
    total_tool_use_count: int | None = None
    total_duration_ms: float | None = None
    total_tokens: int | None = None
    usage: WireUsage | None = None
    tools_used: Raw = Raw()
    tool_stats: Raw = Raw()
    is_async: bool | None = None
    output_file: str | None = None
    can_read_output_file: bool | None = None
    worktree_path: str | None = None
    worktree_branch: str | None = None
    task_id: str | None = None
    session_url: str | None = None


class QuestionOutcome(WireStruct, frozen=True, kw_only=True):
    """Questions to the user, and the answers."""

    marker_fields: ClassVar[tuple[str, ...]] = ("questions",)

    questions: Raw = Raw()
    answers: Raw = Raw()
    response: Raw = Raw()
    annotations: Raw = Raw()
    afk_timeout_ms: float | None = None


class PlanOutcome(WireStruct, frozen=True, kw_only=True):
    """A plan that was shown for approval."""

    marker_fields: ClassVar[tuple[str, ...]] = ("plan",)

    plan: str | None = None
    is_agent: bool | None = None
    file_path: str | None = None
    has_task_tool: bool | None = None
    plan_was_edited: bool | None = None
    awaiting_leader_approval: bool | None = None
    request_id: str | None = None


class SkillOutcome(WireStruct, frozen=True, kw_only=True):
    """A skill that was started."""

    marker_fields: ClassVar[tuple[str, ...]] = ("commandName",)
    unused_fields: ClassVar[tuple[str, ...]] = ("model",)

    success: bool | None = None
    command_name: str | None = None
    allowed_tools: Raw = Raw()


class WorkflowOutcome(WireStruct, frozen=True, kw_only=True):
    """A workflow that was started; its agents are in the folder `run_id`."""

    marker_fields: ClassVar[tuple[str, ...]] = ("runId", "workflowName")

    status: str | None = None
    task_id: str | None = None
    task_type: str | None = None
    workflow_name: str | None = None
    run_id: str | None = None
    summary: str | None = None
    transcript_dir: str | None = None
    script_path: str | None = None
    session_url: str | None = None
    warning: str | None = None
    error: str | None = None


class TextOutcome(ShortStruct, frozen=True):
    """An outcome that is only text: an error, a rejection, or an old tool."""

    text: str


class UnknownOutcome(ShortStruct, frozen=True):
    """An outcome of an unknown type, for example of an MCP tool, as raw JSON."""

    raw: bytes


OUTCOME_TYPES: tuple[type[Struct], ...] = (
    WorkflowOutcome,
    AgentOutcome,
    BashOutcome,
    EditOutcome,
    NotebookOutcome,
    ReadOutcome,
    FileSearchOutcome,
    WebSearchOutcome,
    WebFetchOutcome,
    TodoOutcome,
    QuestionOutcome,
    PlanOutcome,
    SkillOutcome,
    TaskStopOutcome,
    TaskOutcome,
)
"""In the order in which they are tried, the most specific first."""


def find_outcome_type(names: Collection[str]) -> type[Struct] | None:
    """Return the type of an outcome by the names of its fields."""
    for outcome_type in OUTCOME_TYPES:
        if any(name in names for name in outcome_type.marker_fields):  # type: ignore[attr-defined]
            return outcome_type
    return None


Outcome = (
    WorkflowOutcome
    | AgentOutcome
    | BashOutcome
    | EditOutcome
    | NotebookOutcome
    | ReadOutcome
    | FileSearchOutcome
    | WebSearchOutcome
    | WebFetchOutcome
    | TodoOutcome
    | QuestionOutcome
    | PlanOutcome
    | SkillOutcome
    | TaskStopOutcome
    | TaskOutcome
    | TextOutcome
    | UnknownOutcome
)


_CONTEXT_LINES = 3
_MAX_DIFF_LINES = 2000
"""Longer texts are not compared, but replaced as a whole."""


class _Replacement(Struct, frozen=True):
    old_string: str | None = None
    new_string: str | None = None


class _EditInput(Struct, frozen=True):
    """The input of the tools that edit files."""

    old_string: str | None = None
    new_string: str | None = None
    content: str | None = None
    new_source: str | None = None
    edits: list[_Replacement] = []


_decode_edit_input = msgspec.json.Decoder(_EditInput).decode


def build_hunks(
    outcome: Outcome | None, tool_input: Raw, path: str | None = None
) -> tuple[PatchHunk, ...]:
    """Return the diff of an edit: its patch, or one computed from the texts.

    The line numbers are 0 if only a part of the file is known. A shell command may have
    changed several files: `path` is the one to return.
    """
    if isinstance(outcome, BashOutcome):
        edits = outcome.bash_edit_diff or ShellEdits()
        return next((file.hunks for file in edits.files if file.file_path == path), ())
    return tuple(_edit_hunks(outcome, tool_input))


def _edit_hunks(outcome: Outcome | None, tool_input: Raw) -> Iterable[PatchHunk]:
    if isinstance(outcome, EditOutcome):
        if outcome.structured_patch:
            return outcome.structured_patch
        if outcome.type == "update" and outcome.original_file is None:
            return ()  # the content did not change
        if outcome.content is not None:
            return _diff_texts(outcome.original_file, outcome.content, is_whole=True)
        if outcome.old_string is not None or outcome.new_string is not None:
            return _diff_texts(outcome.old_string, outcome.new_string)
    if isinstance(outcome, NotebookOutcome):
        return _diff_texts(outcome.old_source, outcome.new_source)
    return _hunks_from_input(tool_input)


def _hunks_from_input(tool_input: Raw) -> Iterator[PatchHunk]:
    try:
        edit = _decode_edit_input(tool_input)
    except DECODE_ERRORS:
        return
    for replacement in edit.edits:
        yield from _diff_texts(replacement.old_string, replacement.new_string)
    yield from _diff_texts(edit.old_string, edit.new_string or edit.new_source)
    yield from _diff_texts(None, edit.content, is_whole=True)


def _diff_texts(
    old: str | None, new: str | None, *, is_whole: bool = False
) -> Iterator[PatchHunk]:
    before, after = _split_lines(old), _split_lines(new)
    for codes in _group_opcodes(before, after):
        first, last = codes[0], codes[-1]
        lines: list[str] = []
        for tag, old_from, old_to, new_from, new_to in codes:
            if tag == "equal":
                lines += (f" {line}" for line in before[old_from:old_to])
            else:
                lines += (f"-{line}" for line in before[old_from:old_to])
                lines += (f"+{line}" for line in after[new_from:new_to])
        yield PatchHunk(
            old_start=first[1] + 1 if is_whole and before else 0,
            old_lines=last[2] - first[1],
            new_start=first[3] + 1 if is_whole and after else 0,
            new_lines=last[4] - first[3],
            lines=tuple(lines),
        )


_Opcode = tuple[str, int, int, int, int]


def _group_opcodes(before: list[str], after: list[str]) -> Iterator[list[_Opcode]]:
    """Yield the opcodes of each hunk."""
    if max(len(before), len(after)) > _MAX_DIFF_LINES:
        if before != after:
            yield [("replace", 0, len(before), 0, len(after))]
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        yield [(code[0], *code[1:]) for code in group]


def _split_lines(text: str | None) -> list[str]:
    """Split at newlines only, not at other line separators."""
    lines = (text or "").split("\n")
    return lines if lines[-1] else lines[:-1]
