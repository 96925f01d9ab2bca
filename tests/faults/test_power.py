"""Power cuts: acknowledged data survives, and the rest has no effect.

After a power cut, the archive continues and ends in the same state as an undisturbed one.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.build import session_id
from tests.faults.disk import write_files
from tests.faults.losing import Recording, assert_survived, record_ingestions
from tests.faults.mutations import skip_archive_syncs, skip_index_syncs
from tests.faults.sizes import reached, seeded, sized
from tests.store.sandbox import Sandbox, differing_tables

POINTS = sized(120, 8_000, 50_000)
INGESTS = sized(12, 400, 2_000)


def cut_power(recording: Recording, points: int) -> int:
    """Cut the power at that many moments, spread over all operations."""
    seeds = -(-points // len(recording.operations))
    count = 0
    for number, disk in recording.moments(max(len(recording.operations) // points, 1)):
        for seed in range(seeds):
            random = Random(seeded(number * 1000 + seed))  # noqa: S311 (the same every time)
            assert_survived(recording, number, disk.after_power_cut(random))
            count += 1
    return count


def test_what_was_acknowledged_survives_the_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record_ingestions(Sandbox(tmp_path), monkeypatch)

    count = cut_power(recording, POINTS)

    assert count >= 0.9 * POINTS
    reached("power cuts, SQLite files", count)


def ingest_after_power_cuts(recording: Recording, sandbox: Sandbox, points: int) -> int:
    """Cut the power at some moments; the next ingestion must recover."""
    random = Random(seeded(points))  # noqa: S311 (the same every time)
    shutil.rmtree(sandbox.archive)
    count = 0
    for number, disk in recording.moments(max(len(recording.operations) // points, 1)):
        write_files(disk.after_power_cut(random), sandbox.archive, sandbox.archive)
        latest = max((at for at in recording.texts if at <= number), default=None)
        if latest is not None:
            write_files(recording.texts[latest], sandbox.archive, sandbox.archive)
        sandbox.ingest()
        stored_bytes = sandbox.bytes()
        for path in sandbox.home.path.rglob("*.jsonl"):
            # A file that was purged in the end may be refused.
            assert stored_bytes.get(str(path), [b""])[-1] in (b"", path.read_bytes())
            assert str(path) in stored_bytes or path.stem == session_id(0)
        assert differing_tables(sandbox) == [], number
        shutil.rmtree(sandbox.archive)
        count += 1
    return count


@pytest.mark.full
def test_the_index_is_usable_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    with monkeypatch.context() as patched:
        recording = record_ingestions(sandbox, patched)

    count = ingest_after_power_cuts(recording, sandbox, INGESTS)

    reached("ingests after a power cut, compared with a rebuild", count)


@pytest.mark.full
def test_an_archive_that_does_not_wait_for_the_disk_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_archive_syncs(monkeypatch.setattr)
    recording = record_ingestions(Sandbox(tmp_path), monkeypatch)

    with pytest.raises(AssertionError):
        cut_power(recording, 400)


@pytest.mark.full
def test_an_index_that_does_not_wait_for_the_disk_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(tmp_path)
    with monkeypatch.context() as patched:
        skip_index_syncs(patched.setattr)
        recording = record_ingestions(sandbox, patched)

    with pytest.raises(AssertionError, match="text"):
        ingest_after_power_cuts(recording, sandbox, 40)
