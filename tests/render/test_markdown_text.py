"""Markdown on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.render.text.highlight import highlight_line
from bygones.render.text.markdown_text import find_code_blocks, render_markdown_lines
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    display_width,
    plain_text,
    styled_line,
    wrap_spans,
)

PAGE = """\
# A title

Some **bold** and *slanted* words, `code` and a [link](https://example.com/x).

- one
- two
  - below
1. first

> quoted

```python
def half(x):  # comment
    return x / 2
```

| Name | Size |
|---|--:|
| `a` | 10 |
| a long name | 2 |
"""


def rendered(text: str, width: int = 60) -> list[StyledLine]:
    return list(render_markdown_lines(text, width))


def texts(text: str, width: int = 60) -> list[str]:
    return [plain_text(line) for line in rendered(text, width)]


def style_of(lines: list[StyledLine], text: str) -> set[SpanStyle]:
    return {span.style for line in lines for span in line if text in span.text}


def test_a_page_is_laid_out_without_its_markup() -> None:
    assert texts(PAGE) == [
        "A title",
        "",
        "Some bold and slanted words, code and a link",
        "(https://example.com/x).",
        "",
        "• one",
        "• two",
        "  • below",
        "",
        "1. first",
        "",
        "▏ quoted",
        "",
        "  def half(x):  # comment",
        "      return x / 2",
        "",
        "Name        │ Size",
        "────────────┼─────",
        "a           │   10",
        "a long name │    2",
    ]


def test_what_is_marked_up_has_a_style() -> None:
    lines = rendered(PAGE)
    for text, style in (
        ("A title", SpanStyle.HEADING),
        ("bold", SpanStyle.STRONG),
        ("slanted", SpanStyle.EMPHASIS),
        ("code", SpanStyle.CODE),
        ("return", SpanStyle.KEYWORD),
        ("# comment", SpanStyle.COMMENT),
        ("Size", SpanStyle.STRONG),
    ):
        assert style_of(lines, text) == {style}, text


def test_the_last_line_of_a_diff_has_its_color() -> None:
    lines = rendered("```diff\n- old\n+ new\n```")
    assert style_of(lines, "- old") == {SpanStyle.REMOVED}
    assert style_of(lines, "+ new") == {SpanStyle.ADDED}


def test_struck_text_has_a_style_instead_of_tildes() -> None:
    lines = rendered("keep ~~drop `code` **bold**~~ keep\n")

    assert "~~" not in "".join(map(plain_text, lines))
    for text in ("drop", "code", "bold"):
        assert style_of(lines, text) == {SpanStyle.STRUCK}, text
    assert texts("# A ~~title~~\n")[0] == "A ~~title~~"


def test_cells_wrap_and_a_table_without_room_is_shown_as_written() -> None:
    table = "|a|b|\n|-|-|\n|many words in a cell|more words in another|\n"
    assert all(display_width(line) <= 24 for line in texts(table, 24))
    assert texts(table, 24)[2].startswith("many words")
    columns = "|" + "a|" * 12 + "\n|" + "-|" * 12 + "\n"
    assert texts(columns, 20)[0] == "|" + "a|" * 12


@pytest.mark.parametrize(
    "text",
    [
        "&#27;]0;x&#7; &#x9b;2J &#8238;x",
        "[x](https://a.b/%1b%5b2J\x1b[2J)",
        "`\x1b]52;c;eA==\x07`",
        "```\x1b[31m\n\x1b[2J\u202e\n```",
        "|\x1b[2J|\n|-|\n|&#x1b;[2J|",
        "![\x1b[2J](x)",
        "<b>\x1b[2J</b>",
    ],
)
def test_markup_cannot_bring_control_characters_to_the_terminal(text: str) -> None:
    output = "".join(texts(text))
    assert not any(unicodedata.category(char) in {"Cc", "Cf"} for char in output), (
        output
    )


@given(st.text(alphabet=st.sampled_from("ab *_`#>-|[]()!&;\n\t\x1b\u202e1.~\\<")))
def test_any_text_becomes_printable_lines(text: str) -> None:
    for line in texts(text, 30):
        assert line == "" or line.isprintable()


def test_code_blocks_are_found_unchanged() -> None:
    text = "a\n\n```sh\nls\t-l\n```\n\n    indented\n\n~~~\n```\n~~~\n"
    assert find_code_blocks(text) == ["ls\t-l\n", "indented\n", "```\n"]


def test_words_are_marked_across_spans() -> None:
    line = highlight_line(
        styled_line("a re", *wrap_first("try it")),
        lambda text: [(2, 7)] if text else [],
    )
    marked = [span.text for span in line if span.style is SpanStyle.MATCH]
    assert "".join(marked) == "retry"
    assert plain_text(line) == "a retry it"


def wrap_first(text: str) -> StyledLine:
    return next(wrap_spans(styled_line(text), 80))


@given(st.text(alphabet="ab 日é", max_size=60), st.integers(4, 20))
def test_wrapped_spans_keep_all_words(text: str, width: int) -> None:
    line = styled_line(text[:10], *styled_line(text[10:]))
    wrapped = " ".join(plain_text(part) for part in wrap_spans(line, width))
    assert wrapped.replace(" ", "") == text.replace(" ", "")
