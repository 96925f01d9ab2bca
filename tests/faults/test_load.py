"""Readers and writers at once: nobody hears of it, and reading goes on as before."""

from __future__ import annotations

import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import quantiles

import pytest

from benchmarks.inputs import session_path, write_session
from recollect.upkeep import verify
from tests.build import prompt, reply, session_id, thread
from tests.faults.loading import KINDS, Load, Read, opened
from tests.faults.sizes import is_usual, reached, sized
from tests.store.keeping import Keeping, unlike_rebuilt

SECONDS = sized(4, 90, 600)
MEGABYTES = sized(2, 400, 10_000)
READERS = 4
"""Who read at the command line, and as many in the browser."""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is looked up in /proc"
)


def furnished(folder: Path) -> tuple[Keeping, Path]:
    """Return an archive with a little in it, and a home with much."""
    keeping = Keeping(folder)
    for number in range(1, 5):
        told = [prompt(f"words {number}"), reply("an answer in words")] * 20
        keeping.home.session(session_id(number), thread(*told))
    keeping.ingest()
    given = os.environ.get("RECOLLECT_LOAD_HOME")
    if given:
        return keeping, Path(given)
    much = folder / "much"
    session_path(much, 0).parent.mkdir(parents=True)
    for number in range(max(MEGABYTES // 20, 1)):
        size = min(MEGABYTES, 20) * 1_000_000
        write_session(session_path(much, number), size=size)
    return keeping, much


def late(reads: list[Read]) -> float:
    """Return the time within which 95 of 100 reads are done, by the mean of kinds."""
    kinds = {read.what for read in reads}
    told = [[r.seconds for r in reads if r.what == kind] for kind in kinds]
    return sum(quantiles(one, n=20)[-1] for one in told if len(one) > 1) / len(told)


def is_enough(load: Load, *, writes: bool) -> bool:
    """Whether everything was read twice at least, and something written."""
    seen = Counter(read.what for read in load.reads)
    return len(seen) == KINDS and min(seen.values()) > 1 and load.writes >= writes


def test_many_read_while_some_write(tmp_path: Path) -> None:
    keeping, much = furnished(tmp_path)
    load = Load(keeping.archive, keeping.home.path)
    quiet = Load(keeping.archive, keeping.home.path)
    for one in (quiet, load):
        seconds = SECONDS if one is load else min(SECONDS / 2, 60)
        with one.going_on(seconds, partial(is_enough, one, writes=one is load)):
            port, cookie = opened(one.start("serve", "--no-browser"))
            one.read_by_command(READERS)
            one.read_in_browser(READERS, port, cookie)
            if one is load:
                one.start("watch", "--home", str(keeping.home.path))
                one.write(3, much)
                one.grow()

    assert quiet.faults == []
    assert load.faults == []
    assert load.writes
    keeping.ingest()
    assert verify(keeping.archive).is_sound
    if not given_much():
        assert unlike_rebuilt(keeping) == []
    slower = late(load.reads) / late(quiet.reads)
    if not is_usual():
        assert slower < 2
        assert all(is_flat(seen) for seen in load.peaks.values())
    reached("reads while others wrote", len(load.reads))
    reached("ingestions beside them", load.writes)
    reached("% of the time that reading takes when nobody writes", round(slower * 100))
    for name, seen in load.peaks.items():
        reached(f"MB that {name} had at most", max(seen) // 1024)


def given_much() -> bool:
    """Whether the home is one that takes long to look through."""
    return "RECOLLECT_LOAD_HOME" in os.environ


def is_flat(seen: list[int]) -> bool:
    """Whether memory is not growing: later about what it was before, in kilobytes."""
    half = len(seen) // 2
    return max(seen[half:]) < 1.3 * max(seen[:half]) + 50_000


def test_writers_that_do_not_wait_for_each_other_are_caught(tmp_path: Path) -> None:
    keeping, _ = furnished(tmp_path)
    load = Load(keeping.archive, keeping.home.path, mutation="lockless")
    with load.going_on(0, lambda: load.faults):
        load.write(5, pause=0)
        load.grow()

    assert load.faults
