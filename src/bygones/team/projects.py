"""Which directories of a team are one project: clones and worktrees of a repository."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from bygones.model.projects import ProjectDirectories
from bygones.model.summary import ProjectIdentity, SessionSummary
from bygones.store.derived_tables import decode_summary
from bygones.team.contract import ScopedDatabase

_decode_identity = msgspec.json.Decoder(ProjectIdentity).decode
_NOTHING = ProjectIdentity()
_WITHOUT_GIT = ProjectDirectories()
"""Knows worktrees of Claude Code by their paths."""
_Key = tuple[str, str]
"""The key of a repository, and the directory in it."""


class TeamProjects:
    """Finds all directories of a project among the sessions that a scope may see.

    Two people may use the same path for different repositories. Sessions are grouped by
    what their own client said about them, never by what is known about their path.
    """

    def __init__(self, database: ScopedDatabase) -> None:
        self._database = database
        self._paths: dict[_Key, tuple[str, ...]] | None = None

    def mark_stale(self) -> None:
        """Load again before the next use: sessions or permissions have changed."""
        self._paths = None

    def decode(self, encoded: bytes) -> SessionSummary:
        """Return a stored summary with all directories of its project."""
        return self.apply(decode_summary(encoded))

    def apply(self, summary: SessionSummary) -> SessionSummary:
        """Return a summary with all directories of its project."""
        paths = self.paths(summary.project, summary.identity)
        if paths in {(), (summary.project,)}:
            return summary
        return replace(summary, project_paths=paths)

    def main_path(
        self, directory: str | None, identity: ProjectIdentity | None
    ) -> str | None:
        """Return the directory that stands for its project."""
        return next(iter(self.paths(directory, identity)), directory)

    def paths(
        self, directory: str | None, identity: ProjectIdentity | None
    ) -> tuple[str, ...]:
        """Return the directories of a project, the main one first."""
        if directory is None:
            return ()
        if identity is None or not identity.key:
            return _WITHOUT_GIT.paths(directory)
        if self._paths is None:
            self._paths = _group_directories(self._load())
        known = self._paths.get((identity.key, identity.path), ())
        return tuple(dict.fromkeys((*known, directory)))

    def _load(self) -> Iterator[ProjectIdentity]:
        rows = self._database.rows(
            "SELECT DISTINCT identity FROM {session} AS s WHERE identity <> ''"
        )
        found = (_decode_identity(row[0]) for row in rows)
        return (identity for identity in found if identity.key)


def encode_identity(identity: ProjectIdentity | None) -> str:
    """Return an identity as a column has it; empty if nothing is known."""
    is_known = identity is not None and identity != _NOTHING
    return msgspec.json.encode(identity).decode() if is_known else ""


def decode_identity(column: str) -> ProjectIdentity | None:
    """Return the identity in a row of a session, if it has one."""
    return _decode_identity(column) if column else None


def _group_directories(
    identities: Iterable[ProjectIdentity],
) -> dict[_Key, tuple[str, ...]]:
    groups: dict[_Key, dict[str, ProjectIdentity]] = {}
    for one in identities:
        groups.setdefault((one.key, one.path), {})[one.directory] = one
    ordered = {
        key: sorted(members, key=_sort_key(members)) for key, members in groups.items()
    }
    claims: dict[str, int] = {}
    for paths in ordered.values():
        claims[paths[0]] = claims.get(paths[0], 0) + 1
    return {
        key: _distinguish(groups[key], paths, is_shared=claims[paths[0]] > 1)
        for key, paths in ordered.items()
    }


def _sort_key(
    members: dict[str, ProjectIdentity],
) -> Callable[[str], tuple[bool, int, str]]:
    return lambda path: (members[path].is_worktree, len(path), path)


def _distinguish(
    members: dict[str, ProjectIdentity], paths: list[str], *, is_shared: bool
) -> tuple[str, ...]:
    """Return the directories; first a repository whose path others have, too."""
    if not is_shared:
        return tuple(paths)
    names = sorted(
        f"{one.name}/{one.path}".rstrip("/") for one in members.values() if one.name
    )
    return (*names[:1], *paths)
