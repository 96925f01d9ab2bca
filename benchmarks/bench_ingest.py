"""Compare the cost of an ingest with other programs that import transcripts.

``python -m benchmarks.bench_ingest HOME`` copies the home, adds a session of 10 MB, and
runs the programs one after the other, each with its own scratch HOME and without a
network: first everything, then with nothing changed, then with 1 KB appended to the
session of 10 MB. Bygones also rebuilds, and ingests another append in a running process,
as ``watch`` does. The other programs are installed into environments of their own in the
scratch folder; only that step uses the network.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.contenders import OURS, PEERS, ROOT, Contender, Room, install
from benchmarks.inputs import append_record, session_path, write_session
from benchmarks.run import title
from benchmarks.tree import Failed, offline
from bygones.archive import Archive

FIRST, UNCHANGED, APPENDED, WATCHED, REBUILD = STEPS = (
    "First ingest",
    "Nothing changed",
    "1 KB appended to a session of 10 MB",
    "1 KB appended, in a running process",
    "Rebuild",
)
SHORT_TIMES = 3
"""How often a short step is run."""
SESSION = 10_000_000
APPEND = 1_000
NOTE = """\
CPU s: user and system, of all processes of the program. Peak MB: resident memory of
all of them together, sampled every 10 ms. Wrote MB: all files in its scratch HOME
afterwards. Imported: files or sessions, by its own count."""


class Result(NamedTuple):
    """What a step took, and how large everything was after it."""

    seconds: float
    wall: float
    peak: int
    written: int
    imported: int


COLUMNS = ((0, 1, 2), (1, 1, 2), (2, 1e6, 0), (3, 1e6, 0))
"""Places in a result that are compared, with their units and digits."""
Results = dict[tuple[str, str], Result]
"""By step and by name of the contender."""


class Bench:
    """A copy of a home, and the contenders' rooms around it."""

    def __init__(
        self, home: Path, contenders: Sequence[Contender], scratch: Path
    ) -> None:
        before = offline()
        self.is_offline = bool(before)
        self.rooms = [Room(contender, scratch, before) for contender in contenders]
        self.home = scratch / "home"
        self.results: Results = {}
        self.failures: dict[str, str] = {}
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(home, self.home)
        self._session = session_path(self.home, 0)
        self._session.parent.mkdir()
        write_session(self._session, size=SESSION)
        self._before = self._session.stat()
        self._appended = 0
        files = list(self.home.rglob("*.jsonl"))
        self.files, self.size = len(files), sum(path.stat().st_size for path in files)

    def turn(self) -> None:
        """Let every contender do every step once, from the beginning."""
        self._shrink()
        for room in self.rooms:
            room.prepare(self.home)
            self._step(FIRST, room, room.contender.command)
            for _ in range(SHORT_TIMES):
                self._step(UNCHANGED, room, room.contender.command)
            if room.contender.rebuild:
                self._step(REBUILD, room, room.contender.rebuild)
        for _ in range(SHORT_TIMES):
            append_record(self._session, APPEND, number=self._appended)
            self._appended += 1
            for room in self.rooms:
                self._step(APPENDED, room, room.contender.command)
        for room in self.rooms:
            if room.contender is OURS:
                self._watch(room)

    def _watch(self, room: Room) -> None:
        """Append, and take it in as a program does that watches: without starting."""
        folder, home = room.folder / "archive", [room.folder / ".claude"]
        Archive.ingest(folder, home)
        for _ in range(SHORT_TIMES):
            append_record(self._session, APPEND, number=self._appended)
            self._appended += 1
            start, wall = time.process_time(), time.perf_counter()
            report = Archive.ingest(folder, home)
            used = time.process_time() - start, time.perf_counter() - wall
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            found = Result(*used, peak, room.written(), report.grown)
            self._keep(WATCHED, OURS.name, found)

    def clear(self) -> None:
        """Take away the copy and all that was written."""
        shutil.rmtree(self.home)
        for room in self.rooms:
            room.clear()

    def _step(self, step: str, room: Room, command: Sequence[str]) -> None:
        """Run a step, and keep what it took when no other run of it took less."""
        name = room.contender.name
        if name in self.failures:
            return
        try:
            run = room.run(command)
        except Failed as failed:
            self.failures[name] = f"{step}: {failed}"
            return
        print(f"{name}: {step}: {run.used.seconds:.2f} CPU s", file=sys.stderr)
        imported = sum(map(int, room.contender.imported.findall(run.output_text)))
        written = room.written()
        found = Result(run.used.seconds, run.wall, run.used.peak, written, imported)
        self._keep(step, name, found)

    def _keep(self, step: str, name: str, found: Result) -> None:
        """Keep what a step took at its best."""
        other = self.results.get((step, name), found)
        self.results[step, name] = Result(
            min(found.seconds, other.seconds),
            min(found.wall, other.wall),
            max(found.peak, other.peak),
            max(found.written, other.written),
            found.imported,
        )

    def _shrink(self) -> None:
        """Make the session of 10 MB what it was at the beginning."""
        os.truncate(self._session, self._before.st_size)
        moments = (self._before.st_atime_ns, self._before.st_mtime_ns)
        os.utime(self._session, ns=moments)


def table(step: str, results: Results) -> Iterator[str]:
    """Yield a Markdown table of one step, with ratios to Bygones."""
    rows = {name: found for (of, name), found in results.items() if of == step}
    if not rows:
        return
    ours = rows.get(OURS.name)
    yield title(step)
    yield (
        "| program | CPU s | x Bygones | wall s | x Bygones"
        " | peak MB | x Bygones | wrote MB | x Bygones | imported |"
    )
    yield "|---|" + "---:|" * 9
    for name, found in rows.items():
        cells = [name]
        for place, unit, digits in COLUMNS:
            times = f"{found[place] / ours[place]:.2f}" if ours else ""
            cells += [f"{found[place] / unit:.{digits}f}", times]
        yield f"| {' | '.join(cells)} | {found.imported:,} |"


def aims(results: Results, size: int) -> Iterator[str]:
    """Yield a Markdown table of the aims and the measured values."""
    found = {step: results.get((step, OURS.name)) for step in STEPS}
    first, rebuild = found[FIRST], found[REBUILD]
    if not first:
        return
    rows = [
        ("first ingest, CPU s per GB", first.seconds / size * 1e9, 15.0),
        ("first ingest, wall time of CPU time", first.wall / first.seconds, 0.7),
        ("first ingest, peak MB", first.peak / 1e6, 200.0),
        ("archive and index, share of the source", first.written / size, 0.35),
    ]
    peer = results.get((FIRST, PEERS[0].name))
    if peer:
        of_peer = first.seconds / peer.seconds
        rows.append(
            (f"first ingest, share of {PEERS[0].name}'s CPU time", of_peer, 0.1)
        )
    for step, most in ((UNCHANGED, 0.3), (WATCHED, 0.1)):
        short = found[step]
        if short:
            rows.append((f"{step[0].lower()}{step[1:]}, CPU s", short.seconds, most))
    if rebuild:
        of_first = rebuild.seconds / first.seconds
        rows.append(("rebuild, share of the first ingest's CPU time", of_first, 1.0))
    yield title("Aims")
    yield "| aim | measured | at most | reached |"
    yield "|---|---:|---:|---|"
    for aim, measured, most in rows:
        reached = "yes" if measured <= most else "**no**"
        yield f"| {aim} | {measured:.2f} | {most:g} | {reached} |"


def page(bench: Bench, versions: dict[str, str], turns: int) -> Iterator[str]:
    """Yield the lines of the whole report."""
    yield f"# Ingest · Python {platform.python_version()}, {platform.machine()}"
    yield ""
    where = "without a network" if bench.is_offline else "with network access"
    yield (
        f"A home of {bench.files:,} files, {bench.size / 1e6:,.0f} MB; "
        f"{os.cpu_count()} cores; best of {turns}; {where}."
    )
    yield ""
    for room in bench.rooms:
        name, keeps = room.contender.name, room.contender.keeps
        yield f"- **{name}** ({versions[name]}) keeps {keeps}."
    yield f"\n{NOTE}"
    for step in STEPS:
        yield from table(step, bench.results)
    yield from aims(bench.results, bench.size)
    if bench.failures:
        yield title("Failed")
        for name, failure in bench.failures.items():
            yield f"- {name}: {failure}"


def main(arguments: list[str]) -> int:
    """Measure, print the report, and save it if all programs took part."""
    options = _parser().parse_args(arguments)
    names = options.only or [OURS.name, *(peer.name for peer in PEERS)]
    if options.skip_peers:
        names = [OURS.name]
    contenders = [row for row in (OURS, *PEERS) if row.name in names]
    options.scratch.mkdir(parents=True, exist_ok=True)
    versions = {row.name: install(row, options.scratch) for row in contenders}
    bench = Bench(options.home, contenders, options.scratch)
    try:
        for _ in range(options.repeat):
            bench.turn()
    finally:
        bench.clear()
    lines = list(page(bench, versions, options.repeat))
    print(*lines, sep="\n")
    is_whole = len(contenders) > len(PEERS) and not bench.failures
    out = options.out or (_today() if is_whole else None)
    if out:
        out.write_text("\n".join(lines) + "\n", "utf-8")
    return 1 if bench.failures else 0


def _today() -> Path:
    return ROOT / "benchmarks" / "results" / time.strftime("ingest-%Y-%m-%d.md")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_ingest",
        description="Ingest a home with Bygones and with other programs.",
        epilog="To make a home where the generator is at hand: "
        "python ../shared/bench/gen.py HOME --mb 1000 --seed 1 --procs 2",
    )
    names = [row.name for row in (OURS, *PEERS)]
    parser.add_argument("home", type=Path, metavar="HOME", help="with projects/ in it")
    parser.add_argument("--only", action="append", choices=names, help="repeatable")
    parser.add_argument(
        "--skip-peers", action="store_true", help="measure only Bygones"
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="best of N")
    parser.add_argument(
        "--scratch",
        type=Path,
        default=Path(tempfile.gettempdir(), "bygones-bench"),
        metavar="DIR",
        help="where other programs are installed, and all output is written",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="save the report here; default: only complete reports are saved",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
