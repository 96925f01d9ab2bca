"""What every error has: a sentence, a hint and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import ClassVar, NamedTuple, Self


class ExitCode(IntEnum):
    """How a command ended; ``meaning`` is the sentence the documentation prints."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Make a member that is its code and carries its meaning."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    SUCCESS = 0, "The command did what was asked."
    FAILURE = 1, "The command could not do what was asked."
    USAGE_ERROR = 2, "The command, an option or a path was given wrongly."
    NO_ARCHIVE = 10, "There is no archive yet."
    ARCHIVE_TOO_NEW = 11, "A newer version of Bygones wrote the archive."
    ARCHIVE_IN_USE = 12, "Another command is writing to the archive."
    ARCHIVE_DAMAGED = 13, "Some bytes of the archive are not what was stored."
    INTERRUPTED = 130, "The command was interrupted with Ctrl-C."


class BygonesError(Exception):
    """Any error of ours: a sentence, a hint on what to do, and an exit code."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILURE
    hint: ClassVar[str]


class ArchiveError(BygonesError):
    """The archive in a folder cannot be used as it was asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


class ArchiveNotFound(ArchiveError):
    """There is no archive in the folder."""

    exit_code = ExitCode.NO_ARCHIVE
    hint = "run `bygones ingest` to make one"

    def __str__(self) -> str:
        return f"no archive in {self.path}"


class ArchiveTooNew(ArchiveError):
    """A newer bygones wrote this archive; this one must not touch it."""

    exit_code = ExitCode.ARCHIVE_TOO_NEW
    hint = "upgrade bygones"

    def __init__(
        self, path: Path, *, found_version: int, supported_version: int
    ) -> None:
        super().__init__(path)
        self.found_version = found_version
        self.supported_version = supported_version

    def __str__(self) -> str:
        return (
            f"{self.path} has version {self.found_version}; "
            f"this bygones knows {self.supported_version}"
        )


class ArchiveInUse(ArchiveError):
    """Another command is writing to the archive."""

    exit_code = ExitCode.ARCHIVE_IN_USE
    hint = "wait until the other command is done; reading works meanwhile"

    def __str__(self) -> str:
        return f"another command is writing to {self.path}"


class IndexBusy(ArchiveInUse):
    """The index is being made at this moment: there is none, or one of no use."""

    hint = "try again in a moment: the index is being made"

    def __init__(self, path: Path, *, is_purging: bool) -> None:
        super().__init__(path)
        self.is_purging = is_purging

    def __str__(self) -> str:
        if self.is_purging:
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


class ArchiveNotOwned(ArchiveError):
    """A database of another program stands where the archive would."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "name another folder with --archive; this file was left alone"

    def __str__(self) -> str:
        return f"{self.path} is a database of another program"


class ArchiveNotAFolder(ArchiveError):
    """A file stands where the archive's folder would."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "an archive is a folder: name one, or one that does not exist yet"

    def __str__(self) -> str:
        return f"{self.path} is not a folder"


class IndexNotFound(ArchiveError):
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


class NotABackup(ArchiveError):
    """What stands at the place of a backup is not an older backup of this archive."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "name a folder that does not exist yet, or that holds an older backup"

    def __str__(self) -> str:
        return f"{self.path} holds something other than a backup of this archive"


class BackupNewer(ArchiveError):
    """What stands at the place of a backup has something that the archive has not."""

    exit_code = ExitCode.USAGE_ERROR
    hint = (
        "nothing was changed; name a folder that does not exist yet, or, if that is the"
        " archive to keep, back it up the other way round"
    )

    def __init__(
        self, path: Path, archive: Path, surplus: str, *, has_diverged: bool
    ) -> None:
        super().__init__(path)
        self.archive = archive
        self.surplus = surplus
        """What it has more, in words."""
        self.has_diverged = has_diverged
        """Whether the archive has something that it has not, too."""

    def __str__(self) -> str:
        more = f"it has {self.surplus} that {self.archive} has not"
        if self.has_diverged:
            return f"{self.path} is no older backup: both were written to, and {more}"
        return f"{self.path} is newer than the archive in {self.archive}: {more}"


class QuerySpan(NamedTuple):
    """Some characters of a query."""

    query: str
    offset: int
    length: int


class QueryError(BygonesError):
    """A query asks for something that cannot be, at a place that it names."""

    exit_code = ExitCode.USAGE_ERROR
    context_width: ClassVar[int] = 30
    """Characters before and behind the place that :attr:`pointed` shows."""
    max_width: ClassVar[int] = 100
    """Characters that it shows at most."""

    def __init__(self, span: QuerySpan) -> None:
        super().__init__(span)
        self.query, self.offset, self.length = span

    @property
    def text(self) -> str:
        """What stands at the place."""
        return self.query[self.offset : self.offset + self.length]

    @property
    def marked_excerpt(self) -> str:
        """Two lines: the query around the place, and marks under the place."""
        first = max(0, self.offset - self.context_width)
        last = min(
            self.offset + self.length + self.context_width, first + self.max_width
        )
        shown = "".join(c if c.isprintable() else " " for c in self.query[first:last])
        marks = max(1, min(self.length, last - self.offset))
        return f"{shown}\n{' ' * (self.offset - first)}{'^' * marks}"

    @property
    def _quoted(self) -> str:
        cut = "…" if self.length > self.context_width else ""
        return (
            f"{self.text[: self.context_width] + cut!r} at character {self.offset + 1}"
        )


class QueryTooLong(QueryError):
    """A query is longer than any that a person types."""

    hint = "search for a few words of it, or for one line in quotation marks"

    def __init__(self, query: str, limit: int) -> None:
        super().__init__(QuerySpan(query, limit, len(query) - limit))
        self.limit = limit

    def __str__(self) -> str:
        return f"a query has at most {self.limit:,} characters, not {len(self.query):,}"


class QueryTooDeep(QueryError):
    """Groups stand in groups more often than is allowed."""

    hint = (
        "leave out parentheses that are not needed, or put the text in quotation marks"
    )

    def __init__(self, span: QuerySpan, limit: int) -> None:
        super().__init__(span)
        self.limit = limit

    def __str__(self) -> str:
        return f"the parenthesis at character {self.offset + 1} is inside {self.limit} others"


class MissingFieldValue(QueryError):
    """A field has no value."""

    hint = "put a value right behind the colon, or \\ before the name to find the word"

    def __init__(self, span: QuerySpan, *, field: str, example: str) -> None:
        super().__init__(span)
        self.field = field
        self.example = example

    def __str__(self) -> str:
        return (
            f"{self.field}: at character {self.offset + 1} has no value;"
            f" write it like {self.example}"
        )


class InvalidFieldValue(QueryError):
    """A field that has only a few values was given another one."""

    hint = "`bygones help query` lists the fields and their values"

    def __init__(
        self,
        span: QuerySpan,
        *,
        field: str,
        allowed_values: Sequence[str],
        suggestion: str = "",
    ) -> None:
        super().__init__(span)
        self.field = field
        self.allowed_values = allowed_values
        self.suggestion = suggestion

    def __str__(self) -> str:
        meant = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return (
            f"{self._quoted} is no value of {self.field}:,"
            f" which has {', '.join(self.allowed_values)}{meant}"
        )


class InvalidTime(QueryError):
    """The value of a field of times is none."""

    hint = 'times are like 2025-12-01, 2025-12, 3h, 2d, yesterday, "last week"'

    def __init__(self, span: QuerySpan, *, field: str) -> None:
        super().__init__(span)
        self.field = field

    def __str__(self) -> str:
        return f"{self._quoted} is no time that {self.field}: can use"


class InvalidRegex(QueryError):
    """A regular expression is wrong, or could take for ever."""

    hint = "put the text in quotation marks to find it as it stands"

    def __init__(self, span: QuerySpan, *, detail: str) -> None:
        super().__init__(span)
        self.detail = detail

    def __str__(self) -> str:
        return f"the regular expression fails at character {self.offset + 1}: {self.detail}"


class UngroupableField(QueryError):
    """A query asks usage for what is known of texts only."""

    hint = (
        "project, session, title, tag, git and times work here; unless by tool also"
        " model, entrypoint, agent and branch"
    )

    def __init__(self, term: str, grouping: str = "") -> None:
        super().__init__(QuerySpan(term, 0, len(term)))
        self.grouping = grouping

    def __str__(self) -> str:
        behind = f" by {self.grouping}" if self.grouping else ""
        return f"usage{behind} cannot be limited to {self.text!r}"


class NoProjectsSelected(BygonesError):
    """Something would be sent, and nobody said what or where to."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "docs/guide/team.md shows the settings; nothing leaves that is not named"

    def __init__(self, setting: str) -> None:
        super().__init__(setting)
        self.setting = setting

    def __str__(self) -> str:
        return f"[push] in the settings names no {self.setting}"


class HubUnreachable(BygonesError):
    """A hub did not answer, however often it was asked."""

    hint = "nothing is lost: the next push goes on where this one stopped"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.url} cannot be reached: {self.reason}"


class HubRejected(BygonesError):
    """A hub answered, and will not take what it is sent."""

    hint = "look at the address and the token; whoever runs the hub can make a new one"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.url} refused: {self.reason}"


class InvalidAccountName(BygonesError):
    """A name that no person or team can have."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "use small letters, digits and . _ @ + -; begin with a letter or a digit"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name!r} is no name of a person or a team"


class UploadRejected(BygonesError):
    """What came to a hub is nothing that it could take."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "bring both ends to the same version of bygones"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the parcel was refused: {self.reason}"


class ErasureOnHold(BygonesError):
    """All that would have been erased from a hub is held."""

    hint = "bygones hub hold lists what is held and why; --release takes a hold back"

    def __init__(self, session_count: int) -> None:
        super().__init__(session_count)
        self.session_count = session_count

    def __str__(self) -> str:
        which = "the session that fits" if self.session_count == 1 else "every session"
        return f"nothing was erased: {which} is held ({self.session_count:,})"


class StoreError(BygonesError):
    """The engine of a team's archive did not do what was asked."""

    hint = "look whether the server runs, and whether its address and rights are right"

    def __init__(self, detail: str, *, is_permanent: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.is_permanent = is_permanent
        """Whether it cannot take what it was given, whenever that is tried again."""

    def __str__(self) -> str:
        return f"the team's store: {self.detail}"


class SourceUpdateRejected(BygonesError):
    """What was sent does not fit what is there."""

    hint = "ask the hub up to where it has the source, and go on from there"

    def __init__(self, source_name: str, reason: str) -> None:
        super().__init__(source_name, reason)
        self.source_name = source_name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.source_name} was refused: {self.reason}"


class InvalidStoreURL(BygonesError):
    """An address of a team's archive does not say what it has to."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "write postgresql://server/database?person=ann, or clickhouse://server?…"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the address of the archive cannot be used: {self.reason}"


class MissingDependency(BygonesError):
    """What is asked for needs packages that are not installed."""

    hint = "run `pip install bygones[team]`"

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package

    def __str__(self) -> str:
        return f"this needs {self.package}, which is not installed"


class UnsupportedOnTeamStore(BygonesError):
    """What works on the files of a folder was asked of a team's archive."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "use an archive in a folder; a team's is kept with `bygones hub`"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} is a team's archive, which has no files of its own"


class ScannerNotFound(BygonesError):
    """A second opinion was asked for, and no program is there to give one."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "gitleaks is in many package managers; pip install kingfisher-bin works too"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.names = tuple(names)

    def __str__(self) -> str:
        return f"no program for a second opinion is installed: {', '.join(self.names)}"


class ScannerFailed(BygonesError):
    """The program that was to give a second opinion gave none."""

    hint = "nothing was written; run it by itself to see why, or export without it"

    def __init__(self, name: str, code: int) -> None:
        super().__init__(name, code)
        self.name = name
        self.code = code

    def __str__(self) -> str:
        return f"{self.name} gave no opinion, and ended with {self.code}"


class SecretsDetected(BygonesError):
    """Another program sees a secret in what was about to be written."""

    hint = "nothing was written; hide it by a pattern, or export without the opinion"

    def __init__(self, count: int, kinds: Sequence[str]) -> None:
        super().__init__(count, kinds)
        self.count = count
        self.kinds = tuple(kinds)

    def __str__(self) -> str:
        places = "1 place" if self.count == 1 else f"{self.count:,} places"
        return f"secrets may be left in {places}: {', '.join(self.kinds)}"


class NoTranscriptsFound(BygonesError):
    """No transcripts in the places looked at, or no place to look at."""

    hint = "name a transcript, a folder of transcripts or a Claude Code home"

    def __init__(self, *paths: Path) -> None:
        super().__init__(*paths)
        self.paths = paths

    def __str__(self) -> str:
        return f"no transcripts in {', '.join(map(str, self.paths))}"


class HomeNotFound(NoTranscriptsFound):
    """Nobody named a home, and there is none in the usual places."""

    hint = "--home names one that lies elsewhere; `bygones demo` makes one up to try"

    def __str__(self) -> str:
        places = "CLAUDE_CONFIG_DIR, ~/.claude and ~/.config/claude"
        return f"no Claude Code home is found; looked at: {places}"


class PathNotFound(BygonesError):
    """A path that was asked for is not there."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "check the spelling; a path is taken from the current directory"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} does not exist"


class InvalidSelector(BygonesError):
    """A name that was given holds bytes that are no text."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "give another name: an id, or a path that is text"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name!r} is not text"


class NotInArchive(BygonesError):
    """The archive has no session, record or project of this name."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "`bygones list --all` and `bygones projects` say what there is"

    def __init__(self, kind: str, name: str, suggestions: Sequence[str] = ()) -> None:
        super().__init__(kind, name, suggestions)
        self.kind = kind
        self.name = name
        self.suggestions = suggestions

    def __str__(self) -> str:
        meant = (
            f"; did you mean {', '.join(self.suggestions)}?" if self.suggestions else ""
        )
        return f"the archive has no {self.kind} {self.name!r}{meant}"


class UnknownResultNumber(BygonesError):
    """The last search found nothing of this number."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "search again, or give the beginning of a session's id"

    def __init__(self, name: str, available: str) -> None:
        super().__init__(name, available)
        self.name = name
        self.available = available

    def __str__(self) -> str:
        return f"there is no {self.name}: {self.available}"


class AmbiguousSelector(BygonesError):
    """Several sessions, records or projects are called so."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "give more of the beginning, or the whole of it"

    def __init__(self, kind: str, name: str, candidates: Sequence[str]) -> None:
        super().__init__(kind, name, candidates)
        self.kind = kind
        self.name = name
        self.candidates = candidates

    def __str__(self) -> str:
        return f"{self.name!r} may be {self.kind} {' or '.join(self.candidates)}"


class SystemFailure(BygonesError):
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


class InvalidPrices(BygonesError):
    """A user's own file of prices is not what it should be."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "docs/guide/usage.md shows the form; without the file our prices are used"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} holds no prices: {self.reason}"


class InvalidCursor(BygonesError):
    """A cursor with which no answer can go on."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "give the cursor as it stands in the last answer, or none"

    def __init__(self, cursor: str) -> None:
        super().__init__(cursor)
        self.cursor = cursor

    def __str__(self) -> str:
        return f"{self.cursor!r} is no cursor of this answer"


class UnreadableFile(BygonesError):
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


class FileModifiedConcurrently(BygonesError):
    """Somebody wrote to a file while it was being changed."""

    hint = "nothing was changed; try again"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} was written to by another program just now"


class ResumeFailed(BygonesError):
    """Claude Code cannot be started for a session: no program, or no directory."""

    hint = "leave out --run to see what would be run; restore --as moves a session"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"claude cannot be started: {self.reason}"


class InvalidRedactPattern(BygonesError):
    """A pattern of the user's settings is no regular expression."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "patterns are RE2 expressions: no look-around, no references back"

    def __init__(self, pattern: str, detail: str) -> None:
        super().__init__(pattern, detail)
        self.pattern = pattern
        self.detail = detail

    def __str__(self) -> str:
        return f"the pattern {self.pattern!r} cannot be used: {self.detail}"


class InvalidSettings(BygonesError):
    """The user's settings are not what they should be."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "docs/reference/settings.md shows what can be set; nothing need be"

    def __init__(self, location: Path | str, reason: str) -> None:
        super().__init__(location, reason)
        self.location = location
        """The file, or the name of a variable."""
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.location} holds no settings: {self.reason}"


class BadRequest(BygonesError):
    """An address that asks for something that cannot be."""

    exit_code = ExitCode.USAGE_ERROR
    hint = "go back, or begin at the list of sessions"

    def __init__(self, message: str) -> None:
        super().__init__(message)


class NoArchiveAndNoHome(ArchiveNotFound):
    """There is no archive in the folder, and nothing to make one of."""

    hint = (
        "`bygones ingest --home PATH` takes in a home that lies elsewhere;"
        " `bygones demo` makes one up to try"
    )

    def __str__(self) -> str:
        return f"{super().__str__()}, and {HomeNotFound()}"
