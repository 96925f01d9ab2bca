"""Journals of workflows are used whenever they arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones import reader
from bygones.archive import Archive
from bygones.errors import NoTranscriptsFound
from bygones.model.base import SessionId
from bygones.model.summary import AgentStatus
from bygones.store.archive_db import CHUNK_SIZE
from tests.build import SESSION, jsonl, line, prompt, session
from tests.cases.shape import written
from tests.store.keeping import Keeping, unlike_rebuilt
from tests.workflows import RUN, step, write_agent, write_journal

STARTED = step("started", "a1", label="The part")
RESULT = step("result", "a1", result={"n": 1})
UNKNOWN = (None, AgentStatus.COMPLETED)
RUNNING = ("The part", AgentStatus.RUNNING)
COMPLETED = ("The part", AgentStatus.COMPLETED)


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    made = Keeping(tmp_path)
    made.home.session(SESSION, session("p", "a<p"))
    write_agent(made.home, "a1", session("w", "v<w"))
    return made


def agent_facts(keeping: Keeping) -> tuple[str | None, AgentStatus]:
    """Return description and status of the agent, after comparing both ways of reading."""
    with Archive(keeping.archive) as archive:
        session_kept = archive.session(SessionId(SESSION))
    (read,) = reader.read_sessions(keeping.home.path)
    assert written([session_kept]) == written([read])
    assert unlike_rebuilt(keeping) == []
    (run,) = session_kept.agents
    return run.description, run.status


@pytest.mark.req("A4")
def test_journal_that_arrives_after_its_agent_is_used(
    keeping: Keeping,
) -> None:
    keeping.ingest()
    assert agent_facts(keeping) == UNKNOWN

    write_journal(keeping.home, STARTED)
    assert keeping.ingest().updated_sessions == [SESSION]
    assert agent_facts(keeping) == RUNNING

    write_journal(keeping.home, STARTED, RESULT)
    assert keeping.ingest().updated_sessions == [SESSION]
    assert agent_facts(keeping) == COMPLETED


@pytest.mark.req("A4")
def test_journal_that_arrives_before_its_agent_is_used(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    keeping.home.session(SESSION, session("p", "a<p"))
    write_journal(keeping.home, STARTED)
    keeping.ingest()
    write_agent(keeping.home, "a1", session("w", "v<w"))
    keeping.ingest()

    assert agent_facts(keeping) == RUNNING


def test_journal_line_may_be_written_in_two_steps(keeping: Keeping) -> None:
    path = write_journal(keeping.home, STARTED)
    started, cut = path.read_bytes(), len(line(RESULT)) // 2
    path.write_bytes(started + line(RESULT)[:cut])
    keeping.ingest()
    assert agent_facts(keeping) == RUNNING

    path.write_bytes(started + line(RESULT))
    keeping.ingest()
    assert agent_facts(keeping) == COMPLETED


def test_rewritten_journal_replaces_the_old_one(keeping: Keeping) -> None:
    path = write_journal(keeping.home, STARTED, RESULT)
    keeping.ingest()
    path.write_bytes(jsonl([STARTED]))
    keeping.ingest()

    assert agent_facts(keeping) == RUNNING


@pytest.mark.parametrize("place", ["../wf_76543210-abc", ".."])
def test_moved_journal_is_not_used_any_more(keeping: Keeping, place: str) -> None:
    path = write_journal(keeping.home, STARTED)
    keeping.ingest()
    assert agent_facts(keeping) == RUNNING

    folder = path.parent / place
    folder.mkdir(exist_ok=True)
    path.rename(folder / path.name)
    keeping.ingest()

    assert agent_facts(keeping) == UNKNOWN


def test_moved_sidecar_is_not_used_any_more(keeping: Keeping) -> None:
    path = write_agent(
        keeping.home, "a1", session("w", "v<w"), meta={"description": "The part"}
    ).with_suffix(".meta.json")
    keeping.ingest()
    assert agent_facts(keeping) == COMPLETED

    path.rename(path.with_name("agent-a2.meta.json"))
    keeping.ingest()

    assert agent_facts(keeping) == UNKNOWN


def test_damaged_journal_line_only_loses_itself(keeping: Keeping) -> None:
    write_journal(keeping.home, b"{broken", STARTED, b"\xff", [], {}, RESULT)
    keeping.ingest()

    assert agent_facts(keeping) == COMPLETED


def test_damaged_journal_chunk_only_loses_its_lines(keeping: Keeping) -> None:
    long = step("started", "a1", label="x" * CHUNK_SIZE)
    other = step("started", "a2", label="y" * CHUNK_SIZE)
    write_journal(keeping.home, long, other, step("failed", "a1"))
    keeping.ingest()
    with keeping.vault(write=True) as archive_dir:
        journal = keeping.sources()["journal.jsonl"].number
        archive_dir.byte_store.db.execute(
            "UPDATE chunk SET frame = x'00' WHERE source = ? AND start = 0", (journal,)
        )
    with Archive(keeping.archive) as archive:
        (run,) = archive.session(SessionId(SESSION)).agents

    assert (run.description, run.status) == (None, AgentStatus.FAILED)


def test_journal_of_another_run_is_ignored(keeping: Keeping) -> None:
    path = write_journal(keeping.home, STARTED)
    other = path.parent.with_name(RUN.replace("0", "9"))
    other.mkdir()
    path.rename(other / path.name)
    keeping.ingest()

    assert agent_facts(keeping) == UNKNOWN


def test_agent_only_named_in_a_journal_is_ignored(keeping: Keeping) -> None:
    write_journal(keeping.home, STARTED, step("started", "a2", label="Another"))
    keeping.ingest()

    assert agent_facts(keeping) == RUNNING


def test_journal_without_transcripts_makes_no_session(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    write_journal(keeping.home, STARTED, prompt("Not said"))
    keeping.ingest()

    with Archive(keeping.archive) as archive:
        assert list(archive.sessions()) == []
    with pytest.raises(NoTranscriptsFound):
        list(reader.read_sessions(keeping.home.path))
