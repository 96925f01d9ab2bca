"""Long output goes through a pager, on a terminal and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bygones.cli.output import pager_command, print_paged
from bygones.errors import ExitCode
from tests.cli.terminals import Terminal

LINES = [f"line {number}" for number in range(200)]


def test_a_pipe_gets_everything(capsys: pytest.CaptureFixture[str]) -> None:
    print_paged(LINES, is_terminal=False)

    assert capsys.readouterr().out.splitlines() == LINES


def test_short_output_needs_no_pager(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYGONES_PAGER", "false")

    print_paged(LINES[:20], is_terminal=True)

    assert capsys.readouterr().out.splitlines() == LINES[:20]


@pytest.mark.skipif(os.name == "nt", reason="the pager is a shell's")
def test_long_output_goes_through_the_pager(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYGONES_PAGER", "sed s/line/row/")

    print_paged(LINES, is_terminal=True)

    assert capfd.readouterr().out.splitlines()[199] == "row 199"


@pytest.mark.skipif(os.name == "nt", reason="the pager is a shell's")
def test_leaving_the_pager_stops_the_output(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYGONES_PAGER", "head -n 1")

    print_paged((f"{line * 1000}" for line in LINES * 100), is_terminal=True)

    assert len(capfd.readouterr().out.splitlines()) == 1


def test_missing_pager_is_skipped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYGONES_PAGER", "/no/such/pager")

    print_paged(LINES, is_terminal=True)

    assert capsys.readouterr().out.splitlines() == LINES


@pytest.mark.skipif(os.name == "nt", reason="the pager is a shell's")
def test_pager_pipeline_runs_in_a_shell(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYGONES_PAGER", "sed s/line/row/ | head -n 1")

    print_paged(LINES, is_terminal=True)

    assert capfd.readouterr().out == "row 0\n"


@pytest.mark.parametrize(
    ("setting", "pager", "words"),
    [
        ("less -S", "most -s", ["less", "-S"]),
        (None, "most -s", ["most", "-s"]),
        (None, "cat", []),
        ("", "less", []),
        ('"never closed', "less", ["sh", "-c", '"never closed']),
        (None, "less -R | cat", ["sh", "-c", "less -R | cat"]),
    ],
)
def test_pager_comes_from_settings_or_environment(
    setting: str | None, pager: str, words: list[str]
) -> None:
    assert pager_command({"PAGER": pager}, setting) == words


@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
@pytest.mark.usefixtures("demo_home")
def test_pager_is_used_on_a_terminal(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = home_dir / "page"
    monkeypatch.setenv("BYGONES_PAGER", f"tee {page}")

    terminal = Terminal("show", "last", "--all", "--tools")

    assert terminal.end() == ExitCode.SUCCESS
    assert "charging twice" in page.read_text()
    assert "charging twice" in terminal.shown


@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize(
    "words",
    [
        ("search", "the"),
        ("search", "--syntax"),
        ("usage", "--by", "session"),
        ("--help",),
        ("list", "--help"),
        ("help",),
        ("help", "query"),
        ("hub", "token", "new", "--help"),
        ("prompts",),
        ("doctor",),
        ("tree", "last"),
    ],
    ids=" ".join,
)
def test_every_long_output_goes_through_the_pager(
    words: tuple[str, ...], home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = home_dir / "page"
    monkeypatch.setenv("BYGONES_PAGER", f"tee {page}")

    terminal = Terminal(*words, rows=6)

    assert terminal.end() == ExitCode.SUCCESS
    assert len(page.read_text().splitlines()) > 4


@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
def test_all_problems_go_through_the_pager(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = home_dir / "broken.jsonl"
    broken.write_text('not json\n{"type":"mode"}\n' * 20)
    page = home_dir / "page"
    monkeypatch.setenv("BYGONES_PAGER", f"tee {page}")

    terminal = Terminal("inspect", broken, "--problems", rows=6)

    assert terminal.end() == ExitCode.SUCCESS
    assert page.read_text().count("broken.jsonl:") >= 20


@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
@pytest.mark.usefixtures("demo_home")
def test_leaving_the_pager_is_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYGONES_PAGER", "head -n 1")

    assert Terminal("--help", rows=6).end() == ExitCode.SUCCESS
