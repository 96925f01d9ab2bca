"""`bygones tag`, ``note`` and ``star``: what people say of sessions."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from bygones.cli.context import (
    CommonOptions,
    archive_options,
    complete_sessions,
    json_option,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import TextColumn, TextTable, print_objects
from bygones.cli.resolve import resolve_summary
from bygones.model.summary import Annotations
from bygones.render.text.primitives import sanitize_line
from bygones.schema.summaries import AnnotationsObject, TagObject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bygones.model.summary import SessionSummary


_ID_LENGTH = 8


def annotate_sessions(
    options: CommonOptions,
    names: Sequence[str],
    change: Callable[[Annotations], Annotations] | None,
) -> Mapping[str, tuple[SessionSummary, Annotations]]:
    """Change what sessions are annotated with, if asked to; return what it is."""
    with open_current(options) as archive:
        found = [resolve_summary(archive, name) for name in names]
        lines = {one.id: one for one in found}
        told = archive.annotate(lines, change) if change else archive.annotations()
    return {id_: (one, told.get(id_, Annotations())) for id_, one in lines.items()}


def print_annotations(
    options: CommonOptions,
    annotations: Mapping[str, tuple[SessionSummary, Annotations]],
    *,
    as_json: bool,
) -> None:
    """Print sessions with what they are annotated with."""
    if as_json:
        print_objects(
            AnnotationsObject.from_annotations(summary.id, added)
            for summary, added in annotations.values()
        )
    elif not options.quiet:
        for summary, added in annotations.values():
            _print_annotation(summary, added)


def _print_annotation(session: SessionSummary, annotations: Annotations) -> None:
    star = "★ " if annotations.is_starred else ""
    tags = "".join(f" #{sanitize_line(tag)}" for tag in annotations.tags)
    title = sanitize_line(session.title.text)
    click.echo(f"{sanitize_line(session.id)[:_ID_LENGTH]}  {star}{title}{tags}")
    for line in annotations.note.splitlines():
        click.echo(f"{'':{_ID_LENGTH}}  {sanitize_line(line)}")


_MAX_TAG_LENGTH = 100


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
    options: CommonOptions,
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
    wanted = dict.fromkeys(_validate_tag(word) for word in tags)
    if session is None:
        _print_all_tags(options, as_json=as_json)
        return

    def change(told: Annotations) -> Annotations:
        kept = [old for old in told.tags if not (delete and old in wanted)]
        return replace(told, tags=tuple(sorted({*kept, *(() if delete else wanted)})))

    found = annotate_sessions(options, (session,), change if wanted else None)
    print_annotations(options, found, as_json=as_json)


def _validate_tag(word: str) -> str:
    said = " ".join(word.split())
    if not said or len(said) > _MAX_TAG_LENGTH or not said.isprintable():
        raise click.UsageError(f"a tag is a word or a few, not {word!r}")
    return said


def _print_all_tags(options: CommonOptions, *, as_json: bool) -> None:
    with open_current(options) as archive:
        counts = Counter(
            one for told in archive.annotations().values() for one in told.tags
        )
    if as_json:
        print_objects(
            TagObject(tag=name, session_count=number)
            for name, number in sorted(counts.items())
        )
        return
    if not counts:
        if not options.quiet:
            sys.stderr.write("no tags yet\n")
        return
    rows = [(name, f"{number:,}") for name, number in sorted(counts.items())]
    columns = (TextColumn("TAG"), TextColumn("SESSIONS", is_right_aligned=True))
    for line in TextTable(columns, rows).lines():
        click.echo(line)


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
    options: CommonOptions,
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

    found = annotate_sessions(options, (session,), change if text or delete else None)
    print_annotations(options, found, as_json=as_json)


@click.command("star")
@click.argument("sessions", nargs=-1, required=True, shell_complete=complete_sessions)
@click.option("-d", "--delete", is_flag=True, help="Take the star away.")
@archive_options
@json_option
def star(
    *, sessions: tuple[str, ...], delete: bool, options: CommonOptions, as_json: bool
) -> None:
    r"""Star sessions; "bygones list --starred" shows them.

    A SESSION is an id, the beginning of one, "last", or a number of the last search.

    \b
    bygones star last
    bygones star 5e551000 --delete
    """

    def change(told: Annotations) -> Annotations:
        return replace(told, is_starred=not delete)

    found = annotate_sessions(options, sessions, change)
    print_annotations(options, found, as_json=as_json)
