"""Timeline, comparison, graph and sidebar of a session page."""

from __future__ import annotations

import re

import pytest

from bygones.render.html.markdown_html import render_prompt
from tests.web.archives import AGENT, LONG, LONG_TURNS, PLAIN, REWOUND
from tests.web.client import WebClient


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
