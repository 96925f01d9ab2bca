"""Faults of web pages and hub that the harnesses must catch: each trusts its input.

They are applied like those in :mod:`tests.faults.mutations`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from starlette.responses import Response

from bygones.team import blobs
from bygones.team.blobs import ExternalBlobStore, FolderBackend
from bygones.web import api, app, security
from bygones.web.context import RequestContext
from bygones.web.pages import session
from bygones.web.security import LoginKeys
from tests.faults.mutations import Set

__all__ = [
    "any_key",
    "files_by_path",
    "held_back",
    "leading_anywhere",
    "objects_by_name",
    "pictures_by_name",
]


def pictures_by_name(put: Set) -> None:
    """Look for a picture among the archive's files before those of messages."""

    def picture(visit: RequestContext) -> Response:
        path = (visit.pool.folder or Path()) / unquote(visit.path_param("name"))
        is_file = "\0" not in str(path) and path.is_file()
        return Response(path.read_bytes()) if is_file else session.message_image(visit)

    _reroute(put, "/session/{id}/picture/{name}", picture)


def files_by_path(put: Set) -> None:
    """Show any file that is named, if it exists."""

    def files(visit: RequestContext) -> Response:
        path = Path(visit.query_param("path"))
        is_file = "\0" not in str(path) and path.is_file()
        return Response(path.read_bytes()) if is_file else api.list_files(visit)

    _reroute(put, "/api/files", files)


def any_key(put: Set) -> None:
    """Accept any key."""
    put(LoginKeys, "redeem", lambda _, given: bool(given))


def leading_anywhere(put: Set) -> None:
    """Redirect to wherever a link says."""
    put(security, "safe_redirect_path", str)


def _reroute(put: Set, path: str, answer: Callable[[RequestContext], Response]) -> None:
    rows = (
        row._replace(handler=answer) if row.path == path else row for row in app.ROUTES
    )
    put(app, "ROUTES", tuple(rows))


def objects_by_name(put: Set) -> None:
    """Keep what is sent to a hub under the names that it comes with."""
    put(ExternalBlobStore, "source_prefix", staticmethod("{}/{}/".format))
    put(blobs, "_object_name", lambda address: address)


def held_back(put: Set) -> None:
    """Acknowledge what is sent to a hub, and write it when more has come."""
    waiting: list[tuple[str, bytes]] = []
    plainly = FolderBackend.write

    def write(self: FolderBackend, name: str, raw: bytes) -> None:
        waiting.append((name, raw))
        if len(waiting) > 1:
            plainly(self, *waiting.pop(0))

    put(FolderBackend, "write", write)
