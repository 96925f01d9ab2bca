"""Facets count all results of a search."""

from __future__ import annotations

import re
from pathlib import Path

from bygones.archive import Archive
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use
from tests.web.archives import EDITED, PLAIN, WebArchive
from tests.web.client import WebClient, web_client

MANY = 25


def counts(text: str) -> dict[str, int]:
    """Return the values of all facets with their counts."""
    matches = re.findall(
        r'title="([^"]*)"[^>]*><span><bdi>[^<]*</bdi></span><span>([\d,]+)<', text
    )
    return {value: int(count.replace(",", "")) for value, count in matches}


def test_facets_count_all_sessions_of_a_search(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    for number in range(MANY):
        tool = "Bash" if number % 5 else "Grep"
        records = thread(
            prompt(f"find the needle {number}", uuid=f"p{number}"),
            reply([tool_use(tool, id=f"t{number}", command="ls")], uuid=f"r{number}"),
            tool_result(f"t{number}", "found", uuid=f"a{number}"),
            start=3600 * number,
        )
        home.session(session_id(number), records)

    folder = tmp_path / "archive"
    Archive.ingest(folder, [home.path])

    text = web_client(WebArchive(home, folder)).get("/search/facets?q=needle").text
    facets = counts(text)

    assert facets["Bash"] == 20
    assert facets["Grep"] == 5
    assert facets["user"] == MANY
    assert sum(count for value, count in facets.items() if value[:2] == "20") == MANY


def test_months_are_listed_newest_first(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    for number, day in enumerate((0, 40, 41, 80)):
        records = thread(
            prompt(f"needle {number}", uuid=f"p{number}"), start=86_400 * day
        )
        home.session(session_id(number), records)
    Archive.ingest(tmp_path / "archive", [home.path])

    page = web_client(WebArchive(home, tmp_path / "archive"))
    months = [
        value
        for value in counts(page.get("/search/facets?q=needle").text)
        if value[:2] == "20"
    ]

    assert len(months) == 3
    assert months == sorted(months, reverse=True)


def test_link_of_an_active_facet_removes_it(page: WebClient) -> None:
    text = page.get("/search/facets?q=wc+tool:Bash").text

    assert 'aria-current="true"' in text
    assert '/search?q=wc"' in text


def test_invalid_query_has_no_facets(page: WebClient) -> None:
    answer = page.get("/search/facets?q=tool:")

    assert answer.status == 200
    assert counts(answer.text) == {}


def test_home_page_filters_by_tool(page: WebClient) -> None:
    text = page.get("/?tool=Edit").text

    assert f'data-session="{EDITED}"' in text
    assert f'data-session="{PLAIN}"' not in text
    assert '<option value="Edit" selected>' in text
