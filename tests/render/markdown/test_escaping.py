"""Escaping and neutralizing Markdown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bygones.render.markdown import (
    escape_markdown,
    escape_summary,
    fenced_code,
    inline_code,
    neutralize_markdown,
    quote_markdown,
)
from tests.render.html.outline import attributes, outline, tags

CARELESS = MarkdownIt("commonmark", {"html": True}).enable("table")
"""A viewer that allows everything."""
CARELESS.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005
SIGNS = st.text(alphabet="<>&\"'[]()!`*_|-#\n a:/\\~^1.", max_size=40)


def shown(source: str) -> str:
    return str(CARELESS.render(source))


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1)> b",
        "![x](https://evil.dev/pixel.png)",
        "[x](javascript:alert(1))",
        "[x]( <javascript:alert(1)>)",
        "[x][y]\n\n[y]: javascript:alert(1)",
        "<!-- x --> <?php ?> </details>",
        "```\n<b>\n```\n<b>",
        "``` x\nnever closed",
        "```a<script>alert(1)</script>`b",
        "\\`<script>alert(1)</script>`",
        "`a\nb` <script>alert(1)</script> `",
        "- ```\n  code\n  ```\n\n<script>alert(1)</script>",
        "- a\n  ```\n<script>alert(1)</script>",
        "[x](\njavascript:alert(1))",
        "[x]\n\n[x]:\njavascript:alert(1)",
        "<script>alert(1)</script> [x](https://a.dev)\n" * 4_000,
    ],
)
def test_dangerous_markdown_is_escaped(source: str) -> None:
    found = CARELESS.parse(neutralize_markdown(source))

    kinds = {token.type for token in found} | {
        child.type for token in found for child in token.children or ()
    }
    assert not kinds & {"html_block", "html_inline", "image"}
    for _, name, value in attributes(shown(neutralize_markdown(source))):
        assert name != "href" or value.startswith(("https:", "http:", "mailto:", "#"))


def test_harmless_markdown_is_kept() -> None:
    source = "## Why\n\n- *so* `<b>` and <https://a.dev>\n\n```html\n<b>\n```"

    assert neutralize_markdown(source) == (
        "#### Why\n\n- *so* `<b>` and [https://a.dev](https://a.dev)\n\n"
        "```html\n<b>\n```"
    )


def test_open_fence_is_closed() -> None:
    assert neutralize_markdown("```py\nx = 1").endswith("\n```")


def test_code_in_a_list_cannot_open_a_block_for_later_messages() -> None:
    first = neutralize_markdown("- ```\n  code\n  ```\n\ntext")
    second = neutralize_markdown("```\n<b>\n```")

    assert tags(shown(f"{first}\n\n{second}")) <= {"ul", "li", "pre", "code", "p"}


def test_many_runs_of_backticks_are_read_once() -> None:
    line = " ".join("`" * length for length in range(1, 400))

    started = time.process_time()
    neutralize_markdown(line)

    assert time.process_time() - started < 2


@given(SIGNS)
def test_markdown_never_contains_html(source: str) -> None:
    for found in (
        neutralize_markdown(source),
        escape_markdown(source),
        quote_markdown(source),
    ):
        tokens = CARELESS.parse(found)
        inner = [child for token in tokens for child in token.children or ()]
        assert not {"html_block", "html_inline"} & {t.type for t in (*tokens, *inner)}
    assert tags(escape_summary(source)) == set()


@given(SIGNS)
def test_inline_code_shows_its_text(source: str) -> None:
    line = " ".join(source.split())
    if line:
        found = outline(shown(f"x {inline_code(source)}"))

        assert "<code>" in found
        assert line in found


@given(SIGNS)
def test_text_cannot_end_its_fence(source: str) -> None:
    tokens = CARELESS.parse(f"{fenced_code(source)}\nbehind\n")

    assert [token.type for token in tokens] == [
        *("fence", "paragraph_open", "inline", "paragraph_close")
    ]
