"""The description of the interface for programs, made from its tables and rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from bygones import __version__
from bygones.render import json as shown
from bygones.web import api
from bygones.web.context import RequestContext

if TYPE_CHECKING:
    from bygones.web.app import RouteSpec

__all__ = ["build_openapi", "openapi"]

_REF = "#/components/schemas/{name}"
_Schema = dict[str, Any]


def openapi(context: RequestContext) -> Response:
    """Describe this interface, as OpenAPI."""
    told = build_openapi(context.request.app.state.rows)
    return Response(json.dumps(told), media_type="application/json")


def build_openapi(routes: Iterable[RouteSpec]) -> _Schema:
    """Return the description of all routes that programs ask."""
    known = {shape for shapes in api.RESPONSE_TYPES.values() for shape in shapes}
    shapes: list[type[Struct]] = sorted(
        (known - _OPEN_TYPES) | {api.AnnotationChange}, key=_schema_name
    )
    _, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    for shape in _OPEN_TYPES:
        components[_schema_name(shape)] = _open_schema(shape)
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
            "description": "What was said in Claude Code: the rows that commands print "
            "with `--json`. Every request needs the cookie of an opened page.",
        },
        "paths": {
            row.path: {row.method.lower(): _operation(row)}
            for row in routes
            if row.is_api and row.handler.__name__ != "openapi"
        },
        "components": {"schemas": components},
    }


def _operation(route: RouteSpec) -> _Schema:
    name = route.handler.__name__
    parameters = [
        {
            "name": part,
            "in": "path",
            "required": True,
            "description": "An id, or a beginning that only it has.",
            "schema": {"type": "string", "minLength": 1},
        }
        for part in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {
            "name": one.name,
            "in": "query",
            "description": one.description,
            "schema": {"type": one.type},
        }
        for one in api.PARAMETERS.get(name, ())
    ]
    told: _Schema = {
        "operationId": name,
        "summary": (route.handler.__doc__ or "").strip(),
        "parameters": parameters,
        "responses": {
            "200": _json_content(
                "The answer.", _response_schema(api.RESPONSE_TYPES[name], route.method)
            ),
            **{
                status: _json_content(meaning, {"$ref": _REF.format(name="Error")})
                for status, meaning in _ERROR_RESPONSES.items()
            },
        },
    }
    if route.method == "POST":
        schema = {"$ref": _REF.format(name=api.AnnotationChange.__name__)}
        told["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return told


_ERROR_RESPONSES = {
    "400": "It cannot be understood.",
    "404": "There is no such thing in the archive.",
    "503": "Somebody else is writing to the archive, or it has no index.",
}


def _json_content(description: str, schema: _Schema) -> _Schema:
    return {
        "description": description,
        "content": {"application/json": {"schema": schema}},
    }


def _response_schema(types: tuple[type[Struct], ...], method: str) -> _Schema:
    rows = [{"$ref": _REF.format(name=_schema_name(shape))} for shape in types]
    row = rows[0] if len(rows) == 1 else {"anyOf": rows}
    if method == "POST":
        return row
    return {
        "type": "object",
        "required": ["schema", "rows"],
        "properties": {
            "schema": {"type": "integer"},
            "rows": {"type": "array", "items": row},
        },
    }


def _schema_name(struct_type: type[Struct]) -> str:
    """Return under which name the description has a shape."""
    inside = "Show" if struct_type in _OPEN_TYPES else ""
    return inside + struct_type.__name__


_OPEN_TYPES = frozenset(shown.JSON_TYPES)
"""Rows of sessions: they hold what was given to tools, which may be anything."""


def _open_schema(struct_type: type[Struct]) -> _Schema:
    tag = struct_type.__struct_config__.tag
    told: _Schema = {
        "type": "object",
        "description": (struct_type.__doc__ or "").strip(),
    }
    if tag:
        told |= {"required": ["row"], "properties": {"row": {"const": tag}}}
    return told
