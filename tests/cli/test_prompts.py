"""``bygones prompts``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.ingest.loading import StoreLoader
from bygones.model.base import Position
from bygones.model.nodes import PREVIEW_LIMIT
from tests.build import Home, prompt, reply, session_id, thread


def list_prompts(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["prompts", "--json", *arguments]) == ExitCode.SUCCESS
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [str(row["text"]) for row in lines]


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 11),
        ("retry", 3),
        ("branch:abandoned", 1),
        ("branch:live retry", 2),
        ("project:notes", 5),
        ('"charged twice"', 1),
        ("before:2026-01-10", 1),
        ("session:3d75", 2),
        ("日本語", 1),
        ("retries", 3),
        ("role:assistant", 0),
    ],
)
def test_prompts_can_be_filtered(
    query: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(list_prompts(capsys, *([query] if query else []))) == count


@pytest.mark.usefixtures("demo_home")
def test_the_newest_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_prompts(capsys, "-n", "1") == ["Write a test for the jitter, please."]


def test_prompt_that_cannot_be_loaded_is_marked_and_does_not_hide_the_others(
    home_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = Home(home_dir / ".claude")
    for number in (1, 2):
        words = f"number {number} " + "word " * 200
        home.session(session_id(number), thread(prompt(words), start=number))
    Archive.ingest(home_dir / "archive", [home.path])
    original = StoreLoader.read_raw

    def read_raw(self: StoreLoader, position: Position) -> bytes:
        if session_id(1) in position.source_id:
            raise ValueError("unexpected")
        return original(self, position)

    monkeypatch.setattr(StoreLoader, "read_raw", read_raw)

    note = (
        "note: only the start of 1 prompt could be loaded; `bygones verify` checks the"
        " archive for damage\n"
    )

    assert main(["prompts", "--json", "--no-ingest"]) == ExitCode.SUCCESS
    lines, shown_note = capsys.readouterr()
    rows = {row["text"][:8]: row for row in map(json.loads, lines.splitlines())}
    assert (rows["number 1"]["is_text_cut"], rows["number 2"]["is_text_cut"]) == (
        True,
        False,
    )
    assert len(rows["number 1"]["text"]) == PREVIEW_LIMIT
    assert len(rows["number 2"]["text"]) > 1000
    assert shown_note == note
    assert main(["prompts", "--full", "--no-ingest", "--quiet"]) == ExitCode.SUCCESS
    shown, shown_note = capsys.readouterr()
    assert shown.count("(the rest could not be loaded)") == 1
    assert shown_note == note


def test_long_prompt_is_not_cut(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = " ".join(f"word{number}" for number in range(500))
    home = Home(home_dir / ".claude")
    home.session(session_id(1), thread(prompt(text), reply("Yes")))
    assert main(["ingest"]) == ExitCode.SUCCESS
    capsys.readouterr()

    assert list_prompts(capsys, "word499") == [text]


def test_prompts_of_a_resumed_session_are_listed_once(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(home_dir / ".claude")
    first = thread(prompt("The first"), reply("Yes"))
    home.session(session_id(1), first)
    again = [record | {"sessionId": session_id(2)} for record in first]
    more = thread(*again, prompt("The second"), reply("No"), start=50)
    home.session(session_id(2), more)
    assert main(["ingest"]) == ExitCode.SUCCESS
    capsys.readouterr()

    assert list_prompts(capsys) == ["The second", "The first"]
    with Archive.open(home_dir / "archive") as archive:
        sessions = [entry.session_id for entry in archive.prompts()]
    assert sessions == [session_id(2), session_id(1)]


def test_no_prompts_is_not_a_failure(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home_dir / ".claude" / "projects").mkdir(parents=True)
    assert main(["ingest", "-q"]) == ExitCode.SUCCESS

    assert main(["prompts"]) == ExitCode.SUCCESS
    assert capsys.readouterr().err == "no prompts\n"


@pytest.mark.usefixtures("demo_home")
def test_prompts_are_selected_by_project_or_directory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(list_prompts(capsys, "--project", "notes")) == 5
    here = list_prompts(capsys, "--project", ".")
    assert len(here) == 6
    retries = [text for text in here if "retry" in text.lower()]
    assert list_prompts(capsys, "--project", ".", "retry") == retries
    assert main(["prompts", "--project", "ntes"]) == ExitCode.USAGE_ERROR


@pytest.mark.req("F5")
def test_prompt_of_another_session_in_the_file_has_its_id(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = "a" + session_id(1)[1:], "b" + session_id(2)[1:]
    theirs = thread(prompt("Over there"), reply("No"), start=60)
    records = [record | {"sessionId": other} for record in theirs]
    home = Home(home_dir / ".claude")
    home.session(own, [*thread(prompt("Over here"), reply("Yes")), *records])
    assert main(["ingest"]) == ExitCode.SUCCESS
    capsys.readouterr()

    assert main(["prompts"]) == ExitCode.SUCCESS
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [other[:8], own[:8]]
    assert "abandoned" not in "".join(lines)
    assert main(["show", other[:8]]) == ExitCode.SUCCESS
    assert "Over there" in capsys.readouterr().out
