"""Search in the store and in memory agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bygones.ingest.index_batch import decode_lines
from bygones.model.query import (
    FieldTerm,
    FieldValue,
    Flag,
    Part,
    Phrase,
    Prefix,
    Query,
    Regex,
    Term,
    TimeRange,
    Word,
    Words,
    pack_text_key,
)
from bygones.model.summary import SearchResults
from bygones.parse.texts import build_record_texts, extract_text_spans
from bygones.query.fields import FieldLevel, SearchableText, iter_leaves, term_level
from bygones.query.matcher import matches_text
from bygones.query.parser import parse_query
from bygones.query.tokens import drop_stop_words
from bygones.search.plan import relax_query
from bygones.search.service import Searcher
from bygones.search.texts import TextLoader, make_title_text
from bygones.sources.lines import split_lines
from bygones.store.local_reader import IndexLookup, LocalReader
from bygones.store.tantivy_engine import TextMatch
from bygones.store.tokenizer import tokenize
from bygones.store.word_forms import stem_word
from tests.build import moment
from tests.properties.homes import LONGER, ONE, layouts, temporary_sandbox, write_layout
from tests.query.trees import joined, terms
from tests.store.sandbox import Sandbox

few_examples = settings(max_examples=15 * LONGER, deadline=None)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
ALL = 10_000
VOCABULARY = (
    *(
        "hello",
        "Grüße",
        "grusse",
        "naive",
        "漢字",
        "漢",
        "smile",
        "well",
        "Well.",
        "hm",
    ),
    *(
        "look",
        "looking",
        "task",
        "Write",
        "demo",
        "a.py",
        "work/demo",
        "done",
        "x" * 900,
    ),
    *("general", "&&", "the", "nobody", "demoA", "work_demo", "hel lo"),
)
FIELD_TERMS = (
    *(
        FieldValue("tool", "Write"),
        FieldValue("tool", "T*"),
        FieldValue("result-of", "Write"),
        FieldValue("result-of", "T*"),
        FieldValue("result.file", "a"),
        FieldTerm("result.cmd", Word("look")),
        FieldValue("file", "demo/a"),
        FieldValue("git", "x"),
    ),
    *(
        FieldValue("file", "*.py"),
        FieldValue("in", "prompt"),
        FieldValue("in", "tool"),
        FieldValue("is", "agent"),
    ),
    *(
        FieldValue("is", "error"),
        FieldValue("is", "abandoned"),
        FieldValue("branch", "live"),
        FieldValue("has", "edit"),
    ),
    *(
        FieldValue("role", "user"),
        FieldValue("agent", "a1*"),
        FieldValue("project", "demo"),
        FieldValue("model", "opus"),
    ),
    *(
        FieldValue("session", ONE[:9]),
        FieldValue("in", "result"),
        FieldValue("is", "interrupted"),
    ),
)
_words = st.sampled_from(VOCABULARY)
_leaves = st.one_of(
    st.lists(_words, min_size=1, max_size=3).map(lambda words: Words(tuple(words))),
    st.lists(_words, min_size=1, max_size=2).map(lambda words: Phrase(" ".join(words))),
    _words.map(lambda word: Prefix(word[:3])),
    st.sampled_from(FIELD_TERMS),
    st.builds(FieldTerm, st.sampled_from(["cmd", "title"]), _words.map(Word)),
    st.sampled_from(["hel+o", "(?:w|t)e", "na.ve", "^w", "[xl]{2}"]).map(Regex),
    st.integers(0, 20).map(lambda second: TimeRange(end=at(second))),
    terms,
)
query_terms = st.recursive(_leaves, joined, max_leaves=6)


def at(second: int) -> datetime:
    return datetime.fromisoformat(moment(second))


def iter_texts(sandbox: Sandbox) -> Iterator[tuple[int, TextMatch, SearchableText]]:
    """Yield every text of an archive, read from its lines."""
    with sandbox.open_dir() as archive_dir:
        index = archive_dir.index
        assert index is not None
        lookup = IndexLookup(index)
        loader = TextLoader(archive_dir.byte_store, lookup, {})
        summaries = dict(lookup.numbered_summaries())
        rows: list[Any] = index.db.execute(
            "SELECT id, session, source, start, length FROM record"
        ).fetchall()
        for record, session, source, offset, length in rows:
            stored = archive_dir.byte_store.source(source)
            assert stored is not None
            raw = archive_dir.byte_store.read_bytes(
                source, stored.generation, offset, length
            )
            light_records, nodes, _ = decode_lines(
                split_lines(stored.id, stored.generation, offset, raw)
            )
            for light_record, node in zip(light_records, nodes, strict=True):
                if node.position.length != length:
                    continue
                spans = extract_text_spans(light_record, node)
                for text in build_record_texts(node, spans):
                    is_agent = (
                        stored.agent is not None
                        or node.is_sidechain
                        or node.agent_id is not None
                    )
                    bucket = pack_text_key(
                        session, text.part, is_error=text.is_error, is_agent=is_agent
                    )
                    found = TextMatch(record, bucket, 0)
                    subject = loader.load(found, summaries[session])
                    assert subject is not None
                    yield session, found, subject[0]
        for session, words in lookup.given_titles():
            found = TextMatch(0, pack_text_key(session, Part.TITLE), 0)
            yield session, found, make_title_text(summaries[session], words)


def answer(sandbox: Sandbox, query: Query) -> SearchResults:
    with sandbox.open_dir() as archive_dir:
        assert archive_dir.index is not None
        return Searcher(LocalReader(archive_dir)).search(query, limit=ALL, hits=ALL)


def found_sessions(found: SearchResults) -> set[str]:
    """Return the sessions that were found, including those with copies."""
    return {id_ for one in found.sessions for id_ in one.session_ids}


@few_examples
@given(layouts())
def test_each_word_of_each_text_finds_its_session(layout: dict[str, bytes]) -> None:
    with temporary_sandbox() as sandbox:
        write_layout(sandbox, layout)
        sandbox.ingest()
        for _, _, subject in iter_texts(sandbox):
            for word in dict.fromkeys(subject.text.split()):
                if not tokenize(word):
                    continue
                query = parse_query(f"\\{word}", now=NOW, zone=UTC)

                found = answer(sandbox, query)

                assert subject.session.id in found_sessions(found)


def lists_sessions(query: Query) -> bool:
    """Whether a query has conditions on sessions alone: it leaves out empty ones."""
    leaves = list(iter_leaves(query.root)) if query.root else []
    return FieldValue("is", Flag.EMPTY) not in leaves and all(
        term_level(leaf) is FieldLevel.SESSION for leaf in leaves
    )


@few_examples
@given(layouts(), st.lists(query_terms, min_size=1, max_size=8))
def test_store_and_matcher_find_the_same_sessions(
    layout: dict[str, bytes], terms_to_search: list[Term]
) -> None:
    with temporary_sandbox() as sandbox:
        write_layout(sandbox, layout)
        sandbox.ingest()
        texts = list(iter_texts(sandbox))
        for term in terms_to_search:
            query = Query(term)
            words = [w for w in drop_stop_words(query.plain_words) if tokenize(w)]
            found = answer(sandbox, query)
            if found.corrections or found.missing_words:
                words = list(found.query_words)
            # Of words without a letter or digit nothing is left.
            relaxed = relax_query(query, words)
            # If no text has any of the words, nothing is found.
            expected = {
                subject.session.id
                for _, _, subject in texts
                if (words or not found.missing_words)
                and not (subject.session.is_empty and lists_sessions(relaxed))
                and matches_text(relaxed, subject, tokenize, stem_word)
            }

            assert found_sessions(found) == expected or (
                found.is_phrase_relaxed and not expected
            )
