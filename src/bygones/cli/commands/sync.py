"""`bygones sync`: exchange sessions with your other machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.archive import Archive
from bygones.cli.context import CommonOptions, archive_options, json_option
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    StagedProgressBar,
    display_path,
    explain_interrupt,
    print_failure,
    print_objects,
)
from bygones.errors import ArchiveNotFound
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import SyncedObject, SyncObject

if TYPE_CHECKING:
    from bygones.sync.pull import PullReport
    from bygones.sync.run import SyncResult

__all__ = ["sync"]


@click.command("sync")
@click.argument("target", metavar="HOST|FOLDER", required=False)
@click.option("--create", is_flag=True, help="Create FOLDER if it does not exist.")
@click.option("--dry-run", is_flag=True, help="Show what would be exchanged.")
@click.option(
    "--ssh",
    metavar="COMMAND",
    default="ssh",
    show_default=True,
    help="Program that connects to HOST, with its options.",
)
@click.option(
    "--remote-command",
    metavar="COMMAND",
    default="bygones",
    show_default=True,
    help="How to start Bygones on HOST.",
)
@click.option(
    "--stdio", is_flag=True, help="Serve a sync that another machine started."
)
@archive_options
@json_option
def sync(  # noqa: PLR0913 (the options of the command)
    *,
    target: str | None,
    create: bool,
    dry_run: bool,
    ssh: str,
    remote_command: str,
    stdio: bool,
    options: CommonOptions,
    as_json: bool,
) -> None:
    r"""Exchange sessions with your other machines.

    \b
    bygones sync laptop
    bygones sync ann@desk.local --ssh "ssh -p 2222"
    bygones sync ~/Dropbox/bygones --create

    Afterwards both archives have all sessions, with all versions of their files, tags,
    notes and stars. A session that you continued on both machines has a branch for each.
    Nothing is deleted or redacted: use it between machines of your own, and `push` to
    share with others. All bytes are verified, and an interrupted sync continues where it
    stopped.

    HOST is a name that ssh accepts; it needs Bygones. FOLDER is a folder that your machines share,
    or another archive: each machine adds files to it and reads those of the others.
    Sessions that you purged are not received again; purge them on each machine.
    """
    if stdio == (target is not None):
        raise click.UsageError("name a host or a folder")
    if target is not None and not create and Archive.is_shared_folder(target):
        _check_folder(Path(target).expanduser(), is_dry_run=dry_run)
    _prepare_archive(options)
    if stdio:
        Archive.answer_sync(options.folder)
        return
    with (
        StagedProgressBar() as bar,
        explain_interrupt("what was received is kept; run it again to continue"),
    ):
        result = Archive.sync(
            options.folder,
            target or "",
            ssh=ssh,
            remote_command=remote_command,
            is_dry_run=dry_run,
            progress=bar,
        )
    if as_json:
        print_objects([_to_object(result, is_dry_run=dry_run)])
    elif not options.quiet:
        for line in _describe(result, is_dry_run=dry_run):
            click.echo(sanitize_name(line))
    print_failure(result.received.failure)
    if result.sent.failure:
        print_failure(f"on {result.peer}: {result.sent.failure}")


def _check_folder(folder: Path, *, is_dry_run: bool) -> None:
    """Ask before a folder is created: its name may be mistyped."""
    if folder.exists():
        return
    missing = f"{display_path(folder)} does not exist"
    if is_dry_run:
        click.echo(sanitize_name(f"note: {missing}; it would be created"), err=True)
    elif sys.stdin.isatty():
        click.confirm(sanitize_name(f"{missing}. Create it?"), abort=True, err=True)
    else:
        raise click.UsageError(sanitize_name(f"{missing}; use --create to create it"))


def _prepare_archive(options: CommonOptions) -> None:
    """Import what is new, or create an archive that receives everything."""
    try:
        open_current(options).close()
    except ArchiveNotFound:
        Archive.ingest(options.folder, [])


def _describe(result: SyncResult, *, is_dry_run: bool) -> Iterator[str]:
    peer = display_path(result.peer) if "/" in result.peer else result.peer
    verbs = ("would receive", "would send") if is_dry_run else ("received", "sent")
    for verb, report in zip(verbs, (result.received, result.sent), strict=True):
        yield f"{verb} {_describe_report(report)}"
    notes = (
        (result.received.purged, "purged here, not received again"),
        (result.sent.purged, f"purged on {peer}, not sent again"),
        (
            result.received.damaged + result.sent.damaged,
            "damaged or lost; run `bygones verify` on both machines",
        ),
        (result.received.refused + result.sent.refused, "with invalid names, left out"),
    )
    for count, text in notes:
        if count:
            yield f"{pluralize(count, 'file')} {text}"
    if result.unreadable_packs:
        packs = pluralize(result.unreadable_packs, "file")
        yield f"{packs} in {peer} not complete yet; run it again later"


def _describe_report(report: PullReport) -> str:
    if not report.has_changes:
        return "nothing"
    parts = []
    if report.files:
        sessions = pluralize(len(report.session_ids), "session")
        files = pluralize(report.files, "file")
        parts.append(f"{sessions} ({files}, {format_bytes(report.bytes)})")
    if report.annotations:
        sessions = pluralize(report.annotations, "session")
        parts.append(f"tags, notes or stars of {sessions}")
    return " and ".join(parts)


def _to_object(result: SyncResult, *, is_dry_run: bool) -> SyncObject:
    return SyncObject(
        peer=result.peer,
        received=_to_synced(result.received),
        sent=_to_synced(result.sent),
        unreadable_pack_count=result.unreadable_packs,
        is_dry_run=is_dry_run,
    )


def _to_synced(report: PullReport) -> SyncedObject:
    return SyncedObject(
        session_ids=tuple(sorted(report.session_ids)),
        file_count=report.files,
        byte_count=report.bytes,
        annotation_count=report.annotations,
        purged_count=report.purged,
        damaged_count=report.damaged,
    )
