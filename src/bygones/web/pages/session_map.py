"""The map of a session: its turns, branches and agents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from starlette.responses import (
    Response,
)

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
from bygones.web.conversation_view import (
    MAX_ASSEMBLED_MESSAGES,
    open_view,
)
from bygones.web.layout import (
    PageMeta,
    build_url,
    conversation_url,
    link,
    pager,
    render_page,
)
from bygones.web.pool import OpenSession

_PAGE_SIZE = 5000


_MAX_DEPTH = 8


def session_map_page(context: RequestContext) -> Response:
    """Return the map; every line is a link.

    Of a very long session, only the shown part of the live branch is read.
    """
    with context.pool.session(context.path_param("id")) as open_session:
        summary = open_session.summary
        is_long = summary.message_count > MAX_ASSEMBLED_MESSAGES
        if is_long:
            lines = _live_branch_lines(open_session)
        else:
            lines = _session_lines(context, open_session)
        start = context.query_int("from", 0) // _PAGE_SIZE * _PAGE_SIZE
        items = [
            _map_item(summary.id, line)
            for line in islice(lines, start, start + _PAGE_SIZE)
        ]
        has_more = next(lines, None) is not None
    back = link(conversation_url(summary.id), escape_line(summary.title.text))
    note = (
        f"This session has {pluralize(summary.message_count, 'message')}. Its map shows "
        "the live branch and a line for each abandoned branch, without costs."
    )
    main = (
        tag("h1", escape_line("Session map")),
        tag("p", back),
        tag("p", escape_line(note), kind="note") if is_long else EMPTY_HTML,
        tag("ol", join_html(items), kind="map"),
        _map_pager(summary.id, start, len(items), has_more=has_more),
    )
    page = PageMeta(
        title=f"Map: {summary.title.text}",
        nav="/",
        css_class="wide",
        styles=("session.css",),
    )
    return render_page(page, main)


def _map_pager(session: SessionId, start: int, count: int, *, has_more: bool) -> Html:
    def part_url(first: int) -> str:
        query: dict[str, object] = {"from": first}
        return build_url("session", session, "map", **query)

    return pager(
        ("← Earlier", part_url(start - _PAGE_SIZE) if start else ""),
        f"lines {start + 1:,} to {start + count:,}",
        ("Later →", part_url(start + _PAGE_SIZE) if has_more else ""),
        label="Lines",
    )


def _session_lines(
    context: RequestContext, open_session: OpenSession
) -> Iterator[TreeLine]:
    prices = context.app_state.prices
    return iter_tree_lines(
        open_session.session, prices.compute_cost if prices else None
    )


def _live_branch_lines(open_session: OpenSession) -> Iterator[TreeLine]:
    view = open_view(open_session, "", 0)
    return iter_branch_tree_lines(view.facts, view.iter_turns())


def _map_item(session: SessionId, line: TreeLine) -> Html:
    facts = [
        pluralize(line.calls, "call") if line.calls else "",
        f"{pluralize(line.changed_files, 'file')} changed"
        if line.changed_files
        else "",
        format_duration(line.duration) if line.duration else "",
        f"{format_tokens(line.usage.total)} tokens" if line.usage.total else "",
        format_cost(line.cost) if line.usage.total else "",
    ]
    name = line.text or str(line.kind)
    if line.kind is TreeLineKind.BRANCH:
        name = f"{line.name}: {name}"
    elif line.kind is TreeLineKind.OTHER:
        name = f"elsewhere: {name}"
    inner = join_html(
        (
            link(_line_url(session, line), escape_line(name)),
            tag("span", render_facts(facts), kind="note"),
        ),
        " ",
    )
    return tag("li", inner, kind=f"k-{line.kind} d{min(line.depth, _MAX_DEPTH)}")


def _line_url(session: SessionId, line: TreeLine) -> str:
    if line.agent is not None:
        return conversation_url(session, agent=line.agent)
    if line.kind is TreeLineKind.BRANCH or line.record is None:
        return conversation_url(session, branch=line.branch)
    anchor = make_element_id("m", line.record)
    return conversation_url(session, branch=line.branch, at=anchor)
