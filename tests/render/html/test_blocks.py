"""Blocks are what Markdown-it makes of them, or are left to it."""

from __future__ import annotations

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.render.html import markdown_html as module
from bygones.render.html.blocks import blocks
from tests.render.html.test_inline import stock

_STOCK = stock()
_PIECES = [
    *("a", "b c", "`x`", "**b**", "snake_case", "é", "\u00a0", "&amp;", "<b>", "x  "),
    *("- ", "* ", "+ ", "1. ", "2. ", "1) ", "10. ", "1.", "-", "#", "[x]: y", "[x]"),
    *("# ", "## ", "### x #", "```", "```py", "``` py a", "````", "~~~", "> ", ">"),
    *("|", "| a | b |", "|---|---|", "|:-:|--:|", "| c |", "x|y", "--|--", "|-|", ":-"),
    *("---", "***", "- - -", "===", "_", "___", "\\", "!", "", " ", "  ", "     "),
]
_indents = st.sampled_from(["", "", "", " ", "  ", "   ", "    "])
_line = st.tuples(_indents, st.lists(st.sampled_from(_PIECES), max_size=3)).map(
    lambda drawn: drawn[0] + "".join(drawn[1])
)
_anything = st.lists(_line, max_size=8)
_words = st.sampled_from(
    ["a", "b `c` d", "**x** y", "[l](http://a.b)", "- not", "x | y", "1986. was", ""]
)
_leaves = st.one_of(
    st.lists(_words, min_size=1, max_size=2),
    st.integers(1, 6).map(lambda level: ["#" * level + " H"]),
    st.sampled_from([["---"], ["***"], ["| a | b |", "|---|--:|", "| `c` |"]]),
    st.lists(st.sampled_from(["x = 1", "", "  y", "- z"]), max_size=3).map(
        lambda code: ["```py", *code, "```"]
    ),
)


def _point(mark: str, lines: list[str]) -> list[str]:
    inner = (f"{' ' * len(mark)}{line}" if line else "" for line in lines[1:])
    return [mark + lines[0], *inner]


def _nested(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    """Draw a point or a quote with these lines, with other lines behind it."""
    mark = st.sampled_from(["- ", "* ", "1. ", "2. ", "> "])
    made = st.builds(
        lambda mark, lines: (
            [f"> {line}".rstrip() for line in lines]
            if mark == "> "
            else _point(mark, lines)
        ),
        mark,
        inner,
    )
    gap = st.sampled_from([[], [""]])
    return st.builds(lambda a, gap, b: [*a, *gap, *b], made, gap, made | inner)


_documents = st.recursive(_leaves, _nested, max_leaves=8)


def read(source: str) -> str | None:
    return blocks(source, module._inline, module._render_code)


@given(_anything | _documents)
def test_what_is_read_here_is_what_markdown_it_reads(lines: list[str]) -> None:
    source = "\n".join(lines)

    assert read(source) in {None, _STOCK.render(f"{source}\n")}


USUAL = """\
Here is **what** I did:

1. Looked at `a.py`
   - which is long

   ```py
   x = 1
   ```
2. Ran the tests

| file | lines |
|:-----|------:|
| `a`  | 1     |

> It works.

### Next
- one
- two
```sh
make
```
---
Done."""


def test_a_usual_answer_is_not_left_to_markdown_it() -> None:
    assert read(USUAL) == _STOCK.render(USUAL)


@pytest.mark.parametrize(
    "source",
    [
        "a\n===",
        "- a\nlazy",
        "    code",
        "[a]: http://b.c",
        "```\nnever closed",
        "| a |\n|--|--|",
        "-",
        "# a #",
        "a\tb",
        "> a\nlazy",
        "x|y\n-|-",
    ],
)
def test_what_is_unusual_is_left_to_markdown_it(source: str) -> None:
    assert read(source) is None


def test_lists_in_lists_without_end_are_left_to_markdown_it() -> None:
    assert read("- " * 5_000 + "a") is None
    assert read(">" * 5_000 + "a") is None


def test_signs_of_markup_are_escaped() -> None:
    told = "<script>alert(1)</script>"

    made = read(f"# {told}\n\n- {told}\n\n| {told} |\n|---|\n\n```\n{told}\n```")

    assert made is not None
    assert "<script" not in made
    assert made.count(escape(told)) == 4


def test_the_language_of_code_may_stand_behind_a_blank() -> None:
    assert "<span" in (read("``` python\nimport os\n```") or "")
