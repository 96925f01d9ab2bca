"""The text index: a tantivy document for each text of a record.

A second, smaller index has a document for each block: the words of all texts that were
indexed together. There are far fewer blocks than texts, so words are counted in
sessions, and sessions are ranked, by blocks. `TantivyEngine` has the queries.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING

import tantivy

from bygones.errors import IndexDamaged, SystemFailure
from bygones.model.query import KINDS_PER_SESSION
from bygones.store.connect import (
    DISK_FULL,
    fsync_folder,
    has_free_space,
    make_private_folder,
)
from bygones.store.tokenizer import PreparedText

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


_WRITER_HEAP_BYTES = 48_000_000
_BLOCK_HEAP_BYTES = 30_000_000
_PRIVATE_UMASK = 0o077
_DELETE_BATCH = 1000
_PANIC = "PanicException"
"""What is raised if tantivy's code panics; it is not an `Exception`."""
_WORKER_FAILED = "Worker thread failed"
_SPAWN_FAILED = "Failed to spawn"
_SYSTEM_ERROR_PATTERN = r"""
        (?:kind:\ (?P<kind>\w+),\ )?                 # as tantivy shows an error,
        (?:message:\ "(?P<message>[^"]+)"|           # or as it prints one
        (?P<printed>[A-Z][\w /]+)\ \(os\ error\ (?P<code>\d+)\))"""


def _build_schema() -> tantivy.Schema:
    build = tantivy.SchemaBuilder()
    build.add_text_field("text", index_option="position")
    build.add_unsigned_field("record", indexed=True, fast=True)
    build.add_unsigned_field("session", indexed=True)
    build.add_unsigned_field("text_key", fast=True)
    build.add_unsigned_field("checksum", fast=True)
    build.add_unsigned_field("length", fast=True)
    return build.build()


def _build_block_schema() -> tantivy.Schema:
    build = tantivy.SchemaBuilder()
    build.add_text_field("text", index_option="freq")
    build.add_unsigned_field("record", indexed=True)
    build.add_unsigned_field("session", fast=True)
    return build.build()


@contextmanager
def _translate_engine_errors(folder: Path) -> Iterator[None]:
    """Raise `SystemFailure` or `IndexDamaged` for what tantivy reports."""
    try:
        yield
    except BaseException as error:
        raise translate_engine_error(error, folder) from error


def translate_engine_error(error: BaseException, folder: Path) -> BaseException:
    """Return the error to raise for one of tantivy; others unchanged."""
    is_panic = type(error).__name__ == _PANIC
    if not is_panic and type(error) is not ValueError:
        return error
    failure = _system_failure(error, folder)
    if failure is not None:
        return failure
    index_path = folder if folder.name != "blocks" else folder.parent
    return IndexDamaged(index_path.parents[2], f"the text index: {error}")


def _system_failure(error: BaseException, folder: Path) -> SystemFailure | None:
    """Return the system error in a message of tantivy; `None` if there is none."""
    message = str(error)
    found = re.search(_SYSTEM_ERROR_PATTERN, message, re.VERBOSE)
    if found and int(found["code"] or 0) != ENOENT and found["kind"] != "NotFound":
        return SystemFailure(
            f"the text index: {(found['message'] or found['printed']).lower()}"
        )
    if _WORKER_FAILED in message:
        # A thread of tantivy failed, and the reason is not reported.
        reason = (
            "could not be written"
            if has_free_space(folder, _WRITER_HEAP_BYTES)
            else DISK_FULL
        )
        return SystemFailure(f"the text index: {reason}")
    if _SPAWN_FAILED in message:
        return SystemFailure("the text index: no thread could be started")
    return None


class _IndexFolder:
    """A tantivy index in a folder, opened for reading or by the only writer."""

    _heap_bytes = _WRITER_HEAP_BYTES

    def __init__(
        self, folder: Path, schema: Callable[[], tantivy.Schema], *, write: bool
    ) -> None:
        self._writer: tantivy.IndexWriter | None = None
        self.folder = folder
        self._links_folder: TemporaryDirectory[str] | None = None
        if not write:
            self._open()
            return
        make_private_folder(folder)
        # tantivy creates files itself, also while merging in the background. Other
        # users must not be able to read them.
        self._umask = os.umask(_PRIVATE_UMASK)
        try:
            with _translate_engine_errors(self.folder):
                self.index = tantivy.Index(schema(), path=str(folder), reuse=True)
                self._writer = self.index.writer(
                    heap_size=self._heap_bytes, num_threads=1
                )
                # Files left by a killed writer may have names that are used again.
                self._writer.garbage_collect_files()
        except BaseException:
            os.umask(self._umask)
            raise

    def _open(self) -> None:
        """Open it for reading, through a folder of links if that is refused.

        Tantivy creates a lock file even for reading, which fails in a read-only folder.
        """
        try:
            with _translate_engine_errors(self.folder):
                self.index = tantivy.Index.open(str(self.folder))
        except SystemFailure:
            from tempfile import TemporaryDirectory

            # A thread of the engine may still remove its lock there when it is closed.
            self._links_folder = TemporaryDirectory(
                prefix="bygones-", ignore_cleanup_errors=True
            )
            for path in self.folder.iterdir():
                place = Path(self._links_folder.name) / path.name
                if path.suffix == ".json":  # metadata that changes
                    place.write_bytes(path.read_bytes())
                elif path.suffix != ".lock":
                    place.symlink_to(path.absolute())
            with _translate_engine_errors(self.folder):
                self.index = tantivy.Index.open(self._links_folder.name)

    @property
    def _open_writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            raise RuntimeError
        return self._writer

    def add_document(self, document: tantivy.Document) -> None:
        try:
            self._open_writer.add_document(document)
        except ValueError as error:  # no context manager: this runs millions of times
            raise translate_engine_error(error, self.folder) from error

    def remove(self, records: Iterable[int]) -> None:
        """Remove the documents of records."""
        # Deleting by term treats numbers as signed and finds nothing.
        numbers = list(records)
        for start in range(0, len(numbers), _DELETE_BATCH):
            batch = numbers[start : start + _DELETE_BATCH]
            query = tantivy.Query.term_set_query(self.index.schema, "record", batch)
            with _translate_engine_errors(self.folder):
                self._open_writer.delete_documents_by_query(query)

    def remove_after(self, record: int) -> None:
        """Remove the documents of all records with a higher number."""
        schema, kind = self.index.schema, tantivy.FieldType.Unsigned
        later = tantivy.Query.range_query(
            schema, "record", kind, record + 1, (1 << 62), include_upper=True
        )
        with _translate_engine_errors(self.folder):
            self._open_writer.delete_documents_by_query(later)

    def commit(self) -> None:
        """Make added documents durable, and visible to readers that open or reload."""
        with _translate_engine_errors(self.folder):
            self._open_writer.commit()
        # tantivy renames its last file without syncing the folder.
        fsync_folder(self.folder)

    def reload(self) -> None:
        """See what was committed since; not if the index was replaced."""
        with suppress(ValueError):
            self.index.reload()

    def close(self) -> None:
        """Wait for running merges, and release the writer's lock."""
        if self._links_folder is not None:
            self._links_folder.cleanup()
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        try:
            with _translate_engine_errors(self.folder):
                writer.wait_merging_threads()
        finally:
            os.umask(self._umask)


class _BlockFolder(_IndexFolder):
    _heap_bytes = _BLOCK_HEAP_BYTES


class TextIndex(_IndexFolder):
    """The folder `text/`, opened for reading or by the only writer."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self._pinned: tuple[tantivy.Searcher, tantivy.Searcher] | None = None
        super().__init__(folder, _build_schema, write=write)
        try:
            self.blocks = _BlockFolder(
                folder / "blocks", _build_block_schema, write=write
            )
        except BaseException:
            super().close()
            raise

    def add(
        self, record: int, session: int, kind: int, prepared_text: PreparedText
    ) -> None:
        """Add one text of a record."""
        checksum, text, length = prepared_text
        document = tantivy.Document()
        document.add_unsigned("checksum", checksum)
        document.add_text("text", text)
        document.add_unsigned("record", record)
        document.add_unsigned("session", session)
        document.add_unsigned("text_key", session * KINDS_PER_SESSION + kind)
        document.add_unsigned("length", length)
        self.add_document(document)

    def add_block(
        self, record: int, session: int, texts: Iterable[PreparedText]
    ) -> None:
        """Add the words of texts that were added; `record` is the first of them.

        All of them have to be removed together.
        """
        document = tantivy.Document()
        for _, text, _ in texts:
            document.add_text("text", text)
        document.add_unsigned("record", record)
        document.add_unsigned("session", session)
        self.blocks.add_document(document)

    def remove(self, records: Iterable[int]) -> None:
        """Remove the texts of records, and the blocks that start with one of them."""
        numbers = list(records)
        self.blocks.remove(numbers)
        super().remove(numbers)

    def remove_after(self, record: int) -> None:
        """Remove the texts of all records with a higher number, and their blocks."""
        self.blocks.remove_after(record)
        super().remove_after(record)

    def commit(self) -> None:
        """Make added texts durable, and visible to readers that open or reload."""
        self.blocks.commit()
        super().commit()

    def reload(self) -> None:
        """See what was committed since; not if the index was replaced."""
        self.blocks.reload()
        super().reload()

    def pin_snapshot(self) -> None:
        """Let all reads see the current state, even while others write."""
        self._pinned = self.index.searcher(), self.blocks.index.searcher()

    def searchers(self) -> tuple[tantivy.Searcher, tantivy.Searcher]:
        """Return what searches texts and blocks, in the pinned or the newest state."""
        if self._pinned is not None:
            return self._pinned
        self.reload()
        return self.index.searcher(), self.blocks.index.searcher()

    def iter_documents(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield record, session, kind and checksum of every document."""
        with _translate_engine_errors(self.folder):
            searcher, _ = self.searchers()
            query = tantivy.Query.all_query()
            found = searcher.search(query, limit=max(searcher.num_docs, 1))
            addresses = [address for _, address in found.hits]
            columns = [
                searcher.fast_field_values(name, addresses)
                for name in ("record", "text_key", "checksum")
            ]
        for record, text_key, checksum in zip(*columns, strict=True):
            yield record, *divmod(text_key, KINDS_PER_SESSION), checksum

    def close(self) -> None:
        """Wait for running merges, and release the writer's lock."""
        try:
            self.blocks.close()
        finally:
            super().close()
