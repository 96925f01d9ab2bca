"""The interface for programs: the rows that commands print, in one JSON object.

Every answer is ``{"schema": …, "rows": […]}``; a row is what ``--json`` prints a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from threading import Lock
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs
from starlette.responses import Response

from bygones.errors import BadRequest, NotArchived
from bygones.model.annotations import Annotations
from bygones.model.reports import ToolRow, UsageReport, UsageRow
from bygones.model.sessions import Session
from bygones.model.surveys import DriftRow
from bygones.render import json as shown
from bygones.render.encode import encoded
from bygones.render.json import json_rows
from bygones.render.walk import View
from bygones.rows.archive import (
    SCHEMA,
    AnnotationRow,
    ChangedRow,
    OddRow,
    ProjectLine,
    SessionRow,
)
from bygones.rows.changes import gathered
from bygones.rows.search import AnswerRow, FoundRow
from bygones.web.pages.home import Filters, everything
from bygones.web.pages.problems import found_drift, found_problems
from bygones.web.pages.projects import project_facts
from bygones.web.pages.search import found_for
from bygones.web.pages.usage import report_for
from bygones.web.reading import LONGEST
from bygones.web.visit import Visit

__all__ = [
    "PARAMETERS",
    "SHAPES",
    "Change",
    "Parameter",
    "annotate",
    "answered",
    "files",
    "problems",
    "projects",
    "search",
    "session",
    "sessions",
    "usage",
]

_PAGE = 50
_MOST = 500
_TURNS = 20
_LONGEST = 100
_TAGS = 50
_GIANT = Lock()
"""Is had by whoever has a very long session assembled."""


class Parameter(NamedTuple):
    """A value of a query, what it is and what it means."""

    name: str
    meaning: str
    kind: str = "string"


def answered(rows: Iterable[Struct]) -> Response:
    """Return rows as an answer; what nobody sees in them is escaped."""
    lines = ",".join(encoded(row) for row in rows)
    return Response(
        f'{{"schema":{SCHEMA},"rows":[{lines}]}}', media_type="application/json"
    )


def sessions(visit: Visit) -> Response:
    """List sessions, newest first, as `bygones list --json` does."""
    filters = Filters.of(visit)
    offset, limit = visit.number("offset", 0), visit.number("limit", _PAGE, 1, _MOST)
    fitting = (
        one
        for one in visit.readers.told("sessions", everything)
        if (filters.all or not one.is_empty) and filters.fits(one, visit.now)
    )
    chosen = list(islice(fitting, offset, offset + limit))
    with visit.readers.archive() as archive:
        costs = archive.costs(chosen, visit.house.prices)
    return answered(SessionRow.of(one, costs.get(one.id)) for one in chosen)


def session(visit: Visit) -> Response:
    """Give turns of a session, as `bygones show --json` does."""
    first = visit.number("first", 0)
    view = View(
        branch=visit.number("branch", 0),
        first=first,
        last=visit.number("last", first + _TURNS - 1),
        agents=visit.flag("agents"),
        thinking=visit.flag("thinking"),
        tools=visit.flag("tools"),
    )
    listed = visit.readers.listed(visit.part("id"))
    if listed.messages <= LONGEST:
        with visit.readers.session(listed.id, listed) as held:
            return _turns(held.session, view)
    # As large as it is, it is not kept, and there is one at a time.
    with _GIANT, visit.readers.archive() as archive:
        return _turns(archive.session(listed.id), view)


def _turns(whole: Session, view: View) -> Response:
    if view.branch not in {one.number for one in whole.branches}:
        raise NotArchived("branch", str(view.branch))
    return answered(json_rows(whole, view))


def annotate(visit: Visit) -> Response:
    """Change the tags, the note or the star of a session; what is left out stays."""
    change = _change(visit.body)
    with visit.readers.archive() as archive:
        listed = archive.listed(visit.part("id"))
        told = archive.annotate([listed.id], change.applied)
    visit.readers.renew()
    added = told.get(listed.id, Annotations())
    row = AnnotationRow(
        session=listed.id,
        tags=added.tags,
        note=added.note,
        is_starred=added.is_starred,
    )
    return Response(encoded(row), media_type="application/json")


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be changed of a session's annotations."""

    tags: tuple[str, ...] | UnsetType = UNSET
    note: str | UnsetType = UNSET
    is_starred: bool | UnsetType = UNSET

    def applied(self, had: Annotations) -> Annotations:
        """Return what a session is to have."""
        changed = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not UNSET
        }
        if "tags" in changed:
            changed["tags"] = tuple(sorted(set(changed["tags"])))
        return structs.replace(had, **changed)


def _change(body: bytes) -> Change:
    try:
        change = msgspec.json.decode(body, type=Change)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the change cannot be read: {error}") from None
    tags = change.tags if isinstance(change.tags, tuple) else ()
    if len(tags) > _TAGS or any(not _is_tag(tag) for tag in tags):
        raise BadRequest("a tag is one word of at most 100 signs, all of them seen")
    if isinstance(change.note, str) and not _is_text(change.note):
        raise BadRequest("the note holds what cannot be kept")
    return change


def _is_tag(tag: str) -> bool:
    return 0 < len(tag) <= _LONGEST and tag.isprintable() and not set(tag) & set(" ,")


def _is_text(note: str) -> bool:
    return all(sign.isprintable() or sign in "\n\t" for sign in note)


def projects(visit: Visit) -> Response:
    """List projects, the one last worked on first."""
    facts = visit.readers.told("projects", project_facts)
    return answered(ProjectLine.of(one.project, one.last, one.tokens) for one in facts)


def search(visit: Visit) -> Response:
    """Find sessions, as `bygones search --json` does."""
    text = visit.text("q")
    sort = visit.text("sort") or "best"
    if sort not in {"best", "newest", "oldest"}:
        raise BadRequest("sort has to be best, newest or oldest")
    offset = visit.number("offset", 0, 0, 100_000)
    found = found_for(
        visit, text, sort=sort, limit=visit.number("limit", 10, 1, 50), offset=offset
    )
    rows = (
        FoundRow.of(number, one)
        for number, one in enumerate(found.sessions, offset + 1)
    )
    return answered((AnswerRow.of(text, found), *rows))


def usage(visit: Visit) -> Response:
    """Give what was spent, as `bygones usage --json` does."""
    report = report_for(visit)
    rows: tuple[UsageRow | ToolRow | UsageReport, ...] = report.rows
    return answered((*rows, structs.replace(report, rows=())))


def files(visit: Visit) -> Response:
    """List what a session changed, or which sessions changed a file."""
    name, path = visit.text("session"), visit.text("path")
    if not name and not path:
        raise BadRequest("name a session or a path")
    with visit.readers.archive() as archive:
        edits = archive.edits(session=name) if name else archive.edits(path=path)
    return answered(gathered(edits))


def problems(visit: Visit) -> Response:
    """List what is odd about files, and what this version does not know."""
    told = visit.readers.told("problems", found_problems)
    drift = visit.readers.told("drift", found_drift)
    return answered((*(OddRow.of(problem) for _, problem in told), *drift))


SHAPES: dict[str, tuple[type[Struct], ...]] = {
    "sessions": (SessionRow,),
    "session": shown.ROWS,
    "projects": (ProjectLine,),
    "search": (AnswerRow, FoundRow),
    "usage": (UsageRow, ToolRow, UsageReport),
    "files": (ChangedRow,),
    "problems": (OddRow, DriftRow),
    "annotate": (AnnotationRow,),
}
"""The rows that may be in an answer, by the name of the function that gives it."""

_FILTERS = (
    Parameter("project", "A directory: what was begun in it or below it."),
    Parameter("model", "Part of the name of a model."),
    Parameter("text", "Part of the title."),
    Parameter("on", "A day, as in 2026-01-31."),
    Parameter("days", "Ended in the last so many days.", "integer"),
    Parameter("all", "Also sessions without a message.", "boolean"),
)
_QUERY = Parameter("q", "A query, in the language of `bygones search --syntax`.")
PARAMETERS: dict[str, tuple[Parameter, ...]] = {
    "sessions": (
        *_FILTERS,
        Parameter("offset", "How many to pass over.", "integer"),
        Parameter("limit", "How many, 500 at most.", "integer"),
    ),
    "session": (
        Parameter("branch", "The number of a branch; 0 is the live one.", "integer"),
        Parameter("first", "The number of the first turn.", "integer"),
        Parameter(
            "last",
            f"The number of the last turn; {_TURNS} turns where it is left out.",
            "integer",
        ),
        Parameter("agents", "Whether agents are given whole.", "boolean"),
        Parameter("thinking", "Whether Claude's reasoning is given.", "boolean"),
        Parameter("tools", "Whether calls are given whole.", "boolean"),
    ),
    "search": (
        _QUERY,
        Parameter("sort", "best, newest or oldest."),
        Parameter("offset", "How many to pass over.", "integer"),
        Parameter("limit", "How many, 50 at most.", "integer"),
    ),
    "usage": (
        Parameter("by", "day, week, month, block, project, session, model and more."),
        Parameter("since", "A time, as in 7d or 2026-01-31."),
        _QUERY,
    ),
    "files": (
        Parameter("session", "An id, or the beginning of one."),
        Parameter("path", "A file, a folder, or how its path ends."),
    ),
}
"""What can be asked for, by the name of the function that answers."""
