"""Checking an export with an external scanner."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bygones.errors import ScannerFailed, ScannerNotFound
from bygones.export.formats import ExportOptions
from bygones.export.scanner import SCANNERS, ScannerFinding, find_scanner, scan_sessions
from bygones.redact.engine import Redactor
from tests.export.shared import make_home, sessions

GITLEAKS = """#!{python}
import json, pathlib, sys
assert sys.argv[1] == "dir" and "--redact" in sys.argv
found = [
    {"RuleID": "odd-word", "StartLine": number, "File": str(path)}
    for path in sorted(pathlib.Path(sys.argv[2]).iterdir())
    for number, line in enumerate(path.read_text().splitlines(), 1)
    if "for number" in line
]
json.dump(found, sys.stdout)
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only directory on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def test_missing_scanner_is_an_error(programs: Path) -> None:
    assert not any(programs.iterdir())
    with pytest.raises(ScannerNotFound, match="gitleaks, kingfisher"):
        find_scanner()


def test_findings_name_session_and_record(tmp_path: Path, programs: Path) -> None:
    program(programs, "gitleaks", GITLEAKS.replace("{python}", sys.executable))
    loaded = sessions(make_home(tmp_path, 2).path)

    seen = scan_sessions(loaded, ExportOptions(redactor=Redactor()))

    prompts = {
        ScannerFinding(session.id, session.prompts[0].id, "odd-word")
        for session in loaded
    }
    assert len(prompts) == len(loaded)
    assert prompts <= set(seen)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho no JSON\n"])
def test_failing_scanner_is_an_error(tmp_path: Path, programs: Path, text: str) -> None:
    program(programs, "gitleaks", text)

    with pytest.raises(ScannerFailed, match="gitleaks"):
        scan_sessions(
            sessions(make_home(tmp_path, 1).path), ExportOptions(redactor=Redactor())
        )


def test_reports_of_all_scanners_are_parsed() -> None:
    gitleaks, kingfisher = SCANNERS

    leaks = b'[{"RuleID": "r", "StartLine": 4, "File": "/t/1.txt", "Match": "x"}]'
    findings = (
        b'{"findings": [{"rule": {"id": "r", "name": "n"}, '
        b'"finding": {"path": "/t/1.txt", "line": 4, "snippet": "x"}}]}'
    )

    assert (
        gitleaks.parse_report(leaks)
        == kingfisher.parse_report(findings)
        == [("/t/1.txt", 4, "r")]
    )
    assert gitleaks.parse_report(b"") == []
