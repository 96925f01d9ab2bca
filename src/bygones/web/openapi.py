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
from bygones.web.visit import Visit

if TYPE_CHECKING:
    from bygones.web.app import RouteRow

__all__ = ["description", "openapi"]

_REF = "#/components/schemas/{name}"
_Schema = dict[str, Any]


def openapi(visit: Visit) -> Response:
    """Describe this interface, as OpenAPI."""
    told = description(visit.request.app.state.rows)
    return Response(json.dumps(told), media_type="application/json")


def description(routes: Iterable[RouteRow]) -> _Schema:
    """Return the description of all routes that programs ask."""
    known = {shape for shapes in api.SHAPES.values() for shape in shapes}
    shapes: list[type[Struct]] = sorted((known - _LOOSE) | {api.Change}, key=_name)
    _, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    for shape in _LOOSE:
        components[_name(shape)] = _loose(shape)
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
            if row.is_api and row.answer.__name__ != "openapi"
        },
        "components": {"schemas": components},
    }


def _operation(row: RouteRow) -> _Schema:
    name = row.answer.__name__
    parameters = [
        {
            "name": part,
            "in": "path",
            "required": True,
            "description": "An id, or a beginning that only it has.",
            "schema": {"type": "string", "minLength": 1},
        }
        for part in re.findall(r"{(\w+)}", row.path)
    ]
    parameters += [
        {
            "name": one.name,
            "in": "query",
            "description": one.meaning,
            "schema": {"type": one.kind},
        }
        for one in api.PARAMETERS.get(name, ())
    ]
    told: _Schema = {
        "operationId": name,
        "summary": (row.answer.__doc__ or "").strip(),
        "parameters": parameters,
        "responses": {
            "200": _content("The answer.", _answer(api.SHAPES[name], row.method)),
            **{
                status: _content(meaning, {"$ref": _REF.format(name="Error")})
                for status, meaning in _ERRORS.items()
            },
        },
    }
    if row.method == "POST":
        schema = {"$ref": _REF.format(name=api.Change.__name__)}
        told["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return told


_ERRORS = {
    "400": "It cannot be understood.",
    "404": "There is no such thing in the archive.",
    "503": "Somebody else is writing to the archive, or it has no index.",
}


def _content(meaning: str, schema: _Schema) -> _Schema:
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}


def _answer(shapes: tuple[type[Struct], ...], method: str) -> _Schema:
    rows = [{"$ref": _REF.format(name=_name(shape))} for shape in shapes]
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


def _name(shape: type[Struct]) -> str:
    """Return under which name the description has a shape."""
    inside = "Show" if shape in _LOOSE else ""
    return inside + shape.__name__


_LOOSE = frozenset(shown.ROWS)
"""Rows of sessions: they hold what was given to tools, which may be anything."""


def _loose(shape: type[Struct]) -> _Schema:
    tag = shape.__struct_config__.tag
    told: _Schema = {"type": "object", "description": (shape.__doc__ or "").strip()}
    if tag:
        told |= {"required": ["row"], "properties": {"row": {"const": tag}}}
    return told
