"""What a session worked on: the directory that its records name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bygones.errors import Ambiguous, NotArchived
from bygones.model.ids import ProjectKey, SessionId
from bygones.model.listing import Listed
from bygones.model.nodes import Node, PlaceFacts
from bygones.model.sessions import Project, Session

__all__ = ["project_named", "project_of", "projects_of"]

_TOLD = 5
"""Names that an error mentions."""

_DRIVE = re.compile(r"^[a-z]:(?=[\\/])")
_WORKTREE = re.compile(r"[\\/]\.claude[\\/]worktrees[\\/].*$")


def project_of(nodes: Sequence[Node]) -> str | None:
    """Return the directory in which a session began.

    A worktree counts as the repository that it was made from. Folder names are not
    decoded: two directories may share one.
    """
    for node in nodes:
        if node.kind == "worktree-state" and isinstance(node.extra, PlaceFacts):
            return _same_case(node.extra.path)
    first = next((node.cwd for node in nodes if node.cwd), None)
    return _same_case(_WORKTREE.sub("", first)) if first else None


def _same_case(path: str) -> str:
    """Return a Windows path with the drive's letter as the command line writes it."""
    return _DRIVE.sub(lambda drive: drive[0].upper(), path)


def projects_of(sessions: Iterable[Session | Listed]) -> tuple[Project, ...]:
    """Return projects by path; two paths that share a key are two projects."""
    found: dict[str | None, _Gathered] = {}
    for session in sessions:
        key = session.project or (f"?{session.keys[0]}" if session.keys else None)
        if key not in found:
            found[key] = _Gathered(session.project)
        found[key].add(session)
    projects = [some.project for some in found.values()]
    return tuple(sorted(projects, key=lambda p: (p.path or "", p.keys)))


class _Gathered:
    """What is known of a project so far; its sessions may be very many."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._keys: dict[ProjectKey, None] = {}
        self._sessions: list[SessionId] = []
        self._size = 0

    def add(self, session: Session | Listed) -> None:
        self._keys.update(dict.fromkeys(session.keys))
        self._sessions.append(session.id)
        self._size += _size(session)

    @property
    def project(self) -> Project:
        return Project(
            path=self._path,
            keys=tuple(self._keys),
            sessions=tuple(self._sessions),
            size=self._size,
        )


def _size(session: Session | Listed) -> int:
    if isinstance(session, Listed):
        return session.size
    return sum(source.size for source in session.sources)


def project_named(known: Sequence[Project], name: str) -> Project:
    """Return a project by its path, its key or the last part of its path."""
    for fits in (
        [p for p in known if p.path is not None and p.path == name],
        [p for p in known if name in p.keys and p.path is not None],
        [p for p in known if name in p.keys],
        [p for p in known if p.name == name],
    ):
        if len(fits) > 1:
            raise Ambiguous("project", name, [p.path or p.name for p in fits])
        if fits:
            return fits[0]
    from difflib import get_close_matches  # noqa: PLC0415 (only for an error)

    names = {one: p.path or p.name for p in known for one in (p.path, p.name) if one}
    close = get_close_matches(name, names, n=_TOLD)
    # Who remembers a part of a name means what has it.
    close += [one for one in names if name and name.casefold() in one.casefold()]
    told = list(dict.fromkeys(names[one] for one in close))[:_TOLD]
    raise NotArchived("project", name, told)
