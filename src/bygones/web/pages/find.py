"""Finding in a session: every place where words stand, in its order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from starlette.responses import Response

from bygones.model.ids import SessionId
from bygones.model.windows import SessionFacts
from bygones.render.html.markup import anchor
from bygones.render.safe import safe_line
from bygones.search import Standing
from bygones.web.frame import address
from bygones.web.pages.search import asked_query
from bygones.web.pages.session import lent
from bygones.web.reading import Reading, reading_of
from bygones.web.visit import Visit

__all__ = ["find"]

_WORDS = re.compile(r"[^\W_]+(?: +[^\W_]+)+")
_QUOTE = 60

_Other = tuple[str, int, str]
"""What a branch or an agent is called, in how many messages, and where."""


def find(visit: Visit) -> Response:
    """Answer with the messages of a conversation where words stand, in its order.

    What stands on other branches of the session and in its agents is counted by them,
    and it is told where; so is as what the words were found, for them to be marked.
    """
    typed = visit.text("q")
    with lent(visit) as reading:
        found = _found(visit, typed, reading.facts.id) if typed else Standing()
        places = _places(reading.numbers, found.records)
        others = list(_elsewhere(reading, found, typed)) if found.records else []
    told = {
        "places": places,
        "others": others,
        "is_partial": found.is_partial,
        "written": found.written,
        "begun": found.begun,
    }
    return Response(msgspec.json.encode(told), media_type="application/json")


def _found(visit: Visit, typed: str, session: SessionId) -> Standing:
    """Return what is found: words as they stand together, else apart."""
    ways = [f'"{typed}"', typed] if _WORDS.fullmatch(typed) else [typed]
    found = Standing()
    with visit.readers.archive() as archive:
        for way in ways:
            found = archive.standing(asked_query(visit, way), session)
            if found.records:
                break
    return found


def _places(
    known: Mapping[int, tuple[int, str]], records: frozenset[int]
) -> list[tuple[int, str]]:
    """Return the messages that records are of, by their numbers, and their anchors."""
    return sorted({known[number] for number in known.keys() & records})


def _elsewhere(here: Reading, found: Standing, typed: str) -> Iterator[_Other]:
    """Yield the other ways through a session on which something was found.

    All are looked at. What branches share counts for the one that others left.
    """
    held, left = here.held, found.records - here.numbers.keys()
    talk = held.conversation()
    ways = [("", branch.number) for branch in talk.facts.branches]
    ways += [(run, 0) for run in talk.runs]
    own = (here.facts.agent or "", here.branch.number)
    for agent, branch in [way for way in ways if way != own]:
        if not left:
            return
        other = reading_of(held, agent, branch)
        places = _places(other.own_numbers, left)
        left -= other.own_numbers.keys()
        if places:
            to = _place(other, places[0][1], typed)
            yield _name(other.facts, branch), len(places), to


def _name(facts: SessionFacts, number: int) -> str:
    if facts.agent:
        return safe_line(facts.title.text)[:_QUOTE]
    branch = facts.branch(number)
    if branch is None or branch.is_live:
        return "the live branch"
    return f"branch {number}: {safe_line(branch.quote)[:_QUOTE]}".rstrip(": ")


def _place(other: Reading, at: str, typed: str) -> str:
    facts = other.facts
    agent = ("agent", anchor("a", facts.agent)) if facts.agent else ()
    parts = ("session", facts.id, *agent)
    return address(*parts, branch=other.branch.number, at=at, find=typed)
