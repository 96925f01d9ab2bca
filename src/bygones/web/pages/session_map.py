"""The map of a session: its turns, branches and agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct
from starlette.responses import (
    Response,
)

from bygones.model.base import SessionId
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    format_inline,
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
    session_link,
)
from bygones.web.pool import OpenSession

_PAGE_SIZE = 5000


_MAX_DEPTH = 8
_LANE_WIDTH, _ROW_HEIGHT = 18, 30


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
        shown = list(islice(lines, start, start + _PAGE_SIZE))
        items = [
            _map_item(summary.id, line, lanes)
            for line, lanes in zip(shown, _find_lanes(shown), strict=True)
        ]
        has_more = next(lines, None) is not None
    note = (
        f"This session has {pluralize(summary.message_count, 'message')}. Its map shows "
        "the live branch and a line for each abandoned branch, without costs."
    )
    main = (
        tag("h1", escape_line("Session map")),
        tag("p", session_link(summary)),
        tag("p", escape_line(note), kind="note") if is_long else EMPTY_HTML,
        tag("ol", join_html(items), kind="map"),
        _map_pager(summary.id, start, len(items), has_more=has_more),
    )
    page = PageMeta(
        title=f"Map: {summary.title.text or summary.id}",
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


class _Lanes(Struct, frozen=True):
    """Where a line of the map is in the graph, and which lanes pass it."""

    own: int
    passing: frozenset[int]
    """Lanes that continue from the line above to the line below."""
    has_above: bool
    has_below: bool


def _lane(line: TreeLine) -> int:
    # A branch is drawn where its turns are.
    lane = line.depth + (line.kind is TreeLineKind.BRANCH)
    return min(lane, _MAX_DEPTH)


def _find_lanes(lines: Sequence[TreeLine]) -> list[_Lanes]:
    """Return the lanes of each line; agents are beside the lane of their caller."""
    below: list[frozenset[int]] = []
    open_lanes: set[int] = set()
    for line in reversed(lines):
        below.append(frozenset(open_lanes))
        if line.kind is not TreeLineKind.AGENT:
            lane = _lane(line)
            open_lanes = {one for one in open_lanes if one < lane} | {lane}
            # A lane starts at the lane that it forks from.
            open_lanes |= {lane - 1} if lane and _starts_lane(line) else set()
    below.reverse()
    result = []
    seen: set[int] = set()
    for line, following in zip(lines, below, strict=True):
        lane = _lane(line)
        if line.kind is TreeLineKind.AGENT:
            result.append(
                _Lanes(
                    lane, frozenset(following & seen), has_above=False, has_below=False
                )
            )
            continue
        is_start = _starts_lane(line)
        above = {one for one in seen if one <= lane}
        result.append(
            _Lanes(
                lane,
                frozenset(one for one in following & above if one < lane),
                has_above=lane in above and not is_start,
                has_below=lane in following,
            )
        )
        seen = {one for one in above if one < lane} | {lane}
    return result


def _starts_lane(line: TreeLine) -> bool:
    return line.kind is TreeLineKind.BRANCH


def _draw_lanes(line: TreeLine, lanes: _Lanes) -> Html:
    """Return the part of the graph beside one line."""
    middle = _ROW_HEIGHT / 2

    def x(lane: int) -> float:
        return (lane + 0.5) * _LANE_WIDTH

    parts = [
        f'<path class="l{min(lane, 1)}" d="M{x(lane)} 0V{_ROW_HEIGHT}"/>'
        for lane in sorted(lanes.passing)
    ]
    own = x(lanes.own)
    color = "l3" if line.kind is TreeLineKind.AGENT else f"l{min(lanes.own, 1)}"
    if lanes.has_above:
        parts.append(f'<path class="{color}" d="M{own} 0V{middle}"/>')
    elif lanes.own and line.kind is TreeLineKind.AGENT:
        parts.append(f'<path class="{color}" d="M{x(lanes.own - 1)} {middle}H{own}"/>')
    elif lanes.own:
        start = x(lanes.own - 1)
        parts.append(
            f'<path class="{color}" d="M{start} 0C{start} {middle} {own} 0 '
            f'{own} {middle}"/>'
        )
    if lanes.has_below:
        parts.append(f'<path class="{color}" d="M{own} {middle}V{_ROW_HEIGHT}"/>')
    match line.kind:
        case TreeLineKind.AGENT:
            node = f"M{own - 5} {middle}l5 -5 5 5 -5 5z"
        case TreeLineKind.COMPACTION | TreeLineKind.SUMMARY | TreeLineKind.OTHER:
            node = f"M{own - 5} {middle - 2}h10v4h-10z"
        case TreeLineKind.TURN | TreeLineKind.BRANCH:
            node = f"M{own - 4.5} {middle}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0"
    parts.append(f'<path class="node {color}" d="{node}"/>')
    width = (min(lanes.own, _MAX_DEPTH) + 1.25) * _LANE_WIDTH
    width = max(width, x(max(lanes.passing, default=0)) + _LANE_WIDTH)
    return Html(
        f'<svg class="lanes" width="{width:g}" height="{_ROW_HEIGHT}" '
        f'viewBox="0 0 {width:g} {_ROW_HEIGHT}" aria-hidden="true">{"".join(parts)}</svg>'
    )


def _map_item(session: SessionId, line: TreeLine, lanes: _Lanes) -> Html:
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
    parts = [
        link(_line_url(session, line), format_inline(escape_line(name))),
        tag("span", render_facts(facts), kind="note"),
        _draw_lanes(line, lanes),
    ]
    if line.kind is TreeLineKind.BRANCH:
        url = conversation_url(session, "compare", right=str(line.branch))
        parts.append(link(url, escape_line("Compare"), "compare-link"))
    css_class = f"k-{line.kind} d{min(line.depth, _MAX_DEPTH)}"
    return tag("li", join_html(parts, " "), kind=css_class)


def _line_url(session: SessionId, line: TreeLine) -> str:
    if line.agent is not None:
        return conversation_url(session, agent=line.agent)
    if line.kind is TreeLineKind.BRANCH or line.record is None:
        return conversation_url(session, branch=line.branch)
    anchor = make_element_id("m", line.record)
    return conversation_url(session, branch=line.branch, at=anchor)
