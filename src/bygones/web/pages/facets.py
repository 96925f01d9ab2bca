"""What could narrow a search: projects, tools, roles and months of all that it found.

Counting takes longer than finding the first ten sessions, so it is asked for by
itself, once somebody has stopped typing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct
from starlette.responses import HTMLResponse, Response

from bygones.archive import Archive
from bygones.errors import QueryError
from bygones.model.hits import Bound
from bygones.model.ids import SessionId
from bygones.model.listing import Listed
from bygones.model.parts import Role
from bygones.query import parse
from bygones.render.html.markup import NOTHING, Html, joined, tag, words
from bygones.web.frame import address
from bygones.web.pages.home import short
from bygones.web.visit import Visit

__all__ = ["Facets", "counted", "facets"]

_MOST = 2000
"""Sessions that are counted at most."""
_FEW = 60
"""The same where texts must be opened to know whether they fit."""
_SHOWN = 8
_ROLES = (Role.USER, Role.ASSISTANT)
_Users = Mapping[str, frozenset[SessionId]]


class Facets(Struct, frozen=True):
    """How many of the sessions that were found have what."""

    groups: tuple[tuple[str, str, tuple[tuple[str, int], ...]], ...] = ()
    """Title, field, and values with their counts, the most frequent first."""
    of: int = 0
    """Sessions that were counted."""
    is_whole: bool = True


def facets(visit: Visit) -> Response:
    """Answer with what narrows a search, and nothing around it."""
    typed, sort = visit.text("q"), visit.text("sort")
    users = visit.readers.told("tools", Archive.tools) if typed else {}

    def count(archive: Archive) -> Facets:
        return counted(archive, visit, typed, users)

    try:
        found = visit.readers.told(f"facets {typed}", count) if typed else Facets()
    except QueryError:
        found = Facets()
    made = _drawn(found, typed, sort)
    return HTMLResponse(made.encode("utf-8", "backslashreplace"))


def counted(archive: Archive, visit: Visit, typed: str, users: _Users) -> Facets:
    """Return what all sessions that a text finds have in common.

    ``users`` are the sessions that called each tool.
    """
    query = parse(typed, now=visit.now, zone=visit.zone)
    first = archive.search(query, limit=1, hits=0)
    limit = _FEW if first.bound is Bound.AT_MOST else _MOST
    found = archive.search(query, limit=limit, hits=0)
    sessions = [one.listed for one in found.sessions]
    groups = (
        ("Project", "project", _most(one.project or "" for one in sessions)),
        ("Tool", "tool", _tools(sessions, users)),
        ("Role", "role", tuple(_roles(archive, visit, typed) if sessions else ())),
        ("Month", "on", _most(map(_month, sessions))),
    )
    return Facets(groups, len(sessions), found.total <= len(sessions))


def _most(values: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(filter(None, values)).most_common(_SHOWN))


def _tools(sessions: Iterable[Listed], users: _Users) -> tuple[tuple[str, int], ...]:
    ids = frozenset(one.id for one in sessions)
    counts = Counter({tool: len(ids & using) for tool, using in users.items()})
    return tuple((tool, n) for tool, n in counts.most_common(_SHOWN) if n)


def _roles(archive: Archive, visit: Visit, typed: str) -> Iterable[tuple[str, int]]:
    for role in _ROLES:
        asked = f"{typed} role:{role}"
        query = parse(asked, now=visit.now, zone=visit.zone)
        total = archive.search(query, limit=1, hits=0).total
        if total:
            yield str(role), total


def _month(one: Listed) -> str:
    time = one.ended or one.started
    return f"{time.astimezone():%Y-%m}" if time else ""


def _drawn(found: Facets, typed: str, sort: str) -> Html:
    parts = []
    for title, field, values in found.groups:
        lines = [_facet(typed, sort, field, one) for one in values]
        if lines:
            heading = tag("h2", words(title))
            parts.append(tag("section", joined((heading, tag("ul", joined(lines))))))
    note = NOTHING
    if parts and not found.is_whole:
        note = tag("p", words(f"Counted in the best {found.of:,} sessions."))
    return joined((*parts, note))


def _facet(typed: str, sort: str, field: str, met: tuple[str, int]) -> Html:
    value, count = met
    term = f'{field}:"{value}"' if _needs_quotes(value) else f"{field}:{value}"
    is_on = f" {term} " in f" {typed} "
    asked = _without(typed, term) if is_on else f"{typed} {term}".strip()
    inner = joined((tag("span", words(short(value))), tag("span", words(f"{count:,}"))))
    to = address("search", q=asked, sort=sort)
    made = tag("a", inner, href=to, title=value, aria_current="true" if is_on else "")
    return tag("li", made)


def _needs_quotes(value: str) -> bool:
    return not all(sign.isalnum() or sign in "-_./~" for sign in value)


def _without(typed: str, term: str) -> str:
    return f" {typed} ".replace(f" {term} ", " ", 1).strip()
