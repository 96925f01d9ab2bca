"""The page of a file: its versions over all sessions, and who wrote each line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from starlette.responses import Response

from bygones.errors import NotInArchive
from bygones.files.diff import build_patch
from bygones.files.events import Place
from bygones.files.library import ArchivedFile, FileLibrary
from bygones.files.origins import LineOrigin, OriginKind, group_ranges
from bygones.files.replay import Cause, Version, VersionKind
from bygones.files.report import origin_label
from bygones.render.html.diff import render_diff
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    highlight_code,
    join_html,
    make_element_id,
    render_details,
    render_facts,
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
_MAX_HIGHLIGHTED_LINES = 1_500
_MAX_LISTED = 500
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


def file_page(context: RequestContext) -> Response:
    """Return a version of a file with the origin of each line."""
    path = context.query_param("path")
    with context.pool.archive() as archive:
        library = archive.file_library  # it keeps the sessions that it loads
        file = library.open(path)
        count = len(file.versions)
        if not count:
            raise NotInArchive("changed file", path)
        number = context.query_int("version", count, 1, count) - 1
        page = _FilePage(context, library, file, number)
        main = list(page.render())
    return render_page(PageMeta(title=file.path, nav="/files", css_class="wide"), main)


class _FilePage:
    def __init__(
        self,
        context: RequestContext,
        library: FileLibrary,
        file: ArchivedFile,
        number: int,
    ) -> None:
        self._context = context
        self._library = library
        self._file = file
        self._number = number
        self._version = file.versions[number]
        self._prompts: dict[tuple[str, int, int], str] = {}
        self._colors: dict[str, int] = {}

    def render(self) -> Iterator[Html]:
        file = self._file
        yield tag("h1", escape_line(file.path))
        yield tag(
            "p",
            link(
                build_url("files", path=file.path),
                escape_line("Sessions that changed this file"),
            ),
        )
        yield self._slider()
        yield tag("p", self._version_facts(self._version), kind="note")
        text = file.text(self._number)
        before = file.text(self._number - 1) if self._number else None
        if text is not None and (before is not None or not self._number):
            hunks = build_patch(before, text) if self._number else []
            if hunks:
                yield render_details(
                    escape_line("Changes in this version"),
                    render_diff(hunks),
                    "changes",
                )
        if text is None:
            yield empty_message(
                "The file was deleted."
                if not self._version.exists
                else "The content of this version is not known."
            )
        else:
            yield from self._lines(text)
        yield self._version_list()

    def _url(self, number: int) -> str:
        return build_url("file", path=self._file.path, version=number + 1)

    def _slider(self) -> Html:
        """Return a form that chooses a version; it needs no script."""
        count, number = len(self._file.versions), self._number
        older = (
            link(self._url(number - 1), escape_line("Older")) if number else EMPTY_HTML
        )
        newer = EMPTY_HTML
        if number + 1 < count:
            newer = link(self._url(number + 1), escape_line("Newer"))
        return Html(
            '<form class="filters versions" action="/file">'
            f'<input type="hidden" name="path" value="{escape(self._file.path)}">'
            f'<label>Version <input type="range" name="version" min="1" max="{count}"'
            f' value="{number + 1}" data-submit></label>'
            f"<output>{number + 1} of {count}</output><button>Show</button>"
            f"{older} {newer}</form>"
        )

    def _version_facts(self, version: Version) -> Html:
        facts = [_KIND_TEXTS[version.kind]]
        if version.cause is not None:
            facts.append(_CAUSE_TEXTS[version.cause])
        if version.since is not None:
            facts.append(f"since {version.since.astimezone():%Y-%m-%d %H:%M}")
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
        at = make_element_id("c", place.call_id) if place.call_id else ""
        if not at and place.message_id:
            at = make_element_id("m", place.message_id)
        url = conversation_url(
            place.session_id,
            agent=place.agent_id,
            at=at,
            branch=0 if place.agent_id else place.branch_number,
        )
        return link(url, escape_line(f"{place.session_id[:8]}:{place.turn_number + 1}"))

    def _prompt(self, place: Place) -> str:
        key = (place.session_id, place.branch_number, place.turn_number)
        if key not in self._prompts:
            prompt = self._library.describe(place).prompt
            self._prompts[key] = truncate_line(prompt, _MAX_PROMPT)
        return self._prompts[key]

    def _lines(self, text: str) -> Iterator[Html]:
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        language = ""
        if len(lines) <= _MAX_HIGHLIGHTED_LINES:
            language = self._file.path.rpartition(".")[2]
        origins = self._file.history.origins(self._number)[: len(lines)]
        rows: list[str] = []
        for block in group_ranges(origins[:_MAX_LINES]):
            css_class, gutter = (
                self._css_class(block.origin),
                self._gutter(block.origin),
            )
            rows += (
                f'<tr class="{css_class}"><td>{gutter if at == block.start else ""}</td>'
                f'<td class="number" id="L{at + 1}">{at + 1}</td>'
                f"<td><pre>{highlight_code(sanitize(lines[at]), language)}</pre></td>"
                "</tr>"
                for at in range(block.start, block.stop)
            )
        head = "".join(
            f'<th scope="col">{name}</th>' for name in ("Who", "Line", "Text")
        )
        yield Html(
            f'<div class="table" tabindex="0"><table class="blame"><thead><tr>{head}'
            f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        )
        if len(lines) > _MAX_LINES:
            rest = pluralize(len(lines) - _MAX_LINES, "more line")
            yield tag("p", escape_line(rest), kind="note")

    def _css_class(self, origin: LineOrigin) -> str:
        if origin.place is None or origin.kind in {
            OriginKind.BEFORE,
            OriginKind.UNKNOWN,
        }:
            return "origin-none"
        if origin.kind is OriginKind.USER:
            return "origin-outside"
        number = self._colors.setdefault(origin.place.session_id, len(self._colors))
        return f"origin-{number % _COLORS}"

    def _gutter(self, origin: LineOrigin) -> Html:
        label = escape_line(origin_label(origin))
        if origin.place is None or origin.kind is OriginKind.BEFORE:
            return label
        parts = join_html((label, self._place_link(origin.place)), " ")
        return tag("span", parts, title=self._prompt(origin.place))

    def _version_list(self) -> Html:
        versions: Sequence[Version] = self._file.versions[-_MAX_LISTED:]
        rows = [
            (
                link(self._url(version.number), escape_line(str(version.number + 1))),
                escape_line(_KIND_TEXTS[version.kind]),
                self._place_link(version.place),
                time_tag(version.time, self._context.now),
            )
            for version in reversed(versions)
        ]
        table = render_table(("Version", "What", "Turn", "When"), rows, text_columns=4)
        count = pluralize(len(self._file.versions), "version")
        return render_details(escape_line(f"All {count}"), table)
