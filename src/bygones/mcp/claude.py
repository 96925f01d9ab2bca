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

from bygones.errors import FileChanged, FileUnreadable
from bygones.mcp.jsontext import Unreadable, append, put, read, remove

__all__ = ["Change", "Places", "State", "carry_out", "places_of", "plan"]

_EVENTS = ("SessionEnd", "PreCompact")
_OURS = "bygones"


class State(StrEnum):
    """Whether a part is there."""

    MISSING = "missing"
    THERE = "there"
    TAKEN = "taken"
    """Something else stands in its place, which stays."""


class Places(NamedTuple):
    """Where Claude Code keeps what, and where our plugin is."""

    settings: Path
    servers: Path
    """The file with the user's own servers."""
    skills: Path
    commands: Path
    plugin: Path


class Change(NamedTuple):
    """A part: what it is for, where it goes, how that stands, and the file with it."""

    what: str
    path: Path
    state: State
    before: bytes | None
    """The file as it is; none where there is no file."""
    after: bytes | None
    """The file as it will be; none where it goes."""

    @property
    def is_needed(self) -> bool:
        """Whether carrying it out changes anything."""
        return self.before != self.after


def places_of(environ: Mapping[str, str], user_home: Path, plugin: Path) -> Places:
    """Return where this user's Claude Code looks."""
    set_to = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    home = Path(set_to) if set_to else user_home / ".claude"
    servers = home / ".claude.json" if set_to else user_home / ".claude.json"
    return Places(
        settings=home / "settings.json",
        servers=servers,
        skills=home / "skills",
        commands=home / "commands",
        plugin=plugin,
    )


def plan(
    places: Places, words: Sequence[str], *, removing: bool, statusline: bool
) -> list[Change]:
    """Return what adding or removing comes to, file by file; nothing is written.

    ``words`` start our command. One file may come several times: each change goes on
    from the one before it.

    :raises FileUnreadable: if a file is not what it should be.
    """
    edited: dict[Path, bytes | None] = {}
    edits = [*_edits(words, statusline=statusline or removing)]
    changes = [_edited(edit, places, edited, removing=removing) for edit in edits]
    return changes + [
        _copied(source, target, removing=removing) for source, target in _files(places)
    ]


class _Edit(NamedTuple):
    """A member of a JSON file, or an element of a list in it."""

    what: str
    file: str
    path: Sequence[str]
    value: object
    is_element: bool = False


def _edits(words: Sequence[str], *, statusline: bool) -> Iterator[_Edit]:
    server = {"type": "stdio", "command": words[0], "args": [*words[1:], "mcp"]}
    yield _Edit("tools to recall with", "servers", ("mcpServers", _OURS), server)
    shell = " ".join(f'"{word}"' if " " in word else word for word in words)
    hook = {"type": "command", "command": f"{shell} hook || true", "timeout": 10}
    for event in _EVENTS:
        told = f"keeps the archive current ({event})"
        path = ("hooks", event)
        yield _Edit(told, "settings", path, {"hooks": [hook]}, is_element=True)
    if statusline:
        line = {"type": "command", "command": f"{shell} statusline"}
        yield _Edit("a line below the prompt", "settings", ("statusLine",), line)


def _edited(
    edit: _Edit, places: Places, edited: dict[Path, bytes | None], *, removing: bool
) -> Change:
    path: Path = getattr(places, edit.file)
    before = edited[path] if path in edited else _content(path)
    try:
        text = "{}\n" if before is None else before.decode()
        state = _state(text, edit)
        after = _changed(text, edit, state, removing=removing)
    except (Unreadable, UnicodeDecodeError) as error:
        raise FileUnreadable(path, str(error)) from error
    # A file that holds nothing any more was made for us.
    left = None if after == "{}\n" and (removing or before is None) else after.encode()
    edited[path] = left
    return Change(edit.what, path, state, before, left)


def _changed(text: str, edit: _Edit, state: State, *, removing: bool) -> str:
    if removing:
        return remove(text, edit.path, _is_ours)
    if state is not State.MISSING:
        return text
    return (append if edit.is_element else put)(text, edit.path, edit.value)


def _state(text: str, edit: _Edit) -> State:
    found: object = read(text)
    for key in edit.path:
        found = found.get(key) if isinstance(found, dict) else None
    if edit.is_element:
        many = found if isinstance(found, list) else []
        return State.THERE if any(map(_is_ours, many)) else State.MISSING
    if found is None:
        return State.MISSING
    return State.THERE if _is_ours(found) else State.TAKEN


def _is_ours(value: object) -> bool:
    """Whether a server, a group of hooks or a status line is one that we added."""
    match value:
        case {"hooks": [{"command": str(command)}], **rest} if not rest:
            return _OURS in command and command.endswith(" hook || true")
        case {"command": str(command), "args": [*_, "mcp"]}:
            return True
        case {"command": str(command)}:
            return _OURS in command and command.endswith(" statusline")
        case _:
            return False


def _files(places: Places) -> Iterator[tuple[Path, Path]]:
    skills, commands = places.plugin / "skills", places.plugin / "commands"
    for source in sorted(skills.glob("*/SKILL.md")):
        yield source, places.skills / source.relative_to(skills)
    for source in sorted(commands.glob("*.md")):
        yield source, places.commands / _OURS / source.name


def _copied(source: Path, target: Path, *, removing: bool) -> Change:
    wanted, before = source.read_bytes(), _content(target)
    kind = "a skill" if source.name == "SKILL.md" else f"/{_OURS}:{source.stem}"
    if before is None:
        state = State.MISSING
    else:
        state = State.THERE if before == wanted else State.TAKEN
    after = before
    if removing and state is State.THERE:
        after = None
    elif not removing and state is State.MISSING:
        after = wanted
    return Change(kind, target, state, before, after)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileUnreadable(path, (error.strerror or str(error)).lower()) from error


def carry_out(changes: Sequence[Change]) -> list[Change]:
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
        if _content(path) != before:
            raise FileChanged(path)
    for path, after in last.items():
        _gone(path) if after is None else _written(path, after)
    return needed


def _written(path: Path, content: bytes) -> None:
    from bygones.store.connect import sync_folder  # noqa: PLC0415 (hardly ever)

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
    sync_folder(real.parent)


def _gone(path: Path) -> None:
    path.unlink(missing_ok=True)
    # The folder of ours, and that in which such folders lie: an empty one says nothing.
    for folder in (path.parent, path.parent.parent):
        is_ours = folder.name in {_OURS, "recall", "skills", "commands"}
        if is_ours and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
