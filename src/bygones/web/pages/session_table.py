"""The table of sessions, its filters, and what can be done with several of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from html import escape
from typing import NamedTuple

from msgspec import structs
from starlette.responses import RedirectResponse, Response

from bygones.errors import BadRequest
from bygones.model.base import SessionId
from bygones.model.summary import Annotations, SessionSummary
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    format_inline,
    join_html,
    render_facts,
    tag,
)
from bygones.render.numbers import (
    format_cost,
    format_duration,
    format_tokens,
    pluralize,
    short_model_name,
)
from bygones.render.text.primitives import sanitize_line
from bygones.web.context import RequestContext
from bygones.web.icons import icon
from bygones.web.layout import (
    build_url,
    empty_message,
    is_running,
    link,
    select_field,
    short_path,
    time_tag,
    top_choices,
)
from bygones.web.session_filters import (
    DEFAULT_SORT,
    Costs,
    SessionFilters,
    project_location,
    project_name,
    session_duration,
    session_time,
)

PAGE_SIZE = 100
_MAX_NOTE = 120
"""Characters of a note that a list shows."""
_MAX_TAG_LENGTH = 100
_MAX_BULK = 1_000
_PERIODS = (
    ("0", "Any time"),
    ("1", "Last day"),
    ("7", "Last 7 days"),
    ("30", "Last 30 days"),
    ("90", "Last 90 days"),
)


class _Column(NamedTuple):
    name: str
    """What it is sorted by; also its class."""
    label: str
    cell: Callable[[SessionSummary, Costs, datetime], Html]
    is_number: bool = True


def _count(number: int, hidden_up_to: int = 0) -> Html:
    return escape_line(f"{number:,}") if number > hidden_up_to else EMPTY_HTML


def _project_cell(summary: SessionSummary, _costs: Costs, _now: datetime) -> Html:
    path = project_location(summary)
    url = build_url(project=path)
    name = escape_line(project_name(summary))
    return tag("a", name, href=url, title=sanitize_line(path))


def _model_cell(summary: SessionSummary, _costs: Costs, _now: datetime) -> Html:
    names = [short_model_name(model) for model in summary.models]
    text = f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)
    return tag("span", escape_line(text), title=sanitize_line(", ".join(names)))


def _prompts_cell(summary: SessionSummary, _costs: Costs, _now: datetime) -> Html:
    title = (
        f"{pluralize(summary.prompt_count, 'prompt')}, "
        f"{pluralize(summary.message_count, 'message')}"
    )
    return tag("span", escape_line(f"{summary.prompt_count:,}"), title=title)


def _duration_cell(summary: SessionSummary, _costs: Costs, _now: datetime) -> Html:
    duration = session_duration(summary)
    return escape_line(format_duration(duration)) if duration else EMPTY_HTML


def _tokens_cell(summary: SessionSummary, _costs: Costs, _now: datetime) -> Html:
    total = summary.usage.total
    return escape_line(format_tokens(total)) if total else EMPTY_HTML


def _cost_cell(summary: SessionSummary, costs: Costs, _now: datetime) -> Html:
    cost = costs.get(summary.id)
    return escape_line(format_cost(cost)) if summary.usage.total else EMPTY_HTML


def _title_cell(summary: SessionSummary, _costs: Costs, now: datetime) -> Html:
    text = summary.title.text.strip() or summary.id
    url = build_url("session", summary.id)
    facts = (
        summary.person,
        short_path(summary.project or ""),
        pluralize(summary.prompt_count, "prompt"),
        pluralize(summary.message_count, "message"),
        pluralize(summary.agent_count, "agent") if summary.agent_count else "",
        pluralize(summary.branch_count, "branch", "branches")
        if summary.branch_count > 1
        else "",
        pluralize(summary.problem_count, "problem") if summary.problem_count else "",
        summary.empty_reason or "",
    )
    return join_html(
        (
            _badges(summary, now),
            tag(
                "a",
                format_inline(escape_line(text)),
                href=url,
                kind="row-title",
                title=sanitize_line(text),
            ),
            tag("p", render_facts(facts), kind="row-facts"),
        )
    )


_COLUMNS = (
    _Column("title", "Session", _title_cell, is_number=False),
    _Column("project", "Project", _project_cell, is_number=False),
    _Column("model", "Model", _model_cell, is_number=False),
    _Column("prompts", "Prompts", _prompts_cell),
    _Column("branches", "Branches", lambda one, _, __: _count(one.branch_count, 1)),
    _Column("agents", "Agents", lambda one, _, __: _count(one.agent_count)),
    _Column("duration", "Duration", _duration_cell),
    _Column("tokens", "Tokens", _tokens_cell),
    _Column("cost", "Cost", _cost_cell),
    _Column(
        "when", "Last active", lambda one, _, now: time_tag(session_time(one), now)
    ),
)
_COLUMN_COUNT = len(_COLUMNS) + 1


def _badges(summary: SessionSummary, now: datetime) -> Html:
    """Return the badges of a session: running, star, tags and note."""
    parts = [
        link(build_url(tag=name), escape_line(name), "chip") for name in summary.tags
    ]
    if summary.is_starred:
        star = join_html(
            (icon("star"), tag("span", escape_line("starred"), kind="visually-hidden"))
        )
        parts.insert(0, tag("span", star, kind="starred"))
    if summary.note:
        note = escape_line(summary.note[:_MAX_NOTE])
        parts.append(tag("span", note, kind="note-badge"))
    if is_running(summary, now):
        parts.insert(0, tag("span", escape_line("running"), kind="running"))
    return tag("span", join_html(parts), kind="badges") if parts else EMPTY_HTML


def session_table(
    context: RequestContext,
    filters: SessionFilters,
    sessions: Sequence[SessionSummary],
    offset: int,
) -> Html:
    """Return a page of the table; sessions are grouped by day if sorted by time."""
    if not sessions:
        return _no_sessions(is_filtered=filters.is_filtered)
    rows = session_rows(context, filters, sessions, offset)
    can_change = context.pool.folder is not None
    body = Html(
        f'<table class="sessions" id="timeline"><thead>{_table_head(filters)}</thead>'
        f"<tbody>{rows}</tbody></table>"
    )
    if not can_change:
        return tag("div", body, kind="read-only")
    url = build_url("sessions", "change", **filters.query_params)
    return Html(
        f'<form class="bulk" id="bulk" method="post" action="{escape(url)}">'
        f"{body}{_BULK_BAR}</form>"
    )


def session_rows(
    context: RequestContext,
    filters: SessionFilters,
    sessions: Sequence[SessionSummary],
    offset: int,
) -> Html:
    """Return rows of the table, and a link to the next ones."""
    shown = sessions[offset : offset + PAGE_SIZE]
    with context.pool.archive() as archive:
        costs = archive.costs(shown, context.app_state.prices)
    is_by_day = filters.sort == DEFAULT_SORT
    day = _session_day(sessions[offset - 1]) if 0 < offset <= len(sessions) else ...
    parts: list[Html] = []
    for summary in shown:
        if is_by_day and _session_day(summary) != day:
            day = _session_day(summary)
            parts.append(_day_row(day, context.now))
        parts.append(_session_row(summary, costs, context.now))
    remaining = len(sessions) - offset - len(shown)
    if remaining > 0:
        parts.append(_next_row(filters, offset + PAGE_SIZE, remaining))
    return join_html(parts)


def _session_row(summary: SessionSummary, costs: Costs, now: datetime) -> Html:
    cells = "".join(
        f'<td class="c-{column.name}{" number" if column.is_number else ""}">'
        f"{column.cell(summary, costs, now)}</td>"
        for column in _COLUMNS
    )
    label = escape(f"Select {sanitize_line(summary.title.text)[:80]}")
    return Html(
        f'<tr data-session="{escape(summary.id)}"><td class="c-check"><input '
        f'type="checkbox" name="session" value="{escape(summary.id)}" '
        f'aria-label="{label}"></td>{cells}</tr>'
    )


def _next_row(filters: SessionFilters, offset: int, remaining: int) -> Html:
    params = {**filters.query_params, "offset": offset}
    text = pluralize(remaining, "more session")
    return Html(
        f'<tr class="older"><td colspan="{_COLUMN_COUNT}">'
        f'<a href="{escape(build_url(**params))}" '
        f'data-more="{escape(build_url("more", **params))}">{text}</a></td></tr>'
    )


def _day_row(day: date | None, now: datetime) -> Html:
    label = escape_line(_day_label(day, now))
    return Html(
        f'<tr class="day"><th colspan="{_COLUMN_COUNT}" scope="rowgroup">{label}</th></tr>'
    )


def _table_head(filters: SessionFilters) -> Html:
    select_all = (
        '<th class="c-check"><input type="checkbox" data-act="select-all" '
        'class="only-scripted" aria-label="Select all"></th>'
    )
    cells = "".join(_column_head(filters, column) for column in _COLUMNS)
    return Html(f"<tr>{select_all}{cells}</tr>")


def _column_head(filters: SessionFilters, column: _Column) -> str:
    """Return a column's name as a link that sorts by it, or reverses the order."""
    current = filters.sort.removeprefix("-")
    is_current = current == column.name
    starts_descending = column.is_number
    descending = not filters.sort.startswith("-") if is_current else starts_descending
    sort = f"{'-' if descending else ''}{column.name}"
    params = {**filters.query_params, "sort": "" if sort == DEFAULT_SORT else sort}
    order = "descending" if filters.sort.startswith("-") else "ascending"
    state = f' aria-sort="{order}"' if is_current else ""
    number = " number" if column.is_number else ""
    return (
        f'<th scope="col" class="c-{column.name}{number}"{state}>'
        f'<a href="{escape(build_url(**params))}">{column.label}</a></th>'
    )


def _no_sessions(*, is_filtered: bool) -> Html:
    if is_filtered:
        clear = tag("p", link("/", escape_line("Clear filters")))
        return empty_message("No sessions match these filters.", clear)
    hint = Html(
        "<p>Use Claude Code, then reload this page. If its home is in another "
        "folder, run <code>bygones ingest --home FOLDER</code>.</p>"
    )
    return empty_message("This archive has no sessions yet.", hint)


def _session_day(summary: SessionSummary) -> date | None:
    time = session_time(summary)
    return time.astimezone().date() if time else None


def _day_label(day: date | None, now: datetime) -> str:
    if day is None:
        return "No date"
    today = now.astimezone().date()
    names = {0: "Today", 1: "Yesterday"}
    name = names.get((today - day).days, f"{day:%A}")
    year = "" if day.year == today.year else f" {day.year}"
    return f"{name}, {day:%B} {day.day}{year}"


def filter_form(
    filters: SessionFilters,
    summaries: Sequence[SessionSummary],
    sessions_by_tool: Mapping[str, frozenset[SessionId]],
) -> Html:
    paths = (summary.project_path for summary in summaries)
    projects = Counter(path for path in paths if path)
    models = Counter(model for summary in summaries for model in summary.models)
    tools = Counter({tool: len(ids) for tool, ids in sessions_by_tool.items()})
    tags = Counter(name for summary in summaries for name in summary.tags)
    sort = "" if filters.sort == DEFAULT_SORT else filters.sort
    query = f'<input type="hidden" name="q" value="{escape(filters.query_text)}">'
    return Html(
        '<form class="filters" action="/" data-live>'
        '<input type="search" name="text" placeholder="Filter by title" '
        f'aria-label="Filter by title" value="{escape(filters.title_text)}">'
        f"{select_field('project', 'All projects', top_choices(projects), filters.project)}"
        f"{select_field('model', 'All models', top_choices(models), filters.model)}"
        f"{select_field('tool', 'All tools', top_choices(tools), filters.tool)}"
        f"{select_field('days', '', _PERIODS, str(filters.max_age_days))}"
        f"{_more_filters(filters, tags)}"
        f'<input type="hidden" name="sort" value="{escape(sort)}">'
        f"{query if filters.query_text else ''}"
        '<button type="submit" class="hidden-with-script">Filter</button></form>'
        f"{_active_filters(filters)}"
    )


def _more_filters(filters: SessionFilters, tags: Counter[str]) -> Html:
    """Return the filters that are folded: dates, stars, tags, errors, cost."""
    is_open = any(
        (
            filters.since,
            filters.until,
            filters.tag,
            filters.is_starred,
            filters.has_errors,
            filters.min_cost,
        )
    )
    dates = "".join(
        f'<label>{label} <input type="date" name="{name}" '
        f'value="{value.isoformat() if value else ""}"></label>'
        for label, name, value in (
            ("From", "since", filters.since),
            ("to", "until", filters.until),
        )
    )
    checks = "".join(
        f'<label><input type="checkbox" name="{name}" value="1"'
        f"{' checked' if value else ''}> {label}</label>"
        for label, name, value in (
            ("Starred", "starred", filters.is_starred),
            ("With errors", "errors", filters.has_errors),
        )
    )
    cost = f"{filters.min_cost:g}" if filters.min_cost else ""
    tag_field = select_field("tag", "All tags", top_choices(tags), filters.tag)
    return Html(
        f'<details class="more-filters"{" open" if is_open else ""}><summary>More'
        f"</summary><div>{dates}{checks}{tag_field if tags or filters.tag else ''}"
        '<label>Cost at least $ <input type="number" name="cost" min="0" step="any" '
        f'value="{cost}"></label></div></details>'
    )


def _active_filters(filters: SessionFilters) -> Html:
    """Return the filters that no field shows, with links that remove them."""
    chips = []
    if filters.day:
        day = f"on {filters.day:%B} {filters.day.day}, {filters.day.year}"
        chips.append((day, {"on": ""}))
    if filters.query_text:
        chips.append((filters.query_text, {"q": ""}))
    if not chips:
        return EMPTY_HTML
    links = (
        link(
            build_url(**{**filters.query_params, **change}),
            join_html((escape_line(text), icon("close"))),
            "chip",
        )
        for text, change in chips
    )
    return tag("p", join_html(links, " "), kind="active-filters")


_BULK_BAR = Html(
    '<div class="bulk-bar" id="bulk-bar"><span data-count>With the selected sessions:'
    "</span>"
    '<button type="submit" name="action" value="star">Star</button>'
    '<button type="submit" name="action" value="unstar">Remove star</button>'
    '<label><span class="visually-hidden">Tag</span><input type="text" name="tag" '
    'placeholder="Tag" maxlength="100" autocomplete="off"></label>'
    '<button type="submit" name="action" value="tag">Add tag</button>'
    '<button type="submit" name="action" value="untag">Remove tag</button>'
    '<button type="submit" name="action" value="export">Export…</button></div>'
)


def change_sessions(context: RequestContext) -> Response:
    """Star, tag or export the selected sessions, then return to the list."""
    form = context.form(max_fields=_MAX_BULK)
    action = form.get("action", [""])[0]
    names = form.get("session", [])
    filters = SessionFilters.from_request(context)
    if action == "export":
        url = f"{build_url('share')}?{_encode_names(names)}"
        return RedirectResponse(url if names else build_url(), 303)
    change = _bulk_change(action, form.get("tag", [""])[0].strip())
    if names:
        with context.pool.archive() as archive:
            ids = [archive.session_summary(name).id for name in names]
            archive.annotate(ids, change)
        context.pool.invalidate()
    return RedirectResponse(build_url(**filters.query_params), 303)


def _encode_names(names: Sequence[str]) -> str:
    return "&".join(
        build_url(session=name).removeprefix("/?") for name in dict.fromkeys(names)
    )


def _bulk_change(action: str, tag_text: str) -> Callable[[Annotations], Annotations]:
    """Return how annotations change."""
    if action in {"star", "unstar"}:
        return lambda old: structs.replace(old, is_starred=action == "star")
    if action not in {"tag", "untag"}:
        raise BadRequest("action must be star, unstar, tag, untag or export")
    tags = frozenset(tag_text.replace(",", " ").split())
    if not tags or any(len(t) > _MAX_TAG_LENGTH or not t.isprintable() for t in tags):
        raise BadRequest("a tag must be one word of at most 100 printable characters")

    def change(old: Annotations) -> Annotations:
        kept = {*old.tags} | tags if action == "tag" else {*old.tags} - tags
        return structs.replace(old, tags=tuple(sorted(kept)))

    return change
