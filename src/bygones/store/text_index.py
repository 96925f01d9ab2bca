"""The text index: the words of every record, a document for each part of it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import ENOENT
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tantivy
from msgspec import Struct

from bygones.errors import SystemFailure
from bygones.model.query import KINDS_PER_SESSION
from bygones.store.connect import (
    DISK_FULL,
    fsync_folder,
    has_free_space,
    make_private_folder,
)
from bygones.store.tokenizer import PreparedText, tokenize

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


_WRITER_HEAP_BYTES = 48_000_000
_PRIVATE_UMASK = 0o077
_DELETE_BATCH = 1000
_WORKER_FAILED = "Worker thread failed"
_SPAWN_FAILED = "Failed to spawn"
_SYSTEM_ERROR_PATTERN = r"""
        (?:kind:\ (?P<kind>\w+),\ )?                 # as the engine shows an error,
        (?:message:\ "(?P<message>[^"]+)"|           # or as it prints one
        (?P<printed>[A-Z][\w /]+)\ \(os\ error\ (?P<code>\d+)\))"""


def _build_schema() -> tantivy.Schema:
    build = tantivy.SchemaBuilder()
    build.add_text_field("words", index_option="position")
    build.add_unsigned_field("record", indexed=True, fast=True)
    build.add_unsigned_field("session", indexed=True)
    build.add_unsigned_field("bucket", fast=True)
    build.add_unsigned_field("digest", fast=True)
    return build.build()


@contextmanager
def _translate_engine_errors(folder: Path) -> Iterator[None]:
    """Turn what the engine says of the system into our error: it has but one kind."""
    try:
        yield
    except ValueError as error:
        raise _system_failure(error, folder) or error from error


def _system_failure(error: ValueError, folder: Path) -> SystemFailure | None:
    """Return the refusal that the engine tells of; ``None`` if it is something else."""
    told = str(error)
    found = re.search(_SYSTEM_ERROR_PATTERN, told, re.VERBOSE)
    if found and int(found["code"] or 0) != ENOENT and found["kind"] != "NotFound":
        return SystemFailure(
            f"the text index: {(found['message'] or found['printed']).lower()}"
        )
    if _WORKER_FAILED in told:
        # Its own thread met with the error, and kept it to itself.
        reason = (
            "could not be written"
            if has_free_space(folder, _WRITER_HEAP_BYTES)
            else DISK_FULL
        )
        return SystemFailure(f"the text index: {reason}")
    if _SPAWN_FAILED in told:
        return SystemFailure("the text index: no thread could be started")
    return None


class TextIndex:
    """``text/``, opened for reading or by the one writer."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self._writer: tantivy.IndexWriter | None = None
        self._folder = folder
        self._links_folder: TemporaryDirectory[str] | None = None
        self._pinned_searcher: tantivy.Searcher | None = None
        if not write:
            self._open()
            return
        make_private_folder(folder)
        # The engine makes its files itself, also while it merges beside us; they
        # must not be readable by others.
        self._umask = os.umask(_PRIVATE_UMASK)
        try:
            with _translate_engine_errors(self._folder):
                self.index = tantivy.Index(
                    _build_schema(), path=str(folder), reuse=True
                )
                self._writer = self.index.writer(
                    heap_size=_WRITER_HEAP_BYTES, num_threads=1
                )
                # What a writer that was killed left may have a name that we need.
                self._writer.garbage_collect_files()
        except BaseException:
            os.umask(self._umask)
            raise

    @staticmethod
    def exists(index_path: Path) -> bool:
        """Whether there are words in the folder of an index."""
        return (index_path / "text" / "meta.json").exists()

    def _open(self) -> None:
        """Open it for reading; where that is refused, by way of another folder.

        The engine leaves a file even where it only reads, and there are folders in
        which nobody may.
        """
        try:
            with _translate_engine_errors(self._folder):
                self.index = tantivy.Index.open(str(self._folder))
        except SystemFailure:
            from tempfile import TemporaryDirectory

            self._links_folder = TemporaryDirectory(prefix="bygones-")
            for path in self._folder.iterdir():
                place = Path(self._links_folder.name) / path.name
                if path.suffix == ".json":  # what there is, as it is now
                    place.write_bytes(path.read_bytes())
                elif path.suffix != ".lock":
                    place.symlink_to(path.absolute())
            with _translate_engine_errors(self._folder):
                self.index = tantivy.Index.open(self._links_folder.name)

    @property
    def _open_writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            raise RuntimeError
        return self._writer

    def add(
        self, record: int, session: int, kind: int, prepared_text: PreparedText
    ) -> None:
        """Add what a record says in one of its parts."""
        digest, text = prepared_text
        document = tantivy.Document()
        document.add_unsigned("digest", digest)
        document.add_text("words", text)
        document.add_unsigned("record", record)
        document.add_unsigned("session", session)
        document.add_unsigned("bucket", session * KINDS_PER_SESSION + kind)
        try:
            self._open_writer.add_document(document)
        except ValueError as error:  # here by hand: this is done a million times
            raise _system_failure(error, self._folder) or error from error

    def remove(self, records: Iterable[int]) -> None:
        """Remove what records say."""
        # Deleting by term takes a number for a signed one and finds nothing.
        named = list(records)
        for start in range(0, len(named), _DELETE_BATCH):
            some = named[start : start + _DELETE_BATCH]
            query = tantivy.Query.term_set_query(self.index.schema, "record", some)
            with _translate_engine_errors(self._folder):
                self._open_writer.delete_documents_by_query(query)

    def remove_after(self, record: int) -> None:
        """Remove what all records with a higher id say."""
        schema, kind = self.index.schema, tantivy.FieldType.Unsigned
        later = tantivy.Query.range_query(
            schema, "record", kind, record + 1, (1 << 62), include_upper=True
        )
        with _translate_engine_errors(self._folder):
            self._open_writer.delete_documents_by_query(later)

    def commit(self) -> None:
        """Make what was added visible to readers that open or reload, and certain."""
        with _translate_engine_errors(self._folder):
            self._open_writer.commit()
        # The engine names what it wrote last, and does not wait for that.
        fsync_folder(self._folder)

    def reload(self) -> None:
        """See what was committed since; once a newer index is there, nothing is."""
        with suppress(ValueError):
            self.index.reload()

    def pin_snapshot(self) -> None:
        """Have the documents be those of now, whoever writes meanwhile."""
        self._pinned_searcher = self.index.searcher()

    def iter_documents(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the record, the session, the kind and the digest of every document."""
        if self._pinned_searcher is None:
            self.reload()
        searcher = self._pinned_searcher or self.index.searcher()
        query = tantivy.Query.all_query()
        found = searcher.search(query, limit=max(searcher.num_docs, 1))
        places = [place for _, place in found.hits]
        columns = [
            searcher.fast_field_values(name, places)
            for name in ("record", "bucket", "digest")
        ]
        for record, bucket, digest in zip(*columns, strict=True):
            yield record, *divmod(bucket, KINDS_PER_SESSION), digest

    def close(self) -> None:
        """Wait for merges that are under way, and let go of the writer's lock."""
        if self._links_folder is not None:
            self._links_folder.cleanup()
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        try:
            with _translate_engine_errors(self._folder):
                writer.wait_merging_threads()
        finally:
            os.umask(self._umask)


TantivyQuery = tantivy.Query
"""A question to the engine; made and joined by a :class:`FolderEngine`."""

_MIN_STEM_LENGTH = 3
_MAX_PREFIX_TERMS = 500
_FORMS_CACHE_SIZE = 4_096
"""Terms of which the forms are remembered."""
_MAX_SCORED_TERMS = 32
_DROPPED_VOWELS = "eiy"
_STEMMER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    .filter(tantivy.Filter.stemmer("English"))
    .build()
)


class TextMatch(Struct, frozen=True, gc=False):
    """A text that was found: its record, where it stands, how well it fits."""

    record: int
    text_key: int
    score: float


@lru_cache(maxsize=4096)
def stem_word(term: str) -> str:
    """Return what the forms of an English word have in common."""
    return "".join(_STEMMER.analyze(term)) if _has_forms(term) else term


def stem_prefix(stem: str) -> str:
    """Return the letters with which all forms of a stem begin."""
    if len(stem) <= _MIN_STEM_LENGTH:
        # Of so short a word little may be left: dying and die, skies and sky.
        return stem[:1]
    return stem[:-1] if stem[-1] in _DROPPED_VOWELS else stem


def _has_forms(term: str) -> bool:
    return len(term) >= _MIN_STEM_LENGTH and term.isascii() and term.isalpha()


def find_word_forms(
    term: str,
    frequency: Callable[[str], int],
    terms_with_prefix: Callable[[str], Sequence[tuple[str, int]]],
) -> tuple[str, ...]:
    """Return the known terms that are forms of one, itself first."""
    stem = shared_stem(term)
    if stem is None:
        return (term,) if frequency(term) else ()
    start = form_prefix(stem)
    near = [
        other
        for other, _ in terms_with_prefix(start)
        if other != term and _has_forms(other)
    ]
    stems = _STEMMER.analyze(" ".join(near))
    forms = [other for other, its in zip(near, stems, strict=True) if its == stem]
    return (*((term,) if frequency(term) else ()), *forms)


def shared_stem(term: str) -> str | None:
    """Return the stem by which the forms of a term are known, if it can have others."""
    stem = stem_word(term)
    is_long = _has_forms(term) and len(form_prefix(stem)) >= _MIN_STEM_LENGTH - 1
    return stem if is_long else None


def stem_terms(terms: Sequence[str]) -> list[str | None]:
    """Return the stem of each term that is found with the other forms of that stem.

    Nothing for such as :func:`forms_among` finds for their own sake only.
    """
    likely = [term for term in terms if _has_forms(term)]
    stems = dict(zip(likely, _STEMMER.analyze(" ".join(likely)), strict=True))
    found: list[str | None] = []
    for term in terms:
        stem = stems.get(term)
        start = form_prefix(stem) if stem else ""
        is_one = len(start) >= _MIN_STEM_LENGTH - 1 and term.startswith(start)
        found.append(stem if is_one else None)
    return found


def form_prefix(stem: str) -> str:
    """Return the letters with which those forms begin that are found with a stem."""
    return stem[:-1] if stem[-1] in _DROPPED_VOWELS else stem


class TantivyEngine:
    """The text index as it was when this was made; changes nothing.

    Several threads may ask it at once.
    """

    max_keys = 65_000
    """What the engine tells of at once, at most."""

    def __init__(self, text: TextIndex) -> None:
        text.reload()
        self._schema = text.index.schema
        self._searcher = text.index.searcher()
        self._forms_cache: dict[str, tuple[str, ...]] = {}

    @property
    def text_count(self) -> int:
        """How many texts there are."""
        return int(self._searcher.num_docs)

    def frequency(self, term: str) -> int:
        """Return how many texts have a term, some that are no more included."""
        return int(self._searcher.doc_freq("words", term))

    def word_forms(self, term: str) -> tuple[str, ...]:
        """Return the terms of the index that are forms of one, itself first."""
        found = self._forms_cache.get(term)
        if found is None:
            found = find_word_forms(term, self.frequency, self.terms_with_prefix)
            if len(self._forms_cache) >= _FORMS_CACHE_SIZE:
                self._forms_cache.clear()
            self._forms_cache[term] = found
        return found

    def correct_spelling(self, term: str) -> str | None:
        """Return the term that is likely meant by one which is not there."""
        from bygones.store.tokenizer import correct_term

        return correct_term(term, self._frequencies, self.terms_with_prefix)

    def _frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        return {term: self.frequency(term) for term in terms}

    def terms_with_prefix(self, prefix: str) -> Sequence[tuple[str, int]]:
        """Return the terms that begin so, and how many texts have each."""
        found = self._searcher.terms_with_prefix("words", prefix)
        return [(term, count) for term, count in found]

    def match_all(self) -> TantivyQuery:
        """Ask for all texts."""
        return tantivy.Query.all_query()

    def match_none(self) -> TantivyQuery:
        """Ask for no text."""
        return tantivy.Query.empty_query()

    def match_terms(self, terms: Sequence[str]) -> TantivyQuery:
        """Ask for texts that have one of some terms."""
        if len(terms) > _MAX_SCORED_TERMS:
            # The engine does not score these: they are too many to say much.
            return tantivy.Query.term_set_query(self._schema, "words", list(terms))
        schema = self._schema
        return self.any_of(
            [tantivy.Query.term_query(schema, "words", term) for term in terms]
        )

    def match_phrase(self, terms: Sequence[str]) -> TantivyQuery:
        """Ask for texts in which terms stand one right behind the other."""
        if len(terms) == 1:
            return self.match_terms(terms)
        return tantivy.Query.phrase_query(self._schema, "words", list(terms))

    def match_prefix_phrase(self, terms: Sequence[str]) -> TantivyQuery:
        """Ask for texts in which terms stand in a row, the last of them begun only."""
        *whole, start = terms
        words = [term for term, _ in self._searcher.terms_with_prefix("words", start)]
        if not words:
            return self.match_none()
        if not whole:
            return self.match_terms(words)
        return self.any_of(
            [self.match_phrase([*whole, word]) for word in words[:_MAX_PREFIX_TERMS]]
        )

    def match_prefix_phrase_parts(
        self, terms: Sequence[str]
    ) -> tuple[TantivyQuery, ...]:
        """Ask the same in parts, one for each word that begins so, if these are few."""
        words = [term for term, _ in self.terms_with_prefix(terms[-1])]
        if len(terms) > 1 or not 0 < len(words) <= _MAX_PREFIX_TERMS:
            return (self.match_prefix_phrase(terms),)
        return tuple(self.match_terms([word]) for word in words)

    def is_prefix_complete(self, terms: Sequence[str]) -> bool:
        """Whether :meth:`beginning` asks for all there is."""
        if len(terms) == 1:
            return True
        found = self._searcher.terms_with_prefix("words", terms[-1])
        return len(found) <= _MAX_PREFIX_TERMS

    def match_substring(self, substring: str) -> TantivyQuery:
        """Ask for texts with a term that has a piece somewhere in it; this is slow."""
        pattern = f".*{substring}.*"
        return tantivy.Query.regex_query(self._schema, "words", pattern)

    def in_sessions(self, sessions: Iterable[int]) -> TantivyQuery:
        """Ask for the texts of some sessions."""
        numbers = list(sessions)
        if len(numbers) == 1:
            return tantivy.Query.term_query(self._schema, "session", numbers[0])
        return tantivy.Query.term_set_query(self._schema, "session", numbers)

    def in_records(self, records: Sequence[int]) -> TantivyQuery:
        """Ask for the texts of some records."""
        if not records:
            return self.match_none()
        return tantivy.Query.term_set_query(self._schema, "record", list(records))

    def in_kinds(self, session: int, kinds: Iterable[int]) -> TantivyQuery:
        """Ask for the texts of a session that are of some kinds."""
        buckets = [session * KINDS_PER_SESSION + kind for kind in kinds]
        asked = [self._key_range(bucket, bucket) for bucket in buckets]
        return self.any_of(asked) if asked else self.match_none()

    def without_score(self, query: TantivyQuery) -> TantivyQuery:
        """Ask the same without adding to any score."""
        return tantivy.Query.const_score_query(query, 0.0)

    def any_of(self, queries: Sequence[TantivyQuery]) -> TantivyQuery:
        """Ask for what one question at least finds."""
        return self._combine(queries, tantivy.Occur.Should)

    def all_of(self, queries: Sequence[TantivyQuery]) -> TantivyQuery:
        """Ask for what all questions find."""
        return self._combine(queries, tantivy.Occur.Must)

    def none_of(self, query: TantivyQuery) -> TantivyQuery:
        """Ask for what a question does not find."""
        return tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Must, self.match_all()),
                (tantivy.Occur.MustNot, query),
            ]
        )

    def _combine(
        self, queries: Sequence[TantivyQuery], occur: tantivy.Occur
    ) -> TantivyQuery:
        if len(queries) == 1:
            return queries[0]
        return tantivy.Query.boolean_query([(occur, one) for one in queries])

    def count(self, query: TantivyQuery) -> dict[int, int]:
        """Return how many texts are found, by their bucket."""
        waiting: list[tuple[int, int] | None] = [None]
        counts: dict[int, int] = {}
        while waiting:
            within = waiting.pop()
            found = self._aggregate(query, within)
            told = found["found"]
            if not told["sum_other_doc_count"]:
                counts |= {int(one["key"]): one["doc_count"] for one in told["buckets"]}
                continue
            # There are more buckets than the engine tells of at once.
            low, high = within or (0, int(found["last"]["value"]))
            middle = (low + high) // 2
            waiting += [(low, middle), (middle + 1, high)]
        return counts

    def _aggregate(
        self, query: TantivyQuery, within: tuple[int, int] | None
    ) -> dict[str, Any]:
        if within is not None:
            query = self.all_of([query, self._key_range(*within)])
        most = self.max_keys
        terms = {"field": "bucket", "size": most, "segment_size": most}
        told: dict[str, Any] = self._searcher.aggregate(
            query, {"found": {"terms": terms}, "last": {"max": {"field": "bucket"}}}
        )
        return told

    def _key_range(self, low: int, high: int) -> TantivyQuery:
        kind = tantivy.FieldType.Unsigned
        return tantivy.Query.range_query(self._schema, "bucket", kind, low, high)

    def search(self, query: TantivyQuery, limit: int) -> tuple[int, list[TextMatch]]:
        """Return how many texts are found, and those that fit best, best first."""
        result = self._searcher.search(query, limit=limit)
        found = result.hits
        places = [place for _, place in found]
        records = self._searcher.fast_field_values("record", places)
        buckets = self._searcher.fast_field_values("bucket", places)
        texts = [
            TextMatch(int(record or 0), int(bucket or 0), float(score or 0))
            for (score, _), record, bucket in zip(found, records, buckets, strict=True)
        ]
        return int(result.count or 0), texts  # type: ignore[attr-defined]

    def count_many(self, queries: Sequence[TantivyQuery]) -> list[dict[int, int]]:
        """Return the counts of several questions."""
        return [self.count(one) for one in queries]

    def search_many(
        self, queries: Sequence[TantivyQuery], limit: int
    ) -> list[tuple[int, list[TextMatch]]]:
        """Return the texts of several questions."""
        return [self.search(one, limit) for one in queries]

    def best_keys(self, query: TantivyQuery, limit: int) -> tuple[int, dict[int, int]]:
        """Return how many texts are found, and where the best of them lie."""
        total, texts = self.search(query, limit)
        return total, Counter(text.text_key for text in texts)

    def prefetch(self, terms: Iterable[str], count_only: Iterable[str] = ()) -> None:
        """Nothing: each is looked up in no time."""

    def tokenize(self, text: str) -> list[str]:
        """Return the terms of a text, as the index has them."""
        return tokenize(text)
