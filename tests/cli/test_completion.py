"""Completions that the command returns to shells."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, thread


def completion_environment(*arguments: str) -> dict[str, str]:
    """Return the environment in which bash requests completions."""
    return {
        "_BYGONES_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["bygones", *arguments]),
        "COMP_CWORD": str(len(arguments)),
    }


def suggestions(output: str) -> list[str]:
    return [completion.partition(",")[2] for completion in output.split()]


def complete(*arguments: str) -> list[str]:
    """Return the completions for bash, computed in this process."""
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output):
        for name, value in completion_environment(*arguments).items():
            patch.setenv(name, value)
        assert main([]) == ExitCode.SUCCESS
    output.seek(0)
    return suggestions(output.read())


def test_commands_are_completed() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "bygones"],
        env={**os.environ, **completion_environment("pro")},
        capture_output=True,
        text=True,
        check=True,
    )

    assert suggestions(result.stdout) == ["prompts", "projects"]


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("command", ["show", "tree", "files", "resume", "star"])
def test_sessions_are_completed(command: str) -> None:
    assert complete(command, "b9") == ["b9568747"]
    assert complete(command, "la") == ["last"]


@pytest.mark.usefixtures("demo_home")
def test_projects_are_completed() -> None:
    assert complete("list", "--project", "no") == ["notes"]
    assert complete("purge", "--project", "no") == ["notes"]


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("command", ["export", "restore"])
def test_sessions_and_projects_are_completed(command: str) -> None:
    assert complete(command, "b9") == ["b9568747"]
    assert complete(command, "no") == ["notes"]


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("command", ["list", "search", "prompts", "usage"])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["project:no"], ["project:notes"]),
        (["retry", "project:no"], ["project:notes"]),
        (["project", ":", "no"], ["notes"]),  # as bash splits it
        (["project", ":"], ["notes", "shop"]),
        (["title", ":", "no"], []),
        (["no"], []),
    ],
)
def test_projects_are_completed_in_a_query(
    command: str, arguments: list[str], expected: list[str]
) -> None:
    assert complete(command, *arguments) == expected


@pytest.mark.usefixtures("demo_home")
def test_tags_and_models_are_completed_in_a_query() -> None:
    assert main(["tag", "last", "flaky", "a b"]) == ExitCode.SUCCESS

    assert complete("list", "tag:") == ["tag:flaky"]
    assert complete("list", "tag", ":", "fl") == ["flaky"]
    assert complete("search", "tag:x") == []
    assert complete("list", "model:claude-") == [
        f"model:{completion}"
        for completion in complete("list", "model", ":", "claude-")
    ]
    assert complete("list", "model", ":")


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("command", ["show", "export"])
def test_branches_are_completed(command: str) -> None:
    assert complete(command, "b956", "--branch", "") == ["1", "2"]
    assert complete(command, "nope", "--branch", "") == []


def test_topics_are_completed() -> None:
    assert complete("help", "pro") == ["prompts", "projects"]
    assert complete("help", "que") == ["query"]


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("command", ["files", "show"])
def test_files_are_completed_if_no_session_matches(command: str) -> None:
    assert complete(command, "src/che") == ["src/che"]


@pytest.mark.usefixtures("home_dir")
@pytest.mark.parametrize(
    "name", ["evil$(touch x)", "my notes", "[USER]", "a;b", "`x`", "a'b"]
)
def test_name_with_shell_characters_is_not_completed(name: str, home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    records = [prompt("Hello", cwd=f"/work/{name}"), reply("Yes", cwd=f"/work/{name}")]
    home.session(session_id(1), thread(*records))
    Archive.ingest(home_dir / "archive", [home.path])

    assert complete("list", "--project", name[0]) == []
    assert name[1:] not in str(complete("export", name[0]))


def test_without_an_archive_there_is_no_output() -> None:
    assert complete("tree", "b9") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_suggestions_are_valid_in_the_shell(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == ExitCode.SUCCESS
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)

    assert "_BYGONES_COMPLETE" in script.read_text()
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", script], check=False).returncode == 0


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize(
    "arguments", [["nope", "x"], ["--json", "serve", ""], ["list", "--project", "n"]]
)
def test_completion_prints_no_errors(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("color = 7\n")
    monkeypatch.setenv("BYGONES_SETTINGS", str(settings))
    monkeypatch.setenv("_BYGONES_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["bygones", *arguments]))
    monkeypatch.setenv("COMP_CWORD", str(len(arguments)))

    result = subprocess.run(
        [sys.executable, "-m", "bygones"], capture_output=True, text=True, check=True
    )

    assert (result.stdout, result.stderr) == ("", "")


def test_newline_in_a_directory_adds_no_suggestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    first = prompt("x") | {"cwd": "/srv/a\nplain\nplanted\n/plan"}
    home.session(session_id(1), thread(first, reply("y")))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(tmp_path / "archive"))
    Archive.ingest(tmp_path / "archive", [home.path])
    line = "bygones list --project pl"
    result = subprocess.run(
        [sys.executable, "-m", "bygones"],
        env={
            **os.environ,
            "_BYGONES_COMPLETE": "zsh_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": "3",
        },
        capture_output=True,
        text=True,
        check=True,
    )

    assert "planted" not in result.stdout.splitlines()
