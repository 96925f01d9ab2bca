"""Escaping text for HTML."""

from __future__ import annotations

import re
from html import escape

from hypothesis import given
from hypothesis import strategies as st

from bygones.render.html.markup import (
    Html,
    escape_line,
    escape_text,
    make_element_id,
    render_details,
    render_facts,
    tag,
)
from bygones.render.text.primitives import sanitize
from tests.render.html.outline import attributes, tags


@given(st.text(alphabet="<>&\"'/=a \n\x1b\u202e"))
def test_text_is_escaped(value: str) -> None:
    assert tags(escape_text(value)) == set()
    assert tags(escape_line(value)) == set()
    assert attributes(tag("p", escape_text(value), title=value)) in (
        [("p", "title", value)],
        [],
    )


@given(st.text(st.sampled_from("a&<>\"' \u00e9;"), max_size=150))
def test_lines_and_attributes_are_escaped_like_html_escape(value: str) -> None:
    line = sanitize(value, newlines="space")

    assert escape_line(value) == escape(line)
    assert tag("p", title=line) == (
        f'<p title="{escape(line)}"></p>' if line else "<p></p>"
    )


def test_invisible_characters_are_shown() -> None:
    assert escape_text("a\u202eb\x1b]0;x\x07") == "a\\u202eb\\x1b]0;x\\x07"


def test_facts_are_separated_and_empty_ones_left_out() -> None:
    assert render_facts(["<1>", "", "2"]) == "&lt;1&gt; · 2"


def test_details_element_can_be_open() -> None:
    assert render_details(Html("a"), Html("b"), "x", is_open=True) == (
        '<details class="x" open><summary>a</summary>b</details>'
    )


@given(st.text(), st.text())
def test_element_ids_are_simple_and_distinct(first: str, second: str) -> None:
    assert re.fullmatch("m-[A-Za-z0-9_-]+", make_element_id("m", first))
    assert (make_element_id("m", first) == make_element_id("m", second)) is (
        first == second
    )


def test_quotes_are_escaped_in_attributes() -> None:
    assert escape_text("\"'<&>") == "\"'&lt;&amp;&gt;"
    assert escape_line("\"'<") == "&quot;&#x27;&lt;"
    assert tag("a", escape_text('"'), href='"') == '<a href="&quot;">"</a>'
