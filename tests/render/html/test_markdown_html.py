"""Markdown is rendered as HTML, and nothing hostile gets through."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt, rules_inline

from bygones.render.html import markdown_html
from bygones.render.html.markdown_html import (
    render_markdown,
    render_preformatted,
    render_prompt,
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


def test_markdown_is_rendered() -> None:
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


def test_links_send_no_referrer() -> None:
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
def test_hostile_markdown_yields_no_active_content(source: str) -> None:
    html = render_markdown(source)

    assert not tags(html) & {"script", "img", "svg", "style", "b", "i", "iframe"}
    for _, name, value in attributes(html):
        assert name in {"href", "rel", "class", "start"}
        if name == "href":
            assert value.startswith(("https://", "http://", "mailto:"))


def test_image_becomes_a_labeled_link() -> None:
    assert "[image: a cat]" in render_markdown("![a cat](https://a.dev/cat.png)")
    assert tags(render_markdown("![a cat](https://a.dev/cat.png)")) == {
        "div",
        "p",
        "a",
        "span",
    }


@given(st.text(alphabet="<>&\"'[]()!`*_|-#\n a:/\\~^"))
def test_only_allowed_tags_are_rendered(source: str) -> None:
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


def test_very_long_text_is_shown_preformatted() -> None:
    assert tags(render_markdown("*a* " * 30_000)) == {"div"}


def test_preformatted_text_is_not_interpreted() -> None:
    assert (
        render_preformatted("\n*a*\n  <b>\n")
        == '<div class="typed">*a*\n  &lt;b&gt;</div>'
    )


@pytest.mark.parametrize(
    "source",
    ["> x|y\n> -|-\n> `c`|\n>", "> - # H\n> | a | b |\n> |---|--:|\n> | `c` |\n>"],
)
def test_table_in_a_quote_at_the_end_of_a_text_is_rendered(source: str) -> None:
    assert "<table>" in render_markdown(source)


def test_text_that_makes_markdown_it_fail_is_shown_preformatted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> str:
        return ""[1]

    monkeypatch.setattr(MarkdownIt, "render", fail)

    assert render_markdown("fails\n===") == render_preformatted("fails\n===")


@pytest.mark.parametrize("length", [10, 20_000])
def test_repeated_text_is_rendered_the_same(length: int) -> None:
    source = "**bold** " * (length // 9)

    assert render_markdown(source) == render_markdown(source)


@given(st.text(alphabet="<>&\"'[]()!`*_|-#\n a:/\\~^.=+{}@$%;\u00e91"))
def test_skipping_text_gives_what_markdown_it_gives(source: str) -> None:
    quick = markdown_html._markdown_parser.__wrapped__(True)
    plain = markdown_html._markdown_parser.__wrapped__(True)
    plain.inline.ruler.at("text", rules_inline.text)

    assert quick.render(source) == plain.render(source)


@pytest.mark.parametrize("render", [render_markdown, render_prompt])
def test_code_that_gets_its_colors_later_is_marked(
    render: Callable[..., str],
) -> None:
    source = "```python\ndef f(): ...\n```\n\n```\nplain\n```"

    html = render(source, has_colors=False)

    assert '<pre class="plain"><code>def f(): ...' in html
    assert "<pre><code>plain" in html
    assert '<span class="k">def ' in render(source)
