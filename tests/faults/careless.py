"""Bugs of the web pages and the hub that the harnesses must catch: each trusts its input.

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
from tests.faults.mutations import Patch

__all__ = [
    "accept_any_key",
    "delay_writes",
    "redirect_anywhere",
    "serve_any_file",
    "serve_images_by_path",
    "trust_object_names",
]


def serve_images_by_path(patch: Patch) -> None:
    """Look for an image among the archive's files first, and then in messages."""

    def image(context: RequestContext) -> Response:
        path = (context.pool.folder or Path()) / unquote(context.path_param("name"))
        is_file = "\0" not in str(path) and path.is_file()
        return (
            Response(path.read_bytes()) if is_file else session.message_image(context)
        )

    _reroute(patch, "/session/{id}/picture/{name}", image)


def serve_any_file(patch: Patch) -> None:
    """Serve any file whose path is requested."""

    def files(context: RequestContext) -> Response:
        path = Path(context.query_param("path"))
        is_file = "\0" not in str(path) and path.is_file()
        return Response(path.read_bytes()) if is_file else api.list_files(context)

    _reroute(patch, "/api/files", files)


def accept_any_key(patch: Patch) -> None:
    """Accept any login key."""
    patch(LoginKeys, "redeem", lambda _, key: bool(key))


def redirect_anywhere(patch: Patch) -> None:
    """Redirect to any URL."""
    patch(security, "safe_redirect_path", str)


def _reroute(
    patch: Patch, path: str, answer: Callable[[RequestContext], Response]
) -> None:
    rows = (
        row._replace(handler=answer) if row.path == path else row for row in app.ROUTES
    )
    patch(app, "ROUTES", tuple(rows))


def trust_object_names(patch: Patch) -> None:
    """Store uploads to a hub under the names that the client sent."""
    patch(ExternalBlobStore, "source_prefix", staticmethod("{}/{}/".format))
    patch(blobs, "_object_name", lambda address: address)


def delay_writes(patch: Patch) -> None:
    """Acknowledge an upload to a hub, and write it with the next one."""
    delayed: list[tuple[str, bytes]] = []
    original = FolderBackend.write

    def write(self: FolderBackend, name: str, raw: bytes) -> None:
        delayed.append((name, raw))
        if len(delayed) > 1:
            original(self, *delayed.pop(0))

    patch(FolderBackend, "write", write)
