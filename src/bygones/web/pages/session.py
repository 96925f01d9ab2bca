"""The page of a session, and of an agent run in it: read in windows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import escape

import msgspec
from msgspec import structs
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)

from bygones.errors import NotArchived
from bygones.export.costs import coster, is_even
from bygones.model.listing import Listed
from bygones.model.sessions import Message
from bygones.model.usage import Cost, sum_of
from bygones.model.windows import SessionFacts
from bygones.render.details import pretty
from bygones.render.figures import several
from bygones.render.heads import window_facts
from bygones.render.html import Setting
from bygones.render.html.markup import (
    NOTHING,
    Html,
    anchor,
    joined,
    tag,
    words,
)
from bygones.render.html.outputs import MOST
from bygones.render.markdown import Sheet, branch_markdown, window_markdown
from bygones.render.safe import safe, safe_line
from bygones.usage.lines import SessionCosts
from bygones.web.frame import Frame, address, framed, link
from bygones.web.pages.home import RUNNING, is_running
from bygones.web.readers import OpenSession
from bygones.web.reading import WINDOW, Reading, reading_of
from bygones.web.visit import Visit

__all__ = [
    "as_markdown",
    "lent",
    "message",
    "outline",
    "page",
    "picture",
    "raw",
    "window",
]

_OK = 200
_RAW_LIMIT = 2_000_000
_HELD = 4_000
"""Signs of a long output, beyond its beginning, with which a window comes."""


@contextmanager
def lent(visit: Visit, listed: Listed | None = None) -> Iterator[Reading]:
    """Lend what a visit wants to read."""
    agent = visit.request.path_params.get("agent", "")
    branch = visit.number("branch", 0)
    with visit.readers.session(visit.part("id"), listed) as held:
        yield reading_of(held, agent, branch)


def _own(visit: Visit, session: SessionFacts, *rest: str, **query: object) -> str:
    """Return an address below that of the conversation that is read."""
    agent = visit.request.path_params.get("agent", "")
    parts = ("session", session.id, *(("agent", agent) if agent else ()), *rest)
    return address(*parts, **query)


def _costs(visit: Visit, held: OpenSession) -> SessionCosts | None:
    """Return what a session and its agents cost; nothing where no prices are known."""
    found, prices = held.notes.get("costs"), visit.house.prices
    if not isinstance(found, SessionCosts) and prices is not None:
        found = held.notes["costs"] = held.archive.spent_in(held.listed.id, prices)
    return found if isinstance(found, SessionCosts) else None


def _setting(visit: Visit, reading: Reading) -> Setting:
    session, prices = reading.facts, visit.house.prices
    costs = _costs(visit, reading.held)
    return Setting(
        zone=None,
        cost=coster(prices) if prices is not None else None,
        is_even=partial(is_even, prices) if prices is not None else bool,
        runs=costs.runs if costs else {},
        agents=address("session", session.id, "agent", ""),
        branches=_own(visit, session) + "?branch=",
        most=_HELD,
    )


def page(visit: Visit) -> Response:
    """Answer with the page, and on it the window that is asked for.

    A page is kept as long as its session stays as it is.
    """
    name = f"{visit.request.url.path}?{visit.request.url.query}"
    listed = visit.readers.listed(visit.part("id"))
    stamp = (listed, is_running(listed, visit.now))
    made = visit.readers.page(name, stamp)
    if made is not None:
        return HTMLResponse(made)
    answer = _page(visit, listed)
    if answer.status_code == _OK:
        visit.readers.keep(name, stamp, bytes(answer.body))
    return answer


def _page(visit: Visit, listed: Listed) -> Response:
    with lent(visit, listed) as reading:
        session, branch = reading.facts, reading.branch
        elsewhere = _elsewhere(visit, reading)
        if elsewhere:
            return RedirectResponse(elsewhere, 303)
        at = _wanted(visit, reading)
        end = min((at // WINDOW + 1) * WINDOW, reading.total)
        setting = _setting(visit, reading)
        if visit.flag("whole"):
            drawn, stop = reading.drawn(at, end, setting), end
        else:
            drawn, stop = reading.first(at, end, setting)
        shown = tag(
            "section",
            drawn,
            kind="window",
            data_window=str(at // WINDOW),
            data_from=str(at),
            data_until=str(stop),
        )
        top = _top(visit, reading)
        body = Html(
            f'<div class="conversation" id="conversation" '
            f'data-session="{escape(session.id)}" '
            f'data-own="{escape(_own(visit, session))}" data-branch="{branch.number}" '
            f'data-total="{reading.total}" data-size="{WINDOW}" '
            f'data-running="{RUNNING.seconds}">'
            f"{shown}</div>{_pager(visit, reading, at, stop)}"
        )
    frame = Frame(
        title=session.title.text or session.id,
        way="/",
        kind="reading",
        scripts=("session.js",),
    )
    return framed(frame, (_side(), Html('<div class="column">'), top, body, _END))


_END = Html("</div>")


def _elsewhere(visit: Visit, reading: Reading) -> str:
    """Return where a record is that this conversation does not hold, if it is."""
    name = visit.text("at", 200)
    if not name or reading.place(name) is not None:
        return ""
    held, session = reading.held, reading.facts.id
    talk = held.conversation()
    for branch in talk.facts.branches:
        if reading_of(held, "", branch.number).place(name) is not None:
            return address("session", session, branch=branch.number, at=name)
    for run in talk.runs:
        if reading_of(held, run, 0).place(name) is not None:
            own = anchor("a", run)
            return address("session", session, "agent", own, at=name)
    return ""


def _wanted(visit: Visit, reading: Reading) -> int:
    """Return the number of the message that a visit is about."""
    name = visit.text("at", 200)
    if name:
        place = reading.place(name)
        if place is None:
            raise NotArchived("record", name)
        return place
    return min(visit.number("from", 0), max(reading.total - 1, 0))


def window(visit: Visit) -> Response:
    """Answer with one window, or a part of it, and nothing around it."""
    with lent(visit) as reading:
        at = _wanted(visit, reading)
        number = at // WINDOW
        setting = _setting(visit, reading)
        low, high = number * WINDOW, (number + 1) * WINDOW
        start = at if visit.text("until") else low
        stop = min(visit.number("until", high), high)
        if (start, stop) == (low, high):
            made = reading.window(number, setting)
        else:
            made = reading.drawn(start, stop, setting)
        headers = {
            "X-Total": str(reading.total),
            "X-Window": str(number),
            "X-Messages": str(reading.held.listed.messages),
        }
    content = made.encode("utf-8", "backslashreplace")
    return HTMLResponse(content, headers=headers)


def message(visit: Visit) -> Response:
    """Answer with one message, all of it, also what its window left out."""
    with lent(visit) as reading:
        at = _wanted(visit, reading)
        setting = structs.replace(_setting(visit, reading), most=MOST)
        made = reading.drawn(at, at + 1, setting)
    return HTMLResponse(made.encode("utf-8", "backslashreplace"))


def picture(visit: Visit) -> Response:
    """Answer with a picture of a message; its address changes when it does."""
    name = visit.part("name")
    with lent(visit) as reading:
        for one in reading.pictures(_wanted(visit, reading)):
            if one.name == name:
                forever = {"Cache-Control": "private, max-age=31536000, immutable"}
                return Response(one.content, media_type=one.kind, headers=forever)
    raise NotArchived("picture", name)


def outline(visit: Visit) -> Response:
    """Answer with the outline as JSON: kind, message, anchor and words of each line."""
    with lent(visit) as reading:
        found = reading.marks(min(visit.number("from", 0), reading.total))
        marks = [(mark.kind, mark.at, mark.anchor, safe(mark.text)) for mark in found]
    return Response(msgspec.json.encode(marks), media_type="application/json")


def raw(visit: Visit) -> Response:
    """Answer with the records of a message as they stand in the archive."""
    with lent(visit) as reading:
        message = reading.message(_wanted(visit, reading))
        parts = list(_raws(message))
    return PlainTextResponse("\n\n".join(parts).encode("utf-8", "backslashreplace"))


def as_markdown(visit: Visit) -> Response:
    """Answer with a message, or with the whole branch, as Markdown."""
    with lent(visit) as reading:
        sheet = Sheet(zone=None)
        if visit.text("at") or visit.text("from"):
            at = _wanted(visit, reading)
            made = "".join(window_markdown(reading.some(at, at + 1), sheet))
        else:
            made = "".join(branch_markdown(reading.windows(), sheet))
    content = made.encode("utf-8", "backslashreplace")
    return PlainTextResponse(content, media_type="text/markdown")


def _raws(message: Message) -> Iterator[str]:
    places = {piece.position for piece in (*message.pieces, *message.attached)}
    for call in message.calls:
        places |= {piece.position for piece in call.attached}
        places |= {call.answered_at} if call.answered_at else set()
    for place in sorted(places, key=lambda one: (one.source, one.offset)):
        line = message.loader.raw(place)
        told = f"# {place.source}, byte {place.offset}"
        if len(line) > _RAW_LIMIT:
            yield f"{told}: {several(len(line), 'byte')}, too long to show"
        else:
            yield f"{told}\n{safe(pretty(line) or line.decode('utf-8', 'replace'))}"


def _top(visit: Visit, reading: Reading) -> Html:
    session, branch = reading.facts, reading.branch
    listed = reading.held.listed
    agent = visit.request.path_params.get("agent", "")
    told = window_facts(session, branch, None, _total(visit, reading))
    pairs = (told[at] + told[at + 1] for at in range(0, len(told), 2))
    lines = [tag("p", joined(map(_fact, pair), " · ")) for pair in pairs if any(pair)]
    up = NOTHING
    if agent:
        back = address("session", session.id, at=agent)
        up = tag(
            "p",
            joined((words("An agent of "), link(back, words(listed.title.text)))),
            kind="up",
        )
    badge = NOTHING
    if is_running(listed, visit.now):
        badge = tag("span", words("running"), kind="running")
    title = tag("h1", joined((words(session.title.text) or words(session.id), badge)))
    return tag(
        "header",
        joined(
            (up, title, *lines, _branches(visit, reading), _actions(visit, reading))
        ),
        kind="top",
    )


def _fact(told: str) -> Html:
    """Return something told of a session, kept on one line where there is room."""
    return tag("span", words(told), kind="fact") if told else NOTHING


def _total(visit: Visit, reading: Reading) -> Cost | None:
    """Return what all of a session cost, or an agent run with those below it."""
    costs, facts = _costs(visit, reading.held), reading.facts
    if costs is None:
        return None
    if facts.agent is None:
        return costs.total
    below = [run.id for run in reading.agents()] if facts.agents else []
    return sum_of(map(costs.runs.get, (facts.agent, *below)))


def _branches(visit: Visit, reading: Reading) -> Html:
    session = reading.facts
    if len(session.branches) < 2:  # noqa: PLR2004 (one is no choice)
        return NOTHING
    lines = []
    for branch in session.branches:
        head = branch.quote[:60]
        name = "live branch" if branch.is_live else f"branch {branch.number}"
        told = f"{name}: {head}" if head else name
        to = _own(visit, session, branch=branch.number)
        is_here = branch.number == reading.branch.number
        lines.append(
            tag(
                "li",
                tag("a", words(told), href=to, aria_current="page" if is_here else ""),
            )
        )
    count = words(several(len(session.branches), "branch", "branches"))
    return Html(
        f'<details class="branches"><summary>{count}</summary>'
        f"<ul>{joined(lines)}</ul></details>"
    )


def _actions(visit: Visit, reading: Reading) -> Html:
    """Return what can be done with a session; an agent run can only be looked into."""
    session, listed = reading.facts, reading.held.listed
    find_in = (
        '<button type="button" data-act="find">Find <kbd>f</kbd></button>'
        '<button type="button" data-act="outline" class="only-narrow">Outline</button>'
    )
    if visit.request.path_params.get("agent"):
        return Html(f'<div class="actions">{find_in}</div>')
    resume = safe_line(shlex.join(["claude", "--resume", session.id]))
    if session.project:
        resume = f"{safe_line(shlex.join(['cd', session.project]))} && {resume}"
    starred = "true" if listed.is_starred else "false"
    whole = _own(visit, session, "markdown", branch=reading.branch.number)
    changed = several(session.files, "changed file")
    files = link(address("files", session=session.id), words(changed))
    drawn = link(address("session", session.id, "map"), words("map"))
    return Html(
        '<div class="actions">'
        f'<button type="button" class="star" data-act="star" aria-pressed="{starred}">'
        "★ Star</button>"
        f"{find_in}"
        f'<button type="button" data-copy="{escape(resume)}" title="{escape(resume)}">'
        "Copy resume command</button>"
        f'<button type="button" data-act="copy" data-from="{escape(whole)}">'
        f"Copy as Markdown</button>{drawn}{files if session.files else ''}"
        f"{_notes(listed)}</div>"
    )


def _notes(listed: Listed) -> Html:
    """Return the tags and the note of a session, to be read and changed."""
    tags = escape(" ".join(safe_line(name) for name in listed.tags))
    return Html(
        '<form class="annotations" id="annotations">'
        '<label><span class="unseen">Tags</span><input type="text" name="tags" '
        f'placeholder="Tags" value="{tags}" maxlength="500"></label>'
        '<label><span class="unseen">Note</span><input type="text" name="note" '
        f'placeholder="A note" value="{escape(safe(listed.note))}" '
        'maxlength="4000"></label></form>'
    )


def _side() -> Html:
    return Html(
        '<aside class="outline" aria-label="Outline">'
        '<div class="kinds" role="group" aria-label="What the outline shows"></div>'
        '<ol id="outline" tabindex="0" aria-label="Outline of the session"></ol>'
        "</aside>"
    )


def _pager(visit: Visit, reading: Reading, at: int, stop: int) -> Html:
    """Return links to what is around this, for whoever runs no script."""
    session, branch = reading.facts, reading.branch.number
    before = max(at - WINDOW, 0) // WINDOW * WINDOW if at else None
    after = stop if stop < reading.total else None
    if before is None and after is None:
        return NOTHING
    links = []
    for start, told in ((before, "← Earlier"), (after, "Later →")):
        if start is None:
            links.append(Html("<span></span>"))
        else:
            asked = {"from": start, "branch": branch, "whole": 1}
            links.append(link(_own(visit, session, **asked), words(told)))
    place = words(f"{at + 1} to {stop} of {reading.total}")
    inner = joined((links[0], tag("span", place), links[1]))
    return tag("nav", inner, kind="pager", aria_label="Windows")
