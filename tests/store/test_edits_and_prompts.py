"""Edits and prompts in the index."""

from __future__ import annotations

from pathlib import Path

from bygones.archive import Archive
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use


def edited(path: str, name: str = "toolu_1") -> list[dict[str, object]]:
    outcome = {"filePath": path, "oldString": "a", "newString": "b\nc"}
    return [
        prompt("Change it"),
        reply(
            [tool_use("Edit", id=name, file_path=path, old_string="a", new_string="b")]
        ),
        tool_result(name, "done", outcome=outcome),
    ]


def archive_of(tmp_path: Path, *paths: str) -> Archive:
    home = Home(tmp_path / "home")
    for number, path in enumerate(paths, 1):
        records = thread(*edited(path), start=number * 100)
        home.session(session_id(number), records)
    Archive.ingest(tmp_path / "archive", [home.path])
    return Archive.open(tmp_path / "archive")


def found(archive: Archive, path: str) -> list[str]:
    return [edit.path for edit in archive.edits(path=path)]


def test_edits_are_found_by_path_folder_and_suffix(tmp_path: Path) -> None:
    with archive_of(tmp_path, "/w/a/x.py", "/w/ab/x.py", "/w/a/b/y.py") as archive:
        assert found(archive, "/w/a/x.py") == ["/w/a/x.py"]
        assert found(archive, "/w/a") == ["/w/a/x.py", "/w/a/b/y.py"]
        assert found(archive, "/w/a/") == ["/w/a/x.py", "/w/a/b/y.py"]
        assert found(archive, "x.py") == ["/w/a/x.py", "/w/ab/x.py"]
        assert found(archive, "b/y.py") == ["/w/a/b/y.py"]
        assert found(archive, ".py") == []


def test_edits_are_found_by_windows_paths(tmp_path: Path) -> None:
    with archive_of(tmp_path, "C:\\w\\src\\x.py") as archive:
        assert found(archive, "C:\\w\\src\\x.py") == ["C:\\w\\src\\x.py"]
        assert found(archive, "C:\\w") == ["C:\\w\\src\\x.py"]
        assert found(archive, "src/x.py") == ["C:\\w\\src\\x.py"]


def test_sql_wildcards_are_ordinary_characters(tmp_path: Path) -> None:
    with archive_of(tmp_path, "/w/100%_'.py") as archive:
        assert found(archive, "100%_'.py") == ["/w/100%_'.py"]
        assert found(archive, "%") == []


def test_edits_of_a_session(tmp_path: Path) -> None:
    with archive_of(tmp_path, "/w/a", "/w/b") as archive:
        (edit,) = archive.edits(session=session_id(2))

    assert (edit.path, edit.session_id, edit.branch_number) == (
        "/w/b",
        session_id(2),
        0,
    )
    assert edit.edited_at is not None


def test_prompts_of_abandoned_branches_are_listed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    first = thread(prompt("One", uuid="a"), reply("Yes", uuid="b"))
    left = prompt("Two", uuid="c", parent="b", timestamp="2026-01-05T10:00:00Z")
    taken = prompt("Three", uuid="d", parent="b", timestamp="2026-01-05T11:00:00Z")
    home.session(session_id(1), [*first, left, taken])
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        prompts = [(one.text, one.branch_number) for one in archive.prompts()]

    assert prompts == [("Three", 0), ("Two", 1), ("One", 0)]
