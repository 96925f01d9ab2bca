"""Find in a session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bygones.archive import Archive
from tests.build import Home, prompt, reply, thread, tool_result, tool_use
from tests.web.archives import AGENT, LONG, REWOUND, WebArchive, build_archive
from tests.web.client import WebClient, web_client


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> WebClient:
    return web_client(build_archive(tmp_path_factory.mktemp("find")))


def find_in_session(page: WebClient, session: str, query: str) -> list[int]:
    result = page.get(f"/session/{session}/find?q={query}").json
    return [at for at, _ in result["places"]]


def test_matches_are_in_the_order_of_the_session(page: WebClient) -> None:
    places = find_in_session(page, LONG, "answer")

    assert len(places) > 10
    assert places == sorted(set(places))


def test_all_matches_are_returned(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    records = [
        record
        for number in range(300)
        for record in (prompt(f"Ask {number}"), reply("Kiwi"))
    ]
    home.session(LONG, thread(*records))
    Archive.ingest(tmp_path / "archive", [home.path])

    result = web_client(WebArchive(home, tmp_path / "archive")).get(
        f"/session/{LONG}/find?q=kiwi"
    )

    assert [number for number, _ in result.json["places"]] == list(range(1, 600, 2))
    assert result.json["others"] == []
    assert not result.json["is_partial"]


def test_each_match_has_the_anchor_of_its_message(page: WebClient) -> None:
    result = page.get(f"/session/{LONG}/find?q=answer").json

    at, anchor = result["places"][3]
    assert f'id="{anchor}"' in page.get(f"/session/{LONG}/message?from={at}").text


def test_adjacent_words_are_matched_as_a_phrase(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    records = [prompt("red kite"), reply("kite red"), prompt("a red kite flies")]
    home.session(LONG, thread(*records))
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    assert find_in_session(page, LONG, "red kite") == [0, 2]
    assert find_in_session(page, LONG, "flies red") == [0, 1, 2]
    assert find_in_session(page, LONG, "/k.te r/") == [1]
    assert find_in_session(page, LONG, "absent") == []


def test_matches_on_other_branches_link_there(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    query = [prompt("Begin heron", uuid="p1"), reply("Begun", uuid="r1")]
    first = thread(*query, prompt("First way", uuid="p2"), reply("Heron", uuid="r2"))
    second = thread(
        prompt("Second way", uuid="p3", parent="r1"), reply("Two", uuid="r3"), start=60
    )
    home.session(REWOUND, [*first, *second])
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    result = page.get(f"/session/{REWOUND}/find?q=heron").json

    assert result["places"] == [[0, "m-p1"]]
    ((name, count, to),) = result["others"]
    assert (name, count) == ("abandoned branch 2: First way", 1)
    assert "branch=1" in to
    assert "at=m-r2" in to
    assert "find=heron" in to
    assert 'id="m-r2"' in page.get(to).text
    back = page.get(f"/session/{REWOUND}/find?q=two&branch=1").json
    assert [name for name, _, _ in back["others"]] == ["the live branch"]


def test_all_branches_are_searched(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    query = thread(prompt("Begin", uuid="p"), reply("Begun", uuid="r"))
    ways = [
        one
        for number in range(60)
        for one in thread(
            prompt(f"Way {number} ibex ibex{number}", uuid=f"p{number}", parent="r"),
            reply("Ok", uuid=f"r{number}"),
            start=60 * (number + 1),
        )
    ]
    home.session(REWOUND, [*query, *ways])
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    result = page.get(f"/session/{REWOUND}/find?q=ibex").json

    assert len(result["places"]) + sum(count for _, count, _ in result["others"]) == 60
    for number in range(60):
        result = page.get(f"/session/{REWOUND}/find?q=ibex{number}").json
        anchors = [anchor for _, anchor in result["places"]]
        for _, _, to in result["others"]:
            anchors += re.findall(r"at=([^&]+)", to)
        assert anchors == [f"m-p{number}"]


def test_all_agents_are_searched(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    calls = [
        tool_use("Task", id=f"toolu_{number}", description="Go") for number in range(60)
    ]
    answers = [
        tool_result(f"toolu_{number}", "Done", toolUseResult={"agentId": f"a{number}"})
        for number in range(60)
    ]
    home.session(AGENT, thread(prompt("Look"), reply(calls), *answers))
    for number in range(60):
        home.agent(
            AGENT, f"a{number}", thread(prompt("Go"), reply(f"ocelot ocelot{number}"))
        )
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    others = page.get(f"/session/{AGENT}/find?q=ocelot").json["others"]
    matches = [re.findall(r"/agent/a-(a\d+)\?", to) for _, _, to in others]
    assert sorted(matches) == sorted([f"a{number}"] for number in range(60))
    assert {count for _, count, _ in others} == {1}
    for number in (0, 59):
        answer = page.get(f"/session/{AGENT}/find?q=ocelot{number}").json
        ((_, count, to),) = answer["others"]
        assert count == 1
        assert f"/agent/a-a{number}?" in to


def test_empty_query_has_no_match(page: WebClient) -> None:
    for nothing in ("", "?q=", "?q=%20"):
        result = page.get(f"/session/{LONG}/find{nothing}").json
        assert result == {
            "places": [],
            "others": [],
            "is_partial": False,
            "runs": [],
            "prefixes": [],
        }


def test_response_contains_the_matched_terms(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    records = [
        prompt("It retries"),
        reply("They retried a red kite"),
        reply("retrieve"),
    ]
    home.session(LONG, thread(*records))
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    one = page.get(f"/session/{LONG}/find?q=retry").json
    together = page.get(f"/session/{LONG}/find?q=red%20kite").json
    prefix_result = page.get(f"/session/{LONG}/find?q=retr*").json

    assert sorted(one["runs"]) == [["retried"], ["retries"]]
    assert together["runs"] == [["red", "kite"]]
    assert prefix_result["prefixes"] == [["retr"]]


def test_matches_in_agents_link_there(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    task = tool_use("Task", id="toolu_9", description="Explore")
    home.session(
        AGENT,
        thread(
            prompt("Look"),
            reply([task]),
            tool_result("toolu_9", "Found", toolUseResult={"agentId": "a1"}),
        ),
    )
    home.agent(AGENT, "a1", thread(prompt("Go"), reply("A hidden egret.")))
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    result = page.get(f"/session/{AGENT}/find?q=egret").json

    assert result["places"] == []
    ((name, count, to),) = result["others"]
    assert (name, count) == ("Explore", 1)
    assert 'A hidden <mark id="hit">egret</mark>.' in page.get(to).text
