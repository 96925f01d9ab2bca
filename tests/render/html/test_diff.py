"""Diffs as HTML."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bygones.model.outcomes import PatchHunk
from bygones.render.html.tool_calls import render_diff
from tests.render.html.outline import outline, tags


def hunk(*lines: str, at: int = 0) -> PatchHunk:
    return PatchHunk(old_start=at, new_start=at, lines=lines)


def test_changed_words_are_highlighted() -> None:
    found = render_diff([hunk(" a", "-say hello now", "+say good day now", at=7)])

    assert (
        outline(found).split()
        == outline(
            '<pre class="diff"><i>@@ line 7 @@</i><span> a</span>'
            "<del>-say <b>hello</b> now</del><ins>+say <b>good day</b> now</ins></pre>"
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
    found = render_diff([hunk(*lines)])

    assert tags(found) <= {"pre", "i", "del", "ins", "b", "span"}


def test_empty_diff_renders_nothing() -> None:
    assert render_diff([]) == ""
