"""`bygones hub`: run a hub, give out tokens, hold and erase."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct

from bygones.cli.commands.purge import confirm_erasure
from bygones.cli.context import json_option, parse_time_option
from bygones.cli.output import TextColumn, TextTable, print_objects
from bygones.config import find_prices_file
from bygones.errors import ErasureOnHold, ExitCode
from bygones.model.base import SessionId
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import ErasureObject, TokenObject
from bygones.team.access import AccessToken, TokenStore
from bygones.team.contract import AccessRole, ErasureReceipt, ErasureSelector

if TYPE_CHECKING:
    from bygones.team.blobs import ExternalBlobStore
    from bygones.team.stores.base import TeamStore


class StoredReceipt(
    Struct,
    frozen=True,
    kw_only=True,
    tag_field="row",
    tag="erased",
    omit_defaults=True,
):
    """The receipt of an erasure as the hub stores it; its fields never change."""

    erased: datetime
    person: str | None = None
    session: SessionId | None = None
    project: str | None = None
    before: datetime | None = None
    sessions: tuple[SessionId, ...]
    files: int
    rows: int
    objects: int
    held: tuple[SessionId, ...]

    @classmethod
    def from_receipt(cls, receipt: ErasureReceipt, now: datetime) -> StoredReceipt:
        selector = receipt.selector
        return cls(
            erased=now,
            person=selector.person,
            session=selector.session,
            project=selector.project,
            before=selector.before,
            sessions=receipt.sessions,
            files=receipt.sources,
            rows=receipt.rows,
            objects=len(receipt.blob_addresses),
            held=receipt.held_sessions,
        )


def _token_object(token: AccessToken) -> TokenObject:
    return TokenObject(
        token_id=token.id,
        person=token.person,
        teams=token.teams,
        role=token.role,
        label=token.label,
        created_at=token.created_at,
        revoked_at=token.revoked_at,
    )


def _erasure_object(receipt: ErasureReceipt, now: datetime) -> ErasureObject:
    selector = receipt.selector
    return ErasureObject(
        erased_at=now,
        person=selector.person,
        session_id=selector.session,
        project=selector.project,
        before_at=selector.before,
        session_ids=receipt.sessions,
        file_count=receipt.sources,
        row_count=receipt.rows,
        blob_count=len(receipt.blob_addresses),
        held_session_ids=receipt.held_sessions,
    )


STORE_VARIABLE = "BYGONES_HUB_STORE"
RAW_VARIABLE = "BYGONES_HUB_RAW"


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where the hub keeps what it has."""
    store = click.option(
        "--store",
        envvar=STORE_VARIABLE,
        required=True,
        metavar="ADDRESS",
        help="The engine: postgresql://… or clickhouse://….",
    )
    raw = click.option(
        "--raw",
        envvar=RAW_VARIABLE,
        required=True,
        metavar="FOLDER|URL",
        help="The raw store: a folder, or s3://bucket/folder.",
    )
    return store(raw(command))


@contextmanager
def open_hub(store: str, raw: str) -> Iterator[tuple[TeamStore, ExternalBlobStore]]:
    """Open what a hub stands on."""
    from bygones.team.admin import open_hub_stores

    with open_hub_stores(store, raw) as place:
        yield place


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)


def selector_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which sessions are meant."""
    for name, meaning in (
        ("--project", "A directory as the hub shows it, such as ~/work/shop."),
        ("--session", "One session, by its whole id."),
        ("--person", "What this person sent."),
    ):
        command = click.option(name, help=meaning)(command)
    return command


def build_selector(
    person: str | None,
    session: str | None,
    project: str | None,
    before: str | None = None,
) -> ErasureSelector:
    """Return what is meant; something has to be."""
    if not any((person, session, project, before)):
        raise click.UsageError("name a --person, --session or --project, or --before")
    return ErasureSelector(
        person=person,
        session=SessionId(session) if session else None,
        project=_abbreviate_home(project) if project else None,
        before=parse_time_option("--before", before, now=utc_now()).end
        if before
        else None,
    )


def _abbreviate_home(project: str) -> str:
    """Return a directory as a hub knows it, which hides homes behind a tilde.

    Shells put the home of whoever types into the place of a tilde.
    """
    home = str(Path.home())
    is_ours = project == home or project.startswith(f"{home}{os.sep}")
    return f"~{project[len(home) :]}" if is_ours else project


def describe_selector(selector: ErasureSelector) -> str:
    """Return in words what is meant."""
    facts = msgspec.to_builtins(selector)
    return ", ".join(
        f"{name} {sanitize_name(str(v))}" for name, v in facts.items() if v
    )


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
    from bygones.hub.server import HubConfig, HubServer
    from bygones.team.access import open_store
    from bygones.team.worker import FailedFamilies, derive_pending
    from bygones.usage.prices import load_prices

    place = HubConfig(
        host=host,
        port=port,
        hostnames=names,
        prices=load_prices(find_prices_file(os.environ, Path.home())),
    )
    withheld = FailedFamilies()
    with (
        open_hub(store, raw) as (engine, objects),
        closing(open_store(store)) as notes,
        closing(open_store(store)) as rows,
    ):
        serving = HubServer(
            engine,
            objects,
            place,
            open_reader=lambda scope: engine.open_reader(scope, objects),
            derive=lambda: derive_pending(rows, objects, withheld) > 0,
            notes=notes,
            describe_failures=withheld.describe,
            on_warning=lambda sentence: click.echo(sentence, err=True),
        )
        sys.stderr.write(f"the hub listens at {serving.address}; Ctrl-C ends it\n")
        try:
            serving.run()
        except KeyboardInterrupt:
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


@click.group("token")
def token() -> None:
    """Make, list and revoke tokens: a token says who somebody is."""


@token.command("new")
@click.argument("person")
@click.option("--team", "teams", multiple=True, help="A team of theirs; repeatable.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in AccessRole]),
    default=AccessRole.TEAM.value,
    show_default=True,
    help="See one's own, one's teams', or everybody's sessions.",
)
@click.option("--label", default="", help="What it is for, such as a machine.")
@hub_options
def new_token(  # noqa: PLR0913 (one parameter per option)
    *, person: str, teams: tuple[str, ...], role: str, label: str, store: str, raw: str
) -> None:
    """Print a new token for a person; it is shown once, and only its hash is kept.

    What a person pushes is theirs, and is seen by their teams as the token names them.
    """
    with open_hub(store, raw) as (engine, _):
        secret, made = TokenStore(engine).issue(
            person, teams=teams, role=AccessRole(role), label=label, now=utc_now()
        )
    click.echo(secret)
    sys.stderr.write(f"{made.id} is for {made.person}; it cannot be shown again\n")


@token.command("list")
@hub_options
@json_option
def list_tokens(*, store: str, raw: str, as_json: bool) -> None:
    """List tokens: whose each is, and whether it was revoked."""
    with open_hub(store, raw) as (engine, _):
        tokens = list(TokenStore(engine).list_tokens())
    if as_json:
        print_objects(map(_token_object, tokens))
        return
    if not tokens:
        click.echo("no tokens yet")
        return
    for line in TextTable(_TOKEN_COLUMNS, map(_token_cells, tokens)).lines():
        click.echo(line)


_TOKEN_COLUMNS = tuple(
    TextColumn(name)
    for name in ("TOKEN", "PERSON", "TEAMS", "ROLE", "MADE", "REVOKED", "LABEL")
)


def _token_cells(token: AccessToken) -> tuple[str, ...]:
    revoked = f"{token.revoked_at:%Y-%m-%d}" if token.revoked_at else ""
    teams = " ".join(token.teams)
    made = f"{token.created_at:%Y-%m-%d}"
    return (
        token.id,
        token.person,
        teams,
        token.role,
        made,
        revoked,
        sanitize_name(token.label),
    )


@token.command("revoke")
@click.argument("name", metavar="TOKEN|PERSON")
@hub_options
def revoke_tokens(*, name: str, store: str, raw: str) -> None:
    """Revoke a token by its beginning, or all tokens of a person.

    Every hub stops believing it within five seconds.
    """
    with open_hub(store, raw) as (engine, _):
        revoked = TokenStore(engine).revoke(name, utc_now())
    if not revoked:
        told = f"no token {sanitize_name(name)!r} is left to be revoked; `token list` shows all"
        raise click.UsageError(told)
    for one in revoked:
        click.echo(f"{one.id} of {one.person} is revoked")


@click.command("erase")
@selector_options
@click.option("--before", metavar="TIME", help="Sessions that ended before, as 400d.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing.")
@hub_options
@json_option
def erase(  # noqa: PLR0913 (one parameter per option)
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
    from bygones.team.admin import erase as carry_out

    selector = build_selector(person, session, project, before)
    moment = utc_now()
    with open_hub(store, raw) as (engine, objects):
        if not as_json:
            count = pluralize(len(engine.matching_sessions(selector)), "session")
            named = describe_selector(selector)
            click.echo(f"what fits {named} will be erased from the hub: {count}")
        confirm_erasure(yes=yes)
        receipt = carry_out(engine, objects, selector, now=moment)
        _save_receipt(engine, receipt, moment)
    if as_json:
        print_objects([_erasure_object(receipt, moment)])
    if receipt.held_sessions and not receipt.sources:
        raise ErasureOnHold(len(receipt.held_sessions))
    if not as_json:
        _print_receipt(receipt)


def _print_receipt(receipt: ErasureReceipt) -> None:
    click.echo(
        f"erased {pluralize(len(receipt.sessions), 'session')}, "
        f"{pluralize(receipt.sources, 'file')}, "
        f"{pluralize(len(receipt.blob_addresses), 'object')} of the raw store"
    )
    if not receipt.sessions and not receipt.held_sessions:
        click.echo("nothing fits: sessions go by whole ids, persons by names", err=True)
    if receipt.held_sessions:
        click.echo(
            f"held, and still there: {pluralize(len(receipt.held_sessions), 'session')}"
        )


def _save_receipt(engine: TeamStore, receipt: ErasureReceipt, moment: datetime) -> None:
    """Have the hub remember what was erased, without a word of it."""
    row = msgspec.json.encode(StoredReceipt.from_receipt(receipt, moment))
    engine.set_note("receipt", moment.isoformat(), row)


@click.command("hold")
@selector_options
@click.option("--reason", default="", help="Why it may not be erased.")
@click.option("--release", is_flag=True, help="Take the hold back.")
@hub_options
def hold(  # noqa: PLR0913 (one parameter per option)
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
    with open_hub(store, raw) as (engine, _):
        if not any((person, session, project)):
            for held, why in engine.holds():
                click.echo(f"{describe_selector(held)}: {sanitize_name(why)}")
            return
        selector = build_selector(person, session, project)
        if release:
            engine.release(selector)
        else:
            engine.hold(selector, reason=reason)
    click.echo(f"{'released' if release else 'held'}: {describe_selector(selector)}")


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
