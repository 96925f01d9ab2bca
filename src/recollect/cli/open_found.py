"""``recollect open``: a session that the last search found."""

from __future__ import annotations

import click

from recollect.cli.lately import check_number, remembered
from recollect.cli.options import Asked, archive_options
from recollect.cli.show import show

__all__ = ["open_found"]


@click.command("open")
@click.argument("number", metavar="NUMBER")
@archive_options
@click.pass_context
def open_found(context: click.Context, *, number: str, asked: Asked) -> None:
    r"""Open a session that the last search found.

    NUMBER is that of a session, or 2.1 for the first hit of the second session, with
    what stands around it.

    \b
    recollect search flaky login test
    recollect open 1
    """
    if remembered(number, asked.folder) is None:
        check_number(number, asked.folder)
        raise click.UsageError("that is no number: 2 is a session, 2.1 its first hit")
    context.invoke(show, name=number, **asked._asdict())
