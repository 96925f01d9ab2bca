"""Each answer is counted once, however often it is written."""

from __future__ import annotations

import json

import pytest

from bygones.model.usage import Usage
from bygones.reader import read_sessions
from tests.build import (
    Written,
    line,
    progress,
    prompt,
    reply,
    session,
    session_id,
    thread,
    tool_result,
    tool_use,
)
from tests.store.sandbox import differing_tables
from tests.usage.usage_archive import OPUS, UsageArchive, answer, usages

FIRST, SECOND = session_id(1), session_id(2)

pytestmark = pytest.mark.req("U1")


def test_records_of_one_message_are_counted_once(usage_archive: UsageArchive) -> None:
    pieces = [
        answer(1, says="I", input=7, output=1, write_1h=100, read=1000),
        answer(1, says="will", input=7, output=1, write_1h=100, read=1000),
        answer(1, says="look", input=7, output=250, write_1h=100, read=1000),
    ]
    usage_archive.home.session(FIRST, thread(prompt("go"), *pieces))

    assert usages(usage_archive.total()) == (7, 250, 0, 100, 1000)
    assert usage_archive.total().replies == 1


def test_copies_in_a_resumed_session_cost_nothing(usage_archive: UsageArchive) -> None:
    first = thread(prompt("go"), answer(1, input=5, output=10))
    more = thread(prompt("on"), answer(2, input=6, output=20), start=60)
    usage_archive.home.session(FIRST, first)
    usage_archive.home.session(SECOND, [*first, *more])

    assert usages(usage_archive.total()) == (11, 30, 0, 0, 0)
    assert usage_archive.tokens("session") == {FIRST: 15, SECOND: 26}


def test_copies_in_another_project_cost_nothing(usage_archive: UsageArchive) -> None:
    records = thread(prompt("go"), answer(1, input=5, output=10))
    usage_archive.home.session(FIRST, records)
    usage_archive.home.session(SECOND, records, project="-work-other")

    assert usage_archive.total().tokens == 15
    both = read_sessions(usage_archive.home.path)
    assert [one.total_usage.total for one in both] == [15, 0]
    assert [one.total_usage.total for one in both] == [15, 0]


def test_agent_in_two_files_is_counted_once(usage_archive: UsageArchive) -> None:
    own = thread(prompt("look"), answer(1, input=5, output=10))
    usage_archive.home.session(
        FIRST, thread(prompt("go"), answer(2, input=1, output=2))
    )
    usage_archive.home.agent(FIRST, "aaaaaaa", own)
    usage_archive.home.agent(FIRST, "aaaaaaa", own, flat=True)

    assert usage_archive.total().tokens == 18
    assert usage_archive.tokens("agent") == {"unknown": 15, "main": 3}


def test_usage_by_agent_type(usage_archive: UsageArchive) -> None:
    task = {"subagent_type": "Explore", "prompt": "look", "description": "look"}
    call = reply([tool_use("Task", **task)], usage={"output_tokens": 3})
    result = tool_result("toolu_1", "found", outcome={"agentId": "aaaaaaa"})
    usage_archive.home.session(FIRST, thread(prompt("go"), call, result))
    usage_archive.home.agent(
        FIRST, "aaaaaaa", thread(prompt("look"), answer(1, model=OPUS, output=40))
    )

    assert usage_archive.tokens("agent") == {"Explore": 40, "main": 3}
    assert usage_archive.tokens("model", "agent:Explore") == {OPUS: 40}


def test_both_branches_of_a_fork_are_counted(usage_archive: UsageArchive) -> None:
    records = session("a", "b<a", "c<b", "d<c", "e<b", "f<e")
    for number, at in enumerate((1, 3, 5)):
        own = answer(number, output=10 ** (number + 1))
        records[at]["message"] |= {
            "id": own["message"]["id"],
            "usage": own["message"]["usage"],
        }
    usage_archive.home.session(FIRST, records)

    assert usage_archive.tokens("branch") == {"live": 1010, "abandoned": 100}
    assert usage_archive.total("branch:abandoned").tokens == 100
    assert usage_archive.total("-is:abandoned").tokens == 1010


def test_replayed_answers_with_new_request_ids_cost_nothing(
    usage_archive: UsageArchive,
) -> None:
    usage_archive.home.session(FIRST, thread(prompt("go"), answer(1, output=10)))
    again = answer(1, output=10) | {"requestId": "req_other"}
    new = answer(2, output=500)
    usage_archive.home.agent(
        FIRST, "acompact-1234567", thread(prompt("go"), again, new, start=50)
    )

    assert usage_archive.total().tokens == 10


def test_warm_up_is_not_counted(usage_archive: UsageArchive) -> None:
    usage_archive.home.session(FIRST, thread(prompt("go"), answer(1, output=10)))
    usage_archive.home.agent(
        FIRST, "aaaaaaa", thread(prompt("Warmup"), answer(2, output=99))
    )

    assert usage_archive.total().tokens == 10


def test_synthetic_messages_cost_nothing(usage_archive: UsageArchive) -> None:
    made = answer(1, model="<synthetic>", output=10)
    failed = answer(2, output=10) | {"isApiErrorMessage": True}
    usage_archive.home.session(FIRST, thread(prompt("go"), made, failed))

    assert usage_archive.total().replies == 0
    assert usage_archive.total().cost == 0


def test_answers_without_request_ids_are_distinguished_by_context(
    usage_archive: UsageArchive,
) -> None:
    def sized(context: int) -> Written:
        made = answer(1, input=context, output=5)
        made["message"]["id"] = "chat"
        del made["requestId"]
        return made

    records = [
        prompt("go"),
        sized(100),
        sized(100),
        prompt("on"),
        sized(200),
    ]
    usage_archive.home.session(FIRST, thread(*records))

    assert usages(usage_archive.total()) == (300, 10, 0, 0, 0)


def test_json_with_spaces_is_counted(usage_archive: UsageArchive) -> None:
    spaced = json.dumps(answer(1, input=5, output=10), indent=None).encode()
    assert spaced != line(answer(1, input=5, output=10))
    usage_archive.home.session(FIRST, [line(prompt("go")), spaced])

    assert usages(usage_archive.total()) == (5, 10, 0, 0, 0)


def test_iterations_are_counted_for_their_own_models(
    usage_archive: UsageArchive,
) -> None:
    own = {"type": "message", "input_tokens": 5, "output_tokens": 10}
    advice = {
        "type": "advisor_message",
        "model": OPUS,
        "input_tokens": 100,
        "output_tokens": 7,
    }
    compaction = {"type": "compaction", "input_tokens": 1000, "output_tokens": 3}
    sides = {"iterations": [compaction, own, advice, None, 7]}
    pieces = [answer(1, input=5, output=1), answer(1, input=5, output=10, more=sides)]
    usage_archive.home.session(FIRST, thread(prompt("go"), *pieces))

    assert usage_archive.tokens("model") == {
        "claude-sonnet-4-5-20250929": 1018,
        OPUS: 107,
    }
    (one,) = read_sessions(usage_archive.home.path)
    assert one.usage == Usage(input=1105, output=20)


def test_invalid_iterations_are_ignored(usage_archive: UsageArchive) -> None:
    odd = {"iterations": {"type": "advisor_message", "output_tokens": 9}}
    usage_archive.home.session(
        FIRST, thread(prompt("go"), answer(1, output=4, more=odd))
    )

    assert usage_archive.total().tokens == 4


def progress_of(message: Written) -> Written:
    """Return the progress record that repeats an agent's answer."""
    return progress("agent_progress", agentId="aaaaaaa", message=message)


def test_agent_known_only_from_progress_is_counted(usage_archive: UsageArchive) -> None:
    calls = reply([tool_use("Task", prompt="look")], usage={"output_tokens": 1})
    records = [
        prompt("go"),
        calls,
        progress_of(answer(1, output=10)),
        progress_of(answer(1, output=10)),
    ]
    usage_archive.home.session(
        FIRST, thread(*records, progress_of(answer(2, input=5, output=100)))
    )

    assert usage_archive.tokens("agent") == {"unknown": 115, "main": 1}
    (one,) = read_sessions(usage_archive.home.path)
    assert one.total_usage.total == 116
    assert differing_tables(usage_archive) == []


def test_agent_file_takes_precedence_over_progress(usage_archive: UsageArchive) -> None:
    usage_archive.home.session(
        FIRST, thread(prompt("go"), progress_of(answer(1, output=10)))
    )
    own = thread(prompt("look"), answer(1, output=12))
    usage_archive.home.agent(FIRST, "aaaaaaa", own, meta={"agentType": "Explore"})

    assert usage_archive.tokens("agent") == {"Explore": 12}


def test_progress_of_a_warm_up_is_not_counted(usage_archive: UsageArchive) -> None:
    usage_archive.home.session(
        FIRST, thread(prompt("go"), progress_of(answer(1, output=10)))
    )
    usage_archive.home.agent(
        FIRST, "aaaaaaa", thread(prompt("Warmup"), answer(1, output=10))
    )

    assert usage_archive.total().tokens == 0


def test_progress_without_an_answer_costs_nothing(usage_archive: UsageArchive) -> None:
    odd = [
        progress("agent_progress", agentId="a", message=prompt("usage")),
        progress("agent_progress", agentId="a", message='"usage"'),
        progress("agent_progress", agentId="a", message={"message": {"usage": 7}}),
        progress("bash_progress", message=answer(1, output=5)),
    ]
    usage_archive.home.session(FIRST, thread(prompt("go"), *odd))

    assert usage_archive.total().replies == 0


def test_usage_tables_equal_those_of_a_rebuilt_index(
    usage_archive: UsageArchive,
) -> None:
    records = thread(prompt("go"), answer(1, input=5, output=10))
    path = usage_archive.home.session(FIRST, records)
    usage_archive.home.session(SECOND, records)
    usage_archive.usage()
    with path.open("ab") as file:
        file.write(line(answer(2, output=3, more={"speed": "fast"})) + b"\n")
    usage_archive.usage()

    assert differing_tables(usage_archive) == []
