"""The picker, on a terminal whose screen is read."""

from __future__ import annotations

import os
import shutil
import signal
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Timer

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.cli.open_archive import OpenedArchive
from bygones.cli.picker import screen as screen_module
from bygones.cli.picker.frame import FirstFrame, PickerOptions
from bygones.cli.picker.listing import FoundSessions, PickerQuery
from bygones.cli.picker.lookup import Answer, PreviewRequest, SessionFinder
from bygones.cli.picker.new_data import NewDataCheck
from bygones.cli.picker.rows import state_line
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, thread, title
from tests.cli.terminals import Screen, run_piped

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")

ESCAPE, TAB, ENTER, DOWN = "\x1b", "\t", "\r", "\x1b[B"
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\u202egnp\x9b2J \x1b[2J"


def is_starred(folder: Path, prefix: str) -> bool:
    with Archive.open(folder) as archive:
        return archive.session_summary(prefix).is_starred


def test_typing_finds_a_session_which_enter_shows(
    demo_home: Path, home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del demo_home
    monkeypatch.setenv("BYGONES_COLOR", "always")
    screen = Screen(columns=120, rows=30)
    first = screen.wait_for("5 sessions", "newest first", "Write a test for the jitter")
    assert first.splitlines()[2].startswith("▌")
    assert "b9568747-c4f3" in first

    screen.type("nine minu")
    screen.wait_for("searching for minutes", "1 session ", gone="shop           Make")
    assert screen.styles_of("nine")
    screen.wait_for("you:")
    preview = screen.styles_of("minutes")
    assert preview  # in the state line
    screen.type(TAB + "s")
    screen.wait_for("starred", "★ Why do the tests")
    assert is_starred(home_dir / "archive", "3d75e207")

    screen.type("y")
    screen.wait_for("copied 3d75e207")
    copied = b64encode(b"3d75e207").decode()[:10]
    assert f"\x1b]52;c;{copied}".encode() in screen.raw

    screen.type(ENTER)
    assert screen.end() == ExitCode.SUCCESS
    shown = screen.shown.rpartition("\x1b[?1049l")[2]
    assert "Why do the tests take" in shown
    assert "\x1b[30;43mnine" in screen.raw.decode()


def test_keys_move_toggle_and_quit(demo_home: Path, home_dir: Path) -> None:
    del demo_home
    screen = Screen(columns=80, rows=24)
    screen.wait_for("5 sessions", "all projects", "▌ 9mo")
    screen.type("\x0e" + DOWN)
    screen.wait_for("f5bff5de-")
    screen.type("\x14")
    screen.wait_for("2 sessions · in shop", gone="notes")
    screen.type(TAB + "t")
    screen.wait_for("oldest first")
    assert "Why do the tests" in screen.lines[2]
    screen.type("ap")
    screen.wait_for("5 sessions", "all projects", "without agents")
    screen.type("G")
    screen.wait_for("b9568747-")
    screen.type("/xyzzy")
    screen.wait_for("> xyzzy", "no sessions found")
    screen.type("\x15project:")  # Ctrl-U deletes; half a field is not an answer
    screen.wait_for("> project:", "project: at char")
    assert "no sessions found" in screen.text
    screen.type(ESCAPE)
    assert screen.end() == ExitCode.SUCCESS
    assert not is_starred(home_dir / "archive", "b9568747")


@pytest.mark.usefixtures("demo_home")
def test_a_star_is_shown_and_removed_in_search_results(home_dir: Path) -> None:
    assert main(["star", "b9568747"]) == ExitCode.SUCCESS
    screen = Screen("--query", "charged", columns=80, rows=24)
    screen.wait_for("1 session ", "★ Make checkout")
    screen.type("\x13")
    screen.wait_for("star removed", gone="★")
    screen.type(ESCAPE)
    assert screen.end() == ExitCode.SUCCESS
    assert not is_starred(home_dir / "archive", "b9568747")


@pytest.mark.usefixtures("demo_home")
def test_an_invalid_query_at_the_start_is_explained() -> None:
    screen = Screen("--query", "after:garbage", columns=80, rows=24)
    screen.wait_for("'garbage' at character 7 is not a valid time", gone="searching")
    screen.type("\x15charged")
    screen.wait_for("> charged", "1 session ")
    screen.type(ESCAPE)
    assert screen.end() == ExitCode.SUCCESS


@pytest.mark.usefixtures("demo_home")
def test_the_screen_follows_the_size_of_the_terminal() -> None:
    screen = Screen(columns=120, rows=30)
    wide = screen.wait_for("5 sessions", "b9568747-c4f3")
    assert "│" in wide
    screen.resize(50, 20)
    narrow = screen.wait_for("─" * 50, "b9568747-c4f3", gone="│")
    assert max(map(len, narrow.splitlines())) <= 50
    assert "notes  " not in narrow  # there is no room for the column
    screen.resize(40, 8)
    screen.wait_for("5 sessions", gone="─────")
    screen.type("\x03")
    assert screen.end() == ExitCode.SUCCESS


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_the_terminal_is_restored_when_the_picker_is_stopped(name: str) -> None:
    number = getattr(signal, name)
    screen = Screen()
    screen.wait_for("5 sessions")
    screen.type("minutes")
    screen.wait_for("1 session ")

    screen.child.send_signal(number)

    code = screen.end()
    assert b"\x1b[?1049l" in screen.raw
    assert "Traceback" not in screen.shown
    assert code == (-number if name == "SIGTERM" else ExitCode.SUCCESS)


@pytest.mark.usefixtures("demo_home")
def test_the_mouse_selects_chooses_and_presses_keys() -> None:
    screen = Screen("show", columns=80, rows=24)
    screen.wait_for("5 sessions", "b9568747-c4f3")
    assert "resume" not in "".join(screen.lines[-2:])  # Enter is all that `show` offers
    screen.click("Move the notes")
    screen.wait_for("64fb286e-")
    screen.click("tab")
    screen.wait_for(" q quit")
    screen.click("Move the notes")
    assert screen.end() == ExitCode.SUCCESS
    assert "session 64fb286e-" in screen.shown


@pytest.mark.usefixtures("demo_home")
def test_vi_keys_move_in_normal_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYGONES_KEYS", "vi")
    screen = Screen("show", "--query", "minutes notes", columns=80, rows=40)
    screen.wait_for("> minutes notes", "3 sessions")
    screen.wait_for("^c quit", gone="esc")  # Escape changes the mode
    screen.type(ESCAPE)
    screen.type("0dw")
    screen.wait_for("> notes", "2 sessions")
    screen.type("jkj")
    screen.wait_for("f5bff5de-")
    screen.type("q")
    assert screen.end() == ExitCode.INTERRUPTED


@pytest.mark.usefixtures("demo_home")
def test_without_a_query_no_hits_are_previewed_in_a_project() -> None:
    screen = Screen(columns=80, rows=24)
    screen.wait_for("5 sessions", "b9568747-")
    screen.type("\x14")
    screen.wait_for("2 sessions · in shop")
    screen.type(DOWN)
    screen.wait_for("3d75e207-", "Make it a session fixture")
    assert "you:" not in screen.text
    screen.type(ESCAPE)
    assert screen.end() == ExitCode.SUCCESS


@pytest.mark.usefixtures("demo_home")
def test_a_small_preview_shows_what_was_found() -> None:
    screen = Screen("show", "--query", "exponential", columns=80, rows=24)
    screen.wait_for("1 session", "you: Retry with exponential backoff")
    screen.type(ESCAPE)
    assert screen.end() == ExitCode.INTERRUPTED


def test_resume_runs_claude_code_for_the_session_that_is_picked(
    demo_home: Path, home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del demo_home
    claude = home_dir / "bin" / "claude"
    claude.parent.mkdir()
    claude.write_text('#!/bin/sh\necho "claude was given: $*"\n')
    claude.chmod(0o755)
    monkeypatch.setenv("PATH", f"{claude.parent}:{os.environ['PATH']}")
    screen = Screen(columns=80, rows=24)
    screen.wait_for("5 sessions")
    screen.type("\x12")
    assert screen.end() == ExitCode.SUCCESS
    assert "claude was given: --resume b9568747-c4f3" in screen.shown

    printed = Screen("resume", "--query", "nine minutes", columns=80, rows=24)
    printed.wait_for("1 session")
    printed.type(ENTER)
    assert printed.end() == ExitCode.SUCCESS
    assert "&& CLAUDE_CONFIG_DIR" in printed.shown.rpartition("\x1b[?1049l")[2]


def test_hostile_titles_and_texts_do_not_reach_the_terminal(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    lines = thread(prompt(f"walrus {HOSTILE}"), reply(f"answer walrus {HOSTILE}"))
    home.session(session_id(1), [*lines, title(f"Title {HOSTILE}", custom=True)])
    home.session(
        session_id(2), thread(prompt("日本語 👨‍👩‍👧 wide " * 9), reply("ok"), start=60)
    )
    Archive.ingest(home_dir / "archive", [home.path])

    screen = Screen("show", columns=100, rows=24)
    screen.wait_for("2 sessions", "日本語")
    screen.type("walrus")
    shown = screen.wait_for("1 session ", r"\x1b]0;owned", r"\u202egnp", "answer")
    assert r"\x9b2J" in shown
    screen.type(ESCAPE)
    assert screen.end() == ExitCode.INTERRUPTED
    raw = screen.raw.decode()
    assert "\x1b]0;owned" not in raw
    assert "\u202e" not in raw
    assert "\x9b" not in raw
    assert "\x1b[31mred" not in raw


@pytest.mark.usefixtures("demo_home")
def test_there_is_no_picker_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["show"], ["resume"], ["fork", "--json"]):
        assert run_piped(*words).returncode == ExitCode.SUCCESS, words
    assert main(["export"]) == ExitCode.USAGE_ERROR
    assert main(["show", "--query", "x"]) == ExitCode.USAGE_ERROR
    assert "--query needs a terminal" in capsys.readouterr().err
    assert main(["show", "last", "--query", "x"]) == ExitCode.USAGE_ERROR
    assert "not both" in capsys.readouterr().err
    assert main(["--query", "x", "list"]) == ExitCode.USAGE_ERROR
    assert "list takes no --query" in capsys.readouterr().err


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("size", [(120, 30), (80, 24), (50, 20), (40, 8)])
def test_the_first_frame_stays_where_it_is(size: tuple[int, int]) -> None:
    """What is painted before prompt_toolkit is loaded looks like what comes after."""
    columns, rows = size
    screen = Screen(columns=columns, rows=rows)
    first = screen.wait_for("5 sessions", " enter show")
    later = first
    if rows > 8:
        later = screen.wait_for("b9568747-")
    lists = [
        [line.partition("│")[0] for line in text.splitlines()[: rows // 3]]
        for text in (first, later)
    ]
    assert lists[0] == lists[1]
    assert first.splitlines()[-1] == later.splitlines()[-1]
    screen.type(ESCAPE)
    assert screen.end() == ExitCode.SUCCESS


@pytest.mark.usefixtures("demo_home")
def test_keys_that_are_typed_early_are_not_lost() -> None:
    screen = Screen(columns=80, rows=24)
    screen.read_until(lambda shown: "5 sessions" in shown)
    screen.type("nine minutes" + ENTER)
    assert screen.end() == ExitCode.SUCCESS
    assert "session 3d75e207-" in screen.shown.rpartition("\x1b[?1049l")[2]


def test_new_transcripts_appear_while_the_list_is_shown(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    home.session(session_id(1), thread(prompt("the first one"), reply("ok")))
    Archive.ingest(home_dir / "archive", [home.path])
    home.session(session_id(2), thread(prompt("the second one"), reply("ok"), start=60))

    screen = Screen("show", columns=80, rows=24)
    screen.wait_for("1 session ", "the first one")
    screen.wait_for("2 sessions", "the second one", gone="importing")
    assert "the second one" in screen.lines[2]
    screen.type(ENTER)
    assert screen.end() == ExitCode.SUCCESS
    assert f"session {session_id(2)}" in screen.shown


def test_a_session_stays_selected_when_new_ones_appear(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    for number, text in ((1, "the oldest one"), (2, "the middle one")):
        lines = thread(prompt(text), reply("ok"), start=60 * number)
        home.session(session_id(number), lines)
    Archive.ingest(home_dir / "archive", [home.path])
    lines = thread(prompt("the newest one"), reply("ok"), start=600)
    home.session(session_id(3), lines)

    screen = Screen("show", columns=80, rows=24)
    screen.read_until(lambda shown: "2 sessions" in shown)
    screen.type(DOWN)
    screen.wait_for("3 sessions", "the newest one")
    screen.read_until(lambda _: screen.lines[4].startswith("▌"))
    screen.type(ENTER)
    assert screen.end() == ExitCode.SUCCESS
    assert f"session {session_id(1)}" in screen.shown


def test_the_last_session_of_a_long_list_is_one_key_away(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    for number in range(60):
        lines = thread(prompt(f"number {number} of them"), start=60 * number)
        home.session(session_id(number + 1), lines)
    Archive.ingest(home_dir / "archive", [home.path])

    screen = Screen("show", columns=80, rows=24)
    screen.wait_for("60 sessions", "number 59 of them")
    screen.type(TAB + "G")
    screen.wait_for("number 0 of them", str(session_id(1)))
    screen.type("g")
    screen.wait_for("number 59 of them", str(session_id(60)))
    screen.type("q")
    assert screen.end() == ExitCode.INTERRUPTED


def test_an_import_that_fails_is_reported_below_the_search(home_dir: Path) -> None:
    home = Home(home_dir / ".claude")
    home.session(session_id(1), thread(prompt("one")))
    Archive.ingest(home_dir / "archive", [home.path])
    reported = Event()
    with Archive.open(home_dir / "archive") as archive:
        check = NewDataCheck(OpenedArchive(archive, (home.path,)))
    shutil.rmtree(home_dir / "archive")

    check.start(lambda *, is_changed: None if is_changed else reported.set())
    assert reported.wait(20)
    check.stop()
    assert "could not be imported" in check.status


class _ImmediateFinder:
    """Answers a request for sessions before it returns."""

    def __init__(
        self, folder: Path | str, on_answer: Callable[[Answer | Exception], None]
    ) -> None:
        self._folder = folder
        self._on_answer = on_answer

    def start(self) -> None:
        pass

    def request_sessions(self, query: PickerQuery) -> None:
        with Archive.open(self._folder) as archive:
            self._on_answer(SessionFinder(archive).find(query))

    def request_preview(self, request: PreviewRequest) -> None:
        pass

    def stop(self) -> None:
        pass


def test_what_happened_is_not_cut_off_on_a_narrow_terminal() -> None:
    found = FoundSessions(query=PickerQuery(text="git"), count=44)

    def line(width: int) -> str:
        parts = state_line(found, directory_name="x", status="starred", width=width)
        return "".join(text for _, text in parts)

    assert line(80) == "  44 sessions · all projects · best first · starred"
    assert line(50) == "  44 sessions · all projects · starred"
    assert line(24) == "  44 sessions · starred"


def test_results_that_come_at_once_are_shown(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(home_dir / ".claude")
    home.session(session_id(1), thread(prompt("one"), reply("done")))
    Archive.ingest(home_dir / "archive", [home.path])
    monkeypatch.setattr(screen_module, "BackgroundFinder", _ImmediateFinder)
    query = PickerQuery(text="one")
    found = FoundSessions(query=query, is_pending=True)
    options = PickerOptions(action="show", text="one")
    with (
        create_pipe_input() as keys,
        create_app_session(input=keys, output=DummyOutput()),
        Archive.open(home_dir / "archive") as archive,
    ):
        frame = FirstFrame(found, options, datetime.now(UTC))
        picker = screen_module.Picker(OpenedArchive(archive), options, found, frame)
        keys.send_text(ENTER)
        # If the results were lost, Enter would wait for them; this ends the wait.
        timer = Timer(5, keys.send_text, ["\x03"])
        timer.start()
        picked = picker.run()
        timer.cancel()

    assert picked is not None
    assert picked.session_id == session_id(1)
