"""Inline Markdown is what Markdown-it makes of it, whatever is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline

from bygones.render.html import markdown_html as module
from bygones.render.html.inline import plain

_SIGNS = [
    *("a", "Z", "7", "é", "文", " ", "  ", "\n", "\n\n", "\t", "(", ")", ".", ":", "-"),
    *("*", "**", "***", "_", "__", "`", "``", "~", "~~", "[", "]", "!", "![", "<", ">"),
    *("&", "&amp;", "&#35;", "\\", "](x)", "](http://a.b)", "<http://a.b>", '"', "'"),
    *(
        "`a b`",
        "**a b**",
        "snake_case",
        "self._x",
        "__init__",
        "**[a]**",
        "# ",
        "- ",
        "1. ",
        "> ",
        "|",
        "$",
        "{",
        "\u00a0",
    ),
]
_texts = st.lists(st.sampled_from(_SIGNS), max_size=24).map("".join)


def stock() -> MarkdownIt:
    """Return Markdown-it as it comes, with our renderers and none of our readers."""
    made = module._markdown_parser.__wrapped__()
    made.inline = ParserInline()
    made.inline.ruler.disable(["html_inline", "linkify"])
    made.core.ruler.at("inline", _inline)
    return made


def _inline(state: object) -> None:
    from markdown_it.rules_core import inline

    inline(state)  # type: ignore[arg-type]


_STOCK = stock()


@given(_texts)
def test_every_text_is_read_as_markdown_it_reads_it(text: str) -> None:
    wall = module._cleaner().clean

    assert wall(module._markdown_parser().render(text)) == wall(_STOCK.render(text))


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("only words", "only words"),
        ("snake_case and a < b & c!", "snake_case and a &lt; b &amp; c!"),
        (
            "run `a && b` **now**.",
            "run <code>a &amp;&amp; b</code> <strong>now</strong>.",
        ),
        ("**Fix:** see `x`", "<strong>Fix:</strong> see <code>x</code>"),
        ("**the `x` of it** stays", "<strong>the <code>x</code> of it</strong> stays"),
        ("`**` is two stars", "<code>**</code> is two stars"),
    ],
)
def test_the_plainest_lines_are_read_at_once(text: str, markup: str) -> None:
    assert plain(text) == markup


@pytest.mark.parametrize(
    "text",
    [
        "*a*",
        "_a_",
        "[a](b)",
        "a  \nb",
        "`` ` ``",
        "&amp;",
        "<b>",
        "\\*",
        "**a",
        "~~a~~",
    ],
)
def test_what_may_mean_more_is_left_to_markdown_it(text: str) -> None:
    assert plain(text) is None


@pytest.mark.parametrize("text", ["see [1] and x[k]", "![a]", "self._x and _y", "[_a]"])
def test_signs_that_cannot_mean_anything_here_are_words(text: str) -> None:
    assert plain(text, links=False) == text


@pytest.mark.parametrize("text", ["[a](b)", "__init__", "_a_ b", "a _b c_"])
def test_signs_that_may_mean_something_are_not(text: str) -> None:
    assert plain(text, links=False) is None


@given(_texts)
def test_without_names_of_links_a_text_is_read_alike(text: str) -> None:
    made = plain(text, links=False)
    wall = module._cleaner().clean

    assert made is None or wall(made) == wall(_STOCK.renderInline(text))


def test_a_hostile_line_takes_no_longer_than_it_is() -> None:
    # Of nested groups that could each match, one that gives back would never end.
    assert plain("a`" * 50_000 + "*") is None
    assert plain("**a " * 50_000) is None
    assert plain("_a" * 50_000 + "*", links=False) is None
