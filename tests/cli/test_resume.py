"""Going on with a session in Claude Code."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.cli.terminals import run_piped


@pytest.fixture
def claude(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where a program called claude writes what it was asked."""
    call_log = home_dir / "calls"
    program = home_dir / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$PWD $CLAUDE_CONFIG_DIR $*" > {call_log}\nexit 7\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return call_log


def newest_session_id(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["list", "--json", "-n", "1"]) == ExitCode.SUCCESS
    return str(json.loads(capsys.readouterr().out.splitlines()[0])["session_id"])


def test_the_command_is_printed(
    demo_home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = newest_session_id(capsys)

    assert main(["resume"]) == ExitCode.SUCCESS

    assert capsys.readouterr().out == (
        f"cd {home_dir}/shop && CLAUDE_CONFIG_DIR={demo_home} claude --resume {id_}\n"
    )


def test_default_home_is_not_set_in_the_command(
    demo_home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_home.rename(home_dir / ".claude")
    os.environ["BYGONES_HOME"] = str(home_dir / ".claude")

    assert main(["resume"]) == ExitCode.SUCCESS

    assert "CLAUDE_CONFIG_DIR" not in capsys.readouterr().out


def test_deleted_session_is_restored_first(
    demo_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = newest_session_id(capsys)
    (path,) = demo_home.glob(f"projects/*/{id_}.jsonl")
    path.unlink()

    assert main(["resume", id_]) == ExitCode.SUCCESS

    assert capsys.readouterr().out.startswith(f"bygones restore {id_} && cd ")


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell's")
def test_claude_runs_in_the_directory_of_the_session(
    demo_home: Path, claude: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = newest_session_id(capsys)
    (path,) = demo_home.glob(f"projects/*/{id_}.jsonl")
    before = path.read_bytes()
    path.unlink()

    done = run_piped("resume", id_, "--run")

    assert done.returncode == 7, done.stderr
    assert claude.read_text() == f"{home_dir}/shop {demo_home} --resume {id_}\n"
    assert path.read_bytes() == before
    assert "restored 1 of the session's files" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell's")
def test_effect_of_another_home_is_explained_before_running(
    demo_home: Path, claude: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = newest_session_id(capsys)

    done = run_piped("resume", id_, "--run")

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
    id_ = newest_session_id(capsys)

    done = run_piped("resume", id_, "--run")

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
        run_piped("resume")
        .stdout.partition(" && ")[2]
        .startswith("env -u CLAUDE_CONFIG_DIR claude --resume")
    )
    done = run_piped("resume", "--run")

    assert claude.read_text().startswith(f"{home_dir}/shop  --resume")
    assert "CLAUDE_CONFIG_DIR is not set for it" in done.stderr


@pytest.mark.parametrize("has_directory", [True, False])
@pytest.mark.parametrize("is_rebuilt", [True, False])
@pytest.mark.parametrize(
    "command", [["resume"], ["resume", "--run"], ["resume", "--json"], ["fork"]]
)
def test_loss_is_reported_instead_of_a_missing_directory(
    sample_home: Home,
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    *,
    has_directory: bool,
    is_rebuilt: bool,
) -> None:
    home_dir = sample_home.path.parent
    id_ = session_id(2)
    (path,) = sample_home.path.glob(f"projects/*/{id_}.jsonl")
    records = thread(prompt("Count them", cwd=str(home_dir / "work")), reply("Three."))
    path.write_bytes(jsonl(records))
    Archive.ingest(home_dir / "archive", [sample_home.path])
    path.unlink()
    if has_directory:
        (home_dir / "work").mkdir()
    with closing(sqlite3.connect(home_dir / "archive" / "archive.db")) as db, db:
        sql = (
            "DELETE FROM chunk WHERE source = (SELECT id FROM source WHERE path LIKE ?)"
        )
        db.execute(sql, (f"%{id_}.jsonl",))
    if is_rebuilt:
        main(["rebuild"])
        capsys.readouterr()

    exit_code = main([*command[:1], id_, *command[1:], "--no-ingest"])

    error = capsys.readouterr().err
    assert exit_code == ExitCode.ARCHIVE_DAMAGED, error
    pattern = rf"archive\.db is damaged: session {id_}: source \d+ has no bytes 0 to"
    assert re.search(pattern, error)


@pytest.mark.usefixtures("demo_home", "claude")
def test_missing_directory_is_reported_with_a_hint(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home_dir)
    shutil.rmtree(home_dir / "shop")

    for arguments in (["resume"], ["resume", "--run"]):
        assert main(arguments) == ExitCode.FAILURE

        out, call_log = capsys.readouterr()
        assert not out
        assert "shop does not exist" in call_log
        assert "restore --as" in call_log
        assert "fork SESSION --into DIR" in call_log


def test_moved_session_is_continued_in_its_new_directory(
    demo_home: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = newest_session_id(capsys)
    (path,) = demo_home.glob(f"projects/*/{id_}.jsonl")
    (home_dir / "shop").rename(home_dir / "store")
    options = ["--as", str(home_dir / "store"), "--rewrite-cwd"]
    assert main(["restore", id_, *options]) == ExitCode.SUCCESS
    path.unlink()
    capsys.readouterr()

    assert main(["resume", id_]) == ExitCode.SUCCESS

    assert capsys.readouterr().out.startswith(f"cd {home_dir}/store && ")


@pytest.mark.usefixtures("demo_home")
def test_a_session_without_its_directory_is_named(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home_dir / "shop").rename(home_dir / "store")

    assert main(["resume"]) == ExitCode.FAILURE
    shop = re.escape(str(home_dir / "shop"))
    error = rf"error: cannot start claude for session [0-9a-f-]{{36}}: {shop} does not"
    assert re.match(error, capsys.readouterr().err)


@pytest.mark.usefixtures("demo_home")
def test_missing_claude_program_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")

    assert main(["resume", "--run"]) == ExitCode.FAILURE
    assert "cannot start claude: it is not installed" in capsys.readouterr().err


@pytest.mark.usefixtures("demo_home")
def test_json_output(capsys: pytest.CaptureFixture[str], home_dir: Path) -> None:
    assert main(["resume", "--json"]) == ExitCode.SUCCESS

    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert row["type"] == "resume"
    assert row["directory"] == str(home_dir / "shop")
