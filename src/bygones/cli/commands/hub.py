"""`bygones hub`: run a hub, manage tokens, hold and erase sessions."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec
from msgspec import Struct

from bygones.cli.commands.hub_login import login, logout
from bygones.cli.commands.hub_options import (
    abbreviate_home,
    hub_options,
    open_hub,
    record_action,
    utc_now,
)
from bygones.cli.commands.hub_projects import project
from bygones.cli.commands.purge import confirm_erasure
from bygones.cli.context import json_option, parse_time_option
from bygones.cli.output import TextColumn, TextTable, print_objects
from bygones.config import find_prices_file
from bygones.credentials import check_private
from bygones.errors import ErasureOnHold, ExitCode, RawStoreIncomplete
from bygones.model.base import SessionId
from bygones.query.times import ReferenceTime, parse_period
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import AuditEventObject, ErasureObject, TokenObject
from bygones.team.access import (
    AccessToken,
    TokenStore,
    list_events,
)
from bygones.team.contract import AccessRole, ErasureReceipt, ErasureSelector

if TYPE_CHECKING:
    from bygones.hub.oidc import OidcConfig
    from bygones.hub.server import HubConfig
    from bygones.team.derive_process import DeriveLimits
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


def _token_object(token: AccessToken, used_at: datetime | None) -> TokenObject:
    return TokenObject(
        token_id=token.id,
        person=token.person,
        teams=token.teams,
        role=token.role,
        label=token.label,
        created_at=token.created_at,
        expires_at=token.expires_at,
        last_used_at=used_at,
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


def _parse_expiry(text: str, now: datetime) -> datetime:
    """Return when a token expires: a future date, or a duration from now."""
    period = parse_period("after", text, ReferenceTime(now, UTC))
    moment = period.start if period is not None and period.start else now
    if re.fullmatch(r"\d+\s*[a-z]+", text.strip(), re.IGNORECASE):
        moment = now + (now - moment)  # a duration; elsewhere it counts back from now
    if moment <= now:
        raise click.BadParameter(
            f"{text!r} is not a duration such as 90d, or a date in the future",
            param_hint="--expires",
        )
    return moment


@contextmanager
def _create_private_file(path: Path) -> Iterator[BinaryIO]:
    """Create a file that only this user can read; remove it if an error follows."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.BadParameter(
            f"{path} exists; name a new file", param_hint="--out"
        ) from None
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor)
            yield file
    except BaseException:
        path.unlink()
        raise


def selector_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select sessions."""
    for name, value, meaning in (
        ("--project", "PATH", "Directory as the hub shows it, such as ~/work/shop."),
        ("--session", "ID", "One session, by its complete id."),
        ("--person", "NAME", "Sessions that this person pushed."),
    ):
        command = click.option(name, metavar=value, help=meaning)(command)
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
        project=abbreviate_home(project) if project else None,
        before=parse_time_option("--before", before, now=utc_now()).end
        if before
        else None,
    )


def describe_selector(selector: ErasureSelector) -> str:
    facts = msgspec.to_builtins(selector)
    return ", ".join(
        f"{name} {sanitize_name(str(v))}" for name, v in facts.items() if v
    )


@click.command("serve")
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", help="Address to listen on."
)
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
    help="Memory for each of two indexing processes; sessions that need more are skipped.",
)
@click.option(
    "--max-seconds",
    type=click.IntRange(1),
    default=600,
    show_default=True,
    help="Seconds for indexing; sessions that need longer are skipped.",
)
@click.option(
    "--max-requests",
    type=click.IntRange(0),
    default=1200,
    show_default=True,
    help="Requests per person and minute, not counting uploads; 0 for no limit.",
)
@click.option(
    "--log",
    "log_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Log who read what, one JSON object per line.",
)
@click.option(
    "--oidc",
    "oidc_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="TOML file with the OpenID Connect provider for signing in.",
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
    max_requests: int,
    log_file: Path | None,
    oidc_file: Path | None,
    store: str,
    raw: str,
) -> None:
    r"""Serve uploads, the web interface, the API and MCP.

    \b
    bygones hub serve --store postgresql:///hub --raw /srv/hub

    Run it behind a proxy that adds TLS. Several hubs can share a database and raw store.
    Tables, roles and access rules are created or repaired first. If that fails, or if
    uploaded bytes are missing in the raw store, the hub does not start.
    """
    from bygones.hub.server import HubConfig
    from bygones.hub.uploads import UploadLimits
    from bygones.team.derive_process import DeriveLimits
    from bygones.usage.prices import load_prices

    config = HubConfig(
        host=host,
        port=port,
        hostnames=names,
        prices=load_prices(find_prices_file(os.environ, Path.home())),
        upload_limits=UploadLimits(
            source_bytes=max_file << 20, person_bytes=max_person << 20
        ),
        max_requests=max_requests,
        log_file=log_file,
        oidc=_read_oidc(oidc_file) if oidc_file else None,
    )
    limits = DeriveLimits(memory_bytes=max_memory << 20, seconds=max_seconds)
    _run_hub(config, store, raw, limits)


def _read_oidc(path: Path) -> OidcConfig:
    from bygones.hub.oidc import OidcConfig

    check_private(path)
    try:
        return msgspec.toml.decode(path.read_bytes(), type=OidcConfig)
    except (msgspec.MsgspecError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--oidc") from error


def _run_hub(config: HubConfig, store: str, raw: str, limits: DeriveLimits) -> None:
    from bygones.hub.server import HubServer
    from bygones.team.access import check_blobs, open_store, record_blob_store
    from bygones.team.derive_process import HubDerivation

    with (
        open_hub(store, raw, replaces_index=True) as (engine, objects),
        closing(open_store(store)) as notes,
        closing(HubDerivation(store, raw, limits)) as derivation,
    ):
        if missing := check_blobs(engine, objects):
            raise RawStoreIncomplete(missing[0], len(missing))
        record_blob_store(engine, raw)
        serving = HubServer(
            engine,
            objects,
            config,
            open_reader=lambda scope: engine.open_reader(scope, objects),
            derive=derivation.quick.derive,
            derive_long=derivation.long.derive,
            stop_deriving=derivation.stop,
            notes=notes,
            describe_failures=derivation.failed.describe,
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
@click.option(
    "--expires",
    metavar="TIME",
    show_default="never",
    help="How long it is valid, such as 90d.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the token to a new file that only you can read.",
)
@hub_options
def new_token(  # noqa: PLR0913 (one parameter per option)
    *,
    person: str,
    teams: tuple[str, ...],
    role: str,
    label: str,
    expires: str | None,
    out: Path | None,
    store: str,
    raw: str,
) -> None:
    r"""Create a token for a person.

    \b
    bygones hub token new ann --team core --label laptop

    The token is printed once; only its hash is stored. Sessions that the person pushes
    are visible to the teams of the token.
    """
    now = utc_now()
    expires_at = _parse_expiry(expires, now) if expires else None
    with (
        _create_private_file(out) if out else nullcontext() as file,
        open_hub(store, raw) as (engine, _),
    ):
        secret, made = TokenStore(engine).issue(
            person,
            teams=teams,
            role=AccessRole(role),
            label=label,
            now=now,
            expires_at=expires_at,
        )
        record_action(engine, "token-new", made.person, made.id)
        if file is not None:
            file.write(f"{secret}\n".encode())
        else:
            click.echo(secret)
    until = f", valid until {expires_at:%Y-%m-%d %H:%M} UTC" if expires_at else ""
    where = f"written to {out}" if out is not None else "it is not shown again"
    sys.stderr.write(f"token {made.id} for {made.person}{until}; {where}\n")


@token.command("list")
@hub_options
@json_option
def list_tokens(*, store: str, raw: str, as_json: bool) -> None:
    r"""List tokens with their owners, teams and roles; times are in UTC.

    \b
    bygones hub token list
    bygones hub token list --json
    """
    with open_hub(store, raw) as (engine, _):
        tokens = list(TokenStore(engine).list_tokens())
        uses = TokenStore(engine).last_uses()
    if as_json:
        print_objects(_token_object(token, uses.get(token.id)) for token in tokens)
        return
    if not tokens:
        click.echo("no tokens yet")
        return
    rows = (_token_cells(token, uses.get(token.id)) for token in tokens)
    for line in TextTable(_TOKEN_COLUMNS, rows).lines():
        click.echo(line)


_TOKEN_COLUMNS = tuple(
    TextColumn(name)
    for name in (
        "TOKEN",
        "PERSON",
        "TEAMS",
        "ROLE",
        "CREATED",
        "EXPIRES",
        "LAST USED",
        "REVOKED",
        "LABEL",
    )
)


def _token_cells(token: AccessToken, used_at: datetime | None) -> tuple[str, ...]:
    def show_day(moment: datetime | None) -> str:
        return f"{moment:%Y-%m-%d}" if moment else ""

    def show_minute(moment: datetime | None) -> str:
        return f"{moment:%Y-%m-%d %H:%M}" if moment else ""

    return (
        token.id,
        token.person,
        " ".join(token.teams),
        token.role,
        show_day(token.created_at),
        show_minute(token.expires_at),
        show_minute(used_at),
        show_day(token.revoked_at),
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
        for one in revoked:
            record_action(engine, "token-revoke", one.person, one.id)
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
        # After --yes nothing is printed before: a closed pipe ends the command.
        if not (as_json or yes):
            count = pluralize(len(engine.matching_sessions(selector)), "session")
            named = describe_selector(selector)
            click.echo(f"{count} will be erased from the hub ({named})")
        confirm_erasure(yes=yes)
        receipt = carry_out(engine, objects, selector, now=moment)
        _save_receipt(engine, receipt, moment)
        sessions = pluralize(len(receipt.sessions), "session")
        detail = f"{describe_selector(selector)}: {sessions}"
        record_action(engine, "erase", selector.person or "", detail)
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
        action = "release" if release else "hold"
        record_action(engine, action, person or "", describe_selector(selector))
    click.echo(f"{'released' if release else 'held'}: {describe_selector(selector)}")


@click.command("audit")
@click.option("--person", metavar="NAME", help="Events about this person.")
@hub_options
@json_option
def audit(*, person: str | None, store: str, raw: str, as_json: bool) -> None:
    r"""List changes by administrators, and sign-ins, on a hub.

    \b
    bygones hub audit
    bygones hub audit --person ann --json

    Who read what is in the log of `bygones hub serve --log FILE`.
    """
    with open_hub(store, raw) as (engine, _):
        events = [one for one in list_events(engine) if person in {None, one.person}]
    if as_json:
        print_objects(
            AuditEventObject(
                occurred_at=one.at,
                action=one.action,
                person=one.person,
                detail=one.detail,
                by=one.by,
            )
            for one in events
        )
        return
    if not events:
        click.echo("no events yet")
        return
    rows = (
        (
            f"{one.at:%Y-%m-%d %H:%M}",
            one.action,
            one.person,
            sanitize_name(one.detail),
            sanitize_name(one.by),
        )
        for one in events
    )
    columns = tuple(
        TextColumn(name) for name in ("TIME", "ACTION", "PERSON", "DETAIL", "BY")
    )
    for line in TextTable(columns, rows).lines():
        click.echo(line)


@click.command("check")
@hub_options
def check(*, store: str, raw: str) -> None:
    r"""Check that a hub is complete, for example after a restore.

    \b
    bygones hub check --store postgresql:///hub --raw /srv/hub

    Tables, access rules, the order of uploaded bytes and the objects of the raw store are
    checked. The exit code is 1 if something is missing.
    """
    from bygones.team.access import check_blobs

    with open_hub(store, raw) as (engine, objects):
        report = engine.verify()
        missing = check_blobs(engine, objects)
        pending = engine.count_pending()
    for fault in report.faults:
        click.echo(sanitize_name(fault), err=True)
    click.echo(
        f"{pluralize(report.sources, 'file')}, {pluralize(report.sessions, 'session')},"
        f" {pluralize(pending, 'file')} to index"
    )
    if missing:
        raise RawStoreIncomplete(missing[0], len(missing))
    if report.faults:
        click.echo("restore the backup again into an empty database", err=True)
        raise click.exceptions.Exit(ExitCode.FAILURE)
    click.echo("complete")


@click.group("hub")
def hub() -> None:
    r"""Run a hub, the shared archive of a team.

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


for _command in (serve, token, project, login, logout, erase, hold, audit, check):
    hub.add_command(_command)
