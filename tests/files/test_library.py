"""Files of an archive: found by their path, with backups, purged with their sessions."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.errors import AmbiguousSelector, NotInArchive
from tests.build import CWD, SESSION, Home, moment, session_id, snapshot
from tests.files.story import FILE, Story

ONE = "one\ntwo\nthree\n"


def make_archive(folder: Path, *stories: Story) -> Path:
    home = Home(folder / "home")
    for story in stories:
        story.write_to(home)
    Archive.ingest(folder / "archive", [home.path])
    return folder / "archive"


def two_sessions() -> tuple[Story, Story]:
    first = Story()
    first.say("Create")
    first.write(ONE)
    first.say("Change")
    first.edit("two", "2", ONE)
    second = Story(session_id(2), name="b")
    second.seconds = 3600
    second.say("Again")
    second.edit("three", "3", "one\n2\nthree\n")
    return first, second


def test_file_is_found_by_its_path_or_the_end_of_it(tmp_path: Path) -> None:
    with Archive.open(make_archive(tmp_path, *two_sessions())) as archive:
        for name in (FILE, "a.py", "demo/a.py", "./a.py"):
            assert archive.file(name).text() == "one\n2\n3\n"
        # The project was moved.
        assert archive.file_library.open("a.py", "/elsewhere/demo/a.py").path == FILE
        with pytest.raises(NotInArchive):
            archive.file("b.py")


def test_similar_names_are_suggested(tmp_path: Path) -> None:
    story = Story()
    story.say("Write")
    story.write("one\n", path=f"{CWD}/src/config.py")

    with Archive.open(make_archive(tmp_path, story)) as archive:
        for name, absolute in (
            ("src/confg.py", f"{CWD}/src/confg.py"),
            ("confg.py", f"{CWD}/confg.py"),
        ):
            with pytest.raises(NotInArchive) as error:
                archive.file_library.open(name, absolute)
            assert error.value.suggestions == ["src/config.py"]


def test_file_at_a_turn_of_a_session(tmp_path: Path) -> None:
    with Archive.open(make_archive(tmp_path, *two_sessions())) as archive:
        file = archive.file(FILE)
        assert [v.place.session_id for v in file.versions] == [
            SESSION,
            SESSION,
            session_id(2),
        ]
        assert file.at(SESSION, 0).text == ONE
        assert file.at(SESSION, 1).text == "one\n2\nthree\n"
        assert file.at(SESSION, 1, is_before=True).text == ONE
        assert file.at(session_id(2), 0, is_before=True).text == "one\n2\nthree\n"
        assert file.at(session_id(2)).text == "one\n2\n3\n"
        later = datetime.fromisoformat(moment(30))
        assert file.at_time(later).text == "one\n2\nthree\n"
        assert [
            origin.place.session_id for _, origin in file.blame() if origin.place
        ] == [
            SESSION,
            SESSION,
            session_id(2),
        ]


def test_several_files_with_one_name_are_ambiguous_unless_they_are_worktrees(
    tmp_path: Path,
) -> None:
    story = Story()
    story.say("Create")
    story.write("main\n")
    story.write("tree\n", path=f"{CWD}/.claude/worktrees/x/a.py")
    story.write("other\n", path="/other/b.py")
    story.write("another\n", path="/another/b.py")
    with Archive.open(make_archive(tmp_path, story)) as archive:
        file = archive.file("a.py")
        assert file.path == FILE
        assert file.related_paths == (f"{CWD}/.claude/worktrees/x/a.py",)
        with pytest.raises(AmbiguousSelector):
            archive.file("b.py")


def test_backups_are_read_from_the_archive(tmp_path: Path) -> None:
    story = Story()
    at = story.say("Change")
    story.records.append(snapshot(at, {"a.py": "0f1e2d3c4b5a6978@v1"}))
    story.edit("two", "2", None)
    Home(tmp_path / "home").backup(SESSION, "0f1e2d3c4b5a6978@v1", ONE.encode())
    with Archive.open(make_archive(tmp_path, story)) as archive:
        assert archive.file(FILE).text() == "one\n2\nthree\n"


def test_all_files_at_a_turn(tmp_path: Path) -> None:
    with Archive.open(make_archive(tmp_path, *two_sessions())) as archive:
        session = archive.session_summary(SESSION).id
        (file,) = archive.file_library.files_at(session, 1, is_before=True)
        assert (file.path, file.text) == (FILE, ONE)
        (file,) = archive.file_library.files_at(session, 1, is_before=False)
        assert file.text == "one\n2\nthree\n"


def test_purged_session_leaves_no_versions(tmp_path: Path) -> None:
    folder = make_archive(tmp_path, *two_sessions())
    with Archive.open(folder) as archive:
        ids = [archive.session_summary(SESSION).id]
        archive.purge(archive.sources(sessions=ids), sessions=ids)
        file = archive.file(FILE)
        assert {v.place.session_id for v in file.versions} == {session_id(2)}
        # What the other session recorded itself is not purged.
        assert file.text(0) == "one\n2\nthree\n"
        with pytest.raises(NotInArchive):
            file.at(SESSION, 0)


def test_file_at_a_turn_is_found_by_the_start_of_a_session_id(tmp_path: Path) -> None:
    with Archive.open(make_archive(tmp_path, two_sessions()[0])) as archive:
        file = archive.file("a.py")

        assert file.at(SESSION[:8], 0).text == ONE
        assert file.blame_at(SESSION[:8], 0)
        with pytest.raises(NotInArchive):
            file.at("ffff", 0)
        assert repr(file) == f"<ArchivedFile {FILE!r}>"
