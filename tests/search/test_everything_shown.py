"""What is shown can be found: last lines without a newline, steering, command output."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.archive import Archive
from tests.build import attachment, jsonl, prompt, reply, session_id, system, thread
from tests.store.keeping import Keeping, unlike_rebuilt


def count_hits(keeping: Keeping, word: str) -> int:
    with Archive.open(keeping.archive) as archive:
        return sum(one.hit_count for one in archive.search(word).sessions)


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    return Keeping(tmp_path)


def test_last_record_without_a_newline_is_found(keeping: Keeping) -> None:
    records = thread(prompt("hello"), reply("about walruses"), prompt("a narwhal"))
    path = keeping.home.session(session_id(1), records[:2])
    with path.open("ab") as file:
        file.write(jsonl(records[2:])[:-1])

    keeping.ingest()

    assert count_hits(keeping, "narwhal") == 1
    with Archive.open(keeping.archive) as archive:
        assert b"narwhal" in archive.record(str(records[2]["uuid"])).raw


def test_last_record_is_found_once_after_its_newline(keeping: Keeping) -> None:
    records = thread(prompt("hello"), prompt("a narwhal"), reply("a walrus"))
    path = keeping.home.session(session_id(1), records[:1])
    with path.open("ab") as file:
        file.write(jsonl(records[1:2])[:-1])
    keeping.ingest()
    with path.open("ab") as file:
        file.write(b"\n" + jsonl(records[2:]))

    keeping.ingest()

    assert count_hits(keeping, "narwhal") == 1
    assert count_hits(keeping, "walrus") == 1
    assert unlike_rebuilt(keeping) == []


def test_steering_prompt_is_found(keeping: Keeping) -> None:
    steering = attachment("queued_command", prompt="hurry narwhal", uuid="x1")
    records = thread(prompt("hello"), reply("working"), steering, reply("done"))
    keeping.home.session(session_id(1), records)

    keeping.ingest()

    assert count_hits(keeping, "narwhal") == 1


def test_output_of_a_local_command_is_found(keeping: Keeping) -> None:
    output = "<local-command-stdout>the narwhal model</local-command-stdout>"
    records = thread(prompt("hello"), system("local_command", output, uuid="s1"))
    keeping.home.session(session_id(1), records)

    keeping.ingest()

    assert count_hits(keeping, "narwhal") == 1
