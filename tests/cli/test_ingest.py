"""``bygones ingest``, as people and programs see it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from itertools import count
from pathlib import Path

import pytest

from bygones import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.store.connect import writer_lock
from tests.build import Home, jsonl, prompt, reply, session_id, summary, thread
from tests.cli.terminals import Terminal, command_line, run_piped

on_terminals = pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")


@pytest.mark.usefixtures("sample_home")
def test_result_is_reported_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest"]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert re.fullmatch(
        r"9 files: 9 new\n"
        r"imported [\d.]+ kB, \d+ records; 2 sessions updated\n"
        r"2 sessions in ~/archive\n",
        captured.out,
    )
    assert captured.err == ""


def test_empty_sessions_are_counted_separately(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_home.session(session_id(8), [summary("Nobody spoke", "x")])

    assert main(["ingest"]) == ExitCode.SUCCESS

    stdout = capsys.readouterr().out
    assert "3 sessions updated\n2 sessions and 1 empty one in ~/archive\n" in stdout


@pytest.mark.usefixtures("sample_home")
def test_the_second_time_there_is_nothing_new(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["ingest"])
    capsys.readouterr()

    assert main(["ingest"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.startswith("9 files, nothing new\n")


def test_the_state_of_each_file_is_reported(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ingest", "--quiet"])
    sessions = sample_home.path / "projects"
    first = sessions / "-work-demo" / f"{session_id(1)}.jsonl"
    second = sessions / "-work-other" / f"{session_id(2)}.jsonl"
    with first.open("ab") as file:
        file.write(jsonl([prompt("And the words?", parent="x")]))
    second.write_bytes(jsonl(thread(prompt("Something else"))))
    (sample_home.path / "history.jsonl").unlink()

    assert main(["ingest"]) == ExitCode.SUCCESS

    stdout = capsys.readouterr().out
    assert stdout.startswith("8 files: 1 grown, 1 rewritten, 1 gone\n")


@pytest.mark.usefixtures("sample_home")
def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", "-q"]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_json_output(sample_home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    (sample_home.path / "projects" / "-x" / "odd.jsonl").mkdir(parents=True)

    assert main(["ingest", "--json"]) == ExitCode.SUCCESS

    problem, report = map(json.loads, capsys.readouterr().out.splitlines())
    assert (problem["type"], problem["kind"]) == ("problem", "not-a-file")
    assert report["type"] == "ingest_report"
    assert (report["new_count"], report["problem_count"]) == (9, 1)


def test_a_problem_is_reported_and_the_run_continues(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    (sample_home.path / "projects" / "-x" / "odd\x1b.jsonl").mkdir(parents=True)

    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS

    stderr = capsys.readouterr().err
    assert stderr.endswith("not-a-file: a folder\n")
    assert r"odd\x1b.jsonl" in stderr


def test_several_homes_are_imported_together(home_dir: Path) -> None:
    for number in (1, 2):
        Home(home_dir / f"home{number}").session(
            session_id(number), thread(prompt(f"Question {number}"))
        )

    done = run_piped("ingest", "--home", "home1", "--home", home_dir / "home2")

    assert done.returncode == 0
    assert done.stderr == ""
    with Archive.open(home_dir / "archive") as archive:
        assert len(list(archive.sessions())) == 2


def test_missing_home_is_a_usage_error(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ingest", "--home", "nowhere"]) == ExitCode.USAGE_ERROR
    assert "nowhere does not exist" in capsys.readouterr().err
    assert not (home_dir / "archive").exists()


def test_machine_without_claude_code_has_nothing_to_import(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ingest"]) == ExitCode.FAILURE
    assert "no Claude Code home" in capsys.readouterr().err
    assert not (home_dir / "archive").exists()


def test_second_writer_waits_and_then_gives_up(
    sample_home: Home,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main(["ingest", "-q"])
    monkeypatch.setattr("bygones.store.connect.time.sleep", lambda _: None)
    seconds = count()  # each look at the clock is a second later
    monkeypatch.setattr(
        "bygones.store.connect.time.monotonic", lambda: float(next(seconds))
    )

    with writer_lock(sample_home.path.parent / "archive", timeout=0):
        assert main(["ingest"]) == ExitCode.ARCHIVE_IN_USE

    stderr = capsys.readouterr().err
    assert stderr.startswith("error: another command is writing to")
    assert "\n\nhint: wait until" in stderr


def test_archive_path_that_is_a_file_is_reported(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    (sample_home.path.parent / "archive").write_text("a file")

    assert main(["ingest"]) == ExitCode.USAGE_ERROR
    assert "archive is not a folder\n" in capsys.readouterr().err


@on_terminals
def test_terminal_shows_progress_and_then_the_result(
    sample_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = sample_home.path.parent / "sitecustomize.py"
    slow.write_text(
        "import time\n"
        "really, begun = time.monotonic, time.monotonic()\n"
        "time.monotonic = lambda: begun + 100 * (really() - begun)\n"
    )
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(slow.parent), inherited]))

    screen = Terminal("ingest", columns=100)

    assert screen.end() == 0
    assert re.search(r"reading  █*░* +\d+%  [\d.]+ k?B of [\d.]+ kB", screen.shown)
    assert re.search(r"sessions  █*░* +\d+%  \d of 2", screen.shown)
    last = screen.shown.rpartition("\r")[2]
    assert "imported" in last
    assert "█" not in last


@on_terminals
def test_interrupted_import_keeps_its_work_and_reports_it(home_dir: Path) -> None:
    big_home(home_dir, megabytes=8)
    screen = Terminal("ingest", columns=100)
    screen.read_until(lambda shown: "reading" in shown or "imported" in shown)

    screen.type("\x03")
    code = screen.end()

    if "imported" not in screen.shown:  # else it was done before it could be stopped
        assert code == ExitCode.INTERRUPTED
        assert "interrupted: " in screen.shown
        assert "; run it again" in screen.shown
    assert run_piped("ingest").returncode == 0
    assert run_piped("verify", "--deep").stdout.startswith("intact: ")


@on_terminals
@pytest.mark.parametrize("words", [(), ("list",), ("search", "play")])
def test_interrupted_first_import_reports_its_work(
    words: tuple[str, ...], home_dir: Path
) -> None:
    big_home(home_dir, megabytes=8)
    screen = Terminal(*words, columns=100)
    screen.read_until(lambda shown: "reading" in shown or "imported" in shown)

    screen.type("\x03")
    code = screen.end()

    if "imported" not in screen.shown:  # else it was done before it could be stopped
        assert code == ExitCode.INTERRUPTED
        assert "interrupted: " in screen.shown
        assert "; run it again" in screen.shown


@pytest.mark.skipif(os.name == "nt", reason="signals differ there")
def test_interrupt_in_a_pipe_has_its_exit_code(home_dir: Path) -> None:
    big_home(home_dir, megabytes=8)
    child = subprocess.Popen(
        command_line("ingest"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    lock = home_dir / "archive" / "archive.db"
    while not lock.exists() and child.poll() is None:
        pass

    child.send_signal(signal.SIGINT)
    stderr = child.communicate(timeout=60)[1].decode()

    assert child.returncode in {0, ExitCode.INTERRUPTED}
    assert "Traceback" not in stderr
    assert run_piped("ingest").returncode == 0
    assert run_piped("verify", "--deep").returncode == 0


def big_home(home_dir: Path, *, megabytes: int) -> None:
    """Write enough sessions to be seen working."""
    home = Home(home_dir / ".claude")
    words = "all work and no play makes a transcript long " * 200
    records = thread(
        *[reply(f"{words}{n}") if n % 2 else prompt(words) for n in range(8)]
    )
    size = len(jsonl(records))
    for number in range(megabytes * 1_000_000 // size):
        home.session(session_id(number), records)


def test_a_home_without_transcripts_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()

    assert main(["ingest", "--home", str(home), "--archive", str(tmp_path / "a")]) == 0

    assert capsys.readouterr().err == f"note: there are no transcripts in {home}\n"
