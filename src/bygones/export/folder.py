"""Export many sessions into a folder, as HTML with an index or one file each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import chain, count, groupby
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from bygones.errors import NotInArchive
from bygones.export.files import (
    encode_chunks,
    make_file_name,
    write_atomic,
    write_if_changed,
)
from bygones.export.formats import (
    ExportFormat,
    ExportInput,
    ExportOptions,
    RedactionReport,
    apply_redaction,
    as_input,
    export_session,
)
from bygones.model.base import SessionId
from bygones.model.conversations import Conversation
from bygones.model.sessions import Session
from bygones.redact.session import RedactionLog
from bygones.render.html.markup import Html, escape_line, join_html, render_facts, tag
from bygones.render.html.page import (
    PageFrame,
    group_into_sections,
    load_static_file,
    page_title,
    render_html_page,
    render_session_header,
    render_table_of_contents,
)
from bygones.render.html.session import HtmlFragment, render_fragments
from bygones.render.numbers import format_time, format_tokens, pluralize
from bygones.render.text.primitives import sanitize

_MAX_SEARCH_CHARS = 2_000


class ExportedSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the index shows about a session; redacted like the session."""

    page: str
    title: str
    project: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    prompt_count: int = 0
    token_count: int = 0
    search_text: str = ""
    """The start of each prompt."""

    @property
    def facts(self) -> tuple[str, ...]:
        """What is shown below the title."""
        return (
            self.project,
            format_time(self.started, self.started.tzinfo) if self.started else "",
            pluralize(self.prompt_count, "prompt"),
            f"{format_tokens(self.token_count)} tokens" if self.token_count else "",
        )


def summarize_conversation(conversation: Conversation, page: str) -> ExportedSession:
    header = conversation.facts
    live = next(branch for branch in header.branches if branch.is_live)
    typed, size = [], 0
    for _, prompt in conversation.prompts(live.number):
        typed.append(sanitize(prompt.preview, newlines="space"))
        size += len(typed[-1]) + 1
        if size > _MAX_SEARCH_CHARS:
            break
    return ExportedSession(
        page=page,
        title=page_title(header),
        project=sanitize(header.project or "", newlines="space"),
        started=header.started_at,
        ended=header.ended_at,
        prompt_count=live.prompt_count,
        token_count=header.usage.total,
        search_text="\n".join(typed)[:_MAX_SEARCH_CHARS],
    )


_MAX_PAGE_CHARS = 1_500_000
"""After this many characters the next message starts a new page."""
_MAX_LISTED = 200
"""Sessions listed on the first page of the index."""


def render_session_pages(
    source: Session | ExportInput, stem: str, options: ExportOptions
) -> Iterator[tuple[str, Iterator[Html]]]:
    """Yield name and content of each page of a session.

    ``stem`` is the name of the first page without suffix. One page is in memory at a
    time.
    """
    source = as_input(source, options)
    view, facts = options.view, source.conversation.facts
    branch = facts.find_branch(view.branch)
    if branch is None:
        raise NotInArchive("branch", str(view.branch + 1))
    html_options = structs.replace(options.html_options, cost=source.cost)
    fragments = render_fragments(source.conversation, view, html_options)
    base_name = stem.rpartition("/")[2]
    page, next_fragment = _take_page(fragments)
    for number in count(1):
        is_last = next_fragment is None
        prompts = [one.prompt for one in page if one.prompt is not None]
        frame = PageFrame(
            assets_url="../assets/",
            index_url="../index.html",
            footer=options.footer,
            previous_url=_page_name(base_name, number - 1) if number > 1 else "",
            next_url="" if is_last else _page_name(base_name, number + 1),
            sidebar=render_table_of_contents(prompts),
        )
        header = render_session_header(facts, branch, html_options)
        if number > 1:
            header = join_html((header, tag("p", escape_line(f"Part {number}"))))
        yield (
            _page_name(stem, number),
            render_html_page(
                page_title(facts), header, group_into_sections(page), frame
            ),
        )
        if next_fragment is None:
            return
        page, next_fragment = _take_page(chain([next_fragment], fragments))


def _take_page(
    fragments: Iterable[HtmlFragment],
) -> tuple[list[HtmlFragment], HtmlFragment | None]:
    """Return the fragments of one page, and the first one of the next page."""
    page: list[HtmlFragment] = []
    size = 0
    for fragment in fragments:
        is_start = bool(fragment.message_anchor) or fragment.turn_number is not None
        if is_start and size > _MAX_PAGE_CHARS:
            return page, fragment
        page.append(fragment)
        size += len(fragment.html)
    return page, None


def _page_name(stem: str, number: int) -> str:
    return f"{stem}.html" if number == 1 else f"{stem}-{number}.html"


def render_index_pages(
    sessions: Sequence[ExportedSession], options: ExportOptions
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the index pages and their assets.

    ``sessions`` are sorted, the newest first.
    """
    yield "assets/style.css", load_static_file("style.css").encode()
    yield "assets/index.js", _render_search_index(sessions)
    projects: dict[str, list[ExportedSession]] = {}
    for session in sessions:
        projects.setdefault(session.project, []).append(session)
    frame = PageFrame(assets_url="assets/", footer=options.footer, scripts=("find.js",))
    title = _index_title(projects)
    header = join_html(
        (
            tag("h1", escape_line(title)),
            tag("p", escape_line(_describe_counts(sessions, projects))),
        )
    )
    project_list = _render_project_list(projects) if len(projects) > 1 else Html("")
    session_list = _render_session_list(
        sessions[:_MAX_LISTED], "", by_project=len(projects) > 1
    )
    main = (_SEARCH_FORM, session_list, project_list)
    yield "index.html", _join_encoded(render_html_page(title, header, main, frame))
    if len(projects) > 1:
        for project, project_sessions in projects.items():
            page = _render_project_page(project, project_sessions, options)
            yield _project_page(project), _join_encoded(page)


def _render_project_page(
    project: str, sessions: Sequence[ExportedSession], options: ExportOptions
) -> Iterator[Html]:
    title = project or "No project"
    count = tag("p", escape_line(pluralize(len(sessions), "session")))
    header = join_html((tag("h1", escape_line(title)), count))
    frame = PageFrame(
        assets_url="../assets/", index_url="../index.html", footer=options.footer
    )
    main = (_render_session_list(sessions, "../"),)
    return render_html_page(title, header, main, frame)


_SEARCH_FORM = Html(
    '<form role="search" hidden><label class="skip" for="find">Search sessions</label>'
    '<input class="find" id="find" type="search" placeholder="Search sessions" '
    'autocomplete="off"><p class="status" role="status"></p></form>'
)


def _index_title(projects: dict[str, list[ExportedSession]]) -> str:
    names = list(projects)
    return names[0] or "Sessions" if len(names) == 1 else "Sessions"


def _describe_counts(
    sessions: Sequence[ExportedSession], projects: dict[str, list[ExportedSession]]
) -> str:
    counts = pluralize(len(sessions), "session")
    if len(projects) > 1:
        counts += f" in {pluralize(len(projects), 'project')}"
    if len(sessions) > _MAX_LISTED:
        return f"{counts}; showing the newest {_MAX_LISTED}"
    return counts


def _render_session_list(
    sessions: Sequence[ExportedSession], base_url: str, *, by_project: bool = False
) -> Html:
    """Return sessions under their days, and under their projects if there are several.

    The project with the newest session comes first.
    """
    groups: dict[str, list[ExportedSession]] = {}
    for session in sessions:
        groups.setdefault(session.project if by_project else "", []).append(session)
    parts = []
    for project, members in groups.items():
        if by_project:
            name = escape_line(project or "No project")
            project_link = tag("a", name, href=f"{base_url}{_project_page(project)}")
            parts.append(tag("h2", project_link, kind="group"))
        for day, listed in groupby(members, key=_exported_day):
            parts.append(tag("h3", escape_line(day), kind="day"))
            lines = (_session_line(session, base_url) for session in listed)
            parts.append(tag("ul", join_html(lines)))
    return tag("div", join_html(parts), kind="sessions")


def _exported_day(session: ExportedSession) -> str:
    time = session.ended or session.started
    return f"{time:%A, %B} {time.day}, {time.year}" if time else "No date"


def _session_line(session: ExportedSession, base_url: str) -> Html:
    url = f"{base_url}{session.page}"
    title = tag("a", escape_line(session.title), href=url)
    return tag("li", join_html((title, tag("p", render_facts(session.facts)))))


def _render_project_list(projects: dict[str, list[ExportedSession]]) -> Html:
    lines = (
        tag(
            "li",
            join_html(
                (
                    tag(
                        "a", escape_line(name or "No project"), href=_project_page(name)
                    ),
                    tag("p", escape_line(pluralize(len(sessions), "session"))),
                )
            ),
        )
        for name, sessions in sorted(projects.items())
    )
    heading = tag("h2", escape_line("Projects"))
    return join_html((heading, tag("ul", join_html(lines), kind="projects")))


_PROJECTS = "projects"
_PROJECT_PAGE = re.compile(rf"{_PROJECTS}/[0-9a-f]{{16}}\.html")


def _project_page(project: str) -> str:
    return f"{_PROJECTS}/{sha256(project.encode()).hexdigest()[:16]}.html"


def _render_search_index(sessions: Sequence[ExportedSession]) -> bytes:
    entries = [
        (
            session.page,
            session.title,
            " · ".join(filter(None, session.facts)),
            session.search_text,
        )
        for session in sessions
    ]
    # Escaped so that no string can end the script element.
    encoded = msgspec.json.encode(entries).replace(b"<", b"\\u003c")
    return b"globalThis.bygonesIndex = " + encoded + b";\n"


def _join_encoded(parts: Iterable[Html]) -> bytes:
    return "".join(parts).encode("utf-8", "replace")


_MANIFEST = ".bygones-export.json"
_MANIFEST_VERSION = 7
"""Increase it when the content of pages changes: all pages are written again."""


class ExportItem(Struct, frozen=True, kw_only=True):
    """A session to export, loaded when it is written."""

    id: SessionId
    fingerprint: bytes
    """Changes whenever the session changes."""
    load: Callable[[], Session | ExportInput]


class ExportResult(Struct, kw_only=True):
    written_sessions: int = 0
    failures: dict[SessionId, Exception] = {}
    """Sessions that could not be exported."""
    incomplete: dict[SessionId, Exception] = {}
    """Sessions that were exported without some of their texts."""
    unchanged_sessions: int = 0
    bytes_written: int = 0
    report: RedactionReport = msgspec.field(default_factory=RedactionReport)
    last_log: RedactionLog = msgspec.field(default_factory=RedactionLog)
    """Redactions in the session that was written last."""
    unredacted_files: list[str] = []
    """Files in the folder of a redacted export that are not known to be redacted."""


class _FileStamp(Struct, frozen=True, array_like=True):
    """A file as an export left it; a file that differs is not known any more."""

    size: int
    mtime_ns: int
    is_redacted: bool


class _ManifestEntry(Struct, frozen=True):
    fingerprint: str
    session: ExportedSession
    files: tuple[str, ...]
    """Paths relative to the folder, in all formats."""
    is_redacted: bool
    """Whether ``session`` is redacted."""


class _Manifest(Struct, frozen=True):
    """The content of a folder, so that unchanged sessions are not written again.

    Only files that are the same as when they were written count as redacted and may be
    removed: an export may have been interrupted, or another program may have written.
    """

    version: int = _MANIFEST_VERSION
    sessions: dict[str, _ManifestEntry] = {}
    files: dict[str, _FileStamp] = {}
    """The files of all sessions, and the index and its parts."""


def export_folder(
    items: Iterable[ExportItem],
    folder: Path,
    options: ExportOptions,
    *,
    keep_details: bool = False,
) -> ExportResult:
    """Export sessions into a folder.

    An existing export is updated: unchanged sessions and sessions that are not among
    ``items`` are kept. A session that cannot be exported does not stop the others. The
    index and the manifest of a redacted export contain redacted sessions only.
    """
    result = ExportResult()
    is_redacted = options.redactor is not None
    manifest = _read_manifest(folder)
    entries, files = manifest.sessions, manifest.files
    for item in items:
        fingerprint = _fingerprint(item, options)
        previous = entries.get(item.id)
        if previous is not None and _is_current(previous, fingerprint, files):
            result.unchanged_sessions += 1
            continue
        try:
            session, written = _write_session(item, folder, options, result)
        except (OSError, MemoryError):
            raise  # a full disk or a missing permission affects all sessions
        except Exception as error:  # noqa: BLE001 (the others are exported)
            result.failures[item.id] = error
            continue
        result.report.add(item.id, result.last_log, keep_details=keep_details)
        if item.id in result.incomplete:
            fingerprint = ""  # it is written again, and perhaps repaired by then
        names = previous.files if previous is not None else ()
        former = {name: files[name] for name in names if name in files}
        others = _remove_former_pages(session.page, former, written, folder)
        files |= _read_stamps(folder, written, is_redacted=is_redacted)
        entries[item.id] = _ManifestEntry(
            fingerprint, session, (*written, *others), is_redacted=is_redacted
        )
        result.written_sessions += 1
    # A session that failed may have overwritten some of its files.
    files = _keep_same(files, folder)
    if is_redacted:
        entries = {id_: one for id_, one in entries.items() if one.is_redacted}
    if options.format is ExportFormat.HTML:
        listed = [
            entry
            for entry in entries.values()
            if not is_redacted or _is_page_redacted(entry, files)
        ]
        files = _write_index(listed, folder, options, files)
    manifest = _Manifest(sessions=entries, files=files)
    write_if_changed(folder / _MANIFEST, msgspec.json.encode(manifest), private=True)
    if is_redacted:
        result.unredacted_files = find_unredacted_files(folder)
    return result


def find_unredacted_files(folder: Path, known: Iterable[Path] = ()) -> list[str]:
    """Return the files of exports in a folder that are not known to be redacted.

    The caller knows that those in ``known`` are.
    """
    manifest = _decode_manifest(folder)
    redacted = {path.relative_to(folder).as_posix() for path in known}
    if manifest is not None:
        stamps = _keep_same(manifest.files, folder)
        redacted |= {name for name, stamp in stamps.items() if stamp.is_redacted}
        if all(entry.is_redacted for entry in manifest.sessions.values()):
            redacted.add(_MANIFEST)
    return sorted(_find_exported_files(folder) - redacted)


def _is_current(
    entry: _ManifestEntry, fingerprint: str, files: dict[str, _FileStamp]
) -> bool:
    is_same = entry.fingerprint == fingerprint
    return is_same and all(name in files for name in entry.files)


def _is_page_redacted(entry: _ManifestEntry, files: dict[str, _FileStamp]) -> bool:
    stamp = files.get(entry.session.page)
    return stamp is not None and stamp.is_redacted


def _read_stamps(
    folder: Path, names: Iterable[str], *, is_redacted: bool
) -> dict[str, _FileStamp]:
    """Return the size and time of files that were just written."""
    stamps = {}
    for name in names:
        stat = (folder / name).stat()
        stamps[name] = _FileStamp(stat.st_size, stat.st_mtime_ns, is_redacted)
    return stamps


def _keep_same(files: dict[str, _FileStamp], folder: Path) -> dict[str, _FileStamp]:
    """Return the files that are still as an export left them."""
    return {
        name: stamp for name, stamp in files.items() if _is_same(folder / name, stamp)
    }


def _is_same(path: Path, stamp: _FileStamp) -> bool:
    try:
        stat = path.stat()
    except (OSError, ValueError):  # missing, or a name with NUL
        return False
    return (stat.st_size, stat.st_mtime_ns) == (stamp.size, stamp.mtime_ns)


def _write_index(
    entries: Iterable[_ManifestEntry],
    folder: Path,
    options: ExportOptions,
    files: dict[str, _FileStamp],
) -> dict[str, _FileStamp]:
    """Write the lists of sessions, and remove those of projects without sessions.

    Return the files of the folder afterwards.
    """
    is_redacted = options.redactor is not None
    newest_first = sorted(
        (entry.session for entry in entries), key=_recency_key, reverse=True
    )
    names = []
    for name, content in render_index_pages(newest_first, options):
        write_if_changed(folder / name, content, private=not is_redacted)
        names.append(name)
    former = {name for name in files if _PROJECT_PAGE.fullmatch(name)}.difference(names)
    for name in former:
        (folder / name).unlink(missing_ok=True)
    kept = {name: stamp for name, stamp in files.items() if name not in former}
    return kept | _read_stamps(folder, names, is_redacted=is_redacted)


def _remove_former_pages(
    page: str, former: dict[str, _FileStamp], written: Sequence[str], folder: Path
) -> list[str]:
    """Remove pages that a session had when it was longer; return its other formats."""
    suffix = Path(page).suffix
    stem = page.removesuffix(suffix)
    others = [name for name in former if not name.endswith(suffix)]
    for name in former.keys() - {*others, *written}:
        # A manifest that another person wrote may name files outside the folder.
        is_own = name.startswith(stem) and ".." not in name
        if is_own and _is_same(folder / name, former[name]):
            (folder / name).unlink(missing_ok=True)
    return others


_UNFINISHED = {".exporting", ".partial"}
"""Suffixes of files that an export which was killed leaves."""
_DEFAULT_NAME = "-".join("?" * length for length in (8, 4, 4, 4, 12)) + "*"
"""Names of exports of single sessions without ``--to``."""


def _find_exported_files(folder: Path) -> set[str]:
    """Return the files in a folder that some export may have written."""
    suffixes = {*(form.suffix for form in ExportFormat), ".js", *_UNFINISHED}
    found = {
        *(folder / "sessions").rglob("*"),
        *(folder / _PROJECTS).glob("*"),
        *(folder / name for name in ("index.html", "assets/index.js", _MANIFEST)),
        *folder.glob(_DEFAULT_NAME),
        *folder.glob(f"{_DEFAULT_NAME}/**/*"),
        *folder.glob("*.parquet"),
        *folder.glob("*/month=*/*"),
        *(one for suffix in _UNFINISHED for one in folder.glob(f".*{suffix}")),
        *(folder / "assets").glob(".*.exporting"),
    }
    return {
        path.relative_to(folder).as_posix()
        for path in found
        if path.is_file() and (path.name[0] != "." or path.suffix in suffixes)
    }


def _write_session(
    item: ExportItem, folder: Path, options: ExportOptions, result: ExportResult
) -> tuple[ExportedSession, tuple[str, ...]]:
    """Write the files of a session; return what the index shows, and their names."""
    log = result.last_log = RedactionLog()
    source = as_input(item.load(), options)
    stem = f"sessions/{make_file_name(item.id)}"
    page = f"{stem}{options.format.suffix}"
    if options.format is ExportFormat.HTML:
        source = apply_redaction(source, options, log)
        files = []
        for name, parts in render_session_pages(source, stem, options):
            files.append(folder / name)
            result.bytes_written += write_atomic(
                files[-1], encode_chunks(parts), private=options.redactor is None
            )
    else:
        files = export_session(source, folder / page, options, log)
        result.bytes_written += sum(path.stat().st_size for path in files)
        source = apply_redaction(source, options, RedactionLog())
    names = tuple(path.relative_to(folder).as_posix() for path in files)
    if source.damage is not None:
        result.incomplete[item.id] = source.damage
    return summarize_conversation(source.conversation, page), names


def _read_manifest(folder: Path) -> _Manifest:
    """Return what is known of a folder, with the files that are still the same."""
    manifest = _decode_manifest(folder) or _Manifest()
    return structs.replace(manifest, files=_keep_same(manifest.files, folder))


def _decode_manifest(folder: Path) -> _Manifest | None:
    try:
        content = (folder / _MANIFEST).read_bytes()
        manifest = msgspec.json.decode(content, type=_Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return manifest if manifest.version == _MANIFEST_VERSION else None


def _fingerprint(item: ExportItem, options: ExportOptions) -> str:
    view = structs.astuple(options.view)
    redactor = options.redactor
    redaction = redactor and (
        sorted(redactor.names),
        sorted(redactor.accounts),
        redactor.patterns,
    )
    settings = (
        f"{options.format} {view} {redaction} {options.include_private} {options.zone}"
    )
    return sha256(item.fingerprint + settings.encode()).hexdigest()[:32]


def _recency_key(session: ExportedSession) -> tuple[bool, datetime | str, str]:
    return session.ended is not None, session.ended or "", session.page
