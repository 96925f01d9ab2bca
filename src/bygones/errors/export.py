"""Errors of exports."""

from __future__ import annotations

from collections.abc import Sequence

from bygones.errors.base import BygonesError, ExitCode, describe_error


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
        "the other sessions were written; `bygones verify` lists what is damaged or"
        " accepted as lost in the archive"
    )

    _what = "{} could not be exported"

    def __str__(self) -> str:
        sessions = "1 session" if self.count == 1 else f"{self.count:,} sessions"
        error = self.first_error
        is_ours = isinstance(error, BygonesError)
        reason = str(error) if is_ours else describe_error(error)
        what = self._what.format(sessions)
        return f"{what}; the first is {self.first_session}: {reason}"


class TextsMissing(ExportIncomplete):
    """Pages or tables were written without texts that could not be loaded or redacted."""

    hint = (
        "everything else was written; `bygones verify` lists what is damaged in the"
        " archive"
    )

    _what = "texts of {} are missing"
