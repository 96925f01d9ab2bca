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

__all__ = ["COMMANDS", "KINDS", "PURGED", "Ending", "Trial"]

KINDS = {
    "write": (1, errno.ENOSPC),
    "sync": (2, errno.EIO),
    "open": (4, errno.EMFILE),
    "name": (8, errno.EACCES),
}
"""The calls that can fail, and what the system says then."""

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
"""What is run; "first" has no archive yet."""
_ROOMY = 256 << 20
_PAGE = 4096

Kept = dict[str, bytes]
"""All bytes of an archive, by path and generation."""


class Run(NamedTuple):
    """How a command ended."""

    code: int
    words: str
    calls: int
    """On its archive."""
    struck: int
    """How many of them failed, by our doing or because the disk was full."""


class Ending(NamedTuple):
    """How a command ended when something failed, and once more when nothing did."""

    at: int
    failed: Run
    again: Run
    wrong: list[str]
    """What could be read before and cannot be now, or is otherwise in the end."""


class Trial:
    """A home, an archive to begin with, and a place where a command may fail."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.place = folder / "place"
        self.archive = self.place / "archive"
        self._calls = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._counted = self._calls.calls_failed

    def words(self) -> list[str]:
        """Return the command as it would be typed."""
        named = {
            "HOME": str(self.folder / "home"),
            "BACKUP": str(self.place / "backup"),
            "TO": str(self.place / "to"),
        }
        first, *rest = COMMANDS[self.name]
        told = [named.get(word, word) for word in rest]
        return [first, "--archive", str(self.archive), *told]

    def begin(self, room: int = 0) -> None:  # noqa: ARG002 (for disks)
        """Lay out what the command finds."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        self._lay()

    def _lay(self) -> None:
        if self.name != "first":
            shutil.copytree(self.folder / "fresh", self.archive)
        if self.name == "backup":
            shutil.copytree(self.folder / "older", self.place / "backup")

    def run(self, kind: str = "", at: int = 0, *, lasting: bool = False) -> Run:
        """Run the command in a child, with a call that fails if one is named."""

        def task() -> Run:
            which, reason = KINDS[kind] if kind else (15, 0)
            place = str(self.place).encode()
            with tempfile.TemporaryFile() as told:
                for handle in (1, 2):  # also what is not written by Python
                    os.dup2(told.fileno(), handle)
                self._calls.fail_at(place, which, at, int(lasting), reason)
                code = main(self.words())
                calls, struck = self._calls.calls_passed(), self._counted()
                self._calls.fail_at(b"", 0, 0, 0, 0)
                sys.stdout.flush()
                sys.stderr.flush()
                told.seek(0)
                return Run(int(code), told.read().decode(), calls, struck)

        found = _in_child(task)
        return Run(*found) if isinstance(found, list) else Run(-1, found, 0, 1)

    def lost(self, before: Kept) -> list[str]:
        """Return what could be read before a command failed, and now is otherwise.

        A file that was about to be written is there as a whole, or not at all.
        """
        now = kept_in(self.archive)
        found = [
            what
            for what, raw in before.items()
            if not now.get(what, b"").startswith(raw)
            and not (self.name == "purge" and PURGED in what and what not in now)
        ]
        for path in (self.place / "to").rglob("*.jsonl"):
            found += [str(path)] * (path.read_bytes() not in now.values())
        if self.name == "backup":
            copy = kept_in(self.place / "backup")
            found += ["backup"] * (copy not in (now, kept_in(self.folder / "older")))
        return found

    def state(self) -> dict[str, str]:
        """Return everything that can be read when the whole home is imported."""
        sandbox = Sandbox(self.folder)
        sandbox.archive = self.archive
        sandbox.ingest()
        with ArchiveDir(self.archive) as opened:
            tables = hash_tables(opened)
        assert tables
        kept = kept_in(self.archive)
        for path in sandbox.home.path.rglob("*.jsonl"):
            is_purged = self.name == "purge" and PURGED in path.name
            assert is_purged or path.read_bytes() in kept.values()
        everything = kept | {
            f"{folder} {path}": raw
            for folder in ("backup", "to")
            for path, raw in (
                *kept_in(self.place / folder).items(),
                *_files(self.place / folder),
            )
        }
        return tables | {
            what: sha256(raw).hexdigest() for what, raw in everything.items()
        }


class Renaming(Trial):
    """The same with renames that the system itself refuses, the n-th of each thread.

    The text engine does not ask by way of the library, so strace has to see to it.
    """

    def run(self, kind: str = "", at: int = 0, *, lasting: bool = False) -> Run:
        """Run the command in a program of its own."""
        if not kind:
            return super().run()
        log = self.folder / "log"
        names = "rename,renameat,renameat2"
        when = f"inject={names}:error=EACCES:when={at}{'+' * lasting}"
        words = ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={names}"]
        words += ["-e", when] if at else []
        done = subprocess.run(
            [*words, sys.executable, "-m", "bygones", *self.words()],
            capture_output=True,
            text=True,
            check=False,
        )
        calls = log.read_text("utf-8").splitlines()
        struck = sum("(INJECTED)" in call for call in calls)
        return Run(done.returncode, done.stdout + done.stderr, len(calls), struck)


class Disk(Trial):
    """The same on a disk that has so much room and no more."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self._counted = self._calls.calls_without_room

    def begin(self, room: int = 0) -> None:
        """Have a disk with all that the command finds, and some room."""
        self.place.mkdir(exist_ok=True)
        self.end()
        mount("-t", "tmpfs", "-o", f"size={_ROOMY}", "none", str(self.place))
        self._lay()
        self.has(room or _ROOMY)

    def has(self, room: int) -> None:
        """Leave so much room, and no more."""
        size = self.used() + room
        mount("-o", f"remount,size={size}", str(self.place))

    def used(self) -> int:
        """Return how many bytes are used."""
        told = os.statvfs(self.place)
        return (told.f_blocks - told.f_bfree) * told.f_frsize

    def end(self) -> None:
        """Have no disk any more."""
        if self.place.is_mount():
            subprocess.run(["umount", str(self.place)], check=True)


def mount(*words: str) -> None:
    """Mount a disk."""
    subprocess.run(["mount", *words], check=True, capture_output=True)


def kept_in(archive: Path) -> Kept:
    """Return what an archive holds, read from a copy and without the product."""
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder))
        sandbox.archive.mkdir()
        for path in archive.glob("archive.db*"):
            if path.suffix in {".db", ".db-wal", ".db-journal"}:
                shutil.copy(path, sandbox.archive)
        with closing(sqlite3.connect(sandbox.archive / "archive.db")) as db:
            db.execute("SELECT 1 FROM sqlite_schema")  # undoes what was not finished
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


def _in_child(task: Callable[[], Any]) -> Any:  # noqa: ANN401 (as it came)
    """Return what a function returns in a copy of this program, or what it raised."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            said = json.dumps(task())
        except BaseException as error:  # noqa: BLE001 (told, and judged elsewhere)
            said = json.dumps(f"raised {type(error).__name__}: {error}")
        with os.fdopen(writing, "w") as file:
            file.write(said)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else "ended without a word"


def told(trial: Trial) -> dict[str, str]:
    """Return what can be read in the end; that it can be is part of it."""
    found = _in_child(trial.state)
    assert isinstance(found, dict), found
    return found


def ending(
    trial: Trial, at: int, expected: dict[str, str], fail: Callable[[], Run]
) -> Ending | None:
    """Return how a command ended when it was made to fail; none if nothing did."""
    before = kept_in(trial.archive)
    failed = fail()
    if not failed.struck:
        return None
    lost = _in_child(lambda: trial.lost(before))
    wrong = lost if isinstance(lost, list) else [lost]
    if isinstance(trial, Disk):
        trial.has(_ROOMY)
    again = trial.run()
    found = _in_child(trial.state)
    if not isinstance(found, dict):
        found = {str(found): ""}
    names = sorted({*found, *expected})
    wrong += [name for name in names if found.get(name) != expected.get(name)]
    return Ending(at, failed, again, wrong)


def trials(trial: Trial, kind: str, looks: int, *, lasting: bool) -> Iterator[Ending]:
    """Yield how the command ended for each call that failed, until there is none."""
    trial.begin()
    undisturbed = trial.run(kind)
    assert undisturbed.code == 0, undisturbed.words
    expected = told(trial)
    step = max(undisturbed.calls // looks, 1)
    for at in count(1 + PART % step, step):
        trial.begin()
        fail = lambda at=at: trial.run(kind, at, lasting=lasting)  # noqa: E731
        found = ending(trial, at, expected, fail)
        if found is None:
            return
        yield found


def fillings(disk: Disk, looks: int) -> Iterator[Ending]:
    """Yield how the command ended with ever more room, until that was enough."""
    disk.begin()
    before = disk.used()
    undisturbed = disk.run()
    assert undisturbed.code == 0, undisturbed.words
    step = max((disk.used() - before) // looks // _PAGE, 1) * _PAGE
    expected = told(disk)
    for room in count(_PAGE * (1 + PART % (step // _PAGE)), step):
        disk.begin(room)
        found = ending(disk, room, expected, disk.run)
        if found is None:
            return
        yield found


if __name__ == "__main__":
    _, where, command, which, some, lasts, *mutations = sys.argv
    for mutation in mutations:
        MUTATIONS[mutation](patch)
    if which == "disk":
        full = Disk(Path(where), command)
        try:
            for one in fillings(full, int(some)):
                print(json.dumps(one), flush=True)  # noqa: T201 (for who began it)
        finally:
            full.end()
    else:
        trying = (Renaming if which == "rename" else Trial)(Path(where), command)
        for one in trials(trying, which, int(some), lasting=lasts == "lasting"):
            print(json.dumps(one), flush=True)  # noqa: T201 (for who began it)
