"""Measure what a push costs for the client, the hub and the database.

``python -m benchmarks.bench_push HOME`` ingests the home into an archive in a temporary
folder, starts PostgreSQL and a hub, pushes everything, and pushes it again as a second
machine while fifty readers search. CPU time is shown as a multiple of the ingest in the
same run, latency as a multiple of the same search with a single reader.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from benchmarks.run import title
from bygones.team.access import open_store
from tests.hub.killing import free_port
from tests.team.servers import postgres

READERS = 50
QUERIES = ("timeout", "error+in+test", "refactor", "%22permission+denied%22", "docker")


class Bench:
    """An engine, a hub and a token, and the CPU seconds that each has used."""

    def __init__(self, place: Path, engine: str) -> None:
        self.port = free_port()
        self.engine = engine
        raw = str(place / "raw")
        self._told = {"BYGONES_HUB_STORE": engine, "BYGONES_HUB_RAW": raw}
        self._settings = place / "settings.toml"
        made = self._bygones("hub", "token", "new", "ann", capture=True)
        self.token = made.stdout.strip()
        words = [sys.executable, "-m", "bygones", "hub", "serve"]
        words += ["--max-requests", "1000000"]  # all readers are one person
        self.hub = subprocess.Popen(
            [*words, "--port", str(self.port)], env=self._around()
        )
        self._settings.write_text(
            f'[push]\nhub = "http://127.0.0.1:{self.port}"\n'
            f'token = "{self.token}"\nprojects = ["/"]\n'
        )
        self._settings.chmod(0o600)
        self.store = open_store(engine)

    def _around(self) -> dict[str, str]:
        settings = {"BYGONES_SETTINGS": str(self._settings)}
        return {**os.environ, **self._told, **settings}

    def _bygones(
        self, *words: str, capture: bool = False
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bygones", *words],
            env=self._around(),
            check=True,
            text=True,
            capture_output=capture,
        )

    def spent(self, *words: str) -> float:
        """Return the CPU seconds of a command."""
        before = os.times()
        self._bygones(*words, capture=True)
        after = os.times()
        own = after.children_user + after.children_system
        return own - before.children_user - before.children_system

    def ask(self, path: str) -> float:
        """Return how long the hub took to answer."""
        started = time.monotonic()
        line = HTTPConnection("127.0.0.1", self.port, timeout=120)
        line.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        answer = line.getresponse()
        answer.read()
        line.close()
        assert answer.status == HTTPStatus.OK, answer.status
        return time.monotonic() - started

    def settle(self) -> None:
        """Wait until all that came is derived."""
        while self.store.pending_sources():
            time.sleep(0.1)


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process, with those of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def cpu_of_hub(pid: int) -> float:
    """Return the CPU seconds of a hub and of the processes that derive for it."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    running = [int(n) for path in children for n in path.read_text("utf-8").split()]
    return cpu_of(pid) + sum(map(cpu_of_hub, running))


def peak_of(pid: int) -> float:
    """Return the most memory that a process had for itself, in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    (line,) = (one for one in status.splitlines() if one.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def cpu_of_engine(port: int) -> float:
    """Return the CPU seconds of a server and of those who serve for it now."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            parent = (path / "stat").read_text("utf-8").rpartition(")")[2].split()[1]
            above = Path(f"/proc/{parent}/cmdline").read_bytes()
            if f"port={port}".encode() in words + above:
                total += cpu_of(int(path.name))
        except OSError:
            continue
    return total


@contextmanager
def bench(place: Path) -> Iterator[tuple[Bench, Callable[[], float]]]:
    """Start everything, and stop it."""
    with postgres() as engine:
        here = Bench(place, engine.address)
        try:
            while True:
                try:
                    here.ask("/health")
                    break
                except OSError:
                    time.sleep(0.1)
            yield here, lambda: cpu_of_engine(engine.port)
        finally:
            here.hub.kill()
            here.hub.wait()
            here.store.close()


def waits(here: Bench, readers: int, until: Callable[[], bool]) -> list[float]:
    """Have readers search, one after the other each, and return all waits."""

    def read(number: int) -> list[float]:
        found: list[float] = []
        while True:
            query = QUERIES[(number + len(found)) % len(QUERIES)]
            found.append(here.ask(f"/api/search?q={query}"))
            if until():
                return found

    with ThreadPoolExecutor(readers) as threads:
        return [one for many in threads.map(read, range(readers)) for one in many]


def percentiles(found: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th of a hundred."""
    ordered = sorted(found)
    return median(ordered), ordered[int(len(ordered) * 0.95)]


def main(arguments: Sequence[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with bench(place) as (here, engine):
            first, second = place / "first", place / "second"
            home = ("--home", str(options.home))
            ingest = here.spent("ingest", "-q", *home, "--archive", str(first))
            here.spent("ingest", "-q", *home, "--archive", str(second))
            dry = here.spent("push", "--dry-run", "--archive", str(first))
            hub, rows = cpu_of_hub(here.hub.pid), engine()
            push = here.spent("push", "--archive", str(first))
            here.settle()
            hub, rows = cpu_of_hub(here.hub.pid) - hub, engine() - rows
            again = here.spent("push", "--archive", str(first))
            size = sum(p.stat().st_size for p in options.home.rglob("*.jsonl"))
            print(title(f"A push of {size / 1e6:,.0f} MB of transcripts"))
            print("| what | CPU s | x ingest |\n|---|---:|---:|")
            weights = [peak_of(here.hub.pid)]
            for name, spent in (
                ("ingest, for comparison", ingest),
                ("push --dry-run", dry),
                ("push", push),
                ("hub: receive and derive", hub),
                ("database: rows and text index", rows),
                ("push, nothing new", again),
            ):
                print(f"| {name} | {spent:.1f} | {spent / ingest:.2f} |", flush=True)
            read(here, second)
            weights.append(peak_of(here.hub.pid))
            told_weights = " and ".join(f"{one:,.0f} MB" for one in weights)
            print(
                f"\nPeak memory of the hub, without and with readers: {told_weights}."
            )
    return 0


def read(here: Bench, archive: Path) -> None:
    """Print how long readers wait: one, fifty, and fifty during a push."""
    here.ask("/api/search?q=warm")
    count = iter(range(40))
    alone = percentiles(waits(here, 1, lambda: next(count, None) is None))
    end = time.monotonic() + 20
    fifty = percentiles(waits(here, READERS, lambda: time.monotonic() > end))
    with ThreadPoolExecutor(1) as thread:
        pushing = thread.submit(here.spent, "push", "--archive", str(archive))
        during = percentiles(waits(here, READERS, pushing.done))
    print("\n| search on the hub | p50 ms | p95 ms | x one reader, p50 |")
    print("|---|---:|---:|---:|")
    for name, (middle, most) in (
        ("one reader", alone),
        (f"{READERS} readers", fifty),
        (f"{READERS} readers, one push", during),
    ):
        ratio = middle / alone[0]
        print(f"| {name} | {middle * 1e3:.0f} | {most * 1e3:.0f} | {ratio:.1f} |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
