"""The tool file_history."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.redact.engine import Redaction, Redactor
from tests.build import (
    Written,
    prompt,
    reply,
    session_id,
    text,
    thread,
    tool_result,
    tool_use,
)
from tests.mcp.client import ToolClient, body, outside

ONE, TWO, ASKING = map(session_id, (1, 2, 9))
PATH = "/work/demo/src/clock.py"


def changing(
    arguments: str, answer: str, path: str = PATH, start: int = 0
) -> list[Written]:
    call = tool_use("Edit", file_path=path, old_string="a", new_string="b\nc")
    return thread(
        prompt(arguments),
        reply([text(answer), call]),
        tool_result("toolu_1", "The file has been updated"),
        start=start,
    )


@pytest.fixture
def client(tmp_path: Path) -> ToolClient:
    client = ToolClient(tmp_path, session=ASKING)
    client.home.session(ONE, changing("Make it tick", "It ticks now."))
    client.home.session(TWO, changing("Stop it", "It stands still.", start=600))
    client.home.session(ASKING, changing("And now?", "Not to be told.", start=900))
    other = changing("Unrelated", "Elsewhere.", path="/work/demo/src/clock.pyi")
    client.home.session(session_id(3), other)
    client.sandbox.ingest()
    return client


def test_session_that_cannot_be_redacted_does_not_hide_the_others(
    client: ToolClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Redactor.redact

    def redact(
        self: Redactor, text: str, field_name: str = ""
    ) -> tuple[str, tuple[Redaction, ...]]:
        if "Stop it" in text:
            raise ValueError("unexpected")
        return original(self, text, field_name)

    monkeypatch.setattr(Redactor, "redact", redact)

    history = body(client.ask("file_history", path=PATH))
    assert history.splitlines()[0] == f"{TWO} · it could not be read or redacted"
    assert "asked: Make it tick" in history
    recent = body(client.ask("recent"))
    assert "(left out: it could not be redacted)" in recent
    assert "Make it tick" in recent
    assert "Stop it" not in history + recent + client.ask("search", query="tick stop")


def test_history_has_newest_sessions_first_with_prompt_and_reply(
    client: ToolClient,
) -> None:
    answer = client.ask("file_history", path=PATH)
    lines = body(answer).splitlines()

    assert "2 sessions changed this path" in outside(answer)
    assert [line.split(" · ")[0] for line in lines if line[0] != " "] == [TWO, ONE]
    assert lines[1] == "  asked: Stop it"
    assert lines[2].endswith(f"changed {PATH}: It stands still.")
    assert lines[2].lstrip().startswith("#")


@pytest.mark.parametrize("path", ["clock.py", "src/clock.py", "demo/src/clock.py"])
def test_end_of_a_path_is_sufficient(client: ToolClient, path: str) -> None:
    assert client.read_all("file_history", path=path) == client.read_all(
        "file_history", path=PATH
    )


def test_folder_includes_its_files(client: ToolClient) -> None:
    assert "clock.pyi" in client.read_all("file_history", path="/work/demo/src")


def test_change_can_be_read_by_its_record(client: ToolClient) -> None:
    line = body(client.ask("file_history", path=PATH)).splitlines()[2]
    record = line.split()[0]

    answer = body(client.ask("read", session=TWO, at=record, detail="full"))

    assert "It stands still." in answer
    assert "+b" in answer


def test_rewound_change_is_labeled(client: ToolClient) -> None:
    records = [prompt("begin", uuid="a"), reply("yes", uuid="b", parent="a")]
    left = changing("try this", "Tried.", start=50)
    left[0] |= {"uuid": "c", "parentUuid": "b"}
    left[1] |= {"parentUuid": "c"}
    taken = [prompt("do that instead", uuid="z", parent="b")]
    client.home.session(session_id(4), [*records, *left, *thread(*taken, start=99)])
    client.sandbox.ingest()

    answer = client.read_all("file_history", path=PATH)

    assert f"changed {PATH}, abandoned branch 2: Tried." in answer


def test_unchanged_file_has_no_history(client: ToolClient) -> None:
    answer = client.ask("file_history", path="/work/demo/nothing.py")

    assert "0 sessions changed this path" in answer
    assert body(answer) == ""


def test_parts_joined_are_the_whole_history(client: ToolClient) -> None:
    for number in range(20, 40):
        records = changing(f"Once more, {number}", "Done. " * 20, start=number)
        client.home.session(session_id(number), records)
    client.sandbox.ingest()

    whole = body(client.ask("file_history", path=PATH, max_bytes=60_000))

    assert client.read_all("file_history", path=PATH, max_bytes=1000) == whole


def test_relative_path_means_the_file_of_this_project(client: ToolClient) -> None:
    other = changing("Other", "Elsewhere.", path="/work/other/src/clock.py", start=1200)
    other = [record | {"cwd": "/work/other"} for record in other]
    client.home.session(session_id(4), other, project="-work-other")
    client.sandbox.ingest()

    for path in ("src/clock.py", "./src/clock.py"):
        answer = client.read_all("file_history", path=path)
        assert session_id(4) not in answer
        assert TWO in answer
    assert session_id(4) in client.read_all("file_history", path="clock.py")
