"""Failing system calls: an error message and an exit code, and the next run recovers.

Every write, sync, open and rename on the archive fails in turn, once or from then on. Disks
have too little free space, and a little more each time. No stored data is ever lost, and
the final state is the same as without failures.
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
from tests.faults.failing import COMMANDS, KINDS, Outcome, Run
from tests.faults.sizes import is_usual, reached, sized
from tests.store.sandbox import Sandbox

HERE = Path(__file__).parent
SAMPLES = {"once": sized(4, 16, 10_000), "lasting": 16}
"""How many calls of a kind fail in a command, spread over all of them: alone (before a
release, every one), or together with all later calls."""
CASES = [
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
    """Return the library that makes calls fail."""
    path = tmp_path_factory.mktemp("calls") / "failing.so"
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        "-o",
        str(path),
        str(HERE / "failing.c"),
    ]
    subprocess.run([*command, "-ldl"], check=True)
    return path


def prepare(folder: Path) -> None:
    """Create a home, an archive that is out of date, and an older backup of it."""
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


NO_CALLS = {
    ("verify", "sync"),
    ("restore", "rename"),
    *(("list", kind) for kind in ("sync", "name", "rename")),
}
"""Commands that make no calls of a kind: they only read, or link files to new names.
"""


def run_trials(
    folder: Path,
    library: Path,
    name: str,
    kind: str,
    *arguments: str,
    samples: int,
) -> list[Outcome]:
    """Return the outcomes of a command, one per failing call."""
    prepare(folder)
    process = subprocess.run(
        [
            sys.executable,
            *("-m", "tests.faults.failing", str(folder), name, kind, str(samples)),
            *arguments,
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
    assert process.returncode == 0, process.stderr
    data = [json.loads(line) for line in process.stdout.splitlines()]
    assert data or (name, kind) in NO_CALLS
    return [
        Outcome(at, Run(*failed), Run(*again), wrong)
        for at, failed, again, wrong in data
    ]


REPORTS = (
    "error: the system reported an error: ",
    "hint: check the path and its permissions",
    "not written: ",
)
"""What is printed for a failed call; the second if a path cannot be used, the third for
a restored file."""


FORBIDDEN_OUTPUT = ("error: unexpected ", "Traceback", "panicked")
"""Text that must never be printed."""


def find_faults(found: list[Outcome], name: str) -> list[Outcome]:
    """Return the outcomes that must not happen."""
    allowed = (0, 2) if name == "purge" else (0,)  # there may be nothing left to purge
    return [
        outcome
        for outcome in found
        if not is_reported(outcome.failed)
        or outcome.again.code not in allowed
        or outcome.wrong
    ]


def is_reported(run: Run) -> bool:
    """Whether a command with a failure continued, or reported it."""
    if any(text in run.output for text in FORBIDDEN_OUTPUT):
        return False
    return run.code == 0 or (
        run.code == 1 and any(text in run.output for text in REPORTS)
    )


@needs_compiler
@pytest.mark.parametrize(("name", "kind", "lasting"), CASES)
@pytest.mark.full
def test_a_failed_call_is_reported_and_the_next_run_recovers(  # noqa: PLR0917
    scratch: Path, library: Path, name: str, kind: str, lasting: str
) -> None:
    found = run_trials(scratch, library, name, kind, lasting, samples=SAMPLES[lasting])

    assert find_faults(found, name) == []
    reached(f"failed calls: {kind}", len(found))


@pytest.mark.full
@needs_compiler
def test_words_of_the_engine_that_reach_a_person_are_caught(
    scratch: Path, library: Path
) -> None:
    options = ("once", "show_engine_errors")
    found = run_trials(scratch, library, "ingest", "sync", *options, samples=4)

    assert find_faults(found, "ingest")


@needs_compiler
@pytest.mark.full
def test_a_partial_file_left_elsewhere_is_caught(scratch: Path, library: Path) -> None:
    options = ("once", "restore_in_place")
    found = run_trials(scratch, library, "restore", "write", *options, samples=100)

    assert any(path.endswith(".jsonl") for one in found for path in one.wrong)


@needs_compiler
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("lasting", ["once", "lasting"])
@pytest.mark.parametrize("name", ["ingest"] if is_usual() else list(COMMANDS))
@pytest.mark.full
def test_a_failed_rename_in_the_text_engine_is_reported_and_recovered(
    scratch: Path, library: Path, name: str, lasting: str
) -> None:
    found = run_trials(
        scratch, library, name, "rename", lasting, samples=SAMPLES[lasting]
    )

    assert find_faults(found, name) == []
    reached("failed calls: rename, in any thread", len(found))


SPACES = sized(3, 20, 60)
"""In how many steps the free space grows to what the command needs."""


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes disks")
@pytest.mark.parametrize("name", ["ingest"] if is_usual() else list(COMMANDS))
@pytest.mark.full
def test_a_full_disk_is_reported_and_the_next_run_recovers(
    scratch: Path, library: Path, name: str
) -> None:
    found = run_trials(scratch, library, name, "disk", "once", samples=SPACES)

    assert find_faults(found, name) == []
    assert all(one.failed.failed_calls for one in found)
    failed = [one for one in found if one.failed.code]
    reached("full disks", len(found))
    reached("full disks that made a command fail", len(failed))


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes disks")
@pytest.mark.full
def test_a_full_disk_that_is_taken_for_damage_is_caught(
    scratch: Path, library: Path
) -> None:
    options = ("once", "report_full_disk_as_damage")
    found = run_trials(scratch, library, "ingest", "disk", *options, samples=3)

    assert find_faults(found, "ingest")
