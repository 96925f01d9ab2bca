"""Measure what a line costs that is appended to a session, by the session's length.

``python -m benchmarks.bench_growing`` generates sessions of 1,000 to 100,000 records in
a temporary folder, ingests each, and then repeats: append a record, ingest, ingest with
nothing changed. It prints a table and draws ``benchmarks/results/growing.svg``.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from math import log10
from pathlib import Path
from typing import NamedTuple

from benchmarks.inputs import append_record, session_path, write_session
from bygones.ingest.run import ingest

RECORDS = (1_000, 3_000, 10_000, 30_000, 100_000)
_RECORD_BYTES = 720
"""The length of a record on average, with results of 200 characters."""
_ROUNDS = 5
_WIDTH, _HEIGHT, _MARGIN = 560, 300, 56
_PICTURE = Path(__file__).parent / "results" / "growing.svg"


class Cost(NamedTuple):
    """CPU seconds in one long-running process, and its peak of memory."""

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
    appends, others = [], []
    for number in range(_ROUNDS):
        append_record(path, 600, number=number)
        appends.append(_ingest(archive, home))
        others.append(_ingest(archive, home))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with path.open("rb") as file:
        count = sum(1 for _ in file)
    return Cost(count, first, min(appends), min(others), peak)


def _ingest(archive: Path, home: Path) -> float:
    start = time.process_time()
    ingest(archive, [home])
    return time.process_time() - start


def draw(costs: list[Cost]) -> str:
    """Return a picture: records from left to right, CPU seconds upwards, both as powers."""
    lines = {
        "whole session": ("#888888", [cost.first for cost in costs]),
        "appended line": ("#c0392b", [cost.append for cost in costs]),
        "nothing changed": ("#2471a3", [cost.unchanged for cost in costs]),
    }
    return (
        _draw_axes()
        + "".join(
            _draw_line(name, color, list(zip(costs, values, strict=True)))
            for name, (color, values) in lines.items()
        )
        + "</svg>\n"
    )


def _x(records: float) -> float:
    return _MARGIN + (_log10(records) - 3) / 2.2 * (_WIDTH - 3 * _MARGIN)


def _y(seconds: float) -> float:
    return _HEIGHT - _MARGIN - (_log10(seconds) + 3) / 4.2 * (_HEIGHT - 2 * _MARGIN)


def _log10(value: float) -> float:
    return log10(max(value, 1e-3))


def _draw_axes() -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}"'
        ' font-family="sans-serif" font-size="12">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>\n'
        f'<text x="{_MARGIN}" y="24">CPU seconds of an ingest, by records of the'
        " session</text>\n"
    )
    rows = (
        f'<line x1="{_MARGIN}" x2="{_WIDTH - 2 * _MARGIN}" y1="{_y(seconds):.0f}"'
        f' y2="{_y(seconds):.0f}" stroke="#dddddd"/>'
        f'<text x="{_MARGIN - 8}" y="{_y(seconds) + 4:.0f}" text-anchor="end">'
        f"{seconds:g}</text>\n"
        for seconds in (0.001, 0.01, 0.1, 1, 10)
    )
    columns = (
        f'<text x="{_x(records):.0f}" y="{_HEIGHT - _MARGIN + 20}"'
        f' text-anchor="middle">{records:,}</text>\n'
        for records in (1_000, 10_000, 100_000)
    )
    return head + "".join((*rows, *columns))


def _draw_line(name: str, color: str, values: list[tuple[Cost, float]]) -> str:
    points = [(_x(cost.records), _y(value)) for cost, value in values]
    path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
    x, y = points[-1]
    return (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>\n'
        f'<text x="{x + 6:.0f}" y="{y + 4:.0f}" fill="{color}">{name}</text>\n'
    )


def main(words: list[str]) -> int:
    """Measure, print a table and draw the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_growing", description=__doc__
    )
    parser.add_argument("--picture", type=Path, default=_PICTURE)
    options = parser.parse_args(words)
    costs = []
    print("| records | first, CPU s | append, CPU s | unchanged, CPU s | peak MB |")
    print("|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as scratch:
        for records in RECORDS:
            cost = measure(records, Path(scratch))
            costs.append(cost)
            print(
                f"| {cost.records:,} | {cost.first:.2f} | {cost.append:.3f}"
                f" | {cost.unchanged:.3f} | {cost.peak_mb:.0f} |",
                flush=True,
            )
    options.picture.write_text(draw(costs), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
