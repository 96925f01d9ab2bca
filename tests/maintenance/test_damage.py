"""Flipped bits are found, and only damage their chunk."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import Random

import pytest

from bygones.archive import Archive
from bygones.errors import ArchiveDamaged, ArchiveError
from bygones.maintenance.verify import rebuild, verify
from bygones.store.archive_dir import ArchiveDir
from tests.build import jsonl, prompt, session_id, thread
from tests.faults.mutations import ignore_hashes
from tests.faults.sizes import reached, seeded, sized
from tests.store.sandbox import Sandbox, differing_tables

FLIPS = sized(40, 1_000, 5_000)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """Return an archive of several files with several chunks each."""
    sandbox = Sandbox(tmp_path_factory.mktemp("rot"))
    random = Random(7)  # noqa: S311 (the same every time)
    for number in range(3):
        told = [prompt(random.randbytes(500).hex()) for _ in range(700)]
        path = sandbox.home.session(session_id(number), told)
        path.write_bytes(path.read_bytes() + b'{"half":"' + random.randbytes(9))
    sandbox.ingest()
    with sandbox.open_dir(write=True) as archive_dir:
        archive_dir.byte_store.vacuum()
    return sandbox


def flip_bit(raw: bytes, bit: int) -> bytes:
    byte, at = divmod(bit, 8)
    return raw[:byte] + bytes([raw[byte] ^ (1 << at)]) + raw[byte + 1 :]


@lru_cache(maxsize=2)
def frame_offsets(sandbox: Sandbox, table: str) -> list[tuple[int, int]]:
    """Return the offsets of frames in the database that are contiguous."""
    raw = (sandbox.archive / "archive.db").read_bytes()
    found = []
    for (frame,) in sandbox.rows(f"SELECT frame FROM {table}"):  # noqa: S608
        assert isinstance(frame, bytes)
        for start in range(0, len(frame), 1024):
            at = raw.find(frame[start : start + 512])
            if at >= 0:
                found.append((at, at + len(frame[start : start + 512])))
    assert len(found) >= (3 if table == "fragment" else 100)
    return found


def assert_found(sandbox: Sandbox, seed: int, tmp_path: Path) -> None:
    """Flip a bit in a copy, and check that only this damage is found."""
    random = Random(seeded(seed))  # noqa: S311 (the same every time)
    raw = (sandbox.archive / "archive.db").read_bytes()
    # There are a few unfinished lines among hundreds of pieces of chunks.
    table = "chunk" if seed % 8 else "fragment"
    start, stop = random.choice(frame_offsets(sandbox, table))
    (tmp_path / "archive.db").write_bytes(
        flip_bit(raw, random.randrange(start * 8, stop * 8))
    )

    verdict = verify(tmp_path)

    if verdict.is_intact:
        # A decoder must ignore one bit of a frame: the bytes are the same.
        assert table == "fragment"
        assert _bytes_in(tmp_path) == _bytes_in(sandbox.archive)
        return
    assert len(verdict.damages) == 1
    (damage,) = verdict.damages
    with sandbox.open_dir() as archive_dir, ArchiveDir(tmp_path) as rotten:
        for source in archive_dir.byte_store.sources():
            for chunk, sound in archive_dir.byte_store.read_chunks(source.number, 0):
                is_hit = (source.id, chunk.start) == (damage.source, damage.start)
                if not is_hit:
                    length = chunk.stop - chunk.start
                    found = rotten.byte_store.read_bytes(
                        source.number, 0, chunk.start, length
                    )
                    assert found == sound


def _bytes_in(folder: Path) -> dict[str, list[bytes]]:
    found = Sandbox(folder)
    found.archive = folder
    return found.bytes()


@pytest.mark.parametrize("seed", range(FLIPS))
def test_flipped_bit_in_a_frame_damages_one_chunk(
    sandbox: Sandbox, seed: int, tmp_path: Path
) -> None:
    assert_found(sandbox, seed, tmp_path)

    reached("bit flips in chunks, all detected", 1)


def test_missing_hash_check_is_caught(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignore_hashes(monkeypatch.setattr)

    def flip() -> None:
        for seed in range(40):
            assert_found(sandbox, seed, tmp_path)

    with pytest.raises(AssertionError):
        flip()


@pytest.mark.parametrize("seed", range(FLIPS // 2))
def test_flipped_bit_anywhere_raises_only_our_errors(
    sandbox: Sandbox, seed: int, tmp_path: Path
) -> None:
    random = Random(seeded(seed))  # noqa: S311 (the same every time)
    raw = (sandbox.archive / "archive.db").read_bytes()
    # The first pages hold what the rest hangs on.
    end = len(raw) if seed % 2 else 16 * 4096
    (tmp_path / "archive.db").write_bytes(flip_bit(raw, random.randrange(end * 8)))

    with suppress(ArchiveError):
        verify(tmp_path)
    reached("bit flips anywhere in the database", 1)


def corrupt_chunk(sandbox: Sandbox, start: int) -> Path:
    """Corrupt the chunk at an offset; return its file."""
    with sandbox.open_dir(write=True) as archive_dir:
        sql = "UPDATE chunk SET frame = zeroblob(length(frame)) WHERE start = ?"
        archive_dir.byte_store.db.execute(sql, (start,))
    (source,) = sandbox.sources().values()
    return Path(source.id)


@pytest.fixture
def single(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    records = thread(*(prompt(f"{number} " + "x" * 900) for number in range(900)))
    sandbox.home.session(session_id(1), records)
    sandbox.ingest()
    return sandbox


def test_rebuild_continues_after_a_damaged_chunk(single: Sandbox) -> None:
    before = len(single.index_rows("SELECT id FROM record"))
    corrupt_chunk(single, 0)

    rebuild(single.archive)

    after = len(single.index_rows("SELECT id FROM record"))
    assert 0 < after < before
    assert single.index_rows("SELECT kind, start FROM problem") == [("damaged", 0)]
    with Archive.open(single.archive) as archive:
        found = archive.session(session_id(1))
    assert len(found.live_branch.messages) == after
    assert "damaged" in {problem.kind for problem in found.problems}


def test_damaged_source_is_imported_again(single: Sandbox) -> None:
    path = corrupt_chunk(single, 0)
    with path.open("ab") as file:
        file.write(jsonl([prompt("later")]))

    single.ingest()

    assert single.sources()[path.name].generation == 1
    with single.open_dir() as archive_dir:
        raw = path.read_bytes()
        assert archive_dir.byte_store.read_bytes(1, 1, 0, len(raw)) == raw
    assert differing_tables(single) == []


def test_damaged_source_does_not_prevent_importing_others(single: Sandbox) -> None:
    path = corrupt_chunk(single, 0)
    path.unlink()
    other = single.home.session(session_id(2), [prompt("other")])

    report = single.ingest()

    assert (report.new, report.gone) == (1, 1)
    with single.open_dir() as archive_dir:
        raw = other.read_bytes()
        assert archive_dir.byte_store.read_bytes(2, 0, 0, len(raw)) == raw


@pytest.mark.parametrize("column", ["path", "kind"])
def test_damaged_row_does_not_prevent_verifying_and_restoring_others(
    column: str, tmp_path: Path
) -> None:
    sandbox = Sandbox(tmp_path)
    paths = [
        sandbox.home.session(session_id(n), [prompt(f"number {n}")]) for n in range(3)
    ]
    sandbox.ingest()
    raw = (sandbox.archive / "archive.db").read_bytes()
    kind, path = map(str, sandbox.rows("SELECT kind, path FROM source WHERE id = 2")[0])
    row = f"{path}{kind}".encode()
    spoilt = (
        row.replace(kind.encode(), b"sessioX")
        if column == "kind"
        else (b"\xff" + row[1:])
    )
    assert raw.count(row) == 1
    (sandbox.archive / "archive.db").write_bytes(raw.replace(row, spoilt))

    verdict = verify(sandbox.archive)
    with Archive(sandbox.archive) as archive:
        left = [source.id for source in archive.sources()]

    assert not verdict.is_intact
    assert [damage.source for damage in verdict.damages] == ["source 2"]
    assert (verdict.sources, verdict.intact_sources) == (3, 2)
    assert left == [str(paths[0]), str(paths[2])]


def copy_with_damaged_pages(
    sandbox: Sandbox, folder: Path, start: int, stop: int
) -> None:
    """Copy an archive and overwrite pages of the copy, as a failing disk does."""
    raw = bytearray((sandbox.archive / "archive.db").read_bytes())
    raw[start * 4096 : stop * 4096] = b"\xaa" * 4096 * (stop - start)
    (folder / "archive.db").write_bytes(raw)


@pytest.mark.parametrize("seed", range(sized(2, 200, 1_000)))
def test_rebuild_reports_damaged_pages(
    sandbox: Sandbox, seed: int, tmp_path: Path
) -> None:
    pages = (sandbox.archive / "archive.db").stat().st_size // 4096
    # Below are the tables of sources, without which there is nothing to go by.
    start = Random(seeded(seed)).randrange(16, pages - 3)  # noqa: S311 (reproducible)
    copy_with_damaged_pages(sandbox, tmp_path, start, start + 3)
    verdict = verify(tmp_path)
    hurt = {damage.source for damage in (*verdict.damages, *verdict.gaps)}

    report = rebuild(tmp_path)

    assert {problem.position.source_id for problem in report.problems} <= hurt
    assert bool(report.problems) == bool(hurt)
    with Archive.open(tmp_path) as archive:
        known = {one.id for one in archive.sessions(include_empty=True)}
    whole = {
        session_id(n) for n in range(3) if not any(session_id(n) in h for h in hurt)
    }
    assert whole <= known
    reached("rebuilds from archives with damaged pages", 1)


def test_backup_of_a_damaged_archive_has_all_readable_data(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    damaged, copy = tmp_path / "damaged", tmp_path / "copy"
    damaged.mkdir()
    copy_with_damaged_pages(sandbox, damaged, 40, 43)

    with (
        Archive.open(damaged) as archive,
        pytest.raises(ArchiveDamaged, match=r"the copy in .* has the same damage"),
    ):
        archive.backup(copy)

    left, again = verify(damaged), verify(copy)
    assert (again.sources, again.intact_sources) == (left.sources, left.intact_sources)
