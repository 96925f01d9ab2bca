"""The same questions have the same answers in a folder and in every team's store.

Scores agree to the last digits of a double: the order in which counts are added up is
the engine's. Where two sessions are equally good, either may come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from bygones.archive import Archive
from bygones.errors import NotArchived, NotOfTeams
from bygones.model.hits import Found
from bygones.model.reports import Grouping
from bygones.query import parse
from bygones.team.contract import Objects, Role, Scope, Selector, TeamStore
from tests.cases.shape import written
from tests.team.homes import PEOPLE, People

Made = tuple[TeamStore, Objects]
NOW = datetime(2026, 11, 15, tzinfo=UTC)
TOLERANCE = 1e-12
QUERIES = (
    "test",
    "fix the bug",
    "hello",
    "hello world again",
    '"hello there"',
    '"nobody said this"',
    "hel*",
    "sytsem",
    "tool:Bash",
    "tool:Read file",
    "is:error",
    "is:rewound",
    "branch:live hello",
    "is:agent",
    "in:prompt hello",
    "-hello",
    "a OR b",
    "file:src",
    "cmd:ls",
    "/h.llo/",
    "before:2027-01-01",
    "title:hello",
    "camelCase",
    "don't",
    "the first prompt of all",
)
every_person = pytest.mark.parametrize("person", PEOPLE)


def opened(made: Made, scope: Scope) -> Archive:
    store, objects = made
    return Archive.on(store.shelf(scope, objects))


Asked = Callable[[str], tuple[Archive, Archive]]


@pytest.fixture(scope="module")
def both(filled: Made, people: People) -> Iterator[Asked]:
    """Return a function that opens what a person has, in the team and in a folder."""
    known: dict[str, tuple[Archive, Archive]] = {}

    def of(person: str) -> tuple[Archive, Archive]:
        if person not in known:
            team = opened(filled, Scope(person=person))
            known[person] = (team, people.archive(person))
        return known[person]

    yield of
    for pair in known.values():
        for archive in pair:
            archive.close()


def near(found: Found) -> list[tuple[object, ...]]:
    return [
        (
            round(-one.score / TOLERANCE),
            one.listed,
            one.title,
            one.words,
            one.total,
            one.hits,
            one.also,
        )
        for one in found.sessions
    ]


@every_person
def test_lists_are_the_same(both: Asked, person: str) -> None:
    team, folder = both(person)

    assert list(team.sessions(empty=True)) == list(folder.sessions(empty=True))
    assert team.projects(empty=True) == folder.projects(empty=True)
    assert team.drift() == folder.drift()
    problems = sorted(map(repr, folder.problems()))
    assert sorted(map(repr, team.problems())) == problems


@every_person
def test_sessions_are_the_same(both: Asked, person: str) -> None:
    team, folder = both(person)

    for listed in folder.sessions(empty=True):
        one, other = team.session(listed.id), folder.session(listed.id)
        assert written([one]) == written([other])
        assert team.edits(session=listed.id) == folder.edits(session=listed.id)
        blocks = [m.blocks for m in one.live.messages]
        assert blocks == [m.blocks for m in other.live.messages]


@every_person
def test_prompts_and_records_are_the_same(both: Asked, person: str) -> None:
    team, folder = both(person)
    prompts = list(folder.prompts())

    assert sorted(map(repr, team.prompts())) == sorted(map(repr, prompts))
    known = [prompt for prompt in prompts if not prompt.id.startswith("@")]
    for prompt in known[:10]:
        ours, theirs = team.record(prompt.id), folder.record(prompt.id)
        # Some ids stand in many homes: which of them is first is not settled.
        assert {ours.position, *ours.copies} == {theirs.position, *theirs.copies}
        assert ours.raw


@every_person
@pytest.mark.parametrize("query", QUERIES)
def test_searches_find_the_same(both: Asked, person: str, query: str) -> None:
    asked = parse(query, now=NOW, zone=UTC)
    team, folder = both(person)

    ours = team.search(asked, limit=200)
    theirs = folder.search(asked, limit=200)

    assert (ours.total, ours.complete) == (theirs.total, theirs.complete)
    assert (ours.repairs, ours.missing) == (theirs.repairs, theirs.missing)
    assert [one.score for one in ours.sessions] == pytest.approx(
        [one.score for one in theirs.sessions], rel=TOLERANCE
    )
    assert sorted(near(ours), key=repr) == sorted(near(theirs), key=repr)


@every_person
@pytest.mark.parametrize("by", Grouping)
def test_sums_are_the_same(both: Asked, person: str, by: Grouping) -> None:
    team, folder = both(person)

    assert team.usage(by, now=NOW) == folder.usage(by, now=NOW)
    assert team.tools() == folder.tools()


@pytest.mark.parametrize(
    "words", ["after:2020-01-01", "model:opus", "is:agent", "-is:rewound"]
)
def test_sums_are_limited_alike(both: Asked, words: str) -> None:
    query = parse(words, now=NOW, zone=UTC)
    team, folder = both("ann")

    ours = team.usage("model", query=query, now=NOW)
    assert ours == folder.usage("model", query=query, now=NOW)


def test_nobody_sees_what_is_not_theirs(filled: Made, people: People) -> None:
    with opened(filled, Scope(person="dan", teams=("core", "web"))) as team:
        assert list(team.sessions(empty=True)) == []
        assert list(team.prompts()) == []
        assert team.sources() == []
        assert team.usage("day", now=NOW).rows == ()
        assert team.edits(path="/") == []
        for query in QUERIES:
            found = team.search(parse(query, now=NOW, zone=UTC))
            assert (found.sessions, found.total, found.repairs) == ((), 0, ())
        with people.archive("ann") as folder:
            listed = next(folder.sessions())
            with pytest.raises(NotArchived):
                team.session(listed.id)
            for prompt in folder.prompts():
                with pytest.raises(NotArchived):
                    team.record(prompt.id)


def test_a_team_sees_what_is_shared_with_it(filled: Made, people: People) -> None:
    def seen(scope: Scope) -> int:
        with opened(filled, scope) as team:
            return len(list(team.sessions(empty=True)))

    counts = {}
    for person in PEOPLE:
        with people.archive(person) as folder:
            counts[person] = len(list(folder.sessions(empty=True)))

    assert seen(Scope(person="dan", teams=("web",), role=Role.TEAM)) == (
        counts["ben"] + counts["cem"]
    )
    assert seen(Scope(person="ann", teams=("core",), role=Role.TEAM)) == (
        counts["ann"] + counts["ben"]
    )
    assert seen(Scope(person="dan", role=Role.AUDITOR)) == sum(counts.values())
    assert seen(Scope(person="dan", role=Role.TEAM)) == 0


@every_person
def test_what_fits_a_person_is_what_they_have(
    filled: Made, people: People, person: str
) -> None:
    store, _ = filled

    fits = store.fitting(Selector(person=person))

    with people.archive(person) as folder:
        assert fits == sorted(one.id for one in folder.sessions(empty=True))
    assert store.fitting(Selector(person=person, project="/nowhere")) == []


def test_what_is_done_to_files_is_refused(filled: Made) -> None:
    with opened(filled, Scope(person="ann")) as team, pytest.raises(NotOfTeams):
        team.plan_restore([])
