"""Exporting one session."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.export.formats import ExportFormat, export_session
from bygones.redact.session import RedactionLog
from tests.export.shared import export_options, make_home, sessions


@pytest.mark.parametrize("form", list(ExportFormat))
def test_session_is_written_in_the_requested_format(
    form: ExportFormat, tmp_path: Path
) -> None:
    session = sessions(make_home(tmp_path / "home").path)[0]
    path = tmp_path / f"talk{form.suffix}"

    files = export_session(session, path, export_options(form), RedactionLog())

    assert files[0] == path
    assert all(file.stat().st_size for file in files)


def test_agents_are_written_where_claude_code_puts_them(tmp_path: Path) -> None:
    session = sessions(make_home(tmp_path / "home").path)[0]

    files = export_session(
        session,
        tmp_path / "t.jsonl",
        export_options(ExportFormat.JSONL),
        RedactionLog(),
    )
    odd = export_session(
        session, tmp_path / "u", export_options(ExportFormat.JSONL), RedactionLog()
    )

    assert files[1] == tmp_path / "t" / "subagents" / "agent-a1.jsonl"
    assert odd[1] == tmp_path / "u-agents" / "subagents" / "agent-a1.jsonl"
