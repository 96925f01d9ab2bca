"""An ingestion that is killed loses nothing, and brings nothing twice.

What must be there is told by an oracle that shares no code with the product: it reads
the files with ``json`` and the databases with the standard library's SQLite.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from tests.build import Home, jsonl, prompt, reply, session_id, summary, thread
from tests.faults.crashing import count_points, start
from tests.store.keeping import Keeping, unlike_rebuilt

KILLS = int(os.environ.get("RECOLLECT_KILLS", "200"))
"""How often an ingestion is killed at a random moment."""
ROUNDS = 8


def expected(home: Path) -> Counter[tuple[str, int, int]]:
    """Return every record with an id: the file, where it stands, and how long it is."""
    found: Counter[tuple[str, int, int]] = Counter()
    for path in home.rglob("*.jsonl"):
        offset = 0
        for line in path.read_bytes().split(b"\n")[:-1]:
            with suppress(ValueError):
                if "uuid" in json.loads(line):
                    found[str(path), offset, len(line)] += 1
            offset += len(line) + 1
    return found


def indexed(keeping: Keeping) -> Counter[tuple[str, int, int]]:
    """Return the records that the index has."""
    sources = keeping.rows("SELECT id, home || '/' || path FROM source")
    paths = {number: str(path) for number, path in sources}
    rows = keeping.index_rows("SELECT source, offset, length FROM record")
    return Counter(
        (paths[source], int(str(offset)), int(str(length)))
        for source, offset, length in rows
    )


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def grow(home: Home, random: Random, number: int) -> None:
    """Let a home grow as homes do: appended, begun, cut in the middle, rewritten."""
    for _ in range(random.randint(1, 4)):
        name = session_id(random.randrange(6))
        path = home.path / "projects" / "-work-demo" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(str(random.random()) for _ in range(random.choice([3, 900])))
        told = thread(prompt(f"{number} {words}"), reply(words))
        raw = jsonl([*told, summary(words[:20], told[0]["uuid"])])
        if random.random() < 0.1 and path.exists():
            path.write_bytes(raw)
            continue
        whole = path.read_bytes() if path.exists() else b""
        if whole and not whole.endswith(b"\n"):
            raw = b"\n" + raw
        cut = random.randrange(len(raw)) if random.random() < 0.3 else len(raw)
        with path.open("ab") as file:
            file.write(raw[:cut])


def assert_whole(keeping: Keeping) -> None:
    """Hold an archive that is up to date against what the files say."""
    kept = keeping.bytes()
    for path in keeping.home.path.rglob("*.jsonl"):
        assert kept[str(path)][-1] == path.read_bytes()
    assert indexed(keeping) == expected(keeping.home.path)
    assert is_sound(keeping.archive / "archive.db")
    assert unlike_rebuilt(keeping) == []


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_killed_at_any_moment_it_loses_nothing_and_brings_nothing_twice(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)  # noqa: S311 (the same every time)
    keeping = Keeping(tmp_path)
    grow(keeping.home, random, 0)
    start(keeping.archive, keeping.home.path).join()  # the first one is slow to come
    grow(keeping.home, random, 1)
    usual = 9.0
    for _ in range(3):
        began = time.monotonic()
        start(keeping.archive, keeping.home.path).join()
        usual = min(usual, time.monotonic() - began)
    killed = hit = 0
    while killed < KILLS // ROUNDS:
        grow(keeping.home, random, killed)
        if not killed % 7:
            shutil.rmtree(keeping.archive / "index", ignore_errors=True)
        child = start(keeping.archive, keeping.home.path, anew=killed % 5 == 4)
        time.sleep(random.uniform(0, 2 * usual))
        child.kill()
        child.join()
        killed += 1
        hit += child.exitcode == -signal.SIGKILL
        if not killed % 8:
            keeping.ingest()
            assert_whole(keeping)

    keeping.ingest()

    assert_whole(keeping)
    assert hit


@pytest.mark.parametrize("anew", [False, True], ids=["ingest", "rebuild"])
def test_killed_at_each_commit_point_it_ends_where_an_undisturbed_one_does(
    tmp_path: Path, *, anew: bool
) -> None:
    keeping, undisturbed = prepared(tmp_path)
    points = count_points(undisturbed.archive, undisturbed.home.path, anew=anew)
    assert points > 60
    undisturbed.ingest()
    before = undisturbed.dump(), undisturbed.bytes()
    fresh = tmp_path / "fresh"
    keeping.archive.rename(fresh)

    # Every third point in the suite; all of them in a longer look.
    for at in range(1, points, 1 if KILLS > 200 else 3):
        shutil.copytree(fresh, keeping.archive)
        child = start(keeping.archive, keeping.home.path, at, anew=anew)
        child.join()
        assert child.exitcode == -signal.SIGKILL
        keeping.ingest()
        assert (keeping.dump(), keeping.bytes()) == before
        shutil.rmtree(keeping.archive)


def prepared(folder: Path) -> tuple[Keeping, Keeping]:
    """Return two equal archives of one home, with much to do for an ingestion."""
    random = Random(1)  # noqa: S311 (the same every time)
    keeping = Keeping(folder)
    for number in range(4):
        grow(keeping.home, random, number)
    keeping.home.agent(session_id(1), "abc1234", thread(prompt("in"), reply("out")))
    path = keeping.home.session(session_id(7), thread(prompt("old"), reply("older")))
    moving = keeping.home.session(session_id(8), [prompt("moving")])
    going = keeping.home.session(session_id(9), [prompt("going")])
    keeping.ingest()
    for number in range(4, 8):
        grow(keeping.home, random, number)
    path.write_bytes(jsonl(thread(prompt("new"))) + b'{"half')
    moving.rename(moving.with_name(f"{session_id(10)}.jsonl"))
    going.unlink()
    keeping.home.agent(session_id(1), "abc1234", thread(prompt("in")), meta={"x": 1})
    other = Keeping(folder)
    other.archive = folder / "undisturbed"
    shutil.copytree(keeping.archive, other.archive)
    return keeping, other
