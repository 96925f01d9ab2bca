"""Outcomes: the structured form of a tool's result, beside what the model saw.

An outcome stands at the top of a user record (``toolUseResult``) and does not say
which tool made it: any of a shape's ``signs`` (field names) gives it away.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw, Struct

from bygones.model.ids import AgentId
from bygones.model.usage import WireUsage
from bygones.model.wire import Wire

__all__ = [
    "OUTCOMES",
    "TOOL_NAMES",
    "AgentOutcome",
    "BashOutcome",
    "EditOutcome",
    "FileOutcome",
    "FileText",
    "FoundOutcome",
    "NotebookOutcome",
    "ObjectOutcome",
    "Outcome",
    "PatchHunk",
    "PlanOutcome",
    "QuestionOutcome",
    "ReadOutcome",
    "SkillOutcome",
    "TaskOutcome",
    "TaskStopOutcome",
    "TextOutcome",
    "TodoOutcome",
    "WebFetchOutcome",
    "WebSearchOutcome",
    "WorkflowOutcome",
]

TOOL_NAMES = {
    "Task": "Agent",
    "BashOutput": "TaskOutput",
    "AgentOutputTool": "TaskOutput",
    "KillShell": "TaskStop",
    "KillBash": "TaskStop",
    "exit_plan_mode": "ExitPlanMode",
    "SlashCommand": "Skill",
}
"""What a tool is called today, by what it was called before."""


class FileOutcome(Wire, frozen=True, kw_only=True):
    """The file that an outcome of any tool names, if it names one."""

    file_path: str | None = None


class PatchHunk(Wire, frozen=True, kw_only=True):
    """One hunk of a unified diff; lines begin with ``+``, ``-`` or a space."""

    old_start: int = 0
    old_lines: int = 0
    new_start: int = 0
    new_lines: int = 0
    lines: tuple[str, ...] = ()


class BashOutcome(Wire, frozen=True, kw_only=True):
    """What a shell command printed, and how it ended."""

    signs: ClassVar[tuple[str, ...]] = ("stdout", "stderr", "stdoutLines")

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


class FileText(Wire, frozen=True, kw_only=True):
    """What was read of a file."""

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


class ReadOutcome(Wire, frozen=True, kw_only=True):
    """A file that was read: text, image, notebook, PDF, parts, or unchanged."""

    signs: ClassVar[tuple[str, ...]] = ("file",)

    type: str | None = None
    file: FileText | None = None
    pages: Raw = Raw()


class EditOutcome(Wire, frozen=True, kw_only=True):
    """A file that was edited or written, with the patch."""

    signs: ClassVar[tuple[str, ...]] = (
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


class NotebookOutcome(Struct, frozen=True, kw_only=True):
    """A notebook cell that was changed."""

    signs: ClassVar[tuple[str, ...]] = ("notebook_path",)

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


class FoundOutcome(Wire, frozen=True, kw_only=True):
    """What a search by name or by content found."""

    signs: ClassVar[tuple[str, ...]] = ("filenames",)

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


class WebFetchOutcome(Wire, frozen=True, kw_only=True):
    """A page that was fetched and digested."""

    signs: ClassVar[tuple[str, ...]] = ("codeText",)

    url: str | None = None
    code: int | None = None
    code_text: str | None = None
    bytes: int | None = None
    result: str | None = None
    duration_ms: float | None = None


class WebSearchOutcome(Wire, frozen=True, kw_only=True):
    """What a web search found; results are objects, strings or null."""

    signs: ClassVar[tuple[str, ...]] = ("durationSeconds", "searchCount")

    query: str | None = None
    results: Raw = Raw()
    duration_seconds: float | None = None
    search_count: int | None = None


class TodoOutcome(Wire, frozen=True, kw_only=True):
    """A list of things to do, before and after."""

    signs: ClassVar[tuple[str, ...]] = ("newTodos",)

    old_todos: Raw = Raw()
    new_todos: Raw = Raw()


class TaskOutcome(Wire, frozen=True, kw_only=True):
    """A task that was made, changed, listed, or whose output was asked for."""

    signs: ClassVar[tuple[str, ...]] = ("task", "tasks", "taskId", "retrieval_status")

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


class TaskStopOutcome(Struct, frozen=True, kw_only=True):
    """A background task that was stopped."""

    signs: ClassVar[tuple[str, ...]] = ("task_id", "shell_id", "shellId")

    message: str | None = None
    task_id: str | None = None
    task_type: str | None = None
    command: str | None = None
    shell_id: str | None = None
    success: bool | None = None


class AgentOutcome(Wire, frozen=True, kw_only=True):
    """An agent run that ended, or that was started and goes on.

    ``total_tokens`` is the size of the agent's last context, not what it cost.
    """

    signs: ClassVar[tuple[str, ...]] = ("agentId", "agent_id", "sessionUrl")

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


class QuestionOutcome(Wire, frozen=True, kw_only=True):
    """Questions that were put to the person, and the answers."""

    signs: ClassVar[tuple[str, ...]] = ("questions",)

    questions: Raw = Raw()
    answers: Raw = Raw()
    response: Raw = Raw()
    annotations: Raw = Raw()
    afk_timeout_ms: float | None = None


class PlanOutcome(Wire, frozen=True, kw_only=True):
    """A plan that was shown for approval."""

    signs: ClassVar[tuple[str, ...]] = ("plan",)

    plan: str | None = None
    is_agent: bool | None = None
    file_path: str | None = None
    has_task_tool: bool | None = None
    plan_was_edited: bool | None = None
    awaiting_leader_approval: bool | None = None
    request_id: str | None = None


class SkillOutcome(Wire, frozen=True, kw_only=True):
    """A skill that was started."""

    signs: ClassVar[tuple[str, ...]] = ("commandName",)

    success: bool | None = None
    command_name: str | None = None
    allowed_tools: Raw = Raw()


class WorkflowOutcome(Wire, frozen=True, kw_only=True):
    """A workflow that was started; its agents lie below ``run_id``."""

    signs: ClassVar[tuple[str, ...]] = ("runId", "workflowName")

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


class TextOutcome(Struct, frozen=True):
    """An outcome that is text only: an error, a refusal, an old tool's answer."""

    text: str


class ObjectOutcome(Struct, frozen=True):
    """An outcome of no known shape (an MCP tool's, say), kept as it was written."""

    raw: bytes


OUTCOMES: tuple[type[Struct], ...] = (
    WorkflowOutcome,
    AgentOutcome,
    BashOutcome,
    EditOutcome,
    NotebookOutcome,
    ReadOutcome,
    FoundOutcome,
    WebSearchOutcome,
    WebFetchOutcome,
    TodoOutcome,
    QuestionOutcome,
    PlanOutcome,
    SkillOutcome,
    TaskStopOutcome,
    TaskOutcome,
)
"""Shapes in the order in which they are tried: the most telling signs first."""

Outcome = (
    WorkflowOutcome
    | AgentOutcome
    | BashOutcome
    | EditOutcome
    | NotebookOutcome
    | ReadOutcome
    | FoundOutcome
    | WebSearchOutcome
    | WebFetchOutcome
    | TodoOutcome
    | QuestionOutcome
    | PlanOutcome
    | SkillOutcome
    | TaskStopOutcome
    | TaskOutcome
    | TextOutcome
    | ObjectOutcome
)
