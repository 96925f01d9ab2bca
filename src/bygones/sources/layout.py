"""The layout of a Claude Code home: what a file is, by its name and folder.

Pure functions on names, without I/O. `classify_dir` returns the role of a folder from
that of its parent, `classify_file` decides which files in a folder are sources. Only
those are ever read; credentials, settings and keys are not among them.
"""

from __future__ import annotations

import os
import re
import struct
import unicodedata
from collections.abc import Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from pathlib import Path

from msgspec import Struct

from bygones.model.base import UUID_PATTERN, AgentId, ProjectKey, SessionId, SourceKind


class DirKind(Enum):
    ANY = "transcripts at any depth, also the folder of a project"
    HOME = "a home: only known folders are searched"
    PROJECTS = "contains one folder per project"
    SESSION = "belongs to one session"
    AGENTS = "below `subagents`"
    SINGLE_KIND = "contains files of one kind, `DirInfo.source_kind`"


class DirInfo(Struct, frozen=True, gc=False):
    """The role of a folder, and what its path says about the files in it."""

    dir_kind: DirKind
    project_key: ProjectKey | None = None
    session_id: SessionId | None = None
    source_kind: SourceKind | None = None


class FileRole(Struct, frozen=True, gc=False):
    """What a file is, by its name and folder."""

    kind: SourceKind
    session_id: SessionId | None = None
    agent_id: AgentId | None = None


ANY_DIR = DirInfo(DirKind.ANY)

HOME_MARKERS = frozenset(
    {
        ".claude.json",
        ".credentials.json",
        "file-history",
        "history.jsonl",
        "plugins",
        "projects",
        "session-env",
        "sessions",
        "shell-snapshots",
        "statsig",
        "todos",
    }
)
"""A home contains several of these names; other folders hardly two."""

_AGENT_ID = re.compile(r"[A-Za-z0-9_-]+")
_TODO_FILE = re.compile(rf"({UUID_PATTERN.pattern})-agent-([A-Za-z0-9_-]+)\.json")
_SECRET_FILE = re.compile(r"\.credentials.*|settings.*\.json|\.claude\.json.*|.*\.key")
CHECKPOINTS_FOLDER = "bygones-checkpoints"
"""Where the hooks of `integrate claude --checkpoints` write."""
_HOME_SUBDIR_KINDS = {
    CHECKPOINTS_FOLDER: SourceKind.CHECKPOINT,
    "file-history": SourceKind.FILE_HISTORY,
    "plans": SourceKind.PLAN,
    "tasks": SourceKind.TASK,
    "todos": SourceKind.TODO,
}
_SESSION_SUBDIR_KINDS = {
    "tool-results": SourceKind.TOOL_RESULT,
    "workflows": SourceKind.WORKFLOW,
}
_SESSION_SUBDIR = re.compile(r"/(?:subagents|tool-results|workflows|titles)/")
"""Folders of a session; `titles` exists on hubs only."""
HOME_SOURCE_DIRS = frozenset({"projects", *_HOME_SUBDIR_KINDS})
HISTORY_FILE = "history.jsonl"
_SIDECAR_FILES = frozenset({"custom-title.json", "sessions-index.json"})
TEMP_FILE_PREFIX = ".bygones-"
"""Prefix of temporary files that are renamed when they are complete."""
REPLACED_FILE_SUFFIX = ".before-restore"
"""Suffix of a file that a restore replaced."""
_IGNORED_PREFIXES = (".DS_Store", "._", TEMP_FILE_PREFIX)
"""Files that macOS creates when a tree is copied, and our own temporary files."""
_REPLACED_FILE = re.compile(rf".+{re.escape(REPLACED_FILE_SUFFIX)}(?:-\d+)?")


def is_home(name: str, entries: AbstractSet[str]) -> bool:
    """Whether a folder with this name and these entries is a Claude Code home.

    One marker is not enough: users have other folders named `projects`, and repositories
    have a `.claude` folder that is not a home.
    """
    return len(entries & HOME_MARKERS) + (name == ".claude") > 1 and (
        "projects" in entries or name == ".claude"
    )


def session_stem(path: str) -> str:
    """Return what the paths of all files of a session start with.

    That is the path of its transcript without the suffix, whatever the transcript is
    called and however deep in a home it is.
    """
    if inside := _SESSION_SUBDIR.search(path):
        return path[: inside.start()]
    parts = path.split("/")
    if parts[0] == "projects":
        path = "/".join(parts[:3])
    return path.removesuffix(".jsonl")


def is_secret_file(name: str) -> bool:
    """Whether a file of this name may contain secrets and must not be opened."""
    return _SECRET_FILE.fullmatch(name) is not None


def detect_home(directory: DirInfo, name: str, entries: AbstractSet[str]) -> DirInfo:
    """Return the role of a folder, given its entries."""
    if directory.dir_kind is DirKind.ANY and is_home(name, entries):
        return DirInfo(DirKind.HOME)
    return directory


def classify_dir(
    parent: DirInfo, name: str, siblings: Container[str] = ()
) -> DirInfo | None:
    """Return the role of the folder `name` in `parent`; `None` if it is ignored.

    `siblings` are the other names in `parent`: `x/` next to `x.jsonl` is the folder of
    that session even if `x` is not a session id.
    """
    match parent.dir_kind:
        case DirKind.HOME:
            return _home_subdir(name)
        case DirKind.PROJECTS:
            return DirInfo(DirKind.ANY, ProjectKey(name))
        case DirKind.SINGLE_KIND:
            return _single_kind_subdir(parent, name)
        case DirKind.AGENTS:
            return parent
        case DirKind.ANY | DirKind.SESSION:
            return _any_subdir(parent, name, siblings)


def classify_file(directory: DirInfo, name: str) -> FileRole | None:
    """Return what the file `name` in `directory` is; `None` if it is not a source."""
    if name.startswith(_IGNORED_PREFIXES) or (
        REPLACED_FILE_SUFFIX in name and _REPLACED_FILE.fullmatch(name)
    ):
        return None
    if directory.dir_kind is DirKind.SINGLE_KIND:
        return _single_kind_file(directory, name)
    if directory.dir_kind is DirKind.HOME:
        return FileRole(SourceKind.HISTORY) if name == HISTORY_FILE else None
    if name.endswith(".jsonl"):
        return _transcript_file(directory, name[: -len(".jsonl")])
    return _sidecar_file(directory, name)


def _home_subdir(name: str) -> DirInfo | None:
    if name == "projects":
        return DirInfo(DirKind.PROJECTS)
    kind = _HOME_SUBDIR_KINDS.get(name)
    return DirInfo(DirKind.SINGLE_KIND, source_kind=kind) if kind else None


_KINDS_BY_SESSION = frozenset({SourceKind.FILE_HISTORY, SourceKind.CHECKPOINT})
"""Kinds with a folder per session."""


def _single_kind_subdir(parent: DirInfo, name: str) -> DirInfo:
    belongs_to_session = parent.source_kind in _KINDS_BY_SESSION or (
        # Task lists belong to a session or to a team, whose name is not a UUID.
        parent.source_kind is SourceKind.TASK and UUID_PATTERN.fullmatch(name)
    )
    if belongs_to_session and parent.session_id is None:
        return DirInfo(
            parent.dir_kind, session_id=SessionId(name), source_kind=parent.source_kind
        )
    return parent


def _any_subdir(parent: DirInfo, name: str, siblings: Container[str]) -> DirInfo:
    if name == "subagents":
        return DirInfo(DirKind.AGENTS, parent.project_key, parent.session_id)
    if parent.dir_kind is DirKind.SESSION and (kind := _SESSION_SUBDIR_KINDS.get(name)):
        return DirInfo(DirKind.SINGLE_KIND, parent.project_key, parent.session_id, kind)
    if name == "projects":
        return DirInfo(DirKind.PROJECTS)
    if UUID_PATTERN.fullmatch(name) or f"{name}.jsonl" in siblings:
        return DirInfo(DirKind.SESSION, parent.project_key, SessionId(name))
    return parent


def _single_kind_file(directory: DirInfo, name: str) -> FileRole | None:
    match directory.source_kind:
        case SourceKind.TODO:
            return _todo_file(name)
        case SourceKind.PLAN:
            return FileRole(SourceKind.PLAN) if name.endswith(".md") else None
        case SourceKind.TASK if name.startswith(".") or name.endswith("lock"):
            return None
        case None:
            return None
        case kind:
            return FileRole(kind, directory.session_id)


def _todo_file(name: str) -> FileRole | None:
    if match := _TODO_FILE.fullmatch(name):
        return FileRole(SourceKind.TODO, SessionId(match[1]), AgentId(match[2]))
    return FileRole(SourceKind.TODO) if name.endswith(".json") else None


def _transcript_file(directory: DirInfo, stem: str) -> FileRole:
    if stem.startswith("agent-"):
        return FileRole(SourceKind.AGENT, directory.session_id, _agent_id(stem))
    if directory.dir_kind is DirKind.AGENTS:
        kind = SourceKind.JOURNAL if stem == "journal" else SourceKind.AGENT
        return FileRole(kind, directory.session_id)
    return FileRole(SourceKind.SESSION, SessionId(stem) if stem else None)


def _sidecar_file(directory: DirInfo, name: str) -> FileRole | None:
    if name.endswith(".meta.json"):
        agent = _agent_id(name.removesuffix(".meta.json"))
        return FileRole(SourceKind.SIDECAR, directory.session_id, agent)
    if name.endswith(".jsonl.backup"):
        session = SessionId(name.removesuffix(".jsonl.backup"))
        return FileRole(SourceKind.SIDECAR, session)
    return (
        FileRole(SourceKind.SIDECAR, directory.session_id)
        if name in _SIDECAR_FILES
        else None
    )


def _agent_id(stem: str) -> AgentId | None:
    name = stem.removeprefix("agent-")
    is_agent = name != stem and _AGENT_ID.fullmatch(name)
    return AgentId(name) if is_agent else None


def find_homes(environ: Mapping[str, str], user_home: Path) -> tuple[Path, ...]:
    """Return the existing homes, each once, in order of precedence.

    By default these are `~/.claude` and `~/.config/claude`. As in Claude Code,
    `CLAUDE_CONFIG_DIR` replaces them; it may name several folders separated by commas,
    and for a `projects` folder the home is its parent.
    """
    configured = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    if configured:
        candidates = tuple(_homes_from_config(configured, user_home))
    else:
        candidates = (user_home / ".claude", user_home / ".config" / "claude")
    by_real_path: dict[str, Path] = {}
    for path in filter(_is_dir, candidates):
        by_real_path.setdefault(os.path.realpath(path), path)
    return tuple(by_real_path.values())


def resolve_home(path: Path) -> Path:
    """Return the parent if `path` is the `projects` folder of a home, or `path`."""
    parent = path.parent
    if not _is_projects_dir(path):
        return path
    # Imported late: most commands do not need it, and it takes 2 ms.

    markers = {name for name in HOME_MARKERS if os.path.lexists(parent / name)}
    return parent if is_home(parent.name, markers) else path


def symlinked_projects(home: Path) -> tuple[Path, ...]:
    """Return the target of a home's `projects` folder if that is a symbolic link."""
    projects = home / "projects"
    if not os.path.islink(projects) or not _is_dir(projects):  # noqa: PTH114 (no error)
        return ()
    return (Path(os.path.realpath(projects)),)


def _homes_from_config(value: str, user_home: Path) -> Iterator[Path]:
    # A folder name may contain a comma, so try the whole value first.
    for part in (
        (value,) if _is_dir(_normalize_existing(value, user_home)) else value.split(",")
    ):
        if part.strip():
            path = _normalize_existing(part.strip(), user_home)
            yield path.parent if _is_projects_dir(path) else path


def _normalize_existing(text: str, user_home: Path) -> Path:
    """Return the path normalized to NFC, as Claude Code does, unless only `text` exists."""
    composed = _expand_user(unicodedata.normalize("NFC", text), user_home)
    given = _expand_user(text, user_home)
    return given if not _is_dir(composed) and _is_dir(given) else composed


def _expand_user(text: str, user_home: Path) -> Path:
    if text == "~" or text.startswith(("~/", "~\\")):
        return user_home / text[2:]
    return Path(text)


def _is_projects_dir(path: Path) -> bool:
    return path.name == "projects" and not _is_dir(path / "projects")


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


_MAX_KEY_LENGTH = 200
_BASE36_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NON_ALPHANUMERIC = re.compile("[^A-Za-z0-9]")
_LAST_BMP_CHARACTER = "\uffff"


def project_key(path: str) -> ProjectKey:
    """Return the name of the folder in which Claude Code stores a project's sessions.

    `path` must have its symbolic links resolved. Windows paths work on any system.
    Different paths may have the same key, so a key cannot be decoded.
    """
    canonical = unicodedata.normalize("NFC", path)
    key = _NON_ALPHANUMERIC.sub(_to_dashes, canonical)
    if len(key) > _MAX_KEY_LENGTH:
        key = f"{key[:_MAX_KEY_LENGTH]}-{_to_base36(_rolling_hash(canonical))}"
    return ProjectKey(key)


def _to_dashes(match: re.Match[str]) -> str:
    # Claude Code replaces UTF-16 code units: other characters are two of them.
    return "--" if match[0] > _LAST_BMP_CHARACTER else "-"


def _rolling_hash(text: str) -> int:
    """Return the absolute value of `h = (h << 5) - h + unit | 0` in JavaScript."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return min(value, 0x100000000 - value)


def _to_base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE36_DIGITS[digit] + digits
    return digits or "0"
