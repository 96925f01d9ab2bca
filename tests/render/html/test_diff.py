"""Diffs as HTML."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.outcomes import PatchHunk
from bygones.render.html.diff import render_diff, render_split_diff
from bygones.render.html.markup import language_of
from tests.render.html.outline import outline, tags


def hunk(*lines: str, at: int = 0) -> PatchHunk:
    return PatchHunk(old_start=at, new_start=at, lines=lines)


def test_changed_words_are_highlighted() -> None:
    html = render_diff([hunk(" a", "-say hello now", "+say good day now", at=7)])

    assert (
        outline(html).split()
        == outline(
            '<pre class="diff"><i>@@ line 7 @@</i><span data-old="7" data-new="7"> a</span>'
            '<del data-old="8">-say <b>hello</b> now</del>'
            '<ins data-new="8">+say <b>good day</b> now</ins></pre>'
        ).split()
    )


def test_dissimilar_lines_are_not_compared() -> None:
    assert "<b>" not in render_diff([hunk("-import os", "+x = compute(1)")])


def test_different_numbers_of_lines_are_not_compared() -> None:
    assert render_diff([hunk("-a b c", "+a b c d", "+e")]) == (
        '<pre class="diff"><del>-a b c</del><ins>+a b c d</ins><ins>+e</ins></pre>'
    )


@given(st.lists(st.text(alphabet='+- <>&"ab\\').map(lambda t: t + "x"), max_size=8))
def test_every_line_of_a_diff_is_shown_and_escaped(lines: list[str]) -> None:
    html = render_diff([hunk(*lines)])

    assert tags(html) <= {"pre", "i", "del", "ins", "b", "span"}


@given(
    st.lists(st.text(alphabet='+- <>&"ab\\\n#').map(lambda t: t + "x"), max_size=8),
    st.sampled_from(["", "py", "md", "html", "nonsense"]),
)
def test_highlighting_changes_no_text(lines: list[str], language: str) -> None:
    patch = hunk(*lines, at=3)

    for render in (render_diff, render_split_diff):
        plain, colored = render([patch]), render([patch], language)
        assert _text(colored) == _text(plain)


def test_a_diff_without_colors_says_so() -> None:
    patch = hunk(" def f():", "-    return 1", "+    return 22")

    plain = render_diff([patch], "py", has_colors=False)

    assert plain.replace(" data-plain", "") == render_diff([patch])
    assert render_diff([patch], "", has_colors=False) == render_diff([patch])


def _text(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html))


def test_each_side_is_highlighted_as_code() -> None:
    html = render_diff([hunk(" def f():", "-    return 1", "+    return 22")], "py")

    assert '<span class="k">def </span>' in html
    assert '<span class="k">return </span><b><span class="n">1</span></b></del>' in html
    assert '<b><span class="n">22</span></b></ins>' in html


def test_lines_that_replace_others_are_beside_them() -> None:
    html = render_split_diff([hunk(" a", "-say 1", "+say 2", "+c", at=4)])

    rows = [_text(row) for row in html.split("<tr>")[2:]]
    assert rows == ["4a4a", "5say 15say 2", "6c"]
    assert "say <b>1</b>" in render_split_diff([hunk("-say 1", "+say 2")])


@pytest.mark.parametrize(
    ("path", "language"),
    [("src/a.py", "py"), ("C:\\x\\Makefile", "makefile"), ("a.mjs", "javascript")],
)
def test_language_of_a_file(path: str, language: str) -> None:
    assert language_of(path) == language


def test_language_of_an_unknown_file_is_empty() -> None:
    assert language_of("notes.zzz") == language_of("") == ""


def test_empty_diff_renders_nothing() -> None:
    assert render_diff([]) == ""
