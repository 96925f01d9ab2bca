"""What git knows about a file in a working tree.

Only programs of git itself run, and filters that the user has configured for all
repositories. Whatever a repository configures is switched off: hooks, filters,
textconv, file system monitors. Nothing is fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from msgspec import Struct

_TIMEOUT = 30.0
_UNCOMMITTED = "0" * 40
_MAX_COMMITS = 20
_MAX_NOTES = 100
_MAX_FOLLOWED = 200
"""Commits of a file in which renames are looked for."""
_SAFE_CONFIG = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "diff.external": "",
    "log.showSignature": "false",
    # A folder in a checked-out tree may look like a repository.
    "safe.bareRepository": "explicit",
    # Files that git reads completely, whatever they are: pipes, /dev/zero.
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "diff.orderFile": os.devnull,
    "mailmap.blob": "",
    "mailmap.file": "",
}
_SAFE_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    # An incomplete clone is not completed: its configuration says how to fetch, which
    # may be any program. The second works with versions of git before 2.45.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_MAX_LIST_BYTES = 16 * 1024 * 1024
"""Of a list of commits that blame ignores."""
_USER_SCOPES = frozenset({b"system", b"global"})


_HUNK = re.compile(r"@@ -\S+ \+(\d+)\S* @@")


class GitCommit(Struct, frozen=True, kw_only=True):
    """A commit, as blame and log show it."""

    sha: str
    author: str = ""
    committed_at: datetime | None = None
    """When it was made in its present form; later than its author date after a rebase."""
    summary: str = ""

    @property
    def is_uncommitted(self) -> bool:
        """Whether it means changes of the working tree."""
        return self.sha == _UNCOMMITTED


class GitLine(Struct, frozen=True):
    """The commit that git names for a line, and the path that the file had then."""

    commit: GitCommit
    path: str
    number: int = 0
    """The number of the line in that commit, counted from 1."""


class GitRepository:
    """The repository around a file or folder."""

    def __init__(self, root: Path, program: str) -> None:
        self.root = root
        self._program = program

    def run(self, *arguments: str) -> bytes | None:
        """Return the output of a git command; none if it fails."""
        return self._run(*arguments, config=_SAFE_CONFIG | self._user_filters)

    def _configured(self, pattern: str) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield scope, name and value of settings."""
        output = self._run(
            *("config", "-z", "--show-scope", "--get-regexp", pattern),
            config=_SAFE_CONFIG,
        )
        fields = (output or b"").split(b"\0")
        for scope, entry in zip(fields[::2], fields[1::2], strict=False):
            name, _, value = entry.partition(b"\n")
            yield scope, name, value

    @cached_property
    def _user_filters(self) -> dict[str, str]:
        """Settings that replace the filters of the repository by those of the user.

        Git runs them when it reads or writes files of a working tree.
        """
        trusted: dict[bytes, bytes] = {}
        untrusted: set[bytes] = set()
        for scope, name, value in self._configured(r"^filter\."):
            if scope in _USER_SCOPES:
                trusted[name] = value
            else:
                untrusted.add(name)
        return {
            os.fsdecode(name): os.fsdecode(
                trusted.get(name, b"false" if name.endswith(b".required") else b"")
            )
            for name in untrusted
        }

    def _run(self, *arguments: str, config: Mapping[str, str]) -> bytes | None:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        environ |= _SAFE_ENVIRONMENT
        environ["GIT_CONFIG_COUNT"] = str(len(config))
        for number, (name, value) in enumerate(config.items()):
            environ[f"GIT_CONFIG_KEY_{number}"] = name
            environ[f"GIT_CONFIG_VALUE_{number}"] = value
        try:
            process = subprocess.run(  # noqa: S603 (git, with fixed options)
                [self._program, "--no-pager", *arguments],
                cwd=self.root,
                env=environ,
                capture_output=True,
                check=False,
                timeout=_TIMEOUT,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return process.stdout if process.returncode == 0 else None

    def blame(self, path: Path) -> list[GitLine]:
        """Return the commit of each line of a file; empty if git does not know it.

        Changes of white space are ignored, and lines that came from other files in the
        same commit are followed.
        """
        ignored = self._configured(r"^blame\.ignorerevsfile$")
        if not all(self._is_short_file(value) for _, _, value in ignored):
            return []  # the setting cannot be overridden
        output = self.run(
            *("blame", "-w", "-C", "--no-textconv", "--porcelain", "--"),
            str(path),
        )
        return list(_parse_blame(output or b""))

    def _is_short_file(self, name: bytes) -> bool:
        path = self.root / Path(os.fsdecode(name)).expanduser()
        try:
            status = path.stat()
        except OSError:
            return True  # git reports it
        return stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_LIST_BYTES

    def former_paths(self, path: Path) -> list[str]:
        """Return the paths that a file had, newest first."""
        output = self.run(
            *("log", "--follow", "--format=", "--name-only", "-z"),
            *(f"-n{_MAX_FOLLOWED}", "--", str(path)),
        )
        names = (output or b"").decode("utf-8", "surrogateescape").split("\0")
        return list(dict.fromkeys(name.strip("\n") for name in names if name.strip()))

    def notes(self, ref: str, commits: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the notes of commits under a ref, each after its commit."""
        listed = (self.run("notes", f"--ref={ref}", "list") or b"").decode("ascii")
        rows = (line.split() for line in listed.splitlines())
        found = [(row[1], row[0]) for row in rows if row[1:] and row[1] in commits]
        for commit, note in found[:_MAX_NOTES]:
            raw = self.run("cat-file", "blob", note)
            if raw is not None:
                yield commit, raw

    def resolve_commit(self, name: str) -> str | None:
        """Return the hash of a commit by any of its names."""
        if name.startswith("-"):
            return None
        output = self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return output.decode("ascii", "replace").strip() if output else None

    def show_file(self, commit: str, path: str) -> bytes | None:
        """Return a file of a commit by its path in the repository."""
        return self.run("cat-file", "blob", f"{commit}:{path}")

    def file_versions(self, path: Path, until: datetime | None) -> Iterator[bytes]:
        """Yield the committed contents of a file, those before a time first.

        Commits may have been rebased since, so later ones come as well, nearest first.
        """
        output = self.run(
            *("log", "--format=%H %ct", f"-n{_MAX_COMMITS}", "--all", "--"), str(path)
        )
        rows = [line.split() for line in (output or b"").decode("ascii").splitlines()]
        limit = until.timestamp() if until else 0.0
        times = [(float(time), sha) for sha, time in rows]
        earlier = sorted((row for row in times if row[0] <= limit), reverse=True)
        later = sorted(row for row in times if row[0] > limit)
        inside = os.path.relpath(path, self.root).replace(os.sep, "/")
        for _, sha in (*earlier, *later):
            raw = self.show_file(sha, inside)
            if raw is not None:
                yield raw

    def commit(self, sha: str) -> GitCommit | None:
        """Return what a commit is about."""
        output = self.run("show", "-s", "--format=%H%x00%an%x00%ct%x00%s", sha, "--")
        if not output:
            return None
        found, author, time, summary = (
            output.decode("utf-8", "replace").rstrip("\n").split("\0")[:4]
        )
        return GitCommit(
            sha=found,
            author=author,
            committed_at=datetime.fromtimestamp(int(time), UTC),
            summary=summary,
        )

    def added_lines(self, sha: str) -> dict[str, list[tuple[int, str]]]:
        """Return the lines that a commit added with their numbers, by path."""
        output = self.run(
            *("show", "--no-ext-diff", "--no-textconv", "--no-color", "-U0"),
            *(
                "--submodule=short",
                "--format=",
                "-M",
                "--src-prefix=a/",
                "--dst-prefix=b/",
                sha,
                "--",
            ),
        )
        added: dict[str, list[tuple[int, str]]] = {}
        lines: list[tuple[int, str]] | None = None
        in_header = False
        number = 0
        for line in (output or b"").decode("utf-8", "replace").split("\n"):
            if line.startswith("diff --git "):
                lines, in_header = None, True
            elif in_header and line.startswith("+++ "):
                path = _unquote(line[4:].rstrip("\t"))
                if path.startswith("b/"):
                    lines = added.setdefault(path[2:], [])
            elif hunk := _HUNK.match(line):
                in_header = False
                number = int(hunk[1])
            elif not in_header and line.startswith("+") and lines is not None:
                lines.append((number, line[1:].removesuffix("\r")))
                number += 1
        return added

    @cached_property
    def head(self) -> str | None:
        """The hash of the current commit."""
        return self.resolve_commit("HEAD")


def _unquote(path: str) -> str:
    """Return a path that git may have quoted as in C."""
    if not path.startswith('"'):
        return path
    raw = path[1:-1].encode("latin-1", "replace").decode("unicode_escape")
    return raw.encode("latin-1", "replace").decode("utf-8", "replace")


def find_repository(path: Path) -> GitRepository | None:
    """Return the repository that contains a file or folder, if git is installed."""
    program = shutil.which("git")
    folder = path if path.is_dir() else path.parent
    if program is None or not folder.is_dir():
        return None
    output = GitRepository(folder, program).run("rev-parse", "--show-toplevel")
    if not output:
        return None
    root = Path(output.decode("utf-8", "surrogateescape").rstrip("\n"))
    return GitRepository(root, program) if root.is_dir() else None


def _parse_blame(output: bytes) -> Iterator[GitLine]:
    commits: dict[str, GitCommit] = {}
    paths: dict[str, str] = {}
    fields: dict[str, str] = {}
    sha, number = "", 0
    for line in output.decode("utf-8", "replace").split("\n"):
        if line.startswith("\t"):
            if sha not in commits:
                time = fields.get("committer-time", "")
                commits[sha] = GitCommit(
                    sha=sha,
                    author=fields.get("author", ""),
                    committed_at=datetime.fromtimestamp(int(time), UTC)
                    if time.isdecimal()
                    else None,
                    summary=fields.get("summary", ""),
                )
            paths[sha] = fields.get("filename", paths.get(sha, ""))
            yield GitLine(commits[sha], _unquote(paths[sha]), number)
            sha, fields = "", {}
        elif not sha:
            sha, _, rest = line.partition(" ")
            first = rest.partition(" ")[0]
            number = int(first) if first.isdecimal() else 0
        else:
            name, _, value = line.partition(" ")
            fields[name] = value
