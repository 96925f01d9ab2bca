"""What sessions changed."""

from __future__ import annotations

import pytest

from recollect.assemble import versions_of
from recollect.model.metadata import FileDelta, FileSnapshot
from recollect.parse import parse_line
from tests.assemble.making import only
from tests.build import (
    Written,
    delta,
    lines,
    prompt,
    reply,
    session,
    snapshot,
    thread,
    tool_result,
    tool_use,
)

PATCH = [{"oldStart": 1, "lines": [" a", "-b", "+c", "+d"]}]


def edits(records: list[Written]) -> list[tuple[str, int, int, bool]]:
    return [
        (edit.path, edit.added, edit.removed, edit.is_new)
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
def test_an_edit_tells_what_came_and_went(
    outcome: object, found: tuple[str, int, int, bool]
) -> None:
    assert edits(edited("Edit", outcome, file_path="/b")) == [found]


@pytest.mark.req("H3")
@pytest.mark.parametrize("name", ["Edit", "Write", "MultiEdit", "NotebookEdit"])
def test_every_tool_that_edits_is_listed(name: str) -> None:
    assert len(edits(edited(name, notebook_path="/n.ipynb"))) == 1


@pytest.mark.req("H3")
def test_what_reads_or_names_no_file_edits_nothing() -> None:
    assert edits(edited("Read", file_path="/a")) == []
    assert edits(edited("Edit")) == []


@pytest.mark.req("H3")
def test_a_call_that_failed_or_has_no_answer_changed_nothing() -> None:
    records = edited("Edit", file_path="/a")
    failed = [*records[:2], tool_result("t", "no", is_error=True)]

    assert edits(records[:2]) == []
    assert edits(failed) == []


@pytest.mark.req("H3")
def test_an_edit_has_its_turn_its_branch_and_its_agent() -> None:
    records = [
        *session("p1", "a1<p1"),
        *edited("Edit", file_path="/left"),
        *session("p2<a1:user"),
        reply([tool_use("Edit", id="u", file_path="/live")], uuid="b", parent="p2"),
        tool_result("u", "ok", uuid="s", parent="b"),
    ]
    records[2]["parentUuid"] = "a1"
    told = only(records).edits

    assert [(e.path, e.turn, e.branch, e.message, e.agent) for e in told] == [
        ("/live", 1, 0, "b", None),
        ("/left", 1, 1, "a", None),
    ]
    assert told[0].call.id == "u"


def kept(*records: Written) -> list[FileSnapshot | FileDelta]:
    parsed = [found for line in lines(records) for found in parse_line(line)]
    return [one for one in parsed if isinstance(one, FileSnapshot | FileDelta)]


@pytest.mark.req("H1")
def test_snapshots_and_deltas_give_the_versions_of_every_file() -> None:
    records = kept(
        snapshot("p1", {"a.py": None}),
        snapshot("p2", {"a.py": "0f1e2d3c4b5a6978@v2", "b.py": None}),
        snapshot("p2", {"a.py": "0f1e2d3c4b5a6978@v2"}, update=True),
        delta("p3", "p2", "a.py", "0f1e2d3c4b5a6978@v3"),
    )

    versions = versions_of(records)

    assert [(v.version, v.message, v.is_new) for v in versions["a.py"]] == [
        (1, "p1", True),
        (2, "p2", False),
        (3, "p3", False),
    ]
    assert [v.message for v in versions["b.py"]] == ["p2"]
    assert versions["a.py"][1].backup == "0f1e2d3c4b5a6978@v2"
    assert versions["a.py"][1].time is not None


@pytest.mark.req("H1")
def test_snapshots_that_say_nothing_give_no_versions() -> None:
    bare = delta("p", "p", "a.py", "0f1e2d3c4b5a6978@v3")
    records = kept(
        snapshot("p") | {"snapshot": None},
        bare | {"trackingPath": None},
        bare | {"backup": None},
    )

    assert len(records) == 3
    assert versions_of(records) == {}
