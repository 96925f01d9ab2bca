"""The set-up script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import start
from start import Check


def check(name: str, code: str) -> Check:
    return Check(name, (sys.executable, "-c", code))


@pytest.fixture
def new_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home directory of a user who never ran Claude Code."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


def test_last_line_repeats_the_last_line_of_pytest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = (check("tests", "print('...\\n3 passed in 0.1s')"), check("lint", "pass"))
    monkeypatch.setattr(start, "CHECKS", checks)

    assert start.run_checks([]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "All checks passed; tests: 3 passed in 0.1s"
    assert len(lines) == 3


def test_failing_check_is_printed_and_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = (
        check("tests", "print('3 passed in 0.1s')"),
        check("lint", "raise SystemExit('untidy')"),
    )
    monkeypatch.setattr(start, "CHECKS", checks)

    assert start.run_checks([]) == 1

    stdout = capsys.readouterr().out
    assert "lint:\nuntidy" in stdout
    assert stdout.endswith("Some checks failed; tests: 3 passed in 0.1s\n")


def test_further_arguments_go_only_to_pytest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "import sys; print(sys.argv[1:]); sys.exit(1)"
    monkeypatch.setattr(
        start, "CHECKS", (check("tests", script), check("lint", script))
    )

    start.run_checks(["-k", "tree"])

    stdout = capsys.readouterr().out
    assert "tests:\n['-k', 'tree']" in stdout
    assert "lint:\n[]" in stdout


def record_commands(
    monkeypatch: pytest.MonkeyPatch, *, code: int = 0
) -> list[list[str]]:
    """Record the commands that are run; each exits with ``code``."""
    run: list[list[str]] = []

    def run_bygones(arguments: list[str]) -> int:
        run.append(arguments)
        return code

    monkeypatch.setattr(start, "install", lambda *, tools: None)  # noqa: ARG005
    monkeypatch.setattr(start, "run_bygones", run_bygones)
    return run


def test_sample_data_is_used_without_transcripts(
    new_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (new_user / ".claude").mkdir()
    run = record_commands(monkeypatch)

    assert start.main([]) == 0
    assert run == [["demo"]]


def test_transcripts_are_ingested_and_listed(
    new_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_user / ".claude" / "projects" / "-p"
    project.mkdir(parents=True)
    (project / "a.jsonl").touch()
    run = record_commands(monkeypatch)

    assert start.main([]) == 0
    assert [words[0] for words in run] == ["ingest", "list"]


def test_failing_ingest_fails_the_run(
    new_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_user / ".claude" / "projects" / "-p"
    project.mkdir(parents=True)
    (project / "a.jsonl").touch()
    monkeypatch.setattr(start, "install", lambda *, tools: None)  # noqa: ARG005
    monkeypatch.setattr(start, "run_bygones", len)

    assert start.main([]) == 1


def test_configured_home_is_used_even_if_missing(
    new_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(new_user / "elsewhere"))

    assert not start.has_no_transcripts()


@pytest.mark.parametrize(
    ("found", "user", "tried"),
    [
        (("chromium", "apt-get"), 0, False),
        (("apt-get",), 0, True),
        (("apt-get",), 1000, False),
        ((), 0, False),
    ],
)
def test_browser_is_installed_where_possible(
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
def test_axe_is_installed_where_npm_is(
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

    start.install_axe()

    assert [words[:2] for words in ran] == ([["npm", "ci"]] if tried else [])


@pytest.mark.parametrize(
    ("found", "is_there", "words"),
    [
        ((), False, [sys.executable, "-m", "pip", "--python"]),
        (("uv",), False, ["uv", "pip", "install", "--python"]),
        ((), True, []),
    ],
)
def test_clickhouse_engine_is_installed_if_missing(
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


def test_temporary_folder_that_is_set_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    with start.temporary_folder() as folder:
        assert folder == {}


def test_tests_write_to_memory_only_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(start, "MEMORY_NEEDED", 2**62)

    with start.temporary_folder() as folder:
        assert folder == {}


def test_nothing_is_left_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(start, "MEMORY_NEEDED", 0)

    with start.temporary_folder() as folder:
        for place in folder.values():
            Path(place, "left").touch()

    assert not any(map(os.path.exists, folder.values()))
