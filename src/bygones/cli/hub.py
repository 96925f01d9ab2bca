"""``bygones hub``: one archive for many people."""

from __future__ import annotations

import click

from bygones.cli.hub_erase import erase
from bygones.cli.hub_hold import hold
from bygones.cli.hub_serve import serve
from bygones.cli.hub_token import token

__all__ = ["hub"]


@click.group("hub")
def hub() -> None:
    r"""Run a hub: take what machines push, serve each person what they may see.

    A hub stands on an engine, PostgreSQL or ClickHouse, and on a raw store, a folder or
    a bucket. Both are told by --store and --raw, or by BYGONES_HUB_STORE and
    BYGONES_HUB_RAW.

    \b
    bygones hub token new ann --team core
    bygones hub serve --store postgres:///a --raw /srv/a
    """


for _command in (serve, token, erase, hold):
    hub.add_command(_command)
