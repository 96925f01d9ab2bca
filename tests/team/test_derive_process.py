"""Deriving untrusted uploads in a separate process."""

from __future__ import annotations

import sys
from select import select
from subprocess import PIPE, Popen
from threading import Thread
from time import sleep

import pytest

from bygones.team.derive_process import DeriveLimits, DeriveProcess, HubDerivation
from bygones.team.worker import FailedFamilies

CHILD = """
import json, sys, time
poison, how = json.loads(sys.argv[1])
for line in sys.stdin:
    order = json.loads(line)
    skipped = {int(number) for number in order["failed"]}
    wanted = [number for number in (1, 2, 3, 4) if number not in skipped]
    alone = [[number] for number in wanted if number in order["alone"]]
    together = [number for number in wanted if number not in order["alone"]]
    for group in [*alone, *([together] if together else [])]:
        sessions = [{number: 7} for number in group]
        print(json.dumps({"sessions": sessions}), flush=True)
        if poison in group:
            if how == "die":
                sys.exit(1)
            time.sleep(60)
    print(json.dumps({"written": len(wanted), "failed": order["failed"]}), flush=True)
"""


class FakeProcess(DeriveProcess):
    """Starts a program that cannot derive one of four sources."""

    child_arguments = ""

    def _running(self) -> Popen[bytes]:
        if self._child is None:
            self._child = Popen(
                [sys.executable, "-c", CHILD, self.child_arguments],
                stdin=PIPE,
                stdout=PIPE,
            )
        return self._child


@pytest.mark.parametrize(("how", "seconds"), [("die", 30.0), ("sleep", 2.0)])
def test_source_that_kills_or_blocks_the_process_is_set_aside(
    how: str, seconds: float
) -> None:
    failed = FailedFamilies()
    process = FakeProcess("", "", failed, DeriveLimits(seconds=seconds))
    process.child_arguments = f'[3, "{how}"]'

    try:
        assert process.derive()
    finally:
        process.close()

    assert failed.families == {3: {3: 7}}
    assert "1 file could not be indexed" in failed.describe()


def test_process_that_does_not_start_is_reported() -> None:
    process = FakeProcess("", "", FailedFamilies(), DeriveLimits())
    process.child_arguments = "not json"

    with pytest.raises(RuntimeError, match="does not start"):
        process.derive()


def test_process_that_is_stopped_ends_and_derives_nothing_more() -> None:
    process = FakeProcess("", "", FailedFamilies(), DeriveLimits(seconds=600))
    process.child_arguments = '[3, "sleep"]'
    errors: list[str] = []

    def derive() -> None:
        try:
            process.derive()
        except RuntimeError as error:
            errors.append(str(error))

    thread = Thread(target=derive)
    thread.start()
    while process._child is None:
        sleep(0.01)
    process.stop()
    thread.join(30)
    process.close()

    assert errors == ["the hub stops"]


FAILING_CHILD = """
import json, sys
for line in sys.stdin:
    left = {"1": {"1": 7}}
    report = {"error": "damaged", "failed": left, "damaged": [2], "written": 0}
    print(json.dumps(report), flush=True)
"""


def test_damaged_source_does_not_hide_what_is_left_to_the_other_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.team.test_derive_process.CHILD", FAILING_CHILD)
    process = FakeProcess("", "", FailedFamilies(), DeriveLimits())
    try:
        with pytest.raises(RuntimeError, match="damaged"):
            process.derive()
    finally:
        process.close()

    assert process.failed.families == {1: {1: 7}}
    assert process.damaged == {2}
    both = HubDerivation("", "", DeriveLimits())
    both.long.damaged = process.damaged
    assert both.quick._make_order(frozenset()).selection().given_up == {2}


def test_what_one_process_leaves_is_derived_by_the_other() -> None:
    both = HubDerivation("", "", DeriveLimits(seconds=600))
    # Nothing is left yet: the process is not started.
    assert not both.long.derive()

    both.quick.failed.add([1], {1: 7})
    both.failed.add([2], {2: 7})
    both.long.person = "ann"
    quick = both.quick._make_order(frozenset({"ben"})).selection()
    long = both.long._make_order(frozenset()).selection()

    assert quick.max_bytes
    assert quick.skipped_people == {"ann", "ben"}
    assert quick.given_up == {2}
    assert quick.only is None
    assert long.max_bytes is None
    assert long.only is not None
    assert long.only.families == {1: {1: 7}}
    assert (both.quick._limits.seconds, both.long._limits.seconds) == (10, 600)
    assert both.failed.describe().startswith("1 file could not be indexed")


STARTING_HUB = """
import os, subprocess, sys, time
module = "bygones.team.derive_process"
child = subprocess.Popen([sys.executable, "-P", "-m", module, str(os.getpid())])
print(child.pid, flush=True)
time.sleep(60)
"""
"""A hub that starts the process; its orders come from our pipe, which stays open."""


@pytest.mark.skipif(sys.platform == "win32", reason="has no parents of processes")
def test_process_ends_when_its_hub_is_killed() -> None:
    with Popen([sys.executable, "-c", STARTING_HUB], stdin=PIPE, stdout=PIPE) as hub:
        assert hub.stdout is not None
        hub.stdout.readline()  # the process is running
        hub.kill()
        hub.wait()

        # End of file: the process had our pipe open, too.
        assert select([hub.stdout], [], [], 30)[0]
        assert hub.stdout.read() == b""
