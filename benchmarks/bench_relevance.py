"""Compare search quality with simpler methods, by known-item queries.

``python -m benchmarks.bench_relevance CORPUS QUERIES``: transcripts, and queries with the
files that answer them. Titles are removed from the searched data. With ``--distractors``
a script adds synthetic sessions to the collection, once for each seed; only queries for
sessions of the corpus are asked.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from zlib import crc32

from benchmarks.asked import Asked, Told, given, made, told_by_session, without_titles
from bygones import Archive
from bygones.errors import QueryError
from bygones.query.parser import parse_query

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
DEPTH = 10
_FUSED_DEPTH = 100
_SAMPLES = 1_000
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

    def __init__(
        self, told: Mapping[str, Told], *, whole: bool, tokenizer: str = "unicode61"
    ) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute(
            "CREATE VIRTUAL TABLE t USING fts5(session UNINDEXED, prompts, text, "
            f"tokenize='{tokenizer}')"
        )
        for session, one in told.items():
            prompts = "\n".join(one.prompts)
            texts = ["\n".join(one.texts)] if whole else one.texts
            rows = ((session, prompts if whole else "", text) for text in texts)
            self.db.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)

    def search(self, joint: str, depth: int = DEPTH, prompts: float = 0.0) -> Search:
        """Return a search for all words, or for any, in texts and perhaps in prompts."""
        column = "" if prompts else "text :"

        def search(text: str) -> Sequence[str]:
            words = [f'"{word}"' for word in re.findall(r"\w+", text)]
            if not words:
                return ()
            sql = "SELECT session FROM t WHERE t MATCH ? ORDER BY bm25(t, 0, ?, 1)"
            rows = self.db.execute(sql, (f"{column} ({joint.join(words)})", prompts))
            return list(dict.fromkeys(row[0] for row in rows))[:depth]

        return search


def fused(told: Mapping[str, Told], archive: Archive) -> Search:
    """Return two rankings of whole sessions, stemmed and spelled, fused by rank."""
    views = Fts(told, whole=True, tokenizer="porter unicode61")
    ways = [
        views.search(" OR ", _FUSED_DEPTH),
        views.search(" OR ", _FUSED_DEPTH, prompts=2),
    ]

    def search(text: str) -> Sequence[str]:
        try:
            query = parse_query(text, now=NOW, zone=UTC)
            found = archive.search(query, limit=1, hits_per_session=0)
        except QueryError:
            return ()
        for one in found.corrections:
            text = text.replace(one.original, one.corrected)
        scores: dict[str, float] = defaultdict(float)
        for way in ways:
            for rank, session in enumerate(way(text)):
                scores[session] += 1 / (60 + rank)
        return sorted(scores, key=lambda one: -scores[one])[:DEPTH]

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


Row = tuple[Asked, float, bool]
"""A query, one divided by the rank of its session, and whether anything was found."""


def answers(asked: Iterable[Asked], search: Search) -> list[Row]:
    """Ask all queries in one way."""
    rows = []
    for one in asked:
        found = search(one.text)
        at = next((n for n, id_ in enumerate(found, 1) if id_ in one.truth), 0)
        rows.append((one, 1 / at if at else 0.0, bool(found)))
    return rows


def per_session(rows: Iterable[Row]) -> list[float]:
    """Return the mean of each session that is an answer."""
    by_session: dict[str, list[float]] = defaultdict(list)
    for asked, rank, _ in rows:
        for session in asked.truth:
            by_session[session].append(rank)
    return [mean(ranks) for ranks in by_session.values()]


def interval(rows: Sequence[Row]) -> str:
    """Return the 95 % interval of the mean per session: sessions are drawn, by seed."""
    values = per_session(rows)
    dice = random.Random(1)  # noqa: S311 (a draw that can be repeated)
    means = sorted(mean(dice.choices(values, k=len(values))) for _ in range(_SAMPLES))
    return f"{means[_SAMPLES // 40]:.2f} to {means[-_SAMPLES // 40]:.2f}"


def cells(rows: Sequence[Row]) -> list[str]:
    """Return the cells of a row of the table."""
    ranks = [rank for _, rank, _ in rows]
    return [
        f"{mean(rank == 1 for rank in ranks):.2f}",
        f"{mean(rank > 0 for rank in ranks):.2f}",
        f"{mean(ranks):.3f}",
        f"{mean(per_session(rows)):.3f}",
        interval(rows),
        f"{mean(not is_found for _, _, is_found in rows):.2f}",
    ]


def tables(results: Mapping[str, Sequence[Row]], half: int | None) -> Iterator[str]:
    """Yield a table for each kind of query."""
    for kind in KINDS:
        chosen = {
            name: [
                row
                for row in rows
                if row[0].kind == kind
                and (half is None or crc32(min(row[0].truth).encode()) % 2 == half)
            ]
            for name, rows in results.items()
        }
        first = next(iter(chosen.values()))
        if not first:
            continue
        sessions = {session for asked, _, _ in first for session in asked.truth}
        yield f"\n### {kind}: {len(first)} queries, {len(sessions)} sessions\n"
        yield (
            "| method | hit@1 | hit@10 | MRR@10 | per session | 95 % interval"
            " | no result |"
        )
        yield "|---|---:|---:|---:|---:|---|---:|"
        for name, rows in chosen.items():
            yield f"| {name} | {' | '.join(cells(rows))} |"


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
    parser.add_argument("--distractors", type=Path, help="distractors.py")
    parser.add_argument("--sessions", type=int, default=0, help="distractors to add")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    chosen = parser.parse_args(words)
    results: dict[str, list[Row]] = defaultdict(list)
    for seed in chosen.seeds if chosen.sessions else [0]:
        with tempfile.TemporaryDirectory() as scratch:
            for name, rows in measure(chosen, seed, Path(scratch)):
                results[name] += rows
    part = "all answers" if chosen.half is None else f"half {chosen.half}"
    seeds = f" · seeds {chosen.seeds}" if chosen.sessions else ""
    lines = [
        (
            f"## Relevance · {chosen.sessions} distractors{seeds} · {part}"
            f" · {time.strftime('%Y-%m-%d')}"
        )
    ]
    lines += tables(results, chosen.half)
    print(*lines, sep="\n")
    if chosen.out:
        chosen.out.write_text("\n".join(lines) + "\n", "utf-8")
    return 0


def measure(
    chosen: argparse.Namespace, seed: int, scratch: Path
) -> Iterator[tuple[str, list[Row]]]:
    """Make a collection, and yield the answers of each method."""
    corpus, home = chosen.corpus.resolve(), scratch / "home"
    without_titles(corpus, home)
    real = set(told_by_session(home))
    if chosen.sessions:
        count = ["--sessions", str(chosen.sessions), "--seed", str(seed)]
        script = [sys.executable, str(chosen.distractors), str(corpus), str(home)]
        subprocess.run([*script, *count], check=True, capture_output=True)
    folder = chosen.keep / str(seed) if chosen.keep else scratch / "archive"
    Archive.ingest(folder, [home])
    told = told_by_session(home)
    asked = [*given(chosen.queries, corpus)]
    asked += (one for one in made(told) if one.truth & real)
    with Archive.open(folder) as archive:
        ways = {"bygones": ours(archive)}
        if chosen.misses:
            print(*misses(asked, ways["bygones"]), sep="\n")
        if not chosen.ours:
            records, sessions = Fts(told, whole=False), Fts(told, whole=True)
            ways["two views of sessions, fused"] = fused(told, archive)
            ways["FTS5, any word, best record"] = records.search(" OR ")
            ways["BM25, any word, whole session"] = sessions.search(" OR ")
            ways["FTS5, all words, best record"] = records.search(" ")
            ways["FTS5, all words, whole session"] = sessions.search(" ")
            ways["grep, distinct words, then count"] = grep(told)
        for name, search in ways.items():
            yield name, answers(asked, search)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
