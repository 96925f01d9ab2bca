"""Invariants of the archive."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bygones.archive import Archive
from bygones.maintenance.restore import plan_restore, restore
from bygones.model.sessions import Session
from bygones.reader import read_sessions
from bygones.store import derived_tables
from tests.faults.sizes import sized
from tests.properties import homes
from tests.properties.homes import layouts, temporary_sandbox, write_layout
from tests.store.sandbox import Sandbox, differing_tables

few_examples = settings(max_examples=sized(8, 500, 5_000))
more_examples = settings(max_examples=sized(12, 1_000, 10_000))


@st.composite
def growing_layouts(draw: st.DrawFn) -> list[dict[str, bytes]]:
    """Return a home as it grows: files appear in any order and are cut anywhere."""
    whole = draw(layouts())
    stages = []
    at = dict.fromkeys(whole, -1)
    for _ in range(draw(st.integers(1, 3))):
        for name in draw(st.lists(st.sampled_from(sorted(whole)), max_size=4)):
            at[name] = draw(st.integers(max(at[name], 0), len(whole[name])))
        stages.append({n: whole[n][:cut] for n, cut in at.items() if cut >= 0})
    return [*stages, whole]


@few_examples
@given(layouts())
def test_ingesting_again_changes_nothing(layout: dict[str, bytes]) -> None:
    with temporary_sandbox() as sandbox:
        write_layout(sandbox, layout)
        sandbox.ingest()
        before, stored = sandbox.dump(), sandbox.bytes()

        again = sandbox.ingest()

        assert (again.changed, again.gone, again.bytes, again.derived_sessions) == (
            0,
            0,
            0,
            0,
        )
        assert (sandbox.dump(), sandbox.bytes()) == (before, stored)


@more_examples
@given(growing_layouts())
def test_prefix_then_whole_equals_whole(stages: list[dict[str, bytes]]) -> None:
    with temporary_sandbox() as sandbox:
        write_layout(sandbox, dict.fromkeys(stages[-1], b""))
        for layout in stages:
            write_layout(sandbox, layout)
            sandbox.ingest()
        other = Sandbox(sandbox.folder)
        other.archive = sandbox.folder / "at-once"

        other.ingest()

        assert sandbox.bytes() == other.bytes()
        assert sandbox.dump() == other.dump()


@more_examples
@given(growing_layouts())
def test_incremental_index_equals_a_rebuilt_one(
    stages: list[dict[str, bytes]],
) -> None:
    with temporary_sandbox() as sandbox:
        for layout in stages:
            write_layout(sandbox, layout)
            sandbox.ingest()

        assert differing_tables(sandbox) == []


@few_examples
@given(growing_layouts())
def test_full_and_partial_family_search_agree(stages: list[dict[str, bytes]]) -> None:
    with temporary_sandbox() as sandbox, pytest.MonkeyPatch.context() as patched:
        for layout in stages:
            write_layout(sandbox, layout)
            sandbox.ingest()
        patched.setattr(derived_tables, "_FULL_SCAN_MIN", -1)

        assert differing_tables(sandbox) == []


@few_examples
@given(layouts())
def test_every_byte_is_restored(layout: dict[str, bytes]) -> None:
    with temporary_sandbox() as sandbox:
        write_layout(sandbox, layout)
        sandbox.ingest()
        target_dir = sandbox.folder / "restored"

        with sandbox.open_dir() as archive_dir:
            restore(
                archive_dir,
                plan_restore(
                    archive_dir, archive_dir.byte_store.sources(), target=target_dir
                ),
            )

        assert {
            path.relative_to(target_dir).as_posix(): path.read_bytes()
            for path in target_dir.rglob("*")
            if path.is_file()
        } == layout


@pytest.mark.req("F5", "T6")
@more_examples
@given(layouts().filter(lambda layout: any(n.endswith(".jsonl") for n in layout)))
def test_archived_session_equals_the_session_read_from_files(
    layout: dict[str, bytes],
) -> None:
    with temporary_sandbox() as sandbox:
        write_layout(sandbox, layout)
        sandbox.ingest()

        with Archive.open(sandbox.archive) as archive:
            for session in read_sessions(sandbox.home.path):
                found = archive.session(session.id)
                assert found == session
                assert blocks(found) == blocks(session)
            listed = {line.id for line in archive.sessions(include_empty=True)}
        assert listed == {session.id for session in read_sessions(sandbox.home.path)}


def blocks(session: Session) -> list[object]:
    """Return the texts of a session."""
    messages = [m for branch in session.branches for m in branch.messages]
    messages += [m for run in session.all_agents for m in run.live_branch.messages]
    return [message.blocks for message in messages]


@pytest.mark.req("T6")
@more_examples
@given(layouts())
def test_usage_of_an_answer_is_counted_once(layout: dict[str, bytes]) -> None:
    with temporary_sandbox() as sandbox:
        write_layout(sandbox, layout)
        sandbox.ingest()

        with Archive.open(sandbox.archive) as archive:
            ids = [line.id for line in archive.sessions(include_empty=True)]
            sessions = [archive.session(id_) for id_ in ids]
        counts = Counter(
            usage.key for session in sessions for usage in session.message_usages
        )
        assert set(counts.values()) <= {1}


@more_examples
@given(layouts())
def test_every_record_is_indexed_once_per_location(
    layout: dict[str, bytes],
) -> None:
    with temporary_sandbox() as sandbox:
        write_layout(sandbox, layout)
        sandbox.ingest()

        rows = sandbox.index_rows("SELECT source, start, length FROM record")
        texts = sandbox.index_rows("SELECT count(*) FROM text_deletion")

        assert len(rows) == len(set(rows))
        assert texts == [(0,)]


def test_generated_homes_have_every_kind_of_file(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    write_layout(sandbox, dict.fromkeys(homes.NAMES, b"{}\n"))

    sandbox.ingest()

    kinds = {stored.kind.value for stored in sandbox.sources().values()}
    assert kinds == {"session", "agent", "sidecar", "tool-result", "file-history"}
