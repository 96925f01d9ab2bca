"""The home page: what was worked on, day by day, and what is running now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from html import escape

from msgspec import Struct
from msgspec.structs import force_setattr
from starlette.responses import HTMLResponse, Response

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
    format_usd,
    pluralize,
)
from bygones.web.charts import bar_chart, heat_map
from bygones.web.context import RequestContext
from bygones.web.layout import (
    PageMeta,
    build_url,
    empty_message,
    link,
    render_page,
    render_table,
    time_tag,
)

_PAGE_SIZE = 60
RUNNING_TIMEOUT = timedelta(minutes=5)
"""How long a session is running after something was said in it."""
_MAX_CHOICES = 200
_SHARED_FIELDS = (
    "project",
    "project_keys",
    "models",
    "versions",
    "git_branches",
    "entrypoints",
    "tags",
    "lineage",
    "flags",
    "note",
)
"""What is the same in the lines of many sessions."""


class SessionFilters(Struct, frozen=True, kw_only=True):
    """Which sessions are shown; every state is an address."""

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
        """Return what an address asks for."""
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
        """The values as they stand in an address."""
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
        selected = [one for one in summaries if self.include_empty or not one.is_empty]
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
    """Answer with the home page."""
    filters = SessionFilters.from_request(context)
    is_plain = not any(filters.query_params.values())
    overview = _overview(context) if is_plain else EMPTY_HTML
    callers = _sessions_by_tool(context)
    # Last, as nothing is waited for any more: all of them take much memory.
    known = context.pool.cached("sessions", load_summaries)
    sessions = filters.select(context, known)
    parts = [tag("h1", escape_line("Sessions"), kind="unseen")]
    if is_plain:
        parts += [_running_section(context, sessions), overview]
    parts += [
        _filter_form(filters, known, callers),
        _timeline(context, filters, sessions, 0),
    ]
    frame = PageMeta(title="Sessions", nav="/", css_class="home")
    return render_page(frame, parts)


def older_sessions(context: RequestContext) -> Response:
    """Answer with further sessions, and nothing around them."""
    filters = SessionFilters.from_request(context)
    offset = context.query_int("offset", 0)
    known = context.pool.cached("sessions", load_summaries)
    made = _timeline(context, filters, filters.select(context, known), offset)
    return HTMLResponse(made.encode("utf-8", "backslashreplace"))


def load_summaries(archive: Archive) -> tuple[SessionSummary, ...]:
    """Return the line of every session, newest first.

    What several of them say is there once: that is half of the memory they take.
    """
    said: dict[object, object] = {}
    found = []
    for one in archive.sessions(include_empty=True):
        for name in _SHARED_FIELDS:
            value = getattr(one, name)
            force_setattr(one, name, said.setdefault(value, value))
        found.append(one)
    return tuple(found)


def _sessions_by_tool(context: RequestContext) -> dict[str, frozenset[SessionId]]:
    return context.pool.cached("tools", Archive.sessions_by_tool)


def _running_section(
    context: RequestContext, sessions: Sequence[SessionSummary]
) -> Html:
    now = [one for one in sessions if is_running(one, context.now)]
    hidden = "" if now else " hidden"
    lines = join_html(session_item(one, context.now) for one in now)
    return Html(
        f'<section class="now" id="now"{hidden}><h2>Running now</h2>'
        f'<ul class="sessions">{lines}</ul></section>'
    )


def is_running(summary: SessionSummary, now: datetime) -> bool:
    """Whether something was said in a session a moment ago."""
    return (
        summary.ended_at is not None
        and timedelta(0) <= now - summary.ended_at < RUNNING_TIMEOUT
    )


def _overview(context: RequestContext) -> Html:
    now, prices = context.now, context.app_state.prices

    def days(archive: Archive) -> UsageReport:
        return archive.usage("day", timezone=context.zone, now=now, prices=prices)

    def models(archive: Archive) -> UsageReport:
        return archive.usage("model", now=now, prices=prices)

    by_day = context.pool.cached("usage by day", days)
    rows = [row for row in by_day.rows if isinstance(row, UsageRow)]
    counts = {date.fromisoformat(row.key): row.answers for row in rows if row.key}
    if not counts:
        return EMPTY_HTML
    last = min(now.astimezone().date(), _last_chart_day(counts))
    by_model = context.pool.cached("usage by model", models)
    return Html(
        '<div class="overview"><section><h2>Activity</h2>'
        f"{heat_map(counts, last)}</section><section><h2>Cost by model</h2>"
        f"{_model_costs(by_model)}</section></div>"
    )


def _last_chart_day(counts: dict[date, int]) -> date:
    """Return the last day to draw: today, unless everything is long ago."""
    return max(counts) + timedelta(days=60)


def _model_costs(report: UsageReport) -> Html:
    shares = [
        (
            row.key or "unknown",
            (row.cost or 0) / NANOS_PER_DOLLAR,
            format_cost(row.cost),
        )
        for row in report.rows
        if isinstance(row, UsageRow)
    ]
    shares.sort(key=lambda share: -share[1])
    total = tag(
        "p",
        join_html(
            (
                tag("b", escape_line(format_cost(report.total.cost))),
                escape_line("at the prices of the API,"),
                link(
                    "/usage",
                    escape_line(f"{format_tokens(report.total.tokens)} tokens"),
                ),
            ),
            " ",
        ),
        kind="note",
    )
    return join_html((bar_chart(shares[:6], label="Cost by model"), total))


def format_cost(cost: int | None) -> str:
    """Return an amount of money; a dash where it is not known."""
    if cost is None:
        return "\N{EN DASH}"
    amount = cost / NANOS_PER_DOLLAR
    return f"${amount:,.0f}" if amount >= 100 else format_usd(cost)  # noqa: PLR2004


def _filter_form(
    filters: SessionFilters,
    summaries: Sequence[SessionSummary],
    sessions_by_tool: Mapping[str, frozenset[SessionId]],
) -> Html:
    projects = Counter(one.project for one in summaries if one.project)
    models = Counter(model for one in summaries for model in one.models)
    tools = Counter({tool: len(ids) for tool, ids in sessions_by_tool.items()})
    spans = (("0", "any time"), ("1", "a day"), ("7", "a week"), ("30", "a month"))
    on = EMPTY_HTML
    if filters.day:
        kept = {**filters.query_params, "on": ""}
        on = link(
            build_url(**kept),
            escape_line(f"on {filters.day:%d %B %Y} \N{MULTIPLICATION SIGN}"),
            "chip",
        )
    return Html(
        '<form class="filters" action="/" data-live>'
        '<input type="search" name="text" placeholder="Filter by title" '
        f'aria-label="Filter by title" value="{escape(filters.title_text)}">'
        f"{_select('project', 'All projects', _top_choices(projects), filters.project)}"
        f"{_select('model', 'All models', _top_choices(models), filters.model)}"
        f"{_select('tool', 'All tools', _top_choices(tools), filters.tool)}"
        f"{_select('days', '', spans, str(filters.max_age_days))}"
        f'{on}<button type="submit" class="unseen-with-script">Filter</button></form>'
    )


def _top_choices(counts: Counter[str]) -> list[tuple[str, str]]:
    return [
        (name, f"{short_path(name)} ({count:,})")
        for name, count in counts.most_common(_MAX_CHOICES)
    ]


def short_path(path: str) -> str:
    """Return the last two parts of a path."""
    parts = path.replace("\\", "/").rstrip("/").split("/")
    return "/".join(parts[-2:])


def _select(
    name: str, empty_label: str, choices: Sequence[tuple[str, str]], selected: str
) -> Html:
    options = [("", empty_label)] if empty_label else []
    if selected and selected not in dict(choices):
        options.append((selected, selected))
    made = "".join(
        f'<option value="{escape(value)}"{" selected" if value == selected else ""}>'
        f"{escape_line(told)}</option>"
        for value, told in (*options, *choices)
    )
    label = name.capitalize()
    return Html(f'<select name="{name}" aria-label="{label}">{made}</select>')


def _timeline(
    context: RequestContext,
    filters: SessionFilters,
    sessions: Sequence[SessionSummary],
    offset: int,
) -> Html:
    if not sessions:
        return empty_message(
            "No session fits.", tag("p", link("/", escape_line("Show all")))
        )
    shown = sessions[offset : offset + _PAGE_SIZE]
    before = sessions[offset - 1] if 0 < offset <= len(sessions) else None
    parts = list(_group_by_day(shown, before, context.now))
    rest = len(sessions) - offset - len(shown)
    if rest > 0:
        to = build_url("more", **filters.query_params, offset=offset + _PAGE_SIZE)
        told = f"{pluralize(rest, 'older session')}"
        parts.append(
            Html(f'<p class="older"><a href="{escape(to)}" data-more>{told}</a></p>')
        )
    if offset:
        return join_html(parts)
    return tag("div", join_html(parts), kind="timeline", id="timeline")


def _group_by_day(
    sessions: Sequence[SessionSummary], previous: SessionSummary | None, now: datetime
) -> Iterator[Html]:
    """Yield sessions below the day on which they ended."""
    day = _session_day(previous) if previous else None
    lines: list[Html] = []
    for one in sessions:
        if _session_day(one) != day or not lines:
            if lines:
                yield tag("ul", join_html(lines), kind="sessions")
            if _session_day(one) != day:
                day = _session_day(one)
                yield tag("h2", escape_line(_day_label(day, now)), kind="day")
            lines = []
        lines.append(session_item(one, now))
    if lines:
        yield tag("ul", join_html(lines), kind="sessions")


def _session_day(summary: SessionSummary) -> date | None:
    time = summary.ended_at or summary.started_at
    return time.astimezone().date() if time else None


def _day_label(day: date | None, now: datetime) -> str:
    if day is None:
        return "Without a date"
    today = now.astimezone().date()
    names = {0: "Today", 1: "Yesterday"}
    told = names.get((today - day).days, f"{day:%A}")
    year = "" if day.year == today.year else f" {day.year}"
    return f"{told}, {day.day} {day:%B}{year}"


def session_item(
    summary: SessionSummary, now: datetime, note: Html = EMPTY_HTML
) -> Html:
    """Return a session in a list: its title, and what one chooses by."""
    title = escape_line(summary.title.text) or escape_line(summary.id)
    lasted = ""
    if (
        summary.started_at
        and summary.ended_at
        and summary.ended_at > summary.started_at
    ):
        lasted = format_duration(summary.ended_at - summary.started_at)
    told = [
        short_path(summary.project) if summary.project else "",
        pluralize(summary.prompt_count, "prompt"),
        pluralize(summary.message_count, "message"),
        pluralize(summary.agent_count, "agent") if summary.agent_count else "",
        pluralize(summary.branch_count, "branch", "branches")
        if summary.branch_count > 1
        else "",
        lasted,
        f"{format_tokens(summary.usage.total)} tokens" if summary.usage.total else "",
        pluralize(summary.problem_count, "problem") if summary.problem_count else "",
    ]
    return Html(
        f'<li data-session="{escape(summary.id)}">'
        f"{link(build_url('session', summary.id), title)} {_badges(summary, now)}"
        f'<span class="when">{time_tag(summary.ended_at or summary.started_at, now)}</span>'
        f"<p>{render_facts(told)}</p>{note}</li>"
    )


def _badges(summary: SessionSummary, now: datetime) -> Html:
    """Return what stands beside a session: that it runs, a star, tags and a note."""
    parts = [tag("span", escape_line(name), kind="chip") for name in summary.tags]
    if summary.is_starred:
        star = Html(
            '<span aria-hidden="true">★</span><span class="unseen">starred</span>'
        )
        parts.insert(0, tag("span", star, kind="starred"))
    if summary.note:
        parts.append(tag("span", escape_line(summary.note[:_MAX_NOTE]), kind="noted"))
    if is_running(summary, now):
        parts.insert(0, tag("span", escape_line("running"), kind="running"))
    return tag("span", join_html(parts), kind="added-by") if parts else EMPTY_HTML


_MAX_NOTE = 120
"""Signs of a note that a list shows."""


_MIN_DATETIME = datetime.min.replace(tzinfo=UTC)


def load_projects(archive: Archive) -> tuple[Project, ...]:
    """Return all projects, the one last worked on first."""
    return tuple(
        sorted(
            archive.projects(),
            key=lambda project: project.last_active_at or _MIN_DATETIME,
            reverse=True,
        )
    )


def projects_page(context: RequestContext) -> Response:
    """Answer with the list of projects."""
    lines = []
    for project in context.pool.cached("projects", load_projects):
        path = project.path or ""
        name = escape_line(project.name)
        to = build_url(project=path) if path else ""
        lines.append(
            (
                join_html(
                    (
                        link(to, name) if to else name,
                        tag("div", escape_line(path), kind="note"),
                    )
                ),
                escape_line(f"{len(project.session_ids):,}"),
                escape_line(format_tokens(project.usage.total)),
                escape_line(format_bytes(project.source_bytes)),
                time_tag(project.last_active_at, context.now),
            )
        )
    heads = ("Project", "Sessions", "Tokens", "Size", "Last")
    frame = PageMeta(title="Projects", nav="/projects", css_class="wide")
    return render_page(
        frame, (tag("h1", escape_line("Projects")), render_table(heads, lines))
    )
