"""A push sends each line of the named projects once, redacted, despite lost requests."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from msgspec.json import decode, encode

from bygones.archive import Archive
from bygones.cli.commands.push import push_report_lines
from bygones.errors import HubUnreachable
from bygones.hub.chunks import LineRedactor
from bygones.hub.client import push
from bygones.maintenance.repair import accept_losses, repair_archive
from bygones.model.base import SessionId
from bygones.redact.engine import Redactor
from bygones.team.contract import ErasureSelector
from tests.build import jsonl, prompt, reply, session_id, summary, thread
from tests.hub.sending import (
    KEY,
    NOW,
    PROJECT,
    LossyTransport,
    MemoryHub,
    make_project,
    push_project,
)


def test_all_lines_of_a_project_arrive_redacted(tmp_path: Path) -> None:
    _, folder = make_project(tmp_path)
    hub = MemoryHub(tmp_path / "raw")

    done = push_project(folder, hub)

    texts = hub.texts()
    assert [len(text.splitlines()) for text in texts.values()] == [8, 8, 8]
    everything = b"".join(texts.values()) + "".join(texts).encode()
    assert b"Question 3 of 2" in everything
    assert b"ann" not in everything
    assert b"~/work/shop" in everything
    assert (len(done.sessions), done.files, done.lines) == (3, 3, 24)
    assert done.bytes == sum(map(len, texts.values()))
    assert done.redactions["email"] == 12
    assert done.redactions["home"] > 12


def test_other_projects_are_not_pushed(tmp_path: Path) -> None:
    home, folder = make_project(tmp_path)
    other = thread(
        prompt("hush", cwd="/home/ann/diary"), reply("yes", cwd="/home/ann/diary")
    )
    home.session(session_id(7), other, project="-home-ann-diary")
    # Of a file with lines of two projects, only those of the named one are sent.
    mixed = [
        *thread(prompt("here", cwd=PROJECT, sessionId=session_id(8))),
        *thread(prompt("there", cwd="/home/ann/diary", sessionId=session_id(7))),
        *thread(prompt("nowhere", cwd="/home/ann/diary", sessionId=session_id(9))),
    ]
    home.session(session_id(8), mixed, project=KEY)
    Archive.ingest(folder, [home.path])
    hub = MemoryHub(tmp_path / "raw")

    done = push_project(folder, hub)

    everything = b"".join(hub.texts().values())
    assert len(hub.texts()) == 4
    assert b'"here"' in everything
    assert not any(word in everything for word in (b"hush", b"there", b"nowhere"))
    assert b"diary" not in everything
    assert "diary" not in repr(list(hub.store.export_updates()))
    assert done.foreign_lines == 2


def test_file_that_cannot_be_redacted_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = make_project(tmp_path)
    original = LineRedactor.redact

    def redact(self: LineRedactor, raw: bytes) -> bytes:
        if session_id(1).encode() in raw:
            raise ValueError("unexpected")
        return original(self, raw)

    monkeypatch.setattr(LineRedactor, "redact", redact)
    hub = MemoryHub(tmp_path / "raw")

    done = push_project(folder, hub)

    assert [len(text.splitlines()) for text in hub.texts().values()] == [8, 8]
    (source,) = done.failures
    assert source.endswith(f"{session_id(1)}.jsonl")
    lines = list(push_report_lines(done, "hub", is_dry_run=False))
    assert lines[-1] == "not sent: 1 file that failed"
    monkeypatch.undo()
    assert push_project(folder, hub).failures == {}
    assert len(hub.texts()) == 3


LINES = 2000


def push_damaged(
    folder: Path, sql: str, *, is_accepted: bool = False
) -> tuple[MemoryHub, Path, list[int]]:
    """Push a session of which a chunk is damaged, twice; return its lines' numbers."""
    home, archive = make_project(folder, sessions=0)
    records = (
        prompt(f"number{number}# " + "x" * 1900, cwd=PROJECT) for number in range(LINES)
    )
    home.session(session_id(0), thread(*records), project=KEY)
    Archive.ingest(archive, [home.path])
    damage_archive(archive, sql)
    home.path.rename(folder / "away")
    home.path.mkdir()
    if is_accepted:
        accept_losses(archive, repair_archive(archive).lost)
    hub = MemoryHub(folder / "raw")
    for _ in range(2):
        done = push_project(archive, hub)
        assert done.damaged_files == (0 if is_accepted else 1)
    return hub, archive, numbers_of(hub)


@pytest.mark.parametrize("is_accepted", [False, True])
@pytest.mark.parametrize(
    "sql", ["DELETE FROM fragment", "UPDATE fragment SET frame = x'00'"]
)
def test_damaged_last_line_is_reported_until_its_loss_is_accepted(
    tmp_path: Path, sql: str, *, is_accepted: bool
) -> None:
    home, archive = make_project(tmp_path, sessions=1)
    (path,) = home.path.rglob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"type":"user","message":{"content":"half')
    Archive.ingest(archive, [home.path])
    damage_archive(archive, sql)
    path.unlink()
    if is_accepted:
        accept_losses(archive, repair_archive(archive).lost)
    hub = MemoryHub(tmp_path / "raw")

    done = push_project(archive, hub)

    assert done.damaged_files == (0 if is_accepted else 1)
    assert done.lines == 8


def damage_archive(archive: Path, sql: str) -> None:
    with closing(sqlite3.connect(archive / "archive.db")) as db, db:
        db.execute(sql)


def numbers_of(hub: MemoryHub) -> list[int]:
    """Return which lines of the session the hub has; all are whole records."""
    lines = b"".join(hub.texts().values()).splitlines()
    found = [
        re.search(r"number(\d+)#", encode(decode(line)).decode()) for line in lines
    ]
    return [int(one[1]) for one in found if one]


CHUNK_DAMAGES = {
    "row": "DELETE FROM chunk WHERE id = 3",
    "frame": "UPDATE chunk SET frame = x'00' WHERE id = 3",
}


@pytest.mark.parametrize("way", CHUNK_DAMAGES)
def test_lines_before_damaged_bytes_are_pushed(tmp_path: Path, way: str) -> None:
    _, archive, numbers = push_damaged(tmp_path, CHUNK_DAMAGES[way])

    assert numbers == [*range(lost_lines(tmp_path, archive).start)]


@pytest.mark.parametrize("way", CHUNK_DAMAGES)
def test_all_lines_but_those_of_an_accepted_loss_are_pushed_once(
    tmp_path: Path, way: str
) -> None:
    hub, archive, numbers = push_damaged(tmp_path, CHUNK_DAMAGES[way], is_accepted=True)

    lost = lost_lines(tmp_path, archive)
    assert numbers == [n for n in range(LINES) if n not in lost]
    # The file grows, although its last bytes on the hub are lost here.
    damage_archive(
        archive,
        "UPDATE chunk SET frame = x'00' WHERE stop = (SELECT max(stop) FROM chunk)",
    )
    accept_losses(archive, repair_archive(archive).lost)
    assert push_project(archive, hub).damaged_files == 0
    assert numbers_of(hub) == numbers


def lost_lines(folder: Path, archive: Path) -> range:
    """Return which lines of the session were in the damaged chunk."""
    (file,) = (folder / "away").rglob("*.jsonl")
    raw = file.read_bytes()
    sql = "SELECT (SELECT stop FROM chunk WHERE id = 2), start FROM chunk WHERE id = 4"
    with closing(sqlite3.connect(archive / "archive.db")) as db:
        (row,) = db.execute(sql)
    start, stop = (raw.count(b"\n", 0, offset) for offset in row)
    assert 0 < start < stop < LINES
    return range(start, stop)


def test_line_that_is_lost_in_part_is_not_pushed(tmp_path: Path) -> None:
    home, archive = make_project(tmp_path, sessions=0)
    words = "word " * 2_500_000
    long = prompt(f"number1# {words}number7# {words}", cwd=PROJECT)
    records = thread(
        prompt("number0#", cwd=PROJECT), long, prompt("number2#", cwd=PROJECT)
    )
    home.session(session_id(0), records, project=KEY)
    Archive.ingest(archive, [home.path])
    home.path.rename(tmp_path / "away")
    home.path.mkdir()
    damage_archive(archive, "UPDATE chunk SET frame = x'00' WHERE id = 4")
    accept_losses(archive, repair_archive(archive).lost)
    hub = MemoryHub(tmp_path / "raw")

    push_project(archive, hub)

    assert numbers_of(hub) == [0, 2]


def test_push_sends_only_what_was_added(tmp_path: Path) -> None:
    home, folder = make_project(tmp_path)
    hub = MemoryHub(tmp_path / "raw")
    push_project(folder, hub)

    again = push_project(folder, hub)
    path = home.path / "projects" / KEY / f"{session_id(1)}.jsonl"
    with path.open("ab") as file:
        file.write(jsonl(thread(prompt("One more", cwd=PROJECT), start=900)))
        file.write(b'{"half a li')
    Archive.ingest(folder, [home.path])
    third = push_project(folder, hub)

    assert (again.lines, again.requests) == (0, 0)
    assert (third.lines, third.files) == (1, 1)
    (text,) = [t for p, t in hub.texts().items() if session_id(1) in p]
    assert text.count(b"\n") == 9
    assert b"half a li" not in text


def test_rewritten_file_replaces_the_old_one(
    tmp_path: Path,
) -> None:
    home, folder = make_project(tmp_path, sessions=1)
    hub = MemoryHub(tmp_path / "raw")
    push_project(folder, hub)
    records = thread(prompt("Quite another", cwd=PROJECT), reply("Yes", cwd=PROJECT))
    home.session(session_id(0), records, project=KEY)
    Archive.ingest(folder, [home.path])

    done = push_project(folder, hub)

    (text,) = hub.texts().values()
    assert done.lines == text.count(b"\n") == 2
    assert b"Question" not in text


def test_private_records_and_file_copies_are_not_pushed(tmp_path: Path) -> None:
    home, folder = make_project(tmp_path, sessions=1)
    path = home.path / "projects" / KEY / f"{session_id(0)}.jsonl"
    with path.open("ab") as file:
        file.write(b'{"type":"bridge-session","secret":"mine"}\n')
        file.write(b'{"type":"bridge-session","secr\\u0065t":"mine too"}\n')
    history = home.path / "file-history" / session_id(0)
    history.mkdir(parents=True)
    (history / "abc@v1").write_text("a whole file")
    (home.path / "history.jsonl").write_text('{"display":"typed"}\n')
    Archive.ingest(folder, [home.path])
    hub = MemoryHub(tmp_path / "raw")

    done = push_project(folder, hub)

    assert len(hub.texts()) == 1
    everything = b"".join(hub.texts().values())
    assert done.private_records == 2
    assert b"mine" not in everything
    assert b"a whole file" not in everything
    assert b"typed" not in everything


def test_dry_run_reports_the_same_as_a_push(tmp_path: Path) -> None:
    _, folder = make_project(tmp_path)
    hub = MemoryHub(tmp_path / "raw")

    dry = push_project(folder, hub, dry=True)

    assert hub.texts() == {}
    assert not any(request.chunks for request in hub.requests)
    assert dry == push_project(folder, hub)
    assert push_project(folder, None, dry=True) == dry


def test_lost_requests_and_responses_lose_or_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.hub.chunks._BLOCK_BYTES", 600)
    monkeypatch.setattr("bygones.hub.chunks.TARGET_REQUEST_BYTES", 4000)
    _, folder = make_project(tmp_path)
    whole = MemoryHub(tmp_path / "whole")
    push_project(folder, whole)

    for seed in range(6):
        hub = MemoryHub(tmp_path / str(seed))
        lossy = LossyTransport(hub, seed)
        for _ in range(200):
            with suppress(HubUnreachable):
                push_project(folder, lossy)
                break

        assert lossy.lost
        assert hub.texts() == whole.texts()


def test_concurrent_pushes_of_one_archive_store_one_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.hub.chunks._BLOCK_BYTES", 600)
    monkeypatch.setattr("bygones.hub.chunks.TARGET_REQUEST_BYTES", 4000)
    _, folder = make_project(tmp_path)
    hub = MemoryHub(tmp_path / "raw")
    whole = MemoryHub(tmp_path / "whole")
    push_project(folder, whole)
    send = hub.send
    meanwhile = [True]

    def interrupted(request: object) -> object:
        if meanwhile and len(hub.requests) == 2:
            meanwhile.clear()
            push_project(folder, hub)
        return send(request)  # type: ignore[arg-type]

    monkeypatch.setattr(hub, "send", interrupted)
    push_project(folder, hub)

    assert hub.texts() == whole.texts()


def test_erased_sessions_are_not_sent_again(tmp_path: Path) -> None:
    _, folder = make_project(tmp_path)
    hub = MemoryHub(tmp_path / "raw")
    push_project(folder, hub)
    hub.store.erase(ErasureSelector(session=SessionId(session_id(1))), now=NOW)
    hub.requests.clear()

    done = push_project(folder, hub)

    assert done.erased_files == 1
    assert done.erased_sessions == {session_id(1)}
    assert not done.redactions
    assert not any(piece.frame for request in hub.requests for piece in request.chunks)


def test_dry_run_finds_erased_files_without_naming_any(tmp_path: Path) -> None:
    _, folder = make_project(tmp_path)
    hub = MemoryHub(tmp_path / "raw")
    push_project(folder, hub)
    hub.store.erase(ErasureSelector(session=SessionId(session_id(1))), now=NOW)
    hub.requests.clear()

    dry = push_project(folder, hub, dry=True)

    assert not any(request.chunks for request in hub.requests)
    assert any(request.hashes for request in hub.requests)
    assert dry == push_project(folder, hub)
    assert (dry.files, dry.erased_sessions) == (0, {session_id(1)})


def test_names_that_are_equal_after_redaction_stay_two_files(tmp_path: Path) -> None:
    home, folder = make_project(tmp_path, sessions=1)
    there = "/home/bea/work/shop"
    records = thread(prompt("by bea", cwd=there), reply("Yes", cwd=there))
    home.session(session_id(0), records, project="-home-bea-work-shop")
    Archive.ingest(folder, [home.path])
    hub = MemoryHub(tmp_path / "raw")

    push(folder, [PROJECT, there], redactor=Redactor(), transport=hub)

    assert len(list(hub.store.export_updates())) == 2
    assert (
        len({(b.source.home, b.source.path) for b in hub.store.export_updates()}) == 2
    )


def test_all_requests_but_the_last_announce_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = make_project(tmp_path)
    hub = MemoryHub(tmp_path / "raw")
    monkeypatch.setattr("bygones.hub.chunks.TARGET_REQUEST_BYTES", 10)

    push_project(folder, hub)

    flags = [one.has_more for one in hub.requests if any(p.length for p in one.chunks)]
    assert flags == [True, True, False]


def test_families_are_sent_together_after_their_titles(
    tmp_path: Path,
) -> None:
    home, folder = make_project(tmp_path)
    first = thread(prompt("begun", cwd=PROJECT), reply("so", cwd=PROJECT), start=-900)
    later = thread(prompt("on", cwd=PROJECT), start=900)
    titles = [summary("A title", str(first[-1]["uuid"]))]
    home.session(session_id(7), first, project=KEY)
    home.session(session_id(8), [*first, *later], project=KEY)
    other_records = thread(prompt("else", cwd=PROJECT), start=-800)
    home.session(session_id(6), [*titles, *other_records], project=KEY)
    Archive.ingest(folder, [home.path])
    hub = MemoryHub(tmp_path / "raw")

    push_project(folder, hub)

    pieces = [one for request in hub.requests for one in request.chunks if one.length]
    order = [str(one.session) for one in pieces]
    assert order[:3] == [session_id(6), session_id(7), session_id(8)]
    assert sorted(order) == sorted({*order})


@pytest.mark.parametrize(
    "name", ["zero\u200bwidth", "new\nline", "bad\udcff\udcfename"], ids=ascii
)
def test_file_with_invalid_name_is_skipped(tmp_path: Path, name: str) -> None:
    home, folder = make_project(tmp_path)
    odd = thread(prompt("odd", cwd=PROJECT, sessionId=session_id(9)), start=900)
    try:
        home.session(name, odd, project=KEY)
    except (OSError, UnicodeError):
        pytest.skip("no file can be called so here")
    Archive.ingest(folder, [home.path])
    hub = MemoryHub(tmp_path / "raw")

    dry_run = push_project(folder, hub, dry=True)
    done = push_project(folder, hub)

    assert (dry_run.unnameable_files, dry_run.files) == (1, 3)
    assert (done.unnameable_files, done.files, len(hub.texts())) == (1, 3, 3)
    (warning_lines,) = [
        line
        for line in push_report_lines(done, "", is_dry_run=False)
        if "not sent" in line
    ]
    assert warning_lines == "not sent: 1 file whose name cannot be sent"
