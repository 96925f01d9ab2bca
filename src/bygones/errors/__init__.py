"""What can go wrong, and what the command line says when it does.

* BygonesError
  - NothingFound
    + NoHome
  - PathMissing
  - NameUnreadable
  - NotArchived
  - NumberUnknown
  - Ambiguous
  - SystemRefused
  - ResumeRefused
  - PatternRefused
  - SettingsUnreadable
  - PricesUnreadable
  - CursorUnreadable
  - FileUnreadable
  - FileChanged
  - BadRequest
  - QueryError
    + QueryTooLong
    + QueryTooDeep
    + FieldEmpty
    + ValueUnknown
    + TimeUnreadable
    + RegexRefused
    + NotSummed
  - ArchiveError
    + ArchiveMissing
      * NothingToShow
    + ArchiveTooNew
    + ArchiveInUse
      * IndexAwaited
    + ArchiveForeign
    + NotAFolder
    + ArchiveDamaged
      * NotADatabase
        - ArchiveEmpty
    + IndexMissing
    + IndexDamaged
    + BackupRefused
    + BackupNewer
  - StoreError
  - BatchRefused
  - PlaceUnreadable
  - ExtraMissing
  - NotOfTeams
  - NothingNamed
  - HubUnreachable
  - HubRefused
  - ErasureHeld
  - TokenRefused
  - ParcelRefused
  - ScannerMissing
  - ScannerFailed
  - SecretsSuspected

A *problem* (:mod:`bygones.model.problems`) is not an error: it is a fact about
someone's transcript, kept beside the records and never raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bygones.errors.archive import (
    ArchiveDamaged,
    ArchiveEmpty,
    ArchiveError,
    ArchiveForeign,
    ArchiveInUse,
    ArchiveMissing,
    ArchiveTooNew,
    BackupNewer,
    BackupRefused,
    IndexAwaited,
    IndexDamaged,
    IndexMissing,
    NotADatabase,
    NotAFolder,
)
from bygones.errors.hub import (
    ErasureHeld,
    HubRefused,
    HubUnreachable,
    NothingNamed,
    ParcelRefused,
    TokenRefused,
)
from bygones.errors.queries import (
    FieldEmpty,
    NotSummed,
    Place,
    QueryError,
    QueryTooDeep,
    QueryTooLong,
    RegexRefused,
    TimeUnreadable,
    ValueUnknown,
)
from bygones.errors.root import BygonesError, ExitCode
from bygones.errors.scanning import ScannerFailed, ScannerMissing, SecretsSuspected
from bygones.errors.team import (
    BatchRefused,
    ExtraMissing,
    NotOfTeams,
    PlaceUnreadable,
    StoreError,
)

__all__ = [
    "Ambiguous",
    "ArchiveDamaged",
    "ArchiveEmpty",
    "ArchiveError",
    "ArchiveForeign",
    "ArchiveInUse",
    "ArchiveMissing",
    "ArchiveTooNew",
    "BackupNewer",
    "BackupRefused",
    "BadRequest",
    "BatchRefused",
    "BygonesError",
    "CursorUnreadable",
    "ErasureHeld",
    "ExitCode",
    "ExtraMissing",
    "FieldEmpty",
    "FileChanged",
    "FileUnreadable",
    "HubRefused",
    "HubUnreachable",
    "IndexAwaited",
    "IndexDamaged",
    "IndexMissing",
    "NameUnreadable",
    "NoHome",
    "NotADatabase",
    "NotAFolder",
    "NotArchived",
    "NotOfTeams",
    "NotSummed",
    "NothingFound",
    "NothingNamed",
    "NothingToShow",
    "NumberUnknown",
    "ParcelRefused",
    "PathMissing",
    "PatternRefused",
    "Place",
    "PlaceUnreadable",
    "PricesUnreadable",
    "QueryError",
    "QueryTooDeep",
    "QueryTooLong",
    "RegexRefused",
    "ResumeRefused",
    "ScannerFailed",
    "ScannerMissing",
    "SecretsSuspected",
    "SettingsUnreadable",
    "StoreError",
    "SystemRefused",
    "TimeUnreadable",
    "TokenRefused",
    "ValueUnknown",
]


class NothingFound(BygonesError):
    """No transcripts in the places looked at, or no place to look at."""

    hint = "name a transcript, a folder of transcripts or a Claude Code home"

    def __init__(self, *looked_in: Path) -> None:
        super().__init__(*looked_in)
        self.looked_in = looked_in

    def __str__(self) -> str:
        return f"no transcripts in {', '.join(map(str, self.looked_in))}"


class NoHome(NothingFound):
    """Nobody named a home, and there is none in the usual places."""

    hint = "--home names one that lies elsewhere; `bygones demo` makes one up to try"

    def __str__(self) -> str:
        places = "CLAUDE_CONFIG_DIR, ~/.claude and ~/.config/claude"
        return f"no Claude Code home is found; looked at: {places}"


class PathMissing(BygonesError):
    """A path that was asked for is not there."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "check the spelling; a path is taken from the current directory"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} does not exist"


class NameUnreadable(BygonesError):
    """A name that was given holds bytes that are no text."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "give another name: an id, or a path that is text"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name!r} is not text"


class NotArchived(BygonesError):
    """The archive has no session, record or project of this name."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "`bygones list --all` and `bygones projects` say what there is"

    def __init__(self, what: str, name: str, close: Sequence[str] = ()) -> None:
        super().__init__(what, name, close)
        self.what = what
        self.name = name
        self.close = close

    def __str__(self) -> str:
        meant = f"; did you mean {', '.join(self.close)}?" if self.close else ""
        return f"the archive has no {self.what} {self.name!r}{meant}"


class NumberUnknown(BygonesError):
    """The last search found nothing of this number."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "search again, or give the beginning of a session's id"

    def __init__(self, name: str, there: str) -> None:
        super().__init__(name, there)
        self.name = name
        self.there = there

    def __str__(self) -> str:
        return f"there is no {self.name}: {self.there}"


class Ambiguous(BygonesError):
    """Several sessions, records or projects are called so."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "give more of the beginning, or the whole of it"

    def __init__(self, what: str, name: str, fitting: Sequence[str]) -> None:
        super().__init__(what, name, fitting)
        self.what = what
        self.name = name
        self.fitting = fitting

    def __str__(self) -> str:
        return f"{self.name!r} may be {self.what} {' or '.join(self.fitting)}"


class SystemRefused(BygonesError):
    """The operating system refused something: no room, no memory, no right, no disk."""

    hint = (
        "check the room on the disk and in memory, and who may write there, then run it"
        " again: what is in the archive is whole, and the rest is made good"
    )

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the system refused: {self.reason}"


class PricesUnreadable(BygonesError):
    """A user's own file of prices is not what it should be."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "docs/guide/usage.md shows the form; without the file our prices are used"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} holds no prices: {self.reason}"


class CursorUnreadable(BygonesError):
    """A cursor with which no answer can go on."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "give the cursor as it stands in the last answer, or none"

    def __init__(self, cursor: str) -> None:
        super().__init__(cursor)
        self.cursor = cursor

    def __str__(self) -> str:
        return f"{self.cursor!r} is no cursor of this answer"


class FileUnreadable(BygonesError):
    """A file of another program's settings is not what it should be."""

    hint = (
        "nothing was changed; mend the file, or add by hand what is shown in the docs"
    )

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be read: {self.reason}"


class FileChanged(BygonesError):
    """Somebody wrote to a file while it was being changed."""

    hint = "nothing was changed; try again"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} was written to by another program just now"


class ResumeRefused(BygonesError):
    """Claude Code cannot be started for a session: no program, or no directory."""

    hint = "leave out --run to see what would be run; restore --as moves a session"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"claude cannot be started: {self.reason}"


class PatternRefused(BygonesError):
    """A pattern of the user's settings is no regular expression."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "patterns are RE2 expressions: no look-around, no references back"

    def __init__(self, pattern: str, detail: str) -> None:
        super().__init__(pattern, detail)
        self.pattern = pattern
        self.detail = detail

    def __str__(self) -> str:
        return f"the pattern {self.pattern!r} cannot be used: {self.detail}"


class SettingsUnreadable(BygonesError):
    """The user's settings are not what they should be."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "docs/reference/settings.md shows what can be set; nothing need be"

    def __init__(self, place: Path | str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        """The file, or the name of a variable."""
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.place} holds no settings: {self.reason}"


class BadRequest(BygonesError):
    """An address that asks for something that cannot be."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "go back, or begin at the list of sessions"

    def __init__(self, words: str) -> None:
        super().__init__(words)


class NothingToShow(ArchiveMissing):
    """There is no archive in the folder, and nothing to make one of."""

    hint = (
        "`bygones ingest --home PATH` takes in a home that lies elsewhere;"
        " `bygones demo` makes one up to try"
    )

    def __str__(self) -> str:
        return f"{super().__str__()}, and {NoHome()}"
