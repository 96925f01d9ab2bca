"""`bygones migrate`: a team's archive from one engine to another."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.context import quiet_option
from bygones.errors import ExitCode
from bygones.render.text.primitives import sanitize_name

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.summary import SearchResults
    from bygones.team.stores.base import TeamStore


__all__ = ["migrate"]

_MAX_QUERIES = 100
_WORDS_PER_QUERY = 6
_SCORE_TOLERANCE = 1e-6
"""By how much scores may differ: engines add up in their own order."""


@click.command("migrate")
@click.option(
    "--from", "source_url", required=True, metavar="ADDRESS", help="The old store."
)
@click.option(
    "--to", "target_url", required=True, metavar="ADDRESS", help="The new store."
)
@click.option(
    "--queries",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Queries to compare answers of, one a line; else words of the last prompts.",
)
@quiet_option
def migrate(
    source_url: str, target_url: str, *, queries: Path | None, quiet: bool
) -> None:
    r"""Move a team's archive to another engine, and compare their answers.

    All that was sent is sent again to the new store, with what was erased and what is
    held; the old store is not changed. It can be stopped and run again, also while
    people go on sending to the old one. A folder's archive is sent with
    `bygones push` instead, which masks it first.

    Ends with code 1 if a query is answered otherwise than before.

    \b
    bygones migrate --from postgres:///a --to clickhouse://b
    """
    from bygones.team.access import open_store
    from bygones.team.admin import migrate_store

    before, after = open_store(source_url), open_store(target_url)
    try:
        moved = migrate_store(before, after)
        if not quiet:
            size = f"{moved.sources} files, {moved.bytes:,} bytes"
            click.echo(f"moved {size}; {moved.sessions} sessions derived")
        asked, differing = _compare_answers(before, after, queries)
    finally:
        before.close()
        after.close()
    if not quiet:
        same = asked - len(differing)
        click.echo(f"{same} of {asked} queries are answered as before")
    for query in differing:
        sys.stderr.write(f"answered otherwise: {sanitize_name(query)}\n")
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
    def told(found: SearchResults) -> list[tuple[int, str]]:
        # Whose scores are the same may change places.
        return sorted(
            (round(s.score / _SCORE_TOLERANCE), s.summary.id) for s in found.sessions
        )

    return one.session_count == other.session_count and told(one) == told(other)
