"""A session in every format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from bygones.export import Format, made
from bygones.export.making import WHOLE
from bygones.render.redact import Finds
from tests.build import prompt, thread
from tests.export.shared import KEY, home_of, making, sessions
from tests.render.shared import session_of

TEXTS = [form for form in Format if form is not Format.JSONL]


@pytest.mark.parametrize("form", TEXTS)
def test_everything_is_there_but_for_what_is_hidden(
    form: Format, tmp_path: Path
) -> None:
    session = sessions(home_of(tmp_path).path)[0]
    finds = Finds()

    shown = "".join(made(session, making(form), finds))

    for words in ("for number 0", "done", "~/src", "Look around", "Seen"):
        assert words in shown
    assert KEY not in shown
    assert "/home/ada" not in shown
    assert finds.counts()["github-token"] == 1


@pytest.mark.parametrize("form", TEXTS)
def test_nothing_is_hidden_if_somebody_wants_it_so(
    form: Format, tmp_path: Path
) -> None:
    session = sessions(home_of(tmp_path).path)[0]

    shown = "".join(made(session, making(form, redact=False), Finds()))

    assert KEY in shown
    assert "/home/ada/src" in shown


@pytest.mark.parametrize("form", TEXTS)
def test_only_what_is_shown_is_counted(form: Format, tmp_path: Path) -> None:
    told = [prompt(f"use {KEY} as {number}") for number in range(3)]
    session = session_of(tmp_path, thread(*told))
    whole, part = Finds(), Finds()
    second = structs.replace(WHOLE, first=1, last=1)

    "".join(made(session, making(form), whole))
    shown = "".join(made(session, structs.replace(making(form), view=second), part))

    assert "as 1" in shown
    assert whole.counts() == {"github-token": 3}
    assert part.counts() == {"github-token": 1}


def test_json_is_one_list_of_rows(tmp_path: Path) -> None:
    session = sessions(home_of(tmp_path).path)[0]

    rows = json.loads("".join(made(session, making(Format.JSON), Finds())))

    assert [row["row"] for row in rows[:3]] == ["session", "turn", "message"]


def test_every_format_has_its_ending() -> None:
    assert [form.suffix for form in Format] == [
        *(".html", ".md", ".txt", ".json", ".jsonl")
    ]


def test_lines_are_not_made(tmp_path: Path) -> None:
    session = sessions(home_of(tmp_path).path)[0]

    with pytest.raises(ValueError, match="jsonl"):
        next(made(session, making(Format.JSONL), Finds()))
