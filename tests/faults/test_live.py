"""A watch while sessions are written: whole lines only, all of them, and soon.

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
"""Records of a session."""
AT_ONCE = 4
PIECES = (1, 2, 7, 100, 900, 5_000, 65_536)
LOOK = 0.02
"""Seconds after which the reader looks again."""
PATIENCE = 120.0
_SEEN = (
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
        told = [
            prompt(f"{one} grüße 漢字 \U0001f600 {random.random()}")
            | {"sessionId": name, "uuid": f"{number:08}-0000-4000-8000-{one:012}"}
            for one in range(SESSION)
        ]
        self.raw = b"".join(
            json.dumps(one, ensure_ascii=bool(number % 2)).encode() + b"\n"
            for one in told
        )
        self.written = 0
        self.ends: deque[tuple[int, float]] = deque()
        """Where lines end that were not found yet, and when they were written."""

    @property
    def is_over(self) -> bool:
        return self.written == len(self.raw)

    def write(self) -> None:
        """Write a piece more."""
        begin = self.written
        self.written = min(begin + self._random.choice(PIECES), len(self.raw))
        with self.path.open("ab") as file:
            file.write(self.raw[begin : self.written])
        now = time.monotonic()
        at = self.raw.find(b"\n", begin, self.written)
        while at >= 0:
            self.ends.append((at + 1, now))
            at = self.raw.find(b"\n", at + 1, self.written)

    def found_upto(self, upto: int) -> list[float]:
        """Hear how far a session is found; return how long lines were waited for."""
        assert upto <= self.written
        assert not upto or self.raw[upto - 1 : upto] == b"\n"
        now, waited = time.monotonic(), []
        while self.ends and self.ends[0][0] <= upto:
            waited.append(now - self.ends.popleft()[1])
        return waited


@contextmanager
def watching(sandbox: Sandbox, mutation: str = "") -> Iterator[None]:
    """Have the command watch a home; it ends well when it is interrupted."""
    words = ["--archive", str(sandbox.archive), "--home", str(sandbox.home.path)]
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, mutation, "watch", "--quiet", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    try:
        limit = time.monotonic() + PATIENCE
        while not list(sandbox.archive.glob("index/*-*/index.db")):
            assert child.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.01)
        yield
    finally:
        child.send_signal(signal.SIGINT)
        told = child.communicate()[1]
    assert (child.returncode, "stopped" in told) == (130, True), told


def found(sandbox: Sandbox) -> dict[str, int]:
    """Return up to where the index has seen each file of which all is derived."""
    (index,) = sandbox.archive.glob("index/*-*/index.db")
    with closing(sqlite3.connect(f"file:{index}?mode=ro", uri=True)) as db:
        seen = dict(db.execute(_SEEN))
    rows = sandbox.rows("SELECT id, home || '/' || path FROM source")
    return {str(path): seen.get(number, 0) for number, path in rows}


def follow(sandbox: Sandbox, records: int, mutation: str = "") -> list[float]:
    """Write sessions while they are watched; return how long each line took."""
    random = Random(seeded(records))  # noqa: S311 (the same every time)
    live = [Session(sandbox.home, number, random) for number in range(AT_ONCE)]
    everything, waited, begun = list(live), list[float](), AT_ONCE
    with watching(sandbox, mutation):
        start = time.monotonic()
        limit = start + PATIENCE
        while everything:
            written = begun * SESSION - left(live)
            if written < PACE * (time.monotonic() - start):
                for one in live:
                    one.write()
            for one in [one for one in live if one.is_over]:
                live.remove(one)
                if begun * SESSION < records:
                    live.append(Session(sandbox.home, begun, random))
                    everything.append(live[-1])
                    begun += 1
            upto = found(sandbox)
            for one in everything:
                more = one.found_upto(upto.get(str(one.path), 0))
                waited += more
                limit = time.monotonic() + PATIENCE if more or live else limit
            assert time.monotonic() < limit
            everything = [one for one in everything if one.ends or not one.is_over]
            time.sleep(LOOK)
    return waited


def left(sessions: list[Session]) -> int:
    """Return how many lines are still to be written."""
    return sum(one.raw.count(b"\n", one.written) for one in sessions)


def test_what_is_written_while_it_is_watched_is_found_whole_and_soon(
    scratch: Path,
) -> None:
    sandbox = Sandbox(scratch)

    waited = follow(sandbox, RECORDS)
    sandbox.ingest()

    assert len(waited) >= RECORDS
    assert_archive_complete(sandbox)
    late = quantiles(waited, n=20)[-1]
    if not is_usual():
        assert late < 2
    reached("records written during a watch, none lost", len(waited))
    reached("time until searchable, p95 ms", round(late * 1000))


def test_a_watch_that_does_not_wait_for_the_end_of_a_line_is_caught(
    scratch: Path,
) -> None:
    with pytest.raises(AssertionError):
        follow(Sandbox(scratch), 400, "import_partial_lines")
