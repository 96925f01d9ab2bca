"""``bygones restore``: original files, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from bygones import Archive, read_sessions
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.sources.layout import project_key
from tests.build import Home, jsonl, prompt, reply, session_id, thread

FIRST = session_id(1)
Files = dict[str, tuple[bytes, int]]
"""Bytes and times by path."""


def read_files(folder: Path) -> Files:
    """Return the bytes and times of all files below a folder."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes(),
            path.stat().st_mtime_ns,
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def deleted_home(sample_home: Home) -> tuple[Home, Files]:
    """Return a home that was archived and then deleted, and what was in it."""
    for number, path in enumerate(sorted(sample_home.path.rglob("*.*"))):
        os.utime(path, ns=(10**18 + number, 10**18 + number))
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS
    before = read_files(sample_home.path)
    shutil.rmtree(sample_home.path)
    return sample_home, before


def test_session_is_restored_with_all_its_files(
    deleted_home: tuple[Home, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    home, before = deleted_home

    assert main(["restore", FIRST]) == ExitCode.SUCCESS

    after = read_files(home.path)
    assert after == {name: before[name] for name in before if FIRST in name}
    assert len(after) == 7
    assert capsys.readouterr().out.startswith("restored 7 files, ")


def test_everything_is_restored(
    deleted_home: tuple[Home, Files],
) -> None:
    home, before = deleted_home

    assert main(["restore", "--all"]) == ExitCode.SUCCESS
    assert read_files(home.path) == before


@pytest.mark.usefixtures("deleted_home")
def test_project_is_restored_by_path_or_name(tmp_path: Path) -> None:
    for number, name in enumerate(("/work/demo", "demo")):
        to = tmp_path / str(number)
        assert main(["restore", name, "--to", str(to)]) == ExitCode.SUCCESS
        assert {name for name in read_files(to) if name.endswith(".jsonl")} == {
            f"projects/-work-demo/{FIRST}.jsonl",
            f"projects/-work-demo/{FIRST}/subagents/agent-a1.jsonl",
            f"projects/-work-other/{session_id(2)}.jsonl",
        }


def test_ambiguous_prefix_is_rejected(
    deleted_home: tuple[Home, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["restore", "5e551000"]) == ExitCode.USAGE_ERROR
    stderr = capsys.readouterr().err
    assert "'5e551000' matches 2 sessions:\n" in stderr
    assert f"\n  {FIRST}  2026-01-05  Counting lines\n" in stderr

    assert main(["restore", "5e551001"]) == ExitCode.USAGE_ERROR
    assert "did you mean 5e551000" in capsys.readouterr().err
    assert not deleted_home[0].path.exists()


def test_unknown_name_is_neither_session_nor_project(
    deleted_home: tuple[Home, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["restore", "nosuch", FIRST]) == ExitCode.USAGE_ERROR

    assert "no session or project 'nosuch' in the archive" in capsys.readouterr().err
    assert not deleted_home[0].path.exists()


def test_projects_and_sessions_can_be_named_together(
    sample_home: Home, tmp_path: Path
) -> None:
    for number in (6, 7):
        records = thread(prompt("Elsewhere", cwd=f"/work/far{number}"), start=9)
        sample_home.session(session_id(number), records, project=f"-work-far{number}")
    main(["ingest", "-q"])
    to = tmp_path / "to"

    assert main(["restore", "far6", "far7", FIRST, "--to", str(to)]) == ExitCode.SUCCESS

    assert {Path(name).stem for name in read_files(to) if "subagents" not in name} >= {
        FIRST,
        session_id(6),
        session_id(7),
    }
    assert session_id(2) not in str(read_files(to))


def test_dry_run_reports_and_writes_nothing(
    deleted_home: tuple[Home, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    home, _ = deleted_home

    assert main(["restore", FIRST, "--dry-run"]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 7
    assert f"~/.claude/projects/-work-demo/{FIRST}.jsonl\n" in captured.out
    assert "would write 7 files" in captured.err
    assert not home.path.exists()


def test_existing_files_are_not_changed(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ingest", "-q"])
    before = read_files(sample_home.path)

    assert main(["restore", "--all"]) == ExitCode.SUCCESS

    assert read_files(sample_home.path) == before
    assert (
        "nothing to restore: 9 files are already up to date" in capsys.readouterr().out
    )


def test_a_file_that_differs_is_kept_without_overwrite(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ingest", "-q"])
    path = sample_home.path / "projects" / "-work-demo" / f"{FIRST}.jsonl"
    original = path.read_bytes()
    path.write_bytes(original + b"mine\n")

    assert main(["restore", FIRST]) == ExitCode.FAILURE
    assert path.read_bytes() == original + b"mine\n"
    assert "1 file differs from the archive" in capsys.readouterr().err

    assert main(["restore", FIRST, "--overwrite"]) == ExitCode.SUCCESS
    assert path.read_bytes() == original
    copy = path.with_name(f"{path.name}.before-restore")
    assert copy.read_bytes() == original + b"mine\n"

    path.write_bytes(b"again\n")
    assert main(["restore", FIRST, "--overwrite"]) == ExitCode.SUCCESS
    assert copy.read_bytes() == original + b"mine\n"
    assert copy.with_name(f"{copy.name}-1").read_bytes() == b"again\n"
    assert not list(path.parent.glob(".*"))


def test_a_moved_project_gets_its_sessions_under_its_new_key(
    deleted_home: tuple[Home, Files], tmp_path: Path
) -> None:
    home, before = deleted_home
    home_dir = tmp_path / "new place"
    home_dir.mkdir()

    assert main(["restore", FIRST, "--as", str(home_dir)]) == ExitCode.SUCCESS

    path = home.path / "projects" / project_key(str(home_dir)) / f"{FIRST}.jsonl"
    assert path.read_bytes() == before[f"projects/-work-demo/{FIRST}.jsonl"][0]
    assert (path.parent / FIRST / "subagents" / "agent-a1.jsonl").exists()
    assert (home.path / "file-history" / FIRST / "0f1e2d3c4b5a6978@v1").exists()
    assert not (home.path / "projects" / "-work-demo").exists()


def test_the_working_directory_moves_only_on_request(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    nested = {"cwd": "/work/demo", "said": 'a "cwd":"/work/demo" in a text'}
    records = [
        prompt("One", toolUseResult=nested),
        prompt("Two", parent="x", cwd="/work/demo/src"),
        prompt("Three", parent="x", cwd="/work/demolition"),
        b'{ "nested": {"cwd":"/work/demo"}, "cwd" : "/work/demo", "type":"user" }',
        b'not json "cwd":"/work/demo"',
        b'{"type":"summary","cwd":5}',
    ]
    path = home.session(FIRST, records)
    with path.open("ab") as file:
        file.write(b'{"type":"user","cwd":"/work/demo"}')
    before = path.read_bytes().split(b"\n")
    main(["ingest", "-q"])
    there = home_dir / "there"

    words = ["restore", FIRST, "--as", str(there), "--rewrite-cwd"]
    assert main(words) == ExitCode.SUCCESS

    moved = home.path / "projects" / project_key(str(there)) / f"{FIRST}.jsonl"
    after = moved.read_bytes().split(b"\n")
    new = str(there).encode()
    assert after[0] == before[0].replace(
        b'"cwd":"/work/demo","sessionId"', b'"cwd":"' + new + b'","sessionId"'
    )
    assert json.loads(after[0])["toolUseResult"] == nested
    assert json.loads(after[1])["cwd"] == f"{there}/src"
    assert after[2] == before[2]
    assert after[3] == (
        b'{ "nested": {"cwd":"/work/demo"}, "cwd" : "' + new + b'", "type":"user" }'
    )
    assert after[4:6] == before[4:6]
    assert after[6] == b'{"type":"user","cwd":"' + new + b'"}'
    assert main(words) == ExitCode.SUCCESS
    assert not list(moved.parent.glob("*before*"))


def test_directories_of_edited_files_move_with_the_working_directory(
    home_dir: Path,
) -> None:
    home = Home(home_dir / ".claude")
    backup = b'"version":1,"realParentDir":"/work/demo/src"'
    records = [
        prompt("One", toolUseResult={"realParentDir": "/work/demo"}),
        b'{"type":"file-history-delta","backup":{%b}}' % backup,
        b'{"type":"file-history-snapshot","snapshot":{"trackedFileBackups":{'
        b'"a": {%b}, "/b": { "realParentDir" : "/work/demolition"}}}}' % backup,
    ]
    path = home.session(FIRST, records)
    before = path.read_bytes().split(b"\n")
    main(["ingest", "-q"])
    there = home_dir / "there"

    words = ["restore", FIRST, "--as", str(there), "--rewrite-cwd"]
    assert main(words) == ExitCode.SUCCESS

    moved = home.path / "projects" / project_key(str(there)) / f"{FIRST}.jsonl"
    after = moved.read_bytes().split(b"\n")
    record = json.loads(after[0])
    assert record["cwd"] == str(there)
    assert record["toolUseResult"] == {"realParentDir": "/work/demo"}
    old, new = b'"/work/demo/src"', f'"{there}/src"'.encode()
    assert after[1:] == [line.replace(old, new) for line in before[1:]]


def test_homes_with_equal_names_are_restored_separately(home_dir: Path) -> None:
    for number in (1, 2):
        Home(home_dir / f"h{number}").history([f"Prompt {number}"])
        Home(home_dir / f"h{number}").session(session_id(number), thread(prompt("x")))
    main(["ingest", "-q", "--home", "h1", "--home", "h2"])

    assert main(["restore", "--all", "--to", "out"]) == ExitCode.SUCCESS

    found = read_files(home_dir / "out")
    histories = {name: raw for name, (raw, _) in found.items() if "history" in name}
    assert sorted(histories.values()) == [
        (home_dir / f"h{n}" / "history.jsonl").read_bytes() for n in (1, 2)
    ]


def test_json_has_the_plan_and_the_result(
    deleted_home: tuple[Home, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    _, before = deleted_home

    assert main(["restore", FIRST, "--json"]) == ExitCode.SUCCESS

    *rows, done = map(json.loads, capsys.readouterr().out.splitlines())
    assert {row["state"] for row in rows} == {"new"}
    size = sum(len(raw) for name, (raw, _) in before.items() if FIRST in name)
    assert done == {
        "type": "restore",
        "written_count": 7,
        "same_count": 0,
        "skipped_count": 0,
        "written_bytes": size,
        "damaged_paths": [],
        "refused_paths": [],
        "copy_paths": [],
        "is_dry_run": False,
    }


@pytest.mark.parametrize(
    "words",
    [[], ["x", "--all"], ["x", "--rewrite-cwd"], ["--all", "--as", "y"]],
)
@pytest.mark.usefixtures("deleted_home")
def test_contradictory_options_are_a_usage_error(words: list[str]) -> None:
    assert main(["restore", *words]) == ExitCode.USAGE_ERROR


def test_restored_files_are_not_imported_again(
    deleted_home: tuple[Home, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    home, _ = deleted_home
    main(["ingest", "-q", "--home", str(home.path.parent)])
    main(["restore", "--all"])
    capsys.readouterr()

    assert main(["ingest"]) == ExitCode.SUCCESS
    assert "new" not in capsys.readouterr().out.splitlines()[0].replace(
        "nothing new", ""
    )
    with Archive.open(home.path.parent / "archive") as archive:
        mine = {
            one.id: archive.session(one.id)
            for one in archive.sessions(include_empty=True)
        }
    assert mine == {session.id: session for session in read_sessions(home.path)}


def test_long_line_is_restored_completely(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    long = thread(prompt("x" * 10_000_000), reply("short"))
    path = home.session(FIRST, long)
    with path.open("ab") as file:
        file.write(jsonl([prompt("cut")])[:-20])
    raw = path.read_bytes()
    main(["ingest", "-q"])
    path.unlink()

    assert main(["restore", FIRST]) == ExitCode.SUCCESS
    assert path.read_bytes() == raw


def test_older_version_can_be_restored(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sample_home.path / "projects" / "-work-demo" / f"{FIRST}.jsonl"
    older = path.read_bytes()
    main(["ingest", "-q"])
    path.write_bytes(jsonl(thread(prompt("Another"), reply("Yes"))))
    newer = path.read_bytes()
    main(["ingest", "-q"])

    assert main(["restore", FIRST, "--older", "1"]) == ExitCode.FAILURE
    assert path.read_bytes() == newer
    assert main(["restore", FIRST, "--older", "1", "--overwrite"]) == ExitCode.SUCCESS
    assert path.read_bytes() == older
    capsys.readouterr()
    assert main(["restore", FIRST, "--older", "1"]) == ExitCode.SUCCESS
    assert "1 file is already up to date" in capsys.readouterr().out
    assert main(["restore", FIRST, "--older", "9"]) == ExitCode.SUCCESS
    assert "no file has a version this old" in capsys.readouterr().err


def test_unwritable_file_does_not_stop_the_others(
    deleted_home: tuple[Home, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    home, before = deleted_home
    odd = min(before)
    (home.path / odd).mkdir(parents=True)

    assert main(["restore", "--all", "--overwrite"]) == ExitCode.FAILURE

    assert set(read_files(home.path)) == set(before) - {odd}
    assert f"not written: {odd}" in capsys.readouterr().err.replace("~/.claude/", "")


def test_copies_kept_by_a_restore_are_not_imported(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ingest", "-q"])
    (path,) = sample_home.path.rglob("tool-results/*.txt")
    path.write_bytes(b"another")
    assert main(["restore", FIRST, "--overwrite"]) == ExitCode.SUCCESS
    path.with_name(".bygones-0a1b2c3d").write_bytes(b"half of it")
    capsys.readouterr()

    assert main(["ingest", "--json"]) == ExitCode.SUCCESS

    assert json.loads(capsys.readouterr().out.splitlines()[-1])["new_count"] == 0
