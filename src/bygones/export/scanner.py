"""A second opinion: another program looks for secrets in what is about to leave.

It is shown every text of the redacted sessions, decoded, in a folder that nobody else
can read and that is gone afterwards. What it takes for a secret is never repeated.
"""

from __future__ import annotations

import shutil
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bygones.errors import ScannerFailed, ScannerNotFound
from bygones.export.formats import ExportOptions, apply_redaction
from bygones.model.harness_text import parse_user_text
from bygones.model.sessions import Session
from bygones.redact.session import RedactionLog
from bygones.schema.encoding import to_dict
from bygones.schema.sessions import session_objects

__all__ = ["SCANNERS", "Scanner", "ScannerFinding", "find_scanner", "scan_sessions"]


class ScannerFinding(Struct, frozen=True, order=True):
    """What another program takes for a secret: where, and of which kind."""

    session: str
    record: str
    """The message, agent or branch whose text it stands in."""
    rule: str


class Scanner(Struct, frozen=True):
    """A program that looks for secrets in a folder."""

    name: str
    arguments: tuple[str, ...]
    """How it is asked, ``{}`` being the folder; it answers with JSON on stdout."""
    parse_report: Callable[[bytes], list[tuple[str, int, str]]]
    """What the answer says: the file, the line and the rule of each."""


class _GitleaksFinding(Struct, rename="pascal"):
    rule_id: str = msgspec.field(name="RuleID")
    start_line: int
    file: str


class _KingfisherRule(Struct):
    id: str


class _KingfisherLocation(Struct):
    path: str
    line: int


class _KingfisherFinding(Struct):
    rule: _KingfisherRule
    finding: _KingfisherLocation


class _KingfisherReport(Struct):
    findings: list[_KingfisherFinding] = []


def _parse_gitleaks(report: bytes) -> list[tuple[str, int, str]]:
    found = msgspec.json.decode(report or b"[]", type=list[_GitleaksFinding])
    return [(one.file, one.start_line, one.rule_id) for one in found]


def _parse_kingfisher(report: bytes) -> list[tuple[str, int, str]]:
    found = msgspec.json.decode(report, type=_KingfisherReport).findings
    return [(one.finding.path, one.finding.line, one.rule.id) for one in found]


SCANNERS = (
    Scanner(
        "gitleaks",
        (
            *("dir", "{}", "--report-format", "json", "--report-path", "-"),
            *("--redact", "--no-banner", "--exit-code", "0"),
        ),
        _parse_gitleaks,
    ),
    Scanner(
        "kingfisher",
        (
            # Trying a secret out would send it to somebody.
            *("scan", "{}", "--no-validate", "--redact", "--format", "json"),
            *("--no-update-check", "--quiet"),
        ),
        _parse_kingfisher,
    ),
)
"""The programs that are asked, the fastest to answer first."""
_SUCCESS_CODES = frozenset((0, 200))
"""What they exit with when they have looked; one has its own code for a find."""


def find_scanner() -> tuple[Scanner, str]:
    """Return the first program that is installed, and where it is."""
    for scanner in SCANNERS:
        if place := shutil.which(scanner.name):
            return scanner, place
    raise ScannerNotFound([scanner.name for scanner in SCANNERS])


def scan_sessions(
    sessions: Iterable[Session], options: ExportOptions
) -> list[ScannerFinding]:
    """Return what another program finds in sessions as they would leave."""
    import tempfile

    scanner, program = find_scanner()
    with tempfile.TemporaryDirectory(prefix="bygones-") as folder:
        written = [
            _write_texts(session, Path(folder) / f"{number}.txt", options)
            for number, session in enumerate(sessions)
        ]
        answer = _run_scanner(scanner, program, folder)
    found = set()
    for file, line, rule in answer:
        session, starts, records = written[int(Path(file).stem)]
        at = max(bisect_right(starts, line) - 1, 0)
        found.add(ScannerFinding(session, records[at], rule))
    return sorted(found)


def _run_scanner(
    scanner: Scanner, program: str, folder: str
) -> list[tuple[str, int, str]]:
    import subprocess

    words = [program, *(word.format(folder) for word in scanner.arguments)]
    done = subprocess.run(words, capture_output=True, check=False, cwd=folder)  # noqa: S603 (a program of the user's, in our words)
    try:
        if done.returncode not in _SUCCESS_CODES:
            raise ScannerFailed(scanner.name, done.returncode)
        return scanner.parse_report(done.stdout)
    except msgspec.MsgspecError:
        raise ScannerFailed(scanner.name, done.returncode) from None


def _write_texts(
    session: Session, path: Path, options: ExportOptions
) -> tuple[str, Sequence[int], Sequence[str]]:
    """Write all texts of a session; return the line where each record's begin."""
    starts, records = [1], [str(session.id)]
    line = 1
    told = apply_redaction(session, options, RedactionLog())
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for value in session_objects(told, options.view, parse_user_text):
            starts.append(line)
            records.append(getattr(value, "message_id", session.id))
            for text in _texts(to_dict(value)):
                file.write(f"{text}\n")
                line += text.count("\n") + 1
    return str(session.id), starts, records


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for one in value.values() for text in _texts(one))
    elif isinstance(value, list | tuple):
        yield from (text for one in value for text in _texts(one))
