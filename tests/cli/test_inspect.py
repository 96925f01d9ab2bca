"""``bygones inspect``, as people and programs see it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bygones.cli.commands.inspect import SurveyPage
from bygones.cli.main import main
from bygones.cli.output import Style
from bygones.errors import ExitCode
from bygones.inspection import inspect_transcripts
from bygones.model import reports
from bygones.model.reports import ContentKind, DriftKind, FileClass
from bygones.render.text.primitives import display_width
from tests import build
from tests.build import Home, jsonl, prompt, reply, session_id

HERE = Path(__file__).parent
GUIDE = HERE.parent.parent / "docs" / "guide" / "inspect.md"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e\r\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home with a bit of everything, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "home"))
    home = Home(tmp_path / "home")
    home.session(
        session_id(1),
        [
            build.summary("Earlier work", "u"),
            *build.thread(
                prompt("Please count the lines"),
                reply([build.thinking("wc"), build.tool_use("Bash", command="wc -l")]),
                build.tool_result("toolu_1", "3", outcome={"stdout": "3"}),
                reply("Three.", version="2.1.201"),
                build.system("turn_duration"),
                build.system("moon_phase"),
            ),
            prompt("again", mood="good"),
            b'{"type":"user","message":',
            b"",
            b"null",
        ],
    )
    home.session(session_id(2), [])
    home.agent(session_id(1), "a1", [prompt("Warmup"), reply("ready")], meta={})
    return home


def parse_rows(output: str) -> list[dict[str, Any]]:
    return [json.JSONDecoder().decode(line) for line in output.splitlines()]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bygones", "inspect", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_output_describes_the_files(
    home: Home,
    capsys: pytest.CaptureFixture[str],
    golden: Callable[[Path, str], None],
) -> None:
    assert main(["inspect", str(home.path)]) == ExitCode.SUCCESS

    golden(HERE / "inspect.txt", capsys.readouterr().out)


def test_without_a_path_the_homes_of_the_machine_are_inspected(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect"]) == ExitCode.SUCCESS
    unasked = capsys.readouterr().out

    assert main(["inspect", str(home.path)]) == ExitCode.SUCCESS
    assert unasked == capsys.readouterr().out


@pytest.mark.parametrize("how", ["variable", "option", "before", "settings"])
def test_inspected_homes_are_those_that_are_imported(
    how: str,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home.path / "gone"))
    words = ["inspect"]
    if how == "variable":
        monkeypatch.setenv("BYGONES_HOME", str(home.path))
    elif how == "option":
        words = ["inspect", "--home", str(home.path)]
    elif how == "before":
        words = ["--home", str(home.path), "inspect"]
    else:
        settings = home.path.parent / "settings.toml"
        settings.write_text(f"homes = [{json.dumps(str(home.path))}]")
        monkeypatch.setenv("BYGONES_SETTINGS", str(settings))

    assert main(words) == ExitCode.SUCCESS
    stdout = capsys.readouterr().out

    assert main(["inspect", str(home.path)]) == ExitCode.SUCCESS
    assert stdout == capsys.readouterr().out


def test_a_home_and_a_path_are_inspected_together(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl([prompt("Hello")]))
    words = ["inspect", "--json", "--home", str(home.path), str(path)]

    assert main(["inspect", "--json", str(home.path)]) == ExitCode.SUCCESS
    alone = parse_rows(capsys.readouterr().out)[-1]["files"]

    assert main(words) == ExitCode.SUCCESS
    assert parse_rows(capsys.readouterr().out)[-1]["files"] == alone + 1


def test_problems_do_not_change_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{\nx\n" * 5)

    assert main(["inspect", str(path)]) == ExitCode.SUCCESS
    assert "and 7 more; --problems lists all" in capsys.readouterr().out


def test_option_lists_every_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_bytes(b"{\nx\n" * 2 + b"x\n" + b"null\n")

    assert main(["inspect", "--problems", "a.jsonl"]) == ExitCode.SUCCESS

    listed = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert [line.rpartition(": ")[0].split(": ")[0] for line in listed] == [
        f"a.jsonl:{number}" for number in (1, 2, 3, 4, 6)
    ]
    assert listed[3].endswith("(2 lines)")
    assert listed[4].startswith("a.jsonl:6: not-an-object")


def test_missing_path_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(tmp_path / "gone")]) == ExitCode.USAGE_ERROR
    assert "does not exist" in capsys.readouterr().err


def test_a_folder_without_transcripts_has_nothing_to_inspect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(tmp_path)]) == ExitCode.FAILURE

    output = capsys.readouterr()
    assert output.out == ""
    assert "no transcripts in" in output.err


def test_a_machine_without_a_home_has_nothing_to_inspect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "gone"))

    assert main(["inspect"]) == ExitCode.FAILURE
    assert "no Claude Code home" in capsys.readouterr().err


def test_reason_is_shown_if_nothing_could_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").mkdir()

    assert main(["inspect", str(tmp_path)]) == ExitCode.FAILURE
    assert "1 not-a-file" in capsys.readouterr().out


def test_a_section_without_rows_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"torn\n")

    assert main(["inspect", str(path)]) == ExitCode.SUCCESS

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line[:1].isupper()] == [
        "Files",
        "Content",
        "Problems in files and lines",
    ]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_unreadable_path_is_not_reported_as_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loop").symlink_to("loop")

    assert main(["inspect", str(tmp_path / "loop")]) == ExitCode.FAILURE

    output = capsys.readouterr()
    assert "1 unreadable" in output.out
    assert "does not exist" not in output.err


@pytest.mark.skipif(os.name == "nt", reason="a folder in use cannot be removed there")
def test_the_current_directory_may_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"torn\n")
    missing = tmp_path / "gone"
    missing.mkdir()
    monkeypatch.chdir(missing)
    missing.rmdir()

    assert main(["inspect", str(path)]) == ExitCode.SUCCESS
    assert "1 not-json" in capsys.readouterr().out


def test_json_lists_problems_first_and_ends_with_the_total(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", "--json", "--problems", str(home.path)]) == ExitCode.SUCCESS

    found = parse_rows(capsys.readouterr().out)
    assert [row["type"] for row in found[:3]] == ["problem"] * 3
    assert found[-1]["type"] == "survey"
    assert found[-1]["problems"] == 3
    content = sum(row["bytes"] for row in found if row["type"] == "content_kind")
    files = sum(row["bytes"] for row in found if row["type"] == "file_class")
    assert found[-1]["bytes"] == content == files


def test_json_and_text_agree(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    main(["inspect", "--json", str(home.path)])
    found = parse_rows(capsys.readouterr().out)
    main(["inspect", str(home.path)])
    page = capsys.readouterr().out

    for row in found:
        if row["type"] == "file_class":
            assert re.search(rf"{row['kind']} +{row['files']} ", page)
        if row["type"] == "problem_kind":
            assert f"{row['problems']} {row['kind']}" in page
        if row["type"] == "drift":
            assert f"{row['kind']} {row['name']}" in page


def test_the_guide_explains_every_row_field_and_name() -> None:
    guide = GUIDE.read_text("utf-8")
    structs = [
        struct
        for struct in vars(reports).values()
        if isinstance(struct, type) and issubclass(struct, reports._SurveyRow)
        if struct is not reports._SurveyRow
    ]
    assert len(structs) == 9
    wanted = {struct.__struct_config__.tag for struct in structs}
    wanted |= {name for struct in structs for name in struct.__struct_encode_fields__}
    wanted |= {*FileClass, *ContentKind, *DriftKind}

    assert {name for name in wanted if f"`{name}`" not in guide} == set()


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_nothing_is_wider_than_the_terminal(home: Home, columns: int) -> None:
    long = home.path / "projects" / ("日本" * 30) / f"{session_id(3)}.jsonl"
    long.parent.mkdir()
    long.write_bytes(jsonl([b"{torn", {"type": "very-new-" * 20}]))
    page = SurveyPage(style=Style(is_colored=False), width=columns, is_truncated=True)

    lines = list(page.lines(inspect_transcripts([home.path]), [str(long)]))

    assert max(display_width(line) for line in lines) <= columns


@pytest.mark.parametrize("words", [[], ["--problems"], ["--json"]])
def test_transcripts_cannot_send_control_sequences(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\x1b[2J.jsonl"
    hostile = [
        {"type": HOSTILE},
        build.system(HOSTILE),
        build.attachment(HOSTILE),
        reply([{"type": HOSTILE}], version=HOSTILE),
        prompt("a") | {HOSTILE: 1},
        prompt("a") | {"sessionId": [HOSTILE]},
        HOSTILE,
    ]
    path.write_bytes(jsonl(hostile) + HOSTILE.encode())

    assert main(["inspect", *words, str(path)]) == ExitCode.SUCCESS

    stdout = capsys.readouterr().out
    assert all(line.isprintable() or words == ["--json"] for line in stdout.split("\n"))
    assert not set("\x1b\x07\r") & set(stdout)


def test_a_pipe_gets_neither_color_nor_progress(home: Home) -> None:
    done = run(str(home.path))

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_color_can_be_forced(home: Home) -> None:
    assert "\x1b[1m" in run("--color", "always", str(home.path)).stdout


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_a_terminal_gets_color_and_its_own_width(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("BYGONES_PAGER", "cat")

    shown = run_on_terminal(home.path, columns=60)

    assert "\x1b[1mFiles\x1b[0m" in shown
    assert max(display_width(line) for line in strip_color(shown).splitlines()) <= 60


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_a_terminal_without_color_gets_none(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("BYGONES_PAGER", "cat")

    assert "\x1b" not in run_on_terminal(home.path, columns=60)


def strip_color(text: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", text)


def run_on_terminal(path: Path, *, columns: int) -> str:
    """Return what inspecting ``path`` shows on a terminal of this width."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    size = struct.pack("HHHH", 40, columns, 0, 0)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    child = subprocess.Popen(
        [sys.executable, "-m", "bygones", "inspect", str(path)],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert child.wait() == 0
    return shown.decode().replace("\r\n", "\n")
