"""A watch while sessions are written: all complete lines are found, and soon.

Sessions grow in pieces that are cut anywhere, also inside of a character and of an
escape. Another process reads the archive meanwhile, without the product's code.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from statistics import quantiles

import pytest

from tests.build import Home, prompt, session_id
from tests.faults.sizes import is_usual, reached, seeded, sized
from tests.faults.test_kill import assert_archive_complete
from tests.faults.tracing import PROGRAM
from tests.store.sandbox import Sandbox

RECORDS = sized(600, 30_000, 1_000_000)
PACE = 400
"""Records a second, in all sessions: many times what Claude Code writes."""
SESSION = 400
"""Records per session."""
CONCURRENT = 4
PIECES = (1, 2, 7, 100, 900, 5_000, 65_536)
POLL_INTERVAL = 0.02
"""Seconds between two checks of the index."""
TIMEOUT = 120.0
_INDEXED_SQL = (
    "SELECT source, indexed_bytes FROM source_state"
    " WHERE session NOT IN (SELECT session FROM dirty_session)"
)


class Session:
    """A session that is being written."""

    def __init__(self, home: Home, number: int, random: Random) -> None:
        self._random = random
        name = session_id(number)
        self.path = home.path / "projects" / "-work-demo" / f"{name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        records = [
            prompt(f"{one} grüße 漢字 \U0001f600 {random.random()}")
            | {"sessionId": name, "uuid": f"{number:08}-0000-4000-8000-{one:012}"}
            for one in range(SESSION)
        ]
        self.raw = b"".join(
            json.dumps(one, ensure_ascii=bool(number % 2)).encode() + b"\n"
            for one in records
        )
        self.written = 0
        self.ends: deque[tuple[int, float]] = deque()
        """Offsets of line ends that are not indexed yet, and when they were written."""

    @property
    def is_complete(self) -> bool:
        return self.written == len(self.raw)

    def write(self) -> None:
        """Append another piece."""
        start = self.written
        self.written = min(start + self._random.choice(PIECES), len(self.raw))
        with self.path.open("ab") as file:
            file.write(self.raw[start : self.written])
        now = time.monotonic()
        at = self.raw.find(b"\n", start, self.written)
        while at >= 0:
            self.ends.append((at + 1, now))
            at = self.raw.find(b"\n", at + 1, self.written)

    def mark_indexed(self, upto: int) -> list[float]:
        """Check the indexed size; return how long the new lines took."""
        assert upto <= self.written
        assert not upto or self.raw[upto - 1 : upto] == b"\n"
        now, waited = time.monotonic(), []
        while self.ends and self.ends[0][0] <= upto:
            waited.append(now - self.ends.popleft()[1])
        return waited


@contextmanager
def watching(sandbox: Sandbox, mutation: str = "") -> Iterator[None]:
    """Run the watch command; it must end cleanly when it is interrupted."""
    options = ["--archive", str(sandbox.archive), "--home", str(sandbox.home.path)]
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, mutation, "watch", "--quiet", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    try:
        limit = time.monotonic() + TIMEOUT
        while not list(sandbox.archive.glob("index/*-*/index.db")):
            assert child.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.01)
        yield
    finally:
        child.send_signal(signal.SIGINT)
        stderr = child.communicate()[1]
    assert (child.returncode, "stopped" in stderr) == (130, True), stderr


def indexed_sizes(sandbox: Sandbox) -> dict[str, int]:
    """Return the indexed size of each file whose session is up to date."""
    (index,) = sandbox.archive.glob("index/*-*/index.db")
    with closing(sqlite3.connect(f"file:{index}?mode=ro", uri=True)) as db:
        seen = dict(db.execute(_INDEXED_SQL))
    rows = sandbox.rows("SELECT id, home || '/' || path FROM source")
    return {str(path): seen.get(number, 0) for number, path in rows}


def write_and_watch(sandbox: Sandbox, records: int, mutation: str = "") -> list[float]:
    """Write sessions while they are watched; return how long each line took."""
    random = Random(seeded(records))  # noqa: S311 (the same every time)
    live = [Session(sandbox.home, number, random) for number in range(CONCURRENT)]
    everything, waited, started = list(live), list[float](), CONCURRENT
    with watching(sandbox, mutation):
        start = time.monotonic()
        limit = start + TIMEOUT
        while everything:
            written = started * SESSION - remaining_lines(live)
            if written < PACE * (time.monotonic() - start):
                for one in live:
                    one.write()
            for one in [one for one in live if one.is_complete]:
                live.remove(one)
                if started * SESSION < records:
                    live.append(Session(sandbox.home, started, random))
                    everything.append(live[-1])
                    started += 1
            upto = indexed_sizes(sandbox)
            for one in everything:
                new = one.mark_indexed(upto.get(str(one.path), 0))
                waited += new
                limit = time.monotonic() + TIMEOUT if new or live else limit
            assert time.monotonic() < limit
            everything = [one for one in everything if one.ends or not one.is_complete]
            time.sleep(POLL_INTERVAL)
    return waited


def remaining_lines(sessions: list[Session]) -> int:
    """Return the number of lines that are not written yet."""
    return sum(one.raw.count(b"\n", one.written) for one in sessions)


def test_what_is_written_while_it_is_watched_is_found_whole_and_soon(
    scratch: Path,
) -> None:
    sandbox = Sandbox(scratch)

    waited = write_and_watch(sandbox, RECORDS)
    sandbox.ingest()

    assert len(waited) >= RECORDS
    assert_archive_complete(sandbox)
    percentile_95 = quantiles(waited, n=20)[-1]
    if not is_usual():
        assert percentile_95 < 2
    reached("records written during a watch, none lost", len(waited))
    reached("time until searchable, p95 ms", round(percentile_95 * 1000))


def test_a_watch_that_does_not_wait_for_the_end_of_a_line_is_caught(
    scratch: Path,
) -> None:
    with pytest.raises(AssertionError):
        write_and_watch(Sandbox(scratch), 400, "import_partial_lines")
