"""Detecting image types."""

from __future__ import annotations

from base64 import b64encode

import pytest

from bygones.render.html.tool_calls import detect_base64_image_type, detect_image_type


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
def test_image_type_is_detected_by_signature(content: bytes, kind: str) -> None:
    assert detect_image_type(content) == kind
    assert detect_base64_image_type(b64encode(content).decode()) == kind


@pytest.mark.parametrize("coded", ["x", "\u00e9\u00e9\u00e9\u00e9", "=", "<svg>"])
def test_invalid_base64_is_not_an_image(coded: str) -> None:
    assert detect_base64_image_type(coded) == ""
