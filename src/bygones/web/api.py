"""The web API and its OpenAPI description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs
from starlette.responses import Response

from bygones import __version__
from bygones.archive import Archive
from bygones.errors import BadRequest, NotInArchive
from bygones.model.reports import DriftRow, ProblemRow
from bygones.model.summary import Annotations
from bygones.render.walk import SessionView
from bygones.schema.commands import (
    ToolUsageObject,
    UsageObject,
    UsageReportObject,
    usage_objects,
)
from bygones.schema.encoding import SCHEMA_VERSION, encode_object
from bygones.schema.sessions import (
    AgentRunObject,
    BranchObject,
    MessageObject,
    TurnObject,
    session_objects,
)
from bygones.schema.summaries import (
    AnnotationsObject,
    FileChangeObject,
    MatchObject,
    ProjectObject,
    SearchObject,
    SessionObject,
    newest_changes_first,
    search_objects,
    summarize_edits,
)
from bygones.web.context import RequestContext, RouteSpec
from bygones.web.pages.about import load_drift
from bygones.web.pages.home import load_projects
from bygones.web.pages.search import run_search
from bygones.web.pages.usage import usage_report
from bygones.web.session_filters import SORT_KEYS, SessionFilters

_REF = "#/components/schemas/{name}"
_Schema = dict[str, Any]


def openapi_document(context: RequestContext) -> Response:
    """Return the OpenAPI description of this API."""
    description = build_openapi(context.request.app.state.routes)
    return Response(json.dumps(description), media_type="application/json")


def build_openapi(routes: Iterable[RouteSpec]) -> _Schema:
    known = {shape for shapes in RESPONSE_TYPES.values() for shape in shapes}
    shapes: list[type[Struct]] = sorted(
        known | {AnnotationChange}, key=lambda shape: shape.__name__
    )
    _, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    components["Error"] = {
        "type": "object",
        "required": ["error", "hint"],
        "properties": {"error": {"type": "string"}, "hint": {"type": "string"}},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bygones",
            "version": __version__,
            "description": "Your sessions, as the objects that commands print with "
            "`--json`. Every request needs the cookie that the link of `bygones serve` "
            "sets.",
        },
        "paths": {
            route.path: {route.method.lower(): _operation(route)}
            for route in routes
            if route.name
        },
        "components": {"schemas": components},
    }


def _operation(route: RouteSpec) -> _Schema:
    name = route.name
    parameters = [
        {
            "name": part,
            "in": "path",
            "required": True,
            "description": "An id or a unique prefix of it.",
            "schema": {"type": "string", "minLength": 1},
        }
        for part in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {
            "name": parameter.name,
            "in": "query",
            "description": parameter.description,
            "schema": {"type": parameter.type},
        }
        for parameter in PARAMETERS.get(name, ())
    ]
    operation: _Schema = {
        "operationId": name,
        "summary": (route.handler.__doc__ or "").strip(),
        "parameters": parameters,
        "responses": {
            "200": _json_content("The result.", _response_schema(RESPONSE_TYPES[name])),
            **{
                status: _json_content(meaning, {"$ref": _REF.format(name="Error")})
                for status, meaning in _ERROR_RESPONSES.items()
            },
        },
    }
    if route.method == "POST":
        schema = {"$ref": _REF.format(name=AnnotationChange.__name__)}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return operation


_ERROR_RESPONSES = {
    "400": "The request is not valid.",
    "404": "The archive has no such session, branch or record.",
    "503": "Another process is writing to the archive, or it has no index.",
}


def _json_content(description: str, schema: _Schema) -> _Schema:
    return {
        "description": description,
        "content": {"application/json": {"schema": schema}},
    }


def _response_schema(types: tuple[type[Struct], ...]) -> _Schema:
    refs = [{"$ref": _REF.format(name=shape.__name__)} for shape in types]
    return {
        "type": "object",
        "required": ["schema", "items"],
        "properties": {
            "schema": {"const": SCHEMA_VERSION},
            "items": {"type": "array", "items": {"anyOf": refs}},
        },
    }


_DEFAULT_LIMIT = 50
_MAX_LIMIT = 500
_DEFAULT_TURNS = 20
_MAX_TAG_LENGTH = 100
_MAX_TAGS = 50


class Parameter(NamedTuple):
    """A query parameter."""

    name: str
    description: str
    type: str = "string"


def check_parameters(context: RequestContext, route: str) -> None:
    """Reject parameters that a route does not have, so that a typo is noticed."""
    known = {parameter.name for parameter in PARAMETERS.get(route, ())}
    for name in context.request.query_params:
        if name not in known:
            allowed = ", ".join(sorted(known)) or "none"
            raise BadRequest(f"unknown parameter {name!r}; allowed: {allowed}")


def json_response(items: Iterable[Struct]) -> Response:
    body = ",".join(map(encode_object, items))
    return Response(
        f'{{"schema":{SCHEMA_VERSION},"items":[{body}]}}',
        media_type="application/json",
    )


def list_sessions(context: RequestContext) -> Response:
    """List sessions, newest first, as `bygones list --json` does."""
    filters = SessionFilters.from_request(context)
    offset, limit = (
        context.query_int("offset", 0),
        context.query_int("limit", _DEFAULT_LIMIT, 1, _MAX_LIMIT),
    )
    selected = filters.select(context, context.pool.summaries())
    chosen = selected[offset : offset + limit]
    with context.pool.archive() as archive:
        costs = archive.costs(chosen, context.app_state.prices)
    return json_response(
        SessionObject.from_summary(summary, costs.get(summary.id)) for summary in chosen
    )


def get_session(context: RequestContext) -> Response:
    """Return turns of a session, as `bygones show --json` does."""
    first = context.query_int("first", 1, 1)
    view = SessionView(
        branch=context.query_int("branch", 1, 1) - 1,
        first_turn=first - 1,
        last_turn=context.query_int("last", first + _DEFAULT_TURNS - 1, 1) - 1,
        include_agents=context.query_flag("agents"),
        include_thinking=context.query_flag("thinking"),
        include_tools=context.query_flag("tools"),
    )
    summary = context.pool.session_summary(context.path_param("id"))
    with context.pool.session(summary.id, summary) as open_session:
        conversation = open_session.conversation()
        if conversation.facts.find_branch(view.branch) is None:
            raise NotInArchive("branch", str(view.branch + 1))
        costs = open_session.archive.costs([summary], context.app_state.prices)
        return json_response(
            session_objects(
                conversation, view, summary=summary, cost=costs.get(summary.id)
            )
        )


def annotate_session(context: RequestContext) -> Response:
    """Change the tags, the note or the star of a session; omitted ones stay."""
    change = _parse_change(context.body)
    with context.pool.archive() as archive:
        session = archive.session_summary(context.path_param("id")).id
        changed = archive.annotate([session], change.apply_to)
    context.pool.invalidate()
    annotations = changed.get(session, Annotations())
    return json_response([AnnotationsObject.from_annotations(session, annotations)])


class AnnotationChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The annotations of a session that a request changes."""

    tags: tuple[str, ...] | UnsetType = UNSET
    note: str | UnsetType = UNSET
    is_starred: bool | UnsetType = UNSET

    def apply_to(self, annotations: Annotations) -> Annotations:
        changed = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not UNSET
        }
        if "tags" in changed:
            changed["tags"] = tuple(sorted(set(changed["tags"])))
        return structs.replace(annotations, **changed)


def _parse_change(body: bytes) -> AnnotationChange:
    try:
        change = msgspec.json.decode(body, type=AnnotationChange)
    except msgspec.DecodeError as error:
        raise BadRequest(f"invalid annotation: {error}") from None
    tags = change.tags if isinstance(change.tags, tuple) else ()
    if len(tags) > _MAX_TAGS or any(not _is_valid_tag(tag) for tag in tags):
        raise BadRequest("a tag must be one word of at most 100 printable characters")
    if isinstance(change.note, str) and not _is_valid_note(change.note):
        raise BadRequest("the note contains control characters")
    return change


def _is_valid_tag(tag: str) -> bool:
    return (
        0 < len(tag) <= _MAX_TAG_LENGTH
        and tag.isprintable()
        and not set(tag) & set(" ,")
    )


def _is_valid_note(note: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in note)


def list_projects(context: RequestContext) -> Response:
    """List projects, most recently active first."""
    found = context.pool.cached("projects", load_projects)
    return json_response(map(ProjectObject.from_project, found))


def search_sessions(context: RequestContext) -> Response:
    """Find sessions, as `bygones search --json` does."""
    text = context.query_param("q")
    sort = context.query_param("sort") or "best"
    if sort not in {"best", "newest", "oldest"}:
        raise BadRequest("sort must be best, newest or oldest")
    offset = context.query_int("offset", 0, 0, 100_000)
    found = run_search(
        context,
        text,
        sort=sort,
        limit=context.query_int("limit", 10, 1, 50),
        offset=offset,
    )
    return json_response(search_objects(text, found, offset))


def get_usage(context: RequestContext) -> Response:
    """Return tokens and costs, as `bygones usage --json` does."""
    report = usage_report(context)
    return json_response(usage_objects(report, report.rows))


def list_files(context: RequestContext) -> Response:
    """List the files that a session changed, or the sessions that changed a file."""
    name, path = context.query_param("session"), context.query_param("path")
    if not name and not path:
        raise BadRequest("either session or path is required")
    with context.pool.archive() as archive:
        if name:
            edits = archive.edits(session=name)
            abandoned = archive.abandoned_agents(edits)
            return json_response(summarize_edits(edits, abandoned))
        edits = archive.edits(path=path)
    return json_response(newest_changes_first(summarize_edits(edits)))


def list_problems(context: RequestContext) -> Response:
    """List problems of files, and types and fields that are not known."""
    problems = context.pool.cached("problem rows", _load_problem_rows)
    drift = context.pool.cached("drift", load_drift)
    return json_response((*problems, *drift))


def _load_problem_rows(archive: Archive) -> tuple[ProblemRow, ...]:
    return tuple(archive.portable_problem_rows())


RESPONSE_TYPES: dict[str, tuple[type[Struct], ...]] = {
    "sessions": (SessionObject,),
    "session": (
        SessionObject,
        TurnObject,
        MessageObject,
        AgentRunObject,
        BranchObject,
    ),
    "projects": (ProjectObject,),
    "search": (SearchObject, MatchObject),
    "usage": (UsageObject, ToolUsageObject, UsageReportObject),
    "files": (FileChangeObject,),
    "problems": (ProblemRow, DriftRow),
    "annotate": (AnnotationsObject,),
}
"""The objects that a response may contain, by the name of the route."""

_FILTER_PARAMETERS = (
    Parameter("q", "A query, in the language of `bygones search --syntax`."),
    Parameter("project", "A directory, including those below it, or a project key."),
    Parameter("model", "Part of the name of a model."),
    Parameter("tool", "The name of a tool that was called."),
    Parameter("text", "Words of the title; the last one may be a prefix."),
    Parameter("on", "A date such as 2026-01-31."),
    Parameter("days", "Ended in the last N days.", "integer"),
    Parameter("since", "The first day, such as 2026-01-31."),
    Parameter("until", "The last day."),
    Parameter("tag", "A tag of the session."),
    Parameter("starred", "Only starred sessions.", "boolean"),
    Parameter("errors", "Only sessions with an error.", "boolean"),
    Parameter("cost", "The least cost in dollars.", "number"),
    Parameter("sort", f"One of {', '.join(SORT_KEYS)}; with - in descending order."),
    Parameter("all", "Include sessions without messages.", "boolean"),
)
_QUERY_PARAMETER = Parameter(
    "q", "A query, in the language of `bygones search --syntax`."
)
PARAMETERS: dict[str, tuple[Parameter, ...]] = {
    "sessions": (
        *_FILTER_PARAMETERS,
        Parameter("offset", "How many to skip.", "integer"),
        Parameter("limit", "How many to return, 500 at most.", "integer"),
    ),
    "session": (
        Parameter("branch", "The number of a branch; 1 is the live one.", "integer"),
        Parameter("first", "The number of the first turn, from 1.", "integer"),
        Parameter(
            "last",
            f"The number of the last turn; by default {_DEFAULT_TURNS} turns are returned.",
            "integer",
        ),
        Parameter("agents", "Include the messages of agents.", "boolean"),
        Parameter("thinking", "Include thinking.", "boolean"),
        Parameter("tools", "Include inputs and results of tools.", "boolean"),
    ),
    "search": (
        _QUERY_PARAMETER,
        Parameter("sort", "best, newest or oldest."),
        Parameter("offset", "How many to skip.", "integer"),
        Parameter("limit", "How many to return, 50 at most.", "integer"),
    ),
    "usage": (
        Parameter("by", "day, week, month, block, project, session, model and more."),
        Parameter("since", "A time such as 7d or 2026-01-31."),
        Parameter("until", "The last day, such as 2026-01-31."),
        _QUERY_PARAMETER,
    ),
    "files": (
        Parameter("session", "An id or a unique prefix of it."),
        Parameter("path", "A file or folder, or the end of its path."),
    ),
}
"""The query parameters of a route, by its name."""
