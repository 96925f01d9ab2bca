"""Age and lineage of sessions."""

from __future__ import annotations

import pytest

from bygones.assemble.grouping import find_families, find_lineages, sort_by_age
from bygones.model.base import RecordId, SessionId
from bygones.model.nodes import RecordNode
from bygones.model.summary import Lineage, LineageKind
from tests.assemble.helpers import assembled, nodes, transcript
from tests.build import Written, meta, moment, session, session_id

A, B, C = (SessionId(session_id(number)) for number in (1, 2, 3))

pytestmark = pytest.mark.req("T6")


def talk(name: str, *words: str, start: float = 0) -> list[Written]:
    records = session(*words, sessionId=name)
    return [
        record | {"timestamp": moment(start + at)} for at, record in enumerate(records)
    ]


def talks(**sessions: list[Written]) -> dict[SessionId, list[RecordNode]]:
    names = {"a": A, "b": B, "c": C}
    return {names[name]: nodes(records) for name, records in sessions.items()}


def copied(records: list[Written], name: str) -> list[Written]:
    return [record | {"sessionId": name} for record in records]


def test_sessions_are_sorted_by_their_first_record() -> None:
    actual = talks(a=talk(A, "p", start=60), b=talk(B, "q"))

    assert sort_by_age(actual) == [B, A]


def test_session_without_times_comes_last() -> None:
    actual = talks(a=session("p", timestamp=None), b=talk(B, "q"))

    assert sort_by_age(actual) == [B, A]


@pytest.mark.parametrize("is_named_first", [True, False])
def test_complete_copy_is_newer_than_its_original(*, is_named_first: bool) -> None:
    old, new = (B, A) if is_named_first else (A, B)
    first = talk(old, "p", "q<p")
    more = [*copied(first, new), *talk(new, "r<q:user", start=60)]

    assert sort_by_age({old: nodes(first), new: nodes(more)}) == [old, new]


def test_of_two_continuations_the_first_with_own_records_is_older() -> None:
    first = talk(B, "p", "q<p")
    fork = [*copied(first, A), *talk(A, "r<q:user", start=60)]
    whole = [*first, *talk(B, "s<q:user", start=30)]

    assert sort_by_age({A: nodes(fork), B: nodes(whole)}) == [B, A]


@pytest.mark.parametrize("word", ["fork", "session", "continued"])
def test_declared_origin_takes_precedence(word: str) -> None:
    first = talk(B, "p", "q<p")
    copy = copied(first, A)
    # The copy has an own record before the original.
    copy += talk(A, "r<q:user", start=30)
    first += talk(B, "s<q:user", start=60)
    if word == "fork":
        copy[0]["forkedFrom"] = {"sessionId": B, "messageUuid": "p"}
    elif word == "session":
        copy[0]["sessionId"] = B
    else:
        first.append(meta("continued-in", continuedInSessionId=A))

    assert sort_by_age({A: nodes(copy), B: nodes(first)}) == [B, A]


def test_declared_origin_outside_the_family_is_ignored() -> None:
    first = talk(B, "p", "q<p")
    copy = [*copied(first, A), *talk(C, "r<q:user", start=60)]

    actual = {A: nodes(copy), B: nodes(first), C: nodes(talk(C, "x", start=99))}

    assert sort_by_age(actual) == [B, A, C]


def test_family_shares_records_or_answers() -> None:
    first, second = talk(A, "p", "q<p"), talk(B, "r", "s<r")
    second[1]["message"]["id"] = first[1]["message"]["id"]

    families = find_families(talks(a=first, b=second, c=talk(C, "t", "u<t")))

    assert families[A] == families[B]
    assert families[A] != families[C]


def test_sessions_that_name_each_other_as_origin_do_not_loop() -> None:
    first = talk(A, "p") + talk(B, "q")
    second = talk(B, "p") + talk(A, "q")

    assert sort_by_age({A: nodes(first), B: nodes(second)}) == [A, B]


def test_session_that_contains_another_continues_it() -> None:
    first = talk(A, "p", "q<p")
    second = [*first, *talk(B, "r<q:user")]

    found = find_lineages(talks(a=first, b=second))

    assert found == {A: (), B: (Lineage(LineageKind.CONTINUES, A, RecordId("q"), 2),)}


def test_shared_beginning_is_a_lineage() -> None:
    first = talk(A, "p", "q<p", "r<q")

    found = find_lineages(talks(a=first, b=first[:2]))

    assert found[B] == (Lineage(LineageKind.SAME_PREFIX, A, RecordId("q"), 2),)


def test_nearest_of_several_older_sessions_is_named() -> None:
    first = talk(A, "p")
    second = [*first, *talk(B, "q<p")]
    third = [*second, *talk(C, "r<q")]

    found = find_lineages(talks(a=first, b=second, c=third))

    assert found[C] == (Lineage(LineageKind.CONTINUES, B, RecordId("q"), 2),)


def test_session_made_of_two_others_names_both() -> None:
    found = find_lineages(talks(a=talk(A, "p"), b=talk(B, "q"), c=talk(C, "p", "q")))

    assert [(item.kind, item.session_id) for item in found[C]] == [
        (LineageKind.CONTINUES, A),
        (LineageKind.CONTINUES, B),
    ]


def test_fork_is_declared_by_its_records_without_the_original() -> None:
    origin = [{"forkedFrom": {"sessionId": A, "messageUuid": word}} for word in "pq"]
    records = [r | o for r, o in zip(talk(B, "f", "g<f"), origin, strict=True)]

    found = find_lineages(talks(b=[*records, *records]))

    assert found[B] == (Lineage(LineageKind.FORKED_FROM, A, RecordId("q"), 2),)


def test_continuation_is_listed_once_and_not_for_itself() -> None:
    actual = [meta("continued-in", continuedInSessionId=name) for name in (B, B, A)]

    found = find_lineages(talks(a=[*talk(A, "p"), *actual]))

    assert found[A] == (Lineage(LineageKind.CONTINUED_IN, B),)


@pytest.mark.req("U1")
def test_copied_answer_is_paid_by_the_original_and_shown_in_both() -> None:
    first = talk(A, "p", "q<p")
    second = [*copied(first, B), *talk(B, "r<q:user", "s<r", start=60)]

    old, new = assembled(transcript(A, first), transcript(B, second))

    assert [spend.record_id for spend in old.message_usages] == ["q"]
    assert [spend.record_id for spend in new.message_usages] == ["s"]
    assert [m.preview for m in new.live_branch.messages] == ["p", "q", "r", "s"]
    assert new.live_branch.turns[0].usage.total == 0


@pytest.mark.req("F5")
def test_file_with_records_of_two_sessions_is_shown_as_its_own() -> None:
    records = [*talk(A, "p", "q<p"), *talk(B, "r<q:user", "s<r", start=9)]

    (actual,) = assembled(transcript(A, records))

    assert actual.id == A
    assert [m.preview for m in actual.live_branch.messages] == ["p", "q", "r", "s"]
    assert [(p.kind, p.detail) for p in actual.problems] == [("mixed-sessions", B)]


@pytest.mark.parametrize("names", [(A, B, C), (C, B, A)])
def test_of_several_copied_sessions_the_shortest_is_the_oldest(
    names: tuple[SessionId, ...],
) -> None:
    first = talk("", "p", "q<p")
    second = [*first, *talk("", "r<q:user", start=60)]
    third = [*second, *talk("", "s<r", start=120)]
    histories = (first, second, third)
    actual = {
        name: nodes(copied(records, name))
        for name, records in zip(names, histories, strict=True)
    }

    assert sort_by_age(actual) == list(names)
