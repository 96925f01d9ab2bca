"""Going on with a session in Claude Code."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.cli.terminals import piped


@pytest.fixture
def claude(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where a program called claude writes what it was asked."""
    told = home_dir / "told"
    program = home_dir / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$PWD $CLAUDE_CONFIG_DIR $*" > {told}\nexit 7\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return told


def last(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["list", "--json", "-n", "1"]) == ExitCode.SUCCESS
    return str(json.loads(capsys.readouterr().out.splitlines()[0])["session_id"])


def test_the_command_is_printed(
    demo_home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = last(capsys)

    assert main(["resume"]) == ExitCode.SUCCESS

    assert capsys.readouterr().out == (
        f"cd {home_dir}/shop && CLAUDE_CONFIG_DIR={demo_home} claude --resume {id_}\n"
    )


def test_the_usual_home_need_not_be_named(
    demo_home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_home.rename(home_dir / ".claude")
    os.environ["BYGONES_HOME"] = str(home_dir / ".claude")

    assert main(["resume"]) == ExitCode.SUCCESS

    assert "CLAUDE_CONFIG_DIR" not in capsys.readouterr().out


def test_what_was_deleted_is_restored_first(
    demo_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = last(capsys)
    (path,) = demo_home.glob(f"projects/*/{id_}.jsonl")
    path.unlink()

    assert main(["resume", id_]) == ExitCode.SUCCESS

    assert capsys.readouterr().out.startswith(f"bygones restore {id_} && cd ")


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell's")
def test_claude_runs_in_the_directory_of_the_session(
    demo_home: Path, claude: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = last(capsys)
    (path,) = demo_home.glob(f"projects/*/{id_}.jsonl")
    before = path.read_bytes()
    path.unlink()

    done = piped("resume", id_, "--run")

    assert done.returncode == 7, done.stderr
    assert claude.read_text() == f"{home_dir}/shop {demo_home} --resume {id_}\n"
    assert path.read_bytes() == before
    assert "restored 1 of the session's files" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell's")
def test_effect_of_another_home_is_explained_before_running(
    demo_home: Path, claude: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = last(capsys)

    done = piped("resume", id_, "--run")

    assert claude.exists()
    assert f"CLAUDE_CONFIG_DIR is set to {demo_home}" in done.stderr.replace(
        "~", str(demo_home.parent)
    )
    assert "sign-in, settings, plugins" in done.stderr
    assert f"bygones restore {id_} --to ~/.claude" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell's")
def test_home_that_is_already_set_is_not_explained(
    demo_home: Path,
    claude: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(demo_home))
    id_ = last(capsys)

    done = piped("resume", id_, "--run")

    assert f" {demo_home} --resume" in claude.read_text()
    assert "CLAUDE_CONFIG_DIR" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell's")
def test_session_in_the_usual_home_is_run_without_the_variable(
    demo_home: Path, claude: Path, home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo_home.rename(home_dir / ".claude")
    monkeypatch.setenv("BYGONES_HOME", str(home_dir / ".claude"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home_dir / "other"))

    assert (
        piped("resume")
        .stdout.partition(" && ")[2]
        .startswith("env -u CLAUDE_CONFIG_DIR claude --resume")
    )
    done = piped("resume", "--run")

    assert claude.read_text().startswith(f"{home_dir}/shop  --resume")
    assert "CLAUDE_CONFIG_DIR is not set for it" in done.stderr


@pytest.mark.usefixtures("demo_home", "claude")
def test_a_directory_that_is_gone_is_said_with_a_way_out(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home_dir)
    shutil.rmtree(home_dir / "shop")

    for arguments in (["resume"], ["resume", "--run"]):
        assert main(arguments) == ExitCode.FAILURE

        out, told = capsys.readouterr()
        assert not out
        assert "shop does not exist" in told
        assert "restore --as" in told
        assert "fork SESSION --into DIR" in told


def test_moved_session_is_continued_in_its_new_directory(
    demo_home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = last(capsys)
    (path,) = demo_home.glob(f"projects/*/{id_}.jsonl")
    (home_dir / "shop").rename(home_dir / "store")
    options = ["--as", str(home_dir / "store"), "--rewrite-cwd"]
    assert main(["restore", id_, *options]) == ExitCode.SUCCESS
    path.unlink()
    capsys.readouterr()

    assert main(["resume", id_]) == ExitCode.SUCCESS

    assert capsys.readouterr().out.startswith(f"cd {home_dir}/store && ")


@pytest.mark.usefixtures("demo_home")
def test_without_the_program_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")

    assert main(["resume", "--run"]) == ExitCode.FAILURE
    assert "cannot start claude: it is not installed" in capsys.readouterr().err


@pytest.mark.usefixtures("demo_home")
def test_programs_get_a_row(capsys: pytest.CaptureFixture[str], home_dir: Path) -> None:
    assert main(["resume", "--json"]) == ExitCode.SUCCESS

    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert row["type"] == "resume"
    assert row["directory"] == str(home_dir / "shop")
