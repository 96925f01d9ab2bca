"""``bygones verify``, ``rebuild`` and ``backup``."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from bygones import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.maintenance.verify import VerificationResult
from tests.build import Home, prompt, session_id, thread


@pytest.fixture
def archive(sample_home: Home) -> Path:
    """Return a small archive."""
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS
    return sample_home.path.parent / "archive"


def damage_chunk(archive: Path, name: str) -> None:
    """Change a byte of a file's first chunk behind the archive's back."""
    with closing(sqlite3.connect(archive / "archive.db")) as db:
        (id_, frame) = db.execute(
            "SELECT chunk.id, frame FROM chunk JOIN source ON source.id = source"
            " WHERE path LIKE ?",
            (f"%{name}",),
        ).fetchone()
        changed = frame[:-9] + bytes([frame[-9] ^ 1]) + frame[-8:]
        db.execute("UPDATE chunk SET frame = ? WHERE id = ?", (changed, id_))
        db.commit()


def test_intact_archive_is_reported(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.startswith("intact: 9 files, ")

    assert main(["verify", "--deep"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.endswith("; the index matches a rebuild\n")

    assert main(["verify", "--quiet"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == ""
    assert archive.exists()


def test_damaged_files_are_listed_and_intact_ones_counted(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_chunk(archive, "toolu_1.txt")

    assert main(["verify", "--quiet"]) == ExitCode.ARCHIVE_DAMAGED

    captured = capsys.readouterr()
    assert captured.out.startswith("damaged: ~/archive\n")
    assert "toolu_1.txt: bytes 0 to 1,400: " in captured.out
    assert captured.out.endswith("intact: 8 of 9 files\n")
    assert "hint: " in captured.err


def test_json_lists_the_damage(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_chunk(archive, "toolu_1.txt")

    assert main(["verify", "--json"]) == ExitCode.ARCHIVE_DAMAGED

    bad, verdict = map(json.loads, capsys.readouterr().out.splitlines())
    assert (bad["type"], bad["start"], bad["end"]) == ("damage", 0, 1400)
    assert verdict["type"] == "verification"
    assert (verdict["is_intact"], verdict["intact_source_count"]) == (False, 8)


def test_intact_files_of_a_damaged_archive_can_be_restored(
    archive: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_chunk(archive, "toolu_1.txt")

    words = ["restore", "--all", "--to", "out"]
    assert main(words) == ExitCode.ARCHIVE_DAMAGED

    captured = capsys.readouterr()
    assert captured.out.startswith("restored 8 files")
    assert "damaged in the archive: ~/out/projects/" in captured.err
    assert not list((home_dir / "out").rglob("*toolu_1*"))


def test_index_that_differs_from_a_rebuild_is_found(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (index,) = (archive / "index").glob("*/index.db")
    with closing(sqlite3.connect(index)) as db:
        db.execute("DELETE FROM usage")
        db.commit()
    (index.parent / "seal").unlink()

    assert main(["verify"]) == ExitCode.SUCCESS
    assert main(["verify", "--deep"]) == ExitCode.ARCHIVE_DAMAGED

    captured = capsys.readouterr()
    assert "the index: usage differs from a rebuild" in captured.out
    assert "bygones rebuild" in captured.err


def test_outdated_index_is_not_damaged(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (index,) = (archive / "index").glob("*/index.db")
    with closing(sqlite3.connect(index)) as db:
        db.execute("INSERT INTO dirty_session SELECT number FROM session LIMIT 1")
        db.execute("DELETE FROM usage")
        db.commit()
    (index.parent / "seal").unlink()

    assert main(["verify"]) == ExitCode.SUCCESS
    capsys.readouterr()
    assert main(["verify", "--deep"]) == ExitCode.FAILURE

    captured = capsys.readouterr()
    assert captured.out.startswith("intact: 9 files")
    assert "equals" not in captured.out
    assert "the index is not up to date" in captured.err


@pytest.mark.parametrize("way", ["gone", "garbage", "torn"])
def test_damaged_index_is_repaired_by_a_rebuild(
    archive: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (index,) = (archive / "index").glob("*/index.db")
    if way == "gone":
        shutil.rmtree(archive / "index")
    elif way == "garbage":
        index.write_bytes(b"garbage" * 1000)
    else:
        index.write_bytes(index.read_bytes()[:5000])
    failed = {ExitCode.FAILURE, ExitCode.ARCHIVE_DAMAGED}
    assert main(["list", "--no-ingest"]) in failed
    assert main(["verify"]) == ExitCode.SUCCESS

    assert main(["rebuild"]) == ExitCode.SUCCESS

    assert "rebuilt: 2 sessions, " in capsys.readouterr().out
    assert main(["verify", "--deep", "-q"]) == ExitCode.SUCCESS
    assert main(["list"]) == ExitCode.SUCCESS
    assert "Counting lines" in capsys.readouterr().out


def test_rebuild_reports_unreadable_sources(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_chunk(archive, ".jsonl")

    assert main(["rebuild"]) == ExitCode.ARCHIVE_DAMAGED

    captured = capsys.readouterr()
    assert "rebuilt: " in captured.out
    assert ".jsonl: damaged" in captured.err
    assert "could not be indexed" in captured.err


def test_file_that_is_not_a_database_is_reported(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (archive / "archive.db").write_bytes(b"not a database" * 1000)

    for command in ("verify", "list", "rebuild", "ingest"):
        assert main([command]) == ExitCode.ARCHIVE_DAMAGED
        assert "is damaged: " in capsys.readouterr().err


def test_a_backup_is_an_archive(
    archive: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", "copy"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.endswith(" to ~/copy\n")

    copy = home_dir / "copy"
    assert [path.name for path in copy.glob("archive*")] == ["archive.db"]
    assert stat.S_IMODE((copy / "archive.db").stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    assert main(["verify", "--archive", "copy"]) == ExitCode.SUCCESS
    assert main(["list", "--archive", "copy"]) == ExitCode.FAILURE
    assert main(["rebuild", "--archive", "copy"]) == ExitCode.SUCCESS
    with Archive.open(copy) as one, Archive.open(archive) as other:
        assert list(one.sessions(include_empty=True)) == list(
            other.sessions(include_empty=True)
        )


@pytest.mark.usefixtures("archive")
def test_an_older_backup_is_replaced(sample_home: Home, home_dir: Path) -> None:
    main(["backup", "copy"])
    main(["rebuild", "--archive", "copy"])
    sample_home.session(session_id(9), thread(prompt("More")))
    main(["ingest", "-q"])

    assert main(["backup", "copy", "-q"]) == ExitCode.SUCCESS
    assert main(["rebuild", "--archive", "copy", "-q"]) == ExitCode.SUCCESS

    with Archive.open(home_dir / "copy") as opened:
        assert len(list(opened.sessions())) == 3


@pytest.mark.usefixtures("archive")
def test_nothing_else_is_replaced_by_a_backup(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home_dir / "mine").mkdir()
    (home_dir / "mine" / "letter.txt").write_text("dear")
    (home_dir / "file").write_text("a file")
    main(["ingest", "-q", "--archive", "another"])

    for dest in ("mine", "file", "archive", "another"):
        assert main(["backup", dest]) == ExitCode.USAGE_ERROR
        assert "something other than a backup" in capsys.readouterr().err


def test_a_backup_can_be_made_while_something_is_written(
    archive: Path, home_dir: Path
) -> None:
    with closing(sqlite3.connect(archive / "archive.db")) as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM source")

        assert main(["backup", "copy", "-q"]) == ExitCode.SUCCESS
        db.rollback()

    assert main(["verify", "--archive", "copy", "-q"]) == ExitCode.SUCCESS
    with closing(sqlite3.connect(home_dir / "copy" / "archive.db")) as db:
        assert db.execute("SELECT count(*) FROM source").fetchone() == (9,)


@pytest.mark.usefixtures("archive")
def test_json_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "copy", "--json"]) == ExitCode.SUCCESS
    assert main(["rebuild", "--json"]) == ExitCode.SUCCESS

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["type"] for row in rows] == ["backup", "ingest_report"]
    assert rows[0]["written_bytes"] > 0
    assert rows[1]["session_count"] == 2


def overwrite_tables(path: Path, *tables: str) -> None:
    """Overwrite the first page of tables, as a disk does that forgets."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        rows = dict(db.execute("SELECT name, rootpage FROM sqlite_schema").fetchall())
    with path.open("r+b") as file:
        for table in tables:
            file.seek((rows[table] - 1) * 4096)
            file.write(b"\xaa" * 4096)


@pytest.mark.parametrize("words", [["list"], ["search", "lines"], ["show", "last"]])
def test_a_backup_has_no_index_and_every_command_says_so(
    archive: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    copy = str(archive.parent / "copy")
    assert main(["backup", copy]) == ExitCode.SUCCESS
    capsys.readouterr()

    assert main([*words, "--no-ingest", "--archive", copy]) == ExitCode.FAILURE

    stderr = capsys.readouterr().err
    assert "has no usable index" in stderr
    assert f"hint: run `bygones rebuild --archive {copy}`" in stderr


def test_a_backup_without_an_index_is_sound_and_cannot_be_compared(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = str(archive.parent / "copy")
    assert main(["backup", copy]) == ExitCode.SUCCESS
    assert main(["verify", "--archive", copy]) == ExitCode.SUCCESS
    capsys.readouterr()

    assert main(["verify", "--deep", "--archive", copy]) == ExitCode.FAILURE

    captured = capsys.readouterr()
    assert captured.out.startswith("intact: 9 files")
    assert "has no usable index" in captured.err
    assert "damaged" not in captured.out + captured.err


def test_index_that_cannot_be_compared_is_not_damaged(
    archive: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = VerificationResult(sources=9, is_busy=True, is_index_current=False)
    monkeypatch.setattr("bygones.archive.Archive.verify", lambda *_, **__: busy)

    assert main(["verify", "--deep"]) == ExitCode.ARCHIVE_IN_USE

    captured = capsys.readouterr()
    assert captured.out.startswith("intact: 9 files")
    assert "note: the index was not checked: another process is writing" in captured.err
    assert f"another command is writing to {archive}" in captured.err


def test_backup_does_not_replace_a_newer_archive(
    archive: Path, sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = str(archive.parent / "copy")
    assert main(["backup", copy]) == ExitCode.SUCCESS
    sample_home.session(session_id(7), thread(prompt("after the backup")))
    assert main(["ingest"]) == ExitCode.SUCCESS
    assert main(["star", "last"]) == ExitCode.SUCCESS
    capsys.readouterr()

    code = main(["backup", str(archive), "--archive", copy])

    assert code == ExitCode.USAGE_ERROR
    stderr = capsys.readouterr().err
    assert f"{archive} is newer than the archive in {copy}" in stderr
    assert "it has 1 file, 1 annotation that" in stderr
    assert "swap source and target" in " ".join(stderr.split())
    assert main(["list", "--no-ingest", "--json"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.count('"is_starred":true') == 1


def test_damaged_index_pages_are_not_reported_as_a_damaged_archive(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (index,) = (archive / "index").glob("*/index.db")
    overwrite_tables(index, "record", "usage", "usage_15min")
    (index.parent / "seal").unlink()

    assert main(["usage", "--no-ingest"]) == ExitCode.FAILURE
    stderr = capsys.readouterr().err
    assert stderr.startswith("error: the index of the archive in ")
    assert "`bygones rebuild`" in stderr

    assert main(["verify"]) == ExitCode.SUCCESS
    assert "there is no valid index" in capsys.readouterr().err


def test_ingest_rebuilds_a_damaged_index(
    archive: Path, sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    (index,) = (archive / "index").glob("*/index.db")
    overwrite_tables(index, "record")
    sample_home.session(session_id(7), thread(prompt("after the damage")))

    assert main(["ingest"]) == ExitCode.SUCCESS

    assert "10 files: 1 new" in capsys.readouterr().out
    assert main(["verify", "--deep"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.endswith("; the index matches a rebuild\n")


def test_verify_describes_damaged_pages_one_per_line(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overwrite_tables(archive / "archive.db", "fragment")

    assert main(["verify"]) == ExitCode.ARCHIVE_DAMAGED

    stdout = capsys.readouterr().out
    assert "  the database: Tree " in stdout
    assert "\\n" not in stdout


READERS = (["list", "--no-ingest"], ["verify"], ["rebuild"], ["search", "x", "-q"])


@pytest.mark.parametrize("words", [*READERS, ["ingest"], ["list"], ["doctor"]])
@pytest.mark.usefixtures("sample_home")
def test_every_command_reports_an_empty_database_as_damaged(
    words: list[str], home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home_dir / "there").mkdir()
    path = home_dir / "there" / "archive.db"
    path.touch()

    code = main([*words, "--archive", str(home_dir / "there")])

    assert code == ExitCode.ARCHIVE_DAMAGED
    assert path.stat().st_size == 0
    stderr = capsys.readouterr().err
    assert "archive.db is damaged: the file is empty" in stderr
    assert "hint: restore a backup, or remove the file" in stderr


@pytest.mark.parametrize("words", [*READERS, ["ingest"]])
@pytest.mark.usefixtures("sample_home")
def test_every_command_reports_a_database_of_one_byte_as_damaged(
    words: list[str], home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home_dir / "there").mkdir()
    path = home_dir / "there" / "archive.db"
    path.write_bytes(b"S")

    code = main([*words, "--archive", str(home_dir / "there")])

    assert code == ExitCode.ARCHIVE_DAMAGED
    assert path.read_bytes() == b"S"
    assert "archive.db is damaged: it has 1 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("version", [0, 1, 77])
@pytest.mark.parametrize("words", [*READERS, ["ingest"]])
@pytest.mark.usefixtures("sample_home")
def test_a_database_of_another_program_is_left_alone(
    words: list[str],
    version: int,
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home_dir / "there").mkdir()
    path = home_dir / "there" / "archive.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
        db.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()

    code = main([*words, "--archive", str(home_dir / "there")])

    assert code == ExitCode.USAGE_ERROR
    assert "belongs to another program" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize("words", [*READERS, ["ingest"]])
@pytest.mark.usefixtures("sample_home")
def test_hints_for_a_broken_database_do_not_point_at_each_other(
    words: list[str],
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home_dir / "there").mkdir()
    (home_dir / "there" / "archive.db").write_bytes(b"a letter to a friend\n" * 400)

    code = main([*words, "--archive", str(home_dir / "there")])

    assert code == ExitCode.ARCHIVE_DAMAGED
    assert "bygones verify" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [*READERS, ["ingest"]])
@pytest.mark.usefixtures("sample_home")
def test_file_in_place_of_the_archive_folder_is_reported(
    words: list[str],
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home_dir / "afile").write_text("x", "utf-8")

    code = main([*words, "--archive", str(home_dir / "afile")])

    assert code == ExitCode.USAGE_ERROR
    assert "afile is not a folder" in capsys.readouterr().err


@pytest.mark.usefixtures("sample_home")
def test_file_in_place_of_the_index_folder_is_reported_with_a_way_out(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = home_dir / "archive"
    main(["ingest", "--archive", str(archive)])
    shutil.rmtree(archive / "index")
    (archive / "index").write_text("x", "utf-8")

    code = main(["rebuild", "--archive", str(archive)])

    assert code == ExitCode.USAGE_ERROR
    assert "move the file away" in capsys.readouterr().err
    (archive / "index").unlink()
    assert main(["rebuild", "--archive", str(archive)]) == 0
