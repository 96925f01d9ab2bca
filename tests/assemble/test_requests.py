"""What the model was sent, rebuilt from the records of a session."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from bygones.archive import Archive
from bygones.model.reports import BlockOrigin, TurnRequests
from tests.build import (
    Home,
    Written,
    compact,
    meta,
    prompt,
    reply,
    session_id,
    system,
    thread,
    tool_result,
    tool_use,
)

SESSION = session_id(1)
REMINDER = "<system-reminder>Answer briefly.</system-reminder>"
SYSTEM = {"type": "text", "text": "You are Claude."}
TOOLS = [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}]


def digest(role: str, content: list[Any]) -> str:
    """Return the hash of a message, written as the format describes it."""
    message = {"role": role, "content": content}
    text = json.dumps(
        message, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def text(words: str) -> Written:
    return {"type": "text", "text": words}


def api_request(number: int, tail: Iterable[str], *, keep: int = 0) -> Written:
    based = {"base": f"request-{number - 1}"} if keep else {}
    return meta(
        "api-request",
        id=f"request-{number}",
        shapeHash="shape",
        params={"model": "claude-opus-5-5", "output_config": {"effort": "high"}},
        keep=keep,
        tail=list(tail),
        cacheControl=[{"path": ["messages", 0, "content", 1], "value": {}}],
        **based,
    )


def recorded_session() -> list[Written]:
    """Return two turns with four requests, of which the last rewound the messages."""
    first = [text(REMINDER), text("Read both")]
    calls = [tool_use("Read", id="t1", path="a"), tool_use("Read", id="t2", path="b")]
    results = [tool_result("t1", "A", uuid="r1"), tool_result("t2", "B", uuid="r2")]
    both = [result["message"]["content"][0] for result in results]
    hashes = [
        digest("user", first),
        digest("assistant", calls),
        digest("user", both),
        digest("assistant", [text("Done ä.")]),
        digest("user", [text("Thanks")]),
    ]
    refs: list[dict[str, Any]] = [{"requestRef": f"request-{n}"} for n in (1, 2, 3)]
    one, two, three = refs
    return thread(
        meta(
            "api-request-shape",
            shapeHash="shape",
            shape={"system": [SYSTEM], "tools": TOOLS},
        ),
        prompt("Read both", uuid="p1"),
        meta(
            "api-request-blob",
            hash=hashes[0],
            message={"role": "user", "content": first},
        ),
        api_request(1, hashes[:1]),
        reply([calls[0]], uuid="a1", message_id="m1", **one),
        reply([calls[1]], uuid="a2", message_id="m1", **one),
        *results,
        api_request(2, hashes[1:3], keep=1),
        reply("Done ä.", uuid="a3", **two),
        prompt("Thanks", uuid="p2"),
        api_request(3, ["0" * 64, hashes[4]], keep=1),
        reply("Welcome.", uuid="a4", **three),
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / ".claude")


def requests_of_turn(home: Home, records: list[Written], turn: int) -> TurnRequests:
    home.session(SESSION, records)
    folder = home.path.parent / "archive"
    Archive.ingest(folder, [home.path])
    with Archive.open(folder) as archive:
        return archive.turn_requests(archive.session(SESSION), turn)


def sent_texts(turn: TurnRequests, index: int = -1) -> list[list[str]]:
    return [
        [block.text for block in message.blocks]
        for message in turn.requests[index].messages
    ]


def test_request_is_rebuilt_from_hashes_blobs_and_records(home: Home) -> None:
    turn = requests_of_turn(home, recorded_session(), 0)

    assert [request.id for request in turn.requests] == ["request-1", "request-2"]
    assert sent_texts(turn) == [
        [REMINDER, "Read both"],
        ['Read {"path":"a"}', 'Read {"path":"b"}'],
        ["A", "B"],
    ]
    request = turn.requests[-1]
    assert (request.model, request.effort) == ("claude-opus-5-5", "high")
    assert request.system == ("You are Claude.",)
    assert [tool.name for tool in request.tools] == ["Read"]
    assert request.messages[2].record_ids == ("r1", "r2")
    assert not request.is_derived


def test_message_keeps_its_other_fields(home: Home) -> None:
    effort = {"output_config": {"effort": "low"}}
    blob = {"role": "system", "content": [], **effort}
    records = recorded_session()
    records[1:1] = [meta("api-request-blob", hash="0" * 64, message=blob)]

    turn = requests_of_turn(home, records, 1)

    assert turn.requests[0].messages[1].other_fields == effort


def test_blocks_that_the_harness_added_are_marked(home: Home) -> None:
    turn = requests_of_turn(home, recorded_session(), 0)

    (message,) = turn.requests[0].messages
    assert [block.origin for block in message.blocks] == [
        BlockOrigin.INJECTED,
        BlockOrigin.TRANSCRIPT,
    ]
    assert [block.is_cache_breakpoint for block in message.blocks] == [False, True]
    assert message.record_ids == ("p1",)


def test_only_the_block_with_the_summary_is_labeled_as_one(home: Home) -> None:
    blocks = [text(REMINDER), text("This is the summary"), text("Go on")]
    blob = {"role": "user", "content": blocks}
    records = thread(
        prompt("One", uuid="p"),
        compact("p", uuid="c"),
        prompt("This is the summary", uuid="s", isCompactSummary=True),
        meta("api-request-blob", hash=digest("user", blocks), message=blob),
        prompt("Go on", uuid="q"),
        api_request(1, [digest("user", blocks)]),
        reply("Yes.", uuid="a", requestRef="request-1"),
    )

    turn = requests_of_turn(home, records, 1)

    [message] = turn.requests[-1].messages
    assert [block.is_summary for block in message.blocks] == [False, True, False]
    assert message.is_summary


def test_request_is_compared_with_the_turn_before(home: Home) -> None:
    turn = requests_of_turn(home, recorded_session(), 1)

    (request,) = turn.requests
    assert turn.count_shared(request) == 1
    assert len(turn.dropped_messages(request)) == 2
    assert [one.preview for one in turn.left_out[0]] == ["", "Done ä."]


def test_message_that_is_nowhere_is_unknown(home: Home) -> None:
    turn = requests_of_turn(home, recorded_session(), 1)

    assert [message.role for message in turn.requests[0].messages] == [
        "user",
        None,
        "user",
    ]


def test_requests_of_older_versions_are_derived(home: Home) -> None:
    records = [
        record
        for record in recorded_session()
        if not record["type"].startswith("api-request")
    ]
    for record in records:
        record.pop("requestRef", None)

    turn = requests_of_turn(home, records, 1)

    assert turn.requests[0].is_derived
    assert sent_texts(turn) == [
        ["Read both"],
        ['Read {"path":"a"}', 'Read {"path":"b"}'],
        ["A", "B"],
        ["Done ä."],
        ["Thanks"],
    ]


def test_derived_request_joins_results_between_the_parts_of_an_answer(
    home: Home,
) -> None:
    records = thread(
        prompt("Read both", uuid="p1"),
        reply([tool_use("Read", id="t1")], uuid="a1", message_id="m1"),
        tool_result("t1", "A", uuid="r1"),
        reply([tool_use("Read", id="t2")], uuid="a2", message_id="m1"),
        tool_result("t2", "B", uuid="r2"),
        reply("Done.", uuid="a3"),
    )

    turn = requests_of_turn(home, records, 0)

    assert sent_texts(turn) == [["Read both"], ["Read {}", "Read {}"], ["A", "B"]]


def test_derived_request_after_a_compaction_starts_with_the_summary(
    home: Home,
) -> None:
    preserved = {"anchorUuid": "s", "uuids": ["a1"], "allUuids": ["a1"]}
    boundary = compact("a1", uuid="c")
    boundary["compactMetadata"] |= {"preservedMessages": preserved}
    records = thread(
        prompt("One two three", uuid="p1"),
        reply("Four.", uuid="a1"),
        boundary,
        prompt("This is the summary", uuid="s", isCompactSummary=True),
        prompt("Five", uuid="p2"),
        reply("Six.", uuid="a2"),
    )

    turn = requests_of_turn(home, records, 1)

    assert sent_texts(turn) == [["This is the summary"], ["Four."], ["Five"]]
    assert [(one.preview, one.reason) for one in turn.left_out[0]] == [
        ("One two three", "summarized")
    ]


def test_derived_request_contains_commands_but_no_notices_and_errors(
    home: Home,
) -> None:
    records = thread(
        prompt("One", uuid="p1"),
        reply("Two.", uuid="a1"),
        system("local_command", "<command-name>/cost</command-name>"),
        system("informational", "Notice"),
        reply("API Error", uuid="e", isApiErrorMessage=True),
        prompt("Three", uuid="p2"),
        reply("Four.", uuid="a2"),
    )

    turn = requests_of_turn(home, records, 1)

    assert sent_texts(turn) == [
        ["One"],
        ["Two."],
        ["<command-name>/cost</command-name>"],
        ["Three"],
    ]


def test_lines_with_odd_fields_are_skipped(home: Home) -> None:
    odd = [
        meta("api-request", id="x", tail=7),
        meta("api-request", id="y", keep=-5, base="request-1", tail=[]),
        meta("api-request-blob", hash="h", message=3),
        meta("api-request-shape", shapeHash="s", shape=[]),
    ]

    turn = requests_of_turn(home, [*recorded_session(), *odd], 0)

    assert [request.id for request in turn.requests] == ["request-1", "request-2"]
