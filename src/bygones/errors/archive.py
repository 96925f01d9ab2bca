"""What can go wrong with the archive in a folder, and with its index."""

from __future__ import annotations

from pathlib import Path

from bygones.errors.root import BygonesError, ExitCode

__all__ = [
    "ArchiveDamaged",
    "ArchiveEmpty",
    "ArchiveError",
    "ArchiveForeign",
    "ArchiveInUse",
    "ArchiveMissing",
    "ArchiveTooNew",
    "BackupNewer",
    "BackupRefused",
    "IndexAwaited",
    "IndexDamaged",
    "IndexMissing",
    "NotADatabase",
    "NotAFolder",
]


class ArchiveError(BygonesError):
    """The archive in a folder cannot be used as it was asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


class ArchiveMissing(ArchiveError):
    """There is no archive in the folder."""

    exit_code = ExitCode.NO_ARCHIVE
    hint = "run `bygones ingest` to make one"

    def __str__(self) -> str:
        return f"no archive in {self.path}"


class ArchiveTooNew(ArchiveError):
    """A newer bygones wrote this archive; this one must not touch it."""

    exit_code = ExitCode.ARCHIVE_TOO_NEW
    hint = "upgrade bygones"

    def __init__(self, path: Path, *, found: int, known: int) -> None:
        super().__init__(path)
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return f"{self.path} has version {self.found}; this bygones knows {self.known}"


class ArchiveInUse(ArchiveError):
    """Another command is writing to the archive."""

    exit_code = ExitCode.ARCHIVE_IN_USE
    hint = "wait until the other command is done; reading works meanwhile"

    def __str__(self) -> str:
        return f"another command is writing to {self.path}"


class IndexAwaited(ArchiveInUse):
    """The index is being made at this moment: there is none, or one of no use."""

    hint = "try again in a moment: the index is being made"

    def __init__(self, path: Path, *, is_erasing: bool) -> None:
        super().__init__(path)
        self.is_erasing = is_erasing

    def __str__(self) -> str:
        if self.is_erasing:
            return f"a purge is under way in {self.path}"
        return f"another command is making the index of the archive in {self.path}"


class ArchiveDamaged(ArchiveError):
    """Bytes of the archive are not what was stored, or cannot be read at all."""

    exit_code = ExitCode.ARCHIVE_DAMAGED
    hint = "run `bygones verify` to see what is whole, and restore a backup"

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(path)
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.path} is damaged: {self.detail}"


class NotADatabase(ArchiveDamaged):
    """What stands in the archive's place is no database at all."""

    hint = "restore a backup, or name another folder with --archive"


class ArchiveEmpty(NotADatabase):
    """The file is there, and all that was in it is not."""

    hint = "restore a backup; if nothing was ever kept there, remove the file"

    def __init__(self, path: Path) -> None:
        super().__init__(path, "it is empty, as no archive ever is")


class ArchiveForeign(ArchiveError):
    """A database of another program stands where the archive would."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "name another folder with --archive; this file was left alone"

    def __str__(self) -> str:
        return f"{self.path} is a database of another program"


class NotAFolder(ArchiveError):
    """A file stands where the archive's folder would."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "an archive is a folder: name one, or one that does not exist yet"

    def __str__(self) -> str:
        return f"{self.path} is not a folder"


class IndexMissing(ArchiveError):
    """The archive is there; its index is not, or is of no use to this version."""

    hint = "run `bygones rebuild`, which makes the index anew from the archive"

    def __str__(self) -> str:
        return f"the archive in {self.path} has no index that can be used"


class IndexDamaged(ArchiveError):
    """Bytes of the index are not what was written; the archive is another matter."""

    hint = "run `bygones rebuild`, which makes the index anew from the archive"

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(path)
        self.detail = detail

    def __str__(self) -> str:
        return f"the index of the archive in {self.path} is damaged: {self.detail}"


class BackupRefused(ArchiveError):
    """What stands at the place of a backup is not an older backup of this archive."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "name a folder that does not exist yet, or that holds an older backup"

    def __str__(self) -> str:
        return f"{self.path} holds something other than a backup of this archive"


class BackupNewer(ArchiveError):
    """What stands at the place of a backup has something that the archive has not."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = (
        "nothing was changed; name a folder that does not exist yet, or, if that is the"
        " archive to keep, back it up the other way round"
    )

    def __init__(
        self, path: Path, archive: Path, more: str, *, is_parted: bool
    ) -> None:
        super().__init__(path)
        self.archive = archive
        self.more = more
        """What it has more, in words."""
        self.is_parted = is_parted
        """Whether the archive has something that it has not, too."""

    def __str__(self) -> str:
        more = f"it has {self.more} that {self.archive} has not"
        if self.is_parted:
            return f"{self.path} is no older backup: both were written to, and {more}"
        return f"{self.path} is newer than the archive in {self.archive}: {more}"
