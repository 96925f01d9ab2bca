"""Check an export with an external secret scanner.

The scanner reads all texts of the redacted sessions, decoded, in a temporary folder that
only the user can read. The secrets that it finds are never shown.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bygones.errors import ScannerFailed, ScannerNotFound
from bygones.export.formats import ExportInput, ExportOptions, apply_redaction, as_input
from bygones.model.nodes import parse_user_text
from bygones.model.sessions import Session
from bygones.redact.session import RedactionLog
from bygones.schema.encoding import encode_object_as_dict
from bygones.schema.sessions import session_objects


class ScannerFinding(Struct, frozen=True, order=True):
    """A secret that the scanner found."""

    session: str
    record: str
    """The message, agent or branch that contains it."""
    rule: str


class Scanner(Struct, frozen=True):
    name: str
    arguments: tuple[str, ...]
    """Command line arguments; ``{}`` is the folder. The report is JSON on stdout."""
    parse_report: Callable[[bytes], list[tuple[str, int, str]]]
    """Returns file, line and rule of each finding."""


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
    findings = msgspec.json.decode(report or b"[]", type=list[_GitleaksFinding])
    return [(found.file, found.start_line, found.rule_id) for found in findings]


def _parse_kingfisher(report: bytes) -> list[tuple[str, int, str]]:
    findings = msgspec.json.decode(report, type=_KingfisherReport).findings
    return [
        (found.finding.path, found.finding.line, found.rule.id) for found in findings
    ]


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
            # Validating a secret would send it to a service.
            *("scan", "{}", "--no-validate", "--redact", "--format", "json"),
            *("--no-update-check", "--quiet"),
        ),
        _parse_kingfisher,
    ),
)
"""Supported scanners, the fastest first."""
_SUCCESS_CODES = frozenset((0, 200))
"""Exit codes of a completed scan; Kingfisher exits with 200 if it finds something."""


def find_scanner() -> tuple[Scanner, str]:
    """Return the first installed scanner and its path."""
    for scanner in SCANNERS:
        if path := shutil.which(scanner.name):
            return scanner, path
    raise ScannerNotFound([scanner.name for scanner in SCANNERS])


def scan_sessions(
    sources: Iterable[Session | ExportInput], options: ExportOptions
) -> list[ScannerFinding]:
    """Return what the scanner finds in sessions after redaction."""
    scanner, program = find_scanner()
    with tempfile.TemporaryDirectory(prefix="bygones-") as folder:
        written = [
            _write_texts(
                as_input(source, options), Path(folder) / f"{number}.txt", options
            )
            for number, source in enumerate(sources)
        ]
        report = _run_scanner(scanner, program, folder)
    findings = set()
    for file, line, rule in report:
        session, starts, records = written[int(Path(file).stem)]
        at = max(bisect_right(starts, line) - 1, 0)
        findings.add(ScannerFinding(session, records[at], rule))
    return sorted(findings)


def _run_scanner(
    scanner: Scanner, program: str, folder: str
) -> list[tuple[str, int, str]]:
    command = [program, *(argument.format(folder) for argument in scanner.arguments)]
    process = subprocess.run(command, capture_output=True, check=False, cwd=folder)  # noqa: S603 (a scanner that the user installed, with fixed arguments)
    if process.returncode not in _SUCCESS_CODES:
        raise ScannerFailed(scanner.name, process.returncode)
    try:
        return scanner.parse_report(process.stdout)
    except msgspec.MsgspecError:
        raise ScannerFailed(scanner.name, process.returncode) from None


def _write_texts(
    source: ExportInput, path: Path, options: ExportOptions
) -> tuple[str, Sequence[int], Sequence[str]]:
    """Write all texts of a session to a file.

    Returns the session's id, and first line and id of each record.
    """
    session_id = str(source.id)
    starts, records = [1], [session_id]
    line = 1
    redacted = apply_redaction(source, options, RedactionLog())
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for value in session_objects(
            redacted.conversation,
            options.view,
            parse_user_text,
            summary=redacted.summary,
        ):
            starts.append(line)
            records.append(getattr(value, "message_id", session_id))
            for text in _texts(encode_object_as_dict(value)):
                file.write(f"{text}\n")
                line += text.count("\n") + 1
    return session_id, starts, records


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for item in value.values() for text in _texts(item))
    elif isinstance(value, list | tuple):
        yield from (text for item in value for text in _texts(item))
