"""Queries for the corpus, as people would type them: drawn from what its records contain."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from tests.corpus import CORPUS, corpus_lines

__all__ = ["corpus_queries"]

T = TypeVar("T")
_TITLES = CORPUS.parent / "relevance" / "queries.jsonl"
_PATTERNS = {
    "identifier": r"\b(?:[a-z]+_[a-z_]{4,30}|[a-z]{3,}[A-Z][A-Za-z]{3,30})\b",
    "path": r"\b[\w-]+(?:/[\w.-]+){1,3}\.[a-z]{1,4}\b",
    "error": r"\b[A-Za-z]*(?:Error|Exception): [^\n\"\\]{12,60}",
    "sentence": r"\b[A-Z][a-z]+(?: [a-z]{2,12}){3,6}\b",
}
_TOOLS = ("Bash", "Edit", "Read", "Grep", "Write", "Task", "WebFetch", "TodoWrite")


def corpus_queries(count: int) -> list[tuple[str, str]]:
    """Return queries with their kinds; always the same ones, spread over the corpus."""
    kinds: dict[str, list[str]] = {"title": [], "degraded": []}
    if _TITLES.exists():
        for line in _TITLES.read_text("utf-8").splitlines():
            query = json.loads(line)
            kinds.setdefault(query["set"], []).append(query["query"])
    found: dict[str, dict[str, None]] = {name: {} for name in (*_PATTERNS, "agent")}
    for text, is_agent in _iter_texts():
        for name, pattern in _PATTERNS.items():
            for match in re.findall(pattern, text)[:3]:
                found[name][" ".join(match.split())] = None
        if is_agent:
            for match in re.findall(_PATTERNS["sentence"], text)[:3]:
                found["agent"][match] = None
    kinds |= {name: list(texts) for name, texts in found.items()}
    kinds["tool"] = [f"tool:{name} {word}" for name in _TOOLS for word in ("test", "")]
    kinds = {name: texts for name, texts in kinds.items() if texts}
    share = -(-count // len(kinds))
    chosen = [
        (name, text) for name, texts in kinds.items() for text in _spread(texts, share)
    ]
    return _spread(chosen, count)


def _spread(values: Sequence[T], count: int) -> list[T]:
    return [values[at * len(values) // count] for at in range(min(count, len(values)))]


def _iter_texts() -> Iterator[tuple[str, bool]]:
    """Yield the texts of messages and tool results, and whether an agent said them."""
    for line in corpus_lines():
        try:
            record = msgspec.json.decode(line.raw)
        except msgspec.DecodeError:
            continue
        if isinstance(record, dict) and record.get("type") in {"user", "assistant"}:
            for text in _strings(record.get("message")):
                yield text[:2000], bool(record.get("isSidechain"))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        content = value.get("content")
        if isinstance(content, str):
            yield content
        parts: Iterable[object] = content if isinstance(content, list) else ()
        for part in parts:
            if isinstance(part, dict):
                yield from (one for one in [part.get("text")] if isinstance(one, str))
                yield from _strings(part)
