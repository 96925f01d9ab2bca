"""The transcripts that lie beside this checkout, where they do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.model.ids import Line
from bygones.model.sources import Source
from bygones.sources import discover, read_lines

__all__ = ["CORPUS", "corpus_lines", "needs_corpus"]

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="there are no shared transcripts beside this checkout"
)


def corpus_lines() -> Iterator[Line]:
    for source in discover(CORPUS):
        if isinstance(source, Source) and source.path.endswith(".jsonl"):
            for read in read_lines(source):
                assert isinstance(read, Line)
                yield read
