"""The real client continues a fork with the messages that were sent at that point."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.maintenance.move import move_project, plan_move
from tests.client.messages_api import Json, prompt_text
from tests.client.recording import Recording, read_lines, resume_apart, rewind_apart

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.fixture
def copy(recording: Recording, tmp_path: Path) -> Recording:
    """Return a copy of the recording that may be changed."""
    shutil.copytree(recording.folder, tmp_path / "copy", symlinks=True)
    return Recording(tmp_path / "copy")


@pytest.fixture
def archive(copy: Recording, tmp_path: Path) -> Iterator[Archive]:
    """Return an archive of the copy."""
    Archive.ingest(tmp_path / "archive", [copy.home])
    with Archive.open(tmp_path / "archive") as opened:
        yield opened


def only_scenario(name: str) -> pytest.MarkDecorator:
    case = pytest.param(name, marks=pytest.mark.full, id=name)
    return pytest.mark.parametrize("scenario", [case], indirect=True)


def conversation(messages: list[Json]) -> list[tuple[str, list[object]]]:
    """Return what messages say and do, without reminders and the last prompt."""
    turns: list[tuple[str, list[object]]] = []
    for message in messages:
        content = message["content"]
        blocks = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        for block in blocks if message["role"] != "system" else ():
            part: object = None
            if block["type"] == "text":
                part = prompt_text({"content": [block]}).strip()
            elif block["type"] == "tool_use":
                part = (block["name"], block["input"])
            elif block["type"] == "tool_result":
                part = block["content"]
            if not part:
                continue
            if not turns or turns[-1][0] != message["role"]:
                turns.append((message["role"], []))
            turns[-1][1].append(part)
    assert turns[-1][0] == "user"
    turns[-1][1].pop()
    return turns if turns[-1][1] else turns[:-1]


def sent_with(recording: Recording, prompt: str) -> list[Json]:
    """Return the messages of the first request with a prompt."""
    for entry in recording.requests():
        messages: list[Json] = entry["request"]["messages"]
        if entry["phrase"] and entry["phrase"] in prompt and entry["step"] == 0:
            return messages
    raise AssertionError(prompt)


@only_scenario("compact")
@pytest.mark.req("GO1")
def test_fork_continues_before_a_turn_and_before_a_compaction(
    copy: Recording, archive: Archive
) -> None:
    (id_,) = copy.session_ids()
    points: list[dict[str, object]] = [
        {"turn": 2},
        {"turn": 3},
        {"before_compaction": True},
    ]
    shutil.rmtree(copy.home / "projects")

    forks = [archive.fork(id_, **point).session_id for point in points]  # type: ignore[arg-type]

    sent = [conversation(messages) for messages in resume_apart(copy, list(forks))]
    assert sent[0] == conversation(sent_with(copy, "This is number 2."))
    assert sent[1] == conversation(sent_with(copy, "This is number 3."))
    assert sent[2] == [
        ("user", ["This is number 1."]),
        ("assistant", ["That was 1!"]),
        ("user", ["This is number 2."]),
        ("assistant", ["That was 2!"]),
    ]


@only_scenario("rewinds_around_compactions")
def test_fork_continues_every_prompt_of_every_branch(
    copy: Recording, archive: Archive
) -> None:
    (id_,) = copy.session_ids()
    session = archive.session(id_)
    forks = {}
    for branch in session.branches:
        for number, turn in enumerate(branch.turns[1:], 2):
            assert turn.prompt
            fork = archive.fork(id_, turn=number, branch=branch.number)
            forks[branch.number, turn.prompt.preview] = fork.session_id

    sent = resume_apart(copy, list(forks.values()))

    for (_, prompt), messages in zip(forks, sent, strict=True):
        assert conversation(messages) == conversation(sent_with(copy, prompt)), prompt


@pytest.mark.full
@pytest.mark.parametrize(
    "scenario", ["summarize_from", "summarize_up_to", "agents", "files"], indirect=True
)
def test_fork_at_the_end_continues_as_the_session_does(
    copy: Recording, archive: Archive
) -> None:
    (id_,) = copy.session_ids()
    fork = archive.fork(id_)
    original = resume_apart(copy, [id_])
    shutil.rmtree(copy.home / "projects")
    with Archive.open(archive.folder) as opened:
        fork = opened.fork(id_)

    (sent,) = resume_apart(copy, [fork.session_id])

    assert conversation(sent) == conversation(original[0])


@only_scenario("rewind")
def test_fork_for_another_directory_restores_files_there(
    copy: Recording, archive: Archive, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "counter.txt").write_text("changed\n")
    (id_,) = copy.session_ids()

    fork = archive.fork(id_, turn=3, directory=elsewhere)

    (sent,) = resume_apart(copy, [fork.session_id], cwd=elsewhere)
    expected = conversation(sent_with(copy, "Set the counter to 7."))
    assert conversation(sent) == expected
    rewind_apart(copy, fork.session_id, 2, cwd=elsewhere)
    assert (elsewhere / "counter.txt").read_text() == "3\n"


@only_scenario("rewind")
@pytest.mark.req("RC2")
def test_moved_project_continues_and_restores_files(
    copy: Recording, tmp_path: Path
) -> None:
    (id_,) = copy.session_ids()
    original = resume_apart(copy, [id_])
    moved = tmp_path / "moved"
    shutil.copytree(copy.work, moved)

    # The recording was made in another directory than that of the copy.
    (recorded,) = {
        record["cwd"]
        for path in copy.transcripts()
        for record in read_lines(path)
        if "cwd" in record
    } - {str(copy.work)}
    move_project(plan_move(copy.home, recorded, str(moved)))

    (sent,) = resume_apart(copy, [id_], cwd=moved)
    assert conversation(sent)[: len(conversation(original[0]))] == conversation(
        original[0]
    )
    rewind_apart(copy, id_, 3, cwd=moved)
    assert (moved / "counter.txt").read_text() == "4\n"


@only_scenario("rewind")
def test_moved_session_restores_files_in_its_new_directory(
    copy: Recording,
    archive: Archive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = tmp_path / "moved"
    copy.work.rename(moved)
    copy.work.mkdir()
    (id_,) = copy.session_ids()
    monkeypatch.setenv("BYGONES_ARCHIVE", str(archive.folder))
    shutil.rmtree(copy.home / "projects")

    options = ["--as", str(moved), "--rewrite-cwd"]
    assert main(["restore", id_, *options]) == ExitCode.SUCCESS

    rewind_apart(copy, id_, 1, cwd=moved)
    assert (moved / "counter.txt").read_text() == "4\n"
