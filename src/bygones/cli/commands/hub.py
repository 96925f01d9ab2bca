"""`bygones hub`: run a hub, manage tokens, hold and erase sessions."""

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
    """Add the options for the database and the raw store of a hub."""
    store = click.option(
        "--store",
        envvar=STORE_VARIABLE,
        required=True,
        metavar="ADDRESS",
        help="Database: postgresql://… or clickhouse://….",
    )
    raw = click.option(
        "--raw",
        envvar=RAW_VARIABLE,
        required=True,
        metavar="FOLDER|URL",
        help="Raw store: a folder, or s3://bucket/folder.",
    )
    return store(raw(command))


@contextmanager
def open_hub(store: str, raw: str) -> Iterator[tuple[TeamStore, ExternalBlobStore]]:
    from bygones.team.access import open_hub_stores

    with open_hub_stores(store, raw) as place:
        yield place


def utc_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)


def selector_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select sessions."""
    for name, meaning in (
        ("--project", "Directory as the hub shows it, such as ~/work/shop."),
        ("--session", "One session, by its complete id."),
        ("--person", "Sessions that this person pushed."),
    ):
        command = click.option(name, help=meaning)(command)
    return command


def build_selector(
    person: str | None,
    session: str | None,
    project: str | None,
    before: str | None = None,
) -> ErasureSelector:
    if not any((person, session, project, before)):
        raise click.UsageError("use --person, --session, --project or --before")
    return ErasureSelector(
        person=person,
        session=SessionId(session) if session else None,
        project=_abbreviate_home(project) if project else None,
        before=parse_time_option("--before", before, now=utc_now()).end
        if before
        else None,
    )


def _abbreviate_home(project: str) -> str:
    """Return a directory with `~` for the home, as a hub stores it.

    Shells expand the tilde before the command sees it.
    """
    home = str(Path.home())
    is_ours = project == home or project.startswith(f"{home}{os.sep}")
    return f"~{project[len(home) :]}" if is_ours else project


def describe_selector(selector: ErasureSelector) -> str:
    facts = msgspec.to_builtins(selector)
    return ", ".join(
        f"{name} {sanitize_name(str(v))}" for name, v in facts.items() if v
    )


@click.command("serve")
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8787, help="Port to listen on."
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="Host name that browsers use, such as hub.example.com; repeatable.",
)
@click.option(
    "--max-file",
    type=click.IntRange(1),
    default=4096,
    show_default=True,
    metavar="MB",
    help="Maximum size of a file, uncompressed.",
)
@click.option(
    "--max-person",
    type=click.IntRange(1),
    default=1_048_576,
    show_default=True,
    metavar="MB",
    help="Maximum total size per person, uncompressed.",
)
@click.option(
    "--max-memory",
    type=click.IntRange(512),
    default=4096,
    show_default=True,
    metavar="MB",
    help="Memory for indexing; sessions that need more are skipped.",
)
@click.option(
    "--max-seconds",
    type=click.IntRange(1),
    default=600,
    show_default=True,
    help="Seconds for indexing; sessions that need longer are skipped.",
)
@hub_options
def serve(  # noqa: PLR0913 (one parameter per option)
    *,
    host: str,
    port: int,
    names: tuple[str, ...],
    max_file: int,
    max_person: int,
    max_memory: int,
    max_seconds: int,
    store: str,
    raw: str,
) -> None:
    r"""Serve uploads, the web interface, the API and MCP.

    \b
    bygones hub serve --store postgresql:///hub --raw /srv/hub

    Run it behind a proxy that adds TLS. Several hubs can share a database and raw store.
    """
    from bygones.hub.server import HubConfig, HubServer
    from bygones.hub.uploads import UploadLimits
    from bygones.team.access import open_store
    from bygones.team.derive_process import DeriveLimits, DeriveProcess
    from bygones.team.worker import FailedFamilies
    from bygones.usage.prices import load_prices

    place = HubConfig(
        host=host,
        port=port,
        hostnames=names,
        prices=load_prices(find_prices_file(os.environ, Path.home())),
        upload_limits=UploadLimits(
            source_bytes=max_file << 20, person_bytes=max_person << 20
        ),
    )
    withheld = FailedFamilies()
    limits = DeriveLimits(memory_bytes=max_memory << 20, seconds=max_seconds)
    with (
        open_hub(store, raw) as (engine, objects),
        closing(open_store(store)) as notes,
        closing(DeriveProcess(store, raw, withheld, limits)) as process,
    ):
        serving = HubServer(
            engine,
            objects,
            place,
            open_reader=lambda scope: engine.open_reader(scope, objects),
            derive=process.derive,
            notes=notes,
            describe_failures=withheld.describe,
            on_warning=lambda sentence: click.echo(sentence, err=True),
        )
        sys.stderr.write(
            f"serving the hub at {serving.address}; press Ctrl-C to stop\n"
        )
        try:
            serving.run()
        except KeyboardInterrupt:
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


@click.group("token")
def token() -> None:
    r"""Create, list and revoke tokens.

    \b
    bygones hub token new ann --team core
    bygones hub token list
    bygones hub token revoke ann
    """


@token.command("new")
@click.argument("person")
@click.option("--team", "teams", multiple=True, help="Team of the person; repeatable.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in AccessRole]),
    default=AccessRole.TEAM.value,
    metavar="ROLE",
    help="Sessions the person can see: own, team, or auditor (all).",
)
@click.option("--label", default="", help="What the token is for, such as a machine.")
@hub_options
def new_token(  # noqa: PLR0913 (one parameter per option)
    *, person: str, teams: tuple[str, ...], role: str, label: str, store: str, raw: str
) -> None:
    r"""Create a token for a person.

    \b
    bygones hub token new ann --team core --label laptop

    The token is printed once; only its hash is stored. Sessions that the person pushes
    are visible to the teams of the token.
    """
    with open_hub(store, raw) as (engine, _):
        secret, made = TokenStore(engine).issue(
            person, teams=teams, role=AccessRole(role), label=label, now=utc_now()
        )
    click.echo(secret)
    sys.stderr.write(f"token {made.id} for {made.person}; it is not shown again\n")


@token.command("list")
@hub_options
@json_option
def list_tokens(*, store: str, raw: str, as_json: bool) -> None:
    r"""List tokens with their owners, teams and roles.

    \b
    bygones hub token list
    bygones hub token list --json
    """
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
    for name in ("TOKEN", "PERSON", "TEAMS", "ROLE", "CREATED", "REVOKED", "LABEL")
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
    r"""Revoke a token, or all tokens of a person.

    \b
    bygones hub token revoke 3f9a1c2e
    bygones hub token revoke ann

    TOKEN is the id that `bygones hub token list` shows. Every hub rejects a revoked token
    within five seconds.
    """
    with open_hub(store, raw) as (engine, _):
        revoked = TokenStore(engine).revoke(name, utc_now())
    if not revoked:
        raise click.UsageError(
            f"no valid token matches {sanitize_name(name)!r};"
            " `bygones hub token list` lists all tokens"
        )
    for one in revoked:
        click.echo(f"revoked token {one.id} of {one.person}")


@click.command("erase")
@selector_options
@click.option(
    "--before",
    metavar="TIME",
    help="Sessions that ended before this time, such as 400d.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
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
    r"""Erase sessions from the hub permanently.

    \b
    bygones hub erase --person ann --before 400d

    Sessions that match all options are erased with their rows, index entries and raw
    bytes. They are rejected if they are pushed again, and a receipt lists what was erased.
    Erasing everything of a person also revokes their tokens. To limit how long a hub keeps
    sessions, run it from a timer with --before.

    Sessions on hold are not erased. The exit code is 1 if all matching sessions are on hold.
    """
    from bygones.team.access import erase as carry_out

    selector = build_selector(person, session, project, before)
    moment = utc_now()
    with open_hub(store, raw) as (engine, objects):
        if not as_json:
            count = pluralize(len(engine.matching_sessions(selector)), "session")
            named = describe_selector(selector)
            click.echo(f"{count} will be erased from the hub ({named})")
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
        click.echo(
            "no session matches; session ids must be complete",
            err=True,
        )
    if receipt.held_sessions:
        click.echo(
            f"not erased because of a hold: {pluralize(len(receipt.held_sessions), 'session')}"
        )


def _save_receipt(engine: TeamStore, receipt: ErasureReceipt, moment: datetime) -> None:
    """Store on the hub what was erased, without its content."""
    row = msgspec.json.encode(StoredReceipt.from_receipt(receipt, moment))
    engine.set_note("receipt", moment.isoformat(), row)


@click.command("hold")
@selector_options
@click.option("--reason", default="", help="Why they must not be erased.")
@click.option("--release", is_flag=True, help="Remove the protection.")
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
    r"""Protect sessions from erasure, or list what is protected.

    \b
    bygones hub hold --project ~/work/shop --reason audit

    Sessions that match all options are protected. Without options, all holds are listed.
    """
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
    r"""Run a hub: one archive for a team.

    \b
    export BYGONES_HUB_STORE=postgresql:///hub
    export BYGONES_HUB_RAW=/srv/hub
    bygones hub token new ann --team core
    bygones hub serve --name hub.example.com

    A hub stores the sessions that people push from their machines, and shows them to
    their teams. It needs a database (PostgreSQL or ClickHouse) and a raw store (a folder
    or an S3 bucket). Set them with --store and --raw, or with the environment variables
    BYGONES_HUB_STORE and BYGONES_HUB_RAW.
    """


for _command in (serve, token, erase, hold):
    hub.add_command(_command)
