"""The home page (a timeline of sessions with filters) and the list of projects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from starlette.responses import Response

from bygones.archive import Archive
from bygones.model.summary import Project, SessionSummary
from bygones.render.html.markup import (
    Html,
    escape_line,
    join_html,
    render_facts,
    tag,
)
from bygones.render.numbers import (
    format_bytes,
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
    link,
    render_page,
    render_table,
    time_tag,
)
from bygones.web.pages.session_table import (
    PAGE_SIZE,
    filter_form,
    session_rows,
    session_table,
)
from bygones.web.session_filters import SessionFilters, cost_nanos, load_all_costs

_MIN_DATETIME = datetime.min.replace(tzinfo=UTC)


def home_page(context: RequestContext) -> Response:
    filters = SessionFilters.from_request(context)
    sessions_by_tool = context.pool.sessions_by_tool()
    # Last, as all summaries take much memory.
    summaries = context.pool.summaries()
    sessions = filters.select(context, summaries)
    offset = context.query_int("offset", 0) // PAGE_SIZE * PAGE_SIZE
    parts = [
        Html('<div class="list-head">'),
        tag("h1", escape_line("Sessions")),
        _total_line(context, sessions),
        _DENSITY_SWITCH,
        Html("</div>"),
        filter_form(filters, summaries, sessions_by_tool),
        session_table(context, filters, sessions, offset),
    ]
    return render_page(PageMeta(title="Sessions", nav="/", css_class="home"), parts)


def older_sessions(context: RequestContext) -> Response:
    """Return the next rows of the table."""
    filters = SessionFilters.from_request(context)
    offset = context.query_int("offset", 0)
    sessions = filters.select(context, context.pool.summaries())
    return html_response(session_rows(context, filters, sessions, offset))


def _total_line(context: RequestContext, sessions: Sequence[SessionSummary]) -> Html:
    costs = load_all_costs(context)
    tokens = sum(summary.usage.total for summary in sessions)
    nanos = sum(cost_nanos(summary, costs) for summary in sessions)
    facts = (
        pluralize(len(sessions), "session"),
        f"{format_tokens(tokens)} tokens" if tokens else "",
        format_dollars(nanos) if nanos else "",
    )
    return tag("p", render_facts(facts), kind="note")


_DENSITY_SWITCH = Html(
    '<fieldset class="density"><legend class="visually-hidden">Density</legend>'
    + "".join(
        f'<label><input type="radio" name="density" id="density-{name}" '
        f'value="{name}" autocomplete="off"{" checked" if name == "compact" else ""}>'
        f"<span>{label}</span></label>"
        for name, label in (("compact", "Compact"), ("comfortable", "Comfortable"))
    )
    + "</fieldset>"
)


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
        PageMeta(title="Projects", nav="/projects", css_class="wide projects"),
        (
            tag("h1", escape_line("Projects")),
            render_table(headers, rows) if rows else empty_message("No projects yet."),
        ),
    )
