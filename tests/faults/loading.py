"""Many at once: readers at the command line and in the browser, writers, a watcher.

All of them are the real command in processes of their own. What any of them says that
nobody should hear is a fault; how long reading takes is told for every read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from itertools import count, cycle
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from recollect.errors import ExitCode
from tests.build import jsonl, prompt, session_id

__all__ = ["KINDS", "Load", "Memory", "Read", "opened"]

PROGRAM = """
import sys
from recollect.cli import main
from tests.faults.mutations import MUTATIONS
if sys.argv[1]:
    MUTATIONS[sys.argv[1]](setattr)
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
_BENIGN = {int(ExitCode.DONE), int(ExitCode.ARCHIVE_IN_USE)}


class Read(NamedTuple):
    """What was read, and how many seconds that took."""

    what: str
    seconds: float


class Memory(NamedTuple):
    """What a program has in memory, in megabytes: all of it, and what no file holds."""

    resident: int
    own: int


class Load:
    """An archive, and all who use it until they are told to stop."""

    def __init__(self, archive: Path, home: Path, mutation: str = "") -> None:
        self.archive = archive
        self.home = home
        self.faults: list[str] = []
        self.reads: list[Read] = []
        self.peaks: dict[str, list[Memory]] = {}
        """What each program had in memory whenever it was looked at."""
        self.writes = 0
        self._mutation = mutation
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._children: list[tuple[subprocess.Popen[str], IO[str]]] = []
        """Programs that go on, and where they write what they have to say."""

    def words(self, name: str, *more: str) -> list[str]:
        given = [name, "--archive", str(self.archive), *more]
        return [sys.executable, "-c", PROGRAM, self._mutation, *given]

    def ask(self, name: str, *more: str, allowed: Sequence[int] = (0,)) -> int:
        """Run a command to its end; note what nobody should hear."""
        done = subprocess.run(
            self.words(name, *more), capture_output=True, text=True, check=False
        )
        if done.returncode not in allowed or "Traceback" in done.stderr:
            self.faults.append(f"{name} {done.returncode}: {done.stderr[-500:]}")
        return done.returncode

    def _repeat(self, deed: Callable[[int], None]) -> None:
        def go_on() -> None:
            for number in count():
                if self._stop.is_set():
                    return
                try:
                    deed(number)
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
                self.reads.append(Read(name, time.monotonic() - began))

            self._repeat(read)

    def read_in_browser(self, readers: int, port: int, cookie: str) -> None:
        """Have so many ask for pages."""
        for first in range(readers):

            def read(number: int, first: int = first) -> None:
                path = PAGES[(number + first) % len(PAGES)]
                began = time.monotonic()
                status, body = page(port, path, cookie)
                self.reads.append(Read(path, time.monotonic() - began))
                if status != 200 or not body:
                    self.faults.append(f"{path} {status}: {_sentence(body)}")
                time.sleep(0.05)

            self._repeat(read)

    def write(self, writers: int, *homes: Path, pause: float = 0.5) -> None:
        """Have so many take homes in; all but one of them are refused, kindly."""
        given = [word for home in (self.home, *homes) for word in ("--home", str(home))]

        def take_in(_: int) -> None:
            code = self.ask("ingest", "-q", *given, allowed=sorted(_BENIGN))
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
            with (folder / f"{name}.jsonl").open("ab") as file:
                file.write(jsonl([said]))
            time.sleep(0.1)

        self._repeat(more)

    def start(self, name: str, *more: str) -> subprocess.Popen[str]:
        """Start a command that goes on until it is stopped."""
        said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (closed in stop)
        child = subprocess.Popen(
            self.words(name, *more),
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            # A page whose answer goes wrong says why.
            env=os.environ | {"RECOLLECT_DEBUG": "1"},
        )
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
        """Let everybody who is begun here go on for some time, and until it is enough.

        A slow machine is given two minutes more for that.
        """
        self._stop.clear()
        self._threads.clear()
        try:
            yield
            begun = time.monotonic()
            while (past := time.monotonic() - begun) < seconds + 120:
                if past >= seconds and enough():
                    break
                time.sleep(0.1)
        finally:
            self.stop()


def _memory(pid: int) -> Memory:
    told = Path(f"/proc/{pid}/status").read_text("utf-8")
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB$", told, re.MULTILINE))
    if "VmRSS" not in found:
        raise ProcessLookupError  # it has ended, and nobody waited for it
    return Memory(*(int(found[name]) // 1024 for name in ("VmRSS", "RssAnon")))


def _sentence(body: bytes) -> str:
    """Return what a page says, without what makes it a page."""
    main = body.decode("utf-8", "replace").partition("<main")[2]
    return " ".join(re.sub(r"<[^>]*>", " ", f"<main{main}").split())[:300]


def opened(server: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the port and the cookie of a page that was just begun to be served."""
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
