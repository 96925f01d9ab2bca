"""Bring an archive level with another machine, a shared folder or another archive."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypedDict, Unpack

from msgspec import Struct

from bygones.errors import PathUnusable, SyncFailed
from bygones.model.base import NullProgress, ProgressReporter
from bygones.model.machines import Machine
from bygones.store.archive_db import ArchiveDB
from bygones.store.archive_dir import ArchiveDir
from bygones.sync.folder import FolderPeer
from bygones.sync.peers import ArchivePeer, machine_of
from bygones.sync.pull import Puller, PullReport
from bygones.sync.stream import Bye, MessageStream, StreamPeer, pull_there, serve_stdio

_NOT_FOUND = 127
"""The exit code of a shell that does not find a program."""


class SyncResult(Struct, frozen=True, kw_only=True):
    """What both sides received."""

    peer: str
    received: PullReport
    sent: PullReport
    unreadable_packs: int = 0
    """Packs of a folder that are damaged or not completely copied yet."""


class SyncOptions(TypedDict, total=False):
    """How to reach another machine; see `Archive.sync`."""

    ssh: str
    remote_command: str
    is_dry_run: bool
    progress: ProgressReporter | None


def sync(
    folder: Path, machine: Machine, target: str, **options: Unpack[SyncOptions]
) -> SyncResult:
    """Sync with a machine or a folder, see `Archive.sync`."""
    progress = options.get("progress")
    is_dry_run = options.get("is_dry_run", False)
    if is_folder_name(target):
        return sync_with_folder(
            folder,
            machine,
            Path(target).expanduser().absolute(),
            progress,
            is_dry_run=is_dry_run,
        )
    return sync_with_host(
        folder,
        machine,
        target,
        progress,
        ssh=options.get("ssh", "ssh"),
        remote_command=options.get("remote_command", "bygones"),
        is_dry_run=is_dry_run,
    )


def is_folder_name(target: str) -> bool:
    """Whether a target is a folder: it has a slash, or is one here."""
    return (
        target.startswith((".", "~"))
        or any(separator in target for separator in "/\\")
        or Path(target).is_dir()
    )


def find_machine(folder: Path, host: str, host_id: str) -> Machine:
    """Return the name and id of this machine for the archive in a folder."""
    archive_db = ArchiveDB(folder)
    try:
        return machine_of(archive_db, host, host_id)
    finally:
        archive_db.close()


def sync_with_folder(
    folder: Path,
    machine: Machine,
    target: Path,
    progress: ProgressReporter | None = None,
    *,
    is_dry_run: bool = False,
) -> SyncResult:
    """Sync with a shared folder, or with the archive in a folder."""
    progress = progress or NullProgress()
    if ArchiveDir.exists(target):
        return _sync_with_archive(
            folder, machine, target, progress, is_dry_run=is_dry_run
        )
    if target.exists() and not target.is_dir():
        raise PathUnusable(f"{target} is not a folder")
    peer = FolderPeer(target, machine)
    received = Puller(folder, machine, peer, progress).run(is_dry_run=is_dry_run)
    source = ArchivePeer(folder, machine)
    try:
        sent = peer.write_new(source, progress, is_dry_run=is_dry_run)
    finally:
        source.close()
    return SyncResult(
        peer=str(target),
        received=received,
        sent=sent,
        unreadable_packs=len(peer.unreadable),
    )


def _sync_with_archive(
    folder: Path,
    machine: Machine,
    target: Path,
    progress: ProgressReporter,
    *,
    is_dry_run: bool,
) -> SyncResult:
    if target.resolve() == folder.resolve():
        raise PathUnusable(f"{target} is this archive")
    other = find_machine(target, target.name, "")
    if other.id == find_machine(folder, target.name, "").id:
        other = machine  # a copy of this archive, such as a backup
    reports = []
    for (into, own), (origin, theirs) in (
        ((folder, machine), (target, other)),
        ((target, other), (folder, machine)),
    ):
        source = ArchivePeer(origin, theirs)
        try:
            puller = Puller(into, own, source, progress)
            reports.append(puller.run(is_dry_run=is_dry_run))
        finally:
            source.close()
    return SyncResult(peer=str(target), received=reports[0], sent=reports[1])


def sync_with_host(  # noqa: PLR0913 (all but four by name and optional)
    folder: Path,
    machine: Machine,
    host: str,
    progress: ProgressReporter | None = None,
    *,
    ssh: str = "ssh",
    remote_command: str = "bygones",
    is_dry_run: bool = False,
) -> SyncResult:
    """Sync with the archive of another machine, with the system's ssh."""
    progress = progress or NullProgress()
    command = [*shlex.split(ssh), "--", host, f"{remote_command} sync --stdio"]
    with _open_stream(command, host, remote_command) as stream:
        other = stream.greet(machine)
        puller = Puller(folder, machine, StreamPeer(stream, other), progress)
        received = puller.run(is_dry_run=is_dry_run)
        source = ArchivePeer(folder, machine)
        try:
            sent = pull_there(stream, source, progress, is_dry_run=is_dry_run)
        finally:
            source.close()
        stream.send(Bye())
    return SyncResult(peer=host, received=received, sent=sent)


@contextmanager
def _open_stream(
    command: list[str], host: str, remote_command: str
) -> Iterator[MessageStream]:
    if host.startswith("-"):
        raise SyncFailed(host, "this is not the name of a host")
    try:
        process = subprocess.Popen(  # noqa: S603 (ssh, as asked)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except OSError as error:
        raise SyncFailed(host, f"{command[0]}: {error.strerror}") from error
    with process:
        reader, writer = process.stdout, process.stdin
        if reader is None or writer is None:  # pragma: no cover (pipes were asked for)
            raise RuntimeError
        try:
            yield MessageStream(reader, writer, host)
        except SyncFailed as error:
            _close(writer)
            code = process.wait()
            if code == _NOT_FOUND:
                reason = (
                    f"{remote_command} was not found there;"
                    " name its path with --remote-command"
                )
                raise SyncFailed(host, reason) from error
            raise
        except BaseException:
            process.kill()
            raise
        finally:
            _close(writer)


def _close(writer: IO[bytes]) -> None:
    try:
        writer.close()
    except OSError:
        return  # the other side has ended


def answer_sync(folder: Path, machine: Machine) -> None:
    """Answer a sync that another machine started, on stdin and stdout."""
    serve_stdio(folder, machine, sys.stdin.buffer, sys.stdout.buffer)
