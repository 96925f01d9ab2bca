"""Compare searches of the same home in an archive, PostgreSQL and ClickHouse.

``python -m benchmarks.bench_stores HOME`` imports the home into an archive in a temporary
folder and stores it as a hub does, on PostgreSQL and on ClickHouse in this process. Then
each answers the same queries in turn. It reports the time of each, and how many queries
have the same sessions in the same order as in the archive.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from benchmarks.bench_hub import questions
from benchmarks.run import title
from bygones.archive import Archive
from bygones.model.summary import SearchResults
from bygones.query.parser import parse_query
from bygones.query.tokens import STOP_WORDS
from bygones.team.contract import AccessScope
from bygones.team.worker import derive_all
from tests.team.engines import ENGINES, open_engine
from tests.team.homes import upload_homes

NOW = datetime(2026, 11, 15, tzinfo=UTC)
_TOLERANCE = 1e-9
_MIN_LENGTH = 4
_TERMS = 6_000


class TimedStore:
    """An archive or a store, with the times of its answers."""

    def __init__(self, name: str, archive: Archive, load_seconds: float) -> None:
        self.name, self.archive, self.load_seconds = name, archive, load_seconds
        self.wall: list[float] = []
        self.answers: list[SearchResults] = []

    def ask(self, query: str) -> None:
        parsed = parse_query(query, now=NOW, zone=UTC)
        started = time.perf_counter()
        found = self.archive.search(parsed)
        self.wall.append(1000 * (time.perf_counter() - started))
        self.answers.append(found)


def open_stores(home: Path, folder: Path, stack: ExitStack) -> Iterator[TimedStore]:
    """Store a home everywhere, and yield what can be searched.

    Without empty files: a hub doesn't have them, but an archive counts their sessions.
    """
    home = Path(shutil.copytree(home, folder / "home", ignore=empty_files))
    started = time.perf_counter()
    Archive.ingest(folder / "archive", [home])
    seconds = time.perf_counter() - started
    local = stack.enter_context(Archive.open(folder / "archive"))
    yield TimedStore("archive", local, seconds)
    for name in ENGINES:
        store, blobs = stack.enter_context(open_engine(name))()
        stack.callback(store.close)
        store.prepare()
        started = time.perf_counter()
        upload_homes(store, blobs, "ann", [home], step=1 << 20)
        derive_all(store, blobs)
        seconds = time.perf_counter() - started
        reader = store.open_reader(AccessScope(person="ann"), blobs)
        yield TimedStore(name, stack.enter_context(Archive.from_store(reader)), seconds)


def empty_files(directory: str, names: list[str]) -> list[str]:
    """Return the names of the empty files in a directory."""
    paths = [Path(directory, name) for name in names]
    return [p.name for p in paths if p.is_file() and not p.stat().st_size]


def words_of(prompts: Sequence[str]) -> list[str]:
    """Return the words of prompts, frequent ones first."""
    counts: dict[str, int] = {}
    for prompt in prompts:
        for word in set(prompt.lower().split()):
            if word.isalpha() and word.isascii() and len(word) >= _MIN_LENGTH:
                counts[word] = counts.get(word, 0) + 1
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return [word for word in ordered if word not in STOP_WORDS][:_TERMS]


def is_same_order(one: SearchResults, other: SearchResults) -> bool:
    """Whether the same sessions come in the same order; equal scores may be swapped."""

    def ranked(found: SearchResults) -> list[tuple[float, str]]:
        return sorted((-s.score, str(s.summary.id)) for s in found.sessions)

    pairs = list(zip(ranked(one), ranked(other), strict=False))
    return len(one.sessions) == len(other.sessions) and all(
        mine == theirs and abs(score - other_score) < _TOLERANCE
        for (score, mine), (other_score, theirs) in pairs
    )


def table(kind: str, stores: Sequence[TimedStore], ask: Callable[[], int]) -> None:
    """Ask the queries of a kind, and print a row for each store."""
    count = ask()
    reference = stores[0].answers[-count:]
    for store in stores:
        times = store.wall[-count:]
        same = sum(map(is_same_order, reference, store.answers[-count:]))
        p95 = quantiles(times, n=20)[-1]
        print(
            f"| {kind} ({count}) | {store.name} | {median(times):.1f} | {p95:.1f} |"
            f" {same} of {count} |",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--each", type=int, default=30, metavar="N")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stores = list(open_stores(options.home.resolve(), Path(folder), stack))
        sessions = sum(1 for _ in stores[0].archive.sessions())
        loaded = ", ".join(f"{one.name} {one.load_seconds:.0f} s" for one in stores)
        print(title(f"Searching {sessions:,} sessions; loaded in: {loaded}"))
        print("| queries | store | median ms | p95 ms | same as in the archive |")
        print("|---|---|---:|---:|---:|")
        prompts = [one.text for one in stores[0].archive.prompts()]
        for store in stores:
            store.ask("warming")
        for kind, queries in questions(words_of(prompts), prompts, options.each):

            def ask(queries: Sequence[str] = queries) -> int:
                for query in queries:
                    for store in stores:
                        store.ask(query)
                return len(queries)

            table(kind, stores, ask)
    return 0


if __name__ == "__main__":
    sys.exit(main())
