"""Hostile addresses: every parameter of every route.

The router lists the routes; a route shows its parameters by looking for them. The names
would lead out of a folder if they were used as paths.
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
    "addresses",
    "filled",
    "leading_to",
    "method_of",
    "parameters",
]

CANARY = "canary-that-nobody-may-see"
"""What files outside hold."""
_DOTS = ("..", "%2e%2e", ".%2e", "%252e%252e", "....", "..%00", "..;")
_SLASHES = ("/", "%2f", "\\", "%5c", "//", "%252f", "%255c", "%c0%af", "%ef%bc%8f")
_ENDS = ("canary.txt", "etc/passwd", "archive/archive.db", "%00", "canary.txt%00.css")
_BEFORE = ("", "/", "file://", "//attacker.test/", "C:/", "~/")
NAMES = list(
    dict.fromkeys(
        (before + "DOTS/" * depth + end).replace("/", slash).replace("DOTS", dots)
        for before, depth, end, slash, dots in product(
            _BEFORE, (0, 1, 2, 9), _ENDS, _SLASHES, _DOTS
        )
    )
)
"""Names that would lead out, in the spellings that servers and programs undo."""
_VALID = {"id": AGENT, "agent": "a-a1", "name": "web.css", "version": "1"}


class Address(NamedTuple):
    """An address with a hostile name in it, and where in its route that stands."""

    route: str
    method: str
    place: str
    path: str

    def faults(self, status: int, told: bytes) -> list[str]:
        """Return what an answer should not be, or should not say."""
        # A file of ours has one content, whatever version it is asked for.
        is_free = "?" in self.path or self.place == "version"
        allowed = {200, 204, 303, 400, 404, 414} if is_free else {400, 404, 414}
        secrets = (CANARY.encode(), b"root:x:0", b"SQLite format 3")
        found = [f"{secret!r} {self.path}" for secret in secrets if secret in told]
        return found if status in allowed else [*found, f"{status} {self.path}"]


def leading_to(path: Path) -> list[str]:
    """Return names by which a file that is really there would be reached."""
    told = (str(path), f"file://{path}", f"../{path.name}", path.name)
    return [one.replace("/", slash) for one in told for slash in _SLASHES]


def method_of(route: Route) -> str:
    (method,) = (route.methods or {"GET"}) - {"HEAD"}
    return method


def filled(path: str, **hostile: str) -> str:
    """Return a route's path with what is really there in its places."""
    for place, valid in (_VALID | hostile).items():
        path = path.replace(f"{{{place}}}", valid)
    assert "{" not in path, "a place that nobody knows how to fill"
    return path


def parameters(ask: Callable[[str, str], object], route: Route) -> set[str]:
    """Return for which values of the query a route looks, as it does."""
    heard: set[str] = set()
    plainly = QueryParams.get

    def listening(asked: QueryParams, key: str, default: str = "") -> str:
        heard.add(key)
        return str(plainly(asked, key, default))

    path = filled(route.path)
    with patch.object(QueryParams, "get", listening):
        ask(method_of(route), path)
        for name in sorted(heard):
            ask(method_of(route), f"{path}?{name}=1")
    return heard


def addresses(
    route: Route, queries: set[str], names: Sequence[str]
) -> Iterator[Address]:
    """Yield a route's addresses: one name is hostile in each, all others are valid."""
    how = method_of(route)
    for place in re.findall(r"{(\w+)}", route.path):
        for name in names:
            path = filled(route.path, **{place: name})
            yield Address(route.path, how, place, path)
    for place in sorted(queries):
        for name in names:
            path = f"{filled(route.path)}?{place}={name}"
            yield Address(route.path, how, place, path)
