"""The page of searches: as one types, with hints, facets and excerpts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

import msgspec
from msgspec import Struct
from starlette.responses import HTMLResponse, Response

from bygones.archive import Archive
from bygones.errors import QueryError
from bygones.model.base import SessionId
from bygones.model.query import Query
from bygones.model.summary import (
    CountBound,
    Excerpt,
    Hit,
    Role,
    SearchResults,
    SessionMatch,
    SessionSummary,
)
from bygones.query.fields import list_hints
from bygones.query.parser import parse_query
from bygones.render.headers import search_notes
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    escape_text,
    join_html,
    make_element_id,
    render_facts,
    tag,
)
from bygones.render.numbers import pluralize
from bygones.web.context import RequestContext
from bygones.web.layout import (
    PageMeta,
    build_url,
    empty_message,
    link,
    render_page,
    time_tag,
)
from bygones.web.pages.home import short_path

_PAGE_SIZE = 10
_HITS_PER_SESSION = 2
_SORTS = (("best", "Best"), ("newest", "Newest"), ("oldest", "Oldest"))


class _SearchRequest(Struct, frozen=True):
    text: str
    sort: str
    page: int

    @classmethod
    def from_request(cls, context: RequestContext) -> _SearchRequest:
        sort = context.query_param("sort")
        known = {name for name, _ in _SORTS}
        page = context.query_int("page", 1, 1, 1000)
        return cls(context.query_param("q"), sort if sort in known else "best", page)

    def url(self, **changes: object) -> str:
        sort = "" if self.sort == "best" else self.sort
        return build_url("search", **({"q": self.text, "sort": sort} | changes))


def request_query(context: RequestContext, query_text: str) -> Query:
    """Return what a text asks for, here and now."""
    return parse_query(query_text, now=context.now, zone=context.zone)


def run_search(
    context: RequestContext,
    query_text: str,
    *,
    sort: str = "best",
    limit: int = _PAGE_SIZE,
    offset: int = 0,
) -> SearchResults:
    """Return what a text finds."""
    query = request_query(context, query_text)
    with context.pool.archive() as archive:
        return archive.search(
            query,
            limit=limit,
            offset=offset,
            hits_per_session=_HITS_PER_SESSION,
            sort=sort,
        )


def search_page(context: RequestContext) -> Response:
    """Answer with the whole page."""
    asked = _SearchRequest.from_request(context)
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
        tag("h1", escape_line("Search"), kind="unseen"),
        box,
        Html('<div class="answers" id="answers">'),
        _render_results(context, asked),
        Html("</div>"),
    )
    frame = PageMeta(
        title=asked.text or "Search",
        nav="/search",
        css_class="search",
        scripts=("search.js",),
        search_text=asked.text,
    )
    return render_page(frame, main)


def search_results(context: RequestContext) -> Response:
    """Answer with what is found, and nothing around it."""
    made = _render_results(context, _SearchRequest.from_request(context))
    return HTMLResponse(made.encode("utf-8", "backslashreplace"))


def query_hints(_context: RequestContext) -> Response:
    """Answer with what can be typed, from the table of the language."""
    return Response(msgspec.json.encode(list_hints()), media_type="application/json")


def _render_results(context: RequestContext, search_request: _SearchRequest) -> Html:
    if not search_request.text:
        return _syntax_help()
    offset = (search_request.page - 1) * _PAGE_SIZE
    try:
        found = run_search(
            context, search_request.text, sort=search_request.sort, offset=offset
        )
    except QueryError as error:
        hint = tag("p", escape_line(error.hint))
        return join_html((_NO_FACETS, empty_message(f"{error}.".capitalize(), hint)))
    lines = join_html(_session_result(one, context) for one in found.sessions)
    shown = tag("ol", lines, kind="hits") if lines else _no_results(found)
    results = join_html(
        (
            _summary_line(search_request, found),
            _search_notes(found),
            shown,
            _pager(search_request, found),
        )
    )
    facets = tag("div", kind="facets", aria_label="Narrow", role="group")
    return join_html((facets, tag("div", results, kind="results")))


_NO_FACETS = Html('<div class="facets"></div>')


def _syntax_help() -> Html:
    lines = join_html(
        tag(
            "li",
            join_html(
                (
                    link(
                        build_url("search", q=hint.example),
                        tag("code", escape_line(hint.example)),
                    ),
                    tag("span", escape_line(hint.meaning)),
                ),
                " ",
            ),
        )
        for hint in list_hints()
    )
    return join_html((_NO_FACETS, tag("ul", lines, kind="language")))


def _summary_line(search_request: _SearchRequest, results: SearchResults) -> Html:
    told = results.session_count_bound.qualify(
        pluralize(results.session_count, "session")
    )
    if (
        len(results.query_words) > 1
        and results.full_match_count
        and not results.session_count_bound
    ):
        told += f", {results.full_match_count:,} with all words"
    sorts = join_html(
        tag(
            "a",
            escape_line(name),
            href=search_request.url(sort="" if sort == "best" else sort),
            aria_current="true" if sort == search_request.sort else "",
        )
        for sort, name in _SORTS
    )
    inner = join_html(
        (tag("span", escape_line(told)), tag("span", sorts, kind="sorts"))
    )
    return tag("div", inner, kind="answer-line")


def _search_notes(results: SearchResults) -> Html:
    told = (f"{one[:1].upper()}{one[1:]}." for one in search_notes(results))
    return join_html(tag("p", escape_line(one), kind="note") for one in told)


def _no_results(results: SearchResults) -> Html:
    hint = "Fewer words find more; a session need not have all of them."
    if results.missing_words:
        hint = "Another word may be the one that was written."
    return empty_message("Nothing was found.", tag("p", escape_line(hint)))


def _session_result(match: SessionMatch, context: RequestContext) -> Html:
    listed = match.summary
    told = [
        short_path(listed.project) if listed.project else "",
        pluralize(listed.message_count, "message"),
        match.hit_count_bound.qualify(
            pluralize(match.hit_count, "text fits", "texts fit")
        )
        if match.hit_count
        else "",
    ]
    hits = join_html(_hit_link(match, hit) for hit in match.hits)
    to = build_url("session", listed.id)
    when = time_tag(listed.ended_at or listed.started_at, context.now)
    return tag(
        "li",
        join_html(
            (
                tag(
                    "div", link(to, _excerpt_html(match.highlighted_title)), kind="hit"
                ),
                tag("p", join_html((when, render_facts(told)), " · ")),
                hits,
            )
        ),
    )


def _hit_link(match: SessionMatch, hit: Hit) -> Html:
    who = hit.agent_type or ("agent" if hit.agent_id else "")
    told = [
        str(hit.part),
        ", ".join(hit.tool_names),
        who,
        "left behind by a rewind" if hit.is_rewound else "",
        "error" if hit.is_error else "",
        f"{hit.sent_at.astimezone():%Y-%m-%d %H:%M}" if hit.sent_at else "",
    ]
    inner = join_html((tag("small", render_facts(told)), _excerpt_html(hit.excerpt)))
    return link(_hit_url(match, hit), inner, "excerpt")


def _hit_url(match: SessionMatch, hit: Hit) -> str:
    session = match.summary.id
    if hit.position is None:
        return build_url("session", session)
    if hit.agent_id:
        return build_url(
            "session",
            session,
            "agent",
            make_element_id("a", hit.agent_id),
            at=hit.record_id,
        )
    return build_url("session", session, at=hit.record_id)


def _excerpt_html(excerpt: Excerpt) -> Html:
    return join_html(_iter_highlighted(excerpt))


def _iter_highlighted(excerpt: Excerpt) -> Iterator[Html]:
    at = 0
    if excerpt.is_cut_before:
        yield Html("…")
    for start, end in excerpt.highlights:
        yield escape_text(excerpt.text[at:start])
        yield tag("mark", escape_text(excerpt.text[start:end]))
        at = end
    yield escape_text(excerpt.text[at:])
    if excerpt.is_cut_after:
        yield Html("…")


def _pager(search_request: _SearchRequest, results: SearchResults) -> Html:
    last = (results.session_count + _PAGE_SIZE - 1) // _PAGE_SIZE
    if last <= 1:
        return EMPTY_HTML
    links: Sequence[Html] = [
        link(search_request.url(page=number), escape_line(told))
        if 1 <= number <= last
        else Html("<span></span>")
        for number, told in (
            (search_request.page - 1, "← Before"),
            (search_request.page + 1, "Next →"),
        )
    ]
    place = tag("span", escape_line(f"{search_request.page:,} of {last:,}"))
    return tag(
        "nav", join_html((links[0], place, links[1])), kind="pager", aria_label="Pages"
    )


_MAX_COUNTED = 2000
"""Sessions that are counted at most."""
_MAX_COUNTED_SLOW = 60
"""The same where texts must be opened to know whether they fit."""
_MAX_VALUES = 8
_FACET_ROLES = (Role.USER, Role.ASSISTANT)
_SessionsByTool = Mapping[str, frozenset[SessionId]]


class Facets(Struct, frozen=True):
    """How many of the sessions that were found have what."""

    groups: tuple[tuple[str, str, tuple[tuple[str, int], ...]], ...] = ()
    """Title, field, and values with their counts, the most frequent first."""
    session_count: int = 0
    """Sessions that were counted."""
    is_complete: bool = True


def search_facets(context: RequestContext) -> Response:
    """Answer with what narrows a search, and nothing around it."""
    typed, sort = context.query_param("q"), context.query_param("sort")
    users = context.pool.cached("tools", Archive.sessions_by_tool) if typed else {}

    def count(archive: Archive) -> Facets:
        return count_facets(archive, context, typed, users)

    try:
        found = context.pool.cached(f"facets {typed}", count) if typed else Facets()
    except QueryError:
        found = Facets()
    made = _render_facets(found, typed, sort)
    return HTMLResponse(made.encode("utf-8", "backslashreplace"))


def count_facets(
    archive: Archive,
    context: RequestContext,
    query_text: str,
    sessions_by_tool: _SessionsByTool,
) -> Facets:
    """Return what all sessions that a text finds have in common.

    ``users`` are the sessions that called each tool.
    """
    query = parse_query(query_text, now=context.now, zone=context.zone)
    first = archive.search(query, limit=1, hits_per_session=0)
    limit = (
        _MAX_COUNTED_SLOW
        if first.session_count_bound is CountBound.AT_MOST
        else _MAX_COUNTED
    )
    found = archive.search(query, limit=limit, hits_per_session=0)
    sessions = [one.summary for one in found.sessions]
    groups = (
        ("Project", "project", _top_values(one.project or "" for one in sessions)),
        ("Tool", "tool", _tool_counts(sessions, sessions_by_tool)),
        (
            "Role",
            "role",
            tuple(_role_counts(archive, context, query_text) if sessions else ()),
        ),
        ("Month", "on", _top_values(map(_month, sessions))),
    )
    return Facets(groups, len(sessions), found.session_count <= len(sessions))


def _top_values(values: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(filter(None, values)).most_common(_MAX_VALUES))


def _tool_counts(
    sessions: Iterable[SessionSummary], sessions_by_tool: _SessionsByTool
) -> tuple[tuple[str, int], ...]:
    ids = frozenset(one.id for one in sessions)
    counts = Counter(
        {tool: len(ids & using) for tool, using in sessions_by_tool.items()}
    )
    return tuple((tool, n) for tool, n in counts.most_common(_MAX_VALUES) if n)


def _role_counts(
    archive: Archive, context: RequestContext, query_text: str
) -> Iterable[tuple[str, int]]:
    for role in _FACET_ROLES:
        asked = f"{query_text} role:{role}"
        query = parse_query(asked, now=context.now, zone=context.zone)
        total = archive.search(query, limit=1, hits_per_session=0).session_count
        if total:
            yield str(role), total


def _month(summary: SessionSummary) -> str:
    time = summary.ended_at or summary.started_at
    return f"{time.astimezone():%Y-%m}" if time else ""


def _render_facets(counts: Facets, query_text: str, sort: str) -> Html:
    parts = []
    for title, field, values in counts.groups:
        lines = [_facet_item(query_text, sort, field, one) for one in values]
        if lines:
            heading = tag("h2", escape_line(title))
            parts.append(
                tag("section", join_html((heading, tag("ul", join_html(lines)))))
            )
    note = EMPTY_HTML
    if parts and not counts.is_complete:
        note = tag(
            "p", escape_line(f"Counted in the best {counts.session_count:,} sessions.")
        )
    return join_html((*parts, note))


def _facet_item(
    query_text: str, sort: str, field: str, value_count: tuple[str, int]
) -> Html:
    value, count = value_count
    term = f'{field}:"{value}"' if _needs_quotes(value) else f"{field}:{value}"
    is_on = f" {term} " in f" {query_text} "
    asked = _remove_term(query_text, term) if is_on else f"{query_text} {term}".strip()
    inner = join_html(
        (
            tag("span", escape_line(short_path(value))),
            tag("span", escape_line(f"{count:,}")),
        )
    )
    to = build_url("search", q=asked, sort=sort)
    made = tag("a", inner, href=to, title=value, aria_current="true" if is_on else "")
    return tag("li", made)


def _needs_quotes(value: str) -> bool:
    return not all(sign.isalnum() or sign in "-_./~" for sign in value)


def _remove_term(query_text: str, term: str) -> str:
    return f" {query_text} ".replace(f" {term} ", " ", 1).strip()
