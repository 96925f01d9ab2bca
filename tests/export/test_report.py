"""The redaction report."""

from __future__ import annotations

import json

from bygones.export.formats import RedactionReport
from bygones.model.base import Position, SessionId, SourceId
from bygones.redact.engine import Redaction
from bygones.redact.session import RedactionLog


def log() -> RedactionLog:
    log = RedactionLog()
    place = Position(SourceId("a.jsonl"), 0, 70, 9)
    jwt = Redaction(12, 20, "jwt", ".content[0].text")
    log.add(place, (Redaction(4, 9, "home"), jwt))
    log.private_records = 1
    return log


def test_summary_lists_counts() -> None:
    tally = RedactionReport()
    tally.add(SessionId("s"), log())
    tally.add(SessionId("t"), log())

    assert tally.summary() == "redacted: 2 home folders, 2 jwts, 2 private records"
    assert RedactionReport().summary() == ""
    assert tally.to_jsonl() == b""


def test_report_has_one_line_per_redaction() -> None:
    tally = RedactionReport()
    tally.add(SessionId("s"), log(), keep_details=True)

    rows = [json.loads(line) for line in tally.to_jsonl().splitlines()]

    assert rows[1] == {
        "session": "s",
        "source": "a.jsonl",
        "offset": 70,
        "text": "content[0].text",
        "kind": "jwt",
        "start": 12,
        "end": 20,
    }
