"""``bygones restore``: write archived files back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from bygones.cli.naming import Meant, meant
from bygones.cli.options import archive_option, complete_named, json_option, opened
from bygones.cli.paths import path_type
from bygones.cli.relocating import place_of, rewrite_of
from bygones.cli.restore_words import rows, tell, tell_plan
from bygones.cli.rows import BeginRow, print_row
from bygones.cli.telling import WRITTEN, if_stopped
from bygones.cli.terminal import StageBar
from bygones.errors import ExitCode

__all__ = ["restore"]


@click.command("restore")
@click.argument(
    "names",
    nargs=-1,
    metavar="[SESSION|PROJECT]...",
    shell_complete=complete_named,
)
@click.option("--all", "everything", is_flag=True, help="All that the archive has.")
@click.option(
    "--to",
    type=path_type(is_file=False),
    metavar="DIR",
    help="Write below this folder, as if it were the home.",
)
@click.option(
    "--as",
    "project",
    type=path_type(),
    metavar="PATH",
    help="Restore for a project that lies in this directory now.",
)
@click.option("--rewrite-cwd", is_flag=True, help="With --as: also in the records.")
@click.option(
    "--older",
    type=click.IntRange(0, 1_000_000),
    default=0,
    metavar="N",
    help="As files were before they were last rewritten, N times back.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be written.")
@click.option("--overwrite", is_flag=True, help="Replace what differs; keep a copy.")
@archive_option
@json_option
def restore(  # noqa: PLR0913 (one parameter an option, all by name)
    names: tuple[str, ...],
    *,
    everything: bool,
    to: Path | None,
    project: Path | None,
    rewrite_cwd: bool,
    older: int,
    dry_run: bool,
    overwrite: bool,
    archive: Path | None,
    as_json: bool,
) -> None:
    r"""Write the original files back, byte for byte.

    A SESSION is an id, the beginning of one, "last", or a number of the last search;
    a PROJECT is its directory or its name. Agents, sidecars, long outputs, backups
    of edited files, todos and tasks come along, with the times they had, so that
    claude --resume works. A file that is there and differs is left alone, which ends
    with code 1, unless --overwrite is given, which keeps a copy.

    \b
    bygones restore old-project --as ~/src/new --rewrite-cwd
    bygones restore --all --to /tmp/home --dry-run
    """
    _check(names, project, everything=everything, rewrite_cwd=rewrite_cwd)
    with opened(archive) as archived:
        wanted = Meant() if everything else meant(archived, names)
        sources = archived.sources() if everything else wanted.sources(archived)
        place = place_of(project, sources, to) if project else None
        rewrite = rewrite_of(archived, wanted, place) if rewrite_cwd else None
        plans = archived.plan_restore(
            sources,
            to=to.expanduser().absolute() if to else None,
            project=place,
            rewrite=rewrite,
            steps=older,
        )
        with if_stopped(WRITTEN), StageBar() as bar:
            carry_out = partial(archived.restore, overwrite=overwrite, rewrite=rewrite)
            done = None if dry_run else carry_out(plans, progress=bar)
    if as_json:
        print_row(BeginRow.of("restore", archived.folder))
        for row in rows(plans, done):
            print_row(row)
    elif done is None:
        tell_plan(plans, sys.stdout)
    else:
        tell(plans, done)
    if done is not None and done.damaged:
        raise click.exceptions.Exit(ExitCode.ARCHIVE_DAMAGED)
    if done is not None and (done.skipped or done.refused):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _check(
    names: Sequence[str], project: Path | None, *, everything: bool, rewrite_cwd: bool
) -> None:
    if everything == bool(names) or (everything and project is not None):
        raise click.UsageError("name sessions or projects, or ask for --all alone")
    if rewrite_cwd and project is None:
        raise click.UsageError("--rewrite-cwd goes with --as")
