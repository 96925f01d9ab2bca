"""``bygones tag``: words by which sessions are found again."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from bygones.cli.annotating import annotated, show_annotations
from bygones.cli.options import Asked, archive_options, complete_sessions, json_option
from bygones.cli.rows import BeginRow, TagRow, print_row
from bygones.cli.terminal import table

if TYPE_CHECKING:
    from bygones.model.annotations import Annotations

__all__ = ["tag"]

_LONGEST = 100


@click.command("tag")
@click.argument("session", required=False, shell_complete=complete_sessions)
@click.argument("tags", nargs=-1)
@click.option("-d", "--delete", is_flag=True, help="Take the tags away again.")
@archive_options
@json_option
def tag(
    *,
    session: str | None,
    tags: tuple[str, ...],
    delete: bool,
    asked: Asked,
    as_json: bool,
) -> None:
    r"""Tag a session, or say which tags it has.

    Tags are kept in the archive; no file of Claude Code's is changed. Without any
    word, all tags are listed. "bygones list tag:NAME" shows the sessions.
    SESSION is an id, the beginning of one, "last", or a number of the last search.

    \b
    bygones tag last release flaky-test
    bygones tag 5e551000 --delete flaky-test
    """
    wanted = dict.fromkeys(_checked(word) for word in tags)
    if session is None:
        _show_all(asked, as_json=as_json)
        return

    def change(told: Annotations) -> Annotations:
        kept = [old for old in told.tags if not (delete and old in wanted)]
        return replace(told, tags=tuple(sorted({*kept, *(() if delete else wanted)})))

    found = annotated(asked, (session,), change if wanted else None)
    show_annotations("tag", asked, found, as_json=as_json)


def _checked(word: str) -> str:
    said = " ".join(word.split())
    if not said or len(said) > _LONGEST or not said.isprintable():
        raise click.UsageError(f"a tag is a word or a few, not {word!r}")
    return said


def _show_all(asked: Asked, *, as_json: bool) -> None:
    with asked.current() as archive:
        counts = Counter(
            one for told in archive.annotations().values() for one in told.tags
        )
    if as_json:
        print_row(BeginRow.of("tag", asked.folder))
        for name, number in sorted(counts.items()):
            print_row(TagRow(tag=name, sessions=number))
        return
    if not counts:
        if not asked.quiet:
            sys.stderr.write("no tags yet\n")
        return
    rows = [(name, f"{number:,}") for name, number in sorted(counts.items())]
    for line in table([("TAG", "SESSIONS"), *rows], right="lr"):
        click.echo(line)
