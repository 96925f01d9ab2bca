"""Queries select whole sessions for lists, also with negated terms."""

from __future__ import annotations

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, summary, thread

RETRY, TESTS, NOTES, MOVE, RSYNC = (
    *("b9568747", "3d75e207", "f5bff5de", "64fb286e", "145b06d7"),
)


def list_ids(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["list", "--", *arguments]) == ExitCode.SUCCESS
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize(
    ("query", "sessions"),
    [
        ("-jitter", [TESTS, NOTES, MOVE, RSYNC]),
        ("-tool:Edit", [RSYNC]),
        ("tool:Edit -tool:Task", [RETRY, NOTES, MOVE]),
        ("project:shop -jitter", [TESTS]),
        ("-(jitter OR markdown)", [TESTS, NOTES, RSYNC]),
        ("retry -jitter", []),
        ("jitter OR -tool:Edit", [RETRY, RSYNC]),
        ('-"exponential backoff"', [TESTS, NOTES, MOVE, RSYNC]),
    ],
)
def test_excluded_words_remove_sessions(
    query: str, sessions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert list_ids(capsys, query) == sessions


@pytest.mark.usefixtures("demo_home")
def test_a_typo_is_corrected_in_searched_words_but_not_in_excluded_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "rety"]) == ExitCode.SUCCESS
    captured = capsys.readouterr()
    assert RETRY in captured.out
    assert captured.err == "note: no match for rety; searched for retry instead\n"

    assert main(["list", "--", "-rety"]) == ExitCode.SUCCESS
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 6
    assert captured.err == ""


@pytest.mark.usefixtures("demo_home")
def test_a_word_without_a_match_is_in_no_session(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list_ids(capsys, "retry xylophone") == []


@pytest.fixture
def home_with_copies(sample_home: Home) -> Home:
    """Return a home with a session that mentions what another one does."""
    records = thread(prompt("Where do walruses live?"), reply("In the cold."))
    for number in (5, 6):
        sample_home.session(session_id(number), records)
    sample_home.session(session_id(7), [summary("Of another", "x")])
    return sample_home


@pytest.mark.usefixtures("home_with_copies")
def test_sessions_that_say_the_same_are_all_in_a_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["ingest", "-q"])

    assert len(list_ids(capsys, "walruses")) == 2
    assert len(list_ids(capsys, "-walruses")) == 2


@pytest.mark.usefixtures("home_with_copies")
def test_empty_search_finds_the_listed_sessions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["ingest", "-q"])
    sessions = list_ids(capsys)

    assert main(["search", "", "-n", "3"]) == ExitCode.SUCCESS
    assert f"1 to 3 of {len(sessions)} sessions" in capsys.readouterr().err
    sessions = list_ids(capsys, "project:demo")
    assert main(["search", "project:demo", "--json"]) == ExitCode.SUCCESS
    assert f'"session_count":{len(sessions)},' in capsys.readouterr().out
