"""Completion in real shells: a user types a part of a word, and a tab."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no such shells there")
_STEERING = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>]|\][^\x07]*\x07)|[\r\x07]")


def needs_shell(shell: str) -> pytest.MarkDecorator:
    reason = f"{shell} is not installed: its completion is not tried"
    return pytest.mark.skipif(shutil.which(shell) is None, reason=reason)


@pytest.fixture
def completion_scripts(
    demo_home: Path,
    home_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Path:
    """Return a folder with what each shell is taught; the command is on the path."""
    assert demo_home.exists()
    command = home_dir / "bin" / "bygones"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m bygones "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == ExitCode.SUCCESS
        (home_dir / f"completion.{shell}").write_text(capsys.readouterr().out)
    return home_dir


def type_into(words: list[str], keys: str, expected: str) -> None:
    """Type keys into a shell, and see that it shows what is awaited."""
    child, screen = pty.fork()
    if not child:
        os.environ.update(TERM="dumb", PS1="ready> ", COLUMNS="120")
        os.execvp(words[0], words)  # noqa: S606 (a shell, to be typed into)
    shown, end = "", time.monotonic() + 60
    waiting = [("ready> ", keys), (expected, "")]
    while waiting and time.monotonic() < end:
        if waiting[0][0] in shown:
            os.write(screen, waiting.pop(0)[1].encode())
            shown = ""
            continue
        if select.select([screen], [], [], 0.2)[0]:
            try:
                shown += _STEERING.sub("", os.read(screen, 65536).decode())
            except OSError:
                break
    os.close(screen)
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert not waiting, shown


@needs_shell("bash")
def test_bash_completes(completion_scripts: Path) -> None:
    def complete(*words: str) -> list[str]:
        line = " ".join(words)
        script = (
            f"source {completion_scripts}/completion.bash; COMP_WORDS=({line});"
            f" COMP_CWORD={len(words) - 1}; COMPREPLY=();"
            " _bygones_completion bygones; printf '%s\\n' ${COMPREPLY[@]}"
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert complete("bygones", "pro") == ["prompts", "projects"]
    assert complete("bygones", "show", "b9") == ["b9568747"]
    assert complete("bygones", "list", "--project", "no") == ["notes"]
    assert "--project" in complete("bygones", "list", "--p")
    assert complete("bygones", "list", "project", ":", "no") == ["notes"]
    assert complete("bygones", "export", "no") == ["notes"]
    assert complete("bygones", "help", "que") == ["query"]
    assert complete("bygones", "show", "b956", "--branch", "''") == ["1", "2"]


@needs_shell("fish")
def test_fish_completes(completion_scripts: Path) -> None:
    def complete(line: str) -> list[str]:
        script = f"source {completion_scripts}/completion.fish; complete -C {line!r}"
        done = subprocess.run(
            ["fish", "--no-config", "-c", script],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    names = {one.partition("\t")[0] for one in complete("bygones pro")}
    assert names == {"projects", "prompts"}
    assert complete("bygones show b9") == [
        "b9568747\tMake checkout retry without charging twice"
    ]
    (japanese,) = complete("bygones show f5")
    assert japanese.startswith("f5bff5de\t日本語")
    assert [
        one.partition("\t")[0] for one in complete("bygones list --project no")
    ] == ["notes"]
    assert [one.partition("\t")[0] for one in complete("bygones list project:no")] == [
        "project:notes"
    ]
    assert [one.partition("\t")[0] for one in complete("bygones help que")] == ["query"]
    assert complete("bygones show b956 --branch 2") == [
        "2\tRetry three times"  # it takes a comma for an end
    ]


@needs_shell("zsh")
def test_zsh_completes(completion_scripts: Path) -> None:
    startup_file = completion_scripts / ".zshrc"
    startup_file.write_text(
        "autoload -Uz compinit && compinit -u -D\nunsetopt beep zle_bracketed_paste\n"
        f"source {completion_scripts}/completion.zsh\nPROMPT='ready> '\n"
    )
    zsh = ["env", f"ZDOTDIR={completion_scripts}", "zsh", "-i"]

    type_into(zsh, "bygones show b9\t", "show b9568747 ")
    type_into(zsh, "bygones list --project no\t", "--project notes ")
    type_into(zsh, "bygones list project:no\t", "list project:notes ")
    type_into(zsh, "bygones export no\t", "export notes ")
    type_into(zsh, "bygones help que\t", "help query ")
    type_into(zsh, "bygones pro\t\t", "List the prompts you typed")
