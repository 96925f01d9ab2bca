"""File edits of sessions."""

from __future__ import annotations

import pytest

from tests.assemble.helpers import only
from tests.build import Written, prompt, reply, session, thread, tool_result, tool_use

PATCH = [{"oldStart": 1, "lines": [" a", "-b", "+c", "+d"]}]


def edits(records: list[Written]) -> list[tuple[str, int, int, bool]]:
    return [
        (edit.path, edit.added_lines, edit.removed_lines, edit.is_new_file)
        for edit in only(records).edits
    ]


def edited(name: str, outcome: object = None, **given: object) -> list[Written]:
    return thread(
        prompt("Edit", uuid="p"),
        reply([tool_use(name, id="t", **given)], uuid="a"),
        tool_result("t", "ok", outcome=outcome, uuid="r"),
    )


@pytest.mark.req("H3")
@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        ({"filePath": "/a", "structuredPatch": PATCH}, ("/a", 2, 1, False)),
        (
            {"filePath": "/a", "oldString": "x", "newString": "y\nz"},
            ("/a", 2, 1, False),
        ),
        ({"type": "create", "filePath": "/a", "content": "x\ny\n"}, ("/a", 2, 0, True)),
        ({"type": "create", "filePath": "/a", "content": None}, ("/a", 0, 0, True)),
        ("a text", ("/b", 0, 0, False)),
        (None, ("/b", 0, 0, False)),
    ],
    ids=["patch", "old and new", "create", "create nothing", "text", "none"],
)
def test_edit_has_added_and_removed_lines(
    outcome: object, found: tuple[str, int, int, bool]
) -> None:
    assert edits(edited("Edit", outcome, file_path="/b")) == [found]


@pytest.mark.req("H3")
@pytest.mark.parametrize("name", ["Edit", "Write", "MultiEdit", "NotebookEdit"])
def test_every_editing_tool_is_listed(name: str) -> None:
    assert len(edits(edited(name, notebook_path="/n.ipynb"))) == 1


@pytest.mark.req("H3")
def test_calls_without_a_file_or_that_only_read_are_not_edits() -> None:
    assert edits(edited("Read", file_path="/a")) == []
    assert edits(edited("Edit")) == []


@pytest.mark.req("H3")
def test_failed_and_unanswered_calls_are_not_edits() -> None:
    records = edited("Edit", file_path="/a")
    failed = [*records[:2], tool_result("t", "no", is_error=True)]

    assert edits(records[:2]) == []
    assert edits(failed) == []


@pytest.mark.req("H3")
def test_edit_has_its_turn_branch_and_agent() -> None:
    records = [
        *session("p1", "a1<p1"),
        *edited("Edit", file_path="/left"),
        *session("p2<a1:user"),
        reply([tool_use("Edit", id="u", file_path="/live")], uuid="b", parent="p2"),
        tool_result("u", "ok", uuid="s", parent="b"),
    ]
    records[2]["parentUuid"] = "a1"
    actual = only(records).edits

    assert [
        (e.path, e.turn_number, e.branch_number, e.message_id, e.agent_id)
        for e in actual
    ] == [
        ("/live", 1, 0, "b", None),
        ("/left", 1, 1, "a", None),
    ]
    assert actual[0].tool_call.id == "u"


def shell_edits(diff: object) -> list[Written]:
    outcome = {"stdout": "", "stderr": "", "bashEditDiff": diff}
    return edited("Bash", outcome, command="make")


@pytest.mark.req("H3")
def test_files_that_a_command_changed_are_edits() -> None:
    files = [
        {"filePath": "/a", "hunks": PATCH},
        {"filePath": "/b", "hunks": [{"lines": ["-x"]}], "deleted": True},
        {"filePath": "/c", "hunks": [{"lines": ["+x"]}], "created": True},
    ]
    changed = ["/b", "/a", "/c", "/d"]
    found = only(shell_edits({"files": files, "changedFiles": changed})).edits

    assert [
        (e.path, e.added_lines, e.removed_lines, e.is_new_file, e.is_deleted)
        for e in found
    ] == [
        ("/a", 2, 1, False, False),
        ("/b", 0, 1, False, True),
        ("/c", 1, 0, True, False),
        ("/d", 0, 0, False, False),
    ]
    assert [e.path for e in found if not e.has_diff] == ["/d"]
    assert {e.tool_call.name for e in found} == {"Bash"}


@pytest.mark.req("H3")
@pytest.mark.parametrize(
    "diff",
    [
        None,
        7,
        [],
        {},
        {"files": 7},
        {"files": [None], "changedFiles": [None]},
        {"files": [{"hunks": PATCH}], "changedFiles": [""]},
    ],
)
def test_malformed_changes_of_a_command_are_not_edits(diff: object) -> None:
    assert edits(shell_edits(diff)) == []
