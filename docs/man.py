"""Manual pages for Unix, from the same commands as everything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from bygones.cli.commands.registry import COMMANDS, CommandSpec
from bygones.cli.group import CommandGroup
from bygones.cli.help_page import option_row, split_help
from docs.requirements import ROOT

__all__ = ["MAN", "man_pages"]

MAN = ROOT / "docs" / "man"


def man_pages() -> dict[Path, str]:
    """Return the text of every manual page by its path."""
    group = CommandGroup(COMMANDS)
    pages = {MAN / "bygones.1": _group_page(group)}
    for row in COMMANDS:
        command = group.get_command(click.Context(group), row.name)
        if command is not None:
            pages[MAN / f"bygones-{row.name}.1"] = _page(row, command)
    return pages


def _group_page(group: CommandGroup) -> str:
    usage = "[\\fIOPTIONS\\fR] [\\fICOMMAND\\fR] [\\fIARGS\\fR]"
    listed = (
        f".TP\n.BR bygones\\-{_safe(row.name)} (1)\n{_safe(row.summary)}"
        for row in COMMANDS
    )
    lines = [
        *_head("bygones", "keep, search and share Claude Code sessions"),
        f".SH SYNOPSIS\n.B bygones\n{usage}",
        *_options(group),
        ".SH COMMANDS",
        *listed,
    ]
    return "\n".join(lines) + "\n"


def _page(row: CommandSpec, command: click.Command) -> str:
    name = f"bygones-{row.name}"
    context = click.Context(command, info_name=f"bygones {row.name}")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        *_head(name, row.summary[0].lower() + row.summary[1:].rstrip(".")),
        f".SH SYNOPSIS\n.B bygones {_safe(row.name)}\n{_safe(usage)}",
        ".SH DESCRIPTION",
        *_description(command),
        *_options(command),
        ".SH SEE ALSO\n.BR bygones (1)",
    ]
    return "\n".join(lines) + "\n"


def _head(name: str, summary: str) -> Iterator[str]:
    yield f'.TH "{name.upper()}" "1" "" "Bygones" "Bygones"'
    yield f".SH NAME\n{_safe(name)} \\- {_safe(summary)}"


def _description(command: click.Command) -> Iterator[str]:
    text = split_help(command)
    for paragraph in (text.summary, *text.paragraphs):
        yield f".PP\n{_safe(paragraph)}"
    if text.examples:
        yield ".SH EXAMPLES\n.nf"
        yield from map(_safe, text.examples)
        yield ".fi"


def _options(command: click.Command) -> Iterator[str]:
    yield ".SH OPTIONS"
    context = click.Context(command)
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            names, description = option_row(param, context)
            yield f".TP\n.B {_safe(names)}\n{_safe(description)}."


def _safe(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
