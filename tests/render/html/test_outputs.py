"""Tool output and images as HTML."""

from __future__ import annotations

from base64 import b64encode

import pytest

from bygones.model.records import ImageBlock, MediaSource, TextBlock, ToolResultBlock
from bygones.render.html.tool_calls import (
    render_media,
    render_media_blocks,
    render_output,
    render_result,
)
from tests.render.html.outline import attributes, outline, tags


def test_short_output_is_shown_completely() -> None:
    assert render_output("a\n<b>\n") == '<pre class="output">a\n&lt;b&gt;</pre>'
    assert render_output(" \n ") == ""


@pytest.mark.parametrize("text", ["line\n" * 500, "x" * 20_000])
def test_long_output_is_folded_without_loss(text: str) -> None:
    html = render_output(text)

    assert "details" in tags(html)
    text_only = "".join(line.strip() for line in outline(html).split("\n"))
    assert text_only.count("line") >= text.count("line")
    assert text_only.count("x") >= text.count("x")


def test_output_above_the_limit_is_counted() -> None:
    assert "more characters" in render_output("y" * 1_100_000)


PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8L",
}


@pytest.mark.parametrize("kind", PICTURES)
@pytest.mark.parametrize("declared", ["", "image/png", 'image/png" onerror="alert(1)'])
def test_image_has_the_type_of_its_content(kind: str, declared: str) -> None:
    coded = b64encode(PICTURES[kind] + b"\0" * 30).decode()
    lines = f" {coded[:20]}\n{coded[20:]}\n"
    block = ImageBlock(
        source=MediaSource(type="base64", media_type=declared, data=lines)
    )

    assert ("img", "src", f"data:{kind};base64,{coded}") in attributes(
        render_media(block)
    )


@pytest.mark.parametrize(
    ("kind", "coded"),
    [
        ("image/svg+xml", "QUJD"),
        ("text/html", "QUJD"),
        ("image/png", '"><script>alert(1)</script>'),
        ("image/png", ""),
        ("image/png", "QUJD"),
        ("image/png", 'iVBORw0KGgo="><script>'),
        ("image/png", "\u00e9"),
    ],
)
def test_invalid_image_is_only_described(kind: str, coded: str) -> None:
    source = MediaSource(type="base64", media_type=kind, data=coded)

    assert tags(render_media(ImageBlock(source=source))) == {"p"}


def test_external_image_is_never_loaded() -> None:
    source = MediaSource(type="url", url="https://evil.dev/x.png")

    assert tags(render_media(ImageBlock(source=source))) == {"p"}


def test_result_blocks_keep_their_order() -> None:
    answer = ToolResultBlock(
        content=(TextBlock(text="a"), ImageBlock(), TextBlock(text="b"))
    )

    assert outline(render_result(answer, None, "output")).split() == [
        *("<pre.output>", "a", "<p.note>", "[image]", "<pre.output>", "b")
    ]
    assert render_media_blocks([TextBlock(text="a")]) == ""
    assert render_result(answer, "stored", "x") == '<pre class="x">stored</pre>'
