"""Search the texts of warm-ups and replays, which are not in the text index.

Only a query with ``is:hidden`` asks for them, so they are read and compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from bygones.assemble.agents import find_hidden_records, starts_warm_up
from bygones.assemble.dedupe import get_record_id
from bygones.errors import ArchiveDamaged
from bygones.model.base import RecordId, SessionId, SourceKind
from bygones.model.nodes import LocatedRecord, RecordNode
from bygones.model.query import Query, Words
from bygones.model.summary import (
    REPLAY_ID_PREFIXES,
    Hit,
    SearchResults,
    SessionMatch,
    SessionSummary,
)
from bygones.parse.light import build_node, parse_line_light
from bygones.parse.texts import build_record_texts, extract_text_spans
from bygones.query.fields import SearchableText
from bygones.query.matcher import matches_text
from bygones.query.tokens import drop_stop_words, expand_words
from bygones.search.plan import relax_query
from bygones.search.results import cut_excerpt, make_highlighter
from bygones.search.texts import LoadedRecord, TextLoader
from bygones.sources.lines import split_lines
from bygones.store.archive_db import StoredSource
from bygones.store.encoding import id_key
from bygones.store.protocols import RecordLocation, SearchEngine, StoreReader
from bygones.store.word_forms import stem_word

_OLDEST = datetime.min.replace(tzinfo=UTC)


class _FoundText(Struct, frozen=True):
    text: SearchableText
    record: LoadedRecord
    words: frozenset[str]
    """The words of the query that it has."""


class HiddenSearch:
    """One search in the agent runs that are not shown."""

    def __init__(self, reader: StoreReader, engine: SearchEngine, query: Query) -> None:
        self._reader = reader
        self._tokenize = engine.tokenize
        self._query = query
        self._words = tuple(drop_stop_words(query.plain_words))
        self._hit_query = relax_query(query, self._words)
        annotations = reader.annotations()
        self._loader = TextLoader(reader.byte_store, reader.search_facts, annotations)

    def search(
        self, *, limit: int, offset: int, hits: int, redact: Callable[[str], str]
    ) -> SearchResults:
        """Return the sessions with most of the words first, then the newest."""
        found = []
        for number, summary in self._candidates():
            texts = list(self._find_texts(number, summary))
            if texts:
                words = frozenset().union(*(text.words for text in texts))
                found.append((len(words), summary, words, texts))
        found.sort(
            key=lambda one: (one[0], one[1].ended_at or _OLDEST, one[1].id),
            reverse=True,
        )
        runs = [
            run
            for variants in expand_words(self._words, self._tokenize)
            if variants
            for run in variants.runs
        ]
        highlighter = make_highlighter(runs)

        def make_hit(one: _FoundText) -> Hit:
            excerpt = cut_excerpt(redact(one.text.text), highlighter)
            return self._loader.make_hit((one.text, one.record), excerpt)

        sessions = []
        for _, summary, words, texts in islice(found, offset, offset + limit):
            best = sorted(texts, key=lambda one: -len(one.words))
            title = cut_excerpt(redact(summary.title.text), highlighter)
            match = SessionMatch(
                summary=summary,
                highlighted_title=title,
                matched_words=tuple(word for word in self._words if word in words),
                hit_count=len(texts),
                hits=tuple(map(make_hit, best[:hits])),
            )
            sessions.append(match)
        return SearchResults(
            sessions=tuple(sessions),
            session_count=len(found),
            query_words=self._words,
            full_match_count=sum(one[0] == len(self._words) for one in found),
            notes=self._query.notes,
        )

    def matching_sessions(self) -> frozenset[SessionId]:
        """Return the sessions whose hidden texts have all words of the query."""
        return frozenset(
            summary.id
            for number, summary in self._candidates()
            if self._has_all_words(number, summary)
        )

    def _has_all_words(self, number: int, summary: SessionSummary) -> bool:
        missing = set(self._words)
        for text in self._find_texts(number, summary):
            missing -= text.words
            if not missing:
                return True
        return False

    def _candidates(self) -> Iterator[tuple[int, SessionSummary]]:
        for number, summary in self._reader.search_facts.numbered_summaries():
            if summary.hidden_agent_count:
                yield number, summary

    def _find_texts(self, number: int, summary: SessionSummary) -> Iterator[_FoundText]:
        """Yield the hidden texts of a session that match, each once."""
        seen: set[str] = set()
        for record in self._iter_records(number):
            for part in build_record_texts(record.node, record.spans):
                text = self._loader.make_text(
                    record, number, (part.part, part.is_error), summary
                )
                text = replace(text, is_hidden=True)
                if text.text not in seen and self._matches(self._hit_query, text):
                    seen.add(text.text)
                    words = (w for w in self._words if self._has_word(text, w))
                    yield _FoundText(text, record, frozenset(words))

    def _has_word(self, text: SearchableText, word: str) -> bool:
        return self._matches(Query(Words((word,))), text)

    def _matches(self, query: Query, text: SearchableText) -> bool:
        return matches_text(query, text, self._tokenize, stem_word)

    def _iter_records(self, session: int) -> Iterator[LoadedRecord]:
        """Yield the records of a session's hidden agent runs."""
        for number in self._reader.sessions.session_sources(session):
            stored = self._reader.byte_store.source(number)
            if stored is None or not stored.kind.is_transcript:
                continue
            records = list(self._read_records(stored))
            nodes = [build_node(record) for record in records]
            hidden = _hidden_records(stored, nodes)
            for node, record in zip(nodes, records, strict=True):
                if node.uuid is None and not node.is_conversation:
                    continue
                if get_record_id(node) not in hidden:
                    continue
                place, key = node.position, id_key(get_record_id(node))
                location = RecordLocation(
                    session, key, number, place.offset, place.length
                )
                yield LoadedRecord(location, node, extract_text_spans(record, node))

    def _read_records(self, stored: StoredSource) -> Iterator[LocatedRecord]:
        key = (stored.number, stored.generation)
        try:
            raw = self._reader.byte_store.read_bytes(*key, 0, stored.stored_bytes)
            raw += self._reader.byte_store.fragment(*key)
        except ArchiveDamaged:
            return
        for line in split_lines(stored.id, stored.generation, 0, raw):
            for record in parse_line_light(line):
                if isinstance(record, LocatedRecord):
                    yield record


def _hidden_records(
    stored: StoredSource, nodes: Sequence[RecordNode]
) -> frozenset[RecordId]:
    """Return the records of a source that are in a warm-up or a replay."""
    if stored.kind is not SourceKind.AGENT:
        return find_hidden_records(nodes)
    is_replay = (stored.agent or "").startswith(REPLAY_ID_PREFIXES)
    if not is_replay and not starts_warm_up(nodes):
        return frozenset()
    return frozenset(map(get_record_id, nodes))
