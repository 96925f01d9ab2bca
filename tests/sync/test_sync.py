"""Bringing the archives of one person's machines level."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
import zstandard
from msgspec import msgpack, structs

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode, SyncFailed
from bygones.maintenance.repair import repair_archive
from bygones.maintenance.restore import write_file
from bygones.model.base import NullProgress, SessionId
from bygones.model.machines import Machine
from bygones.model.summary import Annotations
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir, hash_tables
from bygones.store.compression import compress, decompress, sha256_digest
from bygones.store.exchange import SourceEntry, StoredFrame
from bygones.sync import folder, pull
from bygones.sync.peers import ArchivePeer, ChunkPlace
from bygones.sync.pull import Puller, PullReport
from bygones.sync.run import find_machine, sync_with_folder
from bygones.sync.stream import (
    Bye,
    MessageStream,
    StreamPeer,
    pull_there,
    serve_stdio,
)
from tests.build import Home, prompt, reply, session_id, thread

ONE, TWO, THREE = map(session_id, range(1, 4))


class Computer(NamedTuple):
    """A machine with a home and an archive."""

    name: str
    home: Home
    folder: Path

    @property
    def machine(self) -> Machine:
        return find_machine(self.folder, self.name, self.name)

    def ingest(self) -> None:
        Archive.ingest(self.folder, [self.home.path])

    def read_all(self) -> dict[tuple[str, str, int], bytes]:
        """Return the bytes of all generations, by machine, path and generation."""
        found = {}
        archive_db = ArchiveDB(self.folder)
        for source in archive_db.sources():
            home = source.home.rpartition(":")[0].rpartition("-")[0] or self.name
            for generation in range(source.generation + 1):
                raw = b"".join(
                    raw for _, raw in archive_db.read_chunks(source.number, generation)
                )
                raw += archive_db.fragment(source.number, generation)
                found[home, source.path, generation] = raw
        archive_db.close()
        return found

    def sessions(self) -> set[str]:
        with Archive.open(self.folder) as archive:
            return {session.id for session in archive.sessions()}


@pytest.fixture
def laptop(tmp_path: Path) -> Computer:
    computer = make_computer(tmp_path, "laptop")
    computer.home.session(ONE, thread(prompt("on the laptop"), reply("done")))
    computer.home.agent(ONE, "a1", thread(prompt("look"), reply("seen")))
    history = computer.home.path / "history.jsonl"
    history.write_text('{"display":"on the laptop"}\n')
    computer.ingest()
    return computer


@pytest.fixture
def desk(tmp_path: Path) -> Computer:
    computer = make_computer(tmp_path, "desk")
    computer.home.session(TWO, thread(prompt("at the desk"), reply("yes")))
    (computer.home.path / "history.jsonl").write_text('{"display":"at the desk"}\n')
    computer.ingest()
    return computer


def make_computer(folder: Path, name: str) -> Computer:
    return Computer(name, Home(folder / name / ".claude"), folder / name / "archive")


Sync = Callable[[Computer, Computer], list[PullReport]]


def sync_archives(one: Computer, other: Computer) -> list[PullReport]:
    """Let each read the archive of the other."""
    reports = []
    for reader, source in ((one, other), (other, one)):
        peer = ArchivePeer(source.folder, source.machine)
        reports.append(Puller(reader.folder, reader.machine, peer).run())
        peer.close()
    return reports


def sync_streams(
    one: Computer,
    other: Computer,
    wrap: Callable[[io.BufferedReader], io.BufferedReader] = lambda pipe: pipe,
) -> list[PullReport]:
    """Sync over pipes, with the other side in a thread."""
    (in_one, out_other), (in_other, out_one) = map(open_pipe, range(2))

    def answer() -> None:
        with in_other, out_other:
            try:
                serve_stdio(other.folder, other.machine, in_other, out_other)
            except SyncFailed:
                return

    thread = Thread(target=answer)
    thread.start()
    source = ArchivePeer(one.folder, one.machine)
    try:
        with in_one, out_one:
            stream = MessageStream(wrap(in_one), out_one, "other")
            peer = StreamPeer(stream, stream.greet(one.machine))
            received = Puller(one.folder, one.machine, peer).run()
            sent = pull_there(stream, source, NullProgress(), is_dry_run=False)
            stream.send(Bye())
    finally:
        thread.join(20)
        source.close()
    return [received, sent]


def open_pipe(_: int) -> tuple[io.BufferedReader, io.BufferedWriter]:
    reader, writer = os.pipe()
    return os.fdopen(reader, "rb"), os.fdopen(writer, "wb")


def sync_folder(one: Computer, other: Computer) -> list[PullReport]:
    """Sync through a folder: both write first, then both read."""
    shared = one.folder.parent.parent / "shared"
    results = [
        sync_with_folder(computer.folder, computer.machine, shared)
        for computer in (one, other, one)
    ]
    return [results[2].received, results[1].received]


SYNCS = [
    pytest.param(sync_streams, id="streams"),
    pytest.param(sync_archives, id="archives", marks=pytest.mark.full),
    pytest.param(sync_folder, id="folder", marks=pytest.mark.full),
]


@pytest.fixture(params=SYNCS)
def sync(request: pytest.FixtureRequest) -> Sync:
    way: Sync = request.param
    return way


def check_level(*computers: Computer) -> None:
    """Check that archives have the same bytes, are intact, and indexed completely."""
    first = computers[0].read_all()
    for computer in computers:
        assert computer.read_all() == first, computer.name
        assert Archive.verify(computer.folder, deep=True).is_intact, computer.name
        before = hash_index(computer.folder)
        Archive.rebuild(computer.folder)
        assert hash_index(computer.folder) == before, computer.name


def hash_index(folder: Path) -> dict[str, str]:
    with ArchiveDir(folder) as archive_dir:
        return hash_tables(archive_dir)


@pytest.mark.req("GO4")
def test_both_archives_have_everything_afterwards(
    sync: Sync, laptop: Computer, desk: Computer
) -> None:
    reports = sync(laptop, desk)

    assert laptop.sessions() == desk.sessions() == {ONE, TWO}
    check_level(laptop, desk)
    assert len(laptop.read_all()) == 5
    assert [report.session_ids for report in reports] == [{TWO}, {ONE}]
    again = sync(laptop, desk)
    assert not any(report.has_changes for report in again)


def test_what_was_added_is_exchanged_later(
    sync: Sync, laptop: Computer, desk: Computer
) -> None:
    sync(laptop, desk)
    path = laptop.home.path / "projects" / "-work-demo" / f"{ONE}.jsonl"
    with path.open("a") as file:
        file.write('{"type":"user","uuid":"x","message":{"content":"more"}')
    laptop.ingest()
    sync(laptop, desk)
    check_level(laptop, desk)
    with path.open("a") as file:
        file.write("}\n")
    laptop.ingest()

    sync(laptop, desk)

    check_level(laptop, desk)
    assert any(raw.endswith(b'"more"}}\n') for raw in desk.read_all().values())
    # A rewritten file is a new generation; the old one is kept on both.
    path.write_text('{"type":"summary"}\n')
    laptop.ingest()
    sync(laptop, desk)
    check_level(laptop, desk)
    assert len([key for key in desk.read_all() if key[1].endswith(f"{ONE}.jsonl")]) == 2


def test_session_continued_on_both_machines_has_two_branches(
    sync: Sync, laptop: Computer, desk: Computer
) -> None:
    sync(laptop, desk)
    source = laptop.home.path / "projects" / "-work-demo" / f"{ONE}.jsonl"
    copy = desk.home.path / "projects" / "-work-demo" / f"{ONE}.jsonl"
    shutil.copy(source, copy)
    last = source.read_text().splitlines()[-1].split('"uuid"')[1].split('"')[1]
    for computer, path in ((laptop, source), (desk, copy)):
        lines = thread(
            prompt(f"more on the {computer.name}", parent=last, sessionId=ONE)
        )
        with path.open("a") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
        computer.ingest()

    sync(laptop, desk)

    for computer in (laptop, desk):
        with Archive.open(computer.folder) as archive:
            branches = archive.session(ONE).branches
            texts = [branch.messages[-1].preview for branch in branches]
        assert sorted(texts) == ["more on the desk", "more on the laptop"]


@pytest.mark.full
def test_three_machines_share_a_folder(
    tmp_path: Path, laptop: Computer, desk: Computer
) -> None:
    tower = make_computer(tmp_path, "tower")
    tower.home.session(THREE, thread(prompt("in the tower")))
    tower.ingest()
    # What the tower has reaches the others, though it never uses the folder.
    sync_archives(tower, desk)

    sync_folder(laptop, desk)

    check_level(laptop, desk)
    assert laptop.sessions() == {ONE, TWO, THREE}
    sync_archives(tower, laptop)
    check_level(laptop, tower)


def test_later_ingestions_leave_files_of_other_machines_alone(
    laptop: Computer, desk: Computer
) -> None:
    sync_archives(laptop, desk)
    before = desk.read_all()
    homes = [desk.home.path]
    desk.ingest()

    with Archive.open(desk.folder) as archive:
        assert archive.is_current(homes)
        assert [source.gone_ns for source in archive.sources()] == [None] * 5
    report = Archive.ingest(desk.folder, homes, is_thorough=True)
    assert (report.gone, report.moved, report.new) == (0, 0, 0)
    # A copy in this home is another file, not a moved one.
    source = laptop.home.path / "projects" / "-work-demo" / f"{ONE}.jsonl"
    shutil.copy(source, desk.home.path / "projects" / "-work-demo")
    assert Archive.ingest(desk.folder, homes).new == 1
    assert before.items() <= desk.read_all().items()


def test_session_of_another_machine_is_continued_here(  # noqa: PLR0917 (fixtures)
    laptop: Computer,
    desk: Computer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sync_archives(laptop, desk)
    monkeypatch.setenv("HOME", str(tmp_path / "desk"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("BYGONES_ARCHIVE", str(desk.folder))

    assert main(["resume", ONE, "--json"]) == ExitCode.SUCCESS
    row = json.loads(capsys.readouterr().out)
    assert (row["is_deleted"], row["home"]) == (True, None)
    assert main(["restore", ONE]) == ExitCode.SUCCESS

    here, there = (
        computer.home.path / "projects" / "-work-demo" / f"{ONE}.jsonl"
        for computer in (desk, laptop)
    )
    assert here.read_bytes() == there.read_bytes()


def test_tags_notes_and_stars_are_exchanged(
    sync: Sync, laptop: Computer, desk: Computer
) -> None:
    sync(laptop, desk)
    annotate(laptop, tags=("here", "both"), note="first")
    annotate(desk, tags=("there", "both"), note="second", is_starred=True)

    sync(laptop, desk)
    sync(laptop, desk)

    for computer in (laptop, desk):
        found = annotations_on(computer)
        assert sorted(found.tags) == ["both", "here", "there"]
        assert (found.note, found.is_starred) == ("first\nsecond", True)
    annotate(desk, tags=("there",), note="only this")
    sync(laptop, desk)
    assert (
        annotations_on(laptop)
        == annotations_on(desk)
        == Annotations(tags=("there",), note="only this")
    )


def annotate(computer: Computer, **fields: object) -> None:
    with Archive.open(computer.folder) as archive:
        archive.annotate([SessionId(ONE)], lambda _: Annotations(**fields))  # type: ignore[arg-type]


def annotations_on(computer: Computer) -> Annotations:
    with Archive.open(computer.folder) as archive:
        return archive.annotations().get(SessionId(ONE), Annotations())


def test_purged_session_does_not_come_back(
    sync: Sync, laptop: Computer, desk: Computer
) -> None:
    annotate(laptop, tags=("kept",))
    sync(laptop, desk)
    with Archive.open(desk.folder) as archive:
        files = archive.sources(sessions=[SessionId(ONE)])
        archive.purge(files, sessions=[SessionId(ONE)])

    reports = sync(laptop, desk)

    assert desk.sessions() == {TWO}
    assert laptop.sessions() == {ONE, TWO}
    assert annotations_on(desk) == Annotations()
    assert reports[1].purged == 2


class Killed(BaseException):
    """Ends a sync as a kill does."""


def kill_after(steps: int, patched: pytest.MonkeyPatch) -> None:
    """Let a number of steps of a sync succeed, and end the next one."""
    calls = iter(range(steps))

    def wrap(real: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*arguments: object, **options: object) -> object:
            if next(calls, None) is None:
                raise Killed
            return real(*arguments, **options)

        return wrapper

    for name in ("add_bytes", "save_state", "index_stored"):
        patched.setattr(pull, name, wrap(getattr(pull, name)))
    patched.setattr(folder, "write_file", wrap(write_file))


def test_killed_sync_loses_nothing_and_continues(
    laptop: Computer, desk: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.sync.pull._BATCH_BYTES", 100)
    before = desk.read_all()
    for steps in range(30):
        with monkeypatch.context() as patched:
            kill_after(steps, patched)
            try:
                sync_folder(laptop, desk)
                break
            except Killed:
                assert before.items() <= desk.read_all().items()
                assert Archive.verify(desk.folder).is_intact

    assert steps > 4
    sync_folder(laptop, desk)
    check_level(laptop, desk)
    assert desk.sessions() == laptop.sessions() == {ONE, TWO}


@pytest.mark.parametrize(
    "length",
    [*(pytest.param(n, marks=pytest.mark.full) for n in (5, 300)), 900],
)
def test_lost_connection_is_reported_and_continued(
    length: int, laptop: Computer, desk: Computer
) -> None:
    class CutPipe(io.RawIOBase):
        """A pipe that ends after some bytes."""

        def __init__(self, reader: io.BufferedReader) -> None:
            self._reader, self._left = reader, length

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            raw = self._reader.read(min(len(buffer), self._left))
            self._left -= len(raw)
            buffer[: len(raw)] = raw
            return len(raw)

    with pytest.raises(SyncFailed):
        sync_streams(laptop, desk, lambda pipe: io.BufferedReader(CutPipe(pipe), 1))
    assert Archive.verify(laptop.folder).is_intact

    sync_streams(laptop, desk)
    check_level(laptop, desk)


class Tampering(ArchivePeer):
    """A peer that changes bytes on the way."""

    def read(self, places: Iterable[ChunkPlace]) -> Iterator[StoredFrame | None]:
        for stored in super().read(places):
            assert stored
            yield structs.replace(stored, frame=compress(b"x" * 40))


class Hostile(ArchivePeer):
    """A peer whose files have dangerous names."""

    def entries(self) -> Iterator[SourceEntry]:
        for entry in super().entries():
            yield structs.replace(entry, path=f"../{entry.path}")
            yield structs.replace(entry, home="other-00000000:/home")
            yield structs.replace(entry, machine_id="../../etc")
            yield structs.replace(entry, generations=())
            yield structs.replace(entry, gone_ns=1 << 63)
            (state,) = entry.generations
            later = structs.replace(state, mtime_ns=1 << 63)
            yield structs.replace(entry, generations=(later,))
            chunk = structs.replace(state.chunks[0], start=-5)
            state = structs.replace(state, chunks=(chunk,))
            yield structs.replace(entry, generations=(state,))


@pytest.mark.parametrize("kind", [Tampering, Hostile])
def test_damaged_bytes_and_dangerous_names_are_not_stored(
    kind: type[ArchivePeer], laptop: Computer, desk: Computer
) -> None:
    peer = kind(laptop.folder, laptop.machine)
    before = desk.read_all()

    report = Puller(desk.folder, desk.machine, peer).run()

    peer.close()
    assert (report.damaged, report.refused) == (
        (3, 0) if kind is Tampering else (0, 21)
    )
    assert {key: raw for key, raw in desk.read_all().items() if raw} == before
    assert desk.sessions() == {TWO}


def test_damaged_bytes_are_sent_to_a_folder_after_their_repair(
    laptop: Computer, desk: Computer, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shutil.copytree(laptop.folder, tmp_path / "backup")
    with closing(sqlite3.connect(laptop.folder / "archive.db")) as db, db:
        db.execute("UPDATE chunk SET frame = substr(frame, 1, length(frame) - 3)")
    sync_with_folder(laptop.folder, laptop.machine, shared)
    repair_archive(laptop.folder, others=[tmp_path / "backup"])

    sync_with_folder(laptop.folder, laptop.machine, shared)
    sync_with_folder(desk.folder, desk.machine, shared)

    assert desk.sessions() == {ONE, TWO}
    assert Archive.verify(desk.folder).is_intact


def write_pipe(pack: Path, _whole: bytes) -> None:
    pack.unlink()
    os.mkfifo(pack)


def write_header_that_expands(pack: Path, whole: bytes) -> None:
    """Write a header whose 40 kB claim to be 1 GB."""
    frame = zstandard.compress(bytes(1 << 30))
    head = whole[: len(folder._MAGIC)] + len(frame).to_bytes(8, "big")
    pack.write_bytes(head + sha256_digest(frame) + frame)


def write_negative_offset(pack: Path, whole: bytes) -> None:
    end = folder._HEAD_LENGTH + int.from_bytes(whole[15:23], "big")
    header = folder._header_decoder.decode(decompress(whole[folder._HEAD_LENGTH : end]))
    blobs = [structs.replace(blob, offset=-9999) for blob in header.blobs]
    frame = compress(msgpack.encode(structs.replace(header, blobs=blobs)))
    head = whole[: len(folder._MAGIC)] + len(frame).to_bytes(8, "big")
    pack.write_bytes(head + sha256_digest(frame) + frame + whole[end:])


@pytest.mark.parametrize(
    "damage", [write_pipe, write_header_that_expands, write_negative_offset]
)
def test_hostile_pack_is_skipped(
    tmp_path: Path,
    laptop: Computer,
    desk: Computer,
    damage: Callable[[Path, bytes], None],
) -> None:
    shared = tmp_path / "shared"
    sync_with_folder(laptop.folder, laptop.machine, shared)
    (pack,) = shared.glob("*/*.pack")
    damage(pack, pack.read_bytes())
    tracemalloc.start()

    result = sync_with_folder(desk.folder, desk.machine, shared)

    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()
    assert (result.unreadable_packs, result.received.files) == (1, 0)
    assert desk.sessions() == {TWO}


def test_incomplete_pack_is_skipped_until_it_is_complete(
    tmp_path: Path, laptop: Computer, desk: Computer
) -> None:
    shared = tmp_path / "shared"
    sync_with_folder(laptop.folder, laptop.machine, shared)
    (pack,) = shared.glob("*/*.pack")
    whole = pack.read_bytes()
    for size in (0, 20, 60, len(whole) - 1):
        pack.write_bytes(whole[:size])
        result = sync_with_folder(desk.folder, desk.machine, shared)
        assert (result.unreadable_packs, result.received.files) == (1, 0), size

    pack.write_bytes(whole)
    sync_with_folder(desk.folder, desk.machine, shared)

    assert desk.sessions() == {ONE, TWO}


def test_lost_files_of_this_machine_come_back_from_another(
    tmp_path: Path, laptop: Computer, desk: Computer
) -> None:
    with Archive.open(laptop.folder) as archive:
        archive.backup(tmp_path / "backup")
    laptop.home.session(THREE, thread(prompt("after the backup")))
    laptop.ingest()
    sync_archives(laptop, desk)
    expected = laptop.read_all()

    shutil.rmtree(laptop.folder)
    shutil.copytree(tmp_path / "backup", laptop.folder)
    Archive.rebuild(laptop.folder)
    assert laptop.sessions() == {ONE}
    sync_archives(laptop, desk)

    assert laptop.read_all() == expected
    assert laptop.sessions() == {ONE, TWO, THREE}


def test_diverged_copies_of_a_file_are_both_kept(
    tmp_path: Path, laptop: Computer, desk: Computer
) -> None:
    with Archive.open(laptop.folder) as archive:
        archive.backup(tmp_path / "backup")
    path = laptop.home.path / "projects" / "-work-demo" / f"{ONE}.jsonl"
    original = path.read_bytes()
    path.write_bytes(original + b'{"type":"summary","summary":"lost"}\n')
    laptop.ingest()
    sync_archives(laptop, desk)
    # The backup is restored, and the file grows in another way.
    shutil.rmtree(laptop.folder)
    shutil.copytree(tmp_path / "backup", laptop.folder)
    path.write_bytes(original + b'{"type":"summary","summary":"other"}\n')
    laptop.ingest()

    for _ in range(3):
        sync_archives(laptop, desk)
        for computer in (laptop, desk):
            texts = [
                raw
                for (_, name, _), raw in computer.read_all().items()
                if name.endswith(f"{ONE}.jsonl")
            ]
            sources = [
                source.home
                for source in sources_of(computer)
                if source.path.endswith(f"{ONE}.jsonl")
            ]
            assert len(sources) == 2, sources
            assert any(b"lost" in raw for raw in texts) or len(texts) == 1


def sources_of(computer: Computer) -> list[StoredSource]:
    with Archive.open(computer.folder) as archive:
        return archive.sources()
