"""The text index: the words of every record, a document for each part of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING

import tantivy

from bygones.errors import SystemRefused
from bygones.model.buckets import KINDS
from bygones.store.connect import NO_ROOM, has_room, make_folder, sync_folder
from bygones.store.words import Words

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

__all__ = ["TextIndex"]

_HEAP = 48_000_000
_PRIVATE = 0o077
_AT_ONCE = 1000
_WORKER = "Worker thread failed"
_SPAWN = "Failed to spawn"
_SYSTEM = r"""
        (?:kind:\ (?P<kind>\w+),\ )?                 # as the engine shows an error,
        (?:message:\ "(?P<message>[^"]+)"|           # or as it prints one
        (?P<printed>[A-Z][\w /]+)\ \(os\ error\ (?P<code>\d+)\))"""


def _schema() -> tantivy.Schema:
    build = tantivy.SchemaBuilder()
    build.add_text_field("words", index_option="position")
    build.add_unsigned_field("record", indexed=True, fast=True)
    build.add_unsigned_field("session", indexed=True)
    build.add_unsigned_field("bucket", fast=True)
    build.add_unsigned_field("digest", fast=True)
    return build.build()


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """Turn what the engine says of the system into our error: it has but one kind."""
    try:
        yield
    except ValueError as error:
        raise _refusal(error, folder) or error from error


def _refusal(error: ValueError, folder: Path) -> SystemRefused | None:
    """Return the refusal that the engine tells of; ``None`` if it is something else."""
    told = str(error)
    found = re.search(_SYSTEM, told, re.VERBOSE)
    if found and int(found["code"] or 0) != ENOENT and found["kind"] != "NotFound":
        return SystemRefused(
            f"the text index: {(found['message'] or found['printed']).lower()}"
        )
    if _WORKER in told:
        # Its own thread met with the error, and kept it to itself.
        reason = "could not be written" if has_room(folder, _HEAP) else NO_ROOM
        return SystemRefused(f"the text index: {reason}")
    if _SPAWN in told:
        return SystemRefused("the text index: no thread could be started")
    return None


class TextIndex:
    """``text/``, opened for reading or by the one writer."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self._writer: tantivy.IndexWriter | None = None
        self._folder = folder
        self._beside: TemporaryDirectory[str] | None = None
        self._held: tantivy.Searcher | None = None
        if not write:
            self._open()
            return
        make_folder(folder)
        # The engine makes its files itself, also while it merges beside us; they
        # must not be readable by others.
        self._umask = os.umask(_PRIVATE)
        try:
            with _translated(self._folder):
                self.index = tantivy.Index(_schema(), path=str(folder), reuse=True)
                self._writer = self.index.writer(heap_size=_HEAP, num_threads=1)
                # What a writer that was killed left may have a name that we need.
                self._writer.garbage_collect_files()
        except BaseException:
            os.umask(self._umask)
            raise

    @staticmethod
    def exists(place: Path) -> bool:
        """Whether there are words in the folder of an index."""
        return (place / "text" / "meta.json").exists()

    def _open(self) -> None:
        """Open it for reading; where that is refused, by way of another folder.

        The engine leaves a file even where it only reads, and there are folders in
        which nobody may.
        """
        try:
            with _translated(self._folder):
                self.index = tantivy.Index.open(str(self._folder))
        except SystemRefused:
            from tempfile import TemporaryDirectory  # noqa: PLC0415 (hardly ever)

            self._beside = TemporaryDirectory(prefix="bygones-")
            for path in self._folder.iterdir():
                place = Path(self._beside.name) / path.name
                if path.suffix == ".json":  # what there is, as it is now
                    place.write_bytes(path.read_bytes())
                elif path.suffix != ".lock":
                    place.symlink_to(path.absolute())
            with _translated(self._folder):
                self.index = tantivy.Index.open(self._beside.name)

    @property
    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            raise RuntimeError
        return self._writer

    def add(self, record: int, session: int, kind: int, words: Words) -> None:
        """Add what a record says in one of its parts."""
        digest, text = words
        document = tantivy.Document()
        document.add_unsigned("digest", digest)
        document.add_text("words", text)
        document.add_unsigned("record", record)
        document.add_unsigned("session", session)
        document.add_unsigned("bucket", session * KINDS + kind)
        try:
            self._writing.add_document(document)
        except ValueError as error:  # here by hand: this is done a million times
            raise _refusal(error, self._folder) or error from error

    def remove(self, records: Iterable[int]) -> None:
        """Remove what records say."""
        # Deleting by term takes a number for a signed one and finds nothing.
        named = list(records)
        for start in range(0, len(named), _AT_ONCE):
            some = named[start : start + _AT_ONCE]
            query = tantivy.Query.term_set_query(self.index.schema, "record", some)
            with _translated(self._folder):
                self._writing.delete_documents_by_query(query)

    def remove_after(self, record: int) -> None:
        """Remove what all records with a higher id say."""
        schema, kind = self.index.schema, tantivy.FieldType.Unsigned
        later = tantivy.Query.range_query(
            schema, "record", kind, record + 1, (1 << 62), include_upper=True
        )
        with _translated(self._folder):
            self._writing.delete_documents_by_query(later)

    def commit(self) -> None:
        """Make what was added visible to readers that open or reload, and certain."""
        with _translated(self._folder):
            self._writing.commit()
        # The engine names what it wrote last, and does not wait for that.
        sync_folder(self._folder)

    def reload(self) -> None:
        """See what was committed since; once a newer index is there, nothing is."""
        with suppress(ValueError):
            self.index.reload()

    def hold(self) -> None:
        """Have the documents be those of now, whoever writes meanwhile."""
        self._held = self.index.searcher()

    def documents(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the record, the session, the kind and the digest of every document."""
        if self._held is None:
            self.reload()
        searcher = self._held or self.index.searcher()
        query = tantivy.Query.all_query()
        found = searcher.search(query, limit=max(searcher.num_docs, 1))
        places = [place for _, place in found.hits]
        columns = [
            searcher.fast_field_values(name, places)
            for name in ("record", "bucket", "digest")
        ]
        for record, bucket, digest in zip(*columns, strict=True):
            yield record, *divmod(bucket, KINDS), digest

    def close(self) -> None:
        """Wait for merges that are under way, and let go of the writer's lock."""
        if self._beside is not None:
            self._beside.cleanup()
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        try:
            with _translated(self._folder):
                writer.wait_merging_threads()
        finally:
            os.umask(self._umask)
