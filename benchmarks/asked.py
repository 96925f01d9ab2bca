"""Queries with known answers: titles given by Claude Code, and generated queries."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bygones import read_sessions
from bygones.model.base import Problem, SourceKind
from bygones.model.nodes import IndexField, LocatedRecord
from bygones.parse.light import parse_line_light
from bygones.parse.texts import extract_text_spans
from bygones.sources.lines import read_lines
from bygones.sources.walk import discover_sources

__all__ = ["Asked", "Told", "given", "made", "told_by_session", "without_titles"]

_TITLES = {b"summary", b"ai-title", b"custom-title"}
_TYPE = re.compile(rb'"type"\s*:\s*"(summary|ai-title|custom-title)"')
_CAMEL = re.compile(r"\b[a-z]+(?:[A-Z][a-z]+){1,3}\b")
_SNAKE = re.compile(r"\b[a-z]+(?:_[a-z]+){1,3}\b")
_MANY = 60
"""Queries of each kind that is made."""
_SHARED = 3
"""Sessions that an answer may be one of."""


class Asked(NamedTuple):
    """A query, and the sessions that answer it."""

    kind: str
    text: str
    truth: frozenset[str]


class Told(NamedTuple):
    """What a session says, for those who make queries from it."""

    texts: list[str]
    prompts: list[str]
    paths: list[str]
    tools: list[str]
    errors: list[str]


def without_titles(corpus: Path, home: Path) -> None:
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
    found = _TYPE.search(line[:2000])
    if found is None:
        return False
    try:
        return json.loads(line).get("type", "").encode() in _TITLES
    except ValueError:
        return False


def sessions_by_file(corpus: Path) -> dict[str, str]:
    """Return the session of each transcript, by its path below the corpus."""
    found = {}
    for session in read_sessions(corpus):
        for source in session.sources:
            if source.kind is SourceKind.SESSION:
                name = (
                    Path(source.home, source.relative_path)
                    .relative_to(corpus)
                    .as_posix()
                )
                found[name] = str(session.id)
    return found


def given(queries: Path, corpus: Path) -> Iterator[Asked]:
    """Yield the titles that Claude Code gave, as they are and worn down."""
    sessions = sessions_by_file(corpus)
    for line in queries.read_text("utf-8").splitlines():
        row = json.loads(line)
        truth = frozenset(sessions[name] for name in row["truth"] if name in sessions)
        if truth:
            yield Asked(row["set"], row["query"], truth)


def told_by_session(corpus: Path) -> dict[str, Told]:
    """Return what each session says, read from its files."""
    owners: dict[str, str] = {}
    for session in read_sessions(corpus):
        owners |= {str(source.id): str(session.id) for source in session.sources}
    found: dict[str, Told] = {}
    for source in discover_sources(corpus):
        if isinstance(source, Problem) or str(source.id) not in owners:
            continue
        told = found.setdefault(owners[str(source.id)], Told([], [], [], [], []))
        for line in read_lines(source):
            if not isinstance(line, Problem):
                for one in parse_line_light(line):
                    if isinstance(one, LocatedRecord):
                        _take(told, one)
    return found


def _take(told: Told, sketched: LocatedRecord) -> None:
    for passage in extract_text_spans(sketched):
        match passage.field:
            case IndexField.TITLE:
                continue
            case IndexField.PATH:
                told.paths.append(passage.text)
            case IndexField.TOOL:
                told.tools.append(passage.text)
            case IndexField.RESULT if passage.is_error:
                told.errors.append(passage.text)
            case IndexField.TEXT if sketched.record.type == "user":
                told.prompts.append(passage.text)
            case _:
                pass
        told.texts.append(passage.text)


def made(told: Mapping[str, Told]) -> Iterator[Asked]:
    """Yield queries for a path, a tool, an error, an identifier and a sentence."""
    dice = random.Random(1)  # noqa: S311 (a draw that can be repeated)
    yield from _rare("path", _owners(told, lambda one: map(_tail, one.paths)), dice)
    yield from _rare("tool", _owners(told, lambda one: one.tools), dice)
    yield from _rare("error", _owners(told, _error_lines), dice)
    names = _owners(told, lambda one: _names(one.texts))
    for asked in _rare("identifier", names, dice):
        yield asked._replace(text=_other_case(asked.text))
    for session, one in told.items():
        sentence = _sentence(one.prompts)
        if sentence:
            yield Asked("sentence", sentence, frozenset({session}))
            yield Asked("worn", _worn(sentence, dice), frozenset({session}))


def _owners(told: Mapping[str, Told], named) -> dict[str, set[str]]:  # type: ignore[no-untyped-def] # noqa: ANN001 (Told to names)
    found: dict[str, set[str]] = {}
    for session, one in told.items():
        for name in named(one):
            found.setdefault(name, set()).add(session)
    return found


def _rare(
    kind: str, owners: Mapping[str, set[str]], dice: random.Random
) -> list[Asked]:
    """Return queries for names that few sessions have, one a session at first."""
    rare = [
        Asked(kind, name, frozenset(sessions))
        for name, sessions in sorted(owners.items())
        if len(sessions) <= _SHARED and len(name) > 3  # noqa: PLR2004 (a name)
    ]
    dice.shuffle(rare)
    seen: Counter[frozenset[str]] = Counter()
    spread = []
    for asked in rare:
        seen[asked.truth] += 1
        spread.append((seen[asked.truth], asked))
    return [asked for _, asked in sorted(spread, key=lambda pair: pair[0])[:_MANY]]


def _tail(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _error_lines(told: Told) -> Iterator[str]:
    for error in told.errors:
        for line in error.splitlines():
            plain = " ".join(re.sub(r"<[^>]*>|[\"()*\\]", " ", line).split())
            if 15 < len(plain) < 120 and ":" in plain:  # noqa: PLR2004 (a line)
                yield plain
                break


def _names(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _CAMEL.findall(text)
        yield from _SNAKE.findall(text)


def _other_case(name: str) -> str:
    if "_" in name:
        first, *rest = name.split("_")
        return first + "".join(map(str.capitalize, rest))
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _sentence(prompts: Iterable[str]) -> str:
    for prompt in prompts:
        words = re.findall(r"[A-Za-z]{2,}(?:'[a-z]+)?", prompt)
        if len(words) >= 5:  # noqa: PLR2004 (a sentence)
            return " ".join(words[:14]).lower()
    return ""


def _worn(sentence: str, dice: random.Random) -> str:
    """Drop every third word, and let the fingers slip in the longest."""
    words = [word for word in sentence.split() if dice.random() > 1 / 3]
    if not words:
        return sentence
    longest = max(range(len(words)), key=lambda at: len(words[at]))
    word = words[longest]
    at = max(1, len(word) // 2)
    words[longest] = word[: at - 1] + word[at : at + 1] + word[at - 1] + word[at + 1 :]
    return " ".join(words)
