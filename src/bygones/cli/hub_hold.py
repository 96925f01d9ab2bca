"""``bygones hub hold``: what may not be erased."""

from __future__ import annotations

import click

from bygones.cli.hub_options import hub_options, opened_hub
from bygones.cli.hub_which import selector_of, told, which_options
from bygones.cli.terminal import plain

__all__ = ["hold"]


@click.command("hold")
@which_options
@click.option("--reason", default="", help="Why it may not be erased.")
@click.option("--release", is_flag=True, help="Take the hold back.")
@hub_options
def hold(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    person: str | None,
    session: str | None,
    project: str | None,
    reason: str,
    release: bool,
    store: str,
    raw: str,
) -> None:
    """Keep what fits everything that is named from being erased; else list holds."""
    with opened_hub(store, raw) as (engine, _):
        if not any((person, session, project)):
            for held, why in engine.holds():
                click.echo(f"{told(held)}: {plain(why)}")
            return
        selector = selector_of(person, session, project)
        if release:
            engine.release(selector)
        else:
            engine.hold(selector, reason=reason)
    click.echo(f"{'released' if release else 'held'}: {told(selector)}")
