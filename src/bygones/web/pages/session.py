"""The page of a session, and of an agent run in it: read in windows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
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

from bygones.errors import NotInArchive
from bygones.model.base import SessionId
from bygones.model.sessions import ConversationHeader, Message
from bygones.model.summary import MatchPositions, SessionSummary
from bygones.model.usage import Cost, sum_costs
from bygones.render.headers import window_header_facts
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    make_element_id,
    tag,
)
from bygones.render.html.session import HtmlOptions
from bygones.render.html.tool_calls import MAX_OUTPUT_CHARS
from bygones.render.markdown.session import (
    render_branch_markdown,
    render_window_markdown,
)
from bygones.render.numbers import pluralize
from bygones.render.step_renderer import RenderOptions
from bygones.render.text.primitives import sanitize, sanitize_line
from bygones.render.tool_detail import format_json
from bygones.usage.costs import SessionCosts
from bygones.usage.message_costs import has_single_price, make_message_pricer
from bygones.web.context import RequestContext
from bygones.web.conversation_view import WINDOW_SIZE, ConversationView, open_view
from bygones.web.layout import PageMeta, build_url, link, render_page
from bygones.web.pages.home import RUNNING_TIMEOUT, is_running
from bygones.web.pages.search import request_query
from bygones.web.pool import OpenSession

_HTTP_OK = 200
_MAX_RAW_BYTES = 2_000_000
_MAX_OUTPUT_CHARS = 4_000
"""Signs of a long output, beyond its beginning, with which a window comes."""


@contextmanager
def requested_view(
    context: RequestContext, summary: SessionSummary | None = None
) -> Iterator[ConversationView]:
    """Lend what a visit wants to read."""
    agent = context.request.path_params.get("agent", "")
    branch = context.query_int("branch", 0)
    with context.pool.session(context.path_param("id"), summary) as held:
        yield open_view(held, agent, branch)


def _conversation_url(
    context: RequestContext, facts: ConversationHeader, *rest: str, **query: object
) -> str:
    """Return an address below that of the conversation that is read."""
    agent = context.request.path_params.get("agent", "")
    parts = ("session", facts.id, *(("agent", agent) if agent else ()), *rest)
    return build_url(*parts, **query)


def _session_costs(
    context: RequestContext, open_session: OpenSession
) -> SessionCosts | None:
    """Return what a session and its agents cost; nothing where no prices are known."""
    found, prices = open_session.cache.get("costs"), context.app_state.prices
    if not isinstance(found, SessionCosts) and prices is not None:
        found = open_session.cache["costs"] = open_session.archive.session_costs(
            open_session.summary.id, prices
        )
    return found if isinstance(found, SessionCosts) else None


def _render_setting(context: RequestContext, view: ConversationView) -> HtmlOptions:
    session, prices = view.facts, context.app_state.prices
    costs = _session_costs(context, view.open_session)
    return HtmlOptions(
        zone=None,
        message_pricer=make_message_pricer(prices) if prices is not None else None,
        has_single_price=partial(has_single_price, prices)
        if prices is not None
        else bool,
        agent_costs=costs.by_agent if costs else {},
        agent_url=build_url("session", session.id, "agent", ""),
        branch_url=_conversation_url(context, session) + "?branch=",
        max_folded_chars=_MAX_OUTPUT_CHARS,
    )


def session_page(context: RequestContext) -> Response:
    """Answer with the page, and on it the window that is asked for.

    A page is kept as long as its session stays as it is.
    """
    name = f"{context.request.url.path}?{context.request.url.query}"
    listed = context.pool.session_summary(context.path_param("id"))
    stamp = (listed, is_running(listed, context.now))
    made = context.pool.cached_page(name, stamp)
    if made is not None:
        return HTMLResponse(made)
    answer = _render_session_page(context, listed)
    if answer.status_code == _HTTP_OK:
        context.pool.cache_page(name, stamp, bytes(answer.body))
    return answer


def _render_session_page(context: RequestContext, summary: SessionSummary) -> Response:
    with requested_view(context, summary) as reading:
        session, branch = reading.facts, reading.branch
        elsewhere = _redirect_url(context, reading)
        if elsewhere:
            return RedirectResponse(elsewhere, 303)
        at = _requested_message(context, reading)
        end = min((at // WINDOW_SIZE + 1) * WINDOW_SIZE, reading.message_count)
        setting = _render_setting(context, reading)
        if context.query_flag("whole"):
            drawn, stop = reading.render(at, end, setting), end
        else:
            drawn, stop = reading.render_first(at, end, setting)
        shown = tag(
            "section",
            drawn,
            kind="window",
            data_window=str(at // WINDOW_SIZE),
            data_from=str(at),
            data_until=str(stop),
        )
        top = _session_header(context, reading)
        body = Html(
            f'<div class="conversation" id="conversation" '
            f'data-session="{escape(session.id)}" '
            f'data-own="{escape(_conversation_url(context, session))}" '
            f'data-branch="{branch.number}" data-total="{reading.message_count}" '
            f'data-size="{WINDOW_SIZE}" data-running="{RUNNING_TIMEOUT.seconds}">'
            f"{shown}</div>{_pager(context, reading, at, stop)}"
        )
    frame = PageMeta(
        title=session.title.text or session.id,
        nav="/",
        css_class="reading",
        scripts=("session.js",),
    )
    return render_page(
        frame,
        (_outline_sidebar(), Html('<div class="column">'), top, body, _COLUMN_END),
    )


_COLUMN_END = Html("</div>")


def _redirect_url(context: RequestContext, view: ConversationView) -> str:
    """Return where a record is that this conversation does not hold, if it is."""
    name = context.query_param("at", 200)
    if not name or view.find_message(name) is not None:
        return ""
    held, session = view.open_session, view.facts.id
    talk = held.conversation()
    for branch in talk.facts.branches:
        if open_view(held, "", branch.number).find_message(name) is not None:
            return build_url("session", session, branch=branch.number, at=name)
    for run in talk.agent_ids:
        if open_view(held, run, 0).find_message(name) is not None:
            own = make_element_id("a", run)
            return build_url("session", session, "agent", own, at=name)
    return ""


def _requested_message(context: RequestContext, view: ConversationView) -> int:
    """Return the number of the message that a visit is about."""
    name = context.query_param("at", 200)
    if name:
        place = view.find_message(name)
        if place is None:
            raise NotInArchive("record", name)
        return place
    return min(context.query_int("from", 0), max(view.message_count - 1, 0))


def message_window(context: RequestContext) -> Response:
    """Answer with one window, or a part of it, and nothing around it."""
    with requested_view(context) as reading:
        at = _requested_message(context, reading)
        number = at // WINDOW_SIZE
        setting = _render_setting(context, reading)
        low, high = number * WINDOW_SIZE, (number + 1) * WINDOW_SIZE
        start = at if context.query_param("until") else low
        stop = min(context.query_int("until", high), high)
        if (start, stop) == (low, high):
            made = reading.render_window(number, setting)
        else:
            made = reading.render(start, stop, setting)
        headers = {
            "X-Total": str(reading.message_count),
            "X-Window": str(number),
            "X-Messages": str(reading.open_session.summary.message_count),
        }
    content = made.encode("utf-8", "backslashreplace")
    return HTMLResponse(content, headers=headers)


def full_message(context: RequestContext) -> Response:
    """Answer with one message, all of it, also what its window left out."""
    with requested_view(context) as reading:
        at = _requested_message(context, reading)
        setting = structs.replace(
            _render_setting(context, reading), max_folded_chars=MAX_OUTPUT_CHARS
        )
        made = reading.render(at, at + 1, setting)
    return HTMLResponse(made.encode("utf-8", "backslashreplace"))


def message_image(context: RequestContext) -> Response:
    """Answer with a picture of a message; its address changes when it does."""
    name = context.path_param("name")
    with requested_view(context) as reading:
        for one in reading.iter_images(_requested_message(context, reading)):
            if one.name == name:
                forever = {"Cache-Control": "private, max-age=31536000, immutable"}
                return Response(one.content, media_type=one.media_type, headers=forever)
    raise NotInArchive("picture", name)


def session_outline(context: RequestContext) -> Response:
    """Answer with the outline as JSON: kind, message, anchor and words of each line."""
    with requested_view(context) as reading:
        found = reading.outline(
            min(context.query_int("from", 0), reading.message_count)
        )
        marks = [
            (mark.kind, mark.message_number, mark.anchor, sanitize(mark.text))
            for mark in found
        ]
    return Response(msgspec.json.encode(marks), media_type="application/json")


def raw_records(context: RequestContext) -> Response:
    """Answer with the records of a message as they stand in the archive."""
    with requested_view(context) as reading:
        message = reading.message(_requested_message(context, reading))
        parts = list(_record_texts(message))
    return PlainTextResponse("\n\n".join(parts).encode("utf-8", "backslashreplace"))


def session_markdown(context: RequestContext) -> Response:
    """Answer with a message, or with the whole branch, as Markdown."""
    with requested_view(context) as reading:
        sheet = RenderOptions(zone=None)
        if context.query_param("at") or context.query_param("from"):
            at = _requested_message(context, reading)
            made = "".join(
                render_window_markdown(reading.load_window(at, at + 1), sheet)
            )
        else:
            made = "".join(render_branch_markdown(reading.iter_windows(), sheet))
    content = made.encode("utf-8", "backslashreplace")
    return PlainTextResponse(content, media_type="text/markdown")


def _record_texts(message: Message) -> Iterator[str]:
    places = {
        piece.position for piece in (*message.record_refs, *message.attached_refs)
    }
    for call in message.tool_calls:
        places |= {piece.position for piece in call.attached_refs}
        places |= {call.result_position} if call.result_position else set()
    for place in sorted(places, key=lambda one: (one.source_id, one.offset)):
        line = message.loader.read_raw(place)
        told = f"# {place.source_id}, byte {place.offset}"
        if len(line) > _MAX_RAW_BYTES:
            yield f"{told}: {pluralize(len(line), 'byte')}, too long to show"
        else:
            yield f"{told}\n{sanitize(format_json(line) or line.decode('utf-8', 'replace'))}"


def _session_header(context: RequestContext, view: ConversationView) -> Html:
    session, branch = view.facts, view.branch
    listed = view.open_session.summary
    agent = context.request.path_params.get("agent", "")
    told = window_header_facts(session, branch, None, _total_cost(context, view))
    pairs = (told[at] + told[at + 1] for at in range(0, len(told), 2))
    lines = [
        tag("p", join_html(map(_fact_span, pair), " · ")) for pair in pairs if any(pair)
    ]
    up = EMPTY_HTML
    if agent:
        back = build_url("session", session.id, at=agent)
        up = tag(
            "p",
            join_html(
                (
                    escape_line("An agent of "),
                    link(back, escape_line(listed.title.text)),
                )
            ),
            kind="up",
        )
    badge = EMPTY_HTML
    if is_running(listed, context.now):
        badge = tag("span", escape_line("running"), kind="running")
    title = tag(
        "h1",
        join_html((escape_line(session.title.text) or escape_line(session.id), badge)),
    )
    return tag(
        "header",
        join_html(
            (up, title, *lines, _branch_list(context, view), _action_bar(context, view))
        ),
        kind="top",
    )


def _fact_span(fact: str) -> Html:
    """Return something told of a session, kept on one line where there is room."""
    return tag("span", escape_line(fact), kind="fact") if fact else EMPTY_HTML


def _total_cost(context: RequestContext, view: ConversationView) -> Cost | None:
    """Return what all of a session cost, or an agent run with those below it."""
    costs, facts = _session_costs(context, view.open_session), view.facts
    if costs is None:
        return None
    if facts.agent_id is None:
        return costs.total
    below = [run.id for run in view.iter_agent_runs()] if facts.agent_count else []
    return sum_costs(map(costs.by_agent.get, (facts.agent_id, *below)))


def _branch_list(context: RequestContext, view: ConversationView) -> Html:
    session = view.facts
    if len(session.branches) < 2:  # noqa: PLR2004 (one is no choice)
        return EMPTY_HTML
    lines = []
    for branch in session.branches:
        head = branch.preview[:60]
        name = "live branch" if branch.is_live else f"branch {branch.number + 1}"
        told = f"{name}: {head}" if head else name
        to = _conversation_url(context, session, branch=branch.number)
        is_here = branch.number == view.branch.number
        lines.append(
            tag(
                "li",
                tag(
                    "a",
                    escape_line(told),
                    href=to,
                    aria_current="page" if is_here else "",
                ),
            )
        )
    count = escape_line(pluralize(len(session.branches), "branch", "branches"))
    return Html(
        f'<details class="branches"><summary>{count}</summary>'
        f"<ul>{join_html(lines)}</ul></details>"
    )


def _action_bar(context: RequestContext, view: ConversationView) -> Html:
    """Return what can be done with a session; an agent run can only be looked into."""
    session, listed = view.facts, view.open_session.summary
    find_in = (
        '<button type="button" data-act="find">Find <kbd>f</kbd></button>'
        '<button type="button" data-act="outline" class="only-narrow">Outline</button>'
    )
    if context.request.path_params.get("agent"):
        return Html(f'<div class="actions">{find_in}</div>')
    resume = sanitize_line(shlex.join(["claude", "--resume", session.id]))
    if session.project:
        resume = f"{sanitize_line(shlex.join(['cd', session.project]))} && {resume}"
    starred = "true" if listed.is_starred else "false"
    whole = _conversation_url(context, session, "markdown", branch=view.branch.number)
    changed = pluralize(session.file_count, "changed file")
    files = link(build_url("files", session=session.id), escape_line(changed))
    drawn = link(build_url("session", session.id, "map"), escape_line("map"))
    return Html(
        '<div class="actions">'
        f'<button type="button" class="star" data-act="star" aria-pressed="{starred}">'
        "★ Star</button>"
        f"{find_in}"
        f'<button type="button" data-copy="{escape(resume)}" title="{escape(resume)}">'
        "Copy resume command</button>"
        f'<button type="button" data-act="copy" data-from="{escape(whole)}">'
        f"Copy as Markdown</button>{drawn}{files if session.file_count else ''}"
        f"{_annotation_form(listed)}</div>"
    )


def _annotation_form(summary: SessionSummary) -> Html:
    """Return the tags and the note of a session, to be read and changed."""
    tags = escape(" ".join(sanitize_line(name) for name in summary.tags))
    return Html(
        '<form class="annotations" id="annotations">'
        '<label><span class="unseen">Tags</span><input type="text" name="tags" '
        f'placeholder="Tags" value="{tags}" maxlength="500"></label>'
        '<label><span class="unseen">Note</span><input type="text" name="note" '
        f'placeholder="A note" value="{escape(sanitize(summary.note))}" '
        'maxlength="4000"></label></form>'
    )


def _outline_sidebar() -> Html:
    return Html(
        '<aside class="outline" aria-label="Outline">'
        '<div class="kinds" role="group" aria-label="What the outline shows"></div>'
        '<ol id="outline" tabindex="0" aria-label="Outline of the session"></ol>'
        "</aside>"
    )


def _pager(context: RequestContext, view: ConversationView, at: int, stop: int) -> Html:
    """Return links to what is around this, for whoever runs no script."""
    session, branch = view.facts, view.branch.number
    before = max(at - WINDOW_SIZE, 0) // WINDOW_SIZE * WINDOW_SIZE if at else None
    after = stop if stop < view.message_count else None
    if before is None and after is None:
        return EMPTY_HTML
    links = []
    for start, told in ((before, "← Earlier"), (after, "Later →")):
        if start is None:
            links.append(Html("<span></span>"))
        else:
            asked = {"from": start, "branch": branch, "whole": 1}
            links.append(
                link(_conversation_url(context, session, **asked), escape_line(told))
            )
    place = escape_line(f"{at + 1} to {stop} of {view.message_count}")
    inner = join_html((links[0], tag("span", place), links[1]))
    return tag("nav", inner, kind="pager", aria_label="Windows")


_SEVERAL_WORDS = re.compile(r"[^\W_]+(?: +[^\W_]+)+")
_MAX_LABEL = 60

_OtherMatch = tuple[str, int, str]
"""What a branch or an agent is called, in how many messages, and where."""


def find_in_session(context: RequestContext) -> Response:
    """Answer with the messages of a conversation where words stand, in its order.

    What stands on other branches of the session and in its agents is counted by them,
    and it is told where; so is as what the words were found, for them to be marked.
    """
    typed = context.query_param("q")
    with requested_view(context) as reading:
        found = (
            _match_positions(context, typed, reading.facts.id)
            if typed
            else MatchPositions()
        )
        places = _matched_messages(reading.record_locations, found.record_numbers)
        others = (
            list(_matches_elsewhere(reading, found, typed))
            if found.record_numbers
            else []
        )
    told = {
        "places": places,
        "others": others,
        "is_partial": found.is_partial,
        "written": found.runs,
        "begun": found.prefixes,
    }
    return Response(msgspec.json.encode(told), media_type="application/json")


def _match_positions(
    context: RequestContext, query_text: str, session: SessionId
) -> MatchPositions:
    """Return what is found: words as they stand together, else apart."""
    ways = (
        [f'"{query_text}"', query_text]
        if _SEVERAL_WORDS.fullmatch(query_text)
        else [query_text]
    )
    found = MatchPositions()
    with context.pool.archive() as archive:
        for way in ways:
            found = archive.match_positions(request_query(context, way), session)
            if found.record_numbers:
                break
    return found


def _matched_messages(
    locations: Mapping[int, tuple[int, str]], records: frozenset[int]
) -> list[tuple[int, str]]:
    """Return the messages that records are of, by their numbers, and their anchors."""
    return sorted({locations[number] for number in locations.keys() & records})


def _matches_elsewhere(
    view: ConversationView, positions: MatchPositions, query_text: str
) -> Iterator[_OtherMatch]:
    """Yield the other ways through a session on which something was found.

    All are looked at. What branches share counts for the one that others left.
    """
    held, left = (
        view.open_session,
        positions.record_numbers - view.record_locations.keys(),
    )
    talk = held.conversation()
    ways = [("", branch.number) for branch in talk.facts.branches]
    ways += [(run, 0) for run in talk.agent_ids]
    own = (view.facts.agent_id or "", view.branch.number)
    for agent, branch in [way for way in ways if way != own]:
        if not left:
            return
        other = open_view(held, agent, branch)
        places = _matched_messages(other.own_record_locations, left)
        left -= other.own_record_locations.keys()
        if places:
            to = _match_url(other, places[0][1], query_text)
            yield _branch_label(other.facts, branch), len(places), to


def _branch_label(facts: ConversationHeader, number: int) -> str:
    if facts.agent_id:
        return sanitize_line(facts.title.text)[:_MAX_LABEL]
    branch = facts.find_branch(number)
    if branch is None or branch.is_live:
        return "the live branch"
    return f"branch {number + 1}: {sanitize_line(branch.preview)[:_MAX_LABEL]}".rstrip(
        ": "
    )


def _match_url(view: ConversationView, anchor_id: str, query_text: str) -> str:
    facts = view.facts
    agent = ("agent", make_element_id("a", facts.agent_id)) if facts.agent_id else ()
    parts = ("session", facts.id, *agent)
    return build_url(*parts, branch=view.branch.number, at=anchor_id, find=query_text)
