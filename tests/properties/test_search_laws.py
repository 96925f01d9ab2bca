"""Law 9: what is there is found, and nothing else; the store and the matcher agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bygones.ingest.gist import decode
from bygones.ingest.pieces import lines_of
from bygones.model.buckets import bucket_of
from bygones.model.hits import Found
from bygones.model.query import (
    Fact,
    Part,
    Period,
    Phrase,
    Prefix,
    Query,
    Regex,
    Scoped,
    Term,
    Word,
    Words,
)
from bygones.parse import said_in, texts_of
from bygones.query import Subject, matches, parse
from bygones.query.terms import counted
from bygones.search import Searching
from bygones.search.plan import relaxed
from bygones.search.subjects import Subjects, of_session
from bygones.store.folder import FolderShelf
from bygones.store.places import Places
from bygones.store.search import Text, stem_of
from bygones.store.words import terms_of
from tests.build import moment
from tests.properties.archives import LONGER, ONE, kept_in, lay, layouts
from tests.query.trees import joined, terms
from tests.store.keeping import Keeping

few = settings(max_examples=30 * LONGER, deadline=None)
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
FACTS = (
    *(
        Fact("tool", "Write"),
        Fact("tool", "T*"),
        Fact("answers", "Write"),
        Fact("answers", "T*"),
        Fact("answers.file", "a"),
        Scoped("answers.cmd", Word("look")),
        Fact("file", "demo/a"),
        Fact("git", "x"),
    ),
    *(
        Fact("file", "*.py"),
        Fact("in", "prompt"),
        Fact("in", "tool"),
        Fact("is", "agent"),
    ),
    *(
        Fact("is", "error"),
        Fact("is", "rewound"),
        Fact("branch", "live"),
        Fact("has", "edit"),
    ),
    *(
        Fact("role", "user"),
        Fact("agent", "a1*"),
        Fact("project", "demo"),
        Fact("model", "opus"),
    ),
    *(Fact("session", ONE[:9]), Fact("in", "result"), Fact("is", "interrupted")),
)
_words = st.sampled_from(VOCABULARY)
_leaves = st.one_of(
    st.lists(_words, min_size=1, max_size=3).map(lambda words: Words(tuple(words))),
    st.lists(_words, min_size=1, max_size=2).map(lambda words: Phrase(" ".join(words))),
    _words.map(lambda word: Prefix(word[:3])),
    st.sampled_from(FACTS),
    st.builds(Scoped, st.sampled_from(["cmd", "title"]), _words.map(Word)),
    st.sampled_from(["hel+o", "(?:w|t)e", "na.ve", "^w", "[xl]{2}"]).map(Regex),
    st.integers(0, 20).map(lambda second: Period(end=at(second))),
    terms,
)
asked_for = st.recursive(_leaves, joined, max_leaves=6)


def at(second: int) -> datetime:
    return datetime.fromisoformat(moment(second))


def said(keeping: Keeping) -> Iterator[tuple[int, Text, Subject]]:
    """Yield every text of an archive, from its lines and not from its words."""
    with keeping.vault() as vault:
        index = vault.index
        assert index is not None
        places = Places(index)
        opened = Subjects(vault.chunks, places)
        listed = dict(places.each_listed())
        rows: list[Any] = index.db.execute(
            "SELECT id, session, source, offset, length FROM record"
        ).fetchall()
        for record, session, source, offset, length in rows:
            kept = vault.chunks.source(source)
            assert kept is not None
            raw = vault.chunks.read(source, kept.generation, offset, length)
            sketched, nodes, _ = decode(lines_of(kept.id, kept.generation, offset, raw))
            for one, node in zip(sketched, nodes, strict=True):
                if node.position.length != length:
                    continue
                for text in said_in(node, texts_of(one)):
                    is_agent = (
                        kept.agent is not None
                        or node.is_sidechain
                        or node.agent is not None
                    )
                    bucket = bucket_of(
                        session, text.part, is_error=text.is_error, is_agent=is_agent
                    )
                    found = Text(record, bucket, 0)
                    subject = opened.subject(found, listed[session])
                    assert subject is not None
                    yield session, found, subject[0]
        for session, line in listed.items():
            if line.title.text and line.title.kind.is_given:
                title = of_session(line, Part.TITLE)
                yield session, Text(0, bucket_of(session, Part.TITLE), 0), title


def answer(keeping: Keeping, query: Query) -> Found:
    with keeping.vault() as vault:
        assert vault.index is not None
        return Searching(FolderShelf(vault)).search(query, limit=ALL, hits=ALL)


def told(found: Found) -> set[str]:
    """Return the sessions that were found, those with copies included."""
    return {id_ for one in found.sessions for id_ in (one.listed.id, *one.also)}


@few
@given(layouts())
def test_each_word_of_each_text_finds_its_session(layout: dict[str, bytes]) -> None:
    with kept_in() as keeping:
        lay(keeping, layout)
        keeping.ingest()
        for _, _, subject in said(keeping):
            for word in dict.fromkeys(subject.text.split()):
                if not terms_of(word):
                    continue
                query = parse(f"\\{word}", now=NOW, zone=UTC)

                found = answer(keeping, query)

                assert subject.session in told(found)


@few
@given(layouts(), st.lists(asked_for, min_size=1, max_size=8))
def test_the_store_finds_what_the_matcher_finds(
    layout: dict[str, bytes], asked: list[Term]
) -> None:
    with kept_in() as keeping:
        lay(keeping, layout)
        keeping.ingest()
        texts = list(said(keeping))
        for term in asked:
            query = Query(term)
            words = [w for w in counted(query.sentence) if terms_of(w)]
            found = answer(keeping, query)
            if found.repairs or found.missing:
                words = list(found.words)
            # Where nobody wrote any of the words, nothing is found.
            fitting = {
                subject.session
                for _, _, subject in texts
                if (words or not found.missing)
                and matches(relaxed(query, words), subject, terms_of, stem_of)
            }

            assert told(found) == fitting or (found.is_loosened and not fitting)
