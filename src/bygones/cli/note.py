"""``bygones note``: a few words beside a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from bygones.cli.annotating import annotated, show_annotations
from bygones.cli.options import Asked, archive_options, complete_sessions, json_option

if TYPE_CHECKING:
    from bygones.model.annotations import Annotations

__all__ = ["note"]


@click.command("note")
@click.argument("session", shell_complete=complete_sessions)
@click.argument("words", nargs=-1)
@click.option("-d", "--delete", is_flag=True, help="Take the note away.")
@archive_options
@json_option
def note(
    *,
    session: str,
    words: tuple[str, ...],
    delete: bool,
    asked: Asked,
    as_json: bool,
) -> None:
    r"""Write a note beside a session, or say which it has.

    The note is kept in the archive and takes the place of the one before.
    SESSION is an id, the beginning of one, "last", or a number of the last search.

    \b
    bygones note last "the retry was the fix"
    bygones note 5e551000 --delete
    """
    text = " ".join(words).strip()
    if delete and text:
        raise click.UsageError("a note is written or deleted, not both")

    def change(told: Annotations) -> Annotations:
        return replace(told, note=text)

    found = annotated(asked, (session,), change if text or delete else None)
    show_annotations("note", asked, found, as_json=as_json)
