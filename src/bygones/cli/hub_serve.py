"""``bygones hub serve``: take parcels in, serve pages, API and MCP."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path

import click

from bygones.cli.hub_options import hub_options, opened_hub
from bygones.errors import ExitCode
from bygones.settings import prices_file

__all__ = ["serve"]


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="A name people use for it, such as hub.example.com; repeatable.",
)
@hub_options
def serve(
    *, host: str, port: int, names: tuple[str, ...], store: str, raw: str
) -> None:
    """Serve until Ctrl-C: parcels, the page, the API and MCP, each to its person.

    It keeps nothing itself: any number of hubs may stand on the same engine and raw
    store. Let something that speaks TLS stand before it.
    """
    from bygones.hub.place import scratch  # noqa: PLC0415
    from bygones.hub.serving import HubPlace, HubServing  # noqa: PLC0415
    from bygones.prices import load_prices  # noqa: PLC0415
    from bygones.team.deriving import Withheld, derive_waiting  # noqa: PLC0415
    from bygones.team.opening import open_store  # noqa: PLC0415

    place = HubPlace(
        host=host,
        port=port,
        names=names,
        prices=load_prices(prices_file(os.environ, Path.home())),
    )
    withheld = Withheld()
    with (
        scratch(),
        opened_hub(store, raw) as (engine, objects),
        closing(open_store(store)) as notes,
        closing(open_store(store)) as rows,
    ):
        serving = HubServing(
            engine,
            objects,
            place,
            opening=lambda scope: engine.shelf(scope, objects),
            derive=lambda: derive_waiting(rows, objects, withheld) > 0,
            notes=notes,
            withheld=withheld.told,
            say=lambda sentence: click.echo(sentence, err=True),
        )
        sys.stderr.write(f"the hub listens at {serving.address}; Ctrl-C ends it\n")
        try:
            serving.run()
        except KeyboardInterrupt:
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
