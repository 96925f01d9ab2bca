"""What somebody asks about usage: words and options as a query."""

from __future__ import annotations

import sys
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

import click

from bygones.cli.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bygones.model.query import Period, Query
    from bygones.query.times import Now

__all__ = ["query_of"]


def query_of(
    words: Sequence[str],
    *,
    since: str | None,
    until: str | None,
    now: datetime,
    zone: tzinfo,
) -> Query | None:
    """Return what to limit the sums to; nothing, where all is meant."""
    if not words and since is None and until is None:
        return None
    # Whoever limits nothing need not wait for the language.
    from bygones.cli.filtering import query_text  # noqa: PLC0415
    from bygones.model.query import Query  # noqa: PLC0415
    from bygones.query import parse  # noqa: PLC0415
    from bygones.query.times import Now  # noqa: PLC0415
    from bygones.query.tree import all_of  # noqa: PLC0415

    query = parse(query_text(words), now=now, zone=zone)
    for note in query.notes:
        sys.stderr.write(plain(f"note: {note.text}") + "\n")
    terms = [query.root] if query.root is not None else []
    if since is not None:
        terms.append(_period("--since", since, Now(now, zone)))
    if until is not None:
        terms.append(_period("--until", until, Now(now, zone)))
    return Query(all_of(terms), query.notes)


def _period(option: str, text: str, now: Now) -> Period:
    from bygones.model.query import Period  # noqa: PLC0415 (see above)
    from bygones.query.times import period  # noqa: PLC0415

    found = period("after" if option == "--since" else "on", text, now)
    if found is None:
        raise click.BadParameter(
            f"{text!r} is no time; times are like 2025-12-01, 2025-12, 7d, yesterday",
            param_hint=option,
        )
    # All of the day that is named belongs to it.
    return found if option == "--since" else Period(end=found.end)
