"""Purging leaves no bytes, and purged data is not imported again."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from bygones.errors import SystemFailure
from bygones.maintenance.purge import purge
from bygones.maintenance.verify import verify
from bygones.model.base import SessionId
from bygones.store.archive_db import ARCHIVE_FILE, StoredSource
from bygones.store.archive_dir import ArchiveDir
from tests.build import image, jsonl, prompt, reply, session, session_id, summary
from tests.faults.traces import iter_contents
from tests.store.sandbox import Sandbox, differing_tables

ONE, TWO = session_id(1), session_id(2)
CANARIES = [f"canary{secrets.token_hex(12)}" for _ in range(10)]


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """Return an archive of two sessions, one with canaries everywhere."""
    sandbox = Sandbox(tmp_path)
    home, birds = sandbox.home, CANARIES
    path = home.session(
        ONE, [prompt(birds[0]), reply(birds[1]), summary(birds[2], "x")]
    )
    home.agent(ONE, "abc1234", [prompt(birds[3])], meta={"description": birds[4]})
    home.backup(ONE, "0f1e2d3c4b5a6978@v1", birds[5].encode())
    home.tool_result(ONE, "toolu_1.txt", birds[6])
    home.session(TWO, session("a", "b<a"))
    sandbox.ingest()
    older = path.read_bytes()
    path.write_bytes(jsonl([prompt(birds[7]), prompt([image(birds[8])])]) + older)
    sandbox.ingest()
    with path.open("ab") as file:
        file.write(birds[9].encode())
    sandbox.ingest()
    return sandbox


def all_sources(folder: Path) -> bytes:
    return b"\0".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())


def session_sources(sandbox: Sandbox, *, session: str = ONE) -> list[StoredSource]:
    found = sandbox.sources().values()
    return [source for source in found if source.session == session]


def find_canaries(sandbox: Sandbox) -> list[str]:
    """Return the canaries that any file in the archive's folder still contains."""
    found = [raw for _, raw in iter_contents(sandbox.archive)]
    return [bird for bird in CANARIES if any(bird.encode() in raw for raw in found)]


def frames(sandbox: Sandbox) -> list[bytes]:
    """Return the compressed bytes of the session to purge."""
    tables = ("chunk", "fragment")
    sql = "SELECT frame FROM {} JOIN source ON source.id = source WHERE session = '{}'"
    rows = [row for table in tables for row in sandbox.rows(sql.format(table, ONE))]
    return [frame for (frame,) in rows if isinstance(frame, bytes)]


def test_stored_text_can_be_found_in_the_files(sandbox: Sandbox) -> None:
    raw = all_sources(sandbox.archive)

    assert find_canaries(sandbox) == list(CANARIES)
    assert len(frames(sandbox)) >= 7
    assert all(frame in raw for frame in frames(sandbox))


def test_purge_leaves_no_bytes(sandbox: Sandbox) -> None:
    before = frames(sandbox)

    purged = purge(sandbox.archive, session_sources(sandbox))

    assert purged.sources == 5
    assert find_canaries(sandbox) == []
    raw = all_sources(sandbox.archive)
    assert [frame for frame in before if frame[9:33] in raw] == []
    assert verify(sandbox.archive, deep=True).is_intact
    assert differing_tables(sandbox) == []


def test_purge_leaves_no_bytes_after_readers_have_closed(sandbox: Sandbox) -> None:
    with sandbox.open_dir() as reader:
        assert reader.index is not None
        assert list(reader.text_index.iter_documents())
        purge(sandbox.archive, session_sources(sandbox))

    assert find_canaries(sandbox) == []


def test_purge_keeps_other_sessions(sandbox: Sandbox) -> None:
    (other,) = (sandbox.home.path / "projects").rglob(f"{TWO}.jsonl")

    purge(sandbox.archive, session_sources(sandbox))

    assert sandbox.bytes() == {str(other): [other.read_bytes()]}


def test_purged_files_are_refused(sandbox: Sandbox) -> None:
    purge(sandbox.archive, session_sources(sandbox))

    report = sandbox.ingest()

    assert (report.refused, report.new, report.bytes) == (5, 0, 0)
    assert find_canaries(sandbox) == []


def test_purged_files_are_refused_at_other_paths(sandbox: Sandbox) -> None:
    purge(sandbox.archive, session_sources(sandbox))
    elsewhere = sandbox.folder / "elsewhere"
    (sandbox.home.path / "projects").rename(elsewhere)

    report = sandbox.ingest(elsewhere)
    (elsewhere / "-work-demo").rename(elsewhere / "-work-other")
    again = sandbox.ingest(elsewhere)

    assert (report.refused, again.refused) == (4, 4)
    assert find_canaries(sandbox) == []


def test_new_agent_of_a_purged_session_is_refused(sandbox: Sandbox) -> None:
    purge(sandbox.archive, session_sources(sandbox))
    agent = sandbox.home.agent(
        ONE, "zzz", [prompt(CANARIES[0])], flat=True, meta={"description": CANARIES[1]}
    )
    agent.write_bytes(b"no record\n" + b"x" * 100_000 + b"\n" + agent.read_bytes())

    report = sandbox.ingest()

    assert (report.refused, report.new, report.bytes) == (7, 0, 0)
    assert find_canaries(sandbox) == []


def test_agent_is_refused_once_it_names_its_purged_session(
    sandbox: Sandbox,
) -> None:
    purge(sandbox.archive, session_sources(sandbox))
    agent = sandbox.home.agent(ONE, "zzz", [prompt(CANARIES[0])], flat=True)
    raw = agent.read_bytes()
    agent.write_bytes(b"")
    assert sandbox.ingest().new == 1
    agent.write_bytes(raw)

    for _ in range(2):
        report = sandbox.ingest()
        assert (report.grown, report.rewritten, report.bytes) == (0, 0, 0)
    assert find_canaries(sandbox) == []


def test_purged_session_is_refused_under_any_file_name(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session("copy", session("a", "b<a", sessionId=ONE))
    sandbox.ingest()
    purge(
        sandbox.archive,
        session_sources(sandbox, session="copy"),
        sessions=[SessionId(ONE)],
    )
    sandbox.home.session(ONE, session("a", "b<a"))
    sandbox.home.agent(ONE, "zzz", [prompt(CANARIES[0])], flat=True)

    assert sandbox.ingest().refused == 3


def test_new_agent_of_another_session_is_imported(sandbox: Sandbox) -> None:
    purge(sandbox.archive, session_sources(sandbox))
    sandbox.home.agent(TWO, "yyy", [prompt("Count")], flat=True)
    sandbox.home.agent(TWO, "empty", [], flat=True)

    report = sandbox.ingest()

    assert (report.refused, report.new) == (5, 2)
    assert differing_tables(sandbox) == []


def test_purge_deletes_copies_of_older_versions(sandbox: Sandbox) -> None:
    copy = sandbox.archive / f"{ARCHIVE_FILE}.version-1"
    with sandbox.open_dir() as archive_dir:
        archive_dir.byte_store.backup(copy)

    purge(sandbox.archive, session_sources(sandbox))

    assert find_canaries(sandbox) == []


@pytest.mark.parametrize(
    "step", ["erase_source", "vacuum", "remove_all_indexes", "begin_index_build"]
)
def test_interrupted_purge_is_finished_by_the_next(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    chosen = session_sources(sandbox)
    owner = "archive_dir.ArchiveDir" if "index" in step else "archive_db.ArchiveDB"
    monkeypatch.setattr(f"bygones.store.{owner}.{step}", stop)
    with pytest.raises(KeyboardInterrupt):
        purge(sandbox.archive, chosen)
    monkeypatch.undo()

    purge(sandbox.archive, chosen)

    assert find_canaries(sandbox) == []
    assert differing_tables(sandbox) == []


def test_interrupted_purge_does_not_show_purged_data(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bygones.store.archive_db.ArchiveDB.vacuum", stop)
    with pytest.raises(KeyboardInterrupt):
        purge(sandbox.archive, session_sources(sandbox))
    monkeypatch.undo()

    sandbox.ingest()

    with sandbox.open_dir() as archive_dir:
        assert len(list(archive_dir.text_index.iter_documents())) == 2
    assert differing_tables(sandbox) == []


def test_purge_that_cannot_remove_the_text_index_can_be_repeated(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    plainly = os.unlink

    def stubborn(path: str, **how: int) -> None:
        if str(path).endswith(".term"):
            raise PermissionError(13, "somebody has it open", path)
        plainly(path, **how)

    chosen = session_sources(sandbox)
    monkeypatch.setattr(os, "unlink", stubborn)
    with pytest.raises(SystemFailure, match="could not be removed"):
        purge(sandbox.archive, chosen)
    monkeypatch.undo()

    purge(sandbox.archive, chosen)

    assert find_canaries(sandbox) == []
    assert differing_tables(sandbox) == []


def test_empty_purge_changes_nothing(sandbox: Sandbox) -> None:
    before = sandbox.dump(), sandbox.bytes()

    assert purge(sandbox.archive, []).sources == 0
    assert (sandbox.dump(), sandbox.bytes()) == before
    assert ArchiveDir.exists(sandbox.archive)
    assert os.access(sandbox.archive, os.R_OK)


def test_source_that_reused_a_purged_number_is_kept(
    sandbox: Sandbox,
) -> None:
    three = session_id(3)
    path = sandbox.home.session(three, session("c", "d<c"))
    sandbox.ingest()
    seen = session_sources(sandbox, session=three)
    purge(sandbox.archive, seen, sessions=[SessionId(three)])  # by another process
    path.unlink()
    sandbox.home.session(session_id(4), session("e"))
    sandbox.ingest()
    (four,) = session_sources(sandbox, session=session_id(4))
    assert four.number == seen[0].number

    assert purge(sandbox.archive, seen, sessions=[SessionId(three)]).sources == 0
    assert session_sources(sandbox, session=session_id(4)) == [four]
    assert differing_tables(sandbox) == []


def test_new_and_moved_files_of_a_session_are_purged_with_it(
    sandbox: Sandbox,
) -> None:
    seen = session_sources(sandbox)
    sandbox.home.agent(ONE, "fff9999", [prompt(CANARIES[0])])
    moved = sandbox.home.path.with_name("moved")
    sandbox.home.path.rename(moved)
    sandbox.ingest(moved)
    assert {source.home for source in session_sources(sandbox)} == {str(moved)}

    purged = purge(sandbox.archive, seen, sessions=[SessionId(ONE)])

    assert purged.sources == len(seen) + 1
    assert find_canaries(sandbox) == []
    assert session_sources(sandbox) == []
