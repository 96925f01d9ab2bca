"""Queries with known answers: titles given by Claude Code, written and generated queries."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from bygones import read_sessions
from bygones.assemble.agents import find_hidden_records, starts_warm_up
from bygones.assemble.dedupe import get_record_id
from bygones.model.base import Problem, RecordId, SourceFile, SourceKind
from bygones.model.nodes import IndexField, LocatedRecord, RecordNode
from bygones.model.summary import REPLAY_ID_PREFIXES
from bygones.parse.light import build_node, parse_line_light
from bygones.parse.texts import extract_text_spans
from bygones.query.tokens import STOP_WORDS
from bygones.sources.lines import read_lines
from bygones.sources.walk import discover_sources

__all__ = [
    "KINDS",
    "KnownItemQuery",
    "SessionTexts",
    "copy_without_titles",
    "generate_queries",
    "read_queries",
    "read_texts",
]

KINDS = (
    *("title", "degraded", "written title", "written degraded", "remembered"),
    *("question", "path", "tool", "error", "identifier", "sentence", "worn", "topic"),
)
WRITTEN_QUERIES = Path(__file__).with_name("written_queries.jsonl")
"""Queries for each session of the corpus: a title that summarizes it, the same degraded,
what one would type a month later, and a question about what was found or decided. They
were written by reading the sessions, without searching for anything."""
_TITLE_TYPES = {b"summary", b"ai-title", b"custom-title"}
_TITLE_TYPE = re.compile(rb'"type"\s*:\s*"(summary|ai-title|custom-title)"')
_CAMEL = re.compile(r"\b[a-z]+(?:[A-Z][a-z]+){1,3}\b")
_SNAKE = re.compile(r"\b[a-z]+(?:_[a-z]+){1,3}\b")
_TOPIC_WORD = re.compile(r"[a-z]{4,}")
_QUERIES_PER_KIND = 120
_MAX_ANSWERS = 3
"""Sessions that may answer a query."""
_TOPIC_WORDS = 5
_MIN_TOPIC_TEXTS = 2
"""Texts of a session that have a word of its topic, at least."""


class KnownItemQuery(NamedTuple):
    """A query, and the sessions that answer it."""

    kind: str
    text: str
    answers: frozenset[str]

    @property
    def half(self) -> str:
        """The half of the sessions to which its answer belongs."""
        is_report = crc32(min(self.answers).encode()) % 2
        return "report" if is_report else "tune"


class SessionTexts(NamedTuple):
    """The texts of a session, with the field of each."""

    spans: list[tuple[IndexField, str]]
    prompts: list[str]
    replies: list[str]
    errors: list[str]

    def texts(self, field: IndexField | None = None) -> list[str]:
        """Return the texts of a field, or of all."""
        return [text for one, text in self.spans if field in {None, one}]


def copy_without_titles(corpus: Path, home: Path) -> None:
    """Copy transcripts into a home, without the records that give titles."""
    for path in sorted(corpus.rglob("*")):
        if not path.is_file():
            continue
        folder, *rest = path.relative_to(corpus).parts
        inside = "-".join((folder, *rest[:-1])).replace("/", "-")
        target = home / "projects" / f"-{inside}" / path.name
        if "subagents" in rest:
            at = rest.index("subagents")
            name = "-".join((folder, *rest[: at - 1]))
            target = home.joinpath("projects", f"-{name}", *rest[at - 1 :])
        target.parent.mkdir(parents=True, exist_ok=True)
        raw = path.read_bytes()
        if path.suffix == ".jsonl":
            lines = raw.splitlines(keepends=True)
            raw = b"".join(line for line in lines if not _is_title(line))
        target.write_bytes(raw)


def _is_title(line: bytes) -> bool:
    if _TITLE_TYPE.search(line[:2000]) is None:
        return False
    try:
        return json.loads(line).get("type", "").encode() in _TITLE_TYPES
    except ValueError:
        return False


def _sessions_by_file(corpus: Path) -> dict[str, str]:
    """Return the session of each transcript, by its path below the corpus."""
    sessions = {}
    for session in read_sessions(corpus):
        for source in session.sources:
            if source.kind is SourceKind.SESSION:
                path = Path(source.home, source.relative_path)
                sessions[path.relative_to(corpus).as_posix()] = str(session.id)
    return sessions


def read_queries(queries: Path, corpus: Path) -> Iterator[KnownItemQuery]:
    """Yield the titles that Claude Code gave, and the queries written for the corpus."""
    sessions = _sessions_by_file(corpus)
    for path in (queries, WRITTEN_QUERIES):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            answers = {sessions[name] for name in row["truth"] if name in sessions}
            if answers:
                yield KnownItemQuery(row["set"], row["query"], frozenset(answers))


def read_texts(home: Path) -> dict[str, SessionTexts]:
    """Return the texts of each session, read from its files."""
    owners: dict[str, str] = {}
    for session in read_sessions(home):
        owners |= {str(source.id): str(session.id) for source in session.sources}
    by_session: dict[str, SessionTexts] = {}
    for source in discover_sources(home):
        if isinstance(source, Problem) or str(source.id) not in owners:
            continue
        texts = by_session.setdefault(
            owners[str(source.id)], SessionTexts([], [], [], [])
        )
        records = [
            record
            for line in read_lines(source)
            if not isinstance(line, Problem)
            for record in parse_line_light(line)
            if isinstance(record, LocatedRecord)
        ]
        nodes = [build_node(record) for record in records]
        hidden = _find_hidden(source, nodes)
        for node, record in zip(nodes, records, strict=True):
            if get_record_id(node) not in hidden:
                _add_record(texts, record)
    return by_session


def _find_hidden(source: SourceFile, nodes: list[RecordNode]) -> frozenset[RecordId]:
    """Return the records that no search shows: those of warm-ups and replays."""
    if source.kind is not SourceKind.AGENT:
        return find_hidden_records(nodes)
    is_replay = (source.agent_id or "").startswith(REPLAY_ID_PREFIXES)
    if is_replay or starts_warm_up(nodes):
        return frozenset(map(get_record_id, nodes))
    return frozenset()


def _add_record(texts: SessionTexts, record: LocatedRecord) -> None:
    for span in extract_text_spans(record, build_node(record)):
        if span.field is IndexField.TITLE:
            continue
        if span.field is IndexField.RESULT and span.is_error:
            texts.errors.append(span.text)
        elif span.field is IndexField.TEXT:
            is_prompt = record.record.type == "user"
            (texts.prompts if is_prompt else texts.replies).append(span.text)
        texts.spans.append((span.field, span.text))


def generate_queries(
    texts: Mapping[str, SessionTexts], wanted: frozenset[str]
) -> Iterator[KnownItemQuery]:
    """Yield queries that are answered by one of the wanted sessions.

    A path, a tool, an error or an identifier is in few sessions of the collection.
    """
    rng = random.Random(1)  # noqa: S311 (a draw that can be repeated)

    def rare(
        kind: str, names_of: Callable[[SessionTexts], Iterable[str]]
    ) -> list[KnownItemQuery]:
        return _rare_names(kind, _owners(texts, names_of), wanted, rng)

    yield from rare("path", lambda one: map(_path_end, one.texts(IndexField.PATH)))
    yield from rare("tool", lambda one: one.texts(IndexField.TOOL))
    yield from rare("error", _error_lines)
    for query in rare("identifier", lambda one: _identifiers(one.texts())):
        yield query._replace(text=_change_case(query.text))
    for session in sorted(wanted & texts.keys()):
        answers = frozenset({session})
        sentence = _first_sentence(texts[session].prompts)
        if sentence:
            yield KnownItemQuery("sentence", sentence, answers)
            yield KnownItemQuery("worn", _degrade(sentence, rng), answers)
        topic = _sample_topic(texts[session], rng)
        if topic:
            yield KnownItemQuery("topic", topic, answers)


def _owners(
    texts: Mapping[str, SessionTexts], names_of: Callable[[SessionTexts], Iterable[str]]
) -> dict[str, set[str]]:
    owners: dict[str, set[str]] = {}
    for session, session_texts in texts.items():
        for name in names_of(session_texts):
            owners.setdefault(name, set()).add(session)
    return owners


def _rare_names(
    kind: str,
    owners: Mapping[str, set[str]],
    wanted: frozenset[str],
    rng: random.Random,
) -> list[KnownItemQuery]:
    """Return queries for names that few sessions have, first one for each session."""
    queries = [
        KnownItemQuery(kind, name, frozenset(sessions))
        for name, sessions in sorted(owners.items())
        if len(sessions) <= _MAX_ANSWERS
        and len(name) > 3  # noqa: PLR2004 (a name)
        and sessions & wanted
    ]
    rng.shuffle(queries)
    counts: Counter[frozenset[str]] = Counter()
    numbered = []
    for query in queries:
        counts[query.answers] += 1
        numbered.append((counts[query.answers], query))
    numbered.sort(key=lambda pair: pair[0])
    return [query for _, query in numbered[:_QUERIES_PER_KIND]]


def _path_end(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _error_lines(texts: SessionTexts) -> Iterator[str]:
    for error in texts.errors:
        for line in error.splitlines():
            plain = " ".join(re.sub(r"<[^>]*>|[\"()*\\]", " ", line).split())
            if 15 < len(plain) < 120 and ":" in plain:  # noqa: PLR2004 (a line)
                yield plain
                break


def _identifiers(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _CAMEL.findall(text)
        yield from _SNAKE.findall(text)


def _change_case(name: str) -> str:
    if "_" in name:
        first, *rest = name.split("_")
        return first + "".join(map(str.capitalize, rest))
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _first_sentence(prompts: Iterable[str]) -> str:
    for prompt in prompts:
        words = re.findall(r"[A-Za-z]{2,}(?:'[a-z]+)?", prompt)
        if len(words) >= 5:  # noqa: PLR2004 (a sentence)
            return " ".join(words[:14]).lower()
    return ""


def _degrade(sentence: str, rng: random.Random) -> str:
    """Drop every third word, and swap two letters of the longest."""
    words = [word for word in sentence.split() if rng.random() > 1 / 3]
    if not words:
        return sentence
    longest = max(range(len(words)), key=lambda at: len(words[at]))
    word = words[longest]
    at = max(1, len(word) // 2)
    words[longest] = word[: at - 1] + word[at : at + 1] + word[at - 1] + word[at + 1 :]
    return " ".join(words)


def _sample_topic(texts: SessionTexts, rng: random.Random) -> str:
    """Return words that a session uses repeatedly, frequent ones more likely."""
    counts: Counter[str] = Counter()
    for text in (*texts.prompts, *texts.replies):
        counts.update(set(_TOPIC_WORD.findall(text.lower())) - STOP_WORDS)
    words = sorted(word for word, n in counts.items() if n >= _MIN_TOPIC_TEXTS)
    if len(words) < 2 * _TOPIC_WORDS:
        return ""
    chosen: dict[str, None] = {}
    while len(chosen) < _TOPIC_WORDS:
        chosen[rng.choices(words, [counts[word] for word in words])[0]] = None
    return " ".join(chosen)
