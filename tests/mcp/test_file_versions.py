"""The tools blame and file_at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import session_id
from tests.files.story import Story
from tests.mcp.client import ToolClient, body, outside

ONE = session_id(1)
PATH = "/work/demo/src/clock.py"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def client(tmp_path: Path) -> ToolClient:
    client = ToolClient(tmp_path, session=session_id(9))
    story = Story(ONE)
    story.say("Make it tick")
    story.write(f"tick()\ntoken = '{SECRET}'\nlast()\n", path=PATH)
    story.say("Make it tock")
    story.edit("tick()", "tock()", f"tick()\ntoken = '{SECRET}'\nlast()\n", path=PATH)
    story.write_to(client.home)
    client.sandbox.ingest()
    return client


def test_blame_cites_the_turn_and_the_prompt(client: ToolClient) -> None:
    answer = client.ask("blame", path=PATH, line=1, last_line=3)
    first, _, second = body(answer).splitlines()[:3]

    assert first.startswith("line 1 · claude · ")
    assert " t2 · #" in first
    assert first.endswith("asked: Make it tock")
    assert second.startswith("line 2-3 · claude · ")
    assert "last recorded version" in outside(answer)


def test_blame_reads_no_file_outside_the_directory_of_the_agent(
    tmp_path: Path,
) -> None:
    client = ToolClient(tmp_path, session=session_id(9))
    file = tmp_path / "elsewhere" / "src" / "clock.py"
    story = Story(ONE)
    story.say("Make it tick")
    story.write("tick()\n", path=str(file))
    story.write_to(client.home)
    client.sandbox.ingest()
    file.parent.mkdir(parents=True)
    file.write_text("tick()\nprivate()\n")

    answer = client.ask("blame", path="src/clock.py", line=1)

    assert "last recorded version" in outside(answer)
    assert "private" not in answer
    assert "fewer lines" in client.fail("blame", path="src/clock.py", line=2)


def test_file_at_a_turn_is_quoted(client: ToolClient) -> None:
    answer = body(client.ask("file_at", path="src/clock.py", session=ONE, turn=1))

    assert "| tick()" in answer
    assert "t1" in answer
    before = client.ask("file_at", path=PATH, session=ONE, turn=1, before=True)
    assert "did not exist" in body(before)
    assert "| tock()" in body(client.ask("file_at", path=PATH, session=ONE))


@pytest.mark.req("FV6")
def test_versions_are_redacted(client: ToolClient) -> None:
    for answer in (
        client.ask("file_at", path=PATH, session=ONE),
        client.ask("blame", path=PATH, line=2),
    ):
        assert SECRET not in answer
        assert "Redacted: 1 value" in answer


def test_only_files_of_the_caller_are_read_from_disk(
    client: ToolClient, tmp_path: Path
) -> None:
    path = tmp_path / "outside.py"
    story = Story(session_id(2), name="b")
    story.say("Write")
    story.write("recorded\n", path=str(path))
    story.write_to(client.home)
    client.sandbox.ingest()
    path.write_text("private\n", "utf-8")

    answer = client.ask("blame", path=str(path), line=1)

    assert "| recorded" in body(answer)
    assert "private" not in answer


def test_a_turn_or_branch_that_does_not_exist_is_an_error(client: ToolClient) -> None:
    text, is_error = client.call("file_at", path=PATH, session=ONE, turn=99)
    assert is_error
    assert f"no turn '{ONE[:8]}:99'" in text
    text, is_error = client.call("file_at", path=PATH, session=ONE, branch=7)
    assert is_error
    assert f"no branch '{ONE[:8]}~7'" in text
