"""Projects of sessions."""

from __future__ import annotations

import pytest
from msgspec import structs

from bygones.assemble.summary import detect_project, group_into_projects
from bygones.model.base import ProjectKey, SourceId
from bygones.model.sessions import Session
from tests.assemble.helpers import assembled, nodes, transcript
from tests.build import Written, meta, session, session_id


def placed(directory: str | None, *more: Written) -> str | None:
    return detect_project(nodes([*more, *session("a", "b<a", cwd=directory)]))


def sessions_in(*directories: str | None) -> tuple[Session, ...]:
    return assembled(
        *(
            transcript(session_id(at), session(f"p{at}", cwd=directory))
            for at, directory in enumerate(directories)
        )
    )


@pytest.mark.req("L2")
@pytest.mark.parametrize(
    ("directory", "project"),
    [
        ("/work/demo", "/work/demo"),
        ("/work/demo/.claude/worktrees/fix", "/work/demo"),
        ("/work/demo/.claude/worktrees/fix/src", "/work/demo"),
        ("c:\\work\\demo", "C:\\work\\demo"),
        ("C:\\work\\demo\\.claude\\worktrees\\x", "C:\\work\\demo"),
        ("c:/work", "C:/work"),
        ("c", "c"),
        (None, None),
        ("", None),
    ],
)
def test_project_is_the_directory_in_the_records(
    directory: str | None, project: str | None
) -> None:
    assert placed(directory) == project


@pytest.mark.req("L2")
def test_project_is_the_directory_where_the_session_started() -> None:
    records = [*session("a", cwd="/one"), *session("b<a", cwd="/two")]

    assert detect_project(nodes(records)) == "/one"


@pytest.mark.req("L2")
def test_worktree_belongs_to_its_repository() -> None:
    state = meta("worktree-state", worktreeSession={"originalCwd": "c:\\work"})
    ended = meta("worktree-state", worktreeSession=None)

    assert placed("/elsewhere", state) == "C:\\work"
    assert placed("/elsewhere", ended) == "/elsewhere"


@pytest.mark.req("L2", "F3")
def test_two_directories_with_one_key_are_two_projects() -> None:
    found = group_into_projects(sessions_in("/work/a-b", "/work/a.b", "/work/a-b"))

    assert [(item.path, len(item.session_ids)) for item in found] == [
        ("/work/a-b", 2),
        ("/work/a.b", 1),
    ]
    assert {item.project_keys for item in found} == {("-work-demo",)}


@pytest.mark.req("L2")
def test_sessions_without_a_directory_are_one_project_per_key() -> None:
    (item,) = group_into_projects(sessions_in(None, None))

    assert (item.path, item.project_keys, item.name) == (
        None,
        ("-work-demo",),
        "-work-demo",
    )
    assert len(item.session_ids) == 2
    assert item.source_bytes == 0


@pytest.mark.req("L2")
def test_project_name_is_the_last_part_of_its_path() -> None:
    found = group_into_projects(sessions_in("/work/demo/", "C:\\work\\tool"))

    assert [item.name for item in found] == ["demo", "tool"]


def test_moved_project_is_the_directory_in_the_newest_copy() -> None:
    old = transcript(session_id(1), session("a", "b<a", cwd="/work/old"))
    new = transcript(session_id(1), session("a", "b<a", cwd="/work/new"))
    place = structs.replace(
        new.source,
        id=SourceId("/home/projects/-work-new/1.jsonl"),
        project_key=ProjectKey("-work-new"),
        mtime_ns=old.source.mtime_ns + 1,
    )

    (moved,) = assembled(old, structs.replace(new, source=place))

    assert moved.project == "/work/new"
