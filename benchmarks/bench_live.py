"""Measure how soon a line that is appended to a long session is on its page.

``python -m benchmarks.bench_live --records 100000`` generates a session in a temporary
folder, imports and serves it, and opens a stream of events as its page does. It then
repeats: append a record, wait for the event, and request the last window of messages,
which contains the record. It prints the seconds from the append to the event and to the
window, and the CPU time of the server.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.bench_web import Server, ours
from benchmarks.inputs import append_record, session_path, write_session
from bygones.archive import Archive
from bygones.ingest.run import ingest

_RECORD_BYTES = 720
"""The length of a record on average, with results of 200 characters."""
_PAUSE = 1.5
"""Seconds between two appends."""
_TEXT_BYTES = 600


def measure(server: Server, path: Path, number: int, start: int) -> tuple[float, float]:
    """Append a record; return the seconds to its event and to its window."""
    headers = {"Cookie": server.cookie}
    events = HTTPConnection("127.0.0.1", server.port, timeout=30)
    events.request("GET", "/api/live", headers=headers)
    stream = events.getresponse()
    stream.readline()
    time.sleep(_PAUSE)
    # Each text is longer: a repeated prompt would replace the one before.
    append_record(path, _TEXT_BYTES + number, number=number)
    began = time.perf_counter()
    while not stream.readline().startswith(b"data:"):
        pass
    to_event = time.perf_counter() - began
    page = HTTPConnection("127.0.0.1", server.port, timeout=30)
    page.request("GET", f"/session/{path.stem}/window?from={start}", headers=headers)
    response = page.getresponse()
    response.read()
    to_window = time.perf_counter() - began
    total = int(response.getheader("X-Total") or 0)
    if total <= start + number:
        raise RuntimeError(f"the window does not contain the record: {total} messages")
    events.close()
    page.close()
    return to_event, to_window


def report(records: int, rounds: int, scratch: Path) -> str:
    """Return a row of the table."""
    home, archive = scratch / ".claude", scratch / "archive"
    os.environ["HOME"] = str(scratch)
    path = session_path(home, 0)
    path.parent.mkdir(parents=True)
    write_session(path, size=records * _RECORD_BYTES, results=200)
    ingest(archive, [home])
    with Archive.open(archive) as opened:
        header = opened.conversation(path.stem).facts
    start = header.branches[0].message_count - 1
    with ours(archive, home) as server:
        time.sleep(_PAUSE)
        measure(server, path, 0, start)
        cpu = server.cpu_seconds()
        times = [measure(server, path, at, start) for at in range(1, rounds + 1)]
        cpu = (server.cpu_seconds() - cpu) / rounds
    events, windows = zip(*times, strict=True)
    return (
        f"| {records:,} | {statistics.median(events):.2f} | {max(events):.2f}"
        f" | {statistics.median(windows):.2f} | {max(windows):.2f} | {cpu:.2f} |"
    )


def main(arguments: list[str]) -> int:
    """Measure sessions of several lengths."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_live")
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args(arguments)
    print("| records | event s | worst | on the page s | worst | CPU s per line |")
    print("|---:|---:|---:|---:|---:|---:|")
    for records in options.records:
        with tempfile.TemporaryDirectory() as folder:
            print(report(records, options.rounds, Path(folder)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
