"""What is shown can be found: last lines without a newline, steering, command output."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.archive import Archive
from tests.build import attachment, jsonl, prompt, reply, session_id, system, thread
from tests.store.sandbox import Sandbox, differing_tables


def count_hits(sandbox: Sandbox, word: str) -> int:
    with Archive.open(sandbox.archive) as archive:
        return sum(one.hit_count for one in archive.search(word).sessions)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def test_last_record_without_a_newline_is_found(sandbox: Sandbox) -> None:
    records = thread(prompt("hello"), reply("about walruses"), prompt("a narwhal"))
    path = sandbox.home.session(session_id(1), records[:2])
    with path.open("ab") as file:
        file.write(jsonl(records[2:])[:-1])

    sandbox.ingest()

    assert count_hits(sandbox, "narwhal") == 1
    with Archive.open(sandbox.archive) as archive:
        assert b"narwhal" in archive.record(str(records[2]["uuid"])).raw


def test_last_record_is_found_once_after_its_newline(sandbox: Sandbox) -> None:
    records = thread(prompt("hello"), prompt("a narwhal"), reply("a walrus"))
    path = sandbox.home.session(session_id(1), records[:1])
    with path.open("ab") as file:
        file.write(jsonl(records[1:2])[:-1])
    sandbox.ingest()
    with path.open("ab") as file:
        file.write(b"\n" + jsonl(records[2:]))

    sandbox.ingest()

    assert count_hits(sandbox, "narwhal") == 1
    assert count_hits(sandbox, "walrus") == 1
    assert differing_tables(sandbox) == []


def test_steering_prompt_is_found(sandbox: Sandbox) -> None:
    steering = attachment("queued_command", prompt="hurry narwhal", uuid="x1")
    records = thread(prompt("hello"), reply("working"), steering, reply("done"))
    sandbox.home.session(session_id(1), records)

    sandbox.ingest()

    assert count_hits(sandbox, "narwhal") == 1


def test_output_of_a_local_command_is_found(sandbox: Sandbox) -> None:
    output = "<local-command-stdout>the narwhal model</local-command-stdout>"
    records = thread(prompt("hello"), system("local_command", output, uuid="s1"))
    sandbox.home.session(session_id(1), records)

    sandbox.ingest()

    assert count_hits(sandbox, "narwhal") == 1
