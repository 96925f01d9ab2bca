"""Commands whose calls of the system fail, one after the other.

Runs as a program of its own, with ``failing.c`` preloaded. For every call that a
command makes on its archive, it is run on a fresh copy with that call failing, and
then once more with none; each ending is told as a line of JSON.
"""

from __future__ import annotations

import ctypes
import errno
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from recollect.cli import main
from recollect.store.dump import dump
from recollect.store.vault import Vault
from tests.faults.mutations import MUTATIONS
from tests.faults.sizes import PART
from tests.store.keeping import Keeping

__all__ = ["COMMANDS", "KINDS"]

KINDS = {
    "write": (1, errno.ENOSPC),
    "sync": (2, errno.EIO),
    "open": (4, errno.EMFILE),
    "name": (8, errno.EACCES),
}
"""The calls that can fail, and what the system says then."""

COMMANDS: dict[str, tuple[str, ...]] = {
    "ingest": ("ingest", "--home", "HOME"),
    "first": ("ingest", "--home", "HOME"),
    "rebuild": ("rebuild",),
    "backup": ("backup", "BACKUP"),
    "restore": ("restore", "--all", "--to", "TO"),
    "purge": ("purge", "--yes", "5e551000-0000-4000-8000-000000000001"),
    "list": ("list", "--no-ingest"),
}
"""What is run; "first" has no archive yet."""


class Trial:
    """A home, an archive to begin with, and a place where a command may fail."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.place = folder / "place"
        self.archive = self.place / "archive"
        self._calls = ctypes.CDLL(os.environ["LD_PRELOAD"])

    def words(self) -> list[str]:
        named = {
            "HOME": str(self.folder / "home"),
            "BACKUP": str(self.place / "backup"),
            "TO": str(self.place / "to"),
        }
        first, *rest = COMMANDS[self.name]
        told = [named.get(word, word) for word in rest]
        return [first, "--archive", str(self.archive), *told]

    def begin(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        if self.name != "first":
            shutil.copytree(self.folder / "fresh", self.archive)

    def run(
        self, kind: str = "", at: int = 0, *, lasting: bool = False
    ) -> list[object]:
        """Run the command in a child; return its code, its words, and the calls."""

        def deed() -> list[object]:
            which, reason = KINDS[kind] if kind else (15, 0)
            told = io.StringIO()
            place = str(self.place).encode()
            self._calls.fail_at(place, which, at, int(lasting), reason)
            with redirect_stdout(told), redirect_stderr(told):
                code = main(self.words())
            calls = self._calls.calls_passed()
            self._calls.fail_at(b"", 0, 0, 0, 0)
            return [int(code), told.getvalue(), calls]

        return _in_child(deed)

    def state(self) -> list[object]:
        """Return what the archive holds and what its index says, after an ingestion."""

        def deed() -> list[object]:
            keeping = Keeping(self.folder)
            keeping.archive = self.archive
            keeping.ingest()
            with Vault(self.archive) as vault:
                told = sorted(dump(vault).items())
            kept = {path: len(raw[-1]) for path, raw in keeping.bytes().items()}
            restored = [
                (str(path), path.stat().st_size)
                for path in (self.place / "to").rglob("*.jsonl")
            ]
            return [told, sorted(kept.items()), sorted(restored)]

        return _in_child(deed)


def _in_child(deed: Callable[[], list[object]]) -> list[object]:
    """Return what a function returns in a copy of this program."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            said = json.dumps(deed())
        except BaseException as error:  # noqa: BLE001 (told, and judged elsewhere)
            said = json.dumps([-1, f"raised {type(error).__name__}: {error}", 0])
        with os.fdopen(writing, "w") as file:
            file.write(said)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    found: list[object] = json.loads(said) if said else [-2, "ended without a word", 0]
    return found


def trials(trial: Trial, kind: str, looks: int, *, lasting: bool) -> Iterator[object]:
    """Yield how the command ended for each call that failed, and afterwards."""
    trial.begin()
    code, words, calls = trial.run(kind, 0)
    assert code == 0, words
    expected = trial.state()
    assert isinstance(calls, int)
    step = max(calls // looks, 1)
    for at in range(1 + PART % step, calls + 1, step):
        trial.begin()
        failed = trial.run(kind, at, lasting=lasting)
        again = trial.run()
        yield [at, failed, again, trial.state() == expected]


if __name__ == "__main__":
    _, place, name, kind, looks, lasting, *mutations = sys.argv
    for mutation in mutations:
        MUTATIONS[mutation](setattr)
    trying = Trial(Path(place), name)
    for ending in trials(trying, kind, int(looks), lasting=lasting == "lasting"):
        sys.stdout.write(json.dumps(ending) + "\n")
        sys.stdout.flush()
