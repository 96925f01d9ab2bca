"""An archive of a home with short methods for searching it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bygones.archive import Archive
from bygones.model.summary import SearchResults
from bygones.query.parser import parse_query
from bygones.search.ranking import SortOrder
from tests.build import Home

__all__ = ["NOW", "SearchArchive", "open_archive"]

NOW = datetime(2026, 1, 6, 12, tzinfo=UTC)


class SearchArchive:
    """An archive to search."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive

    def search(
        self,
        text: str,
        *,
        limit: int = 10,
        offset: int = 0,
        hits: int = 3,
        sort: SortOrder = SortOrder.BEST,
    ) -> SearchResults:
        """Return the results of a query."""
        query = parse_query(text, now=NOW, zone=UTC)
        return self.archive.search(
            query, limit=limit, offset=offset, hits_per_session=hits, sort=sort
        )

    def titles(self, text: str, *, sort: SortOrder = SortOrder.BEST) -> list[str]:
        """Return the titles of the sessions that a query finds, in order."""
        return [
            summary.title.text
            for one in self.search(text, sort=sort).sessions
            for summary in (one.summary, *one.similar)
        ]

    def excerpts(self, text: str) -> list[str]:
        """Return the excerpts of the first session, with highlights in brackets."""
        (first, *_) = self.search(text).sessions
        return [marked(hit.excerpt.text, hit.excerpt.highlights) for hit in first.hits]


def marked(text: str, marks: tuple[tuple[int, int], ...]) -> str:
    """Return a text with its highlights in brackets."""
    for start, stop in reversed(marks):
        text = f"{text[:start]}[{text[start:stop]}]{text[stop:]}"
    return text


@contextmanager
def open_archive(home: Home, folder: Path) -> Iterator[SearchArchive]:
    """Ingest a home and open its archive."""
    Archive.ingest(folder, [home.path])
    with Archive.open(folder) as archive:
        yield SearchArchive(archive)
