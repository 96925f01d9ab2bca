"""Wrapping Markdown."""

from __future__ import annotations

from bygones.render.text.primitives import SpanStyle, wrap_markdown

LONG = "word " * 20


def lines(text: str, room: int | None = 30) -> list[str]:
    return [span.text for span in wrap_markdown(text, room)]


def test_paragraphs_are_wrapped() -> None:
    assert lines("one two three four five six seven") == [
        "one two three four five six",
        "seven",
    ]


def test_nothing_is_wrapped_without_a_width() -> None:
    assert lines(LONG.strip(), None) == [LONG.strip()]


def test_code_and_tables_are_not_wrapped() -> None:
    text = f"```py\n{LONG}\n~~~\n```\n| {LONG}|"

    assert lines(text) == text.split("\n")
    assert {span.style for span in list(wrap_markdown(text, 30))[:4]} == {
        SpanStyle.CODE
    }


def test_shorter_fence_does_not_end_a_longer_one() -> None:
    styles = [span.style for span in wrap_markdown("````\n```\nx\n```\n````\nout", 30)]

    assert styles == [SpanStyle.CODE] * 5 + [SpanStyle.PLAIN]


def test_lists_and_quotes_have_a_hanging_indent() -> None:
    assert lines("- one two three four five six seven")[1] == "  seven"
    assert lines("12. one two three four five six")[1] == "    six"
    assert lines("> one two three four five six seven")[1] == "> seven"


def test_headings_have_their_style() -> None:
    assert next(wrap_markdown("## Why", 30)).style is SpanStyle.HEADING


def test_tabs_are_expanded_if_there_is_a_width() -> None:
    assert lines("\tx") == ["    x"]
    assert lines("\tx", None) == ["\tx"]
