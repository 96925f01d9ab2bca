"""Journals of workflows are used whenever they arrive."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from bygones import reader
from bygones.archive import Archive
from bygones.errors import NoTranscriptsFound
from bygones.ingest import loading
from bygones.model.base import SessionId, SourceKind
from bygones.model.summary import AgentStatus
from bygones.store.archive_db import CHUNK_SIZE
from tests.build import SESSION, jsonl, line, prompt, session
from tests.cases.shape import written
from tests.store.sandbox import Sandbox, differing_tables
from tests.workflows import RUN, step, write_agent, write_journal

STARTED = step("started", "a1", label="The part")
RESULT = step("result", "a1", result={"n": 1})
UNKNOWN = (None, AgentStatus.COMPLETED)
RUNNING = ("The part", AgentStatus.RUNNING)
COMPLETED = ("The part", AgentStatus.COMPLETED)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    made = Sandbox(tmp_path)
    made.home.session(SESSION, session("p", "a<p"))
    write_agent(made.home, "a1", session("w", "v<w"))
    return made


def agent_facts(sandbox: Sandbox) -> tuple[str | None, AgentStatus]:
    """Return description and status of the agent, after comparing both ways of reading."""
    with Archive(sandbox.archive) as archive:
        session_kept = archive.session(SessionId(SESSION))
    (read,) = reader.read_sessions(sandbox.home.path)
    assert written([session_kept]) == written([read])
    assert differing_tables(sandbox) == []
    (run,) = session_kept.agents
    return run.description, run.status


@pytest.mark.req("A4")
def test_journal_that_arrives_after_its_agent_is_used(
    sandbox: Sandbox,
) -> None:
    sandbox.ingest()
    assert agent_facts(sandbox) == UNKNOWN

    write_journal(sandbox.home, STARTED)
    assert sandbox.ingest().updated_sessions == [SESSION]
    assert agent_facts(sandbox) == RUNNING

    write_journal(sandbox.home, STARTED, RESULT)
    assert sandbox.ingest().updated_sessions == [SESSION]
    assert agent_facts(sandbox) == COMPLETED


@pytest.mark.req("A4")
def test_journal_that_arrives_before_its_agent_is_used(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(SESSION, session("p", "a<p"))
    write_journal(sandbox.home, STARTED)
    sandbox.ingest()
    write_agent(sandbox.home, "a1", session("w", "v<w"))
    sandbox.ingest()

    assert agent_facts(sandbox) == RUNNING


def test_journal_line_may_be_written_in_two_steps(sandbox: Sandbox) -> None:
    path = write_journal(sandbox.home, STARTED)
    started, cut = path.read_bytes(), len(line(RESULT)) // 2
    path.write_bytes(started + line(RESULT)[:cut])
    sandbox.ingest()
    assert agent_facts(sandbox) == RUNNING

    path.write_bytes(started + line(RESULT))
    sandbox.ingest()
    assert agent_facts(sandbox) == COMPLETED


def test_rewritten_journal_replaces_the_old_one(sandbox: Sandbox) -> None:
    path = write_journal(sandbox.home, STARTED, RESULT)
    sandbox.ingest()
    path.write_bytes(jsonl([STARTED]))
    sandbox.ingest()

    assert agent_facts(sandbox) == RUNNING


@pytest.mark.parametrize("target", ["../wf_76543210-abc", ".."])
def test_moved_journal_is_not_used_any_more(sandbox: Sandbox, target: str) -> None:
    path = write_journal(sandbox.home, STARTED)
    sandbox.ingest()
    assert agent_facts(sandbox) == RUNNING

    folder = path.parent / target
    folder.mkdir(exist_ok=True)
    path.rename(folder / path.name)
    sandbox.ingest()

    assert agent_facts(sandbox) == UNKNOWN


def test_moved_sidecar_is_not_used_any_more(sandbox: Sandbox) -> None:
    path = write_agent(
        sandbox.home, "a1", session("w", "v<w"), meta={"description": "The part"}
    ).with_suffix(".meta.json")
    sandbox.ingest()
    assert agent_facts(sandbox) == COMPLETED

    path.rename(path.with_name("agent-a2.meta.json"))
    sandbox.ingest()

    assert agent_facts(sandbox) == UNKNOWN


def test_damaged_journal_line_only_loses_itself(sandbox: Sandbox) -> None:
    write_journal(sandbox.home, b"{broken", STARTED, b"\xff", [], {}, RESULT)
    sandbox.ingest()

    assert agent_facts(sandbox) == COMPLETED


def test_damaged_journal_chunk_only_loses_its_lines(sandbox: Sandbox) -> None:
    long = step("started", "a1", label="x" * CHUNK_SIZE)
    other = step("started", "a2", label="y" * CHUNK_SIZE)
    write_journal(sandbox.home, long, other, step("failed", "a1"))
    sandbox.ingest()
    with sandbox.open_dir(write=True) as archive_dir:
        journal = sandbox.sources()["journal.jsonl"].number
        archive_dir.byte_store.db.execute(
            "UPDATE chunk SET frame = x'00' WHERE source = ? AND start = 0", (journal,)
        )
    with Archive(sandbox.archive) as archive:
        (run,) = archive.session(SessionId(SESSION)).agents

    assert (run.description, run.status) == (None, AgentStatus.FAILED)


def test_journal_of_another_run_is_ignored(sandbox: Sandbox) -> None:
    path = write_journal(sandbox.home, STARTED)
    other = path.parent.with_name(RUN.replace("0", "9"))
    other.mkdir()
    path.rename(other / path.name)
    sandbox.ingest()

    assert agent_facts(sandbox) == UNKNOWN


def test_agent_only_named_in_a_journal_is_ignored(sandbox: Sandbox) -> None:
    write_journal(sandbox.home, STARTED, step("started", "a2", label="Another"))
    sandbox.ingest()

    assert agent_facts(sandbox) == RUNNING


def test_journal_without_transcripts_makes_no_session(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    write_journal(sandbox.home, STARTED, prompt("Not said"))
    sandbox.ingest()

    with Archive(sandbox.archive) as archive:
        assert list(archive.sessions()) == []
    with pytest.raises(NoTranscriptsFound):
        list(reader.read_sessions(sandbox.home.path))


@pytest.mark.parametrize("junk", [b'{"type":"x"}\n', b"\n", b"{\n"])
def test_junk_in_a_journal_is_not_in_memory_at_once(
    sandbox: Sandbox, junk: bytes
) -> None:
    path = write_journal(sandbox.home, STARTED)
    raw = path.read_bytes() + junk * (300_000 // len(junk))
    path.write_bytes(raw)
    sandbox.ingest()
    with sandbox.open_dir() as archive_dir:
        (source,) = archive_dir.byte_store.sources_of_kind(SourceKind.JOURNAL)
        place = (source.home, source.path.removesuffix("/journal.jsonl"))
        tracemalloc.start()
        try:
            steps = loading._load_journal(archive_dir, *place)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert set(steps) == {"a1"}
    assert peak < 15 * len(raw)
