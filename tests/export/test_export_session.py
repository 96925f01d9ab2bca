"""Exporting one session."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.export.formats import ExportFormat, export_session
from bygones.redact.session import RedactionLog
from tests.export.shared import home_of, making, sessions


@pytest.mark.parametrize("form", list(ExportFormat))
def test_session_is_written_in_the_requested_format(
    form: ExportFormat, tmp_path: Path
) -> None:
    session = sessions(home_of(tmp_path / "home").path)[0]
    path = tmp_path / f"talk{form.suffix}"

    files = export_session(session, path, making(form), RedactionLog())

    assert files[0] == path
    assert all(file.stat().st_size for file in files)


def test_agents_are_written_where_claude_code_puts_them(tmp_path: Path) -> None:
    session = sessions(home_of(tmp_path / "home").path)[0]

    files = export_session(
        session, tmp_path / "t.jsonl", making(ExportFormat.JSONL), RedactionLog()
    )
    odd = export_session(
        session, tmp_path / "u", making(ExportFormat.JSONL), RedactionLog()
    )

    assert files[1] == tmp_path / "t" / "subagents" / "agent-a1.jsonl"
    assert odd[1] == tmp_path / "u-agents" / "subagents" / "agent-a1.jsonl"
