"""What lists of an exported folder say of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from bygones.export.files import (
    encode_chunks,
    make_file_name,
    write_atomic,
    write_if_changed,
)
from bygones.export.formats import (
    ExportFormat,
    ExportOptions,
    apply_redaction,
    export_session,
)
from bygones.export.report import RedactionReport
from bygones.model.base import SessionId
from bygones.model.sessions import Branch, Session
from bygones.redact.session import RedactionLog
from bygones.render.html.markup import Html, escape_line, join_html, render_facts, tag
from bygones.render.html.page import (
    PageFrame,
    group_into_sections,
    load_static_file,
    render_html_page,
    render_session_header,
    render_table_of_contents,
)
from bygones.render.html.session import HtmlFragment, render_fragments
from bygones.render.numbers import format_time, format_tokens, pluralize
from bygones.render.text.primitives import sanitize_line
from bygones.render.walk import SessionView

_MAX_SEARCH_CHARS = 2_000
"""Signs of what was typed that can be found by words."""


class ExportedSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a list; redacted as the session is."""

    page: str
    title: str
    project: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    prompt_count: int = 0
    token_count: int = 0
    search_text: str = ""
    """The beginnings of what was typed."""

    @property
    def facts(self) -> tuple[str, ...]:
        """What is told below the title."""
        return (
            self.project,
            format_time(self.started, self.started.tzinfo) if self.started else "",
            pluralize(self.prompt_count, "prompt"),
            f"{format_tokens(self.token_count)} tokens" if self.token_count else "",
        )


def summarize_session(session: Session, page: str) -> ExportedSession:
    """Return what a list says of a session whose page this is."""
    prompts = session.prompts
    typed = "\n".join(sanitize_line(prompt.preview) for prompt in prompts)
    return ExportedSession(
        page=page,
        title=sanitize_line(session.title.text) or session.id,
        project=sanitize_line(session.project or ""),
        started=session.started_at,
        ended=session.ended_at,
        prompt_count=len(prompts),
        token_count=session.total_usage.total,
        search_text=typed[:_MAX_SEARCH_CHARS],
    )


_MAX_PAGE_CHARS = 1_500_000
"""Signs of a page behind which the next message begins another one."""
_MAX_LISTED = 200
"""Sessions that the first list shows."""


def render_session_pages(
    session: Session, stem: str, options: ExportOptions
) -> Iterator[tuple[str, Iterator[Html]]]:
    """Yield a session's pages: the name of each, and its pieces.

    ``stem`` is the name of the first without its ending. One page is held at a time.
    """
    view = options.view
    branch = next(b for b in session.branches if b.number == view.branch)
    title = sanitize_line(session.title.text) or session.id
    found = render_fragments(session, view, options.html_options)
    own = stem.rpartition("/")[2]
    number, first = 1, view.first_turn
    part, rest = _take_page(found)
    while part:
        is_last = rest is None
        last = view.last_turn if is_last or rest is None else _turn_of(rest, first) - 1
        shell = PageFrame(
            assets_url="../assets/",
            index_url="../index.html",
            footer=options.footer,
            previous_url=_page_name(own, number - 1) if number > 1 else "",
            next_url="" if is_last else _page_name(own, number + 1),
            sidebar=_render_contents(branch, view, first, last),
        )
        top = render_session_header(session, branch, options.html_options)
        if number > 1:
            top = join_html((top, tag("p", escape_line(f"Part {number}"))))
        yield (
            _page_name(stem, number),
            render_html_page(title, top, group_into_sections(part), shell),
        )
        if rest is None:
            return
        first = _turn_of(rest, first)
        number += 1
        part, rest = _take_page(chain([rest], found))
    if number == 1:
        shell = PageFrame(
            assets_url="../assets/", index_url="../index.html", footer=options.footer
        )
        top = render_session_header(session, branch, options.html_options)
        yield _page_name(stem, 1), render_html_page(title, top, (), shell)


def _take_page(
    fragments: Iterable[HtmlFragment],
) -> tuple[list[HtmlFragment], HtmlFragment | None]:
    """Return the pieces of one page, and the one with which the next begins."""
    part: list[HtmlFragment] = []
    size = 0
    for piece in fragments:
        is_start = bool(piece.message_anchor) or piece.turn_number is not None
        if is_start and size > _MAX_PAGE_CHARS:
            return part, piece
        part.append(piece)
        size += len(piece.html)
    return part, None


def _turn_of(piece: HtmlFragment, before: int) -> int:
    return before if piece.turn_number is None else piece.turn_number


def _render_contents(
    branch: Branch, view: SessionView, first: int, last: int | None
) -> Html:
    return render_table_of_contents(
        branch, structs.replace(view, first_turn=first, last_turn=last)
    )


def _page_name(stem: str, number: int) -> str:
    return f"{stem}.html" if number == 1 else f"{stem}-{number}.html"


def render_index_pages(
    sessions: Sequence[ExportedSession], options: ExportOptions
) -> Iterator[tuple[str, bytes]]:
    """Yield the lists of a folder, newest first, and what they need beside them."""
    yield "assets/style.css", load_static_file("style.css").encode()
    yield "assets/index.js", _render_search_index(sessions)
    projects: dict[str, list[ExportedSession]] = {}
    for row in sessions:
        projects.setdefault(row.project, []).append(row)
    shell = PageFrame(assets_url="assets/", footer=options.footer, scripts=("find.js",))
    title = _index_title(projects)
    top = join_html(
        (
            tag("h1", escape_line(title)),
            tag("p", escape_line(_describe_counts(sessions, projects))),
        )
    )
    named = _render_project_list(projects) if len(projects) > 1 else Html("")
    main = (_SEARCH_FORM, _render_session_list(sessions[:_MAX_LISTED], ""), named)
    yield "index.html", _join_encoded(render_html_page(title, top, main, shell))
    below = PageFrame(
        assets_url="../assets/", index_url="../index.html", footer=options.footer
    )
    for project, own in projects.items() if len(projects) > 1 else ():
        told = project or "No project"
        count = tag("p", escape_line(pluralize(len(own), "session")))
        top = join_html((tag("h1", escape_line(told)), count))
        whole = render_html_page(told, top, (_render_session_list(own, "../"),), below)
        yield _project_page(project), _join_encoded(whole)


_SEARCH_FORM = Html(
    '<form role="search" hidden><label class="skip" for="find">Find sessions</label>'
    '<input class="find" id="find" type="search" placeholder="Find sessions by words" '
    'autocomplete="off"><p class="status" role="status"></p></form>'
)


def _index_title(projects: dict[str, list[ExportedSession]]) -> str:
    names = list(projects)
    return names[0] or "Sessions" if len(names) == 1 else "Sessions"


def _describe_counts(
    sessions: Sequence[ExportedSession], projects: dict[str, list[ExportedSession]]
) -> str:
    told = pluralize(len(sessions), "session")
    if len(projects) > 1:
        told += f" of {pluralize(len(projects), 'project')}"
    return (
        f"{told}; the newest {_MAX_LISTED} are listed"
        if len(sessions) > _MAX_LISTED
        else told
    )


def _render_session_list(sessions: Sequence[ExportedSession], base_url: str) -> Html:
    lines = (
        tag(
            "li",
            join_html(
                (
                    tag("a", escape_line(row.title), href=f"{base_url}{row.page}"),
                    tag("p", render_facts(row.facts)),
                )
            ),
        )
        for row in sessions
    )
    return tag("ul", join_html(lines), kind="sessions")


def _render_project_list(projects: dict[str, list[ExportedSession]]) -> Html:
    lines = (
        tag(
            "li",
            join_html(
                (
                    tag(
                        "a", escape_line(name or "No project"), href=_project_page(name)
                    ),
                    tag("p", escape_line(pluralize(len(own), "session"))),
                )
            ),
        )
        for name, own in sorted(projects.items())
    )
    heading = tag("h2", escape_line("Projects"))
    return join_html((heading, tag("ul", join_html(lines), kind="projects")))


def _project_page(project: str) -> str:
    return f"projects/{sha256(project.encode()).hexdigest()[:16]}.html"


def _render_search_index(sessions: Sequence[ExportedSession]) -> bytes:
    told = [
        (row.page, row.title, " · ".join(filter(None, row.facts)), row.search_text)
        for row in sessions
    ]
    # A script of ours: what is in it are strings, and none of them can end it.
    encoded = msgspec.json.encode(told).replace(b"<", b"\\u003c")
    return b"globalThis.bygonesIndex = " + encoded + b";\n"


def _join_encoded(pieces: Iterable[Html]) -> bytes:
    return "".join(pieces).encode("utf-8", "replace")


_MANIFEST = ".bygones-export.json"
_MANIFEST_VERSION = 3
"""Counts up when pages change: all are written anew then."""


class ExportItem(Struct, frozen=True, kw_only=True):
    """A session to be written, opened when it is its turn."""

    id: SessionId
    fingerprint: bytes
    """Another one if the session has changed."""
    load: Callable[[], Session]


class ExportResult(Struct, kw_only=True):
    """What an export did."""

    written_sessions: int = 0
    unchanged_sessions: int = 0
    """Sessions that had not changed."""
    bytes_written: int = 0
    report: RedactionReport = msgspec.field(default_factory=RedactionReport)
    last_log: RedactionLog = msgspec.field(default_factory=RedactionLog)
    """Of the session that was written last."""


class _ManifestEntry(Struct, frozen=True):
    fingerprint: str
    session: ExportedSession


class _Manifest(Struct, frozen=True):
    """What a folder holds, so that it need not be made again."""

    version: int
    sessions: dict[str, _ManifestEntry]


def export_folder(
    items: Iterable[ExportItem],
    folder: Path,
    options: ExportOptions,
    *,
    keep_details: bool = False,
) -> ExportResult:
    """Write sessions into a folder: as pages with lists and a search, or file by file.

    A folder that was written before is brought up to date: what has not changed stays,
    and so do sessions that are not chosen this time.
    """
    done = ExportResult()
    known = _read_manifest(folder)
    for one in items:
        stamp = _fingerprint(one, options)
        before = known.get(one.id)
        if (
            before is not None
            and before.fingerprint == stamp
            and _page_exists(folder, before)
        ):
            done.unchanged_sessions += 1
        else:
            row = _write_session(one, folder, options, done)
            done.report.add(one.id, done.last_log, keep_details=keep_details)
            known[one.id] = _ManifestEntry(stamp, row)
            done.written_sessions += 1
    is_private = options.redactor is None
    if options.format is ExportFormat.HTML:
        newest = sorted(
            (one.session for one in known.values()), key=_recency_key, reverse=True
        )
        for name, raw in render_index_pages(newest, options):
            write_if_changed(folder / name, raw, private=is_private)
    manifest = msgspec.json.encode(_Manifest(_MANIFEST_VERSION, known))
    write_if_changed(folder / _MANIFEST, manifest, private=True)
    return done


def _write_session(
    item: ExportItem, folder: Path, options: ExportOptions, result: ExportResult
) -> ExportedSession:
    finds = result.last_log = RedactionLog()
    session = item.load()
    stem = f"sessions/{make_file_name(item.id)}"
    page = f"{stem}{options.format.suffix}"
    if options.format is ExportFormat.HTML:
        told = apply_redaction(session, options, finds)
        for name, pieces in render_session_pages(told, stem, options):
            result.bytes_written += write_atomic(
                folder / name, encode_chunks(pieces), private=options.redactor is None
            )
        row = summarize_session(told, page)
    else:
        files = export_session(session, folder / page, options, finds)
        result.bytes_written += sum(path.stat().st_size for path in files)
        row = summarize_session(apply_redaction(session, options, RedactionLog()), page)
    return row


def _read_manifest(folder: Path) -> dict[str, _ManifestEntry]:
    try:
        found = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=_Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return dict(found.sessions) if found.version == _MANIFEST_VERSION else {}


def _page_exists(folder: Path, entry: _ManifestEntry) -> bool:
    return (folder / entry.session.page).is_file()


def _fingerprint(item: ExportItem, options: ExportOptions) -> str:
    view = structs.astuple(options.view)
    hides = options.redactor and (
        sorted(options.redactor.names),
        options.redactor.patterns,
    )
    told = f"{options.format} {view} {hides} {options.include_private} {options.zone}"
    return sha256(item.fingerprint + told.encode()).hexdigest()[:32]


def _recency_key(session: ExportedSession) -> tuple[bool, datetime | str, str]:
    return session.ended is not None, session.ended or "", session.page
