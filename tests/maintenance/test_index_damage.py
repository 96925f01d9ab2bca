"""Damaged files of the index are found, reported, and built again; results stay right."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest

from bygones.archive import Archive
from bygones.errors import ArchiveError, IndexDamaged, SystemFailure
from bygones.maintenance.index_repair import (
    find_index_damage,
    rebuild_damaged_index,
)
from bygones.maintenance.verify import rebuild, verify
from bygones.model.summary import SearchResults
from bygones.store import archive_dir, index_seal
from bygones.store.tantivy_engine import TantivyEngine
from bygones.store.text_index import TextIndex
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.faults.mutations import MUTATIONS
from tests.faults.sizes import reached, seeded, sized
from tests.store.sandbox import Sandbox

FLIPS = sized(1, 6, 60)
"""Flipped bits per file of the index."""
WORDS = ("apple", "banana", "cherry", "damson", "elder", "fig", "grape", "hazel")
QUERIES = (
    *WORDS,
    '"apple banana"',
    "ban*",
    "cherry -fig",
    "session:5e551000-0000-4000-8000-000000000002 apple",
    "grap",
)
LOGS = ("index.db-shm", "index.db-wal", "homes", "seal")
"""Files that are empty, or only save time."""


@pytest.fixture(autouse=True)
def _check_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the files in every transaction; otherwise one check serves several."""
    monkeypatch.setattr(archive_dir, "_CHECK_SECONDS", 0)


def make_archive(folder: Path) -> Sandbox:
    """Return an archive of several segments, with deleted texts."""
    sandbox = Sandbox(folder)
    random = Random(5)  # noqa: S311 (the same every time)
    for number in range(12):
        records = thread(
            *(
                one(" ".join(random.choices(WORDS, k=9)) + f" number{number}")
                for one in (prompt, reply) * 3
            )
        )
        sandbox.home.session(session_id(number % 6), records)
        sandbox.ingest()
    return sandbox


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return make_archive(tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def answers(sandbox: Sandbox) -> list[SearchResults]:
    return answers_of(sandbox.archive)


def answers_of(folder: Path) -> list[SearchResults]:
    with Archive.open(folder) as archive:
        return [archive.search(query, limit=20) for query in QUERIES]


def index_files(archive: Path) -> list[Path]:
    """Return the files that the index consists of, relative to the archive."""
    found = sorted((archive / "index").rglob("*"))
    return [
        path.relative_to(archive)
        for path in found
        if path.is_file() and path.stat().st_size and path.name not in LOGS
    ]


def copy_of(sandbox: Sandbox, folder: Path) -> Path:
    """Return a copy of an archive that an ingestion has seen."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(sandbox.archive, copy)
    assert not find_index_damage(copy)
    Archive.ingest(copy, [sandbox.home.path])
    return copy


def flip(path: Path, bit: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[bit // 8] ^= 1 << bit % 8
    with path.open("r+b") as file:
        file.write(raw)


def assert_right_or_reported(
    archive: Path, answers: list[SearchResults], what: object
) -> None:
    """Search; an error is good, and then a rebuild must lead to the same answers."""
    try:
        found = answers_of(archive)
    except ArchiveError:
        assert rebuild_damaged_index(archive), what
        found = answers_of(archive)
    assert found == answers, what


@pytest.mark.full
def test_flipped_bits_in_any_file_of_the_index_never_change_answers_silently(
    sandbox: Sandbox, answers: list[SearchResults], tmp_path: Path
) -> None:
    random = Random(seeded(1))  # noqa: S311 (the same every time)
    for name in index_files(copy_of(sandbox, tmp_path)):
        for number in range(FLIPS):
            copy = copy_of(sandbox, tmp_path / f"{number}")
            bit = random.randrange((copy / name).stat().st_size * 8)
            flip(copy / name, bit)

            assert_right_or_reported(copy, answers, (name, bit))
            reached("bit flips in files of the index", 1)


@pytest.mark.full
@pytest.mark.parametrize("damage", ["deleted", "emptied", "cut"])
def test_lost_parts_of_a_copied_index_never_change_answers_silently(
    sandbox: Sandbox, answers: list[SearchResults], tmp_path: Path, damage: str
) -> None:
    random = Random(seeded(2))  # noqa: S311 (the same every time)
    for name in index_files(sandbox.archive):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(sandbox.archive, copy)
        lose_part(copy / name, damage, random)

        assert_right_or_reported(copy, answers, (name, damage))
        Archive.ingest(copy, [sandbox.home.path])
        assert verify(copy, deep=True).is_intact, (name, damage)
        assert answers_of(copy) == answers, (name, damage)
        reached("lost parts of files of the index", 1)


def lose_part(path: Path, damage: str, random: Random) -> None:
    if damage == "deleted":
        path.unlink()
    else:
        size = path.stat().st_size
        os.truncate(path, random.randrange(size) if damage == "cut" else 0)


@pytest.mark.parametrize("size", [0, 1])
def test_index_without_tables_is_damaged_and_built_again(
    sandbox: Sandbox, answers: list[SearchResults], tmp_path: Path, size: int
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sandbox.archive, copy)
    (database,) = (copy / "index").glob("*/index.db")
    os.truncate(database, size)

    with pytest.raises(IndexDamaged, match="it is empty"):
        answers_of(copy)
    Archive.ingest(copy, [sandbox.home.path])

    assert answers_of(copy) == answers
    assert verify(copy, deep=True).is_intact


def test_not_checking_files_of_the_index_is_caught(
    sandbox: Sandbox,
    answers: list[SearchResults],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = copy_of(sandbox, tmp_path)
    (database,) = (copy / "index").glob("*/index.db")
    raw = database.read_bytes()
    assert b"damson" in raw
    with database.open("r+b") as file:
        file.write(raw.replace(b"damson", b"dampon"))
    MUTATIONS["skip_index_check"](monkeypatch.setattr)

    with pytest.raises(AssertionError):
        assert_right_or_reported(copy, answers, database)


@pytest.mark.parametrize("suffix", ["term", "pos", "idx", "fast", "store", "fieldnorm"])
@pytest.mark.parametrize("folder", ["text", "blocks"])
def test_deep_verification_finds_damaged_and_missing_text_files(
    sandbox: Sandbox, folder: str, suffix: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sandbox.archive, copy)
    (path, *_) = (copy / "index").glob(f"*/**/{folder}/*.{suffix}")
    if suffix in {"pos", "fast"}:
        path.unlink()
    else:
        states = path.stat()
        flip(path, 3)
        os.utime(path, ns=(states.st_atime_ns, states.st_mtime_ns))

    found = verify(copy, deep=True)

    assert not found.is_intact
    assert path.name in found.differences[0]
    rebuild(copy)
    assert verify(copy, deep=True).is_intact


def test_plain_verification_finds_damage_that_left_no_trace_in_file_times(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copy_of(sandbox, tmp_path)
    (path, *_) = (copy / "index").glob("*/text/*.idx")
    flip(path, 80)
    monkeypatch.setattr("bygones.store.archive_dir.find_damage", lambda _: "")

    found = verify(copy)

    assert path.name in found.index_damages[0]
    assert found.is_intact  # the archive is


def test_deep_verification_finds_words_that_the_archive_does_not_contain(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    copy = copy_of(sandbox, tmp_path)
    (folder,) = (copy / "index").glob("*/text")
    text = TextIndex(folder, write=True)
    engine = TantivyEngine(text)
    (_, (match, *_)) = engine.search(engine.match_terms(["apple"]), 1)
    text.remove([match.record])
    session, kind = divmod(match.text_key, 64)
    text.add(match.record, session, kind, (1, "zebra", 1))
    text.commit()
    text.close()
    (folder.parent / "seal").unlink()

    found = verify(copy, deep=True)

    assert not found.is_intact
    assert "the words of texts" in found.differences


def test_engine_that_panics_is_our_error_and_the_next_command_rebuilds(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copy_of(sandbox, tmp_path)
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})

    class Broken:
        def __getattr__(self, _: str) -> object:
            raise panic("range end index 7 out of range")

    class Engine(TantivyEngine):
        def __init__(self, text: TextIndex) -> None:
            super().__init__(text)
            self._searcher = Broken()  # type: ignore[assignment]

    with monkeypatch.context() as patched:
        patched.setattr("bygones.store.tantivy_engine.TantivyEngine", Engine)
        with Archive.open(copy) as archive, pytest.raises(IndexDamaged):
            archive.search("apple")

    assert "out of range" in find_index_damage(copy)
    Archive.ingest(copy, [sandbox.home.path])
    with Archive.open(copy) as archive:
        assert archive.search("apple").session_count


def test_open_archive_notices_files_that_change_while_it_is_open(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    copy = copy_of(sandbox, tmp_path)
    with Archive.open(copy) as archive:
        archive.search("apple")
        (path, *_) = (copy / "index").glob("*/text/*.idx")
        flip(path, 80)

        with pytest.raises(IndexDamaged, match="idx has a different checksum"):
            archive.search("apple")


def test_copied_archive_and_changed_permissions_are_not_damage(
    sandbox: Sandbox, answers: list[SearchResults], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sandbox.archive, copy, copy_function=shutil.copy)
    for path in copy.rglob("*"):
        path.chmod(0o700)

    assert answers_of(copy) == answers


def test_files_of_a_copied_archive_are_read_once_and_again_if_they_change(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sandbox.archive, copy)
    checked: list[str] = []
    check = index_seal._check_file

    def counting_check(path: Path) -> str:
        checked.append(path.name)
        return check(path)

    monkeypatch.setattr(index_seal, "_check_file", counting_check)
    with Archive.open(copy) as archive:
        for _ in range(3):
            archive.search("apple")
        assert len(checked) == len(set(checked)) > 0

        (path, *_) = (copy / "index").glob("*/text/*.idx")
        states = path.stat()
        flip(path, 80)
        os.utime(path, ns=(states.st_atime_ns, states.st_mtime_ns))
        with pytest.raises(IndexDamaged, match="idx has a different checksum"):
            archive.search("apple")


def test_ingestion_rebuilds_an_index_that_another_program_changed(
    tmp_path: Path,
) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), [prompt("walnut")])
    sandbox.ingest()
    (database,) = (sandbox.archive / "index").glob("*/index.db")
    flip(database, 8 * 4096 + 99)
    with path.open("ab") as file:
        file.write(jsonl([prompt("pecan")]))

    sandbox.ingest()

    assert verify(sandbox.archive, deep=True).is_intact


def test_command_says_that_the_index_is_damaged_and_builds_it_again(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    copy = copy_of(sandbox, tmp_path)
    (path, *_) = (copy / "index").glob("*/text/*.term")
    flip(path, 80)
    command = [sys.executable, "-m", "bygones", "search", "apple", "--archive"]
    home = ["--home", str(sandbox.home.path)]

    refused = subprocess.run(
        [*command, str(copy), "--no-ingest"], capture_output=True, check=False
    )
    done = subprocess.run([*command, str(copy), *home], capture_output=True, check=True)

    assert b"is damaged" in refused.stderr
    assert b"Traceback" not in refused.stderr
    assert b"the search index is damaged" in done.stderr
    assert b"apple" in done.stdout


@pytest.mark.parametrize("has_seal", [True, False])
def test_a_file_that_cannot_be_opened_now_is_not_damage(
    sandbox: Sandbox, tmp_path: Path, *, has_seal: bool
) -> None:
    folder = tmp_path / "archive"
    shutil.copytree(sandbox.archive, folder)
    if not has_seal:
        for seal in folder.rglob("seal"):
            seal.unlink()
    script = (
        "import os, resource, sys\n"
        "from pathlib import Path\n"
        "from bygones.store.index_seal import find_damage\n"
        "index = Path(sys.argv[1])\n"
        "count = len(os.listdir('/proc/self/fd'))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (count - 1, count - 1))\n"
        "print(find_damage(index))\n"
    )
    (index,) = {path.parent for path in folder.rglob("index.db")}

    command = [sys.executable, "-c", script, str(index)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "SystemFailure" in result.stderr
    assert "Too many open files" in result.stderr


def test_rebuild_reports_an_index_that_cannot_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = copy_of(make_archive(tmp_path / "first"), tmp_path)
    before = sorted((archive / "index").iterdir())

    def fail(*_: object, **__: object) -> NoReturn:
        raise IndexDamaged(archive, "unable to open database file")

    monkeypatch.setattr(archive_dir, "IndexDB", fail)

    with pytest.raises(SystemFailure, match=r"building.*unable to open"):
        rebuild(archive)
    assert before[0] in (archive / "index").iterdir()


@pytest.mark.parametrize("raw", [b'{"files":{"\xb6":1}}', b"[" * 100_000, b"{", b"\0"])
def test_damaged_seal_is_ignored(
    sandbox: Sandbox, answers: list[SearchResults], tmp_path: Path, raw: bytes
) -> None:
    copy = copy_of(sandbox, tmp_path)
    for name in ("seal", "homes"):
        (path,) = (copy / "index").glob(f"*/{name}")
        path.write_bytes(raw)

    assert answers_of(copy) == answers
    Archive.ingest(copy, [sandbox.home.path])
    assert answers_of(copy) == answers


@pytest.mark.parametrize("table", ["node_page", "message_block"])
def test_damaged_page_of_the_database_is_our_error_and_found_by_verify(
    sandbox: Sandbox, tmp_path: Path, table: str
) -> None:
    """Its size and times are as they were, so that opening it finds nothing."""
    folder = shutil.copytree(sandbox.archive, tmp_path / "archive")
    copy = Sandbox(tmp_path)
    (path,) = (folder / "index").glob("*/index.db")
    times = path.stat()
    raw = path.read_bytes()
    for (frame,) in copy.index_rows(f"SELECT frame FROM {table}"):  # noqa: S608
        assert isinstance(frame, bytes)
        at = raw.find(frame[-40:])
        raw = raw[: at + 20] + b"\xaa" * 20 + raw[at + 40 :] if at > 0 else raw
    path.write_bytes(raw)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    verdict = verify(folder, deep=True)
    with Archive.open(folder) as archive, suppress(ArchiveError):
        for one in archive.sessions(include_empty=True):
            list(archive.session(one.id).live_branch.messages)
    rebuild(folder)

    assert verdict.differences
    assert verify(folder, deep=True).is_intact
