"""`bygones push`: send redacted sessions of selected projects to a hub."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.context import CommonOptions, archive_options, find_homes, json_option
from bygones.cli.open_archive import open_current
from bygones.cli.output import StagedProgressBar, TextColumn, TextTable, print_objects
from bygones.config import (
    PushSettings,
    get_machine_id,
    load_push_settings,
    load_redactor,
)
from bygones.credentials import find_hub_token
from bygones.errors import BygonesError, ExitCode, PushIncomplete, PushNotConfigured
from bygones.export.formats import redaction_labels
from bygones.model.base import encode_path
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import PushObject

if TYPE_CHECKING:
    from bygones.hub.client import PushReport


_ERASED_TEXT = "{} erased on the hub and not sent again"
_INVALID_NAME_TEXT = "{} whose name cannot be sent"


def push_report_lines(
    report: PushReport, hub: str, *, is_dry_run: bool
) -> Iterator[str]:
    """Yield what a push did, or would do."""
    verb = "would send" if is_dry_run else "sent"
    if not report.selected_sessions:
        yield f"{verb} nothing: no session was started in the selected projects"
    elif not report.files:
        yield f"{verb} nothing{_nothing_sent_reason(report) if hub else ''}"
    else:
        sessions = pluralize(len(report.sessions), "session")
        files, lines = pluralize(report.files, "file"), pluralize(report.lines, "line")
        sizes = f"{format_bytes(report.bytes)}, {format_bytes(report.sent_bytes)} compressed"
        target = f" to {hub}" if hub else ""
        yield f"{verb} {sessions}{target}: {files}, {lines}, {sizes}"
    if is_dry_run and report.projects:
        yield from _project_lines(report)
    if report.redactions:
        yield f"redacted: {', '.join(redaction_labels(report.redactions))}"
    not_sent = (
        (report.private_records, "private record", "private records"),
        (report.foreign_lines, "line of other projects", "lines of other projects"),
        (
            report.shared_files,
            "file shared with other projects",
            "files shared with other projects",
        ),
        (report.long_lines, "line too long to send", "lines too long to send"),
        (report.damaged_files, "damaged file", "damaged files"),
        (len(report.failures), "file that failed", "files that failed"),
        (
            report.unnameable_files,
            _INVALID_NAME_TEXT.format("file"),
            _INVALID_NAME_TEXT.format("files"),
        ),
        (
            len(report.erased_sessions),
            _ERASED_TEXT.format("session"),
            _ERASED_TEXT.format("sessions"),
        ),
    )
    parts = [pluralize(number, one, many) for number, one, many in not_sent if number]
    if parts:
        yield "not sent: " + ", ".join(parts)


def _nothing_sent_reason(report: PushReport) -> str:
    if len(report.erased_sessions) == report.selected_sessions:
        return ": the selected sessions were erased on the hub"
    if report.failures:
        return ""
    return (
        ": the hub already has the others"
        if report.erased_sessions
        else ": the hub already has everything"
    )


def _project_lines(report: PushReport) -> Iterator[str]:
    rows = [
        (
            sanitize_name(name or "(no session)"),
            pluralize(len(share.sessions), "session"),
            pluralize(share.files, "file"),
            pluralize(share.lines, "line"),
            format_bytes(share.bytes),
        )
        for name, share in sorted(report.projects.items())
    ]
    columns = (TextColumn(), *(TextColumn(is_right_aligned=True) for _ in range(4)))
    yield from (f"  {line}" for line in TextTable(columns, rows).lines())


def push_report_object(report: PushReport, *, is_dry_run: bool) -> PushObject:
    return PushObject(
        is_dry_run=is_dry_run,
        session_ids=tuple(sorted(report.sessions)),
        file_count=report.files,
        line_count=report.lines,
        redacted_bytes=report.bytes,
        sent_bytes=report.sent_bytes,
        request_count=report.requests,
        redactions=dict(report.redactions),
        private_record_count=report.private_records,
        foreign_line_count=report.foreign_lines,
        shared_file_count=report.shared_files,
        long_line_count=report.long_lines,
        damaged_file_count=report.damaged_files,
        failed_files=tuple(map(encode_path, report.failures)),
        unnameable_file_count=report.unnameable_files,
        erased_file_count=report.erased_files,
        erased_session_ids=tuple(sorted(report.erased_sessions)),
    )


@click.command("push")
@click.option("--dry-run", is_flag=True, help="Show what would be sent.")
@click.option("--watch", is_flag=True, help="Keep sending while Claude Code writes.")
@archive_options
@json_option
def push(*, dry_run: bool, watch: bool, options: CommonOptions, as_json: bool) -> None:
    r"""Send redacted sessions of selected projects to a hub.

    \b
    bygones push --dry-run
    bygones push --watch

    Set the hub and the projects under [push] in the settings; nothing else is sent.
    Secrets, names and home folders are redacted before anything is sent, and private
    records are left out. Only what the hub does not have yet is sent. You can interrupt
    it at any time. Prompts of your sessions that only the hub has, such as those of another
    machine, are stored here; `bygones list is:prompts-only` lists them.
    """
    settings = _with_stored_token(load_push_settings(os.environ, Path.home()))
    _check_settings(settings, is_dry_run=dry_run)
    open_current(options).close()
    if watch and not dry_run:
        _push_continuously(settings, options, as_json=as_json)
    else:
        _push_once(settings, options, is_dry_run=dry_run, as_json=as_json)


def _with_stored_token(settings: PushSettings) -> PushSettings:
    """Return settings with a token: their own, or that of `bygones hub login`.

    Raises `HubTokenExposed` if other users can read it.
    """
    if not settings.hub:
        return settings
    token = find_hub_token(settings.hub, os.environ, Path.home())
    return settings._replace(token=token or settings.token)


def _check_settings(settings: PushSettings, *, is_dry_run: bool) -> None:
    if not settings.projects:
        raise PushNotConfigured("projects")
    if not settings.hub and not is_dry_run:
        raise PushNotConfigured("hub")
    if settings.hub and not settings.token:
        raise PushNotConfigured("token")


def _push_once(
    settings: PushSettings,
    options: CommonOptions,
    *,
    is_dry_run: bool,
    as_json: bool,
    is_repeated: bool = False,
) -> None:
    from bygones.hub.client import HubClient, push
    from bygones.hub.known_sessions import remember_sessions

    client = HubClient(settings.hub, settings.token) if settings.hub else nullcontext()
    with client as transport, StagedProgressBar() as bar:
        report = push(
            options.folder,
            settings.projects,
            redactor=load_redactor(os.environ, Path.home()),
            transport=transport,
            dry_run=is_dry_run,
            progress=bar,
            host=get_machine_id(),
        )
    only_there = None
    if settings.hub and not is_dry_run:
        with HubClient(settings.hub, settings.token, max_attempts=1) as asking:
            only_there = remember_sessions(
                options.folder, asking, host=get_machine_id(), is_repeated=is_repeated
            )
    if as_json:
        print_objects([push_report_object(report, is_dry_run=is_dry_run)])
    elif not options.quiet or is_dry_run:
        for line in push_report_lines(report, settings.hub, is_dry_run=is_dry_run):
            click.echo(line)
        if only_there:
            sessions = pluralize(
                only_there, "of your sessions is", "of your sessions are"
            )
            click.echo(f"{sessions} only on the hub: bygones list is:prompts-only")
    sys.stdout.flush()
    if report.failures:
        first_file, first_error = next(iter(report.failures.items()))
        raise PushIncomplete(len(report.failures), first_file, first_error)


def _push_continuously(
    settings: PushSettings, options: CommonOptions, *, as_json: bool
) -> None:
    from bygones.archive import Archive
    from bygones.hub.client import PushLoop

    errors: list[BygonesError] = []

    def report_error(error: BygonesError) -> None:
        sys.stderr.write(f"{error}\n")
        errors.append(error)

    once = partial(
        _push_once,
        settings,
        options,
        is_dry_run=False,
        as_json=as_json,
        is_repeated=True,
    )
    loop = PushLoop(once, report_error)
    loop.start()
    if not options.quiet:
        sys.stderr.write(
            f"pushing to {settings.hub} as you work; press Ctrl-C to stop\n"
        )
    try:
        paths = find_homes(options.homes)
        Archive.watch(
            options.folder,
            paths,
            lambda _: loop.notify(),
            stop=loop.stop_event,
        )
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; the next push continues\n")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    finally:
        loop.stop()
    if errors:
        raise errors[-1]
