"""Text becomes markup in one place, and is harmless there."""

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
def test_no_text_is_markup(value: str) -> None:
    assert tags(escape_text(value)) == set()
    assert tags(escape_line(value)) == set()
    assert attributes(tag("p", escape_text(value), title=value)) in (
        [("p", "title", value)],
        [],
    )


@given(st.text(st.sampled_from("a&<>\"' \u00e9;"), max_size=150))
def test_words_and_values_are_escaped_as_python_does_it(value: str) -> None:
    line = sanitize(value, newlines="space")

    assert escape_line(value) == escape(line)
    assert tag("p", title=line) == (
        f'<p title="{escape(line)}"></p>' if line else "<p></p>"
    )


def test_signs_that_nobody_sees_are_shown() -> None:
    assert escape_text("a\u202eb\x1b]0;x\x07") == "a\\u202eb\\x1b]0;x\\x07"


def test_facts_are_parted_and_empty_ones_left_out() -> None:
    assert render_facts(["<1>", "", "2"]) == "&lt;1&gt; · 2"


def test_a_fold_needs_no_script() -> None:
    assert render_details(Html("a"), Html("b"), "x", is_open=True) == (
        '<details class="x" open><summary>a</summary>b</details>'
    )


@given(st.text(), st.text())
def test_an_anchor_is_a_plain_name_and_tells_ids_apart(one: str, other: str) -> None:
    assert re.fullmatch("m-[A-Za-z0-9_-]+", make_element_id("m", one))
    assert (make_element_id("m", one) == make_element_id("m", other)) is (one == other)


def test_quotes_are_escaped_where_they_could_end_something() -> None:
    assert escape_text("\"'<&>") == "\"'&lt;&amp;&gt;"
    assert escape_line("\"'<") == "&quot;&#x27;&lt;"
    assert tag("a", escape_text('"'), href='"') == '<a href="&quot;">"</a>'
