"""``bygones serve``: the page in a browser."""

from __future__ import annotations

import sys

import click

from bygones.cli.options import Asked, archive_options
from bygones.cli.serving import serve_page

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
    bygones serve
    bygones serve --port 8765 --no-browser
    """
    from bygones.web.gate import is_loopback  # noqa: PLC0415 (not for a help page)

    if not is_loopback(host):
        if not allow_network:
            raise click.UsageError(
                f"{host} can be reached from other machines; --allow-network lets them"
            )
        sys.stderr.write(_NETWORK.format(host=host))
    with asked.current() as archive:
        folder = archive.folder
    serve_page(folder, asked, host=host, port=port or 0, opens=not no_browser)
