"""Add Bygones to the files of Claude Code, and remove it from them.

Changes are planned first and then applied. Nothing is written if one of the files
cannot be read. A file is replaced atomically, and only if it has not changed since it
was planned.

Entries and files that an earlier version wrote are updated. Files are recognized by
their content, entries by the command that they run; edited ones are not changed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from bygones.errors import FileModifiedConcurrently, UnreadableFile
from bygones.integrations.json_edit import (
    JsonEditError,
    add_member,
    append_item,
    parse_object,
    remove_owned,
    replace_owned,
)
from bygones.integrations.plugin_versions import is_plugin_file
from bygones.store.connect import fsync_folder

_HOOK_EVENTS = ("SessionEnd", "PreCompact")
_CHECKPOINT_HOOKS = (
    ("PreToolUse", "pre", "Bash"),
    ("PostToolUse", "post", "Bash|Edit|Write|MultiEdit|NotebookEdit"),
)
_CHECKPOINT_SCRIPT = "checkpoint.sh"
_RECALL_HOOKS = (
    ("SessionStart", ""),
    ("UserPromptSubmit", ""),
    ("PostToolUse", "Bash"),
    ("PostToolUseFailure", "Bash"),
    ("PreToolUse", "Edit|MultiEdit|Write"),
)
_RECALL_SCRIPT = "recall_hook.py"
_RECALL_FOLDER = re.compile(rb'recall_hook\.py\\" \\"([^"]+)\\" 2>/dev/null')
"""The folder in a command of recall, in JSON."""
_LAUNCHER = r'(?:bygones|(?:"[^"]+"|[^\s"]+) -m bygones)'
_WRITTEN_COMMANDS = tuple(
    map(
        re.compile,
        (
            rf"{_LAUNCHER} mcp",
            rf"{_LAUNCHER} hook \|\| true",
            rf"{_LAUNCHER} statusline",
            r'sh "[^"]+checkpoint\.sh" pre "[^"]+" 2>/dev/null \|\| true',
            r'sh "[^"]+checkpoint\.sh" post "[^"]+" 2>/dev/null \|\| true',
            r'"[^"]+" -I -S "[^"]+recall_hook\.py" "[^"]+" 2>/dev/null \|\| true',
        ),
    )
)
"""The commands that are written here; others were edited."""
_OWN_NAME = "bygones"
_TEAM_NAME = "bygones-team"


class PartState(StrEnum):
    """Whether a part of the integration is installed."""

    MISSING = "missing"
    INSTALLED = "there"
    OUTDATED = "outdated"
    """An earlier version of Bygones wrote it, or one in another place."""
    CONFLICT = "taken"
    """There is something else in its place, which is not changed."""


_OWN_STATES = (PartState.INSTALLED, PartState.OUTDATED)


class ClaudePaths(NamedTuple):
    """The files of Claude Code, and the folder of our plugin."""

    settings: Path
    servers: Path
    """The file with the MCP servers of the user."""
    skills: Path
    commands: Path
    plugin: Path

    @property
    def checkpoints(self) -> Path:
        """Where the hooks of checkpoints store contents."""
        return self.settings.with_name("bygones-checkpoints")


class IntegrationChange(NamedTuple):
    """A part of the integration, and the file before and after its change."""

    description: str
    path: Path
    state: PartState
    before: bytes | None
    """The current content; ``None`` if there is no file."""
    after: bytes | None
    """The new content; ``None`` if the file is deleted."""

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


def claude_paths(
    environ: Mapping[str, str], user_home: Path, plugin: Path
) -> ClaudePaths:
    """Return the paths that the Claude Code of a user has."""
    configured = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    home = Path(configured) if configured else user_home / ".claude"
    servers = (home if configured else user_home) / ".claude.json"
    return ClaudePaths(
        settings=home / "settings.json",
        servers=servers,
        skills=home / "skills",
        commands=home / "commands",
        plugin=plugin,
    )


def plan_changes(  # noqa: PLR0913 (most by name)
    paths: ClaudePaths,
    command: Sequence[str],
    *,
    removing: bool,
    statusline: bool,
    checkpoints: bool = False,
    recall_folder: Path | None = None,
) -> list[IntegrationChange]:
    """Return the changes that add or remove the integration; nothing is written.

    ``command`` starts Bygones. The status line and the hooks of checkpoints are added
    on request, and always updated and removed; so are the hooks of recall, which read a
    folder. A file may occur several times: each change continues from the one before it.

    Raises `UnreadableFile` if a file does not have the expected format.
    """
    pending: dict[Path, bytes | None] = {}
    edits = _json_edits(
        command,
        statusline=statusline or removing,
        checkpoints=checkpoints or removing,
        recall=recall_folder is not None or removing,
        recall_folder=recall_folder or _find_recall_folder(paths.settings),
    )
    changes: list[IntegrationChange] = []
    for edit in edits:
        change = _plan_json_edit(edit, paths, pending, removing=removing)
        if edit.is_requested or change.state in _OWN_STATES:
            changes.append(change)
    return changes + [
        _plan_copy(source, target, removing=removing)
        for source, target in _plugin_files(paths)
    ]


class _JsonEdit(NamedTuple):
    """A member to add to a JSON file, or an item to add to a list in it."""

    description: str
    file: str
    path: Sequence[str]
    value: object
    is_list_item: bool = False
    owner: Callable[[object], bool] | None = None
    """Whether an item is this one; by default, whether it is any of ours."""
    is_requested: bool = True
    """Whether it is added; otherwise it is only updated."""


def plan_project_changes(
    folder: Path, hub: str, *, removing: bool
) -> list[IntegrationChange]:
    """Return the change that lets everybody in a repository read from a hub.

    The file contains no token: Claude Code replaces the variable with that of the user.
    """
    server = {
        "type": "http",
        "url": f"{hub.rstrip('/')}/mcp",
        "headers": {"Authorization": "Bearer ${BYGONES_HUB_TOKEN}"},
    }
    edit = _JsonEdit(
        "MCP server of the hub",
        "servers",
        ("mcpServers", _TEAM_NAME),
        server,
        owner=_is_hub_server,
    )
    nowhere = folder / ".claude"
    paths = ClaudePaths(nowhere, folder / ".mcp.json", nowhere, nowhere, nowhere)
    change = _plan_json_edit(edit, paths, {}, removing=removing)
    if removing or change.state is not PartState.INSTALLED:
        return [change]
    # The file may name another hub: then its address is replaced.
    removed = _plan_json_edit(edit, paths, {}, removing=True)
    added = _plan_json_edit(edit, paths, {paths.servers: removed.after}, removing=False)
    is_same = _hub_address(change.before) == _hub_address(added.after)
    return [change if is_same else added._replace(before=change.before)]


def _hub_address(content: bytes | None) -> object:
    servers = parse_object((content or b"{}").decode()).get("mcpServers", {})
    return servers.get(_TEAM_NAME, {}).get("url")


def _is_hub_server(value: object) -> bool:
    match value:
        case {"type": "http", "url": str(), "headers": {"Authorization": str(given)}}:
            return "BYGONES_HUB_TOKEN" in given
        case _:
            return False


def _json_edits(
    command: Sequence[str],
    *,
    statusline: bool,
    checkpoints: bool,
    recall: bool,
    recall_folder: Path,
) -> Iterator[_JsonEdit]:
    server = {"type": "stdio", "command": command[0], "args": [*command[1:], "mcp"]}
    yield _JsonEdit("MCP server", "servers", ("mcpServers", _OWN_NAME), server)
    shell = _join_words(*command)
    hook = {"type": "command", "command": f"{shell} hook || true", "timeout": 10}
    for event in _HOOK_EVENTS:
        description = f"import hook ({event})"
        value = {"hooks": [hook]}
        yield _JsonEdit(
            description, "settings", ("hooks", event), value, is_list_item=True
        )
    yield from _checkpoint_edits(is_requested=checkpoints)
    yield from _recall_edits(recall_folder, is_requested=recall)
    line = {"type": "command", "command": f"{shell} statusline"}
    yield _JsonEdit(
        "status line", "settings", ("statusLine",), line, is_requested=statusline
    )


def _checkpoint_edits(*, is_requested: bool) -> Iterator[_JsonEdit]:
    script = Path(__file__).with_name(_CHECKPOINT_SCRIPT)
    for event, argument, matcher in _CHECKPOINT_HOOKS:
        text = f'sh "{script}" {argument} "{sys.executable}" 2>/dev/null || true'
        own = {"type": "command", "command": text, "timeout": 5}
        yield _JsonEdit(
            f"checkpoint hook ({event})",
            "settings",
            ("hooks", event),
            {"matcher": matcher, "hooks": [own]},
            is_list_item=True,
            is_requested=is_requested,
        )


def _recall_edits(folder: Path, *, is_requested: bool) -> Iterator[_JsonEdit]:
    script = Path(__file__).with_name(_RECALL_SCRIPT)
    for event, matcher in _RECALL_HOOKS:
        text = f'"{sys.executable}" -I -S "{script}" "{folder}" 2>/dev/null || true'
        own = {"type": "command", "command": text, "timeout": 2}
        yield _JsonEdit(
            f"recall hook ({event})",
            "settings",
            ("hooks", event),
            {"matcher": matcher, "hooks": [own]},
            is_list_item=True,
            owner=_is_recall_hook,
            is_requested=is_requested,
        )


def _join_words(*words: object) -> str:
    return " ".join(f'"{word}"' if " " in f"{word}" else f"{word}" for word in words)


def _find_recall_folder(settings: Path) -> Path:
    """Return the folder that the installed hooks of recall read, if there are any."""
    found = _RECALL_FOLDER.search(_read_file(settings) or b"")
    try:
        return Path(msgspec.json.decode(b'"%b"' % found[1]) if found else "")
    except (msgspec.DecodeError, UnicodeError):
        return Path()


def _is_recall_hook(value: object) -> bool:
    match value:
        case {"matcher": str(), "hooks": [{"command": str(command)}], **rest}:
            return not rest and f"{_RECALL_SCRIPT}" in command
        case _:
            return False


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
    # A file that is empty now was created by us.
    is_empty = after == "{}\n" and (removing or before is None)
    content = None if is_empty else after.encode()
    pending_contents[path] = content
    return IntegrationChange(edit.description, path, state, before, content)


def _apply_json_edit(
    text: str, edit: _JsonEdit, state: PartState, *, removing: bool
) -> str:
    if removing:
        return remove_owned(text, edit.path, edit.owner or _is_ours)
    if state is PartState.OUTDATED:
        return replace_owned(text, edit.path, partial(_update, edit))
    if state is not PartState.MISSING or not edit.is_requested:
        return text
    return (append_item if edit.is_list_item else add_member)(
        text, edit.path, edit.value
    )


def _edit_state(text: str, edit: _JsonEdit) -> PartState:
    value: object = parse_object(text)
    for key in edit.path:
        value = value.get(key) if isinstance(value, dict) else None
    is_own = edit.owner or _is_ours
    if edit.is_list_item:
        own = (
            [item for item in value if is_own(item)] if isinstance(value, list) else []
        )
    else:
        own = [value] if is_own(value) else []
    if any(_update(edit, item) != item for item in own):
        return PartState.OUTDATED
    if own:
        return PartState.INSTALLED
    is_free = value is None or edit.is_list_item
    return PartState.MISSING if is_free else PartState.CONFLICT


def _update(edit: _JsonEdit, value: object) -> object:
    """Return an entry with the current command if it was written here.

    What else is in it stays: a user may have changed the timeout, for example.
    """
    if not (edit.owner or _is_ours)(value):
        return value
    match value, edit.value:
        case (
            {"hooks": [{"command": str(old), **hook}], **rest},
            {"hooks": [{"command": str(new)}]},
        ) if _is_same_command(old, new):
            return {**rest, "hooks": [{**hook, "command": new}]}
        case (
            {"command": str(old), "args": list(old_args), **rest},
            {"command": str(new), "args": list(args)},
        ) if _is_same_command(_join_words(old, *old_args), _join_words(new, *args)):
            return {**rest, "command": new, "args": args}
        case (
            {"command": str(old), **rest},
            {"command": str(new)},
        ) if _is_same_command(old, new):
            return {**rest, "command": new}
        case _:
            return value


def _is_same_command(old: str, new: str) -> bool:
    return any(
        form.fullmatch(old) and form.fullmatch(new) for form in _WRITTEN_COMMANDS
    )


def _is_ours(value: object) -> bool:
    """Return whether a server, a group of hooks or a status line is ours."""
    match value:
        case {"hooks": [{"command": str(command)}], **rest} if not rest:
            return _OWN_NAME in command and command.endswith(" hook || true")
        case {"matcher": str(), "hooks": [{"command": str(command)}], **rest} if (
            not rest
        ):
            return _OWN_NAME in command and f"/{_CHECKPOINT_SCRIPT}" in command
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
    for source in sorted((paths.plugin / "agents").glob("*.md")):
        yield source, paths.commands.parent / "agents" / f"{_OWN_NAME}-{source.name}"


def _plan_copy(source: Path, target: Path, *, removing: bool) -> IntegrationChange:
    content, before = source.read_bytes(), _read_file(target)
    if source.parent.name == "agents":
        description = f"subagent {source.stem}"
    elif source.name == "SKILL.md":
        description = "skill"
    else:
        description = f"/{_OWN_NAME}:{source.stem}"
    if before is None:
        state = PartState.MISSING
    elif before == content:
        state = PartState.INSTALLED
    else:
        is_own = is_plugin_file(before)
        state = PartState.OUTDATED if is_own else PartState.CONFLICT
    after = before
    if removing and state in _OWN_STATES:
        after = None
    elif not removing and state is not PartState.CONFLICT:
        after = content
    return IntegrationChange(description, target, state, before, after)


def _read_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(path, (error.strerror or str(error)).lower()) from error


def apply_changes(changes: Sequence[IntegrationChange]) -> list[IntegrationChange]:
    """Write the planned changes, and return those that were needed.

    Raises `FileModifiedConcurrently` if a file has changed since it was planned.
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
    # Settings are often a link into a folder of dotfiles: replace its target.
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    draft = target.with_name(f"{target.name}.bygones")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.chmod(mode)
    draft.replace(target)
    fsync_folder(target.parent)


def _delete_file(path: Path) -> None:
    path.unlink(missing_ok=True)
    # Delete our folder and its parent if they are empty now.
    for folder in (path.parent, path.parent.parent):
        is_ours = folder.name in {_OWN_NAME, "recall", "skills", "commands", "agents"}
        if is_ours and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
