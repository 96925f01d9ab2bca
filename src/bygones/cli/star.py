"""``bygones star``: sessions to come back to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from bygones.cli.annotating import annotated, show_annotations
from bygones.cli.options import Asked, archive_options, complete_sessions, json_option

if TYPE_CHECKING:
    from bygones.model.annotations import Annotations

__all__ = ["star"]


@click.command("star")
@click.argument("sessions", nargs=-1, required=True, shell_complete=complete_sessions)
@click.option("-d", "--delete", is_flag=True, help="Take the star away.")
@archive_options
@json_option
def star(
    *, sessions: tuple[str, ...], delete: bool, asked: Asked, as_json: bool
) -> None:
    r"""Star sessions; "bygones list --starred" shows them.

    A SESSION is an id, the beginning of one, "last", or a number of the last search.

    \b
    bygones star last
    bygones star 5e551000 --delete
    """

    def change(told: Annotations) -> Annotations:
        return replace(told, is_starred=not delete)

    found = annotated(asked, sessions, change)
    show_annotations("star", asked, found, as_json=as_json)
