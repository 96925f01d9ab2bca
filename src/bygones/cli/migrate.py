"""``bygones migrate``: a team's archive from one engine to another."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.options import quiet_option
from bygones.cli.terminal import plain
from bygones.errors import ExitCode

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.hits import Found
    from bygones.team.contract import TeamStore

__all__ = ["migrate"]

_QUERIES = 100
_WORDS = 6
_NEAR = 1e-6
"""By how much scores may differ: engines add up in their own order."""


@click.command("migrate")
@click.option("--from", "here", required=True, metavar="ADDRESS", help="The old store.")
@click.option("--to", "there", required=True, metavar="ADDRESS", help="The new store.")
@click.option(
    "--queries",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Queries to compare answers of, one a line; else words of the last prompts.",
)
@quiet_option
def migrate(here: str, there: str, *, queries: Path | None, quiet: bool) -> None:
    r"""Move a team's archive to another engine, and compare their answers.

    All that was sent is sent again to the new store, with what was erased and what is
    held; the old store is not changed. It can be stopped and run again, also while
    people go on sending to the old one. A folder's archive is sent with
    `bygones push` instead, which masks it first.

    Ends with code 1 if a query is answered otherwise than before.

    \b
    bygones migrate --from postgres:///a --to clickhouse://b
    """
    from bygones.team.moving import move  # noqa: PLC0415 (not for a help page)
    from bygones.team.opening import open_store  # noqa: PLC0415

    before, after = open_store(here), open_store(there)
    try:
        moved = move(before, after)
        if not quiet:
            size = f"{moved.sources} files, {moved.bytes:,} bytes"
            click.echo(f"moved {size}; {moved.sessions} sessions derived")
        asked, differing = _compared(before, after, queries)
    finally:
        before.close()
        after.close()
    if not quiet:
        same = asked - len(differing)
        click.echo(f"{same} of {asked} queries are answered as before")
    for query in differing:
        sys.stderr.write(f"answered otherwise: {plain(query)}\n")
    if differing:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _compared(
    before: TeamStore, after: TeamStore, queries: Path | None
) -> tuple[int, list[str]]:
    from bygones.query import parse  # noqa: PLC0415 (see above)

    now = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
    differing = []
    asked = 0
    with _opened(before) as one, _opened(after) as other:
        for words in _lines(queries) if queries else _words(one):
            query = parse(words, now=now, zone=UTC)
            asked += 1
            if not _is_same(one.search(query), other.search(query)):
                differing.append(words)
    return asked, differing


def _opened(store: TeamStore) -> Archive:
    from bygones.archive import Archive  # noqa: PLC0415 (see above)
    from bygones.team.contract import Role, Scope  # noqa: PLC0415
    from bygones.team.opening import objects_of  # noqa: PLC0415

    everything = Scope(person="", role=Role.AUDITOR)
    return Archive.on(store.shelf(everything, objects_of(store)))


def _lines(path: Path) -> Iterator[str]:
    yield from filter(None, map(str.strip, path.read_text("utf-8").splitlines()))


def _words(archive: Archive) -> Iterator[str]:
    for number, prompt in enumerate(archive.prompts()):
        if number >= _QUERIES:
            return
        words = [word for word in prompt.text.split() if word.isalnum()][:_WORDS]
        if words:
            yield " ".join(words)


def _is_same(one: Found, other: Found) -> bool:
    def told(found: Found) -> list[tuple[int, str]]:
        # Whose scores are the same may change places.
        return sorted((round(s.score / _NEAR), s.listed.id) for s in found.sessions)

    return one.total == other.total and told(one) == told(other)
