"""The text index: one document a record, and one a source for its whole text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

import tantivy

from recollect.model.texts import IndexField, Passage
from recollect.store.connect import make_folder

__all__ = ["TextIndex"]

_HEAP = 48_000_000
_WHOLE = "whole"
_PROMPT = "prompt"


def _schema() -> tantivy.Schema:
    build = tantivy.SchemaBuilder()
    for field in IndexField:
        build.add_text_field(field.value, index_option="position")
    build.add_text_field(_WHOLE, index_option="freq")
    build.add_text_field(_PROMPT, index_option="freq")
    for number in ("record", "session", "source"):
        build.add_unsigned_field(number, indexed=True, fast=True)
    build.add_unsigned_field("batch", indexed=True)
    build.add_unsigned_field("digest", fast=True)
    build.add_text_field("role", tokenizer_name="raw", index_option="basic")
    build.add_integer_field("time", fast=True)
    return build.build()


class TextIndex:
    """``text/``, opened for reading or by the one writer."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        make_folder(folder)
        umask = os.umask(0o077)
        try:
            self.index = tantivy.Index(_schema(), path=str(folder), reuse=True)
            self._writer = (
                self.index.writer(heap_size=_HEAP, num_threads=1) if write else None
            )
        finally:
            os.umask(umask)

    @property
    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            raise RuntimeError
        return self._writer

    def add_record(  # noqa: PLR0913 (the fields of a document)
        self,
        record: int,
        session: int,
        source: int,
        *,
        batch: int,
        role: str,
        time_ms: int,
        passages: Iterable[Passage],
    ) -> None:
        """Add what one record says."""
        document = tantivy.Document()
        digest = 0
        for passage in passages:
            document.add_text(passage.field.value, passage.text)
            digest = crc32(passage.text.encode("utf-8", "replace"), digest)
        document.add_unsigned("digest", digest)
        document.add_unsigned("record", record)
        document.add_unsigned("session", session)
        document.add_unsigned("source", source)
        document.add_unsigned("batch", batch)
        document.add_text("role", role)
        document.add_integer("time", time_ms)
        self._writing.add_document(document)

    def remove(self, field: str, number: int) -> None:
        """Remove the documents of a record, a source or a batch."""
        self._writing.delete_documents_by_term(field, number)

    def commit(self) -> None:
        """Make what was added visible to readers that open or reload."""
        self._writing.commit()

    def documents(self) -> Iterator[tuple[int, int, int]]:
        """Yield the record, the session and the digest of every document."""
        self.index.reload()
        searcher = self.index.searcher()
        query = tantivy.Query.all_query()
        found = searcher.search(query, limit=max(searcher.num_docs, 1))
        places = [place for _, place in found.hits]
        columns = [
            searcher.fast_field_values(name, places)
            for name in ("record", "session", "digest")
        ]
        yield from zip(*columns, strict=True)

    def close(self) -> None:
        """Wait for merges that are under way, and let go of the writer's lock."""
        if self._writer is not None:
            self._writer.wait_merging_threads()
            self._writer = None
