"""``bygones hub erase``: forget on purpose, to the last byte."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec

from bygones.cli.hub_options import hub_options, now, opened_hub
from bygones.cli.hub_which import selector_of, told, which_options
from bygones.cli.options import json_option
from bygones.cli.purge_words import confirm
from bygones.cli.rows import print_row
from bygones.errors import ErasureHeld
from bygones.render.figures import several
from bygones.rows.team import ErasedRow

if TYPE_CHECKING:
    from bygones.team.contract import Receipt, TeamStore

__all__ = ["erase"]


@click.command("erase")
@which_options
@click.option("--before", metavar="TIME", help="Sessions that ended before, as 400d.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing.")
@hub_options
@json_option
def erase(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    person: str | None,
    session: str | None,
    project: str | None,
    before: str | None,
    yes: bool,
    store: str,
    raw: str,
    as_json: bool,
) -> None:
    """Erase what fits everything that is named: rows, words and raw bytes.

    It is refused from then on, whoever pushes it again; a receipt says what went. What
    is held stays; if that is all that fits, it ends with code 1. A person who is erased
    whole has no token any more. With --before alone and a timer, this is how long a hub
    keeps.
    """
    from bygones.hub.erasing import erase as carry_out  # noqa: PLC0415 (not for help)

    selector = selector_of(person, session, project, before)
    moment = now()
    with opened_hub(store, raw) as (engine, objects):
        if not as_json:
            count = several(len(engine.fitting(selector)), "session")
            click.echo(
                f"what fits {told(selector)} will be erased from the hub: {count}"
            )
        confirm(yes=yes)
        receipt = carry_out(engine, objects, selector, now=moment)
        _keep(engine, receipt, moment)
    if as_json:
        print_row(ErasedRow.of(receipt, moment))
    if receipt.held and not receipt.sources:
        raise ErasureHeld(len(receipt.held))
    if not as_json:
        _tell(receipt)


def _tell(receipt: Receipt) -> None:
    click.echo(
        f"erased {several(len(receipt.sessions), 'session')}, "
        f"{several(receipt.sources, 'file')}, "
        f"{several(len(receipt.addresses), 'object')} of the raw store"
    )
    if not receipt.sessions and not receipt.held:
        click.echo("nothing fits: sessions go by whole ids, persons by names", err=True)
    if receipt.held:
        click.echo(f"held, and still there: {several(len(receipt.held), 'session')}")


def _keep(engine: TeamStore, receipt: Receipt, moment: datetime) -> None:
    """Have the hub remember what was erased, without a word of it."""
    row = msgspec.json.encode(ErasedRow.of(receipt, moment))
    engine.set_note("receipt", moment.isoformat(), row)
