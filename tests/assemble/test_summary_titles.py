"""Titles of sessions."""

from __future__ import annotations

import pytest

from bygones.model.sessions import Session
from bygones.model.summary import TitleKind
from tests.assemble.helpers import assembled, only, transcript
from tests.build import (
    Written,
    meta,
    prompt,
    reply,
    session,
    session_id,
    summary,
    title,
)
from tests.forms import command

ALL = [
    title("Chosen", custom=True),
    title("Made"),
    meta("agent-name", agentName="Named"),
    summary("Summed up", "a"),
    prompt("Asked", uuid="p"),
    command("/init", uuid="k"),
    meta("last-prompt", lastPrompt="Asked last"),
    reply("Yes", uuid="a", slug="calm-blue-river"),
]
KINDS = [
    (TitleKind.CUSTOM, "Chosen"),
    (TitleKind.GENERATED, "Made"),
    (TitleKind.AGENT_NAME, "Named"),
    (TitleKind.SUMMARY, "Summed up"),
    (TitleKind.PROMPT, "Asked"),
    (TitleKind.COMMAND, "/init"),
    (TitleKind.LAST_PROMPT, "Asked last"),
    (TitleKind.SLUG, "calm-blue-river"),
    (TitleKind.ID, "5e551000-0000-4000-8000-000000000000"),
]


def called(records: list[Written]) -> tuple[TitleKind, str]:
    actual = only(records).title
    return actual.kind, actual.text


@pytest.mark.req("N1")
@pytest.mark.parametrize("without", range(len(KINDS)), ids=lambda at: KINDS[at][0])
def test_best_available_title_is_used(without: int) -> None:
    assert called(ALL[without:]) == KINDS[without]


@pytest.mark.req("N1")
def test_last_non_empty_title_of_a_kind_is_used() -> None:
    titles = [title("One"), title("Two"), title("")]

    assert called([*session("a"), *titles]) == (TitleKind.GENERATED, "Two")


@pytest.mark.req("N1")
def test_name_of_a_teammate_is_not_a_title() -> None:
    records = [prompt("Hi", teamName="crew"), meta("agent-name", agentName="mate")]

    assert called(records) == (TitleKind.PROMPT, "Hi")


@pytest.mark.req("N1")
def test_title_is_one_line_without_control_characters() -> None:
    assert called([title("\x1b[1mBold\x1b[0m\n\tand\x00  calm ")])[1] == "Bold and calm"


@pytest.mark.req("N1")
def test_long_title_is_shortened() -> None:
    text = called([prompt("words " * 60)])[1]

    assert len(text) <= 200
    assert text.endswith("…")


@pytest.mark.req("N1")
def test_explicit_title_is_not_shortened() -> None:
    given = "words " * 100

    assert called([prompt("Hi"), title(given, custom=True)])[1] == given.strip()
    assert len(called([title("x" * 1_000_000, custom=True)])[1]) == 2_000


@pytest.mark.req("N2")
def test_summary_is_found_in_any_file_of_the_project() -> None:
    talk = transcript(session_id(1), session("p", "a<p"))
    other = transcript(session_id(2), [summary("Summed up", "a")])

    first, second = assembled(talk, other)

    assert first.title.text == "Summed up"
    assert second.is_empty


@pytest.mark.req("N2")
def test_summary_of_the_latest_leaf_counts() -> None:
    talk = session("p", "a<p", "q<a", "b<q")

    actual = [summary("Whole", "b"), *talk, summary("Half", "a"), summary("x", "gone")]

    assert called(actual) == (TitleKind.SUMMARY, "Whole")


@pytest.mark.req("N1")
def test_error_as_summary_is_not_a_title() -> None:
    talk = session("p", "a<p", "q<a", "b<q")
    error = summary("Invalid API key · Please run /login", "b")

    assert called([error, *talk]) == (TitleKind.PROMPT, "p")
    assert called([error, summary("Sound", "a"), *talk])[1] == "Sound"


@pytest.mark.req("N2")
@pytest.mark.parametrize("newer", [1, 2])
def test_summary_in_the_newest_file_wins(newer: int) -> None:
    files = [
        transcript(
            session_id(number),
            [summary(f"Of {number}", "a")],
            mtime=9 if number == newer else 1,
        )
        for number in (1, 2)
    ]

    sessions = assembled(*files, transcript(session_id(3), session("p", "a<p")))

    assert sessions[0].title.text == f"Of {newer}"


@pytest.mark.req("N2", "T4")
def test_each_branch_has_its_own_summary() -> None:
    talk = session("p", "a<p", "q<a", "b<q", "r<a", "c<r")
    actual = only([*talk, summary("Left", "b"), summary("Live", "r")])

    assert [branch.title for branch in actual.branches] == ["Live", "Left"]
    assert actual.endpoint_ids == ("b", "c", "r")


def tags(records: list[Written]) -> Session:
    return only([*session("p"), *records])


def test_last_tag_counts_and_an_empty_one_removes_it() -> None:
    first, second = meta("tag", tag="one"), meta("tag", tag="two")

    assert tags([first, second]).tags == ("two",)
    assert tags([first, meta("tag", tag="")]).tags == ()
