"""Failed calls by project and command, and the fixes that followed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.data.failures import first_line
from bygones.ingest.loading import StoreLoader
from bygones.model.base import Position
from bygones.model.shell_commands import name_command
from tests.build import (
    Home,
    Written,
    prompt,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)

SHOP, BLOG = "/work/shop", "/work/blog"
CART = f"{SHOP}/cart.py"


class Calls:
    """Records of calls with their results, one after the other."""

    def __init__(self, cwd: str, prefix: str) -> None:
        self.cwd = cwd
        self.prefix = prefix
        self.records: list[Written] = [prompt(f"go {prefix}", cwd=cwd)]

    def call(
        self, tool: str, result: str = "ok", *, fails: bool = False, **given: object
    ) -> Calls:
        fields: dict[str, Any] = (
            {"toolDenialKind": given.pop("denial")} if "denial" in given else {}
        )
        id_ = f"toolu_{self.prefix}{len(self.records)}"
        self.records += (
            reply([tool_use(tool, id=id_, **given)], cwd=self.cwd),
            tool_result(id_, result, is_error=fails, cwd=self.cwd, **fields),
        )
        return self


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failures")
    home = Home(folder / ".claude")
    shop = (
        Calls(SHOP, "a")
        .call(
            "Bash", "Exit code 1\n\nE  assert 1 == 2", fails=True, command="pytest -q"
        )
        .call("Bash", "Exit code 1\nstill \x1b[31mred", fails=True, command="pytest")
        .call("Bash", command="git status")
        .call("Edit", file_path=CART, old_string="1", new_string="2")
        .call("Bash", command=f"cat {CART}")
        .call("Bash", command="cd /work/shop && python -m pytest")
        .call(
            "Edit",
            "<tool_use_error>not read</tool_use_error>",
            fails=True,
            file_path=CART,
            old_string="1",
            new_string="2",
        )
        .call("Edit", file_path=f"{SHOP}/other.py", old_string="1", new_string="2")
        .call("Read", file_path=CART)
        .call("Edit", file_path=CART, old_string="2", new_string="3")
        .call("Bash", "The user doesn't want to proceed", fails=True, command="rm x")
        .call("Bash", "Permission denied", fails=True, command="mv x y", denial="rule")
    )
    blog = Calls(BLOG, "b").call("Bash", "boom", fails=True, command="pytest")
    home.session(session_id(1), thread(*shop.records))
    home.session(session_id(2), thread(*blog.records))
    # A copy of the first session, as a fork writes it.
    home.session(session_id(3), thread(*shop.records))
    Archive.ingest(folder / "archive", [home.path])
    return folder / "archive"


def test_failures_are_grouped_by_project_and_command(folder: Path) -> None:
    with Archive.open(folder) as archive:
        rows = list(archive.errors())
    found = {(row.project, row.tool_name, row.command): row for row in rows}
    assert set(found) == {
        (SHOP, "Bash", "pytest"),
        (SHOP, "Edit", None),
        (BLOG, "Bash", "pytest"),
    }
    first = rows[0]
    assert (first.project, first.failure_count, first.fixed_count) == (SHOP, 2, 2)
    assert first.session_count == 1  # a copy of a call counts once
    assert first.error == "still \x1b[31mred"
    assert first.label == "pytest"
    unfixed = found[BLOG, "Bash", "pytest"]
    assert (unfixed.fixed_count, unfixed.fix, unfixed.error) == (0, None, "boom")


def test_a_fix_names_the_edit_and_the_call_that_succeeded(folder: Path) -> None:
    with Archive.open(folder) as archive:
        rows = {(row.project, row.tool_name): row for row in archive.errors()}
        fix = rows[SHOP, "Bash"].fix
        assert fix is not None
        assert (fix.step_tool, fix.step_label) == ("Edit", CART)
        assert fix.label == "cd /work/shop && python -m pytest"
        assert archive.record(fix.place.record_id).session_id in {
            session_id(1),
            session_id(3),
        }
        edit = rows[SHOP, "Edit"]
    assert edit.error == "not read"
    assert edit.fixed_count is None
    assert edit.fix is not None
    # An edit of another file does not count.
    assert (edit.fix.label, edit.fix.step_tool) == (CART, "Read")


def test_a_question_or_a_note_is_not_named_as_the_fix(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    calls = (
        Calls(SHOP, "n")
        .call("Bash", "boom", fails=True, command="pytest -q")
        .call("AskUserQuestion", question="again?")
        .call("TodoWrite", todos=[])
        .call("Bash", command="pytest")
    )
    home.session(session_id(1), thread(*calls.records))
    Archive.ingest(tmp_path / "archive", [home.path])
    with Archive.open(tmp_path / "archive") as archive:
        (row,) = archive.errors()
    assert row.fix is not None
    assert (row.fix.step_tool, row.fix.label) == (None, "pytest")


@pytest.fixture(params=["damaged", "unexpected"])
def unloadable_texts(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """Return a set for ids of sessions whose records cannot be loaded."""
    original = StoreLoader.read_raw
    ids: set[str] = set()

    def read_raw(self: StoreLoader, position: Position) -> bytes:
        if not any(id_ in position.source_id for id_ in ids):
            return original(self, position)
        if request.param == "unexpected":
            raise ValueError("unexpected")
        return b""  # what it returns for lost bytes

    monkeypatch.setattr(StoreLoader, "read_raw", read_raw)
    return ids


def test_failure_that_cannot_be_loaded_is_marked_and_does_not_hide_the_others(
    folder: Path, unloadable_texts: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    unloadable_texts.add(session_id(2))
    with Archive.open(folder) as archive:
        rows = {(row.project, row.tool_name): row for row in archive.errors()}

    damaged = rows[BLOG, "Bash"]
    assert (damaged.failure_count, damaged.label, damaged.error) == (1, None, None)
    assert rows[SHOP, "Bash"].error == "still \x1b[31mred"
    common = ["errors", "project:blog", "--archive", str(folder), "--no-ingest"]
    assert main(common) == 0
    assert capsys.readouterr().out.endswith("error: (could not be loaded)\n")
    assert main([*common, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["label"], row["error"], row["fix"]) == (None, None, None)


def test_the_place_of_a_fix_is_known_if_its_texts_cannot_be_loaded(
    folder: Path, unloadable_texts: set[str]
) -> None:
    with Archive.open(folder) as archive:
        expected = {row.tool_name: row.fix for row in archive.errors(project=SHOP)}
    unloadable_texts |= {session_id(1), session_id(3)}
    with Archive.open(folder) as archive:
        damaged = {row.tool_name: row.fix for row in archive.errors(project=SHOP)}

    fix = damaged["Bash"]
    assert fix is not None
    assert expected["Bash"] is not None
    assert fix.place == expected["Bash"].place
    assert (fix.label, fix.step_tool, fix.step_label) == (None, "Edit", None)
    # Which file was edited is not known, so neither is the fix.
    assert expected["Edit"] is not None
    assert damaged["Edit"] is None


def test_errors_of_a_project_or_a_query(folder: Path) -> None:
    with Archive.open(folder) as archive:
        assert {row.project for row in archive.errors(project=BLOG)} == {BLOG}
        assert {row.project for row in archive.errors("project:shop")} == {SHOP}
        assert not list(archive.errors("project:nothing"))


def test_the_command_prints_rows_and_objects(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["errors", "--archive", str(folder), "--no-ingest"]
    assert main([*common, "-n", "1"]) == 0
    header, row, error, fix = capsys.readouterr().out.splitlines()
    assert header.startswith("FAILED  FIXED  SESSIONS  LAST")
    assert row.split()[:3] == ["2", "2", "1"]
    assert row.split()[-2:] == ["pytest", SHOP]
    assert "error: still" in error
    assert "\x1b" not in error
    id_, _, text = fix.strip().partition("  ")
    assert text == f"fixed: after Edit {CART}"
    assert main(["show", id_, *common[1:]]) == 0
    assert "python -m pytest" in capsys.readouterr().out
    assert main([*common, "--json", "project:blog"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert (found["type"], found["failure_count"]) == ("failure", 1)
    assert found["place"]["session_id"] == session_id(2)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd app && CI=1 npm run build -- --fast", "npm run build"),
        (".venv/bin/python -m pytest -q", "pytest"),
        ("timeout 60 uv run pytest tests", "pytest"),
        ("git -C /x push origin", "git push"),
        ("npm test 2>&1 | tail", "npm test"),
        ("# look\nls -la secret", "ls"),
        ("python3 ./manage.py migrate", "python3 manage.py"),
        ("docker compose up -d", "docker compose up"),
        ("cd 'a b'", "cd"),
        ("$(x) y", ""),
        ("", ""),
        ("'" * 200, ""),
    ],
)
def test_names_of_commands(command: str, name: str) -> None:
    assert name_command(command) == name


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("Exit code 2\n\n  boom\nx", "boom"),
        ("Exit code 2", "Exit code 2"),
        ("Traceback (most recent call last):\n  x\nKeyError: 1\n", "KeyError: 1"),
        ("<tool_use_error>no</tool_use_error>", "no"),
        ("╭────╮\n│ no │\n╰────╯", "│ no │"),
        ("", ""),
    ],
)
def test_the_first_line_of_an_error(error: str, line: str) -> None:
    assert first_line(error) == line


@pytest.mark.parametrize(
    "result",
    [
        "This command requires approval",
        "Claude requested permissions to write to /work/x, but you haven't granted it",
        "Permission to use Bash has been auto-denied in dontAsk mode.",
        "The user doesn't want to take this action right now. STOP what you are doing",
    ],
)
def test_denials_of_old_versions_are_not_failures(tmp_path: Path, result: str) -> None:
    home = Home(tmp_path / ".claude")
    calls = Calls(SHOP, "a").call("Bash", result, fails=True, command="make")
    home.session(session_id(1), thread(*calls.records))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        assert list(archive.errors()) == []
