"""File names as Unicode text, and back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.base import Line, decode_path, encode_path
from bygones.sources.lines import read_lines
from bygones.sources.walk import discover_sources
from tests.sources.trees import found

BYTES_ON_DISK = pytest.mark.skipif(
    sys.platform in {"win32", "darwin"}, reason="names are always text here"
)


@BYTES_ON_DISK
@pytest.mark.req("F2")
@given(st.binary() | st.just(b"\xee\xbe\x80"), st.text())
def test_each_name_is_encoded_uniquely_and_decoded(raw: bytes, end: str) -> None:
    name = os.fsdecode(raw + end.encode("utf-8", "replace"))

    text = encode_path(name)

    assert decode_path(text) == name
    assert text.encode("utf-8").decode("utf-8") == text


def test_ordinary_names_are_unchanged() -> None:
    assert encode_path("/home/Ünal/プロ/😀.jsonl") == "/home/Ünal/プロ/😀.jsonl"


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_can_be_decoded(text: str) -> None:
    assert isinstance(decode_path(text), str)


@BYTES_ON_DISK
@pytest.mark.req("F2")
def test_file_with_a_non_unicode_name_is_found_and_read(tmp_path: Path) -> None:
    raw = b"caf\xe9\xee\xbe\x80.jsonl"
    (tmp_path / os.fsdecode(raw)).write_bytes(b"{}")

    (source,) = discover_sources(tmp_path)
    lines = list(read_lines(found(tmp_path).popitem()[1]))

    assert "\udce9" not in repr(source)
    assert [line.raw for line in lines if isinstance(line, Line)] == [b"{}"]
