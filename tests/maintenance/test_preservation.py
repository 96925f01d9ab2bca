"""An archive is complete without its sources, and so is a copy of it."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.ingest.loading import archived_versions
from bygones.maintenance.restore import plan_restore, restore
from bygones.maintenance.verify import rebuild, verify
from bygones.model.base import SourceKind
from bygones.store.archive_dir import ArchiveDir, hash_tables
from tests.build import (
    Home,
    jsonl,
    prompt,
    reply,
    session,
    session_id,
    snapshot,
    thread,
    tool_result,
    tool_use,
)
from tests.store.sandbox import Sandbox, differing_tables

ONE = session_id(1)
BACKUP = "0f1e2d3c4b5a6978@v1"


def fill_home(home: Home) -> None:
    """Create a home with a file of every kind."""
    home.session(
        ONE,
        thread(
            prompt("change it"),
            reply([tool_use("Task", prompt="look", subagent_type="general")]),
            tool_result("toolu_1", "found", outcome={"agentId": "abc1234"}),
            snapshot("m", {"a.py": BACKUP, "b.py": "ffffffffffffffff@v3"}),
        ),
    )
    home.agent(ONE, "abc1234", session("in", "out<in"), meta={"agentType": "general"})
    home.session(session_id(2), session("a", "b<a", "c<a"))
    home.tool_result(ONE, "toolu_9.txt", "long output")
    home.backup(ONE, BACKUP, b"\x00\xff as it was\n")
    home.history(["typed"])


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    fill_home(sandbox.home)
    sandbox.ingest()
    return sandbox


def read_files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return bytes and time of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes(),
            path.stat().st_mtime_ns,
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_archive_is_complete_after_all_sources_are_deleted(sandbox: Sandbox) -> None:
    before = read_files(sandbox.home.path)
    dumped, stored = sandbox.dump(), sandbox.bytes()
    with Archive.open(sandbox.archive) as archive:
        summaries = list(archive.sessions(include_empty=True))
    shutil.rmtree(sandbox.home.path)

    report = sandbox.ingest()
    rebuild(sandbox.archive)

    assert report.gone == len(before)
    assert (sandbox.dump(), sandbox.bytes()) == (dumped, stored)
    with Archive.open(sandbox.archive) as archive:
        assert list(archive.sessions(include_empty=True)) == summaries
    with sandbox.open_dir() as archive_dir:
        restore(
            archive_dir, plan_restore(archive_dir, archive_dir.byte_store.sources())
        )
    assert read_files(sandbox.home.path) == before
    assert sandbox.ingest().returned == len(before)
    assert sandbox.dump() == dumped


def test_restored_files_have_their_bytes_paths_and_times(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    to = tmp_path / "restored"

    with sandbox.open_dir() as archive_dir:
        done = restore(
            archive_dir,
            plan_restore(archive_dir, archive_dir.byte_store.sources(), target=to),
        )

    assert done.written == 7
    assert read_files(to) == read_files(sandbox.home.path)


def test_older_generation_can_be_restored(sandbox: Sandbox, tmp_path: Path) -> None:
    path = sandbox.home.session(session_id(9), [prompt("first"), prompt("more")])
    versions = [path.read_bytes()]
    sandbox.ingest()
    for content in ("second", "third"):
        versions.append(
            sandbox.home.session(session_id(9), [prompt(content)]).read_bytes()
        )
        sandbox.ingest()

    for steps, raw in enumerate(reversed(versions)):
        to = tmp_path / str(steps)
        with sandbox.open_dir() as archive_dir:
            plans = plan_restore(
                archive_dir,
                archive_dir.byte_store.sources(),
                target=to,
                generations_back=steps,
            )
            restore(archive_dir, plans)
        found = [at for at in to.rglob("*.jsonl") if at.name == path.name]
        assert [at.read_bytes() for at in found] == [raw]
        assert steps == 0 or len(plans) == 1
    with sandbox.open_dir() as archive_dir:
        assert (
            plan_restore(
                archive_dir, archive_dir.byte_store.sources(), generations_back=3
            )
            == []
        )


def test_backup_during_writes_is_consistent(sandbox: Sandbox, tmp_path: Path) -> None:
    stop = threading.Event()
    written: list[int] = []

    def grow() -> None:
        path = sandbox.home.session(session_id(3), [])
        while not stop.is_set():
            with path.open("ab") as file:
                file.write(jsonl([prompt(f"{len(written)} " + "x" * 5000)] * 20))
            sandbox.ingest()
            written.append(len(written))

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        copies: list[Path] = []
        while len(copies) < 12 or (len(written) < 3 and growing.is_alive()):
            copy = tmp_path / f"copy-{len(copies)}"
            copies.append(copy)
            copy.mkdir()
            with sandbox.open_dir() as archive_dir:
                archive_dir.byte_store.backup(copy / "archive.db")
    finally:
        stop.set()
        growing.join()

    sizes = set()
    for copy in copies:
        verdict = verify(copy)
        assert verdict.is_intact
        sizes.add(verdict.bytes)
    assert len(sizes) > 1
    rebuild(copies[-1])
    with ArchiveDir(copies[-1]) as archive_dir:
        assert hash_tables(archive_dir)
    assert differing_tables(sandbox) == []


@pytest.mark.req("H2")
def test_backups_of_edited_files_are_archived(sandbox: Sandbox) -> None:
    (sandbox.home.path / "file-history" / ONE / BACKUP).unlink()
    sandbox.ingest()

    stored = sandbox.sources()[BACKUP]

    assert (stored.kind, stored.session) == (SourceKind.FILE_HISTORY, ONE)
    with sandbox.open_dir() as archive_dir:
        raw = archive_dir.byte_store.read_bytes(
            stored.number, stored.generation, 0, stored.stored_bytes
        )
    assert raw == b"\x00\xff as it was\n"


@pytest.mark.req("H2")
def test_version_without_its_backup_is_lost(sandbox: Sandbox) -> None:
    path = sandbox.home.session(session_id(5), [])
    found_text = snapshot(
        "m", {"a.py": BACKUP, "new.py": None, "z.py": "ffffffffffffffff@v3"}
    )
    path.write_bytes(jsonl([prompt("edit"), found_text]))
    sandbox.home.backup(session_id(5), BACKUP, b"as it was")
    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive, sandbox.open_dir() as archive_dir:
        found = archived_versions(archive_dir, archive.session(session_id(5)))
        sizes = [one.backup.size if one.backup else None for one in found]

    assert [(one.version.path, one.version.version) for one in found] == [
        ("a.py", 1),
        ("new.py", 1),
        ("z.py", 3),
    ]
    assert [one.is_lost for one in found] == [False, False, True]
    assert sizes == [9, None, None]


@pytest.mark.req("X7")
def test_index_has_all_facts_to_find_and_sort_records(sandbox: Sandbox) -> None:
    number = sandbox.sources()["agent-abc1234.jsonl"].number

    with sandbox.open_dir() as archive_dir:
        assert archive_dir.index is not None
        first, second = archive_dir.index.nodes(number)

    assert (first.uuid, second.uuid, second.parent_uuid) == ("in", "out", "in")
    assert (second.session_id, second.agent_id) == (ONE, "abc1234")
    assert second.is_sidechain
    assert second.timestamp is not None
    assert second.cwd == "/work/demo"
    rows = sandbox.index_rows(
        "SELECT source, s.id, start, length FROM record"
        " JOIN session_id AS s ON number = record.session"
    )
    for node in (first, second):
        span = (node.position.offset, node.position.length)
        assert (number, ONE, *span) in rows


@pytest.mark.req("T6")
def test_resumed_session_is_complete_and_counted_once(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    first = thread(prompt("hello"), reply("hi", message_id="msg_" + "a" * 20))
    more = thread(*first, prompt("and now"), reply("this"))
    sandbox.home.session(ONE, first)
    sandbox.home.session(session_id(2), more)
    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        one, two = archive.session(ONE), archive.session(session_id(2))
        totals = [line.usage.output for line in archive.sessions()]

    assert [len(one.live_branch.messages), len(two.live_branch.messages)] == [2, 4]
    assert [str(lineage.kind) for lineage in two.lineage] == ["forked-from"]
    assert sorted(totals) == [40, 40]


@pytest.mark.req("F5")
def test_file_with_several_sessions_is_one_session(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    found_text = thread(prompt("a"), reply("b"), prompt("c"), reply("d"))
    for record in found_text[2:]:
        record["sessionId"] = session_id(9)
    sandbox.home.session(ONE, found_text)
    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        assert [line.id for line in archive.sessions(include_empty=True)] == [ONE]
        found = archive.session(ONE)

    assert len(found.live_branch.messages) == 4
    assert [problem.kind for problem in found.problems] == ["mixed-sessions"]
    with sandbox.open_dir() as archive_dir:
        assert archive_dir.index is not None
        own = [node.session_id for node in archive_dir.index.nodes(1)]
    assert own == [ONE, ONE, session_id(9), session_id(9)]


def test_older_generation_can_be_read(sandbox: Sandbox) -> None:
    (path,) = (sandbox.home.path / "projects").rglob(f"{session_id(2)}.jsonl")
    before = path.read_bytes()
    path.write_bytes(jsonl([prompt("rewritten")]))
    os.utime(path, (1, 1))
    sandbox.ingest()

    assert sandbox.generations(path) == [before, path.read_bytes()]
