"""JSON objects of the commands about versions of files."""

from __future__ import annotations

from datetime import datetime

from bygones.schema.encoding import JsonObject


class BlameLineObject(JsonObject, frozen=True, kw_only=True, tag="blame_line"):
    """A line of a file, and who wrote it."""

    path: str
    line: int
    text: str
    origin: str
    """`claude`, `modified`, `user`, `command`, `before` or `unknown`."""
    certainty: str
    """`certain`, `likely` or `unknown`."""
    session_id: str | None
    """The session that wrote the line, or that noticed it if `origin` is `user` or
    `unknown`."""
    turn_number: int | None
    branch_number: int | None
    agent_id: str | None
    message_id: str | None
    tool_call_id: str | None
    changed_at: datetime | None
    command: str | None
    """The command that wrote or changed the line, or probably did."""
    cause: str | None
    """What changed it without a record: `command`, `formatter`, `session`, `branch` or
    `user`."""
    commit: str | None
    """The commit that git names for the line."""
    prompt: str | None
    """The start of the prompt of the turn."""


class FileAtObject(JsonObject, frozen=True, kw_only=True, tag="file_at"):
    """A file as it was at a turn or time."""

    path: str
    session_id: str | None
    """The session that last changed the file."""
    turn_number: int | None
    branch_number: int | None
    changed_at: datetime | None
    exists: bool | None
    """`null` if nothing is known of it."""
    is_certain: bool
    """`false` if a part is inferred, or a command may have changed the file since."""
    content: str | None
    """`null` if the file did not exist, or its content is not known."""
    possible_changes: tuple[str, ...]
    """Commands since the file was last seen that may have changed it."""
    written_path: str | None
    """Where a copy was written."""


class FileDiffObject(JsonObject, frozen=True, kw_only=True, tag="file_diff"):
    """The difference between two states of a file."""

    path: str
    state: str
    """`changed`, `created`, `deleted` or `unknown`."""
    added_lines: int
    removed_lines: int
    diff: str
    """A unified diff; empty if a version is not known."""


class CommitObject(JsonObject, frozen=True, kw_only=True, tag="commit"):
    """A commit or pull request and a session that made it, or wrote its lines."""

    sha: str | None
    summary: str | None
    kind: str
    """`commit`, `amend`, `pull_request` or as Claude Code names it; `content` if the
    session wrote lines of the commit."""
    git_branch: str | None
    url: str | None
    session_id: str
    turn_number: int | None
    made_at: datetime | None
    line_count: int | None
    """Lines of the commit that the session wrote."""
    added_line_count: int | None
    """All lines that the commit added, without blank ones."""


class UndoFileObject(JsonObject, frozen=True, kw_only=True, tag="undo_file"):
    """A file that undoing changes, or that it leaves alone."""

    path: str
    action: str
    """`write`, `create`, `delete` or `skip`."""
    reason: str | None
    """Why it is left alone, or what would be overwritten."""
    added_lines: int
    removed_lines: int


class UndoObject(JsonObject, frozen=True, kw_only=True, tag="undo"):
    """What was undone."""

    undo_id: str | None
    """Names the kept copies; `null` if nothing was written."""
    session_id: str | None
    turn_number: int | None
    written_count: int
    skipped_count: int
    is_dry_run: bool
