"""The tool search."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.mcp.quoting import QUOTE_NOTICE
from bygones.mcp.tools import TOOLS_BY_NAME
from bygones.query.fields import FIELDS
from tests.build import (
    Written,
    prompt,
    reply,
    session_id,
    summary,
    thinking,
    thread,
    tool_result,
    tool_use,
)
from tests.mcp.client import ToolClient, body, cursor, outside

ONE, TWO, ASKING = map(session_id, (1, 2, 9))


def elsewhere(records: list[Written]) -> list[Written]:
    return [record | {"cwd": "/work/other"} for record in records]


@pytest.fixture
def client(tmp_path: Path) -> ToolClient:
    client = ToolClient(tmp_path, session=ASKING)
    client.home.session(
        ONE,
        thread(
            prompt("Why does the scheduler stall?"),
            reply([tool_use("Bash", command="pytest tests/test_scheduler.py")]),
            tool_result("toolu_1", "TimeoutError: stalled after 5s", is_error=True),
            reply("The scheduler holds its lock while it sleeps."),
        ),
    )
    other = thread(
        prompt("The scheduler, the scheduler!"), reply("scheduler"), start=60
    )
    client.home.session(TWO, elsewhere(other), project="-work-other")
    client.home.session(ASKING, thread(prompt("Did the scheduler stall?"), reply("…")))
    client.sandbox.ingest()
    return client


def first_words(answer: str) -> list[str]:
    return [line.split(" · ")[0] for line in answer.splitlines() if line[0] not in " ("]


def test_cited_record_can_be_read(client: ToolClient) -> None:
    answer = body(client.ask("search", query="scheduler lock sleeps"))
    match = re.search(
        r"#([0-9a-f]{8}) \d\d-\d\d \d\d:\d\d reply: .*holds its lock", answer
    )

    assert match is not None
    read = body(client.ask("read", session=ONE, at=f"#{match[1]}", before=2))
    assert read.splitlines()[0].endswith("prompt: Why does the scheduler stall?")
    assert "holds its lock" in read


def test_scope_project_has_only_sessions_of_it(client: ToolClient) -> None:
    everywhere = client.ask("search", query="scheduler")

    assert sorted(first_words(body(everywhere))) == [ONE, TWO]
    assert "Bygones: 2 sessions found." in outside(everywhere)
    only = client.read_all("search", query="scheduler", scope="project")
    assert first_words(only) == [ONE]


def test_of_equal_matches_the_one_in_this_project_is_first(client: ToolClient) -> None:
    for number in (10, 11, 12):
        records = thread(
            prompt(f"Feed the capybara {number}"),
            reply(f"Fed {number}"),
            start=number * 60,
        )
        here = number == 11
        client.home.session(
            session_id(number),
            records if here else elsewhere(records),
            project="-work-demo" if here else "-work-other",
        )
    client.sandbox.ingest()

    excerpts = first_words(client.read_all("search", query="capybara"))

    assert excerpts[0] == session_id(11)
    assert len(excerpts) == 3


def test_sessions_of_a_lineage_follow_each_other(client: ToolClient) -> None:
    strong = thread(
        prompt("Feed the capybara hay", uuid="p"),
        reply("The capybara ate the hay", uuid="r"),
    )
    fork = [*strong, *thread(prompt("a long walk " * 400 + "hay", parent="r"))]
    other = thread(prompt("More capybara hay at noon?"), reply("Capybara hay, yes"))
    for number, records in ((10, strong), (11, fork), (12, other)):
        client.home.session(session_id(number), elsewhere(records), project="-o")
    client.sandbox.ingest()
    with Archive.open(client.sandbox.archive) as archive:
        found = archive.search("capybara hay", limit=20).sessions
    scores = [match.score for match in found]
    assert scores != sorted(scores, reverse=True)

    names = first_words(client.read_all("search", query="capybara hay"))

    assert names == [match.summary.id for match in found]


def test_weak_match_here_does_not_hide_a_strong_one_elsewhere(
    client: ToolClient,
) -> None:
    strong = thread(
        prompt("The gyroscope drifts when the kestrel calibrates"),
        reply("The gyroscope drift of the kestrel is fixed."),
    )
    client.home.session(session_id(10), elsewhere(strong), project="-work-other")
    for number in range(11, 14):
        client.home.session(session_id(number), thread(prompt("when"), reply("fixed")))
    client.sandbox.ingest()

    answer = client.ask("search", query="gyroscope kestrel drift fixed")

    assert first_words(body(answer))[0] == session_id(10)
    assert ", 1 with all words." in outside(answer)
    assert "left out: sessions that lack words of the query" in body(answer)
    assert session_id(12) not in body(answer)


def test_sessions_with_all_words_are_not_left_out(client: ToolClient) -> None:
    """Neither if another has the query as its title, nor if they match far less."""
    titled = summary("Gyroscope kestrel drift", leaf="r")
    strong = [
        titled,
        *thread(
            prompt("The gyroscope drifts when the kestrel calibrates", uuid="p"),
            reply("The gyroscope drift of the kestrel is fixed.", uuid="r"),
        ),
    ]
    hay = "hay " * 400
    weak = thread(prompt(f"gyroscope {hay}"), reply(f"drift {hay} kestrel {hay}"))
    client.home.session(session_id(10), elsewhere(strong), project="-work-other")
    partial = thread(prompt("The gyroscope of the kestrel"), reply("A gyroscope."))
    for number, records in ((11, weak), (12, partial)):
        client.home.session(
            session_id(number), elsewhere(records), project="-work-other"
        )
    client.sandbox.ingest()

    answer = client.read_all("search", query="gyroscope kestrel drift")

    assert first_words(answer) == [session_id(n) for n in (10, 12, 11)]


def test_project_in_the_query_replaces_the_scope(client: ToolClient) -> None:
    answer = client.read_all("search", query="scheduler project:other")

    assert first_words(answer) == [TWO]


def test_calling_session_is_not_found(client: ToolClient) -> None:
    assert ASKING not in client.read_all("search", query="scheduler stall did")


def own_result(*texts: str) -> list[Written]:
    """Return a call of our search, and a result that quotes texts."""
    quoted = "\n".join(("<<<x", *texts, "x>>>"))
    return [
        reply([tool_use("mcp__bygones__search", query="history")]),
        tool_result("toolu_1", f"Bygones: 1 session.\n{QUOTE_NOTICE}\n{quoted}"),
    ]


def test_order_is_that_of_the_command_line(client: ToolClient) -> None:
    """Results of these tools, and the caller's session, count for the order of all."""
    for number, text in enumerate(
        ["ibis heron stork", "ibis heron egret egret", "heron crane", "ibis crane"], 20
    ):
        quoted = own_result(*["ibis heron crane"] * (number % 3), "stork egret")
        records = [prompt(f"About {text}"), *quoted, reply(f"{text} and more {text}")]
        client.home.session(session_id(number), thread(*records, start=number * 9))
    client.home.session(
        ASKING,
        thread(prompt("Did the ibis, the heron, the stork or the egret stall?")),
    )
    client.sandbox.ingest()
    with Archive.open(client.sandbox.archive) as archive:
        for query in ("ibis heron stork egret", "crane ibis", "heron", "egret crane x"):
            found = archive.search(query, hits_per_session=0).sessions
            expected = [one.id for one in found if one.id != ASKING]
            order = first_words(client.read_all("search", query=query))
            assert len(order) > 1
            # Sessions with common words only are left out.
            assert order == expected[: len(order)], query


def test_session_with_own_results_only_is_not_found(client: ToolClient) -> None:
    quoted = own_result("a pangolin", "another pangolin")
    for number in range(20, 23):
        records = thread(prompt(f"What was number {number}?"), *quoted, reply("This."))
        client.home.session(session_id(number), records)
    records = thread(prompt("The pangolin?"), *quoted)
    client.home.session(session_id(30), records)
    client.sandbox.ingest()

    answer = client.ask("search", query="pangolin", hits=10)

    assert first_words(body(answer)) == [session_id(30)]
    assert "1 session" in answer
    assert "more hit" not in answer


def test_results_of_own_tools_are_not_found(client: ToolClient) -> None:
    quoted = "<<<x\nthe scheduler holds a pangolin\nx>>>"
    recalled = f"Bygones: 1 session.\n{QUOTE_NOTICE}\n{quoted}"
    client.home.session(
        session_id(3),
        thread(
            prompt("What was it?"),
            reply([tool_use("mcp__bygones__search", query="scheduler holds")]),
            tool_result("toolu_1", recalled),
        ),
    )
    client.sandbox.ingest()

    answer = client.read_all("search", query="scheduler holds pangolin", hits=10)

    assert "mcp__bygones" not in answer
    assert "holds a pangolin" not in answer


def test_prompts_that_quote_own_results_are_found(client: ToolClient) -> None:
    pasted = f"{QUOTE_NOTICE} Is it true that the scheduler has an axolotl?"
    client.home.session(session_id(6), thread(prompt(pasted), reply("It is.")))
    client.sandbox.ingest()

    answer = client.ask("search", query="axolotl")

    assert "an axolotl" in body(answer)
    assert "Not included: results of these tools and your own session." in answer


def test_rewound_branch_and_agent_are_labeled(client: ToolClient) -> None:
    first = prompt("begin", uuid="a")
    left = prompt("try the zeppelin", uuid="b", parent="a")
    taken = prompt("go by train", uuid="c", parent="a")
    client.home.session(session_id(4), thread(first, left, taken, reply("Yes")))
    records = thread(prompt("look"), reply("a zeppelin was seen"))
    client.home.agent(session_id(4), "a1b2c3d", records, meta={"agentType": "Explore"})
    client.sandbox.ingest()

    answer = client.read_all("search", query="zeppelin")

    assert "prompt, abandoned branch: try the zeppelin" in answer
    assert "reply, agent Explore: a zeppelin was seen" in answer


def test_secret_is_redacted_before_the_excerpt_is_cut(client: ToolClient) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    text = "padding " * 11 + f"quokka {secret} " + "more words " * 40
    client.home.session(session_id(5), thread(prompt("hello"), reply(text)))
    client.sandbox.ingest()

    for query in ("quokka", "quokka more words", secret):
        answer = client.ask("search", query=query)
        assert secret[4:12] not in answer

    assert "quokka [redacted" in body(client.ask("search", query="quokka"))


@pytest.mark.parametrize("size", [1000, 1300, 2000])
def test_parts_joined_are_the_whole_answer(client: ToolClient, size: int) -> None:
    for number in range(20, 45):
        records = thread(
            prompt(f"a walrus, number {number}"), reply("walrus " * number)
        )
        if number % 2:
            client.home.session(session_id(number), records)
        else:
            client.home.session(session_id(number), elsewhere(records), project="-o")
    client.sandbox.ingest()
    whole = client.ask("search", query="walrus walros", max_bytes=60_000)

    parts = client.read_all("search", query="walrus walros", max_bytes=size)

    assert cursor(whole) is None
    assert parts == body(whole)
    assert len(first_words(parts)) == 25
    assert "no match for walros; searched for walrus" in parts


@pytest.mark.parametrize("query", ["", "/(/", "on:nonsense", "x" * 3000, "is:nothing"])
def test_invalid_query_is_reported_to_the_model(client: ToolClient, query: str) -> None:
    assert client.fail("search", query=query).startswith("error: ")


def test_search_without_match_finds_nothing(client: ToolClient) -> None:
    answer = client.ask("search", query="xylophonequartet")

    assert "0 sessions found" in outside(answer)
    assert "no match for xylophonequartet" in body(answer)


def test_description_names_every_query_field() -> None:
    for field in FIELDS:
        assert f"{field.name}:" in TOOLS_BY_NAME["search"].description


def test_every_cited_record_leads_to_its_text(client: ToolClient) -> None:
    for query, word in (("stall", "stall"), ("scheduler", "scheduler")):
        answer = client.read_all("search", query=query, hits=5)
        session, cited = "", []
        for line in answer.splitlines():
            if line[0] not in " (":
                session = line.split(" · ")[0]
            elif match := re.match(r"  #([0-9a-f]{8}) ", line):
                cited.append((session, match[1]))
        assert len(cited) >= 2
        for session, record in cited:
            read = client.read_all(
                "read", session=session, at=f"#{record}", detail="full"
            )
            assert word in "\n".join(read.splitlines()[:8]).lower()


LONG = "nothing special happened here\n" * 2_000
HIDDEN_PLACES = {
    "thinking": [
        reply("I look.", message_id="m1"),
        reply([thinking("Maybe the ocelot did it.")], message_id="m1"),
    ],
    "content of a file": [
        reply([tool_use("Write", file_path="/a.py", content=f"ocelot = 1\n{LONG}")]),
    ],
    "description of a command": [
        reply([tool_use("Bash", command="ls", description="Look for the ocelot")]),
    ],
    "result": [
        reply([tool_use("Bash", command="cat log")]),
        tool_result("toolu_1", f"the ocelot ran\n{LONG}"),
    ],
    "end of a failed result": [
        reply([tool_use("Bash", command="make")]),
        tool_result("toolu_1", f"{LONG}the ocelot broke", is_error=True),
    ],
    "result after a long reply": [
        reply(LONG, message_id="m1"),
        reply([tool_use("Bash", command="cat log")], message_id="m1"),
        tool_result("toolu_1", "the ocelot ran"),
    ],
    "text after a long reply": [
        reply(LONG, message_id="m1"),
        reply("It was the ocelot.", message_id="m1"),
    ],
}


@pytest.mark.parametrize("place", HIDDEN_PLACES)
def test_read_of_a_cited_record_shows_what_was_found(
    client: ToolClient, place: str
) -> None:
    records = thread(prompt("What happened?"), *HIDDEN_PLACES[place], reply("Done."))
    client.home.session(session_id(5), records)
    client.sandbox.ingest()
    found = body(client.ask("search", query="ocelot"))
    (name,) = re.findall(r"  (#\S+) .*ocelot", found)

    for detail in ("talk", "calls"):
        answer = client.ask("read", session=session_id(5), at=name, detail=detail)
        assert "ocelot" in body(answer)
        whole = client.read_all("read", session=session_id(5), at=name, detail=detail)
        assert whole.endswith("Claude: Done.\n")


@pytest.mark.parametrize("text", [f"{LONG}An ocelot!\n{LONG}", "x " * 9_000 + "ocelot"])
def test_read_starts_at_the_words_in_a_long_record(
    client: ToolClient, text: str
) -> None:
    client.home.session(session_id(5), thread(prompt(text), reply("Done.")))
    client.sandbox.ingest()
    (name,) = re.findall(r"  (#\S+) ", body(client.ask("search", query="ocelot")))
    given = {"session": session_id(5), "at": name, "find": "ocelot"}

    answer = client.ask("read", max_bytes=1000, **given)

    assert "ocelot" in body(answer)
    parts = client.read_all("read", max_bytes=1000, **given)
    assert parts == client.read_all("read", max_bytes=1000, **given)
    assert parts.count("ocelot") == 1
    assert parts.endswith("Claude: Done.\n")


@pytest.mark.parametrize("prefix", ["message-number-", "msg_", "edge_case_number_"])
def test_a_hit_with_an_unusual_id_can_be_read(tmp_path: Path, prefix: str) -> None:
    client = ToolClient(tmp_path, session=ASKING)
    records = [
        prompt(f"Question about the {word}", uuid=f"{prefix}{number}")
        for number, word in enumerate(("otter", "heron", "newt"))
    ]
    client.home.session(ONE, thread(*records))
    client.sandbox.ingest()
    (name,) = re.findall(r"  (#\S+) ", client.ask("search", query="heron"))

    text = body(client.ask("read", session=ONE, at=name))

    assert name == f"#{prefix}1"
    assert text.index("heron") < text.index("newt")
    assert "otter" not in text
