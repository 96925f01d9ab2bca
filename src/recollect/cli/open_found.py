"""``recollect open``: a session that the last search found."""

from __future__ import annotations

import click

from recollect.cli.lately import remembered
from recollect.cli.options import Asked, archive_options
from recollect.cli.show import show

__all__ = ["open_found"]


@click.command("open")
@click.argument("number", metavar="NUMBER")
@archive_options
@click.pass_context
def open_found(context: click.Context, *, number: str, asked: Asked) -> None:
    r"""Open a session that the last search found.

    NUMBER is that of a session, or 2.1 for the first hit of the second session, which
    is opened on the branch that the hit is on.

    \b
    recollect search flaky login test
    recollect open 1
    """
    if remembered(number, asked.folder) is None:
        raise click.UsageError(
            f"the last search in this archive has no number {number}"
        )
    context.invoke(show, name=number, **asked._asdict())
