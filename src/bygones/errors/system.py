"""Errors of the system around Bygones: files, settings, programs."""

from __future__ import annotations

from pathlib import Path

from bygones.errors.base import BygonesError, ExitCode


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
    session_id: str

    message = (
        "cannot start claude for session {self.session_id}:"
        " {self.directory} does not exist"
    )
    hint = (
        "create it, or continue elsewhere with `bygones fork SESSION --into DIR`"
        " or `bygones restore --as DIR --rewrite-cwd SESSION`"
    )


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
        "valid settings are archive, homes, color, iso, ingest, pager, keys, [redact]"
        " and [push]; all are optional"
    )


class SyncFailed(BygonesError):
    """A sync with another machine or a folder was not finished."""

    peer: str
    reason: str

    message = "cannot finish the sync with {self.peer}: {self.reason}"
    hint = "what was received is kept; run the same command again to continue"
