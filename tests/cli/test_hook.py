"""Hooks as Claude Code runs them: words on standard input, and no time to lose."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.errors import BygonesError
from bygones.store.connect import writer_lock
from tests.build import Home, prompt, reply, session_id, thread

EVENT = {
    "session_id": session_id(1),
    "transcript_path": "/nowhere/1.jsonl",
    "cwd": "/work/demo",
    "hook_event_name": "SessionEnd",
    "reason": "exit",
}


def run_hook(home_dir: Path, event: object = EVENT) -> float:
    """Run the hook, and return the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(
        [sys.executable, "-m", "bygones", "hook"],
        input=json.dumps(event).encode(),
        capture_output=True,
        check=False,
        cwd=home_dir,
        timeout=60,
        env=os.environ,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def archived_sessions(home_dir: Path) -> set[str]:
    """Return the sessions in the archive, as soon as there are any."""
    for _ in range(600):
        with (
            contextlib.suppress(BygonesError),
            Archive.open(home_dir / "archive") as it,
        ):
            found = {str(listed.id) for listed in it.sessions()}
            if found:
                return found
        time.sleep(0.05)
    return set()


def test_hook_creates_the_archive_and_returns_immediately(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    home.session(session_id(1), thread(prompt("Hello"), reply("Hi")))

    took = run_hook(home_dir)

    assert took < 0.5
    assert archived_sessions(home_dir) == {session_id(1)}


def test_hook_returns_immediately_and_loses_nothing(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    home.session(session_id(1), thread(prompt("Hello"), reply("Hi")))
    (home_dir / "archive").mkdir()

    with writer_lock(home_dir / "archive"):
        run_hook(home_dir, EVENT | {"hook_event_name": "PreCompact", "trigger": "auto"})
        time.sleep(0.5)
        assert not Archive.exists(home_dir / "archive")

    assert archived_sessions(home_dir) == {session_id(1)}


def test_hook_succeeds_if_nothing_can_be_imported(home_dir: Path) -> None:
    (home_dir / "archive").write_text("no folder")

    run_hook(home_dir)
    run_hook(home_dir, event="no event")


@pytest.mark.parametrize("settings", ["bogus = [", "bogus = 1", "homes = 7"])
def test_hook_succeeds_with_invalid_settings(
    home_dir: Path, settings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home_dir / "settings.toml").write_text(settings)
    monkeypatch.setenv("BYGONES_SETTINGS", str(home_dir / "settings.toml"))

    run_hook(home_dir)


def test_input_of_a_hook_is_not_trusted(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    home.session(session_id(1), thread(prompt("Hello"), reply("Hi")))

    run_hook(home_dir, EVENT | {"transcript_path": "/etc/passwd", "cwd": "$(touch x)"})

    assert archived_sessions(home_dir) == {session_id(1)}
    assert not (home_dir / "x").exists()
