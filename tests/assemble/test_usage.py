"""The usage of every answer is counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.model.usage import Usage
from bygones.reader import read_sessions
from tests.build import Home, Written, meta, prompt, reply, session_id, thread

FIRST, SECOND = session_id(1), session_id(2)
OWN_ID = "msg_01Wq7LzN4vT8kRb2YcXe5GdH"
"""In the API's form; others are what a gateway makes up."""


def spent(home: Path) -> dict[str, Usage]:
    found: dict[str, Usage] = {}
    for session in read_sessions(home):
        for spend in session.message_usages:
            assert spend.key not in found
            found[spend.key] = spend.usage
    return found


def answer(
    words: str, message_id: str = OWN_ID, request: str | None = "req_1", **counts: int
) -> Written:
    tokens = {f"{name}_tokens": count for name, count in counts.items()}
    written = reply(words, message_id=message_id, usage=tokens, requestId=request)
    if request is None:
        del written["requestId"]
    return written


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_maximum_of_each_count_of_an_answer_is_used(
    home: Home,
) -> None:
    pieces = [answer("a", input=50, output=3), answer("b", input=1, output=10)]
    home.session(FIRST, thread(prompt("go"), *pieces))

    assert spent(home.path) == {OWN_ID: Usage(input=50, output=10)}


def test_answer_in_two_sessions_is_paid_by_the_older_one(
    home: Home,
) -> None:
    early = thread(prompt("go"), answer("a", input=5, output=1))
    late = thread(prompt("new"), answer("a", input=5, output=9), start=99)
    home.session(SECOND, early)
    home.session(FIRST, late)

    by_session = {
        session.id: session.total_usage for session in read_sessions(home.path)
    }

    assert by_session == {SECOND: Usage(input=5, output=9), FIRST: Usage()}


def test_replay_with_a_new_request_id_costs_nothing(home: Home) -> None:
    home.session(FIRST, thread(prompt("go"), answer("a", output=10)))
    again = answer("a", request="req_2", output=10)
    home.agent(FIRST, "aside_question-1", thread(prompt("go"), again, start=50))

    assert spent(home.path) == {OWN_ID: Usage(output=10)}


def test_record_without_request_id_belongs_to_its_answer(home: Home) -> None:
    bare = answer("b", request=None, input=5, output=2)
    home.session(FIRST, thread(prompt("go"), answer("a", input=5, output=8), bare))

    assert spent(home.path) == {OWN_ID: Usage(input=5, output=8)}


def test_request_ids_separate_answers_with_a_reused_message_id(home: Home) -> None:
    first = answer("a", "chat", "req_1", input=5, output=1)
    second = answer("b", "chat", "req_2", input=5, output=2)
    home.session(FIRST, thread(prompt("go"), first, prompt("on"), second))

    assert list(spent(home.path).values()) == [
        Usage(input=5, output=1),
        Usage(input=5, output=2),
    ]


def test_context_sizes_separate_answers_without_request_ids(
    home: Home,
) -> None:
    first = [answer(words, "chat", None, input=100, output=7) for words in "ab"]
    home.session(FIRST, thread(prompt("go"), *first))
    home.session(SECOND, thread(prompt("on"), answer("c", "chat", None, input=300)))

    assert list(spent(home.path).values()) == [
        Usage(input=100, output=7),
        Usage(input=300),
    ]


def test_counts_in_the_last_record_do_not_make_a_second_answer(
    home: Home,
) -> None:
    pieces = [answer("a", "chat", None, input=0), answer("b", "chat", None, input=9)]
    home.session(FIRST, thread(prompt("go"), *pieces))

    assert spent(home.path) == {"chat 9": Usage(input=9)}


def test_request_id_joins_records_without_a_message_id(home: Home) -> None:
    pieces = [answer(words, output=4) for words in "ab"]
    for piece in pieces:
        del piece["message"]["id"]
    home.session(FIRST, thread(prompt("go"), *pieces))

    assert spent(home.path) == {"record req_1": Usage(output=4)}


def test_synthetic_answers_cost_nothing(home: Home) -> None:
    created = reply("No response requested.", model="<synthetic>")
    failed = reply("Overloaded", isApiErrorMessage=True)
    home.session(FIRST, thread(prompt("go"), created, failed))

    assert spent(home.path) == {}


@pytest.mark.parametrize(("start_time", "own_dollars"), [(5, 2), (6, 3)])
def test_cost_that_a_fork_continues_is_not_its_own(
    home: Home, start_time: int, own_dollars: int
) -> None:
    shared = thread(prompt("go"), answer("a", input=5))
    costs = [meta("cost-state", totalCostUSD=n, startTime=5) for n in (1, 9)]
    later = thread(prompt("on", parent="x"), start=200)
    home.session(FIRST, [*shared, costs[0], *later, costs[1]])
    own = thread(prompt("new", parent=shared[-1]["uuid"]), start=99)
    cost = meta("cost-state", totalCostUSD=3, startTime=start_time)
    fork = [{**record, "forkedFrom": {"sessionId": FIRST}} for record in shared]
    home.session(SECOND, [*fork, *own, cost])

    sessions = sorted(read_sessions(home.path), key=lambda session: session.id)

    reported = [session.reported_cost for session in sessions]
    assert [cost.micro_usd for cost in reported if cost] == [
        9_000_000,
        own_dollars * 1_000_000,
    ]
