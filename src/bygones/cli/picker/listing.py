"""The sessions that the picker lists, and what was typed to find them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from bygones.model.summary import Excerpt, SessionSummary

if TYPE_CHECKING:
    from bygones.archive import Archive

PAGE_SIZE = 40
"""Sessions that are looked up at once; scrolling down looks up more."""


class PickerQuery(Struct, frozen=True, kw_only=True):
    """What was typed, and how the list is limited and sorted."""

    text: str = ""
    directory: str | None = None
    """Only sessions of projects in this directory."""
    sort: str = "best"
    include_agents: bool = True
    """Whether texts of agents are searched."""
    limit: int = PAGE_SIZE


class FoundSession(Struct, frozen=True):
    """A row of the list."""

    summary: SessionSummary
    title: Excerpt
    """The title, with the words that were found in it."""


class FoundSessions(Struct, frozen=True, kw_only=True):
    """The answer to a query."""

    query: PickerQuery
    rows: tuple[FoundSession, ...] = ()
    count: int = 0
    """Number of sessions that match; there are more than rows."""
    is_estimate: bool = False
    note: str = ""
    """How the query was changed, or what is wrong with it."""
    is_invalid: bool = False
    """Whether the query cannot be parsed (yet); `rows` is empty then."""
    is_pending: bool = False
    """Whether the query has not been answered yet."""


def list_sessions(archive: Archive, query: PickerQuery) -> FoundSessions:
    """Return the sessions that are listed while nothing is searched for."""
    listed = archive.sessions(project=query.directory)
    if query.sort == "oldest":
        summaries = [*listed][::-1]
        page, count = summaries[: query.limit], len(summaries)
    else:
        page = [*islice(listed, query.limit)]
        count = len(page) + sum(1 for _ in listed)
    rows = tuple(FoundSession(one, Excerpt(one.title.text)) for one in page)
    return FoundSessions(query=query, rows=rows, count=count)
