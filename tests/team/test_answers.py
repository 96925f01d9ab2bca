"""Queries have the same results in a local archive and in every team store.

Scores agree except for rounding, because engines add up counts in any order.
Sessions with equal scores may come in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.errors import AmbiguousSelector, NotInArchive, UnsupportedOnTeamStore
from bygones.model.query import KINDS_PER_SESSION
from bygones.model.reports import Grouping
from bygones.model.summary import SearchResults
from bygones.query.parser import parse_query
from bygones.team.contract import AccessRole, AccessScope, BlobStore, ErasureSelector
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.build import Home, prompt, reply, session_id, thread
from tests.cases.shape import written
from tests.team.homes import PEOPLE, People, comparable_summaries, upload_homes

StoreAndBlobs = tuple[TeamStore, BlobStore]
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
    "is:abandoned",
    "branch:live hello",
    "is:agent",
    "is:hidden",
    "ready is:hidden",
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


def open_archive(stores: StoreAndBlobs, scope: AccessScope) -> Archive:
    store, objects = stores
    return Archive.from_store(store.open_reader(scope, objects))


OpenBoth = Callable[[str], tuple[Archive, Archive]]


@pytest.fixture(scope="module")
def both(filled: StoreAndBlobs, filling: People) -> Iterator[OpenBoth]:
    """Return a function that opens a person's sessions in the team store and locally."""
    known: dict[str, tuple[Archive, Archive]] = {}

    def of(person: str) -> tuple[Archive, Archive]:
        if person not in known:
            team = open_archive(filled, AccessScope(person=person))
            known[person] = (team, filling.archive(person))
        return known[person]

    yield of
    for pair in known.values():
        for archive in pair:
            archive.close()


def rounded(found: SearchResults) -> list[tuple[object, ...]]:
    return [
        (
            replace(one.summary, person="", project_paths=()),
            one.highlighted_title,
            one.matched_words,
            one.hit_count,
            one.hits,
            one.session_ids,
        )
        for one in found.sessions
    ]


def scores(found: SearchResults) -> dict[str, float]:
    return {one.summary.id: one.score for one in found.sessions}


@every_person
def test_lists_are_the_same(both: OpenBoth, person: str) -> None:
    team, folder = both(person)

    assert comparable_summaries(
        team.sessions(include_empty=True)
    ) == comparable_summaries(folder.sessions(include_empty=True))
    in_projects = [
        sorted(id_ for p in one.projects(include_empty=True) for id_ in p.session_ids)
        for one in both(person)
    ]
    assert in_projects[0] == in_projects[1]
    assert team.drift() == folder.drift()
    problems = sorted(map(repr, folder.problems()))
    assert sorted(map(repr, team.problems())) == problems


@every_person
def test_sessions_are_the_same(both: OpenBoth, person: str) -> None:
    team, folder = both(person)

    for listed in folder.sessions(include_empty=True):
        one, other = team.session(listed.id), folder.session(listed.id)
        assert one.person == person
        assert written([replace(one, person="")]) == written([other])
        assert team.edits(session=listed.id) == folder.edits(session=listed.id)
        blocks = [m.blocks for m in one.live_branch.messages]
        assert blocks == [m.blocks for m in other.live_branch.messages]


@pytest.mark.full_on_clickhouse
@every_person
def test_versions_of_files_are_the_same(both: OpenBoth, person: str) -> None:
    team, folder = both(person)
    paths = sorted({edit.path for edit in folder.edits()})[:12]

    for path in paths:
        try:
            other = folder.file(path)
        except AmbiguousSelector:
            continue
        one = team.file(path)
        assert list(one.versions) == list(other.versions), path
        assert one.blame() == other.blame(), path


@every_person
def test_prompts_and_records_are_the_same(both: OpenBoth, person: str) -> None:
    team, folder = both(person)
    prompts = list(folder.prompts())

    assert sorted(map(repr, team.prompts())) == sorted(map(repr, prompts))
    known = [one for one in prompts if not one.id.startswith("@")]
    for one in known[:10]:
        ours, theirs = team.record(one.id), folder.record(one.id)
        # Some ids are in many homes; which one comes first is undefined.
        assert {ours.position, *ours.copy_positions} == {
            theirs.position,
            *theirs.copy_positions,
        }
        assert ours.raw


@every_person
@pytest.mark.parametrize(
    "query",
    [
        # All hits of a query without words have equal scores; other ones may be listed.
        pytest.param(query, marks=pytest.mark.full_on_clickhouse)
        if query.startswith("-")
        else query
        for query in QUERIES
    ],
)
def test_search_results_are_the_same(both: OpenBoth, person: str, query: str) -> None:
    parsed = parse_query(query, now=NOW, zone=UTC)
    team, folder = both(person)

    ours = team.search(parsed, limit=200)
    theirs = folder.search(parsed, limit=200)

    assert (ours.session_count, ours.full_match_count) == (
        theirs.session_count,
        theirs.full_match_count,
    )
    assert (ours.corrections, ours.missing_words) == (
        theirs.corrections,
        theirs.missing_words,
    )
    assert [one.score for one in ours.sessions] == pytest.approx(
        [one.score for one in theirs.sessions], rel=TOLERANCE
    )
    assert scores(ours) == pytest.approx(scores(theirs), rel=TOLERANCE)
    assert sorted(rounded(ours), key=repr) == sorted(rounded(theirs), key=repr)


@every_person
@pytest.mark.parametrize("by", [by for by in Grouping if by is not Grouping.PERSON])
def test_sums_are_the_same(both: OpenBoth, person: str, by: Grouping) -> None:
    team, folder = both(person)

    assert team.usage(by, now=NOW) == folder.usage(by, now=NOW)
    assert team.sessions_by_tool() == folder.sessions_by_tool()


@pytest.mark.parametrize(
    "words", ["after:2020-01-01", "model:opus", "is:agent", "-is:abandoned"]
)
def test_sums_are_limited_alike(both: OpenBoth, words: str) -> None:
    query = parse_query(words, now=NOW, zone=UTC)
    team, folder = both("ann")

    ours = team.usage("model", query=query, now=NOW)
    assert ours == folder.usage("model", query=query, now=NOW)


def test_people_see_only_their_own_sessions(
    filled: StoreAndBlobs, filling: People
) -> None:
    with open_archive(filled, AccessScope(person="dan", teams=("core", "web"))) as team:
        assert list(team.sessions(include_empty=True)) == []
        assert list(team.prompts()) == []
        assert team.sources() == []
        assert team.usage("day", now=NOW).rows == ()
        assert team.edits(path="/") == []
        for query in QUERIES:
            found = team.search(parse_query(query, now=NOW, zone=UTC))
            assert (found.sessions, found.session_count, found.corrections) == (
                (),
                0,
                (),
            )
        with filling.archive("ann") as folder:
            listed = next(folder.sessions())
            with pytest.raises(NotInArchive):
                team.session(listed.id)
            for prompt in folder.prompts():
                with pytest.raises(NotInArchive):
                    team.record(prompt.id)


def test_team_members_see_shared_sessions(
    filled: StoreAndBlobs, filling: People
) -> None:
    def seen(scope: AccessScope) -> int:
        with open_archive(filled, scope) as team:
            return len(list(team.sessions(include_empty=True)))

    counts = {}
    for person in PEOPLE:
        with filling.archive(person) as folder:
            counts[person] = len(list(folder.sessions(include_empty=True)))

    assert seen(AccessScope(person="dan", teams=("web",), role=AccessRole.TEAM)) == (
        counts["ben"] + counts["cem"]
    )
    assert seen(AccessScope(person="ann", teams=("core",), role=AccessRole.TEAM)) == (
        counts["ann"] + counts["ben"]
    )
    assert seen(AccessScope(person="dan", role=AccessRole.AUDITOR)) == sum(
        counts.values()
    )
    assert seen(AccessScope(person="dan", role=AccessRole.TEAM)) == 0


@every_person
def test_selector_for_a_person_matches_all_their_sessions(
    filled: StoreAndBlobs, filling: People, person: str
) -> None:
    store, _ = filled

    fits = store.matching_sessions(ErasureSelector(person=person))

    with filling.archive(person) as folder:
        assert fits == sorted(one.id for one in folder.sessions(include_empty=True))
    assert (
        store.matching_sessions(ErasureSelector(person=person, project="/nowhere"))
        == []
    )


def test_operations_on_local_files_are_rejected(filled: StoreAndBlobs) -> None:
    with (
        open_archive(filled, AccessScope(person="ann")) as team,
        pytest.raises(UnsupportedOnTeamStore),
    ):
        team.plan_restore([])


@pytest.mark.parametrize("words", [["the"], ["a", "the"], ["the", "and", "to"]])
def test_texts_above_the_limit_are_chosen_by_words_and_length(
    filled: StoreAndBlobs, words: list[str]
) -> None:
    store, blobs = filled
    everybody = AccessScope(person="dan", role=AccessRole.AUDITOR)
    with closing(store.open_reader(everybody, blobs)) as reader:
        engine = reader.engine()
        queries = [engine.match_terms([word]) for word in words]
        every = engine.match_texts(queries, None, [], 100_000)

        some = engine.match_texts(queries, None, [], len(every) // 2)

    in_order = sorted(every, key=lambda one: (-one[2], one[3], one[0], one[1]))
    assert some == in_order[: len(every) // 2]
    assert some


def test_texts_of_all_matching_sessions_are_found(
    engine: Callable[[], StoreAndBlobs], tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    for number in range(1, 71):
        records = thread(prompt("hazelnut"), reply("walnut"), start=3600.0 * number)
        home.session(session_id(number), records)
    store, blobs = engine()
    store.prepare()
    upload_homes(store, blobs, "ann", [home.path])
    derive_all(store, blobs)

    with closing(store.open_reader(AccessScope(person="ann"), blobs)) as reader:
        words = reader.engine()
        words.prefetch(["hazelnut", "walnut"])
        queries = [words.match_terms([one]) for one in ("hazelnut", "walnut")]
        found = words.match_texts(queries, None, [], 1000)

    assert len({key // KINDS_PER_SESSION for _, key, _, _ in found}) == 70
    assert {mask for _, _, mask, _ in found} == {1, 2}
    store.close()
