"""``recollect serve``: the page in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

import click

from recollect.cli.options import Asked, archive_options, homes_of
from recollect.errors import ExitCode, NothingFound, PathMissing
from recollect.settings import prices_file

__all__ = ["serve"]

_NETWORK = """\
Everybody who can reach {host} and has a link can read every conversation here,
and what passes between you is not encrypted. Press Ctrl-C to stop.
"""


@click.command("serve")
@click.option("--port", type=click.IntRange(0, 65535), help="Else one that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--allow-network",
    is_flag=True,
    help="Let other machines in; needed for a --host that is not this one alone.",
)
@click.option("--no-browser", is_flag=True, help="Print the link; open nothing.")
@archive_options
def serve(
    *, port: int | None, host: str, allow_network: bool, no_browser: bool, asked: Asked
) -> None:
    r"""Show the archive in a browser: read, find and watch.

    Only this machine can reach the page, and only with the link that is printed. A
    link works once; when it was used, the next one is printed. Sessions that are
    being written show up as they grow.

    \b
    recollect serve
    recollect serve --port 8765 --no-browser
    """
    from recollect.prices import load_prices  # noqa: PLC0415 (not for a help page)
    from recollect.web.gate import is_loopback  # noqa: PLC0415
    from recollect.web.server import Place, Serving  # noqa: PLC0415

    if not is_loopback(host):
        if not allow_network:
            raise click.UsageError(
                f"{host} can be reached from other machines; --allow-network lets them"
            )
        sys.stderr.write(_NETWORK.format(host=host))
    with asked.current() as archive:
        folder = archive.folder
    place = Place(
        folder=folder,
        homes=_watched(asked),
        host=host,
        port=port or 0,
        prices=load_prices(prices_file(os.environ, Path.home())),
    )
    try:
        Serving(place, _Teller(opens=not no_browser).tell).run()
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def _watched(asked: Asked) -> tuple[Path, ...]:
    if asked.is_fixed:
        return ()
    try:
        return homes_of(asked.homes)
    except (NothingFound, PathMissing):
        return ()


class _Teller:
    """Says where the page is, and opens it the first time."""

    def __init__(self, *, opens: bool) -> None:
        self._opens = opens
        self._is_first = True

    def tell(self, link: str) -> None:
        """Print a link."""
        if self._is_first:
            sys.stderr.write("the page is there until Ctrl-C; this link opens it:\n")
        sys.stdout.write(f"{link}\n")
        sys.stdout.flush()
        if self._is_first and self._opens and _has_screen():
            webbrowser.open(link)
        self._is_first = False


def _has_screen() -> bool:
    if sys.platform in {"win32", "darwin"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
