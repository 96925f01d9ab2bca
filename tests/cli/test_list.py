"""``bygones list`` and ``bygones projects``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.render.text.primitives import display_width
from tests.build import Home, prompt, reply, session, session_id, summary, thread
from tests.cli.terminals import Terminal, run_piped

on_terminals = pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eevil\r\nline"


@pytest.fixture(autouse=True)
def _import_home(sample_home: Home) -> None:
    home = sample_home
    home.session(session_id(3), [summary("Of another", "x")])
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS


def stdout_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == ExitCode.SUCCESS
    return capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_file_name_that_is_not_utf8_is_listed(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = os.fsencode(sample_home.path / "projects" / "-work-demo")
    with open(folder + b"/\xff\xfe.jsonl", "wb") as file:  # noqa: PTH123 (bytes)
        file.write(b'{"type":"mode","mode":"normal"}\n')

    assert "\n\\uefff\\ueffe " in stdout_of(capsys, "list", "--all")


def test_a_pipe_gets_every_column_and_nothing_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head, newest, oldest = stdout_of(capsys, "list").splitlines()

    assert head.split() == [
        *(
            "SESSION",
            "WHEN",
            "PROJECT",
            "PROMPTS/MSGS",
            "AGENTS",
            "MODEL",
            "TOKENS",
            "COST",
        ),
        "TITLE",
    ]
    assert newest.startswith("5e551000  2026-01-05T10:00:01+00:00  demo")
    assert oldest.endswith("Counting lines")


def test_option_lists_empty_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(stdout_of(capsys, "list").splitlines()) == 3
    assert len(stdout_of(capsys, "list", "--all").splitlines()) == 4


def test_limit_lists_the_newest(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(stdout_of(capsys, "list", "-n", "1").splitlines()) == 2


def test_json_has_a_row_per_session(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        json.loads(line) for line in stdout_of(capsys, "list", "--json").splitlines()
    ]

    assert {row["type"] for row in rows} == {"session"}
    assert [row["session_id"] for row in rows] == [session_id(2), session_id(1)]
    assert (
        rows[1]
        | {
            "title": "Counting lines",
            "title_kind": "custom",
            "project": "/work/demo",
            "prompt_count": 1,
            "message_count": 3,
            "agent_count": 1,
            "branch_count": 1,
            "cost_usd": 0.00684,
        }
        == rows[1]
    )
    assert sum(rows[1]["tokens"].values()) == 9750


def test_a_project_is_named_by_its_path_or_its_last_part(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("/work/demo", "demo", "-work-demo", "/work/demo/src/deep"):
        assert "Counting lines" in stdout_of(capsys, "list", "--project", name)


def test_an_unknown_project_suggests_a_similar_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "--project", "dmo"]) == ExitCode.USAGE_ERROR

    stderr = capsys.readouterr().err
    assert "no project 'dmo' in the archive; did you mean /work/demo?" in stderr
    assert "hint: `bygones projects` lists all projects" in stderr


def test_the_dot_is_the_project_of_this_folder(
    sample_home: Home,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = sample_home.path.parent / "mine" / "src"
    here.mkdir(parents=True)
    records = thread(prompt("Here", cwd=str(here.parent)), start=7200)
    sample_home.session(session_id(9), records, project="-mine")
    main(["ingest", "-q"])
    monkeypatch.chdir(here)

    assert stdout_of(capsys, "list", "--project", ".").splitlines()[1].endswith("Here")
    assert main(["list", "--project", "/nowhere"]) == ExitCode.USAGE_ERROR


def test_titles_cannot_send_control_sequences(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = thread(prompt(HOSTILE, cwd=f"/{HOSTILE}"), reply("a", model=HOSTILE))
    sample_home.session(session_id(4), odd, project="-odd")
    main(["ingest", "-q"])

    for words in (["list"], ["list", "--json"], ["projects"], ["projects", "--json"]):
        shown = stdout_of(capsys, *words)
        assert all(line.isprintable() for line in shown.split("\n"))
        assert "evil" in shown


@on_terminals
@pytest.mark.parametrize("columns", [60, 100, 200])
def test_columns_are_dropped_on_narrow_terminals(columns: int) -> None:
    screen = Terminal("list", columns=columns)

    assert screen.end() == 0
    lines = screen.shown.splitlines()
    assert len(lines) == 3
    assert max(map(display_width, lines)) <= columns
    assert "ago" in lines[1]
    assert "TITLE" in lines[0]
    assert lines[2].endswith("Counting lines")
    assert ("MODEL" in lines[0]) == (columns > 100)


@on_terminals
def test_iso_prints_full_timestamps() -> None:
    screen = Terminal("list", "--iso", columns=100)
    screen.end()

    assert "2026-01-05T10:00:01" in screen.shown


def test_color_can_be_forced() -> None:
    assert (
        "\x1b[1mCounting lines\x1b[0m" in run_piped("list", "--color", "always").stdout
    )
    assert "\x1b" not in run_piped("list").stdout


@pytest.mark.req("L2")
def test_projects_have_their_paths_sessions_and_sizes(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = thread(prompt("Elsewhere", cwd="/work/日本"), start=9000)
    path = sample_home.session(session_id(8), elsewhere, project="-work---")
    main(["ingest", "-q"])

    head, first, second = stdout_of(capsys, "projects").splitlines()
    row, _ = map(json.loads, stdout_of(capsys, "projects", "--json").splitlines())

    assert head.split() == ["LAST", "SESSIONS", "TOKENS", "SIZE", "PROJECT"]
    assert first.endswith("/work/日本")
    assert second.endswith("/work/demo")
    assert row == {
        "type": "project",
        "path": "/work/日本",
        "other_paths": [],
        "project_keys": ["-work---"],
        "session_count": 1,
        "last_active_at": "2026-01-05T11:30:00Z",
        "tokens": {
            "input": 0,
            "output": 0,
            "cache_write_5m": 0,
            "cache_write_1h": 0,
            "cache_read": 0,
        },
        "source_bytes": path.stat().st_size,
    }


def test_without_an_archive_the_hint_says_how_to_make_one(
    home_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYGONES_ARCHIVE", str(home_dir / "elsewhere"))

    for command in ("projects --no-ingest", "verify", "rebuild"):
        assert main(command.split()) == ExitCode.NO_ARCHIVE
        assert "hint: run `bygones ingest`" in capsys.readouterr().err
    assert not (home_dir / "elsewhere").exists()


@on_terminals
def test_narrow_terminal_shows_the_end_of_a_long_project(sample_home: Home) -> None:
    deep = "/work/" + "deep/" * 20 + "at-last"
    records = thread(prompt("Here", cwd=deep), start=7200)
    sample_home.session(session_id(9), records, project="-deep")

    terminal = Terminal("projects", columns=60)

    assert terminal.end() == ExitCode.SUCCESS
    lines = terminal.shown.splitlines()
    assert any(line.endswith("/at-last") and "  …" in line for line in lines)
    assert max(map(display_width, lines)) <= 60


@on_terminals
@pytest.mark.parametrize("columns", [1, 29])  # too narrow for the picker
def test_very_narrow_terminal_gets_a_list(columns: int) -> None:
    screen = Terminal("list", columns=columns)

    assert screen.end() == ExitCode.SUCCESS
    assert "\n5e551000  Counting lines\n" in screen.shown


@pytest.mark.parametrize("command", ["list", "prompts"])
def test_limit_can_be_of_any_size(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stdout_of(capsys, command, "-n", "9" * 30) == stdout_of(capsys, command)


@pytest.mark.parametrize("command", ["list", "search", "prompts"])
@pytest.mark.parametrize("word", ["-n=2", "-qv", "-qn2", "-vn"])
def test_combined_short_options_are_not_excluded_words(
    command: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "lines", word]) == ExitCode.USAGE_ERROR
    assert "write -n with a space before its number" in capsys.readouterr().err
    assert main([command, "lines", "-nq", "-n2", "--", word]) == ExitCode.SUCCESS


@pytest.mark.parametrize(
    "words", [["list", "zebra"], ["search", "lines", "-n1"], ["prompts", "zebra"]]
)
def test_quiet_prints_no_notes(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "-q"]) == ExitCode.SUCCESS

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("sample_home")
def test_a_part_of_a_project_name_suggests_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "--project", "DEM"]) == ExitCode.USAGE_ERROR
    assert "/work/demo?" in capsys.readouterr().err


@pytest.mark.parametrize(("setting", "colored"), [("always", True), ("auto", False)])
def test_own_color_setting_overrides_no_color(
    setting: str, colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("BYGONES_COLOR", setting)

    assert ("\x1b[" in run_piped("list").stdout) is colored


@on_terminals
@pytest.mark.parametrize(("sessions", "is_reported"), [(20, False), (21, True)])
def test_more_results_are_mentioned_only_if_there_are_some(
    sessions: int, is_reported: bool, sample_home: Home
) -> None:
    for number in range(4, sessions + 2):  # two are there already
        records = thread(prompt(f"Number {number}"), reply("Yes"), start=number)
        sample_home.session(session_id(number), records)
    screen = Terminal("list")

    assert screen.end() == 0
    assert ("the newest 20; -n shows more" in screen.shown) is is_reported


@pytest.mark.req("F3")
def test_project_without_a_directory_is_named_and_selected_by_its_key(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(home_dir / "keys")
    for number, key in ((8, "-a-b"), (9, "-c-d")):
        (record,) = session("p1")
        del record["cwd"]
        home.session(session_id(number), [record | {"uuid": f"p{number}"}], project=key)
    monkeypatch.setenv("BYGONES_HOME", str(home.path))

    row = json.loads(stdout_of(capsys, "list", "--project=-a-b", "--json"))
    assert row["session_id"] == session_id(8)
    for command in (["prompts", "--project=-a-b"], ["search", "project:-a-b"]):
        shown = stdout_of(capsys, *command).splitlines()
        assert len([line for line in shown if "5e551000" in line]) == 1
    listed = stdout_of(capsys, "list")
    assert "-a-b" in listed
    assert "-c-d" in listed
    assert " · -c-d · " in stdout_of(capsys, "search", "project:-c-d")
    _, *projects = stdout_of(capsys, "projects").splitlines()
    main(["doctor"])
    assert f" in {len(projects)} projects\n" in capsys.readouterr().out
