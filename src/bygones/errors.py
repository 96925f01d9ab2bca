"""The errors that Bygones raises, with message, hint and exit code.

* BygonesError
  - NoTranscriptsFound
    + HomeNotFound
    + NotATranscript
  - PathNotFound
  - InvalidSelector
  - NotInArchive
  - UnknownResultNumber
  - AmbiguousSelector
  - AddressUnavailable
  - SystemFailure
    + PathUnusable
  - ClaudeNotFound
  - NothingToFork
  - ProjectDirectoryGone
  - InvalidRedactPattern
  - InvalidSettings
  - InvalidPrices
  - InvalidCursor
  - UnreadableFile
  - NotATextFile
  - FileModifiedConcurrently
  - BadRequest
  - QueryError
    + QueryTooLong
    + QueryTooDeep
    + MissingFieldValue
    + InvalidFieldValue
    + InvalidTime
    + InvalidRegex
    + UngroupableField
  - ArchiveError
    + ArchiveNotFound
      * NoArchiveAndNoHome
    + ArchiveTooNew
    + ArchiveInUse
      * IndexBusy
    + ArchiveNotOwned
    + ArchiveNotAFolder
    + ArchiveDamaged
      * NotADatabase
        - ArchiveEmpty
      * NothingRecovered
    + IndexNotFound
      * PurgeUnfinished
    + IndexDamaged
    + NotABackup
    + BackupNewer
  - StoreError
  - SourceUpdateRejected
  - InvalidStoreURL
  - MissingDependency
  - UnsupportedOnTeamStore
  - PushNotConfigured
  - HubUnreachable
  - HubRejected
  - ErasureOnHold
  - InvalidAccountName
  - UploadRejected
    + UploadTooLarge
  - ScannerNotFound
  - ScannerFailed
  - SecretsDetected
  - ExportIncomplete

A `bygones.model.base.Problem` is not an error: it describes something odd in a
transcript, is stored with the records and never raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import ClassVar, NamedTuple, Self, dataclass_transform


class ExitCode(IntEnum):
    """How a command ended; `meaning` is printed in the documentation."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    SUCCESS = 0, "The command succeeded."
    FAILURE = 1, "The command failed, or a search found nothing."
    USAGE_ERROR = 2, "A command, an option, a name or a path is wrong."
    NO_ARCHIVE = 10, "There is no archive yet."
    ARCHIVE_TOO_NEW = 11, "A newer version of Bygones wrote the archive."
    ARCHIVE_IN_USE = 12, "Another command is writing to the archive."
    ARCHIVE_DAMAGED = 13, "The archive is damaged."
    INTERRUPTED = 130, "The command was interrupted with Ctrl-C."


@dataclass_transform(eq_default=False)
class BygonesError(Exception):
    """Base class of all errors.

    Subclasses declare their fields like a dataclass, and a `message` that is formatted
    with them: `message = "{self.path} does not exist"`.
    """

    message: ClassVar[str]
    hint: ClassVar[str]
    """What the user can do about it."""
    exit_code: ClassVar[ExitCode] = ExitCode.FAILURE
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        # Not real dataclasses: importing `dataclasses` would slow down every start.
        new = [
            name
            for name, annotation in cls.__annotations__.items()
            if name not in cls._fields and not annotation.startswith("ClassVar")
        ]
        cls._fields = (*cls._fields, *new)

    def __init__(self, *args: object, **fields: object) -> None:
        super().__init__(*args)
        vars(self).update(zip(self._fields, args, strict=False))
        vars(self).update(fields)

    def __str__(self) -> str:
        return self.message.format(self=self)

    @property
    def lines(self) -> Sequence[str]:
        """The message as lines, for a terminal."""
        return (str(self),)


class ArchiveError(BygonesError):
    """The archive in a folder cannot be used."""

    path: Path


class ArchiveNotFound(ArchiveError):
    """There is no archive in the folder."""

    exit_code = ExitCode.NO_ARCHIVE
    message = "no archive in {self.path}"
    hint = "run `bygones ingest` to create one"


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
    """A file exists where the folder of the archive should be."""

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.path} is not a folder"
    hint = "an archive is a folder; choose one, or a path that does not exist yet"


class IndexNotFound(ArchiveError):
    """The archive has no index, or one that this version cannot use."""

    message = "the archive in {self.path} has no usable index"
    hint = "run `bygones rebuild` to create it again from the archive"


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
        " and target if that is the archive to keep"
    )

    def __str__(self) -> str:
        more = f"it has {self.surplus} that {self.archive} lacks"
        if self.has_diverged:
            return (
                f"{self.path} is not an older backup: both were written to, and {more}"
            )
        return f"{self.path} is newer than the archive in {self.archive}: {more}"


class QuerySpan(NamedTuple):
    """A range of characters in a query."""

    query: str
    offset: int
    length: int


class QueryError(BygonesError):
    """A query is invalid at a position."""

    span: QuerySpan

    exit_code = ExitCode.USAGE_ERROR
    context_width: ClassVar[int] = 30
    """Characters before and after the span that `marked_excerpt` shows."""
    max_width: ClassVar[int] = 100
    """Width of `marked_excerpt` at most."""

    @property
    def text(self) -> str:
        """The invalid part of the query."""
        query, offset, length = self.span
        return query[offset : offset + length]

    @property
    def marked_excerpt(self) -> str:
        """Two lines: the query around the span, and marks below the span."""
        query, offset, length = self.span
        first = max(0, offset - self.context_width)
        last = min(offset + length + self.context_width, first + self.max_width)
        shown = "".join(c if c.isprintable() else " " for c in query[first:last])
        marks = max(1, min(length, last - offset))
        return f"{shown}\n{' ' * (offset - first)}{'^' * marks}"

    @property
    def _character(self) -> int:
        return self.span.offset + 1

    @property
    def _quoted(self) -> str:
        cut = "…" if self.span.length > self.context_width else ""
        quoted = self.text[: self.context_width] + cut
        return f"{quoted!r} at character {self._character}"


class QueryTooLong(QueryError):
    """A query exceeds the maximum length."""

    hint = "search for a few words of it, or for one line in quotation marks"

    def __init__(self, query: str, limit: int) -> None:
        super().__init__(QuerySpan(query, limit, len(query) - limit))
        self.limit = limit

    def __str__(self) -> str:
        length = len(self.span.query)
        return (
            f"the query has {length:,} characters; at most {self.limit:,} are allowed"
        )


class QueryTooDeep(QueryError):
    """Groups are nested too deeply."""

    limit: int

    message = (
        "the parenthesis at character {self._character} is nested more than"
        " {self.limit} deep"
    )
    hint = (
        "leave out parentheses that are not needed, or put the text in quotation marks"
    )


class MissingFieldValue(QueryError):
    """A field of a query has no value."""

    field: str
    example: str

    message = (
        "{self.field}: at character {self._character} has no value;"
        " write it like {self.example}"
    )
    hint = "put a value after the colon, or \\ before the name to search for the word"


class InvalidFieldValue(QueryError):
    """A field that allows a few values was given another one."""

    field: str
    allowed_values: Sequence[str]
    suggestion: str = ""

    hint = "`bygones help query` lists the fields and their values"

    def __str__(self) -> str:
        suggestion = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return (
            f"{self._quoted} is not a value of {self.field}:;"
            f" use {', '.join(self.allowed_values)}{suggestion}"
        )


class InvalidTime(QueryError):
    """The value of a time field is not a time."""

    field: str

    message = "{self._quoted} is not a valid time for {self.field}:"
    hint = 'use 2025-12-01, 2025-12, 3h, 2d, yesterday or "last week"'


class InvalidRegex(QueryError):
    """A regular expression is invalid, or could take too long."""

    detail: str

    message = "the regular expression is invalid at character {self._character}: {self.detail}"
    hint = "put the text in quotation marks to search for it literally"


class UngroupableField(QueryError):
    """Usage cannot be filtered by a field that only texts have."""

    hint = (
        "filter by project, session, title, tag, git or time, and (except with --by tool)"
        " by model, entrypoint, agent or branch"
    )

    def __init__(self, term: str, grouping: str = "") -> None:
        super().__init__(QuerySpan(term, 0, len(term)))
        self.grouping = grouping

    def __str__(self) -> str:
        grouped = f" by {self.grouping}" if self.grouping else ""
        return f"usage{grouped} cannot be filtered by {self.text!r}"


class PushNotConfigured(BygonesError):
    """The settings do not say which projects to push, or where."""

    setting: str

    exit_code = ExitCode.USAGE_ERROR
    message = "the settings have no {self.setting} under [push]"
    hint = (
        'add [push] with hub = "https://…" and projects = ["~/work/shop"] to'
        " settings.toml; `bygones doctor` shows its path"
    )


class HubUnreachable(BygonesError):
    """A hub did not answer after all retries."""

    url: str
    reason: str

    message = "{self.url} cannot be reached: {self.reason}"
    hint = "nothing is lost: the next push continues where this one stopped"


class HubRejected(BygonesError):
    """A hub answered and rejected the request."""

    url: str
    reason: str

    message = "{self.url} rejected the request: {self.reason}"
    hint = (
        "check the address and the token; the hub's administrator can issue a new one"
    )


class InvalidAccountName(BygonesError):
    """A name is not valid for a person or a team."""

    name: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.name!r} is not a valid name for a person or a team"
    hint = "use lowercase letters, digits and . _ @ + -; start with a letter or a digit"


class UploadRejected(BygonesError):
    """A hub received an upload that it cannot accept."""

    reason: str

    exit_code = ExitCode.USAGE_ERROR
    message = "the upload was rejected: {self.reason}"
    hint = "use the same version of Bygones on both sides"


class UploadTooLarge(UploadRejected):
    """An upload, its file or its sender has more bytes than the hub accepts."""

    hint = "ask the administrator of the hub for a higher limit"


class ErasureOnHold(BygonesError):
    """All sessions that a purge on a hub selected are on hold."""

    session_count: int

    hint = "`bygones hub hold` lists holds and reasons; --release removes one"

    def __str__(self) -> str:
        which = "the session" if self.session_count == 1 else "every session"
        return f"nothing was erased: {which} is on hold ({self.session_count:,})"


class StoreError(BygonesError):
    """The database of a team's archive failed."""

    detail: str
    is_permanent: bool = False
    """Whether trying again cannot help."""

    message = "the team's store: {self.detail}"
    hint = "check that the server is running, its address and your permissions"


class SourceUpdateRejected(BygonesError):
    """Bytes that were pushed do not continue the stored source."""

    source_name: str
    reason: str

    message = "{self.source_name} was rejected: {self.reason}"
    hint = "ask the hub how much of the source it has, and continue from there"


class InvalidStoreURL(BygonesError):
    """The address of a team's archive is invalid."""

    reason: str

    exit_code = ExitCode.USAGE_ERROR
    message = "invalid archive address: {self.reason}"
    hint = "use postgresql://server/database?person=ann or clickhouse://server?…"


class MissingDependency(BygonesError):
    """An optional package is not installed."""

    package: str

    message = "this needs {self.package}, which is not installed"
    hint = "run `pip install bygones[team]`"


class UnsupportedOnTeamStore(BygonesError):
    """A command needs the files of an archive folder."""

    name: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.name} is a team store, which has no files of its own"
    hint = "use an archive in a folder; team stores are managed with `bygones hub`"


class ScannerNotFound(BygonesError):
    """None of the supported secret scanners is installed."""

    names: Sequence[str]

    exit_code = ExitCode.USAGE_ERROR
    hint = "install gitleaks, or run `pip install kingfisher-bin`"

    def __str__(self) -> str:
        return f"no secret scanner is installed: {', '.join(self.names)}"


class ScannerFailed(BygonesError):
    """The secret scanner failed."""

    name: str
    code: int

    message = "{self.name} failed with exit code {self.code}"
    hint = (
        "nothing was written; run the scanner directly to see why, or export without"
        " --second-opinion"
    )


class SecretsDetected(BygonesError):
    """A secret scanner found something in what was about to be exported."""

    count: int
    kinds: Sequence[str]

    hint = (
        "nothing was written; add a pattern under [redact] in your settings, or export"
        " without --second-opinion"
    )

    def __str__(self) -> str:
        places = "1 place" if self.count == 1 else f"{self.count:,} places"
        return f"possible secrets in {places}: {', '.join(self.kinds)}"


class ExportIncomplete(BygonesError):
    """Some sessions could not be exported; the others were."""

    count: int
    first_session: str
    first_error: Exception

    hint = (
        "the other sessions were written; `bygones verify` finds damage in the archive"
    )

    def __str__(self) -> str:
        sessions = "1 session" if self.count == 1 else f"{self.count:,} sessions"
        reason = str(self.first_error) or type(self.first_error).__name__
        return (
            f"{sessions} could not be exported; the first is {self.first_session}: "
            f"{reason}"
        )


class NoTranscriptsFound(BygonesError):
    """The given paths contain no transcripts."""

    hint = "give a transcript, a folder of transcripts or a Claude Code home"

    def __init__(self, *paths: Path) -> None:
        super().__init__(*paths)
        self.paths = paths

    def __str__(self) -> str:
        return f"no transcripts in {', '.join(map(str, self.paths))}"


class NotATranscript(NoTranscriptsFound):
    """A file has no line that is a record."""

    exit_code = ExitCode.USAGE_ERROR

    def __str__(self) -> str:
        return f"{self.paths[0]} is not a transcript: no line of it is a record"


class HomeNotFound(NoTranscriptsFound):
    """There is no home in the default locations, and none was given."""

    hint = "use --home PATH for another location; `bygones demo` creates sample data"

    def __str__(self) -> str:
        places = "CLAUDE_CONFIG_DIR, ~/.claude and ~/.config/claude"
        return f"no Claude Code home found in {places}"


class PathNotFound(BygonesError):
    """A path does not exist."""

    path: Path

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.path} does not exist"
    hint = "check the spelling; paths are relative to the current directory"


class InvalidSelector(BygonesError):
    """A name on the command line is not valid Unicode."""

    name: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.name!r} is not valid text"
    hint = "use an id, or a path that is valid Unicode"


class NotInArchive(BygonesError):
    """The archive has no session, record or project of this name."""

    kind: str
    name: str
    suggestions: Sequence[str] = ()

    exit_code = ExitCode.USAGE_ERROR
    hint = "`bygones list --all` lists sessions, `bygones projects` lists projects"

    def __str__(self) -> str:
        names = ", ".join(self.suggestions)
        suggestion = f"; did you mean {names}?" if names else ""
        return f"no {self.kind} {self.name!r} in the archive{suggestion}"


class UnknownResultNumber(BygonesError):
    """The last search has no result of this number."""

    name: str
    available: str

    exit_code = ExitCode.USAGE_ERROR
    message = "there is no result {self.name}: {self.available}"
    hint = "search again, or use the first characters of a session id"


class AmbiguousSelector(BygonesError):
    """Several sessions, records or projects match a name."""

    kind: str
    name: str
    candidates: Sequence[str]
    """What matches, one text each."""
    more_count: int = 0
    """How many more match."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "use more characters, or the full id or path"

    def __str__(self) -> str:
        return f"{self._summary}: {'; '.join(self._listed)}"

    @property
    def lines(self) -> Sequence[str]:
        return (f"{self._summary}:", *(f"  {line}" for line in self._listed))

    @property
    def _summary(self) -> str:
        count = len(self.candidates) + self.more_count
        return f"{self.name!r} matches {count:,} {self.kind}s"

    @property
    def _listed(self) -> list[str]:
        more = [f"and {self.more_count:,} more"] if self.more_count else []
        return [*self.candidates, *more]


class AddressUnavailable(BygonesError):
    """A server cannot listen at the given address."""

    host: str
    port: int
    reason: str

    message = "cannot listen on {self.host} port {self.port}: {self.reason}"
    hint = "choose another port with --port, and check --host if you gave one"


class SystemFailure(BygonesError):
    """The operating system reported an error: disk, memory or permissions."""

    reason: str

    message = "the system reported an error: {self.reason}"
    hint = (
        "check disk space, memory and permissions, then try again; the archive is"
        " intact, and the next run continues"
    )


class PathUnusable(SystemFailure):
    """A path is missing, not permitted, or not what the command needs."""

    message = "{self.reason}"
    hint = "check the path and its permissions, or choose another one"


class InvalidPrices(BygonesError):
    """The user's own price file is invalid."""

    path: Path
    reason: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.path} is not a valid price file: {self.reason}"
    hint = "fix or remove the file; without it, the built-in prices are used"


class InvalidCursor(BygonesError):
    """A cursor does not belong to this listing."""

    cursor: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.cursor!r} is not a valid cursor for this list"
    hint = "use the cursor of the last response, or none"


class UnreadableFile(BygonesError):
    """A settings file of another program is invalid."""

    path: Path
    reason: str

    message = "{self.path} cannot be read: {self.reason}"
    hint = "nothing was changed; fix the file and try again"


class NotATextFile(BygonesError):
    """A file that is shown line by line is binary."""

    path: Path

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.path} is not a text file"
    hint = "only text files have lines"


class FileModifiedConcurrently(BygonesError):
    """Another program wrote to a file while it was being changed."""

    path: Path

    message = "another program is writing to {self.path}"
    hint = "nothing was changed; try again"


class ClaudeNotFound(BygonesError):
    """Claude Code is not installed, or not found."""

    message = "cannot start claude: it is not installed, or not on PATH"
    hint = "install Claude Code, or leave out --run to print the command"


class ProjectDirectoryGone(BygonesError):
    """The directory of a session does not exist."""

    directory: str

    message = "cannot start claude: {self.directory} does not exist"
    hint = (
        "create it, or continue elsewhere with `bygones fork SESSION --into DIR`"
        " or `bygones restore --as DIR --rewrite-cwd SESSION`"
    )


class NothingToFork(BygonesError):
    """A fork would contain no message."""

    session: str

    exit_code = ExitCode.USAGE_ERROR
    message = "nothing comes before that point of session {self.session}"
    hint = "choose a later turn, or use --through to include the turn"


class InvalidRedactPattern(BygonesError):
    """A pattern in the settings is not a valid regular expression."""

    pattern: str
    detail: str

    exit_code = ExitCode.USAGE_ERROR
    message = "invalid pattern {self.pattern!r}: {self.detail}"
    hint = "patterns are RE2 expressions: no look-around, no back-references"


class InvalidSettings(BygonesError):
    """The user's settings are invalid."""

    location: Path | str
    """The settings file, or the name of an environment variable."""
    reason: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.location} is invalid: {self.reason}"
    hint = (
        "valid settings are archive, homes, color, iso, ingest, pager, [redact] and"
        " [push]; all are optional"
    )


class BadRequest(BygonesError):
    """The parameters of a web request are invalid."""

    reason: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.reason}"
    hint = "go back, or start from the list of sessions"


class NoArchiveAndNoHome(ArchiveNotFound):
    """There is no archive in the folder, and nothing to import into one."""

    hint = (
        "`bygones ingest --home PATH` imports a home from another location;"
        " `bygones demo` creates sample data"
    )

    def __str__(self) -> str:
        return f"{super().__str__()}, and {HomeNotFound()}"
