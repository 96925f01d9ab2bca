"""Which directories are one project: clones, worktrees and former names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from bygones.model.summary import SessionSummary

_WORKTREE = re.compile(r"(.+)/\.claude/worktrees/[^/]+(/.*)?", re.DOTALL)
"""The directory of a worktree that Claude Code made, which is often deleted soon."""
_MAX_MOVES = 20


class RepositoryFacts(Struct, frozen=True, omit_defaults=True):
    """What git knew about a directory when it was last seen."""

    repository: str = ""
    """A name that all clones share, such as `github.com/ann/shop`; "" without git."""
    path: str = ""
    """The directory in the working tree; "" for its top."""
    is_worktree: bool = False


class ProjectDirectories:
    """Finds all directories of a project.

    Clones and worktrees of a repository are one project, and so are the names of a
    directory that was moved. A directory in a repository is a project of its own.
    """

    def __init__(
        self,
        facts: Mapping[str, RepositoryFacts] | None = None,
        moves: Mapping[str, str] | None = None,
    ) -> None:
        self._facts = facts or {}
        self._moves = moves or {}
        self._groups: dict[tuple[str, str], list[str]] = {}
        for directory, known in self._facts.items():
            if known.repository:
                key = (known.repository, known.path)
                self._groups.setdefault(key, []).append(directory)
        self._known: dict[str, tuple[str, ...]] = {}

    def paths(self, directory: str) -> tuple[str, ...]:
        """Return the directories of a project, the main one first."""
        found = self._known.get(directory)
        if found is None:
            found = self._known[directory] = tuple(self._find_paths(directory))
        return found

    def main_path(self, directory: str) -> str:
        """Return the directory that stands for its project."""
        return self.paths(directory)[0]

    def repository(self, directory: str) -> str | None:
        """Return the repository of a directory, if it is known."""
        known = self._facts.get(self._resolve(directory))
        return known.repository or None if known else None

    def facts(self, directory: str) -> RepositoryFacts | None:
        """Return what git knew about a directory, which may have been moved since."""
        resolved = self._resolve(directory)
        known = self._facts.get(resolved)
        if known is None or resolved == directory:
            return known
        is_worktree = _WORKTREE.fullmatch(directory) is not None
        return structs.replace(known, is_worktree=known.is_worktree or is_worktree)

    def find(self, facts: RepositoryFacts) -> list[str]:
        """Return the known directories with the same repository and path."""
        found = self._groups.get((facts.repository, facts.path), [])
        return sorted(found, key=self._order)

    def apply(self, summary: SessionSummary) -> SessionSummary:
        """Return a summary with all directories of its project."""
        if summary.project is None:
            return summary
        paths = self.paths(summary.project)
        if paths == (summary.project,):
            return summary
        return structs.replace(summary, project_paths=paths)

    def _find_paths(self, directory: str) -> Iterator[str]:
        current = self._resolve(directory)
        known = self._facts.get(current)
        members = [current]
        if known is not None and known.repository:
            members = self.find(known)
        # What was resolved may have facts of its own, but its place is clear.
        found = dict.fromkeys(map(self._resolve, members))
        for path in list(found):
            found |= dict.fromkeys(self._former_names(path))
        yield from found | dict.fromkeys((*members, directory))

    def _order(self, directory: str) -> tuple[bool, int, str]:
        is_worktree = self._facts[directory].is_worktree
        return is_worktree, len(directory), directory

    def _resolve(self, directory: str) -> str:
        """Return the present name of a directory, outside of worktrees."""
        for _ in range(_MAX_MOVES):
            moved = next(
                (
                    there
                    for old, new in self._moves.items()
                    if (there := _move(directory, old, new)) is not None
                ),
                None,
            )
            if moved is None:
                break
            directory = moved
        match = _WORKTREE.fullmatch(directory)
        return f"{match[1]}{match[2] or ''}" if match else directory

    def _former_names(self, directory: str) -> Iterator[str]:
        waiting = [directory]
        seen = {directory}
        while waiting:
            current = waiting.pop()
            for old, new in self._moves.items():
                former = _move(current, new, old)
                if former is not None and former not in seen:
                    seen.add(former)
                    waiting.append(former)
                    yield former


def _move(path: str, old: str, new: str) -> str | None:
    """Return a path after its folder was renamed; none if it is somewhere else."""
    if path == old:
        return new
    return new + path[len(old) :] if path.startswith(f"{old}/") else None
