"""The script that sets up and goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import start
from start import Gate


def gate(name: str, code: str) -> Gate:
    return Gate(name, (sys.executable, "-c", code))


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a user who has never run Claude Code."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


def test_the_last_line_is_the_one_with_which_pytest_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = (gate("tests", "print('...\\n3 passed in 0.1s')"), gate("lint", "pass"))
    monkeypatch.setattr(start, "GATES", gates)

    assert start.run_gates([]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "All gates passed; tests: 3 passed in 0.1s"
    assert len(lines) == 3


def test_a_gate_that_fails_is_shown_and_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = (
        gate("tests", "print('3 passed in 0.1s')"),
        gate("lint", "raise SystemExit('untidy')"),
    )
    monkeypatch.setattr(start, "GATES", gates)

    assert start.run_gates([]) == 1

    shown = capsys.readouterr().out
    assert "lint:\nuntidy" in shown
    assert shown.endswith("Some gates failed; tests: 3 passed in 0.1s\n")


def test_further_words_go_to_the_tests_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "import sys; print(sys.argv[1:]); sys.exit(1)"
    monkeypatch.setattr(start, "GATES", (gate("tests", words), gate("lint", words)))

    start.run_gates(["-k", "tree"])

    shown = capsys.readouterr().out
    assert "tests:\n['-k', 'tree']" in shown
    assert "lint:\n[]" in shown


def asked(monkeypatch: pytest.MonkeyPatch, *, code: int = 0) -> list[list[str]]:
    """Return the commands that are run, to which every one ends with ``code``."""
    run: list[list[str]] = []

    def bygones(words: list[str]) -> int:
        run.append(words)
        return code

    monkeypatch.setattr(start, "install", lambda *, tools: None)  # noqa: ARG005
    monkeypatch.setattr(start, "bygones", bygones)
    return run


def test_without_claude_code_an_invented_home_is_made(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nobody / ".claude").mkdir()
    run = asked(monkeypatch)

    assert start.main([]) == 0
    assert run == [["demo"]]


def test_with_transcripts_they_are_taken_in_and_listed(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = nobody / ".claude" / "projects" / "-p"
    project.mkdir(parents=True)
    (project / "a.jsonl").touch()
    run = asked(monkeypatch)

    assert start.main([]) == 0
    assert [words[0] for words in run] == ["ingest", "list"]


def test_a_failure_with_transcripts_is_a_failure(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = nobody / ".claude" / "projects" / "-p"
    project.mkdir(parents=True)
    (project / "a.jsonl").touch()
    monkeypatch.setattr(start, "install", lambda *, tools: None)  # noqa: ARG005
    monkeypatch.setattr(start, "bygones", len)

    assert start.main([]) == 1


def test_a_home_that_was_named_wrongly_is_a_failure(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(nobody / "elsewhere"))

    assert not start.has_nowhere_to_look()


@pytest.mark.parametrize(
    ("found", "user", "tried"),
    [
        (("chromium", "apt-get"), 0, False),
        (("apt-get",), 0, True),
        (("apt-get",), 1000, False),
        ((), 0, False),
    ],
)
def test_a_browser_is_brought_where_that_is_possible(
    found: tuple[str, ...],
    user: int,
    tried: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[object] = []

    def run(words: object, **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(words)
        return subprocess.CompletedProcess([], 1, b"", b"first\nno network")

    monkeypatch.setattr(shutil, "which", lambda name: name if name in found else None)
    monkeypatch.setattr(os, "geteuid", lambda: user, raising=False)
    monkeypatch.setattr(subprocess, "run", run)

    start.install_browser()

    assert bool(ran) is tried


@pytest.mark.parametrize(
    ("found", "is_there", "tried"),
    [(("npm",), False, True), (("npm",), True, False), ((), False, False)],
)
def test_the_checker_of_pages_is_brought_where_npm_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    found: tuple[str, ...],
    is_there: bool,
    tried: bool,
) -> None:
    ran: list[list[str]] = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(words)
        return subprocess.CompletedProcess([], 0, b"", b"")

    if is_there:
        (tmp_path / "node_modules" / "axe-core").mkdir(parents=True)
    monkeypatch.setattr(start, "BROWSER_TESTS", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in found else None)
    monkeypatch.setattr(subprocess, "run", run)

    start.install_checker()

    assert [words[:2] for words in ran] == ([["npm", "ci"]] if tried else [])


@pytest.mark.parametrize(
    ("found", "is_there", "words"),
    [
        ((), False, [sys.executable, "-m", "pip", "--python"]),
        (("uv",), False, ["uv", "pip", "install", "--python"]),
        ((), True, []),
    ],
)
def test_the_engine_of_a_company_is_brought_where_it_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    found: tuple[str, ...],
    is_there: bool,
    words: list[str],
) -> None:
    ran: list[list[str]] = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(words)
        return subprocess.CompletedProcess([], 0, b"", b"")

    if is_there:
        (tmp_path / "lib" / "python3" / "site-packages" / "chdb").mkdir(parents=True)
    monkeypatch.setattr(start, "VENV", tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(shutil, "which", lambda name: name if name in found else None)
    monkeypatch.setattr(subprocess, "run", run)

    start.install_engine()

    assert [one[:4] for one in ran] == ([words] if words else [])
    assert all(set(start.ENGINE) <= set(one) for one in ran)
