"""Compare a team store with agentsview's: ``python -m benchmarks.bench_hub HOME``.

One PostgreSQL is started and the home is stored twice: as a hub stores it, and as
agentsview pushes it to its own mirror. With ``--records``, all rows of both are then
copied inside the database, each session as another one, up to that number. Then both
answer the same queries in turn, from a single client. agentsview looks for substrings and
doesn't rank; Bygones ranks sessions. Both wall times and CPU times are reported. CPU times
are those of the program and of its connections to the database; they vary less if the
machine is busy. Only ratios within one run are meaningful.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import psycopg

from benchmarks.contenders import PEERS
from benchmarks.multiply import multiply_ours, multiply_theirs
from bygones.archive import Archive
from bygones.query.parser import parse_query
from bygones.query.tokens import STOP_WORDS
from bygones.team.contract import AccessScope
from bygones.team.stores.postgres import PostgresStore
from bygones.team.worker import derive_all
from tests.team.homes import upload_homes
from tests.team.servers import Postgres, postgres

__all__ = ["main"]

NOW = datetime(2026, 11, 15, tzinfo=UTC)
PEER = next(peer for peer in PEERS if peer.name == "agentsview")
_LONG = 3
_THREE = re.compile(r"(?<![^ ])[a-z]{4,} [a-z]{4,} [a-z]{4,}(?![^ ])")
"""Three adjacent words, which both programs find."""


class StoreCost(NamedTuple):
    """What storing the home cost."""

    seconds: float
    rows: int


def ours(
    server: Postgres, home: Path
) -> tuple[StoreCost, list[str], Callable[[], Archive]]:
    """Store a home; return the cost, its words, and a function that opens the archive."""
    address = _database(server, "ours")
    store = PostgresStore(address)
    store.prepare()
    objects = store.database_blobs()
    started = time.perf_counter()
    upload_homes(store, objects, "ann", [home], step=1 << 20)
    derive_all(store, objects)
    seconds = time.perf_counter() - started
    with psycopg.connect(address) as db:
        (row,) = db.execute("SELECT count(*) FROM bygones.record").fetchall()
        found = db.execute(
            "SELECT term, texts FROM bygones.term ORDER BY texts DESC, term"
        ).fetchall()
    words = [
        term
        for term, _ in found
        if term.isalpha() and term.isascii() and len(term) > _LONG
        if term not in STOP_WORDS
    ]
    return (
        StoreCost(seconds, row[0]),
        words,
        lambda: Archive.from_store(
            store.open_reader(AccessScope(person="ann"), objects)
        ),
    )


def theirs(
    server: Postgres, home: Path, scratch: Path, folder: Path
) -> tuple[StoreCost, dict[str, str]]:
    """Push the same home to the peer's mirror; return the cost.

    ``folder`` must be empty: data of another home would be pushed as well.
    """
    address = _database(server, "theirs")
    (folder / ".claude").symlink_to(home, target_is_directory=True)
    env = {
        "HOME": str(folder),
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "AGENTSVIEW_PG_URL": f"{address}?sslmode=disable",
        **PEER.env,
    }
    program = _program(scratch)
    started = time.perf_counter()
    for arguments in (["sync"], ["pg", "push", "--full", "--no-vectors"]):
        subprocess.run([program, *arguments], env=env, check=True, capture_output=True)
    seconds = time.perf_counter() - started
    with psycopg.connect(address) as db:
        (row,) = db.execute("SELECT count(*) FROM agentsview.messages").fetchall()
    return StoreCost(seconds, row[0]), env


@contextmanager
def serving(scratch: Path, env: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Serve the peer's mirror; yield its port and process."""
    command = [_program(scratch), "pg", "serve", "--no-browser", "--port", "0"]
    running = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert running.stdout is not None
        for line in running.stdout:
            found = re.search(r"http://[^:]+:(\d+)", line)
            if found:
                yield int(found[1]), running.pid
                return
        raise RuntimeError("the peer does not listen")
    finally:
        running.terminate()
        running.wait(20)


def questions(
    words: Sequence[str], prompts: Sequence[str], each: int
) -> Iterator[tuple[str, list[str]]]:
    """Yield the kinds of queries, with some queries of each."""
    dice = random.Random(7)  # noqa: S311 (a draw that can be repeated)
    frequent, medium = words[:30], words[200:4000]
    yield "one word", dice.sample(medium, each)
    yield (
        "three words from anywhere",
        [" ".join(dice.sample(medium, 3)) for _ in range(each)],
    )
    yield "a common word", dice.sample(frequent, min(each, len(frequent)))
    phrases = sorted({run for text in prompts for run in _THREE.findall(text.lower())})
    yield "three words as typed", dice.sample(phrases, min(each, len(phrases)))


class Program(NamedTuple):
    """A program that answers queries, and the processes that work for it."""

    search: Callable[[str], None]
    processes: Callable[[], Sequence[int]]


class QueryTime(NamedTuple):
    """The milliseconds that a query took."""

    wall: float
    cpu: float


def time_queries(
    queries: Sequence[str], programs: Sequence[Program]
) -> list[list[QueryTime]]:
    """Return the times of each query for each program; the programs take turns."""
    took: list[list[QueryTime]] = [[] for _ in programs]
    for query in queries:
        for at, program in enumerate(programs):
            processes = program.processes()
            cpu = _cpu_ms(processes)
            started = time.perf_counter()
            program.search(query)
            wall = 1000 * (time.perf_counter() - started)
            took[at].append(QueryTime(wall, _cpu_ms(processes) - cpu))
    return took


def _cpu_ms(processes: Sequence[int]) -> float:
    """Return the CPU time of processes with all their threads."""
    nanoseconds = 0
    for process in processes:
        for threads in Path(f"/proc/{process}/task").glob("*/schedstat"):
            nanoseconds += int(threads.read_text().split()[0])
    return nanoseconds / 1e6


def _connections(db: psycopg.Connection[tuple[int]], database: str) -> list[int]:
    """Return the processes of the database that have a connection open."""
    rows = db.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = %s AND leader_pid IS NULL",
        (database,),
    )
    return [row[0] for row in rows]


def _peer_search(port: int) -> Callable[[str], None]:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)

    def search(query: str) -> None:
        path = f"/api/v1/search?q={quote(query)}&limit=10"
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        # It gives up after thirty seconds, so the time is at least that.
        assert response.status == HTTPStatus.OK or b"timed out" in body, body[:200]

    return search


def report(home: Path, scratch: Path, records: int, each: int) -> Iterator[str]:
    """Yield the lines of the tables."""
    with (
        postgres() as server,
        tempfile.TemporaryDirectory(prefix="hub-room-", dir=scratch) as room,
    ):
        stored, words, open_archive = ours(server, home)
        pushed, env = theirs(server, home, scratch, Path(room))
        yield "\n## Storing\n"
        yield "| program | rows | rows/s | time, share of agentsview |"
        yield "|---|---:|---:|---:|"
        for name, cost in (("bygones", stored), (PEER.name, pushed)):
            rate = cost.rows / cost.seconds
            share = cost.seconds / pushed.seconds
            yield f"| {name} | {cost.rows:,} | {rate:,.0f} | {share:.2f} |"

        times = max(1, round(records / stored.rows))
        with psycopg.connect(_address(server, "ours"), autocommit=True) as db:
            multiply_ours(db, times)
        with psycopg.connect(_address(server, "theirs"), autocommit=True) as db:
            multiply_theirs(db, times)
        yield (
            f"\nCopied {times - 1} times: {stored.rows * times:,} records,"
            f" {pushed.rows * times:,} messages of agentsview."
        )
        archive = open_archive()

        def search(query: str) -> None:
            archive.search(parse_query(query, now=NOW, zone=UTC))

        with (
            psycopg.connect(server.address, autocommit=True) as db,
            archive,
            serving(scratch, env) as (port, process),
        ):
            yield "\n## Searching\n"
            yield (
                "| queries | program | median ms | p95 ms | of agentsview's"
                " | CPU median ms | CPU p95 ms | of agentsview's |"
            )
            yield "|---|---|---:|---:|---:|---:|---:|---:|"
            both = (
                Program(search, lambda: [os.getpid(), *_connections(db, "ours")]),
                Program(
                    _peer_search(port), lambda: [process, *_connections(db, "theirs")]
                ),
            )
            time_queries(["warming"], both)
            prompts = [prompt.text for prompt in archive.prompts()]
            every: list[list[QueryTime]] = [[], []]
            for kind, queries in questions(words, prompts, each):
                took = time_queries(queries, both)
                every = [[*all_, *some] for all_, some in zip(every, took, strict=True)]
                yield from _rows(f"{kind} ({len(queries)})", took)
            yield from _rows("all of these", every)


def _rows(kind: str, took: Sequence[Sequence[QueryTime]]) -> Iterator[str]:
    """Yield the rows of one kind of query, for both programs."""
    theirs = took[1]
    for name, own in zip(("bygones", PEER.name), took, strict=True):
        cells = [
            f"{statistics.median(mine):.1f} | {_p95(mine):.1f} |"
            f" {_p95(mine) / _p95(other):.2f}"
            for mine, other in zip(
                zip(*own, strict=True), zip(*theirs, strict=True), strict=True
            )
        ]
        yield f"| {kind} | {name} | {' | '.join(cells)} |"


def _p95(took: Sequence[float]) -> float:
    return statistics.quantiles(took, n=20)[-1]


def _database(server: Postgres, name: str) -> str:
    with psycopg.connect(server.address, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    return _address(server, name)


def _address(server: Postgres, name: str) -> str:
    return server.address.removesuffix("postgres") + name


def _program(scratch: Path) -> str:
    return str(scratch / "programs" / PEER.name / "bin" / PEER.name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--records", type=int, default=0, metavar="N")
    parser.add_argument("--each", type=int, default=20, metavar="N")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp"))  # noqa: S108
    options = parser.parse_args(arguments)
    for line in report(
        options.home.resolve(), options.scratch, options.records, options.each
    ):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
