"""Calls that fail: a sentence and an exit code, and the next run makes it good.

Every write, sync, open and rename on the archive fails in its turn, once or for good;
and disks have too little room, by ever less. Nothing that could be read before is lost
at any time, and in the end every byte is what it would have been.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bygones.cli.main import main
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.faults.failing import COMMANDS, KINDS, Ending, Run
from tests.faults.sizes import is_usual, reached, sized
from tests.store.sandbox import Sandbox

HERE = Path(__file__).parent
LOOKS = {"once": sized(4, 16, 10_000), "lasting": 16}
"""How many calls of a kind fail in a command, spread over all of them: alone, before a
release every one of them; or with all that follow."""
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
    """Lay out a home, an archive that is behind it, and an older backup of that."""
    sandbox = Sandbox(folder)
    sandbox.archive = folder / "fresh"
    sandbox.home.session(session_id(0), thread(prompt("before the backup")))
    sandbox.ingest()
    backup = ["backup", "--archive", str(sandbox.archive), str(folder / "older")]
    assert main(backup) == 0
    for number in range(3):
        sandbox.home.session(
            session_id(number), thread(prompt(f"{number}"), reply("words " * 200))
        )
    sandbox.ingest()
    for number in range(2, 5):
        path = sandbox.home.session(session_id(number), thread(prompt("more" * 400)))
        with path.open("ab") as file:
            file.write(jsonl([prompt("later")]) + b'{"half')


NEVER = {("verify", "sync"), *(("list", kind) for kind in ("sync", "name", "rename"))}
"""Commands that make no calls of a kind: they only read."""


def endings(
    folder: Path,
    library: Path,
    name: str,
    kind: str,
    *words: str,
    looks: int,
) -> list[Ending]:
    """Return how a command ended, call by call."""
    prepare(folder)
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "tests.faults.failing", str(folder), name, kind, str(looks)),
            *words,
        ],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    data = [json.loads(line) for line in done.stdout.splitlines()]
    assert data or (name, kind) in NEVER
    return [Ending(at, Run(*one), Run(*two), wrong) for at, one, two, wrong in data]


TOLD = ("error: the system reported an error: ", "not written: ")
"""What is said of a call that failed; of a file that is restored, beside the others."""


UNHEARD = ("error: unexpected ", "Traceback", "panicked")
"""Text that must never be printed."""


def faults(found: list[Ending], name: str) -> list[Ending]:
    """Return the outcomes that must not happen."""
    done = (0, 2) if name == "purge" else (0,)  # there may be nothing left to purge
    return [
        one
        for one in found
        if not is_told(one.failed) or one.again.code not in done or one.wrong
    ]


def is_told(run: Run) -> bool:
    """Whether a command that met with a failure went on, or said so and why."""
    if any(words in run.words for words in UNHEARD):
        return False
    return run.code == 0 or (run.code == 1 and any(t in run.words for t in TOLD))


@needs_compiler
@pytest.mark.parametrize(("name", "kind", "lasting"), TRIED)
@pytest.mark.full
def test_a_failed_call_is_reported_and_the_next_run_recovers(  # noqa: PLR0917
    scratch: Path, library: Path, name: str, kind: str, lasting: str
) -> None:
    found = endings(scratch, library, name, kind, lasting, looks=LOOKS[lasting])

    assert faults(found, name) == []
    reached(f"failed calls: {kind}", len(found))


@pytest.mark.full
@needs_compiler
def test_words_of_the_engine_that_reach_a_person_are_caught(
    scratch: Path, library: Path
) -> None:
    words = ("once", "show_engine_errors")
    found = endings(scratch, library, "ingest", "sync", *words, looks=4)

    assert faults(found, "ingest")


@needs_compiler
@pytest.mark.full
def test_a_partial_file_left_elsewhere_is_caught(scratch: Path, library: Path) -> None:
    words = ("once", "restore_in_place")
    found = endings(scratch, library, "restore", "write", *words, looks=100)

    assert any(path.endswith(".jsonl") for one in found for path in one.wrong)


@needs_compiler
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("lasting", ["once", "lasting"])
@pytest.mark.parametrize("name", ["ingest"] if is_usual() else list(COMMANDS))
@pytest.mark.full
def test_a_failed_rename_in_the_text_engine_is_reported_and_recovered(
    scratch: Path, library: Path, name: str, lasting: str
) -> None:
    found = endings(scratch, library, name, "rename", lasting, looks=LOOKS[lasting])

    assert faults(found, name) == []
    reached("failed calls: rename, in any thread", len(found))


ROOMS = sized(3, 20, 60)
"""How often a command is given more room, before it has all that it leaves behind."""


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes disks")
@pytest.mark.parametrize("name", ["ingest"] if is_usual() else list(COMMANDS))
@pytest.mark.full
def test_a_full_disk_is_reported_and_the_next_run_recovers(
    scratch: Path, library: Path, name: str
) -> None:
    found = endings(scratch, library, name, "disk", "once", looks=ROOMS)

    assert faults(found, name) == []
    assert all(one.failed.struck for one in found)
    told = [one for one in found if one.failed.code]
    reached("full disks", len(found))
    reached("full disks that made a command fail", len(told))


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes disks")
@pytest.mark.full
def test_a_full_disk_that_is_taken_for_damage_is_caught(
    scratch: Path, library: Path
) -> None:
    words = ("once", "report_full_disk_as_damage")
    found = endings(scratch, library, "ingest", "disk", *words, looks=3)

    assert faults(found, "ingest")
