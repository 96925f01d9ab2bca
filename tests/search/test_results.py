"""Results of conditions that need texts to be opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bygones.model.summary import CountBound
from bygones.search import results
from tests.build import (
    Home,
    image,
    prompt,
    reply,
    session_id,
    text,
    thinking,
    thread,
    tool_result,
    tool_use,
)
from tests.search.searching import SearchArchive, open_archive

MANY = 40


@pytest.fixture(scope="module")
def search_archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchArchive]:
    """Return an archive of one session that matches and many that do not."""
    folder = tmp_path_factory.mktemp("narrowing")
    home = Home(folder / "home")
    path = "/work/demo/src/zoo/walrus_parser.py"
    telling_one = thread(
        prompt([text("Look at this"), image()]),
        reply([thinking("Hm, a walrus")]),
        reply([tool_use("Edit", id="toolu_e", file_path=path, old_string="x")]),
        tool_result("toolu_e", "connection reset by peer, says edit", is_error=True),
        reply([tool_use("Bash", id="toolu_b", command="git edit --walrus")]),
        tool_result("toolu_b", "fatal: no such walrus", is_error=True),
    )
    home.session(session_id(1), telling_one)
    for number in range(2, MANY):
        records = [
            prompt(f"Say {number}"),
            reply(f"I edit {number}, connection and all"),
        ]
        home.session(session_id(number), thread(*records, start=60.0 * number))
    aside = thread(prompt("Look for walruses"), reply("Seen from afar"), start=30)
    home.agent(session_id(1), "a1", aside, meta={"agentType": "Explore"})
    with open_archive(home, folder / "archive") as found:
        yield found


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("has:image", ["prompt"]),
        ("has:thinking", ["thinking"]),
        ("has:edit", ["tool"]),
        ("tool:Edit", ["tool"]),
        ("tool:Ed*", ["tool"]),
        ("file:zoo/walrus", ["tool"]),
        ("file:zoo/*.py", ["tool"]),
        ("file:alrus_pars", ["tool"]),
        (r"/connection\s+reset/", ["result"]),
        (r"/(reset|never) by/", ["result"]),
        ("agent:Explore", ["prompt", "reply"]),
        ("agent:main walrus", ["thinking", "tool", "tool", "result"]),
        ("is:error tool:Edit", ["result"]),
        ("is:error file:walrus_parser", ["result"]),
        ('is:error cmd:"git edit"', ["result"]),
        ("in:result cmd:walrus -file:x fatal", ["result"]),
    ],
)
def test_few_records_are_opened(
    search_archive: SearchArchive,
    query: str,
    parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        results, "MAX_OPENED_RECORDS", 60 if query == "has:image" else 25
    )

    found = search_archive.search(query, hits=9)

    assert not found.is_partial
    assert [one.summary.id for one in found.sessions] == [session_id(1)]
    hit_parts = [str(hit.part) for hit in found.sessions[0].hits]
    assert sorted(hit_parts) == sorted(parts)


def test_limits_are_reported_as_partial_results(
    search_archive: SearchArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = search_archive.search("/[ns]ay/", limit=3)
    monkeypatch.setattr(results, "MAX_OPENED_RECORDS", 5)
    partial = search_archive.search("/[qx]q/")

    assert (first.session_count_bound, first.session_count) == (
        CountBound.AT_MOST,
        MANY - 1,
    )
    assert (partial.session_count_bound, partial.is_partial) == (
        CountBound.AT_LEAST,
        True,
    )
