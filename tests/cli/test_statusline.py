"""The status line: what was known a moment ago, at the price of starting Python."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.integrations.statusline import build_status_line
from bygones.integrations.statusline_cache import StatusLineCache
from tests.build import (
    CWD,
    Home,
    Written,
    prompt,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)

ABOUT = {
    "session_id": session_id(9),
    "model": {"id": "opus", "display_name": "Opus"},
    "workspace": {"current_dir": f"{CWD}/src", "project_dir": CWD},
}


@pytest.fixture
def home(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home_dir / "cache"))
    home = Home(home_dir / ".claude")
    now = datetime.now(UTC).isoformat()
    for number in (1, 2):
        text = prompt(f"Mend the scheduler that stalls, part {number}")
        records = thread(text, reply(f"Hi {number}"))
        home.session(session_id(number), [one | {"timestamp": now} for one in records])
    Archive.ingest(home_dir / "archive", [home.path])
    return home


def run_statusline(about: object = ABOUT) -> tuple[str, float]:
    """Return what is printed, and the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(
        [sys.executable, "-m", "bygones", "statusline"],
        input=json.dumps(about).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert found.stderr == b""
    took = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return found.stdout.decode(), took


def wait_for_line() -> str:
    for _ in range(200):
        text, _ = run_statusline()
        if text != "\n":
            return text
        time.sleep(0.1)
    return ""


@pytest.mark.usefixtures("home")
def test_first_status_line_is_empty_and_the_next_is_not() -> None:
    assert run_statusline()[0] == "\n"
    assert wait_for_line() == "2 sessions · <$0.01 today\n"


@pytest.mark.usefixtures("home")
def test_cached_status_line_costs_little_more_than_python() -> None:
    wait_for_line()

    took = min(run_statusline()[1] for _ in range(5))

    bare = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(5):
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    python = (after.ru_utime - bare.ru_utime + after.ru_stime - bare.ru_stime) / 5
    assert took < 0.05 or took < 2.5 * python


def status_line(home_dir: Path, session: str) -> str:
    """Return the line during a session."""
    about = json.dumps({"cwd": CWD, "session_id": session}).encode()
    archive, now = home_dir / "archive", datetime.now(UTC)
    return build_status_line(
        archive, about, now=now, zone=UTC, prices_path=home_dir / "no"
    )


@pytest.mark.usefixtures("home")
def test_the_session_most_like_this_one_is_named(home_dir: Path) -> None:
    text = status_line(home_dir, session_id(1))

    assert text.endswith("similar: 5e551000 Mend the scheduler that stalls, part 2")


def editing_session(words: str, *paths: str) -> list[Written]:
    """Return a session that wrote files."""
    calls = [
        record
        for path in paths
        for record in (
            reply([tool_use("Write", id=f"w {words} {path}", file_path=path)]),
            tool_result(f"w {words} {path}", "done"),
        )
    ]
    return thread(prompt(words), *calls)


def test_shared_files_weigh_more_than_words(home: Home, home_dir: Path) -> None:
    own = editing_session(
        "Mend the scheduler that stalls, part 5", "/w/a.py", "/w/b.py"
    )
    home.session(session_id(5), own)
    home.session(session_id(6), editing_session("Something else", "/w/a.py", "/w/c.py"))
    home.session(session_id(7), editing_session("Quite another", "/w/b.py", "/w/a.py"))
    elsewhere = [one | {"cwd": "/other"} for one in own]
    home.session(session_id(8), elsewhere, project="-other")
    Archive.ingest(home_dir / "archive", [home.path])

    assert status_line(home_dir, session_id(5)).endswith(
        "similar: 5e551000 Quite another"
    )
    assert status_line(home_dir, session_id(8)).count("·") == 1


def test_session_without_shared_words_or_files_is_not_similar(
    home: Home, home_dir: Path
) -> None:
    home.session(
        session_id(5), editing_session("Paint the fence in the garden", "/w/a.py")
    )
    home.session(session_id(6), editing_session("Mend a fence", "/w/b.py"))
    Archive.ingest(home_dir / "archive", [home.path])

    assert "like" not in status_line(home_dir, session_id(5))


def test_copy_of_a_session_is_not_similar(home: Home, home_dir: Path) -> None:
    own = editing_session("Paint the fence in the garden", "/w/a.py")
    home.session(session_id(5), own)
    copied = [one | {"sessionId": session_id(6)} for one in own]
    home.session(session_id(6), [*copied, *thread(prompt("Go on"), start=90)])
    Archive.ingest(home_dir / "archive", [home.path])

    assert "like" not in status_line(home_dir, session_id(6))
    assert "like" not in status_line(home_dir, session_id(5))


@pytest.mark.parametrize("about", ["", 7, [], {"workspace": {"current_dir": 7}}, None])
@pytest.mark.usefixtures("home")
def test_any_input_gives_a_line(about: object) -> None:
    assert run_statusline(about)[0].endswith("\n")


def test_line_is_empty_without_an_archive(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home_dir / "cache"))
    cache = StatusLineCache(json.dumps(ABOUT).encode(), os.environ)

    assert main(["statusline", "--now", os.fsdecode(cache.context_json)]) == 0

    assert cache.load() == ("", True)


def test_cache_depends_on_directory_session_and_archive() -> None:
    request = json.dumps(ABOUT).encode()
    one = StatusLineCache(request, {"XDG_CACHE_HOME": "c"})

    assert StatusLineCache(one.context_json, {"XDG_CACHE_HOME": "c"}).path == one.path
    assert (
        StatusLineCache(request, {"XDG_CACHE_HOME": "c", "BYGONES_ARCHIVE": "x"}) != one
    )
    assert StatusLineCache(b"{}", {"XDG_CACHE_HOME": "c"}).path != one.path


def test_quote_in_a_path_is_escaped() -> None:
    cache = StatusLineCache(json.dumps({"cwd": 'a "b" \\'}).encode(), {})

    assert json.loads(cache.context_json)["cwd"] == 'a "b" \\'
