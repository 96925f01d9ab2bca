"""Diffs of edits."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.model.outcomes import PatchHunk
from bygones.reader import read_sessions
from tests.build import SESSION, Home, prompt, reply, thread, tool_result, tool_use

pytestmark = pytest.mark.req("H3")


def changed(
    folder: Path, name: str = "Edit", outcome: object = None, **given: object
) -> tuple[PatchHunk, ...]:
    """Return the diff of the one edit of a session."""
    records = thread(
        prompt("Edit", uuid="p"),
        reply([tool_use(name, id="t", file_path="/a", **given)], uuid="a"),
        tool_result("t", "ok", outcome=outcome, uuid="r"),
    )
    home = Home(folder)
    home.session(SESSION, records)
    (session,) = read_sessions(folder)
    (edit,) = session.edits
    return edit.diff


def lines(hunks: tuple[PatchHunk, ...]) -> list[list[str]]:
    return [list(hunk.lines) for hunk in hunks]


def test_patch_is_the_diff(tmp_path: Path) -> None:
    hunk = {"oldStart": 7, "oldLines": 1, "newStart": 7, "newLines": 1}
    patch = [hunk | {"lines": ["-a", "+b"]}]
    (found,) = changed(tmp_path, outcome={"filePath": "/a", "structuredPatch": patch})

    assert (found.old_start, found.new_start, found.lines) == (7, 7, ("-a", "+b"))


@pytest.mark.parametrize("is_told", [True, False])
def test_texts_are_compared_without_a_patch(tmp_path: Path, *, is_told: bool) -> None:
    actual = {"filePath": "/a", "oldString": "x\ny\n", "newString": "x\nz\n"}
    given = {"old_string": "x\ny\n", "new_string": "x\nz\n"}
    found = changed(tmp_path, outcome=actual) if is_told else changed(tmp_path, **given)

    assert lines(found) == [[" x", "-y", "+z"]]
    assert [(hunk.old_start, hunk.new_start) for hunk in found] == [(0, 0)]


def test_new_file_is_all_added(tmp_path: Path) -> None:
    actual = {"type": "create", "filePath": "/a", "content": "x\ny\n"}
    (found,) = changed(tmp_path, "Write", actual, content="x\ny\n")

    assert found == PatchHunk(new_start=1, new_lines=2, lines=("+x", "+y"))


def test_diff_is_computed_from_the_input(tmp_path: Path) -> None:
    edits = [
        {"old_string": "a", "new_string": "b"},
        {"old_string": "c", "new_string": ""},
    ]

    assert lines(changed(tmp_path, "MultiEdit", edits=edits)) == [["-a", "+b"], ["-c"]]


def test_notebook_cells_are_compared(tmp_path: Path) -> None:
    actual = {"notebook_path": "/a", "old_source": "a", "new_source": "b"}

    assert lines(changed(tmp_path, "NotebookEdit", actual)) == [["-a", "+b"]]


def test_distant_changes_are_separate_hunks(tmp_path: Path) -> None:
    same = "\n".join("abcdefghij")
    actual = {
        "filePath": "/a",
        "originalFile": f"1\n{same}\n2",
        "content": f"3\n{same}\n4",
    }
    found = changed(tmp_path, "Write", actual)

    assert [(hunk.old_start, hunk.new_lines) for hunk in found] == [(1, 4), (9, 4)]


def test_long_texts_are_replaced_as_a_whole(tmp_path: Path) -> None:
    old, new = "x\n" * 3000, "x\n" * 3001
    (found,) = changed(tmp_path, old_string=old, new_string=new)

    assert (found.old_lines, found.new_lines) == (3000, 3001)


def test_input_of_another_form_has_no_diff(tmp_path: Path) -> None:
    assert changed(tmp_path, old_string=7) == ()


def test_file_written_without_change_has_no_diff(tmp_path: Path) -> None:
    actual = {"type": "update", "filePath": "/a", "content": "x", "structuredPatch": []}

    assert changed(tmp_path, "Write", actual, content="x") == ()
