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
    Advancing,
    Purging,
    Restoring,
    Trial,
    grow,
    is_intact,
    killed_at_moments,
    killed_at_points,
    send_signal,
    what_became,
)
from tests.faults.racing import assert_acknowledged
from tests.faults.sizes import reached, seeded, sized
from tests.store.sandbox import Sandbox, differing_tables

KILLS = sized(80, 1_040, 20_000)
"""How often ingestions and rebuilds die of being killed at a random moment."""
OTHER_KILLS = sized(3, 120, 2_000)
"""The same for every other task."""
ROUNDS = 8
RACES = 0.3
"""How often unfinished lines are rewritten just before they are read."""


def expected(home: Path) -> Counter[tuple[str, int, int]]:
    """Return every record with an id: the file, where it stands, and how long it is."""
    found: Counter[tuple[str, int, int]] = Counter()
    for path in home.rglob("*.jsonl"):
        offset = 0
        for line in path.read_bytes().split(b"\n")[:-1]:
            with suppress(ValueError):
                if "uuid" in json.loads(line):
                    found[str(path), offset, len(line)] += 1
            offset += len(line) + 1
    return found


def indexed(sandbox: Sandbox) -> Counter[tuple[str, int, int]]:
    """Return the records that the index has."""
    sources = sandbox.rows("SELECT id, home || '/' || path FROM source")
    paths = {number: str(path) for number, path in sources}
    rows = sandbox.index_rows("SELECT source, start, length FROM record")
    return Counter(
        (paths[source], int(str(offset)), int(str(length)))
        for source, offset, length in rows
    )


def assert_whole(sandbox: Sandbox) -> None:
    """Hold an archive that is up to date against what the files say."""
    stored_bytes = sandbox.bytes()
    for path in sandbox.home.path.rglob("*.jsonl"):
        assert stored_bytes[str(path)][-1] == path.read_bytes()
    assert indexed(sandbox) == expected(sandbox.home.path)
    assert is_intact(sandbox.archive / "archive.db")
    assert differing_tables(sandbox) == []


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.full
def test_killed_at_any_moment_it_loses_nothing_and_brings_nothing_twice(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seeded(seed))  # noqa: S311 (the same every time)
    sandbox = Sandbox(tmp_path)
    grow(sandbox.home, random, 0)
    start(sandbox.archive, sandbox.home.path).join()  # the first one is slow to come
    grow(sandbox.home, random, 1)
    usual = min(send_signal(sandbox, "ingest", 0).took for _ in range(3))
    counted: Counter[str] = Counter()
    for tried in count():
        grow(sandbox.home, random, tried)
        if not tried % 7:
            shutil.rmtree(sandbox.archive / "index", ignore_errors=True)
        task = "ingest" if tried % 5 else "rebuild"
        sign = signal.SIGKILL if tried % 4 else signal.SIGINT
        after = random.uniform(0, 2 * usual)
        acknowledged = sandbox.bytes()
        mutation = "race" if random.random() < RACES else ""
        code = send_signal(sandbox, task, sign, after, mutation=mutation).code
        counted[what_became(task, code, sign)] += 1
        assert_acknowledged(acknowledged, sandbox.bytes())
        if not tried % 8:
            sandbox.ingest()
            assert_whole(sandbox)
        if sum(counted[what] for what in counted if "kills" in what) == KILLS // ROUNDS:
            break

    sandbox.ingest()

    assert_whole(sandbox)
    for what, often in counted.items():
        reached(what, often)


def trial_of(
    task: str, folder: Path, patch: pytest.MonkeyPatch, mutation: str = ""
) -> Trial:
    """Return what a task finds and what it must leave, with or without a fault."""

    def upgrade() -> None:
        if task == "migrate":
            add_step(patch.setattr)

    match task:
        case "restore":
            return Restoring(folder, mutation)
        case "purge":
            return Purging(folder, mutation)
        case _:
            return Advancing(folder, task, mutation, upgrade)


@pytest.mark.parametrize("task", ["migrate", "restore", "purge"])
def test_killed_at_any_moment_other_deeds_leave_all_as_before_or_after(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seeded(len(task)))  # noqa: S311 (the same every time)
    trial = trial_of(task, tmp_path, monkeypatch)

    for what, often in killed_at_moments(trial, OTHER_KILLS, random).items():
        reached(what, often)


@pytest.mark.parametrize("task", ["ingest", "rebuild", "migrate", "restore", "purge"])
@pytest.mark.full
def test_killed_at_each_point_it_ends_where_an_undisturbed_one_does(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = killed_at_points(trial_of(task, tmp_path, monkeypatch))

    reached(f"kills of {task} at its commit points", looked)


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
        killed_at_points(trial)
