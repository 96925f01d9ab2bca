"""Measure what a line costs that is appended to a session, by the session's length.

``python -m benchmarks.bench_growing`` generates sessions of 1,000 to 1,000,000 records in
a temporary folder, ingests each in a process of its own, and then repeats: append a
record, ingest, ingest with nothing changed. It prints a table and draws
``benchmarks/results/growing.svg`` (CPU) and ``growing-memory.svg`` (memory).
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from math import log10
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks.inputs import append_record, session_path, write_session
from bygones.ingest.run import ingest

RECORDS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_RECORD_BYTES = 720
"""The length of a record on average, with results of 200 characters."""
_ROUNDS = 5
_WIDTH, _HEIGHT, _MARGIN = 560, 300, 56
_RESULTS = Path(__file__).parent / "results"
_X_RANGE = (3, 6.1)
"""Powers of ten of the records from left to right."""


class Axis(NamedTuple):
    """What is drawn upwards, in powers of ten."""

    title: str
    low: float
    high: float
    ticks: tuple[float, ...]

    def y(self, value: float) -> float:
        share = (log10(max(value, 10**self.low)) - self.low) / (self.high - self.low)
        return _HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN)


SECONDS = Axis(
    "CPU seconds of an ingest, by records of the session",
    *(-3, 2, (0.001, 0.01, 0.1, 1, 10, 100)),
)
MEGABYTES = Axis(
    "Peak of memory in MB of a first ingest, by records of the session",
    *(1, 3.7, (10, 100, 1_000)),
)


class Cost(NamedTuple):
    """CPU seconds in one long-running process, and its peak of memory at first."""

    records: int
    first: float
    append: float
    unchanged: float
    peak_mb: float


def measure(records: int, scratch: Path) -> Cost:
    """Ingest a session of so many records, then append to it."""
    home = scratch / str(records)
    path = session_path(home, 0)
    path.parent.mkdir(parents=True)
    write_session(path, size=records * _RECORD_BYTES, results=200)
    archive = scratch / f"archive-{records}"
    first = _ingest(archive, home)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    appends, others = [], []
    for number in range(_ROUNDS):
        append_record(path, 600, number=number)
        appends.append(_ingest(archive, home))
        others.append(_ingest(archive, home))
    with path.open("rb") as file:
        count = sum(1 for _ in file)
    return Cost(count, first, min(appends), min(others), peak)


def _ingest(archive: Path, home: Path) -> float:
    start = time.process_time()
    ingest(archive, [home])
    return time.process_time() - start


def draw_seconds(costs: list[Cost]) -> str:
    """Return a picture of CPU seconds: of a first ingest, an append, and no change."""
    lines = {
        "whole session": ("#888888", [cost.first for cost in costs]),
        "appended line": ("#c0392b", [cost.append for cost in costs]),
        "nothing changed": ("#2471a3", [cost.unchanged for cost in costs]),
    }
    return _draw(SECONDS, costs, lines)


def draw_memory(costs: list[Cost]) -> str:
    """Return a picture of memory, beside the size of the session."""
    lines = {
        "peak": ("#c0392b", [cost.peak_mb for cost in costs]),
        "file": ("#888888", [cost.records * _RECORD_BYTES / 1e6 for cost in costs]),
    }
    return _draw(MEGABYTES, costs, lines)


def _draw(
    axis: Axis, costs: list[Cost], lines: dict[str, tuple[str, list[float]]]
) -> str:
    return (
        _draw_axes(axis)
        + "".join(
            _draw_line(name, color, _points(axis, costs, values))
            for name, (color, values) in lines.items()
        )
        + "</svg>\n"
    )


def _points(
    axis: Axis, costs: list[Cost], values: list[float]
) -> list[tuple[float, float]]:
    places = zip(costs, values, strict=True)
    return [(_x(cost.records), axis.y(value)) for cost, value in places]


def _x(records: float) -> float:
    low, high = _X_RANGE
    return _MARGIN + (log10(records) - low) / (high - low) * (_WIDTH - 3 * _MARGIN)


def _draw_axes(axis: Axis) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}"'
        ' font-family="sans-serif" font-size="12">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>\n'
        f'<text x="{_MARGIN}" y="24">{axis.title}</text>\n'
    )
    rows = (
        f'<line x1="{_MARGIN}" x2="{_WIDTH - 2 * _MARGIN}" y1="{axis.y(tick):.0f}"'
        f' y2="{axis.y(tick):.0f}" stroke="#dddddd"/>'
        f'<text x="{_MARGIN - 8}" y="{axis.y(tick) + 4:.0f}" text-anchor="end">'
        f"{tick:g}</text>\n"
        for tick in axis.ticks
    )
    columns = (
        f'<text x="{_x(records):.0f}" y="{_HEIGHT - _MARGIN + 20}"'
        f' text-anchor="middle">{records:,}</text>\n'
        for records in (1_000, 10_000, 100_000, 1_000_000)
    )
    return head + "".join((*rows, *columns))


def _draw_line(name: str, color: str, points: list[tuple[float, float]]) -> str:
    path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
    x, y = points[-1]
    return (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>\n'
        f'<text x="{x + 6:.0f}" y="{y + 4:.0f}" fill="{color}">{name}</text>\n'
    )


def main(arguments: list[str]) -> int:
    """Measure, print a table and draw the pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_growing", description=__doc__
    )
    parser.add_argument("--results", type=Path, default=_RESULTS)
    parser.add_argument("--records", type=int, nargs="+", default=RECORDS)
    options = parser.parse_args(arguments)
    costs = []
    print("| records | first, CPU s | append, CPU s | unchanged, CPU s | peak MB |")
    print("|---:|---:|---:|---:|---:|")
    with (
        tempfile.TemporaryDirectory() as scratch,
        ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), max_tasks_per_child=1
        ) as pool,
    ):
        for records in options.records:
            cost = pool.submit(measure, records, Path(scratch)).result()
            costs.append(cost)
            print(
                f"| {cost.records:,} | {cost.first:.2f} | {cost.append:.3f}"
                f" | {cost.unchanged:.3f} | {cost.peak_mb:.0f} |",
                flush=True,
            )
    options.results.mkdir(exist_ok=True)
    (options.results / "growing.svg").write_text(draw_seconds(costs), "utf-8")
    (options.results / "growing-memory.svg").write_text(draw_memory(costs), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
