"""One session in one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.export import Format, export_session
from bygones.render.redact import Finds
from tests.export.shared import home_of, making, sessions


@pytest.mark.parametrize("form", list(Format))
def test_a_session_is_written_as_what_was_asked_for(
    form: Format, tmp_path: Path
) -> None:
    session = sessions(home_of(tmp_path / "home").path)[0]
    path = tmp_path / f"talk{form.suffix}"

    files = export_session(session, path, making(form), Finds())

    assert files[0] == path
    assert all(file.stat().st_size for file in files)


def test_agents_lie_where_claude_code_puts_them(tmp_path: Path) -> None:
    session = sessions(home_of(tmp_path / "home").path)[0]

    files = export_session(session, tmp_path / "t.jsonl", making(Format.JSONL), Finds())
    odd = export_session(session, tmp_path / "u", making(Format.JSONL), Finds())

    assert files[1] == tmp_path / "t" / "subagents" / "agent-a1.jsonl"
    assert odd[1] == tmp_path / "u-agents" / "subagents" / "agent-a1.jsonl"
