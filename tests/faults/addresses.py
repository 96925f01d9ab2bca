"""Hostile URLs: path traversal in every parameter of every route.

The routes come from the router. The query parameters of a route are those that its handler
reads. The names would lead out of a folder if they were used as paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from starlette.datastructures import QueryParams
from starlette.routing import Route

from tests.web.archives import AGENT

__all__ = [
    "CANARY",
    "NAMES",
    "Address",
    "fill_path",
    "find_query_parameters",
    "hostile_addresses",
    "names_leading_to",
    "route_method",
]

CANARY = "canary-that-nobody-may-see"
"""The content of files outside the archive."""
_DOTS = ("..", "%2e%2e", ".%2e", "%252e%252e", "....", "..%00", "..;")
_SLASHES = ("/", "%2f", "\\", "%5c", "//", "%252f", "%255c", "%c0%af", "%ef%bc%8f")
_ENDS = ("canary.txt", "etc/passwd", "archive/archive.db", "%00", "canary.txt%00.css")
_PREFIXES = ("", "/", "file://", "//attacker.test/", "C:/", "~/")
NAMES = list(
    dict.fromkeys(
        (before + "DOTS/" * depth + end).replace("/", slash).replace("DOTS", dots)
        for before, depth, end, slash, dots in product(
            _PREFIXES, (0, 1, 2, 9), _ENDS, _SLASHES, _DOTS
        )
    )
)
"""Path traversal names, in the encodings that servers and programs decode."""
_VALID = {"id": AGENT, "agent": "a-a1", "name": "web.css", "version": "1"}


class Address(NamedTuple):
    """A URL with a hostile name in one parameter of its route."""

    route: str
    method: str
    parameter: str
    path: str

    def faults(self, status: int, body: bytes) -> list[str]:
        """Return what is wrong with a response: its status, or secrets in its body."""
        # A static file has the same content for every requested version.
        any_value_allowed = "?" in self.path or self.parameter == "version"
        allowed = (
            {200, 204, 303, 400, 404, 414} if any_value_allowed else {400, 404, 414}
        )
        secrets = (CANARY.encode(), b"root:x:0", b"SQLite format 3")
        problems = [f"{secret!r} {self.path}" for secret in secrets if secret in body]
        return problems if status in allowed else [*problems, f"{status} {self.path}"]


def names_leading_to(path: Path) -> list[str]:
    """Return names that would lead to an existing file."""
    spellings = (str(path), f"file://{path}", f"../{path.name}", path.name)
    return [
        spelling.replace("/", slash) for spelling in spellings for slash in _SLASHES
    ]


def route_method(route: Route) -> str:
    (method,) = (route.methods or {"GET"}) - {"HEAD"}
    return method


def fill_path(path: str, **hostile: str) -> str:
    """Return a route's path with valid values for its parameters."""
    for parameter, valid in (_VALID | hostile).items():
        path = path.replace(f"{{{parameter}}}", valid)
    assert "{" not in path, "a path parameter without a valid value"
    return path


def find_query_parameters(send: Callable[[str, str], object], route: Route) -> set[str]:
    """Return the query parameters that a route's handler reads."""
    requested: set[str] = set()
    original = QueryParams.get

    def recording_get(params: QueryParams, key: str, default: str = "") -> str:
        requested.add(key)
        return str(original(params, key, default))

    path = fill_path(route.path)
    with patch.object(QueryParams, "get", recording_get):
        send(route_method(route), path)
        for name in sorted(requested):
            send(route_method(route), f"{path}?{name}=1")
    return requested


def hostile_addresses(
    route: Route, queries: set[str], names: Sequence[str]
) -> Iterator[Address]:
    """Yield URLs of a route: in each, one parameter is hostile and all others are valid."""
    method = route_method(route)
    for parameter in re.findall(r"{(\w+)}", route.path):
        for name in names:
            path = fill_path(route.path, **{parameter: name})
            yield Address(route.path, method, parameter, path)
    for parameter in sorted(queries):
        for name in names:
            path = f"{fill_path(route.path)}?{parameter}={name}"
            yield Address(route.path, method, parameter, path)
