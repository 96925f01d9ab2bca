"""``bygones export``: sessions as pages and files that can be given away."""

from __future__ import annotations

import sys
from typing import Any

import click

from bygones.cli.options import (
    Asked,
    archive_options,
    complete_branches,
    complete_named,
    json_option,
)
from bygones.cli.paths import path_type

__all__ = ["export"]

FORMATS = ("html", "markdown", "text", "json", "jsonl")


@click.command("export")
@click.argument(
    "names", nargs=-1, metavar="[SESSION|PROJECT]...", shell_complete=complete_named
)
@click.option("--all", "everything", is_flag=True, help="All that the archive has.")
@click.option(
    "--from",
    "source",
    type=path_type(),
    metavar="PATH",
    help="Read a transcript, a folder of them or a home, without any archive.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="html",
    show_default=True,
    help="What to write; jsonl is the original lines.",
)
@click.option(
    "-o",
    "--to",
    type=path_type(),
    metavar="PATH",
    help="The file of a session, or the folder of several; - for stdout.",
)
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    shell_complete=complete_branches,
    help="Follow another branch.",
)
@click.option("--turns", metavar="FIRST-LAST", help="Only these turns, from 1 on.")
@click.option("--search", metavar="QUERY", help="Only sessions that answer a query.")
@click.option("--since", metavar="WHEN", help="Only what went on since, as in a query.")
@click.option(
    "--redact/--no-redact",
    default=True,
    show_default=True,
    help="Hide secrets, home folders, names and addresses.",
)
@click.option(
    "--private",
    is_flag=True,
    help="With --no-redact --format jsonl: private records too, every byte.",
)
@click.option(
    "--second-opinion",
    is_flag=True,
    help="Have gitleaks or kingfisher look first; what they see stops the export.",
)
@click.option(
    "--report",
    type=path_type(is_folder=False),
    metavar="FILE",
    help="Write the place of everything that was hidden.",
)
@archive_options
@json_option
def export(names: tuple[str, ...], *, asked: Asked, **wished: Any) -> None:  # noqa: ANN401 (the options, by the names that a wish has for them)
    r"""Write sessions as pages and files that can be given away.

    A SESSION is an id, the beginning of one, "last", or a number of the last search;
    a PROJECT is its directory or its name. One session becomes one file that needs
    nothing else. Several become a folder: as html with lists and a search; written
    again, only what changed is.
    Secrets, home folders, user names and mail addresses are hidden unless
    --no-redact is given, and private records left out unless --private is.

    \b
    bygones export 5e551000
    bygones export 5e551000 --format markdown --turns 2-4
    bygones export . --to site
    bygones export --search "login test" --to site
    bygones export --all --since 30d --report hidden.jsonl
    """
    from bygones.cli import exporting  # noqa: PLC0415 (not for help)

    wish = exporting.Wish(names=names, **wished)
    exporting.check(wish)
    exporting.carry_out(wish, asked, sys.stdout, sys.stderr)
