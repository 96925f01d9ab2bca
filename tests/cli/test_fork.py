"""Continuing a session from an earlier turn."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import SESSION, Home, prompt, reply, thread
from tests.cli.terminals import piped


@pytest.fixture
def home(place: Path) -> Path:
    """Return the usual home, with a session of three turns; the second was rewound."""
    home = Home(place / ".claude")
    work = place / "work"
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
    Archive.ingest(place / "archive", [home.path])
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
    home: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in home.rglob("*.jsonl")}

    assert main(["fork", "last:2"]) == ExitCode.SUCCESS

    out, err = capsys.readouterr()
    (new,) = set(home.rglob("*.jsonl")) - before.keys()
    assert out == f"cd {place}/work && claude --resume {new.stem}\n"
    assert "wrote 2 messages: " in err
    assert {path: path.read_bytes() for path in before} == before


def test_session_can_be_continued_elsewhere_after_its_directory_is_gone(
    home: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(home / "projects")
    shutil.rmtree(place / "work")

    assert main(["fork", SESSION]) == ExitCode.FAILURE
    assert "fork SESSION --into DIR" in capsys.readouterr().err
    assert not list(home.rglob("*.jsonl"))
    (place / "new").mkdir()
    assert main(["fork", SESSION, "--into", "new", "--json"]) == ExitCode.SUCCESS

    row = json.loads(capsys.readouterr().out)
    assert row["directory"] == str(place / "new")
    assert row["message_count"] == 4
    assert f'"cwd":"{place}/new"' in Path(row["path"]).read_text()


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
@pytest.mark.usefixtures("home")
def test_claude_is_run_with_the_new_session(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = place / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$PWD $*" > {place}/arguments\nexit 7\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    done = piped("fork", "last:2", "--run")

    assert done.returncode == 7, done.stderr
    arguments = (place / "arguments").read_text().split()
    assert arguments[:2] == [f"{place}/work", "--resume"]
    assert arguments[2] != SESSION


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["last:1"], "nothing comes before that point"),
        (["last:9"], "there is no turn 9: the branch has 2 turns"),
        (["last:x"], "'x' is not the number of a turn"),
        (["last", "--through"], "--through needs a turn"),
        (["last", "--branch", "7"], "there is no branch '7'"),
        (["ffff"], "ffff"),
    ],
)
def test_impossible_point_is_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fork", *arguments]) == ExitCode.USAGE_ERROR

    assert message in capsys.readouterr().err
