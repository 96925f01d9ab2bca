"""Load: concurrent readers at the command line and in the browser, writers, a watcher.

All of them are the real command in processes of their own. Unexpected output is a fault,
and the time of every read is recorded. Now and then the writers are paused, to measure
how long the same reads of the same archive take without writers.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from http.client import HTTPConnection
from itertools import count, cycle
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from bygones.errors import ExitCode
from tests.build import jsonl, prompt, session_id

__all__ = ["KINDS", "Load", "Memory", "Read", "open_server"]

PROGRAM = """
import sys
from bygones.cli.main import main
from tests.faults.mutations import MUTATIONS, patch
if sys.argv[1]:
    MUTATIONS[sys.argv[1]](patch)
sys.exit(main(sys.argv[2:]))
"""
COMMANDS = (
    ("list", "--json"),
    ("search", "words", "--json"),
    ("projects", "--json"),
    ("show", session_id(1)),
)
PAGES = ("/", "/search/answer?q=words", f"/session/{session_id(1)}", "/projects")
KINDS = len(COMMANDS) + len(PAGES)
_ALLOWED_CODES = {int(ExitCode.SUCCESS), int(ExitCode.ARCHIVE_IN_USE)}


class Read(NamedTuple):
    """What was read, when, and how many seconds that took."""

    what: str
    started: float
    seconds: float

    @property
    def ended(self) -> float:
        """When it was done."""
        return self.started + self.seconds


class Memory(NamedTuple):
    """The memory of a process in megabytes: resident, and without mapped files."""

    resident: int
    own: int


class Load:
    """An archive, and all processes that use it until they are stopped."""

    def __init__(self, archive: Path, home: Path, mutation: str = "") -> None:
        self.archive = archive
        self.home = home
        self.faults: list[str] = []
        self.reads: list[Read] = []
        self.peaks: dict[str, list[Memory]] = {}
        """Samples of the memory of each process."""
        self.writes = 0
        self.pauses: list[tuple[float, float]] = []
        """Start and end of the times when all writers were paused."""
        self._writers: set[subprocess.Popen[str]] = set()
        self._start_lock = threading.Lock()
        self._mutation = mutation
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._children: list[tuple[subprocess.Popen[str], IO[str]]] = []
        """Long-running processes, and the files with their stderr."""

    def command(self, name: str, *extra: str) -> list[str]:
        arguments = [name, "--archive", str(self.archive), *extra]
        return [sys.executable, "-c", PROGRAM, self._mutation, *arguments]

    def run_command(
        self, name: str, *more: str, allowed: Sequence[int] = (0,), writes: bool = False
    ) -> int:
        """Run a command; record unexpected exit codes and output."""
        with self._start_lock if writes else nullcontext():
            child = self._start_process(name, *more, writes=writes)
        _, stderr = child.communicate()
        self._writers.discard(child)
        if child.returncode not in allowed or "Traceback" in stderr:
            self.faults.append(f"{name} {child.returncode}: {stderr[-500:]}")
        return child.returncode

    def _start_process(
        self,
        name: str,
        *more: str,
        writes: bool,
        stderr: IO[str] | int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            self.command(name, *more),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            # Error pages include the traceback.
            env=os.environ | {"BYGONES_DEBUG": "1"},
            # Writers are paused by their process group. They stay in this session, as Linux
            # divides the processor evenly among sessions: in a session of its own, each
            # writer would get as much of it as all readers together.
            process_group=0 if writes else None,
        )
        if writes:
            self._writers.add(child)
        return child

    def pause_writers_regularly(self, every: float, pause: float) -> None:
        """Pause all writers for a while, again and again."""

        def pause_once(_: int) -> None:
            if self._stop.wait(every):
                return
            with self._start_lock:
                paused = set(self._writers)
                try:
                    _signal(paused, signal.SIGSTOP)
                    started = time.monotonic()
                    self._stop.wait(pause)
                    self.pauses.append((started, time.monotonic()))
                finally:
                    _signal(paused, signal.SIGCONT)

        self._repeat(pause_once)

    def reads_of(self, kind: str, *, paused: bool) -> list[Read]:
        """Return the reads of a kind while writers were paused, or while they wrote."""
        return [
            read
            for read in self.reads
            if read.what == kind
            and any(
                low <= read.started and read.ended <= high
                if paused
                else low < read.ended and read.started < high
                for low, high in self.pauses
            )
            is paused
        ]

    def _repeat(self, task: Callable[[int], None]) -> None:
        def loop() -> None:
            for number in count():
                if self._stop.is_set():
                    return
                try:
                    task(number)
                except Exception as error:  # noqa: BLE001 (reported at the end)
                    self.faults.append(f"{type(error).__name__}: {error}")
                    time.sleep(0.2)

        thread = threading.Thread(target=loop)
        self._threads.append(thread)
        thread.start()

    def read_by_command(self, readers: int) -> None:
        """Start readers that run one command after the other."""
        for first in range(readers):
            commands = cycle([*COMMANDS[first:], *COMMANDS[:first]])

            def read(_: int, commands: Iterator[tuple[str, ...]] = commands) -> None:
                name, *more = next(commands)
                started = time.monotonic()
                self.run_command(name, *more, "--no-ingest")
                self.reads.append(Read(name, started, time.monotonic() - started))

            self._repeat(read)

    def read_in_browser(self, readers: int, port: int, cookie: str) -> None:
        """Start readers that request pages."""
        for first in range(readers):

            def read(number: int, first: int = first) -> None:
                path = PAGES[(number + first) % len(PAGES)]
                started = time.monotonic()
                status, body = page(port, path, cookie)
                self.reads.append(Read(path, started, time.monotonic() - started))
                if status != 200 or not body:
                    self.faults.append(f"{path} {status}: {_page_text(body)}")
                time.sleep(0.05)

            self._repeat(read)

    def write(self, writers: int, *homes: Path, pause: float = 0.5) -> None:
        """Start writers that ingest homes; all but one of them find the archive in use."""
        home_options = [
            option for home in (self.home, *homes) for option in ("--home", str(home))
        ]

        def ingest(_: int) -> None:
            allowed = sorted(_ALLOWED_CODES)
            code = self.run_command(
                "ingest", "-q", *home_options, allowed=allowed, writes=True
            )
            self.writes += code == 0
            time.sleep(pause)

        for _ in range(writers):
            self._repeat(ingest)

    def grow(self) -> None:
        """Append to the home, a few lines at a time."""
        folder = self.home / "projects" / "-work-demo"

        def append(number: int) -> None:
            name = session_id(1 + number % 4)
            record = prompt(f"{number} words " * 20) | {"sessionId": name}
            with self._start_lock, (folder / f"{name}.jsonl").open("ab") as file:
                file.write(jsonl([record]))
            time.sleep(0.1)

        self._repeat(append)

    def start(self, name: str, *more: str) -> subprocess.Popen[str]:
        """Start a command that runs until it is stopped."""
        stderr = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (closed in stop)
        child = self._start_process(name, *more, writes=name == "watch", stderr=stderr)
        self._children.append((child, stderr))
        samples = self.peaks.setdefault(name, [])

        def measure_memory(_: int) -> None:
            with suppress(OSError):
                samples.append(_memory(child.pid))
            time.sleep(0.5)

        self._repeat(measure_memory)
        return child

    def stop(self) -> None:
        """Stop all threads and processes; record which ended early, and tracebacks."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            if thread.is_alive():
                self.faults.append("a thread did not end")
        for child, stderr in self._children:
            has_ended = child.poll() is not None
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=30)
            child.kill()
            with stderr:
                stderr.seek(0)
                output = stderr.read()
            if has_ended:
                self.faults.append(f"ended by itself: {output[-2000:]}")
            elif "Traceback" in output:
                self.faults.append(output[:4000])
        self._children.clear()

    @contextmanager
    def running(self, seconds: float, enough: Callable[[], object]) -> Iterator[None]:
        """Run all processes for some time, and until there are enough reads.

        A slow machine gets half as much time again, and at least two minutes.
        """
        self._stop.clear()
        self._threads.clear()
        try:
            yield
            started = time.monotonic()
            while (elapsed := time.monotonic() - started) < seconds + max(
                120, seconds / 2
            ):
                if elapsed >= seconds and enough():
                    break
                time.sleep(0.1)
        finally:
            self.stop()


def _signal(
    children: Iterable[subprocess.Popen[str]], signal_number: signal.Signals
) -> None:
    for child in children:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal_number)


def _memory(pid: int) -> Memory:
    text = Path(f"/proc/{pid}/status").read_text("utf-8")
    values = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE))
    if "VmRSS" not in values:
        raise ProcessLookupError  # a zombie process
    return Memory(*(int(values[name]) // 1024 for name in ("VmRSS", "RssAnon")))


def _page_text(body: bytes) -> str:
    """Return the text of a page, without its markup."""
    main = body.decode("utf-8", "replace").partition("<main")[2]
    return " ".join(re.sub(r"<[^>]*>", " ", f"<main{main}").split())[:300]


def open_server(server: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the port and the cookie of a server that was just started."""
    assert server.stdout is not None
    link = urlsplit(server.stdout.readline().strip())
    connection = HTTPConnection("127.0.0.1", link.port or 0, timeout=60)
    connection.request("GET", f"{link.path}?{link.query}")
    response = connection.getresponse()
    response.read()
    connection.close()
    cookie = (response.getheader("set-cookie") or "").partition(";")[0]
    return link.port or 0, cookie


def page(port: int, path: str, cookie: str) -> tuple[int, bytes]:
    """Request a page; return its status and body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", path, headers={"Cookie": cookie})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
