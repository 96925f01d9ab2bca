"""``bygones show``, from its words to its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import (
    SESSION,
    Home,
    prompt,
    reply,
    session_id,
    thread,
    title,
    tool_result,
    tool_use,
)
from tests.render.stories import STORIES, hostile

ROOT = Path(__file__).resolve().parents[2]
OTHER = session_id(7)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with an older and a newer session."""
    folder = Home(tmp_path)
    older = thread(prompt("An older question"), reply("An older answer"))
    newer = thread(prompt("A newer question"), reply("A newer answer"), start=500)
    folder.session(SESSION, [*older, title("Older")])
    folder.session(OTHER, [*newer, title("Newer")])
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    inherited = {
        k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS"}
    }
    return inherited | {"PYTHONPATH": str(ROOT / "src"), "TZ": "UTC"} | more


def run(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "bygones", "show", *words],
        capture_output=True,
        check=False,
        env=environment(),
    )


def run_on_terminal(*words: str, **more: str) -> bytes:
    """Return what the command writes to a terminal of 60 columns."""
    pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
    outer, inner = pty.openpty()
    size = environment(COLUMNS="60", TERM="xterm", BYGONES_PAGER="cat", **more)
    done = subprocess.Popen(
        [sys.executable, "-m", "bygones", "show", *words], stdout=inner, env=size
    )
    os.close(inner)
    written = b""
    while True:
        try:
            some = os.read(outer, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not some:
            break
        written += some
    os.close(outer)
    assert done.wait() == 0
    return written


def test_the_newest_session_is_shown_and_the_others_are_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(home)]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert "▌ A newer question\n\nA newer answer\n" in captured.out
    assert captured.err == (
        "note: this is the newest of 2 sessions; to show another, add its id:\n"
        "  5e551000-0000-4000-8000-000000000000  2026-01-05  Older\n"
    )


@pytest.mark.parametrize("words", [SESSION, SESSION[:-1]])
def test_session_is_found_by_id_or_prefix(
    words: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["show", str(home), words])

    captured = capsys.readouterr()
    if words == SESSION:
        assert (code, captured.err) == (ExitCode.SUCCESS, "")
        assert "An older answer" in captured.out
    else:
        assert code == ExitCode.USAGE_ERROR
        assert "matches 2 sessions:" in captured.err


def test_unknown_session_is_a_usage_error(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(home), "5e441000"]) == ExitCode.USAGE_ERROR
    assert "did you mean 5e551000?" in capsys.readouterr().err

    assert main(["show", str(home), "zz"]) == ExitCode.USAGE_ERROR
    assert "the newest are 5e551000, 5e551000" in capsys.readouterr().err


def test_missing_path_and_path_without_transcripts_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(tmp_path / "gone")]) == ExitCode.USAGE_ERROR
    assert main(["show", str(tmp_path)]) == ExitCode.FAILURE

    assert capsys.readouterr().err.count("error: ") == 2


@pytest.mark.parametrize("words", ["3", "a3", "p3"])
def test_a_branch_is_found_by_its_number_its_leaf_or_a_record(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    STORIES["rewound"](tmp_path)

    assert main(["show", str(tmp_path), "--branch", words]) == ExitCode.SUCCESS

    stdout = capsys.readouterr().out
    assert "▌ Of the wind\n\nAir.\n" in stdout
    assert "╰ the live branch continues from here: 1 prompt (“" in stdout


def test_unknown_record_is_not_reported_as_a_branch(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["show", str(home), SESSION, "--around", "zzz"]

    assert main(words) == ExitCode.USAGE_ERROR
    stderr = capsys.readouterr().err
    assert "this session has no record 'zzz'" in stderr


def test_turns_are_shown_around_a_tool_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = thread(
        prompt("Count"),
        reply([tool_use("Bash", command="wc -l")]),
        tool_result("toolu_1", "3", outcome={"stdout": "3"}),
        reply("Three."),
        *(one for n in range(3) for one in (prompt(f"Next {n}"), reply("Yes."))),
    )
    Home(tmp_path).session(SESSION, records)

    words = ["show", str(tmp_path), "--around", str(records[2]["uuid"])]
    assert main(words) == ExitCode.SUCCESS

    stdout = capsys.readouterr().out
    assert "Three." in stdout
    assert "Next 0" in stdout
    assert "Next 1" not in stdout


def test_unknown_branch_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    STORIES["rewound"](tmp_path)

    assert main(["show", str(tmp_path), "--branch", "9"]) == ExitCode.USAGE_ERROR
    assert "no branch '9'; branches: 1 (Write a poem), 3 (" in capsys.readouterr().err


def test_json_is_one_object_per_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile(tmp_path)

    assert (
        main(["show", str(tmp_path), "--json", "--all", "--tools"]) == ExitCode.SUCCESS
    )

    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["type"] for line in lines][:2] == ["session", "turn"]


@pytest.mark.parametrize("options", [(), ("--all", "--tools", "--thinking")])
def test_a_pipe_gets_no_control_bytes(options: tuple[str, ...], tmp_path: Path) -> None:
    hostile(tmp_path)

    done = run(str(tmp_path), *options)

    assert (done.returncode, done.stderr) == (0, b"")
    assert not set(done.stdout) & (set(range(32)) - {9, 10} | {127})
    assert "\\x1b]52;" in done.stdout.decode()


def test_terminal_gets_only_our_color_codes(tmp_path: Path) -> None:
    hostile(tmp_path)

    written = run_on_terminal(str(tmp_path), "--all", "--tools")

    starts = {part[:1] for part in written.split(b"\x1b")[1:]}
    assert starts == {b"["}
    assert all(
        part.partition(b"m")[0].lstrip(b"[").replace(b";", b"").isdigit()
        for part in written.split(b"\x1b")[1:]
    )
    assert not set(written) & (set(range(32)) - {9, 10, 13, 27} | {127})


def test_no_color_is_honored(tmp_path: Path) -> None:
    STORIES["everyday"](tmp_path)

    assert b"\x1b[" in run_on_terminal(str(tmp_path))
    assert b"\x1b" not in run_on_terminal(str(tmp_path), NO_COLOR="1")
    assert b"\x1b[" in run(str(tmp_path), "--color", "always").stdout


def test_prose_is_wrapped_on_a_terminal_only(tmp_path: Path) -> None:
    STORIES["everyday"](tmp_path)
    sentence = b"on a slow machine that moment was long."

    wrapped = run_on_terminal(str(tmp_path), NO_COLOR="1").replace(b"\r\n", b"\n")

    assert sentence not in wrapped
    assert sentence in run(str(tmp_path)).stdout


def test_closed_pager_is_not_an_error(tmp_path: Path) -> None:
    Home(tmp_path).session(
        SESSION, thread(*(prompt(f"{n} " + "words " * 400) for n in range(300)))
    )
    shown = subprocess.Popen(
        [sys.executable, "-m", "bygones", "show", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert shown.stdout is not None
    shown.stdout.readline()
    shown.stdout.close()

    assert shown.wait() == 0
    assert shown.stderr is not None
    assert shown.stderr.read() == b""
    shown.stderr.close()


def test_record_must_be_on_the_selected_branch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    STORIES["rewound"](tmp_path)
    words = ["show", str(tmp_path), "--around", "p3", "--branch"]

    assert main([*words, "1"]) == ExitCode.USAGE_ERROR
    assert "'p3' is not on branch 1, but on branch 3" in capsys.readouterr().err
    assert main([*words, "3"]) == ExitCode.SUCCESS
    assert "Of the wind" in capsys.readouterr().out


def test_a_file_without_records_is_not_a_transcript(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no record\n")

    assert main(["show", str(path)]) == ExitCode.USAGE_ERROR
    assert "notes.txt is not a transcript" in capsys.readouterr().err
