"""What was hidden, told so that a person can check it."""

from __future__ import annotations

import json

from bygones.export import Tally
from bygones.model.ids import Position, SessionId, SourceId
from bygones.render.redact import Finds, Found


def finds() -> Finds:
    found = Finds()
    place = Position(SourceId("a.jsonl"), 0, 70, 9)
    jwt = Found(12, 20, "jwt", ".content[0].text")
    found.note(place, (Found(4, 9, "home"), jwt))
    found.private = 1
    return found


def test_counts_are_told_in_words() -> None:
    tally = Tally()
    tally.add(SessionId("s"), finds())
    tally.add(SessionId("t"), finds())

    assert tally.sentence() == "hidden: 2 home folders, 2 jwts, 2 private records"
    assert Tally().sentence() == ""
    assert tally.report() == b""


def test_a_report_has_a_line_for_each_place() -> None:
    tally = Tally()
    tally.add(SessionId("s"), finds(), keep=True)

    rows = [json.loads(line) for line in tally.report().splitlines()]

    assert rows[1] == {
        "session": "s",
        "source": "a.jsonl",
        "offset": 70,
        "text": "content[0].text",
        "kind": "jwt",
        "start": 12,
        "end": 20,
    }
