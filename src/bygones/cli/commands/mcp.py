"""`bygones mcp`: serve the archive to agents, redacted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.commands.hook import ingest_in_background
from bygones.cli.context import (
    CommonOptions,
    archive_option,
    cwd,
    home_option,
    no_ingest_option,
)
from bygones.config import load_redactor
from bygones.errors import BygonesError
from bygones.mcp.server import McpDispatcher, serve_stdio
from bygones.mcp.tool_service import Caller, ToolService
from bygones.render.text.primitives import sanitize_name

if TYPE_CHECKING:
    from bygones.archive import Archive


def create_recall(options: CommonOptions) -> ToolService:
    """Return the tool service; with invalid settings, one that only reports the error.

    Without the settings it is unknown what to redact, and a client does not show why a
    server exited.
    """
    try:
        redactor = load_redactor(os.environ, Path.home())
        return ToolService(options.folder, _create_caller(), redactor=redactor)
    except BygonesError as error:
        settings_error = error

    def fail() -> Archive:
        raise settings_error.with_traceback(None)

    sys.stderr.write(f"{sanitize_name(f'error: {settings_error}')}\n")
    return ToolService(Path(), _create_caller(), fail)


def _create_caller() -> Caller:
    return Caller(
        directory=Path(os.environ.get("CLAUDE_PROJECT_DIR") or cwd() or os.sep),
        session=os.environ.get("CLAUDE_CODE_SESSION_ID") or None,
        clock=lambda: datetime.now(tz=UTC),  # noqa: TID251 (an interface reads the clock)
        zone=datetime.now(tz=UTC).astimezone().tzinfo or UTC,  # noqa: TID251 (an interface reads the clock)
    )


TOKEN_VARIABLE = "BYGONES_MCP_TOKEN"  # noqa: S105 (its name)
_INGEST_INTERVAL = 60.0
"""Seconds between two background imports."""


@click.command("mcp")
@click.option(
    "--http", is_flag=True, help="Serve over HTTP instead, only on this machine."
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8766,
    help="Port to listen on, with --http.",
)
@archive_option
@home_option
@no_ingest_option
def mcp(
    *,
    http: bool,
    port: int,
    archive: Path | None,
    homes: tuple[Path, ...],
    no_ingest: bool,
) -> None:
    r"""Serve the archive to agents over MCP.

    \b
    bygones mcp
    bygones mcp --http --port 8766

    Communicates over standard input and output, as Claude Code expects. Agents can
    search, outline and read sessions, but not change them. New transcripts are imported
    in the background.

    With --http, clients authenticate with the token in BYGONES_MCP_TOKEN (default: a
    random token, which is printed).
    """
    options = CommonOptions(archive=archive, homes=homes, no_ingest=no_ingest)
    dispatcher = McpDispatcher(create_recall(options))
    on_idle = _background_ingester(options)
    if http:
        _serve_http(dispatcher, port, on_idle)
    else:
        serve_stdio(dispatcher, sys.stdin.buffer, sys.stdout.buffer, on_idle)


def _background_ingester(options: CommonOptions) -> Callable[[], None]:
    """Return a function that starts an import if the last one is old enough."""
    last = float("-inf")

    def ingest_if_due() -> None:
        nonlocal last
        if time.monotonic() - last >= _INGEST_INTERVAL:
            last = time.monotonic()
            ingest_in_background(options.archive, options.homes)

    return (lambda: None) if options.is_ingest_disabled else ingest_if_due


def _serve_http(
    dispatcher: McpDispatcher, port: int, on_idle: Callable[[], None]
) -> None:
    import secrets

    from bygones.mcp.http import HOST, PATH, serve_http
    from bygones.runtime import bind_socket

    listener = bind_socket(HOST, port)

    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        token = secrets.token_urlsafe(32)
        sys.stderr.write(f"token: {token}\n")
    sys.stderr.write(f"serving http://{HOST}:{port}{PATH}; press Ctrl-C to stop\n")
    serve_http(dispatcher, token, listener, on_idle)
