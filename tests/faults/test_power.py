"""Without power: what was acknowledged is there, and the rest as if it never was.

After a power cut, the archive continues and ends in the same state as an undisturbed one.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.build import session_id
from tests.faults.disk import lay
from tests.faults.losing import Recorded, assert_survived, record
from tests.faults.mutations import skip_archive_syncs, skip_index_syncs
from tests.faults.sizes import reached, seeded, sized
from tests.store.sandbox import Sandbox, differing_tables

POINTS = sized(120, 8_000, 50_000)
GOING_ON = sized(12, 400, 2_000)


def cut_power(recorded: Recorded, points: int) -> int:
    """Let the power go at that many moments, spread over all that was done."""
    seeds = max(points // len(recorded.acts), 1)
    looked = 0
    for number, disk in recorded.moments(max(len(recorded.acts) // points, 1)):
        for seed in range(seeds):
            random = Random(seeded(number * 1000 + seed))  # noqa: S311 (the same every time)
            assert_survived(recorded, number, disk.without_power(random))
            looked += 1
    return looked


def test_what_was_acknowledged_survives_the_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = record(Sandbox(tmp_path), monkeypatch)

    looked = cut_power(recorded, POINTS)

    assert looked >= 0.9 * POINTS
    reached("power cuts, SQLite files", looked)


def go_on(recorded: Recorded, sandbox: Sandbox, points: int) -> int:
    """Let the power go at some moments, and have the next ingestion see to it."""
    random = Random(seeded(points))  # noqa: S311 (the same every time)
    shutil.rmtree(sandbox.archive)
    looked = 0
    for number, disk in recorded.moments(max(len(recorded.acts) // points, 1)):
        lay(disk.without_power(random), sandbox.archive, sandbox.archive)
        said = max((at for at in recorded.texts if at <= number), default=None)
        if said is not None:
            lay(recorded.texts[said], sandbox.archive, sandbox.archive)
        sandbox.ingest()
        stored_bytes = sandbox.bytes()
        for path in sandbox.home.path.rglob("*.jsonl"):
            # A file that was purged in the end may be refused.
            assert stored_bytes.get(str(path), [b""])[-1] in (b"", path.read_bytes())
            assert str(path) in stored_bytes or path.stem == session_id(0)
        assert differing_tables(sandbox) == [], number
        shutil.rmtree(sandbox.archive)
        looked += 1
    return looked


@pytest.mark.full
def test_the_index_is_usable_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    with monkeypatch.context() as patched:
        recorded = record(sandbox, patched)

    looked = go_on(recorded, sandbox, GOING_ON)

    reached("ingests after a power cut, compared with a rebuild", looked)


@pytest.mark.full
def test_an_archive_that_does_not_wait_for_the_disk_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_archive_syncs(monkeypatch.setattr)
    recorded = record(Sandbox(tmp_path), monkeypatch)

    with pytest.raises(AssertionError):
        cut_power(recorded, 400)


@pytest.mark.full
def test_an_index_that_does_not_wait_for_the_disk_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    with monkeypatch.context() as patched:
        skip_index_syncs(patched.setattr)
        recorded = record(sandbox, patched)

    with pytest.raises(AssertionError, match="text"):
        go_on(recorded, sandbox, 40)
