"""The OpenAPI description of the web API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from bygones import __version__
from bygones.schema.encoding import SCHEMA_VERSION
from bygones.web import api
from bygones.web.context import RequestContext, RouteSpec

_REF = "#/components/schemas/{name}"
_Schema = dict[str, Any]


def openapi_document(context: RequestContext) -> Response:
    """Return the OpenAPI description of this API."""
    description = build_openapi(context.request.app.state.routes)
    return Response(json.dumps(description), media_type="application/json")


def build_openapi(routes: Iterable[RouteSpec]) -> _Schema:
    known = {shape for shapes in api.RESPONSE_TYPES.values() for shape in shapes}
    shapes: list[type[Struct]] = sorted(
        known | {api.AnnotationChange}, key=lambda shape: shape.__name__
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
            "description": "Conversations with Claude Code: the objects that commands "
            "print with `--json`. Every request needs the cookie of an opened page.",
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
            "description": "An id, or a unique prefix of one.",
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
        for parameter in api.PARAMETERS.get(name, ())
    ]
    operation: _Schema = {
        "operationId": name,
        "summary": (route.handler.__doc__ or "").strip(),
        "parameters": parameters,
        "responses": {
            "200": _json_content(
                "The response.", _response_schema(api.RESPONSE_TYPES[name])
            ),
            **{
                status: _json_content(meaning, {"$ref": _REF.format(name="Error")})
                for status, meaning in _ERROR_RESPONSES.items()
            },
        },
    }
    if route.method == "POST":
        schema = {"$ref": _REF.format(name=api.AnnotationChange.__name__)}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return operation


_ERROR_RESPONSES = {
    "400": "The request is not valid.",
    "404": "The archive does not have it.",
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
