"""The manners of the command line, whatever the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from bygones import __version__
from bygones.cli.commands.registry import COMMANDS, CommandSpec
from bygones.cli.group import CommandGroup, run
from bygones.cli.main import main
from bygones.cli.output import explain_interrupt
from bygones.errors import ExitCode, PathNotFound, SystemFailure
from bygones.render.text.primitives import display_width

HERE = Path(__file__).parent
ROWS = (CommandSpec("act", "commands_under_test.act", "Act."),)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Return a function that makes a function the command ``act``."""

    def replace_command(function: Callable[[], None]) -> None:
        module = type(sys)("commands_under_test.act")
        vars(module)["act"] = click.command("act")(function)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return replace_command


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_the_help_page_names_every_command(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    golden: Callable[[Path, str], None],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main(["--help"]) == ExitCode.SUCCESS

    golden(HERE / "help.txt", capsys.readouterr().out)


def test_a_typo_in_a_command_suggests_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serach", "words"]) == ExitCode.USAGE_ERROR
    assert "did you mean search?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--version"], ["--version", "inspect"]])
def test_the_version_is_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.SUCCESS
    assert capsys.readouterr().out == f"bygones {__version__}\n"


def test_the_help_page_imports_no_command() -> None:
    done = run_python(
        "import sys; from bygones.cli.main import main; main(['--help']);"
        "from bygones.cli.commands.registry import COMMANDS;"
        "sys.exit(any(row.module in sys.modules for row in COMMANDS))"
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_registered_command_can_be_loaded(row: CommandSpec) -> None:
    group = CommandGroup(COMMANDS)

    command = group.get_command(click.Context(group), row.name)

    assert command is not None
    assert command.name == row.name
    assert command.help


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_each_example_is_on_its_own_line(
    row: CommandSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([row.name, "--help"]) == ExitCode.SUCCESS

    page = capsys.readouterr().out
    assert "\\" not in page
    # A path may end in the name of the command.
    examples = [line.count(" bygones ") for line in page.splitlines()]
    assert max(examples) <= 1


def command_paths(group: click.Group, *words: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, and of those below it."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield (*words, name)
        if isinstance(command, click.Group):
            yield from command_paths(command, *words, name)


@pytest.mark.parametrize(
    "words", [(), *command_paths(CommandGroup(COMMANDS))], ids=" ".join
)
def test_no_line_of_a_help_page_is_wider_than_a_narrow_terminal(
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    assert main([*words, "--help"]) == ExitCode.SUCCESS

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if display_width(line) > 60] == []


@pytest.mark.parametrize("words", [["help", "query"], ["search", "--syntax"]])
def test_no_line_about_queries_is_wider_than_a_narrow_terminal(
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    assert main(words) == ExitCode.SUCCESS

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if display_width(line) > 60] == []


def test_unknown_command_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["inspekt"]) == ExitCode.USAGE_ERROR

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: no such command 'inspekt'")
    assert captured.err.endswith("\n\nhint: see bygones --help\n")


def test_a_group_without_a_command_prints_its_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["hub", "token"]) == ExitCode.USAGE_ERROR

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: bygones hub token [OPTIONS] COMMAND")
    assert "\nExamples:\n  bygones hub token new ann --team core\n" in captured.err


def test_a_folder_as_an_argument_of_ingest_suggests_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ingest", str(tmp_path)]) == ExitCode.USAGE_ERROR
    assert capsys.readouterr().err == (
        f"error: too many arguments: {tmp_path}\n\n"
        f"hint: to read transcripts in this folder, use --home {tmp_path}\n"
    )

    assert main(["serve", "8000"]) == ExitCode.USAGE_ERROR
    assert capsys.readouterr().err == (
        "error: too many arguments: 8000\n\nhint: see bygones serve --help\n"
    )


def test_a_typo_in_an_option_suggests_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--projct", "x"]) == ExitCode.USAGE_ERROR

    stderr = capsys.readouterr().err
    assert "no such option --projct; did you mean --project?\n" in stderr


def test_errors_have_a_message_a_hint_and_an_exit_code(
    command: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        raise PathNotFound(Path("here"))

    command(act)

    assert run(["act"], ROWS) == ExitCode.USAGE_ERROR
    assert capsys.readouterr().err == (
        f"error: here does not exist\n\nhint: {PathNotFound.hint}\n"
    )


def test_name_cannot_send_control_sequences(
    command: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        raise PathNotFound(Path("\x1b[2Jgone\udcff\u202e"))

    command(act)
    run(["act"], ROWS)

    assert capsys.readouterr().err.startswith(
        r"error: \x1b[2Jgone\udcff\u202e does not exist"
    )


def test_an_unexpected_error_is_reported_in_one_line(
    command: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def act() -> None:
        raise ZeroDivisionError("by nought")

    command(act)
    monkeypatch.delenv("BYGONES_DEBUG", raising=False)

    assert run(["act"], ROWS) == ExitCode.FAILURE
    assert capsys.readouterr().err == (
        "error: unexpected ZeroDivisionError: by nought\n\n"
        "hint: re-run with BYGONES_DEBUG=1 for the traceback\n"
    )


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("/lib/engine.so: failed to map segment from shared object"),
        ImportError("/lib/engine.so: cannot allocate memory in static TLS block"),
        RuntimeError("can't start new thread"),
    ],
)
def test_lack_of_memory_is_reported(
    command: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def act() -> None:
        raise error

    command(act)
    monkeypatch.delenv("BYGONES_DEBUG", raising=False)

    assert run(["act"], ROWS) == ExitCode.FAILURE
    assert capsys.readouterr().err == (
        "error: the system reported an error: there is not enough memory\n\n"
        f"hint: {SystemFailure.hint}\n"
    )


def test_debug_prints_a_traceback(
    command: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def act() -> None:
        raise ZeroDivisionError

    command(act)
    monkeypatch.setenv("BYGONES_DEBUG", "1")

    assert run(["act"], ROWS) == ExitCode.FAILURE
    assert "Traceback" in capsys.readouterr().err


def test_module_without_its_command_is_an_internal_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = type(sys)("commands_under_test.act")
    vars(module)["act"] = "not a command"
    monkeypatch.setitem(sys.modules, module.__name__, module)

    assert run(["act"], ROWS) == ExitCode.FAILURE
    assert "commands_under_test.act has no command act" in capsys.readouterr().err


@pytest.mark.parametrize("stop", [KeyboardInterrupt, click.Abort])
def test_interrupt_prints_one_line(
    stop: type[BaseException],
    command: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def act() -> None:
        raise stop

    command(act)
    monkeypatch.setattr("bygones.cli.group.run", lambda words: run(words, ROWS))

    assert main(["act"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "\ninterrupted\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "-n"], "error: option '-n' requires an argument"),
        (["show", "last", "--branch"], "error: option '--branch' requires an argument"),
        (["list", "-n", "x"], "'x' is not a whole number"),
    ],
)
def test_option_without_a_value_names_its_command(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.USAGE_ERROR
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.endswith(f"hint: see bygones {words[0]} --help\n")


def test_an_interrupt_reports_what_was_done(
    command: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def act() -> None:
        with explain_interrupt("two of three files are written"):
            raise KeyboardInterrupt

    command(act)
    monkeypatch.setattr("bygones.cli.group.run", lambda words: run(words, ROWS))

    assert main(["act"]) == ExitCode.INTERRUPTED
    message = "\ninterrupted: two of three files are written\n"
    assert capsys.readouterr().err == message


@pytest.mark.skipif(os.name == "nt", reason="pipes close differently there")
def test_a_closed_pipe_is_success() -> None:
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [sys.executable, "-m", "bygones", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(os.name == "nt", reason="shells close streams differently there")
@pytest.mark.parametrize("words", ["--version", "--help", "inspect $1"])
def test_closed_stdout_is_not_a_failure(words: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"type":"user"}\n')

    done = run_in_shell(f"{words} >&-", tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name == "nt", reason="shells close streams differently there")
def test_exit_code_is_kept_without_stderr() -> None:
    assert run_in_shell("inspekt 2>&-").returncode == ExitCode.USAGE_ERROR


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("words", ["--version", "--help", "inspect $1"])
def test_full_output_device_is_reported_in_one_line(words: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"type":"user"}\n')

    done = run_in_shell(f"{words} >/dev/full", tmp_path)

    assert done.returncode == ExitCode.FAILURE
    assert done.stderr == (
        "error: the system reported an error: no space left on device\n\n"
        f"hint: {SystemFailure.hint}\n"
    )


def run_in_shell(words: str, path: Path = HERE) -> subprocess.CompletedProcess[str]:
    """Return how words end for which a shell has set the streams; $1 is the path."""
    return subprocess.run(
        ["sh", "-c", f'"$0" -m bygones {words}', sys.executable, path],
        capture_output=True,
        text=True,
        check=False,
    )
