"""A large session is exported in one pass with bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from bygones.export.formats import ExportFormat, export_session
from bygones.redact.session import RedactionLog
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use
from tests.export.shared import export_options, sessions

TURNS = 400
OUTPUT = "a line of output that a tool has printed\n" * 620
"""Ten megabytes in total."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with one session of ten megabytes."""
    home = Home(tmp_path_factory.mktemp("large"))
    records = []
    for number in range(TURNS):
        records += [
            prompt(f"Prompt number {number}", uuid=f"p{number}"),
            reply(
                [tool_use("Bash", id=f"t{number}", command="cat")], uuid=f"u{number}"
            ),
            tool_result(f"t{number}", OUTPUT, uuid=f"a{number}"),
            reply(f"Answer **{number}**", uuid=f"r{number}"),
        ]
    path = home.session(session_id(1), thread(*records))
    assert path.stat().st_size > 10_000_000
    return home.path


@pytest.mark.parametrize("form", [ExportFormat.HTML, ExportFormat.JSONL])
def test_ten_megabytes_are_written_in_one_pass(
    large: Path, tmp_path: Path, form: ExportFormat
) -> None:
    (session,) = sessions(large)
    path = tmp_path / f"one{form.suffix}"
    tracemalloc.start()

    export_session(session, path, export_options(form), RedactionLog())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    written = path.read_text("utf-8")
    assert all(f"Prompt number {number}" in written for number in range(TURNS))
    assert peak < 8_000_000, peak
