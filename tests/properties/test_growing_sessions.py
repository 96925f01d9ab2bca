"""A session that grows has the same rows as one that is derived at once.

The session is divided wherever that is possible, and the other one never: so this also
tests that dividing changes nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from bygones.assemble import segments
from bygones.assemble.grouping import SessionRecords
from bygones.ingest import derive, growing, indexer
from bygones.ingest.growing import grow_session
from bygones.model.base import SessionId
from bygones.model.conversations import BranchSummary, ConversationHeader, StoredTurn
from bygones.model.summary import SessionSummary
from bygones.store.archive_dir import ArchiveDir
from bygones.store.derived_tables import DerivedTables
from tests.faults.sizes import seeded, sized
from tests.properties.growing import (
    Lines,
    cut_lines,
    write_files,
    write_steps,
)
from tests.properties.homes import temporary_sandbox
from tests.store.sandbox import Sandbox, differing_tables

_NEVER = 1 << 60


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Divide short sessions too, and count which ones continue from settled parts."""
    counts: Counter[str] = Counter()

    def count(
        archive_dir: ArchiveDir, tables: DerivedTables, number: int
    ) -> SessionId | None:
        session = grow_session(archive_dir, tables, number)
        counts["grown" if session else "derived again"] += 1
        return session

    monkeypatch.setattr(indexer, "grow_session", count)
    monkeypatch.setattr(indexer, "_MIN_DIVIDED_BYTES", 0)
    monkeypatch.setattr(derive, "MIN_DIVIDED_NODES", 4)
    monkeypatch.setattr(derive, "CUT_MARGIN", 1)
    return counts


def append(sandbox: Sandbox, lines: Lines) -> None:
    for path, raw in lines:
        file = sandbox.home.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as opened:
            opened.write(raw)
    sandbox.ingest()


def differences(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tables that differ from those of the session derived at once."""
    with monkeypatch.context() as patched:
        patched.setattr(derive, "MIN_DIVIDED_NODES", _NEVER)
        patched.setattr(indexer, "NODES_PER_PART", _NEVER)
        return differing_tables(sandbox)


def grow_and_compare(seed: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with temporary_sandbox() as sandbox:
        for part in cut_lines(write_files(seed, steps), seed):
            append(sandbox, part)

        assert differences(sandbox, monkeypatch) == [], seed


def test_growing_in_any_steps_gives_the_rows_of_the_whole(
    outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(seeded(4), seeded(4) + sized(2, 200, 4_000)):
        grow_and_compare(seed, (20, 40, 80, 150)[seed % 4], monkeypatch)

    assert outcomes["grown"]


_MODEST_STEPS = (
    *("prompt", "answer", "call", "parallel_calls", "metadata") * 3,
    *("agent", "interruption", "compaction", "open_call", "late_result"),
)
"""Actions whose records seldom refer to records long before them."""


def derive_in_parts_and_compare(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    with temporary_sandbox() as sandbox:
        append(sandbox, lines[:-12])

        assert differences(sandbox, monkeypatch) == []
        for start in range(-12, 0, 4):
            append(sandbox, lines[start : start + 4 or None])
        assert differences(sandbox, monkeypatch) == []


def write_modest_session(seed: int, steps: int) -> Lines:
    chosen = random.Random(seed).choices(_MODEST_STEPS, k=steps)  # noqa: S311 (not for secrets)
    return write_steps(*chosen)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Derive short sessions in parts too, and count how often that is possible."""
    counts: Counter[str] = Counter()

    def count(
        archive_dir: ArchiveDir, tables: DerivedTables, number: int
    ) -> SessionId | None:
        session = growing.derive_in_parts(archive_dir, tables, number)
        counts["in parts" if session else "whole"] += 1
        return session

    monkeypatch.setattr(indexer, "derive_in_parts", count)
    monkeypatch.setattr(indexer, "NODES_PER_PART", 4)
    monkeypatch.setattr(growing, "NODES_PER_PART", 24)
    monkeypatch.setattr(growing, "_LARGER_PARTS", 2)
    monkeypatch.setattr(derive, "MIN_DIVIDED_NODES", 4)
    monkeypatch.setattr(derive, "CUT_MARGIN", 1)
    return counts


def test_deriving_in_parts_gives_the_rows_of_the_whole(
    parts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(seeded(4), seeded(4) + sized(3, 200, 4_000)):
        derive_in_parts_and_compare(write_modest_session(seed, 120), monkeypatch)

    assert parts["in parts"]


@pytest.mark.full
def test_deriving_many_more_in_parts_gives_the_rows_of_the_whole(
    parts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(500, 540):
        derive_in_parts_and_compare(write_modest_session(seed, 200), monkeypatch)
        derive_in_parts_and_compare(write_files(seed, 60), monkeypatch)

    assert parts["in parts"] > 10
    assert parts["whole"]


def test_overlooked_reference_to_an_earlier_part_is_caught(
    parts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_OPEN_CALL_WINDOW", 8)
    monkeypatch.setattr(segments._Suffix, "is_closed", lambda *_: True)
    monkeypatch.setattr(DerivedTables, "has_settled_key", lambda *_: False)
    monkeypatch.setattr(derive, "used_ids", lambda *_: ())

    with temporary_sandbox() as sandbox:
        append(sandbox, _LATE_RESULT)

        assert differences(sandbox, monkeypatch) != []
    assert parts == {"in parts": 1}


@pytest.mark.full
def test_growing_in_many_more_steps_gives_the_rows_of_the_whole(
    outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(500, 560):
        grow_and_compare(seed, (20, 40, 80, 150)[seed % 4], monkeypatch)

    assert outcomes["grown"] > outcomes["derived again"] > 0


@pytest.mark.full
def test_session_cut_at_every_line_gives_the_rows_of_the_whole(
    outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with temporary_sandbox() as sandbox:
        for number, line in enumerate(write_files(7, 60)):
            append(sandbox, [line])
            if number % 5 == 0:
                assert differences(sandbox, monkeypatch) == [], number

    assert outcomes["grown"] > outcomes["derived again"]


def grow_end(
    seed: int, shape: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Append the last lines of a session in which one action of ten is of a shape."""
    chance = random.Random(seed)  # noqa: S311 (not for secrets)
    plain = ("prompt", "answer", "call", "parallel_calls")
    names = [
        chance.choice(shape if chance.random() < 0.1 else plain) for _ in range(500)
    ]
    lines = write_steps(*names)
    with temporary_sandbox() as sandbox:
        append(sandbox, lines[:-160])
        for start in range(-160, 0, 4):
            append(sandbox, lines[start : start + 4 or None])

        assert differences(sandbox, monkeypatch) == [], seed


_SHAPES = {
    "queue": ("combine", "deliver"),
    "queue with removed texts": ("steer",),
    "any queue operations": ("queue", "queue", "queue", "pop_all"),
    "metadata": ("metadata", "cost", "notice"),
    "late results": ("open_call", "late_result"),
    "open calls": ("open_call", "refused_call", "interruption"),
    "late answers": ("late_answer",),
}


@pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES)
def test_session_with_many_queue_operations_or_late_results_is_divided(
    shape: tuple[str, ...], outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derive, "MIN_DIVIDED_NODES", 64)
    monkeypatch.setattr(derive, "CUT_MARGIN", 16)
    sizes: list[int] = []

    def load(end: growing._SessionEnd) -> SessionRecords:
        records = load_end(end)
        sizes.append(len(records.nodes))
        return records

    load_end = growing._SessionEnd.load
    monkeypatch.setattr(growing._SessionEnd, "load", load)

    for seed in range(seeded(4), seeded(4) + sized(1, 40, 400)):
        grow_end(seed, shape, monkeypatch)

    assert outcomes["grown"] > 2 * outcomes["derived again"]
    assert median(sizes) < 100


def test_text_that_was_queued_long_ago_does_not_make_an_append_expensive(
    outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derive, "MIN_DIVIDED_NODES", 64)
    monkeypatch.setattr(derive, "CUT_MARGIN", 16)
    before = ("combine", *("prompt", "answer", "call") * 60)
    lines = write_steps(*before, *("deliver", "prompt", "answer") * 8)
    with temporary_sandbox() as sandbox:
        append(sandbox, lines[: len(write_steps(*before))])
        outcomes.clear()
        for line in lines[len(write_steps(*before)) :]:
            append(sandbox, [line])

        assert differences(sandbox, monkeypatch) == []
    assert outcomes["derived again"] == 0
    assert outcomes["grown"]


@pytest.mark.full
def test_session_with_many_rewinds_has_the_rows_of_the_whole(
    outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derive, "MIN_DIVIDED_NODES", 64)
    monkeypatch.setattr(derive, "CUT_MARGIN", 16)

    for seed in range(500, 540):
        grow_end(seed, ("rewind",), monkeypatch)

    assert outcomes["grown"] > outcomes["derived again"]


_LATE_RESULT = write_steps(
    *("prompt", "open_call", *("prompt", "answer") * 20, "late_result", "answer")
)


def test_late_result_of_a_settled_call_is_shown_at_the_call(
    outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sandbox = Sandbox(tmp_path)
    monkeypatch.setattr(segments, "_OPEN_CALL_WINDOW", 8)

    for start in range(0, len(_LATE_RESULT), 5):
        append(sandbox, _LATE_RESULT[start : start + 5])

    assert differences(sandbox, monkeypatch) == []
    assert outcomes["derived again"] == 1


def test_overlooked_late_result_is_caught(
    outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sandbox = Sandbox(tmp_path)
    monkeypatch.setattr(segments, "_OPEN_CALL_WINDOW", 8)
    monkeypatch.setattr(segments._Suffix, "is_closed", lambda *_: True)
    monkeypatch.setattr(DerivedTables, "has_settled_key", lambda *_: False)
    monkeypatch.setattr(derive, "used_ids", lambda *_: ())

    for start in range(0, len(_LATE_RESULT), 5):
        append(sandbox, _LATE_RESULT[start : start + 5])

    assert differences(sandbox, monkeypatch) != []
    assert not outcomes["derived again"]


def test_append_writes_only_the_last_rows(
    outcomes: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(derive, "MIN_DIVIDED_NODES", 64)
    lines = write_steps(*("prompt", "answer", "call") * 50)
    sandbox = Sandbox(tmp_path)
    append(sandbox, lines[:-1])
    before = sandbox.index_rows("SELECT rowid, frame FROM message_block")

    append(sandbox, lines[-1:])

    after = sandbox.index_rows("SELECT rowid, frame FROM message_block")
    assert outcomes == {"grown": 1}
    assert before[:-1] == after[: len(before) - 1]


_ADDED_WHEN_READ = {"project_paths", "person", "identity"}


def test_every_field_of_two_parts_is_joined() -> None:
    """A new field belongs here, once `ingest.derive` joins it."""
    fields = [
        [name for name in kind.__struct_fields__ if name not in _ADDED_WHEN_READ]
        for kind in (SessionSummary, ConversationHeader, BranchSummary, StoredTurn)
    ]

    assert [(names[-1], len(names)) for names in fields] == [
        ("empty_reason", 26),
        ("empty_reason", 22),
        ("cut_turn", 17),
        ("duration", 5),
    ]
