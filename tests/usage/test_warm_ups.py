"""Warm-ups and replays of agents are not in the totals, but in a footnote."""

from __future__ import annotations

import json

import pytest

from bygones.cli.main import main
from tests.build import prompt, session_id, thread
from tests.usage.usage_archive import UsageArchive, answer

FIRST, SECOND = session_id(1), session_id(2)


def write_warm_ups(archive: UsageArchive) -> None:
    archive.home.session(FIRST, thread(prompt("go"), answer(1, output=4)))
    warm = thread(prompt("Warmup"), answer(2, input=1000, output=10), start=3600)
    archive.home.agent(FIRST, "aaaaaaa", warm)
    inside = thread(prompt("Warmup"), answer(3, output=7))
    archive.home.session(SECOND, [one | {"isSidechain": True} for one in inside])


@pytest.mark.req("A3", "U2")
@pytest.mark.parametrize(
    ("query", "replies", "tokens"),
    [
        ("", 2, 1017),
        (f"session:{FIRST}", 1, 1010),
        (f"-session:{FIRST}", 1, 7),
        ("after:2026-01-05T09:30", 1, 1010),
        ("before:2026-01-05T09:30 is:agent", 1, 7),
        ("model:sonnet", 2, 1017),
        ("branch:abandoned OR agent:main", 0, 0),
    ],
)
def test_warm_ups_are_reported_beside_the_total(
    usage_archive: UsageArchive, query: str, replies: int, tokens: int
) -> None:
    write_warm_ups(usage_archive)
    report = usage_archive.usage(query=query)

    found = report.warm_ups
    counted = (found.replies, found.tokens) if found else (0, 0)
    assert counted == (replies, tokens)
    assert report.total.tokens in {0, 4}
    if not query:
        assert found is not None
        assert found.cost == 1000 * 3_000 + 17 * 15_000


@pytest.mark.req("A3")
def test_warm_ups_are_a_footnote(
    usage_archive: UsageArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    write_warm_ups(usage_archive)
    options = ["--archive", str(usage_archive.archive)]
    options += ["--home", str(usage_archive.home.path)]

    assert main([*options, "ingest", "--quiet"]) == 0
    assert main([*options, "usage"]) == 0
    note = "agents are not included: 2 replies, 1.0k tokens, <$0.01"
    assert note in capsys.readouterr().out
    assert main([*options, "usage", "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["warm_ups"] == {
        "reply_count": 2,
        "tokens": 1017,
        "cost_usd": 0.003255,
    }


@pytest.mark.req("A3")
def test_replies_that_only_a_replay_contains_are_in_the_footnote(
    usage_archive: UsageArchive,
) -> None:
    first = thread(prompt("go"), answer(1, output=4))
    usage_archive.home.session(FIRST, first)
    replay = thread(*first, prompt("Summarize"), answer(2, input=500, output=20))
    usage_archive.home.agent(FIRST, "acompact-1", replay)
    report = usage_archive.usage()

    assert report.total.tokens == 4
    assert report.warm_ups is not None
    assert (report.warm_ups.replies, report.warm_ups.tokens) == (1, 520)
