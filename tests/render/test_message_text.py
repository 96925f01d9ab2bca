"""Describing blocks that are not text."""

from __future__ import annotations

from base64 import b64encode

import pytest

from bygones.model.records import ImageBlock, MediaSource
from bygones.render.message_text import describe_block


@pytest.mark.parametrize("count", range(1, 9))
def test_image_size_is_that_of_its_bytes(count: int) -> None:
    coded = b64encode(b"x" * count).decode()
    source = MediaSource(type="base64", media_type="image/png", data=coded)

    assert describe_block(ImageBlock(source=source)) == f"[image/png, {count} B]"


def test_escape_sequences_in_a_media_type_are_shown_not_sent() -> None:
    source = MediaSource(type="base64", media_type="\x1b]0;title\x07", data="")

    description = describe_block(ImageBlock(source=source))

    assert "\x1b" not in description
    assert "\x07" not in description
