"""Commands whose system calls fail, one after the other, and full disks.

Runs as a program of its own, with ``failing.c`` preloaded. For every call that a
command makes on its archive, the command runs on a fresh copy with that call failing,
and then again without a failure; or with more space on its disk each time, until that
is enough. Each outcome is printed as a line of JSON.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from bygones.cli.main import main
from bygones.store.archive_dir import ArchiveDir, hash_tables
from tests.faults.mutations import MUTATIONS, patch
from tests.faults.sizes import PART
from tests.store.sandbox import Sandbox

__all__ = ["COMMANDS", "KINDS", "PURGED", "CommandTrial", "Outcome"]

KINDS = {
    "write": (1, errno.ENOSPC),
    "sync": (2, errno.EIO),
    "open": (4, errno.EMFILE),
    "name": (8, errno.EACCES),
}
"""The kinds of calls that can fail, and their error."""

PURGED = "5e551000-0000-4000-8000-000000000001"
COMMANDS: dict[str, tuple[str, ...]] = {
    "ingest": ("ingest", "--home", "HOME"),
    "first": ("ingest", "--home", "HOME"),
    "rebuild": ("rebuild",),
    "verify": ("verify",),
    "backup": ("backup", "BACKUP"),
    "restore": ("restore", "--all", "--to", "TO"),
    "purge": ("purge", "--yes", PURGED),
    "list": ("list", "--no-ingest"),
}
"""The commands; "first" starts without an archive."""
_ENOUGH_SPACE = 256 << 20
_PAGE = 4096

StoredContent = dict[str, bytes]
"""All bytes of an archive, by path and generation."""


class Run(NamedTuple):
    """How a command ended."""

    code: int
    output: str
    calls: int
    """The number of calls on its archive."""
    failed_calls: int
    """How many of them failed, by injection or because the disk was full."""


class Outcome(NamedTuple):
    """The result of a command with a failure, and of the next run without one."""

    at: int
    failed: Run
    again: Run
    wrong: list[str]
    """Data that was lost after the failure, or differs in the final state."""


class CommandTrial:
    """A command with failing calls: a home, an initial archive and a working directory."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.work_dir = folder / "place"
        self.archive = self.work_dir / "archive"
        self._calls = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._count_failed = self._calls.calls_failed

    def arguments(self) -> list[str]:
        """Return the arguments of the command."""
        paths = {
            "HOME": str(self.folder / "home"),
            "BACKUP": str(self.work_dir / "backup"),
            "TO": str(self.work_dir / "to"),
        }
        first, *rest = COMMANDS[self.name]
        rest_arguments = [paths.get(argument, argument) for argument in rest]
        return [first, "--archive", str(self.archive), *rest_arguments]

    def prepare(self, free_space: int = 0) -> None:  # noqa: ARG002 (for full disks)
        """Create the files that the command starts from."""
        shutil.rmtree(self.work_dir, ignore_errors=True)
        self.work_dir.mkdir()
        self._copy_inputs()

    def _copy_inputs(self) -> None:
        if self.name != "first":
            shutil.copytree(self.folder / "fresh", self.archive)
        if self.name == "backup":
            shutil.copytree(self.folder / "older", self.work_dir / "backup")

    def run(self, kind: str = "", at: int = 0, *, lasting: bool = False) -> Run:
        """Run the command in a child process, with a failing call if a kind is given."""

        def task() -> Run:
            mask, error = KINDS[kind] if kind else (15, 0)
            work_dir = str(self.work_dir).encode()
            with tempfile.TemporaryFile() as output:
                for handle in (1, 2):  # also output that is not written by Python
                    os.dup2(output.fileno(), handle)
                self._calls.fail_at(work_dir, mask, at, int(lasting), error)
                code = main(self.arguments())
                calls, failed_calls = self._calls.calls_passed(), self._count_failed()
                self._calls.fail_at(b"", 0, 0, 0, 0)
                sys.stdout.flush()
                sys.stderr.flush()
                output.seek(0)
                return Run(int(code), output.read().decode(), calls, failed_calls)

        result = _in_child(task)
        return Run(*result) if isinstance(result, list) else Run(-1, result, 0, 1)

    def find_lost(self, before: StoredContent) -> list[str]:
        """Return data that was stored before a command failed, and is missing or changed.

        A restored file must be complete, or not exist.
        """
        current = stored_content(self.archive)
        lost = [
            name
            for name, raw in before.items()
            if not current.get(name, b"").startswith(raw)
            and not (self.name == "purge" and PURGED in name and name not in current)
        ]
        for path in (self.work_dir / "to").rglob("*.jsonl"):
            lost += [str(path)] * (path.read_bytes() not in current.values())
        if self.name == "backup":
            copy = stored_content(self.work_dir / "backup")
            lost += ["backup"] * (
                copy not in (current, stored_content(self.folder / "older"))
            )
        return lost

    def state(self) -> dict[str, str]:
        """Ingest the whole home; return hashes of everything that can be read."""
        sandbox = Sandbox(self.folder)
        sandbox.archive = self.archive
        sandbox.ingest()
        with ArchiveDir(self.archive) as archive_dir:
            tables = hash_tables(archive_dir)
        assert tables
        stored = stored_content(self.archive)
        for path in sandbox.home.path.rglob("*.jsonl"):
            is_purged = self.name == "purge" and PURGED in path.name
            assert is_purged or path.read_bytes() in stored.values()
        everything = stored | {
            f"{folder} {path}": raw
            for folder in ("backup", "to")
            for path, raw in (
                *stored_content(self.work_dir / folder).items(),
                *_files(self.work_dir / folder),
            )
        }
        return tables | {
            what: sha256(raw).hexdigest() for what, raw in everything.items()
        }


class RenameTrial(CommandTrial):
    """A command whose renames fail in the kernel, the n-th of each thread.

    The text engine does not call libc for renames, so strace injects the failures.
    """

    def run(self, kind: str = "", at: int = 0, *, lasting: bool = False) -> Run:
        """Run the command under strace."""
        if not kind:
            return super().run()
        log = self.folder / "log"
        names = "rename,renameat,renameat2"
        injection = f"inject={names}:error=EACCES:when={at}{'+' * lasting}"
        strace = ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={names}"]
        strace += ["-e", injection] if at else []
        process = subprocess.run(
            [*strace, sys.executable, "-m", "bygones", *self.arguments()],
            capture_output=True,
            text=True,
            check=False,
        )
        calls = log.read_text("utf-8").splitlines()
        failed_calls = sum("(INJECTED)" in call for call in calls)
        return Run(
            process.returncode,
            process.stdout + process.stderr,
            len(calls),
            failed_calls,
        )


class FullDiskTrial(CommandTrial):
    """A command on a disk with limited free space."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self._count_failed = self._calls.calls_without_room

    def prepare(self, free_space: int = 0) -> None:
        """Mount a disk with the initial files and limited free space."""
        self.work_dir.mkdir(exist_ok=True)
        self.unmount()
        mount("-t", "tmpfs", "-o", f"size={_ENOUGH_SPACE}", "none", str(self.work_dir))
        self._copy_inputs()
        self.set_free_space(free_space or _ENOUGH_SPACE)

    def set_free_space(self, free_space: int) -> None:
        """Resize the disk to this much free space."""
        size = self.used_space() + free_space
        mount("-o", f"remount,size={size}", str(self.work_dir))

    def used_space(self) -> int:
        """Return the number of used bytes."""
        stats = os.statvfs(self.work_dir)
        return (stats.f_blocks - stats.f_bfree) * stats.f_frsize

    def unmount(self) -> None:
        """Unmount the disk."""
        if self.work_dir.is_mount():
            subprocess.run(["umount", str(self.work_dir)], check=True)


def mount(*arguments: str) -> None:
    """Mount a disk."""
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def stored_content(archive: Path) -> StoredContent:
    """Return the content of an archive, read from a copy with the sqlite3 module."""
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder))
        sandbox.archive.mkdir()
        for path in archive.glob("archive.db*"):
            if path.suffix in {".db", ".db-wal", ".db-journal"}:
                shutil.copy(path, sandbox.archive)
        with closing(sqlite3.connect(sandbox.archive / "archive.db")) as db:
            db.execute(
                "SELECT 1 FROM sqlite_schema"
            )  # rolls back unfinished transactions
        try:
            stored_bytes = sandbox.bytes()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error) or "unable to open" in str(error):
                return {}
            raise
    return {
        f"{path} {number}": raw
        for path, generations in stored_bytes.items()
        for number, raw in enumerate(generations)
    }


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*.jsonl"):
        yield path.name, path.read_bytes()


def _in_child(task: Callable[[], Any]) -> Any:  # noqa: ANN401 (any JSON)
    """Run a function in a fork; return its result, or the message of its exception."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            result = json.dumps(task())
        except BaseException as error:  # noqa: BLE001 (returned to the parent)
            result = json.dumps(f"raised {type(error).__name__}: {error}")
        with os.fdopen(writing, "w") as file:
            file.write(result)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        result = file.read()
    os.waitpid(child, 0)
    return json.loads(result) if result else "ended without output"


def read_state(trial: CommandTrial) -> dict[str, str]:
    """Return the final state, and assert that it can be read."""
    state = _in_child(trial.state)
    assert isinstance(state, dict), state
    return state


def run_with_failure(
    trial: CommandTrial, at: int, expected: dict[str, str], run: Callable[[], Run]
) -> Outcome | None:
    """Return the outcome of a command with a failure, or None if no call failed."""
    before = stored_content(trial.archive)
    failed = run()
    if not failed.failed_calls:
        return None
    lost = _in_child(lambda: trial.find_lost(before))
    wrong = lost if isinstance(lost, list) else [lost]
    if isinstance(trial, FullDiskTrial):
        trial.set_free_space(_ENOUGH_SPACE)
    again = trial.run()
    state = _in_child(trial.state)
    if not isinstance(state, dict):
        state = {str(state): ""}
    names = sorted({*state, *expected})
    wrong += [name for name in names if state.get(name) != expected.get(name)]
    return Outcome(at, failed, again, wrong)


def run_trials(
    trial: CommandTrial, kind: str, samples: int, *, lasting: bool
) -> Iterator[Outcome]:
    """Yield the outcome for each failing call, until there are no more calls."""
    trial.prepare()
    undisturbed = trial.run(kind)
    assert undisturbed.code == 0, undisturbed.output
    expected = read_state(trial)
    step = max(undisturbed.calls // samples, 1)
    for at in count(1 + PART % step, step):
        trial.prepare()
        run = lambda at=at: trial.run(kind, at, lasting=lasting)  # noqa: E731
        outcome = run_with_failure(trial, at, expected, run)
        if outcome is None:
            return
        yield outcome


def run_with_growing_space(disk: FullDiskTrial, samples: int) -> Iterator[Outcome]:
    """Yield the outcome with growing free space, until it is enough."""
    disk.prepare()
    before = disk.used_space()
    undisturbed = disk.run()
    assert undisturbed.code == 0, undisturbed.output
    step = max((disk.used_space() - before) // samples // _PAGE, 1) * _PAGE
    expected = read_state(disk)
    for free_space in count(_PAGE * (1 + PART % (step // _PAGE)), step):
        disk.prepare(free_space)
        outcome = run_with_failure(disk, free_space, expected, disk.run)
        if outcome is None:
            return
        yield outcome


if __name__ == "__main__":
    _, where, command, which, some, lasts, *mutations = sys.argv
    for mutation in mutations:
        MUTATIONS[mutation](patch)
    if which == "disk":
        full = FullDiskTrial(Path(where), command)
        try:
            for one in run_with_growing_space(full, int(some)):
                print(json.dumps(one), flush=True)  # noqa: T201 (for the parent)
        finally:
            full.unmount()
    else:
        trying = (RenameTrial if which == "rename" else CommandTrial)(
            Path(where), command
        )
        for one in run_trials(trying, which, int(some), lasting=lasts == "lasting"):
            print(json.dumps(one), flush=True)  # noqa: T201 (for the parent)
