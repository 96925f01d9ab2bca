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
from tests.faults.loading import KINDS, Load, Memory, opened
from tests.faults.sizes import is_usual, reached, sized
from tests.store.keeping import Keeping, unlike_rebuilt

SECONDS = sized(4, 90, 600)
MEGABYTES = sized(2, 400, 10_000)
READERS = 4
"""Who read at the command line, and as many in the browser."""
SLOWER = 2.0
"""How many times as long as without writers reading may take."""
MOST_MEGABYTES = 250
"""Of its own that a program may have in memory which goes on and on."""

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


def late(load: Load, kind: str) -> float:
    """Return the time within which 95 of 100 reads of a kind are done."""
    return quantiles([r.seconds for r in load.reads if r.what == kind], n=20)[-1]


def compared(before: Load, load: Load, after: Load) -> dict[str, float]:
    """Return how many times as long each kind of read takes while others write.

    The archive is small before and large after that: the middle is what to compare to.
    """
    return {
        kind: 2 * late(load, kind) / (late(before, kind) + late(after, kind))
        for kind in sorted({read.what for read in load.reads})
    }


def is_enough(load: Load, *, writes: bool) -> bool:
    """Whether everything was read twice at least, and something written."""
    seen = Counter(read.what for read in load.reads)
    return len(seen) == KINDS and min(seen.values()) > 1 and load.writes >= writes


def test_many_read_while_some_write(tmp_path: Path) -> None:
    keeping, much = furnished(tmp_path)
    before, load, after = (Load(keeping.archive, keeping.home.path) for _ in range(3))
    for one in (before, load, after):
        seconds = SECONDS if one is load else min(SECONDS / 2, 60)
        with one.going_on(seconds, partial(is_enough, one, writes=one is load)):
            home = str(keeping.home.path)
            port, cookie = opened(one.start("serve", "--no-browser", "--home", home))
            one.read_by_command(READERS)
            one.read_in_browser(READERS, port, cookie)
            if one is load:
                one.start("watch", "--home", home)
                one.write(3, much)
                one.grow()

    times = compared(before, load, after)
    slower = sum(times.values()) / len(times)
    figures = {
        "reads while others wrote": len(load.reads),
        "ingestions beside them": load.writes,
        "% of the time that reading takes when nobody writes": round(slower * 100),
    }
    for name, seen in load.peaks.items():
        own = max(memory.own for memory in seen)
        figures[f"MB that {name} had at most"] = max(one.resident for one in seen)
        figures[f"MB of these its own, and no file's ({name})"] = own
    print(figures, times, sep="\n")  # noqa: T201 (shown if it fails)

    assert [one.faults for one in (before, load, after)] == [[], [], []]
    assert load.writes
    keeping.ingest()
    assert verify(keeping.archive).is_sound
    if not given_much():
        assert unlike_rebuilt(keeping) == []
    if not is_usual():
        assert slower < SLOWER
        for name, seen in load.peaks.items():
            assert is_flat(seen), (name, [memory.own for memory in seen])
            assert max(memory.own for memory in seen) <= MOST_MEGABYTES, name
    for what, figure in figures.items():
        reached(what, figure)


def given_much() -> bool:
    """Whether the home is one that takes long to look through."""
    return "RECOLLECT_LOAD_HOME" in os.environ


def is_flat(seen: list[Memory]) -> bool:
    """Whether memory is not growing: in the end about what it was before.

    A watch may have waited for a long ingestion first, with nothing in memory.
    """
    own = [memory.own for memory in seen]
    late = len(own) * 3 // 4
    return max(own[late:]) < 1.2 * max(own[:late]) + 30


def test_writers_that_do_not_wait_for_each_other_are_caught(tmp_path: Path) -> None:
    keeping, _ = furnished(tmp_path)
    load = Load(keeping.archive, keeping.home.path, mutation="lockless")
    with load.going_on(0, lambda: load.faults):
        load.write(5, pause=0)
        load.grow()

    assert load.faults
