"""The tools recent, outline and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.model.metadata import PrivateAttachment, PrivateRecord
from tests.build import (
    Written,
    attachment,
    compact,
    meta,
    prompt,
    reply,
    session_id,
    text,
    thinking,
    thread,
    title,
    tool_result,
    tool_use,
)
from tests.mcp.client import ToolClient, body, cursor, outside

ONE, TWO, THREE = map(session_id, (1, 2, 3))


@pytest.fixture
def client(tmp_path: Path) -> ToolClient:
    client = ToolClient(tmp_path, session=THREE)
    client.home.session(ONE, [*everyday(), title("Counting lines", custom=True)])
    client.home.session(
        TWO, thread(prompt("Hello"), reply("日本語 " * 400), start=3600)
    )
    client.home.session(THREE, thread(prompt("I am the one who asks"), reply("Yes")))
    client.sandbox.ingest()
    return client


def everyday() -> list[Written]:
    return thread(
        prompt("Please count the lines"),
        reply(
            [
                thinking("how many may it be"),
                text("I shall count."),
                tool_use("Bash", command="wc -l notes.txt"),
            ]
        ),
        tool_result("toolu_1", "3 notes.txt"),
        reply("Three."),
        prompt("Now write it down"),
        reply(
            [
                tool_use(
                    "Write",
                    id="toolu_2",
                    file_path="/work/demo/count.txt",
                    content="3\n",
                )
            ]
        ),
        tool_result("toolu_2", "File created"),
        reply("Written."),
    )


def test_recent_lists_sessions_newest_first(client: ToolClient) -> None:
    answer = body(client.ask("recent"))

    assert [line.split(" · ")[0] for line in answer.splitlines()] == [TWO, ONE]
    assert "Counting lines" in answer


def test_calling_session_is_not_listed(client: ToolClient) -> None:
    assert THREE not in client.read_all("recent", scope="all")
    assert "your own session is not included" in client.fail("read", session=THREE)
    assert "your own session is not included" in client.fail("outline", session=THREE)


def test_recent_lists_all_projects_on_request(client: ToolClient) -> None:
    client.home.session(
        session_id(4),
        thread(
            *[record | {"cwd": "/work/other"} for record in (prompt("x"), reply("y"))]
        ),
        project="-work-other",
    )
    client.sandbox.ingest()

    assert session_id(4) not in client.read_all("recent")
    assert session_id(4) in client.read_all("recent", scope="all")


def test_outline_has_turns_calls_and_edits(client: ToolClient) -> None:
    answer = body(client.ask("outline", session=ONE)).splitlines()

    assert answer[0].startswith(ONE)
    assert answer[1].startswith("t1 #")
    assert answer[1].endswith("Please count the lines")
    assert answer[2].startswith("  1 call;")
    assert "edited /work/demo/count.txt" in answer[4]


def test_read_names_the_speakers(client: ToolClient) -> None:
    answer = body(client.ask("read", session=ONE))

    assert "prompt: Please count the lines\n" in answer
    assert "Claude:\n| I shall count.\n  $ wc -l notes.txt\n" in answer
    assert "how many may it be" not in answer
    assert "3 notes.txt" not in answer


def test_detail_talk_has_no_calls(client: ToolClient) -> None:
    answer = body(client.ask("read", session=ONE, detail="talk"))

    assert "I shall count." in answer
    assert "wc -l" not in answer


def test_detail_full_has_thinking_input_and_output(client: ToolClient) -> None:
    answer = body(client.ask("read", session=ONE, detail="full"))

    assert "\n~ how many may it be\n| I shall count.\n" in answer
    assert "    | 3 notes.txt" in answer


def test_read_starts_at_a_turn_or_record_or_before(client: ToolClient) -> None:
    from_turn = body(client.ask("read", session=ONE, at="t2"))
    record = from_turn.split(" ")[0]

    assert "Now write it down" in from_turn.splitlines()[0]
    assert body(client.ask("read", session=ONE, at=record)) == from_turn
    earlier = body(client.ask("read", session=ONE, at=record, before=1))
    assert earlier.splitlines()[0].endswith("Claude: Three.")


@pytest.mark.parametrize("size", [1000, 1100, 1500])
@pytest.mark.parametrize("detail", ["talk", "calls", "full"])
def test_parts_joined_are_the_whole_session(
    client: ToolClient, size: int, detail: str
) -> None:
    for session in (ONE, TWO):
        whole = body(
            client.ask("read", session=session, detail=detail, max_bytes=60_000)
        )

        parts = client.read_all("read", session=session, detail=detail, max_bytes=size)

        assert parts == whole


def test_long_message_continues_where_it_was_cut(client: ToolClient) -> None:
    first = client.ask("read", session=TWO, max_bytes=1000)

    assert "Truncated." in outside(first)
    assert "+" in (cursor(first) or "")


def test_list_continues_where_it_was_cut(client: ToolClient) -> None:
    for number in range(10, 40):
        client.home.session(
            session_id(number), thread(prompt(f"Ask {number}"), reply(""))
        )
    client.sandbox.ingest()

    answer = client.read_all("recent", max_bytes=1000)

    assert len(answer.splitlines()) == 32


def test_agent_run_is_read_by_its_id(client: ToolClient) -> None:
    client.home.agent(
        ONE, "a1b2c3d", thread(prompt("Look around"), reply("All is well"))
    )
    client.sandbox.ingest()

    answer = client.ask("read", session=ONE, agent="a1b2c3d")

    assert "agent run" in outside(answer)
    assert "All is well" in body(answer)


def test_record_of_a_rewound_branch_is_found_and_labeled(client: ToolClient) -> None:
    rewound = [
        prompt("first", uuid="aaaaaaaa-0000-4000-8000-000000000001"),
        reply("one", uuid="aaaaaaab-0000-4000-8000-000000000001"),
        prompt("left behind", uuid="aaaaaaac-0000-4000-8000-000000000001"),
        reply("lost", uuid="aaaaaaad-0000-4000-8000-000000000001"),
    ]
    anew = prompt("taken instead", uuid="aaaaaaae-0000-4000-8000-000000000001") | {
        "parentUuid": rewound[1]["uuid"]
    }
    records = thread(*rewound, anew, reply("kept"))
    client.home.session(session_id(5), records)
    client.sandbox.ingest()

    outline = body(client.ask("outline", session=session_id(5)))
    answer = client.ask("read", session=session_id(5), at="#aaaaaaac")

    assert "abandoned: 1 prompt; starts with: left behind" in outline
    assert "branch 2 starts here" in outline
    assert "abandoned branch 2" in outside(answer)
    assert "lost" in body(answer)


def test_compaction_is_shown(client: ToolClient) -> None:
    client.home.session(
        session_id(6),
        thread(prompt("go on"), reply("yes", uuid="b"), compact("b"), prompt("and on")),
    )
    client.sandbox.ingest()

    assert "compacted" in client.read_all("outline", session=session_id(6))


def test_secrets_are_redacted_and_counted(client: ToolClient) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    client.home.session(
        session_id(7),
        thread(
            prompt(f"my token is {secret}"),
            reply([tool_use("Bash", command=f"curl -H 'Authorization: {secret}'")]),
            tool_result("toolu_1", f"token {secret}"),
        ),
    )
    client.sandbox.ingest()

    for answer in (
        client.ask("read", session=session_id(7), detail="full"),
        client.ask("outline", session=session_id(7)),
        client.ask("recent"),
    ):
        assert secret[:20] not in answer
    assert "Redacted: " in outside(client.ask("read", session=session_id(7)))


def test_private_records_are_never_quoted(client: ToolClient) -> None:
    account = "acc0un7-of-somebody"
    client.home.session(
        session_id(10),
        [
            *thread(
                prompt("Hello"),
                *(
                    attachment(kind, content=account, owner=account)
                    for kind in PrivateAttachment.types
                ),
                reply("Hi"),
            ),
            *(meta(kind, ownerAccountUuid=account) for kind in PrivateRecord.types),
        ],
    )
    client.sandbox.ingest()

    answer = client.read_all("read", session=session_id(10), detail="full")

    assert "Hello" in answer
    assert account not in answer
    assert account not in client.read_all("outline", session=session_id(10))
    assert "0 sessions found" in client.ask("search", query=f'"{account}"')


def test_results_of_own_tools_are_left_out(client: ToolClient) -> None:
    client.home.session(
        session_id(8),
        thread(
            prompt("What did we do?"),
            reply([tool_use("mcp__bygones__read", session="5e55")]),
            tool_result("toolu_1", "an echo of old words"),
        ),
    )
    client.sandbox.ingest()

    answer = body(client.ask("read", session=session_id(8), detail="full"))

    assert "an echo" not in answer
    assert "quoted history omitted" in answer


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"session": 7},
        {"session": ONE, "max_bytes": 10},
        {"session": ONE, "max_bytes": 10**9},
        {"session": ONE, "detail": "everything"},
        {"session": ONE, "unheard": "of"},
        {"session": "nosuchsession"},
        {"session": ONE, "at": "nosuchrecord"},
        {"session": ONE, "at": "t99"},
        {"session": ONE, "branch": 9},
        {"session": ONE, "agent": "nobody"},
        {"session": ONE, "cursor": "../../etc"},
        {"session": "5e551000"},
    ],
)
def test_invalid_arguments_are_reported_to_the_model(
    client: ToolClient, arguments: dict[str, object]
) -> None:
    assert client.fail("read", **arguments).startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "the argument session is missing"),
        ({"session": 7}, "session must be text"),
        ({"session": ONE, "max_bytes": 10}, "max_bytes must be a whole number >= "),
        ({"session": ONE, "detail": "all"}, "'all' is not a value of detail"),
        ({"session": ONE, "unheard": "of"}, "there is no argument unheard"),
    ],
)
def test_invalid_arguments_are_named(
    client: ToolClient, arguments: dict[str, object], message: str
) -> None:
    assert client.fail("read", **arguments).startswith(f"error: {message}")


def test_missing_archive_is_reported(tmp_path: Path) -> None:
    assert "no archive in" in ToolClient(tmp_path).fail("recent")


def test_configured_names_are_redacted(client: ToolClient) -> None:
    records = thread(prompt("Ask Zebraquux"), reply("zebraquux says yes"))
    client.home.session(session_id(7), records)
    client.sandbox.ingest()

    answer = [
        client.ask("read", session=session_id(7)),
        client.ask("search", query="says"),
    ]

    assert not any("zebraquux" in one.lower() for one in answer)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("recent", {"cursor": "9999"}),
        ("recent", {"cursor": "0+99999"}),
        ("search", {"query": "count", "cursor": "77"}),
        ("outline", {"session": ONE, "cursor": "99"}),
        ("file_history", {"path": "count.txt", "cursor": "5"}),
        ("read", {"session": ONE, "cursor": "m0+99999"}),
    ],
)
def test_unknown_cursor_is_reported_to_the_model(
    tool: str, given: dict[str, str], client: ToolClient
) -> None:
    answer = client.fail(tool, **given)

    assert "hint: use the cursor of the last response, or none" in answer


def test_redactions_in_transcripts_are_not_counted(client: ToolClient) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    imitated = "[redacted github-token] " * 5
    private = "".join(map(chr, range(0xF0000, 0xF0100)))
    client.home.session(
        session_id(7),
        thread(
            prompt(f"{imitated}{private} and {secret} by ann@example.org"),
            reply([tool_use("Read", file_path=f"/work/demo/{secret}.txt")]),
            tool_result("toolu_1", "nothing"),
        ),
    )
    client.sandbox.ingest()

    answer = client.ask("read", session=session_id(7), detail="full", max_bytes=20000)

    assert body(answer).count("[redacted ") > 5
    counted = body(answer).count("[redacted ") - 5
    assert f"Redacted: {counted} value" in outside(answer)
    assert "\\U000f" not in answer


def test_search_counts_matches_in_other_projects(client: ToolClient) -> None:
    records = thread(prompt("Feed the walrus", cwd="/work/zoo"), reply("Fed."))
    client.home.session(session_id(8), records, project="-work-zoo")
    client.sandbox.ingest()

    answer = client.ask("search", query="walrus")
    assert "Bygones: 1 session found." in answer
    assert "walrus" in body(answer)
    answer = client.ask("search", query="unheardofword")
    assert "Bygones: 0 sessions found." in answer
