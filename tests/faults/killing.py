"""Tasks that are killed, what they find, and what must be true afterwards.

A trial creates the same state for each attempt. A task dies at one of its points, which
the product passes in the same order every time, or at a random moment.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.build import Home, jsonl, prompt, reply, session_id, summary, thread
from tests.faults.crashing import BEFORE, context, points_of, purge_first, start
from tests.faults.sizes import sized
from tests.faults.traces import traces
from tests.store.sandbox import Sandbox, differing_tables

__all__ = [
    "Advancing",
    "Purging",
    "Restoring",
    "Trial",
    "clear",
    "grow",
    "is_intact",
    "killed_at_moments",
    "killed_at_points",
    "send_signal",
    "what_became",
]

LOOKS = sized(3, 100, 100_000)
"""At how many points a task is killed besides those that must be tried."""


class TaskResult(NamedTuple):
    """How a task ended, and how long it took."""

    code: int | None
    took: float


class Trial(ABC):
    """Something that is done to an archive."""

    def __init__(self, folder: Path, task: str, mutation: str = "") -> None:
        self.task = task
        self.mutation = mutation
        self.sandbox = Sandbox(folder)
        self.given = self.sandbox.home.path
        """The folder that the task gets."""
        self.points: list[str] = []

    @abstractmethod
    def lay(self) -> None:
        """Create what the task finds."""

    @abstractmethod
    def assert_good(self) -> None:
        """Continue where the task was killed, and compare the result with the oracle."""

    def count(self, archive: Path) -> None:
        """Run the task once, undisturbed, and record the points it passes."""
        self.points = points_of(archive, self.given, self.task, self.mutation)

    def send_signal(self, sign: int, after: float = 0) -> TaskResult:
        """Start the task, and send it a signal some time after it has really started."""
        return send_signal(self.sandbox, self.task, sign, after, to=self.given)

    def die_at(self, point: int) -> int | None:
        """Make the task kill itself at a point; return how it ended."""
        child = start(
            self.sandbox.archive,
            self.given,
            point,
            task=self.task,
            mutation=self.mutation,
        )
        child.join()
        return child.exitcode


class Advancing(Trial):
    """An ingestion, a rebuild or a migration: in the end all is as if undisturbed."""

    def __init__(
        self,
        folder: Path,
        task: str,
        mutation: str = "",
        upgrade: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(folder, task, mutation)
        fill_home(self.sandbox)
        undisturbed = Sandbox(folder)
        undisturbed.archive = folder / "undisturbed"
        shutil.copytree(self.sandbox.archive, undisturbed.archive)
        upgrade()
        self.count(undisturbed.archive)
        undisturbed.ingest()
        self._expected = state_of(undisturbed)
        self._fresh = folder / "fresh"
        self.sandbox.archive.rename(self._fresh)

    def lay(self) -> None:
        clear(self.sandbox.archive)
        shutil.copytree(self._fresh, self.sandbox.archive)

    def assert_good(self) -> None:
        self.sandbox.ingest()
        assert state_of(self.sandbox) == self._expected


class Restoring(Trial):
    """Files that are put back over others: each is the old one or the new one."""

    OLDER = b"what was there before"

    def __init__(self, folder: Path, mutation: str = "") -> None:
        super().__init__(folder, "restore", mutation)
        for number in range(3):
            records = thread(prompt("x" * 900), reply("y"))
            self.sandbox.home.session(session_id(number), records)
        self.sandbox.ingest()
        self.given = folder / "to"
        self.count(self.sandbox.archive)
        files = self.given.rglob("*.jsonl")
        self._restored = {path: path.read_bytes() for path in files}
        assert len(self._restored) == 3

    def lay(self) -> None:
        shutil.rmtree(self.given)
        for path in self._restored:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.OLDER)

    def assert_good(self) -> None:
        for path, raw in self._restored.items():
            assert path.read_bytes() in (self.OLDER, raw)
        start(self.sandbox.archive, self.given, task=self.task).join()
        assert {path: path.read_bytes() for path in self._restored} == self._restored
        copies = [one.read_bytes() for one in self.given.rglob("*before-restore*")]
        assert copies.count(self.OLDER) >= 3
        assert list(self.given.rglob(".bygones-*")) == []


class Purging(Trial):
    """A session that is erased: all of it is still there, or no trace of it."""

    def __init__(self, folder: Path, mutation: str = "") -> None:
        super().__init__(folder, "purge", mutation)
        home = self.sandbox.home
        self._canary = "canary" + Random(5).randbytes(20).hex()  # noqa: S311 (the same)
        records = thread(prompt(self._canary), reply("y"))
        self._path = home.session(session_id(1), records)
        home.session(session_id(2), thread(prompt("stays"), reply("y")))
        self.sandbox.ingest()
        older = self.sandbox.archive / "archive.db.version-0"
        older.write_text(self._canary, "utf-8")
        self._fresh = folder / "fresh"
        shutil.copytree(self.sandbox.archive, self._fresh)
        self.count(self.sandbox.archive)

    def lay(self) -> None:
        clear(self.sandbox.archive)
        shutil.copytree(self._fresh, self.sandbox.archive)

    def assert_good(self) -> None:
        self.sandbox.ingest()
        kept = self.sandbox.bytes()
        if str(self._path) in kept:
            assert kept[str(self._path)] == [self._path.read_bytes()]
            purge_first(self.sandbox.archive)
        assert traces(self.sandbox.archive, self._canary.encode()) == []
        assert differing_tables(self.sandbox) == []


def killed_at_points(trial: Trial) -> int:
    """Kill a task at its points, each time from the start; return how many."""
    chosen = spread(trial.points)
    for at in chosen:
        trial.lay()
        assert trial.die_at(at) == -signal.SIGKILL
        trial.assert_good()
    return len(chosen)


def spread(points: Sequence[str], looks: int = LOOKS) -> list[int]:
    """Return the numbers of points at which a task is killed.

    After each kind of step, when it happens for the first time; at the last point; and at
    others that are far from each other.
    """
    assert len(points) > 20
    first = {
        points.index(what) + 1 for what in set(points) if not what.startswith(BEFORE)
    }
    step = max(len(points) // looks, 1)
    return sorted({*first, *range(1, len(points), step), len(points)})


def killed_at_moments(trial: Trial, kills: int, random: Random) -> Counter[str]:
    """Kill a task at random moments, each time from the start."""
    usual = 60.0
    for _ in range(3):
        trial.lay()
        usual = min(usual, trial.send_signal(0).took)
    counted: Counter[str] = Counter()
    while counted[killed(trial.task)] < kills:
        trial.lay()
        after = random.uniform(0, 1.2 * usual)
        code = trial.send_signal(signal.SIGKILL, after).code
        counted[what_became(trial.task, code, signal.SIGKILL)] += 1
        trial.assert_good()
    return counted


def send_signal(  # noqa: PLR0913 (two by name and optional)
    sandbox: Sandbox,
    task: str,
    sign: int,
    after: float = 0,
    *,
    to: Path | None = None,
    mutation: str = "",
) -> TaskResult:
    """Start a task, and send it a signal some time after it has really started."""
    reading, writing = context().Pipe(duplex=False)
    given = to or sandbox.home.path
    child = start(sandbox.archive, given, task=task, mutation=mutation, started=writing)
    writing.close()
    assert reading.recv_bytes()
    began = time.monotonic()
    time.sleep(after)
    with suppress(ProcessLookupError):  # it was done, and was seen off
        os.kill(child.pid or 0, sign)
    child.join()
    return TaskResult(child.exitcode, time.monotonic() - began)


def killed(task: str) -> str:
    """Return the report of a task that died of a signal."""
    return f"kills of {task} at random moments"


def what_became(task: str, code: int | None, sign: int) -> str:
    """Return what a signal did; it is a kill only if the task died of it."""
    if code == 0:
        return "signals that arrived too late (not counted)"
    if sign == signal.SIGKILL:
        assert code == -signal.SIGKILL
        return killed(task)
    return f"interrupts of {task} at random moments"


def clear(folder: Path) -> None:
    """Remove an archive; a reader's thread may still look for it, and leave a lock."""
    if folder.exists():
        aside = folder.with_name(f"aside-{time.monotonic_ns()}")
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def is_intact(path: Path) -> bool:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def state_of(sandbox: Sandbox) -> tuple[object, ...]:
    """Return everything that can be read from an archive and its copies."""
    copies = sorted(sandbox.archive.glob("archive.db.*"))
    assert all(is_intact(path) for path in copies)
    return (
        sandbox.dump(),
        sandbox.bytes(),
        sandbox.rows("PRAGMA user_version"),
        sandbox.rows("SELECT name, sql FROM sqlite_schema ORDER BY name"),
        [path.name for path in copies],
    )


def grow(home: Home, random: Random, number: int) -> None:
    """Let a home grow as homes do: append, start files, cut in the middle, rewrite."""
    for _ in range(random.randint(1, 4)):
        name = session_id(random.randrange(6))
        path = home.path / "projects" / "-work-demo" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(str(random.random()) for _ in range(random.choice([3, 900])))
        records = thread(prompt(f"{number} {words}"), reply(words))
        raw = jsonl([*records, summary(words[:20], records[0]["uuid"])])
        if random.random() < 0.1 and path.exists():
            path.write_bytes(raw)
            continue
        whole = path.read_bytes() if path.exists() else b""
        if whole and not whole.endswith(b"\n"):
            raw = b"\n" + raw
        cut = random.randrange(len(raw)) if random.random() < 0.3 else len(raw)
        with path.open("ab") as file:
            file.write(raw[:cut])


def fill_home(sandbox: Sandbox) -> None:
    """Take a home in, and leave much to do for the next ingestion."""
    random = Random(1)  # noqa: S311 (the same every time)
    for number in range(4):
        grow(sandbox.home, random, number)
    sandbox.home.agent(session_id(1), "abc1234", thread(prompt("in"), reply("out")))
    path = sandbox.home.session(session_id(7), thread(prompt("old"), reply("older")))
    moving = sandbox.home.session(session_id(8), [prompt("moving")])
    going = sandbox.home.session(session_id(9), [prompt("going")])
    touched = sandbox.home.session(session_id(11), [prompt("touched")])
    both = sandbox.home.session(session_id(12), thread(prompt("moved and grown")))
    half = jsonl(thread(prompt("an unfinished line that is a record")))[:-1]
    tailed = sandbox.home.session(session_id(14), [prompt("tailed")])
    sandbox.ingest()
    os.utime(touched, (1, 1))
    with tailed.open("ab") as file:
        file.write(half)
    both = both.rename(both.with_name(f"{session_id(13)}.jsonl"))
    with both.open("ab") as file:
        file.write(jsonl([prompt("after it was moved")]))
    for number in range(4, 8):
        grow(sandbox.home, random, number)
    path.write_bytes(jsonl(thread(prompt("new"))) + b'{"half')
    moving.rename(moving.with_name(f"{session_id(10)}.jsonl"))
    going.unlink()
    sandbox.home.agent(session_id(1), "abc1234", thread(prompt("in")), meta={"x": 1})
