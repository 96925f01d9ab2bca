"""The map of a session: its turns, branches, agents and compactions at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from starlette.responses import Response

from bygones.model.base import SessionId
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    make_element_id,
    render_facts,
    tag,
)
from bygones.render.numbers import (
    format_cost,
    format_duration,
    format_tokens,
    pluralize,
)
from bygones.render.session_tree import (
    TreeLine,
    TreeLineKind,
    iter_branch_tree_lines,
    iter_tree_lines,
)
from bygones.web.context import RequestContext
from bygones.web.conversation_view import MAX_ASSEMBLED_MESSAGES, open_view
from bygones.web.layout import PageMeta, build_url, link, render_page
from bygones.web.pool import OpenSession

__all__ = ["session_map_page"]

_PAGE_SIZE = 5000
_MAX_DEPTH = 8


def session_map_page(context: RequestContext) -> Response:
    """Answer with the map; every line leads to its place.

    Of a very long session only the live branch is read, and only as far as it is shown.
    """
    with context.pool.session(context.path_param("id")) as held:
        listed = held.summary
        is_long = listed.message_count > MAX_ASSEMBLED_MESSAGES
        found = _live_branch_marks(held) if is_long else _session_marks(context, held)
        start = context.query_int("from", 0) // _PAGE_SIZE * _PAGE_SIZE
        shown = islice(found, start, start + _PAGE_SIZE)
        drawn = [_map_item(listed.id, mark) for mark in shown]
        has_more = next(found, None) is not None
    back = link(build_url("session", listed.id), escape_line(listed.title.text))
    told = (
        f"{pluralize(listed.message_count, 'message')}: the live branch, without cost."
    )
    main = (
        tag("h1", escape_line("Map of a session")),
        tag("p", back),
        tag("p", escape_line(told), kind="note") if is_long else EMPTY_HTML,
        tag("ol", join_html(drawn), kind="map"),
        _pager(listed.id, start, len(drawn), has_more=has_more),
    )
    frame = PageMeta(title=f"Map: {listed.title.text}", nav="/", css_class="wide")
    return render_page(frame, main)


def _pager(session: SessionId, start: int, count: int, *, has_more: bool) -> Html:
    """Return links to the lines before and behind those that are shown."""
    if not start and not has_more:
        return EMPTY_HTML
    own = ("session", session, "map")
    before = build_url(*own, **{"from": start - _PAGE_SIZE}) if start else ""
    after = build_url(*own, **{"from": start + _PAGE_SIZE}) if has_more else ""
    sides = [
        link(to, escape_line(told)) if to else Html("<span></span>")
        for to, told in ((before, "← Earlier"), (after, "Later →"))
    ]
    place = tag("span", escape_line(f"lines {start + 1:,} to {start + count:,}"))
    inner = join_html((sides[0], place, sides[1]))
    return tag("nav", inner, kind="pager", aria_label="Lines")


def _session_marks(
    context: RequestContext, open_session: OpenSession
) -> Iterator[TreeLine]:
    prices = context.app_state.prices
    return iter_tree_lines(
        open_session.session, prices.compute_cost if prices else None
    )


def _live_branch_marks(open_session: OpenSession) -> Iterator[TreeLine]:
    reading = open_view(open_session, "", 0)
    return iter_branch_tree_lines(reading.facts, reading.iter_turns())


def _map_item(session: SessionId, mark: TreeLine) -> Html:
    told = [
        pluralize(mark.calls, "call") if mark.calls else "",
        format_duration(mark.duration) if mark.duration else "",
        f"{format_tokens(mark.usage.total)} tokens" if mark.usage.total else "",
        format_cost(mark.cost) if mark.usage.total else "",
    ]
    name = mark.text or str(mark.kind)
    if mark.kind is TreeLineKind.BRANCH:
        name = f"branch {mark.branch + 1}: {name}"
    elif mark.kind is TreeLineKind.OTHER:
        name = f"elsewhere: {name}"
    inner = join_html(
        (
            link(_mark_url(session, mark), escape_line(name)),
            tag("span", render_facts(told), kind="note"),
        ),
        " ",
    )
    return tag("li", inner, kind=f"k-{mark.kind} d{min(mark.depth, _MAX_DEPTH)}")


def _mark_url(session: SessionId, mark: TreeLine) -> str:
    if mark.agent is not None:
        return build_url("session", session, "agent", make_element_id("a", mark.agent))
    if mark.kind is TreeLineKind.BRANCH or mark.record is None:
        return build_url("session", session, branch=mark.branch)
    return build_url("session", session, branch=mark.branch, at=mark.record)
