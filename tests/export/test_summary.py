"""Summaries of sessions in the index."""

from __future__ import annotations

from pathlib import Path

from bygones.export.folder import summarize_conversation
from bygones.model.assembled import as_conversation
from tests.export.shared import make_home, sessions


def test_session_is_summarized_for_the_index(tmp_path: Path) -> None:
    session = sessions(make_home(tmp_path).path)[1]

    row = summarize_conversation(as_conversation(session), "sessions/x.html")

    assert row.facts == ("/work/demo", "2026-01-05 10:00", "1 prompt", "3.2k tokens")
    assert row.search_text.endswith("for number 1")
