"""Complete HTML pages."""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from pathlib import Path

import pytest

from bygones.model.nodes import parse_user_text
from bygones.render.html.markup import Html
from bygones.render.html.page import (
    STATIC_FILES,
    PageFrame,
    load_static_file,
    render_html_page,
    render_session_page,
    render_table_of_contents,
)
from bygones.render.html.session import HtmlOptions
from bygones.render.numbers import format_cost
from bygones.render.walk import SessionView
from bygones.usage.prices import load_prices
from tests.build import prompt, reply, thread
from tests.render.html.outline import attributes, outline, tags
from tests.render.shared import session_of
from tests.render.stories import STORIES, hostile, passing, rewound

OPTIONS = HtmlOptions(text_parser=parse_user_text)


def test_header_shows_the_total_cost(tmp_path: Path) -> None:
    session = STORIES["everyday"](tmp_path)
    total = load_prices().compute_cost(session.message_usages)
    setting = HtmlOptions(text_parser=parse_user_text, cost=total)
    head = "".join(render_session_page(session, options=setting)).partition("<h2")[0]

    cost = format_cost(total)
    assert cost not in {"", "unknown"}
    assert f"{cost}<" in head or f"{cost} " in head


def whole(story: str, folder: Path, shell: PageFrame | None = None) -> str:
    return "".join(
        render_session_page(STORIES[story](folder), options=OPTIONS, frame=shell)
    )


@pytest.mark.parametrize("story", STORIES)
def test_page_loads_nothing_external(story: str, tmp_path: Path) -> None:
    html = whole(story, tmp_path)

    loading = {"src", "srcset", "data", "action", "poster", "background"}
    assert [item for item in attributes(html) if item[1] in loading] == []
    assert "link" not in tags(html)
    assert "@import" not in html
    assert "url(" not in html


def test_policy_allows_own_scripts_and_styles_only(tmp_path: Path) -> None:
    html = whole("everyday", tmp_path)
    policy = next(v for t, n, v in attributes(html) if t == "meta" and n == "content")

    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    for name in ("style", "script"):
        for text in re.findall(rf"<{name}[^>]*>(.*?)</{name}>", html, re.DOTALL):
            digest = base64.b64encode(sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_page_has_landmarks_language_and_title(tmp_path: Path) -> None:
    html = outline(whole("everyday", tmp_path))

    for landmark in ("<main id=main>", "<header.top>", "<footer.foot>", "<nav.toc>"):
        assert html.count(landmark) == 1
    assert html.count("<h1>") == 1
    assert "<title>\n      Mend the test of wait" in html
    assert '<html lang="en">' in whole("everyday", tmp_path / "again")


def test_page_in_a_folder_links_the_shared_style(tmp_path: Path) -> None:
    shell = PageFrame(
        assets_url="../assets/",
        index_url="../index.html",
        previous_url="a.html",
        next_url="c.html",
    )

    html = outline(whole("everyday", tmp_path, shell))

    for part in ("../assets/style.css", "../index.html", "a.html", "c.html"):
        assert f"href={part}" in html


def test_table_of_contents_lists_several_prompts(tmp_path: Path) -> None:
    session = passing(tmp_path)

    listed = outline(render_table_of_contents(session.prompts))

    assert listed.count("<li>") == len(session.prompts)
    assert render_table_of_contents(session.prompts[:1]) == ""


def test_table_of_contents_marks_prompts_that_are_cut_off(tmp_path: Path) -> None:
    long = "Why does the test of the cart fail? " * 5
    session = session_of(
        tmp_path, thread(prompt(long), reply("So."), prompt("Ok"), reply("Yes."))
    )

    first, second = re.findall(
        r"#m-[^>]*>([^<]*)</a>", render_table_of_contents(session.prompts)
    )

    assert first.endswith("…")
    assert second == "Ok"


def test_other_branch_has_its_own_page(tmp_path: Path) -> None:
    html = "".join(
        render_session_page(rewound(tmp_path), SessionView(branch=1), OPTIONS)
    )

    assert "The live branch continues from here" in html


def test_hostile_title_is_escaped(tmp_path: Path) -> None:
    session = hostile(tmp_path, "</title><script>alert(1)</script>")

    html = "".join(render_session_page(session, options=OPTIONS))

    assert html.count("<script") == 1
    assert html.count("</title>") == 1


def test_page_can_include_further_scripts() -> None:
    shell = PageFrame(assets_url="assets/", scripts=("find.js",))

    html = "".join(render_html_page("List", Html(""), [Html("<p>x</p>")], shell))

    assert ("script", "src", "assets/index.js") in attributes(html)
    assert html.count("sha256-") == 2
    assert "&#x27;self&#x27;; img-src" in html


@pytest.mark.parametrize("name", STATIC_FILES)
def test_static_file_can_be_embedded(name: str) -> None:
    assert "</" not in load_static_file(name)
