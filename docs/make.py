"""Writes the reference pages from the code: ``python -m docs.make``."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from bygones import errors
from bygones.cli.commands.registry import COMMANDS, CommandSpec
from bygones.cli.group import CommandGroup
from bygones.cli.help_page import help_page
from bygones.config import SETTINGS
from bygones.errors import BygonesError, ExitCode
from docs.man import MAN, man_pages
from docs.queries import query_page
from docs.requirements import (
    ROOT,
    pending,
    requirements,
    seed_documents,
    showing_tests,
)
from docs.schemas import schemas_page
from docs.views import views_page

REFERENCE = ROOT / "docs" / "reference"
NOTE = "<!-- Written by `python -m docs.make`; change the code instead. -->\n"
WIDTH = 80


def pages() -> dict[Path, str]:
    """Return the text of every generated page by its path."""
    texts = {
        "commands.md": commands_page(),
        "exit-codes.md": exit_codes_page(),
        "query.md": query_page(),
        "requirements.md": requirements_page(),
        "schemas.md": schemas_page(),
        "settings.md": settings_page(),
        "views.md": views_page(),
    }
    return {REFERENCE / name: f"{NOTE}\n{text}" for name, text in texts.items()}


def all_pages() -> dict[Path, str]:
    """Return those and the manual pages."""
    return pages() | man_pages()


def commands_page() -> str:
    """Return the page of commands: the group's help, then each command's."""
    group = CommandGroup(COMMANDS)
    parts = ["# Commands\n", help_block(group, "bygones")]
    for row in COMMANDS:
        parts.append(f"## {row.name}\n\n{row.summary}\n")
        parts.extend(command_help(group, row))
    parts.append("How a command ends: [exit codes](exit-codes.md).\n")
    return "\n".join(parts)


def command_help(group: CommandGroup, row: CommandSpec) -> Iterator[str]:
    """Yield the command's help page, if the command is written yet."""
    if importlib.util.find_spec(row.module) is None:
        return
    command = group.get_command(click.Context(group), row.name)
    if command is not None:
        yield from help_blocks(command, f"bygones {row.name}")


def help_blocks(command: click.Command, name: str) -> Iterator[str]:
    """Yield a command's help page, and those of the commands below it."""
    yield help_block(command, name)
    if isinstance(command, click.Group):
        for below, one in command.commands.items():
            yield from help_blocks(one, f"{name} {below}")


def help_block(command: click.Command, name: str) -> str:
    """Return what ``name --help`` prints, as a block of text."""
    context = click.Context(
        command,
        info_name=name,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
        show_default=True,
    )
    is_overview = isinstance(command, CommandGroup)
    page = command.get_help(context) if is_overview else help_page(context)
    return f"```text\n{page}\n```\n"


def exit_codes_page() -> str:
    """Return the page of exit codes and the errors that end with them."""
    rows = [f"| {code.value} | {code.meaning} |" for code in ExitCode]
    return "\n".join(
        [
            "# Exit codes\n",
            "| code | meaning |",
            "|---:|---|",
            *rows,
            "\n## Errors\n",
            "| error | code | cause | hint |",
            "|---|---:|---|---|",
            *(error_row(error) for error in error_classes()),
            "",
        ]
    )


def error_classes() -> list[type[BygonesError]]:
    """Return the errors that are raised, by name."""
    return [
        found
        for _, found in inspect.getmembers(errors, inspect.isclass)
        if issubclass(found, BygonesError) and hasattr(found, "hint")
    ]


def error_row(error: type[BygonesError]) -> str:
    """Return one error's line of the table."""
    first = (inspect.getdoc(error) or "").partition("\n")[0]
    code = int(error.exit_code)
    return f"| `{error.__name__}` | {code} | {first} | {error.hint} |"


def settings_page() -> str:
    """Return the page of settings."""
    rows = [
        f"| `{one.name}` | {one.kind} | {one.meaning} |"
        f" `{one.name} = {one.example}` |"
        f" {f'`{one.env_variable}`' if one.env_variable else ''} |"
        for one in SETTINGS
    ]
    return "\n".join(
        [
            "# Settings\n",
            "All settings are optional. They are read from `settings.toml` in",
            "`~/.config/bygones` (on Windows, `%APPDATA%\\bygones`), or from the file",
            "that `BYGONES_SETTINGS` names. An environment variable overrides the",
            "file, and a command-line option overrides both.\n",
            "| setting | type | meaning | example | variable |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def requirements_page() -> str:
    """Return the page of requirements with the tests that show each."""
    shown, open_steps = showing_tests(), pending()
    parts = [
        "# Requirements\n",
        "What Bygones must do, and the tests that show it.\n",
    ]
    for title, numbers in requirements().items():
        parts.append(f"## {title}\n")
        for number, sentence in numbers.items():
            parts.append(f"**{number}** {sentence}\n")
            for path, tests in shown.get(number, {}).items():
                parts.extend(test_lines(path, tests))
            if number in open_steps:
                parts.append(f"- not yet: step {open_steps[number]}")
            parts.append("")
    parts.extend(seed_lines())
    return "\n".join(parts)


def seed_lines() -> Iterator[str]:
    """Yield the rules of the documents that describe the format, with their tests."""
    yield "## The documents about the format, rule by rule\n"
    yield (
        "Five public documents describe the transcripts. Each rule has tests; where real\n"
        "data contradicts a rule, the evidence follows. Figures are from a corpus of 164\n"
        "public transcripts.\n"
    )
    for name, document in seed_documents().items():
        yield f"### {name}: {document.title}\n"
        for rule in document.rules:
            yield f"- {rule.rule}"
            if rule.evidence:
                yield f"  - real data: {rule.evidence}"
            for test in rule.tests:
                file, _, function = test.partition("::")
                title = function.removeprefix("test_").replace("_", " ")
                label = f"{title} ({Path(file).name})" if title else Path(file).name
                yield f"  - [{label}](../../{file})"
        yield ""


def test_lines(path: str, tests: list[str]) -> Iterator[str]:
    """Yield the lines that list one file's tests."""
    yield f"- [{path}](../../{path})"
    for test in tests:
        yield f"  - {test.removeprefix('test_').replace('_', ' ')}"


def main() -> None:
    """Write every page."""
    for folder in (REFERENCE, MAN):
        folder.mkdir(exist_ok=True)
    for path, text in all_pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
