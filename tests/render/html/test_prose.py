"""Markdown becomes markup, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bygones.render.html.markdown_html import (
    _MARKDOWN_CHARS,
    _clean,
    _markdown_parser,
    _render_paragraphs,
    render_markdown,
    render_preformatted,
)
from tests.render.html.outline import attributes, outline, tags

MARKDOWN = """\
# Title

Some *words* and `code`, a [link](https://a.dev/x) and <https://b.dev>.

| a | b |
|---|--:|
| 1 | 2 |

```python
x = "y"
```

> quoted

1. one
2. two
"""


def test_markdown_is_read() -> None:
    assert tags(render_markdown(MARKDOWN)) >= {
        "h3",
        "em",
        "code",
        "a",
        "table",
        "pre",
        "ol",
    }
    assert ("td", "class", "right") in attributes(render_markdown(MARKDOWN))
    assert "Title" in outline(render_markdown(MARKDOWN))


def test_a_link_tells_nobody_where_it_was_followed() -> None:
    links = [
        a for a in attributes(render_markdown("[x](https://a.dev)")) if a[0] == "a"
    ]

    assert ("a", "href", "https://a.dev") in links
    assert ("a", "rel", "noopener noreferrer nofollow") in links


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt&colon;alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "[x](vbscript:x)",
        "[x](file:///etc/passwd)",
        "[x]: javascript:alert(1)\n\n[x]",
        "<javascript:alert(1)>",
        "![x](https://evil.dev/pixel.png)",
        "![x](javascript:alert(1))",
        "<svg onload=alert(1)>",
        "<style>body{display:none}</style>",
        '```"><script>alert(1)</script>\nx\n```',
        "| <b>x</b> |\n|---|\n| <i>y</i> |",
        "<a href='https://a.dev' onclick='x'>y</a>",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "[x](https://a.dev 'title\" onmouseover=\"alert(1)')",
    ],
)
def test_nothing_hostile_gets_through(source: str) -> None:
    found = render_markdown(source)

    assert not tags(found) & {"script", "img", "svg", "style", "b", "i", "iframe"}
    for _, name, value in attributes(found):
        assert name in {"href", "rel", "class", "start"}
        if name == "href":
            assert value.startswith(("https://", "http://", "mailto:"))


def test_a_picture_is_named_and_linked_but_never_loaded() -> None:
    assert "[picture: a cat]" in render_markdown("![a cat](https://a.dev/cat.png)")
    assert tags(render_markdown("![a cat](https://a.dev/cat.png)")) == {
        "div",
        "p",
        "a",
        "span",
    }


@given(st.text(alphabet="ab.: -1#\n\"'!(){}/@=+x\u00e9<*", max_size=40))
def test_text_without_markdown_takes_the_short_way_to_the_same_place(
    source: str,
) -> None:
    if not _MARKDOWN_CHARS.search(source):
        assert _render_paragraphs(source) == _clean(_markdown_parser().render(source))


@given(st.text(alphabet="<>&\"'[]()!`*_|-#\n a:/\\~^"))
def test_whatever_is_written_the_markup_is_whole(source: str) -> None:
    assert tags(render_markdown(source)) <= {
        *(
            "div",
            "p",
            "a",
            "span",
            "em",
            "strong",
            "s",
            "code",
            "pre",
            "ul",
            "ol",
            "li",
        ),
        *("blockquote", "hr", "br", "h3", "h4", "h5", "h6"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }


def test_a_very_long_text_is_shown_as_it_is() -> None:
    assert tags(render_markdown("*a* " * 30_000)) == {"div"}


def test_what_was_typed_stays_as_it_was_typed() -> None:
    assert (
        render_preformatted("\n*a*\n  <b>\n")
        == '<div class="typed">*a*\n  &lt;b&gt;</div>'
    )


@pytest.mark.parametrize(
    "source",
    ["> x|y\n> -|-\n> `c`|\n>", "> - # H\n> | a | b |\n> |---|--:|\n> | `c` |\n>"],
)
def test_a_table_in_a_quote_at_the_end_of_a_text_is_read(source: str) -> None:
    assert "<table>" in render_markdown(source)


def test_what_markdown_it_cannot_read_is_shown_as_it_was_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> str:
        return ""[1]

    monkeypatch.setattr(MarkdownIt, "render", fail)

    assert render_markdown("a\n===") == render_preformatted("a\n===")
