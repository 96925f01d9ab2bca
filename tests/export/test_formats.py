"""Rendering a session in every format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from bygones.export.formats import ExportFormat, render_session
from bygones.redact.session import RedactionLog
from bygones.render.walk import SHOW_ALL
from tests.build import prompt, thread
from tests.export.shared import KEY, export_options, make_home, sessions
from tests.render.shared import session_of

TEXTS = [form for form in ExportFormat if form is not ExportFormat.JSONL]


@pytest.mark.parametrize("form", TEXTS)
def test_every_format_contains_all_text_but_redactions(
    form: ExportFormat, tmp_path: Path
) -> None:
    session = sessions(make_home(tmp_path).path)[0]
    log = RedactionLog()

    output = "".join(render_session(session, export_options(form), log))

    for text in ("for number 0", "done", "~/src", "Look around", "Seen"):
        assert text in output
    assert KEY not in output
    assert "/home/ada" not in output
    assert log.count_by_kind()["github-token"] == 1


@pytest.mark.parametrize("form", TEXTS)
def test_without_redactor_everything_is_exported(
    form: ExportFormat, tmp_path: Path
) -> None:
    session = sessions(make_home(tmp_path).path)[0]

    output = "".join(
        render_session(session, export_options(form, redact=False), RedactionLog())
    )

    assert KEY in output
    assert "/home/ada/src" in output


@pytest.mark.parametrize("form", TEXTS)
def test_only_redactions_in_the_view_are_counted(
    form: ExportFormat, tmp_path: Path
) -> None:
    prompts = [prompt(f"use {KEY} as {number}") for number in range(3)]
    session = session_of(tmp_path, thread(*prompts))
    whole, part = RedactionLog(), RedactionLog()
    second = structs.replace(SHOW_ALL, first_turn=1, last_turn=1)

    "".join(render_session(session, export_options(form), whole))
    output = "".join(
        render_session(
            session, structs.replace(export_options(form), view=second), part
        )
    )

    assert "as 1" in output
    assert whole.count_by_kind() == {"github-token": 3}
    assert part.count_by_kind() == {"github-token": 1}


def test_json_is_one_list_of_objects(tmp_path: Path) -> None:
    session = sessions(make_home(tmp_path).path)[0]

    rows = json.loads(
        "".join(
            render_session(session, export_options(ExportFormat.JSON), RedactionLog())
        )
    )

    assert [row["type"] for row in rows[:3]] == ["session", "turn", "message"]


def test_every_format_has_a_suffix() -> None:
    assert [form.suffix for form in ExportFormat] == [
        *(".html", ".md", ".txt", ".json", ".jsonl")
    ]


def test_jsonl_is_not_rendered(tmp_path: Path) -> None:
    session = sessions(make_home(tmp_path).path)[0]

    with pytest.raises(ValueError, match="jsonl"):
        next(
            render_session(session, export_options(ExportFormat.JSONL), RedactionLog())
        )
