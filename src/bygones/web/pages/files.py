"""The files page: files that sessions changed, and the history of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from html import escape

from msgspec import Struct
from starlette.responses import Response

from bygones.files.paths import file_name, relative_to
from bygones.model.base import SessionId
from bygones.model.nodes import ChangedFile
from bygones.model.outcomes import build_hunks
from bygones.model.sessions import ToolCall
from bygones.model.summary import IndexedEdit, SessionSummary
from bygones.render.html.diff import render_diff
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    language_of,
    make_element_id,
    render_facts,
    tag,
)
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_line
from bygones.web.context import RequestContext
from bygones.web.conversation_view import open_view
from bygones.web.layout import (
    PageMeta,
    build_url,
    conversation_url,
    empty_message,
    link,
    render_page,
    render_table,
    select_field,
    time_tag,
    top_choices,
)
from bygones.web.pages.file_versions import file_url
from bygones.web.pool import OpenSession

_MAX_ROWS = 300
_MAX_DIFFS = 60


class _ChangeCounts(Struct, kw_only=True):
    """The changes of one file, or of one session."""

    name: str
    changes: int = 0
    added: int = 0
    removed: int = 0
    has_diff: bool = True
    """Whether the lines of all changes are recorded."""
    last_changed_at: datetime | None = None
    related: set[str]
    """The sessions that changed the file, or the files that the session changed."""
    last_session: SessionId = SessionId("")
    branch: int = 0
    """The abandoned branch that made the changes, or 0."""

    def add(self, edit: IndexedEdit, related_name: str) -> None:
        self.changes += 1
        self.added += edit.added_lines
        self.removed += edit.removed_lines
        # Without a patch, the lines are only in the input of the call.
        is_whole = edit.is_new_file or edit.is_deleted
        has_lines = bool(edit.added_lines or edit.removed_lines or is_whole)
        self.has_diff = self.has_diff and edit.has_diff and has_lines
        self.last_changed_at = edit.edited_at or self.last_changed_at
        self.last_session = edit.session_id
        self.related.add(related_name)


def files_page(context: RequestContext) -> Response:
    """Return the files of a session, the sessions of a file, or all files."""
    session, path = context.query_param("session", 200), context.query_param("path")
    if session and path:
        return _file_history(context, session, path)
    if session:
        return _files_of_session(context, session)
    return _files_under(context, path)


def _render_files_page(
    title: str, *main: Html, path: str = "", projects: Html = EMPTY_HTML
) -> Response:
    form = Html(
        '<form class="filters" action="/files" data-live>'
        '<input type="search" name="path" '
        'placeholder="A file or folder, or the end of its path" '
        f'aria-label="Path" value="{escape(path)}">{projects}'
        '<button type="submit" class="hidden-with-script">Show</button></form>'
    )
    page = PageMeta(title=title, nav="/files", css_class="wide", styles=("file.css",))
    return render_page(page, (tag("h1", escape_line(title)), form, *main))


def _files_under(context: RequestContext, path: str) -> Response:
    """Show the sessions that changed a file, or the changed files of a folder."""
    with context.pool.archive() as archive:
        edits = archive.edits(path=path)
    paths = {edit.path for edit in edits}
    if path and len(paths) == 1:
        return _sessions_of_file(context, next(iter(paths)), edits)
    project = context.query_param("project")
    sessions = {summary.id: summary for summary in context.pool.summaries()}
    projects = {id_: one.project_path or "" for id_, one in sessions.items()}
    per_project = Counter(
        name
        for name, _ in {(projects.get(e.session_id), e.path) for e in edits}
        if name
    )
    choice = select_field("project", "All projects", top_choices(per_project), project)
    if project:
        edits = [edit for edit in edits if projects.get(edit.session_id) == project]
    counts = _count_by_path(edits)
    title = f"Files in {path}" if path else "Files"
    if not counts:
        text = "No session changed a file with this path."
        if not path:
            text = "No session has changed a file yet."
        return _render_files_page(
            title, empty_message(text), path=path, projects=choice
        )
    rows = sorted(counts.values(), key=_last_changed_key, reverse=True)
    lines = [
        (
            _path_link(
                build_url("files", path=file.name),
                file.name,
                sessions[file.last_session].project_names
                if file.last_session in sessions
                else (),
            ),
            escape_line(file_name(projects.get(file.last_session, ""))),
            escape_line(f"{len(file.related):,}"),
            *_count_cells(file, context.now),
        )
        for file in rows[:_MAX_ROWS]
    ]
    newest = (
        f"; showing the {len(lines):,} changed last" if len(lines) < len(rows) else ""
    )
    count = escape_line(f"{pluralize(len(rows), 'file')}{newest}")
    headers = ("File", "Project", "Sessions", *_COUNT_HEADERS)
    return _render_files_page(
        title,
        tag("p", count, kind="note"),
        tag("div", render_table(headers, lines, text_columns=2), kind="file-list"),
        path=path,
        projects=choice,
    )


_BY_AGENT = -1
"""Stands for the abandoned branches of agents, and of those who started them."""


def _abandoned_branch(edit: IndexedEdit, agents: Collection[str] = ()) -> int:
    """Return the abandoned branch of the session that made a change, or 0."""
    if edit.agent_id is None:
        return edit.branch_number
    return _BY_AGENT if edit.branch_number or edit.agent_id in agents else 0


def _branch_note(branch: int) -> Html:
    if not branch:
        return EMPTY_HTML
    text = "abandoned" if branch == _BY_AGENT else f"abandoned branch {branch + 1}"
    return tag("small", escape_line(text), kind="note")


def _path_link(
    url: str, path: str, projects: Sequence[str] = (), note: Html = EMPTY_HTML
) -> Html:
    """Return a link with the name of a file first, so that it is visible if cut.

    The folder is relative to the project, if the file is in it.
    """
    shown = next(filter(None, (relative_to(path, root) for root in projects)), path)
    at = max(shown.rfind("/"), shown.rfind("\\")) + 1
    name, folder = escape_line(shown[at:] or shown), escape_line(shown[:at] or "")
    folder = tag("small", folder) if shown[at:] and folder else EMPTY_HTML
    content = join_html((name, folder, note), " ")
    return tag("a", content, kind="file-path", href=url, title=sanitize_line(path))


_COUNT_HEADERS = ("Changes", "Lines", "Last changed")


def _last_changed_key(counts: _ChangeCounts) -> float:
    return counts.last_changed_at.timestamp() if counts.last_changed_at else 0.0


def _count_cells(counts: _ChangeCounts, now: datetime) -> tuple[Html, Html, Html]:
    removed = f"\N{MINUS SIGN}{counts.removed:,}"
    parts = [
        tag("span", escape_line(f"+{counts.added:,}"), kind="added"),
        tag("span", escape_line(removed), kind="removed"),
    ]
    if not counts.has_diff:
        is_known = counts.added or counts.removed
        note = escape_line("(some not recorded)" if is_known else "not recorded")
        parts = [*parts, note] if is_known else [note]
    lines = join_html(parts, " ")
    return (
        escape_line(f"{counts.changes:,}"),
        lines,
        time_tag(counts.last_changed_at, now),
    )


def _sessions_of_file(
    context: RequestContext, path: str, edits: Sequence[IndexedEdit]
) -> Response:
    summaries = {str(summary.id): summary for summary in context.pool.summaries()}
    counts: dict[tuple[str, int], _ChangeCounts] = {}
    for edit in edits:
        session = counts.setdefault(
            (edit.session_id, branch := _abandoned_branch(edit)),
            _ChangeCounts(name=edit.session_id, related=set(), branch=branch),
        )
        session.add(edit, edit.path)
    rows = sorted(counts.values(), key=_last_changed_key, reverse=True)
    lines = [
        (
            join_html(
                (
                    link(
                        build_url("files", session=session.name, path=path),
                        escape_line(
                            _session_title(summaries.get(session.name), session.name)
                        ),
                    ),
                    _branch_note(session.branch),
                ),
                " ",
            ),
            *_count_cells(session, context.now),
        )
        for session in rows[:_MAX_ROWS]
    ]
    versions = link(file_url(path), escape_line("Versions, and who wrote each line"))
    return _render_files_page(
        path,
        tag("p", versions),
        render_table(("Session", *_COUNT_HEADERS), lines),
        path=path,
    )


def _session_title(summary: SessionSummary | None, name: str) -> str:
    return summary.title.text if summary and summary.title.text else name


def _files_of_session(context: RequestContext, name: str) -> Response:
    with context.pool.archive() as archive:
        summary = archive.session_summary(name)
        edits = archive.edits(session=summary.id)
        agents = archive.abandoned_agents(edits)
    branches = sorted({_abandoned_branch(edit, agents) for edit in edits}, key=abs)
    lines = [
        (
            _path_link(
                build_url("files", session=summary.id, path=file.name),
                file.name,
                summary.project_names,
                _branch_note(branch),
            ),
            *_count_cells(file, context.now),
            link(
                file_url(
                    file.name,
                    session=summary.id,
                    branch=f"{summary.id}:{branch + 1}" if branch > 0 else "",
                ),
                escape_line("At any turn"),
            ),
        )
        for branch in branches
        for file in _count_by_path(
            edit for edit in edits if _abandoned_branch(edit, agents) == branch
        ).values()
    ]
    table = (
        tag(
            "div",
            render_table(("File", *_COUNT_HEADERS, "Content"), lines),
            kind="session-files",
        )
        if lines
        else empty_message("This session changed no files.")
    )
    return _render_files_page(
        "Files changed in a session", tag("p", _session_link(summary)), table
    )


def _session_link(summary: SessionSummary) -> Html:
    return link(conversation_url(summary.id), escape_line(summary.title.text))


def _count_by_path(edits: Iterable[IndexedEdit]) -> dict[str, _ChangeCounts]:
    counts: dict[str, _ChangeCounts] = {}
    for edit in edits:
        file = counts.setdefault(
            edit.path, _ChangeCounts(name=edit.path, related=set())
        )
        file.add(edit, edit.session_id)
    return counts


def _file_history(context: RequestContext, name: str, path: str) -> Response:
    with context.pool.session(name) as open_session:
        summary = open_session.summary
        edits = _load_file_edits(open_session, path)
        diffs = join_html(_render_diffs(summary, edits[:_MAX_DIFFS]))
    back = tag(
        "p",
        join_html(
            (
                _session_link(summary),
                link(
                    build_url("files", path=path),
                    escape_line("All sessions that changed this file"),
                ),
                link(
                    file_url(path),
                    escape_line("Versions, and who wrote each line"),
                ),
            ),
            " · ",
        ),
    )
    remaining = len(edits) - _MAX_DIFFS
    more = EMPTY_HTML
    if remaining > 0:
        more = tag("p", escape_line(f"{remaining:,} more"), kind="note")
    return _render_files_page(
        path, back, diffs or empty_message("No changes found."), more, path=path
    )


class _LocatedEdit(Struct, frozen=True):
    """A call that changed a file, and where it is."""

    call: ToolCall
    file: ChangedFile
    agent: str
    branch: int

    @property
    def time(self) -> datetime | None:
        return self.call.completed_at or self.call.called_at


def _load_file_edits(open_session: OpenSession, path: str) -> list[_LocatedEdit]:
    """Return the changes of a file, oldest first, without loading the whole session."""
    indexed = open_session.archive.edits(session=open_session.summary.id)
    branches = dict.fromkeys(
        (edit.agent_id or "", edit.branch_number)
        for edit in indexed
        if edit.path == path
    )
    edits = [
        _LocatedEdit(call, file, *branch)
        for branch in branches
        for call, file in open_view(open_session, *branch).iter_edits(path)
    ]
    return sorted(edits, key=lambda edit: edit.time.timestamp() if edit.time else 0.0)


def _render_diffs(
    summary: SessionSummary, edits: Sequence[_LocatedEdit]
) -> Iterator[Html]:
    for edit in edits:
        call, file = edit.call, edit.file
        hunks = build_hunks(call.outcome, call.raw_input, file.path)
        marks = [line[:1] for hunk in hunks for line in hunk.lines]
        url = conversation_url(
            summary.id,
            agent=edit.agent,
            at=make_element_id("c", call.id),
            branch=0 if edit.agent else edit.branch,
        )
        time = f"{edit.time.astimezone():%Y-%m-%d %H:%M}" if edit.time else "no date"
        facts = [
            "created" if file.is_new_file else "",
            "deleted" if file.is_deleted else "",
            f"+{marks.count('+')} \N{MINUS SIGN}{marks.count('-')}"
            if file.has_diff
            else "lines not recorded",
            f"by {call.name}" if call.name == "Bash" else "",
            f"by agent {edit.agent}" if edit.agent else "",
            "abandoned branch" if edit.branch else "",
        ]
        is_other = bool(edit.branch and not edit.agent)
        branch = f"{summary.id}:{edit.branch + 1}" if is_other else ""
        version = file_url(file.path, call=call.id, branch=branch)
        heading = join_html(
            (
                link(url, escape_line(time)),
                render_facts(facts),
                link(version, escape_line("file after this change")),
            ),
            " · ",
        )
        yield tag("h2", heading, kind="turn")
        yield render_diff(hunks, language_of(file.path))
