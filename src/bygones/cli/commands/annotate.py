"""`bygones tag`, `note` and `star`: annotations of sessions."""

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
    """Change the annotations of sessions if there is a change; return them."""
    with open_current(options) as archive:
        named = [resolve_summary(archive, name) for name in names]
        summaries = {summary.id: summary for summary in named}
        annotations = (
            archive.annotate(summaries, change) if change else archive.annotations()
        )
    return {
        id_: (summary, annotations.get(id_, Annotations()))
        for id_, summary in summaries.items()
    }


def print_annotations(
    options: CommonOptions,
    annotations: Mapping[str, tuple[SessionSummary, Annotations]],
    *,
    as_json: bool,
) -> None:
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
@click.option("-d", "--delete", is_flag=True, help="Remove the tags.")
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
    r"""Tag a session, or list tags.

    \b
    bygones tag last release flaky-test
    bygones tag 5e551000 --delete flaky-test
    bygones list tag:release

    SESSION is an id or its first characters, "last", or a result number of the last
    search. Without TAGS, its tags are listed; without arguments, all tags. Tags are
    stored in the archive; Claude Code's files are not changed.
    """
    wanted = dict.fromkeys(_validate_tag(word) for word in tags)
    if session is None:
        _print_all_tags(options, as_json=as_json)
        return

    def change(annotations: Annotations) -> Annotations:
        kept = [old for old in annotations.tags if not (delete and old in wanted)]
        return replace(
            annotations, tags=tuple(sorted({*kept, *(() if delete else wanted)}))
        )

    found = annotate_sessions(options, (session,), change if wanted else None)
    print_annotations(options, found, as_json=as_json)


def _validate_tag(word: str) -> str:
    tag = " ".join(word.split())
    if not tag or len(tag) > _MAX_TAG_LENGTH or not tag.isprintable():
        raise click.UsageError(
            f"{word!r} is not a valid tag: use 1 to {_MAX_TAG_LENGTH} printable characters"
        )
    return tag


def _print_all_tags(options: CommonOptions, *, as_json: bool) -> None:
    with open_current(options) as archive:
        counts = Counter(
            tag for one in archive.annotations().values() for tag in one.tags
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
@click.option("-d", "--delete", is_flag=True, help="Remove the note.")
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
    r"""Add a note to a session, or show it.

    \b
    bygones note last "the retry was the fix"
    bygones note last
    bygones note 5e551000 --delete

    SESSION is an id or its first characters, "last", or a result number of the last
    search. A new note replaces the old one. Notes are stored in the archive.
    """
    text = " ".join(words).strip()
    if delete and text:
        raise click.UsageError("give a note or --delete, not both")

    def change(annotations: Annotations) -> Annotations:
        return replace(annotations, note=text)

    found = annotate_sessions(options, (session,), change if text or delete else None)
    print_annotations(options, found, as_json=as_json)
    if not any(added.note for _, added in found.values()) and not (delete or as_json):
        sys.stderr.write("no note yet; add one with `bygones note SESSION TEXT`\n")


@click.command("star")
@click.argument("sessions", nargs=-1, required=True, shell_complete=complete_sessions)
@click.option("-d", "--delete", is_flag=True, help="Remove the star.")
@archive_options
@json_option
def star(
    *, sessions: tuple[str, ...], delete: bool, options: CommonOptions, as_json: bool
) -> None:
    r"""Star sessions to find them again.

    \b
    bygones star last
    bygones star 5e551000 --delete
    bygones list --starred

    SESSION is an id or its first characters, "last", or a result number of the last
    search. Stars are stored in the archive.
    """

    def change(annotations: Annotations) -> Annotations:
        return replace(annotations, is_starred=not delete)

    found = annotate_sessions(options, sessions, change)
    print_annotations(options, found, as_json=as_json)
