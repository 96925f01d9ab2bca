"""Images of messages have their own URLs."""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64encode
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.render.html.markup import Html
from bygones.web.conversation_view import iter_embedded_images, link_images
from tests.build import Home, image, prompt, reply, thread, tool_result, tool_use
from tests.web.archives import PLAIN, WebArchive
from tests.web.client import WebClient, web_client


def png(width: int, height: int) -> bytes:
    def part(name: bytes, body: bytes) -> bytes:
        result = name + body
        return (
            struct.pack(">I", len(body))
            + result
            + struct.pack(">I", zlib.crc32(result))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x7f" * width) * height)
    return (
        b"\x89PNG\r\n\x1a\n"
        + part(b"IHDR", head)
        + part(b"IDAT", rows)
        + part(b"IEND", b"")
    )


ONE, TWO = png(3, 2), png(40, 30)
GIF = b"GIF89a" + struct.pack("<HH", 7, 9) + b"\0\0\0;"
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08\0\x05\0\x06\x03" + b"\0" * 9
WEBP = b"RIFF\x1a\0\0\0WEBPVP8L\r\0\0\0/\0\0\0"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def render_image(content: bytes, kind: str = "image/png") -> Html:
    coded = b64encode(content).decode()
    return Html(f'<img src="data:{kind};base64,{coded}" alt="a picture">')


@pytest.fixture
def page(tmp_path: Path) -> WebClient:
    home = Home(tmp_path / ".claude")
    coded = [b64encode(one).decode() for one in (ONE, TWO, SVG)]
    home.session(
        PLAIN,
        thread(
            prompt([image(coded[0]), {"type": "text", "text": "What is this?"}]),
            reply([tool_use("Read", file_path="/work/a.png")]),
            tool_result("toolu_1", [image(coded[1])]),
            prompt([image(coded[2], "image/svg+xml")]),
            prompt([image(coded[2])]),
        ),
    )
    Archive.ingest(tmp_path / "archive", [home.path])
    return web_client(WebArchive(home, tmp_path / "archive"))


def addresses(text: str) -> list[str]:
    matches = re.findall(r'<img src="(/[^"]*)"', text)
    return [one.replace("&amp;", "&") for one in matches]


def test_images_are_served_unchanged(page: WebClient) -> None:
    text = page.get(f"/session/{PLAIN}").text

    answers = [page.get(one) for one in addresses(text)]

    assert [answer.body for answer in answers] == [ONE, TWO]
    for answer in answers:
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "immutable" in answer.headers["cache-control"]
    assert 'width="40" height="30"' in text
    window = page.get(f"/session/{PLAIN}/window?from=0").text
    assert addresses(window) == addresses(text)


def test_other_data_is_not_served_as_image(page: WebClient) -> None:
    text = page.get(f"/session/{PLAIN}/window?from=0").text

    assert "svg+xml" not in re.sub(r"<p.*?</p>", "", text)
    assert len(addresses(text)) == 2  # not the one that claims to be a PNG
    assert "data:image" not in text
    assert '<p class="note">[image/png, 59 B]' in text


def test_image_url_needs_its_name_and_message(page: WebClient) -> None:
    first, second = addresses(page.get(f"/session/{PLAIN}").text)
    name, _, rest = first.rpartition("/")[2].partition("?")

    assert page.get(first.replace(name, "0" * 32)).status == 404
    assert page.get(f"{second.partition('?')[0]}?{rest}").status == 404


@pytest.mark.parametrize(
    ("content", "kind", "size"),
    [
        (ONE, "image/png", (3, 2)),
        (GIF, "image/gif", (7, 9)),
        (JPEG, "image/jpeg", (6, 5)),
        (WEBP, "image/webp", None),
    ],
)
def test_media_type_comes_from_the_first_bytes(
    content: bytes, kind: str, size: tuple[int, int] | None
) -> None:
    made = render_image(content, "image/png")

    (embedded,) = iter_embedded_images(made)
    result = link_images(made, lambda name: f"/at?name={name}&x=1")

    assert (embedded.media_type, embedded.content) == (kind, content)
    room = f' width="{size[0]}" height="{size[1]}"' if size else ""
    to = f"/at?name={embedded.name}&amp;x=1"
    image = f'<img src="{to}"{room} alt="a picture">'
    assert result == f'<a class="picture-link" href="{to}">{image}</a>'


@pytest.mark.parametrize("content", [SVG, b"<html>", b"\x89PNG"])
def test_unknown_data_is_only_named(content: bytes) -> None:
    made = render_image(content)

    assert list(iter_embedded_images(made)) == []
    assert link_images(made, str) == '<p class="note">a picture</p>'


def test_text_that_looks_like_an_image_stays_text() -> None:
    made = Html("&lt;img src=&quot;data:image/png;base64,iVBORw0KGgo=&quot;")

    assert link_images(Html(f"<img > {made}"), str) == f"<img > {made}"
