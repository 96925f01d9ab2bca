"""Compare search quality with simpler methods, by known-item queries.

``python -m benchmarks.bench_relevance CORPUS QUERIES``: transcripts, and queries with the
files that answer them. Titles are removed from the searched data.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

from benchmarks.asked import Asked, Told, given, made, told_by_session, without_titles
from bygones import Archive
from bygones.errors import QueryError
from bygones.query.parser import parse_query

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
DEPTH = 10
NOW = datetime(2026, 11, 15, tzinfo=UTC)
KINDS = (
    *("title", "degraded", "path", "tool", "error", "identifier", "sentence", "worn"),
)
Search = Callable[[str], Sequence[str]]


def ours(archive: Archive) -> Search:
    """Return a search as ``bygones search`` does it."""

    def search(text: str) -> Sequence[str]:
        try:
            query = parse_query(text, now=NOW, zone=UTC)
        except QueryError:
            return ()
        found = archive.search(query, limit=DEPTH, hits_per_session=0)
        return [id_ for one in found.sessions for id_ in (str(one.summary.id),)]

    return search


class Fts:
    """FTS5, a row for each text or for each session."""

    def __init__(self, told: Mapping[str, Told], *, whole: bool) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE VIRTUAL TABLE t USING fts5(session UNINDEXED, text)")
        for session, one in told.items():
            texts = ["\n".join(one.texts)] if whole else one.texts
            rows = ((session, text) for text in texts)
            self.db.executemany("INSERT INTO t VALUES (?, ?)", rows)

    def search(self, joint: str) -> Search:
        """Return a search for all words, or for any."""

        def search(text: str) -> Sequence[str]:
            words = [f'"{word}"' for word in re.findall(r"\w+", text)]
            if not words:
                return ()
            sql = "SELECT session FROM t WHERE t MATCH ? ORDER BY rank"
            rows = self.db.execute(sql, (joint.join(words),))
            return list(dict.fromkeys(row[0] for row in rows))[:DEPTH]

        return search


def grep(told: Mapping[str, Told]) -> Search:
    """Return a search that counts words like grep: distinct ones, then all."""
    whole = {session: "\n".join(one.texts).lower() for session, one in told.items()}

    def search(text: str) -> Sequence[str]:
        words = set(re.findall(r"\w+", text.lower()))
        scores = {}
        for session, all_text in whole.items():
            counts = [all_text.count(word) for word in words]
            scores[session] = (sum(map(bool, counts)), sum(counts))
        ranked = sorted(scores, key=lambda one: scores[one], reverse=True)
        return [session for session in ranked[:DEPTH] if scores[session][0]]

    return search


class Score:
    """What a way to search made of some queries."""

    def __init__(self) -> None:
        self.ranks: list[float] = []
        self.by_session: dict[str, list[float]] = defaultdict(list)
        self.nothing = 0

    def add(self, asked: Asked, found: Sequence[str]) -> None:
        """Count the answer to one query."""
        hit = next((at for at, one in enumerate(found, 1) if one in asked.truth), 0)
        rank = 1 / hit if hit else 0.0
        self.ranks.append(rank)
        self.nothing += not found
        for session in asked.truth:
            self.by_session[session].append(rank)

    def cells(self) -> list[str]:
        """Return the cells of a row."""
        count = len(self.ranks)
        each = [sum(ranks) / len(ranks) for ranks in self.by_session.values()]
        first = sum(rank == 1 for rank in self.ranks) / count
        some = sum(rank > 0 for rank in self.ranks) / count
        return [
            f"{sum(self.ranks) / count:.3f}",
            f"{sum(each) / len(each):.3f}",
            f"{first:.2f}",
            f"{some:.2f}",
            f"{self.nothing / count:.2f}",
        ]


def tables(
    asked: Sequence[Asked], ways: Mapping[str, Search], half: int | None
) -> Iterator[str]:
    """Yield a table for each kind of query."""
    for kind in KINDS:
        chosen = [
            one
            for one in asked
            if one.kind == kind
            and (half is None or crc32(min(one.truth).encode()) % 2 == half)
        ]
        if not chosen:
            continue
        sessions = {session for one in chosen for session in one.truth}
        yield f"\n### {kind}: {len(chosen)} queries, {len(sessions)} sessions\n"
        yield "| method | MRR@10 | per session | hit@1 | hit@10 | no result |"
        yield "|---|---:|---:|---:|---:|---:|"
        for name, search in ways.items():
            score = Score()
            for one in chosen:
                score.add(one, search(one.text))
            yield f"| {name} | {' | '.join(score.cells())} |"


def misses(asked: Iterable[Asked], search: Search) -> Iterator[str]:
    """Yield the queries that did not find their session first."""
    for one in asked:
        found = list(search(one.text))
        if not found or found[0] not in one.truth:
            at = next((n for n, s in enumerate(found, 1) if s in one.truth), 0)
            yield f"{one.kind:10} {at:2} {min(one.truth)[:8]} {one.text[:100]}"


def main(words: list[str]) -> int:
    """Run all queries with all methods, and print the scores."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_relevance")
    parser.add_argument("corpus", type=Path, help="a folder of transcripts")
    parser.add_argument("queries", type=Path, help="queries.jsonl")
    parser.add_argument(
        "--half", type=int, choices=(0, 1), help="use one half of the sessions"
    )
    parser.add_argument("--ours", action="store_true", help="measure only Bygones")
    parser.add_argument(
        "--misses", action="store_true", help="list queries whose session is not first"
    )
    parser.add_argument("--keep", type=Path, help="folder in which the archive is kept")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    chosen = parser.parse_args(words)
    corpus = chosen.corpus.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch, "archive")
        if not Archive.exists(folder):
            without_titles(corpus, Path(scratch, "home"))
            Archive.ingest(folder, [Path(scratch, "home")])
        told = told_by_session(corpus)
        asked = [*given(chosen.queries, corpus), *made(told)]
        with Archive.open(folder) as archive:
            ways = {"bygones": ours(archive)}
            if chosen.misses:
                print(*misses(asked, ways["bygones"]), sep="\n")
            if not chosen.ours:
                records, sessions = Fts(told, whole=False), Fts(told, whole=True)
                ways["FTS5, all words, best record"] = records.search(" ")
                ways["FTS5, any word, best record"] = records.search(" OR ")
                ways["FTS5, all words, whole session"] = sessions.search(" ")
                ways["BM25, any word, whole session"] = sessions.search(" OR ")
                ways["grep, distinct words, then count"] = grep(told)
            name = "all sessions" if chosen.half is None else f"half {chosen.half}"
            lines = [f"## Relevance · {name} · {time.strftime('%Y-%m-%d')}"]
            lines += tables(asked, ways, chosen.half)
    print(*lines, sep="\n")
    if chosen.out:
        chosen.out.write_text("\n".join(lines) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
