"""The layout of help pages: examples first, shared options in a block of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from textwrap import wrap
from typing import NamedTuple

import click

from bygones.cli.commands.registry import CommandSpec

_INDENT = 2
_MIN_SUMMARY_WIDTH = 20
_MIN_DESCRIPTION_WIDTH = 35
_FOOTER = "`bygones COMMAND -h` has its options, `bygones help query` all query fields."
_SHARED_OPTIONS = (
    "archive", "homes", "no_ingest", "as_json", "color", "quiet", "verbose",
)  # fmt: skip
"""Options that many commands have, in the order of the help pages."""


class HelpText(NamedTuple):
    """The parts of a command's docstring."""

    summary: str
    examples: Sequence[str]
    paragraphs: Sequence[str]


def help_page(context: click.Context) -> str:
    """Return the help page of a command, or of a group with a few commands."""
    command, formatter = context.command, _start_page(context)
    if isinstance(command, click.Group):
        commands = [
            (name, split_help(one).summary) for name, one in command.commands.items()
        ]
        _write_rows(formatter, "Commands", commands)
    options = _visible_options(context)
    own = [option_row(one, context) for one in options if not _is_shared(one)]
    shared = [
        option_row(one, context)
        for one in sorted(options, key=_shared_position)
        if _is_shared(one)
    ]
    width = max(len(names) for names, _ in (*own, *shared))
    _write_rows(formatter, "Options", own, width)
    _write_rows(formatter, "Common options" if own else "Options", shared, width)
    return formatter.getvalue().rstrip("\n")


def overview_page(context: click.Context, specs: Iterable[CommandSpec]) -> str:
    """Return the help page of `bygones` itself: all commands in their groups."""
    formatter = _start_page(context)
    formatter.write("\n")
    rows = [spec for spec in specs if spec.group]
    label_width = max(len(spec.group) for spec in rows) + _INDENT
    name_width = max(len(spec.label) for spec in rows) + _INDENT
    for group, members in groupby(rows, lambda spec: spec.group):
        label: str = group
        for spec in members:
            start = label.ljust(label_width) + spec.label.ljust(name_width)
            room = max(formatter.width - len(start), _MIN_SUMMARY_WIDTH)
            for line in wrap(spec.summary.removesuffix("."), room):
                formatter.write(f"{start}{line}\n")
                start = " " * len(start)
            label = ""
    options = ", ".join(
        option_row(option, context)[0].replace(", ", "/")
        for option in _visible_options(context)
    )
    formatter.write("\n")
    formatter.write_text(f"Options: {options}")
    formatter.write("\n")
    formatter.write_text(_FOOTER)
    return formatter.getvalue().rstrip("\n")


def _start_page(context: click.Context) -> click.HelpFormatter:
    """Write what all pages start with: usage, summary, examples and explanation."""
    command, formatter = context.command, context.make_formatter()
    command.format_usage(context, formatter)
    text = split_help(command)
    with formatter.indentation():
        formatter.write("\n")
        formatter.write_text(text.summary)
    if text.examples:
        with formatter.section("Examples"):
            for line in text.examples:
                formatter.write(f"{' ' * _INDENT}{line}\n")
    for paragraph in text.paragraphs:
        formatter.write("\n")
        with formatter.indentation():
            formatter.write_text(paragraph)
    return formatter


def split_help(command: click.Command) -> HelpText:
    """Split the docstring of a command; paragraphs after a mark are examples."""
    summary, examples, paragraphs = "", list[str](), list[str]()
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines[:1] == ["\\b"] or lines[:1] == ["\b"]:
            examples += lines[1:]
        elif not summary:
            summary = " ".join(lines)
        else:
            paragraphs.append(" ".join(lines))
    return HelpText(summary, examples, paragraphs)


def _visible_options(context: click.Context) -> list[click.Option]:
    return [
        param
        for param in context.command.get_params(context)
        if isinstance(param, click.Option) and not param.hidden
    ]


def _is_shared(option: click.Option) -> bool:
    return option.name in _SHARED_OPTIONS or "--help" in option.opts


def _shared_position(option: click.Option) -> int:
    names = (*_SHARED_OPTIONS, option.name)
    return names.index(option.name)


def option_row(option: click.Option, context: click.Context) -> tuple[str, str]:
    """Return the names of an option with its value, and its description."""
    names, _ = option.get_help_record(context) or ("", "")
    names = names.replace("INTEGER RANGE", "N")
    extra = option.get_help_extra(context)
    default = extra.get("default", "").strip("()\"'")
    description = (option.help or "").removesuffix(".")
    if default:
        description += f" (default: {default})"
    elif option.required:
        description += " (required)"
    return names, description


def _write_rows(
    formatter: click.HelpFormatter,
    title: str,
    rows: Sequence[tuple[str, str]],
    width: int = 0,
) -> None:
    """Write rows of a name and a description, which start in the same column."""
    if rows:
        with formatter.section(title):
            column = formatter.width - _MIN_DESCRIPTION_WIDTH
            padded = [(name.ljust(min(width, column)), text) for name, text in rows]
            formatter.write_dl(padded, col_max=column)
