"""``bygones watch``: what is written is in the archive soon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from bygones.archive import Archive
from bygones.errors import ArchiveError, ExitCode, NotInArchive
from bygones.ingest.watch import watch
from bygones.model.base import IngestReport
from bygones.store.connect import writer_lock
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.cli.terminals import Screen, command_line

LONG = 30.0
"""Seconds after which a test gives up; a busy machine may need some."""


class Watched:
    """A home that is watched, and what was reported."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.folder = home.path.parent / "archive"
        self.reports: list[IngestReport] = []
        self.stop = Event()

    def has(self, uuid: str) -> bool:
        """Whether the archive has a record."""
        try:
            with Archive.open(self.folder) as archive:
                return archive.record(uuid).id == uuid
        except (ArchiveError, NotInArchive):
            return False

    def wait_for(self, uuid: str) -> float:
        """Return how long it took until the archive has a record."""
        start = time.monotonic()
        while not self.has(uuid):
            assert time.monotonic() - start < LONG, f"{uuid} never came"
            time.sleep(0.02)
        return time.monotonic() - start


@contextmanager
def start_watching(home: Home, *, polling: bool) -> Iterator[Watched]:
    """Watch a home in a thread of its own."""
    watched = Watched(home)
    thread_ = Thread(
        target=watch,
        args=(watched.folder, [home.path], watched.reports.append),
        kwargs={"stop": watched.stop, "polling": polling},
    )
    thread_.start()
    try:
        yield watched
    finally:
        watched.stop.set()
        thread_.join(LONG)
        assert not thread_.is_alive()


@pytest.mark.parametrize("polling", [False, True], ids=["stderr", "polling"])
def test_a_record_is_found_within_two_seconds(
    sample_home: Home, *, polling: bool
) -> None:
    first, second, third = thread(prompt("One"), reply("Two"), prompt("Three"))
    path = sample_home.session(session_id(7), [first])
    with start_watching(sample_home, polling=polling) as watched:
        watched.wait_for(first["uuid"])
        time.sleep(1.2)  # until the first scan is over

        with path.open("ab") as file:
            file.write(jsonl([second]))
        grown = watched.wait_for(second["uuid"])
        sample_home.session(session_id(8), [third], project="-brand-new")
        anew = watched.wait_for(third["uuid"])

    assert (grown < 2, anew < 2) == (True, True)


def test_a_burst_of_appends_is_one_ingestion(sample_home: Home) -> None:
    records = thread(*(prompt(f"Question {n}") for n in range(40)))
    path = sample_home.session(session_id(7), records[:1])
    with start_watching(sample_home, polling=False) as watched:
        watched.wait_for(records[0]["uuid"])
        time.sleep(1.2)
        before = len(watched.reports)

        for record in records[1:]:
            with path.open("ab") as file:
                file.write(jsonl([record]))
        watched.wait_for(records[-1]["uuid"])

    assert len(watched.reports) - before <= 3


def test_irrelevant_files_do_not_trigger_an_import(sample_home: Home) -> None:
    first = prompt("One")
    sample_home.session(session_id(7), [first])
    with start_watching(sample_home, polling=False) as watched:
        watched.wait_for(first["uuid"])
        time.sleep(1.2)
        before = len(watched.reports)

        (sample_home.path / "debug.log").write_text("noise")
        (sample_home.path / "statsig").mkdir()
        (sample_home.path / "statsig" / "log.jsonl").write_text("noise")
        time.sleep(1.2)

    assert len(watched.reports) == before


def test_watch_waits_for_another_writer(sample_home: Home) -> None:
    first, second = thread(prompt("One"), reply("Two"))
    path = sample_home.session(session_id(7), [first])
    with start_watching(sample_home, polling=False) as watched:
        watched.wait_for(first["uuid"])

        with writer_lock(watched.folder), path.open("ab") as file:
            file.write(jsonl([second]))
            file.flush()
            time.sleep(1.5)
        watched.wait_for(second["uuid"])

    assert watched.has(second["uuid"])


@pytest.mark.skipif(os.name == "nt", reason="signals differ there")
def test_each_grown_session_is_printed_on_a_line(sample_home: Home) -> None:
    child = subprocess.Popen(
        command_line("watch", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    rows = map(json.loads, child.stdout)
    known = {next(rows)["session"]["session_id"] for _ in range(2)}

    sample_home.session(session_id(7), thread(prompt("Watch me"), reply("I do")))
    row = next(rows)
    child.send_signal(signal.SIGINT)
    stderr = child.communicate(timeout=LONG)[1].decode()

    assert known == {session_id(1), session_id(2)}
    assert row["type"] == "session_change"
    assert row["session"]["title"] == "Watch me"
    assert child.returncode == ExitCode.INTERRUPTED
    assert stderr == "\nstopped; everything printed is in the archive\n"


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_long_titles_are_cut_off_on_a_terminal(sample_home: Home) -> None:
    screen = Screen("watch", columns=60)
    screen.wait_for("press Ctrl-C to stop")
    sample_home.session(session_id(7), thread(prompt("Watch me " * 20), reply("I do")))
    screen.wait_for("new  +2 messages")
    screen.type("\x03")
    assert screen.end() == ExitCode.INTERRUPTED
    (line,) = (line for line in screen.lines if "Watch me" in line)
    assert line.endswith("…")


def test_watch_started_during_an_import_catches_up(sample_home: Home) -> None:
    folder = sample_home.path.parent / "archive"
    Archive.ingest(folder, [sample_home.path])
    with writer_lock(folder):
        child = subprocess.Popen(
            command_line("watch"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert "continuing when it is done" in child.stdout.readline()
        sample_home.session(session_id(8), thread(prompt("Meanwhile")))
    try:
        assert "Meanwhile" in child.stdout.readline()
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=LONG)
