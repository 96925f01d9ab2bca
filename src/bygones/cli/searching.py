"""Carrying out a search: what is meant, what is found, and how that is told."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bygones.cli.filtering import query_text
from bygones.cli.lately import remember
from bygones.cli.paging import page_out
from bygones.cli.search_page import SearchPage
from bygones.cli.search_remarks import answer_remarks
from bygones.cli.terminal import Colour, Paint, columns, has_colour, plain
from bygones.query.parse import parse

if TYPE_CHECKING:
    from bygones.cli.asked import Asked

__all__ = ["search_archive"]


def search_archive(  # noqa: PLR0913 (the options, all by name)
    *,
    words: tuple[str, ...],
    limit: int,
    page: int,
    hits: int,
    sort: str,
    explain: bool,
    iso: bool,
    asked: Asked,
    as_json: bool,
    colour: str,
) -> None:
    """Search as ``bygones search`` was asked to, and print what is found."""
    now = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
    text = query_text(words)
    query = parse(text, now=now, zone=now.astimezone().tzinfo or UTC)
    offset = (page - 1) * limit
    with asked.current() as archived:
        found = archived.search(query, limit=limit, offset=offset, hits=hits, sort=sort)
        folder = archived.folder
    remember(folder, found, offset)
    if as_json:
        from bygones.cli.search_rows import print_found  # noqa: PLC0415

        print_found(text, found, folder, offset)
        return
    on_screen = sys.stdout.isatty()
    setting = SearchPage(
        now=now,
        is_iso=iso or not on_screen,
        room=columns(sys.stdout, os.environ) if on_screen else None,
        paint=Paint(coloured=has_colour(Colour(colour), sys.stdout)),
        first=offset + 1,
        explains=explain,
    )
    page_out(setting.lines(found), on_terminal=on_screen)
    for line in () if asked.quiet else answer_remarks(found, offset):
        sys.stderr.write(f"{plain(line)}\n")
