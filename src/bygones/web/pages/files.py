"""The page of files: what sessions changed, and what became of a file over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape

from msgspec import Struct
from starlette.responses import Response

from bygones.archive import Archive
from bygones.model.outcomes import build_hunks
from bygones.model.sessions import ToolCall
from bygones.model.summary import IndexedEdit, SessionSummary
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    make_element_id,
    render_facts,
    tag,
)
from bygones.render.html.tool_calls import render_diff
from bygones.render.numbers import pluralize
from bygones.web.context import RequestContext
from bygones.web.conversation_view import open_view
from bygones.web.layout import (
    PageMeta,
    build_url,
    empty_message,
    link,
    render_page,
    render_table,
    time_tag,
)
from bygones.web.pages.home import load_summaries
from bygones.web.pool import OpenSession

__all__ = ["files_page"]

_MAX_ROWS = 300
_MAX_DIFFS = 60


class _ChangeCounts(Struct, kw_only=True):
    """A file, or a session, and how much was changed there."""

    name: str
    changes: int = 0
    added: int = 0
    removed: int = 0
    last_changed_at: datetime | None = None
    related: set[str]
    """The sessions that changed the file, or the files that the session changed."""

    def add(self, edit: IndexedEdit, related_name: str) -> None:
        """Count one more change."""
        self.changes += 1
        self.added += edit.added_lines
        self.removed += edit.removed_lines
        self.last_changed_at = edit.edited_at or self.last_changed_at
        self.related.add(related_name)


def files_page(context: RequestContext) -> Response:
    """Answer with the files of a session, the sessions of a file, or the newest."""
    session, path = context.query_param("session", 200), context.query_param("path")
    if session and path:
        return _file_history(context, session, path)
    if session:
        return _files_of_session(context, session)
    return _files_under(context, path)


def _render_files_page(title: str, *main: Html, path: str = "") -> Response:
    form = Html(
        '<form class="filters" action="/files"><input type="search" name="path" '
        'placeholder="A file, a folder, or how its path ends" '
        f'aria-label="Path" value="{escape(path)}"><button>Show</button></form>'
    )
    frame = PageMeta(title=title, nav="/files", css_class="wide")
    return render_page(frame, (tag("h1", escape_line(title)), form, *main))


def _files_under(context: RequestContext, path: str) -> Response:
    """Show which sessions changed a file; for a folder, which files changed."""
    with context.pool.archive() as archive:
        edits = archive.edits(path=path)
    paths = {edit.path for edit in edits}
    if len(paths) == 1:
        return _sessions_of_file(context, next(iter(paths)), edits)
    changed: dict[str, _ChangeCounts] = {}
    for edit in edits:
        one = changed.setdefault(
            edit.path, _ChangeCounts(name=edit.path, related=set())
        )
        one.add(edit, edit.session_id)
    title = f"Files in {path}" if path else "Files"
    if not changed:
        return _render_files_page(
            title, empty_message("No session changed such a file."), path=path
        )
    rows = sorted(changed.values(), key=_last_changed_key, reverse=True)
    lines = [
        (
            link(build_url("files", path=one.name), escape_line(one.name)),
            escape_line(f"{len(one.related):,}"),
            *_count_cells(one, context.now),
        )
        for one in rows[:_MAX_ROWS]
    ]
    newest = f", the newest {len(lines):,} shown" if len(lines) < len(rows) else ""
    count = escape_line(f"{pluralize(len(rows), 'file')}{newest}")
    heads = ("File", "Sessions", *_COUNT_HEADERS)
    return _render_files_page(
        title, tag("p", count, kind="note"), render_table(heads, lines), path=path
    )


_COUNT_HEADERS = ("Changes", "Lines", "Last")


def _last_changed_key(counts: _ChangeCounts) -> float:
    return counts.last_changed_at.timestamp() if counts.last_changed_at else 0.0


def _count_cells(counts: _ChangeCounts, now: datetime) -> tuple[Html, Html, Html]:
    lines = join_html(
        (
            tag("span", escape_line(f"+{counts.added:,}"), kind="added"),
            tag(
                "span", escape_line(f"\N{MINUS SIGN}{counts.removed:,}"), kind="removed"
            ),
        ),
        " ",
    )
    return (
        escape_line(f"{counts.changes:,}"),
        lines,
        time_tag(counts.last_changed_at, now),
    )


def _sessions_of_file(
    context: RequestContext, path: str, edits: Sequence[IndexedEdit]
) -> Response:
    known = {
        str(one.id): one for one in context.pool.cached("sessions", load_summaries)
    }
    changed: dict[str, _ChangeCounts] = {}
    for edit in edits:
        one = changed.setdefault(
            edit.session_id, _ChangeCounts(name=edit.session_id, related=set())
        )
        one.add(edit, edit.path)
    rows = sorted(changed.values(), key=_last_changed_key, reverse=True)
    lines = [
        (
            link(
                build_url("files", session=one.name, path=path),
                escape_line(_session_title(known.get(one.name), one.name)),
            ),
            *_count_cells(one, context.now),
        )
        for one in rows[:_MAX_ROWS]
    ]
    return _render_files_page(
        path, render_table(("Session", *_COUNT_HEADERS), lines), path=path
    )


def _session_title(summary: SessionSummary | None, name: str) -> str:
    return summary.title.text if summary and summary.title.text else name


def _files_of_session(context: RequestContext, name: str) -> Response:
    with context.pool.archive() as archive:
        listed, edits = _session_edits(archive, name)
    changed: dict[str, _ChangeCounts] = {}
    for edit in edits:
        one = changed.setdefault(
            edit.path, _ChangeCounts(name=edit.path, related=set())
        )
        one.add(edit, edit.session_id)
    lines = [
        (
            link(
                build_url("files", session=listed.id, path=one.name),
                escape_line(one.name),
            ),
            *_count_cells(one, context.now),
        )
        for one in changed.values()
    ]
    back = tag(
        "p", link(build_url("session", listed.id), escape_line(listed.title.text))
    )
    shown = (
        render_table(("File", *_COUNT_HEADERS), lines)
        if lines
        else empty_message("It changed no file.")
    )
    return _render_files_page("What a session changed", back, shown)


def _session_edits(
    archive: Archive, name: str
) -> tuple[SessionSummary, list[IndexedEdit]]:
    listed = archive.session_summary(name)
    return listed, archive.edits(session=listed.id)


def _file_history(context: RequestContext, name: str, path: str) -> Response:
    with context.pool.session(name) as held:
        listed = held.summary
        edits = _load_file_edits(held, path)
        shown = join_html(_render_diffs(listed, edits[:_MAX_DIFFS]))
    back = tag(
        "p",
        join_html(
            (
                link(build_url("session", listed.id), escape_line(listed.title.text)),
                link(
                    build_url("files", path=path),
                    escape_line("all sessions of this file"),
                ),
            ),
            " · ",
        ),
    )
    rest = len(edits) - _MAX_DIFFS
    more = (
        tag("p", escape_line(f"{rest:,} more"), kind="note") if rest > 0 else EMPTY_HTML
    )
    return _render_files_page(
        path, back, shown or empty_message("No change is known."), more, path=path
    )


class _LocatedEdit(Struct, frozen=True):
    """A change of a file, and where it was made."""

    call: ToolCall
    agent: str
    branch: int

    @property
    def time(self) -> datetime | None:
        """When it was answered that it was made."""
        return self.call.completed_at or self.call.called_at


def _load_file_edits(open_session: OpenSession, path: str) -> list[_LocatedEdit]:
    """Return the changes of a file, oldest first, without opening all of a session."""
    found = open_session.archive.edits(session=open_session.summary.id)
    ways = dict.fromkeys(
        (e.agent_id or "", e.branch_number) for e in found if e.path == path
    )
    edits = [
        _LocatedEdit(call, *way)
        for way in ways
        for call in open_view(open_session, *way).iter_edits(path)
    ]
    return sorted(edits, key=lambda one: one.time.timestamp() if one.time else 0.0)


def _render_diffs(
    summary: SessionSummary, edits: Sequence[_LocatedEdit]
) -> Iterator[Html]:
    for edit in edits:
        call, facts_of = edit.call, edit.call.result_facts
        place: dict[str, object] = {"at": make_element_id("c", call.id)}
        parts = ["session", summary.id]
        if edit.agent:
            parts += ["agent", make_element_id("a", edit.agent)]
        elif edit.branch:
            place["branch"] = edit.branch
        when = (
            f"{edit.time.astimezone():%Y-%m-%d %H:%M}" if edit.time else "at some time"
        )
        added, removed = (
            (facts_of.added_lines, facts_of.removed_lines) if facts_of else (0, 0)
        )
        told = [
            "made it" if facts_of and facts_of.is_new_file else "",
            f"+{added} \N{MINUS SIGN}{removed}",
            f"by agent {edit.agent}" if edit.agent else "",
            "left behind by a rewind" if edit.branch else "",
        ]
        heading = join_html(
            (link(build_url(*parts, **place), escape_line(when)), render_facts(told)),
            " · ",
        )
        yield tag("h2", heading, kind="turn")
        yield render_diff(build_hunks(call.outcome, call.input))
