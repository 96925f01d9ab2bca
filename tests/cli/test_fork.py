"""Continuing a session from an earlier turn."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import (
    SESSION,
    Home,
    Written,
    prompt,
    reply,
    thread,
    tool_result,
    tool_use,
)
from tests.cli.terminals import run_piped


@pytest.fixture
def home(home_dir: Path) -> Path:
    """Return the usual home, with a session of three turns; the second was rewound."""
    home = Home(home_dir / ".claude")
    work = home_dir / "work"
    work.mkdir()
    records = thread(
        prompt("one", uuid="p1"),
        reply("first", uuid="a1"),
        prompt("two", uuid="p2"),
        reply("second", uuid="a2"),
        prompt("three", uuid="p3", parent="a1"),
        reply("third", uuid="a3"),
    )
    home.session(SESSION, [{**record, "cwd": str(work)} for record in records])
    Archive.ingest(home_dir / "archive", [home.path])
    return home.path


def fork(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Fork, and return the prompts and answers of the new session."""
    assert main(["fork", *arguments]) == ExitCode.SUCCESS
    command = shlex.split(capsys.readouterr().out)
    assert main(["show", command[-1], "--json"]) == ExitCode.SUCCESS
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [row["text"] for row in rows if row["type"] == "message"]


@pytest.mark.usefixtures("home")
def test_new_session_ends_before_or_after_the_turn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert fork(capsys, f"{SESSION}:2") == ["one", "first"]
    assert fork(capsys, f"{SESSION}:2", "--through") == [
        *("one", "first", "three", "third")
    ]
    assert fork(capsys, SESSION, "--branch", "2") == ["one", "first", "two", "second"]


def test_command_continues_the_new_session_in_its_directory(
    home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in home.rglob("*.jsonl")}

    assert main(["fork", "last:2"]) == ExitCode.SUCCESS

    out, err = capsys.readouterr()
    (new,) = set(home.rglob("*.jsonl")) - before.keys()
    assert out == f"cd {home_dir}/work && claude --resume {new.stem}\n"
    assert "wrote 2 messages: " in err
    assert {path: path.read_bytes() for path in before} == before


def test_session_can_be_continued_elsewhere_after_its_directory_is_gone(
    home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(home / "projects")
    shutil.rmtree(home_dir / "work")

    assert main(["fork", SESSION]) == ExitCode.FAILURE
    assert "fork SESSION --into DIR" in capsys.readouterr().err
    assert not list(home.rglob("*.jsonl"))
    assert main(["fork", SESSION, "--into", "new"]) == ExitCode.USAGE_ERROR
    assert "create it with `mkdir -p new`" in capsys.readouterr().err
    (home_dir / "new").mkdir()
    assert main(["fork", SESSION, "--into", "new", "--json"]) == ExitCode.SUCCESS

    row = json.loads(capsys.readouterr().out)
    assert row["directory"] == str(home_dir / "new")
    assert row["message_count"] == 4
    assert f'"cwd":"{home_dir}/new"' in Path(row["path"]).read_text()


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
@pytest.mark.usefixtures("home")
def test_claude_is_run_with_the_new_session(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = home_dir / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$PWD $*" > {home_dir}/arguments\nexit 7\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    done = run_piped("fork", "last:2", "--run")

    assert done.returncode == 7, done.stderr
    arguments = (home_dir / "arguments").read_text().split()
    assert arguments[:2] == [f"{home_dir}/work", "--resume"]
    assert arguments[2] != SESSION


@pytest.fixture
def edited_repository(home_dir: Path) -> Path:
    """Return a repository in which a session wrote a file three times."""
    work = home_dir / "repo" / "app"
    work.mkdir(parents=True)
    git(work.parent, "init", "-q", "-b", "main")
    # The second commit is newer than the session.
    for day, content in (("2026-01-01", "kept\n"), ("2026-02-01", "changed later\n")):
        (work / "kept.txt").write_text(content)
        git(work, "add", ".")
        git(work, "commit", "-qm", day, date=f"{day}T00:00:00Z")
    records: list[Written] = []
    for number in (1, 2, 3):
        records += write_turn(work, number)
    home = Home(home_dir / ".claude")
    home.session(SESSION, [{**record, "cwd": str(work)} for record in thread(*records)])
    (work / "a.txt").write_text("3\n")
    Archive.ingest(home_dir / "archive", [home.path])
    return work


def git(folder: Path, *arguments: str, date: str = "") -> None:
    author = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    environ = os.environ | ({"GIT_COMMITTER_DATE": date} if date else {})
    command = ["git", *author, *arguments]
    subprocess.run(command, cwd=folder, check=True, env=environ)


def write_turn(work: Path, number: int) -> list[Written]:
    path, content = str(work / "a.txt"), f"{number}\n"
    id_ = f"toolu_{number}"
    before = f"{number - 1}\n" if number > 1 else None
    outcome: dict[str, object] = {
        "type": "update" if before else "create",
        "filePath": path,
        "content": content,
        "structuredPatch": [],
        "originalFile": before,
    }
    call = tool_use("Write", id=id_, file_path=path, content=content)
    return [
        prompt(f"write {number}", uuid=f"p{number}"),
        reply([call], uuid=f"a{number}"),
        tool_result(id_, "written", outcome=outcome, uuid=f"r{number}"),
        reply("done", uuid=f"d{number}"),
    ]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_files_are_restored_as_they_were_in_a_worktree(
    edited_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fork", "last:3", "--files", "worktree"]) == ExitCode.SUCCESS

    out, err = capsys.readouterr()
    directory = Path(shlex.split(out)[1])
    assert directory.name == "app"
    assert directory.parent.name.startswith("repo-")
    assert (directory / "a.txt").read_text() == "2\n"
    assert (directory / "kept.txt").read_text() == "kept\n"
    assert "restored 1 file from commit " in err
    assert (edited_repository / "a.txt").read_text() == "3\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.usefixtures("edited_repository")
def test_files_are_restored_as_they_were_in_an_empty_folder(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["fork", "last:1", "--through", "--files", "copy"]

    assert main(arguments) == ExitCode.SUCCESS
    assert main(arguments) == ExitCode.FAILURE

    out, err = capsys.readouterr()
    assert out.startswith(f"cd {home_dir}/copy && ")
    assert [path.name for path in (home_dir / "copy").iterdir()] == ["a.txt"]
    assert (home_dir / "copy" / "a.txt").read_text() == "1\n"
    assert "is not empty" in err


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["last:1"], "nothing comes before that point"),
        (["last:9"], "there is no turn 9: the branch has 2 turns"),
        (["last:x"], "'x' is not the number of a turn"),
        (["last", "--through"], "--through needs a turn"),
        (["last", "--files", "x", "--into", "."], "use --files or --into, not both"),
        (["last", "--branch", "7"], "there is no branch '7'"),
        (["ffff"], "ffff"),
    ],
)
def test_impossible_point_is_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fork", *arguments]) == ExitCode.USAGE_ERROR

    assert message in capsys.readouterr().err
