"""The corpus of real transcripts next to the checkout, if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.model.base import Line, SourceFile
from bygones.sources.lines import read_lines
from bygones.sources.walk import discover_sources

__all__ = ["CORPUS", "corpus_lines", "needs_corpus"]

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="there are no shared transcripts beside this checkout"
)


def corpus_lines() -> Iterator[Line]:
    for source in discover_sources(CORPUS):
        if isinstance(source, SourceFile) and source.relative_path.endswith(".jsonl"):
            for read in read_lines(source):
                assert isinstance(read, Line)
                yield read
