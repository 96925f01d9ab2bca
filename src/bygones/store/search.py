"""Asking the text index: which texts have some words, and which words there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import tantivy
from msgspec import Struct

from bygones.model.buckets import KINDS
from bygones.store.text import TextIndex
from bygones.store.words import terms_of

__all__ = [
    "Asked",
    "FolderEngine",
    "Text",
    "forms_among",
    "groups_of",
    "shared_stem",
    "start_of",
    "start_of_forms",
    "stem_of",
]

Asked = tantivy.Query
"""A question to the engine; made and joined by a :class:`FolderEngine`."""

_SHORTEST = 3
_MOST_PHRASES = 500
_MOST_FORMS = 4_096
"""Terms of which the forms are remembered."""
_SCORED = 32
_VOWELS = "eiy"
_STEMMER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    .filter(tantivy.Filter.stemmer("English"))
    .build()
)


class Text(Struct, frozen=True, gc=False):
    """A text that was found: its record, where it stands, how well it fits."""

    record: int
    bucket: int
    score: float


@lru_cache(maxsize=4096)
def stem_of(term: str) -> str:
    """Return what the forms of an English word have in common."""
    return "".join(_STEMMER.analyze(term)) if _has_forms(term) else term


def start_of(stem: str) -> str:
    """Return the letters with which all forms of a stem begin."""
    if len(stem) <= _SHORTEST:
        # Of so short a word little may be left: dying and die, skies and sky.
        return stem[:1]
    return stem[:-1] if stem[-1] in _VOWELS else stem


def _has_forms(term: str) -> bool:
    return len(term) >= _SHORTEST and term.isascii() and term.isalpha()


def forms_among(
    term: str,
    frequency: Callable[[str], int],
    beginning_with: Callable[[str], Sequence[tuple[str, int]]],
) -> tuple[str, ...]:
    """Return the known terms that are forms of one, itself first."""
    stem = shared_stem(term)
    if stem is None:
        return (term,) if frequency(term) else ()
    start = start_of_forms(stem)
    near = [
        other
        for other, _ in beginning_with(start)
        if other != term and _has_forms(other)
    ]
    stems = _STEMMER.analyze(" ".join(near))
    forms = [other for other, its in zip(near, stems, strict=True) if its == stem]
    return (*((term,) if frequency(term) else ()), *forms)


def shared_stem(term: str) -> str | None:
    """Return the stem by which the forms of a term are known, if it can have others."""
    stem = stem_of(term)
    is_long = _has_forms(term) and len(start_of_forms(stem)) >= _SHORTEST - 1
    return stem if is_long else None


def groups_of(terms: Sequence[str]) -> list[str | None]:
    """Return the stem of each term that is found with the other forms of that stem.

    Nothing for such as :func:`forms_among` finds for their own sake only.
    """
    likely = [term for term in terms if _has_forms(term)]
    stems = dict(zip(likely, _STEMMER.analyze(" ".join(likely)), strict=True))
    found: list[str | None] = []
    for term in terms:
        stem = stems.get(term)
        start = start_of_forms(stem) if stem else ""
        is_one = len(start) >= _SHORTEST - 1 and term.startswith(start)
        found.append(stem if is_one else None)
    return found


def start_of_forms(stem: str) -> str:
    """Return the letters with which those forms begin that are found with a stem."""
    return stem[:-1] if stem[-1] in _VOWELS else stem


class FolderEngine:
    """The text index as it was when this was made; changes nothing.

    Several threads may ask it at once.
    """

    most_buckets = 65_000
    """What the engine tells of at once, at most."""

    def __init__(self, text: TextIndex) -> None:
        text.reload()
        self._schema = text.index.schema
        self._searcher = text.index.searcher()
        self._known_forms: dict[str, tuple[str, ...]] = {}

    @property
    def size(self) -> int:
        """How many texts there are."""
        return int(self._searcher.num_docs)

    def frequency(self, term: str) -> int:
        """Return how many texts have a term, some that are no more included."""
        return int(self._searcher.doc_freq("words", term))

    def forms(self, term: str) -> tuple[str, ...]:
        """Return the terms of the index that are forms of one, itself first."""
        found = self._known_forms.get(term)
        if found is None:
            found = forms_among(term, self.frequency, self.beginning_with)
            if len(self._known_forms) >= _MOST_FORMS:
                self._known_forms.clear()
            self._known_forms[term] = found
        return found

    def corrected(self, term: str) -> str | None:
        """Return the term that is likely meant by one which is not there."""
        from bygones.store.spelling import close_terms  # noqa: PLC0415 (for slips)

        return close_terms(term, self._frequencies, self.beginning_with)

    def _frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        return {term: self.frequency(term) for term in terms}

    def beginning_with(self, start: str) -> Sequence[tuple[str, int]]:
        """Return the terms that begin so, and how many texts have each."""
        found = self._searcher.terms_with_prefix("words", start)
        return [(term, count) for term, count in found]

    def everything(self) -> Asked:
        """Ask for all texts."""
        return tantivy.Query.all_query()

    def nothing(self) -> Asked:
        """Ask for no text."""
        return tantivy.Query.empty_query()

    def term(self, terms: Sequence[str]) -> Asked:
        """Ask for texts that have one of some terms."""
        if len(terms) > _SCORED:
            # The engine does not score these: they are too many to say much.
            return tantivy.Query.term_set_query(self._schema, "words", list(terms))
        schema = self._schema
        return self.any_of(
            [tantivy.Query.term_query(schema, "words", term) for term in terms]
        )

    def run(self, terms: Sequence[str]) -> Asked:
        """Ask for texts in which terms stand one right behind the other."""
        if len(terms) == 1:
            return self.term(terms)
        return tantivy.Query.phrase_query(self._schema, "words", list(terms))

    def beginning(self, terms: Sequence[str]) -> Asked:
        """Ask for texts in which terms stand in a row, the last of them begun only."""
        *whole, start = terms
        words = [term for term, _ in self._searcher.terms_with_prefix("words", start)]
        if not words:
            return self.nothing()
        if not whole:
            return self.term(words)
        return self.any_of([self.run([*whole, word]) for word in words[:_MOST_PHRASES]])

    def each_beginning(self, terms: Sequence[str]) -> tuple[Asked, ...]:
        """Ask the same in parts, one for each word that begins so, if these are few."""
        words = [term for term, _ in self.beginning_with(terms[-1])]
        if len(terms) > 1 or not 0 < len(words) <= _MOST_PHRASES:
            return (self.beginning(terms),)
        return tuple(self.term([word]) for word in words)

    def is_whole(self, terms: Sequence[str]) -> bool:
        """Whether :meth:`beginning` asks for all there is."""
        if len(terms) == 1:
            return True
        found = self._searcher.terms_with_prefix("words", terms[-1])
        return len(found) <= _MOST_PHRASES

    def containing(self, piece: str) -> Asked:
        """Ask for texts with a term that has a piece somewhere in it; this is slow."""
        pattern = f".*{piece}.*"
        return tantivy.Query.regex_query(self._schema, "words", pattern)

    def of_sessions(self, sessions: Iterable[int]) -> Asked:
        """Ask for the texts of some sessions."""
        numbers = list(sessions)
        if len(numbers) == 1:
            return tantivy.Query.term_query(self._schema, "session", numbers[0])
        return tantivy.Query.term_set_query(self._schema, "session", numbers)

    def of_records(self, records: Sequence[int]) -> Asked:
        """Ask for the texts of some records."""
        if not records:
            return self.nothing()
        return tantivy.Query.term_set_query(self._schema, "record", list(records))

    def of_kinds(self, session: int, kinds: Iterable[int]) -> Asked:
        """Ask for the texts of a session that are of some kinds."""
        buckets = [session * KINDS + kind for kind in kinds]
        asked = [self._between(bucket, bucket) for bucket in buckets]
        return self.any_of(asked) if asked else self.nothing()

    def unscored(self, asked: Asked) -> Asked:
        """Ask the same without adding to any score."""
        return tantivy.Query.const_score_query(asked, 0.0)

    def any_of(self, asked: Sequence[Asked]) -> Asked:
        """Ask for what one question at least finds."""
        return self._joined(asked, tantivy.Occur.Should)

    def all_of(self, asked: Sequence[Asked]) -> Asked:
        """Ask for what all questions find."""
        return self._joined(asked, tantivy.Occur.Must)

    def without(self, asked: Asked) -> Asked:
        """Ask for what a question does not find."""
        return tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Must, self.everything()),
                (tantivy.Occur.MustNot, asked),
            ]
        )

    def _joined(self, asked: Sequence[Asked], occur: tantivy.Occur) -> Asked:
        if len(asked) == 1:
            return asked[0]
        return tantivy.Query.boolean_query([(occur, one) for one in asked])

    def counts(self, asked: Asked) -> dict[int, int]:
        """Return how many texts are found, by their bucket."""
        waiting: list[tuple[int, int] | None] = [None]
        counts: dict[int, int] = {}
        while waiting:
            within = waiting.pop()
            found = self._counted(asked, within)
            told = found["found"]
            if not told["sum_other_doc_count"]:
                counts |= {int(one["key"]): one["doc_count"] for one in told["buckets"]}
                continue
            # There are more buckets than the engine tells of at once.
            low, high = within or (0, int(found["last"]["value"]))
            middle = (low + high) // 2
            waiting += [(low, middle), (middle + 1, high)]
        return counts

    def _counted(self, asked: Asked, within: tuple[int, int] | None) -> dict[str, Any]:
        if within is not None:
            asked = self.all_of([asked, self._between(*within)])
        most = self.most_buckets
        terms = {"field": "bucket", "size": most, "segment_size": most}
        told: dict[str, Any] = self._searcher.aggregate(
            asked, {"found": {"terms": terms}, "last": {"max": {"field": "bucket"}}}
        )
        return told

    def _between(self, low: int, high: int) -> Asked:
        kind = tantivy.FieldType.Unsigned
        return tantivy.Query.range_query(self._schema, "bucket", kind, low, high)

    def texts(self, asked: Asked, limit: int) -> tuple[int, list[Text]]:
        """Return how many texts are found, and those that fit best, best first."""
        result = self._searcher.search(asked, limit=limit)
        found = result.hits
        places = [place for _, place in found]
        records = self._searcher.fast_field_values("record", places)
        buckets = self._searcher.fast_field_values("bucket", places)
        texts = [
            Text(int(record or 0), int(bucket or 0), float(score or 0))
            for (score, _), record, bucket in zip(found, records, buckets, strict=True)
        ]
        return int(result.count or 0), texts  # type: ignore[attr-defined]

    def each_counts(self, asked: Sequence[Asked]) -> list[dict[int, int]]:
        """Return the counts of several questions."""
        return [self.counts(one) for one in asked]

    def each_texts(
        self, asked: Sequence[Asked], limit: int
    ) -> list[tuple[int, list[Text]]]:
        """Return the texts of several questions."""
        return [self.texts(one, limit) for one in asked]

    def buckets(self, asked: Asked, most: int) -> tuple[int, dict[int, int]]:
        """Return how many texts are found, and where the best of them lie."""
        total, texts = self.texts(asked, most)
        return total, Counter(text.bucket for text in texts)

    def expect(self, words: Iterable[str], others: Iterable[str] = ()) -> None:
        """Nothing: each is looked up in no time."""

    def terms_of(self, text: str) -> list[str]:
        """Return the terms of a text, as the index has them."""
        return terms_of(text)
