"""Ten results are ten different things: similar sessions are one result."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bygones.model.base import SessionId
from bygones.model.summary import SessionSummary, Title, TitleKind
from bygones.model.usage import Usage
from bygones.search.grouping import SessionProfile, group_similar
from bygones.search.scoring import TextProfile
from tests.build import Home, prompt, reply, session_id, thread
from tests.search.searching import open_archive

TASK = "Review the pull request about walrus migration and list problems"
TEXTS = [TextProfile(0, 20, 3.5), TextProfile(1, 40, 3.5), TextProfile(1, 15, 2.0)]


def profile(
    title: str,
    *,
    prompts: int = 1,
    messages: int = 4,
    texts: list[TextProfile] | None = None,
) -> SessionProfile:
    summary = SessionSummary(
        id=SessionId("s"),
        title=Title(title, TitleKind.PROMPT),
        prompt_count=prompts,
        message_count=messages,
        usage=Usage(),
    )
    return SessionProfile(summary, frozenset(title.split()), Counter(texts or []))


def test_runs_of_one_prompt_are_similar() -> None:
    assert profile(TASK).is_similar(profile(TASK, messages=7))
    assert not profile(TASK).is_similar(profile(TASK, messages=9))
    assert not profile(TASK).is_similar(profile(TASK, prompts=2))
    assert not profile("go on").is_similar(profile("go on"))


def test_sessions_in_which_the_same_texts_match_are_similar() -> None:
    other = [*TEXTS[:2], TextProfile(1, 16, 2.0)]

    assert profile("one", texts=TEXTS).is_similar(profile("two", texts=TEXTS))
    assert not profile("one", texts=TEXTS).is_similar(profile("two", texts=other))
    assert not profile("one", texts=TEXTS[:2]).is_similar(
        profile("two", texts=TEXTS[:2])
    )


def test_group_has_the_rank_of_its_best_session() -> None:
    profiles = {1: profile("one"), 2: profile(TASK), 3: profile("three")}
    profiles |= {4: profile(TASK), 5: profile("five")}

    groups = group_similar([2, 1, 4, 3, 5], {1: 7, 5: 7}, profiles.get)

    assert groups == [(2, 4), (1,), (5,), (3,)]


def test_similar_sessions_are_one_result(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for number in range(1, 13):
        answer = reply(f"Problem {number}: it drops a walrus in step {number * 7}.")
        first = prompt(TASK, uuid=f"prompt-{number}")
        records = thread(first, answer, start=3600.0 * number)
        home.session(session_id(number), records)
    others = thread(prompt("Why is the walrus page slow?"), reply("A walrus query."))
    home.session(session_id(20), others)

    with open_archive(home, tmp_path / "archive") as archive:
        found = archive.search("walrus", limit=10)
        narrowed = archive.search("walrus tool:Bash OR walrus", limit=10)

    for results in (found, narrowed):
        sizes = [len(one.similar) for one in results.sessions]
        assert sorted(sizes) == [0, 11]
        assert results.session_count == 2
        assert len({id_ for one in results.sessions for id_ in one.session_ids}) == 13


def test_sessions_of_one_lineage_follow_each_other(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    shared = thread(prompt("Feed it"), reply("Done"))
    first = thread(prompt("Walrus and otter, walrus and otter"), start=60)
    second = thread(prompt("A lot of other words, among them a walrus"), start=90)
    long = "Somewhere among many words of a long prompt is a walrus, later an otter"
    other = thread(prompt(f"{long}, and so on. {long[:24]}"), start=120)
    home.session(session_id(1), [*shared, *first])
    home.session(session_id(2), [*shared, *second])
    home.session(session_id(3), other)

    with open_archive(home, tmp_path / "archive") as archive:
        found = archive.search("walrus otter", limit=10)

    ids = [one.summary.id for one in found.sessions]
    assert ids == [session_id(1), session_id(2), session_id(3)]
    assert [one.id for one in found.sessions[0].lineage] == [session_id(2)]
    assert found.sessions[1].hits[0].excerpt.text.startswith("A lot")
