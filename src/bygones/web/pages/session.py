"""The page of a session or of an agent run, and the parts that its script loads."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from html import escape

import msgspec
from msgspec import structs
from starlette.responses import (
    HTMLResponse,
    RedirectResponse,
    Response,
)

from bygones.archive import Archive
from bygones.errors import BygonesError, NotInArchive
from bygones.model.summary import SessionSummary
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    make_element_id,
    render_facts,
    strip_inline,
    tag,
)
from bygones.render.html.session import HtmlOptions
from bygones.render.html.tool_calls import MAX_OUTPUT_CHARS
from bygones.render.numbers import format_age, pluralize
from bygones.render.text.primitives import sanitize
from bygones.web.context import RequestContext
from bygones.web.conversation_view import (
    WINDOW_SIZE,
    ConversationView,
)
from bygones.web.icons import icon
from bygones.web.layout import (
    RUNNING_TIMEOUT,
    PageMeta,
    build_url,
    conversation_url,
    empty_message,
    html_response,
    is_running,
    link,
    pager,
    render_page,
    short_path,
)
from bygones.web.marking import (
    HIT_MARK,
    NEAR_CHARS,
    FindSpans,
    excerpt_of_values,
    mark_most_similar,
    mark_words,
)
from bygones.web.pages.session_header import session_header
from bygones.web.pages.session_request import (
    html_options,
    other_views,
    requested_message,
    requested_view,
)
from bygones.web.pages.session_timeline import MIN_MESSAGES
from bygones.web.session_filters import session_time

_HTTP_OK = 200


_MAX_HIT_CHARS = 200_000
"""The same for the message of a search result."""


def session_page(context: RequestContext) -> Response:
    """Return the page with the requested window; it is cached until it changes."""
    key = f"{context.request.url.path}?{context.request.url.query}"
    summary = context.pool.session_summary(context.path_param("id"))
    version = (summary, is_running(summary, context.now))
    content = context.pool.cached_page(key, version)
    if content is not None:
        return HTMLResponse(content)
    response = _render_session_page(context, summary)
    if response.status_code == _HTTP_OK:
        context.pool.cache_page(key, version, bytes(response.body))
    return response


def _render_session_page(context: RequestContext, summary: SessionSummary) -> Response:
    with requested_view(context, summary) as view:
        session, branch = view.facts, view.branch
        redirect_url = _target_url(context, view)
        if redirect_url:
            return RedirectResponse(redirect_url, 303)
        at = requested_message(context, view)
        end = min((at // WINDOW_SIZE + 1) * WINDOW_SIZE, view.message_count)
        options = html_options(context, view)
        is_hit = bool(context.query_param("find") and context.query_param("at"))
        if is_hit:
            # The matched words may be in a part that is loaded later otherwise.
            options = structs.replace(options, max_folded_chars=_MAX_HIT_CHARS)
        if context.query_flag("whole"):
            messages, stop = view.render(at, end, options), end
        else:
            # Highlighting takes longer than all else; a script loads the colors.
            options = structs.replace(options, has_colors=is_hit)
            messages, stop = view.render_first(at, end, options)
        if not view.message_count:
            messages = _no_messages(view)
        if is_hit:
            messages = _mark_hit(context, view, at, messages)
        window = tag(
            "section",
            messages,
            kind="window",
            data_window=str(at // WINDOW_SIZE),
            data_from=str(at),
            data_until=str(stop),
        )
        header = join_html(
            (
                session_header(context, view),
                _TIMELINE if view.message_count >= MIN_MESSAGES else EMPTY_HTML,
                _SWITCHES,
            )
        )
        body = Html(
            f'<div class="conversation" id="conversation" '
            f'data-session="{escape(session.id)}" '
            f'data-own="{escape(view.url(branch=0))}" '
            f'data-branch="{branch.number}" data-total="{view.message_count}" '
            f'data-size="{WINDOW_SIZE}" data-sent="{int(bool(context.pool.folder))}" '
            f'data-running="{RUNNING_TIMEOUT.seconds}">'
            f"{_spacer(at)}{window}</div>{_message_pager(view, at, stop)}"
        )
    page = PageMeta(
        title=session.title.text or session.id,
        nav="/",
        css_class="reading finding" if is_hit else "reading",
        scripts=("session.js",),
        styles=("session.css",),
    )
    return render_page(
        page,
        (_OUTLINE_SIDEBAR, Html('<div class="column">'), header, body, Html("</div>")),
    )


def _no_messages(view: ConversationView) -> Html:
    """Return what the page of a session shows that has no messages of its own."""
    hint = EMPTY_HTML
    if view.facts.agent_count and not view.facts.agent_id:
        url = conversation_url(view.facts.id, "map")
        count = pluralize(view.facts.agent_count, "agent run")
        hint = tag("p", link(url, escape_line(f"Show {count} in the map")))
    return empty_message("This session has no messages.", hint)


def _spacer(at: int) -> Html:
    """Return room for the windows before the first one, which the script fills.

    With it, a browser scrolls to the message that the URL names before the first paint,
    and nothing moves when the script has started.
    """
    count = at // WINDOW_SIZE
    if not count:
        return EMPTY_HTML
    height = count * _WINDOW_HEIGHT
    return Html(
        f'<svg class="spacer only-scripted" width="1" height="{height}" '
        f'data-window-height="{_WINDOW_HEIGHT}" aria-hidden="true"></svg>'
    )


_WINDOW_HEIGHT = 2100
"""Pixels that a window is expected to need, until it has been measured."""
_SESSIONS_BEFORE, _SESSIONS_BESIDE = 20, 80
"""Newer sessions, and all, that are listed beside a session."""
_ARTICLE_ID = re.compile(r'<article [^>]*?\bid="([^"]+)"')


def _target_url(context: RequestContext, view: ConversationView) -> str:
    """Return the URL of the message that contains a record, with its anchor.

    Empty if the request names an anchor of this branch. The message may be on another
    branch or in an agent run. For a record that is not shown, it is the message before.
    """
    name = context.query_param("at", 200)
    if not name or view.has_anchor(name):
        return ""
    for candidate in (view, *other_views(view)):
        number = candidate.find_message(name)
        if number is not None:
            break
    else:
        candidate, number = _find_near_record(context, view, name)
    options = html_options(context, candidate)
    anchor = _shown_anchor(candidate, number, name, options)
    query_text = context.query_param("find")
    query = {}
    if query_text:
        near = context.query_param("near", sum(NEAR_CHARS))
        query = {"find": query_text, "hit": name, "near": near}
    url = candidate.url(at=anchor, **query)
    return f"{url}#{anchor}"


def _shown_anchor(
    view: ConversationView, number: int, name: str, options: HtmlOptions
) -> str:
    """Return the anchor of a message, or of the next one that is shown."""
    agent_anchor = make_element_id("a", name)
    for at in range(number, min(number + WINDOW_SIZE, view.message_count)):
        html = view.render(at, at + 1, options)
        if f'id="{agent_anchor}"' in html:
            return agent_anchor
        article = _ARTICLE_ID.search(html)
        if article is not None:
            return article[1]
    return make_element_id("m", view.message(number).id)


def _find_near_record(
    context: RequestContext, view: ConversationView, name: str
) -> tuple[ConversationView, int]:
    """Return the last message before a record that no message contains.

    A record without an id is named by its offset in the file.
    """
    is_offset = re.fullmatch(r"@[0-9]{1,15}", name)
    offsets: dict[str, int] = {}
    if not is_offset:
        with context.pool.archive() as archive:
            record = archive.record(name)
        positions = (record.position, *record.copy_positions)
        offsets = {position.source_id: position.offset for position in positions}
    for candidate in (view, *other_views(view)):
        starts = candidate.message_positions
        if is_offset and starts:
            offsets = {starts[0][1].source_id: int(name[1:])}
        before = [
            number
            for number, position in starts
            if position.offset <= offsets.get(position.source_id, -1)
        ]
        if before:
            return candidate, before[-1]
    return view, 0


def _mark_hit(
    context: RequestContext, view: ConversationView, at: int, messages: Html
) -> Html:
    """Mark the words of a query in the first message of a page.

    The match that the search results showed may be in a part that the page does not show.
    """
    record = context.query_param("hit", 200)
    near = context.query_param("near", sum(NEAR_CHARS))
    with context.pool.archive() as archive:
        query = context.parse_query(context.query_param("find"))
        positions = archive.match_positions(query, view.facts.id)
    find_spans = partial(Archive.find_words, positions=positions)
    calls = view.message(at).tool_calls if view.message_count else ()
    ids = {
        make_element_id("c", call.id)
        for call in calls
        if record and record in {call.record_id, call.result_record_id}
    }
    start = messages.find("<article ")
    stop = messages.find("</article>", start)
    if min(start, stop) < 0:
        return messages
    article = Html(messages[start:stop])
    marked, note = mark_words(article, find_spans, ids, near), EMPTY_HTML
    if HIT_MARK not in marked:
        note = _unshown_match(context, record, find_spans, near)
    if near and not note and HIT_MARK not in marked:
        marked = mark_most_similar(article, find_spans, ids, near)
    return Html(f"{messages[:start]}{marked}{note}{messages[stop:]}")


def _unshown_match(
    context: RequestContext, record: str, find_spans: FindSpans, near: str
) -> Html:
    """Return a match in a part of a record that the page does not show."""
    excerpt = EMPTY_HTML
    with suppress(BygonesError, msgspec.DecodeError), context.pool.archive() as archive:
        raw = archive.record(record).raw
        excerpt = excerpt_of_values(msgspec.json.decode(raw), find_spans, near)
    if not excerpt:
        return EMPTY_HTML
    label = escape_line("Matches in a part that is not shown: ")
    return tag("p", join_html((label, excerpt)), kind="note")


def message_window(context: RequestContext) -> Response:
    """Return one window, or a part of it."""
    with requested_view(context) as view:
        at = requested_message(context, view)
        number = at // WINDOW_SIZE
        options = html_options(context, view)
        low, high = number * WINDOW_SIZE, (number + 1) * WINDOW_SIZE
        start = at if context.query_param("until") else low
        stop = min(context.query_int("until", high), high)
        if (start, stop) == (low, high):
            html = view.render_window(number, options)
        else:
            html = view.render(start, stop, options)
        headers = {
            "X-Total": str(view.message_count),
            "X-Window": str(number),
            "X-Messages": str(view.open_session.summary.message_count),
        }
    return html_response(html, headers)


def full_message(context: RequestContext) -> Response:
    """Return one message with the complete output of its tools."""
    with requested_view(context) as view:
        at = requested_message(context, view)
        options = structs.replace(
            html_options(context, view), max_folded_chars=MAX_OUTPUT_CHARS
        )
        html = view.render(at, at + 1, options)
    return html_response(html)


def message_image(context: RequestContext) -> Response:
    """Return an image of a message; its URL contains a hash, so browsers keep it."""
    name = context.path_param("name")
    with requested_view(context) as view:
        for image in view.iter_images(requested_message(context, view)):
            if image.name == name:
                headers = {"Cache-Control": "private, max-age=31536000, immutable"}
                return Response(image.content, 200, headers, image.media_type)
    raise NotInArchive("picture", name)


def session_outline(context: RequestContext) -> Response:
    """Return the outline as JSON: kind, message number, anchor and text."""
    with requested_view(context) as view:
        start = min(context.query_int("from", 0), view.message_count)
        entries = [
            (
                entry.kind,
                entry.message_number,
                entry.anchor,
                strip_inline(sanitize(entry.text)),
            )
            for entry in view.outline(start)
        ]
    return Response(msgspec.json.encode(entries), media_type="application/json")


_OUTLINE_SIDEBAR = Html(
    '<aside class="outline" aria-label="Outline">'
    '<div class="sidebar-tabs only-scripted" role="group" aria-label="Sidebar">'
    '<button type="button" data-side="outline" aria-pressed="true">Outline</button>'
    '<button type="button" data-side="sessions" aria-pressed="false">Sessions</button>'
    "</div>"
    '<button type="button" class="only-narrow close" data-act="close-outline" '
    f'aria-label="Close outline" title="Close outline">{icon("close")}</button>'
    '<div class="outline-filters" role="group" aria-label="Outline filters"></div>'
    '<ol id="outline" tabindex="0" aria-label="Outline of the session"></ol>'
    '<div id="beside" tabindex="0" aria-label="Other sessions" role="group" hidden></div>'
    "</aside>"
)


def sessions_beside(context: RequestContext) -> Response:
    """Return the sessions before and after one in the list, as links."""
    name = context.pool.session_summary(context.path_param("id")).id
    listed = [one for one in context.pool.summaries() if not one.is_empty]
    at = next((at for at, one in enumerate(listed) if one.id == name), 0)
    start = max(at - _SESSIONS_BEFORE, 0)
    items = (
        tag(
            "li",
            tag(
                "a",
                join_html(
                    (
                        tag("span", escape_line(one.title.text or one.id)),
                        tag(
                            "small",
                            render_facts(
                                (
                                    short_path(one.project or ""),
                                    format_age(time, context.now) if time else "",
                                )
                            ),
                        ),
                    )
                ),
                href=build_url("session", one.id),
                aria_current="page" if one.id == name else "",
            ),
        )
        for one in listed[start : start + _SESSIONS_BESIDE]
        for time in (session_time(one),)
    )
    return html_response(tag("ul", join_html(items), kind="beside"))


_TIMELINE = Html(
    '<div class="timeline-strip only-scripted" id="session-timeline"></div>'
)
_SWITCHES = Html(
    '<fieldset class="switches"><legend class="visually-hidden">Show</legend>'
    '<label><input type="checkbox" id="show-tools" autocomplete="off" checked> Tools'
    '</label><label><input type="checkbox" id="show-thinking" autocomplete="off" '
    "checked> Thinking</label></fieldset>"
)


def _message_pager(view: ConversationView, at: int, stop: int) -> Html:
    """Return links to the windows before and after, for browsers without scripts."""

    def window_url(start: int) -> str:
        return view.url(**{"from": start, "whole": 1})

    previous = max(at - WINDOW_SIZE, 0) // WINDOW_SIZE * WINDOW_SIZE
    return pager(
        ("← Earlier", window_url(previous) if at else ""),
        f"{at + 1} to {stop} of {view.message_count}",
        ("Later →", window_url(stop) if stop < view.message_count else ""),
        label="Messages",
    )
