"""Claude Code's own files: what would be added to them, adding it, taking it away.

Nothing is written that was not planned, and nothing at all if one of the files cannot
be read. Files are replaced whole, and only if they are still what the plan has seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from bygones.errors import FileModifiedConcurrently, UnreadableFile
from bygones.integrations.json_edit import (
    JsonEditError,
    add_member,
    append_item,
    parse_object,
    remove_owned,
)
from bygones.store.connect import fsync_folder

__all__ = [
    "ClaudePaths",
    "IntegrationChange",
    "PartState",
    "apply_changes",
    "claude_paths",
    "plan_changes",
]

_HOOK_EVENTS = ("SessionEnd", "PreCompact")
_OWN_NAME = "bygones"


class PartState(StrEnum):
    """Whether a part is there."""

    MISSING = "missing"
    INSTALLED = "there"
    CONFLICT = "taken"
    """Something else stands in its place, which stays."""


class ClaudePaths(NamedTuple):
    """Where Claude Code keeps what, and where our plugin is."""

    settings: Path
    servers: Path
    """The file with the user's own servers."""
    skills: Path
    commands: Path
    plugin: Path


class IntegrationChange(NamedTuple):
    """A part: what it is for, where it goes, how that stands, and the file with it."""

    description: str
    path: Path
    state: PartState
    before: bytes | None
    """The file as it is; none where there is no file."""
    after: bytes | None
    """The file as it will be; none where it goes."""

    @property
    def is_needed(self) -> bool:
        """Whether carrying it out changes anything."""
        return self.before != self.after


def claude_paths(
    environ: Mapping[str, str], user_home: Path, plugin: Path
) -> ClaudePaths:
    """Return where this user's Claude Code looks."""
    set_to = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    home = Path(set_to) if set_to else user_home / ".claude"
    servers = home / ".claude.json" if set_to else user_home / ".claude.json"
    return ClaudePaths(
        settings=home / "settings.json",
        servers=servers,
        skills=home / "skills",
        commands=home / "commands",
        plugin=plugin,
    )


def plan_changes(
    paths: ClaudePaths, command: Sequence[str], *, removing: bool, statusline: bool
) -> list[IntegrationChange]:
    """Return what adding or removing comes to, file by file; nothing is written.

    ``words`` start our command. One file may come several times: each change goes on
    from the one before it.

    :raises FileUnreadable: if a file is not what it should be.
    """
    edited: dict[Path, bytes | None] = {}
    edits = [*_json_edits(command, statusline=statusline or removing)]
    changes = [
        _plan_json_edit(edit, paths, edited, removing=removing) for edit in edits
    ]
    return changes + [
        _plan_copy(source, target, removing=removing)
        for source, target in _plugin_files(paths)
    ]


class _JsonEdit(NamedTuple):
    """A member of a JSON file, or an element of a list in it."""

    description: str
    file: str
    path: Sequence[str]
    value: object
    is_list_item: bool = False


def _json_edits(command: Sequence[str], *, statusline: bool) -> Iterator[_JsonEdit]:
    server = {"type": "stdio", "command": command[0], "args": [*command[1:], "mcp"]}
    yield _JsonEdit(
        "tools to recall with", "servers", ("mcpServers", _OWN_NAME), server
    )
    shell = " ".join(f'"{word}"' if " " in word else word for word in command)
    hook = {"type": "command", "command": f"{shell} hook || true", "timeout": 10}
    for event in _HOOK_EVENTS:
        told = f"keeps the archive current ({event})"
        path = ("hooks", event)
        yield _JsonEdit(told, "settings", path, {"hooks": [hook]}, is_list_item=True)
    if statusline:
        line = {"type": "command", "command": f"{shell} statusline"}
        yield _JsonEdit("a line below the prompt", "settings", ("statusLine",), line)


def _plan_json_edit(
    edit: _JsonEdit,
    paths: ClaudePaths,
    pending_contents: dict[Path, bytes | None],
    *,
    removing: bool,
) -> IntegrationChange:
    path: Path = getattr(paths, edit.file)
    before = pending_contents[path] if path in pending_contents else _read_file(path)
    try:
        text = "{}\n" if before is None else before.decode()
        state = _edit_state(text, edit)
        after = _apply_json_edit(text, edit, state, removing=removing)
    except (JsonEditError, UnicodeDecodeError) as error:
        raise UnreadableFile(path, str(error)) from error
    # A file that holds nothing any more was made for us.
    left = None if after == "{}\n" and (removing or before is None) else after.encode()
    pending_contents[path] = left
    return IntegrationChange(edit.description, path, state, before, left)


def _apply_json_edit(
    text: str, edit: _JsonEdit, state: PartState, *, removing: bool
) -> str:
    if removing:
        return remove_owned(text, edit.path, _is_ours)
    if state is not PartState.MISSING:
        return text
    return (append_item if edit.is_list_item else add_member)(
        text, edit.path, edit.value
    )


def _edit_state(text: str, edit: _JsonEdit) -> PartState:
    found: object = parse_object(text)
    for key in edit.path:
        found = found.get(key) if isinstance(found, dict) else None
    if edit.is_list_item:
        many = found if isinstance(found, list) else []
        return PartState.INSTALLED if any(map(_is_ours, many)) else PartState.MISSING
    if found is None:
        return PartState.MISSING
    return PartState.INSTALLED if _is_ours(found) else PartState.CONFLICT


def _is_ours(value: object) -> bool:
    """Whether a server, a group of hooks or a status line is one that we added."""
    match value:
        case {"hooks": [{"command": str(command)}], **rest} if not rest:
            return _OWN_NAME in command and command.endswith(" hook || true")
        case {"command": str(command), "args": [*_, "mcp"]}:
            return True
        case {"command": str(command)}:
            return _OWN_NAME in command and command.endswith(" statusline")
        case _:
            return False


def _plugin_files(paths: ClaudePaths) -> Iterator[tuple[Path, Path]]:
    skills, commands = paths.plugin / "skills", paths.plugin / "commands"
    for source in sorted(skills.glob("*/SKILL.md")):
        yield source, paths.skills / source.relative_to(skills)
    for source in sorted(commands.glob("*.md")):
        yield source, paths.commands / _OWN_NAME / source.name


def _plan_copy(source: Path, target: Path, *, removing: bool) -> IntegrationChange:
    wanted, before = source.read_bytes(), _read_file(target)
    kind = "a skill" if source.name == "SKILL.md" else f"/{_OWN_NAME}:{source.stem}"
    if before is None:
        state = PartState.MISSING
    else:
        state = PartState.INSTALLED if before == wanted else PartState.CONFLICT
    after = before
    if removing and state is PartState.INSTALLED:
        after = None
    elif not removing and state is PartState.MISSING:
        after = wanted
    return IntegrationChange(kind, target, state, before, after)


def _read_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(path, (error.strerror or str(error)).lower()) from error


def apply_changes(changes: Sequence[IntegrationChange]) -> list[IntegrationChange]:
    """Write what is planned, and return what was.

    :raises FileChanged: if somebody wrote to a file since it was planned.
    """
    needed = [change for change in changes if change.is_needed]
    first: dict[Path, bytes | None] = {}
    last: dict[Path, bytes | None] = {}
    for change in needed:
        first.setdefault(change.path, change.before)
        last[change.path] = change.after
    for path, before in first.items():
        if _read_file(path) != before:
            raise FileModifiedConcurrently(path)
    for path, after in last.items():
        _delete_file(path) if after is None else _write_file(path, after)
    return needed


def _write_file(path: Path, content: bytes) -> None:
    # Settings are often a link into somebody's own folder of such files.
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
    draft = real.with_name(f"{real.name}.bygones")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.chmod(mode)
    draft.replace(real)
    fsync_folder(real.parent)


def _delete_file(path: Path) -> None:
    path.unlink(missing_ok=True)
    # The folder of ours, and that in which such folders lie: an empty one says nothing.
    for folder in (path.parent, path.parent.parent):
        is_ours = folder.name in {_OWN_NAME, "recall", "skills", "commands"}
        if is_ours and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
