"""The archive: everything that interfaces and other programs ask for."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack, overload

from bygones.archive.base import ArchiveBase, require_folder
from bygones.archive.data import ArchiveData
from bygones.errors import (
    ArchiveClosed,
    ArchiveDamaged,
    BytesLost,
    OnlyPromptsKnown,
)
from bygones.model.base import SessionId
from bygones.model.query import Flag
from bygones.store.local_reader import LocalReader

# Most commands need little of this: the rest is imported by the methods that use it.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from threading import Event

    from bygones.maintenance.fork import ForkedSession, ForkOptions
    from bygones.maintenance.purge import PurgeResult
    from bygones.maintenance.restore import LineRewriter, PlannedFile, RestoreResult
    from bygones.maintenance.verify import VerificationResult
    from bygones.model.base import IngestReport, ProgressReporter
    from bygones.model.conversations import Conversation
    from bygones.model.machines import Machine
    from bygones.model.reports import LastVerification
    from bygones.model.summary import Annotations
    from bygones.store.archive_db import StoredSource
    from bygones.sync.run import SyncOptions, SyncResult


class IngestFolder(Protocol):
    """`Archive.ingest`: bring the archive in a folder up to date."""

    def __call__(
        self,
        folder: str | Path,
        paths: Sequence[Path],
        *,
        progress: ProgressReporter | None = None,
        lock_timeout: float = 5.0,
        is_thorough: bool = False,
    ) -> IngestReport: ...


class IngestArchive(Protocol):
    """`archive.ingest`: bring an open archive up to date."""

    def __call__(
        self,
        paths: Sequence[Path] | None = None,
        *,
        progress: ProgressReporter | None = None,
        lock_timeout: float = 5.0,
        is_thorough: bool = False,
    ) -> IngestReport: ...


class Ingest:
    """Import new transcripts: `Archive.ingest` into a folder, `archive.ingest` into it."""

    @overload
    def __get__(self, archive: None, owner: type[ArchiveBase]) -> IngestFolder: ...

    @overload
    def __get__(
        self, archive: ArchiveBase, owner: type[ArchiveBase]
    ) -> IngestArchive: ...

    def __get__(
        self, archive: ArchiveBase | None, owner: type[ArchiveBase]
    ) -> IngestFolder | IngestArchive:
        """Return a function, as of a method."""
        return ingest_folder if archive is None else _bind(archive)


def ingest_folder(
    folder: str | Path,
    paths: Sequence[Path],
    *,
    progress: ProgressReporter | None = None,
    lock_timeout: float = 5.0,
    is_thorough: bool = False,
) -> IngestReport:
    """Import new transcripts into the archive in a folder; create it if there is none.

    Example::

        Archive.ingest("~/archive", [Path.home() / ".claude"])

    ``paths`` and the other arguments are those of an open archive's `ingest`. If
    sessions could not be indexed, ``failure`` of the report is the error.
    """
    from bygones.ingest.run import ingest

    return ingest(
        require_folder(folder),
        paths,
        progress=progress,
        lock_timeout=lock_timeout,
        is_thorough=is_thorough,
    )


def _bind(archive: ArchiveBase) -> IngestArchive:
    def ingest(
        paths: Sequence[Path] | None = None,
        *,
        progress: ProgressReporter | None = None,
        lock_timeout: float = 5.0,
        is_thorough: bool = False,
    ) -> IngestReport:
        """Import new transcripts, and show what is new.

        ``paths`` are homes of Claude Code, folders of transcripts, or transcripts; by
        default the homes that the command line imports. ``is_thorough`` reads files that
        grew from the start, however long they are. Raises `ArchiveInUse` if another
        process is writing for ``lock_timeout`` seconds. ``failure`` of the report says
        which sessions could not be indexed; all others are.
        """
        from bygones.config import resolve_homes

        if archive.is_closed:
            raise ArchiveClosed(archive.folder)
        report = ingest_folder(
            archive.address,
            resolve_homes(paths or (), os.environ, Path.home()),
            progress=progress,
            lock_timeout=lock_timeout,
            is_thorough=is_thorough,
        )
        archive.refresh()
        return report

    return ingest


class Archive(ArchiveData):
    """An archive that is open for reading.

    Example::

        with Archive.open() as archive:
            for session in archive.sessions("project:shop after:2w"):
                print(session.id, session.title.text)

    One process writes at a time, holding a lock; readers keep seeing what was there.
    Methods that work on an archive which may not exist yet, or may be damaged, take a
    folder: `ingest`, `verify` and `rebuild`. An archive may also be a team's store, in
    which case methods about files raise `UnsupportedOnTeamStore`.
    """

    ingest = Ingest()

    def is_current(self, paths: Sequence[Path]) -> bool:
        """Whether no file in these homes changed since they were ingested.

        This is much cheaper than `ingest`: no file is opened.
        """
        from bygones.sources.snapshot import is_unchanged, scan_tree

        saved = self._archive_dir.saved_checksum
        snapshot = self._archive_dir.load_snapshot()
        if saved and snapshot and is_unchanged(snapshot, saved, paths):
            return True
        checksum, snapshot = scan_tree(paths)
        if checksum == saved:
            self._archive_dir.save_snapshot(snapshot)
        return checksum == saved

    @staticmethod
    def watch(
        folder: str | Path,
        paths: Sequence[Path],
        on_report: Callable[[IngestReport], None],
        *,
        stop: Event | None = None,
        polling: bool = False,
    ) -> None:
        """Keep the archive in a folder up to date with homes until ``stop`` is set.

        ``on_report`` gets the report of every ingestion that changed something.
        ``polling`` looks for changes where the system does not report them.
        """
        from bygones.ingest.watch import watch

        watch(require_folder(folder), paths, on_report, stop=stop, polling=polling)

    @staticmethod
    def verify(
        folder: str | Path,
        *,
        deep: bool = False,
        progress: ProgressReporter | None = None,
        now: datetime | None = None,
    ) -> VerificationResult:
        """Read every stored byte and compare hashes; ``deep`` also checks the index.

        The result is saved as `last_verification` if ``now`` is given.
        """
        from bygones.maintenance.verify import verify

        return verify(require_folder(folder), deep=deep, progress=progress, now=now)

    @property
    def last_verification(self) -> LastVerification | None:
        """The result of the last verification; none if there was none."""
        from bygones.maintenance.verify import load_last_verification

        return load_last_verification(self.folder, self._archive_dir.byte_store)

    @staticmethod
    def rebuild(
        folder: str | Path, *, progress: ProgressReporter | None = None
    ) -> IngestReport:
        """Rebuild the index from the archive; readers keep the old one meanwhile.

        ``failure`` of the report says which sessions are missing in it.
        """
        from bygones.maintenance.verify import rebuild

        return rebuild(require_folder(folder), progress=progress)

    def annotate(
        self,
        sessions: Iterable[SessionId],
        change: Callable[[Annotations], Annotations],
    ) -> dict[SessionId, Annotations]:
        """Change the annotations of sessions, and return the new ones.

        Example::

        star = lambda old: msgspec.structs.replace(old, is_starred=True)
        archive.annotate([session.id], star)
        """
        from bygones.store.annotations import annotate

        return annotate(self._archive_dir.folder, sessions, change)

    def backup(self, folder: str | Path) -> int:
        """Write a consistent copy of the archive, and return its size in bytes."""
        from bygones.maintenance.backup import backup

        return backup(self._archive_dir, Path(folder))

    def plan_restore(
        self,
        sources: Iterable[StoredSource],
        *,
        target: Path | None = None,
        project: str | None = None,
        rewrite: LineRewriter | None = None,
        generations_back: int = 0,
    ) -> list[PlannedFile]:
        """Return what restoring these files would do.

        ``target`` is another folder, ``rewrite`` changes lines on the way, and
        ``generations_back`` restores older versions of rewritten files.
        """
        from bygones.maintenance.restore import plan_restore

        return plan_restore(
            self._archive_dir,
            sources,
            target=target,
            project=project,
            rewrite=rewrite,
            generations_back=generations_back,
        )

    def restore(
        self,
        plans: Sequence[PlannedFile],
        *,
        overwrite: bool = False,
        rewrite: LineRewriter | None = None,
        progress: ProgressReporter | None = None,
    ) -> RestoreResult:
        """Write files back as planned by `plan_restore`."""
        from bygones.maintenance.restore import restore

        return restore(
            self._archive_dir,
            plans,
            overwrite=overwrite,
            rewrite=rewrite,
            progress=progress,
        )

    def fork(self, id_or_prefix: str, **options: Unpack[ForkOptions]) -> ForkedSession:
        """Write a session that Claude Code continues before ``turn``, from 1, of another.

        With ``through`` it includes that turn; without a turn it ends as the ``branch``,
        from 0, does. ``before_compaction`` leaves out the last compaction. ``directory``
        is another working directory, ``home`` another home. Nothing is replaced.
        """
        from bygones.maintenance.fork import fork_session

        session = self.session(id_or_prefix)
        self.check_continuable(session.id)
        files = self.sources(sessions=[session.id])
        with _session_in_damage(session.id):
            return fork_session(self._archive_dir, session, files, **options)

    def check_continuable(self, session: SessionId) -> None:
        """Raise `OnlyPromptsKnown` if there is no transcript of a session."""
        if Flag.PROMPTS_ONLY in self.session_summary(session).flags:
            raise OnlyPromptsKnown(session)

    def check_transcript(self, session: SessionId) -> None:
        """Raise `ArchiveDamaged` if bytes of a session's transcript are lost."""
        with _session_in_damage(session):
            for source in self.sources(sessions=[session]):
                if source.kind.is_transcript and source.agent is None:
                    for _ in self.read_source(source.id):
                        pass

    def find_damage(self, conversation: Conversation) -> ArchiveDamaged | None:
        """Return why texts of a conversation cannot be read, if bytes of it are damaged.

        Files with bytes that the user accepted as lost are not read to their end. A hub
        checks its own bytes.
        """
        if not isinstance(self._reader, LocalReader):
            return None
        for source in conversation.sources:
            try:
                for _ in self.read_source(source.id):
                    pass
            except BytesLost:
                continue
            except ArchiveDamaged as error:
                return error
        return None

    @staticmethod
    def sync(
        folder: str | Path, target: str, **options: Unpack[SyncOptions]
    ) -> SyncResult:
        """Bring the archive in a folder level with that of another machine.

        ``target`` is a host that ``ssh`` reaches, where ``remote_command`` is run, or a
        shared folder, which is created if it does not exist. Both sides get everything
        that they lack, and nothing is deleted. ``is_dry_run`` only counts::

            Archive.sync("~/archive", "laptop").received.session_ids

        Raises `SyncFailed` if it was not finished; the next sync continues.
        """
        from bygones.sync.run import sync

        place = require_folder(folder)
        return sync(place, _find_machine(place), target, **options)

    @staticmethod
    def is_shared_folder(target: str) -> bool:
        """Whether the target of a sync is a folder, not the name of a host."""
        from bygones.sync.run import is_folder_name

        return is_folder_name(target)

    @staticmethod
    def answer_sync(folder: str | Path) -> None:
        """Answer a sync that another machine started, on stdin and stdout."""
        from bygones.sync.run import answer_sync

        place = require_folder(folder)
        answer_sync(place, _find_machine(place))

    def purge(
        self,
        sources: Iterable[StoredSource],
        *,
        sessions: Sequence[SessionId] = (),
        progress: ProgressReporter | None = None,
    ) -> PurgeResult:
        """Erase files permanently, so that they are not ingested again.

        An interrupted purge is finished, too.
        """
        from bygones.maintenance.purge import purge

        folder = self._archive_dir.folder
        self.close()
        try:
            # What recall quotes is written again from what remains.
            for quoted in (folder / "recall").glob("*.json"):
                quoted.unlink(missing_ok=True)
            return purge(folder, sources, sessions=sessions, progress=progress)
        finally:
            self._open()


def _find_machine(folder: Path) -> Machine:
    import socket

    from bygones.config import get_machine_id
    from bygones.sync.run import find_machine

    return find_machine(folder, socket.gethostname(), get_machine_id())


@contextmanager
def _session_in_damage(session: SessionId) -> Iterator[None]:
    """Name a session in errors about damaged bytes, which only name their place."""
    try:
        yield
    except ArchiveDamaged as error:
        error.detail = f"session {session}: {error.detail}"
        raise
