"""Timeline, comparison, graph and sidebar of a session page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.render.html.markdown_html import render_prompt
from tests.build import Home, meta, prompt, reply, session_id, thread
from tests.web.archives import AGENT, LONG, LONG_TURNS, PLAIN, REWOUND, WebArchive
from tests.web.client import WebClient, web_client


def test_timeline_links_to_all_messages_in_order(page: WebClient) -> None:
    text = page.get(f"/session/{LONG}/timeline").text
    numbers = [int(at) for at in re.findall(r'data-at="([0-9]+)"', text)]
    links = re.findall(r'<a href="([^"]*)"', text)

    assert numbers == list(range(2 * LONG_TURNS))
    assert "context, up to" in text
    assert page.get(links[50].replace("&amp;", "&")).status == 200


def test_timeline_marks_agents(page: WebClient) -> None:
    assert "agent-mark" in page.get(f"/session/{AGENT}/timeline").text
    assert "agent-mark" not in page.get(f"/session/{LONG}/timeline").text


def test_two_branches_are_compared_from_their_fork(page: WebClient) -> None:
    text = page.get(f"/session/{REWOUND}/compare").text
    left, right = text.split('<section aria-label="')[1:]

    assert left.startswith("live branch")
    assert ">Second way<" in left
    assert "· 1 prompt<" in left
    assert ">First way<" not in left
    assert ">First way<" in right
    assert page.get(f"/session/{REWOUND}/compare?right=7").status == 404


def test_graph_of_the_map_has_a_lane_for_a_branch_and_an_agent(
    page: WebClient,
) -> None:
    rewound = page.get(f"/session/{REWOUND}/map").text
    agent = page.get(f"/session/{AGENT}/map").text

    assert rewound.count('class="lanes"') == rewound.count('<li class="k-')
    assert 'class="l1"' in rewound
    assert 'class="node l3"' in agent
    assert f"/session/{REWOUND}/compare?right=1" in rewound


def test_sidebar_lists_sessions_and_marks_this_one(page: WebClient) -> None:
    text = page.get(f"/session/{PLAIN}/beside").text

    assert text.count("<li>") == 6
    (current,) = re.findall(r'href="([^"]*)" aria-current', text)
    assert current == f"/session/{PLAIN}"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("set __init__ to *x*", "__init__ to *x*"),
        ("call `f(x)` twice", "<code>f(x)</code>"),
        ("- one\n- two", "<li>one</li>"),
        ("```py\nx = 1\n```", "<pre><code>"),
        ("# not a heading, `really`", "# not a heading"),
        ("`x`\n    indented", "    indented"),
        ("`<b>` <script>alert(1)</script>", "&lt;script&gt;"),
        ("`a` [x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("`a` ![x](http://evil.test/p.png)", "![x](http"),
    ],
)
def test_prompts_are_rendered_without_losing_characters(
    typed: str, expected: str
) -> None:
    html = render_prompt(typed)

    assert expected in html
    assert "<script" not in html
    assert "<img" not in html
    assert "<a " not in html


def test_session_without_messages_says_so_and_links_to_its_agents(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / ".claude")
    home.session(session_id(7), [meta("odd-kind", sessionId=session_id(7))])
    home.session(session_id(8), [meta("odd-kind", sessionId=session_id(8))])
    home.agent(session_id(8), "a7", thread(prompt("Look around"), reply("Done.")))
    folder = tmp_path / "archive"
    Archive.ingest(folder, [home.path])
    client = web_client(WebArchive(home, folder))

    empty = client.get(f"/session/{session_id(7)}").text
    assert "This session has no messages." in empty
    assert "agent run" not in empty
    only_agent = client.get(f"/session/{session_id(8)}").text
    assert (
        f'href="/session/{session_id(8)}/map">Show 1 agent run in the map' in only_agent
    )


def test_map_and_outline_show_markdown_of_prompts_like_titles(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    home.session(
        session_id(7), thread(prompt("Run **all** of `tests`"), reply("Done."))
    )
    folder = tmp_path / "archive"
    Archive.ingest(folder, [home.path])
    client = web_client(WebArchive(home, folder))

    url = f"/session/{session_id(7)}"
    assert (
        "Run <strong>all</strong> of <code>tests</code>"
        in client.get(f"{url}/map").text
    )
    (entry,) = client.get(f"{url}/outline").json
    assert entry[-1] == "Run all of tests"
