"""Damaged parts are read again from other copies; what is intact is never lost."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode, NothingRecovered
from bygones.maintenance.repair import repair_archive
from bygones.maintenance.verify import verify
from bygones.model.base import SessionId
from bygones.store.salvage import read_rows
from tests.build import prompt, session_id, thread
from tests.faults.sizes import reached, seeded, sized
from tests.maintenance.test_damage import flip_bit
from tests.store.sandbox import Sandbox, differing_tables

FORMS = sized(6, 60, 1_000)
"""Archives that are truncated or overwritten at random."""


def make(folder: Path) -> Sandbox:
    sandbox = Sandbox(folder)
    random = Random(3)  # noqa: S311 (the same every time)
    for number in range(4):
        records = thread(*(prompt(random.randbytes(400).hex()) for _ in range(100)))
        path = sandbox.home.session(session_id(number), records)
        with path.open("ab") as file:
            file.write(b'{"half":"' + random.randbytes(9).hex().encode())
    sandbox.ingest()
    rewritten = sandbox.home.session(session_id(1), [prompt("again")])
    sandbox.ingest()
    assert len(sandbox.generations(rewritten)) == 2
    with Archive.open(sandbox.archive) as archive:
        ids = [SessionId(session_id(2))]
        archive.annotate(ids, lambda old: type(old)(tags=("kept",)))
    return sandbox


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return make(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def sandbox(whole: Sandbox, tmp_path: Path) -> Sandbox:
    """Return a copy of the archive, with its home in the same place."""
    copy = Sandbox(tmp_path)
    copy.home = whole.home
    shutil.copytree(whole.archive, copy.archive)
    return copy


def damage_chunk(sandbox: Sandbox, source: int, generation: int = 0) -> None:
    with sandbox.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.db.execute(
            "UPDATE chunk SET frame = zeroblob(length(frame))"
            " WHERE source = ? AND generation = ?",
            (source, generation),
        )


def test_damaged_chunk_is_read_again_from_its_file(
    sandbox: Sandbox, whole: Sandbox
) -> None:
    damage_chunk(sandbox, 1)
    before = verify(sandbox.archive)

    result = repair_archive(sandbox.archive)

    assert before.recoverable_count == len(before.damages) == 1
    assert (len(result.recovered), result.lost) == (1, [])
    assert verify(sandbox.archive, deep=True).is_intact
    assert sandbox.bytes() == whole.bytes()


def test_damaged_unfinished_line_is_read_again_from_its_file(
    sandbox: Sandbox, whole: Sandbox
) -> None:
    with sandbox.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.db.execute(
            "UPDATE fragment SET frame = x'00' WHERE source = 1"
        )

    result = repair_archive(sandbox.archive)

    assert (len(result.recovered), result.lost) == (1, [])
    assert sandbox.bytes() == whole.bytes()


def test_bytes_with_another_hash_are_not_accepted(tmp_path: Path) -> None:
    sandbox = make(tmp_path)
    damage_chunk(sandbox, 1)
    path = sandbox.home.path / f"projects/-work-demo/{session_id(0)}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"user"', b'"usEr"'))

    result = repair_archive(sandbox.archive)

    assert (result.recovered, len(result.lost)) == ([], 1)
    assert verify(sandbox.archive).recoverable_count == 0


def test_damaged_chunk_is_read_again_from_a_backup_or_a_folder(
    sandbox: Sandbox, whole: Sandbox, tmp_path: Path
) -> None:
    damage_chunk(sandbox, 2, generation=0)  # the file was rewritten since
    folder = tmp_path / "copies"
    folder.mkdir()
    (folder / f"{session_id(1)}.jsonl").write_bytes(
        whole.generations(
            whole.home.path / f"projects/-work-demo/{session_id(1)}.jsonl"
        )[0]
    )
    lost = repair_archive(sandbox.archive).lost
    copies = shutil.copytree(sandbox.archive, tmp_path / "twice")

    by_backup = repair_archive(sandbox.archive, others=[whole.archive])
    by_folder = repair_archive(copies, others=[folder])

    assert len(lost) == len(by_backup.recovered) == len(by_folder.recovered) == 1
    assert sandbox.bytes() == whole.bytes()
    assert verify(copies).is_intact


def test_file_with_a_lost_part_is_imported_again(tmp_path: Path) -> None:
    sandbox = make(tmp_path)
    with sandbox.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.db.execute("DELETE FROM chunk WHERE source = 1")
    path = sandbox.home.path / f"projects/-work-demo/{session_id(0)}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"user"', b'"usEr"'))

    lost = repair_archive(sandbox.archive).lost
    sandbox.ingest()

    assert len(lost) == 1
    with sandbox.open_dir() as archive_dir:
        raw = path.read_bytes().rpartition(b"\n")[0] + b"\n"
        assert archive_dir.byte_store.read_bytes(1, 1, 0, len(raw)) == raw


@pytest.mark.parametrize("eighths", [1, 2, 3, 5, 7])
def test_truncated_database_is_completed_from_files(
    sandbox: Sandbox, whole: Sandbox, eighths: int
) -> None:
    spoil(sandbox, lambda raw: raw[: len(raw) * eighths // 8])

    result = repair_archive(sandbox.archive)
    sandbox.ingest()

    # The old generation of a file that was rewritten is in the archive only.
    assert {part.generation for part in result.lost} <= {0}
    assert {(part.source.number, part.start == 0) for part in result.lost} <= {
        (2, True),
        (2, False),  # its unfinished line
    }
    assert verify(sandbox.archive, deep=True).is_intact == (not result.lost)
    sources = sandbox.sources()
    with sandbox.open_dir() as archive_dir:
        for path, raws in whole.bytes().items():
            source = sources[Path(path).name]
            chunks = archive_dir.byte_store.read_chunks(
                source.number, source.generation
            )
            stored = b"".join(raw for _, raw in chunks)
            assert raws[-1].startswith(stored)
            assert b"\n" not in raws[-1][len(stored) :]


def test_damaged_chunk_is_found_in_its_file_if_the_name_of_the_file_is_lost(
    sandbox: Sandbox,
) -> None:
    damage_chunk(sandbox, 1)
    with sandbox.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.db.execute(
            "UPDATE source SET home = '', path = 'recovered/1/source-1' WHERE id = 1"
        )

    result = repair_archive(sandbox.archive)

    assert (len(result.recovered), result.lost) == (1, [])
    assert verify(sandbox.archive, deep=True).is_intact


def test_missing_chunks_are_not_read_from_a_file_with_other_lines(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    lines = thread(*(prompt("x" * 5000 + str(number)) for number in range(300)))
    path = sandbox.home.session(session_id(1), lines)
    sandbox.ingest()
    with sandbox.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.db.execute(
            "DELETE FROM chunk WHERE id = (SELECT min(id) FROM chunk)"
        )
    raw = path.read_bytes()
    at = len(raw) * 2 // 3
    path.write_bytes(raw[:at].replace(b"xx", b"yy") + raw[at:])
    with path.open("r+b") as file:
        file.write(raw[:5000])

    result = repair_archive(sandbox.archive)

    assert (result.recovered, len(result.lost)) == ([], 1)


def truncate(raw: bytes, random: Random) -> bytes:
    return raw[: random.randrange(4096, len(raw))]


def lose_head(raw: bytes, random: Random) -> bytes:
    size = random.randrange(1, 3 * 4096)
    return random.randbytes(size) + raw[size:]


def overwrite_pages(raw: bytes, random: Random) -> bytes:
    start = random.randrange(0, len(raw) - 8192, 4096)
    return raw[:start] + b"\xaa" * 8192 + raw[start + 8192 :]


def intact_bytes(raw: bytes, whole: bytes) -> set[bytes]:
    """Return the hashes of chunks all of whose pages are left, read independently."""
    intact = {
        number
        for number in range(len(raw) // 4096)
        if raw[number * 4096 : number * 4096 + 4096]
        == whole[number * 4096 : number * 4096 + 4096]
    }
    return {hash_ for hash_, pages in chunk_pages(whole).items() if pages <= intact}


def chunk_rows(raw: bytes) -> list[tuple[bytes, bytes]]:
    """Return the chunks of a database, as the standard library reads it."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        uri = f"file:{file.name}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as db:
            return db.execute("SELECT hash, frame FROM chunk").fetchall()


def chunk_pages(raw: bytes) -> dict[bytes, set[int]]:
    """Return the pages that contain each chunk, found by SQLite's own table."""
    found: dict[bytes, set[int]] = {}
    for hash_, frame in chunk_rows(raw):
        pages = set()
        for at in range(0, len(frame), 256):
            position = raw.find(frame[at : at + 64])
            assert position >= 0 or at + 64 > len(frame) or at
            pages.add(max(position, 0) // 4096)
        pages.add(raw.find(hash_) // 4096)
        found[hash_] = pages
    return found


@pytest.mark.parametrize("seed", range(FORMS))
def test_everything_intact_is_recovered_from_a_damaged_database(
    whole: Sandbox, tmp_path: Path, seed: int
) -> None:
    random = Random(seeded(seed))  # noqa: S311 (the same every time)
    with whole.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.checkpoint_wal()
    raw = (whole.archive / "archive.db").read_bytes()
    ways: list[Callable[[bytes, Random], bytes]] = [
        truncate,
        lose_head,
        overwrite_pages,
    ]
    damaged = ways[seed % 3](raw, random)
    (tmp_path / "archive.db").write_bytes(damaged)
    expected = intact_bytes(damaged, raw)

    try:
        result = repair_archive(tmp_path)
    except NothingRecovered:
        assert not expected
        return

    found = {
        row.values[5]
        for row in read_rows(tmp_path / "archive.db")
        if row.table == "chunk" and row.values[6]
    }
    assert expected <= found
    if result.damaged_copy is not None:
        assert result.damaged_copy.read_bytes() == damaged
    checked = verify(tmp_path)
    assert checked.database == "ok"
    with Archive.open(tmp_path) as archive:
        list(archive.sessions(include_empty=True))
    reached("archives that were truncated or overwritten, and repaired", 1)


def test_interrupted_repair_of_a_database_is_completed_with_its_log(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sandbox.archive / "archive.db"
    with sandbox.open_dir() as reading, reading.read_transaction():
        sandbox.home.session(session_id(9), [prompt("only in the log")])
        sandbox.ingest()
        raw, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    (sandbox.home.path / f"projects/-work-demo/{session_id(9)}.jsonl").unlink()
    assert log
    path.write_bytes(raw[: len(raw) - 8192])
    Path(f"{path}-wal").write_bytes(log)
    Path(f"{path}-shm").unlink(missing_ok=True)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            repair_archive(sandbox.archive)

    repair_archive(sandbox.archive)

    with sandbox.open_dir() as archive_dir:
        chunks = archive_dir.byte_store.read_chunks(5, 0)
        assert [b"only in the log" in raw for _, raw in chunks] == [True]


def test_annotations_and_purges_survive_a_repair(sandbox: Sandbox) -> None:
    with Archive.open(sandbox.archive) as archive:
        purged = [SessionId(session_id(3))]
        archive.purge(archive.sources(sessions=purged), sessions=purged)
    raw = (sandbox.archive / "archive.db").read_bytes()
    (sandbox.archive / "archive.db").write_bytes(b"\0" * 20 + raw[20:])

    repair_archive(sandbox.archive)
    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        assert archive.annotations()[session_id(2)].tags == ("kept",)  # type: ignore[index]
        known = {one.id for one in archive.sessions(include_empty=True)}
    assert session_id(3) not in known
    assert session_id(2) in known


def test_file_that_is_not_an_archive_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "archive.db").write_bytes(b"not an archive" * 1000)

    with pytest.raises(NothingRecovered):
        repair_archive(tmp_path)

    assert (tmp_path / "archive.db").read_bytes() == b"not an archive" * 1000
    assert {path.name for path in tmp_path.iterdir()} <= {"archive.db", "writer.lock"}


def test_repaired_archive_equals_a_rebuilt_one(sandbox: Sandbox) -> None:
    raw = (sandbox.archive / "archive.db").read_bytes()
    (sandbox.archive / "archive.db").write_bytes(raw[: len(raw) // 2])

    repair_archive(sandbox.archive)
    sandbox.ingest()

    assert differing_tables(sandbox) == []


HINTED = re.compile(r"`(bygones [^`]+)`")
WAYS: dict[str, Callable[[Sandbox], None]] = {
    "chunk": lambda sandbox: damage_chunk(sandbox, 1),
    "old generation": lambda sandbox: damage_chunk(sandbox, 2),
    "header": lambda sandbox: spoil(sandbox, lambda raw: b"x" * 100 + raw[100:]),
    "truncated": lambda sandbox: spoil(sandbox, lambda raw: raw[: len(raw) // 3]),
    "garbage": lambda sandbox: spoil(sandbox, lambda raw: b"x" * len(raw)),
    "page": lambda sandbox: spoil(sandbox, lambda raw: flip_bit(raw, 4096 * 8 * 3 + 1)),
    "row": lambda sandbox: spoil(
        sandbox, lambda raw: raw.replace(b".jsonlsession", b".jsonlsessioX", 1)
    ),
    "index": lambda sandbox: shutil.rmtree(sandbox.archive / "index"),
    "text": lambda sandbox: next(
        (sandbox.archive / "index").glob("*/text/*.term")
    ).unlink(),
    "empty": lambda sandbox: spoil(sandbox, lambda _: b""),
}


def spoil(sandbox: Sandbox, change: Callable[[bytes], bytes]) -> None:
    path = sandbox.archive / "archive.db"
    with sandbox.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.checkpoint_wal()
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "first", ["verify", "rebuild", "restore --all --to OUT", "list"]
)
def test_hints_after_damage_lead_to_an_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str, first: str
) -> None:
    """Execute what the hints say: no command may be suggested a second time."""
    sandbox = make_small(tmp_path)
    backup = shutil.copytree(sandbox.archive, tmp_path / "backup")
    WAYS[way](sandbox)
    places = {"BACKUP": str(backup), "OUT": str(tmp_path / "out")}
    follow_hints(sandbox, first, places, capsys)
    done = follow_hints(sandbox, "verify", places, capsys)

    code = main(["verify", "--archive", str(sandbox.archive)])
    hints = find_hints(capsys.readouterr().err)
    if code != ExitCode.SUCCESS:
        assert way in {"garbage", "empty", "row", "truncated"}
        assert {*hints} <= {*done}


@pytest.mark.parametrize("way", WAYS)
def test_hints_without_a_backup_end_with_an_accepted_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    sandbox = make_small(tmp_path)
    for path in sandbox.home.path.rglob("*.jsonl"):
        path.unlink()
    WAYS[way](sandbox)

    done = follow_hints(sandbox, "verify", {}, capsys)

    code = main(["verify", "--archive", str(sandbox.archive)])
    assert "Traceback" not in capsys.readouterr().err
    if way in {"garbage", "empty"}:
        assert code == ExitCode.ARCHIVE_DAMAGED
        return
    assert code == ExitCode.SUCCESS, done
    assert len(done) <= 4  # one command, and what three hints say


def follow_hints(
    sandbox: Sandbox,
    first: str,
    places: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    """Execute a command and what its hints say; return all commands."""
    pending, done = [first], list[str]()
    while pending:
        command = pending.pop(0)
        arguments = [
            places.get(argument, argument) for argument in shlex.split(command)
        ]
        home = ["--home", str(sandbox.home.path)] * (arguments[0] in {"ingest", "list"})
        home += ["--yes"] * ("--accept-loss" in arguments)
        code = main([*arguments, "--archive", str(sandbox.archive), *home])
        done.append(command)
        printed = capsys.readouterr().err
        assert "Traceback" not in printed
        assert "internal error" not in printed
        if code != ExitCode.SUCCESS:
            hints = find_hints(printed)
            assert command not in hints, f"{command} suggests itself: {printed}"
            hints = [hint for hint in hints if "BACKUP" not in hint or places]
            pending += [hint for hint in hints if hint not in (*done, *pending)]
    return done


def find_hints(printed: str) -> list[str]:
    found = (one.removeprefix("bygones ") for one in HINTED.findall(printed))
    return [re.sub(r" --(archive|home) \S+", "", one) for one in found]


def make_small(folder: Path) -> Sandbox:
    sandbox = Sandbox(folder)
    for number in range(3):
        sandbox.home.session(session_id(number), thread(prompt("x" * 5000)))
    sandbox.ingest()
    sandbox.home.session(session_id(1), [prompt("again")])
    sandbox.ingest()
    return sandbox


def test_purge_erases_the_damaged_copies_too(tmp_path: Path) -> None:
    sandbox = make_small(tmp_path)
    spoil(sandbox, lambda raw: b"x" * 100 + raw[100:])
    repair_archive(sandbox.archive)
    assert list(sandbox.archive.glob("archive.db.damaged-*"))

    with Archive.open(sandbox.archive) as archive:
        purged = [SessionId(session_id(2))]
        archive.purge(archive.sources(sessions=purged), sessions=purged)

    assert not list(sandbox.archive.glob("archive.db.damaged-*"))


def test_repair_says_that_it_rebuilt_a_missing_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), thread(prompt("some words")))
    sandbox.ingest()
    shutil.rmtree(sandbox.archive / "index")
    arguments = ["--archive", str(sandbox.archive)]

    without = main(["verify", "--deep", *arguments])
    note = capsys.readouterr()
    repaired = main(["repair", *arguments])
    said = capsys.readouterr().out
    again = main(["repair", *arguments])

    assert without == ExitCode.FAILURE
    assert "matches" not in note.out
    assert (repaired, again) == (0, 0)
    assert said == "rebuilt: the index, which was missing; the archive is intact\n"
    assert "nothing to repair" in capsys.readouterr().out
    assert verify(sandbox.archive, deep=True).is_index_compared


def test_wrong_length_of_a_file_is_corrected_from_its_chunks(
    sandbox: Sandbox, whole: Sandbox
) -> None:
    with sandbox.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.db.execute(
            "UPDATE generation SET kept = kept - 5 WHERE source = 1"
        )
    before = verify(sandbox.archive)

    result = repair_archive(sandbox.archive)

    assert [gap.stop - gap.start for gap in before.gaps] == [5]
    assert (result.corrected_count, result.lost) == (1, [])
    assert verify(sandbox.archive, deep=True).is_intact
    assert sandbox.bytes() == whole.bytes()
