"""The page of searches: as one types, with hints, facets and excerpts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import msgspec
from msgspec import Struct
from starlette.responses import HTMLResponse, Response

from bygones.errors import QueryError
from bygones.model.hits import Excerpt, Found, FoundSession, Hit
from bygones.model.query import Query
from bygones.query import hints, parse
from bygones.render.figures import several
from bygones.render.html.markup import (
    NOTHING,
    Html,
    anchor,
    facts,
    joined,
    tag,
    text,
    words,
)
from bygones.render.remarks import remarks
from bygones.web.frame import Frame, address, empty, framed, link, stamp
from bygones.web.pages.home import short
from bygones.web.visit import Visit

__all__ = ["answer", "asked_query", "found_for", "hint_rows", "search"]

_PAGE = 10
_HITS = 2
_SORTS = (("best", "Best"), ("newest", "Newest"), ("oldest", "Oldest"))


class _Asked(Struct, frozen=True):
    text: str
    sort: str
    page: int

    @classmethod
    def of(cls, visit: Visit) -> _Asked:
        sort = visit.text("sort")
        known = {name for name, _ in _SORTS}
        page = visit.number("page", 1, 1, 1000)
        return cls(visit.text("q"), sort if sort in known else "best", page)

    def address(self, **changed: object) -> str:
        sort = "" if self.sort == "best" else self.sort
        return address("search", **({"q": self.text, "sort": sort} | changed))


def asked_query(visit: Visit, typed: str) -> Query:
    """Return what a text asks for, here and now."""
    return parse(typed, now=visit.now, zone=visit.zone)


def found_for(
    visit: Visit, typed: str, *, sort: str = "best", limit: int = _PAGE, offset: int = 0
) -> Found:
    """Return what a text finds."""
    query = asked_query(visit, typed)
    with visit.readers.archive() as archive:
        return archive.search(query, limit=limit, offset=offset, hits=_HITS, sort=sort)


def search(visit: Visit) -> Response:
    """Answer with the whole page."""
    asked = _Asked.of(visit)
    box = Html(
        '<form class="ask" action="/search" role="search" id="ask">'
        '<input type="search" name="q" id="query" autocomplete="off" '
        'spellcheck="false" maxlength="2000" role="combobox" '
        'aria-expanded="false" aria-controls="hints" aria-autocomplete="list" '
        'aria-label="Search everything that was said" '
        'placeholder="Words as you remember them, or a field: tool:Bash is:error" '
        f'value="{escape(asked.text)}">'
        '<ul class="hints" id="hints" role="listbox" aria-label="Hints" hidden></ul>'
        "</form>"
    )
    main = (
        tag("h1", words("Search"), kind="unseen"),
        box,
        Html('<div class="answers" id="answers">'),
        _answers(visit, asked),
        Html("</div>"),
    )
    frame = Frame(
        title=asked.text or "Search",
        way="/search",
        kind="search",
        scripts=("search.js",),
        query=asked.text,
    )
    return framed(frame, main)


def answer(visit: Visit) -> Response:
    """Answer with what is found, and nothing around it."""
    made = _answers(visit, _Asked.of(visit))
    return HTMLResponse(made.encode("utf-8", "backslashreplace"))


def hint_rows(_visit: Visit) -> Response:
    """Answer with what can be typed, from the table of the language."""
    return Response(msgspec.json.encode(hints()), media_type="application/json")


def _answers(visit: Visit, asked: _Asked) -> Html:
    if not asked.text:
        return _introduction()
    offset = (asked.page - 1) * _PAGE
    try:
        found = found_for(visit, asked.text, sort=asked.sort, offset=offset)
    except QueryError as error:
        hint = tag("p", words(error.hint))
        return joined((_NO_FACETS, empty(f"{error}.".capitalize(), hint)))
    lines = joined(_session(one, visit) for one in found.sessions)
    shown = tag("ol", lines, kind="hits") if lines else _nothing(found)
    results = joined(
        (_line(asked, found), _remarks(found), shown, _pages(asked, found))
    )
    facets = tag("div", kind="facets", aria_label="Narrow", role="group")
    return joined((facets, tag("div", results, kind="results")))


_NO_FACETS = Html('<div class="facets"></div>')


def _introduction() -> Html:
    lines = joined(
        tag(
            "li",
            joined(
                (
                    link(
                        address("search", q=hint.example),
                        tag("code", words(hint.example)),
                    ),
                    tag("span", words(hint.meaning)),
                ),
                " ",
            ),
        )
        for hint in hints()
    )
    return joined((_NO_FACETS, tag("ul", lines, kind="language")))


def _line(asked: _Asked, found: Found) -> Html:
    told = found.bound.before(several(found.total, "session"))
    if len(found.words) > 1 and found.complete and not found.bound:
        told += f", {found.complete:,} with all words"
    sorts = joined(
        tag(
            "a",
            words(name),
            href=asked.address(sort="" if sort == "best" else sort),
            aria_current="true" if sort == asked.sort else "",
        )
        for sort, name in _SORTS
    )
    inner = joined((tag("span", words(told)), tag("span", sorts, kind="sorts")))
    return tag("div", inner, kind="answer-line")


def _remarks(found: Found) -> Html:
    told = (f"{one[:1].upper()}{one[1:]}." for one in remarks(found))
    return joined(tag("p", words(one), kind="note") for one in told)


def _nothing(found: Found) -> Html:
    hint = "Fewer words find more; a session need not have all of them."
    if found.missing:
        hint = "Another word may be the one that was written."
    return empty("Nothing was found.", tag("p", words(hint)))


def _session(one: FoundSession, visit: Visit) -> Html:
    listed = one.listed
    told = [
        short(listed.project) if listed.project else "",
        several(listed.messages, "message"),
        one.bound.before(several(one.total, "text fits", "texts fit"))
        if one.total
        else "",
    ]
    hits = joined(_hit(one, hit) for hit in one.hits)
    to = address("session", listed.id)
    when = stamp(listed.ended or listed.started, visit.now)
    return tag(
        "li",
        joined(
            (
                tag("div", link(to, _excerpt(one.title)), kind="hit"),
                tag("p", joined((when, facts(told)), " · ")),
                hits,
            )
        ),
    )


def _hit(one: FoundSession, hit: Hit) -> Html:
    who = hit.agent_type or ("agent" if hit.agent else "")
    told = [
        str(hit.part),
        ", ".join(hit.tools),
        who,
        "left behind by a rewind" if hit.is_rewound else "",
        "error" if hit.is_error else "",
        f"{hit.time.astimezone():%Y-%m-%d %H:%M}" if hit.time else "",
    ]
    inner = joined((tag("small", facts(told)), _excerpt(hit.excerpt)))
    return link(_place(one, hit), inner, "excerpt")


def _place(one: FoundSession, hit: Hit) -> str:
    session = one.listed.id
    if hit.position is None:
        return address("session", session)
    if hit.agent:
        return address(
            "session", session, "agent", anchor("a", hit.agent), at=hit.record
        )
    return address("session", session, at=hit.record)


def _excerpt(excerpt: Excerpt) -> Html:
    return joined(_marked(excerpt))


def _marked(excerpt: Excerpt) -> Iterator[Html]:
    at = 0
    if excerpt.is_begun:
        yield Html("…")
    for start, end in excerpt.marks:
        yield text(excerpt.text[at:start])
        yield tag("mark", text(excerpt.text[start:end]))
        at = end
    yield text(excerpt.text[at:])
    if excerpt.is_cut:
        yield Html("…")


def _pages(asked: _Asked, found: Found) -> Html:
    last = (found.total + _PAGE - 1) // _PAGE
    if last <= 1:
        return NOTHING
    links: Sequence[Html] = [
        link(asked.address(page=number), words(told))
        if 1 <= number <= last
        else Html("<span></span>")
        for number, told in ((asked.page - 1, "← Before"), (asked.page + 1, "Next →"))
    ]
    place = tag("span", words(f"{asked.page:,} of {last:,}"))
    return tag(
        "nav", joined((links[0], place, links[1])), kind="pager", aria_label="Pages"
    )
