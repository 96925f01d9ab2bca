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
from tests.faults.traces import pieces
from tests.store.keeping import Keeping, unlike_rebuilt

ONE, TWO = session_id(1), session_id(2)
CANARIES = [f"canary{secrets.token_hex(12)}" for _ in range(10)]


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    """Return an archive of two sessions, one with canaries everywhere."""
    keeping = Keeping(tmp_path)
    home, birds = keeping.home, CANARIES
    path = home.session(
        ONE, [prompt(birds[0]), reply(birds[1]), summary(birds[2], "x")]
    )
    home.agent(ONE, "abc1234", [prompt(birds[3])], meta={"description": birds[4]})
    home.backup(ONE, "0f1e2d3c4b5a6978@v1", birds[5].encode())
    home.tool_result(ONE, "toolu_1.txt", birds[6])
    home.session(TWO, session("a", "b<a"))
    keeping.ingest()
    older = path.read_bytes()
    path.write_bytes(jsonl([prompt(birds[7]), prompt([image(birds[8])])]) + older)
    keeping.ingest()
    with path.open("ab") as file:
        file.write(birds[9].encode())
    keeping.ingest()
    return keeping


def all_sources(folder: Path) -> bytes:
    return b"\0".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())


def session_sources(keeping: Keeping, *, session: str = ONE) -> list[StoredSource]:
    found = keeping.sources().values()
    return [source for source in found if source.session == session]


def find_canaries(keeping: Keeping) -> list[str]:
    """Return the canaries that any file in the archive's folder still contains."""
    found = [raw for _, raw in pieces(keeping.archive)]
    return [bird for bird in CANARIES if any(bird.encode() in raw for raw in found)]


def frames(keeping: Keeping) -> list[bytes]:
    """Return the compressed bytes of the session to purge."""
    tables = ("chunk", "fragment")
    sql = "SELECT frame FROM {} JOIN source ON source.id = source WHERE session = '{}'"
    rows = [row for table in tables for row in keeping.rows(sql.format(table, ONE))]
    return [frame for (frame,) in rows if isinstance(frame, bytes)]


def test_stored_text_can_be_found_in_the_files(keeping: Keeping) -> None:
    raw = all_sources(keeping.archive)

    assert find_canaries(keeping) == list(CANARIES)
    assert len(frames(keeping)) >= 7
    assert all(frame in raw for frame in frames(keeping))


def test_purge_leaves_no_bytes(keeping: Keeping) -> None:
    before = frames(keeping)

    purged = purge(keeping.archive, session_sources(keeping))

    assert purged.sources == 5
    assert find_canaries(keeping) == []
    raw = all_sources(keeping.archive)
    assert [frame for frame in before if frame[9:33] in raw] == []
    assert verify(keeping.archive, deep=True).is_intact
    assert unlike_rebuilt(keeping) == []


def test_purge_leaves_no_bytes_after_readers_have_closed(keeping: Keeping) -> None:
    with keeping.vault() as reader:
        assert reader.index is not None
        assert list(reader.text_index.iter_documents())
        purge(keeping.archive, session_sources(keeping))

    assert find_canaries(keeping) == []


def test_purge_keeps_other_sessions(keeping: Keeping) -> None:
    (other,) = (keeping.home.path / "projects").rglob(f"{TWO}.jsonl")

    purge(keeping.archive, session_sources(keeping))

    assert keeping.bytes() == {str(other): [other.read_bytes()]}


def test_purged_files_are_refused(keeping: Keeping) -> None:
    purge(keeping.archive, session_sources(keeping))

    report = keeping.ingest()

    assert (report.refused, report.new, report.bytes) == (5, 0, 0)
    assert find_canaries(keeping) == []


def test_purged_files_are_refused_at_other_paths(keeping: Keeping) -> None:
    purge(keeping.archive, session_sources(keeping))
    elsewhere = keeping.folder / "elsewhere"
    (keeping.home.path / "projects").rename(elsewhere)

    report = keeping.ingest(elsewhere)
    (elsewhere / "-work-demo").rename(elsewhere / "-work-other")
    again = keeping.ingest(elsewhere)

    assert (report.refused, again.refused) == (4, 4)
    assert find_canaries(keeping) == []


def test_new_agent_of_a_purged_session_is_refused(keeping: Keeping) -> None:
    purge(keeping.archive, session_sources(keeping))
    agent = keeping.home.agent(
        ONE, "zzz", [prompt(CANARIES[0])], flat=True, meta={"description": CANARIES[1]}
    )
    agent.write_bytes(b"no record\n" + b"x" * 100_000 + b"\n" + agent.read_bytes())

    report = keeping.ingest()

    assert (report.refused, report.new, report.bytes) == (7, 0, 0)
    assert find_canaries(keeping) == []


def test_agent_is_refused_once_it_names_its_purged_session(
    keeping: Keeping,
) -> None:
    purge(keeping.archive, session_sources(keeping))
    agent = keeping.home.agent(ONE, "zzz", [prompt(CANARIES[0])], flat=True)
    said = agent.read_bytes()
    agent.write_bytes(b"")
    assert keeping.ingest().new == 1
    agent.write_bytes(said)

    for _ in range(2):
        report = keeping.ingest()
        assert (report.grown, report.rewritten, report.bytes) == (0, 0, 0)
    assert find_canaries(keeping) == []


def test_purged_session_is_refused_under_any_file_name(
    tmp_path: Path,
) -> None:
    keeping = Keeping(tmp_path)
    keeping.home.session("copy", session("a", "b<a", sessionId=ONE))
    keeping.ingest()
    purge(
        keeping.archive,
        session_sources(keeping, session="copy"),
        sessions=[SessionId(ONE)],
    )
    keeping.home.session(ONE, session("a", "b<a"))
    keeping.home.agent(ONE, "zzz", [prompt(CANARIES[0])], flat=True)

    assert keeping.ingest().refused == 3


def test_new_agent_of_another_session_is_imported(keeping: Keeping) -> None:
    purge(keeping.archive, session_sources(keeping))
    keeping.home.agent(TWO, "yyy", [prompt("Count")], flat=True)
    keeping.home.agent(TWO, "empty", [], flat=True)

    report = keeping.ingest()

    assert (report.refused, report.new) == (5, 2)
    assert unlike_rebuilt(keeping) == []


def test_purge_deletes_copies_of_older_versions(keeping: Keeping) -> None:
    copy = keeping.archive / f"{ARCHIVE_FILE}.version-1"
    with keeping.vault() as archive_dir:
        archive_dir.byte_store.backup(copy)

    purge(keeping.archive, session_sources(keeping))

    assert find_canaries(keeping) == []


@pytest.mark.parametrize(
    "step", ["erase_source", "vacuum", "remove_all_indexes", "begin_index_build"]
)
def test_interrupted_purge_is_finished_by_the_next(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    chosen = session_sources(keeping)
    owner = "archive_dir.ArchiveDir" if "index" in step else "archive_db.ArchiveDB"
    monkeypatch.setattr(f"bygones.store.{owner}.{step}", stop)
    with pytest.raises(KeyboardInterrupt):
        purge(keeping.archive, chosen)
    monkeypatch.undo()

    purge(keeping.archive, chosen)

    assert find_canaries(keeping) == []
    assert unlike_rebuilt(keeping) == []


def test_interrupted_purge_does_not_show_purged_data(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bygones.store.archive_db.ArchiveDB.vacuum", stop)
    with pytest.raises(KeyboardInterrupt):
        purge(keeping.archive, session_sources(keeping))
    monkeypatch.undo()

    keeping.ingest()

    with keeping.vault() as archive_dir:
        assert len(list(archive_dir.text_index.iter_documents())) == 2
    assert unlike_rebuilt(keeping) == []


def test_purge_that_cannot_remove_the_text_index_can_be_repeated(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    plainly = os.unlink

    def stubborn(path: str, **how: int) -> None:
        if str(path).endswith(".term"):
            raise PermissionError(13, "somebody has it open", path)
        plainly(path, **how)

    chosen = session_sources(keeping)
    monkeypatch.setattr(os, "unlink", stubborn)
    with pytest.raises(SystemFailure, match="could not be removed"):
        purge(keeping.archive, chosen)
    monkeypatch.undo()

    purge(keeping.archive, chosen)

    assert find_canaries(keeping) == []
    assert unlike_rebuilt(keeping) == []


def test_empty_purge_changes_nothing(keeping: Keeping) -> None:
    before = keeping.dump(), keeping.bytes()

    assert purge(keeping.archive, []).sources == 0
    assert (keeping.dump(), keeping.bytes()) == before
    assert ArchiveDir.exists(keeping.archive)
    assert os.access(keeping.archive, os.R_OK)


def test_source_that_reused_a_purged_number_is_kept(
    keeping: Keeping,
) -> None:
    three = session_id(3)
    path = keeping.home.session(three, session("c", "d<c"))
    keeping.ingest()
    seen = session_sources(keeping, session=three)
    purge(keeping.archive, seen, sessions=[SessionId(three)])  # by another process
    path.unlink()
    keeping.home.session(session_id(4), session("e"))
    keeping.ingest()
    (four,) = session_sources(keeping, session=session_id(4))
    assert four.number == seen[0].number

    assert purge(keeping.archive, seen, sessions=[SessionId(three)]).sources == 0
    assert session_sources(keeping, session=session_id(4)) == [four]
    assert unlike_rebuilt(keeping) == []


def test_new_and_moved_files_of_a_session_are_purged_with_it(
    keeping: Keeping,
) -> None:
    seen = session_sources(keeping)
    keeping.home.agent(ONE, "fff9999", [prompt(CANARIES[0])])
    moved = keeping.home.path.with_name("moved")
    keeping.home.path.rename(moved)
    keeping.ingest(moved)
    assert {source.home for source in session_sources(keeping)} == {str(moved)}

    purged = purge(keeping.archive, seen, sessions=[SessionId(ONE)])

    assert purged.sources == len(seen) + 1
    assert find_canaries(keeping) == []
    assert session_sources(keeping) == []
