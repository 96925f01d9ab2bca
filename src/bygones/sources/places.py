"""What the place of a file says about it: the map of Claude's folders.

Pure functions on names; nothing here touches a disk. A *place* is a folder's role. A
walk starts in one, :func:`descend` gives the place of each folder below, and
:func:`classify` says which files of a place are sources. Only what is named here is
ever read: credentials, settings and keys are not, and so stay closed.
"""

from __future__ import annotations

import re
from collections.abc import Container
from collections.abc import Set as AbstractSet
from enum import Enum

from msgspec import Struct

from bygones.model.ids import AgentId, ProjectKey, SessionId
from bygones.model.sources import SourceKind

__all__ = [
    "BESIDE",
    "COPY",
    "HOME_FOLDERS",
    "HOME_HISTORY",
    "HOME_SIGNS",
    "LOOSE",
    "Place",
    "Role",
    "Shelf",
    "classify",
    "descend",
    "is_home",
    "is_private",
    "settle",
]


class Shelf(Enum):
    """The role of a folder."""

    LOOSE = "any folder: transcripts at any depth, also a project's own folder"
    HOME = "a home: only the folders named here are looked at"
    PROJECTS = "the folder whose folders are projects"
    SESSION = "the folder named after a session"
    AGENTS = "below subagents"
    OPAQUE = "every file is of the kind that the place names"


class Place(Struct, frozen=True, gc=False):
    """A folder's shelf, and what its path says about the files in it."""

    shelf: Shelf
    project: ProjectKey | None = None
    session: SessionId | None = None
    kind: SourceKind | None = None


class Role(Struct, frozen=True, gc=False):
    """What a file is by its name and place."""

    kind: SourceKind
    session: SessionId | None = None
    agent: AgentId | None = None


LOOSE = Place(Shelf.LOOSE)

HOME_SIGNS = frozenset(
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
"""Names of which a home has several and any other folder hardly two."""

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_AGENT_ID = re.compile(r"[A-Za-z0-9_-]+")
_TODO = re.compile(rf"({_UUID.pattern})-agent-([A-Za-z0-9_-]+)\.json")
_PRIVATE = re.compile(r"\.credentials.*|settings.*\.json|\.claude\.json.*|.*\.key")
_OPAQUE_IN_HOME = {
    "file-history": SourceKind.BACKUP,
    "plans": SourceKind.PLAN,
    "tasks": SourceKind.TASK,
    "todos": SourceKind.TODO,
}
_OPAQUE_IN_SESSION = {
    "tool-results": SourceKind.TOOL_RESULT,
    "workflows": SourceKind.WORKFLOW,
}
HOME_FOLDERS = frozenset({"projects", *_OPAQUE_IN_HOME})
HOME_HISTORY = "history.jsonl"
_SIDECARS = frozenset({"custom-title.json", "sessions-index.json"})
BESIDE = ".bygones-"
"""Begins the names of files that we write and then move into their places."""
COPY = ".before-restore"
"""What is behind the name of a file that gave way to one that was restored."""
_NOISE = (".DS_Store", "._", BESIDE)
"""What macOS leaves beside files when a tree is copied, and what we do."""
_COPIED = re.compile(rf".+{re.escape(COPY)}(?:-\d+)?")


def is_home(name: str, names: AbstractSet[str]) -> bool:
    """Whether a folder with this name and these names in it is a home.

    One sign is not enough: people have folders called ``projects`` of their own, and
    repositories have a ``.claude`` that is no home.
    """
    return len(names & HOME_SIGNS) + (name == ".claude") > 1 and (
        "projects" in names or name == ".claude"
    )


def is_private(name: str) -> bool:
    """Whether a file of this name may hold secrets and must stay closed."""
    return _PRIVATE.fullmatch(name) is not None


def settle(place: Place, name: str, names: AbstractSet[str]) -> Place:
    """Return the place of a folder once the names in it are known."""
    if place.shelf is Shelf.LOOSE and is_home(name, names):
        return Place(Shelf.HOME)
    return place


def descend(place: Place, name: str, beside: Container[str] = ()) -> Place | None:
    """Return the place of the folder ``name`` in ``place``; ``None``: not looked at.

    ``beside`` holds the other names in the folder: ``x/`` beside ``x.jsonl`` is the
    folder of that session even if ``x`` is no session id.
    """
    match place.shelf:
        case Shelf.HOME:
            return _in_home(name)
        case Shelf.PROJECTS:
            return Place(Shelf.LOOSE, ProjectKey(name))
        case Shelf.OPAQUE:
            return _in_opaque(place, name)
        case Shelf.AGENTS:
            return place
        case Shelf.LOOSE | Shelf.SESSION:
            return _in_loose(place, name, beside)


def classify(place: Place, name: str) -> Role | None:
    """Return what the file ``name`` in ``place`` is; ``None``: not a source."""
    if name.startswith(_NOISE) or (COPY in name and _COPIED.fullmatch(name)):
        return None
    if place.shelf is Shelf.OPAQUE:
        return _opaque(place, name)
    if place.shelf is Shelf.HOME:
        return Role(SourceKind.HISTORY) if name == HOME_HISTORY else None
    if name.endswith(".jsonl"):
        return _transcript(place, name[: -len(".jsonl")])
    return _sidecar(place, name)


def _in_home(name: str) -> Place | None:
    if name == "projects":
        return Place(Shelf.PROJECTS)
    kind = _OPAQUE_IN_HOME.get(name)
    return Place(Shelf.OPAQUE, kind=kind) if kind else None


def _in_opaque(place: Place, name: str) -> Place:
    of_session = place.kind is SourceKind.BACKUP or (
        # A task list belongs to a session or to a team, whose name is no id.
        place.kind is SourceKind.TASK and _UUID.fullmatch(name)
    )
    if of_session and place.session is None:
        return Place(place.shelf, session=SessionId(name), kind=place.kind)
    return place


def _in_loose(place: Place, name: str, beside: Container[str]) -> Place:
    if name == "subagents":
        return Place(Shelf.AGENTS, place.project, place.session)
    if place.shelf is Shelf.SESSION and (kind := _OPAQUE_IN_SESSION.get(name)):
        return Place(Shelf.OPAQUE, place.project, place.session, kind)
    if name == "projects":
        return Place(Shelf.PROJECTS)
    if _UUID.fullmatch(name) or f"{name}.jsonl" in beside:
        return Place(Shelf.SESSION, place.project, SessionId(name))
    return place


def _opaque(place: Place, name: str) -> Role | None:
    match place.kind:
        case SourceKind.TODO:
            return _todo(name)
        case SourceKind.PLAN:
            return Role(SourceKind.PLAN) if name.endswith(".md") else None
        case SourceKind.TASK if name.startswith(".") or name.endswith("lock"):
            return None
        case None:
            return None
        case kind:
            return Role(kind, place.session)


def _todo(name: str) -> Role | None:
    if match := _TODO.fullmatch(name):
        return Role(SourceKind.TODO, SessionId(match[1]), AgentId(match[2]))
    return Role(SourceKind.TODO) if name.endswith(".json") else None


def _transcript(place: Place, stem: str) -> Role:
    if stem.startswith("agent-"):
        return Role(SourceKind.AGENT, place.session, _agent_id(stem))
    if place.shelf is Shelf.AGENTS:
        kind = SourceKind.JOURNAL if stem == "journal" else SourceKind.AGENT
        return Role(kind, place.session)
    return Role(SourceKind.SESSION, SessionId(stem) if stem else None)


def _sidecar(place: Place, name: str) -> Role | None:
    if name.endswith(".meta.json"):
        agent = _agent_id(name.removesuffix(".meta.json"))
        return Role(SourceKind.SIDECAR, place.session, agent)
    if name.endswith(".jsonl.backup"):
        session = SessionId(name.removesuffix(".jsonl.backup"))
        return Role(SourceKind.SIDECAR, session)
    return Role(SourceKind.SIDECAR, place.session) if name in _SIDECARS else None


def _agent_id(stem: str) -> AgentId | None:
    name = stem.removeprefix("agent-")
    is_agent = name != stem and _AGENT_ID.fullmatch(name)
    return AgentId(name) if is_agent else None
