"""Syntax highlighting."""

from __future__ import annotations

import re
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.render.html.markup import HIGHLIGHT_CLASSES, highlight_code


def test_known_language_is_highlighted() -> None:
    html = highlight_code("def f():\n    return 'x'  # y\n", "python")

    assert '<span class="k">def </span><span class="f">f</span>' in html
    assert (
        set(re.findall(r'class="(\w)"', html))
        == {"k", "f", "s", "c"}
        <= HIGHLIGHT_CLASSES
    )


@pytest.mark.parametrize("language", ["", "text", "no such language", "<script>"])
def test_unknown_language_is_only_escaped(language: str) -> None:
    assert highlight_code("if a < b: pass", language) == "if a &lt; b: pass"


def test_unknown_language_does_not_load_pygments_plugins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pygments.lexers.find_plugin_lexers", pytest.fail)

    assert highlight_code("*.pyc", "no language at all") == "*.pyc"


def test_markdown_is_highlighted() -> None:
    html = highlight_code("# A `b`\n- one `c`\n12. two\n\nplain # -", "markdown")

    assert html == (
        '<span class="k"># A `b`</span>\n<span class="k">-</span> one '
        '<span class="s">`c`</span>\n<span class="k">12.</span> two\n\nplain # -'
    )


def test_long_code_is_not_highlighted() -> None:
    assert "<span" not in highlight_code("x = 1\n" * 2000, "python")


SIGNS = st.text(alphabet=st.characters(exclude_characters="\r\ufeff"), max_size=60)


@given(SIGNS, st.sampled_from(["python", "html", "bash", "json", "diff", "js", "md"]))
def test_highlighting_keeps_all_text(code: str, language: str) -> None:
    bare = re.sub(r'<span class="\w">|</span>', "", highlight_code(code, language))

    assert bare == escape(code, quote=False)
