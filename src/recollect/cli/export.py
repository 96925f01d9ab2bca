"""``recollect export``: sessions as pages and files that can be given away."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from recollect.cli.options import Asked, archive_options

__all__ = ["export"]

FORMATS = ("html", "markdown", "text", "json", "jsonl")


@click.command("export")
@click.argument("names", nargs=-1, metavar="[SESSION|PROJECT]...")
@click.option("--all", "everything", is_flag=True, help="All that the archive has.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
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
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file of a session, or the folder of several; - for stdout.",
)
@click.option("--branch", metavar="NUMBER|LEAF", help="Follow another branch.")
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
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the place of everything that was hidden.",
)
@archive_options
def export(  # noqa: PLR0913 (one parameter an option, all by name)
    names: tuple[str, ...],
    *,
    everything: bool,
    source: Path | None,
    form: str,
    to: Path | None,
    branch: str | None,
    turns: str | None,
    search: str | None,
    since: str | None,
    redact: bool,
    private: bool,
    second_opinion: bool,
    report: Path | None,
    asked: Asked,
) -> None:
    r"""Write sessions as pages and files that can be given away.

    A SESSION is an id or the beginning of one; a PROJECT is its directory or its
    name. One session becomes one file that needs nothing else. Several become a
    folder: as html with lists and a search; written again, only what changed is.
    Secrets, home folders, user names and mail addresses are hidden unless
    --no-redact is given, and private records left out unless --private is.

    \b
    recollect export 5e551000
    recollect export 5e551000 --format markdown -o talk.md --turns 2-4
    recollect export . --to site
    recollect export --search "login test" --to site
    recollect export --all --since 30d --to site --report hidden.jsonl
    """
    from recollect.cli import exporting  # noqa: PLC0415 (not for help)

    wish = exporting.Wish(
        names=names,
        everything=everything,
        source=source,
        form=form,
        to=to,
        branch=branch,
        turns=turns,
        search=search,
        since=since,
        redact=redact,
        private=private,
        second_opinion=second_opinion,
        report=report,
    )
    exporting.check(wish)
    exporting.carry_out(wish, asked, sys.stdout, sys.stderr)
