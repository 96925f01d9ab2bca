"""The home page (a timeline of sessions with filters) and the list of projects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from html import escape

from msgspec import Struct
from starlette.responses import Response

from bygones.archive import Archive
from bygones.model.base import SessionId
from bygones.model.query import (
    FieldTerm,
    FieldValue,
    Or,
    Prefix,
    Query,
    Term,
    TimeRange,
    Word,
)
from bygones.model.reports import NANOS_PER_DOLLAR, UsageReport, UsageRow
from bygones.model.summary import Project, SessionSummary
from bygones.query.parser import and_terms, parse_query
from bygones.query.times import ReferenceTime, parse_period
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    render_facts,
    tag,
)
from bygones.render.numbers import (
    format_bytes,
    format_duration,
    format_tokens,
    pluralize,
)
from bygones.web.context import RequestContext
from bygones.web.layout import (
    PageMeta,
    build_url,
    empty_message,
    format_dollars,
    html_response,
    is_running,
    link,
    render_page,
    render_table,
    short_path,
    time_tag,
)
from bygones.web.pages.usage import bar_chart, heat_map

_PAGE_SIZE = 60
_MAX_CHOICES = 200


class SessionFilters(Struct, frozen=True, kw_only=True):
    """The filters of the home page, as query parameters."""

    project: str = ""
    model: str = ""
    tool: str = ""
    title_text: str = ""
    query_text: str = ""
    """A query in the language of searches."""
    day: date | None = None
    max_age_days: int = 0
    include_empty: bool = False

    @classmethod
    def from_request(cls, context: RequestContext) -> SessionFilters:
        return cls(
            project=context.query_param("project"),
            model=context.query_param("model"),
            tool=context.query_param("tool"),
            title_text=context.query_param("text"),
            query_text=context.query_param("q"),
            day=context.query_date("on"),
            max_age_days=context.query_int("days", 0, 0, 10_000),
            include_empty=context.query_flag("all"),
        )

    @property
    def query_params(self) -> dict[str, object]:
        return {
            "project": self.project,
            "model": self.model,
            "tool": self.tool,
            "text": self.title_text,
            "q": self.query_text,
            "on": self.day.isoformat() if self.day else "",
            "days": self.max_age_days,
            "all": "1" if self.include_empty else "",
        }

    def queries(self, now: datetime, timezone: tzinfo) -> Iterator[Query]:
        """Yield the queries that select these sessions; each is about a whole session."""
        if self.query_text:
            yield parse_query(self.query_text, now=now, zone=timezone)
        if self.tool:
            yield Query(FieldValue("tool", self.tool))
        terms: list[Term] = list(_title_terms(self.title_text))
        if self.model:
            terms.append(FieldValue("model", self.model))
        if self.day:
            day = parse_period("on", str(self.day), ReferenceTime(now, timezone))
            terms += [day] if day else []
        if self.max_age_days:
            terms.append(TimeRange(start=now - timedelta(days=self.max_age_days)))
        if terms or self.project:
            yield Query(and_terms(terms))

    def select(
        self, context: RequestContext, summaries: Sequence[SessionSummary]
    ) -> Sequence[SessionSummary]:
        """Return the sessions to show, out of all."""
        selected = [
            summary
            for summary in summaries
            if self.include_empty or not summary.is_empty
        ]
        with context.pool.archive() as archive:
            for query in self.queries(context.now, context.zone):
                selected = list(
                    archive.select(
                        query,
                        project=self.project or None,
                        include_empty=self.include_empty,
                        summaries=selected,
                    ).sessions
                )
        return selected


def _title_terms(text: str) -> Iterator[Term]:
    """Yield a term for each word of a title; the last may still be being typed."""
    *whole, last = text.split() or [""]
    for word in whole:
        yield FieldTerm("title", Word(word))
    if last:
        yield Or((FieldTerm("title", Word(last)), FieldTerm("title", Prefix(last))))


def home_page(context: RequestContext) -> Response:
    filters = SessionFilters.from_request(context)
    is_plain = not any(filters.query_params.values())
    overview = _overview(context) if is_plain else EMPTY_HTML
    sessions_by_tool = context.pool.sessions_by_tool()
    # Last, as all summaries take much memory.
    summaries = context.pool.summaries()
    sessions = filters.select(context, summaries)
    parts = [tag("h1", escape_line("Sessions"), kind="visually-hidden")]
    if is_plain:
        parts += [_running_section(context, sessions), overview]
    parts += [
        _filter_form(filters, summaries, sessions_by_tool),
        _timeline(context, filters, sessions, 0),
    ]
    return render_page(PageMeta(title="Sessions", nav="/", css_class="home"), parts)


def older_sessions(context: RequestContext) -> Response:
    """Return the next sessions of the timeline."""
    filters = SessionFilters.from_request(context)
    offset = context.query_int("offset", 0)
    sessions = filters.select(context, context.pool.summaries())
    return html_response(_timeline(context, filters, sessions, offset))


def _running_section(
    context: RequestContext, sessions: Sequence[SessionSummary]
) -> Html:
    running = [session for session in sessions if is_running(session, context.now)]
    hidden = "" if running else " hidden"
    items = join_html(_session_item(session, context.now) for session in running)
    return Html(
        f'<section class="now" id="now"{hidden}><h2>Running now</h2>'
        f'<ul class="sessions">{items}</ul></section>'
    )


def _overview(context: RequestContext) -> Html:
    now, prices = context.now, context.app_state.prices

    def usage_by_day(archive: Archive) -> UsageReport:
        return archive.usage("day", timezone=context.zone, now=now, prices=prices)

    def usage_by_model(archive: Archive) -> UsageReport:
        return archive.usage("model", now=now, prices=prices)

    by_day = context.pool.cached("usage by day", usage_by_day)
    rows = [row for row in by_day.rows if isinstance(row, UsageRow)]
    counts = {date.fromisoformat(row.key): row.replies for row in rows if row.key}
    if not counts:
        return EMPTY_HTML
    # Today, unless all activity is long ago.
    last = min(now.astimezone().date(), max(counts) + timedelta(days=60))
    by_model = context.pool.cached("usage by model", usage_by_model)
    return Html(
        '<div class="overview"><section><h2>Activity</h2>'
        f"{heat_map(counts, last)}</section><section><h2>Cost by model</h2>"
        f"{_model_costs(by_model)}</section></div>"
    )


def _model_costs(report: UsageReport) -> Html:
    values = [
        (
            row.key or "unknown",
            (row.cost or 0) / NANOS_PER_DOLLAR,
            format_dollars(row.cost),
        )
        for row in report.rows
        if isinstance(row, UsageRow)
    ]
    values.sort(key=lambda value: -value[1])
    total = tag(
        "p",
        join_html(
            (
                tag("b", escape_line(format_dollars(report.total.cost))),
                escape_line("at API prices,"),
                link(
                    "/usage",
                    escape_line(f"{format_tokens(report.total.tokens)} tokens"),
                ),
            ),
            " ",
        ),
        kind="note",
    )
    return join_html((bar_chart(values[:6], label="Cost by model"), total))


def _filter_form(
    filters: SessionFilters,
    summaries: Sequence[SessionSummary],
    sessions_by_tool: Mapping[str, frozenset[SessionId]],
) -> Html:
    projects = Counter(summary.project for summary in summaries if summary.project)
    models = Counter(model for summary in summaries for model in summary.models)
    tools = Counter({tool: len(ids) for tool, ids in sessions_by_tool.items()})
    periods = (
        ("0", "Any time"),
        ("1", "Last day"),
        ("7", "Last 7 days"),
        ("30", "Last 30 days"),
    )
    day = EMPTY_HTML
    if filters.day:
        day = link(
            build_url(**{**filters.query_params, "on": ""}),
            escape_line(
                f"on {filters.day:%B} {filters.day.day}, {filters.day.year} \N{MULTIPLICATION SIGN}"
            ),
            "chip",
        )
    return Html(
        '<form class="filters" action="/" data-live>'
        '<input type="search" name="text" placeholder="Filter by title" '
        f'aria-label="Filter by title" value="{escape(filters.title_text)}">'
        f"{_select('project', 'All projects', _top_choices(projects), filters.project)}"
        f"{_select('model', 'All models', _top_choices(models), filters.model)}"
        f"{_select('tool', 'All tools', _top_choices(tools), filters.tool)}"
        f"{_select('days', '', periods, str(filters.max_age_days))}"
        f'{day}<button type="submit" class="hidden-with-script">Filter</button></form>'
    )


def _top_choices(counts: Counter[str]) -> list[tuple[str, str]]:
    return [
        (name, f"{short_path(name)} ({count:,})")
        for name, count in counts.most_common(_MAX_CHOICES)
    ]


def _select(
    name: str, empty_label: str, choices: Sequence[tuple[str, str]], selected: str
) -> Html:
    options = [("", empty_label)] if empty_label else []
    if selected and selected not in dict(choices):
        options.append((selected, selected))
    items = "".join(
        f'<option value="{escape(value)}"{" selected" if value == selected else ""}>'
        f"{escape_line(text)}</option>"
        for value, text in (*options, *choices)
    )
    label = name.capitalize()
    return Html(f'<select name="{name}" aria-label="{label}">{items}</select>')


def _timeline(
    context: RequestContext,
    filters: SessionFilters,
    sessions: Sequence[SessionSummary],
    offset: int,
) -> Html:
    if not sessions:
        return _no_sessions(is_filtered=any(filters.query_params.values()))
    shown = sessions[offset : offset + _PAGE_SIZE]
    previous = sessions[offset - 1] if 0 < offset <= len(sessions) else None
    parts = list(_group_by_day(shown, previous, context.now))
    remaining = len(sessions) - offset - len(shown)
    if remaining > 0:
        url = build_url("more", **filters.query_params, offset=offset + _PAGE_SIZE)
        text = pluralize(remaining, "older session")
        parts.append(
            Html(f'<p class="older"><a href="{escape(url)}" data-more>{text}</a></p>')
        )
    if offset:
        return join_html(parts)
    return tag("div", join_html(parts), kind="timeline", id="timeline")


def _no_sessions(*, is_filtered: bool) -> Html:
    if is_filtered:
        clear = tag("p", link("/", escape_line("Clear filters")))
        return empty_message("No sessions match these filters.", clear)
    hint = Html(
        "<p>Use Claude Code, then reload this page. If its files are in another "
        "folder, run <code>bygones ingest --home FOLDER</code>.</p>"
    )
    return empty_message("This archive has no sessions yet.", hint)


def _group_by_day(
    sessions: Sequence[SessionSummary], previous: SessionSummary | None, now: datetime
) -> Iterator[Html]:
    """Yield a heading for each day, and the sessions that ended on it."""
    day = _session_day(previous) if previous else None
    items: list[Html] = []
    for session in sessions:
        if _session_day(session) != day or not items:
            if items:
                yield tag("ul", join_html(items), kind="sessions")
            if _session_day(session) != day:
                day = _session_day(session)
                yield tag("h2", escape_line(_day_label(day, now)), kind="day")
            items = []
        items.append(_session_item(session, now))
    if items:
        yield tag("ul", join_html(items), kind="sessions")


def _session_day(summary: SessionSummary) -> date | None:
    time = summary.ended_at or summary.started_at
    return time.astimezone().date() if time else None


def _day_label(day: date | None, now: datetime) -> str:
    if day is None:
        return "No date"
    today = now.astimezone().date()
    names = {0: "Today", 1: "Yesterday"}
    name = names.get((today - day).days, f"{day:%A}")
    year = "" if day.year == today.year else f" {day.year}"
    return f"{name}, {day:%B} {day.day}{year}"


def _session_item(summary: SessionSummary, now: datetime) -> Html:
    title = escape_line(summary.title.text) or escape_line(summary.id)
    duration = ""
    if (
        summary.started_at
        and summary.ended_at
        and summary.ended_at > summary.started_at
    ):
        duration = format_duration(summary.ended_at - summary.started_at)
    facts = [
        short_path(summary.project) if summary.project else "",
        pluralize(summary.prompt_count, "prompt"),
        pluralize(summary.message_count, "message"),
        pluralize(summary.agent_count, "agent") if summary.agent_count else "",
        pluralize(summary.branch_count, "branch", "branches")
        if summary.branch_count > 1
        else "",
        duration,
        f"{format_tokens(summary.usage.total)} tokens" if summary.usage.total else "",
        pluralize(summary.problem_count, "problem") if summary.problem_count else "",
    ]
    return Html(
        f'<li data-session="{escape(summary.id)}">'
        f"{link(build_url('session', summary.id), title)} {_badges(summary, now)}"
        f'<span class="when">{time_tag(summary.ended_at or summary.started_at, now)}</span>'
        f"<p>{render_facts(facts)}</p></li>"
    )


def _badges(summary: SessionSummary, now: datetime) -> Html:
    """Return the badges of a session: running, star, tags and note."""
    parts = [tag("span", escape_line(name), kind="chip") for name in summary.tags]
    if summary.is_starred:
        star = Html(
            '<span aria-hidden="true">★</span><span class="visually-hidden">starred</span>'
        )
        parts.insert(0, tag("span", star, kind="starred"))
    if summary.note:
        parts.append(
            tag("span", escape_line(summary.note[:_MAX_NOTE]), kind="note-badge")
        )
    if is_running(summary, now):
        parts.insert(0, tag("span", escape_line("running"), kind="running"))
    return tag("span", join_html(parts), kind="badges") if parts else EMPTY_HTML


_MAX_NOTE = 120
"""Characters of a note that a list shows."""
_MIN_DATETIME = datetime.min.replace(tzinfo=UTC)


def load_projects(archive: Archive) -> tuple[Project, ...]:
    """Return all projects, most recently active first."""
    return tuple(
        sorted(
            archive.projects(),
            key=lambda project: project.last_active_at or _MIN_DATETIME,
            reverse=True,
        )
    )


def projects_page(context: RequestContext) -> Response:
    rows = []
    for project in context.pool.cached("projects", load_projects):
        path = project.path or ""
        name = escape_line(project.name)
        url = build_url(project=path) if path else ""
        rows.append(
            (
                join_html(
                    (
                        link(url, name) if url else name,
                        tag("div", escape_line(path), kind="note"),
                    )
                ),
                escape_line(f"{len(project.session_ids):,}"),
                escape_line(format_tokens(project.usage.total)),
                escape_line(format_bytes(project.source_bytes)),
                time_tag(project.last_active_at, context.now),
            )
        )
    headers = ("Project", "Sessions", "Tokens", "Size", "Last active")
    return render_page(
        PageMeta(title="Projects", nav="/projects", css_class="wide"),
        (
            tag("h1", escape_line("Projects")),
            render_table(headers, rows) if rows else empty_message("No projects yet."),
        ),
    )
