"""Which directories are one project: clones, worktrees and former names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain

from msgspec import Struct, structs

from bygones.model.path_case import ignores_case
from bygones.model.summary import SessionSummary

_WORKTREE = re.compile(r"(.+)/\.claude/worktrees/[^/]+(/.*)?", re.DOTALL)
"""The directory of a worktree that Claude Code made, which is often deleted soon."""
_MAX_MOVES = 20
_COMMIT_DIGITS = 7
"""How much of a hash git prints at least."""
_LOCAL = "file:"
_URL_ADDRESS = re.compile(
    r"[\w+.-]+://(?:[^/?#]*@)?([\w.-]+|\[[\w.:%]+\])(?::\d*)?/([^?#]+)"
)
_SCP_ADDRESS = re.compile(r"(?:[^@/:]+@)?([^@/:]{2,}):(?!//)/?(.+)")
_PULL_REQUEST = re.compile(r"/(?:pull|-/merge_requests|pull-requests|pulls)/\d+.*")


class ClueKind(StrEnum):
    """What a clue says about its directory."""

    REMOTE = "remote"
    """It is in a clone of the named repository."""
    ROOT_COMMIT = "root-commit"
    """Its repository starts with this commit."""
    WORKTREE = "worktree"
    """It is a worktree of the named directory."""


class RepositoryClue(Struct, frozen=True):
    """Something that a session's records say about the repository of a directory."""

    directory: str
    """"" if the record names none: that of the session's project."""
    kind: ClueKind
    value: str

    @property
    def row(self) -> tuple[str, str, str]:
        """What stores keep of it."""
        return self.directory, self.kind, self.value


class RepositoryFacts(Struct, frozen=True, omit_defaults=True):
    """What git knew about a directory when it was last seen."""

    repository: str = ""
    """A name that all clones share, such as `github.com/ann/shop`; "" without git."""
    path: str = ""
    """The directory in the working tree; "" for its top."""
    is_worktree: bool = False
    root_commit: str = ""
    """The first commit, if this repository was created here."""


class InferredRepositories(Struct, frozen=True):
    """What the records of all sessions say about the repositories of directories."""

    facts: Mapping[str, RepositoryFacts] = {}
    aliases: Mapping[str, str] = {}
    """Names of the same repository, such as that of a fork and of its origin."""
    worktrees: Mapping[str, str] = {}
    """The directory that each worktree was made from."""
    spellings: Mapping[str, str] = {}
    """The main spelling of each directory that is written in several ways."""


def find_spellings(directories: Iterable[str]) -> dict[str, str]:
    """Return the main spelling of directories that differ in case only.

    At least one of them must be of a system that ignores case: then ``/users/ann/shop``
    is what was typed for ``/Users/ann/shop``.
    """
    groups: dict[str, list[str]] = {}
    for directory in directories:
        groups.setdefault(directory.lower(), []).append(directory)
    return {
        other: main
        for group in groups.values()
        if len(group) > 1 and any(map(ignores_case, group))
        for main, *others in [sorted(group, key=_spelling_order)]
        for other in others
    }


def _spelling_order(path: str) -> tuple[bool, str]:
    return not ignores_case(path), path


def infer_repositories(
    clues: Iterable[RepositoryClue], projects: Collection[str]
) -> InferredRepositories:
    """Return the repositories of directories, from what records say about them.

    ``projects`` are the directories of sessions. A remote counts only if its name is
    also in the path: the command may have been run for another directory.
    """
    roots: dict[str, dict[str, None]] = {}
    commits: dict[str, str] = {}
    worktrees: dict[str, str] = {}
    for clue in clues:
        match clue.kind:
            case ClueKind.REMOTE:
                root = _find_root(clue.directory, clue.value)
                if root is not None:
                    roots.setdefault(root, {})[clue.value] = None
            case ClueKind.ROOT_COMMIT:
                commits.setdefault(_leave_worktree(clue.directory), clue.value)
            case ClueKind.WORKTREE if clue.directory != clue.value:
                worktrees[clue.directory] = clue.value
            case _:
                pass
    aliases = _join_names(roots.values())
    facts: dict[str, RepositoryFacts] = {}
    for project in projects:
        path = _leave_worktree(project)
        for root in _parents(path):
            names, commit = roots.get(root), commits.get(root, "")
            if names or commit:
                name = aliases[next(iter(names))] if names else ""
                inside = path[len(root) :].strip("/\\")
                facts[project] = RepositoryFacts(name, inside, root_commit=commit)
                break
    return InferredRepositories(facts, aliases, worktrees, find_spellings(projects))


def _find_root(directory: str, remote: str) -> str | None:
    """Return the part of a path that ends with the name of a repository."""
    name = remote.rpartition("/")[2].casefold()
    for path in _parents(_leave_worktree(directory)):
        last = re.split(r"[/\\]", path)[-1].casefold()
        rest = last.removeprefix(name)
        # A second clone is called `shop-2` or the like.
        if last.startswith(name) and not rest[:1].isalnum():
            return path
    return None


def _parents(path: str) -> Iterator[str]:
    """Yield a path and the directories that it is in."""
    while path.strip("/\\"):
        yield path
        path = path[: max(path.rfind("/"), path.rfind("\\"), 0)]


def _join_names(groups: Iterable[Iterable[str]]) -> dict[str, str]:
    """Return one name for all names that are in the same groups."""
    joined: dict[str, list[str]] = {}
    for group in groups:
        members = sorted({one for name in group for one in joined.get(name, [name])})
        joined |= dict.fromkeys(members, members)
    return {name: members[0] for name, members in joined.items()}


def _leave_worktree(directory: str) -> str:
    """Return the directory that a worktree of Claude Code was made from."""
    match = _WORKTREE.fullmatch(directory)
    return f"{match[1]}{match[2] or ''}" if match else directory


class ProjectDirectories:
    """Finds all directories of a project.

    Clones and worktrees of a repository are one project, and so are the names of a
    directory that was moved. A directory in a repository is a project of its own.
    """

    def __init__(
        self,
        facts: Mapping[str, RepositoryFacts] | None = None,
        moves: Mapping[str, str] | None = None,
        inferred: InferredRepositories | None = None,
    ) -> None:
        inferred = inferred or InferredRepositories()
        known = {path: one for path, one in (facts or {}).items() if one.repository}
        self._facts = {**inferred.facts, **known}
        """What git says counts more than records."""
        self._seen = known.keys()
        moves = moves or {}
        spellings = {
            other: main
            for other, main in inferred.spellings.items()
            if not {other, main} & moves.keys()
        }
        self._moves = {**spellings, **moves}
        """The present names of directories, by former names and other spellings."""
        self._worktrees = {
            worktree: original
            for worktree, original in inferred.worktrees.items()
            if worktree not in known
        }
        self._aliases = inferred.aliases
        self._names_of_roots = _name_root_commits(self._facts.values(), self._aliases)
        self._groups: dict[tuple[str, str], list[str]] = {}
        for directory, one in self._facts.items():
            self._groups.setdefault(self._key(one), []).append(directory)
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

    def facts(self, directory: str) -> RepositoryFacts | None:
        """Return what is known about a directory, which may have been moved since."""
        resolved = self._resolve(directory)
        known = self._facts.get(resolved)
        if known is None:
            return None
        return structs.replace(
            known,
            repository=self._key(known)[0],
            is_worktree=known.is_worktree
            or directory in self._worktrees
            or _WORKTREE.fullmatch(directory) is not None,
        )

    def find(self, facts: RepositoryFacts) -> list[str]:
        """Return the known directories with the same repository and path."""
        return sorted(self._groups.get(self._key(facts), []), key=self._order)

    def _key(self, facts: RepositoryFacts) -> tuple[str, str]:
        """Return a name that all clones share, and the path in the working tree."""
        name = self._aliases.get(facts.repository, facts.repository)
        if not name or name.startswith(_LOCAL):
            commit = facts.root_commit[:_COMMIT_DIGITS]
            name = self._names_of_roots.get(commit or name, name or f"root:{commit}")
        return name, facts.path

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
        if known is not None:
            members = self.find(known)
        # What was resolved may have facts of its own, but its place is clear.
        found = dict.fromkeys(map(self._resolve, members))
        for path in list(found):
            found |= dict.fromkeys(self.former_names(path))
            found |= dict.fromkeys(
                worktree
                for worktree, original in self._worktrees.items()
                if original == path
            )
        yield from found | dict.fromkeys((*members, directory))

    def _order(self, directory: str) -> tuple[bool, bool, int, str]:
        is_worktree = self._facts[directory].is_worktree
        return is_worktree, directory not in self._seen, len(directory), directory

    def _resolve(self, directory: str) -> str:
        """Return the present name of a directory, outside of worktrees."""
        for _ in range(_MAX_MOVES):
            moved = next(
                (
                    there
                    for old, new in chain(self._moves.items(), self._worktrees.items())
                    if (there := _move(directory, old, new)) is not None
                ),
                None,
            )
            if moved is None:
                break
            directory = moved
        return _leave_worktree(directory)

    def former_names(self, directory: str) -> Iterator[str]:
        """Yield what a directory, or a file in it, was called before it was moved."""
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

    def present_name(self, path: str) -> str:
        """Return what a directory, or a file in it, is called after all moves."""
        for _ in range(_MAX_MOVES):
            names = (_move(path, old, new) for old, new in self._moves.items())
            moved = next(filter(None, names), None)
            if moved is None:
                break
            path = moved
        return path


def _move(path: str, old: str, new: str) -> str | None:
    """Return a path after its folder was renamed; none if it is somewhere else."""
    if path == old:
        return new
    is_below = path.startswith((f"{old}/", f"{old}\\"))
    return new + path[len(old) :] if is_below else None


def _name_root_commits(
    facts: Iterable[RepositoryFacts], aliases: Mapping[str, str]
) -> dict[str, str]:
    """Return the repository of each first commit, and of each local repository.

    Copies of a repository with different remotes remain different repositories.
    """
    names: dict[str, dict[str, None]] = {}
    for one in facts:
        if one.root_commit:
            found = names.setdefault(one.root_commit[:_COMMIT_DIGITS], {})
            if one.repository:
                found[aliases.get(one.repository, one.repository)] = None
    named: dict[str, str] = {}
    for commit, found in names.items():
        remotes = [name for name in found if not name.startswith(_LOCAL)]
        if len(remotes) <= 1:
            own = remotes[0] if remotes else f"root:{commit}"
            named |= dict.fromkeys((commit, *found), own)
    return named


def name_remote(url: str) -> str:
    """Return host and path of an address, without user, password and suffix.

    The name is the same for all ways to reach a repository; "" for a local path.
    """
    if url.startswith("file:"):
        return ""
    match = _URL_ADDRESS.match(url) or _SCP_ADDRESS.fullmatch(url)
    name = match[2].strip("/").removesuffix(".git").strip("/") if match else ""
    return f"{match[1].lower()}/{name}" if match and name else ""


def name_pull_request(url: str) -> str:
    """Return the name of the repository that a pull request was made in."""
    address, count = _PULL_REQUEST.subn("", url, count=1)
    return name_remote(address) if count else ""
