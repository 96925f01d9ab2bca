"""What the command palette finds: sessions, projects, files, prompts, searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import msgspec
from msgspec import Struct
from starlette.responses import Response

from bygones.archive import Archive
from bygones.errors import QueryError
from bygones.model.query import Part
from bygones.render.html.markup import strip_inline
from bygones.render.numbers import format_age
from bygones.render.text.primitives import sanitize_line, truncate_end
from bygones.web.context import RequestContext
from bygones.web.layout import build_url, conversation_url, short_path
from bygones.web.pages.home import load_projects
from bygones.web.saved_searches import load_searches
from bygones.web.session_filters import session_time

_MAX_PER_GROUP = 6
_MAX_SESSIONS = 8
_MAX_LABEL = 120
_MIN_QUERY = 2
"""Characters after which prompts are searched, too."""


class PaletteEntry(Struct, frozen=True, array_like=True):
    group: str
    label: str
    detail: str
    url: str


def palette_entries(context: RequestContext) -> Response:
    """Return what matches a text, as JSON; without a text, recent sessions."""
    text = context.query_param("q", 200)
    matches = _matcher(text)
    sources = [_sessions(context, matches), _searches(context, matches)]
    if text:
        sources += [_projects(context, matches), _files(context, matches)]
    if len(text) >= _MIN_QUERY:
        sources.append(_prompts(context, text))
    entries = [entry for source in sources for entry in source]
    return Response(msgspec.json.encode(entries), media_type="application/json")


def _matcher(text: str) -> Callable[[str], bool]:
    """Return whether a text contains all words, in any order."""
    words = text.casefold().split()

    def matches(value: str) -> bool:
        folded = value.casefold()
        return all(word in folded for word in words)

    return matches


def _label(text: str) -> str:
    return truncate_end(strip_inline(sanitize_line(text)), _MAX_LABEL)


def _sessions(
    context: RequestContext, matches: Callable[[str], bool]
) -> Iterator[PaletteEntry]:
    found = (
        summary
        for summary in context.pool.summaries()
        if not summary.is_empty
        and matches(f"{summary.title.text} {summary.id} {summary.project or ''}")
    )
    for summary in islice(found, _MAX_SESSIONS):
        time = session_time(summary)
        facts = (
            format_age(time, context.now) if time else "",
            short_path(summary.project or ""),
        )
        yield PaletteEntry(
            "Sessions",
            _label(summary.title.text or summary.id),
            sanitize_line(" · ".join(filter(None, facts))),
            build_url("session", summary.id),
        )


def _searches(
    context: RequestContext, matches: Callable[[str], bool]
) -> Iterator[PaletteEntry]:
    saved = load_searches(context.app_state.searches_file)
    found = (one.query for one in saved if matches(one.query))
    for query in islice(found, _MAX_PER_GROUP):
        yield PaletteEntry(
            "Saved searches", _label(query), "", build_url("search", q=query)
        )


def _projects(
    context: RequestContext, matches: Callable[[str], bool]
) -> Iterator[PaletteEntry]:
    projects = context.pool.cached("projects", load_projects)
    found = (one for one in projects if one.path and matches(one.path))
    for project in islice(found, _MAX_PER_GROUP):
        yield PaletteEntry(
            "Projects",
            _label(project.name),
            sanitize_line(project.path or ""),
            build_url(project=project.path),
        )


def _files(
    context: RequestContext, matches: Callable[[str], bool]
) -> Iterator[PaletteEntry]:
    paths = context.pool.cached("changed paths", _changed_paths)
    for path in islice(filter(matches, paths), _MAX_PER_GROUP):
        folder, _, name = path.replace("\\", "/").rpartition("/")
        yield PaletteEntry(
            "Files", _label(name), sanitize_line(folder), build_url("file", path=path)
        )


def _changed_paths(archive: Archive) -> tuple[str, ...]:
    """Return the paths of changed files, the last changed first."""
    paths: dict[str, None] = {}
    for edit in reversed(archive.edits()):
        paths.setdefault(edit.path)
    return tuple(paths)


def _prompts(context: RequestContext, text: str) -> Iterator[PaletteEntry]:
    try:
        query = context.parse_query(f"in:{Part.PROMPT} {text}")
        with context.pool.archive() as archive:
            found = archive.search(query, limit=_MAX_PER_GROUP, hits_per_session=1)
    except QueryError:
        return
    for match in found.sessions:
        for hit in match.hits:
            yield PaletteEntry(
                "Prompts",
                _label(hit.excerpt.text),
                _label(match.summary.title.text),
                conversation_url(match.summary.id, at=hit.record_id, find=text),
            )
