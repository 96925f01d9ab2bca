"""Errors of names: a session, a record, a path or a page that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bygones.errors.base import BygonesError, ExitCode


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


_OUTLINE_HINT = "`bygones tree SESSION` lists turns, branches and agent runs"

_HINTS_BY_KIND = {
    "session": "`bygones list --all` lists all sessions",
    "project": "`bygones projects` lists all projects",
    "session or project": (
        "`bygones list --all` lists all sessions, `bygones projects` all projects"
    ),
    "changed file": "`bygones files .` lists files that sessions changed",
    "session or changed file": (
        "`bygones list --all` lists all sessions, `bygones files .` changed files"
    ),
    "session or commit": (
        "`bygones list --all` lists all sessions; a commit must be in the repository"
        " of the current directory"
    ),
    "agent": _OUTLINE_HINT,
    "branch": _OUTLINE_HINT,
    "turn": _OUTLINE_HINT,
    "move": "a move can be undone until you delete .bygones-moves in the home",
}


class NotInArchive(BygonesError):
    """The archive has no session, record, project or file of this name."""

    kind: str
    name: str
    suggestions: Sequence[str] = ()

    exit_code = ExitCode.USAGE_ERROR
    hint = (
        "`bygones list --all` lists sessions, `bygones projects` projects, and"
        " `bygones files .` changed files"
    )

    def __init__(self, *args: object, **fields: object) -> None:
        super().__init__(*args, **fields)
        if hint := _HINTS_BY_KIND.get(self.kind):
            vars(self)["hint"] = hint

    def __str__(self) -> str:
        names = ", ".join(self.suggestions)
        suggestion = f"; did you mean {names}?" if names else ""
        return f"no {self.kind} {self.name!r} in the archive{suggestion}"


class NothingToUndo(NotInArchive):
    """There is no earlier undo or move that could be undone."""

    hint = "`bygones undo SESSION:TURN` restores files as they were before a turn"

    def __str__(self) -> str:
        return f"there is no earlier {self.kind} to undo"


class UnknownResultNumber(BygonesError):
    """The last search has no result of this number."""

    name: str
    available: str

    exit_code = ExitCode.USAGE_ERROR
    message = "there is no result {self.name}: {self.available}"
    hint = "run `bygones search`, or use the first characters of a session id"


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


class InvalidCursor(BygonesError):
    """A cursor does not belong to this listing."""

    cursor: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.cursor!r} is not a valid cursor for this list"
    hint = "use the cursor of the last response, or none"


class BadRequest(BygonesError):
    """The parameters of a web request are invalid."""

    reason: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.reason}"
    hint = "go back, or start from the list of sessions"


class OnlyPromptsKnown(BygonesError):
    """A session cannot be continued, because only its prompts are known."""

    session: str

    message = "only the prompts of session {self.session} are known"
    hint = "Claude Code deleted it before it was archived; `bygones show` prints them"


class NothingToFork(BygonesError):
    """A fork would contain no message."""

    session: str

    exit_code = ExitCode.USAGE_ERROR
    message = "nothing comes before that point of session {self.session}"
    hint = "choose a later turn, or use --through to include the turn"
