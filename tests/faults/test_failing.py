"""Calls that fail: a sentence and an exit code, and the next run makes it good.

Every write, sync, open and rename on the archive fails in its turn, once or for good;
and disks of every size are full.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.build import jsonl, prompt, reply, session_id, thread
from tests.faults.failing import COMMANDS, KINDS
from tests.faults.sizes import is_usual, reached, sized
from tests.store.keeping import Keeping, unlike_rebuilt

HERE = Path(__file__).parent
LOOKS = sized(4, 16, 10_000)
"""How many calls of a kind fail in a command, spread over all of them."""
TRIED = [
    (name, kind, lasting)
    for name in COMMANDS
    for kind in KINDS
    for lasting in ("once", "lasting")
    if not is_usual() or (name == "ingest" and lasting == "once")
]

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or not sys.platform.startswith("linux"),
    reason="calls are made to fail by a small library in C",
)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library through which calls fail."""
    made = tmp_path_factory.mktemp("calls") / "failing.so"
    words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(made), str(HERE / "failing.c")]
    subprocess.run([*words, "-ldl"], check=True)
    return made


def prepare(folder: Path) -> None:
    """Lay out a home and an archive that is behind it."""
    keeping = Keeping(folder)
    keeping.archive = folder / "fresh"
    for number in range(3):
        keeping.home.session(
            session_id(number), thread(prompt(f"{number}"), reply("words " * 200))
        )
    keeping.ingest()
    for number in range(2, 5):
        path = keeping.home.session(session_id(number), thread(prompt("more" * 400)))
        with path.open("ab") as file:
            file.write(jsonl([prompt("later")]) + b'{"half')


def endings(
    folder: Path,
    library: Path,
    name: str,
    kind: str,
    *words: str,
    looks: int = LOOKS,
) -> list[Any]:
    """Return how a command ended, call by call."""
    prepare(folder)
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "tests.faults.failing", str(folder), name, kind, str(looks)),
            *words,
        ],
        env={**os.environ, "LD_PRELOAD": str(library), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


TOLD = ("error: the system refused: ", "not written: ")
"""What is said of a call that failed; of a file that is restored, beside the others."""


def faults(found: list[Any]) -> list[object]:
    """Return the endings that nobody should meet with."""
    return [
        (at, failed, again, is_whole)
        for at, failed, again, is_whole in found
        if failed[0] not in (0, 1)
        or "should not have happened" in failed[1]
        or "Traceback" in failed[1]
        or (failed[0] == 1 and not any(words in failed[1] for words in TOLD))
        or again[0] not in (0, 2)
        or not is_whole
    ]


@needs_compiler
@pytest.mark.parametrize(("name", "kind", "lasting"), TRIED)
def test_a_call_that_fails_is_told_in_a_sentence_and_made_good_later(  # noqa: PLR0917
    tmp_path: Path, library: Path, name: str, kind: str, lasting: str
) -> None:
    found = endings(tmp_path, library, name, kind, lasting)

    assert faults(found) == []
    reached(f"failing {kind} calls", len(found))


@needs_compiler
def test_words_of_the_engine_that_reach_a_person_are_caught(
    tmp_path: Path, library: Path
) -> None:
    words = ("once", "engine_unheard")
    found = endings(tmp_path, library, "ingest", "sync", *words, looks=4)

    assert faults(found)


SIZES = range(192, 8192, 8000 // sized(3, 60, 120))
"""Disks of so many kilobytes."""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0,
    reason="only root makes disks",
)
def test_a_full_disk_is_told_in_a_sentence_and_made_good_with_more_room(
    tmp_path: Path,
) -> None:
    prepare(tmp_path)
    keeping = Keeping(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    keeping.archive = disk / "archive"
    full = 0
    for size in SIZES:
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", str(disk)]
        if subprocess.run(words, check=False, capture_output=True).returncode:
            pytest.skip("this system mounts no disks")
        try:
            told = ingested(keeping)
            more = ["mount", "-o", "remount,size=64m", str(disk)]
            subprocess.run(more, check=True, capture_output=True)
            keeping.ingest()
            kept = keeping.bytes()
            files = list(keeping.home.path.rglob("*.jsonl"))
            is_whole = all(kept[str(p)][-1] == p.read_bytes() for p in files)
            is_whole = is_whole and not unlike_rebuilt(keeping)
            assert faults([[size, told, [0], is_whole]]) == []
            full += told[0] == 1
        finally:
            subprocess.run(["umount", str(disk)], check=True)
    assert full
    reached("disks of different sizes", len(SIZES))
    reached("of these full", full)


def ingested(keeping: Keeping) -> list[Any]:
    """Run an ingestion as a command; return its code and its words."""
    words = ["ingest", "--archive", str(keeping.archive)]
    done = subprocess.run(
        [sys.executable, "-m", "recollect", *words, "--home", str(keeping.home.path)],
        capture_output=True,
        text=True,
        check=False,
    )
    return [done.returncode, done.stdout + done.stderr, 0]
