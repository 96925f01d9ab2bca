"""``bygones mcp``: the archive for agents, over the Model Context Protocol."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from bygones.cli.background import take_in_later
from bygones.cli.options import Asked, archive_option, as_is_option, home_option
from bygones.cli.recalling import recall_for
from bygones.mcp.protocol import Speaker
from bygones.mcp.stdio import serve_stdio

__all__ = ["mcp"]

TOKEN_VARIABLE = "BYGONES_MCP_TOKEN"  # noqa: S105 (its name)
_PAUSE = 60.0
"""Seconds between two looks at whether something is new."""


@click.command("mcp")
@click.option("--http", is_flag=True, help="Serve over HTTP, on this machine only.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8766,
    show_default=True,
    help="Where to serve, with --http.",
)
@archive_option
@home_option
@as_is_option
def mcp(
    *,
    http: bool,
    port: int,
    archive: Path | None,
    homes: tuple[Path, ...],
    as_is: bool,
) -> None:
    r"""Serve the archive to agents, over the Model Context Protocol.

    Speaks on standard input and output, as Claude Code starts it. Agents can search,
    outline and read earlier sessions; no tool can change anything. With --http, whoever
    knows the token may ask: that of BYGONES_MCP_TOKEN, else one that is made up and
    shown. What is new is taken in now and then, in the background.

    \b
    bygones mcp
    bygones mcp --http --port 8766
    """
    asked = Asked(archive=archive, homes=homes, as_is=as_is)
    speaker = Speaker(recall_for(asked))
    rest = _keeping_current(asked)
    if http:
        _serve_http(speaker, port, rest)
    else:
        serve_stdio(speaker, sys.stdin.buffer, sys.stdout.buffer, rest)


def _keeping_current(asked: Asked) -> Callable[[], None]:
    """Return what to do behind an answer: now and then, have what is new taken in."""
    last = float("-inf")

    def rest() -> None:
        nonlocal last
        if time.monotonic() - last >= _PAUSE:
            last = time.monotonic()
            take_in_later(asked.archive, asked.homes)

    return (lambda: None) if asked.is_fixed else rest


def _serve_http(speaker: Speaker, port: int, rest: Callable[[], None]) -> None:
    import secrets  # noqa: PLC0415 (with it what only this way needs)

    from bygones.mcp.http import HOST, PATH, listening, serve_http  # noqa: PLC0415

    place = listening(port)

    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        token = secrets.token_urlsafe(32)
        sys.stderr.write(f"the token of this server: {token}\n")
    sys.stderr.write(f"serving http://{HOST}:{port}{PATH} until interrupted\n")
    serve_http(speaker, token, place, rest)
