"""``bygones push``: send what was named to a hub."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click

from bygones.cli.options import Asked, archive_options, homes_of, json_option
from bygones.cli.push_words import pushed_lines, pushed_row
from bygones.cli.rows import BeginRow, print_row
from bygones.cli.terminal import StageBar
from bygones.errors import BygonesError, ExitCode, NothingNamed
from bygones.settings import PushedByUser, pushed_by_user, this_host

__all__ = ["push"]


@click.command("push")
@click.option("--dry-run", is_flag=True, help="Say what would be sent; send nothing.")
@click.option("--watch", is_flag=True, help="Go on while Claude Code writes.")
@archive_options
@json_option
def push(*, dry_run: bool, watch: bool, asked: Asked, as_json: bool) -> None:
    r"""Send sessions to a hub, masked: those of the projects that were named.

    Where to, and which projects, stands under [push] in the settings; nothing else ever
    leaves. Secrets, names and home folders are hidden before anything is sent, private
    records stay. Only what the hub lacks is sent; it can be stopped at any moment.

    \b
    bygones push --dry-run
    bygones push --watch
    """
    told = pushed_by_user(os.environ, Path.home())
    _check(told, dry=dry_run)
    asked.current().close()
    if as_json:
        print_row(BeginRow.of("push", asked.folder))
    if watch and not dry_run:
        _follow(told, asked, as_json=as_json)
    else:
        _once(told, asked, dry=dry_run, as_json=as_json)


def _check(told: PushedByUser, *, dry: bool) -> None:
    if not told.projects:
        raise NothingNamed("project")
    if not told.hub and not dry:
        raise NothingNamed("hub")
    if told.hub and not told.token:
        raise NothingNamed("token")


def _once(told: PushedByUser, asked: Asked, *, dry: bool, as_json: bool) -> None:
    from bygones.cli.hiding import own_redactor  # noqa: PLC0415 (not for help)
    from bygones.push import Courier, push  # noqa: PLC0415

    way = Courier(told.hub, told.token) if told.hub else nullcontext()
    with way as courier, StageBar() as bar:
        done = push(
            asked.folder,
            told.projects,
            redactor=own_redactor(),
            courier=courier,
            dry=dry,
            progress=bar,
            host=this_host(),
        )
    if as_json:
        print_row(pushed_row(done, is_dry=dry))
    elif not asked.quiet or dry:
        for line in pushed_lines(done, told.hub, is_dry=dry):
            click.echo(line)
    sys.stdout.flush()


def _follow(told: PushedByUser, asked: Asked, *, as_json: bool) -> None:
    from bygones.push.following import Following  # noqa: PLC0415 (not for help)
    from bygones.watch import watch  # noqa: PLC0415

    ended: list[BygonesError] = []

    def failed(error: BygonesError) -> None:
        sys.stderr.write(f"{error}\n")
        ended.append(error)

    once = partial(_once, told, asked, dry=False, as_json=as_json)
    following = Following(once, failed)
    following.begin()
    if not asked.quiet:
        sys.stderr.write(f"pushing to {told.hub} as you work; Ctrl-C ends it\n")
    try:
        paths = homes_of(asked.homes)
        watch(asked.folder, paths, lambda _: following.wake(), stop=following.stop)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; the next push goes on from here\n")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    finally:
        following.end()
    if ended:
        raise ended[-1]
