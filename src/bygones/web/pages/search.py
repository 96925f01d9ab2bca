"""The search page: results with excerpts, hints and facets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape

import msgspec
from msgspec import Struct
from starlette.responses import Response

from bygones.archive import Archive
from bygones.errors import QueryError
from bygones.model.base import SessionId
from bygones.model.summary import (
    CountBound,
    Excerpt,
    Hit,
    Role,
    SearchResults,
    SessionMatch,
    SessionSummary,
)
from bygones.query.fields import QueryHint, list_hints
from bygones.render.headers import search_notes
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    escape_text,
    format_inline,
    join_html,
    render_facts,
    tag,
)
from bygones.render.numbers import pluralize
from bygones.web.context import RequestContext
from bygones.web.icons import icon
from bygones.web.layout import (
    PageMeta,
    build_url,
    conversation_url,
    empty_message,
    html_response,
    link,
    pager,
    render_page,
    short_path,
    time_tag,
)
from bygones.web.marking import NEAR_CHARS
from bygones.web.saved_searches import load_searches

_PAGE_SIZE = 10
_HITS_PER_SESSION = 2
_SORTS = (("best", "Best match"), ("newest", "Newest"), ("oldest", "Oldest"))


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


def run_search(
    context: RequestContext,
    query_text: str,
    *,
    sort: str = "best",
    limit: int = _PAGE_SIZE,
    offset: int = 0,
) -> SearchResults:
    query = context.parse_query(query_text)
    with context.pool.archive() as archive:
        return archive.search(
            query,
            limit=limit,
            offset=offset,
            hits_per_session=_HITS_PER_SESSION,
            sort=sort,
        )


def search_page(context: RequestContext) -> Response:
    search_request = _SearchRequest.from_request(context)
    form = Html(
        '<form class="search-form" action="/search" role="search" id="search-form">'
        '<input type="search" name="q" id="query" autocomplete="off" '
        'spellcheck="false" maxlength="2000" role="combobox" '
        'aria-expanded="false" aria-controls="hints" aria-autocomplete="list" '
        'aria-label="Search all sessions" '
        'placeholder="Words, or fields such as tool:Bash is:error" '
        f'value="{escape(search_request.text)}">'
        '<ul class="hints" id="hints" role="listbox" aria-label="Suggestions" hidden></ul>'
        "</form>"
    )
    main = (
        tag("h1", escape_line("Search"), kind="visually-hidden"),
        form,
        Html('<div class="answers" id="answers">'),
        _render_results(context, search_request),
        Html("</div>"),
    )
    page = PageMeta(
        title=search_request.text or "Search",
        nav="/search",
        css_class="search",
        scripts=("search.js",),
        search_text=search_request.text,
    )
    return render_page(page, main)


def search_results(context: RequestContext) -> Response:
    """Return the results without the page around them."""
    return html_response(_render_results(context, _SearchRequest.from_request(context)))


def query_hints(_context: RequestContext) -> Response:
    """Return the fields of the query language, for the input hints."""
    return Response(msgspec.json.encode(list_hints()), media_type="application/json")


def _render_results(context: RequestContext, search_request: _SearchRequest) -> Html:
    if not search_request.text:
        return _syntax_help(context)
    offset = (search_request.page - 1) * _PAGE_SIZE
    try:
        results = run_search(
            context, search_request.text, sort=search_request.sort, offset=offset
        )
    except QueryError as error:
        hint = tag("p", escape_line(_sentence(error.hint)))
        return join_html((_NO_FACETS, empty_message(_sentence(str(error)), hint)))
    matches = join_html(
        _session_match(match, context, search_request.text)
        for match in results.sessions
    )
    content = join_html(
        (
            _summary_line(
                search_request, results, _save_form(context, search_request.text)
            ),
            _search_notes(results),
            tag("ol", matches, kind="hits") if matches else _no_results(results),
            _result_pager(search_request, results),
        )
    )
    facets = tag("div", kind="facets", aria_label="Filters", role="group")
    return join_html((facets, tag("div", content, kind="results")))


_NO_FACETS = Html('<div class="facets"></div>')


def _saved_searches(context: RequestContext) -> Html:
    saved = load_searches(context.app_state.searches_file)
    if not saved:
        return EMPTY_HTML
    chips = (
        link(build_url("search", q=one.query), escape_line(one.query), "chip")
        for one in saved
    )
    heading = tag("h2", escape_line("Saved searches"))
    return tag("section", join_html((heading, *chips), " "), kind="saved-searches")


def _save_form(context: RequestContext, query_text: str) -> Html:
    """Return the button that saves a search, or removes a saved one."""
    path = context.app_state.searches_file
    if path is None:
        return EMPTY_HTML
    is_saved = query_text in {one.query for one in load_searches(path)}
    action, label = ("remove", "Saved") if is_saved else ("save", "Save search")
    pressed = "true" if is_saved else "false"
    return Html(
        '<form class="save-search" method="post" action="/searches">'
        f'<input type="hidden" name="q" value="{escape(query_text)}">'
        f'<button type="submit" class="star" name="action" value="{action}" '
        f'aria-pressed="{pressed}">{icon("star")}{label}</button></form>'
    )


def _syntax_help(context: RequestContext) -> Html:
    lines = join_html(
        tag(
            "li",
            join_html(
                (
                    link(
                        build_url("search", q=hint.example),
                        tag("code", escape_line(hint.example)),
                    ),
                    tag("span", escape_line(_describe_hint(hint))),
                ),
                " ",
            ),
        )
        for hint in list_hints()
    )
    saved = _saved_searches(context)
    help_lines = tag("ul", lines, kind="syntax-help")
    return tag("div", join_html((saved, help_lines)))


def _describe_hint(hint: QueryHint) -> str:
    values = f": {', '.join(hint.choices)}" if hint.choices else ""
    return hint.meaning + values


def _summary_line(
    search_request: _SearchRequest, results: SearchResults, save_form: Html
) -> Html:
    count = results.session_count_bound.qualify(
        pluralize(results.session_count, "session")
    )
    if len(results.query_words) > 1 and results.full_match_count:
        count += f", {results.full_match_count:,} with all words"
    sorts = (
        EMPTY_HTML
        if not results.session_count
        else join_html(
            tag(
                "a",
                escape_line(name),
                href=search_request.url(sort="" if sort == "best" else sort),
                aria_current="true" if sort == search_request.sort else "",
            )
            for sort, name in _SORTS
        )
    )
    content = join_html(
        (tag("span", escape_line(count)), tag("span", sorts, kind="sorts"), save_form)
    )
    return tag("div", content, kind="result-summary")


def _search_notes(results: SearchResults) -> Html:
    notes = map(_sentence, search_notes(results))
    return join_html(tag("p", escape_line(note), kind="note") for note in notes)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _no_results(results: SearchResults) -> Html:
    hint = "Try fewer or different words."
    if results.missing_words:
        hint = "Try a different word."
    return empty_message(hint)


def _session_match(
    match: SessionMatch, context: RequestContext, query_text: str
) -> Html:
    summary = match.summary
    facts = [
        summary.person,
        short_path(summary.project) if summary.project else "",
        pluralize(summary.message_count, "message"),
        match.hit_count_bound.qualify(pluralize(match.hit_count, "hit"))
        if match.hit_count
        else "",
    ]
    hits = join_html(_hit_link(match, hit, query_text) for hit in match.hits)
    title = link(conversation_url(summary.id), _excerpt_html(match.highlighted_title))
    time = time_tag(summary.ended_at or summary.started_at, context.now)
    return tag(
        "li",
        join_html(
            (
                tag("div", title, kind="hit"),
                tag("p", join_html((time, render_facts(facts)), " · ")),
                hits,
                _related_sessions("Same lineage", match.lineage, context),
                _related_sessions("Similar", match.similar, context),
            )
        ),
    )


def _related_sessions(
    label: str, sessions: Sequence[SessionSummary], context: RequestContext
) -> Html:
    """Return a list of sessions that is shown on demand."""
    if not sessions:
        return EMPTY_HTML
    items = join_html(
        tag(
            "li",
            join_html(
                (
                    link(conversation_url(one.id), escape_line(one.title.text)),
                    time_tag(one.ended_at or one.started_at, context.now),
                ),
                " · ",
            ),
        )
        for one in sessions
    )
    heading = escape_line(f"{label}: {pluralize(len(sessions), 'session')}")
    return tag("details", join_html((tag("summary", heading), tag("ul", items))))


def _hit_link(match: SessionMatch, hit: Hit, query_text: str) -> Html:
    facts = [
        str(hit.part),
        ", ".join(hit.tool_names),
        hit.agent_type or ("agent" if hit.agent_id else ""),
        "abandoned branch" if hit.is_abandoned else "",
        "error" if hit.is_error else "",
        f"{hit.sent_at.astimezone():%Y-%m-%d %H:%M}" if hit.sent_at else "",
    ]
    content = join_html((tag("small", render_facts(facts)), _excerpt_html(hit.excerpt)))
    return link(_hit_url(match, hit, query_text), content, "excerpt")


def _hit_url(match: SessionMatch, hit: Hit, query_text: str) -> str:
    """Return the URL of a record; the page of the session finds its message."""
    if hit.position is None:
        return conversation_url(match.summary.id)
    record = hit.record_id or f"@{hit.position.offset}"
    return conversation_url(
        match.summary.id,
        agent=hit.agent_id,
        at=record,
        find=query_text,
        near=_text_near(hit.excerpt),
    )


def _text_near(excerpt: Excerpt) -> str:
    """Return what is around the first match, so that its place can be found again."""
    if not excerpt.highlights:
        return ""
    start = excerpt.highlights[0][0]
    before, after = NEAR_CHARS
    return excerpt.text[max(start - before, 0) : start + after]


def _excerpt_html(excerpt: Excerpt) -> Html:
    return format_inline(join_html(_iter_highlighted(excerpt)))


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


def _result_pager(search_request: _SearchRequest, results: SearchResults) -> Html:
    page = search_request.page
    last = (results.session_count + _PAGE_SIZE - 1) // _PAGE_SIZE
    return pager(
        ("← Previous", search_request.url(page=page - 1) if page > 1 else ""),
        f"{page:,} of {last:,}",
        ("Next →", search_request.url(page=page + 1) if page < last else ""),
        label="Pages",
    )


_MAX_COUNTED = 2000
"""Sessions whose facets are counted, at most."""
_MAX_COUNTED_SLOW = 60
"""The same if texts have to be loaded to decide whether they match."""
_MAX_VALUES = 8
_FACET_ROLES = (Role.USER, Role.ASSISTANT)
_SessionsByTool = Mapping[str, frozenset[SessionId]]


class Facets(Struct, frozen=True):
    """Counts of the sessions that were found, by project, tool, role and month."""

    groups: tuple[tuple[str, str, tuple[tuple[str, int], ...]], ...] = ()
    """Title, field, and values with their counts, the most frequent first."""
    session_count: int = 0
    is_complete: bool = True


def search_facets(context: RequestContext) -> Response:
    """Return the facets of a search, without the page around them."""
    query_text, sort = context.query_param("q"), context.query_param("sort")
    facets = Facets()
    if query_text:
        sessions_by_tool = context.pool.sessions_by_tool()

        def count(archive: Archive) -> Facets:
            return count_facets(archive, context, query_text, sessions_by_tool)

        with suppress(QueryError):
            facets = context.pool.cached(f"facets {query_text}", count)
    return html_response(_render_facets(facets, query_text, sort))


def count_facets(
    archive: Archive,
    context: RequestContext,
    query_text: str,
    sessions_by_tool: _SessionsByTool,
) -> Facets:
    """Count the facets of the sessions that a query finds."""
    query = context.parse_query(query_text)
    first = archive.search(query, limit=1, hits_per_session=0)
    limit = (
        _MAX_COUNTED_SLOW
        if first.session_count_bound is CountBound.AT_MOST
        else _MAX_COUNTED
    )
    results = archive.search(query, limit=limit, hits_per_session=0)
    sessions = [match.summary for match in results.sessions]
    groups = (
        (
            "Project",
            "project",
            _top_values(session.project_path or "" for session in sessions),
        ),
        ("Tool", "tool", _tool_counts(sessions, sessions_by_tool)),
        (
            "Role",
            "role",
            tuple(_role_counts(archive, context, query_text) if sessions else ()),
        ),
        ("Month", "on", _last_months(map(_month, sessions))),
    )
    return Facets(groups, len(sessions), results.session_count <= len(sessions))


def _top_values(values: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(filter(None, values)).most_common(_MAX_VALUES))


def _last_months(months: Iterable[str]) -> tuple[tuple[str, int], ...]:
    counts = Counter(filter(None, months))
    return tuple(sorted(counts.items(), reverse=True)[:_MAX_VALUES])


def _tool_counts(
    sessions: Iterable[SessionSummary], sessions_by_tool: _SessionsByTool
) -> tuple[tuple[str, int], ...]:
    ids = frozenset(session.id for session in sessions)
    counts = Counter(
        {tool: len(ids & using) for tool, using in sessions_by_tool.items()}
    )
    return tuple((tool, n) for tool, n in counts.most_common(_MAX_VALUES) if n)


def _role_counts(
    archive: Archive, context: RequestContext, query_text: str
) -> Iterable[tuple[str, int]]:
    for role in _FACET_ROLES:
        query = context.parse_query(f"{query_text} role:{role}")
        total = archive.search(query, limit=1, hits_per_session=0).session_count
        if total:
            yield str(role), total


def _month(summary: SessionSummary) -> str:
    time = summary.ended_at or summary.started_at
    return f"{time.astimezone():%Y-%m}" if time else ""


def _render_facets(counts: Facets, query_text: str, sort: str) -> Html:
    parts = []
    for title, field, values in counts.groups:
        items = [_facet_item(query_text, sort, field, value) for value in values]
        if items:
            heading = tag("h2", escape_line(title))
            parts.append(
                tag("section", join_html((heading, tag("ul", join_html(items)))))
            )
    note = EMPTY_HTML
    if parts and not counts.is_complete:
        note = tag(
            "p", escape_line(f"Counts of the best {counts.session_count:,} matches.")
        )
    return join_html((*parts, note))


def _facet_item(
    query_text: str, sort: str, field: str, value_count: tuple[str, int]
) -> Html:
    value, count = value_count
    term = f'{field}:"{value}"' if _needs_quotes(value) else f"{field}:{value}"
    is_on = f" {term} " in f" {query_text} "
    if is_on:
        new_query = f" {query_text} ".replace(f" {term} ", " ", 1).strip()
    else:
        new_query = f"{query_text} {term}".strip()
    content = join_html(
        (
            tag("span", tag("bdi", escape_line(short_path(value)))),
            tag("span", escape_line(f"{count:,}")),
        )
    )
    url = build_url("search", q=new_query, sort=sort)
    current = "true" if is_on else ""
    return tag("li", tag("a", content, href=url, title=value, aria_current=current))


def _needs_quotes(value: str) -> bool:
    return not all(char.isalnum() or char in "-_./~" for char in value)
