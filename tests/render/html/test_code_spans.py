"""Code between backticks in titles and excerpts."""

from __future__ import annotations

import pytest

from bygones.render.html.markup import (
    escape_line,
    escape_text,
    format_inline,
    join_html,
    tag,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("run `ls -l` now", "run <code>ls -l</code> now"),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("one ` only", "one ` only"),
        ("empty `` pair", "empty `` pair"),
        ("`<script>`", "<code>&lt;script&gt;</code>"),
    ],
)
def test_text_between_backticks_is_code(text: str, wanted: str) -> None:
    assert format_inline(escape_line(text)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("**Zero errors!** now", "<strong>Zero errors!</strong> now"),
        ("(**a**, **b**)", "(<strong>a</strong>, <strong>b</strong>)"),
        ("2**n and 3**m", "2**n and 3**m"),
        ("src/**/a and **/b **c", "src/**/a and **/b **c"),
        ("**** and ** a **", "**** and ** a **"),
        ("**<b>**", "<strong>&lt;b&gt;</strong>"),
        ("`**kept**`", "<code>**kept**</code>"),
    ],
)
def test_text_between_two_asterisks_is_bold(text: str, wanted: str) -> None:
    assert format_inline(escape_line(text)) == wanted


def test_marked_words_stay_marked_inside_of_code() -> None:
    html = join_html(
        (escape_text("see `the "), tag("mark", escape_line("lock")), escape_line("`"))
    )

    assert format_inline(html) == "see <code>the <mark>lock</mark></code>"


def test_mark_that_starts_inside_of_code_and_ends_after_it_is_left_alone() -> None:
    html = join_html((escape_text("`the "), tag("mark", escape_line("lock` it"))))

    assert format_inline(html) == html
