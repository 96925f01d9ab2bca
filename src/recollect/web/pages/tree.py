"""The map of a session: its turns, branches, agents and compactions at a glance."""

from __future__ import annotations

from starlette.responses import Response

from recollect.model.sessions import Session
from recollect.render.drawing import Mark, MarkKind, marks
from recollect.render.figures import lasting, price, several, tokens
from recollect.render.html.markup import Html, anchor, facts, joined, tag, words
from recollect.web.frame import Frame, address, framed, link
from recollect.web.visit import Visit

__all__ = ["tree"]

_MOST = 5000
_DEEPEST = 8


def tree(visit: Visit) -> Response:
    """Answer with the map; every line leads to its place."""
    with visit.readers.session(visit.part("id")) as held:
        session = held.session
        drawn: list[Html] = []
        prices = visit.house.prices
        for mark in marks(session, prices.cost_of if prices else None):
            if len(drawn) == _MOST:
                drawn.append(tag("li", words("and more")))
                break
            drawn.append(_line(session, mark))
    back = link(address("session", session.id), words(session.title.text))
    main = (
        tag("h1", words("Map of a session")),
        tag("p", back),
        tag("ol", joined(drawn), kind="map"),
    )
    frame = Frame(title=f"Map: {session.title.text}", way="/", kind="wide")
    return framed(frame, main)


def _line(session: Session, mark: Mark) -> Html:
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


def _place(session: Session, mark: Mark) -> str:
    if mark.agent is not None:
        return address("session", session.id, "agent", anchor("a", mark.agent))
    if mark.kind is MarkKind.BRANCH or mark.record is None:
        return address("session", session.id, branch=mark.branch)
    return address("session", session.id, branch=mark.branch, at=mark.record)
