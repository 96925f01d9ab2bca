"""Tags, notes and stars."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.model.summary import Annotations
from tests.build import Home

pytestmark = pytest.mark.usefixtures("demo_home")


def stdout_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == ExitCode.SUCCESS
    return capsys.readouterr().out


def parse_rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_tag_is_shown_and_can_be_searched(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stdout = stdout_of(capsys, "tag", "last", "release", "flaky test")

    assert stdout.endswith("charging twice #flaky test #release\n")
    assert "charging twice" in stdout_of(capsys, "list", "tag:release")
    assert "charging twice" in stdout_of(capsys, "list", 'tag:"flaky test"')
    assert stdout_of(capsys, "tag") == (
        "TAG         SESSIONS\nflaky test         1\nrelease            1\n"
    )
    assert parse_rows(stdout_of(capsys, "tag", "--json")) == [
        {"type": "tag", "tag": "flaky test", "session_count": 1},
        {"type": "tag", "tag": "release", "session_count": 1},
    ]


def test_tag_can_be_removed(capsys: pytest.CaptureFixture[str]) -> None:
    stdout_of(capsys, "tag", "last", "a", "b")

    stdout_of(capsys, "tag", "last", "--delete", "a")

    (row,) = parse_rows(stdout_of(capsys, "tag", "last", "--json"))
    assert row["tags"] == ["b"]


@pytest.mark.parametrize("word", [" ", "a\x1b[2J", "x" * 101])
def test_invalid_tag_is_rejected(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tag", "last", word]) == ExitCode.USAGE_ERROR
    assert "is not a valid tag" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"), [(["tag"], "no tags yet\n"), (["-q", "tag"], "")]
)
def test_quiet_does_not_report_missing_tags(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == ExitCode.SUCCESS
    assert capsys.readouterr().err == message


def test_note_replaces_the_previous_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stdout_of(capsys, "note", "last", "first words")

    stdout = stdout_of(capsys, "note", "last", "the key", "was the fix")

    assert stdout.splitlines()[1:] == ["          the key was the fix"]
    assert "first words" not in stdout_of(capsys, "note", "last")
    assert (
        parse_rows(stdout_of(capsys, "list", "--json"))[0]["note"]
        == "the key was the fix"
    )


def test_note_can_be_removed(capsys: pytest.CaptureFixture[str]) -> None:
    stdout_of(capsys, "note", "last", "words")

    stdout_of(capsys, "note", "last", "-d")

    assert parse_rows(stdout_of(capsys, "note", "last", "--json"))[0]["note"] == ""
    assert main(["note", "last", "-d", "words"]) == ExitCode.USAGE_ERROR


def test_stars_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    stdout_of(capsys, "star", "64fb", "3d75")
    stdout_of(capsys, "star", "64fb", "--delete")

    stdout = stdout_of(capsys, "list", "--starred")

    assert "★ Why do the tests" in stdout
    assert "Markdown" not in stdout


def test_annotations_survive_a_rebuild(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stdout_of(capsys, "tag", "last", "kept")
    stdout_of(capsys, "rebuild")

    assert "charging twice" in stdout_of(capsys, "list", "tag:kept")
    stdout_of(capsys, "backup", str(home_dir / "copy"))
    with Archive.open(home_dir / "copy") as copy:
        assert list(copy.annotations().values()) == [Annotations(tags=("kept",))]


def test_purge_removes_annotations(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stdout_of(capsys, "tag", "last", "secret")
    id_ = str(parse_rows(stdout_of(capsys, "list", "--json"))[0]["session_id"])

    stdout_of(capsys, "purge", id_, "--yes")

    with Archive.open(home_dir / "archive") as archive:
        assert archive.annotations() == {}


def test_concurrent_tags_are_both_kept(demo_home: Path, home_dir: Path) -> None:
    assert Home(demo_home).path.exists()
    with Archive.open(home_dir / "archive") as archive:
        (first, *_) = [session.id for session in archive.sessions()]

        def add(tag: str) -> None:
            archive.annotate([first], lambda old: Annotations(tags=(*old.tags, tag)))

        threads = [threading.Thread(target=add, args=(tag,)) for tag in "abcdef"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tags = archive.annotations()[first].tags

    assert tags == tuple("abcdef")


def test_an_unknown_session_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["star", "nothing"]) == ExitCode.USAGE_ERROR
    assert "nothing" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["1", "1.1"])
def test_a_number_of_the_last_search_names_the_session_that_was_found(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = str(
        parse_rows(stdout_of(capsys, "search", "markdown", "--json"))[1]["session_id"]
    )
    last = parse_rows(stdout_of(capsys, "list", "-n", "1", "--json"))[0]["session_id"]
    assert session != last

    for arguments in (["star", name], ["tag", name, "a"], ["note", name, "b"]):
        (row,) = parse_rows(stdout_of(capsys, *arguments, "--json"))
        assert row["session_id"] == session
    assert session in stdout_of(capsys, "resume", name)
    assert stdout_of(capsys, "files", name) == stdout_of(capsys, "files", session)


def test_a_number_that_the_last_search_did_not_find_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stdout_of(capsys, "search", "markdown")

    assert main(["star", "777"]) != ExitCode.SUCCESS
    assert "the last search had" in capsys.readouterr().err
