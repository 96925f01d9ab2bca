"""`bygones migrate`: copy a hub to another database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.context import quiet_option
from bygones.errors import ExitCode
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize_name

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.summary import SearchResults
    from bygones.team.stores.base import TeamStore


__all__ = ["migrate"]

_MAX_QUERIES = 100
_WORDS_PER_QUERY = 6
_SCORE_TOLERANCE = 1e-6
"""Scores may differ by this much, because databases add in a different order."""


@click.command("migrate")
@click.option(
    "--from", "source_url", required=True, metavar="ADDRESS", help="Old database."
)
@click.option(
    "--to", "target_url", required=True, metavar="ADDRESS", help="New database."
)
@click.option(
    "--queries",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    show_default="words of the newest prompts",
    help="File with queries to compare, one per line.",
)
@quiet_option
def migrate(
    source_url: str, target_url: str, *, queries: Path | None, quiet: bool
) -> None:
    r"""Copy a hub to another database.

    \b
    bygones migrate --from postgresql:///a --to clickhouse://b

    All files, erasures and holds are copied to the new database; then the results of
    queries are compared. The old one is not changed and stays usable. You can interrupt
    the copy and run it again. The exit code is 1 if a query has different results.

    To share your own archive with a team, use `bygones push`, which redacts it.
    """
    from bygones.team.access import migrate_store, open_store

    if source_url == target_url:
        raise click.UsageError("--from and --to name the same database")
    before, after = open_store(source_url), open_store(target_url)
    try:
        moved = migrate_store(before, after)
        if not quiet:
            size = f"{pluralize(moved.sources, 'file')}, {format_bytes(moved.bytes)}"
            click.echo(f"copied {size}; indexed {pluralize(moved.sessions, 'session')}")
        compared, differing = _compare_answers(before, after, queries)
    finally:
        before.close()
        after.close()
    if not quiet:
        same = compared - len(differing)
        click.echo(f"{same} of {compared} queries have the same results")
    for query in differing:
        sys.stderr.write(f"different results: {sanitize_name(query)}\n")
    if differing:
        raise click.exceptions.Exit(ExitCode.FAILURE)


def _compare_answers(
    before: TeamStore, after: TeamStore, queries: Path | None
) -> tuple[int, list[str]]:
    from bygones.query.parser import parse_query

    now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    differing = []
    asked = 0
    with _open_archive(before) as one, _open_archive(after) as other:
        for words in _read_queries(queries) if queries else _sample_queries(one):
            query = parse_query(words, now=now, zone=UTC)
            asked += 1
            if not _is_same_answer(one.search(query), other.search(query)):
                differing.append(words)
    return asked, differing


def _open_archive(store: TeamStore) -> Archive:
    from bygones.archive import Archive
    from bygones.team.access import open_blob_store_of
    from bygones.team.contract import AccessRole, AccessScope

    everything = AccessScope(person="", role=AccessRole.AUDITOR)
    return Archive.from_store(store.open_reader(everything, open_blob_store_of(store)))


def _read_queries(path: Path) -> Iterator[str]:
    yield from filter(None, map(str.strip, path.read_text("utf-8").splitlines()))


def _sample_queries(archive: Archive) -> Iterator[str]:
    for number, prompt in enumerate(archive.prompts()):
        if number >= _MAX_QUERIES:
            return
        words = [word for word in prompt.text.split() if word.isalnum()][
            :_WORDS_PER_QUERY
        ]
        if words:
            yield " ".join(words)


def _is_same_answer(one: SearchResults, other: SearchResults) -> bool:
    def ranked(found: SearchResults) -> list[tuple[int, str]]:
        # Sessions with the same score may change places.
        return sorted(
            (round(s.score / _SCORE_TOLERANCE), s.summary.id) for s in found.sessions
        )

    return one.session_count == other.session_count and ranked(one) == ranked(other)
