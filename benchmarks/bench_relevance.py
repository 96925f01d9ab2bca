"""Compare search quality with simpler methods, by known-item queries.

``python -m benchmarks.bench_relevance CORPUS QUERIES --distractors SCRIPT``: transcripts,
queries with the files that answer them, and a script that generates sessions with
similar words. Titles are removed from the searched data. Collections have all sessions of
the corpus and some distractors, for each size and seed; only queries for sessions of the
corpus are asked. Sessions are divided into two halves: parameters are chosen by the
queries of the half *tune*, with seeds 1 and 2; the other half and other seeds are for
the report.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from benchmarks.baselines import DEPTH, Search, make_baselines
from benchmarks.relevance_queries import (
    KINDS,
    KnownItemQuery,
    copy_without_titles,
    generate_queries,
    read_queries,
    read_texts,
)
from bygones import Archive
from bygones.errors import QueryError
from bygones.query.parser import parse_query

__all__ = ["main"]

_SAMPLES = 1_000
_OURS = "Bygones"
_NOW = datetime(2026, 11, 15, tzinfo=UTC)


class Answer(NamedTuple):
    """The rank of the right session for one query, 0 if it isn't among the first ten."""

    size: int
    seed: int
    method: str
    query: KnownItemQuery
    rank: int
    is_empty: bool

    @property
    def reciprocal(self) -> float:
        """One divided by the rank."""
        return 1 / self.rank if self.rank else 0.0


def search_archive(archive: Archive) -> Search:
    """Return a search as ``bygones search`` does it, groups included."""

    def search(text: str) -> list[tuple[str, ...]]:
        try:
            query = parse_query(text, now=_NOW, zone=UTC)
        except QueryError:
            return []
        results = archive.search(query, limit=DEPTH, hits_per_session=0)
        return [match.session_ids for match in results.sessions]

    return search


def make_corrector(archive: Archive) -> Callable[[str], str]:
    """Return a function that corrects the spelling of a query."""

    def correct(text: str) -> str:
        try:
            query = parse_query(text, now=_NOW, zone=UTC)
            results = archive.search(query, limit=1, hits_per_session=0)
        except QueryError:
            return text
        for one in results.corrections:
            text = text.replace(one.original, one.corrected)
        return text

    return correct


def measure(
    options: argparse.Namespace, size: int, seed: int, scratch: Path
) -> Iterator[Answer]:
    """Make a collection, and yield the answers of each method to each query."""
    corpus, home = options.corpus.resolve(), scratch / "home"
    copy_without_titles(corpus, home)
    wanted = frozenset(read_texts(home))
    if size:
        arguments = ["--sessions", str(size), "--seed", str(seed)]
        script = [sys.executable, str(options.distractors), str(corpus), str(home)]
        subprocess.run([*script, *arguments], check=True, capture_output=True)
    folder = scratch / "archive"
    Archive.ingest(folder, [home])
    texts = read_texts(home)
    queries = [*read_queries(options.queries, corpus)]
    queries += generate_queries(texts, wanted)
    queries = [one for one in queries if options.half in {None, one.half}]
    with Archive.open(folder) as archive:
        searches = {_OURS: search_archive(archive)}
        if not (options.ours or options.others):
            searches |= make_baselines(texts, make_corrector(archive))
        for method, search in searches.items():
            for query in queries:
                found = search(query.text)
                ranks = (
                    rank
                    for rank, shown in enumerate(found, 1)
                    if not query.answers.isdisjoint(shown)
                )
                yield Answer(size, seed, method, query, next(ranks, 0), not found)


def by_session(answers: Iterable[Answer]) -> dict[str, list[float]]:
    """Return the reciprocal ranks of the queries for each session, by its id."""
    ranks: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        ranks[min(answer.query.answers)].append(answer.reciprocal)
    return ranks


def interval(values: Mapping[str, Sequence[float]]) -> str:
    """Return the 95 % interval of the mean: sessions are drawn with all their queries."""
    rng = random.Random(1)  # noqa: S311 (a draw that can be repeated)
    sums = [(sum(some), len(some)) for some in values.values()]
    means = []
    for _ in range(_SAMPLES):
        drawn = rng.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in drawn) / sum(n for _, n in drawn))
    means.sort()
    return f"{means[_SAMPLES // 40]:+.2f} to {means[-_SAMPLES // 40]:+.2f}"


def compare(ours: Sequence[Answer], others: Sequence[Answer]) -> str:
    """Return by how much we are better, with its interval: the same queries in pairs."""
    differences: dict[str, list[float]] = defaultdict(list)
    for own, other in zip(ours, others, strict=True):
        session = min(own.query.answers)
        differences[session].append(own.reciprocal - other.reciprocal)
    every = [value for some in differences.values() for value in some]
    return f"{mean(every):+.3f} ({interval(differences)})"


def cells(answers: Sequence[Answer]) -> list[str]:
    """Return the cells of a row of the table."""
    sessions = by_session(answers)
    return [
        f"{mean(one.rank == 1 for one in answers):.2f}",
        f"{mean(one.rank > 0 for one in answers):.2f}",
        f"{mean(one.reciprocal for one in answers):.3f}",
        f"{mean(mean(some) for some in sessions.values()):.3f}",
        f"{mean(one.is_empty for one in answers):.2f}",
    ]


def write_tables(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield a table for each size and kind of query, with a row for each method."""
    groups: dict[tuple[int, str], dict[str, list[Answer]]] = defaultdict(dict)
    for one in answers:
        methods = groups[one.size, one.query.kind]
        methods.setdefault(one.method, []).append(one)
    for size in sorted({one.size for one in answers}):
        yield f"\n## {size} distractors\n"
        for kind in KINDS:
            methods = groups.get((size, kind), {})
            if not methods:
                continue
            ours = methods[_OURS]
            count = len({one.query.text for one in ours})
            yield f"\n### {kind}: {count} queries, {len(by_session(ours))} sessions\n"
            yield (
                "| method | hit@1 | hit@10 | MRR@10 | per session | no result"
                " | Bygones is better by |"
            )
            yield "|---|---:|---:|---:|---:|---:|---|"
            for method, some in methods.items():
                better = "" if method == _OURS else compare(ours, some)
                yield f"| {method} | {' | '.join(cells(some))} | {better} |"


def write_summary(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield a table with our figures and the best other method for each kind."""
    yield (
        "| distractors | query | hit@1 | hit@10 | MRR@10 | best other method | its MRR@10"
        " | difference, 95 % interval |"
    )
    yield "|---:|---|---:|---:|---:|---|---:|---|"
    for size in sorted({one.size for one in answers}):
        for kind in KINDS:
            methods: dict[str, list[Answer]] = defaultdict(list)
            for one in answers:
                if (one.size, one.query.kind) == (size, kind):
                    methods[one.method].append(one)
            ours = methods.pop(_OURS, [])
            if not ours:
                continue
            row = [str(size), kind, *cells(ours)[:3]]
            if methods:
                best = max(
                    methods, key=lambda m: mean(x.reciprocal for x in methods[m])
                )
                row += [best, cells(methods[best])[2], compare(ours, methods[best])]
            yield f"| {' | '.join(row)} |"


def read_rows(path: Path, half: str | None) -> Iterator[Answer]:
    """Yield the answers of the other methods from a file of an earlier run."""
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        query = KnownItemQuery(row["kind"], row["query"], frozenset(row["answers"]))
        if row["method"] != _OURS and half in {None, query.half}:
            key = row["size"], row["seed"], row["method"]
            yield Answer(*key, query, row["rank"], row["is_empty"])


def write_rows(answers: Iterable[Answer]) -> Iterator[str]:
    """Yield a line of JSON for each answer."""
    for one in answers:
        row = {
            **one._asdict(),
            "query": one.query.text,
            "kind": one.query.kind,
            "half": one.query.half,
            "answers": sorted(one.query.answers),
        }
        yield json.dumps(row, ensure_ascii=False)


def main(arguments: list[str]) -> int:
    """Run all queries with all methods, and print the scores."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_relevance")
    parser.add_argument("corpus", type=Path, help="a folder of transcripts")
    parser.add_argument("queries", type=Path, help="queries.jsonl")
    parser.add_argument("--distractors", type=Path, help="distractors.py")
    parser.add_argument("--sizes", type=int, nargs="+", default=[0, 500, 2000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4])
    parser.add_argument("--half", choices=("tune", "report"), help="only these queries")
    parser.add_argument("--ours", action="store_true", help="measure only Bygones")
    parser.add_argument(
        "--others", type=Path, help="take the other methods from these rows"
    )
    parser.add_argument("--rows", type=Path, help="write all answers to this file")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    options = parser.parse_args(arguments)
    answers: list[Answer] = []
    for size in options.sizes:
        for seed in options.seeds if size else [0]:
            with tempfile.TemporaryDirectory() as scratch:
                answers += measure(options, size, seed, Path(scratch))
    if options.others:
        answers += read_rows(options.others, options.half)
    if options.rows:
        options.rows.write_text("\n".join(write_rows(answers)) + "\n", "utf-8")
    half = f"half {options.half}" if options.half else "all answers"
    lines = [
        f"# Relevance · {half} · seeds {options.seeds} · {time.strftime('%Y-%m-%d')}\n",
        *write_summary(answers),
        *write_tables(answers),
    ]
    print(*lines, sep="\n")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
