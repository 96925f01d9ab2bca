"""Searches that the user keeps, in a file that only they can read."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Lock

import msgspec
from msgspec import Struct
from starlette.responses import RedirectResponse, Response

from bygones.errors import BadRequest, NotInArchive
from bygones.web.context import RequestContext
from bygones.web.layout import build_url

_MAX_SEARCHES = 100
_MAX_LENGTH = 500
_LOCK = Lock()


class SavedSearch(Struct, frozen=True):
    query: str
    name: str = ""


def load_searches(path: Path | None) -> tuple[SavedSearch, ...]:
    """Return the saved searches; none if the file is missing or damaged."""
    if path is None:
        return ()
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(path.read_bytes(), type=tuple[SavedSearch, ...])
    return ()


def _write_searches(path: Path, searches: tuple[SavedSearch, ...]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Temporary files have mode 0600.
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(msgspec.json.encode(searches))
    os.replace(file.name, path)  # noqa: PTH105 (atomic, as os.replace says)


def change_searches(context: RequestContext) -> Response:
    """Save or remove a search, then return to it."""
    path = context.app_state.searches_file
    if path is None:
        raise NotInArchive("page", "searches")
    form = context.form(max_fields=10)
    query = form.get("q", [""])[0].strip()[:_MAX_LENGTH]
    action = form.get("action", [""])[0]
    if not query or action not in {"save", "remove"}:
        raise BadRequest("action must be save or remove, and q a query")
    context.parse_query(query)
    with _LOCK:
        others = tuple(one for one in load_searches(path) if one.query != query)
        added = (SavedSearch(query),) if action == "save" else ()
        _write_searches(path, (*added, *others)[:_MAX_SEARCHES])
    return RedirectResponse(build_url("search", q=query), 303)
