"""``bygones hub token``: who may push and read."""

from __future__ import annotations

import sys

import click

from bygones.cli.hub_options import hub_options, now, opened_hub
from bygones.cli.options import json_option
from bygones.cli.rows import print_row
from bygones.cli.terminal import plain, table
from bygones.rows.team import TokenRow
from bygones.team.contract import Role
from bygones.team.tokens import Token, Tokens

__all__ = ["token"]


@click.group("token")
def token() -> None:
    """Make, list and revoke tokens: a token says who somebody is."""


@token.command("new")
@click.argument("person")
@click.option("--team", "teams", multiple=True, help="A team of theirs; repeatable.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.TEAM.value,
    show_default=True,
    help="See one's own, one's teams', or everybody's sessions.",
)
@click.option("--label", default="", help="What it is for, such as a machine.")
@hub_options
def new(  # noqa: PLR0913 (one parameter an option, all by name)
    *, person: str, teams: tuple[str, ...], role: str, label: str, store: str, raw: str
) -> None:
    """Print a new token for a person; it is shown once, and only its hash is kept.

    What a person pushes is theirs, and is seen by their teams as the token names them.
    """
    with opened_hub(store, raw) as (engine, _):
        secret, made = Tokens(engine).issue(
            person, teams=teams, role=Role(role), label=label, now=now()
        )
    click.echo(secret)
    sys.stderr.write(f"{made.id} is for {made.person}; it cannot be shown again\n")


@token.command("list")
@hub_options
@json_option
def list_(*, store: str, raw: str, as_json: bool) -> None:
    """List tokens: whose each is, and whether it was revoked."""
    with opened_hub(store, raw) as (engine, _):
        tokens = list(Tokens(engine).all())
    if as_json:
        for one in tokens:
            print_row(TokenRow.of(one))
        return
    for line in table([_HEADS, *map(_cells, tokens)]) if tokens else ["no tokens yet"]:
        click.echo(line)


_HEADS = ("TOKEN", "PERSON", "TEAMS", "ROLE", "MADE", "REVOKED", "LABEL")


def _cells(one: Token) -> tuple[str, ...]:
    revoked = f"{one.revoked:%Y-%m-%d}" if one.revoked else ""
    teams = " ".join(one.teams)
    made = f"{one.made:%Y-%m-%d}"
    return one.id, one.person, teams, one.role, made, revoked, plain(one.label)


@token.command("revoke")
@click.argument("name", metavar="TOKEN|PERSON")
@hub_options
def revoke(*, name: str, store: str, raw: str) -> None:
    """Revoke a token by its beginning, or all tokens of a person.

    Every hub stops believing it within five seconds.
    """
    with opened_hub(store, raw) as (engine, _):
        revoked = Tokens(engine).revoke(name, now())
    if not revoked:
        told = f"no token {plain(name)!r} is left to be revoked; `token list` shows all"
        raise click.UsageError(told)
    for one in revoked:
        click.echo(f"{one.id} of {one.person} is revoked")
