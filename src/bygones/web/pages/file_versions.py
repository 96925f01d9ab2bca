"""The page of a file: its versions over all sessions, and who wrote each line."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from html import escape

import msgspec
from msgspec import Struct, field
from starlette.responses import Response

from bygones.archive import Archive
from bygones.errors import BadRequest, NotInArchive
from bygones.files.diff import build_patch
from bygones.files.events import Place
from bygones.files.history import FileHistory
from bygones.files.library import ArchivedFile, FileLibrary
from bygones.files.origins import LineOrigin, OriginKind, group_ranges
from bygones.files.paths import file_name
from bygones.files.replay import Cause, Version, VersionKind
from bygones.files.report import origin_label, place_label
from bygones.model.base import SessionId
from bygones.render.html.diff import render_diff, render_split_diff
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    language_of,
    make_element_id,
    render_details,
    render_facts,
    render_pieces,
    split_code,
    tag,
)
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize, truncate_line
from bygones.web.context import RequestContext
from bygones.web.layout import (
    PageMeta,
    build_url,
    conversation_url,
    empty_message,
    link,
    render_page,
    render_table,
    time_tag,
)

_MAX_LINES = 5_000
_MAX_HIGHLIGHTED = 40_000
"""Characters of a file that is highlighted; that takes about 60 ms."""
_MAX_LISTED = 200
_MAX_PROMPT = 200
_COLORS = 8
_KIND_TEXTS = {
    VersionKind.SEEN: "first seen",
    VersionKind.CLAUDE: "changed by Claude",
    VersionKind.COMMAND: "changed by a command",
    VersionKind.OUTSIDE: "changed outside",
}
_CAUSE_TEXTS = {
    Cause.COMMAND: "probably by a command",
    Cause.FORMATTER: "probably by a formatter or hook",
    Cause.SESSION: "by another session",
    Cause.BRANCH: "left by an abandoned branch",
    Cause.USER: "by you or another program",
}


class FileView(StrEnum):
    """How a version is shown."""

    LINES = "lines"
    UNIFIED = "unified"
    SPLIT = "split"


_VIEW_TEXTS = {
    FileView.LINES: "Lines",
    FileView.UNIFIED: "Changes",
    FileView.SPLIT: "Side by side",
}


def file_url(path: str, **query: object) -> str:
    """Return the URL of a file's page.

    The version is that of a ``call``, the last of a ``session`` or the ``version`` with
    a number; by default it is the last one.
    """
    return build_url("file", path=path, **query)


def file_page(context: RequestContext) -> Response:
    """Return a version of a file: its lines with their origins, or its changes."""
    path = context.query_param("path")
    branch = context.query_param("branch", 200)

    def load(archive: Archive) -> _LoadedFile:
        return _load_file(archive.file_library, path, branch)

    loaded = context.pool.cached(f"file {branch} {path}", load)
    main = list(_FilePage(context, loaded).render())
    meta = PageMeta(
        title=loaded.path,
        nav="/files",
        css_class="wide",
        scripts=("file.js",),
        styles=("file.css",),
    )
    return render_page(meta, main)


class _LoadedFile(Struct, frozen=True):
    """A file that is kept between requests; loading takes longest.

    Prompts and titles are added when they are shown.
    """

    path: str
    history: FileHistory
    abandoned_branches: Sequence[tuple[SessionId, int]]
    prompts: dict[tuple[str, int, int], str] = field(default_factory=dict)
    titles: dict[SessionId, str] = field(default_factory=dict)


def _load_file(library: FileLibrary, path: str, branch: str) -> _LoadedFile:
    file = library.open(path)
    history = file.history if not branch else _open_branch(file, branch)
    if not history.versions:
        raise NotInArchive("changed file", path)
    return _LoadedFile(file.path, history, file.abandoned_branches)


def _open_branch(file: ArchivedFile, branch: str) -> FileHistory:
    session, _, number = branch.rpartition(":")
    if not session or not number.isdecimal() or int(number) < 1:
        raise BadRequest("branch must be a session and a number, such as ID:2")
    return file.open_branch(SessionId(session), int(number) - 1)


class _FilePage:
    def __init__(self, context: RequestContext, file: _LoadedFile) -> None:
        self._context = context
        self._file = file
        self._view = _parse_view(context.query_param("view", 20))
        self._branch = context.query_param("branch", 200)
        self._history = file.history
        self._versions = self._history.versions
        self._stops = _find_stops(self._versions)
        self._number = self._choose_version()
        self._version = self._versions[self._number]
        count = len(self._versions)
        self._base = context.query_int("from", self._number, 0, count) - 1
        self._colors: dict[str, int] = {}

    def _choose_version(self) -> int:
        """Return the index of the version that the request asks for."""
        context, count = self._context, len(self._versions)
        if context.query_param("turn"):
            stop = context.query_int("turn", 1, 1, len(self._stops))
            return self._stops[stop - 1]
        call, session = context.query_param("call"), context.query_param("session")
        for version in reversed(self._versions):
            place = version.place
            if (call and place.call_id == call) or (
                not call and session and place.session_id == session
            ):
                return version.number
        return context.query_int("version", count, 1, count) - 1

    @cached_property
    def _stop(self) -> int:
        """The index of the turn in which the version was made."""
        return bisect_left(self._stops, self._number)

    @cached_property
    def _text(self) -> str | None:
        return self._history.text(self._number)

    def render(self) -> Iterator[Html]:
        path = self._file.path
        yield tag("h1", escape_line(file_name(path)))
        sessions = link(
            build_url("files", path=path),
            escape_line("Sessions that changed this file"),
        )
        yield tag("p", join_html((escape_line(path), sessions), " · "), kind="note")
        yield self._controls()
        yield tag("p", self._version_facts(self._version), kind="note")
        yield self._tabs()
        if self._view is not FileView.LINES:
            yield from self._changes()
        elif self._text is None:
            yield self._missing_text()
        else:
            yield from self._lines(self._text)
        yield self._version_list()

    def _missing_text(self) -> Html:
        return empty_message(
            "The file was deleted."
            if not self._version.exists
            else "The content of this version is not known."
        )

    def _url(self, number: int, **query: object) -> str:
        chosen: dict[str, object] = {"branch": self._branch, "version": number + 1}
        if self._view is not FileView.LINES:
            chosen["view"] = self._view
        return file_url(self._file.path, **(chosen | query))

    def _controls(self) -> Html:
        """Return a form that chooses a turn and a branch; it needs no script."""
        count, number, at = len(self._stops), self._number, self._stop
        labels = [_stop_label(self._versions[stop]) for stop in self._stops]
        older = newer = EMPTY_HTML
        if number:
            older = tag(
                "a", escape_line("Older"), href=self._url(number - 1), rel="prev"
            )
        if number + 1 < len(self._versions):
            newer = tag(
                "a", escape_line("Newer"), href=self._url(number + 1), rel="next"
            )
        hidden = {
            "path": self._file.path,
            "view": self._context.query_param("view", 20),
        }
        fields = "".join(
            f'<input type="hidden" name="{name}" value="{escape(value)}">'
            for name, value in hidden.items()
            if value
        )
        encoded = escape(sanitize(msgspec.json.encode(labels).decode()))
        return Html(
            f'<form class="filters versions" action="/file">{fields}'
            f'<label>Turn <input type="range" name="turn" min="1" max="{count}"'
            f' value="{at + 1}" data-labels="{encoded}"></label>'
            f"<output>{escape_line(labels[at])} ({at + 1} of {count})</output>"
            f"{self._branch_choice()}<button>Show</button>{older} {newer}</form>"
        )

    def _branch_choice(self) -> Html:
        branches = self._file.abandoned_branches
        if not branches:
            return EMPTY_HTML
        names = [f"{session}:{number + 1}" for session, number in branches]
        options = [
            f'<option value="{escape(name)}"{" selected" if name == self._branch else ""}>'
            f"{escape_line(f'{name[:8]}, abandoned branch {number + 1}')}</option>"
            for name, (_, number) in zip(names, branches, strict=True)
        ]
        return Html(
            '<label>Branch <select name="branch"><option value="">Live branches</option>'
            f"{''.join(options)}</select></label>"
        )

    def _tabs(self) -> Html:
        tabs = [
            tag(
                "li",
                tag(
                    "a",
                    escape_line(_VIEW_TEXTS[view]),
                    href=self._url(
                        self._number, view="" if view is FileView.LINES else view
                    ),
                    aria_current="page" if view is self._view else "",
                ),
            )
            for view in FileView
        ]
        return tag("ul", join_html(tabs), kind="tabs")

    def _version_facts(self, version: Version) -> Html:
        facts = [
            f"Version {version.number + 1} of {len(self._versions)}",
            *_change_facts(version),
        ]
        if version.command:
            facts.append(truncate_line(version.command, 100))
        if not version.is_exact:
            facts.append("partly inferred")
        return join_html(
            (
                render_facts(facts),
                self._place_link(version.place),
                time_tag(version.time, self._context.now),
                escape_line(self._prompt(version.place)),
            ),
            " · ",
        )

    def _place_link(self, place: Place) -> Html:
        return link(_place_url(place), escape_line(place_label(place)))

    def _prompt(self, place: Place) -> str:
        key = (place.session_id, place.branch_number, place.turn_number)
        prompts = self._file.prompts
        if key not in prompts:
            prompt = self._history.find_prompt(place)
            text = prompt.preview if prompt else ""
            prompts[key] = truncate_line(text, _MAX_PROMPT)
        return prompts[key]

    def _title(self, session_id: SessionId) -> str:
        titles = self._file.titles
        if session_id not in titles:
            session = self._history.find_session(session_id)
            titles[session_id] = truncate_line(
                session.title.text if session else "", 80
            )
        return titles[session_id]

    def _changes(self) -> Iterator[Html]:
        """Yield what changed since another version, by default the one before."""
        number, base = self._number, self._base
        if base >= 0:
            yield tag("p", self._base_links(), kind="note")
        before = self._history.text(base) if base >= 0 else ""
        is_known = self._text is not None or not self._version.exists
        if not is_known or (before is None and self._versions[base].exists):
            yield empty_message("The content of one of these versions is not known.")
            return
        hunks = build_patch(before, self._text)
        if not hunks:
            yield empty_message(
                "Nothing changed." if base != number else "Same version."
            )
            return
        render = render_split_diff if self._view is FileView.SPLIT else render_diff
        yield render(hunks, language_of(self._file.path))

    def _base_links(self) -> Html:
        """Return links to comparisons with other versions."""
        bases = {
            self._number - 1: "the version before",
            self._stops[self._stop - 1] if self._stop else 0: "the turn before",
            0: "the first version",
        }
        links = [
            tag(
                "a",
                escape_line(text),
                href=self._url(self._number, **{"from": base + 1}),
                aria_current="true" if base == self._base else "",
            )
            for base, text in bases.items()
            if 0 <= base < self._number
        ]
        compared = f"Version {self._base + 1} compared with {self._number + 1}"
        return join_html((escape_line(compared), *links), " · ")

    def _lines(self, text: str) -> Iterator[Html]:
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        shown = [sanitize(line).replace("\n", " ") for line in lines[:_MAX_LINES]]
        code = split_code(shown, language_of(self._file.path), _MAX_HIGHLIGHTED)
        origins = self._history.origins(self._number)[: len(shown)]
        rows: list[str] = []
        for block in group_ranges(origins):
            css_class = self._css_class(block.origin)
            gutter = self._gutter(block.origin)
            rows += (
                f'<tr class="{css_class}" id="L{at + 1}">'
                f"<td>{gutter if at == block.start else ''}</td>"
                f'<td class="number">{at + 1}</td>'
                f"<td><pre>{render_pieces(code[at])}</pre></td></tr>"
                for at in range(block.start, block.stop)
            )
        yield self._legend(origins)
        head = "".join(
            f'<th scope="col">{name}</th>' for name in ("Who", "Line", "Text")
        )
        yield Html(
            '<div class="table" tabindex="0" role="region" aria-label="Lines">'
            f'<table class="blame"><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )
        if len(lines) > _MAX_LINES:
            rest = pluralize(len(lines) - _MAX_LINES, "more line")
            yield tag("p", escape_line(rest), kind="note")

    def _legend(self, origins: Sequence[LineOrigin]) -> Html:
        """Return how many lines each session wrote, with its color."""
        counts: dict[str, int] = {}
        titles: dict[str, Html] = {}
        for origin in origins:
            name = self._css_class(origin)
            counts[name] = counts.get(name, 0) + 1
            if name not in titles:
                titles[name] = self._legend_title(origin, name)
        items = [
            tag(
                "li",
                join_html((titles[name], escape_line(pluralize(count, "line"))), " · "),
                kind=name,
            )
            for name, count in sorted(counts.items(), key=lambda row: -row[1])
        ]
        return tag("ul", join_html(items), kind="legend")

    def _legend_title(self, origin: LineOrigin, css_class: str) -> Html:
        if css_class == "origin-outside":
            return escape_line("changed outside of Claude Code, or by a command")
        if origin.place is None or css_class == "origin-none":
            return escape_line("before, or unknown")
        session_id = origin.place.session_id
        title = self._title(session_id) or session_id
        return link(conversation_url(session_id), escape_line(title))

    def _css_class(self, origin: LineOrigin) -> str:
        if origin.cause is not None or origin.kind is OriginKind.USER:
            return "origin-outside"
        if origin.place is None or origin.kind in {
            OriginKind.BEFORE,
            OriginKind.UNKNOWN,
        }:
            return "origin-none"
        number = self._colors.setdefault(origin.place.session_id, len(self._colors))
        return f"origin-{number % _COLORS}"

    def _gutter(self, origin: LineOrigin) -> Html:
        word = origin_label(origin)
        label = tag("span", escape_line(word), kind=f"who {word.rstrip('?')}")
        if origin.place is None or origin.kind is OriginKind.BEFORE:
            return label
        facts = [self._prompt(origin.place)]
        if origin.kind is OriginKind.MODIFIED:
            is_recorded = origin.cause is None and origin.command
            by = (
                "by a command"
                if is_recorded
                else _CAUSE_TEXTS[origin.cause or Cause.USER]
            )
            facts.append(f"changed since, {by}")
        elif origin.cause is not None and origin.version is not None:
            facts = _change_facts(self._versions[origin.version])
        turn = place_label(origin.place)
        place = tag(
            "a",
            escape_line(f"before {turn}" if origin.is_noticed else turn),
            href=_place_url(origin.place),
            title=sanitize("; ".join(facts), newlines="space"),
        )
        return join_html((label, place), " ")

    def _version_list(self) -> Html:
        versions = self._versions[-_MAX_LISTED:]
        rows = [
            (
                link(self._url(version.number), escape_line(str(version.number + 1))),
                render_facts(_change_facts(version)),
                self._place_link(version.place),
                time_tag(version.time, self._context.now),
            )
            for version in reversed(versions)
        ]
        table = render_table(("Version", "What", "Turn", "When"), rows, text_columns=4)
        count = pluralize(len(self._versions), "version")
        is_cut = len(versions) < len(self._versions)
        title = f"The newest {len(versions)} of {count}" if is_cut else f"All {count}"
        return render_details(escape_line(title), table)


def _parse_view(name: str) -> FileView:
    try:
        return FileView(name) if name else FileView.LINES
    except ValueError:
        raise BadRequest(f"view must be one of {', '.join(FileView)}") from None


def _find_stops(versions: Sequence[Version]) -> list[int]:
    """Return the last version of each turn; a change from outside is one of its own."""
    stops: list[int] = []
    previous: tuple[object, ...] | None = None
    for version in versions:
        place = version.place
        is_outside = version.kind is VersionKind.OUTSIDE
        key = (place.session_id, place.branch_number, place.turn_number, is_outside)
        if stops and key == previous and not is_outside:
            stops[-1] = version.number
        else:
            stops.append(version.number)
        previous = key
    return stops


def _stop_label(version: Version) -> str:
    """Return the turn of a version; a change from outside was made before it."""
    turn = place_label(version.place)
    return f"before {turn}" if version.kind is VersionKind.OUTSIDE else turn


def _place_url(place: Place) -> str:
    """Return the URL of the conversation where something happened."""
    at = make_element_id("c", place.call_id) if place.call_id else ""
    if not at and place.message_id:
        at = make_element_id("m", place.message_id)
    return conversation_url(
        place.session_id,
        agent=place.agent_id,
        at=at,
        branch=0 if place.agent_id else place.branch_number,
    )


def _change_facts(version: Version) -> list[str]:
    """Return how a version came about, and when if that is not known exactly."""
    facts = [_KIND_TEXTS[version.kind]]
    if not version.exists:
        facts = [f"deleted, {facts[0]}"]
    if version.cause is not None:
        facts.append(_CAUSE_TEXTS[version.cause])
    if version.since is not None and version.time is not None:
        start, end = version.since.astimezone(), version.time.astimezone()
        facts.append(f"between {start:%Y-%m-%d %H:%M} and {end:%Y-%m-%d %H:%M}")
    return facts
