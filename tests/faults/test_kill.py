"""A task that is killed loses nothing, and stores nothing twice.

An oracle decides what must exist. It shares no code with the product: it reads the files
with ``json`` and the databases with the standard library's SQLite.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import apsw
import pytest

from tests.faults.crashing import add_step, start
from tests.faults.killing import (
    ForwardTrial,
    PurgeTrial,
    RestoreTrial,
    Trial,
    describe_result,
    grow,
    is_intact,
    kill_at_points,
    kill_at_random_moments,
    send_signal,
)
from tests.faults.racing import assert_acknowledged
from tests.faults.sizes import reached, seeded, sized
from tests.store.sandbox import Sandbox, differing_tables

KILLS = sized(80, 1_040, 20_000)
"""How many ingestions and rebuilds are killed at a random moment."""
OTHER_KILLS = sized(3, 120, 2_000)
"""The same for every other task."""
ROUNDS = 8
TASKS = ("ingest", "rebuild")
LONGER_NEXT_TIME = 1.02
"""How much later a task may be killed if it was killed before it was done."""
RACES = 0.3
"""How often unfinished lines are rewritten just before they are read."""


def expected_records(home: Path) -> Counter[tuple[str, int, int]]:
    """Return every record with an id: its file, offset and length."""
    records: Counter[tuple[str, int, int]] = Counter()
    for path in home.rglob("*.jsonl"):
        offset = 0
        for line in path.read_bytes().split(b"\n")[:-1]:
            with suppress(ValueError):
                if "uuid" in json.loads(line):
                    records[str(path), offset, len(line)] += 1
            offset += len(line) + 1
    return records


def indexed_records(sandbox: Sandbox) -> Counter[tuple[str, int, int]]:
    """Return the records in the index."""
    sources = sandbox.rows("SELECT id, home || '/' || path FROM source")
    paths = {number: str(path) for number, path in sources}
    rows = sandbox.index_rows("SELECT source, start, length FROM record")
    return Counter(
        (paths[source], int(str(offset)), int(str(length)))
        for source, offset, length in rows
    )


def assert_archive_complete(sandbox: Sandbox) -> None:
    """Compare an archive that is up to date with the files of its home."""
    stored_bytes = sandbox.bytes()
    for path in sandbox.home.path.rglob("*.jsonl"):
        assert stored_bytes[str(path)][-1] == path.read_bytes()
    assert indexed_records(sandbox) == expected_records(sandbox.home.path)
    assert is_intact(sandbox.archive / "archive.db")
    assert differing_tables(sandbox) == []


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.full
def test_killed_at_any_moment_it_loses_nothing_and_brings_nothing_twice(
    tmp_path: Path, seed: int
) -> None:
    sandbox = Sandbox(tmp_path)
    counts = kill_repeatedly(sandbox, Random(seeded(seed)), KILLS // ROUNDS)  # noqa: S311 (the same every time)

    sandbox.ingest()

    assert_archive_complete(sandbox)
    for what, number in counts.items():
        reached(what, number)


def kill_repeatedly(
    sandbox: Sandbox, random: Random, kills: int, mutation: str = ""
) -> Counter[str]:
    """Let a home grow, and kill what imports it at random moments.

    What was stored before must still be there after every kill.
    """
    grow(sandbox.home, random, 0)
    start(sandbox.archive, sandbox.home.path).join()  # the first process starts slowly
    grow(sandbox.home, random, 1)
    durations = {task: send_signal(sandbox, task, 0).took for task in TASKS}
    counts: Counter[str] = Counter()
    for attempt in count():
        grow(sandbox.home, random, attempt)
        if not attempt % 7:
            shutil.rmtree(sandbox.archive / "index", ignore_errors=True)
        task = TASKS[not attempt % 5]
        signal_number = signal.SIGKILL if attempt % 4 else signal.SIGINT
        after = random.uniform(0, 1.2 * durations[task])
        acknowledged = sandbox.bytes()
        mutations = f"{mutation} race" if random.random() < RACES else mutation
        result = send_signal(sandbox, task, signal_number, after, mutation=mutations)
        counts[describe_result(task, result.code, signal_number)] += 1
        # The home grows, and so does the time that a task takes.
        durations[task] = (
            result.took if result.code == 0 else durations[task] * LONGER_NEXT_TIME
        )
        assert_acknowledged(acknowledged, sandbox.bytes())
        if not attempt % 8:
            sandbox.ingest()
            assert_archive_complete(sandbox)
        if sum(counts[what] for what in counts if "kills" in what) == kills:
            break
    return counts


@pytest.mark.full
def test_an_unfinished_line_that_is_forgotten_is_caught(tmp_path: Path) -> None:
    random = Random(1)  # noqa: S311 (the same every time)

    with pytest.raises(AssertionError):
        kill_repeatedly(Sandbox(tmp_path), random, 500, "skip_fragment_check")


def trial_of(
    task: str, folder: Path, patch: pytest.MonkeyPatch, mutation: str = ""
) -> Trial:
    """Return the trial of a task, with or without a mutation."""

    def upgrade() -> None:
        if task == "migrate":
            add_step(patch.setattr)

    match task:
        case "restore":
            return RestoreTrial(folder, mutation)
        case "purge":
            return PurgeTrial(folder, mutation)
        case _:
            return ForwardTrial(folder, task, mutation, upgrade)


@pytest.mark.parametrize("task", ["migrate", "restore", "purge"])
def test_killed_at_any_moment_other_deeds_leave_all_as_before_or_after(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seeded(len(task)))  # noqa: S311 (the same every time)
    trial = trial_of(task, tmp_path, monkeypatch)

    for what, number in kill_at_random_moments(trial, OTHER_KILLS, random).items():
        reached(what, number)


@pytest.mark.parametrize("task", ["ingest", "rebuild", "migrate", "restore", "purge"])
@pytest.mark.full
def test_killed_at_each_point_it_ends_where_an_undisturbed_one_does(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = kill_at_points(trial_of(task, tmp_path, monkeypatch))

    reached(f"kills of {task} at its commit points", kills)


@pytest.mark.parametrize(
    ("task", "mutation"),
    [
        ("ingest", "commit_offset_first"),
        ("rebuild", "publish_index_early"),
        ("migrate", "set_version_first"),
        ("restore", "restore_in_place"),
        ("purge", "remove_index_last"),
    ],
)
@pytest.mark.full
def test_a_deed_that_leaves_half_of_it_is_caught_with_every_test_run(
    tmp_path: Path, task: str, mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_of(task, tmp_path, monkeypatch, mutation)

    with pytest.raises((AssertionError, apsw.Error)):
        kill_at_points(trial)
