"""What a picture is."""

from __future__ import annotations

from base64 import b64encode

import pytest

from bygones.render.pictures import kind_of_bytes, kind_of_coded


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\nmore", "image/png"),
        (b"\xff\xd8\xff\xe0more", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"RIFF\1\2\3\4WEBPmore", "image/webp"),
        (b"RIFF\1\2\3\4WAVE", ""),
        (b"<svg onload='alert(1)'/>", ""),
        (b"", ""),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(content: bytes, kind: str) -> None:
    assert kind_of_bytes(content) == kind
    assert kind_of_coded(b64encode(content).decode()) == kind


@pytest.mark.parametrize("coded", ["x", "\u00e9\u00e9\u00e9\u00e9", "=", "<svg>"])
def test_what_is_no_base64_is_no_picture(coded: str) -> None:
    assert kind_of_coded(coded) == ""
