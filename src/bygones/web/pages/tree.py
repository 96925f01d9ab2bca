"""The map of a session: its turns, branches, agents and compactions at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from starlette.responses import Response

from bygones.model.ids import SessionId
from bygones.render.drawing import Mark, MarkKind, branch_marks, marks
from bygones.render.figures import lasting, price, several, tokens
from bygones.render.html.markup import (
    NOTHING,
    Html,
    anchor,
    facts,
    joined,
    tag,
    words,
)
from bygones.web.frame import Frame, address, framed, link
from bygones.web.readers import OpenSession
from bygones.web.reading import LONGEST, reading_of
from bygones.web.visit import Visit

__all__ = ["tree"]

_MOST = 5000
_DEEPEST = 8


def tree(visit: Visit) -> Response:
    """Answer with the map; every line leads to its place.

    Of a very long session only the live branch is read, and only as far as it is shown.
    """
    with visit.readers.session(visit.part("id")) as held:
        listed = held.listed
        is_long = listed.messages > LONGEST
        found = _of_long(held) if is_long else _of_whole(visit, held)
        start = visit.number("from", 0) // _MOST * _MOST
        shown = islice(found, start, start + _MOST)
        drawn = [_line(listed.id, mark) for mark in shown]
        has_more = next(found, None) is not None
    back = link(address("session", listed.id), words(listed.title.text))
    told = f"{several(listed.messages, 'message')}: the live branch, without cost."
    main = (
        tag("h1", words("Map of a session")),
        tag("p", back),
        tag("p", words(told), kind="note") if is_long else NOTHING,
        tag("ol", joined(drawn), kind="map"),
        _pager(listed.id, start, len(drawn), has_more=has_more),
    )
    frame = Frame(title=f"Map: {listed.title.text}", way="/", kind="wide")
    return framed(frame, main)


def _pager(session: SessionId, start: int, count: int, *, has_more: bool) -> Html:
    """Return links to the lines before and behind those that are shown."""
    if not start and not has_more:
        return NOTHING
    own = ("session", session, "map")
    before = address(*own, **{"from": start - _MOST}) if start else ""
    after = address(*own, **{"from": start + _MOST}) if has_more else ""
    sides = [
        link(to, words(told)) if to else Html("<span></span>")
        for to, told in ((before, "← Earlier"), (after, "Later →"))
    ]
    place = tag("span", words(f"lines {start + 1:,} to {start + count:,}"))
    inner = joined((sides[0], place, sides[1]))
    return tag("nav", inner, kind="pager", aria_label="Lines")


def _of_whole(visit: Visit, held: OpenSession) -> Iterator[Mark]:
    prices = visit.house.prices
    return marks(held.session, prices.cost_of if prices else None)


def _of_long(held: OpenSession) -> Iterator[Mark]:
    reading = reading_of(held, "", 0)
    return branch_marks(reading.facts, reading.turns())


def _line(session: SessionId, mark: Mark) -> Html:
    told = [
        several(mark.calls, "call") if mark.calls else "",
        lasting(mark.duration) if mark.duration else "",
        f"{tokens(mark.usage.total)} tokens" if mark.usage.total else "",
        price(mark.cost) if mark.usage.total else "",
    ]
    name = mark.text or str(mark.kind)
    if mark.kind is MarkKind.BRANCH:
        name = f"branch {mark.branch}: {name}"
    elif mark.kind is MarkKind.ELSEWHERE:
        name = f"elsewhere: {name}"
    inner = joined(
        (
            link(_place(session, mark), words(name)),
            tag("span", facts(told), kind="note"),
        ),
        " ",
    )
    return tag("li", inner, kind=f"k-{mark.kind} d{min(mark.depth, _DEEPEST)}")


def _place(session: SessionId, mark: Mark) -> str:
    if mark.agent is not None:
        return address("session", session, "agent", anchor("a", mark.agent))
    if mark.kind is MarkKind.BRANCH or mark.record is None:
        return address("session", session, branch=mark.branch)
    return address("session", session, branch=mark.branch, at=mark.record)
