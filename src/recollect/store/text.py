"""The text index: the words of every record, a document for each part of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from zlib import crc32

import tantivy
from msgspec import Struct

from recollect.model.query import Part
from recollect.model.texts import IndexField, Passage
from recollect.store.connect import make_folder
from recollect.store.words import ANALYSER, analyser, spaced

__all__ = ["PLACE_PARTS", "Place", "Spoken", "TextIndex"]


class Place(IntEnum):
    """The parts of a record that have documents of their own, as numbers."""

    PROMPT = 1
    REPLY = 2
    THINKING = 3
    TOOL = 4
    RESULT = 5
    TITLE = 6
    PATH = 7

    @property
    def part(self) -> Part:
        """What it is called in a query; the path of a call is part of the call."""
        return Part.TOOL if self is Place.PATH else Part(self.name.lower())


PLACE_PARTS = 16
"""A document's bucket is its session times this, and its place."""

_PLACES = {
    IndexField.THINKING: Place.THINKING,
    IndexField.TOOL: Place.TOOL,
    IndexField.PATH: Place.PATH,
    IndexField.COMMAND: Place.TOOL,
    IndexField.INPUT: Place.TOOL,
    IndexField.RESULT: Place.RESULT,
    IndexField.TITLE: Place.TITLE,
}
_HEAP = 32_000_000
_PRIVATE = 0o077
_AT_ONCE = 1000


class Spoken(Struct, frozen=True, kw_only=True):
    """What one record says, and what is known of it for filters."""

    record: int
    session: int
    time_ms: int
    is_answer: bool
    passages: tuple[Passage, ...]
    tools: tuple[str, ...] = ()
    """The tools that it calls or that answer in it."""
    marks: tuple[str, ...] = ()
    """Words for what can be asked with ``is:`` and ``has:``."""


def _schema() -> tantivy.Schema:
    build = tantivy.SchemaBuilder()
    build.add_text_field("words", tokenizer_name=ANALYSER, index_option="position")
    build.add_text_field("tool", tokenizer_name="raw", index_option="basic")
    build.add_text_field("mark", tokenizer_name="raw", index_option="basic")
    build.add_unsigned_field("place", indexed=True)
    build.add_unsigned_field("bucket", fast=True)
    build.add_unsigned_field("record", indexed=True, fast=True)
    build.add_unsigned_field("session", indexed=True, fast=True)
    build.add_unsigned_field("length", fast=True)
    build.add_integer_field("time", fast=True)
    build.add_unsigned_field("digest", fast=True)
    return build.build()


class TextIndex:
    """``text/``, opened for reading or by the one writer."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self._writer: tantivy.IndexWriter | None = None
        if not write:
            self.index = tantivy.Index.open(str(folder))
            self.index.register_tokenizer(ANALYSER, analyser())
            return
        make_folder(folder)
        # The engine makes its files itself, also while it merges beside us; they
        # must not be readable by others.
        self._umask = os.umask(_PRIVATE)
        try:
            self.index = tantivy.Index(_schema(), path=str(folder), reuse=True)
            self.index.register_tokenizer(ANALYSER, analyser())
            self._writer = self.index.writer(heap_size=_HEAP, num_threads=1)
        except BaseException:
            os.umask(self._umask)
            raise

    @property
    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            raise RuntimeError
        return self._writer

    def add(self, spoken: Spoken) -> None:
        """Add what one record says."""
        said = Place.REPLY if spoken.is_answer else Place.PROMPT
        places: dict[Place, list[str]] = {}
        for passage in spoken.passages:
            place = _PLACES.get(passage.field, said)
            places.setdefault(place, []).append(passage.text)
        for place, texts in places.items():
            words = "\n".join(texts)
            document = tantivy.Document()
            document.add_text("words", spaced(words))
            for tool in spoken.tools:
                document.add_text("tool", tool)
            for mark in spoken.marks:
                document.add_text("mark", mark)
            document.add_unsigned("place", place)
            document.add_unsigned("bucket", spoken.session * PLACE_PARTS + place)
            document.add_unsigned("record", spoken.record)
            document.add_unsigned("session", spoken.session)
            document.add_unsigned("length", len(words))
            document.add_integer("time", spoken.time_ms)
            document.add_unsigned("digest", _digest(words, spoken))
            self._writing.add_document(document)

    def remove(self, records: Iterable[int]) -> None:
        """Remove what records say."""
        # Deleting by term takes a number for a signed one and finds nothing.
        named = list(records)
        for start in range(0, len(named), _AT_ONCE):
            some = named[start : start + _AT_ONCE]
            query = tantivy.Query.term_set_query(self.index.schema, "record", some)
            self._writing.delete_documents_by_query(query)

    def remove_after(self, record: int) -> None:
        """Remove what all records with a higher id say."""
        schema, kind = self.index.schema, tantivy.FieldType.Unsigned
        later = tantivy.Query.range_query(
            schema, "record", kind, record + 1, (1 << 62), include_upper=True
        )
        self._writing.delete_documents_by_query(later)

    def commit(self) -> None:
        """Make what was added visible to readers that open or reload."""
        self._writing.commit()

    def reload(self) -> None:
        """See what was committed since; once a newer index is there, nothing is."""
        with suppress(ValueError):
            self.index.reload()

    def documents(self) -> Iterator[tuple[int, int, int]]:
        """Yield the record, the session and the digest of every document."""
        self.reload()
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
            os.umask(self._umask)


def _digest(words: str, spoken: Spoken) -> int:
    """Return a number that changes with everything that a document says."""
    facts = (spoken.time_ms, spoken.is_answer, *spoken.tools, *spoken.marks)
    return crc32(repr(facts).encode(), crc32(words.encode("utf-8", "replace")))
