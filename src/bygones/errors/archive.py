"""Errors of an archive and its index."""

from __future__ import annotations

from pathlib import Path

from bygones.errors.base import BygonesError, ExitCode, describe_error
from bygones.errors.selectors import HomeNotFound


class ArchiveError(BygonesError):
    """The archive in a folder cannot be used."""

    path: Path


class ArchiveNotFound(ArchiveError):
    """There is no archive in the folder."""

    exit_code = ExitCode.NO_ARCHIVE
    message = "no archive in {self.path}"
    hint = "run `bygones ingest` to create one"


class NoArchiveAndNoHome(ArchiveNotFound):
    """There is no archive in the folder, and nothing to import into one."""

    hint = (
        "`bygones ingest --home PATH` imports a home from another location;"
        " `bygones demo` creates sample data"
    )

    def __str__(self) -> str:
        return f"{super().__str__()}, and {HomeNotFound()}"


class ArchiveTooNew(ArchiveError):
    """A newer version wrote this archive; this version must not touch it."""

    found_version: int
    supported_version: int

    exit_code = ExitCode.ARCHIVE_TOO_NEW
    message = (
        "{self.path} has version {self.found_version}; "
        "this version of Bygones reads up to {self.supported_version}"
    )
    hint = "upgrade Bygones"


class ArchiveClosed(ArchiveError):
    """An archive, or a value loaded from it, is used after the archive was closed."""

    message = "{self.path}: the archive is closed"
    hint = "use it inside `with Archive.open() as archive:`"


class ArchiveInUse(ArchiveError):
    """Another command is writing to the archive."""

    exit_code = ExitCode.ARCHIVE_IN_USE
    message = "another command is writing to {self.path}"
    hint = "wait until the other command has finished; you can still read the archive"


class IndexBusy(ArchiveInUse):
    """Another command is creating the index, and there is no usable one yet."""

    is_purging: bool

    hint = "try again in a moment"

    def __str__(self) -> str:
        if self.is_purging:
            return f"a purge is running in {self.path}"
        return f"another command is building the index of {self.path}"


class ArchiveDamaged(ArchiveError):
    """Bytes of the archive differ from what was stored, or cannot be read."""

    detail: str

    exit_code = ExitCode.ARCHIVE_DAMAGED
    message = "{self.path} is damaged: {self.detail}"
    hint = "run `bygones repair`, which recovers everything that is intact"


class BytesLost(ArchiveDamaged):
    """Bytes were damaged, no copy was found, and the user accepted the loss."""

    accepted_ns: int
    """When the loss was accepted."""

    message = "bytes of {self.path} are lost: {self.detail}"
    hint = (
        "the loss was accepted with `bygones repair --accept-loss`; if you find a copy,"
        " `bygones repair --from PATH` recovers the bytes"
    )


class NotADatabase(ArchiveDamaged):
    """The file of the archive is not a database."""

    hint = (
        "run `bygones repair`, which recovers what is intact, or choose another folder"
        " with --archive"
    )


class ArchiveEmpty(NotADatabase):
    """The file of the archive exists, but has no content."""

    detail: str = "the file is empty"

    hint = "restore a backup, or remove the file if it was never used"


class NothingRecovered(ArchiveDamaged):
    """A repair found no intact bytes in the file of the archive."""

    message = "{self.path} cannot be repaired: {self.detail}"
    hint = (
        "restore a backup; without one, move the file away and run `bygones ingest`,"
        " which imports the files that Claude Code still has"
    )


class ArchiveNotOwned(ArchiveError):
    """The folder contains the database of another program."""

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.path} belongs to another program"
    hint = "choose another folder with --archive; the file was not changed"


class ArchiveNotAFolder(ArchiveError):
    """A file exists where the folder of the archive, or of its index, should be."""

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.path} is not a folder"
    hint = "move the file away, or choose another folder with --archive"


class SessionsNotIndexed(ArchiveError):
    """Unexpected errors occurred for some sessions; the others were indexed."""

    count: int
    first_source: str
    related_count: int
    """Sessions that share records with the first: the error may be in one of them."""
    first_error: Exception

    hint = (
        "all other sessions are up to date; these are tried again by each import, and"
        " `bygones restore` still writes their files"
    )

    def __str__(self) -> str:
        sessions = "1 session" if self.count == 1 else f"{self.count:,} sessions"
        name = self.first_source
        if self.related_count == 1:
            name += " or one that shares records with it"
        elif self.related_count:
            name += f" or one of {self.related_count:,} that share records with it"
        where, traceback = "", self.first_error.__traceback__
        while traceback is not None:
            function = traceback.tb_frame.f_code.co_name
            where = f" ({function}, line {traceback.tb_lineno})"
            traceback = traceback.tb_next
        return (
            f"{sessions} could not be indexed; the first is {name}:"
            f" {describe_error(self.first_error)}{where}"
        )


class IndexNotFound(ArchiveError):
    """The archive has no index, or one that this version cannot use."""

    message = "the archive in {self.path} has no usable index"
    hint = "run `bygones rebuild` to create it again from the archive"


class IndexOutdated(ArchiveError):
    """The index does not cover the whole archive, so it was not compared."""

    message = "the index in {self.path} is not up to date, so it was not compared"
    hint = "run `bygones ingest`, which updates it or reports why it cannot, then verify again"


class PurgeUnfinished(IndexNotFound):
    """A purge was interrupted, which has removed the index."""

    message = "a purge of {self.path} was interrupted, so there is no index"
    hint = (
        "run the same `bygones purge` again to finish it; `bygones rebuild` only"
        " rebuilds the index"
    )


class IndexDamaged(ArchiveError):
    """Bytes of the index differ from what was written; the archive is not affected."""

    detail: str

    message = "the index of the archive in {self.path} is damaged: {self.detail}"
    hint = (
        "the archive is not affected; the next command that may write builds the index"
        " again, and so does `bygones rebuild`"
    )


class NotABackup(ArchiveError):
    """The target of a backup exists and is not an older backup of this archive."""

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.path} contains something other than a backup of this archive"
    hint = "choose a folder that does not exist yet, or one with an older backup"


class BackupNewer(ArchiveError):
    """The target of a backup contains something that the archive does not."""

    archive: Path
    surplus: str
    """What the target has in addition, in words."""
    has_diverged: bool
    """Whether the archive also has something that the target does not."""

    exit_code = ExitCode.USAGE_ERROR
    hint = (
        "nothing was changed; choose a folder that does not exist yet, or swap source"
        " and target if that is the archive to keep; if this archive lost bytes, `bygones"
        " repair --from` the target recovers them"
    )

    def __str__(self) -> str:
        more = f"it has {self.surplus} that {self.archive} lacks"
        if self.has_diverged:
            return (
                f"{self.path} is not an older backup: both were written to, and {more}"
            )
        return f"{self.path} is newer than the archive in {self.archive}: {more}"
