"""Options that every command accepts before and after its name."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from bygones.cli.commands.registry import COMMANDS
from bygones.cli.group import CommandGroup
from bygones.cli.main import main
from bygones.errors import ExitCode

OPTIONS = (
    *(("--archive", "x"), ("--home", "x"), ("--color", "never")),
    *(("-q",), ("--quiet",), ("-v",), ("--verbose",)),
)


def commands() -> list[tuple[str, ...]]:
    """Return the names of every command and subcommand."""
    group = CommandGroup(COMMANDS)
    names: list[tuple[str, ...]] = []
    waiting: list[tuple[tuple[str, ...], click.Command | None]] = [
        ((row.name,), group.get_command(click.Context(group), row.name))
        for row in COMMANDS
    ]
    while waiting:
        arguments, command = waiting.pop()
        names.append(arguments)
        if isinstance(command, click.Group):
            waiting += [((*arguments, n), one) for n, one in command.commands.items()]
    return sorted(names)


def test_every_command_accepts_shared_options_before_and_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    offenders = []
    for arguments in commands():
        for option in OPTIONS:
            for command in (
                (*arguments, *option, "--help"),
                (*option, *arguments, "--help"),
            ):
                code = main(command)
                captured = capsys.readouterr()
                usage = f"Usage: bygones {arguments[0]}"
                if code != ExitCode.SUCCESS or not captured.out.startswith(usage):
                    offenders.append((command, captured.err))

    assert offenders == []


def test_other_options_work_in_both_places_or_are_rejected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    offenders = []
    for name in (row.name for row in COMMANDS):
        for option in ("--json", "--no-ingest"):
            behind = main([name, option, "--help"]), capsys.readouterr().err
            before = main([option, name, "--help"]), capsys.readouterr().err
            refusal = f"error: {name} takes no {option}: "
            is_right = behind[0] == before[0] and (
                behind[0] == ExitCode.SUCCESS
                or (behind[1].startswith(refusal) and before[1].startswith(refusal))
            )
            if not is_right:
                offenders.append((name, option, behind, before))

    assert offenders == []


@pytest.mark.usefixtures("demo_home")
def test_an_unused_location_option_is_noted(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--home", str(home_dir)]) == ExitCode.SUCCESS
    assert capsys.readouterr().err == "note: verify does not use --home\n"

    assert main(["--home", str(home_dir), "verify"]) == ExitCode.SUCCESS
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("demo_home")
def test_an_option_after_a_command_overrides_one_before_it(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = str(home_dir / "archive")

    assert (
        main(["--archive", os.devnull, "list", "--archive", here]) == ExitCode.SUCCESS
    )
    assert "b9568747" in capsys.readouterr().out


@pytest.mark.usefixtures("demo_home")
def test_no_ingest_is_accepted_before_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYGONES_HOME", "/no/such/home")

    assert main(["--no-ingest", "list", "-n", "1"]) == ExitCode.SUCCESS
    assert main(["--no-ingest"]) == ExitCode.SUCCESS
    assert "b9568747" in capsys.readouterr().out


def test_migrate_says_why_it_has_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "--json"]) == ExitCode.USAGE_ERROR
    message = "error: migrate takes no --json: it prints its progress\n"
    assert capsys.readouterr().err.startswith(message)
