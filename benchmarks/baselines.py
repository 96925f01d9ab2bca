"""Simpler ways to search, for comparison: BM25 over records or whole sessions, grep."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import tantivy

from benchmarks.relevance_queries import SessionTexts
from bygones.model.nodes import IndexField
from bygones.store.tokenizer import prepare_text, tokenize

__all__ = ["DEPTH", "Search", "make_baselines"]

DEPTH = 10
_FUSED_DEPTH = 100
_FUSION_OFFSET = 60
_RECORD_DEPTH = 2_000
"""Records that are looked at for the sessions of the best ones."""
_SUMMED_RECORDS = 5
_FIELDS = {
    IndexField.TOOL: "tool",
    IndexField.PATH: "path",
    IndexField.COMMAND: "path",
    IndexField.RESULT: "result",
}
Search = Callable[[str], Sequence[Sequence[str]]]
"""Returns results, each a session or several that are shown together."""
Ranking = Callable[[str], Sequence[str]]
Weights = Mapping[str, float]
_STEMMER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    .filter(tantivy.Filter.lowercase())
    .filter(tantivy.Filter.stemmer("English"))
    .build()
)


class _Collection:
    """An index in memory; each document belongs to a session."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        build = tantivy.SchemaBuilder()
        for name, tokenizer in fields.items():
            build.add_text_field(name, tokenizer_name=tokenizer, index_option="freq")
        build.add_unsigned_field("session", fast=True)
        self._schema = build.build()
        self._index = tantivy.Index(self._schema)
        self._writer = self._index.writer(heap_size=100_000_000, num_threads=1)
        self._sessions: dict[str, int] = {}
        self._names: list[str] = []

    def add(self, session: str, texts: Mapping[str, str]) -> None:
        number = self._sessions.setdefault(session, len(self._sessions))
        if number == len(self._names):
            self._names.append(session)
        document = tantivy.Document()
        for field, text in texts.items():
            document.add_text(field, prepare_text(text))
        document.add_unsigned("session", number)
        self._writer.add_document(document)

    def commit(self) -> None:
        self._writer.commit()
        self._index.reload()
        self._searcher = self._index.searcher()

    def best(
        self, terms: Sequence[str], weights: Weights, limit: int, *, needs_all: bool
    ) -> list[tuple[float, str]]:
        """Return the scores and sessions of the best documents."""
        query = tantivy.Query
        occur = tantivy.Occur.Must if needs_all else tantivy.Occur.Should
        parts = []
        for term in dict.fromkeys(terms):
            fields = [
                query.boost_query(query.term_query(self._schema, field, term), weight)
                for field, weight in weights.items()
            ]
            anywhere = query.boolean_query([(tantivy.Occur.Should, q) for q in fields])
            parts.append((occur, anywhere))
        if not parts:
            return []
        hits = self._searcher.search(query.boolean_query(parts), limit=limit).hits
        numbers = self._searcher.fast_field_values("session", [one for _, one in hits])
        return [
            (float(score), self._names[int(number or 0)])
            for (score, _), number in zip(hits, numbers, strict=True)
        ]


def make_baselines(
    texts: Mapping[str, SessionTexts], correct: Callable[[str], str]
) -> dict[str, Search]:
    """Return the baselines by name; ``correct`` repairs the spelling of a query."""
    kinds = ("text", "tool", "path", "result")
    records = _Collection(dict.fromkeys(("all", *kinds), "default"))
    whole = _Collection({"all": "default", "stems": "en_stem", "prompts": "en_stem"})
    for session, session_texts in texts.items():
        for field, text in session_texts.spans:
            records.add(session, {"all": text, _FIELDS.get(field, "text"): text})
        joined = "\n".join(session_texts.texts())
        prompts = "\n".join(session_texts.prompts)
        whole.add(session, {"all": joined, "stems": joined, "prompts": prompts})
    records.commit()
    whole.commit()
    everything = {"all": 1.0}
    by_fields = {"tool": 2.0, "path": 1.5, "text": 1.0, "result": 0.5}
    by_text = {"tool": 0.3, "path": 0.5, "text": 1.0, "result": 0.3}

    def stem(text: str) -> list[str]:
        return list(_STEMMER.analyze(correct(text)))

    def stemmed(weights: Weights, limit: int) -> Ranking:
        def search(text: str) -> list[str]:
            found = whole.best(stem(text), weights, limit, needs_all=False)
            return [session for _, session in found]

        return search

    flat = stemmed({"stems": 1.0}, _FUSED_DEPTH)
    fields = stemmed({"stems": 1.0, "prompts": 2.0}, _FUSED_DEPTH)
    rankings = {
        "two views of sessions, fused": _fuse(flat, fields),
        "session, stemmed and spelled": stemmed({"stems": 1.0}, DEPTH),
        "session, any word": _best_documents(whole, everything),
        "best record, any word": _best_documents(records, everything),
        "five records, fields up": _sum_records(records, by_fields),
        "five records, text up": _sum_records(records, by_text),
        "best record, all words": _best_documents(records, everything, needs_all=True),
        "session, all words": _best_documents(whole, everything, needs_all=True),
        "grep, distinct words": _grep(texts),
    }
    return {name: _as_results(ranking) for name, ranking in rankings.items()}


def _as_results(ranking: Ranking) -> Search:
    def search(text: str) -> list[tuple[str]]:
        return [(session,) for session in ranking(text)]

    return search


def _best_documents(
    collection: _Collection, weights: Weights, *, needs_all: bool = False
) -> Ranking:
    def search(text: str) -> list[str]:
        found = collection.best(
            tokenize(text), weights, _RECORD_DEPTH, needs_all=needs_all
        )
        return list(dict.fromkeys(session for _, session in found))[:DEPTH]

    return search


def _sum_records(collection: _Collection, weights: Weights) -> Ranking:
    def search(text: str) -> list[str]:
        scores: dict[str, list[float]] = defaultdict(list)
        terms = tokenize(text)
        for score, session in collection.best(
            terms, weights, _RECORD_DEPTH, needs_all=False
        ):
            if len(scores[session]) < _SUMMED_RECORDS:
                scores[session].append(score)
        return sorted(scores, key=lambda one: -sum(scores[one]))[:DEPTH]

    return search


def _fuse(*searches: Ranking) -> Ranking:
    def search(text: str) -> list[str]:
        scores: dict[str, float] = defaultdict(float)
        for one in searches:
            for rank, session in enumerate(one(text)):
                scores[session] += 1 / (_FUSION_OFFSET + rank)
        return sorted(scores, key=lambda one: -scores[one])[:DEPTH]

    return search


def _grep(texts: Mapping[str, SessionTexts]) -> Ranking:
    """Return a search that counts whole words: distinct ones, then all."""
    counts = {
        session: Counter(term for text in one.texts() for term in tokenize(text))
        for session, one in texts.items()
    }

    def search(text: str) -> list[str]:
        terms = set(tokenize(text))
        scores = {}
        for session, words in counts.items():
            matched = [words[term] for term in terms if term in words]
            if matched:
                scores[session] = (len(matched), sum(matched))
        return sorted(scores, key=lambda one: scores[one], reverse=True)[:DEPTH]

    return search
