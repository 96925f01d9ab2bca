"""Many at once: readers at the command line and in the browser, writers, a watcher.

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

__all__ = ["KINDS", "Load", "Memory", "Read", "opened"]

PROGRAM = """
import sys
from bygones.cli.main import main
from tests.faults.mutations import MUTATIONS, patch
if sys.argv[1]:
    MUTATIONS[sys.argv[1]](patch)
sys.exit(main(sys.argv[2:]))
"""
ASKED = (
    ("list", "--json"),
    ("search", "words", "--json"),
    ("projects", "--json"),
    ("show", session_id(1)),
)
PAGES = ("/", "/search/answer?q=words", f"/session/{session_id(1)}", "/projects")
KINDS = len(ASKED) + len(PAGES)
_BENIGN = {int(ExitCode.SUCCESS), int(ExitCode.ARCHIVE_IN_USE)}


class Read(NamedTuple):
    """What was read, when, and how many seconds that took."""

    what: str
    began: float
    seconds: float

    @property
    def ended(self) -> float:
        """When it was done."""
        return self.began + self.seconds


class Memory(NamedTuple):
    """What a program has in memory, in megabytes: all of it, and what no file holds."""

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
        """What each program had in memory whenever it was looked at."""
        self.writes = 0
        self.pauses: list[tuple[float, float]] = []
        """When no process wrote, although many had started to."""
        self._writers: set[subprocess.Popen[str]] = set()
        self._may_begin = threading.Lock()
        self._mutation = mutation
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._children: list[tuple[subprocess.Popen[str], IO[str]]] = []
        """Programs that go on, and where they write what they have to say."""

    def words(self, name: str, *more: str) -> list[str]:
        given = [name, "--archive", str(self.archive), *more]
        return [sys.executable, "-c", PROGRAM, self._mutation, *given]

    def ask(
        self, name: str, *more: str, allowed: Sequence[int] = (0,), writes: bool = False
    ) -> int:
        """Run a command to its end; record unexpected output."""
        with self._may_begin if writes else nullcontext():
            child = self._begun(name, *more, writes=writes)
        _, said = child.communicate()
        self._writers.discard(child)
        if child.returncode not in allowed or "Traceback" in said:
            self.faults.append(f"{name} {child.returncode}: {said[-500:]}")
        return child.returncode

    def _begun(
        self, name: str, *more: str, writes: bool, said: IO[str] | int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            self.words(name, *more),
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            # A page whose answer goes wrong says why.
            env=os.environ | {"BYGONES_DEBUG": "1"},
            # Who writes has processes of its own, and is held with all of them.
            start_new_session=writes,
        )
        if writes:
            self._writers.add(child)
        return child

    def hold_now_and_then(self, every: float, pause: float) -> None:
        """Hold those who write for a while, again and again."""

        def hold(_: int) -> None:
            if self._stop.wait(every):
                return
            with self._may_begin:
                held = set(self._writers)
                try:
                    _signal(held, signal.SIGSTOP)
                    began = time.monotonic()
                    self._stop.wait(pause)
                    self.pauses.append((began, time.monotonic()))
                finally:
                    _signal(held, signal.SIGCONT)

        self._repeat(hold)

    def some(self, kind: str, *, paused: bool) -> list[Read]:
        """Return the reads of a kind during pauses of the writers, or while all wrote."""
        return [
            one
            for one in self.reads
            if one.what == kind
            and any(
                low <= one.began and one.ended <= high
                if paused
                else low < one.ended and one.began < high
                for low, high in self.pauses
            )
            is paused
        ]

    def _repeat(self, task: Callable[[int], None]) -> None:
        def go_on() -> None:
            for number in count():
                if self._stop.is_set():
                    return
                try:
                    task(number)
                except Exception as error:  # noqa: BLE001 (told at the end)
                    self.faults.append(f"{type(error).__name__}: {error}")
                    time.sleep(0.2)

        thread = threading.Thread(target=go_on)
        self._threads.append(thread)
        thread.start()

    def read_by_command(self, readers: int) -> None:
        """Have so many ask at the command line, one question after the other."""
        for first in range(readers):
            asked = cycle([*ASKED[first:], *ASKED[:first]])

            def read(_: int, asked: Iterator[tuple[str, ...]] = asked) -> None:
                name, *more = next(asked)
                began = time.monotonic()
                self.ask(name, *more, "--no-ingest")
                self.reads.append(Read(name, began, time.monotonic() - began))

            self._repeat(read)

    def read_in_browser(self, readers: int, port: int, cookie: str) -> None:
        """Have so many ask for pages."""
        for first in range(readers):

            def read(number: int, first: int = first) -> None:
                path = PAGES[(number + first) % len(PAGES)]
                began = time.monotonic()
                status, body = page(port, path, cookie)
                self.reads.append(Read(path, began, time.monotonic() - began))
                if status != 200 or not body:
                    self.faults.append(f"{path} {status}: {_sentence(body)}")
                time.sleep(0.05)

            self._repeat(read)

    def write(self, writers: int, *homes: Path, pause: float = 0.5) -> None:
        """Have so many take homes in; all but one of them are refused, kindly."""
        given = [word for home in (self.home, *homes) for word in ("--home", str(home))]

        def take_in(_: int) -> None:
            allowed = sorted(_BENIGN)
            code = self.ask("ingest", "-q", *given, allowed=allowed, writes=True)
            self.writes += code == 0
            time.sleep(pause)

        for _ in range(writers):
            self._repeat(take_in)

    def grow(self) -> None:
        """Let the home grow, a few lines at a time."""
        folder = self.home / "projects" / "-work-demo"

        def more(number: int) -> None:
            name = session_id(1 + number % 4)
            said = prompt(f"{number} words " * 20) | {"sessionId": name}
            with self._may_begin, (folder / f"{name}.jsonl").open("ab") as file:
                file.write(jsonl([said]))
            time.sleep(0.1)

        self._repeat(more)

    def start(self, name: str, *more: str) -> subprocess.Popen[str]:
        """Start a command that runs until it is stopped."""
        said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (closed in stop)
        child = self._begun(name, *more, writes=name == "watch", said=said)
        self._children.append((child, said))
        seen = self.peaks.setdefault(name, [])

        def look(_: int) -> None:
            with suppress(OSError):
                seen.append(_memory(child.pid))
            time.sleep(0.5)

        self._repeat(look)
        return child

    def stop(self) -> None:
        """Have everybody stop, and hear what those said who should still be there."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            if thread.is_alive():
                self.faults.append("somebody waits for ever")
        for child, said in self._children:
            has_ended = child.poll() is not None
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=30)
            child.kill()
            with said:
                said.seek(0)
                words = said.read()
            if has_ended:
                self.faults.append(f"ended by itself: {words[-2000:]}")
            elif "Traceback" in words:
                self.faults.append(words[:4000])
        self._children.clear()

    @contextmanager
    def going_on(self, seconds: float, enough: Callable[[], object]) -> Iterator[None]:
        """Let all processes run for some time, and until there are enough reads.

        A slow machine gets half as much time again, and at least two minutes.
        """
        self._stop.clear()
        self._threads.clear()
        try:
            yield
            begun = time.monotonic()
            while (past := time.monotonic() - begun) < seconds + max(120, seconds / 2):
                if past >= seconds and enough():
                    break
                time.sleep(0.1)
        finally:
            self.stop()


def _signal(children: Iterable[subprocess.Popen[str]], sign: signal.Signals) -> None:
    for child in children:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, sign)


def _memory(pid: int) -> Memory:
    text = Path(f"/proc/{pid}/status").read_text("utf-8")
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE))
    if "VmRSS" not in found:
        raise ProcessLookupError  # it has ended without being waited for
    return Memory(*(int(found[name]) // 1024 for name in ("VmRSS", "RssAnon")))


def _sentence(body: bytes) -> str:
    """Return what a page says, without what makes it a page."""
    main = body.decode("utf-8", "replace").partition("<main")[2]
    return " ".join(re.sub(r"<[^>]*>", " ", f"<main{main}").split())[:300]


def opened(server: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the port and the cookie of a server that was just started."""
    assert server.stdout is not None
    link = urlsplit(server.stdout.readline().strip())
    connection = HTTPConnection("127.0.0.1", link.port or 0, timeout=60)
    connection.request("GET", f"{link.path}?{link.query}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
    return link.port or 0, cookie


def page(port: int, path: str, cookie: str) -> tuple[int, bytes]:
    """Return a page as a browser would get it."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
