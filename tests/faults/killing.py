"""Tasks that are killed, the state that they start from, and the expected result.

A trial creates the same state for each attempt. A task is killed at one of its points,
which it passes in the same order every time, or at a random moment.
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
from tests.faults.crashing import BEFORE, context, purge_first, record_points, start
from tests.faults.sizes import sized
from tests.faults.traces import find_traces
from tests.store.sandbox import Sandbox, differing_tables

__all__ = [
    "ForwardTrial",
    "PurgeTrial",
    "RestoreTrial",
    "Trial",
    "describe_result",
    "grow",
    "is_intact",
    "kill_at_points",
    "kill_at_random_moments",
    "remove_archive",
    "send_signal",
]

SAMPLES = sized(3, 100, 100_000)
"""At how many points a task is killed, besides the required ones."""


class TaskResult(NamedTuple):
    """How a task ended, and how long it took."""

    code: int | None
    took: float


class Trial(ABC):
    """A task on an archive that is killed."""

    def __init__(self, folder: Path, task: str, mutation: str = "") -> None:
        self.task = task
        self.mutation = mutation
        self.sandbox = Sandbox(folder)
        self.target = self.sandbox.home.path
        """The folder that the task gets."""
        self.points: list[str] = []

    @abstractmethod
    def prepare(self) -> None:
        """Create the state that the task starts from."""

    @abstractmethod
    def assert_recovers(self) -> None:
        """Continue after the kill, and compare the result with the expected one."""

    def record_points_of(self, archive: Path) -> None:
        """Run the task once, undisturbed, and record its points."""
        self.points = record_points(archive, self.target, self.task, self.mutation)

    def send_signal(self, signal_number: int, after: float = 0) -> TaskResult:
        """Start the task, and send it a signal some time after it has really started."""
        return send_signal(
            self.sandbox, self.task, signal_number, after, target=self.target
        )

    def kill_at(self, point: int) -> int | None:
        """Make the task kill itself at a point; return its exit code."""
        child = start(
            self.sandbox.archive,
            self.target,
            point,
            task=self.task,
            mutation=self.mutation,
        )
        child.join()
        return child.exitcode


class ForwardTrial(Trial):
    """An ingestion, rebuild or migration: the final state is that of an undisturbed run."""

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
        self.record_points_of(undisturbed.archive)
        undisturbed.ingest()
        self._expected = state_of(undisturbed)
        self._fresh = folder / "fresh"
        self.sandbox.archive.rename(self._fresh)

    def prepare(self) -> None:
        remove_archive(self.sandbox.archive)
        shutil.copytree(self._fresh, self.sandbox.archive)

    def assert_recovers(self) -> None:
        self.sandbox.ingest()
        assert state_of(self.sandbox) == self._expected


class RestoreTrial(Trial):
    """A restore over existing files: each file is the old one or the new one."""

    OLDER = b"what was there before"

    def __init__(self, folder: Path, mutation: str = "") -> None:
        super().__init__(folder, "restore", mutation)
        for number in range(3):
            records = thread(prompt("x" * 900), reply("y"))
            self.sandbox.home.session(session_id(number), records)
        self.sandbox.ingest()
        self.target = folder / "to"
        self.record_points_of(self.sandbox.archive)
        files = self.target.rglob("*.jsonl")
        self._restored = {path: path.read_bytes() for path in files}
        assert len(self._restored) == 3

    def prepare(self) -> None:
        shutil.rmtree(self.target)
        for path in self._restored:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.OLDER)

    def assert_recovers(self) -> None:
        for path, raw in self._restored.items():
            assert path.read_bytes() in (self.OLDER, raw)
        start(self.sandbox.archive, self.target, task=self.task).join()
        assert {path: path.read_bytes() for path in self._restored} == self._restored
        copies = [path.read_bytes() for path in self.target.rglob("*before-restore*")]
        assert copies.count(self.OLDER) >= 3
        assert list(self.target.rglob(".bygones-*")) == []


class PurgeTrial(Trial):
    """A purge of a session: all of it is still there, or no trace of it."""

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
        self.record_points_of(self.sandbox.archive)

    def prepare(self) -> None:
        remove_archive(self.sandbox.archive)
        shutil.copytree(self._fresh, self.sandbox.archive)

    def assert_recovers(self) -> None:
        self.sandbox.ingest()
        stored = self.sandbox.bytes()
        if str(self._path) in stored:
            assert stored[str(self._path)] == [self._path.read_bytes()]
            purge_first(self.sandbox.archive)
        assert find_traces(self.sandbox.archive, self._canary.encode()) == []
        assert differing_tables(self.sandbox) == []


def kill_at_points(trial: Trial) -> int:
    """Kill a task at its points, each time from the start; return how many."""
    points = choose_points(trial.points)
    for at in points:
        trial.prepare()
        assert trial.kill_at(at) == -signal.SIGKILL
        trial.assert_recovers()
    return len(points)


def choose_points(points: Sequence[str], samples: int = SAMPLES) -> list[int]:
    """Return the numbers of points at which a task is killed.

    These are the first point of each kind after a call, the last point, and others at
    equal distances.
    """
    assert len(points) > 20
    first = {
        points.index(name) + 1 for name in set(points) if not name.startswith(BEFORE)
    }
    step = max(len(points) // samples, 1)
    return sorted({*first, *range(1, len(points), step), len(points)})


def kill_at_random_moments(trial: Trial, kills: int, random: Random) -> Counter[str]:
    """Kill a task at random moments, each time from the start."""
    duration = 60.0
    for _ in range(3):
        trial.prepare()
        duration = min(duration, trial.send_signal(0).took)
    counts: Counter[str] = Counter()
    while counts[kill_label(trial.task)] < kills:
        trial.prepare()
        after = random.uniform(0, 1.2 * duration)
        code = trial.send_signal(signal.SIGKILL, after).code
        counts[describe_result(trial.task, code, signal.SIGKILL)] += 1
        trial.assert_recovers()
    return counts


def send_signal(  # noqa: PLR0913 (two by name and optional)
    sandbox: Sandbox,
    task: str,
    signal_number: int,
    after: float = 0,
    *,
    target: Path | None = None,
    mutation: str = "",
) -> TaskResult:
    """Start a task, and send it a signal some time after it has really started."""
    reading, writing = context().Pipe(duplex=False)
    folder = target or sandbox.home.path
    child = start(
        sandbox.archive, folder, task=task, mutation=mutation, started=writing
    )
    writing.close()
    assert reading.recv_bytes()
    started = time.monotonic()
    time.sleep(after)
    with suppress(ProcessLookupError):  # it has already ended
        os.kill(child.pid or 0, signal_number)
    child.join()
    return TaskResult(child.exitcode, time.monotonic() - started)


def kill_label(task: str) -> str:
    """Return the label of a task that was killed."""
    return f"kills of {task} at random moments"


def describe_result(task: str, code: int | None, signal_number: int) -> str:
    """Return what a signal did; it counts as a kill only if the task died of it."""
    if code == 0:
        return "signals that arrived too late (not counted)"
    if signal_number == signal.SIGKILL:
        assert code == -signal.SIGKILL
        return kill_label(task)
    return f"interrupts of {task} at random moments"


def remove_archive(folder: Path) -> None:
    """Remove an archive, although a reader's thread may still create a lock in it."""
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
    """Change a home: append, create files, cut lines in the middle, rewrite.

    Some unfinished lines get longer without being finished.
    """
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
        is_unfinished = whole and not whole.endswith(b"\n")
        if is_unfinished and random.random() < 0.5:
            raw = b"#" + words.encode()
        elif is_unfinished:
            raw = b"\n" + raw
        cut = random.randrange(len(raw)) if random.random() < 0.3 else len(raw)
        with path.open("ab") as file:
            file.write(raw[:cut])


def fill_home(sandbox: Sandbox) -> None:
    """Ingest a home, then change it so that the next ingestion has much to do."""
    random = Random(1)  # noqa: S311 (the same every time)
    for number in range(4):
        grow(sandbox.home, random, number)
    sandbox.home.agent(session_id(1), "abc1234", thread(prompt("in"), reply("out")))
    path = sandbox.home.session(session_id(7), thread(prompt("old"), reply("older")))
    moved = sandbox.home.session(session_id(8), [prompt("moving")])
    deleted = sandbox.home.session(session_id(9), [prompt("going")])
    touched = sandbox.home.session(session_id(11), [prompt("touched")])
    moved_and_grown = sandbox.home.session(
        session_id(12), thread(prompt("moved and grown"))
    )
    unfinished = jsonl(thread(prompt("an unfinished line that is a record")))[:-1]
    with_unfinished_line = sandbox.home.session(session_id(14), [prompt("tailed")])
    sandbox.ingest()
    os.utime(touched, (1, 1))
    with with_unfinished_line.open("ab") as file:
        file.write(unfinished)
    moved_and_grown = moved_and_grown.rename(
        moved_and_grown.with_name(f"{session_id(13)}.jsonl")
    )
    with moved_and_grown.open("ab") as file:
        file.write(jsonl([prompt("after it was moved")]))
    for number in range(4, 8):
        grow(sandbox.home, random, number)
    path.write_bytes(jsonl(thread(prompt("new"))) + b'{"half')
    moved.rename(moved.with_name(f"{session_id(10)}.jsonl"))
    deleted.unlink()
    sandbox.home.agent(session_id(1), "abc1234", thread(prompt("in")), meta={"x": 1})
