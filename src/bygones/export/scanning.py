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

from bygones.errors import ScannerFailed, ScannerMissing
from bygones.export.making import Making, prepared
from bygones.model.sessions import Session
from bygones.parse import read_text
from bygones.render.json import encoded, json_rows
from bygones.render.redact import Finds

__all__ = ["SCANNERS", "Scanner", "Suspicion", "installed", "suspicions"]


class Suspicion(Struct, frozen=True, order=True):
    """What another program takes for a secret: where, and of which kind."""

    session: str
    record: str
    """The message, agent or branch whose text it stands in."""
    rule: str


class Scanner(Struct, frozen=True):
    """A program that looks for secrets in a folder."""

    name: str
    words: tuple[str, ...]
    """How it is asked, ``{}`` being the folder; it answers with JSON on stdout."""
    read: Callable[[bytes], list[tuple[str, int, str]]]
    """What the answer says: the file, the line and the rule of each."""


class _Leak(Struct, rename="pascal"):
    rule_id: str = msgspec.field(name="RuleID")
    start_line: int
    file: str


class _Rule(Struct):
    id: str


class _Place(Struct):
    path: str
    line: int


class _Finding(Struct):
    rule: _Rule
    finding: _Place


class _Findings(Struct):
    findings: list[_Finding] = []


def _leaks(answer: bytes) -> list[tuple[str, int, str]]:
    found = msgspec.json.decode(answer or b"[]", type=list[_Leak])
    return [(one.file, one.start_line, one.rule_id) for one in found]


def _findings(answer: bytes) -> list[tuple[str, int, str]]:
    found = msgspec.json.decode(answer, type=_Findings).findings
    return [(one.finding.path, one.finding.line, one.rule.id) for one in found]


SCANNERS = (
    Scanner(
        "gitleaks",
        (
            *("dir", "{}", "--report-format", "json", "--report-path", "-"),
            *("--redact", "--no-banner", "--exit-code", "0"),
        ),
        _leaks,
    ),
    Scanner(
        "kingfisher",
        (
            # Trying a secret out would send it to somebody.
            *("scan", "{}", "--no-validate", "--redact", "--format", "json"),
            *("--no-update-check", "--quiet"),
        ),
        _findings,
    ),
)
"""The programs that are asked, the fastest to answer first."""
_FINE = frozenset((0, 200))
"""What they exit with when they have looked; one has its own code for a find."""


def installed() -> tuple[Scanner, str]:
    """Return the first program that is installed, and where it is."""
    for scanner in SCANNERS:
        if place := shutil.which(scanner.name):
            return scanner, place
    raise ScannerMissing([scanner.name for scanner in SCANNERS])


def suspicions(sessions: Iterable[Session], making: Making) -> list[Suspicion]:
    """Return what another program finds in sessions as they would leave."""
    import tempfile  # noqa: PLC0415 (few ask for a second opinion)

    scanner, program = installed()
    with tempfile.TemporaryDirectory(prefix="bygones-") as folder:
        written = [
            _written(session, Path(folder) / f"{number}.txt", making)
            for number, session in enumerate(sessions)
        ]
        answer = _asked(scanner, program, folder)
    found = set()
    for file, line, rule in answer:
        session, starts, records = written[int(Path(file).stem)]
        at = max(bisect_right(starts, line) - 1, 0)
        found.add(Suspicion(session, records[at], rule))
    return sorted(found)


def _asked(scanner: Scanner, program: str, folder: str) -> list[tuple[str, int, str]]:
    import subprocess  # noqa: PLC0415 (see above)

    words = [program, *(word.format(folder) for word in scanner.words)]
    done = subprocess.run(words, capture_output=True, check=False, cwd=folder)  # noqa: S603 (a program of the user's, in our words)
    try:
        if done.returncode not in _FINE:
            raise ScannerFailed(scanner.name, done.returncode)
        return scanner.read(done.stdout)
    except msgspec.MsgspecError:
        raise ScannerFailed(scanner.name, done.returncode) from None


def _written(
    session: Session, path: Path, making: Making
) -> tuple[str, Sequence[int], Sequence[str]]:
    """Write all texts of a session; return the line where each record's begin."""
    starts, records = [1], [str(session.id)]
    line = 1
    told = prepared(session, making, Finds())
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for row in json_rows(told, making.view, read_text):
            starts.append(line)
            records.append(str(getattr(row, "id", "") or session.id))
            for text in _texts(msgspec.json.decode(encoded(row))):
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
