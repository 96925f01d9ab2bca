"""The layout of help pages."""

from __future__ import annotations

import pytest

from bygones.cli.commands.registry import COMMANDS
from bygones.cli.main import main
from bygones.errors import ExitCode

GROUPS = (
    *("Read and find", "Files", "Continue", "Archive"),
    *("Share", "Team", "Integrations"),
)


def help_text(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments, "--help"]) == ExitCode.SUCCESS
    return capsys.readouterr().out


def test_overview_fits_in_a_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert len(help_text(capsys).splitlines()) <= 60


def test_overview_lists_every_group_once_in_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = help_text(capsys)
    matches = [
        name for line in page.splitlines() for name in GROUPS if line.startswith(name)
    ]

    assert matches == list(GROUPS)


def test_overview_lists_every_command_but_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = help_text(capsys)

    assert [
        row.name
        for row in COMMANDS
        if f" {row.label} " not in page and row.name != "help"
    ] == []


def test_summaries_are_short_enough_for_80_columns() -> None:
    assert [row.name for row in COMMANDS if row.group and len(row.summary) > 54] == []


def test_examples_come_before_explanation_and_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = help_text(capsys, "search")
    order = ["Usage:", "Examples:", "Type words", "Options:", "Common options:"]

    assert [page.index(part) for part in order] == sorted(map(page.index, order))


def test_shared_options_are_in_a_block_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own, shared = help_text(capsys, "list").split("Common options:")

    assert "--starred" in own
    assert "--archive" not in own.partition("\nOptions:")[2]
    assert all(name in shared for name in ("--archive", "--home", "--json", "--help"))


def test_defaults_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Number of sessions (default: 10)" in help_text(capsys, "search")
    assert "(default: a free port)" in help_text(capsys, "serve")


@pytest.mark.usefixtures("demo_home")
def test_ls_is_an_alias_of_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == ExitCode.SUCCESS
    expected = capsys.readouterr().out

    assert main(["ls", "--json"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == expected
    assert main(["help", "ls"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.startswith("Usage: bygones list")


@pytest.mark.usefixtures("demo_home")
def test_md_is_an_alias_of_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "last", "--format", "markdown", "-o", "-"]) == 0
    expected = capsys.readouterr().out

    assert main(["export", "last", "--format", "md", "-o", "-"]) == 0
    assert capsys.readouterr().out == expected
